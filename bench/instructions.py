#!/usr/bin/env python3
"""Instructions that the hub executes for a command, counted by valgrind, for users of several kinds.

    python3 bench/instructions.py [--binary target/release/tidewire] [--commands 40000]
                                  [--pipeline 16] [--kinds] [--subscribers 10]

With --kinds it counts commands of several kinds for the default user alone; with --subscribers
what a message costs that so many subscribers get, plain and of a live key.

Each figure is the difference between two runs of which one sends so many commands more, divided by
that number: what the start takes is in neither. The kernel's part is not counted. Needs valgrind.
"""

import argparse
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

USERS = {
    "default user, everything allowed": None,
    "+@all, keys key:*": ["~key:*", "+@all"],
    "+get +set, keys key:*": ["~key:*", "+get", "+set"],
    "the same, by a selector": ["+ping", "(~key:* +get +set)"],
}
COMMANDS = {
    "GET": [b"GET", b"key:000001"],
    "SET": [b"SET", b"key:000001", b"value"],
}
KINDS = COMMANDS | {
    "INCR": [b"INCR", b"counter"],
    "LPUSH": [b"LPUSH", b"list", b"an element of 24 bytes ."],
    "RPUSH": [b"RPUSH", b"list", b"an element of 24 bytes ."],
    "SADD": [b"SADD", b"set", b"a member"],
    "HSET": [b"HSET", b"hash", b"a field", b"value"],
    "ZADD": [b"ZADD", b"ranking", b"1", b"a member"],
}

NEWS = {
    "PUBLISH": [b"PUBLISH", b"channel", b"a message of 24 bytes .."],
    "SET of a live key": [b"SET", b"live:key", b"a message of 24 bytes .."],
}


def request(words):
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connect(port):
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the hub does not start under valgrind")


def listen(port):
    """A subscriber that reads and forgets all that it gets."""
    connection = connect(port)
    connection.sendall(request([b"SUBSCRIBE", b"channel", b"live:key"]))

    def read():
        while connection.recv(1 << 16):
            pass

    threading.Thread(target=read, daemon=True).start()


def instructions(binary, rules, command, count, pipeline, subscribers):
    """All instructions of a run that executes `count` commands."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "callgrind.out")
        options = ["serve", "--lanes", "1", "--resp", f"127.0.0.1:{port}", "--feed", "127.0.0.1:0"]
        for name in ("pub", "pull", "router"):
            options += [f"--zmq-{name}", "tcp://127.0.0.1:0"]
        words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={result}", binary]
        hub = subprocess.Popen(words + options, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        client = connect(port)
        replies = client.makefile("rb")

        def call(*words):
            client.sendall(request([word.encode() for word in words]))
            reply = replies.readline()
            assert not reply.startswith(b"-"), reply

        call("SET", "key:000001", "value")
        if rules:
            call("ACL", "SETUSER", "somebody", "on", ">secret", *rules)
            call("AUTH", "somebody", "secret")
        for _ in range(subscribers):
            listen(port)
        batch = request(command) * pipeline
        lines = 2 if command[0] == b"GET" else 1
        for _ in range(count // pipeline):
            client.sendall(batch)
            for _ in range(pipeline * lines):
                assert not replies.readline().startswith(b"-")
        hub.send_signal(signal.SIGTERM)
        hub.wait()
        with open(result, encoding="utf-8") as text:
            return int(re.search(r"^(?:totals|summary): (\d+)", text.read(), re.M).group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="target/release/tidewire")
    parser.add_argument("--commands", type=int, default=40_000)
    parser.add_argument("--pipeline", type=int, default=16)
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--subscribers", type=int, default=0)
    options = parser.parse_args()
    few = options.commands // 4
    commands = KINDS if options.kinds else COMMANDS
    commands = NEWS if options.subscribers else commands
    users = dict(list(USERS.items())[:1]) if commands is not COMMANDS else USERS
    print(f"| user | {' | '.join(commands)} |\n|---|{'---:|' * len(commands)}")
    for user, rules in users.items():
        cells = []
        for command in commands.values():
            binary, depth = options.binary, options.pipeline
            rest = (depth, options.subscribers)
            more = instructions(binary, rules, command, few + options.commands, *rest)
            fewer = instructions(binary, rules, command, few, *rest)
            cells.append(f"{(more - fewer) / options.commands:,.0f}")
        print(f"| {user} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
