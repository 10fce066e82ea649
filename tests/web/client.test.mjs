// Unit tests of tidewire.js with a socket of their own: node --test tests/web/
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Hub, HubError, bytesOf } from "../../crates/tidewire/assets/web/tidewire.js";

/** A hub of one page: what the client sends is kept, and what the hub sends is said by the test. */
class Peer {
  constructor(options = {}) {
    const peer = this;
    peer.sockets = [];
    peer.frames = [];
    peer.time = 1_000_000;
    class Socket {
      constructor(url, protocols) {
        Object.assign(this, { url, protocols, readyState: 0, sent: [] });
        peer.sockets.push(this);
      }
      send(text) {
        this.sent.push(JSON.parse(text));
      }
      close() {
        this.readyState = 3;
      }
    }
    peer.states = [];
    peer.hub = new Hub("ws://hub/stream", {
      WebSocket: Socket,
      frame: (task) => peer.frames.push(task),
      now: () => peer.time,
      ...options,
    });
    peer.hub.on("state", (state) => peer.states.push(state.name));
  }
  get socket() {
    return this.sockets.at(-1);
  }
  says(message) {
    this.time += 1;
    this.socket.onmessage({ data: JSON.stringify(message) });
  }
  opens(more = {}) {
    this.socket.readyState = 1;
    this.says({ hello: 1, server: "Tidewire", run: "a", user: "default", limits: {}, ...more });
  }
  breaks(code = 1006) {
    this.socket.readyState = 3;
    this.socket.onclose({ code, reason: "" });
  }
  frame() {
    for (const task of this.frames.splice(0)) task();
  }
  takes() {
    return this.socket.sent.splice(0);
  }
  end() {
    this.hub.close();
  }
}

const run = (name, body) =>
  test(name, async () => {
    const peer = new Peer();
    try {
      await body(peer);
    } finally {
      peer.end();
    }
  });

run("a subscription is asked for when the hub has said hello", (peer) => {
  peer.hub.subscribe("md:*", () => {}, { fields: ["bid"], hz: 5 });
  peer.socket.readyState = 1;
  assert.deepEqual(peer.takes(), []);
  peer.opens();
  assert.deepEqual(peer.takes(), [{ sub: 1, topics: ["md:*"], fields: ["bid"], hz: 5, short: true }]);
  assert.equal(Object.keys({ sub: 1 })[0], "sub");
});

run("names that came for a subscription that was ended were lost for the others", (peer) => {
  peer.opens();
  const first = peer.hub.subscribe("live:*", () => {});
  const second = peer.hub.subscribe("live:*", () => {});
  first.close();
  peer.says({ snap: 1, as_of: 1, rows: [[7, "live:a", { value: 1 }]] });
  peer.says({ snap: 2, as_of: 1, rows: [[7, { value: 1 }]] });
  assert.deepEqual([...second.topics], [["live:a", { value: 1 }]]);
});

run("the values of a snapshot in parts come first, and then the changed fields", (peer) => {
  const told = [];
  const subscription = peer.hub.subscribe(["md:*"], (changes, batch) => told.push([changes, batch]));
  peer.opens();
  peer.says({ snap: 1, as_of: 7, rows: [[4, "md:A", { bid: 1, ask: 2 }]], more: true });
  peer.says({ snap: 1, as_of: 7, rows: [[5, "md:B", { bid: 3 }]] });
  assert.deepEqual(
    told.map(([, batch]) => batch.complete),
    [false, true],
  );
  peer.says({
    batch: 1,
    rows: [
      [4, { bid: 1.5 }],
      [6, "md:C", { bid: 9 }],
    ],
  });
  assert.deepEqual(told[2][0][0], { name: "md:A", fields: { bid: 1.5, ask: 2 }, changed: { bid: 1.5 } });
  assert.deepEqual([...subscription.topics.keys()], ["md:A", "md:B", "md:C"]);
});

