#!/usr/bin/env python3
"""Measures TLS beside rivals, in turn: processor time of the server an operation, a handshake, and
memory of an idle connection.

    bench/tls.py --ours target/release/tidewire --tools REDIS/src --rival redis=REDIS/src/redis-server \
        --rival valkey=VALKEY/src/valkey-server [--rounds 5] [--cases operations,plain,handshakes,idle]

TOOLS has redis-benchmark, built with TLS. Every server has one thread, on processor 0; the load is on
processor 1. The processor time is that of all threads of the server (`/proc/PID/task/*/schedstat`).
TLS 1.3 with AES-256-GCM; the authority and the certificates are made by `openssl`, of the curve
P-256, and of RSA with 2,048 bits. `--before` names an earlier tidewire for the cases without TLS.
A ratio below 1 is in our favour: ours divided by the rival's, round by round, then the median.
"""

import argparse
import collections
import os
import pathlib
import resource
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

from processes import memory_kib, processor_s

PLAIN_PORT, TLS_PORT = 18_001, 18_002
OPERATIONS = [
    # Command, requests at once, requests, bytes of a value, keys. What is read was written before.
    ("set", 1, 60_000, 3, 5_000),
    ("get", 1, 60_000, 3, 5_000),
    ("set", 16, 400_000, 3, 5_000),
    ("get", 16, 400_000, 3, 5_000),
    ("set", 1, 5_000, 16_384, 1_000),
    ("get", 1, 20_000, 16_384, 1_000),
    # Memory that the server has not had before.
    ("set", 1, 5_000, 16_384, 1_000_000),
]
CASE = "server CPU µs of a command: at once, requests, bytes of a value, keys"
HANDSHAKES = {"ecdsa": 400, "rsa": 300}
PATIENCE_S = 10


def main():
    options = read_options()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    load = os.getloadavg()[0]
    moment = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    print(f"{moment} UTC, load average {load:.1f}, {options.rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        for case in options.cases.split(","):
            getattr(bench, case)()


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True, help="the program tidewire")
    parser.add_argument("--before", help="an earlier one, for `plain`")
    parser.add_argument("--rival", action="append", default=[], help="NAME=PATH, with TLS")
    parser.add_argument("--tools", required=True, help="folder of redis-benchmark, with TLS")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", default="operations,plain,handshakes,idle")
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections")
    return parser.parse_args()


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.rivals = dict(rival.split("=", 1) for rival in options.rival)
        self.authority = folder / "ca.crt"
        make_certificates(folder)
        self.context = ssl.create_default_context(cafile=self.authority)
        self.context.set_ciphers("ECDHE+AESGCM")

    def operations(self):
        names = ["ours", *self.rivals]
        figures = collections.defaultdict(lambda: collections.defaultdict(list))
        for name in in_turn(names, self.options.rounds):
            with Server(self, name) as server:
                for case in OPERATIONS:
                    figures[case][name].append(self.load(server, case, is_tls=True))
        show(f"TLS, {CASE}", figures, names)

    def plain(self):
        """Without TLS, which must not cost more than before."""
        names = ["ours", *(["before"] if self.options.before else []), *self.rivals]
        figures = collections.defaultdict(lambda: collections.defaultdict(list))
        for name in in_turn(names, self.options.rounds):
            with Server(self, name) as server:
                for case in OPERATIONS[:4]:
                    figures[case][name].append(self.load(server, case, is_tls=False))
        show(f"without TLS, {CASE}", figures, names)

    def load(self, server, case, is_tls):
        command, depth, count, size, keys = case
        port = TLS_PORT if is_tls else PLAIN_PORT
        tool = os.path.join(self.options.tools, "redis-benchmark")
        arguments = ["-p", port, "-c", 50, "-n", count, "-P", depth, "-r", keys, "-d", size]
        arguments += ["-t", command, "--csv"]
        if is_tls:
            suite = ["--tls-ciphersuites", "TLS_AES_256_GCM_SHA384"]
            arguments += ["--tls", "--cacert", self.authority, "--sni", "localhost", *suite]
        before = server.processor_s()
        run = ["taskset", "-c", "1", tool, *map(str, arguments)]
        made = subprocess.run(run, capture_output=True, text=True, check=False)
        if made.returncode or "rror" in made.stdout + made.stderr:
            sys.exit(f"{' '.join(run)}: {made.stdout}{made.stderr}")
        return (server.processor_s() - before) / count * 1e6

    def handshakes(self):
        names = ["ours", *self.rivals]
        figures = collections.defaultdict(lambda: collections.defaultdict(list))
        for key, count in HANDSHAKES.items():
            for name in in_turn(names, self.options.rounds):
                with Server(self, name, key) as server:
                    self.shake(50)
                    before = server.processor_s()
                    self.shake(count)
                    between = server.processor_s()
                    figures[key, "full"][name].append((between - before) / count * 1e6)
                    session = self.shake(1)
                    before = server.processor_s()
                    self.shake(count, session)
                    resumed = (server.processor_s() - before) / count * 1e6
                    figures[key, "resumed"][name].append(resumed)
        show("server CPU µs a handshake, with one PING", figures, names)

    def shake(self, count, session=None):
        """Connects so many times. Returns the newest session, each made of the one before."""
        resumes = session is not None
        for _ in range(count):
            with self.connect(session if resumes else None) as one:
                if resumes and not one.session_reused:
                    sys.exit("a session was not resumed")
                session = one.session
        return session

    def connect(self, session=None):
        one = socket.create_connection(("127.0.0.1", TLS_PORT), PATIENCE_S)
        one = self.context.wrap_socket(one, server_hostname="localhost", session=session)
        one.sendall(b"PING\r\n")
        if one.recv(100) != b"+PONG\r\n":
            sys.exit("no PONG")
        return one

    def connect_or_none(self):
        """Redis 8.6.3 sometimes leaves one connection without an answer as its event loop grows."""
        try:
            return self.connect()
        except TimeoutError:
            return None

    def idle(self):
        names = ["ours", *self.rivals]
        figures = collections.defaultdict(lambda: collections.defaultdict(list))
        for name in names:
            with Server(self, name) as server:
                first = [self.connect() for _ in range(50)]
                before = server.memory_kib()
                kept = [self.connect_or_none() for _ in range(self.options.idle)]
                kept = [one for one in kept if one]
                time.sleep(1)
                used = (server.memory_kib() - before) / len(kept)
                if len(kept) < self.options.idle:
                    print(f"{name}: {self.options.idle - len(kept)} connections got no reply")
                figures[f"{self.options.idle:,} connections"][name].append(used)
                for one in first + kept:
                    one.close()
        show("KiB of memory an idle connection", figures, names)


