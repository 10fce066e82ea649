// The slow log, and the hub's log lines as they come.

import { choice, fill, h } from "./dom.js";
import * as format from "./format.js";
import { card, table } from "./cards.js";

const PERIOD_MS = 5_000;
const KEPT = 300;
const LEVELS = { ERROR: 4, WARN: 3, INFO: 2, DEBUG: 1, TRACE: 0 };
const SIGNS = { ERROR: "✕", WARN: "▲", INFO: "·" };

export class SlowLogCard {
  #hub;
  #body;
  #timer = null;

  constructor(hub) {
    this.#hub = hub;
    this.#body = h("div");
    this.element = card("Slow log", h("span.muted", "newest first"), this.#body);
    this.element.classList.add("wide");
  }

  start() {
    this.#timer ??= setInterval(() => this.#ask(), PERIOD_MS);
    this.#ask();
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = null;
  }

  async #ask() {
    if (document.hidden || this.#hub.state.name !== "open") return;
    try {
      const entries = await this.#hub.do("SLOWLOG", "GET", 20);
      const rows = entries.map(([, seconds, microseconds, command, client]) => [
        format.moment(seconds * 1000),
        format.latency(microseconds * 1000),
        h("code", command.join(" ").slice(0, 200)),
        format.line(client ?? null),
      ]);
      fill(
        this.#body,
        table([["Time"], ["Took", true], ["Command"], ["Client"]], rows, "✓ No command has been slow"),
      );
    } catch (error) {
      fill(this.#body, h("p.error", `${error.code}: ${error.message}`));
    }
  }
}

export class LogCard {
  #hub;
  #log = null;
  #list;
  #lines = [];
  #least = "INFO";
  #error;

  constructor(hub) {
    this.#hub = hub;
    this.#list = h("div.log", { role: "log", "aria-label": "Log lines", tabIndex: 0 });
    this.#error = h("p.error", { hidden: true });
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
        this.#draw();
      },
    );
    this.element = card("Log", level, this.#error, this.#list);
    this.element.classList.add("wide");
  }

  start() {
    this.#log ??= this.#hub.log(
      (rows) => this.#take(rows),
      (error) => {
        this.#error.hidden = false;
        this.#error.textContent =
          error.code === "NOTHERE"
            ? "This hub does not send its log lines."
            : `${error.code}: ${error.message}`;
      },
    );
  }

  stop() {
    this.#log?.close();
    this.#log = null;
  }

  #take(rows) {
    this.#error.hidden = true;
    this.#lines.push(...rows);
    this.#lines.splice(0, this.#lines.length - KEPT);
    this.#draw();
  }

  #draw() {
    const isAtEnd = this.#list.scrollTop + this.#list.clientHeight >= this.#list.scrollHeight - 8;
    const shown = this.#lines.filter(({ level }) => (LEVELS[level] ?? 2) >= LEVELS[this.#least]);
    fill(
      this.#list,
      shown.map(({ time, level, target, message }) =>
        h(
          `div.log-line.${String(level).toLowerCase().replace(/\W/g, "")}`,
          h("time", String(time).slice(11, 23)),
          h("b", `${SIGNS[level] ?? "·"} ${level}`),
          h("span.target", target),
          h("span.message", message),
        ),
      ),
    );
    if (isAtEnd) this.#list.scrollTop = this.#list.scrollHeight;
  }
}
