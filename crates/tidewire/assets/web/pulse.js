// Reads the hub's INFO once per second while the page is in sight, and keeps its figures of the last minutes.

const SECTIONS = [
  "server",
  "clients",
  "memory",
  "persistence",
  "stats",
  "replication",
  "keyspace",
  "lanes",
  "shares",
  "topics",
  "feed",
  "plant",
  "cluster",
];
const COUNTERS = [
  "feed_applied_messages",
  "delivered_messages",
  "conflated_messages",
  "total_commands_processed",
  "total_net_input_bytes",
  "total_net_output_bytes",
  "plant_updates",
  "feed_gaps",
  "web_batches",
  "web_rows",
];
const KEPT = 600;

export class Pulse {
  #hub;
  #listeners = new Set();
  #failed = new Set();
  #before = null;
  now = null;
  /** Times in seconds, and by name the figures at these times. */
  times = [];
  history = new Map();

  constructor(hub) {
    this.#hub = hub;
    hub.on("state", ({ name }) => {
      if (name === "open") this.#read();
      else this.#before = null;
    });
    setInterval(() => this.#read(), 1_000);
  }

  on(listener) {
    this.#listeners.add(listener);
    if (this.now !== null) listener(this.now);
    return () => this.#listeners.delete(listener);
  }

  /** Called where this user may not read INFO. */
  onFailure(listener) {
    this.#failed.add(listener);
  }

  async #read() {
    if (document.hidden || this.#hub.state.name !== "open") return;
    try {
      this.#take(parse(await this.#hub.do("INFO", ...SECTIONS)));
    } catch (error) {
      if (error.code === "NOPERM") for (const listener of this.#failed) listener(error);
    }
  }

  #take(info) {
    const at = performance.now() / 1000;
    const rates = {};
    const before = this.#before;
    const seconds = before === null ? 0 : at - before.at;
    if (before !== null && seconds < 0.2) return;
    const isSame = before !== null && before.info.run_id === info.run_id;
    for (const name of COUNTERS) {
      if (info[name] === undefined) continue;
      rates[name] = isSame ? Math.max(0, (info[name] - before.info[name]) / seconds) : null;
    }
    this.now = { info, rates, lanes: lanes(info, isSame ? before.info : null, seconds) };
    this.#before = { info, at };
    this.#keep({
      ...rates,
      used_memory: Number(info.used_memory),
      used_memory_rss: Number(info.used_memory_rss),
      clients: Number(info.connected_clients),
    });
    for (const listener of this.#listeners) listener(this.now);
  }

  #keep(figures) {
    this.times.push(Date.now() / 1000);
    if (this.times.length > KEPT) this.times.shift();
    for (const [name, value] of Object.entries(figures)) {
      if (!this.history.has(name)) this.history.set(name, Array(this.times.length - 1).fill(null));
      const values = this.history.get(name);
      values.push(value);
      if (values.length > KEPT) values.shift();
    }
  }

  /** Values by time for a chart. */
  series(...names) {
    return [this.times, ...names.map((name) => this.history.get(name) ?? this.times.map(() => null))];
  }
}

/** The lines of INFO as an object. */
export function parse(text) {
  const info = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0 && line[0] !== "#") info[line.slice(0, at)] = line.slice(at + 1).trimEnd();
  }
  return info;
}

/** `a=1,b=2` as an object. */
export function parts(text) {
  return Object.fromEntries(
    (text ?? "")
      .split(",")
      .filter(Boolean)
      .map((part) => {
        const at = part.indexOf("=");
        return [part.slice(0, at), part.slice(at + 1)];
      }),
  );
}

function lanes(info, before, seconds) {
  const found = [];
  for (let number = 0; info[`lane${number}`] !== undefined; number++) {
    const now = parts(info[`lane${number}`]);
    const old = before === null ? null : parts(before[`lane${number}`]);
    const rate = (name) => (old === null ? null : (now[name] - old[name]) / seconds);
    found.push({
      number,
      connections: now.connections,
      doing: now.doing,
      sends: now.sends,
      turn: Number(now.turn_usec),
      busy: old === null ? null : Math.min(100, rate("busy_usec") / 1e4),
      turns: rate("turns"),
      reads: rate("reads"),
      writes: rate("writes"),
    });
  }
  return found;
}
