// One key beside the list: its type's own form, TTL, memory, edits with the user's own rights.

import { confirm, fill, h, write } from "./dom.js";
import * as format from "./format.js";
import { KINDS, LONGEST } from "./kinds.js";

const MOUNTED = /^(md:|mx:|bar:(1s|1m|1h|1d):)/;

export class Key {
  #hub;
  #gone;
  #type = "";
  #facts;
  #body;
  #error;
  #ttl;
  #rows;
  #token;
  #more;
  #badge;
  #isReadOnly;

  constructor(hub, name, gone) {
    this.#hub = hub;
    this.name = name;
    this.#gone = gone;
    this.#isReadOnly = MOUNTED.test(name);
    this.#badge = h("span.type");
    this.#facts = h("dl.pairs");
    this.#body = h("div.key-body");
    this.#error = h("p.error", { role: "alert", hidden: true });
    this.#ttl = h("div.ttl");
    const remove = h("button.danger-plain", { type: "button", onclick: () => this.#remove() }, "Delete…");
    const again = h(
      "button",
      { type: "button", onclick: () => this.load(), title: "Read the key again" },
      "↻",
    );
    this.element = h(
      "div.detail",
      h(
        "div.detail-head",
        h("h2", { title: name }, name),
        this.#badge,
        again,
        this.#isReadOnly ? null : remove,
        h(
          "button.plain.icon.close",
          {
            type: "button",
            title: "Close (Esc)",
            "aria-label": "Close",
            onclick: () => {
              location.hash = "keys";
            },
          },
          "×",
        ),
      ),
      this.#facts,
      this.#ttl,
      this.#error,
      this.#body,
    );
    this.load();
  }

  close() {
    this.closed = true;
  }

  async load() {
    this.#error.hidden = true;
    await this.#try(async () => {
      this.#type = await this.#hub.do("TYPE", this.name);
      if (this.closed) return;
      if (this.#type === "none") {
        fill(this.#body, h("p.muted", "This key does not exist (any more)."));
        return;
      }
      this.#badge.className = `type ${this.#type}`;
      write(this.#badge, this.#type);
      await Promise.all([this.#describe(), this.#show()]);
    });
  }

  // Every request of the key: what is refused is shown, and nothing else changes.
  async #try(task) {
    try {
      await task();
      return true;
    } catch (error) {
      write(this.#error, `✕ ${error.code}: ${error.message}`);
      this.#error.hidden = false;
      return false;
    }
  }

  async #describe() {
    const kind = KINDS[this.#type];
    const ask = (...command) => this.#hub.do(...command).catch(() => null);
    const [ttl, size, encoding, length] = await Promise.all([
      ask("PTTL", this.name),
      ask("MEMORY", "USAGE", this.name),
      ask("OBJECT", "ENCODING", this.name),
      kind ? ask(kind.length, this.name) : null,
    ]);
    const pair = (label, value) => [h("dt", label), h("dd", value)];
    fill(
      this.#facts,
      pair(this.#type === "string" ? "Bytes" : "Length", format.count(length)),
      pair("Memory", format.bytes(size)),
      pair("Encoding", format.line(encoding)),
      pair(
        "TTL",
        ttl === null ? format.LINE : Number(ttl) < 0 ? "none" : format.duration(Math.ceil(ttl / 1000)),
      ),
    );
    this.#drawTtl(Number(ttl) >= 0);
  }

  #drawTtl(has) {
    if (this.#isReadOnly) {
      fill(this.#ttl, h("p.muted", "A live source writes this key: it is read-only here."));
      return;
    }
    const seconds = h("input", {
      type: "number",
      min: 1,
      name: "ttl",
      placeholder: "seconds",
      "aria-label": "TTL in seconds",
    });
    const set = async (event) => {
      event.preventDefault();
      if (seconds.value !== "") await this.#change(["EXPIRE", this.name, seconds.value]);
    };
    fill(
      this.#ttl,
      h(
        "form.inline",
        { onsubmit: set },
        h("label", "TTL ", seconds),
        h("button", { type: "submit" }, "Set"),
        has &&
          h("button", { type: "button", onclick: () => this.#change(["PERSIST", this.name]) }, "Remove TTL"),
      ),
    );
  }

  async #change(command) {
    const isDone = await this.#try(() => this.#hub.do(...command));
    if (isDone && !this.closed) await this.load();
    return isDone;
  }

  async #remove() {
    const agreed = await confirm({
      title: "Delete this key?",
      yes: "Delete",
      danger: true,
      lines: [
        ["Key", this.name],
        ["Type", this.#type],
      ],
    });
    if (agreed && (await this.#try(() => this.#hub.do("UNLINK", this.name)))) this.#gone();
  }

  async #show() {
    if (this.#type === "string") return this.#showText();
    const kind = KINDS[this.#type];
    if (kind === undefined) {
      fill(
        this.#body,
        h("p.muted", `Values of the type ${this.#type} are not shown here; use the command line.`),
      );
      return;
    }
    this.#rows = h("tbody");
    this.#token = null;
    this.#more = h(
      "button",
      { type: "button", hidden: true, onclick: () => this.#try(() => this.#page(kind)) },
      "More",
    );
    const heads = [...kind.columns, ...(this.#isReadOnly ? [] : [h("span.unseen", "Actions")])].map((title) =>
      h("th", { scope: "col" }, title),
    );
    const table = h("table.values", h("thead", h("tr", heads)), this.#rows);
    fill(this.#body, h("div.scroll", table), this.#more, !this.#isReadOnly && kind.add && this.#adding(kind));
    await this.#page(kind);
  }

  async #page(kind) {
    const { rows, next } = await kind.page(this.#hub, this.name, this.#token);
    this.#token = next;
    this.#more.hidden = next === null;
    for (const row of rows) this.#rows.append(this.#row(kind, row));
  }

  #row(kind, row) {
    const line = h("tr");
    const cells = row.map((value, index) =>
      h(index === 0 ? "td.first" : "td", h("span.text", format.line(value))),
    );
    const tools = this.#isReadOnly
      ? null
      : h(
          "td.tools",
          kind.edit &&
            h(
              "button.plain",
              { type: "button", "aria-label": `Edit ${row[0]}`, onclick: () => this.#edit(kind, row, cells) },
              "Edit",
            ),
          kind.remove &&
            h(
              "button.plain",
              {
                type: "button",
                "aria-label": `Remove ${row[0]}`,
                onclick: () => this.#change(kind.remove(this.name, row)),
              },
              "Remove",
            ),
        );
    put(line, cells, tools);
    return line;
  }

  #edit(kind, row, cells) {
    const cell = cells[kind.edited];
    const input = h("input", {
      type: "text",
      value: format.line(row[kind.edited]),
      "aria-label": "New value",
      spellcheck: "false",
    });
    const back = () => fill(cell, h("span.text", format.line(row[kind.edited])));
    const save = (event) => {
      event.preventDefault();
      this.#change(kind.edit(this.name, row, input.value));
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      back();
    });
    fill(
      cell,
      h(
        "form.inline",
        { onsubmit: save },
        input,
        h("button.primary", { type: "submit" }, "Save"),
        h("button", { type: "button", onclick: back }, "Cancel"),
      ),
    );
    input.focus();
    input.select();
  }

  #adding(kind) {
    const inputs = kind.add.names.map((name) =>
      h("input", {
        type: "text",
        placeholder: name,
        "aria-label": name,
        required: true,
        spellcheck: "false",
      }),
    );
    const add = (event) => {
      event.preventDefault();
      this.#change(
        kind.add.command(
          this.name,
          inputs.map((input) => input.value),
        ),
      );
    };
    return h("form.inline.add", { onsubmit: add }, inputs, h("button", { type: "submit" }, "Add"));
  }

  async #showText() {
    const text = await this.#hub.do("GETRANGE", this.name, 0, LONGEST - 1);
    const isBinary = text.startsWith("base64:");
    const isLong = text.length >= LONGEST;
    const area = h("textarea", {
      value: text,
      rows: 8,
      "aria-label": "Value",
      spellcheck: "false",
      readOnly: isBinary || isLong || this.#isReadOnly,
    });
    const save = h(
      "button.primary",
      {
        type: "button",
        disabled: true,
        onclick: () => this.#change(["SET", this.name, area.value, "KEEPTTL"]),
      },
      "Save",
    );
    area.addEventListener("input", () => {
      save.disabled = area.value === text;
    });
    const note = isBinary
      ? "Bytes that are not UTF-8, as base64: read only."
      : isLong
        ? `The first ${format.bytes(LONGEST)}: read only.`
        : null;
    fill(
      this.#body,
      area,
      note && h("p.muted", note),
      area.readOnly ? null : h("div.actions", save),
      this.#pretty(text),
    );
  }

  #pretty(text) {
    if (!/^\s*[[{]/.test(text)) return null;
    try {
      return h(
        "details",
        { open: true },
        h("summary", "As JSON"),
        h("pre", JSON.stringify(JSON.parse(text), null, 2)),
      );
    } catch {
      return null;
    }
  }
}

function put(line, cells, tools) {
  line.append(...cells);
  if (tools !== null) line.append(tools);
}
