"""The oracle of live topics: random operations by all protocols, and subscribers of all kinds.

Whenever it is quiet, each subscriber's last message of each topic must be the topic's state on its
server, removals included. Same seed, same operations. `cargo xtask live` runs it.
"""

import argparse
import base64
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import redis
import zmq

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from feed_client import FeedClient  # noqa: E402
from support import FIELDS, command, environment, free_ports  # noqa: E402

GONE = b'{"gone":true}'
KEYS = [b"live:%d" % number for number in range(120)]
SENSORS = [b"sensor:%d" % number for number in range(20)]
OTHERS = [b"other:%d" % number for number in range(20)]
# Nothing moved for so long although something is missing: it will not come any more.
PATIENCE_S = 30


class Server:
    """A hub on ports that stay the same when it is started again."""

    def __init__(self, binary, folder, lanes, *options):
        self.binary, self.folder, self.options = binary, folder, options
        self.lanes = lanes
        self.resp, self.pub, self.pull, self.feed, self.router = free_ports(5)
        self.process = None
        folder.mkdir()
        # Small, so that subscribers are conflated and mailboxes overflow.
        limits = "[limits]\nconflate-bytes = 8192\nmailbox-bytes-max = 65536\n"
        (folder / "hub.toml").write_text(limits)

    def start(self):
        words = [
            self.binary, "serve", "--lanes", self.lanes, "--dir", self.folder,
            "--resp", f"127.0.0.1:{self.resp}", "--zmq-pub", f"tcp://127.0.0.1:{self.pub}",
            "--zmq-pull", f"tcp://127.0.0.1:{self.pull}", "--feed", f"127.0.0.1:{self.feed}",
            "--zmq-router", f"tcp://127.0.0.1:{self.router}",
            "--config", self.folder / "hub.toml", *self.options,
        ]
        log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=environment(), cwd=self.folder,
        )
        client = self.client()
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                if client.ping() and not client.info("persistence")["loading"]:
                    return
            except redis.RedisError:
                pass
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the hub did not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)

    def client(self):
        return redis.Redis(port=self.resp, host="127.0.0.1", socket_timeout=PATIENCE_S)

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(60)


