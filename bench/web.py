#!/usr/bin/env python3
"""Web pages beside Redis pub/sub of the same JSON: server CPU and bytes per update.

    python3 bench/web.py [--binary target/release/tidewire] [--redis redis-server]
                         [--connections 1000] [--topics 50] [--hz 10] [--seconds 10]

One publisher writes each of the topics `hz` times per second: a quote as a JSON object, of which
bid, ask, their sizes, sequence and times change. Each connection follows all topics: a page with
{"sub"} and one {"next"} per batch, a Redis client with SUBSCRIBE. An update is one write as one
connection gets it, also if a batch has only a later one. The server has one lane. `--redis` names
the server of the pub/sub side; without it, that is Tidewire too.
"""

import argparse
import json
import os
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port):
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not start")


def start_hub(options, folder):
    resp, web = free_port(), free_port()
    words = [options.binary, "serve", "--lanes", "1", "--resp", f"127.0.0.1:{resp}", "--web",
             f"127.0.0.1:{web}", "--feed", "127.0.0.1:0"]
    for name in ("pub", "pull", "router"):
        words += [f"--zmq-{name}", "tcp://127.0.0.1:0"]
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    wait_for(resp).close()
    return server, resp, web


def start_redis(options, folder):
    port = free_port()
    words = [options.redis, "--port", str(port), "--save", "", "--maxclients", "20000",
             "--client-output-buffer-limit", "pubsub 0 0 0"]
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    wait_for(port).close()
    return server, port


def processor_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quote(topic, step):
    """The published form of a market topic, of which some fields change."""
    now = 1_795_644_366_000_000_000 + step * 100_000_000
    return json.dumps({
        "symbol": f"S{topic}", "bid": 2480 + step % 100 / 20, "bid_size": step * 37 % 70_000,
        "ask": 2483 + step % 90 / 20, "ask_size": step * 53 % 40_000, "last": 2483.25,
        "last_size": 418, "volume": 5_848_510, "change_pct": 0.0523, "seq": step, "ts": now,
        "recv_ts": now + 384_691, "stale": 0, "state": "unknown", "side": "buy", "open": 2481.95,
        "high": 2484.15, "low": 2478.25, "change_from": "open", "trades": 452,
        "vwap": 2481.321448138, "bid_orders": 1, "ask_orders": 27, "source": "simulated",
        "venue": "simulated",
    }, separators=(",", ":")).encode()


def request(*words):
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)]
    return b"".join(parts)


def publish(options, port, verb, until):
    """Writes at a steady rate; returns the number of writes."""
    one = socket.create_connection(("127.0.0.1", port))
    threading.Thread(target=drain, args=(one,), daemon=True).start()
    begin, step, writes = time.monotonic(), 0, 0
    interval = 1 / options.hz / options.topics
    while time.monotonic() < until:
        due = begin + writes * interval
        if (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        topic = writes % options.topics
        step += topic == 0
        one.sendall(request(verb, b"live:%d" % topic, quote(topic, step)))
        writes += 1
    return writes


def drain(one):
    """Reads replies until the server ends."""
    try:
        while one.recv(1 << 16):
            pass
    except OSError:
        pass


def text_frame(text):
    length = len(text)
    head = bytes([0x81, 0x80 | length]) if length < 126 else b"\x81\xfe" + struct.pack(">H", length)
    return head + b"\0\0\0\0" + text


def open_page(options, port):
    one = wait_for(port)
    one.sendall(
        b"GET /stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += one.recv(1)
    topics = [f"live:{topic}" for topic in range(options.topics)]
    message = {"sub": 1, "topics": topics, "hz": options.hz, "short": not options.names}
    one.sendall(text_frame(json.dumps(message).encode()))
    one.sendall(text_frame(b'{"next":1}'))
    return one


def open_subscriber(options, port):
    one = wait_for(port)
    topics = [b"live:%d" % topic for topic in range(options.topics)]
    one.sendall(request(b"SUBSCRIBE", *topics))
    return one


def measure(options, name, server, publisher, sockets, verb):
    """Reads all connections while the publisher writes. A page asks again after each batch."""
    poll = select.epoll()
    by_number = {}
    for one in sockets:
        one.setblocking(False)
        poll.register(one, select.EPOLLIN)
        by_number[one.fileno()] = one
    is_page = name == "web"
    again = text_frame(b'{"next":1}')
    received, writes = 0, []

    def read(until):
        nonlocal received
        while time.monotonic() < until:
            for number, _ in poll.poll(0.1):
                one = by_number[number]
                data = one.recv(1 << 18)
                received += len(data)
                # A batch ends with its frame; asking once more does no harm.
                if is_page and data.endswith(b"}"):
                    one.send(again)

    read(time.monotonic() + 3)
    before, received = processor_s(server.pid), 0
    until = time.monotonic() + options.seconds
    arguments = (options, publisher, verb, until)
    thread = threading.Thread(target=lambda: writes.append(publish(*arguments)))
    thread.start()
    read(until + 0.5)
    thread.join()
    updates = writes[0] * len(sockets)
    cpu_ns = (processor_s(server.pid) - before) * 1e9 / updates
    print(f"{name:<8} {writes[0]:>8} writes {cpu_ns:>9.1f} ns CPU/update "
          f"{received / updates:>8.1f} bytes/update")
    return cpu_ns, received / updates


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", default="target/release/tidewire")
    parser.add_argument("--redis")
    parser.add_argument("--names", action="store_true", help="rows with names of fields")
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--hz", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    options.binary = os.path.abspath(options.binary)
    results = []
    for name in ("web", "pubsub"):
        with tempfile.TemporaryDirectory() as folder:
            if name == "pubsub" and options.redis:
                server, resp = start_redis(options, folder)
            else:
                server, resp, web = start_hub(options, folder)
            try:
                for topic in range(options.topics):
                    with wait_for(resp) as one:
                        one.sendall(request(b"SET", b"live:%d" % topic, quote(topic, 0)))
                        one.recv(100)
                if name == "web":
                    sockets = [open_page(options, web) for _ in range(options.connections)]
                else:
                    sockets = [open_subscriber(options, resp) for _ in range(options.connections)]
                verb = b"PUBLISH" if name == "pubsub" and options.redis else b"SET"
                results.append(measure(options, name, server, resp, sockets, verb))
                for one in sockets:
                    one.close()
            finally:
                server.kill()
                server.wait()
    (web_ns, web_bytes), (redis_ns, redis_bytes) = results
    print(f"ratio    CPU {web_ns / redis_ns:.2f}, bytes {web_bytes / redis_bytes:.2f}")


if __name__ == "__main__":
    main()