class Server:
    """A server of one thread, as `with` it runs."""

    def __init__(self, bench, name, key="ecdsa"):
        folder = bench.folder
        files = folder / f"{key}.crt", folder / f"{key}.key"
        if name in bench.rivals:
            arguments = [
                bench.rivals[name], "--port", PLAIN_PORT, "--tls-port", TLS_PORT,
                "--tls-cert-file", files[0], "--tls-key-file", files[1],
                "--tls-ca-cert-file", bench.authority, "--tls-auth-clients", "no",
                "--save", "", "--appendonly", "no", "--dir", folder, "--maxclients", 20_000,
            ]
        else:
            binary = bench.options.before if name == "before" else bench.options.ours
            arguments = [binary, "serve", "--resp", f"127.0.0.1:{PLAIN_PORT}", "--lanes", 1]
            for option in ("--feed", "--zmq-pub", "--zmq-pull", "--zmq-router"):
                arguments += [option, "127.0.0.1:0"]
            if name != "before":
                arguments += ["--resp-tls", f"127.0.0.1:{TLS_PORT}", "--tls-cert", files[0]]
                arguments += ["--tls-key", files[1], "--set", "maxclients=20000"]
        self.arguments = ["taskset", "-c", "0", *map(str, arguments)]

    def __enter__(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.arguments, **quiet)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", PLAIN_PORT)).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"it does not start: {' '.join(self.arguments)}")
                time.sleep(0.02)
        time.sleep(0.3)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def processor_s(self):
        return processor_s(self.process.pid)

    def memory_kib(self):
        return memory_kib(self.process.pid)


def in_turn(names, rounds):
    """A B C, B C A, C A B, …"""
    for number in range(rounds):
        first = number % len(names)
        yield from names[first:] + names[:first]


def show(title, figures, names):
    others = [name for name in names if name != "ours"]
    head = [title, *names, *(f"ours ÷ {name}" for name in others)]
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for case, by_name in figures.items():
        cells = [case if isinstance(case, str) else " ".join(map(describe, case))]
        cells += [f"{statistics.median(by_name[name]):.2f}" for name in names]
        for name in others:
            pairs = zip(by_name["ours"], by_name[name], strict=True)
            ratios = [ours / other for ours, other in pairs]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            cells.append(f"{statistics.median(ratios):.3f} ({spread})")
        print(f"| {' | '.join(cells)} |", flush=True)


def describe(part):
    return f"{part:,}" if isinstance(part, int) else str(part)


def make_certificates(folder):
    def openssl(*arguments):
        made = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
        if made.returncode:
            sys.exit(made.stderr)

    curve = "-name", "prime256v1", "-genkey", "-noout"
    openssl("ecparam", *curve, "-out", folder / "ca.key")
    openssl(
        "req", "-x509", "-new", "-key", folder / "ca.key", "-sha256", "-days", "30",
        "-subj", "/CN=Authority", "-addext", "basicConstraints=critical,CA:TRUE",
        "-out", folder / "ca.crt",
    )
    extensions = folder / "server.ext"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("ecparam", *curve, "-out", folder / "ecdsa.key")
    openssl("genrsa", "-out", folder / "rsa.key", "2048")
    for name in ("ecdsa", "rsa"):
        request = folder / f"{name}.csr"
        openssl("req", "-new", "-key", folder / f"{name}.key", "-subj", "/CN=server",
                "-out", request)
        openssl(
            "x509", "-req", "-in", request, "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
            "-CAcreateserial", "-days", "30", "-sha256", "-extfile", extensions,
            "-out", folder / f"{name}.crt",
        )


if __name__ == "__main__":
    main()
