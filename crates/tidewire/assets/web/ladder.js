// The price levels of a symbol: asks above, bids below, sizes as bars.

import { fill, h, write } from "./dom.js";
import * as format from "./format.js";

const LEVELS = 10;
const PERIOD_MS = 250;

export class Ladder {
  #hub;
  #symbol;
  #timer;
  #asking = false;
  #rows;
  #note;
  #quote = null;
  #known = false;
  #body;

  constructor(hub, symbol) {
    this.#hub = hub;
    this.#symbol = symbol;
    this.#note = h("span.muted");
    this.#body = h("div.ladder", { role: "table", "aria-label": "Price levels" });
    this.#rows = [];
    this.element = h("section.block", h("div.block-head", h("h3", "Depth"), this.#note), this.#body);
    this.#timer = setInterval(() => this.#ask(), PERIOD_MS);
    this.#ask();
  }

  close() {
    clearInterval(this.#timer);
  }

  /** The best prices, for a source that gives no levels. */
  quote(fields) {
    this.#quote = fields;
    if (!this.#known)
      this.#draw(
        [[fields.bid, fields.bid_size, fields.bid_orders]],
        [[fields.ask, fields.ask_size, fields.ask_orders]],
      );
  }

  async #ask() {
    if (this.#asking || document.hidden || this.#hub.state.name !== "open") return;
    this.#asking = true;
    try {
      const book = await this.#hub.do("TIDEWIRE.BOOK", this.#symbol, "LEVELS", LEVELS);
      this.#known = book.bids.length + book.asks.length > 0;
      const certain = Number(book.depth);
      write(
        this.#note,
        !this.#known
          ? "best prices only: the source gives no levels"
          : certain === 65536
            ? "all levels"
            : `${certain} levels certain`,
      );
      if (this.#known) this.#draw(book.bids, book.asks);
      else if (this.#quote !== null) this.quote(this.#quote);
    } catch (error) {
      write(this.#note, error.code === "NOPERM" ? "this user may not read levels" : error.message);
    } finally {
      this.#asking = false;
    }
  }

  #draw(bids, asks) {
    const sides = [
      ...asks
        .slice(0, LEVELS)
        .map((level) => ["ask", level])
        .reverse(),
      ...bids.slice(0, LEVELS).map((level) => ["bid", level]),
    ].filter(([, level]) => format.isNumber(level[0]));
    const most = Math.max(1, ...sides.map(([, level]) => Number(level[1])));
    while (this.#rows.length < sides.length) this.#rows.push(row());
    if (this.#body.childElementCount !== sides.length)
      fill(
        this.#body,
        this.#rows.slice(0, sides.length).map(({ element }) => element),
      );
    sides.forEach(([side, [price, size, orders]], index) => {
      const { element, cells, bar } = this.#rows[index];
      element.className = `level ${side}`;
      write(cells[0], side);
      write(cells[1], Number(orders) > 0 ? format.count(orders) : "");
      write(cells[2], format.count(size));
      write(cells[3], format.price(price));
      bar.style.width = `${(Number(size) / most) * 100}%`;
    });
  }
}

function row() {
  const bar = h("span.level-bar", { "aria-hidden": "true" });
  const cells = ["side", "orders", "size", "price"].map((name) => h(`span.level-${name}`, { role: "cell" }));
  return { element: h("div.level", { role: "row" }, cells, h("span.level-track", bar)), cells, bar };
}
