"""The program as a child process, and the clients that the tests talk to it with.

Everything is bound to the loopback and to free ports, and every wait has an end.
"""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import redis
import zmq

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("TIDEWIRE_BINARY", REPOSITORY / "target/release/tidewire"))
DATA = Path(os.environ.get("TIDEWIRE_DATA", REPOSITORY.parent / "shared/data"))

# How long a test waits for something that should come at once.
PATIENCE_S = 20.0
# SIGTERM and SIGINT end the program within this time, however busy the machine is.
STOP_TIME_MAX_S = 3

FIELDS = [
    "bid", "bid_size", "ask", "ask_size", "last", "last_size", "volume", "change_pct", "seq", "ts",
    "recv_ts", "stale",
]
# The other fields of a hash. JSON has `state` always, and the rest where it is known.
DETAILS = [
    "state", "reason", "side", "conditions", "open", "high", "low", "prev_close", "change_from",
    "trades", "vwap", "bid_orders", "ask_orders", "book", "trading_day", "tick", "currency",
    "source", "venue", "bid_venue", "ask_venue", "last_venue",
]


def eventually(condition, what, patience_s=PATIENCE_S):
    """Asks `condition` until it gives something true, and returns that."""
    end = time.monotonic() + patience_s
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"in {patience_s} s there was not: {what}"
        time.sleep(0.01)


def wait_for_values(hub, symbols):
    """Waits until each of so many symbols has traded."""

    def traded():
        names = hub.redis().keys("md:*")
        pipeline = hub.redis().pipeline(transaction=False)
        for name in names:
            pipeline.hget(name, "last")
        return len(names) == symbols and all(pipeline.execute())

    eventually(traded, f"a price of each of {symbols} symbols")


def free_ports(count):
    """Ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def environment(extra=None):
    """The environment without settings of somebody's own hub."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")}
    # Hubs run beside each other: only those of the tests of web pages have a port for them.
    return own | {"TIDEWIRE_WEB": "off"} | (extra or {})


