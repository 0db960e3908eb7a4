// Search over everything that has a place on the page: operators, ranks, calls, modules, files, problems.

const HITS_SHOWN = 14;

/** Entries of the search: what it is, its text, and how to go there. */
function searchEntries() {
  const entries = [];
  const known = new Set();
  const entry = (kind, text, go) => {
    const key = `${kind} ${text}`;
    if (!text || known.has(key)) return;
    known.add(key);
    entries.push({ kind, text, low: text.toLowerCase(), go });
  };
  page.causes.forEach((cause, at) => {
    const go = () => (chooseCause(at), jump("answer"));
    entry("html.kind.cause", `${cause.op || word(`where.${cause.where}`)}, ${rankWords(cause.ranks)}`, go);
    entry("html.kind.module", cause.module, () => (chooseCause(at), jump("modules")));
    if (cause.code) entry("html.kind.file", `${cause.code.place}  ${cause.code.source}`, go);
    for (const record of cause.near) entry("html.kind.record", `${record.op}, ${word("label.rank", { ranks: cause.rank })}`, () => showRecord(at, record.index));
    for (const record of cause.near) entry("html.kind.module", record.module, () => (chooseCause(at), jump("modules")));
    for (const step of cause.chain_values) if (!cause.near.length) entry("html.kind.record", `${step.op}, ${word("label.rank", { ranks: cause.rank })}`, () => showRecord(at, step.index));
    for (const frame of cause.stack) entry("html.kind.file", frame, go);
  });
  page.calls.forEach((call, at) => {
    entry("html.kind.call", `${callName(call)}${call.group === null ? "" : `, ${rankWords(call.group)}`}`, () => showCall(at));
    for (const [name, ranks] of call.names) entry("html.kind.record", `${name}, ${rankWords(ranks)}`, () => showCall(at, parseRanges(ranks)[0][0]));
  });
  page.spread.nodes.forEach((node) => entry("html.kind.record", node.op, () => showRank(parseRanges(node.ranks)[0][0], node.op)));
  const told = texts();
  for (const kind of ["contained", "benign"]) {
    if (told[kind]) for (const row of told[kind].rows) entry(`html.kind.${kind}`, row.map((cell) => (typeof cell === "string" ? cell : cell[0])).join(", "), () => jump("aside"));
  }
  for (const problem of told.problems) {
    entry("html.kind.problem", plain(problem.line), () => jump("input"));
    for (const fact of problem.facts) entry("html.kind.problem", plain(fact), () => jump("input"));
  }
  return entries;
}

function plain(spans) {
  return spans.map((part) => (typeof part === "string" ? part : part[0])).join("");
}

/** All words of the query must be in the text; a number alone means a rank. */
function search(query, entries) {
  const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!terms.length) return [];
  const found = entries.filter((entry) => terms.every((term) => entry.low.includes(term)));
  const rank = query.trim().match(/^(?:rank\s*)?(\d+)$/i);
  if (rank && shown.map && shown.map.grid.ranks.includes(Number(rank[1]))) {
    found.unshift({ kind: "html.kind.rank", text: word("label.rank", { ranks: rank[1] }), go: () => showRank(Number(rank[1])) });
  }
  return found;
}

function searchBox() {
  let entries = null;
  let hits = [];
  let active = -1;
  const list = el("ul", { class: "hits", id: "hits", role: "listbox", hidden: true });
  const input = el("input", {
    type: "search",
    id: "search",
    placeholder: word("html.search"),
    "aria-label": word("html.search"),
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "hits",
    autocomplete: "off",
    spellcheck: "false",
  });
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const mark = (at) => {
    active = at;
    [...list.querySelectorAll("[role=option]")].forEach((item, other) => item.setAttribute("aria-selected", String(other === at)));
    input.setAttribute("aria-activedescendant", at < 0 ? "" : `hit-${at}`);
  };
  const go = (at) => {
    if (!hits[at]) return;
    close();
    input.blur();
    hits[at].go();
  };
  const update = () => {
    entries = entries || searchEntries();
    hits = search(input.value, entries);
    empty(list);
    list.append(
      ...hits.slice(0, HITS_SHOWN).map((hit, at) =>
        el("li", { role: "option", id: `hit-${at}`, on: { pointerdown: (event) => (event.preventDefault(), go(at)) } }, el("span", { class: "faint" }, word(hit.kind)), " ", data(hit.text)),
      ),
    );
    const rest = hits.length ? (hits.length > HITS_SHOWN ? word("html.more", { count: hits.length - HITS_SHOWN }) : null) : word("html.search.nothing");
    if (rest) list.append(el("li", { class: "faint" }, rest));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(hits.length ? 0 : -1);
  };
  input.addEventListener("input", update);
  input.addEventListener("focus", () => input.value.trim() && update());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const last = Math.min(hits.length, HITS_SHOWN) - 1;
    if (event.key === "ArrowDown") mark(Math.min(active + 1, last));
    else if (event.key === "ArrowUp") mark(Math.max(active - 1, 0));
    else if (event.key === "Enter") go(active);
    else if (event.key === "Escape") input.blur();
    else return;
    event.preventDefault();
  });
  return el("div", { class: "search", role: "search" }, input, list);
}
