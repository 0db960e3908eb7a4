// Max and Min of the records around a root cause, on a logarithmic scale with the limit of the dtype.

const CURVE_HEIGHT = 300;

/** Points of a curve: what uPlot draws (logarithms of sizes) and what it does not (zero, Inf, NaN). */
function curvePoints(records, limitOf) {
  const log = (value) => {
    const size = Math.abs(numeric(value));
    return value === null || !Number.isFinite(size) || size === 0 ? null : Math.log10(size);
  };
  const limits = records.map((record) => limitOf(record));
  const series = {
    in: records.map((record) => log(record.in)),
    max: records.map((record) => log(record.max)),
    min: records.map((record) => (record.min === undefined ? null : log(record.min))),
  };
  const sizes = [...series.in, ...series.max, ...series.min].filter((value) => value !== null);
  const low = Math.floor(Math.min(...sizes, 0));
  const high = Math.ceil(Math.max(...sizes, 0) + 0.2);
  const reached = limits.filter((limit) => limit !== null && Math.log10(limit) <= high + 3).map((limit) => Math.log10(limit));
  return { series, limits, low: low - 0.4, high: Math.max(high, ...reached.map((value) => value + 0.4)) };
}

/** The chart of some records; `root` is the index of the root cause's record. */
class Curve {
  constructor(records, root, limitOf, withMin) {
    this.records = records;
    this.root = records.findIndex((record) => record.index === root);
    this.withMin = withMin;
    this.points = curvePoints(records, limitOf);
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.plot = el("div", { class: "plot", tabindex: 0, role: "img", "aria-label": word("html.curve.label", { count: records.length }) });
    this.node = el("div", { class: "curve" }, this.plot, this.readout, this.key());
    this.plot.addEventListener("keydown", (event) => this.move(event));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.plot);
    this.tell(this.root >= 0 ? this.root : records.length - 1);
  }

  key() {
    const entry = (name, key) => el("li", {}, svg("svg", { class: `dash dash-${name}`, viewBox: "0 0 26 8", "aria-hidden": "true" }, svg("path", { d: "M1 4 25 4" })), word(key));
    return el(
      "ul",
      { class: "legend" },
      entry("in", "html.curve.in"),
      entry("max", this.withMin ? "html.curve.max" : "html.curve.out"),
      this.withMin ? entry("min", "html.curve.min") : null,
      entry("limit", "html.curve.limit"),
      el("li", {}, el("span", { class: "bad" }, "▲ ✕ "), word("html.curve.non_finite")),
      this.records.some((_, at) => this.isEarlier(at)) ? el("li", {}, el("span", { class: "faint" }, "○ "), word("html.curve.earlier")) : null,
    );
  }

  draw() {
    if (!this.plot.isConnected) return;
    const width = Math.max(this.plot.clientWidth, 200);
    if (this.chart) this.chart.destroy();
    const { series, low, high } = this.points;
    const band = (high - low) * 0.16;
    const xs = this.records.map((_, at) => at);
    const stroke = (name, dash) => ({ stroke: colour(name), width: 1.6, dash, spanGaps: false, points: { show: xs.length < 80, size: 5, fill: colour(name) } });
    const axis = { stroke: colour("faint"), font: `11px ${colour("mono")}`, grid: { stroke: colour("rule"), width: 1 }, ticks: { stroke: colour("rule"), width: 1 } };
    const options = {
      width,
      height: CURVE_HEIGHT,
      legend: { show: false },
      scales: { x: { time: false, range: [-0.5, xs.length - 0.5] }, y: { range: [low, high + band] } },
      cursor: { drag: { x: false, y: false }, points: { size: 8 }, y: false },
      axes: [
        { ...axis, size: 34, grid: { show: false }, space: 46, incrs: [1, 2, 5, 10, 20, 50], values: (_, ticks) => ticks.map((at) => (this.records[at] ? String(this.records[at].index) : "")) },
        { ...axis, size: 58, splits: () => decades(low, high), values: (_, ticks) => ticks.map((at) => (Math.abs(at) > 4 ? `1e${at < 0 ? "" : "+"}${at}` : String(Number((10 ** at).toPrecision(3))))) },
      ],
      series: [{}, { ...stroke("curve-in", [3, 3]) }, { ...stroke("curve-max") }, { ...stroke("curve-min", [8, 3]), show: this.withMin }],
      hooks: { draw: [(chart) => this.marks(chart, band)], setCursor: [(chart) => chart.cursor.idx !== null && chart.cursor.idx !== undefined && this.tell(chart.cursor.idx)] },
    };
    this.chart = new uPlot(options, [xs, series.in, series.max, series.min], this.plot);
  }

  /** The limit, the root cause, and what has no place on a logarithmic scale. */
  marks(chart, band) {
    const context = chart.ctx;
    const ratio = uPlot.pxRatio;
    const { left, top, width, height } = chart.bbox;
    const yOf = (value) => chart.valToPos(value, "y", true);
    const xOf = (at) => chart.valToPos(at, "x", true);
    context.save();
    context.font = `${11 * ratio}px ${colour("mono")}`;
    const edge = yOf(this.points.high);
    context.fillStyle = colour("band");
    context.fillRect(left, top, width, edge - top);
    context.fillStyle = colour("faint");
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText("Inf NaN", left - 8 * ratio, top + (edge - top) / 2);
    context.textAlign = "left";
    this.limitLine(context, ratio, left, width, edge, xOf, yOf);
    if (this.root >= 0) {
      context.strokeStyle = colour("bad");
      context.setLineDash([2 * ratio, 3 * ratio]);
      context.lineWidth = ratio;
      context.beginPath();
      context.moveTo(xOf(this.root), top);
      context.lineTo(xOf(this.root), top + height);
      context.stroke();
      context.setLineDash([]);
    }
    this.records.forEach((record, at) => {
      const draw = this.isEarlier(at) ? this.ring : this.mark;
      draw.call(this, context, ratio, record, xOf(at), top + (edge - top) / 2, top + height);
    });
    context.restore();
  }

  limitLine(context, ratio, left, width, edge, xOf, yOf) {
    context.strokeStyle = colour("limit");
    context.fillStyle = colour("limit-text");
    context.lineWidth = 1.5 * ratio;
    context.setLineDash([6 * ratio, 3 * ratio]);
    const { limits, high } = this.points;
    let labelled = null;
    limits.forEach((limit, at) => {
      if (limit === null) return;
      const beyond = Math.log10(limit) > high;
      const y = beyond ? edge : yOf(Math.log10(limit));
      context.beginPath();
      context.moveTo(xOf(at - 0.5), y);
      context.lineTo(xOf(at + 0.5), y);
      context.stroke();
      if (labelled === limit) return;
      labelled = limit;
      context.textBaseline = "top";
      const text = `${written(limit)}${beyond ? ` ${word("html.curve.beyond")}` : ""}`;
      const room = left + width - context.measureText(text).width - 4 * ratio;
      context.fillText(text, Math.min(xOf(at - 0.5) + 4 * ratio, room), y + 3 * ratio);
    });
    context.setLineDash([]);
  }

  /** A record before the root cause that holds NaN or Inf: harmless, or it would be the cause. */
  isEarlier(at) {
    return at < this.root && Boolean(this.records[at].bad_in || this.records[at].bad);
  }

  ring(context, ratio, record, x, y) {
    context.strokeStyle = colour("faint");
    context.lineWidth = 1.4 * ratio;
    context.beginPath();
    context.arc(x, y, 4 * ratio, 0, 2 * Math.PI);
    context.stroke();
  }

  mark(context, ratio, record, x, y, bottom) {
    const values = [record.max, record.min].map((value) => (value === undefined ? null : numeric(value)));
    context.fillStyle = context.strokeStyle = colour("bad");
    context.lineWidth = 1.6 * ratio;
    const size = 4 * ratio;
    if (values.some((value) => value !== null && Number.isNaN(value))) {
      context.beginPath();
      context.moveTo(x - size, y - size);
      context.lineTo(x + size, y + size);
      context.moveTo(x + size, y - size);
      context.lineTo(x - size, y + size);
      context.stroke();
    } else if (values.some((value) => value === Infinity || value === -Infinity)) {
      context.beginPath();
      context.moveTo(x, y - size);
      context.lineTo(x + size, y + size);
      context.lineTo(x - size, y + size);
      context.fill();
    }
    if (values.some((value) => value === 0) || numeric(record.in) === 0) {
      context.fillStyle = colour("faint");
      context.textAlign = "center";
      context.textBaseline = "bottom";
      context.fillText("0", x, bottom - 2 * ratio);
    }
  }

  tell(at) {
    const record = this.records[at];
    if (!record) return;
    this.now = at;
    const part = (key, value) => (value === undefined ? [] : [" ", el("span", { class: "faint" }, word(key)), " ", data(written(numeric(value)))]);
    empty(this.readout).append(
      data(String(record.index)),
      " ",
      data(record.op, at === this.root ? "strong" : ""),
      ...(record.bad_in ? [" ", el("span", { class: "faint" }, word("label.in")), " ", el("span", { class: "bad" }, word(`state.${record.bad_in}`))] : part("label.in", record.in)),
      ...part(this.withMin ? "column.max" : "label.out", record.max),
      ...part("column.min", record.min),
      record.dtype ? " " : "",
      record.dtype ? data(record.dtype, "faint") : "",
    );
  }

  move(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -this.records.length, End: this.records.length }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const at = Math.min(Math.max(this.now + step, 0), this.records.length - 1);
    this.chart.setCursor({ left: this.chart.valToPos(at, "x"), top: CURVE_HEIGHT / 3 });
    this.tell(at);
  }
}

