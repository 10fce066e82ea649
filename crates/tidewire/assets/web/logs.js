// The slow log, and the hub's log lines as they come.

import { choice, fill, h, write } from "./dom.js";
import * as format from "./format.js";
import { table } from "./cards.js";
import { LiveCard, PolledCard } from "./polled.js";

const PERIOD_MS = 5_000;
const KEPT = 300;
const LEVELS = { ERROR: 4, WARN: 3, INFO: 2, DEBUG: 1, TRACE: 0 };
const SIGNS = { ERROR: "✕", WARN: "▲", INFO: "·" };
const PLAIN = new Set(["time", "level", "target", "message"]);

export class SlowLogCard extends PolledCard {
  constructor(hub) {
    super(hub, PERIOD_MS, "Slow log", h("span.muted", "newest first"));
  }

  ask() {
    return this.hub.do("SLOWLOG", "GET", 20);
  }

  draw(entries) {
    const rows = entries.map(([, seconds, microseconds, command, client]) => [
      format.moment(seconds * 1000),
      format.latency(microseconds * 1000),
      h("code", command.join(" ").slice(0, 200)),
      format.line(client ?? null),
    ]);
    fill(
      this.body,
      table([["Time"], ["Took", true], ["Command"], ["Client"]], rows, "✓ No command has been slow"),
    );
  }
}

export class LogCard extends LiveCard {
  #log = null;
  #list;
  #lines = [];
  #least = "INFO";
  #error;
  #lost;

  constructor(hub) {
    const list = h("div.log", { role: "log", "aria-label": "Log lines", tabIndex: 0 });
    const error = h("p.error", { hidden: true });
    const lost = h("p.muted", { hidden: true });
    const level = choice(
      "Least level",
      [
        ["INFO", "Info"],
        ["WARN", "Warnings"],
        ["ERROR", "Errors"],
      ],
      "INFO",
      (value) => {
        this.#least = value;
        this.#follow();
      },
    );
    super(hub, "Log", level, error, lost, list);
    [this.#list, this.#error, this.#lost] = [list, error, lost];
    this.widen();
  }

  begin() {
    this.#follow();
  }

  end() {
    this.#log?.close();
    this.#log = null;
  }

  // The hub sends the lines of this level only: a busy lower level does not push them out.
  #follow() {
    this.end();
    this.#log = this.hub.log((lines, part) => this.#take(lines, part), {
      level: this.#least.toLowerCase(),
      lines: KEPT,
      failed: (error) => {
        this.#error.hidden = false;
        write(
          this.#error,
          error.code === "NOPERM"
            ? `This user may not read the log: it needs the right to MONITOR. (${error.message})`
            : `${error.code}: ${error.message}`,
        );
      },
    });
  }

  #take(lines, { snapshot, lost }) {
    this.#error.hidden = true;
    if (snapshot) this.#lines = [];
    this.#lost.hidden = lost === 0;
    write(this.#lost, `▲ ${format.count(lost)} lines came faster than this page took them`);
    this.#lines.push(...lines);
    this.#lines.splice(0, this.#lines.length - KEPT);
    this.#draw();
  }

  #draw() {
    const isAtEnd = this.#list.scrollTop + this.#list.clientHeight >= this.#list.scrollHeight - 8;
    fill(
      this.#list,
      this.#lines.length === 0 ? h("p.muted", "✓ No line of this level yet") : this.#lines.map(lineOf),
    );
    if (isAtEnd) this.#list.scrollTop = this.#list.scrollHeight;
  }
}

function lineOf(line) {
  const level = String(line.level).toUpperCase();
  const more = Object.entries(line).filter(([name]) => !PLAIN.has(name));
  const kind = level in LEVELS ? level.toLowerCase() : "info";
  return h(
    `div.log-line.${kind}`,
    h("time", String(line.time).slice(11, 23)),
    h("b", `${SIGNS[level] ?? "·"} ${level}`),
    h("span.target", line.target),
    h(
      "span.message",
      line.message,
      more.map(([name, value]) =>
        h("span.muted", ` ${name}=${typeof value === "string" ? value : JSON.stringify(value)}`),
      ),
    ),
  );
}
