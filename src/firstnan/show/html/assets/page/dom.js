// Elements from text: nothing here or in any other file parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element; `props` are attributes, `on` holds listeners, children are nodes or text. */
function el(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** An SVG element. */
function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  add(node, children);
  return node;
}

/** Adds nodes and text, lists of them flattened, nothing for null. */
function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function empty(node) {
  node.replaceChildren();
  return node;
}

/** Text from a dump: on its own in the direction of writing, in fixed width; bare numbers in the font around them. */
function data(text, tone) {
  const kind = /^[-+\d.,e]+$/.test(text) ? "num" : "data";
  return el("bdi", { class: tone ? `${kind} ${tone}` : kind }, breakable(text));
}

/** The text, which a narrow column breaks behind dots and slashes and not inside of names. */
function breakable(text) {
  const pieces = String(text).split(/(?<=[./\\:])(?=[^\s./\\:0-9])/);
  return pieces.flatMap((piece, at) => (at ? [el("wbr"), piece] : [piece]));
}

/** A line of the model: a span is a string, or [text, tone, 1 for data]. */
function line(spans) {
  return spans.map(span);
}

function span(part) {
  if (typeof part === "string") return part;
  const [text, tone, isData] = part;
  if (isData) return data(text, tone === "plain" ? "" : tone);
  return el("span", { class: tone }, text);
}

/** Blocks of the model; entries that follow each other stand in one list, fields in one description list. */
function blocks(made) {
  const nodes = [];
  let list = null;
  for (const block of made) {
    const kind = block.field !== undefined ? "dl" : block.item !== undefined ? (block.number === null ? "ul" : "ol") : "";
    if (!kind) list = null;
    else if (!list || list.tagName.toLowerCase() !== kind) nodes.push((list = el(kind, { class: kind === "dl" ? "facts" : "entries" })));
    if (kind === "dl") list.append(el("dt", {}, block.field), el("dd", {}, line(block.line)));
    else if (kind) list.append(el("li", { class: block.depth ? "deeper" : null }, line(block.item)));
    else if (block.text) nodes.push(el("p", {}, line(block.text)));
    else if (block.code !== undefined) nodes.push(el("pre", { class: "source" }, block.code));
    else nodes.push(table(block.table));
  }
  return nodes;
}

/** A table in a frame of its own, so that a wide one scrolls and the page does not. */
function table(made, props) {
  const right = new Set(made.right);
  const cell = (tag, content, at) => el(tag, { class: right.has(at) ? "number" : null, scope: tag === "th" ? "col" : null }, content);
  return el(
    "div",
    { class: "frame", tabindex: 0, role: "group" },
    el(
      "table",
      props,
      el("thead", {}, el("tr", {}, made.head.map((name, at) => cell("th", name, at)))),
      el("tbody", {}, made.rows.map((row) => el("tr", {}, row.map((part, at) => cell("td", span(part), at))))),
    ),
  );
}

function button(label, listener, props) {
  return el("button", { type: "button", ...props, on: { click: listener } }, label);
}
