// node-redis, in both protocols.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { createClient, WatchError } from "redis";
import { eventually, keys, port, promised, tls } from "./support.mjs";

for (const RESP of [2, 3]) {
  describe(`node-redis with RESP${RESP}`, { timeout: 30_000 }, () => {
    let client;
    const open = [];
    const socket = { host: "127.0.0.1", port, ...(tls && { tls: true, ...tls }) };

    async function connected() {
      const one = createClient({ socket, RESP });
      one.on("error", () => {});
      await one.connect();
      open.push(one);
      return one;
    }

    before(async () => {
      client = await connected();
    });
    after(() => open.forEach((one) => one.destroy()));

    test("strings and counters", async () => {
      const key = keys(`node-redis-${RESP}`);
      assert.equal(await client.set(key("a"), "hello"), "OK");
      assert.equal(await client.append(key("a"), " world"), 11);
      assert.equal(await client.getRange(key("a"), -5, -1), "world");
      assert.equal(await client.set(key("a"), "no", { condition: "NX" }), null);
      assert.equal(await client.incrBy(key("n"), 41), 41);
      assert.equal(await client.incr(key("n")), 42);
      assert.equal(Number(await client.incrByFloat(key("n"), 0.5)), 42.5);
      assert.deepEqual(await client.mGet([key("a"), key("none")]), ["hello world", null]);
      assert.equal(await client.setBit(key("bits"), 7, 1), 0);
      assert.equal(await client.bitCount(key("bits")), 1);
      assert.equal(await client.getDel(key("a")), "hello world");
      await assert.rejects(client.lPush(key("n"), "x"), /WRONGTYPE/);
    });

    test("deadlines", async () => {
      const key = keys(`node-redis-${RESP}`);
      await client.set(key("a"), "x", { expiration: { type: "EX", value: 1000 } });
      const left = await client.ttl(key("a"));
      assert.ok(left > 990 && left <= 1000);
      assert.equal(await client.persist(key("a")), 1);
      assert.equal(await client.ttl(key("a")), -1);
      await client.pExpire(key("a"), 20);
      await eventually(async () => (await client.exists(key("a"))) === 0);
    });

    test("hashes", async () => {
      const key = keys(`node-redis-${RESP}`);
      assert.equal(await client.hSet(key("h"), { one: "1", two: "2", three: "3" }), 3);
      assert.deepEqual({ ...(await client.hGetAll(key("h"))) }, { one: "1", two: "2", three: "3" });
      assert.equal(await client.hIncrBy(key("h"), "one", 9), 10);
      assert.deepEqual(await client.hmGet(key("h"), ["two", "none"]), ["2", null]);
      assert.deepEqual(await client.hExpire(key("h"), ["two", "none"], 1000), [1, -2]);
      const [left] = await client.hTTL(key("h"), ["two"]);
      assert.ok(left > 990 && left <= 1000);
      const seen = [];
      for await (const entries of client.hScanIterator(key("h"))) {
        seen.push(...[entries].flat().map((entry) => entry.field));
      }
      assert.deepEqual(seen.sort(), ["one", "three", "two"]);
      assert.equal(await client.hDel(key("h"), ["one", "two", "three"]), 3);
      assert.equal(await client.exists(key("h")), 0);
    });

    test("lists", async () => {
      const key = keys(`node-redis-${RESP}`);
      assert.equal(await client.rPush(key("l"), ["b", "c", "d"]), 3);
      assert.equal(await client.lPush(key("l"), "a"), 4);
      assert.deepEqual(await client.lRange(key("l"), 0, -1), ["a", "b", "c", "d"]);
      assert.equal(await client.lPos(key("l"), "c"), 2);
      assert.equal(await client.lMove(key("l"), key("m"), "LEFT", "RIGHT"), "a");
      assert.deepEqual(await client.lPopCount(key("l"), 2), ["b", "c"]);
      assert.equal(await client.lInsert(key("l"), "BEFORE", "d", "x"), 2);
      assert.equal(await client.lRem(key("l"), 0, "d"), 1);
      assert.equal(await client.lLen(key("l")), 1);
    });

    test("sets", async () => {
      const key = keys(`node-redis-${RESP}`);
      await client.sAdd(key("s"), ["1", "2", "3"]);
      await client.sAdd(key("t"), ["3", "x"]);
      assert.deepEqual([...(await client.sInter([key("s"), key("t")]))], ["3"]);
      assert.equal((await client.sUnion([key("s"), key("t")])).length, 4);
      assert.equal(await client.sDiffStore(key("u"), [key("s"), key("t")]), 2);
      assert.ok(await client.sIsMember(key("u"), "1"));
      assert.equal(await client.sCard(key("u")), 2);
    });

    test("sorted sets", async () => {
      const key = keys(`node-redis-${RESP}`);
      const members = [
        { value: "a", score: 1 },
        { value: "b", score: 2.5 },
        { value: "c", score: Infinity },
      ];
      assert.equal(await client.zAdd(key("z"), members), 3);
      assert.deepEqual(await client.zRangeWithScores(key("z"), 0, -1), members);
      assert.equal(await client.zScore(key("z"), "b"), 2.5);
      assert.equal(await client.zIncrBy(key("z"), 3, "a"), 4);
      assert.equal(await client.zRank(key("z"), "a"), 1);
      assert.equal(await client.zCount(key("z"), 2, 5), 2);
      const range = { BY: "SCORE", REV: true };
      assert.deepEqual(await client.zRange(key("z"), 5, 0, range), ["a", "b"]);
      assert.deepEqual(await client.zPopMin(key("z")), { value: "b", score: 2.5 });
    });

    test("places and estimates", async () => {
      const key = keys(`node-redis-${RESP}`);
      await client.geoAdd(key("g"), [
        { member: "Palermo", longitude: 13.361389, latitude: 38.115556 },
        { member: "Catania", longitude: 15.087269, latitude: 37.502669 },
      ]);
      const distance = await client.geoDist(key("g"), "Palermo", "Catania", "km");
      assert.ok(Math.abs(distance - 166.2742) < 0.001);
      const from = { longitude: 15, latitude: 37 };
      const near = await client.geoSearch(key("g"), from, { radius: 100, unit: "km" });
      assert.deepEqual(near, ["Catania"]);
      assert.ok(await client.pfAdd(key("p"), ["a", "b", "c"]));
      assert.equal(await client.pfCount(key("p")), 3);
    });

    test("streams and their groups", async () => {
      const key = keys(`node-redis-${RESP}`);
      assert.equal(await client.xAdd(key("x"), "1-1", { a: "1" }), "1-1");
      const second = await client.xAdd(key("x"), "*", { a: "2" });
      assert.equal(await client.xLen(key("x")), 2);
      const [first] = await client.xRange(key("x"), "-", "+", { COUNT: 1 });
      assert.equal(first.id, "1-1");
      assert.deepEqual({ ...first.message }, { a: "1" });
      await client.xGroupCreate(key("x"), "group", "0");
      const read = await client.xReadGroup("group", "me", { key: key("x"), id: ">" });
      const messages = RESP === 2 || Array.isArray(read) ? read[0].messages : read[key("x")];
      assert.equal(messages.length, 2);
      assert.equal((await client.xPending(key("x"), "group")).pending, 2);
      assert.equal(await client.xAck(key("x"), "group", ["1-1", second]), 2);
      assert.equal((await client.xPending(key("x"), "group")).pending, 0);
    });

    test("transactions", async () => {
      const key = keys(`node-redis-${RESP}`);
      const done = await client.multi().set(key("a"), "1").incr(key("a")).get(key("a")).exec();
      assert.deepEqual(done, ["OK", 2, "2"]);
      const watcher = await connected();
      await watcher.watch(key("a"));
      await client.set(key("a"), "other");
      await assert.rejects(watcher.multi().set(key("a"), "mine").exec(), WatchError);
      assert.equal(await client.get(key("a")), "other");
    });

    test("blocking", async () => {
      const key = keys(`node-redis-${RESP}`);
      const waiter = await connected();
      const popped = waiter.blPop([key("none"), key("l")], 10);
      await client.rPush(key("l"), "x");
      assert.deepEqual({ ...(await popped) }, { key: key("l"), element: "x" });
      assert.equal(await waiter.blPop(key("none"), 0.02), null);
      const smallest = waiter.bzPopMin(key("z"), 10);
      await client.zAdd(key("z"), { value: "m", score: 7 });
      assert.deepEqual({ ...(await smallest) }, { key: key("z"), value: "m", score: 7 });
      const entries = waiter.xRead({ key: key("x"), id: "$" }, { BLOCK: 10_000 });
      let isRead = false;
      entries.then(() => {
        isRead = true;
      });
      await eventually(async () => {
        await client.xAdd(key("x"), "*", { a: "1" });
        return isRead;
      });
      assert.ok(await entries);
    });

    test("pub/sub", async () => {
      const key = keys(`node-redis-${RESP}`);
      const subscriber = await connected();
      const [plain, gotPlain] = promised();
      const [matched, gotMatched] = promised();
      const [sharded, gotSharded] = promised();
      await subscriber.subscribe(key("c"), gotPlain);
      await subscriber.pSubscribe(key("p*"), (text, channel) => gotMatched([text, channel]));
      await subscriber.sSubscribe(key("s"), gotSharded);
      assert.equal(await client.publish(key("c"), "one"), 1);
      assert.equal(await client.publish(key("pattern"), "two"), 1);
      assert.equal(await client.sPublish(key("s"), "three"), 1);
      assert.equal(await plain, "one");
      assert.deepEqual(await matched, ["two", key("pattern")]);
      assert.equal(await sharded, "three");
      await subscriber.unsubscribe(key("c"));
      assert.equal(await client.publish(key("c"), "four"), 0);
    });

    test("a pipeline and a scan", async () => {
      const key = keys(`node-redis-${RESP}`);
      const numbers = [...Array(500).keys()];
      await Promise.all(numbers.map((number) => client.set(key(`k${number}`), `${number}`)));
      const seen = new Set();
      for await (const names of client.scanIterator({ MATCH: key("k*"), COUNT: 100 })) {
        [names].flat().forEach((name) => seen.add(name));
      }
      assert.equal(seen.size, 500);
      assert.equal(await client.unlink([...seen]), 500);
    });
  });
}