run("null ends a field, and a row without fields ends the topic", (peer) => {
  const told = [];
  const subscription = peer.hub.subscribe("live:*", (changes) => told.push(...changes));
  peer.opens();
  peer.says({
    snap: 1,
    rows: [
      [1, "live:a", { x: 1, y: null }],
      [2, "live:b", { value: "t" }],
    ],
  });
  assert.deepEqual(subscription.topics.get("live:a"), { x: 1 });
  peer.says({
    batch: 1,
    rows: [
      [1, { x: null, z: 2 }],
      [2, null],
    ],
  });
  assert.deepEqual(subscription.topics, new Map([["live:a", { z: 2 }]]));
  assert.deepEqual(told.at(-1), { name: "live:b", fields: null, changed: null });
});

run(
  "the next batch is asked for in the next frame, once for each stream, and never by a hidden page",
  (peer) => {
    peer.hub.subscribe("a", () => {});
    peer.hub.subscribe("b", () => {});
    peer.opens();
    peer.takes();
    peer.says({ snap: 1, rows: [], more: true });
    assert.equal(peer.frames.length, 0);
    peer.says({ snap: 1, rows: [] });
    peer.says({ snap: 2, rows: [] });
    assert.equal(peer.frames.length, 1);
    assert.deepEqual(peer.takes(), []);
    peer.frame();
    assert.deepEqual(peer.takes(), [{ next: 1 }, { next: 2 }]);
  },
);

run("after a lost connection the snapshot tells what has gone meanwhile", async (peer) => {
  const told = [];
  const subscription = peer.hub.subscribe("md:*", (changes) => told.push(...changes));
  peer.opens();
  peer.says({
    snap: 1,
    rows: [
      [1, "md:A", { bid: 1 }],
      [2, "md:B", { bid: 2 }],
    ],
  });
  peer.breaks();
  assert.equal(peer.hub.state.name, "waiting");
  assert.equal(subscription.topics.size, 2, "the values stay while the hub is away");
  peer.hub.reconnect();
  assert.equal(peer.sockets.length, 2);
  peer.opens();
  assert.deepEqual(peer.takes(), [{ sub: 1, topics: ["md:*"], short: true }]);
  told.length = 0;
  peer.says({ snap: 1, rows: [[1, "md:B", { bid: 5 }]] });
  assert.deepEqual(told, [
    { name: "md:B", fields: { bid: 5 }, changed: { bid: 5 } },
    { name: "md:A", fields: null, changed: null },
  ]);
});

run("the numbers of a lost connection name nothing in the next one", (peer) => {
  const pages = [];
  peer.hub.view({ topics: ["md:*"], from: 0, rows: 2 }, (page) => pages.push(page));
  peer.opens();
  peer.says({
    page: 1,
    total: 2,
    from: 0,
    order: [1, 2],
    rows: [
      [1, "md:A", { last: 1 }],
      [2, "md:B", { last: 2 }],
    ],
  });
  peer.breaks();
  peer.hub.reconnect();
  peer.opens();
  peer.says({
    page: 1,
    total: 2,
    from: 0,
    order: [1, 2],
    rows: [
      [1, "md:B", { last: 8 }],
      [2, "md:A", { last: 9 }],
    ],
  });
  assert.deepEqual(
    pages.at(-1).rows.map(({ name, fields }) => [name, fields.last]),
    [
      ["md:B", 8],
      ["md:A", 9],
    ],
  );
});

run("a page keeps its order where the hub leaves it out", (peer) => {
  const pages = [];
  const view = peer.hub.view({ topics: ["md:*"], sort: "volume", from: 0, rows: 2 }, (page) =>
    pages.push(page),
  );
  peer.opens();
  assert.deepEqual(peer.takes(), [{ view: 1, topics: ["md:*"], sort: "volume", from: 0, rows: 2, short: true }]);
  peer.says({
    page: 1,
    total: 3,
    from: 0,
    order: [9, 4],
    rows: [
      [9, "md:X", { volume: 5 }],
      [4, "md:Y", { volume: 3 }],
    ],
  });
  peer.says({ page: 1, total: 3, from: 0, rows: [[4, { volume: 4 }]] });
  assert.deepEqual(pages[1].rows, [
    { name: "md:X", fields: { volume: 5 }, changed: null },
    { name: "md:Y", fields: { volume: 4 }, changed: { volume: 4 } },
  ]);
  view.change({ from: 1 });
  assert.deepEqual(peer.takes(), [{ view: 1, topics: ["md:*"], sort: "volume", from: 1, rows: 2, short: true }]);
});

