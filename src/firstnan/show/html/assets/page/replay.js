// What running the record again on the CPU says, and a small picture of where the bad elements are.

const ELEMENT = 9;

/** The panel that says why, with what replays say below it. */
function withReplay(why, cause, told) {
  const replayed = replayedPanels();
  return told.replay.length || replayed.length ? el("div", { class: "column" }, why, replayPanel(cause, told), replayed) : why;
}

function replayPanel(cause, told) {
  if (!told.replay.length) return null;
  return panel(word("section.replay"), blocks(told.replay), cause.picture ? elementsPicture(cause.picture) : null);
}

/** Which records were run again, and what to dump for those that could not be. */
function replayedPanels() {
  return texts().replayed.map((section) => panel(section.title, blocks(section.blocks)));
}

/** One square for each element or group of elements, seen along all other axes. */
function elementsPicture(picture) {
  const columns = picture.rows[0].length;
  const width = columns * ELEMENT;
  const height = picture.rows.length * ELEMENT;
  const label = word(picture.down < 0 ? "html.replay.picture_row" : "html.replay.picture", picture);
  const squares = { "#": [], ".": [] };
  picture.rows.forEach((row, down) =>
    [...row].forEach((cell, across) =>
      squares[cell].push(svg("rect", { x: across * ELEMENT, y: down * ELEMENT, width: ELEMENT - 1, height: ELEMENT - 1 })),
    ),
  );
  return el(
    "figure",
    { class: "elements" },
    el(
      "div",
      { class: "frame", tabindex: 0 },
      svg(
        "svg",
        { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
        svg("g", { class: "cell-none" }, squares["."]),
        svg("g", { class: "cell-s" }, squares["#"]),
      ),
    ),
    el(
      "figcaption",
      { class: "faint hint" },
      label,
      picture.per_down * picture.per_across > 1 ? [" ", word("html.replay.per_cell", { down: picture.per_down, across: picture.per_across })] : null,
    ),
  );
}
