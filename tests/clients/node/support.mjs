// What both clients' tests share: where the server is, and names that no other test uses.

import { readFileSync } from "node:fs";

export const port = Number(process.env.TIDEWIRE_PORT ?? 6379);

const authority = process.env.TIDEWIRE_TLS_CA;
/** What a TLS connection needs to know; nothing without TLS. */
export const tls = authority && { ca: readFileSync(authority) };

let count = 0;

/** Keys of one test: they share a prefix of their own. */
export function keys(client) {
  count += 1;
  const prefix = `${client}:${count}`;
  return (name) => `${prefix}:${name}`;
}

/** A promise and the function that keeps it. */
export function promised() {
  let keep;
  const promise = new Promise((resolve) => {
    keep = resolve;
  });
  return [promise, keep];
}

/** Waits until `condition` gives something true. */
export async function eventually(condition) {
  for (let attempt = 0; attempt < 500; attempt += 1) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("it never came true");
}
