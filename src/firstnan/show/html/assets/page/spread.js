// How the value spread: sets of ranks from left to right, an arrow for each communication.

const NODE = { width: 196, height: 44, gapX: 124, gapY: 14, margin: 10 };

/** The forest as SVG; `onPick(rank, record)` is called when a set of ranks is chosen. */
function spreadGraph(spread, onPick) {
  const placed = layoutForest(spread.nodes);
  const width = Math.max(...placed.map((one) => one.x)) + NODE.width + NODE.margin * 2;
  const height = Math.max(...placed.map((one) => one.y)) + NODE.height + NODE.margin * 2;
  const arrow = svg(
    "marker",
    { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    svg("path", { d: "M0 0 8 4 0 8Z", class: "arrow-head" }),
  );
  return svg(
    "svg",
    { class: "spread", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": word("section.spread") },
    svg("defs", {}, arrow),
    spread.nodes.map((node, at) => (node.parent === null ? null : edge(node, placed[node.parent], placed[at]))),
    spread.nodes.map((node, at) => nodeBox(node, placed[at], onPick)),
  );
}

/** Parents to the left of their children, in the middle of them. */
function layoutForest(nodes) {
  const children = nodes.map(() => []);
  nodes.forEach((node, at) => node.parent !== null && children[node.parent].push(at));
  const placed = nodes.map(() => ({ x: 0, y: 0 }));
  let next = NODE.margin;
  const visit = (at, depth) => {
    placed[at].x = NODE.margin + depth * (NODE.width + NODE.gapX);
    if (!children[at].length) {
      placed[at].y = next;
      next += NODE.height + NODE.gapY;
      return;
    }
    children[at].forEach((child) => visit(child, depth + 1));
    const ys = children[at].map((child) => placed[child].y);
    placed[at].y = (ys[0] + ys[ys.length - 1]) / 2;
  };
  nodes.forEach((node, at) => node.parent === null && visit(at, 0));
  return placed;
}

function edge(node, from, to) {
  const x0 = from.x + NODE.width;
  const y0 = from.y + NODE.height / 2;
  const x1 = to.x - 2;
  const y1 = to.y + NODE.height / 2;
  const bend = x0 + 22;
  const path = `M${x0} ${y0} C${bend + 12} ${y0} ${bend - 6} ${y1} ${bend + 22} ${y1} L${x1} ${y1}`;
  return svg(
    "g",
    { class: "edge" },
    svg("title", {}, [viaWord(node), node.from && rankWords(node.from), node.from_op].filter(Boolean).join(", ")),
    svg("path", { d: path, "marker-end": "url(#arrow)" }),
    svg("text", { x: x0 + 46, y: y1 - 5 }, clipped(viaWord(node), 11)),
  );
}

/** The ranks, or how many they are when the list is long. */
function nodeTitle(node) {
  const ranks = rankWords(node.ranks);
  if (node.count < 2 || ranks.length > 22) return ranks.length > 22 ? word("html.spread.count", { count: node.count }) : ranks;
  return `${ranks} (${node.count})`;
}

function viaWord(node) {
  return node.worded ? word(node.via) : node.via;
}

function nodeBox(node, { x, y }, onPick) {
  const isRoot = node.parent === null;
  const first = parseRanges(node.ranks)[0];
  const told = [rankWords(node.ranks), node.op].filter(Boolean).join(", ");
  const pick = () => onPick(first[0], node.op);
  return svg(
    "g",
    {
      class: isRoot ? "node root" : "node",
      transform: `translate(${x} ${y})`,
      tabindex: 0,
      role: "button",
      "aria-label": told,
      on: {
        click: pick,
        keydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          pick();
        },
      },
    },
    svg("title", {}, told),
    svg("rect", { width: NODE.width, height: NODE.height, rx: 4 }),
    svg("path", { class: isRoot ? "mark cell-s" : "mark cell-p", d: CELLS[isRoot ? "s" : "p"].shape, transform: "translate(9 8) scale(1.1)" }),
    svg("text", { class: "title", x: 26, y: 18 }, nodeTitle(node)),
    svg("text", { class: "sub", x: 9, y: 35 }, clipped(node.op.replace(/^[A-Za-z]*Distributed\./, "") || "-", 27)),
  );
}

/** At most `limit` characters, the middle left out: both ends of a name tell something. */
function clipped(text, limit) {
  if (text.length <= limit) return text;
  const head = Math.ceil((limit - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (limit - 1 - head))}`;
}
