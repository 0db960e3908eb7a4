// The rest of the page, part by part: each gives its nodes, or null when there is nothing to show.

const CALLS_SHOWN = 40;

function part(id, title, content, lead) {
  if (!content) return null;
  const open = !narrow() || OPEN_WHEN_NARROW.includes(id) || shown.opened.has(id);
  const body = el("div", { class: "content", id: `${id}-content`, hidden: !open }, lead ? el("p", { class: "lead" }, lead) : null, content);
  const toggle = button(title, () => unfold(id, toggle.getAttribute("aria-expanded") !== "true"), { "aria-expanded": String(open), "aria-controls": `${id}-content` });
  return el("section", { class: "part", id, tabindex: -1 }, el("h2", {}, toggle), body);
}

/** Parts that a small screen shows at once; the others open at a touch. */
const OPEN_WHEN_NARROW = ["map", "agreement"];

function narrow() {
  return window.matchMedia("(max-width: 760px)").matches;
}

/** Opens or closes a part; a part that something on the page leads to is opened. */
function unfold(id, open = true) {
  const body = document.getElementById(`${id}-content`);
  if (!body) return;
  body.hidden = !open;
  body.parentNode.querySelector("h2 button").setAttribute("aria-expanded", String(open));
  if (open) shown.opened.add(id);
  else shown.opened.delete(id);
}

/** The map of calls; of NaN and Inf and of equal results, one after the other where there are both. */
function mapPart() {
  const layers = [["map", page.map], ["agreement_map", page.agreement_map]].filter(([, map]) => map);
  if (!layers.length) return null;
  const host = el("div", {});
  const lead = el("p", { class: "lead" });
  const choose = (shown.chooseLayer = (name) => {
    const [, map] = layers.find(([one]) => one === name) || layers[0];
    if (chosen.layer !== name) chosen.cell = null;
    chosen.layer = name;
    shown.map = new HeatMap(map);
    empty(host).append(shown.map.node, el("p", { class: "faint hint" }, word("html.map.keys")));
    lead.textContent = mapLead(map).join(" ");
    for (const node of tabs.children) node.setAttribute("aria-pressed", String(node.dataset.layer === name));
  });
  const tabs = el(
    "div",
    { class: "choices layers", role: "group", "aria-label": word("html.map.layers"), hidden: layers.length < 2 },
    layers.map(([name]) => el("button", { type: "button", "data-layer": name, on: { click: () => choose(name) } }, word(`html.map.layer.${name}`))),
  );
  choose(layers.some(([name]) => name === chosen.layer) ? chosen.layer : layers[0][0]);
  return part("map", word("html.nav.map"), [tabs, lead, host]);
}

function mapLead(map) {
  const lead = [word("html.map.size", { ranks: shown.map.grid.ranks.length, columns: shown.map.grid.columns, calls: map.calls, step: map.step })];
  if (map === page.agreement_map) lead.push(word("html.map.equal"));
  lead.push(word(map.affected_only ? "html.map.affected_calls" : "html.map.causal"));
  if (!map.complete) lead.push(word("html.map.not_complete"));
  if (map.merged > 1) lead.push(word("html.map.merged", { count: map.merged }));
  return lead;
}

function spreadPart() {
  const spread = page.spread;
  if (!spread.nodes.length) return null;
  const lead = [word("html.spread.what")];
  if (spread.merged) lead.push(word("html.spread.merged"));
  if (spread.left_out) lead.push(word("html.more", { count: spread.left_out }));
  const graph = spreadGraph(spread, (rank, record) => showRank(rank, record));
  return part("spread", word("section.spread"), el("div", { class: "frame wide", tabindex: 0 }, graph), lead.join(" "));
}

/** The parts that belong to the chosen cause. */
function causeParts() {
  const cause = page.causes[chosen.cause];
  if (!cause) return [];
  const where = page.causes.length > 1 ? texts().causes[chosen.cause].tab : "";
  return [
    page.causes.some(hasCurve) ? part("curve", word("html.nav.curve"), curveSection(cause), where || word("html.curve.what", { rank: cause.rank })) : null,
    page.causes.some(hasModules) ? part("modules", word("html.nav.modules"), moduleSection(cause), where || null) : null,
  ];
}

