// Puts the page together; what the reader chooses draws it anew.

/** What stands on the page and is spoken to from elsewhere. */
const shown = { map: null, chooseLayer: null, curve: null, opened: new Set() };
const THEMES = ["auto", "light", "dark"];
const THEME_KEY = "firstnan-theme";
let goneTo = "";

function drawPage() {
  document.documentElement.lang = chosen.language === "zh" ? "zh-Hans" : "en";
  document.title = `${plain(texts().headline)} - firstnan`;
  shown.map = shown.curve = null;
  const host = empty(document.getElementById("page"));
  host.append(
    el("a", { class: "skip", href: "#answer" }, word("html.skip")),
    topBar(),
    el("main", {}, el("div", { id: "answer", class: "answer", tabindex: -1 }), el("div", { id: "parts" })),
    el("footer", {}, word("html.made_by", { version: page.version })),
  );
  drawAnswer();
  drawParts();
  if (chosen.cell && shown.map) shown.map.pickAt(chosen.cell.rank, chosen.cell.column);
}

function topBar() {
  const languages = Object.keys(page.texts).map((language) =>
    el(
      "button",
      { type: "button", lang: language, "aria-pressed": String(language === chosen.language), on: { click: () => chooseLanguage(language) } },
      page.texts[language].words["html.language"],
    ),
  );
  const theme = el(
    "select",
    { id: "theme", "aria-label": word("html.theme"), title: word("html.theme"), on: { change: () => chooseTheme(theme.value) } },
    THEMES.map((name) => el("option", { value: name, selected: name === chosen.theme }, word(`html.theme.${name}`))),
  );
  return el(
    "div",
    { class: "top" },
    el(
      "div",
      { class: "bar" },
      el("b", { class: "name" }, "firstnan"),
      el("span", { class: "input-name" }, data(page.path)),
      searchBox(),
      el("div", { class: "choices", role: "group", "aria-label": word("html.languages") }, languages),
      theme,
      button(word("html.print"), () => window.print(), { id: "print" }),
    ),
    el("nav", { "aria-label": word("html.contents") }, el("ul", { id: "contents" })),
  );
}

function drawAnswer() {
  const host = empty(document.getElementById("answer"));
  host.append(verdictPart());
  const tabs = causeTabs();
  if (tabs) host.append(tabs);
  host.append(causePanels());
}

function drawParts() {
  const made = [mapPart(), spreadPart(), ...causeParts(), callsPart(), agreementPart(), asidePart(), inputPart(), jsonPart()].filter(Boolean);
  empty(document.getElementById("parts")).append(...made);
  const entries = [["answer", word("html.nav.answer")], ...made.map((node) => [node.id, word(`html.nav.${node.id}`)])];
  empty(document.getElementById("contents")).append(
    ...entries.map(([id, name]) => el("li", {}, el("a", { href: `#${id}`, on: { click: (event) => (event.preventDefault(), jump(id)) } }, name))),
  );
}

/** Only what belongs to the cause changes, the rest keeps its state. */
function chooseCause(at) {
  if (at === chosen.cause) return;
  chosen.cause = at;
  drawAnswer();
  for (const node of causeParts().filter(Boolean)) document.getElementById(node.id).replaceWith(node);
}

function chooseLanguage(language) {
  chosen.language = language;
  drawPage();
}

function chooseTheme(theme) {
  chosen.theme = theme;
  applyTheme(theme);
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // a browser that keeps nothing for files: the choice lasts as long as the page
  }
}

/** Style sheets follow by themselves, canvases are painted anew. */
function applyTheme(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  repaint();
}

function repaint() {
  if (shown.map) shown.map.draw();
  if (shown.curve) shown.curve.draw();
}

// -- going to places ---------------------------------------------------------------------------------------

function jump(id) {
  const node = document.getElementById(id);
  if (!node) return;
  unfold(id);
  node.scrollIntoView({ block: "start" });
  node.focus({ preventScroll: true });
  goneTo = id;
}

function flash(node) {
  node.classList.remove("flash");
  void node.offsetWidth;
  node.classList.add("flash");
}

/** The first place of a rank that is not normal, in the heat map. */
function showRank(rank, record) {
  if (!shown.map) return;
  leadToValues();
  const found = record ? page.calls.findIndex((call) => call.names.some(([name, ranks]) => name === record && holds(parseRanges(ranks), rank))) : -1;
  const codes = shown.map.grid.codes[shown.map.grid.ranks.indexOf(rank)];
  if (!codes) return;
  const first = codes.findIndex((code) => !shown.map.grid.calm.has(code));
  jump("map");
  shown.map.pickAt(rank, found >= 0 ? page.calls[found].column : Math.max(first, 0));
}

/** Calls and ranks that the page names have their places on the map of NaN and Inf. */
function leadToValues() {
  if (page.map && !shown.map.ofValues) shown.chooseLayer("map");
}

function showCall(at, rank) {
  const call = page.calls[at];
  const first = ["s", "p", "u", "n"].map((letter) => parseRanges(call[letter])[0]).find(Boolean);
  if (!shown.map || !first) return;
  leadToValues();
  jump("map");
  shown.map.pickAt(rank ?? first[0], call.column);
}

function showRecord(cause, index) {
  chooseCause(cause);
  jump("curve");
  const row = document.querySelector(`#curve [data-record="${Number(index)}"]`);
  if (!row) return;
  row.scrollIntoView({ block: "nearest" });
  flash(row);
}

// -- keyboard, printing, start -----------------------------------------------------------------------------

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (event.key === "/") {
    document.getElementById("search").focus();
    event.preventDefault();
    return;
  }
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const ids = ["answer", ...[...document.querySelectorAll(".part")].map((node) => node.id)];
  const now = Math.max(ids.indexOf(goneTo), 0);
  jump(ids[Math.min(Math.max(now + step, 0), ids.length - 1)]);
}

function storedTheme() {
  try {
    const theme = localStorage.getItem(THEME_KEY);
    return THEMES.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

chosen.theme = storedTheme();
if (chosen.theme !== "auto") document.documentElement.setAttribute("data-theme", chosen.theme);
drawPage();
document.addEventListener("keydown", onKey);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
window.addEventListener("beforeprint", () => {
  document.documentElement.setAttribute("data-theme", "light");
  repaint();
});
window.addEventListener("afterprint", () => applyTheme(chosen.theme));
