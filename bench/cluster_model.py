#!/usr/bin/env python3
"""Computes what a cluster of many hubs, topics and sites would need, from figures of small ones.

    bench/cluster_model.py [--hubs 100] [--topics 10000000] [--sites 10] [--rate 0.1] [--hz 10]

A model, not a measurement: each figure below says where it comes from. Every site has as many
sources, topics and hubs as any other. A source is published by one hub of its site, with a standby,
and relayed to every other site. All hubs receive all sources. `docs/cluster-capacity.md` has the
table and what it means.

Updates of a topic come at random. A few topics have most of them: HOT of the topics have HOT_SHARE
of the updates. That is what makes conflation worth its while.
"""

import argparse
import math

# What the protocol says (docs/cluster-protocol.md).
PAGE_ENTRIES = 128
PAGES_MAX = 65_536
FLUSH_S = 0.001
BODY_BYTES = 48 << 10
FRAME_HEADER_BYTES = 32
SNAPSHOT_INTERVAL_S = 5
PAGES_IN_FLIGHT = 64
TAKEOVER_S = 3.5
LOG_BYTES = 1 << 30
LOG_S = 600

# Sizes of messages (docs/feed-protocol.md): a definition and a last value with figures.
RECORD_BYTES = 112 + 176

# Measured once with a release build on 2 busy vCPUs, a simulated exchange with 50,000 and 100,000
# symbols, 149,000 updates/s (docs/cluster-capacity.md). CPU was scarce: these are high.
UPDATE_BYTES = 118         # of the stream in NATS: 157 with snapshots
OWNER_NS = 530             # CPU of the owner's threads `cluster` and `nats` per update
TOPIC_BYTES = 800          # resident memory of a hub per topic of another hub,
HUB_BYTES = 85 << 20       # and of its own
JOIN_TOPICS_S = 100_000    # topics of a snapshot that one core reads and applies per second
# Assumed: applying an update, for which the hub's own feed was measured.
EDGE_NS = 700

# Measured with three NATS servers (sync_interval: always), 32 KiB, 64 on their way.
STORED_S = PAGES_IN_FLIGHT / 0.129
# The NATS project's own figure, 16 KB messages: bytes a server sends in all.
NATS_BYTES_S = 3.4 * 2**30
LINE_BYTES_S = 125_000_000  # a line of 1 Gbit/s between two sites

HOT, HOT_SHARE = 0.01, 0.9


def conflated_rate(rate, hz):
    """Values per second of a topic whose updates come at random, at most one per tick."""
    return hz * (1 - math.exp(-rate / hz))


def two_kinds(rate, figure):
    """The mean of a figure over the few topics with many updates, and the many with few."""
    hot, cold = rate * HOT_SHARE / HOT, rate * (1 - HOT_SHARE) / (1 - HOT)
    return HOT * figure(hot) + (1 - HOT) * figure(cold)


def frames(bytes_s, updates_s):
    """Frames per second: one per millisecond, or more if they are full, or one per update."""
    return min(updates_s, max(1 / FLUSH_S, bytes_s / BODY_BYTES))


def changed_pages(pages, rate):
    """Pages of a source that have a changed entry when a snapshot is made. Topics with many
    updates are spread over all pages."""
    hot, cold = rate * HOT_SHARE / HOT, rate * (1 - HOT_SHARE) / (1 - HOT)
    mean = PAGE_ENTRIES * (HOT * min(hot * SNAPSHOT_INTERVAL_S, 1)
                           + (1 - HOT) * (1 - math.exp(-cold * SNAPSHOT_INTERVAL_S)))
    return pages * (1 - math.exp(-mean))


def model(options):
    topics = options.topics / options.sites
    hubs = options.hubs / options.sites
    updates = topics * options.rate
    relayed = topics * two_kinds(options.rate, lambda rate: conflated_rate(rate, options.hz))
    full_bytes, relayed_bytes = updates * UPDATE_BYTES, relayed * UPDATE_BYTES
    full_frames, relayed_frames = frames(full_bytes, updates), frames(relayed_bytes, relayed)
    full_bytes += full_frames * FRAME_HEADER_BYTES
    relayed_bytes += relayed_frames * FRAME_HEADER_BYTES
    shards = math.ceil(topics / (PAGES_MAX * PAGE_ENTRIES))
    pages = math.ceil(topics / PAGE_ENTRIES)
    page_bytes = PAGE_ENTRIES * RECORD_BYTES
    asked_pages = changed_pages(pages, options.rate) / SNAPSHOT_INTERVAL_S
    stored_pages = min(asked_pages, STORED_S)
    others = options.sites - 1
    hub_updates = updates + others * relayed
    hub_bytes = full_bytes + others * relayed_bytes
    # The snapshots of a site's sources: its own, and those of the relays into it.
    nats_in = hub_bytes + (1 + others) * stored_pages * page_bytes
    nats_out = hubs * hub_bytes
    whole = pages / STORED_S
    join = options.topics / JOIN_TOPICS_S
    return {
        "topics": topics, "shards": shards, "pages": pages, "updates": updates,
        "relayed": relayed, "full_frames": full_frames, "relayed_frames": relayed_frames,
        "full_bytes": full_bytes, "relayed_bytes": relayed_bytes,
        "page_bytes_s": stored_pages * page_bytes, "asked_pages": asked_pages,
        "walk": changed_pages(pages, options.rate) / STORED_S, "whole": whole,
        "hub_updates": hub_updates, "hub_messages": full_frames + others * relayed_frames,
        "hub_bytes": hub_bytes, "nats_in": nats_in, "nats_out": nats_out,
        "copies": (options.replicas - 1) * nats_in,
        "line_full": full_bytes + stored_pages * page_bytes, "line_conflated": relayed_bytes + stored_pages * page_bytes,
        "edge_cores": hub_updates * EDGE_NS / 1e9, "owner_cores": updates * OWNER_NS / 1e9,
        "memory": HUB_BYTES + options.topics * TOPIC_BYTES, "join": join,
        "log_s": min(LOG_S, LOG_BYTES / full_bytes), "takeover": TAKEOVER_S + whole,
    }


