// The command line: any Redis command of this user, with completion from COMMAND DOCS.

import { fill, h, memory } from "./dom.js";

const KEPT = 200;
const SHOWN = 8;

export class CommandLine {
  #hub;
  #input;
  #output;
  #list;
  #docs = null;
  #history;
  #at;
  #found = [];
  #chosen = -1;

  constructor(hub) {
    this.#hub = hub;
    this.#history = memory.get("commands", []);
    this.#at = this.#history.length;
    this.#output = h("div.output", { role: "log", "aria-label": "Replies", tabIndex: 0, hidden: true });
    this.#list = h("ul.completions", {
      role: "listbox",
      id: "completions",
      "aria-label": "Completions",
      hidden: true,
    });
    this.#input = h("input", {
      type: "text",
      placeholder: "Command, such as HGETALL md:AAPL",
      "aria-label": "Command",
      spellcheck: "false",
      autocomplete: "off",
      role: "combobox",
      "aria-controls": "completions",
      "aria-expanded": "false",
      oninput: () => this.#complete(),
      onkeydown: (event) => this.#key(event),
      onblur: () => this.#offer([]),
    });
    this.element = h(
      "div.command",
      this.#output,
      this.#list,
      h(
        "form.command-line",
        { onsubmit: (event) => this.#run(event) },
        h("span.prompt", { "aria-hidden": "true" }, "›"),
        this.#input,
      ),
    );
  }

  async start() {
    if (this.#docs !== null) return;
    this.#docs = [];
    try {
      this.#docs = readDocs(await this.#hub.do("COMMAND", "DOCS"));
      if (document.activeElement === this.#input) this.#complete();
    } catch {
      this.#docs = null; // no right to read them, or no connection: asked again next time
    }
  }

  #complete() {
    const text = this.#input.value.trimStart().toUpperCase();
    if (text === "" || this.#docs === null) {
      this.#offer([]);
      return;
    }
    const starting = this.#docs.filter(({ name }) => name.startsWith(text));
    const known = this.#docs.filter(({ name }) => text.startsWith(`${name} `)).slice(-1);
    this.#offer(starting.length > 0 ? starting.slice(0, SHOWN) : known);
  }

  #offer(found) {
    this.#found = found;
    this.#chosen = -1;
    this.#list.hidden = found.length === 0;
    this.#input.setAttribute("aria-expanded", String(found.length > 0));
    fill(
      this.#list,
      found.map((doc, index) =>
        h(
          "li",
          {
            role: "option",
            id: `completion-${index}`,
            onmousedown: (event) => {
              event.preventDefault();
              this.#take(index);
            },
          },
          h("b", doc.name),
          " ",
          h("span.syntax", doc.syntax),
          h("span.summary", doc.summary),
        ),
      ),
    );
  }

  #choose(step) {
    const options = [...this.#list.children];
    options[this.#chosen]?.removeAttribute("aria-selected");
    this.#chosen = (this.#chosen + step + options.length) % options.length;
    options[this.#chosen].setAttribute("aria-selected", "true");
    this.#input.setAttribute("aria-activedescendant", `completion-${this.#chosen}`);
  }

  #take(index) {
    this.#input.value = `${this.#found[index].name} `;
    this.#input.focus();
    this.#complete();
  }

  #key(event) {
    const { key } = event;
    if (
      key === "Tab" &&
      this.#found.length > 0 &&
      !event.shiftKey &&
      !this.#input.value.toUpperCase().startsWith(`${this.#found[0].name} `)
    ) {
      event.preventDefault();
      this.#take(Math.max(0, this.#chosen));
    } else if (key === "Escape" && this.#found.length > 0) {
      event.stopPropagation();
      this.#offer([]);
    } else if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      const step = key === "ArrowDown" ? 1 : -1;
      if (this.#found.length > 1) this.#choose(step);
      else this.#recall(step);
    } else if (key === "Enter" && this.#chosen >= 0) {
      event.preventDefault();
      this.#take(this.#chosen);
    }
  }

  #recall(step) {
    this.#at = Math.max(0, Math.min(this.#history.length, this.#at + step));
    this.#input.value = this.#history[this.#at] ?? "";
  }

  async #run(event) {
    event.preventDefault();
    const text = this.#input.value.trim();
    if (text === "") return;
    this.#input.value = "";
    this.#offer([]);
    this.#remember(text);
    const reply = h("pre.reply.pending", "…");
    this.#output.hidden = false;
    this.#output.append(h("div.entry", h("div.asked", `› ${hidden(text)}`), reply));
    while (this.#output.childElementCount > KEPT) this.#output.firstElementChild.remove();
    this.#output.scrollTop = this.#output.scrollHeight;
    try {
      const answer = await this.#hub.do(...words(text));
      reply.className = "reply";
      reply.textContent = written(answer);
    } catch (error) {
      reply.className = "reply error";
      reply.textContent = `✕ (error) ${error.code ?? ""} ${error.message}`;
    }
    this.#output.scrollTop = this.#output.scrollHeight;
  }

  #remember(text) {
    if (hidden(text) === text && this.#history.at(-1) !== text) this.#history.push(text);
    this.#history = this.#history.slice(-KEPT);
    this.#at = this.#history.length;
    memory.set("commands", this.#history);
  }
}

