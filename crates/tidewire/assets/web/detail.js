// One topic beside the table: its figures, chart, price levels, fields and subscribers.

import { choice, fill, h, write } from "./dom.js";
import { flash } from "./grid.js";
import { Chart } from "./chart.js";
import * as format from "./format.js";
import { mark } from "./marks.js";
import { Ladder } from "./ladder.js";

const KEPT = 3_000;
const BARS = ["open", "high", "low", "close"];

export class Detail {
  #hub;
  #subscription;
  #fields = {};
  #cells = new Map();
  #table;
  #head;
  #chart = null;
  #chartBox;
  #points;
  #ladder = null;
  #bars = null;
  #numbers;
  #timer;
  #status;

  constructor(hub, name) {
    this.#hub = hub;
    this.name = name;
    this.symbol = name.startsWith("md:") ? name.slice(3) : null;
    this.#points = { times: [], last: [], bid: [], ask: [], value: [] };
    this.#head = h("div.quote");
    this.#status = h("p.error", { hidden: true, role: "alert" });
    this.#chartBox = h("div.chart-box");
    this.#table = h("dl.facts.fields");
    this.#numbers = h("span.muted");
    this.element = h(
      "div.detail",
      h(
        "div.detail-head",
        h("h2", { title: name }, this.symbol ?? name),
        this.#numbers,
        h(
          "button.plain.icon.close",
          {
            type: "button",
            title: "Close (Esc)",
            "aria-label": "Close",
            onclick: () => {
              location.hash = "topics";
            },
          },
          "×",
        ),
      ),
      this.#head,
      this.#status,
      this.#body(),
    );
    this.#subscription = hub.subscribe(name, (changes) => this.#take(changes), {
      hz: 20,
      failed: (error) => this.#failed(error),
    });
    this.#timer = setInterval(() => this.#count(), 3_000);
    this.#count();
  }

  close() {
    clearInterval(this.#timer);
    this.#subscription.close();
    this.#bars?.subscription.close();
    this.#ladder?.close();
    this.#chart?.close();
  }

  #body() {
    const fields = h("section.block", h("h3", "Fields"), this.#table);
    const since = h("p.muted.since", `Since ${format.moment(Date.now())}: the hub keeps the newest values, not the past ones.`);
    if (this.symbol === null) return [h("section.block", h("h3", "Trend"), this.#chartBox, since), fields];
    this.#ladder = new Ladder(this.#hub, this.symbol);
    const kinds = choice(
      "Chart",
      [
        ["ticks", "Ticks"],
        ["1s", "1 s bars"],
        ["1m", "1 m bars"],
      ],
      "ticks",
      (kind) => this.#show(kind),
    );
    this.#show("ticks");
    return [
      h("section.block", h("div.block-head", h("h3", "Price"), kinds), this.#chartBox, since),
      this.#ladder.element,
      fields,
    ];
  }

  #failed(error) {
    write(this.#status, `${error.code}: ${error.message}`);
    this.#status.hidden = false;
  }

  async #count() {
    try {
      const reply = await this.#hub.do("PUBSUB", "NUMSUB", this.name);
      const number = Array.isArray(reply) ? reply[1] : Object.values(reply)[0];
      write(this.#numbers, `${format.count(number)} ${Number(number) === 1 ? "subscriber" : "subscribers"}`);
    } catch {
      write(this.#numbers, "");
    }
  }

  #take(changes) {
    for (const { name, fields, changed } of changes) {
      if (name !== this.name) continue;
      this.#fields = fields ?? {};
      if (fields === null) this.#failed({ code: "GONE", message: "the topic has no value any more" });
      else this.#status.hidden = true;
      this.#note(fields);
      this.#drawHead();
      this.#drawFields(changed);
    }
  }

  #note(fields) {
    if (fields === null) return;
    const points = this.#points;
    points.times.push(Math.max(Date.now() / 1000, (points.times.at(-1) ?? 0) + 0.001));
    for (const name of ["last", "bid", "ask", "value"])
      points[name].push(format.isNumber(fields[name]) ? Number(fields[name]) : null);
    if (points.times.length > KEPT) for (const values of Object.values(points)) values.shift();
    if (this.symbol === null && this.#chart === null && format.isNumber(fields.value)) this.#show("value");
    this.#drawTicks();
    this.#ladder?.quote(fields);
  }

  #drawTicks() {
    const { times, last, bid, ask, value } = this.#points;
    if (this.#chart?.kind === "ticks") this.#chart.set([times, last, bid, ask]);
    if (this.#chart?.kind === "value") this.#chart.set([times, value]);
  }

  #show(kind) {
    this.#chart?.close();
    const height = 190;
    if (kind === "ticks") {
      this.#chart = new Chart({
        label: `Last, bid and ask of ${this.symbol}`,
        height,
        format: format.price,
        series: [
          { label: "Last", colour: "accent", width: 2, step: true },
          { label: "Bid", colour: "up", dash: [6, 3], step: true },
          { label: "Ask", colour: "down", dash: [2, 3], step: true },
        ],
      });
    } else if (kind === "value") {
      this.#chart = new Chart({
        label: `Values of ${this.name}`,
        height,
        format: format.price,
        series: [{ label: "Value", colour: "accent", step: true }],
      });
    } else {
      this.#chart = new Chart({
        label: `Bars of ${this.symbol}`,
        height,
        format: format.price,
        candles: true,
        series: BARS.map((label) => ({ label: label[0].toUpperCase() + label.slice(1), colour: "text" })),
      });
      this.#followBars(kind);
    }
    this.#chart.kind = kind;
    fill(this.#chartBox, this.#chart.element);
    this.#drawTicks();
  }

  // The hub makes bars of a symbol from the first request on.
  #followBars(interval) {
    if (this.#bars?.interval === interval) {
      this.#drawBars();
      return;
    }
    this.#bars?.subscription.close();
    const bars = { interval, byStart: new Map() };
    this.#bars = bars;
    bars.subscription = this.#hub.subscribe(
      `bar:${interval}:${this.symbol}`,
      (changes) => {
        for (const { fields } of changes) {
          if (fields?.start === undefined || !format.isNumber(fields.close)) continue;
          bars.byStart.set(Number(fields.start), fields);
          if (bars.byStart.size > KEPT) bars.byStart.delete(bars.byStart.keys().next().value);
        }
        this.#drawBars();
      },
      { hz: 10, failed: (error) => this.#failed(error) },
    );
  }

  #drawBars() {
    if (this.#chart?.kind !== this.#bars.interval) return;
    const bars = [...this.#bars.byStart].sort(([one], [other]) => one - other);
    this.#chart.set([
      bars.map(([start]) => start / 1e9),
      ...BARS.map((name) => bars.map(([, fields]) => Number(fields[name]))),
    ]);
  }

  #drawHead() {
    const fields = this.#fields;
    if (this.symbol === null) {
      fill(this.#head, h("span.big", format.line(fields.value ?? null)));
      return;
    }
    const found = mark(fields);
    const change = format.way(fields.change_pct);
    const pair = (label, value) => [h("dt", label), h("dd", value)];
    fill(
      this.#head,
      h("span.big", format.price(fields.last)),
      h(
        `span.change${change > 0 ? ".is-up" : change < 0 ? ".is-down" : ""}`,
        format.change(fields.change_pct),
      ),
      found && h("span.chip", { title: found[2] }, `${found[0]} ${found[1]}`),
      h(
        "dl.pairs",
        pair("Bid", `${format.price(fields.bid)} × ${format.count(fields.bid_size)}`),
        pair("Ask", `${format.price(fields.ask)} × ${format.count(fields.ask_size)}`),
        pair("Low – high", `${format.price(fields.low)} – ${format.price(fields.high)}`),
        pair("VWAP", format.price(fields.vwap && Number(fields.vwap).toFixed(4))),
        pair("Volume", format.count(fields.volume)),
        pair("Venue", format.line(fields.venue ?? null)),
      ),
    );
  }

  #drawFields(changed) {
    const names = Object.keys(this.#fields);
    if (names.length !== this.#cells.size || names.some((name) => !this.#cells.has(name))) {
      this.#cells = new Map(names.map((name) => [name, h("dd")]));
      fill(
        this.#table,
        [...this.#cells].map(([name, cell]) => [h("dt", name), cell]),
      );
    }
    for (const [name, cell] of this.#cells) {
      const before = cell.textContent;
      const text = format.field(name, this.#fields[name]);
      write(cell, text);
      if (
        changed !== null &&
        name in changed &&
        before !== "" &&
        before !== text &&
        !["ts", "recv_ts", "seq"].includes(name)
      ) {
        flash(cell, parseFloat(text.replaceAll(",", "")) >= parseFloat(before.replaceAll(",", "")));
      }
    }
  }
}
