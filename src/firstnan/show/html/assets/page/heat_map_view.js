// The heat map's cells and how they are painted on a canvas.

/** A small square in the colour and with the shape of a state, for legends and text. */
function swatch(letter) {
  const cell = CELLS[letter];
  return svg(
    "svg",
    { class: `swatch cell-${letter === "." ? "none" : letter}`, viewBox: "0 0 10 10", "aria-hidden": "true" },
    svg("rect", { width: 10, height: 10, rx: 1.5 }),
    cell.shape ? svg("path", { d: cell.shape }) : null,
    cell.letter ? svg("text", { x: 5, y: 8.4, "text-anchor": "middle" }, cell.letter) : null,
  );
}

/** Cells of the map: `letters[code]` with the worst state last, one code per rank and column. */
class Grid {
  constructor(map) {
    this.letters = map.letters;
    this.columns = map.columns.length;
    const found = [];
    for (const [ranks, cells] of map.rows) {
      const codes = this.decode(cells);
      eachRank(ranks, (rank) => found.push([rank, codes]));
    }
    found.sort((one, other) => one[0] - other[0]);
    this.ranks = found.map(([rank]) => rank);
    this.codes = found.map(([, codes]) => codes);
    this.calm = new Set([...this.letters].flatMap((letter, code) => (CELLS[letter].calm ? [code] : [])));
    this.restrict(false);
  }

  decode(cells) {
    const codes = new Uint8Array(this.columns);
    let at = 0;
    for (const [, letter, count] of cells.matchAll(/([a-z.])(\d*)/g)) {
      const end = at + (count ? Number(count) : 1);
      codes.fill(this.letters.indexOf(letter), at, end);
      at = end;
    }
    return codes;
  }

  /** Which ranks and columns are shown: all, or those with anything but normal cells. */
  restrict(affectedOnly) {
    const all = (count) => Array.from({ length: count }, (_, at) => at);
    this.rows = all(this.ranks.length);
    this.cols = all(this.columns);
    if (!affectedOnly) return;
    const hit = new Uint8Array(this.columns);
    this.rows = this.rows.filter((row) => {
      let any = false;
      this.codes[row].forEach((code, at) => {
        if (!this.calm.has(code)) any = hit[at] = 1;
      });
      return any;
    });
    this.cols = this.cols.filter((at) => hit[at]);
  }

  letter(row, col) {
    return this.letters[this.codes[this.rows[row]][this.cols[col]]];
  }

  rowOf(rank) {
    return this.rows.findIndex((row) => this.ranks[row] === rank);
  }

  colOf(column) {
    return this.cols.indexOf(column);
  }
}

/** Paints a part of a grid: `view` is {x0, x1, y0, y1} in cells, `box` the plot in pixels of the page. */
function paintCells(context, grid, view, box, ratio) {
  const wide = box.width / (view.x1 - view.x0);
  const high = box.height / (view.y1 - view.y0);
  if (wide < 3 || high < 3) {
    paintPixels(context, grid, view, box, ratio);
    return;
  }
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  paintBoxes(context, grid, view, box, wide, high);
  context.restore();
}

function paintBoxes(context, grid, view, box, wide, high) {
  const gap = Math.min(wide, high) >= 6 ? 1 : 0;
  const colours = {};
  for (const letter of grid.letters) colours[letter] = colour(`cell-${letter === "." ? "none" : letter}`);
  const ink = colour("cell-ink");
  const size = Math.min(wide, high, 22) * 0.62;
  const lastRow = Math.min(Math.ceil(view.y1), grid.rows.length);
  const lastCol = Math.min(Math.ceil(view.x1), grid.cols.length);
  const paths = {};
  for (const [letter, { shape }] of Object.entries(CELLS)) if (shape) paths[letter] = new Path2D(shape);
  for (let row = Math.max(Math.floor(view.y0), 0); row < lastRow; row++) {
    for (let col = Math.max(Math.floor(view.x0), 0); col < lastCol; col++) {
      const letter = grid.letter(row, col);
      const x = box.left + (col - view.x0) * wide;
      const y = box.top + (row - view.y0) * high;
      context.fillStyle = colours[letter];
      context.fillRect(x, y, wide - gap, high - gap);
      if (size >= 5 && !CELLS[letter].calm) {
        glyph(context, letter, paths, ink, x + (wide - gap) / 2, y + (high - gap) / 2, size);
      }
    }
  }
}

function glyph(context, letter, paths, ink, x, y, size) {
  context.fillStyle = ink;
  if (CELLS[letter].letter) {
    context.font = `600 ${Math.round(size * 1.1)}px ${colour("mono")}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(CELLS[letter].letter, x, y + 0.5);
    return;
  }
  context.save();
  context.translate(x - size / 2, y - size / 2);
  context.scale(size / 10, size / 10);
  context.fill(paths[letter]);
  context.restore();
}

/** Cells smaller than a few pixels: every pixel shows the worst cell that it covers. */
function paintPixels(context, grid, view, box, ratio) {
  const width = Math.max(Math.round(box.width * ratio), 1);
  const height = Math.max(Math.round(box.height * ratio), 1);
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const palette = Uint32Array.from([...grid.letters].map((letter) => packed(colour(`cell-${letter === "." ? "none" : letter}`))));
  const columns = spans(view.x0, view.x1, width, grid.cols.length);
  const rows = spans(view.y0, view.y1, height, grid.rows.length);
  const worst = new Uint8Array(width);
  let before = "";
  for (let y = 0; y < height; y++) {
    const [top, bottom] = rows[y];
    const key = `${top} ${bottom}`;
    if (key === before) {
      pixels.copyWithin(y * width, (y - 1) * width, y * width);
      continue;
    }
    before = key;
    worst.fill(0);
    for (let row = top; row < bottom; row++) {
      const codes = grid.codes[grid.rows[row]];
      for (let x = 0; x < width; x++) {
        const [left, right] = columns[x];
        for (let col = left; col < right; col++) {
          const code = codes[grid.cols[col]];
          if (code > worst[x]) worst[x] = code;
        }
      }
    }
    for (let x = 0; x < width; x++) pixels[y * width + x] = palette[worst[x]];
  }
  context.putImageData(image, Math.round(box.left * ratio), Math.round(box.top * ratio));
}

/** For each of `count` pixels the cells it covers, at least one. */
function spans(from, to, count, limit) {
  const step = (to - from) / count;
  return Array.from({ length: count }, (_, at) => {
    const first = Math.min(Math.max(Math.floor(from + at * step), 0), limit - 1);
    const last = Math.min(Math.max(Math.ceil(from + (at + 1) * step), first + 1), limit);
    return [first, step < 1 ? first + 1 : last];
  });
}

/** "#rrggbb" as a pixel, opaque. */
function packed(hex) {
  const number = parseInt(hex.slice(1), 16);
  return (255 << 24) | ((number & 255) << 16) | (((number >> 8) & 255) << 8) | (number >> 16);
}
