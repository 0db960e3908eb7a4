// The first screen: the verdict, and for the chosen cause where, why, how sure, what could change it.

function verdictPart() {
  const told = texts();
  const differs = page.verdict !== "anomaly" && page.agreement === "differ";
  const letter = differs ? "d" : { anomaly: "s", clean: "n", unknown: "u" }[page.verdict];
  return el(
    "header",
    { class: `verdict verdict-${differs ? "differ" : page.verdict}` },
    el(
      "p",
      { class: "state" },
      swatch(letter),
      " ",
      el("b", {}, word(differs ? `html.verdict.differ.${page.verdict}` : `html.verdict.${page.verdict}`)),
      el("span", { class: page.complete ? "faint" : "warn" }, word(!page.complete ? "html.incomplete" : undecidedCalls() ? "html.complete.undecided" : "html.complete")),
      el("span", { class: "faint" }, word("html.looked_at", { ranks: page.ranks || "-", steps: page.steps || "-", records: page.records })),
      page.redacted ? el("span", { class: "faint" }, word("html.redacted")) : null,
    ),
    el("h1", {}, line(told.headline)),
    told.story.map((sentence) => el("p", { class: "story" }, line(sentence))),
  );
}

/** Whether the map shows calls whose state is not known on some rank. */
function undecidedCalls() {
  return Boolean(page.map) && page.map.rows.some(([, cells]) => /[um]/.test(cells));
}

/** One tab per cause when there are several. */
function causeTabs() {
  if (page.causes.length < 2) return null;
  const told = texts().causes;
  const tabs = page.causes.map((cause, at) =>
    el(
      "button",
      {
        type: "button",
        role: "tab",
        id: `cause-tab-${at}`,
        "aria-selected": String(at === chosen.cause),
        "aria-controls": "cause",
        tabindex: at === chosen.cause ? 0 : -1,
        on: { click: () => chooseCause(at), keydown: (event) => moveTab(event, at) },
      },
      el("span", { class: "faint" }, word("section.cause", { number: at + 1, total: page.causes.length + page.causes_left_out })),
      " ",
      data(told[at].tab),
      el("span", { class: "faint" }, ` ${told[at].mechanism}`),
    ),
  );
  const more = page.causes_left_out ? el("p", { class: "faint" }, word("html.more", { count: page.causes_left_out })) : null;
  return el("div", {}, el("div", { class: "tabs", role: "tablist" }, tabs), more);
}

function moveTab(event, at) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  chooseCause((at + step + page.causes.length) % page.causes.length);
  document.getElementById(`cause-tab-${chosen.cause}`).focus();
}

/** Where, why and what next of the chosen cause; what is in doubt whatever the cause. */
function causePanels() {
  const cause = page.causes[chosen.cause];
  if (!cause) return el("div", { class: "panels" }, doubtsPanel(), texts().advice.length ? panel(word("section.advice"), blocks(texts().advice)) : null, replayedPanels());
  const told = texts().causes[chosen.cause];
  return el("div", { class: "panels", id: "cause", role: page.causes.length > 1 ? "tabpanel" : null }, wherePanel(cause, told), withReplay(whyPanel(cause, told), cause, told), nextPanel(told));
}

function panel(title, ...content) {
  return el("section", { class: "panel" }, el("h2", {}, title), content);
}

function wherePanel(cause, told) {
  const codeBlock = (code) =>
    el(
      "div",
      { class: "code" },
      el("p", {}, data(code.place), code.function ? [" ", el("span", { class: "faint" }, word("html.in_function")), " ", data(code.function)] : null, " ", copyButton(code.place)),
      code.source ? el("pre", { class: "source" }, el("bdi", {}, code.source)) : null,
    );
  return panel(
    word("section.where"),
    page.causes.length > 1 ? el("p", { class: "cause-line" }, line(told.headline)) : null,
    blocks(told.place),
    cause.code ? codeBlock(cause.code) : null,
    cause.called_at ? [el("p", { class: "faint" }, word("label.called_at")), codeBlock(cause.called_at)] : null,
    folded(word("html.chain", { count: cause.chain.length }), cause.chain.length > 1, () => el("ol", { class: "stack" }, cause.chain.map((name) => el("li", {}, data(name))))),
    folded(word("html.stack", { count: cause.stack.length }), cause.stack.length > 0, () => el("ol", { class: "stack" }, cause.stack.map((entry) => el("li", {}, data(entry))))),
  );
}

