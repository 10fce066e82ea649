// ioredis.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Redis } from "ioredis";
import { eventually, keys, port, promised, tls } from "./support.mjs";

describe("ioredis", { timeout: 30_000 }, () => {
  let client;
  const open = [];

  function connected() {
    const one = new Redis({ host: "127.0.0.1", port, tls });
    open.push(one);
    return one;
  }

  before(() => {
    client = connected();
  });
  after(() => open.forEach((one) => one.disconnect()));

  test("strings and counters", async () => {
    const key = keys("ioredis");
    assert.equal(await client.set(key("a"), "x", "EX", 1000, "NX"), "OK");
    assert.equal(await client.set(key("a"), "y", "NX"), null);
    assert.ok((await client.ttl(key("a"))) > 990);
    assert.equal(await client.incrby(key("n"), 5), 5);
    assert.equal(await client.decr(key("n")), 4);
    assert.deepEqual(await client.mget(key("a"), key("none")), ["x", null]);
    const bytes = Buffer.from([0, 13, 10, 255]);
    await client.set(key("b"), bytes);
    assert.deepEqual(await client.getBuffer(key("b")), bytes);
    assert.deepEqual(await client.bitfield(key("f"), "SET", "u8", 0, 200, "GET", "u4", 0), [0, 12]);
    await assert.rejects(client.hget(key("a"), "f"), /WRONGTYPE/);
  });

  test("hashes", async () => {
    const key = keys("ioredis");
    assert.equal(await client.hset(key("h"), { one: 1, two: 2 }), 2);
    assert.deepEqual(await client.hgetall(key("h")), { one: "1", two: "2" });
    assert.equal(await client.hincrbyfloat(key("h"), "one", 0.5), "1.5");
    const [, found] = await client.hscan(key("h"), 0);
    assert.equal(found.length, 4);
  });

  test("lists", async () => {
    const key = keys("ioredis");
    await client.rpush(key("l"), "a", "b", "c", "a");
    assert.deepEqual(await client.lpos(key("l"), "a", "COUNT", 0), [0, 3]);
    assert.equal(await client.rpoplpush(key("l"), key("m")), "a");
    assert.equal(await client.ltrim(key("l"), 1, -1), "OK");
    assert.deepEqual(await client.lrange(key("l"), 0, -1), ["b", "c"]);
    assert.deepEqual(await client.sort(key("l"), "ALPHA", "DESC"), ["c", "b"]);
  });

  test("sets and sorted sets", async () => {
    const key = keys("ioredis");
    assert.equal(await client.sadd(key("s"), "a", "b", "a"), 2);
    assert.deepEqual(await client.smismember(key("s"), "a", "x"), [1, 0]);
    assert.equal(await client.zadd(key("z"), 1, "a", 2, "b", 3, "c"), 3);
    const range = await client.zrange(key("z"), "(1", "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES");
    assert.deepEqual(range, ["b", "2"]);
    assert.equal(await client.zunionstore(key("u"), 2, key("z"), key("s"), "WEIGHTS", 2, 10), 3);
    assert.deepEqual(await client.zrevrange(key("u"), 0, 0, "WITHSCORES"), ["b", "14"]);
    assert.deepEqual(await client.zmpop(1, key("z"), "MAX"), [key("z"), [["c", "3"]]]);
  });

  test("places and estimates", async () => {
    const key = keys("ioredis");
    await client.geoadd(key("g"), 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania");
    assert.deepEqual(await client.geohash(key("g"), "Palermo"), ["sqc8b49rny0"]);
    assert.equal(await client.pfadd(key("p"), "a", "b", "a"), 1);
    assert.equal(await client.pfcount(key("p")), 2);
  });

  test("streams and their groups", async () => {
    const key = keys("ioredis");
    await client.xadd(key("x"), "5-*", "a", "1");
    await client.xadd(key("x"), "MAXLEN", 2, "6-0", "a", "2");
    await client.xgroup("CREATE", key("x"), "g", "0");
    const read = await client.xreadgroup("GROUP", "g", "me", "COUNT", 1, "STREAMS", key("x"), ">");
    assert.deepEqual(read, [[key("x"), [["5-0", ["a", "1"]]]]]);
    const claimed = await client.xautoclaim(key("x"), "g", "you", 0, "0");
    assert.deepEqual(claimed, ["0-0", [["5-0", ["a", "1"]]], []]);
    assert.equal(await client.xack(key("x"), "g", "5-0"), 1);
    const [group] = await client.xinfo("GROUPS", key("x"));
    assert.equal(group[group.indexOf("lag") + 1], 1);
  });

  test("transactions and pipelines", async () => {
    const key = keys("ioredis");
    const done = await client.multi().set(key("a"), 1).lpush(key("a"), "x").incr(key("a")).exec();
    assert.deepEqual([done[0], done[2]], [[null, "OK"], [null, 2]]);
    assert.match(done[1][0].message, /WRONGTYPE/);
    const watcher = connected();
    await watcher.watch(key("a"));
    await client.incr(key("a"));
    assert.equal(await watcher.multi().del(key("a")).exec(), null);
    const pipeline = client.pipeline();
    for (let number = 0; number < 1000; number += 1) pipeline.incr(key("n"));
    const counted = await pipeline.exec();
    assert.deepEqual(counted[999], [null, 1000]);
  });

  test("blocking", async () => {
    const key = keys("ioredis");
    const waiter = connected();
    const moved = waiter.blmove(key("l"), key("m"), "LEFT", "RIGHT", 10);
    await client.rpush(key("l"), "x");
    assert.equal(await moved, "x");
    assert.equal(await client.lindex(key("m"), 0), "x");
    const both = [connected(), connected()].map((one) => one.brpop(key("q"), 10));
    await eventually(async () => (await client.info("clients")).includes("blocked_clients:2"));
    await client.lpush(key("q"), "1", "2");
    const popped = (await Promise.all(both)).map(([, element]) => element);
    assert.deepEqual(popped.sort(), ["1", "2"]);
    assert.equal(await waiter.bzpopmax(key("none"), 0.02), null);
  });

  test("pub/sub", async () => {
    const key = keys("ioredis");
    const subscriber = connected();
    const [plain, gotPlain] = promised();
    const [matched, gotMatched] = promised();
    subscriber.on("message", (channel, text) => gotPlain([channel, text]));
    subscriber.on("pmessage", (pattern, channel, text) => gotMatched([pattern, channel, text]));
    assert.equal(await subscriber.subscribe(key("c")), 1);
    assert.equal(await subscriber.psubscribe(key("p?")), 2);
    await client.publish(key("c"), "one");
    await client.publish(key("p1"), "two");
    assert.deepEqual(await plain, [key("c"), "one"]);
    assert.deepEqual(await matched, [key("p?"), key("p1"), "two"]);
    assert.deepEqual(await client.pubsub("NUMSUB", key("c")), [key("c"), 1]);
  });

  test("a scan", async () => {
    const key = keys("ioredis");
    await client.mset(Object.fromEntries([...Array(300).keys()].map((n) => [key(`k${n}`), n])));
    const seen = new Set();
    for await (const names of client.scanStream({ match: key("k*"), count: 50 })) {
      names.forEach((name) => seen.add(name));
    }
    assert.equal(seen.size, 300);
  });
});
