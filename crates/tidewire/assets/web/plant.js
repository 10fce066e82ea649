// The panel of plant tags: quality, times, trends, alarms; a tag opens beside the table.

import { choice, fill, h, later, perFrame, write } from "./dom.js";
import * as format from "./format.js";
import { Grid } from "./grid.js";
import { sparkline } from "./chart.js";
import { alarm, CLASSES } from "./alarms.js";
import { Tag } from "./tag.js";

const PREFIX = "mx:";
const TREND = 60;
function qualityCell(cell, row) {
  if (cell.firstElementChild === null) fill(cell, h("span.quality"));
  const { rank, sign, text } = row.alarm;
  cell.firstElementChild.className = `quality ${CLASSES[rank]}`;
  write(cell.firstElementChild, `${sign} ${text}`);
  cell.title = text;
}

function trendCell(cell, row) {
  if (cell.firstElementChild === null) fill(cell, h("canvas.spark", { "aria-hidden": "true" }));
  if (cell.drawn === row.trend && cell.length === row.changes) return;
  cell.drawn = row.trend;
  cell.length = row.changes;
  sparkline(cell.firstElementChild, row.trend);
}

const COLUMNS = [
  { id: "name", title: "Tag", min: 144, grow: 2, text: (row) => row.short },
  {
    id: "value",
    title: "Value",
    min: 90,
    grow: 1.2,
    number: true,
    text: (row) => format.line(row.fields.value ?? null),
    flash: (row) => (format.isNumber(row.fields.value) ? row.fields.value : NaN),
  },
  { id: "alarm", title: "Quality", min: 110, grow: 1.4, draw: qualityCell, hint: "Worst first" },
  { id: "trend", title: "Trend", min: 110, rank: 3, sortable: false, draw: trendCell },
  { id: "type", title: "Type", min: 80, rank: 6, text: (row) => format.line(row.fields.type ?? null) },
  {
    id: "ts",
    title: "Plant time",
    min: 112,
    rank: 4,
    number: true,
    text: (row) => format.time(row.fields.ts),
  },
  { id: "age", title: "Age", min: 70, rank: 2, number: true, text: (row) => format.age(row.fields.ts) },
  {
    id: "status",
    title: "Status",
    min: 120,
    rank: 5,
    grow: 1.4,
    text: (row) => format.line(row.fields.status ?? null),
  },
];

const ORDERS = {
  name: (row) => row.short,
  value: (row) => (format.isNumber(row.fields.value) ? Number(row.fields.value) : -Infinity),
  alarm: (row) => row.alarm.rank,
  type: (row) => String(row.fields.type),
  ts: (row) => Number(row.fields.ts),
  age: (row) => -Number(row.fields.ts),
  status: (row) => String(row.fields.status),
};

export class PlantPanel {
  #hub;
  #grid;
  #rows = new Map();
  #shown = [];
  #subscription = null;
  #sort = { by: "name", descending: false };
  #filter = "";
  #which = "all";
  #summary;
  #side;
  #tag = null;
  #error = null;
  #came = false;
  #follow;
  #input;
  #timer = null;
  #refresh = perFrame(() => this.#arrange());