function whyPanel(cause, told) {
  return panel(
    word("section.why"),
    el("p", { class: "mechanism" }, el("b", {}, told.mechanism), cause.confidence ? confidence(cause.confidence) : null),
    told.why.map((sentence) => el("p", {}, line(sentence))),
    told.tensors ? table(told.tensors, { class: "tensors" }) : null,
    told.all_tensors
      ? folded(word("html.all_tensors", { count: told.all_tensors.rows.length }), true, () => [
          table(told.all_tensors, { class: "tensors" }),
          told.left_out ? el("p", { class: "faint" }, word("html.more", { count: told.left_out })) : null,
        ])
      : null,
    told.evidence.length ? entries("ul", told.evidence) : null,
  );
}

const ENTRIES_SHOWN = 4;

/** A list of sentences; on a small screen all but the first ones are folded. */
function entries(tag, sentences) {
  const shownAtOnce = narrow() && sentences.length > ENTRIES_SHOWN + 1 ? ENTRIES_SHOWN : sentences.length;
  const list = (from, to) => el(tag, { class: "entries", start: tag === "ol" ? from + 1 : null }, sentences.slice(from, to).map((one) => el("li", {}, line(one))));
  const rest = sentences.length - shownAtOnce;
  return [list(0, shownAtOnce), folded(word("html.more", { count: rest }), rest > 0, () => list(shownAtOnce, sentences.length))];
}

/** Three bars, filled as far as the numbers carry, and the word. */
function confidence(level) {
  const filled = { possible: 1, likely: 2, certain: 3 }[level];
  const bars = [0, 1, 2].map((at) => svg("rect", { x: at * 8, y: 1, width: 6, height: 10, rx: 1, class: at < filled ? "full" : "open" }));
  return el("span", { class: "confidence", title: word(`html.confidence.${level}`) }, svg("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, bars), word(`confidence.${level}`));
}

function nextPanel(told) {
  return el(
    "div",
    { class: "stack-of-panels" },
    doubtsPanel(),
    panel(word("section.advice"), entries("ol", told.advice)),
    texts().commands.length ? panel(word("section.commands"), texts().commands.map(commandLine)) : null,
    texts().symptoms.length ? panel(word("section.symptom"), blocks(texts().symptoms)) : null,
  );
}

function commandLine([what, command]) {
  return el("div", { class: "command" }, el("p", {}, what, " ", copyButton(command)), el("pre", { class: "source" }, command));
}

function doubtsPanel() {
  const doubts = texts().doubts;
  const title = word(page.verdict === "unknown" ? "section.unjudged" : "section.doubts");
  return panel(title, doubts.length ? blocks(doubts) : el("p", { class: "faint" }, word("html.no_doubts")));
}

/** Details that are built when they are opened. */
function folded(title, wanted, build) {
  if (!wanted) return null;
  const node = el("details", { class: "folded" }, el("summary", {}, title));
  node.addEventListener("toggle", () => {
    if (node.open && node.children.length === 1) add(node, [build()]);
  });
  return node;
}

function copyButton(text) {
  const node = button(word("html.copy"), () => copyText(typeof text === "function" ? text() : text, node), { class: "small" });
  return node;
}

/** To the clipboard; where the browser does not allow it, by way of a selection. */
async function copyText(text, node) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const area = el("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  node.textContent = word(done ? "html.copied" : "html.not_copied");
  setTimeout(() => (node.textContent = word("html.copy")), 1600);
}
