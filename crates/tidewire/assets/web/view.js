// A view of the hub, or, of a hub without views, the same made here from a subscription.

/** Like `hub.view`; `hub` may refuse views (NOTHERE). */
export function openView(hub, wish, listener, failed) {
  let view = hub.view(wish, listener, (error) => {
    if (error.code !== "NOTHERE") {
      failed(error);
      return;
    }
    view.close();
    view = new LocalView(hub, view.wish, listener, failed);
  });
  return { change: (more) => view.change(more), close: () => view.close() };
}

class LocalView {
  #wish;
  #listener;
  #subscription;
  #updates = new Map();
  #changed = new Map();
  #order = null;
  #timer = null;
  #told = 0;

  constructor(hub, wish, listener, failed) {
    this.#wish = { ...wish };
    this.#listener = listener;
    const options = { fields: wish.fields, hz: Math.min(wish.hz ?? 4, 4), failed };
    this.#subscription = hub.subscribe(wish.topics, (changes, batch) => this.#take(changes, batch), options);
  }

  close() {
    clearTimeout(this.#timer);
    this.#subscription.close();
  }

  change(wish) {
    const isMove = Object.keys(wish).every((name) => name === "from" || name === "rows");
    Object.assign(this.#wish, wish);
    if (!isMove) this.#order = null;
    this.#tell();
  }

  #take(changes, { snapshot, complete }) {
    for (const { name, fields, changed } of changes) {
      const isKnown = this.#updates.has(name);
      if (fields === null) this.#updates.delete(name);
      else this.#updates.set(name, (this.#updates.get(name) ?? 0) + 1);
      if (!isKnown || fields === null) this.#order = null;
      if (!snapshot) this.#changed.set(name, changed);
    }
    // A snapshot of many topics comes in parts: the page shows it while it grows.
    const now = performance.now();
    if (snapshot && !complete && now - this.#told < 250) return;
    this.#told = now;
    this.#tell();
  }

  // All names in order; an order that moves is made again once per second.
  #sorted() {
    if (this.#order !== null) return this.#order;
    const { sort = "name", descending, filter = "" } = this.#wish;
    const part = filter.toLowerCase();
    const { topics } = this.#subscription;
    const names = [...topics.keys()].filter((name) => name.toLowerCase().includes(part));
    const value =
      sort === "name"
        ? (name) => name
        : sort === "updates"
          ? (name) => this.#updates.get(name)
          : (name) => topics.get(name)?.[sort];
    const way = descending ? -1 : 1;
    names.sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === b) return one < other ? -1 : 1;
      if (a === undefined || b === undefined) return a === undefined ? 1 : -1;
      return (a < b ? -1 : 1) * way;
    });
    this.#order = names;
    clearTimeout(this.#timer);
    if (sort !== "name") {
      this.#timer = setTimeout(() => {
        this.#order = null;
        this.#tell();
      }, 1_000);
    }
    return names;
  }

  #tell() {
    const names = this.#sorted();
    const { from, rows } = this.#wish;
    const page = names.slice(from, from + rows).map((name) => ({
      name,
      fields: this.#subscription.topics.get(name) ?? null,
      changed: this.#changed.get(name) ?? null,
    }));
    this.#changed.clear();
    this.#listener({ total: names.length, from, rows: page });
  }
}