  constructor(hub) {
    this.#hub = hub;
    this.#grid = new Grid({
      label: "Plant tags",
      columns: COLUMNS,
      sort: this.#sort,
      count: () => this.#shown.length,
      row: (index) => this.#shown[index],
      key: (row) => row.name,
      open: (row) => {
        location.hash = `plant/${encodeURIComponent(row.name)}`;
      },
      sorted: (by, descending) => {
        this.#sort = { by, descending };
        this.#arrange();
      },
      mark: (row) => `alarm-${CLASSES[row.alarm.rank]}`,
      empty: () => this.#emptyText(),
    });
    this.#summary = h("div.alarms", { role: "status" });
    this.#side = h("section.side", { hidden: true, "aria-label": "Details" });
    this.element = h(
      "section.panel.split",
      { "aria-label": "Plant" },
      h("div.main-part", this.#toolbar(), this.#grid.element),
      this.#side,
    );
  }

  #toolbar() {
    this.#input = h("input", {
      type: "search",
      placeholder: "Filter by name  ( / )",
      "aria-label": "Filter by name",
      spellcheck: "false",
      oninput: later((event) => {
        this.#filter = event.target.value.trim().toLowerCase();
        this.#arrange();
      }),
    });
    const which = choice(
      "Which tags",
      [
        ["all", "All"],
        ["alarms", "Alarms"],
      ],
      "all",
      (value) => {
        this.#which = value;
        this.#arrange();
      },
    );
    this.#follow = h(
      "form.inline",
      { onsubmit: (event) => this.#add(event) },
      h("input", {
        name: "tag",
        type: "text",
        placeholder: "Follow a tag by name",
        "aria-label": "Name of a tag to follow",
        spellcheck: "false",
      }),
      h("button", { type: "submit" }, "Follow"),
    );
    return h("div.toolbar", which, this.#input, this.#follow, this.#summary);
  }

  // The plant cannot list its tags: one that is named is followed from then on.
  #add(event) {
    event.preventDefault();
    const name = event.target.elements.tag.value.trim().replace(/^mx:/, "");
    if (name === "") return;
    event.target.reset();
    location.hash = `plant/${encodeURIComponent(PREFIX + name)}`;
  }

  show(name) {
    this.#subscription ??= this.#hub.subscribe(`${PREFIX}*`, (changes, batch) => this.#take(changes, batch), {
      hz: 5,
      fields: ["value", "type", "quality", "quality_text", "ts", "status", "stale"],
      failed: (error) => {
        this.#error = error;
        this.#grid.draw();
      },
    });
    this.#timer ??= setInterval(() => this.#grid.draw(), 1_000);
    this.#open(name);
  }

  hide() {
    clearInterval(this.#timer);
    this.#timer = null;
    this.#subscription?.close();
    this.#subscription = null;
    this.#open(null);
  }

  escape() {
    if (this.#tag !== null) location.hash = "plant";
  }

  #take(changes, { complete }) {
    for (const { name, fields, changed } of changes) {
      if (fields === null) this.#rows.delete(name);
      else this.#note(name, fields, changed);
    }
    this.#came ||= complete;
    this.#error = null;
    this.#refresh();
  }

  #note(name, fields, changed) {
    let row = this.#rows.get(name);
    if (row === undefined) {
      row = { name, short: name.slice(PREFIX.length), trend: [], changes: 0 };
      this.#rows.set(name, row);
    }
    row.fields = fields;
    row.alarm = alarm(name, fields);
    if (!("value" in (changed ?? {})) || !format.isNumber(fields.value)) return;
    row.trend.push(Number(fields.value));
    row.changes++;
    if (row.trend.length > TREND) row.trend.shift();
  }

  #arrange() {
    const counts = [0, 0, 0, 0];
    const shown = [];
    for (const row of this.#rows.values()) {
      row.alarm = alarm(row.name, row.fields);
      counts[row.alarm.rank]++;
      if (this.#which === "alarms" && row.alarm.rank === 0) continue;
      if (row.short.toLowerCase().includes(this.#filter)) shown.push(row);
    }
    const order = ORDERS[this.#sort.by];
    const way = this.#sort.descending !== (this.#sort.by === "alarm") ? -1 : 1;
    shown.sort((one, other) => {
      const [a, b] = [order(one), order(other)];
      const found = a < b ? -1 : a > b ? 1 : 0;
      return found === 0 ? (one.short < other.short ? -1 : 1) : found * way;
    });
    this.#shown = shown;
    fill(
      this.#summary,
      [
        [3, "✕", "bad"],
        [2, "▲▼", "beyond limits"],
        [1, "?", "uncertain"],
      ].map(([rank, sign, text]) => h(`span.count.${CLASSES[rank]}`, `${sign} ${counts[rank]} ${text}`)),
      h("span.muted", `${format.count(this.#rows.size)} tags`),
    );
    this.#grid.draw();
  }

  #emptyText() {
    if (this.#error !== null) return `${this.#error.code}: ${this.#error.message}`;
    if (!this.#came) return "Waiting for the first values…";
    if (this.#rows.size === 0) return "This hub follows no plant tags (start it with --mx)";
    return this.#which === "alarms"
      ? "No alarms: all tags are good and within their limits"
      : "No tag with this name";
  }

  #open(name) {
    if (this.#tag?.name === name) return;
    this.#tag?.close();
    this.#tag = name === null ? null : new Tag(this.#hub, name, () => this.#arrange());
    this.#side.hidden = name === null;
    fill(this.#side, this.#tag?.element);
    this.#grid.select(name);
  }
}
