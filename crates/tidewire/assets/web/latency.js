// Latency over time: from the source's time to the receipt in the hub, sampled from the busiest topics.

import { h, write } from "./dom.js";
import * as format from "./format.js";
import { Chart } from "./chart.js";
import { LiveCard } from "./polled.js";
import { openView } from "./view.js";

const SAMPLED = 200;
const WINDOW_MS = 10_000;
const KEPT = 600;
const PERCENTILES = [0.5, 0.99, 0.999];

export class LatencyCard extends LiveCard {
  #view = null;
  #samples = [];
  #times = [];
  #values = PERCENTILES.map(() => []);
  #chart;
  #timer = null;
  #note;

  constructor(hub) {
    const note = h("span.muted", `source to hub, ${SAMPLED} busiest topics`);
    const chart = new Chart({
      label: "Latency percentiles over time",
      height: 180,
      format: format.latency,
      log: true,
      series: [
        { label: "p50", colour: "accent", width: 2 },
        { label: "p99", colour: "up", dash: [6, 3] },
        { label: "p99.9", colour: "down", dash: [2, 3] },
      ],
    });
    super(hub, "Latency", note, chart.element);
    [this.#note, this.#chart] = [note, chart];
  }

  begin() {
    const wish = {
      topics: ["md:*"],
      fields: ["ts", "recv_ts"],
      sort: "updates",
      descending: true,
      from: 0,
      rows: SAMPLED,
      hz: 2,
    };
    this.#view = openView(
      this.hub,
      wish,
      (page) => this.#take(page),
      (error) => write(this.#note, `${error.code}: ${error.message}`),
    );
    this.#timer = setInterval(() => this.#percentiles(), 1_000);
  }

  end() {
    this.#view?.close();
    this.#view = null;
    clearInterval(this.#timer);
  }

  #take({ rows }) {
    const at = performance.now();
    for (const { fields, changed } of rows) {
      if (changed?.ts === undefined || !format.isNumber(fields?.recv_ts)) continue;
      const latency = Number(fields.recv_ts) - Number(fields.ts);
      if (latency > 0 && latency < 60e9) this.#samples.push([at, latency]);
    }
  }

  #percentiles() {
    const oldest = performance.now() - WINDOW_MS;
    this.#samples = this.#samples.filter(([at]) => at >= oldest);
    const sorted = this.#samples.map(([, latency]) => latency).sort((one, other) => one - other);
    this.#times.push(Date.now() / 1000);
    PERCENTILES.forEach((part, index) => {
      this.#values[index].push(
        sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))],
      );
    });
    if (this.#times.length > KEPT) for (const values of [this.#times, ...this.#values]) values.shift();
    this.#chart.set([this.#times, ...this.#values]);
  }
}
