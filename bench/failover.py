#!/usr/bin/env python3
"""Counts acknowledged writes that are lost by a failover of Redis Sentinel, beside Redis.

    bench/failover.py --ours target/release/tidewire --redis REDIS/src/redis-server \
        [--runs 5] [--events kill,sentinel,failover] [--writers 4]

Two servers and three sentinels, all on the loopback. Each writer sends SET of new keys, one at a time
and at most 500 a second, and notes each that is acknowledged. A writer that gets an error or no connection asks a sentinel for
the master, as clients do. Ours and Redis take turns; the sentinels are Redis's in both. Then:

    kill      the master ends by SIGKILL
    sentinel  SENTINEL FAILOVER, a planned one
    failover  FAILOVER at the master; the sentinels find out by themselves

Once the sentinels name the new master, and 1,000 more writes are acknowledged, every acknowledged key
is looked for in the new master. The pause is the longest time without any acknowledgement.
"""

import argparse
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE_S = 120
DOWN_AFTER_MS, FAILOVER_TIMEOUT_MS = 2_000, 20_000
WRITES_BEFORE, WRITES_AFTER, WRITE_EVERY_S = 4_000, 1_000, 0.002


def main():
    options = read_options()
    moment = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    version = subprocess.run([options.redis, "--version"], capture_output=True, text=True).stdout
    print(f"{moment} UTC, load average {os.getloadavg()[0]:.1f}, {options.runs} runs of each")
    print(f"sentinels and rival: {version.strip()}")
    print(f"{options.writers} writers of at most 500 writes/s, down-after-milliseconds {DOWN_AFTER_MS}\n")
    kinds = ["ours", "redis"]
    figures = {}
    for event in options.events.split(","):
        for number in range(options.runs):
            for kind in kinds[number % 2:] + kinds[:number % 2]:
                with tempfile.TemporaryDirectory() as folder:
                    run = Run(options, kind, pathlib.Path(folder))
                    try:
                        result = run.measure(event)
                    finally:
                        run.end()
                figures.setdefault((event, kind), []).append(result)
                print("{}, {}: {:,} acknowledged, {:,} lost, pause {:.2f} s".format(
                    event, kind, *result), flush=True)
    print("\n| event | server | acknowledged | lost, each run | longest pause, median s (all) |")
    print("|---|---|---:|---|---|")
    for (event, kind), results in figures.items():
        acknowledged = sum(result[0] for result in results)
        lost = ", ".join(f"{result[1]:,}" for result in results)
        pauses = [result[2] for result in results]
        spread = f"{min(pauses):.2f} to {max(pauses):.2f}"
        middle = statistics.median(pauses)
        print(f"| {event} | {kind} | {acknowledged:,} | {lost} | {middle:.2f} ({spread}) |")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True, help="the program tidewire")
    parser.add_argument("--redis", required=True, help="redis-server, of version 8 or newer")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--events", default="kill,sentinel,failover")
    parser.add_argument("--writers", type=int, default=4)
    return parser.parse_args()


