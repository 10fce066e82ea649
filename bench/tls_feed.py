#!/usr/bin/env python3
"""Measures what TLS costs a subscriber of the native feed: processor time of the hub a delivered
message, with TLS and without, in turn.

    bench/tls_feed.py --ours target/release/tidewire [--rounds 5] [--rate 20k] [--clients 20]

A hub with one lane on processor 0 reads a simulated exchange; the exchange and the subscribers are on
processor 1. The processor time is that of all threads of the hub (`/proc/PID/task/*/schedstat`)
with the subscribers less that without any, divided by the messages that they were sent. A round
in which a subscriber was too slow does not count, and ends the run. Both processors must be idle
otherwise: a hub that waits for its processor sends more messages at once, which costs less.
"""

import argparse
import pathlib
import select
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/python")]

from feed_client import CONTROL, HEARTBEAT, encode, login, subscribe  # noqa: E402
from processes import processor_s  # noqa: E402
from tls import in_turn, make_certificates  # noqa: E402

RESP, FEED, FEED_TLS, EXCHANGE = 18_101, 18_102, 18_103, 18_104
ZMQ = {"--zmq-pub": 18_105, "--zmq-pull": 18_106, "--zmq-router": 18_107}
HELLO = encode(CONTROL, 0, [login(1)]) + encode(CONTROL, 0, [subscribe("*")])
ALIVE = encode(HEARTBEAT, 0, [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True, help="the program tidewire")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", default="20k", help="messages a second")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_certificates(folder)
        print(f"{options.clients} subscribers, {options.rate} messages/s, {options.rounds} rounds")
        run(options, folder)


def run(options, folder):
    exchange = start(1, options.ours, "simulate", "--feed", f"127.0.0.1:{EXCHANGE}",
                     "--rate", options.rate)
    time.sleep(0.5)
    hub = start(
        0, options.ours, "serve", "--lanes", "1", "--resp", f"127.0.0.1:{RESP}",
        *(word for name, port in ZMQ.items() for word in (name, f"127.0.0.1:{port}")),
        "--feed", f"127.0.0.1:{FEED}", "--feed-tls", f"127.0.0.1:{FEED_TLS}",
        "--source", f"127.0.0.1:{EXCHANGE}", "--tls-cert", folder / "ecdsa.crt",
        "--tls-key", folder / "ecdsa.key",
    )
    made = ssl.create_default_context(cafile=folder / "ca.crt")
    ways = {
        "none": lambda: [],
        "plain": lambda: [connect(FEED) for _ in range(options.clients)],
        "TLS 1.3": lambda: [
            made.wrap_socket(connect(FEED_TLS), server_hostname="localhost")
            for _ in range(options.clients)
        ],
    }
    costs = {name: [] for name in ways}
    try:
        time.sleep(1)
        for name in in_turn(list(ways), options.rounds):
            costs[name].append(measure(hub, ways[name](), options.seconds))
    finally:
        for one in (hub, exchange):
            one.terminate()
            one.wait()
    base = statistics.median(cost for cost, _ in costs.pop("none"))
    print(f"without subscribers: {base:,.0f} ns a message\n")
    print("| feed | ns a delivered message, median (least to greatest) | bytes |\n|---|---:|---:|")
    for name, found in costs.items():
        each = [(cost - base) / options.clients for cost, _ in found]
        size = statistics.median(size for _, size in found) / options.clients
        spread = f"{statistics.median(each):.0f} ({min(each):.0f} to {max(each):.0f})"
        print(f"| {name} | {spread} | {size:.0f} |")


def start(processor, *arguments):
    words = ["taskset", "-c", str(processor), *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def connect(port):
    return socket.create_connection(("127.0.0.1", port))


def measure(hub, clients, seconds):
    """Returns ns of the hub's processor time and bytes of all subscribers, both for a message."""
    for one in clients:
        one.sendall(HELLO)
        one.setblocking(False)
    drain(clients, 1)
    figures = [(processor_ns(hub), info())]
    received = drain(clients, seconds)
    figures.append((processor_ns(hub), info()))
    for one in clients:
        one.close()
    (begin_ns, begin), (end_ns, end) = figures
    if begin["feed_conflated_messages"] != end["feed_conflated_messages"]:
        sys.exit("a subscriber was too slow: lower --rate or --clients")
    messages = end["feed_next_sequence"] - begin["feed_next_sequence"]
    return (end_ns - begin_ns) / messages, received / messages


def drain(clients, seconds):
    """Reads everything for so long. Returns the number of bytes."""
    end, alive_s, received = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        if time.monotonic() > alive_s + 0.5:
            alive_s = time.monotonic()
            for one in clients:
                one.send(ALIVE)
        for one in select.select(clients, [], [], 0.01)[0]:
            try:
                while part := one.recv(1 << 16):
                    received += len(part)
            except (BlockingIOError, ssl.SSLWantReadError):
                pass
    return received


def processor_ns(hub):
    return processor_s(hub.pid) * 1e9


def info():
    with connect(RESP) as one:
        one.sendall(b"INFO feed\r\n")
        file = one.makefile("rb")
        text = file.read(int(file.readline()[1:])).decode()
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: int(value) for name, value in pairs if value.isdigit()}


if __name__ == "__main__":
    main()
