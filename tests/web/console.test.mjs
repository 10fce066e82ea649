// Unit tests of the console's modules that need no page: node --test tests/web/
import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../crates/tidewire/assets/web/format.js";
import { alarm, limits } from "../../crates/tidewire/assets/web/alarms.js";
import { mark } from "../../crates/tidewire/assets/web/marks.js";
import { words, written } from "../../crates/tidewire/assets/web/command.js";
import { readClients } from "../../crates/tidewire/assets/web/clients.js";
import { parse, parts } from "../../crates/tidewire/assets/web/pulse.js";

test("numbers keep their digits, and a missing one is a dash", () => {
  assert.equal(format.price(2990.5), "2,990.50");
  assert.equal(format.price("2480.788058005"), "2,480.788058005");
  assert.equal(format.price(null), "–");
  assert.equal(format.price(""), "–");
  assert.equal(format.price(0), "0.00");
  assert.equal(format.short(100005), "100k");
  assert.equal(format.short(1234567), "1.23M");
  assert.equal(format.short(3374.8), "3,375");
  assert.equal(format.short(2.04), "2.0");
  assert.equal(format.bytes(1536), "1.50 KB");
});

test("a change has a sign and an arrow, and none where it is zero", () => {
  assert.equal(format.change(0.479), "▲ +0.48 %");
  assert.equal(format.change(-1.5), "▼ −1.50 %");
  assert.equal(format.change(0.001), "0.00 %");
  assert.deepEqual([0.48, -0.005, 0.001, null].map(format.way), [1, -1, 0, 0]);
});

test("latencies and durations are short", () => {
  assert.equal(format.latency(116_700), "117 µs");
  assert.equal(format.latency(4_640_000), "4.64 ms");
  assert.equal(format.latency(435_159_039), "435 ms");
  assert.equal(format.latency(1_078_984_703), "1.08 s");
  assert.equal(format.duration(86_400 * 3 + 3_600 * 4), "3 d 4 h");
  assert.equal(format.duration(428), "7 m 8 s");
});

test("a topic that is not current is marked", () => {
  assert.equal(mark({ stale: 0, state: "open" }), null);
  assert.equal(mark({ stale: 1, state: "halted" })[1], "stale");
  assert.equal(mark({ stale: 2 })[1], "in doubt");
  assert.equal(mark({ stale: 0, state: "halted" })[1], "halted");
  assert.equal(mark({ stale: 0, state: "paused" })[1], "paused");
  assert.equal(mark(null), null);
});

test("a bad quality outranks a limit, and a limit an uncertain quality", () => {
  limits.kept = { "mx:T": { low: 1, high: 10 } };
  assert.equal(alarm("mx:T", { value: 5, quality: 192 }).rank, 0);
  assert.equal(alarm("mx:T", { value: 11, quality: 192 }).text, "above 10");
  assert.equal(alarm("mx:T", { value: 0, quality: 192 }).text, "below 1");
  assert.equal(alarm("mx:T", { value: 11, quality: 64 }).rank, 2);
  assert.equal(alarm("mx:T", { value: 5, quality: 68, quality_text: "uncertain" }).rank, 1);
  assert.equal(alarm("mx:T", { value: 11, quality: 24, quality_text: "bad" }).rank, 3);
  assert.equal(alarm("mx:U", { value: "text", quality: 192 }).rank, 0);
});

test("words of a command line are those of redis-cli", () => {
  assert.deepEqual(words(`SET a "b c\\n\\x41" 'd "e"'`), ["SET", "a", "b c\nA", 'd "e"']);
  assert.deepEqual(words(`set k ""`), ["set", "k", ""]);
});

test("replies are written as redis-cli writes them", () => {
  assert.equal(written(null), "(nil)");
  assert.equal(written(3), "(integer) 3");
  assert.equal(written(["a", [1, 2]]), '1) "a"\n2) 1) (integer) 1\n   2) (integer) 2');
  assert.equal(written({}), "(empty map)");
});

test("INFO and CLIENT LIST are read", () => {
  assert.deepEqual(parse("# Server\r\nrun_id:ab\r\n\r\nlane0:a=1,b=x\r\n"), {
    run_id: "ab",
    lane0: "a=1,b=x",
  });
  assert.deepEqual(parts("a=1,b=x=y"), { a: "1", b: "x=y" });
  const [client] = readClients(
    "id=3 addr=127.0.0.1:5 name=feed sub=1 psub=2 ssub=0 omem=70000 cmd=client|list user=default age=9 idle=1\n",
  );
  assert.deepEqual(
    [client.label, client.subscriptions, client.pending, client.command],
    ["feed (127.0.0.1:5)", 3, 70000, "client list"],
  );
});
