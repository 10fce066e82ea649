// The panel of keys: SCAN by page on the left, the key on the right, a command line below.

import { fill, h, later, memory, write } from "./dom.js";
import * as format from "./format.js";
import { Grid } from "./grid.js";
import { Key } from "./key.js";
import { CommandLine } from "./command.js";

const TYPES = ["string", "hash", "list", "set", "zset", "stream"];
const PAGE = 1_000;
const SIGNS = { string: "str", hash: "hash", list: "list", set: "set", zset: "zset", stream: "strm" };

export class KeysPanel {
  #hub;
  #grid;
  #keys = [];
  #seen = new Set();
  #figures = new Map();
  #asked = new Set();
  #cursor = null;
  #scan = 0;
  #scanned = 0;
  #size = 0;
  #progress;
  #note;
  #more;
  #pattern;
  #type;
  #side;
  #key = null;
  #line;
  #error = null;
  #isRunning = false;

  constructor(hub) {
    this.#hub = hub;
    this.#grid = new Grid({
      label: "Keys",
      sort: { by: "", descending: false },
      count: () => this.#keys.length,
      row: (index) => ({ name: this.#keys[index] }),
      key: (row) => row.name,
      columns: [
        {
          id: "type",
          title: "Type",
          min: 68,
          grow: 0.2,
          sortable: false,
          draw: (cell, row) => this.#typeCell(cell, row.name),
        },
        { id: "name", title: "Key", min: 160, grow: 5, sortable: false, text: (row) => row.name },
        {
          id: "ttl",
          title: "TTL",
          min: 88,
          rank: 2,
          number: true,
          sortable: false,
          text: (row) => this.#figure(row.name, "ttl"),
        },
        {
          id: "memory",
          title: "Memory",
          min: 80,
          rank: 1,
          number: true,
          sortable: false,
          text: (row) => this.#figure(row.name, "memory"),
        },
      ],
      open: (row) => {
        location.hash = `keys/${encodeURIComponent(row.name)}`;
      },
      sorted: () => {},
      moved: (from, rows) => this.#near(from + rows),
      empty: () => this.#emptyText(),
    });
    this.#line = new CommandLine(hub);
    this.#side = h("section.side.wide", { hidden: true, "aria-label": "Details" });
    this.element = h(
      "section.panel.stack",
      { "aria-label": "Keys" },
      h("div.split", h("div.main-part", this.#toolbar(), this.#grid.element), this.#side),
      this.#line.element,
    );
  }

  #toolbar() {
    this.#pattern = h("input", {
      type: "search",
      value: memory.get("keys.pattern", ""),
      placeholder: "Pattern, such as live:*  ( / )",
      "aria-label": "Pattern of keys",
      spellcheck: "false",
      oninput: later(() => this.#begin(), 300),
    });
    this.#type = h(
      "select",
      { "aria-label": "Type", onchange: () => this.#begin() },
      h("option", { value: "" }, "Any type"),
      TYPES.map((type) => h("option", { value: type }, type)),
    );
    this.#progress = h("progress", { max: 1, value: 0, "aria-label": "Progress of the scan" });
    this.#note = h("span.muted", { role: "status" });
    this.#more = h("button", { type: "button", hidden: true, onclick: () => this.#go() }, "More");
    const again = h(
      "button",
      { type: "button", title: "Scan again", onclick: () => this.#begin() },
      "↻ Scan",
    );
    return h("div.toolbar", this.#pattern, this.#type, again, this.#more, this.#progress, this.#note);
  }

  show(name) {
    if (this.#cursor === null) this.#begin();
    this.#line.start();
    this.#open(name);
  }

  hide() {
    this.#scan++;
    this.#isRunning = false;
    if (this.#cursor !== "0") this.#cursor = null;
  }

  escape() {
    if (this.#key !== null) location.hash = "keys";
  }

  async #begin() {
    this.#scan++;
    this.#keys = [];
    this.#seen.clear();
    this.#figures.clear();
    this.#asked.clear();
    this.#cursor = "0";
    this.#scanned = 0;
    this.#error = null;
    this.#isRunning = false;
    memory.set("keys.pattern", this.#pattern.value);
    this.#grid.top();
    this.#grid.draw();
    this.#size = Number(await this.#hub.do("DBSIZE").catch(() => 0));
    await this.#go();
  }

  // SCAN a page at a time, until a page of names is there; the rest on request.
  async #go() {
    const scan = this.#scan;
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#more.hidden = true;
    const target = this.#keys.length + PAGE;
    try {
      do {
        const reply = await this.#hub.do("SCAN", this.#cursor, ...this.#options());
        if (scan !== this.#scan) return;
        this.#cursor = String(reply[0]);
        this.#scanned += 500;
        for (const name of reply[1]) {
          if (!this.#seen.has(name)) this.#keys.push(name);
          this.#seen.add(name);
        }
        this.#tell();
      } while (this.#cursor !== "0" && this.#keys.length < target);
    } catch (error) {
      if (scan === this.#scan) this.#error = error;
    }
    if (scan !== this.#scan) return;
    this.#isRunning = false;
    this.#tell();
  }

  #options() {
    const pattern = this.#pattern.value.trim();
    const wish = /[*?[\\]/.test(pattern) ? pattern : `*${pattern}*`;
    return [
      ...(pattern === "" ? [] : ["MATCH", wish]),
      "COUNT",
      500,
      ...(this.#type.value === "" ? [] : ["TYPE", this.#type.value]),
    ];
  }

  #tell() {
    const isOver = this.#cursor === "0" && !this.#isRunning;
    const part = isOver ? 1 : Math.min(0.99, this.#size === 0 ? 0 : this.#scanned / this.#size);
    this.#progress.value = part;
    this.#progress.hidden = isOver;
    this.#more.hidden = this.#isRunning || isOver;
    const found = `${format.count(this.#keys.length)} ${this.#keys.length === 1 ? "key" : "keys"}`;
    write(this.#note, isOver ? found : `${found} · ${Math.round(part * 100)} % scanned`);
    this.#grid.draw();
  }

  #emptyText() {
    if (this.#error !== null) return `${this.#error.code}: ${this.#error.message}`;
    return this.#isRunning ? "Scanning…" : "No key matches";
  }

  // Type, TTL and memory are asked for the rows in sight only.
  #typeCell(cell, name) {
    const type =
      this.#type.value || this.#figures.get(name)?.type || (/^m[dx]:/.test(name) ? "hash" : undefined);
    if (cell.firstElementChild === null) fill(cell, h("span.type"));
    const badge = cell.firstElementChild;
    badge.className = `type ${type ?? ""}`;
    write(badge, type === undefined ? "" : (SIGNS[type] ?? type));
    this.#ask(name);
  }

  #figure(name, which) {
    const value = this.#figures.get(name)?.[which];
    if (value === undefined) return "";
    if (which === "memory") return format.bytes(value);
    return Number(value) < 0 ? format.LINE : format.duration(Math.ceil(value / 1000));
  }

  async #ask(name) {
    if (this.#asked.has(name)) return;
    this.#asked.add(name);
    const ask = (...command) => this.#hub.do(...command).catch(() => undefined);
    const [type, ttl, memory] = await Promise.all([
      ask("TYPE", name),
      ask("PTTL", name),
      ask("MEMORY", "USAGE", name),
    ]);
    this.#figures.set(name, { type, ttl, memory });
    this.#grid.draw();
  }

  // The next page of names comes before the end of those that are here is in sight.
  #near(last) {
    if (!this.#isRunning && this.#cursor !== null && this.#cursor !== "0" && last > this.#keys.length - 100)
      this.#go();
  }

  #open(name) {
    if (this.#key?.name === name) return;
    this.#key?.close();
    this.#key = name === null ? null : new Key(this.#hub, name, () => this.#gone(name));
    this.#side.hidden = name === null;
    fill(this.#side, this.#key?.element);
    this.#grid.select(name);
  }

  #gone(name) {
    this.#keys = this.#keys.filter((key) => key !== name);
    location.hash = "keys";
    this.#tell();
  }
}
