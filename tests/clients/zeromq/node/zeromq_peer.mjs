// Tidewire's ZeroMQ sockets in a process of their own, driven a line at a time.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** The process. `open` opens a socket in it. */
export class Peer {
  #process = spawn(process.env.TIDEWIRE_ZMQ_PEER, { stdio: ["pipe", "pipe", "inherit"] });
  #waiting = [];
  #count = 0;

  constructor() {
    createInterface({ input: this.#process.stdout }).on("line", (line) => {
      const [resolve, reject] = this.#waiting.shift();
      if (line.startsWith("ok")) resolve(line.slice(3));
      else reject(new Error(line));
    });
  }

  /** Sends a command; what stands behind `ok`. */
  ask(line) {
    this.#process.stdin.write(`${line}\n`);
    return new Promise((resolve, reject) => this.#waiting.push([resolve, reject]));
  }

  async open(kind) {
    this.#count += 1;
    const name = `s${this.#count}`;
    await this.ask(`open ${name} ${kind}`);
    return new Socket(this, name);
  }

  stop() {
    this.#process.stdin.end();
  }
}

/** One of its sockets. */
class Socket {
  #peer;
  #name;

  constructor(peer, name) {
    this.#peer = peer;
    this.#name = name;
  }

  set(number, value) {
    const bytes = Buffer.alloc(4);
    if (typeof value === "number") bytes.writeInt32LE(value);
    return this.#ask("option", number, hex(typeof value === "number" ? bytes : value));
  }

  bind(endpoint) {
    return this.#ask("bind", endpoint);
  }

  connect(endpoint) {
    return this.#ask("connect", endpoint);
  }

  send(frames) {
    return this.#ask("send", ...frames.map(hex));
  }

  async receive() {
    const words = await this.#ask("receive");
    return words.split(" ").map((word) => Buffer.from(word === "-" ? "" : word, "hex"));
  }

  close() {
    return this.#ask("close");
  }

  #ask(command, ...words) {
    return this.#peer.ask([command, this.#name, ...words].join(" "));
  }
}

function hex(frame) {
  return Buffer.from(frame).toString("hex") || "-";
}