class Program:
    """One run of the program."""

    def __init__(self, folder, *arguments, env=None, preexec=None):
        number = len(list(folder.glob("*.stdout")))
        self._stdout = folder / f"{number}.stdout"
        self._stderr = folder / f"{number}.stderr"
        with open(self._stdout, "wb") as out, open(self._stderr, "wb") as err:
            self.process = subprocess.Popen(
                [str(BINARY), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment(env),
                cwd=folder,
                preexec_fn=preexec,
            )

    @property
    def stdout(self):
        return self._stdout.read_text()

    @property
    def stderr(self):
        return self._stderr.read_text()

    @property
    def pid(self):
        return self.process.pid

    def line_with(self, text):
        """Waits for a line of the output that holds `text`."""

        def found():
            if self.process.poll() is not None and text not in self.stdout:
                raise AssertionError(f"the program has ended: {self.stderr or self.stdout}")
            complete = self.stdout.rpartition("\n")[0].split("\n")
            return next((line for line in complete if text in line), None)

        return eventually(found, f"'{text}' in the output")

    def wait(self, patience_s=PATIENCE_S):
        """Waits for the end, and returns the exit code."""
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end in {patience_s} s: {self.stdout}") from None

    def stop(self, signal_number=signal.SIGTERM):
        """Asks the program to end, which it does cleanly and at once."""
        if self.process.returncode is not None:
            return
        assert self.process.poll() is None, f"it had ended before: {self.stderr}"
        begin = time.monotonic()
        self.process.send_signal(signal_number)
        code = self.wait()
        took_s = time.monotonic() - begin
        assert code == 0, f"exit code {code}: {self.stderr}"
        assert took_s < STOP_TIME_MAX_S, f"it took {took_s:.2f} s to end"
        assert "panicked" not in self.stderr

    def kill(self):
        """Ends the program without asking."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()

    def resident_bytes(self):
        """Memory that the process holds."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the process has no memory")

    def processor_seconds(self):
        """Processor time that the process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Hub(Program):
    """A running hub (`serve`) on free ports."""

    def __init__(self, folder, *arguments, env=None, preexec=None, resp_port=None):
        self._clients = []
        self._context = zmq.Context()
        for _ in range(5):
            self.resp_port, self.pub_port, self.pull_port, self.feed_port, self.router_port = (
                free_ports(5)
            )
            # One that takes the place of another hub.
            self.resp_port = resp_port or self.resp_port
            addresses = [
                "--resp", f"127.0.0.1:{self.resp_port}",
                "--zmq-pub", f"tcp://127.0.0.1:{self.pub_port}",
                "--zmq-pull", f"tcp://127.0.0.1:{self.pull_port}",
                "--feed", f"127.0.0.1:{self.feed_port}",
            ]
            if "--zmq-router" not in arguments:
                addresses += ["--zmq-router", f"tcp://127.0.0.1:{self.router_port}"]
            super().__init__(
                folder, "serve", *addresses, *arguments, env=env, preexec=preexec
            )
            if self._is_ready():
                return
            # A port was taken between the look and the start, by another program or an option.
            assert "in use" in self.stderr or "name the same address" in self.stderr, self.stderr
        raise AssertionError("no free ports")

    def _is_ready(self):
        def asked():
            if self.process.poll() is not None:
                return "ended"
            try:
                with socket.create_connection(("127.0.0.1", self.resp_port), 5) as one:
                    one.settimeout(5)
                    one.sendall(b"PING\r\n")
                    return one.recv(100) == b"+PONG\r\n" and "ready"
            except ConnectionRefusedError:
                return None

        return eventually(asked, "an answer to PING") == "ready"

    def redis(self, protocol=2, **options):
        """A client of redis-py. Replies are bytes."""
        client = redis.Redis(
            port=self.resp_port, host="127.0.0.1", protocol=protocol, socket_timeout=PATIENCE_S,
            **options,
        )
        self._clients.append(client)
        return client

    def subscriber(self, *channels, patterns=(), protocol=2):
        """A subscriber of redis-py whose subscriptions are confirmed."""
        pubsub = self.redis(protocol).pubsub()
        self._clients.append(pubsub)
        if channels:
            pubsub.subscribe(*channels)
        if patterns:
            pubsub.psubscribe(*patterns)
        return Messages(pubsub, len(channels) + len(patterns))

    def connect(self, port, receive_buffer_bytes=None):
        """A socket at one of the ports."""
        one = socket.socket()
        if receive_buffer_bytes:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        one.settimeout(PATIENCE_S)
        one.connect(("127.0.0.1", port))
        self._clients.append(one)
        return one

    def resp(self, **options):
        """A socket at the Redis port."""
        return self.connect(self.resp_port, **options)

    def zmq(self, kind, prefixes=(), port=None, monitored=False, **options):
        """A ZeroMQ socket (or its monitor), connected to the port that its kind is for."""
        one = self._context.socket(kind)
        self._clients.append(one)
        one.linger = 0
        one.rcvtimeo = one.sndtimeo = int(PATIENCE_S * 1000)
        for name, value in options.items():
            setattr(one, name, value)
        monitor = one.get_monitor_socket() if monitored else None
        asks = kind in (zmq.REQ, zmq.DEALER)
        own = self.pull_port if kind == zmq.PUSH else self.router_port if asks else self.pub_port
        one.connect(f"tcp://127.0.0.1:{port or own}")
        for prefix in prefixes:
            one.subscribe(prefix)
        return monitor or one

    def sub(self, *prefixes, **options):
        """A ZeroMQ subscriber."""
        return self.zmq(zmq.SUB, prefixes, **options)

    def push(self, **options):
        """A ZeroMQ pusher."""
        return self.zmq(zmq.PUSH, **options)

    def info(self, section="everything"):
        """INFO, as a dictionary."""
        with socket.create_connection(("127.0.0.1", self.resp_port), PATIENCE_S) as one:
            client = RespSocket(one)
            text = client.call("INFO", section).decode()
        pairs = (line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        return {name: int(value) if value.isdigit() else value for name, value in pairs}

    def hash(self, name):
        """The fields of a key, as text."""
        found = self.redis().hgetall(name)
        return {field.decode(): value.decode() for field, value in found.items()}

    def close_clients(self):
        for client in self._clients:
            client.close()
        self._context.destroy(linger=0)

    def stop(self, *arguments):
        try:
            super().stop(*arguments)
        finally:
            self.close_clients()

    def kill(self):
        super().kill()
        self.close_clients()


class Simulator(Program):
    """A running exchange (`simulate`)."""

    def __init__(self, folder, *arguments, port=0):
        super().__init__(folder, "simulate", "--feed", f"127.0.0.1:{port}", *arguments)
        self.port = int(self.line_with("exchange:").rpartition(":")[2])
        self.source = f"127.0.0.1:{self.port}"

    def published(self):
        """The number of messages that it says it has published, once it has ended."""
        line = next(line for line in self.stdout.splitlines() if line.startswith("published:"))
        return int(line.split()[1].replace(",", ""))


class Messages:
    """What a subscriber of redis-py gets."""

    def __init__(self, pubsub, subscriptions=0):
        self.pubsub = pubsub
        for _ in range(subscriptions):
            # Messages come behind their own confirmation, maybe before the next one.
            self._early = getattr(self, "_early", [])
            while (message := self._take())["type"] not in ("subscribe", "psubscribe"):
                self._early.append(message)

    def _take(self):
        message = self.pubsub.get_message(timeout=PATIENCE_S)
        assert message is not None, f"no message came in {PATIENCE_S} s"
        return message

    def next(self):
        """The next message, whole."""
        if getattr(self, "_early", []):
            return self._early.pop(0)
        return self._take()

    def data(self):
        """The payload of the next message."""
        message = self.next()
        assert message["type"] in ("message", "pmessage"), message
        return message["data"]

    def json(self):
        """The payload of the next message, as JSON."""
        return json.loads(self.data())

    def close(self):
        self.pubsub.close()


class Reply(Exception):
    """An error reply."""


def redis_client_when_it_answers(port, name, **options):
    """A client of another server than the hub, once it answers."""
    client = redis.Redis(port=port, **options)

    def answers():
        try:
            return client.ping()
        except (redis.ConnectionError, redis.BusyLoadingError):
            return None

    eventually(answers, f"an answer of {name}")
    return client


class RespSocket:
    """RESP2 and RESP3 over a socket, as thin as can be: replies are what the bytes say."""

    def __init__(self, one):
        self.socket = one
        self.file = one.makefile("rb")

    def send(self, *arguments):
        self.socket.sendall(command(*arguments))

    def call(self, *arguments):
        self.send(*arguments)
        return self.read()

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"the connection has ended behind {line!r}")
        kind, text = line[:1], line[1:-2]
        match kind:
            case b"+":
                return text
            case b"-":
                raise Reply(text.decode())
            case b":" | b"(":
                return int(text)
            case b",":
                return float(text)
            case b"#":
                return text == b"t"
            case b"_":
                return None
            case b"$" | b"=":
                return self._bulk(kind, int(text))
            case b"%":
                return {self.read(): self.read() for _ in range(int(text))}
            case b"*" | b"~" | b">":
                return None if text == b"-1" else [self.read() for _ in range(int(text))]
        raise AssertionError(f"no reply of RESP: {line!r}")

    def _bulk(self, kind, length):
        if length < 0:
            return None
        body = self.file.read(length + 2)
        assert body[length:] == b"\r\n"
        return body[4:length] if kind == b"=" else body[:length]


def command(*arguments):
    """A request as its bytes."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        body = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(body), body))
    return b"".join(parts)


class Order:
    """Nothing older follows what a subscriber has of a topic.

    The same sequence comes again only as a current value, or when its source is lost or back.
    """

    def __init__(self):
        self.last = None

    def check(self, value):
        last, self.last = self.last, value
        if last is not None and value["seq"] <= last["seq"]:
            assert value["seq"] == last["seq"], f"{value} came behind {last}"
            is_current = "snapshot" in value or value["stale"] != last["stale"]
            assert is_current, f"{value} came again behind {last}"


def same_value(text, fields):
    """Whether the JSON of an update says what the fields of HGETALL say, to the digit."""
    update = json.loads(text, parse_int=str, parse_float=str)
    return all((update[name] or "") == fields[name] for name in FIELDS)


def is_closed(one):
    """Reads from a socket until its end; whether that came."""
    try:
        while one.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True
