// Types of tidewire.js. The protocol: docs/web-protocol.md.

/** A value as the hub publishes it. A number beyond 2^53 loses digits in JavaScript. */
export type Value = string | number | boolean | null | Value[] | { [name: string]: Value };

/** A topic's fields. A field that has no value is left out. */
export type Fields = { [name: string]: Value };

export type State =
  | { name: "connecting" }
  | { name: "open" }
  /** The hub wants a user: call `signIn` (a page) or `login` (a program). */
  | { name: "login"; reason: string }
  /** The connection was lost; the next try is at the time `at`, in ms as of `Date.now`. */
  | { name: "waiting"; reason: string; at: number }
  | { name: "ended"; reason?: string };

export interface Hello {
  hello: number;
  server: string;
  /** Another text after each restart of the hub. */
  run: string;
  /** null: log in first. */
  user: string | null;
  limits: { [name: string]: number };
}

export interface Options {
  /** A program's user; its name and password are sent after each connection. */
  user?: string;
  password?: string;
  /** How the hub names this page among its clients (CLIENT LIST). */
  name?: string;
  /** Another WebSocket class, for a runtime without one. */
  WebSocket?: unknown;
  /** When the next values may come: `requestAnimationFrame` by default, so a hidden page gets none. */
  frame?: (task: () => void) => void;
  /** The time in milliseconds: `Date.now` by default. */
  now?: () => number;
}

/** What the hub or this client refused. `code` is Redis's (NOPERM, WRONGTYPE, …), or NOLINK
 * or LIMIT (nothing was sent), or UNKNOWN (the connection was lost before the answer, or the plant was silent). */
export class HubError extends Error {
  constructor(code: string, message: string);
  code: string;
}

export interface Change {
  name: string;
  /** All fields that are known; null if the topic is gone. */
  fields: Fields | null;
  /** The fields that have changed: null for one that is gone; null if the topic is gone. */
  changed: Fields | null;
}

export interface Batch {
  /** These are current values, at the start or after a lost connection. */
  snapshot: boolean;
  /** False in each part of a snapshot but the last one. */
  complete: boolean;
  asOf?: number;
}

export interface Stream {
  close(): void;
}

export interface Subscription extends Stream {
  /** The current fields of each topic. They stay while the connection is lost. */
  readonly topics: Map<string, Fields>;
}

export interface ViewWish {
  topics: string[];
  fields?: string[];
  /** A field, "name" (the default), or "updates". */
  sort?: string;
  descending?: boolean;
  /** A part of the name, in upper or lower case. */
  filter?: string;
  from: number;
  rows: number;
  hz?: number;
}

export interface Page {
  total: number;
  from: number;
  rows: { name: string; fields: Fields | null; changed: Fields | null }[];
}

export interface View extends Stream {
  readonly wish: ViewWish;
  /** Moves the page, or changes its order or filter. */
  change(wish: Partial<ViewWish>): void;
}

export interface LogLine {
  time: string;
  level: string;
  target: string;
  message: string;
  /** What the line tells besides. */
  [name: string]: Value;
}

export interface LogPart {
  /** These are the newest lines, at the start or after a lost connection. */
  snapshot: boolean;
  /** Lines that came faster than the page took them. */
  lost: number;
}

export interface LogOptions {
  /** The least grave level: trace, debug, info, warn or error; all without it. */
  level?: string;
  /** How many of the newest lines come first: up to 1000, 100 without it. */
  lines?: number;
  failed?: (error: HubError) => void;
}

export interface SubscribeOptions {
  fields?: string[];
  /** Batches per second: 0.01 to 1000, 60 by default. */
  hz?: number;
  failed?: (error: HubError) => void;
}

export class Hub {
  constructor(url: string, options?: Options);
  readonly state: State;
  readonly hello: Hello | null;
  on(event: "state", listener: (state: State) => void): () => void;
  /** The hub has been started again since the last connection. */
  on(event: "restart", listener: (hello: Hello) => void): () => void;
  subscribe(
    topics: string | string[],
    listener: (changes: Change[], batch: Batch) => void,
    options?: SubscribeOptions,
  ): Subscription;
  view(wish: ViewWish, listener: (page: Page) => void, failed?: (error: HubError) => void): View;
  /** Needs the right to MONITOR. */
  log(listener: (lines: LogLine[], part: LogPart) => void, options?: LogOptions): Stream;
  do(...command: (string | number)[]): Promise<Value>;
  set(topic: string, value: string | number): Promise<Value>;
  publish(topic: string, value: string | number): Promise<number>;
  login(user: string, password: string): Promise<Value>;
  signIn(user: string, password: string): Promise<void>;
  signOut(): Promise<void>;
  reconnect(): void;
  checkSilence(): void;
  close(): void;
}

export function connect(url?: string, options?: Options): Hub;

/** The bytes of a text of the hub: UTF-8, or what follows `base64:`. */
export function bytesOf(text: string): Uint8Array;
