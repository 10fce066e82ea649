// Tidewire's ZeroMQ sockets and zeromq.js: pairs, mechanisms and transports, each way; and the
// ports of a hub.

import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { after, test } from "node:test";
import * as zmq from "zeromq";
import { Peer } from "./zeromq_peer.mjs";

const SIZES = [0, 1, 125, 126, 255, 256, 8192, 65_535, 65_536, 300_000];
const ROUTING_ID = 5;
const SUBSCRIBE = 6;
const PLAIN_SERVER = 44;
const PLAIN_USERNAME = 45;
const PLAIN_PASSWORD = 46;
const CURVE_SERVER = 47;
const CURVE_PUBLICKEY = 48;
const CURVE_SECRETKEY = 49;
const CURVE_SERVERKEY = 50;

// Ours first.
const PAIRS = [
  ["PAIR", "Pair"],
  ["PUSH", "Pull"],
  ["PULL", "Push"],
  ["REQ", "Reply"],
  ["REP", "Request"],
  ["DEALER", "Dealer"],
  ["DEALER", "Router"],
  ["ROUTER", "Dealer"],
  ["REQ", "Router"],
  ["ROUTER", "Request"],
  ["XPUB", "Subscriber"],
  ["XPUB", "XSubscriber"],
  ["SUB", "XPublisher"],
  ["XSUB", "XPublisher"],
];

const peer = new Peer();
await peer.ask("allow user secret");
// Of zeromq.js's servers: everybody who knows the password, or has a key, may come in.
const judge = new zmq.Reply();
await judge.bind("inproc://zeromq.zap.01");
const judging = (async () => {
  for await (const [version, id, , , , mechanism, ...credentials] of judge) {
    const known = String(mechanism) !== "PLAIN" || credentials.join() === "user,secret";
    await judge.send([version, id, known ? "200" : "400", known ? "OK" : "who?", "", ""]);
  }
})();
after(async () => {
  peer.stop();
  judge.close();
  await judging;
});

function open(kind) {
  return new zmq[kind](kind === "Push" ? { linger: 0 } : { linger: 0, receiveTimeout: 20_000 });
}

let count = 0;
function endpointOf(transport) {
  count += 1;
  const path = `${tmpdir()}/tidewire-${process.pid}-${count}`;
  return { tcp: "tcp://127.0.0.1:*", ipc: `ipc://${path}`, ws: "ws://127.0.0.1:*/feed" }[transport];
}

/** Tells both what the mechanism wants of server and client. */
async function secure(mechanism, ours, theirs, oursBinds) {
  if (mechanism === "PLAIN") {
    if (oursBinds) {
      await ours.set(PLAIN_SERVER, 1);
      Object.assign(theirs, { plainUsername: "user", plainPassword: "secret" });
    } else {
      Object.assign(theirs, { plainServer: true });
      await ours.set(PLAIN_USERNAME, Buffer.from("user"));
      await ours.set(PLAIN_PASSWORD, Buffer.from("secret"));
    }
  }
  if (mechanism === "CURVE") {
    const [server, client] = [zmq.curveKeyPair(), zmq.curveKeyPair()];
    if (oursBinds) {
      await ours.set(CURVE_SERVER, 1);
      await ours.set(CURVE_SECRETKEY, Buffer.from(server.secretKey));
      const { publicKey, secretKey } = client;
      Object.assign(theirs, {
        curveServerKey: server.publicKey,
        curvePublicKey: publicKey,
        curveSecretKey: secretKey,
      });
    } else {
      Object.assign(theirs, { curveServer: true, curveSecretKey: server.secretKey });
      await ours.set(CURVE_SERVERKEY, Buffer.from(server.publicKey));
      await ours.set(CURVE_PUBLICKEY, Buffer.from(client.publicKey));
      await ours.set(CURVE_SECRETKEY, Buffer.from(client.secretKey));
    }
  }
}

const same = (actual, expected) =>
  assert.deepEqual(
    actual.map((frame) => Buffer.from(frame)),
    expected.map((frame) => Buffer.from(frame)),
  );

function* messages() {
  for (const size of SIZES) yield [Buffer.alloc(size, size)];
  yield ["first", "", Buffer.alloc(70_000, 7), "last"];
}

/** Passes every message from one to the other; `head` is what a ROUTER puts in front. */
async function pass(from, to, expectedHead = [], head = []) {
  for (const message of messages()) {
    await from([...head, ...message]);
    same(await to(), [...expectedHead, ...message]);
  }
}