/** Whole powers of ten between two logarithms, at most nine of them. */
function decades(low, high) {
  const step = niceStep((high - low) / 9);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

function hasCurve(cause) {
  return cause.near.length > 0 || cause.chain_values.length > 1 || cause.step_values.length > 1;
}

/** The part of the page: causal chain or record order, a chart and the same as a table. */
function curveSection(cause) {
  const limit = cause.limit ? cause.limit.largest : null;
  const ways = [];
  if (cause.near.length) ways.push({ key: "html.curve.order", records: cause.near, limitOf: (record) => record.limit, withMin: true });
  if (cause.chain_values.length > 1) ways.push({ key: "html.curve.chain", records: cause.chain_values, limitOf: () => limit, withMin: false });
  if (cause.step_values.length > 1) ways.push({ key: "html.curve.steps", records: cause.step_values, limitOf: () => limit, withMin: false });
  if (!ways.length) return [el("p", { class: "faint" }, word("html.curve.none"))];
  const host = el("div", {});
  const tabs = ways.map((way, at) =>
    el("button", { type: "button", "aria-pressed": String(at === 0), on: { click: () => show(at) } }, word(way.key)),
  );
  const show = (at) => {
    tabs.forEach((tab, other) => tab.setAttribute("aria-pressed", String(other === at)));
    const way = ways[at];
    shown.curve = new Curve(way.records, cause.index, way.limitOf, way.withMin);
    empty(host).append(el("p", { class: "faint" }, word(`${way.key}.what`)), shown.curve.node, recordTable(way.records, cause.index, way.withMin));
  };
  show(0);
  return [ways.length > 1 ? el("div", { class: "choices" }, tabs) : null, host];
}

function recordTable(records, root, withMin) {
  const names = ["column.record", "column.operator", "column.magnitude_in", ...(withMin ? ["column.max", "column.min", "column.dtype", "column.state"] : ["column.magnitude_out"])];
  const bad = (value) => (value === null || Number.isFinite(numeric(value)) ? "" : "bad");
  const number = (value) => el("td", { class: "number" }, data(written(numeric(value)), bad(value)));
  const rows = records.map((record) =>
    el(
      "tr",
      { class: record.index === root ? "chosen" : null, "data-record": record.index },
      el("td", { class: "number" }, data(String(record.index))),
      el("td", {}, data(record.op)),
      record.bad_in ? el("td", { class: "number bad" }, word(`state.${record.bad_in}`)) : number(record.in),
      number(record.max),
      withMin ? [number(record.min), el("td", {}, data(record.dtype || "-")), el("td", { class: record.bad ? "bad" : "" }, word(`state.${record.state_out}`))] : null,
    ),
  );
  const head = names.map((name, at) => el("th", { scope: "col", class: at === 0 || (at > 1 && at < 5) ? "number" : null }, word(name)));
  const frame = el("div", { class: "frame short", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
  requestAnimationFrame(() => {
    const row = frame.querySelector(".chosen");
    if (row) frame.scrollTop = Math.max(row.offsetTop - frame.clientHeight / 2, 0);
  });
  return frame;
}