function callsPart() {
  if (!page.calls.length) return null;
  const names = ["html.column.place", "column.call", "column.group", "column.source", "column.propagated", "column.normal", "column.undecided"];
  const body = el("tbody", {});
  const more = el("p", {});
  const fillRows = (count) => {
    empty(body).append(...page.calls.slice(0, count).map(callRow));
    empty(more);
    if (count < page.calls.length) more.append(button(word("html.calls.all", { count: page.calls.length }), () => fillRows(page.calls.length)));
  };
  fillRows(CALLS_SHOWN);
  const head = el("thead", {}, el("tr", {}, names.map((name, at) => el("th", { scope: "col", class: at === 0 ? "number" : null }, word(name)))));
  return part("calls", word("section.collectives"), [el("div", { class: "frame", tabindex: 0 }, el("table", { class: "calls" }, head, body)), more], word("html.calls.what"));
}

function callRow(call) {
  const at = page.calls.indexOf(call);
  const ranks = (letter) => el("td", {}, call[letter] ? [swatch(letter), " ", data(call[letter])] : el("span", { class: "faint" }, "-"));
  const group = call.group === null ? word(call.by_name ? "label.by_name" : "label.group_unknown") : data(call.group);
  const show = () => showCall(at);
  return el(
    "tr",
    { id: `call-${at}` },
    el("td", { class: "number" }, data(String(call.column * (page.map ? page.map.merged : 1)))),
    el("td", {}, el("button", { type: "button", class: "link", on: { click: show } }, data(callName(call)))),
    el("td", {}, group),
    ["s", "p", "n", "u"].map(ranks),
  );
}

function asidePart() {
  const told = texts();
  const pieces = [];
  const piece = (title, lead, content) => pieces.push(el("h3", {}, title), lead ? el("p", { class: "faint" }, lead) : null, content);
  if (told.alternatives.length) piece(word("section.alternatives"), null, blocks(told.alternatives));
  if (told.contained) piece(word("section.contained"), null, table(told.contained));
  if (told.benign) piece(word("section.benign"), word("html.benign.what"), table(told.benign));
  if (told.accounts) piece(word("html.accounts.title"), word("html.accounts.what"), table(told.accounts));
  return pieces.length ? part("aside", word("html.nav.aside"), pieces) : null;
}

function inputPart() {
  const told = texts();
  const problems = told.problems.map((problem) =>
    el(
      "li",
      {},
      el("span", { class: problem.judged ? "" : "warn" }, line(problem.line)),
      el("p", { class: "faint" }, problem.effect),
      problem.facts.length === 1 ? el("p", {}, line(problem.facts[0])) : null,
      problem.facts.length > 1
        ? folded(word("html.input.places", { count: problem.facts.length + problem.left_out }), true, () => el("ul", {}, problem.facts.map((fact) => el("li", {}, line(fact)))))
        : null,
    ),
  );
  return part("input", word("section.input"), [
    blocks(told.input),
    problems.length ? [el("h3", {}, word("html.input.problems")), el("ul", { class: "entries" }, problems)] : el("p", { class: "faint" }, word("html.input.no_problems")),
  ]);
}

function jsonPart() {
  const text = document.getElementById("report-data").textContent;
  const lead = [word("html.json.what")];
  if (text.trim() === "null") lead.push(word("html.json.too_large"));
  else if (page.json.shortened) lead.push(word("html.json.shortened", { kept: page.json.calls, total: page.json.all_calls }));
  const box = folded(word("html.json.show"), true, () => el("pre", { class: "json", tabindex: 0 }, text));
  return part("json", word("html.nav.json"), [el("p", {}, copyButton(text)), box], lead.join(" "));
}

/** One call in full: its group, the ranks by state, the records, how well it is matched. */
function callFacts(call, record) {
  const facts = el("dl", { class: "facts" });
  const fact = (name, ...content) => facts.append(el("dt", {}, name), el("dd", {}, content));
  if (record) fact(word("column.record"), data(record));
  fact(word("column.group"), call.group === null ? word(call.by_name ? "label.by_name" : "label.group_unknown") : data(call.group));
  for (const letter of ["s", "p", "n", "u"]) {
    if (call[letter]) fact(stateWord(letter), swatch(letter), " ", data(call[letter]));
  }
  if (call.names.length > 1 || !record) {
    call.names.forEach(([name, ranks], at) => fact(at ? "" : word("html.call.records"), data(name), " ", el("span", { class: "faint" }, rankWords(ranks))));
  }
  if (call.names_left_out) fact("", el("span", { class: "faint" }, word("html.more", { count: call.names_left_out })));
  fact(word("html.call.match"), word(`match.${call.match}`));
  const remarks = texts().remarks[String(page.calls.indexOf(call))] || [];
  remarks.forEach((remark) => fact("", line(remark)));
  return [facts];
}
