// The cards of the hub's panel that work while they are in sight, and those that ask again and again.

import { fill, h } from "./dom.js";
import { card } from "./cards.js";

/** A card that works between `start` and `stop`: its class says what `begin` and `end` do. */
export class LiveCard {
  #isLive = false;

  constructor(hub, title, note, ...body) {
    this.hub = hub;
    this.element = card(title, note, ...body);
  }

  /** The card is as wide as the panel. */
  widen() {
    this.element.classList.add("wide");
  }

  start() {
    if (this.#isLive) return;
    this.#isLive = true;
    this.begin();
  }

  stop() {
    if (!this.#isLive) return;
    this.#isLive = false;
    this.end();
  }
}

/** A card that asks the hub once per period, and shows the answer: its class has `ask` and `draw`. */
export class PolledCard extends LiveCard {
  #period;
  #timer = null;

  constructor(hub, period, title, note, ...body) {
    const list = h("div");
    super(hub, title, note, ...body, list);
    this.#period = period;
    this.body = list;
    this.widen();
  }

  begin() {
    this.#timer = setInterval(() => this.#once(), this.#period);
    this.#once();
  }

  end() {
    clearInterval(this.#timer);
    this.#timer = null;
  }

  async #once() {
    if (document.hidden || this.hub.state.name !== "open") return;
    try {
      this.draw(await this.ask());
    } catch (error) {
      fill(this.body, h("p.error", `${error.code ?? "ERR"}: ${error.message}`));
    }
  }
}