// A command with a password is neither shown nor kept.
function hidden(text) {
  return text.replace(
    /^(auth|hello|acl\s+setuser\s+\S+|config\s+set\s+(requirepass|masterauth|masteruser))\s.*$/i,
    "$1 •••",
  );
}

/** The words of a line, with "…" and '…' as redis-cli has them. */
export function words(text) {
  const found = [];
  const word = /"((?:\\.|[^"\\])*)"|'((?:\\'|[^'])*)'|(\S+)/gs;
  for (const [, double, single, plain] of text.matchAll(word)) {
    if (double !== undefined) found.push(unescape(double));
    else found.push(single === undefined ? plain : single.replaceAll("\\'", "'"));
  }
  return found;
}

function unescape(text) {
  const named = { n: "\n", r: "\r", t: "\t", b: "\b", a: "\x07" };
  return text.replace(/\\(x[0-9a-f]{2}|.)/gis, (_, what) =>
    what.length === 3 ? String.fromCharCode(parseInt(what.slice(1), 16)) : (named[what] ?? what),
  );
}

/** A reply as redis-cli writes it. */
export function written(value, indent = "") {
  if (value === null) return "(nil)";
  if (typeof value === "number") return Number.isInteger(value) ? `(integer) ${value}` : `(double) ${value}`;
  if (typeof value === "boolean") return value ? "(true)" : "(false)";
  if (typeof value === "string")
    return value.includes("\n") ? value : value === "OK" || value === "PONG" ? value : JSON.stringify(value);
  const isList = Array.isArray(value);
  const entries = isList
    ? value.map((one, index) => [`${index + 1})`, one])
    : Object.entries(value).map(([name, one]) => [`${JSON.stringify(name)} =>`, one]);
  if (entries.length === 0) return isList ? "(empty array)" : "(empty map)";
  const wide = isList ? String(entries.length).length + 1 : 0;
  return entries
    .map(([label, one], index) => {
      const start = `${index === 0 ? "" : indent}${label.padStart(wide)} `;
      return start + written(one, indent + " ".repeat(isList ? wide + 1 : 2));
    })
    .join("\n");
}

function readDocs(reply) {
  const docs = [];
  const add = (name, doc) => {
    docs.push({
      name: name.replace("|", " ").toUpperCase(),
      summary: doc.summary ?? "",
      syntax: (doc.arguments ?? []).map(syntax).join(" "),
    });
    for (const [inner, more] of Object.entries(doc.subcommands ?? {})) add(inner, more);
  };
  for (const [name, doc] of Object.entries(reply)) add(name, doc);
  return docs.sort((one, other) => (one.name < other.name ? -1 : 1));
}

function syntax(argument) {
  const flags = argument.flags ?? [];
  const inner = (argument.arguments ?? []).map(syntax);
  const type = argument.type;
  let text =
    type === "oneof"
      ? inner.join(" | ")
      : type === "block"
        ? inner.join(" ")
        : type === "pure-token"
          ? argument.token
          : (argument.display_text ?? argument.name);
  if (argument.token && type !== "pure-token") text = `${argument.token} ${text}`;
  if (flags.includes("multiple")) text = `${text} [${text} …]`;
  if (flags.includes("optional")) return `[${text}]`;
  return type === "oneof" ? `<${text}>` : text;
}
