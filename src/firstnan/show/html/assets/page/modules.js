// The tree of modules around the root cause, with the path to it and the records in each module.

/** Modules by path; each holds its children by name and its records in order. */
function moduleTree(cause) {
  const root = { name: "", path: "", children: new Map(), records: [], onPath: true };
  const place = (path) => {
    let node = root;
    for (const name of path ? path.split(".") : []) {
      if (!node.children.has(name)) {
        const inside = node.path ? `${node.path}.${name}` : name;
        node.children.set(name, { name, path: inside, children: new Map(), records: [], onPath: false });
      }
      node = node.children.get(name);
    }
    return node;
  };
  for (const record of cause.near) place(record.module || "").records.push(record);
  const path = cause.module || "";
  const parts = path.split(".");
  place(path);
  parts.forEach((_, at) => (place(parts.slice(0, at + 1).join(".")).onPath = true));
  if (!cause.near.length && cause.op) place(path).records.push({ index: cause.index, op: cause.op, bad: true });
  return root;
}

function hasModules(cause) {
  return cause.module !== null || cause.chain.length > 1 || cause.near.some((record) => record.module !== null);
}

function moduleSection(cause) {
  if (!hasModules(cause)) return [el("p", { class: "faint" }, word("html.modules.none"))];
  const tree = moduleTree(cause);
  const nodes = [];
  if (tree.children.size) nodes.push(el("ul", { class: "tree" }, moduleNodes(tree, cause), outside(tree, cause)));
  if (cause.chain.length > 1) {
    nodes.push(
      el("h3", {}, word("html.modules.chain")),
      el("ol", { class: "chain" }, [...cause.chain].reverse().map((name, at, all) => el("li", { class: at === all.length - 1 ? "here" : null }, data(name)))),
    );
  }
  return nodes;
}

/** Items of one level; a module with a single child and nothing of its own stands on one line with it. */
function moduleNodes(node, cause) {
  const items = node.path ? [recordsOf(node, cause)] : [];
  for (let child of node.children.values()) {
    let name = child.name;
    while (child.children.size === 1 && !child.records.length) {
      const only = child.children.values().next().value;
      if (only.onPath !== child.onPath) break;
      name += `.${only.name}`;
      child = only;
    }
    const bad = countBad(child);
    items.push(
      el(
        "li",
        { class: child.onPath ? "on-path" : null },
        el(
          "details",
          { open: child.onPath },
          el("summary", {}, data(name), bad ? el("span", { class: "bad" }, ` ${word("html.modules.bad", { count: bad })}`) : null),
          el("ul", {}, moduleNodes(child, cause)),
        ),
      ),
    );
  }
  return items;
}

/** Records in no module: on demand, unless the root cause is one of them. */
function outside(tree, cause) {
  if (!tree.records.length) return null;
  const open = tree.records.some((record) => record.index === cause.index);
  const title = el("summary", {}, word("html.modules.outside", { count: tree.records.length }));
  return el("li", {}, el("details", { open }, title, el("ul", {}, recordsOf(tree, cause))));
}

function countBad(node) {
  let count = node.records.filter((record) => record.bad).length;
  for (const child of node.children.values()) count += countBad(child);
  return count;
}

function recordsOf(node, cause) {
  return node.records.map((record) => {
    const here = record.index === cause.index;
    return el(
      "li",
      { class: here ? "here" : "record" },
      here ? [swatch("s"), " "] : null,
      el("span", { class: "faint" }, `${record.index ?? ""} `),
      data(record.op, record.bad && !here ? "bad" : ""),
    );
  });
}
