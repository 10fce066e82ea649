// The boxes and small tables of the panel of the hub.

import { h } from "./dom.js";

/** A box with a title, and a note or a control beside it. */
export function card(title, note, ...body) {
  return h("section.card", { "aria-label": title }, h("div.block-head", h("h2.title", title), note), ...body);
}

/** A table of a few rows: `columns` are [title, isNumber]. */
export function table(columns, rows, empty = "Nothing to show") {
  if (rows.length === 0) return h("p.muted", empty);
  const cell = (value, index) => h(columns[index][1] ? "td.number" : "td", value);
  return h(
    "div.scroll",
    h(
      "table.values",
      h(
        "thead",
        h(
          "tr",
          columns.map(([title, isNumber]) => h(isNumber ? "th.number" : "th", { scope: "col" }, title)),
        ),
      ),
      h(
        "tbody",
        rows.map((row) => h("tr", { className: row.className ?? "" }, row.map(cell))),
      ),
    ),
  );
}