run("requests are answered by number, with values and errors", async (peer) => {
  peer.opens();
  const [value, refused] = [peer.hub.do("GET", "a", 5), peer.hub.set("mx:T", 5)];
  assert.deepEqual(peer.takes(), [
    { do: 1, command: ["GET", "a", "5"] },
    { set: 2, topic: "mx:T", value: "5" },
  ]);
  peer.says({ error: 2, code: "REFUSED", message: "SecurityError" });
  peer.says({ done: 1, reply: null });
  assert.equal(await value, null);
  await assert.rejects(
    refused,
    (error) => error instanceof HubError && error.code === "REFUSED" && error.message === "SecurityError",
  );
});

run("a write that was under way when the connection broke has an unknown outcome", async (peer) => {
  peer.opens();
  const written = peer.hub.set("mx:T", 5);
  peer.breaks();
  await assert.rejects(written, { code: "UNKNOWN" });
  await assert.rejects(peer.hub.set("mx:T", 6), { code: "NOLINK" });
});

run("a subscription that is refused says why", (peer) => {
  let failure = null;
  peer.hub.subscribe("md:*", () => {}, {
    failed: (error) => {
      failure = error;
    },
  });
  peer.opens();
  peer.says({ error: 1, code: "NOPERM", message: "no channel" });
  assert.equal(failure.code, "NOPERM");
  assert.equal(peer.hub.state.name, "open");
});

run("a hub that wants a user is logged in to once, and again after each lost connection", async (peer) => {
  peer.hub.subscribe("md:*", () => {});
  peer.opens();
  peer.says({ error: 1, code: "NOAUTH", message: "log in first" });
  assert.equal(peer.hub.state.name, "login");
  peer.takes();
  const login = peer.hub.login("ada", "secret");
  assert.deepEqual(peer.takes(), [{ login: 2, user: "ada", password: "secret" }]);
  peer.says({ done: 2, reply: "OK" });
  await login;
  assert.equal(peer.hub.state.name, "open");
  assert.deepEqual(peer.takes(), [{ sub: 1, topics: ["md:*"], short: true }]);
  peer.breaks();
  peer.hub.reconnect();
  peer.opens();
  assert.deepEqual(peer.takes(), [{ login: 3, user: "ada", password: "secret" }]);
});

run("short rows have the names of their fields", (peer) => {
  const heard = [];
  const sub = peer.hub.subscribe("md:*", (changes) => heard.push(changes));
  peer.opens();
  peer.says({ snap: 1, as_of: 1, rows: [[7, "md:A", [0, 1.5, 1, 2]]], fields: { 0: "bid", 1: "ask" } });
  assert.deepEqual(sub.topics.get("md:A"), { bid: 1.5, ask: 2 });
  peer.says({ batch: 1, rows: [[7, [1, null, 2, 3, "odd", 4]]], fields: { 2: "last" } });
  assert.deepEqual(heard[1][0].changed, { ask: null, last: 3, odd: 4 });
  assert.deepEqual(sub.topics.get("md:A"), { bid: 1.5, last: 3, odd: 4 });
  peer.says({ batch: 1, rows: [[7, null]] });
  assert.equal(sub.topics.size, 0);
});

run("a subscription that a script keeps out is asked for again", (peer) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  peer.hub.subscribe("md:*", () => {}, { failed: () => assert.fail("it is tried again") });
  peer.opens();
  peer.takes();
  peer.says({ error: 1, code: "BUSY", message: "Redis is busy running a script." });
  assert.deepEqual(peer.takes(), []);
  mock.timers.tick(1_000);
  mock.timers.reset();
  assert.deepEqual(peer.takes(), [{ sub: 1, topics: ["md:*"], short: true }]);
});

