// Ranks that should be equal: what is told of each disagreement, and which ranks hold the same.

function agreementPart() {
  const told = texts().agreement;
  if (!told.length) return null;
  const pieces = told.flatMap((section, at) => {
    const nodes = blocks(section.blocks);
    const numbers = nodes.findIndex((node) => node.className === "frame");
    if (page.differing[at]) nodes.splice(numbers + 1, 0, lettersTable(page.differing[at]));
    return [told.length > 1 ? el("h3", {}, section.title) : null, nodes];
  });
  return part("agreement", word("html.nav.agreement"), pieces);
}

/** Parameters down, ranks across; one letter for each value of a row, A for that of most ranks. */
function lettersTable(made) {
  const cell = (letter, majority) => {
    const kind = letter === "" ? "none" : letter === "A" && majority ? "most" : majority ? "odd" : "split";
    return el("td", { class: `letter letter-${kind}` }, letter || "-");
  };
  const head = el("tr", {}, el("th", { scope: "col" }, word("html.agreement.parameter")), made.columns.map((ranks) => el("th", { scope: "col", class: "letter" }, data(ranks))));
  const rows = made.rows.map((row) => el("tr", {}, el("th", { scope: "row" }, data(row.name)), row.cells.map((letter) => cell(letter, row.majority))));
  const more = [];
  if (made.more > 0) more.push(word("html.agreement.more", { count: made.more }));
  if (made.more_ranks > 0) more.push(word("html.agreement.more_ranks", { count: made.more_ranks }));
  return el(
    "div",
    { class: "letters" },
    el("div", { class: "frame", tabindex: 0, role: "group", "aria-label": word("html.agreement.letters") }, el("table", {}, el("caption", {}, word("html.agreement.letters")), el("thead", {}, head), el("tbody", {}, rows))),
    more.length ? el("p", { class: "faint" }, more.join(" ")) : null,
  );
}