class Replies:
    """A connection that writes, and counts replies without looking into them."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.resp), PATIENCE_S)
        self.socket.settimeout(PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def run(self, operations):
        self.socket.sendall(b"".join(command(*words) for words in operations))
        return [self.read() for _ in operations]

    def read(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("the hub has closed the connection")
        kind, text = line[:1], line[1:-2]
        if kind in b"*~>" and text != b"-1":
            return [self.read() for _ in range(int(text))]
        if kind == b"$" and text != b"-1":
            return self.file.read(int(text) + 2)[:-2]
        return None if text == b"-1" and kind in b"*$" else line[:-2]


class RedisSubscriber:
    """A subscriber of either protocol version, by names or by pattern."""

    def __init__(self, server, draw, protocol, patterns, names, is_slow):
        self.what = f"RESP{protocol} {patterns or names} slow={is_slow}"
        self.server, self.is_slow = server, is_slow
        self.draw = random.Random(draw.random())
        self.patterns, self.names = patterns, set(names)
        self.state, self.messages, self.marked = {}, 0, set()
        self.data = b""
        self.socket = socket.socket()
        if is_slow:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.connect(("127.0.0.1", server.resp))
        words = [command("HELLO", "3")] if protocol == 3 else []
        words.append(command("SUBSCRIBE", "__snapshot__", *names))
        if patterns:
            words.append(command("PSUBSCRIBE", *patterns))
        self.socket.sendall(b"".join(words))
        self.socket.setblocking(False)

    def hears(self, name):
        return name in self.names or any(name.startswith(text[:-1]) for text in self.patterns)

    def poll(self, is_settling=False):
        """Takes what has come; a slow one seldom, and little. Whether there was anything."""
        if self.is_slow and not is_settling and self.draw.random() < 0.9:
            return False
        try:
            chunk = self.socket.recv(2048 if self.is_slow and not is_settling else 1 << 18)
        except BlockingIOError:
            return False
        if not chunk:
            raise ConnectionError("the hub has closed the connection")
        self.data += chunk
        self.take()
        return True

    def take(self):
        position = 0
        while (found := parse(self.data, position)) is not None:
            value, position = found
            if not isinstance(value, list) or value[0] not in (b"message", b"pmessage"):
                continue
            name, payload = value[-2], value[-1]
            if name == b"__snapshot__":
                self.marked.add(payload)
                continue
            self.messages += 1
            keep(self.state, name, payload)
        self.data = self.data[position:]

    def close(self):
        self.socket.close()


class ZmqSubscriber:
    """A SUB socket of libzmq."""

    def __init__(self, server, draw, context, prefixes, is_slow):
        self.server, self.is_slow, self.prefixes = server, is_slow, prefixes
        self.draw = random.Random(draw.random())
        # Half of them are told of removals in a frame of their own.
        self.flags_gone = self.draw.random() < 0.5
        self.what = f"ZeroMQ {prefixes} slow={is_slow} flags={self.flags_gone}"
        self.state, self.messages = {}, 0
        self.socket = context.socket(zmq.SUB)
        self.socket.linger = 0
        self.socket.rcvhwm = 10 if is_slow else 0
        if is_slow:
            self.socket.rcvbuf = 2048
        for prefix in [b"__gone__"] * self.flags_gone + list(prefixes):
            self.socket.subscribe(prefix)
        self.socket.connect(f"tcp://127.0.0.1:{server.pub}")

    def hears(self, name):
        return any(name.startswith(prefix) for prefix in self.prefixes)

    def poll(self, is_settling=False):
        if self.is_slow and not is_settling and self.draw.random() < 0.9:
            return False
        for count in range(5 if self.is_slow and not is_settling else 5000):
            try:
                name, payload, *flags = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return count > 0
            self.messages += 1
            keep(self.state, name, self.published(payload, flags))
        return True

    def published(self, payload, flags):
        """The payload as it is without flags."""
        if flags:
            assert self.flags_gone and (payload, flags) == (b"", [b"gone"]), (payload, flags)
            return GONE
        if self.flags_gone and payload.startswith(GONE) and not payload[len(GONE):].strip(b" "):
            return payload + b" "
        return payload

    def close(self):
        self.socket.close()


def native_prices(server):
    """The prices that a late client of the native feed is told."""
    with socket.create_connection(("127.0.0.1", server.feed), PATIENCE_S) as one:
        client = FeedClient(one)
        client.join("*")
        client.until(lambda: client.snapshots)
        return {
            b"md:" + client.names[number].encode(): value
            for number, value in client.values.items()
        }


def keep(state, name, payload):
    if payload == GONE:
        state.pop(name, None)
    else:
        state[name] = payload


def parse(data, position):
    """A reply and the position behind it; `None` if it is not whole."""
    end = data.find(b"\r\n", position)
    if end < 0:
        return None
    kind, text, position = data[position:position + 1], data[position + 1:end], end + 2
    if kind in b"$=":
        length = int(text)
        if length < 0:
            return None, position
        if len(data) < position + length + 2:
            return None
        return data[position:position + length], position + length + 2
    if kind in b"*>~%":
        parts = []
        for _ in range(int(text) * (2 if kind == b"%" else 1)):
            found = parse(data, position)
            if found is None:
                return None
            part, position = found
            parts.append(part)
        return parts, position
    return text, position


def bytes_of(text):
    """The bytes that a JSON string stands for."""
    if text.startswith("base64:"):
        return base64.b64decode(text.removeprefix("base64:"), validate=True)
    return text.encode()


def meaning(kind, payload):
    """What a payload says, without what does not matter."""
    if kind == b"string":
        return payload[:-1] if payload.rstrip(b" ") == GONE else payload
    value = json.loads(payload)
    match kind:
        case b"hash":
            return {bytes_of(field): bytes_of(text) for field, text in value.items()}
        case b"list":
            return [bytes_of(text) for text in value]
        case b"set":
            return sorted(bytes_of(text) for text in value)
        case b"zset":
            return [(bytes_of(member), float(score)) for member, score in value]
        case b"stream":
            fields = [(bytes_of(name), bytes_of(text)) for name, text in value["fields"]]
            return value["id"].encode(), fields
    raise AssertionError(kind)


READS = {
    b"string": ("GET",), b"hash": ("HGETALL",), b"list": ("LRANGE", 0, -1), b"set": ("SMEMBERS",),
    b"zset": ("ZRANGE", 0, -1, "WITHSCORES"), b"stream": ("XREVRANGE", "+", "-", "COUNT", 1),
}


def states(connection):
    """The state of each live key as commands show it: its type and its meaning."""
    names = KEYS + SENSORS
    kinds = [kind[1:] for kind in connection.run([("TYPE", name) for name in names])]
    there = [(name, kind) for name, kind in zip(names, kinds) if kind != b"none"]
    reads = []
    for name, kind in there:
        word, *rest = READS[kind]
        reads.append((word, name, *rest))
    found = {}
    for (name, kind), value in zip(there, connection.run(reads)):
        if not value and kind != b"string" or value is None:
            continue
        match kind:
            case b"hash":
                value = dict(zip(value[::2], value[1::2]))
            case b"set":
                value = sorted(value)
            case b"zset":
                value = [(member, float(score)) for member, score in zip(value[::2], value[1::2])]
            case b"stream":
                identifier, fields = value[0]
                value = identifier, list(zip(fields[::2], fields[1::2]))
        found[name] = (kind, value)
    return found


class Generator:
    """Draws operations."""

    def __init__(self, draw):
        self.draw = draw
        self.number = 0
        self.has_moved_databases = False

    def text(self):
        self.number += 1
        luck = self.draw.random()
        if luck < 0.02:
            return GONE + b" " * self.draw.randrange(3)
        if luck < 0.06:
            return b"\xff\xfe%d" % self.number
        if luck < 0.08:
            return b"base64:%d" % self.number
        if luck < 0.10:
            return b"" if luck < 0.09 else b'"\\\n%d' % self.number
        return b"%d" % self.number + b"x" * self.draw.choice([0, 0, 10, 200])

    def operation(self):
        """One command, or several that go together."""
        draw, key = self.draw, self.draw.choice(KEYS)
        other = draw.choice(KEYS + OTHERS)
        text, small = self.text(), b"m%d" % draw.randrange(4)
        luck = draw.random()
        if luck < 0.01:
            return [(draw.choice(["FLUSHDB", "FLUSHALL"]), draw.choice(["SYNC", "ASYNC"]))]
        if luck < 0.015:
            self.has_moved_databases = True
            return [("SWAPDB", 0, 1)]
        if luck < 0.04:
            steps = [self.simple(draw.choice(KEYS), small, self.text(), other) for _ in range(3)]
            return [("MULTI",), *steps, ("EXEC",)]
        if luck < 0.05:
            script = "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('DEL', KEYS[2])"
            return [("EVAL", script, 2, key, other, text)]
        return [self.simple(key, small, text, other)]

    def simple(self, key, small, text, other):
        draw = self.draw
        ms, far = draw.randrange(1, 40), 1_000_000
        return draw.choice([
            ("SET", key, text), ("SET", key, text), ("SET", key, text, "PX", ms),
            ("SETEX", key, far, text), ("GETSET", key, text), ("APPEND", key, b"a"),
            ("SETRANGE", key, 1, b"b"), ("INCR", key), ("SETBIT", key, 3, 1), ("PFADD", key, text),
            ("PFCOUNT", key), ("MSET", key, text, other, text),
            ("DEL", key), ("UNLINK", key, other), ("GETDEL", key), ("DEL", key),
            ("EXPIRE", key, far), ("PEXPIRE", key, ms), ("PEXPIRE", key, -1), ("PERSIST", key),
            ("GETEX", key, "PX", ms), ("GETEX", key, "PERSIST"),
            ("RENAME", key, other), ("RENAMENX", key, other), ("COPY", key, other, "REPLACE"),
            ("MOVE", key, 1), ("COPY", key, key, "DB", 1, "REPLACE"),
            ("HSET", key, small, text, b"n", text), ("HDEL", key, small, b"n"),
            ("HINCRBY", key, b"count", 1), ("HGETDEL", key, "FIELDS", 1, small),
            ("HSETEX", key, "PX", ms, "FIELDS", 1, small, text),
            ("HSETEX", key, "EX", far, "FIELDS", 1, small, text),
            ("HPEXPIRE", key, ms, "FIELDS", 1, small), ("HPERSIST", key, "FIELDS", 1, small),
            ("RPUSH", key, text, b"y"), ("LPOP", key, 2), ("RPOPLPUSH", key, other),
            ("LMOVE", key, key, "LEFT", "RIGHT"), ("LTRIM", key, 1, 3), ("LREM", key, 0, b"y"),
            ("SADD", key, small, text), ("SREM", key, small), ("SPOP", key, 2),
            ("SMOVE", key, other, small), ("SINTERSTORE", key, other, key),
            ("SUNIONSTORE", key, other), ("SDIFFSTORE", key, key, other),
            ("ZADD", key, draw.randrange(5), small), ("ZREM", key, small), ("ZPOPMIN", key, 2),
            ("ZRANGESTORE", key, other, 0, 1), ("ZINCRBY", key, 1, small),
            ("ZREMRANGEBYRANK", key, 0, 1), ("ZADD", key, "inf", text),
            ("XADD", key, "*", small, text), ("XADD", key, "MAXLEN", 2, "*", b"f", text),
            ("XTRIM", key, "MAXLEN", draw.randrange(2)), ("XSETID", key, "9999999999999-1"),
            ("XGROUP", "CREATE", key, small, 0, "MKSTREAM"),
            ("SORT", other, "ALPHA", "STORE", key), ("BITOP", "NOT", key, other),
            ("DEL", draw.choice(SENSORS)), ("PEXPIRE", draw.choice(SENSORS), ms),
        ])


class Oracle:
    def __init__(self, options, lanes, folder):
        self.options, self.lanes, self.folder = options, lanes, folder
        self.draw = random.Random(options.seed * 1000 + lanes)
        self.generator = Generator(self.draw)
        self.context = zmq.Context()
        self.subscribers = []
        self.counts = dict.fromkeys(
            ["operations", "checkpoints", "restarts", "full_syncs", "late", "messages", "pushes",
             "evictions"], 0)

    def run(self):
        options = self.options
        source = free_ports(1)[0]
        self.exchange = subprocess.Popen(
            [options.binary, "simulate", "--feed", f"127.0.0.1:{source}", "--rate", "500",
             "--symbols", "5"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment(), cwd=self.folder,
        )
        kept = ["--set", "appendonly=yes"] if self.draw.random() < 0.5 else ["--set", "save=3600 1"]
        self.first = Server(options.binary, self.folder / "first", self.lanes,
                            "--source", f"127.0.0.1:{source}", *kept)
        self.second = Server(options.binary, self.folder / "second", self.lanes)
        try:
            self.first.start()
            self.second.start()
            self.connect()
            self.follow()
            self.settle()
            begin = time.monotonic()
            while self.counts["operations"] < options.operations:
                self.round()
                if options.seconds and time.monotonic() - begin > options.seconds:
                    break
            self.checkpoint()
            return self.summary()
        finally:
            for process in (self.exchange, self.first.process, self.second.process):
                if process:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                    process.wait()
            for one in self.subscribers:
                one.close()
            self.context.destroy(linger=0)

    def summary(self):
        closed = sum(one.messages for one in self.subscribers)
        self.counts["messages"] += closed
        conflated = sum(
            server.client().info("topics")["conflated_messages"]
            for server in (self.first, self.second)
        )
        return self.counts | {"conflated_since_restart": conflated}

    def connect(self):
        self.writers = [Replies(self.first) for _ in range(3)]
        self.readers = {server: Replies(server) for server in (self.first, self.second)}
        self.push = self.context.socket(zmq.PUSH)
        self.push.linger = 0
        self.push.sndtimeo = PATIENCE_S * 1000
        self.push.connect(f"tcp://127.0.0.1:{self.first.pull}")

    def follow(self):
        self.readers[self.second].run([("REPLICAOF", "127.0.0.1", self.first.resp)])

    def subscribe(self, server):
        """A late subscriber of any kind."""
        draw = self.draw
        is_slow = draw.random() < 0.4
        kind = draw.randrange(4)
        if kind == 0:
            one = ZmqSubscriber(server, draw, self.context, [b"live:", b"sensor:", b"md:"], is_slow)
        elif kind == 1:
            names = draw.sample(KEYS + SENSORS, 40)
            one = RedisSubscriber(server, draw, draw.choice([2, 3]), [], names, is_slow)
        else:
            patterns = [b"live:*", b"sensor:*", b"md:*"]
            one = RedisSubscriber(server, draw, draw.choice([2, 3]), patterns, [], is_slow)
        self.subscribers.append(one)
        self.counts["late"] += 1

    def drop(self, one):
        self.counts["messages"] += one.messages
        one.close()
        self.subscribers.remove(one)

    def settle(self):
        while len(self.subscribers) < 12:
            self.subscribe(self.draw.choice([self.first, self.second]))

    def round(self):
        """Some operations by several clients, while subscribers come, read and go."""
        draw = self.draw
        count = 0
        shares = [[], [], []]
        for _ in range(draw.randrange(50, 400)):
            group = self.generator.operation()
            count += len(group)
            draw.choice(shares).extend(group)
        threads = [
            threading.Thread(target=writer.run, args=(share,))
            for writer, share in zip(self.writers, shares)
        ]
        [thread.start() for thread in threads]
        for _ in range(draw.randrange(10)):
            self.push.send_multipart([draw.choice(SENSORS), self.generator.text()])
            self.counts["pushes"] += 1
            count += 1
        while any(thread.is_alive() for thread in threads):
            [one.poll() for one in self.subscribers]
            time.sleep(0.001)
        [thread.join() for thread in threads]
        self.counts["operations"] += count
        if draw.random() < 0.1 and self.subscribers:
            self.drop(draw.choice(self.subscribers))
            self.settle()
        luck = draw.random()
        if luck < 0.02:
            self.evict()
        if luck > 0.96:
            self.checkpoint()
            [self.sync_again, self.restart, lambda: None][draw.randrange(3)]()

    def evict(self):
        one = self.readers[self.first]
        one.run([("CONFIG", "SET", "maxmemory-policy", "allkeys-random")])
        one.run([("CONFIG", "SET", "maxmemory", "1mb")])
        one.run([("SET", KEYS[0], b"evicts")])
        time.sleep(0.05)
        one.run([("CONFIG", "SET", "maxmemory", "0")])
        self.counts["evictions"] += 1

    def sync_again(self):
        """The replica goes its own way for a while, and then takes all keys of its master."""
        one = self.readers[self.second]
        one.run([("REPLICAOF", "NO", "ONE")])
        for _ in range(20):
            one.run(self.generator.operation())
        self.follow()
        self.counts["full_syncs"] += 1

    def restart(self):
        """The first hub ends, by signal or at once, and comes again with what it has kept."""
        [writer.socket.close() for writer in self.writers]
        self.readers[self.first].socket.close()
        self.push.close()
        for one in [one for one in self.subscribers if one.server is self.first]:
            self.drop(one)
        self.first.end(self.draw.choice([signal.SIGTERM, signal.SIGKILL]))
        self.first.start()
        self.connect_again()
        self.settle()
        self.counts["restarts"] += 1

    def connect_again(self):
        self.writers = [Replies(self.first) for _ in range(3)]
        self.readers[self.first] = Replies(self.first)
        self.push = self.context.socket(zmq.PUSH)
        self.push.linger = 0
        self.push.sndtimeo = PATIENCE_S * 1000
        self.push.connect(f"tcp://127.0.0.1:{self.first.pull}")

    def checkpoint(self):
        """All is quiet: what each subscriber was told last must be what is there."""
        self.exchange.send_signal(signal.SIGSTOP)
        generator, one = self.generator, self.readers[self.first]
        # A pushed key that was in another database meanwhile is an ordinary key.
        for name in SENSORS:
            luck = self.draw.random()
            if luck < 0.5:
                self.push.send_multipart([name, generator.text()])
            elif luck < 0.75 or generator.has_moved_databases:
                one.run([("DEL", name)])
        generator.has_moved_databases = False
        mark = b"%d" % self.counts["checkpoints"]
        self.push.send_multipart([b"sensor:end", mark])
        pushed = lambda: one.run([("GET", b"sensor:end")]) == [mark]
        self.until("the end of what was pushed", pushed)
        follower = self.readers[self.second]
        told = lambda: follower.run([("GET", b"sensor:end")]) == [mark]
        self.until("the replica's keys", told)
        for server in (self.first, self.second):
            self.compare(server)
        self.until("the market's state", self.market_differs, wants=None)
        self.exchange.send_signal(signal.SIGCONT)
        same = lambda: states(one) == states(follower)
        self.until("the same keys on master and replica", same)
        self.counts["checkpoints"] += 1
        print(f"\r{self.lanes} lanes: {self.counts}", end="", flush=True)

    def compare(self, server):
        subscribers = [one for one in self.subscribers if one.server is server]

        def differs():
            found = states(self.readers[server])
            for one in subscribers:
                difference = self.difference(one, found)
                if difference:
                    return f"{one.what}: {difference}"
            return None

        self.until("the same state as on the server", differs, wants=None)

    def difference(self, one, found):
        heard = {name: state for name, state in found.items() if one.hears(name)}
        state = {
            name: payload for name, payload in one.state.items()
            if name.startswith((b"live:", b"sensor:")) and name != b"sensor:end"
        }
        for name in heard.keys() - state.keys():
            return f"{name} is {heard[name]}, and it was not told"
        for name in state.keys() - heard.keys():
            return f"{name} is gone, and it has {state[name]}"
        for name, (kind, value) in heard.items():
            try:
                is_same = meaning(kind, state[name]) == value
            except (ValueError, AttributeError, KeyError, TypeError):
                is_same = False
            if not is_same:
                return f"{name} is {kind} {value}, and it has {state[name]}"
        return None

    def market_differs(self):
        one = self.readers[self.first]
        [names] = one.run([("KEYS", "md:*")])
        values = one.run([("HGETALL", name) for name in names])
        words = [[word.decode() for word in value] for value in values]
        text = {name: dict(zip(word[::2], word[1::2])) for name, word in zip(names, words)}
        for one in self.subscribers:
            if one.server is not self.first or not one.hears(b"md:"):
                continue
            for name, fields in text.items():
                payload = one.state.get(name)
                if payload is None:
                    return f"{one.what}: {name} was not told"
                update = json.loads(payload, parse_int=str, parse_float=str)
                if any((update[field] or "") != fields[field] for field in FIELDS):
                    return f"{one.what}: {name} is {fields}, and it has {payload}"
        prices = native_prices(self.first)
        for name, fields in text.items():
            told = prices.get(name, {})
            for field in ("bid", "ask", "last"):
                if fields[field] and told.get(field) != round(float(fields[field]) * 10**9):
                    return f"native: {name} is {fields}, and it has {told}"
        return None

    def until(self, what, condition, wants=True):
        """Reads all subscribers until the condition gives what is wanted."""
        end = time.monotonic() + PATIENCE_S
        while True:
            for _ in range(100):
                if not any([one.poll(is_settling=True) for one in self.subscribers]):
                    break
                # As long as something comes there is progress.
                end = time.monotonic() + PATIENCE_S
            result = condition()
            if result == wants or wants is None and not result:
                return
            if time.monotonic() > end:
                raise SystemExit(
                    f"\nnot reached: {what}: {result}\n{self.counts}\n"
                    f"again: --seed {self.options.seed} --lanes {self.lanes} "
                    f"--operations {self.options.operations}"
                )
            time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, help="for each number of lanes; then it ends")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, action="append")
    options = parser.parse_args()
    for lanes in options.lanes or [1, 2, 4]:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            counts = Oracle(options, lanes, Path(folder)).run()
        figures = ", ".join(f"{value:,} {name}" for name, value in counts.items())
        print(f"\n{lanes} lanes, seed {options.seed}: {figures}; 0 differences, "
              f"{time.monotonic() - begin:.0f} s")


main()
