#!/usr/bin/env python3
"""Measures topics across hubs: an owner fed by a simulated exchange, one NATS server, two edges.

    bench/cluster.py --ours target/release/tidewire [--rate 1000000] [--symbols 100000]
        [--seconds 10] [--samples 2000] [--takeovers 5] [--rounds 7] [--only quorum]

Everything is on the loopback, so seven busy processes share the machine: figures of CPU are per
update and stand also where the rate is not reached.

    throughput  the exchange says RATE updates/s to the owner, and to a hub without a cluster
                beside it. NATS's messages are what the server counts as received; CPU is that of
                the process, or that of the threads `cluster` and `nats` alone (net)
    join        an edge starts with SYMBOLS topics in the snapshot: from the link to the join, by
                its log, and what its resident memory grows by
    latency     one symbol trades at a publisher of the owner, 500 times a second; a subscriber of
                Redis at the owner and one at an edge note when each price comes. Extra is the
                difference
    takeover    kill -9 of the owner, until the standby owns the source
    quorum      SET at the primary of keys with `durability = "quorum"`, three NATS servers and a
                standby, and in turn at a hub without; NATS syncs its files when it likes, or with
                each write (`always`). Latency of one client, and SETs/s of one that sends 10,000 at
                once. Each is the median of ROUNDS rounds, with the least and the greatest; so are
                the ratios, which are taken round by round
"""

import argparse
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from datetime import datetime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python"))

TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 120


