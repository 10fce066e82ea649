#!/usr/bin/env python3
"""What other clients of a lane see while one subscribes to very many topics.

    python3 bench/slices.py --binary target/release/tidewire [--topics 1000000] [--rate 1000]
                            [--rounds 5] [--json FILE]

A hub with one lane reads a simulated exchange of so many symbols. One client sends a PING each
millisecond, by schedule (open loop: a late reply delays no later PING). Another one sends
PSUBSCRIBE md:* and reads until it has every current value. The delay of a PING is counted from its
scheduled time. Each round is done alone first ("idle") and then beside the subscription. The hub
runs on core 0, the clients and the exchange on core 1. On a machine with other work, begin it with
"chrt -r 10": the client that sends PINGs then goes before the one that subscribes.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import Event, Process, Queue

INTERVAL_S = 0.001


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connect(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def info(port, field):
    with connect(port) as client:
        client.sendall(b"INFO everything\r\n")
        head = b""
        while b"\r\n" not in head:
            head += client.recv(1 << 16)
        length, _, body = head[1:].partition(b"\r\n")
        while len(body) < int(length):
            body += client.recv(1 << 16)
    for line in body.decode().splitlines():
        if line.startswith(field + ":"):
            return int(line.partition(":")[2])
    raise SystemExit(f"INFO has no {field}")


def started(words, core):
    return subprocess.Popen(
        ["taskset", "-c", str(core), *map(str, words)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )


def hub_of(options, folder):
    exchange_port, port = free_port(), free_port()
    exchange = started(
        [options.binary, "simulate", "--feed", f"127.0.0.1:{exchange_port}", "--rate",
         options.rate, "--symbols", options.topics], 1,
    )
    words = [options.binary, "serve", "--lanes", 1, "--resp", f"127.0.0.1:{port}", "--dir", folder,
             "--feed", "127.0.0.1:0", "--source", f"127.0.0.1:{exchange_port}", "--set", "save="]
    for name in ("pub", "pull", "router"):
        words += [f"--zmq-{name}", "tcp://127.0.0.1:0"]
    hub = started(words, 0)
    for _ in range(1_200):
        try:
            if info(port, "market_topics") >= options.topics:
                time.sleep(1)
                return exchange, hub, port
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the topics did not come")


def ping(port, begin, end, results):
    """Sends by schedule and reads beside it."""
    os.sched_setaffinity(0, {1})
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(20))
    client = connect(port)
    delays, sent = [], []

    def read():
        count = 0
        while True:
            chunk = client.recv(1 << 16)
            now = time.perf_counter()
            for _ in range(chunk.count(b"+PONG")):
                delays.append(now - sent[count])
                count += 1
            if not chunk or end.is_set() and count == len(sent):
                return

    begin.wait()
    reader = threading.Thread(target=read)
    reader.start()
    due = time.perf_counter()
    while not end.is_set():
        due += INTERVAL_S
        pause = due - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        sent.append(due)
        client.sendall(b"PING\r\n")
    # One more, so that the reader sees the end.
    sent.append(time.perf_counter())
    client.sendall(b"PING\r\n")
    reader.join()
    results.put(delays)


def subscribed(port, topics):
    """Takes every current value. Returns the seconds that it took, and the bytes."""
    with connect(port) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        begin = time.perf_counter()
        client.sendall(b"PSUBSCRIBE md:*\r\n")
        seen, count, tail = 0, 0, b""
        mark = b'"snapshot":true'
        while seen < topics:
            chunk = client.recv(1 << 20)
            if not chunk:
                raise SystemExit("the subscriber was disconnected")
            count += len(chunk)
            both = tail + chunk
            seen += both.count(mark)
            # A mark that the chunk cuts is counted with the next one.
            tail = both[-(len(mark) - 1):]
        return time.perf_counter() - begin, count


def figures(delays):
    ordered = sorted(delays)
    at = lambda share: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e6)
    return {"count": len(ordered), "p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999),
            "max_us": round(ordered[-1] * 1e6)}


def measured(port, work):
    begin, end, results = Event(), Event(), Queue()
    pinger = Process(target=ping, args=(port, begin, end, results))
    pinger.start()
    time.sleep(0.2)
    begin.set()
    outcome = work()
    end.set()
    delays = results.get()
    pinger.join()
    return figures(delays), outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--topics", type=int, default=1_000_000)
    parser.add_argument("--rate", default="1000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    is_real_time = os.sched_getscheduler(0) != os.SCHED_OTHER
    with tempfile.TemporaryDirectory() as folder:
        exchange, hub, port = hub_of(options, folder)
        os.sched_setaffinity(0, {1})
        rounds = []
        try:
            for _ in range(options.rounds):
                idle, _ = measured(port, lambda: time.sleep(2))
                beside, (seconds, count) = measured(port, lambda: subscribed(port, options.topics))
                rounds.append({"idle": idle, "beside": beside, "subscription_s": round(seconds, 3),
                               "bytes": count, "load": os.getloadavg()[0]})
                print(f"idle p99 {idle['p99_us']} µs, max {idle['max_us']} µs; beside PSUBSCRIBE "
                      f"p50 {beside['p50_us']}, p99 {beside['p99_us']}, p99.9 {beside['p999_us']}, "
                      f"max {beside['max_us']} µs of {beside['count']}; all values in "
                      f"{seconds:.2f} s, {count / 1e6:.0f} MB", flush=True)
                time.sleep(1)
        finally:
            hub.kill()
            exchange.kill()
    p99 = statistics.median(one["beside"]["p99_us"] for one in rounds)
    print(f"median p99 beside the subscription: {p99} µs")
    if options.json:
        result = {"topics": options.topics, "rate": options.rate, "cores": os.cpu_count(),
                  "kernel": platform.release(), "is_real_time": is_real_time, "rounds": rounds}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
