// Tidewire's client for browsers and Node: one connection, subscriptions that begin with the current
// values and survive a lost connection, views of many topics, and requests. It has no dependencies.
// The protocol: docs/web-protocol.md. The types: tidewire.d.ts.

const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 5_000;
const QUIET_MS = 15_000; // after this silence the hub is asked for a sign of life
const DEAD_MS = 25_000; // after this silence the connection counts as lost
const BUSY_RETRY_MS = 1_000; // between two tries of a subscription while a script holds the hub
const PROTOCOL = "tidewire.json.1";

/** What the hub, or this client, refused: `code` is a word such as NOPERM, the message is for people. */
export class HubError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "HubError";
    this.code = code;
  }
}

/** Connects to the hub at `url`: by default the one that has served the page. */
export function connect(url, options) {
  return new Hub(url ?? ownAddress(), options);
}

function ownAddress() {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/stream`;
}

export class Hub {
  #url; #options; #socket = null; #hello = null; #state; #credentials = null;
  #listeners = new Map(); #requests = new Map(); #streams = new Map(); #names = new Map();
  #number = 0; #retry = FIRST_RETRY_MS; #retryTimer = null; #watch = null; #heard = 0; #drawn = null;
  #run;

  constructor(url, options = {}) {
    this.#url = url;
    this.#options = { WebSocket: globalThis.WebSocket, frame: nextFrame, now: Date.now, ...options };
    this.#credentials = options.user ? { user: options.user, password: options.password } : null;
    this.#state = { name: "connecting" };
    globalThis.addEventListener?.("online", () => {
      if (this.#state.name === "waiting") this.reconnect();
    });
    this.#open();
  }

  /** `{name, …}`: connecting, open, login (a user is needed), waiting (until `at`), or ended. */
  get state() { return this.#state; }

  /** What the hub said of itself: server, run, user, limits; null before the first connection. */
  get hello() { return this.#hello; }

  /** Calls `listener` at each event of this name ("state", "restart"); returns how to end that. */
  on(event, listener) {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Follows topics: names, or patterns such as `md:*`. The listener gets the current values first. */
  subscribe(topics, listener, { fields, hz, failed } = {}) {
    const wish = { topics: [].concat(topics), fields, hz };
    return this.#begin(new Subscription(this.#link(), wish, listener, failed));
  }

  /** Follows one page of many topics, which the hub sorts and filters. */
  view(wish, listener, failed) {
    return this.#begin(new View(this.#link(), { ...wish }, listener, failed));
  }

  /** Follows the hub's log lines: the newest first, then each new one. */
  log(listener, { level, lines, failed } = {}) {
    return this.#begin(new Log(this.#link(), { level, lines }, listener, failed));
  }

  /** Runs a Redis command; resolves to its reply, or rejects with a HubError. */
  do(...command) { return this.#ask("do", { command: command.map(String) }); }

  /** Writes a topic. A plant tag answers when the plant has: "OK", or a HubError with its words. */
  set(topic, value) { return this.#ask("set", { topic, value: String(value) }); }

  /** Publishes a message; resolves to the number of its receivers. */
  publish(topic, value) { return this.#ask("publish", { topic, value: String(value) }); }

  /** Logs a program in, now and after each lost connection. A page uses `signIn`. */
  async login(user, password) {
    const reply = await this.#ask("login", { user, password });
    this.#credentials = { user, password };
    this.#ready();
    return reply;
  }

  /** Logs a page in: the hub keeps the session in a cookie that no script can read. */
  async signIn(user, password) {
    const answer = await post("/login", { user, password });
    if (answer.status === 429) {
      const seconds = answer.headers.get("Retry-After");
      throw new HubError("BUSY", `too many failed logins; try again in ${seconds ?? "a few"} seconds`);
    }
    if (!answer.ok) {
      const { code = "ERR", message = `login failed: HTTP ${answer.status}` } = await answer.json().catch(() => ({}));
      throw new HubError(code, message);
    }
    this.reconnect();
  }

  /** Ends the page's session. */
  async signOut() {
    await post("/logout", {});
    this.#credentials = null;
    this.reconnect();
  }

  /** Connects again now, without waiting for the next retry. */
  reconnect() {
    if (this.#state.name === "ended") return;
    this.#lost("connecting again", true);
  }

  /** Ends the connection, all subscriptions and all requests. */
  close() {
    this.#lost("closed", true, true);
    this.#streams.clear();
    this.#become({ name: "ended" });
  }

  #link() {
    return {
      number: ++this.#number,
      names: this.#names,
      send: (message) => this.#send(message),
      forget: (stream) => this.#streams.delete(stream.number),
      drawn: (stream) => this.#whenDrawn(stream),
    };
  }

  #begin(stream) {
    this.#streams.set(stream.number, stream);
    if (this.#state.name === "open") stream.ask();
    return stream;
  }

  #ask(verb, members) {
    return new Promise((resolve, reject) => {
      const number = ++this.#number;
      const most = this.#hello?.limits?.message_bytes;
      if (most !== undefined && bytesOfMessage(members) > most - 64) {
        reject(new HubError("LIMIT", `the request is longer than ${most} bytes; nothing was sent`));
        return;
      }
      if (this.#hello === null || !this.#send({ [verb]: number, ...members })) {
        reject(new HubError("NOLINK", "not connected to the hub; nothing was sent"));
        return;
      }
      this.#requests.set(number, { resolve, reject });
    });
  }

  #open() {
    this.#become({ name: "connecting" });
    let socket;
    try {
      socket = new this.#options.WebSocket(this.#address(), [PROTOCOL]);
    } catch (error) {
      this.#become({ name: "ended", reason: error.message });
      return;
    }
    this.#socket = socket;
    this.#heard = this.#options.now();
    socket.onmessage = ({ data }) => {
      if (socket === this.#socket) this.#receive(JSON.parse(data));
    };
    socket.onclose = ({ code, reason }) => {
      if (socket === this.#socket) this.#lost(reason || closing(code));
    };
    this.#watch = setInterval(() => this.checkSilence(), 5_000);
    this.#watch.unref?.();
  }

  // The hub shows the page's name among its clients.
  #address() {
    const { name } = this.#options;
    if (!name) return this.#url;
    return `${this.#url}${this.#url.includes("?") ? "&" : "?"}name=${encodeURIComponent(name)}`;
  }

  /** Asks a silent hub for a sign of life, and gives up a dead connection. A timer calls it. */
  checkSilence() {
    const silence = this.#options.now() - this.#heard;
    if (silence > DEAD_MS) this.#lost("the hub is silent");
    else if (silence > QUIET_MS) this.do("PING").catch(() => {});
  }

  #lost(reason, now = false, forGood = false) {
    const socket = this.#socket;
    this.#socket = null;
    this.#hello = null;
    clearInterval(this.#watch);
    clearTimeout(this.#retryTimer);
    this.#names.clear();
    socket?.close();
    const requests = [...this.#requests.values()];
    this.#requests.clear();
    for (const { reject } of requests) {
      reject(new HubError("UNKNOWN", `the connection was lost (${reason}): the outcome is unknown`));
    }
    if (forGood) return;
    if (now) {
      this.#retry = FIRST_RETRY_MS;
      this.#open();
      return;
    }
    const wait = this.#retry * (0.75 + Math.random() / 2);
    this.#retry = Math.min(this.#retry * 2, LONGEST_RETRY_MS);
    this.#retryTimer = setTimeout(() => this.#open(), wait);
    this.#become({ name: "waiting", reason, at: this.#options.now() + wait });
  }

  #receive(message) {
    this.#heard = this.#options.now();
    if ("hello" in message) this.#greeted(message);
    else if ("done" in message) this.#settle(message.done, "resolve", message.reply);
    else if ("error" in message) this.#refused(message);
    else {
      // Of a stream that has ended too: the hub names a topic once.
      for (const row of message.rows) if (row.length === 3) this.#names.set(row[0], row[1]);
      this.#streams.get(message.snap ?? message.batch ?? message.page ?? message.lines)?.take(message);
    }
  }

  #greeted(hello) {
    const isOther = this.#run !== undefined && this.#run !== hello.run;
    this.#run = hello.run;
    this.#hello = hello;
    this.#retry = FIRST_RETRY_MS;
    if (isOther) this.#tell("restart", hello);
    if (this.#credentials !== null) {
      const { user, password } = this.#credentials;
      this.login(user, password).catch((error) => this.#needUser(error.message));
    } else if (hello.user === null) this.#needUser("");
    else this.#ready();
  }

  #ready() {
    this.#become({ name: "open" });
    for (const stream of this.#streams.values()) stream.ask();
  }

  #refused({ error: number, code, message }) {
    if (code === "NOAUTH") this.#needUser(message);
    const error = new HubError(code, message);
    const stream = this.#streams.get(number);
    // A script holds the hub: what was not begun is asked for again.
    if (stream !== undefined && code === "BUSY") setTimeout(() => this.#askAgain(stream), BUSY_RETRY_MS).unref?.();
    else if (stream !== undefined) stream.failed?.(error);
    else this.#settle(number, "reject", error);
  }

  #askAgain(stream) {
    if (this.#state.name === "open" && this.#streams.get(stream.number) === stream) stream.ask();
  }

  #needUser(reason) {
    if (this.#state.name !== "login") this.#become({ name: "login", reason });
  }

  #settle(number, how, value) {
    const request = this.#requests.get(number);
    this.#requests.delete(number);
    request?.[how](value);
  }

  #send(message) {
    if (this.#socket?.readyState !== 1) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  // One frame for all streams: a hidden page has no frames, so it asks for nothing.
  #whenDrawn(stream) {
    if (this.#drawn !== null) {
      this.#drawn.add(stream);
      return;
    }
    this.#drawn = new Set([stream]);
    this.#options.frame(() => {
      const drawn = this.#drawn;
      this.#drawn = null;
      for (const { number } of drawn) {
        if (this.#streams.has(number)) this.#send({ next: number });
      }
    });
  }

  #become(state) {
    this.#state = state;
    this.#tell("state", state);
  }

  #tell(event, value) {
    for (const listener of this.#listeners.get(event) ?? []) listener(value);
  }
}