def mebibytes(number):
    return f"{number / 2**20:,.1f} MiB/s"


def show(options, found):
    rows = [
        ("per source (one per site)", ""),
        ("topics; shards", f"{found['topics']:,.0f}; {found['shards']}"),
        ("updates/s", f"{found['updates']:,.0f}"),
        ("messages/s in NATS", f"{found['full_frames']:,.0f}"),
        ("bytes/s of the stream", mebibytes(found["full_bytes"])),
        ("snapshot pages/s: wanted; stored",
         f"{found['asked_pages']:,.0f}; {min(found['asked_pages'], STORED_S):,.0f}"),
        ("bytes/s of snapshots", mebibytes(found["page_bytes_s"])),
        ("time of a walk over changed pages", f"{found['walk']:,.1f} s"),
        ("the log reaches back", f"{found['log_s']:,.0f} s"),
        ("takeover: the values; and the snapshot", f"{TAKEOVER_S} s; {found['takeover']:,.1f} s"),
        ("per link from one site to another", ""),
        ("full: bytes/s, with snapshots", mebibytes(found["line_full"])),
        (f"conflated at {options.hz} Hz: values/s", f"{found['relayed']:,.0f}"),
        ("conflated: bytes/s, with snapshots", mebibytes(found["line_conflated"])),
        ("per hub (it receives all)", ""),
        ("updates/s", f"{found['hub_updates']:,.0f}"),
        ("messages/s", f"{found['hub_messages']:,.0f}"),
        ("bytes/s", mebibytes(found["hub_bytes"])),
        ("cores for that", f"{found['edge_cores']:.2f}"),
        ("memory", f"{found['memory'] / 2**30:,.1f} GiB"),
        ("join", f"{found['join']:,.0f} s"),
        ("NATS of one site", ""),
        ("bytes/s in, snapshots included", mebibytes(found["nats_in"])),
        ("bytes/s out to its hubs", mebibytes(found["nats_out"])),
        ("bytes/s between its servers, for the copies", mebibytes(found["copies"])),
    ]
    print("| figure | value |\n|---|---:|")
    for name, value in rows:
        print(f"| {name} | {value} |" if value else f"| **{name}** | |")


def limits(found):
    """Each use beside its limit; the largest share breaks first."""
    rows = [
        ("the changed pages of a snapshot, in its interval", found["walk"], SNAPSHOT_INTERVAL_S),
        ("one thread of a hub that applies updates", found["edge_cores"], 1),
        ("the owner's thread", found["owner_cores"], 1),
        ("an old snapshot and a join, while the log reaches back",
         2 * max(found["walk"], SNAPSHOT_INTERVAL_S) + found["join"], found["log_s"]),
        ("a line of 1 Gbit/s, full", found["line_full"], LINE_BYTES_S),
        ("a line of 1 Gbit/s, conflated", found["line_conflated"], LINE_BYTES_S),
        ("what NATS servers of a site send", found["nats_out"] + found["copies"], NATS_BYTES_S),
        ("pages of the one shard of a source", found["pages"], PAGES_MAX),
    ]
    print("\n| limit | used |\n|---|---:|")
    for name, used, limit in sorted(rows, key=lambda row: -row[1] / row[2]):
        print(f"| {name} | {100 * used / limit:,.0f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hubs", type=int, default=100)
    parser.add_argument("--topics", type=int, default=10_000_000)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.1, help="updates per second and topic")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--hz", type=float, default=10, help="of a relay: newest values per second")
    options = parser.parse_args()
    if min(options.hubs, options.topics, options.sites, options.rate, options.hz,
           options.replicas) <= 0:
        parser.error("each figure must be above 0")
    print(f"{options.hubs} hubs, {options.topics:,} topics, {options.sites} sites, "
          f"{options.rate} updates/s per topic\n")
    found = model(options)
    show(options, found)
    limits(found)


if __name__ == "__main__":
    main()