run("log lines begin with the newest, and again after a lost connection", (peer) => {
  const heard = [];
  peer.hub.log((lines, part) => heard.push([lines, part]), { level: "warn", lines: 5 });
  peer.opens();
  assert.deepEqual(peer.takes(), [{ log: 1, level: "warn", lines: 5 }]);
  peer.says({ lines: 1, rows: [{ level: "warn", message: "a" }] });
  assert.deepEqual(heard.pop(), [[{ level: "warn", message: "a" }], { snapshot: true, lost: 0 }]);
  peer.frame();
  assert.deepEqual(peer.takes(), [{ next: 1 }]);
  peer.says({ lines: 1, rows: [{ level: "warn", message: "b" }], lost: 3 });
  assert.deepEqual(heard.pop()[1], { snapshot: false, lost: 3 });
  peer.breaks();
  peer.hub.reconnect();
  peer.opens();
  assert.deepEqual(peer.takes(), [{ log: 1, level: "warn", lines: 5 }]);
  peer.says({ lines: 1, rows: [] });
  assert.deepEqual(heard.pop()[1], { snapshot: true, lost: 0 });
});

run("a hub that names no user is not asked for anything before the login", (peer) => {
  peer.hub.subscribe("md:*", () => {});
  peer.opens({ user: null });
  assert.equal(peer.hub.state.name, "login");
  assert.deepEqual(peer.takes(), []);
});

run("a request that the hub would close the connection for is not sent", async (peer) => {
  peer.opens({ limits: { message_bytes: 1_000 } });
  await assert.rejects(peer.hub.do("SET", "a", "é".repeat(500)), { code: "LIMIT" });
  assert.deepEqual(peer.takes(), []);
  assert.equal(peer.hub.state.name, "open");
});

run("a hub that was started again is told as such", (peer) => {
  const restarts = [];
  peer.hub.on("restart", (hello) => restarts.push(hello.run));
  peer.opens({ run: "a" });
  peer.breaks();
  peer.hub.reconnect();
  peer.opens({ run: "b" });
  assert.deepEqual(restarts, ["b"]);
});

run("a silent hub is asked for a sign of life, and then given up", (peer) => {
  peer.opens();
  peer.time += 16_000;
  peer.hub.checkSilence();
  assert.deepEqual(peer.takes(), [{ do: 1, command: ["PING"] }]);
  peer.time += 10_000;
  peer.hub.checkSilence();
  assert.equal(peer.hub.state.name, "waiting");
});

run("each failed retry waits longer, up to a limit, and a hello ends that", (peer) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const waits = [];
    for (let round = 0; round < 9; round++) {
      peer.breaks();
      waits.push(peer.hub.state.at - peer.time);
      mock.timers.tick(Math.ceil(waits.at(-1)));
      assert.equal(peer.sockets.length, round + 2);
    }
    waits.forEach((wait, round) => {
      const middle = Math.min(200 * 2 ** round, 5_000);
      assert.ok(wait >= middle * 0.75 && wait <= middle * 1.25, `${round}: ${wait}`);
    });
    peer.opens();
    peer.breaks();
    assert.ok(peer.hub.state.at - peer.time <= 250);
  } finally {
    mock.timers.reset();
  }
});

run("a stream that was closed is not asked for again", (peer) => {
  const subscription = peer.hub.subscribe("md:*", () => assert.fail("closed"));
  peer.opens();
  peer.takes();
  subscription.close();
  assert.deepEqual(peer.takes(), [{ unsub: 1 }]);
  peer.says({ batch: 1, rows: [[1, "md:A", {}]] });
  peer.breaks();
  peer.hub.reconnect();
  peer.opens();
  assert.deepEqual(peer.takes(), []);
});

test("bytes of a text of the hub", () => {
  assert.deepEqual([...bytesOf("é")], [0xc3, 0xa9]);
  assert.deepEqual([...bytesOf("base64:/w==")], [0xff]);
});