async function converse([kind, theirKind], ours, theirs) {
  const [say, hear] = [(frames) => ours.send(frames), () => ours.receive()];
  // Copies: over ws, libzmq masks the program's own bytes.
  const theySay = (frames) => theirs.send(frames.map((frame) => Buffer.from(frame)));
  const theyHear = () => theirs.receive();
  switch (`${kind} ${theirKind}`) {
    case "PUSH Pull":
      return pass(say, theyHear);
    case "PULL Push":
      return pass(theySay, hear);
    case "PAIR Pair":
    case "DEALER Dealer":
      await pass(say, theyHear);
      return pass(theySay, hear);
    case "REQ Reply":
    case "REQ Router":
    case "DEALER Router":
      for (const message of messages()) {
        await say(message);
        const frames = await theyHear();
        const envelope = { Reply: 0, Router: kind === "REQ" ? 2 : 1 }[theirKind];
        same(frames.slice(envelope), message);
        if (envelope > 0) assert.equal(String(frames[0]), "ours");
        await theySay(frames);
        same(await hear(), message);
      }
      return;
    case "REP Request":
    case "ROUTER Request":
    case "ROUTER Dealer":
      for (const message of messages()) {
        await theySay(message);
        const frames = await hear();
        const envelope = { REP: 0, ROUTER: theirKind === "Request" ? 2 : 1 }[kind];
        same(frames.slice(envelope), message);
        if (envelope > 0) assert.equal(String(frames[0]), "theirs");
        await say(frames);
        same(await theyHear(), message);
      }
      return;
    default:
      return publish(kind, theirKind, ours, theirs);
  }
}

async function publish(kind, theirKind, ours, theirs) {
  const oursPublishes = kind === "XPUB";
  if (kind === "SUB") await ours.set(SUBSCRIBE, Buffer.from("a"));
  if (kind === "XSUB") await ours.send(["\x01a"]);
  if (theirKind === "Subscriber") theirs.subscribe("a");
  if (theirKind === "XSubscriber") await theirs.send("\x01a");
  const [publisher, subscriber] = oursPublishes ? [ours, theirs] : [theirs, ours];
  // libzmq says what it wants to a peer that has connected to it only while the program is in a
  // call.
  let heard = oursPublishes ? subscriber.receive() : undefined;
  same(await publisher.receive(), ["\x01a"]);
  const say = (frames) => publisher.send(frames.map((frame) => Buffer.from(frame)));
  for (const message of messages()) {
    await say(["b: not asked for", ...message]);
    await say(["a topic", ...message]);
    same(await (heard ?? subscriber.receive()), ["a topic", ...message]);
    heard = undefined;
  }
}

for (const transport of ["tcp", "ipc", "ws"]) {
  for (const mechanism of ["NULL", "PLAIN", "CURVE"]) {
    for (const oursBinds of [true, false]) {
      const who = oursBinds ? "ours binds" : "theirs binds";
      test(`zeromq.js over ${transport} with ${mechanism}, ${who}`, async (t) => {
        for (const kinds of PAIRS) {
          if (kinds[1] === "Request" && !oursBinds && mechanism !== "NULL") {
            // libzmq's REQ as the server of a mechanism drops replies, of its own REP too.
            continue;
          }
          await t.test(kinds.join(" and "), { timeout: 30_000 }, async () => {
            const ours = await peer.open(kinds[0]);
            const theirs = open(kinds[1]);
            try {
              if (!kinds[0].match(/SUB|PUB|PUSH|PULL/)) {
                await ours.set(ROUTING_ID, Buffer.from("ours"));
              }
              if ("routingId" in theirs) theirs.routingId = "theirs";
              await secure(mechanism, ours, theirs, oursBinds);
              const endpoint = endpointOf(transport);
              if (oursBinds) {
                theirs.connect(await ours.bind(endpoint));
              } else {
                await theirs.bind(endpoint);
                await ours.connect(theirs.lastEndpoint);
              }
              await converse(kinds, ours, theirs);
            } finally {
              theirs.close();
              await ours.close();
            }
          });
        }
      });
    }
  }
}

test("zeromq.js at the ports of a hub", { timeout: 30_000 }, async () => {
  const connect = (kind, port) => {
    const socket = open(kind);
    socket.connect(process.env[`TIDEWIRE_ZMQ_${port}`]);
    return socket;
  };
  const sub = connect("Subscriber", "PUB");
  const push = connect("Push", "PULL");
  const req = connect("Request", "ROUTER");
  try {
    await push.send(["live:node", "1"]);
    const ask = async (...frames) => {
      await req.send(frames);
      return (await req.receive()).map(String);
    };
    let value;
    while (value !== "1") [, value] = await ask("GET", "live:node");
    sub.subscribe("live:node");
    same(await sub.receive(), ["live:node", "1"]);
    await push.send(["live:node", "2"]);
    same(await sub.receive(), ["live:node", "2"]);
    assert.deepEqual(await ask("MGET live:node live:nobody"), ["OK", "live:node", "2"]);
    assert.deepEqual(await ask("SNAPSHOT", "live:node"), ["OK", "", "live:node", "2"]);
    assert.equal((await ask("NONSENSE"))[0], "ERR");
  } finally {
    for (const socket of [sub, push, req]) socket.close();
  }
});
