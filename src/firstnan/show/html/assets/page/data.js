// The model of the page, the words in the reader's language, numbers and lists of ranks.

const page = JSON.parse(document.getElementById("page-data").textContent);
const NON_FINITE = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };

/** What the reader has chosen; everything that is drawn follows from it. */
const chosen = { language: page.language, theme: "auto", cause: 0, cell: null, layer: "map" };

function texts() {
  return page.texts[chosen.language];
}

/** A sentence: `{name}` is a parameter, `{name:area}` one that is itself a word, a list of ranks, or a counted thing. */
function word(key, params) {
  const template = texts().words[key];
  if (template === undefined) return key;
  return template.replace(/\{(\w+)(?::(\w+))?\}/g, (whole, name, area) => {
    const value = params && params[name];
    if (value === undefined || value === null) return "?";
    if (area === "ranks") return rankWords(String(value));
    if (texts().words[`html.count.${area}`]) return word(`html.count.${area}${value === 1 ? ".one" : ""}`, { count: value });
    return area ? word(`${area}.${value}`) : String(value);
  });
}

function rankWords(ranks) {
  return word(/^\d+$/.test(ranks) ? "label.rank" : "label.ranks", { ranks });
}

/** A number of the model, where non-finite ones are strings and unknown ones null. */
function numeric(value) {
  return typeof value === "string" ? NON_FINITE[value] : value;
}

/** As an engineer reads it: 65504, 88.7228, 3.403e+38, NaN, -Inf. */
function written(value) {
  if (value === null || value === undefined) return "-";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Inf" : "-Inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e6) return String(Number(value.toPrecision(6)));
  return value.toExponential(3).replace(/e([+-])(\d)$/, "e$10$2");
}

/** "0-3,9" as [[0, 3], [9, 9]]. */
function parseRanges(text) {
  if (!text) return [];
  return text.split(",").map((part) => {
    const [first, last] = part.split("-").map(Number);
    return [first, last === undefined ? first : last];
  });
}

function holds(ranges, number) {
  return ranges.some(([first, last]) => number >= first && number <= last);
}

function eachRank(text, visit) {
  for (const [first, last] of parseRanges(text)) for (let rank = first; rank <= last; rank++) visit(rank);
}

/** The record name that fits all members, else all_reduce #1: the API and the number of the call in its group, from 0. */
function callName(call) {
  return call.record || `${call.op} #${call.call}`;
}

/** Which state a rank has in a call: s, p, n, u, or "" for no part in it. */
function stateIn(call, rank) {
  return ["s", "p", "n", "u"].find((letter) => holds(parseRanges(call[letter]), rank)) || "";
}

const STATE_KEYS = {
  s: "rank_state.source",
  p: "rank_state.propagated",
  n: "rank_state.normal",
  u: "rank_state.undecided",
  m: "html.state.missing",
  c: "html.state.contained",
  e: "html.state.equal",
  d: "html.state.differs",
  ".": "html.state.none",
};
/** A shape for each state: nothing is told by colour alone. */
const GLYPHS = { s: "◆", p: "▸", n: "", u: "?", m: "×", c: "○", e: "", d: "≠", ".": "" };

function stateWord(letter) {
  return word(STATE_KEYS[letter]);
}

/** Values of the style sheet, for canvases. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
