// The panel of topics: a table of any number of rows, of which the hub sends the page in sight.

import { choice, fill, h, later, memory, write } from "./dom.js";
import * as format from "./format.js";
import { Grid } from "./grid.js";
import { mark } from "./marks.js";
import { openView } from "./view.js";
import { Detail } from "./detail.js";

const KINDS = [
  ["market", "Market"],
  ["live", "Live"],
  ["all", "All"],
  ["pattern", "Pattern"],
];
const PATTERNS = { market: ["md:*"], live: ["live:*"], all: ["md:*", "mx:*", "live:*"] };
const FIELDS = [
  "last",
  "change_pct",
  "bid",
  "bid_size",
  "ask",
  "ask_size",
  "volume",
  "venue",
  "state",
  "stale",
  "side",
  "recv_ts",
];
const AROUND = 40;

const field = (row, name) => row.fields?.[name];

function nameCell(cell, row) {
  const found = mark(row.fields);
  const name = row.name.startsWith("md:") ? row.name.slice(3) : row.name;
  if (cell.firstElementChild === null) fill(cell, h("span.mark"), h("span.name"));
  const [sign, text] = cell.children;
  write(sign, found === null ? "" : found[0]);
  sign.title = found === null ? "" : found[2];
  write(text, name);
  text.title = row.name;
}

function stateText(row) {
  const found = mark(row.fields);
  if (found !== null) return found[1];
  const state = field(row, "state");
  return state === undefined || state === "unknown" ? format.LINE : state;
}

function changeStyle(cell, row) {
  const way = format.way(field(row, "change_pct"));
  cell.classList.toggle("is-up", way > 0);
  cell.classList.toggle("is-down", way < 0);
}

const number = (id, title, min, rank, text, more = {}) => ({
  id,
  title,
  min,
  rank,
  number: true,
  text: (row) => text(field(row, id)),
  ...more,
});
const moving = (id, title, min, rank) =>
  number(id, title, min, rank, format.price, { flash: (row) => field(row, id) });

const MARKET = [
  { id: "name", title: "Topic", min: 104, grow: 1.6, draw: nameCell },
  moving("last", "Last", 90, 0),
  number("change_pct", "Change", 89, 1, format.change, { style: changeStyle }),
  moving("bid", "Bid", 92, 2),
  number("bid_size", "Bid size", 80, 5, format.count),
  moving("ask", "Ask", 92, 2),
  number("ask_size", "Ask size", 80, 5, format.count),
  number("volume", "Volume", 96, 4, format.count),
  { id: "state", title: "State", min: 76, rank: 6, text: stateText },
  { id: "venue", title: "Venue", min: 84, rank: 7, text: (row) => format.line(field(row, "venue")) },
  {
    id: "recv_ts",
    title: "Updated",
    min: 116,
    rank: 8,
    number: true,
    text: (row) => format.time(field(row, "recv_ts")),
  },
];

function anyValue(row) {
  if (row.fields === null) return format.LINE;
  const names = Object.keys(row.fields);
  if (names.length === 1 && names[0] === "value") return format.line(row.fields.value);
  if (row.name.startsWith("md:"))
    return `last ${format.price(row.fields.last)}  bid ${format.price(row.fields.bid)}  ask ${format.price(row.fields.ask)}`;
  if (row.name.startsWith("mx:"))
    return `${format.line(row.fields.value)}  (${row.fields.quality_text ?? ""})`;
  return names.map((name) => `${name} ${format.line(row.fields[name])}`).join("  ");
}

const ANY = [
  {
    id: "name",
    title: "Topic",
    min: 140,
    grow: 1,
    draw: (cell, row) => {
      nameCell(cell, row);
      write(cell.children[1], row.name);
    },
  },
  { id: "value", title: "Value", min: 160, grow: 3, sortable: false, text: anyValue },
];

export class TopicsPanel {
  #hub;
  #grid;
  #view = null;
  #page = { total: 0, from: 0, rows: [] };
  #wish;
  #total;
  #filter;
  #pattern;
  #detail;
  #kind;
  #side;
  #came = false;
  #error = null;

