// The panel of the hub itself: figures, charts, lanes, inputs, clients, slow log, log lines.

import { fill, h } from "./dom.js";
import * as format from "./format.js";
import { Chart } from "./chart.js";
import { card, table } from "./cards.js";
import { parts } from "./pulse.js";
import { ClientsCard } from "./clients.js";
import { LatencyCard } from "./latency.js";
import { LogCard, SlowLogCard } from "./logs.js";

const facts = (rows) =>
  h(
    "dl.facts",
    rows.filter(Boolean).map(([name, value, kind]) => [h("dt", name), h(kind ? `dd.${kind}` : "dd", value)]),
  );
const isYes = (value) => Number(value) === 1;

export class HubPanel {
  #pulse;
  #cards;
  #tiles;
  #lanes;
  #inputs;
  #persistence;
  #replication;
  #cluster;
  #charts;
  #off = null;
  #error;
  #threads;

  constructor(hub, pulse) {
    this.#pulse = pulse;
    this.#tiles = h("div.tiles");
    [this.#inputs, this.#persistence, this.#replication, this.#cluster] = Array.from({ length: 4 }, () =>
      h("div"),
    );
    this.#lanes = h("div.lanes");
    this.#threads = h("div.threads");
    this.#error = h("p.error", { role: "alert", hidden: true });
    this.#charts = {
      rates: new Chart({
        label: "Messages and commands per second",
        height: 180,
        format: format.short,
        zero: true,
        series: [
          { label: "Applied", colour: "accent", width: 2 },
          { label: "Delivered", colour: "up", dash: [6, 3] },
          { label: "Commands", colour: "violet", dash: [2, 3] },
        ],
      }),
      memory: new Chart({
        label: "Memory",
        height: 180,
        format: format.bytes,
        zero: true,
        binary: true,
        series: [
          { label: "Resident", colour: "accent", width: 2 },
          { label: "Used", colour: "up", dash: [6, 3] },
        ],
      }),
    };
    this.#cards = [
      new LatencyCard(hub, pulse),
      new ClientsCard(hub, pulse),
      new SlowLogCard(hub),
      new LogCard(hub),
    ];
    const [latency, clients, slow, log] = this.#cards;
    this.element = h(
      "section.panel.hub",
      { "aria-label": "Hub" },
      this.#error,
      this.#tiles,
      h(
        "div.cards",
        card("Rates", h("span.muted", "per second"), this.#charts.rates.element),
        latency.element,
        card("Memory", null, this.#charts.memory.element),
        card("Lanes", null, this.#lanes),
        card("Inputs and recovery", null, this.#inputs),
        card("Threads", h("span.muted", "share of one processor"), this.#threads),
        clients.element,
        card("Replication", null, this.#replication),
        card("Persistence", null, this.#persistence),
        card("Cluster", null, this.#cluster),
        slow.element,
        log.element,
      ),
    );
    pulse.onFailure((error) => {
      this.#error.hidden = false;
      this.#error.textContent = `${error.code}: this user may not read the figures of the hub (${error.message})`;
    });
  }

  show() {
    if (this.#off !== null) return;
    this.#off = this.#pulse.on((now) => this.#draw(now));
    for (const one of this.#cards) one.start();
  }

  hide() {
    this.#off?.();
    this.#off = null;
    for (const one of this.#cards) one.stop();
  }

  #draw({ info, rates, lanes }) {
    this.#error.hidden = true;
    this.#drawTiles(info, rates);
    this.#charts.rates.set(
      this.#pulse.series("feed_applied_messages", "delivered_messages", "total_commands_processed"),
    );
    this.#charts.memory.set(this.#pulse.series("used_memory_rss", "used_memory"));
    fill(this.#lanes, laneTable(lanes));
    fill(this.#inputs, inputs(info));
    fill(this.#replication, replication(info));
    fill(this.#persistence, persistence(info));
    fill(this.#cluster, cluster(info));
    fill(this.#threads, threads(info));
  }

  #drawTiles(info, rates) {
    const lost = Number(info.feed_lost_messages);
    const tiles = [
      [
        "Messages / s",
        format.short(rates.feed_applied_messages),
        `${format.short(info.feed_applied_messages)} applied`,
      ],
      [
        "Delivered / s",
        format.short(rates.delivered_messages),
        `${format.short(info.conflated_messages)} conflated`,
      ],
      [
        "Commands / s",
        format.short(rates.total_commands_processed),
        `${format.short(info.total_commands_processed)} since start`,
      ],
      [
        "Latency p99",
        format.latency(info.feed_latency_p99_ns),
        `p50 ${format.latency(info.feed_latency_p50_ns)}`,
      ],
      ["Topics", format.count(info.market_topics), `${format.count(info.plant_tags ?? 0)} plant tags`],
      ["Clients", format.count(info.connected_clients), `${format.count(info.pubsub_clients)} subscribing`],
      [
        "Memory",
        format.bytes(info.used_memory_rss),
        Number(info.maxmemory) > 0 ? `limit ${format.bytes(info.maxmemory)}` : "no limit",
      ],
      ["Lost", format.count(lost), lost === 0 ? "✓ all recovered" : "✕ see the log", lost === 0 ? "" : "bad"],
      ["Up", format.duration(info.uptime_in_seconds), `version ${info.tidewire_version ?? ""}`],
    ];
    fill(
      this.#tiles,
      tiles.map(([title, value, note, kind]) =>
        h(
          kind ? `div.tile.${kind}` : "div.tile",
          h("span.tile-title", title),
          h("b", value),
          h("span.muted", note),
        ),
      ),
    );
  }
}

function laneTable(lanes) {
  const rows = lanes.map((lane) => {
    const meter = h("meter", {
      min: 0,
      max: 100,
      low: 60,
      high: 85,
      optimum: 0,
      value: lane.busy ?? 0,
      "aria-label": `Lane ${lane.number} busy`,
    });
    return [
      String(lane.number),
      [meter, ` ${lane.busy === null ? format.LINE : `${lane.busy.toFixed(1)} %`}`],
      format.short(lane.turns),
      `${format.short(lane.reads)} · ${format.short(lane.writes)}`,
      lane.connections,
      lane.doing,
    ];
  });
  return table([["Lane"], ["Busy"], ["Turns/s", true], ["R · W/s", true], ["Conn.", true], ["Doing"]], rows);
}

function inputs(info) {
  if (info.feed_sources === undefined) return h("p.muted", "This hub has no feed.");
  const lost = Number(info.feed_lost_messages);
  const rows = [
    ["Sources connected", format.count(info.feed_sources)],
    [
      "Gaps → recovered",
      `${format.count(info.feed_gaps)} → ${format.count(info.feed_recovered_messages)} messages`,
    ],
    ["Lost for good", lost === 0 ? "✓ 0" : `✕ ${format.count(lost)}`, lost === 0 ? "ok" : "bad"],
    ["Refused", format.count(info.feed_refused_messages)],
    ["Source clock ahead", `${format.count(info.feed_clock_ahead_messages)} messages`],
    [
      "Can be sent again",
      `${format.count(info.feed_window_messages_kept)} messages, ${format.bytes(info.feed_window_bytes)}`,
    ],
    info.plant_address && [
      "Plant",
      isYes(info.plant_connected) ? `✓ ${info.plant_address}` : `✕ ${info.plant_address} is away`,
      isYes(info.plant_connected) ? "ok" : "bad",
    ],
    info.plant_address && [
      "Plant writes",
      `${info.plant_writes_ok} ok, ${info.plant_writes_refused} refused, ${info.plant_writes_unknown} unknown`,
    ],
    isYes(info.recording) && [
      "Recording",
      `${format.count(info.recording_messages)} messages, ${format.bytes(info.recording_bytes)}`,
    ],
  ];
  const feeds = Object.keys(info)
    .filter((name) => /^feed_input\d+$/.test(name))
    .map((name) => {
      const all = parts(info[name]);
      return [
        name.replace("feed_input", ""),
        all.name ?? all.source ?? "",
        Object.entries(all)
          .filter(([key]) => !["name", "source"].includes(key))
          .map(([key, value]) => `${key} ${value}`)
          .join("  "),
      ];
    });
  return [facts(rows), feeds.length > 0 && table([["Input"], ["Name"], ["State"]], feeds)];
}

function replication(info) {
  const isReplica = info.role === "slave";
  const up = info.master_link_status === "up";
  const replicas = Object.keys(info)
    .filter((name) => /^slave\d+$/.test(name))
    .map((name) => {
      const all = parts(info[name]);
      return [
        `${all.ip}:${all.port}`,
        all.state,
        format.bytes(info.master_repl_offset - all.offset),
        `${all.lag} s`,
      ];
    });
  return [
    facts([
      ["Role", isReplica ? "replica" : "master"],
      isReplica && [
        "Master",
        `${up ? "✓" : "✕"} ${info.master_host}:${info.master_port}, link ${info.master_link_status}`,
        up ? "ok" : "bad",
      ],
      !isReplica && ["Replicas", format.count(info.connected_slaves)],
      ["Offset", format.count(info.master_repl_offset)],
      ["Failover", format.line(info.master_failover_state ?? null)],
    ]),
    replicas.length > 0 && table([["Replica"], ["State"], ["Behind", true], ["Heard", true]], replicas),
  ];
}

function persistence(info) {
  const good = (value) => (value === "ok" ? ["✓ ok", "ok"] : [`✕ ${value}`, "bad"]);
  return facts([
    ["Changes not in a snapshot", format.count(info.rdb_changes_since_last_save)],
    ["Last snapshot", format.moment(Number(info.rdb_last_save_time) * 1000)],
    ["Its result", ...good(info.rdb_last_bgsave_status)],
    ["Append-only file", isYes(info.aof_enabled) ? `on, ${format.bytes(info.aof_current_size)}` : "off"],
    isYes(info.aof_enabled) && ["Last write of it", ...good(info.aof_last_write_status)],
    isYes(info.loading) && ["Loading", "… keys are loading", "bad"],
  ]);
}

function cluster(info) {
  const rows = Object.entries(info).filter(
    ([name]) => name.startsWith("cluster_") && !["cluster_enabled", "cluster_connections"].includes(name),
  );
  if (rows.length === 0) return h("p.muted", "This hub is in no cluster.");
  return facts(
    rows
      .slice(0, 20)
      .map(([name, value]) => [
        name.slice(8).replaceAll("_", " "),
        format.isNumber(value) ? format.count(value) : value,
      ]),
  );
}

function threads(info) {
  const rows = Object.keys(info)
    .filter((name) => /^thread\d+$/.test(name))
    .map((name) => parts(info[name]))
    .sort((one, other) => other.cpu_percent - one.cpu_percent);
  return table(
    [["Thread"], ["CPU", true], ["Since start", true]],
    rows
      .slice(0, 8)
      .map((one) => [
        one.name,
        `${Number(one.cpu_percent).toFixed(1)} %`,
        `${(one.cpu_msec / 1000).toFixed(1)} s`,
      ]),
  );
}
