// One plant tag beside the table: value, quality, trend, a write with its outcome, limits.

import { confirm, fill, h, write } from "./dom.js";
import * as format from "./format.js";
import { Chart } from "./chart.js";
import { alarm, CLASSES, limits } from "./alarms.js";

const KEPT = 3_000;

export class Tag {
  #hub;
  #subscription;
  #fields = {};
  #chart = null;
  #box;
  #times = [];
  #values = [];
  #value;
  #quality;
  #facts;
  #input;
  #outcome;
  #button;
  #changed;
  #status;
  #timer;

  constructor(hub, name, changed) {
    this.#hub = hub;
    this.name = name;
    this.short = name.replace(/^mx:/, "");
    this.#changed = changed;
    this.#value = h("span.big", format.LINE);
    this.#quality = h("span.quality");
    this.#facts = h("dl.pairs");
    this.#box = h("div.chart-box");
    this.#status = h("p.error", { role: "alert", hidden: true });
    this.element = h(
      "div.detail",
      h(
        "div.detail-head",
        h("h2", { title: name }, this.short),
        h(
          "button.plain.icon.close",
          {
            type: "button",
            title: "Close (Esc)",
            "aria-label": "Close",
            onclick: () => {
              location.hash = "plant";
            },
          },
          "×",
        ),
      ),
      h("div.quote", this.#value, this.#quality, this.#facts),
      this.#status,
      this.#writing(),
      h("section.block", h("h3", "Trend"), this.#box),
      this.#limiting(),
    );
    this.#timer = setInterval(() => this.#note(this.#fields.value), 1_000);
    this.#subscription = hub.subscribe(name, (changes) => this.#take(changes), {
      hz: 10,
      failed: (error) => this.#failed(error),
    });
  }

  close() {
    clearInterval(this.#timer);
    this.#subscription.close();
    this.#chart?.close();
  }

  #failed(error) {
    write(this.#status, `${error.code}: ${error.message}`);
    this.#status.hidden = false;
  }

  #writing() {
    this.#input = h("input", {
      type: "text",
      name: "value",
      "aria-label": `New value of ${this.short}`,
      placeholder: "New value",
      spellcheck: "false",
      autocomplete: "off",
    });
    this.#button = h("button.primary", { type: "submit" }, "Write…");
    this.#outcome = h("p.outcome", { role: "status", "aria-live": "polite" });
    return h(
      "section.block",
      h("h3", "Write to the plant"),
      h("form.inline", { onsubmit: (event) => this.#write(event) }, this.#input, this.#button),
      this.#outcome,
    );
  }

  async #write(event) {
    event.preventDefault();
    const value = this.#input.value;
    if (value === "") return;
    const agreed = await confirm({
      title: "Write to the plant?",
      yes: "Write",
      danger: true,
      lines: [
        ["Tag", this.short],
        ["Now", format.line(this.#fields.value ?? null)],
        ["New value", value],
      ],
    });
    if (!agreed) return;
    const started = performance.now();
    this.#button.disabled = true;
    this.#show("pending", "… waiting for the plant");
    try {
      await this.#hub.set(this.name, value);
      this.#show(
        "ok",
        `✓ ok: the plant accepted ${value} after ${Math.round(performance.now() - started)} ms`,
      );
      this.#input.value = "";
    } catch (error) {
      this.#refused(error);
    } finally {
      this.#button.disabled = false;
    }
  }

  #refused({ code, message }) {
    if (code === "UNKNOWN")
      this.#show("unknown", `? unknown: ${message}. The plant may or may not have the value: check there`);
    else if (code === "NOLINK") this.#show("refused", `✕ not sent: ${message}`);
    else
      this.#show("refused", `✕ refused: ${code === "REFUSED" || code === "ERR" ? "" : `${code} `}${message}`);
  }

  #show(kind, text) {
    this.#outcome.className = `outcome ${kind}`;
    write(this.#outcome, text);
  }

  #limiting() {
    const { low, high } = limits.of(this.name);
    const input = (name, value) =>
      h("input", { type: "number", step: "any", name, value: value ?? "", "aria-label": `${name} limit` });
    const keep = (event) => {
      const form = event.target.form;
      const number = (name) =>
        form.elements[name].value === "" ? undefined : Number(form.elements[name].value);
      limits.set(this.name, { low: number("low"), high: number("high") });
      this.#draw();
      this.#changed();
    };
    return h(
      "section.block",
      h("div.block-head", h("h3", "Alarm limits"), h("span.muted", "kept in this browser")),
      h(
        "form.inline",
        { onsubmit: (event) => event.preventDefault(), onchange: keep },
        h("label", "Low ", input("low", low)),
        h("label", "High ", input("high", high)),
      ),
    );
  }

  #take(changes) {
    for (const { name, fields, changed } of changes) {
      if (name !== this.name || fields === null) continue;
      this.#fields = fields;
      this.#status.hidden = true;
      if (changed !== null && "value" in changed) this.#note(fields.value);
      this.#draw();
    }
  }

  #note(value) {
    if (!format.isNumber(value) || this.#hub.state.name !== "open") return;
    this.#times.push(Math.max(Date.now() / 1000, (this.#times.at(-1) ?? 0) + 0.001));
    this.#values.push(Number(value));
    if (this.#times.length > KEPT) {
      this.#times.shift();
      this.#values.shift();
    }
    if (this.#values.length < 2) return;
    if (this.#chart === null) {
      this.#chart = new Chart({
        label: `Trend of ${this.short}`,
        height: 170,
        format: format.price,
        series: [{ label: "Value", colour: "accent", width: 2, step: true }],
      });
      fill(this.#box, this.#chart.element);
    }
    this.#chart.set([this.#times, this.#values]);
  }

  #draw() {
    const fields = this.#fields;
    write(this.#value, format.line(fields.value ?? null));
    if (fields.quality !== undefined) {
      const { rank, sign, text } = alarm(this.name, fields);
      this.#quality.className = `quality ${CLASSES[rank]}`;
      write(this.#quality, `${sign} ${text}`);
    }
    const pair = (label, text) => [h("dt", label), h("dd", text)];
    fill(
      this.#facts,
      pair("Type", format.line(fields.type ?? null)),
      pair("Quality", `${fields.quality ?? format.LINE} ${fields.quality_text ?? ""}`),
      pair("Plant time", format.time(fields.ts)),
      pair("Received", format.time(fields.recv_ts)),
      pair("Status", format.line(fields.status ?? null)),
      pair("Freshness", format.STALE[fields.stale] ?? format.LINE),
    );
  }
}