  constructor(hub) {
    this.#hub = hub;
    this.#kind = memory.get("topics.kind", "market");
    this.#wish = {
      sort: "name",
      descending: false,
      filter: "",
      from: 0,
      rows: 60,
      ...memory.get("topics.order", {}),
    };
    this.#grid = new Grid({
      label: "Topics",
      columns: this.#columns(),
      sort: { by: this.#wish.sort, descending: this.#wish.descending },
      count: () => this.#page.total,
      row: (index) => this.#page.rows[index - this.#page.from],
      key: (row) => row.name,
      open: (row) => {
        location.hash = `topics/${encodeURIComponent(row.name)}`;
      },
      sorted: (sort, descending) => this.#order(sort, descending),
      moved: (from, rows) => this.#moved(from, rows),
      mark: (row) => (mark(row.fields) === null ? "" : "is-old"),
      empty: () => this.#emptyText(),
    });
    this.#side = h("section.side", { hidden: true, "aria-label": "Details" });
    this.#detail = null;
    this.element = h(
      "section.panel.split",
      { "aria-label": "Topics" },
      h("div.main-part", this.#toolbar(), this.#grid.element),
      this.#side,
    );
  }

  #toolbar() {
    this.#total = h("span.muted.total", { role: "status" });
    this.#filter = h("input", {
      type: "search",
      placeholder: "Filter by name  ( / )",
      "aria-label": "Filter by name",
      spellcheck: "false",
      oninput: later(() => this.#change({ filter: this.#filter.value.trim() })),
    });
    this.#pattern = h("input.pattern", {
      type: "text",
      value: memory.get("topics.pattern", "md:*"),
      "aria-label": "Pattern of topics",
      spellcheck: "false",
      hidden: this.#kind !== "pattern",
      onchange: () => this.#begin(),
    });
    this.#filter.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "ArrowDown") this.#grid.focus();
    });
    const busiest = h(
      "button",
      { type: "button", title: "Most updates first", onclick: () => this.#order("updates", true) },
      "Busiest",
    );
    const kinds = choice("Kind of topic", KINDS, this.#kind, (kind) => {
      this.#kind = kind;
      memory.set("topics.kind", kind);
      this.#pattern.hidden = kind !== "pattern";
      this.#grid.setColumns(this.#columns());
      this.#begin();
    });
    return h("div.toolbar", kinds, this.#pattern, this.#filter, busiest, this.#total);
  }

  #columns() {
    return this.#kind === "market" || (this.#kind === "pattern" && this.#pattern?.value.startsWith("md:"))
      ? MARKET
      : ANY;
  }

  show(name) {
    if (this.#view === null) this.#begin();
    this.#open(name);
  }

  hide() {
    this.#view?.close();
    this.#view = null;
    this.#open(null);
  }

  escape() {
    if (this.#detail !== null) location.hash = "topics";
  }

  #begin() {
    this.#view?.close();
    this.#came = false;
    this.#error = null;
    this.#page = { total: 0, from: 0, rows: [] };
    const topics = PATTERNS[this.#kind] ?? this.#pattern.value.split(/[\s,]+/).filter(Boolean);
    if (this.#kind === "pattern") memory.set("topics.pattern", this.#pattern.value);
    this.#grid.setColumns(this.#columns());
    this.#grid.top();
    this.#wish.from = 0;
    const fields = this.#columns() === MARKET ? FIELDS : undefined;
    this.#view = openView(
      this.#hub,
      { ...this.#wish, topics, fields, hz: 10 },
      (page) => this.#take(page),
      (error) => this.#refused(error),
    );
  }

  #take(page) {
    this.#page = page;
    this.#came = true;
    write(this.#total, `${format.count(page.total)} ${page.total === 1 ? "topic" : "topics"}`);
    this.#grid.draw();
  }

  #refused(error) {
    this.#error = error;
    this.#page = { total: 0, from: 0, rows: [] };
    this.#grid.draw();
  }

  #emptyText() {
    if (this.#error !== null) return `${this.#error.code}: ${this.#error.message}`;
    if (!this.#came) return "Waiting for the first values…";
    if (this.#wish.filter !== "") return `No topic has “${this.#wish.filter}” in its name`;
    return "No topics yet. Start a source, or write a key under live:";
  }

  #order(sort, descending) {
    this.#grid.setSort(sort, descending);
    memory.set("topics.order", { sort, descending });
    this.#grid.top();
    this.#change({ sort, descending, from: 0 });
  }

  #moved(from, rows) {
    const { from: have, rows: number } = this.#wish;
    const isWithin = from >= have && from + rows <= have + number;
    if (isWithin && rows + 2 * AROUND >= number - 20) return;
    const first = Math.max(0, from - AROUND);
    this.#change({ from: first, rows: rows + 2 * AROUND });
  }

  #change(wish) {
    if (wish.filter !== undefined && wish.filter !== this.#wish.filter) {
      this.#grid.top();
      wish.from = 0;
    }
    Object.assign(this.#wish, wish);
    this.#view?.change(wish);
  }

  #open(name) {
    if (this.#detail?.name === name) return;
    this.#detail?.close();
    this.#detail = name === null ? null : new Detail(this.#hub, name);
    this.#side.hidden = name === null;
    fill(this.#side, this.#detail?.element);
    this.#grid.select(name);
  }
}