def main():
    options = read_options()
    os.environ["TIDEWIRE_BINARY"] = options.ours
    moment = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    print(f"{moment} UTC, load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")
    version = subprocess.run([options.ours, "--version"], capture_output=True, text=True)
    print(f"{version.stdout.strip()}; {options.rate:,} updates/s, {options.symbols:,} topics\n")
    print("| what | goal | measured |\n|---|---:|---:|")
    for measure in (throughput, latency, takeover, quorum):
        if options.only not in (None, measure.__name__):
            continue
        with tempfile.TemporaryDirectory() as folder:
            site = Bench(pathlib.Path(folder))
            try:
                for what, goal, value in measure(site, options):
                    print(f"| {what} | {goal} | {value} |", flush=True)
            finally:
                site.end()


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True, help="the program tidewire")
    parser.add_argument("--rate", type=int, default=1_000_000)
    parser.add_argument("--symbols", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--takeovers", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=["throughput", "latency", "takeover", "quorum"])
    return parser.parse_args()


class Bench:
    """A NATS server with its monitor, and what was started."""

    def __init__(self, folder):
        from nats_servers import NatsServer
        from support import free_ports

        self.folder, self.programs, self.hubs = folder, [], 0
        port, self.monitor = free_ports(2)
        self.nats = NatsServer(folder, port, ["-m", self.monitor])
        self.servers = [self.nats]

    def quorum(self, name, servers):
        """A hub of a group whose keys survive a machine."""
        from nats_servers import cluster_file
        from support import Hub

        folder = self.folder / name
        folder.mkdir()
        place = cluster_file(folder, name, servers, receive=[], replicas=len(servers),
                             extra="durability = 'quorum'")
        hub = Hub(folder, "--cluster", place)
        self.programs.append(hub)
        return hub

    def hub(self, name, *arguments, source=None, in_cluster=True):
        from nats_servers import cluster_file
        from support import Hub

        self.hubs += 1
        folder = self.folder / f"{name}-{self.hubs}"
        folder.mkdir()
        if in_cluster:
            place = cluster_file(folder, name, [self.nats], source=source)
            arguments = [*arguments, "--cluster", place]
        hub = Hub(folder, *arguments)
        self.programs.append(hub)
        return hub

    def exchange(self, options):
        from support import Simulator

        simulator = Simulator(self.folder, "--rate", options.rate, "--symbols", options.symbols)
        self.programs.append(simulator)
        return simulator

    def nats_received(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/varz", timeout=30) as answer:
            figures = json.load(answer)
        return figures["in_msgs"], figures["in_bytes"]

    def end(self):
        for program in self.programs:
            program.kill()
        for server in self.servers:
            server.kill()


def cpu_s(hub, names=None):
    """Processor time of a hub's threads; with names, of these alone."""
    total = 0
    for task in pathlib.Path(f"/proc/{hub.pid}/task").iterdir():
        name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if names is None or name in names:
            fields = fields.split()
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def resident_bytes(hub):
    status = pathlib.Path(f"/proc/{hub.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def await_that(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"in {PATIENCE_S} s there was not: {what}")
        time.sleep(0.02)


def figure(hub, line, name):
    from nats_servers import figures

    return (figures(hub, line) or {}).get(name)


def log_of(hub):
    return hub.stdout + hub.stderr


def moment_of(hub, text):
    """When a line of the log was written, in seconds."""
    await_that(lambda: text in log_of(hub), f"'{text}' in a log")
    line = next(line for line in log_of(hub).splitlines() if text in line)
    found = re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+", line)
    return datetime.fromisoformat(found[0]).timestamp()


def throughput(site, options):
    exchange = site.exchange(options)
    alone = site.hub("alone", "--source", exchange.source, in_cluster=False)
    owner = site.hub("owner", "--source", exchange.source, source="exchange")
    edges = [site.hub(f"edge{number}") for number in range(2)]
    for edge in edges:
        await_that(lambda: figure(edge, "cluster_source0", "current") == "1", "an edge is current")
    await_that(lambda: int(figure(owner, "cluster_own", "snapshots") or 0) > 0, "a snapshot")
    enough = 3 * options.symbols
    await_that(lambda: int(figure(owner, "cluster_own", "sequence")) > enough, "each symbol")
    time.sleep(2)
    net = ("cluster", "nats")

    def look():
        sequences = int(figure(owner, "cluster_own", "sequence"))
        hubs = [alone, owner, *edges]
        return (time.monotonic(), sequences, site.nats_received(),
                [cpu_s(hub) for hub in hubs], [cpu_s(hub, net) for hub in hubs])

    before = look()
    time.sleep(options.seconds)
    after = look()
    took = after[0] - before[0]
    updates = after[1] - before[1]
    spent = [[later - earlier for earlier, later in zip(before[part], after[part])]
             for part in (3, 4)]

    def of(seconds):
        return f"{seconds / updates * 1e9:.0f} ns"

    yield "updates/s published", f"{options.rate:,}", f"{updates / took:,.0f}"
    messages, received = (late - early for early, late in zip(before[2], after[2]))
    yield "NATS messages/s", "≤ 4,000", f"{messages / took:,.0f}"
    yield "NATS bytes per update, snapshots included", "", f"{received / updates:.1f}"
    yield "owner: CPU per update, net", "≤ 100 ns", of(spent[1][1])
    yield "edge: CPU per update, applying included", "", of(max(spent[0][2:]))
    yield "hub without a cluster: CPU per update", "", of(spent[0][0])
    yield "edge: CPU per update, net of that", "≤ 100 ns", of(max(spent[0][2:]) - spent[0][0])
    for edge, name in zip(edges, ("first", "second")):
        yield f"{name} edge: lag at the end", "0", figure(edge, "cluster_source0", "lag")
        yield f"{name} edge: gaps", "0", figure(edge, "cluster_source0", "gaps")
    yield "owner: resident memory", "", f"{resident_bytes(owner) / 2**20:,.0f} MiB"
    yield "edge: resident memory", "", f"{resident_bytes(edges[0]) / 2**20:,.0f} MiB"
    exchange.kill()
    late = site.hub("late")
    empty = resident_bytes(late)
    joined = moment_of(late, "the source is joined") - moment_of(late, "linked to NATS")
    symbols = figure(late, "cluster_source0", "symbols")
    yield f"join with {int(symbols or 0):,} topics", "≤ 1 s", f"{joined:.2f} s"
    grown = (resident_bytes(late) - empty) / max(1, int(symbols or 0))
    yield "memory per joined topic", "", f"{grown:,.0f} bytes"


def latency(site, options):
    from nats_servers import Publisher

    owner = site.hub("owner", source="exchange")
    edge = site.hub("edge")
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 1, 1)
    await_that(lambda: edge.hash("md:ONE").get("last") == "1", "the edge has the topic")
    arrivals = {"owner": {}, "edge": {}}

    def listen(hub, noted):
        subscriber = hub.subscriber("md:ONE")
        ready.release()
        while len(noted) < options.samples:
            price = subscriber.json()["last"]
            noted[price] = time.perf_counter()

    ready = threading.Semaphore(0)
    threads = [threading.Thread(target=listen, args=(hub, arrivals[name]), daemon=True)
               for name, hub in [("owner", owner), ("edge", edge)]]
    for thread in threads:
        thread.start()
        ready.acquire()
    price = 10
    while any(thread.is_alive() for thread in threads):
        price += 1
        publisher.trade(1, price, 1)
        time.sleep(0.002)
    both = arrivals["owner"].keys() & arrivals["edge"].keys()
    extra = sorted(arrivals["edge"][price] - arrivals["owner"][price] for price in both)
    yield "extra latency, p50", "≤ 0.5 ms", f"{statistics.median(extra) * 1e3:.2f} ms"
    yield "extra latency, p99", "", f"{extra[len(extra) * 99 // 100] * 1e3:.2f} ms"


def takeover(site, options):
    names, hubs = ["a", "b"], {}
    for name in names:
        hubs[name] = site.hub(name, source="exchange")
        await_that(lambda: figure(hubs["a"], "cluster_own", "owner") == "1", "an owner")
    times = []
    for number in range(options.takeovers):
        owner, standby = names[number % 2], names[1 - number % 2]
        # At any time of the lease.
        time.sleep(1 + number / options.takeovers)
        begin = time.monotonic()
        hubs[owner].kill()
        await_that(lambda: figure(hubs[standby], "cluster_own", "owner") == "1", "a takeover")
        times.append(time.monotonic() - begin)
        hubs[owner] = site.hub(owner, source="exchange")
        time.sleep(1)
    shown = f"{max(times):.2f} s (median {statistics.median(times):.2f} s of {len(times)})"
    yield "takeover after kill -9, longest", "≤ 4 s", shown


class Setter:
    """A client that sets keys by bytes that were made before."""

    def __init__(self, hub):
        self.socket = hub.connect(hub.resp_port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _set(self, commands, count):
        begin = time.perf_counter()
        self.socket.sendall(commands)
        left = b""
        while count:
            part = self.socket.recv(1 << 20)
            assert part, "the hub has closed the connection"
            lines, _, left = (left + part).rpartition(b"\r\n")
            answers = lines.split(b"\r\n") if lines else []
            assert all(answer == b"+OK" for answer in answers), answers[:3]
            count -= len(answers)
        return time.perf_counter() - begin

    def latency_ms(self, samples):
        times = [self._set(command(number), 1) for number in range(samples)]
        return statistics.median(times) * 1e3

    def rate(self, batches):
        many = b"".join(command(number) for number in range(BATCH))
        return BATCH * batches / sum(self._set(many, BATCH) for _ in range(batches))


BATCH = 10_000


def command(number):
    key, value = b"key:%012d" % number, b"x" * 16
    return b"*3\r\n$3\r\nSET\r\n$16\r\n%s\r\n$16\r\n%s\r\n" % (key, value)


def quorum(site, options):
    from nats_servers import three_servers

    alone = Setter(site.hub("alone", in_cluster=False))
    for sync in ("default", "always"):
        folder = site.folder / sync
        folder.mkdir()
        words = []
        if sync == "always":
            (folder / "nats.conf").write_text("jetstream { sync_interval: always }\n")
            words = ["-c", folder / "nats.conf"]
        servers = three_servers(folder, options=words)
        site.servers += servers
        hubs = [site.quorum(f"{sync}-{number}", servers) for number in range(2)]
        primaries = []

        def find(hubs=hubs, primaries=primaries):
            primaries[:] = [hub for hub in hubs if figure(hub, "cluster_keys", "role") == "primary"]
            return primaries

        await_that(find, "a primary")
        one = Setter(primaries[0])
        for setter in (one, alone):
            setter.rate(2)
        rounds = [(one.latency_ms(options.samples // 10), one.rate(20), alone.rate(20))
                  for _ in range(options.rounds)]
        latencies, rates, without = zip(*rounds)
        yield f"quorum SET, p50, sync {sync}", "≤ 3 ms", spread(latencies, "{:.2f} ms")
        yield f"quorum SETs/s pipelined, sync {sync}", "≥ 100,000", spread(rates, "{:,.0f}")
        yield "the same at a hub without", "", spread(without, "{:,.0f}")
        ratios = [rate / other for rate, other in zip(rates, without)]
        yield "ratio", "", spread(ratios, "{:.2f}")
        for program in [*hubs, *servers]:
            program.kill()


def spread(values, form):
    least, middle, greatest = min(values), statistics.median(values), max(values)
    return f"{form.format(middle)} ({form.format(least)} to {form.format(greatest)})"


if __name__ == "__main__":
    main()