class Run:
    """Two servers, three sentinels, and the writers."""

    def __init__(self, options, kind, folder):
        self.options, self.kind, self.folder = options, kind, folder
        ports = free_ports(5)
        self.ports, self.sentinels = ports[:2], ports[2:]
        self.processes = []
        self.halt = threading.Event()

    def measure(self, event):
        old, new = self.ports
        for port in self.ports:
            self.start_server(port)
        wait_for(lambda: ask(old, "PING") == "PONG" and ask(new, "PING") == "PONG", "two servers")
        ask(new, "REPLICAOF", "127.0.0.1", old)
        wait_for(lambda: field(new, "master_link_status") == "up", "a replica")
        for port in self.sentinels:
            self.start_sentinel(port, old)
        wait_for(lambda: all(map(self.is_ready, self.sentinels)), "three sentinels that are ready")
        writers = [Writer(self, number) for number in range(self.options.writers)]
        for writer in writers:
            writer.start()
        count = lambda: sum(len(writer.acknowledged) for writer in writers)
        wait_for(lambda: count() >= WRITES_BEFORE, "writes")
        getattr(self, event)(old, new)
        wait_for(lambda: self.named() == {new}, "sentinels that agree")
        if event != "kill":
            wait_for(lambda: field(old, "role") == "slave"
                     and field(old, "master_link_status") == "up", "the old master follows")
        wanted = count() + WRITES_AFTER
        wait_for(lambda: count() >= wanted, "writes at the new master")
        self.halt.set()
        for writer in writers:
            writer.join()
        lost = sum(missing(new, writer) for writer in writers)
        times = sorted(at for writer in writers for at in writer.acknowledged)
        pause = max(after - before for before, after in zip(times, times[1:]))
        return count(), lost, pause

    def kill(self, old, new):
        self.processes[0].kill()

    def sentinel(self, old, new):
        wait_for(lambda: ask(self.sentinels[0], "SENTINEL", "FAILOVER", "m") == "OK", "a failover")

    def failover(self, old, new):
        ask(old, "FAILOVER", "TO", "127.0.0.1", new)

    def start_server(self, port):
        place = self.folder / str(port)
        place.mkdir()
        if self.kind == "redis":
            words = [self.options.redis, "--port", port, "--save", "", "--dir", place]
            words += ["--repl-diskless-sync-delay", 0]
        else:
            words = [self.options.ours, "serve", "--resp", f"127.0.0.1:{port}", "--dir", place]
            words += ["--set", "save=", "--feed", "127.0.0.1:0"]
            for name in ("pub", "pull", "router"):
                words += [f"--zmq-{name}", "tcp://127.0.0.1:0"]
        self.start(words)

    def start_sentinel(self, port, master):
        place = self.folder / str(port)
        place.mkdir()
        conf = place / "sentinel.conf"
        conf.write_text(
            f"port {port}\ndir {place}\nsentinel monitor m 127.0.0.1 {master} 2\n"
            f"sentinel down-after-milliseconds m {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout m {FAILOVER_TIMEOUT_MS}\n"
        )
        self.start([self.options.redis, conf, "--sentinel"])

    def start(self, words):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen([str(word) for word in words], **quiet))

    def is_ready(self, sentinel):
        words = ask(sentinel, "SENTINEL", "MASTER", "m")
        if not isinstance(words, list):
            return False
        state = dict(zip(words[::2], words[1::2]))
        return state["num-other-sentinels"] == "2" and state["num-slaves"] == "1"

    def named(self):
        """The ports that the sentinels name."""
        return {self.master(port) for port in self.sentinels}

    def master(self, sentinel):
        address = ask(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")
        return int(address[1]) if isinstance(address, list) else None

    def end(self):
        self.halt.set()
        for process in self.processes:
            process.kill()
            process.wait()


class Writer(threading.Thread):
    """Writes keys with numbers, each until it is acknowledged."""

    def __init__(self, run, number):
        super().__init__(daemon=True)
        self.owner, self.number = run, number
        # When each was acknowledged.
        self.acknowledged = []

    def run(self):
        while not self.owner.halt.is_set():
            port = self.owner.master(self.owner.sentinels[self.number % 3])
            try:
                with socket.create_connection(("127.0.0.1", port), 2) as one:
                    one.settimeout(2)
                    self.write(one)
            except (OSError, TypeError):
                pass
            self.owner.halt.wait(0.02)

    def write(self, one):
        while not self.owner.halt.is_set():
            count = len(self.acknowledged)
            one.sendall(request("SET", self.key(count), count))
            if one.recv(1_000) != b"+OK\r\n":
                return
            self.acknowledged.append(time.monotonic())
            self.owner.halt.wait(WRITE_EVERY_S)

    def key(self, number):
        return f"writer {self.number} key {number}"


def missing(port, writer):
    """The number of acknowledged keys that a server does not have."""
    count = len(writer.acknowledged)
    found = 0
    for begin in range(0, count, 500):
        names = [writer.key(number) for number in range(begin, min(begin + 500, count))]
        found += ask(port, "EXISTS", *names)
    return count - found


def request(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        body = str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(body), body))
    return b"".join(parts)


def ask(port, *words):
    """One request over a connection of its own; None if it gets no reply."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as one:
            one.settimeout(5)
            one.sendall(request(*words))
            return read(one.makefile("rb"))
    except OSError:
        return None


def read(file):
    line = file.readline()
    kind, text = line[:1], line[1:-2].decode()
    match kind:
        case b"$" if text != "-1":
            return file.read(int(text) + 2)[:-2].decode()
        case b"*" if text != "-1":
            return [read(file) for _ in range(int(text))]
        case b":":
            return int(text)
        case b"+" | b"-":
            return text
    return None


def field(port, name):
    """A field of INFO replication."""
    text = ask(port, "INFO", "replication") or ""
    pairs = (line.partition(":") for line in text.splitlines())
    return next((value for key, _, value in pairs if key == name), None)


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"in {PATIENCE_S} s there was not: {what}")
        time.sleep(0.02)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    main()
