// The heat map of ranks and calls: controls, hover, keyboard, and what is told about a cell.

const TALLEST = 440;
const LABEL_LENGTH = 15;
const NO_LABELS = 8;

class HeatMap {
  constructor(map) {
    this.map = map;
    this.grid = new Grid(map);
    this.cursor = null;
    this.view = null;
    this.callsAt = new Map();
    this.ofValues = map === page.map;
    (this.ofValues ? page.calls : []).forEach((call, at) => {
      if (!this.callsAt.has(call.column)) this.callsAt.set(call.column, []);
      this.callsAt.get(call.column).push(at);
    });
    const longest = Math.max(0, ...map.columns.map((name) => Math.min(name.length, LABEL_LENGTH)));
    this.labelRoom = NO_LABELS + 8 + Math.ceil(longest * 5.7);
    this.canvas = el("canvas", {
      class: "heat",
      tabindex: 0,
      role: "img",
      "aria-label": word("html.map.label", { ranks: this.grid.ranks.length, columns: this.grid.columns }),
      "aria-describedby": "map-cell",
    });
    this.tip = el("div", { class: "tip", role: "tooltip", hidden: true });
    this.told = el("div", { id: "map-cell", class: "unseen", "aria-live": "polite" });
    this.detail = el("div", { class: "cell-detail", id: "cell-detail" });
    this.stage = el("div", { class: "stage" }, this.canvas, this.tip);
    this.node = el("div", { class: "heat-map" }, this.controls(), this.stage, this.told, this.legend(), this.detail);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.stage);
  }

  controls() {
    const calm = this.grid.rows.length * this.grid.cols.length;
    const only = el("input", { type: "checkbox", id: "map-affected" });
    only.addEventListener("change", () => {
      this.grid.restrict(only.checked);
      this.cursor = null;
      this.view = null;
      this.draw();
    });
    this.only = only;
    return el(
      "div",
      { class: "controls" },
      calm > 24 ? el("label", {}, only, word("html.map.affected_only")) : null,
      el("span", { class: "grow" }),
      button("−", () => this.zoom(1 / 1.6), { "aria-label": word("html.map.zoom_out"), title: word("html.map.zoom_out") }),
      button("+", () => this.zoom(1.6), { "aria-label": word("html.map.zoom_in"), title: word("html.map.zoom_in") }),
      button(word("html.map.fit"), () => this.fit(), { id: "map-fit" }),
      this.ofValues && page.calls.length ? button(word("html.map.first"), () => this.pickFirst(), { id: "map-first" }) : null,
    );
  }

  legend() {
    const present = new Set();
    for (const [, cells] of this.map.rows) for (const letter of cells.replace(/\d/g, "")) present.add(letter);
    const shown = Object.keys(CELLS).filter((letter) => present.has(letter));
    return el(
      "ul",
      { class: "legend" },
      shown.map((letter) => el("li", {}, swatch(letter), el("b", {}, stateWord(letter)), " ", el("span", { class: "faint" }, word(CELLS[letter].meaning)))),
      this.causeCells().length ? el("li", {}, el("span", { class: "cause-mark" }), word("html.map.cause")) : null,
    );
  }

  listen() {
    const canvas = this.canvas;
    let from = null;
    let moved = false;
    canvas.addEventListener("pointerdown", (event) => {
      from = { x: event.offsetX, y: event.offsetY, view: { ...this.view } };
      moved = false;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from && event.buttons === 1) {
        const dx = event.offsetX - from.x;
        const dy = event.offsetY - from.y;
        if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
        if (!moved) canvas.setPointerCapture(event.pointerId);
        moved = true;
        this.hideTip();
        this.pan(from.view, dx, dy);
        return;
      }
      this.hover(this.at(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (from && !moved) this.pick(this.at(event.offsetX, event.offsetY));
      from = null;
    });
    canvas.addEventListener("pointerleave", () => this.hideTip());
    canvas.addEventListener("dblclick", (event) => this.zoom(2.2, event.offsetX, event.offsetY));
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 240), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.hideTip());
  }

  key(event) {
    const far = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: [0, -far], ArrowRight: [0, far], ArrowUp: [-far, 0], ArrowDown: [far, 0], PageUp: [-20, 0], PageDown: [20, 0] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) this.step(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.6);
    else if (event.key === "-") this.zoom(1 / 1.6);
    else if (event.key === "0") this.fit();
    else if (event.key === "Home") this.pickFirst();
    else if ((event.key === "Enter" || event.key === " ") && this.cursor) this.pick(this.cursor);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // -- where things are ---------------------------------------------------------------------------------

  layout() {
    const rows = this.grid.rows.length;
    const cols = this.grid.cols.length;
    const width = this.stage.clientWidth || 800;
    const left = 14 + 7.2 * String(Math.max(...this.grid.ranks, 0)).length + 30;
    const room = Math.max(width - left - 8, 60);
    const view = this.view || { x0: 0, x1: Math.max(cols, Math.floor(room / 26)), y0: 0, y1: rows };
    const wide = room / (view.x1 - view.x0);
    const labels = wide >= 13 ? this.labelRoom : NO_LABELS;
    const high = Math.min(Math.max(rows * 20, 40), TALLEST);
    return { width, height: labels + high + 34, view, wide, box: { left, top: labels, width: room, height: high }, labels };
  }

  at(x, y) {
    const { box, view } = this.layout();
    const col = Math.floor(view.x0 + ((x - box.left) / box.width) * (view.x1 - view.x0));
    const row = Math.floor(view.y0 + ((y - box.top) / box.height) * (view.y1 - view.y0));
    const inside = x >= box.left && y >= box.top && y < box.top + box.height;
    if (!inside || row < 0 || col < 0 || row >= this.grid.rows.length || col >= this.grid.cols.length) return null;
    return { row, col };
  }

  /** Middle of a cell, in pixels of the canvas. */
  middle({ row, col }) {
    const { box, view } = this.layout();
    return {
      x: box.left + ((col + 0.5 - view.x0) / (view.x1 - view.x0)) * box.width,
      y: box.top + ((row + 0.5 - view.y0) / (view.y1 - view.y0)) * box.height,
    };
  }

  bounded(view) {
    const clamp = (low, high, limit) => {
      const size = Math.min(high - low, limit);
      const start = Math.min(Math.max(low, 0), limit - size);
      return [start, start + size];
    };
    const { view: now } = this.layout();
    const [x0, x1] = clamp(view.x0, view.x1, Math.max(this.grid.cols.length, now.x1 - now.x0 > this.grid.cols.length ? now.x1 - now.x0 : 0));
    const [y0, y1] = clamp(view.y0, view.y1, this.grid.rows.length);
    return { x0, x1, y0, y1 };
  }

  fit() {
    this.view = null;
    this.draw();
  }

  zoom(factor, x, y) {
    const { box, view } = this.layout();
    const spot = this.cursor && x === undefined ? this.middle(this.cursor) : null;
    const fx = ((x ?? spot?.x ?? box.left + box.width / 2) - box.left) / box.width;
    const fy = ((y ?? spot?.y ?? box.top + box.height / 2) - box.top) / box.height;
    const scaled = (low, high, share, least) => {
      const size = Math.max((high - low) / factor, least);
      const point = low + share * (high - low);
      return [point - share * size, point + (1 - share) * size];
    };
    const [x0, x1] = scaled(view.x0, view.x1, fx, Math.min(8, this.grid.cols.length));
    const [y0, y1] = scaled(view.y0, view.y1, fy, Math.min(6, this.grid.rows.length));
    this.view = this.bounded({ x0, x1, y0, y1 });
    this.hideTip();
    this.draw();
  }

  pan(from, dx, dy) {
    const { box, view } = this.layout();
    const x = (-dx / box.width) * (view.x1 - view.x0);
    const y = (-dy / box.height) * (view.y1 - view.y0);
    const start = from.x1 === undefined ? view : from;
    this.view = this.bounded({ x0: start.x0 + x, x1: start.x1 + x, y0: start.y0 + y, y1: start.y1 + y });
    this.draw();
  }

  reveal({ row, col }) {
    const { view } = this.layout();
    const shift = (at, low, high) => (at < low ? at - low : at + 1 > high ? at + 1 - high : 0);
    const dx = shift(col, view.x0, view.x1);
    const dy = shift(row, view.y0, view.y1);
    if (dx || dy) this.view = this.bounded({ x0: view.x0 + dx, x1: view.x1 + dx, y0: view.y0 + dy, y1: view.y1 + dy });
  }

  // -- drawing -------------------------------------------------------------------------------------------

  draw() {
    const { width, height, view, wide, box, labels } = this.layout();
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const cell = { wide, high: box.height / (view.y1 - view.y0) };
    this.canvas.dataset.plot = JSON.stringify({ ...view, ...cell, left: box.left, top: box.top });
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.clearRect(0, 0, width, height);
    if (!this.grid.rows.length || !this.grid.cols.length) return;
    paintCells(context, this.grid, view, box, ratio);
    this.axes(context, view, box, wide, labels);
    for (const cell of this.causeCells()) this.ring(context, cell, view, box, colour("bad"));
    if (this.cursor) this.ring(context, this.cursor, view, box, colour("text"));
  }

  axes(context, view, box, wide, labels) {
    context.fillStyle = colour("faint");
    context.font = `11px ${colour("mono")}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const high = box.height / (view.y1 - view.y0);
    const everyRow = Math.max(1, niceStep(14 / high));
    for (let row = Math.ceil(view.y0); row < Math.min(view.y1, this.grid.rows.length); row++) {
      const rank = this.grid.ranks[this.grid.rows[row]];
      if (rank % everyRow && this.grid.rows.length > 1) continue;
      context.fillText(String(rank), box.left - 8, box.top + (row + 0.5 - view.y0) * high);
    }
    context.save();
    context.translate(9, box.top + box.height / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(word("html.map.axis_ranks"), 0, 0);
    context.restore();
    context.textAlign = "center";
    const lastCol = Math.min(view.x1, this.grid.cols.length);
    const digits = String(this.map.columns.length * this.map.merged).length;
    const everyCol = Math.max(1, niceStep((7 * digits + 6) / wide));
    for (let col = Math.ceil(view.x0); col < lastCol; col++) {
      const column = this.grid.cols[col];
      if (column % everyCol) continue;
      context.fillText(String(column * this.map.merged), box.left + (col + 0.5 - view.x0) * wide, box.top + box.height + 10);
    }
    context.textAlign = "left";
    context.fillText(word("html.map.axis_places"), box.left, box.top + box.height + 26);
    if (labels > NO_LABELS) this.columnNames(context, view, box, wide, lastCol);
  }

  columnNames(context, view, box, wide, lastCol) {
    for (let col = Math.ceil(view.x0); col < lastCol; col++) {
      const name = this.map.columns[this.grid.cols[col]];
      context.save();
      context.translate(box.left + (col + 0.5 - view.x0) * wide - 2, box.top - 5);
      context.rotate(-Math.PI / 3.2);
      context.textAlign = "left";
      context.fillText(clipped(name, LABEL_LENGTH), 0, 0);
      context.restore();
    }
  }

  /** Where the value of each cause enters communication. */
  causeCells() {
    return (this.ofValues ? page.causes : [])
      .filter((cause) => cause.column !== null)
      .map((cause) => ({ row: this.grid.rowOf(cause.rank), col: this.grid.colOf(cause.column) }))
      .filter((cell) => cell.row >= 0 && cell.col >= 0);
  }

  ring(context, { row, col }, view, box, ink) {
    const wide = box.width / (view.x1 - view.x0);
    const high = box.height / (view.y1 - view.y0);
    const w = Math.max(wide, 7);
    const h = Math.max(high, 7);
    const x = box.left + (col + 0.5 - view.x0) * wide - w / 2;
    const y = box.top + (row + 0.5 - view.y0) * high - h / 2;
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x - 0.5, y - 0.5, w, h);
  }

  // -- telling -------------------------------------------------------------------------------------------

  /** What is known about a cell: rank, column, state, and the listed call it belongs to. */
  facts({ row, col }) {
    const rank = this.grid.ranks[this.grid.rows[row]];
    const column = this.grid.cols[col];
    const letter = this.grid.letter(row, col);
    const calls = (this.callsAt.get(column) || []).map((at) => page.calls[at]);
    const own = calls.filter((call) => stateIn(call, rank));
    const call = own.find((one) => stateIn(one, rank) === letter) || own[0] || null;
    const name = call && call.names.find(([, ranks]) => holds(parseRanges(ranks), rank));
    return { rank, column, letter, call, record: name ? name[0] : "" };
  }

  place(column) {
    const first = column * this.map.merged;
    return this.map.merged > 1 ? `${first}-${first + this.map.merged - 1}` : String(first);
  }

  summary(cell) {
    const { rank, column, letter, call, record } = this.facts(cell);
    const called = call ? callName(call) : this.map.columns[column];
    return [word("html.map.cell", { rank, place: this.place(column), state: stateWord(letter) }), called, record].filter(Boolean).join(", ");
  }

  hover(cell, x, y) {
    if (!cell) {
      this.hideTip();
      return;
    }
    const { rank, column, letter, call, record } = this.facts(cell);
    empty(this.tip).append(
      el("div", { class: "tip-head" }, swatch(letter), " ", el("b", {}, stateWord(letter)), ` ${word("html.map.where", { rank, place: this.place(column) })}`),
      el("div", {}, data(call ? callName(call) : this.map.columns[column])),
    );
    if (record) this.tip.append(el("div", {}, data(record)));
    if (call && call.group) this.tip.append(el("div", { class: "faint" }, `${word("column.group")} `, data(call.group)));
    this.tip.hidden = false;
    const room = this.stage.clientWidth;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(Math.min(x + 14, room - wide - 4), 0)}px`;
    this.tip.style.top = `${y + 16}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  step(rows, cols) {
    const now = this.cursor || { row: -Math.sign(rows) || 0, col: -Math.sign(cols) || 0 };
    const limit = (value, count) => Math.min(Math.max(value, 0), count - 1);
    const next = this.cursor ? { row: limit(now.row + rows, this.grid.rows.length), col: limit(now.col + cols, this.grid.cols.length) } : { row: 0, col: 0 };
    this.cursor = next;
    this.reveal(next);
    this.draw();
    const spot = this.middle(next);
    this.hover(next, spot.x, spot.y);
    this.told.textContent = this.summary(next);
  }

  pick(cell) {
    if (!cell) return;
    this.cursor = cell;
    this.reveal(cell);
    this.draw();
    const facts = this.facts(cell);
    chosen.cell = { rank: facts.rank, column: facts.column };
    this.told.textContent = this.summary(cell);
    empty(this.detail).append(...this.describe(facts));
  }

  /** Puts the cursor on a rank and column of the whole map, showing them when they are hidden. */
  pickAt(rank, column) {
    if (this.grid.rowOf(rank) < 0 || this.grid.colOf(column) < 0) {
      this.grid.restrict(false);
      this.only.checked = false;
      this.view = null;
    }
    const cell = { row: this.grid.rowOf(rank), col: this.grid.colOf(column) };
    if (cell.row >= 0 && cell.col >= 0) this.pick(cell);
  }

  pickFirst() {
    const first = page.calls[0];
    const rank = ["s", "p", "u", "n"].map((letter) => parseRanges(first[letter])[0]).find(Boolean);
    if (rank) this.pickAt(rank[0], first.column);
  }

  describe({ rank, column, letter, call, record }) {
    const head = el(
      "p",
      { class: "cell-head" },
      swatch(letter),
      " ",
      el("b", {}, stateWord(letter)),
      ` ${word("html.map.where", { rank, place: this.place(column) })} `,
      data(call ? callName(call) : this.map.columns[column]),
    );
    if (!call) return [head, el("p", { class: "faint" }, word(letter === "." ? "html.map.no_part" : "html.map.not_listed"))];
    return [head, ...callFacts(call, record)];
  }
}

/** 1, 2, 5, 10, 20 ...: the next one that is not smaller. */
function niceStep(least) {
  if (least <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}