/** What a subscription, a view and the log have in common. */
class Stream {
  constructor(link, wish, listener, failed) {
    Object.assign(this, { link, wish, listener, failed, number: link.number });
  }

  close() {
    this.link.forget(this);
    this.link.send({ unsub: this.number });
  }

  #fieldNames = {};

  /** Name, and the changed fields (null: gone), of a row `[number, name?, fields]`. */
  row(row) {
    const fields = row.at(-1);
    return [this.link.names.get(row[0]), Array.isArray(fields) ? this.#named(fields) : fields];
  }

  /** Takes the names that a message gives to numbers of fields. */
  learn({ fields }) {
    if (fields !== undefined) Object.assign(this.#fieldNames, fields);
  }

  // A short row is a list: the number of a field (or its name) and its value, one after the other.
  #named(list) {
    const fields = {};
    for (let at = 0; at < list.length; at += 2) fields[this.#fieldNames[list[at]] ?? list[at]] = list[at + 1];
    return fields;
  }
}

class Subscription extends Stream {
  /** The current values: fields by name. */
  topics = new Map();
  #begun = null; // the names of the snapshot that is coming in

  ask() {
    this.#begun = null;
    this.link.send({ sub: this.number, ...this.wish, short: true });
  }

  take(message) {
    const isSnapshot = "snap" in message;
    this.learn(message);
    if (isSnapshot) this.#begun ??= new Set();
    const changes = message.rows.map((row) => this.#change(row, isSnapshot));
    if (isSnapshot && !message.more) {
      const left = [...this.topics.keys()].filter((name) => !this.#begun.has(name));
      for (const name of left) {
        changes.push({ name, fields: null, changed: null });
        this.topics.delete(name);
      }
      this.#begun = null;
    }
    this.listener(changes, { snapshot: isSnapshot, complete: !message.more, asOf: message.as_of });
    if (!message.more) this.link.drawn(this);
  }

  #change(row, isSnapshot) {
    const [name, changed] = this.row(row);
    if (isSnapshot) this.#begun.add(name);
    const fields = changed && merged(isSnapshot ? {} : this.topics.get(name) ?? {}, changed);
    if (fields === null) this.topics.delete(name);
    else this.topics.set(name, fields);
    return { name, fields, changed };
  }
}

class View extends Stream {
  #order = []; #fields = new Map();

  ask() {
    this.#order = [];
    this.#fields.clear();
    this.link.send({ view: this.number, ...this.wish, short: true });
  }

  /** Moves the view, or sorts or filters it in another way. */
  change(wish) {
    Object.assign(this.wish, wish);
    this.link.send({ view: this.number, ...this.wish, short: true });
  }

  take(message) {
    this.learn(message);
    const { total, from, order, rows } = message;
    const changed = new Map(rows.map((row) => [row[0], this.row(row)[1]]));
    for (const [number, fields] of changed) {
      if (fields === null) this.#fields.delete(number);
      else this.#fields.set(number, merged(this.#fields.get(number) ?? {}, fields));
    }
    if (order !== undefined) {
      this.#order = order;
      const kept = new Set(order);
      for (const number of this.#fields.keys()) if (!kept.has(number)) this.#fields.delete(number);
    }
    const page = this.#order.map((number) => ({
      name: this.link.names.get(number),
      fields: this.#fields.get(number) ?? null,
      changed: changed.get(number) ?? null,
    }));
    this.listener({ total, from, rows: page });
    this.link.drawn(this);
  }
}

class Log extends Stream {
  #isBegun = false;

