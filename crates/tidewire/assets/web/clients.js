// The clients of the hub, those that read too slowly first.

import { fill, h, write } from "./dom.js";
import * as format from "./format.js";
import { table } from "./cards.js";
import { PolledCard } from "./polled.js";

const SHOWN = 40;
const PERIOD_MS = 2_000;
// A client with more than this unread is called slow.
const SLOW_BYTES = 65_536;

export class ClientsCard extends PolledCard {
  #note;
  #pulse;
  #totals;

  constructor(hub, pulse) {
    const [note, totals] = [h("span.muted"), h("p.muted")];
    super(hub, PERIOD_MS, "Clients and slow consumers", note, totals);
    [this.#note, this.#totals, this.#pulse] = [note, totals, pulse];
  }

  ask() {
    return this.hub.do("CLIENT", "LIST");
  }

  draw(text) {
    const clients = readClients(text);
    clients.sort(
      (one, other) =>
        other.pending - one.pending || other.subscriptions - one.subscriptions || one.id - other.id,
    );
    const slow = clients.filter(({ pending }) => pending > SLOW_BYTES).length;
    write(
      this.#note,
      `${format.count(clients.length)} connected, ${slow === 0 ? "none slow" : `▲ ${slow} slow`}`,
    );
    const info = this.#pulse.now?.info ?? {};
    write(
      this.#totals,
      `Since the start: ${format.count(info.conflated_messages)} conflated, ${format.count(info.dropped_messages)} dropped, ` +
        `${format.count(info.cut_off_subscribers)} subscribers and ${format.count(info.feed_cut_off_clients)} feed clients disconnected`,
    );
    const rows = clients.slice(0, SHOWN).map((client) => {
      const isSlow = client.pending > SLOW_BYTES;
      const row = [
        client.label,
        client.user,
        isSlow ? "▲ slow" : "✓",
        format.bytes(client.pending),
        format.line(client.conflated),
        format.count(client.subscriptions),
        client.command,
        format.duration(client.age),
        format.duration(client.idle),
      ];
      if (isSlow) row.className = "slow";
      return row;
    });
    fill(
      this.body,
      table(
        [
          ["Client"],
          ["User"],
          ["State"],
          ["Pending", true],
          ["Conflated", true],
          ["Subs.", true],
          ["Last command"],
          ["Age", true],
          ["Idle", true],
        ],
        rows,
      ),
      clients.length > SHOWN && h("p.muted", `and ${clients.length - SHOWN} more`),
    );
  }
}

/** The lines of CLIENT LIST. */
export function readClients(text) {
  return text
    .trim()
    .split("\n")
    .filter(Boolean)
    .map((line) => {
      const all = Object.fromEntries(
        line.split(" ").map((part) => {
          const at = part.indexOf("=");
          return [part.slice(0, at), part.slice(at + 1)];
        }),
      );
      const number = (name) => Number(all[name] ?? 0);
      return {
        id: number("id"),
        label: all.name ? `${all.name} (${all.addr})` : `${all.addr}`,
        user: all.user,
        pending: number("omem"),
        subscriptions: number("sub") + number("psub") + number("ssub"),
        // Web pages have no last command; how many updates a later one has replaced is told of them.
        command: all["lib-name"] === "web" ? "web page" : (all.cmd ?? "").replace("|", " "),
        conflated: all.conflated === undefined ? null : format.count(all.conflated),
        age: number("age"),
        idle: number("idle"),
      };
    });
}
