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

/** The kinds of cells of the heat map, in the order of its legend: the word for each, the words that explain it, its shape
    (nothing is told by colour alone), and whether there is nothing to look at. Colours: --cell-* in theme.css. */
const CELLS = {
  d: { state: "html.state.differs", meaning: "html.cell.d", shape: "M1 2.6H5.2L6.1 0.8 7.5 1.5 6.9 2.6H9V4.1H6.2L5.5 5.6H9V7.1H4.8L3.9 9.2 2.5 8.5 3.1 7.1H1V5.6H3.8L4.5 4.1H1Z" },
  s: { state: "rank_state.source", meaning: "html.cell.s", shape: "M5 0.8 9.2 5 5 9.2 0.8 5Z" },
  p: { state: "rank_state.propagated", meaning: "html.cell.p", shape: "M2 1.2 8.8 5 2 8.8Z" },
  m: { state: "html.state.missing", meaning: "html.cell.m", shape: "M1.2 2.6 2.6 1.2 5 3.6 7.4 1.2 8.8 2.6 6.4 5 8.8 7.4 7.4 8.8 5 6.4 2.6 8.8 1.2 7.4 3.6 5Z" },
  u: { state: "rank_state.undecided", meaning: "html.cell.u", letter: "?" },
  c: { state: "html.state.contained", meaning: "html.cell.c", shape: "M5 1.8a3.2 3.2 0 1 0 .01 0ZM5 3.6a1.4 1.4 0 1 1-.01 0Z" },
  e: { state: "html.state.equal", meaning: "html.cell.e", calm: true },
  n: { state: "rank_state.normal", meaning: "html.cell.n", calm: true },
  ".": { state: "html.state.none", meaning: "html.map.no_part", calm: true },
};

function stateWord(letter) {
  return word(CELLS[letter].state);
}

/** Values of the style sheet, for canvases. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