  ask() {
    this.#isBegun = false;
    this.link.send({ log: this.number, ...this.wish });
  }

  take({ rows, lost = 0 }) {
    this.listener(rows, { snapshot: !this.#isBegun, lost });
    this.#isBegun = true;
    this.link.drawn(this);
  }
}

/** The fields with these changes: null ends a field. */
function merged(fields, changed) {
  const result = { ...fields, ...changed };
  for (const name in changed) if (changed[name] === null) delete result[name];
  return result;
}

/** The bytes of a text of the hub: UTF-8, or what follows `base64:`. */
export function bytesOf(text) {
  if (!text.startsWith("base64:")) return new TextEncoder().encode(text);
  return Uint8Array.from(atob(text.slice(7)), (letter) => letter.charCodeAt(0));
}

function bytesOfMessage(members) {
  return new TextEncoder().encode(JSON.stringify(members)).length;
}

function nextFrame(task) {
  if (globalThis.requestAnimationFrame) requestAnimationFrame(task);
  else setTimeout(task, 0);
}

function closing(code) {
  const known = { 1001: "the hub has stopped", 1006: "no connection", 1008: "not allowed", 1013: "the hub is full", 4001: "ended by an administrator", 4002: "the login has ended" };
  return known[code] ?? `closed with code ${code}`;
}

function post(path, body) {
  return fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}
