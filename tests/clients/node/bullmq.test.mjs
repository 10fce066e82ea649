// BullMQ's job queues, as its own guide introduces them: all of it is Lua scripts over many keys.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } from "bullmq";
import { eventually, port, tls } from "./support.mjs";

const connection = { host: "127.0.0.1", port, tls, maxRetriesPerRequest: null };
const open = [];

/** Ends with the test file, the last one first. */
function kept(one) {
  one.on("error", () => {});
  open.push(one);
  return one;
}

function queue(name, options = {}) {
  return kept(new Queue(name, { connection, ...options }));
}

function worker(name, work, options = {}) {
  return kept(new Worker(name, work, { connection, drainDelay: 1, ...options }));
}

let count = 0;

/** The name of a queue that no other test uses, of an earlier run neither. */
function name() {
  count += 1;
  return `queue-${process.pid}-${count}`;
}

let events;
let shared;

before(async () => {
  shared = name();
  events = kept(new QueueEvents(shared, { connection }));
  await events.waitUntilReady();
});

after(async () => {
  for (const one of open.reverse()) await one.close();
});

test("a job's result comes back to who waits for it", async () => {
  const jobs = queue(shared);
  worker(shared, async (job) => ({ doubled: job.data.value * 2, name: job.name }));
  const job = await jobs.add("double", { value: 21 });
  const result = await job.waitUntilFinished(events, 20_000);
  assert.deepEqual(result, { doubled: 42, name: "double" });
  assert.equal(await (await jobs.getJob(job.id)).getState(), "completed");
});

test("many jobs are each done once, by several workers", async () => {
  const own = name();
  const jobs = queue(own);
  const done = [];
  const work = async (job) => void done.push(job.data.number);
  for (let count = 0; count < 3; count += 1) worker(own, work, { concurrency: 10 });
  const batch = Array.from({ length: 300 }, (_, number) => ({ name: "n", data: { number } }));
  await jobs.addBulk(batch);
  await eventually(() => done.length >= batch.length);
  assert.deepEqual(
    done.toSorted((one, other) => one - other),
    batch.map((job) => job.data.number),
  );
  await eventually(async () => (await jobs.getJobCounts()).completed === batch.length);
});

test("a job that fails is tried again, and failed for good when nothing helps", async () => {
  const own = name();
  const jobs = queue(own, {
    defaultJobOptions: { attempts: 3, backoff: { type: "exponential", delay: 5 } },
  });
  worker(own, async (job) => {
    if (job.name === "hopeless") throw new UnrecoverableError("no use");
    if (job.attemptsMade < 2) throw new Error("not yet");
    return job.attemptsMade;
  });
  const stubborn = await jobs.add("stubborn", {});
  const hopeless = await jobs.add("hopeless", {});
  await eventually(() => stubborn.isCompleted());
  await eventually(() => hopeless.isFailed());
  const failed = await jobs.getJob(hopeless.id);
  assert.equal(failed.failedReason, "no use");
  assert.equal(failed.attemptsMade, 1);
  assert.equal((await jobs.getJob(stubborn.id)).returnvalue, 2);
  await failed.retry();
  await eventually(async () => (await jobs.getJob(hopeless.id)).attemptsMade >= 1);
});

test("the most urgent job goes first, and a delayed one waits", async () => {
  const own = name();
  const jobs = queue(own);
  await jobs.pause();
  await jobs.add("late", {}, { delay: 2_000 });
  await jobs.add("low", {}, { priority: 10 });
  await jobs.add("high", {}, { priority: 1 });
  await jobs.add("middle", {}, { priority: 5 });
  await jobs.add("urgent", {});
  assert.deepEqual(await jobs.getJobCounts("delayed", "prioritized", "wait"), {
    delayed: 1,
    prioritized: 3,
    wait: 1,
  });
  const order = [];
  worker(own, async (job) => void order.push(job.name), { concurrency: 1 });
  await jobs.resume();
  await eventually(() => order.length === 5);
  assert.deepEqual(order, ["urgent", "high", "middle", "low", "late"]);
});

test("a parent runs after all of its children", async () => {
  const [parents, children] = [name(), name()];
  const flow = kept(new FlowProducer({ connection }));
  queue(parents);
  worker(children, async (job) => job.data.part * 10);
  const sums = [];
  worker(parents, async (job) => {
    const values = Object.values(await job.getChildrenValues());
    sums.push(values.reduce((one, other) => one + other, 0));
  });
  await flow.add({
    name: "sum",
    queueName: parents,
    children: [1, 2, 3].map((part) => ({ name: "part", data: { part }, queueName: children })),
  });
  await eventually(() => sums.length === 1);
  assert.deepEqual(sums, [60]);
});

test("a scheduler makes jobs at its pace, until it is removed", async () => {
  const own = name();
  const jobs = queue(own);
  let count = 0;
  worker(own, async () => void (count += 1));
  await jobs.upsertJobScheduler("beat", { every: 40 }, { name: "tick" });
  await eventually(() => count >= 3);
  assert.equal((await jobs.getJobSchedulers()).length, 1);
  assert.equal(await jobs.removeJobScheduler("beat"), true);
  assert.equal((await jobs.getJobSchedulers()).length, 0);
});

test("no more jobs run than a rate limit allows", async () => {
  const own = name();
  const jobs = queue(own);
  const times = [];
  const started = Date.now();
  worker(own, async () => void times.push(Date.now()), { limiter: { max: 2, duration: 200 } });
  await jobs.addBulk(Array.from({ length: 6 }, () => ({ name: "n", data: {} })));
  await eventually(() => times.length === 6);
  // Three rounds: the last begins two periods after the first, but for the clock's grain.
  assert.ok(times[4] - started >= 380, `${times.map((time) => time - started)}`);
});

test("a queue is drained and obliterated", async () => {
  const own = name();
  const jobs = queue(own);
  await jobs.addBulk(Array.from({ length: 50 }, () => ({ name: "n", data: {} })));
  await jobs.add("late", {}, { delay: 60_000 });
  assert.equal(await jobs.count(), 51);
  await jobs.drain(true);
  assert.equal(await jobs.count(), 0);
  await jobs.obliterate();
  assert.equal((await jobs.getMeta()).version, undefined);
});
