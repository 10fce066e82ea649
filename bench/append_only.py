#!/usr/bin/env python3
"""Processor time of SET with an append-only file: a build beside another, in turn.

    python3 bench/append_only.py --before FILE [--after target/release/tidewire] [--pairs 7]
                                 [--policies everysec,no] [--pipelines 1,16] [--seconds 2]
                                 [--benchmark redis-benchmark] [--dir FOLDER]

The server runs on core 0, the load (50 clients) on core 1. A figure is the server's user and system
time, threads included, divided by the commands that it executed. A ratio is after / before of one
pair; shown are the median and the least and the most. Below 1 the later build takes less.
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ask(port, *words):
    with socket.create_connection(("127.0.0.1", port)) as client:
        parts = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
        client.sendall("".join(parts).encode())
        text = client.recv(1 << 20).decode()
        while words[0] == "INFO" and not text.endswith("\r\n"):
            text += client.recv(1 << 20).decode()
        return text


def started(binary, folder, policy):
    port = free_port()
    words = [binary, "serve", "--lanes", "1", "--resp", f"127.0.0.1:{port}", "--dir", folder]
    words += ["--feed", "127.0.0.1:0", "--set", "save=", "--set", f"appendfsync={policy}"]
    words += ["--set", "appendonly=yes", "--set", "auto-aof-rewrite-percentage=0"]
    for name in ("pub", "pull", "router"):
        words += [f"--zmq-{name}", "tcp://127.0.0.1:0"]
    server = subprocess.Popen(["taskset", "-c", "0", *words], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            if ask(port, "PING").startswith("+PONG"):
                return server, port
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"{binary} does not start")


def processor_us(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def executed(port):
    for line in ask(port, "INFO", "commandstats").splitlines():
        if line.startswith("cmdstat_set:calls="):
            return int(line.partition("=")[2].partition(",")[0])
    return 0


def microseconds_a_set(binary, policy, pipeline, options):
    folder = tempfile.mkdtemp(dir=options.dir)
    server, port = started(binary, folder, policy)
    try:
        load = ["taskset", "-c", "1", options.benchmark, "-p", str(port), "-t", "set", "-q"]
        load += ["-c", "50", "-P", str(pipeline), "-r", "100000", "-n", "100000000"]
        client = subprocess.Popen(load, stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        before, count = processor_us(server.pid), executed(port)
        time.sleep(options.seconds)
        after, end = processor_us(server.pid), executed(port)
        client.kill()
        client.wait()
        return (after - before) / (end - count)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", default="target/release/tidewire")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--policies", default="everysec,no")
    parser.add_argument("--pipelines", default="1,16")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--benchmark", default="redis-benchmark")
    parser.add_argument("--dir")
    options = parser.parse_args()
    print("| appendfsync | P | before, µs | after, µs | ratio | spread |\n|---|--:|--:|--:|--:|---|")
    for policy in options.policies.split(","):
        for pipeline in map(int, options.pipelines.split(",")):
            runs = []
            for _ in range(options.pairs):
                pair = [microseconds_a_set(binary, policy, pipeline, options)
                        for binary in (options.before, options.after)]
                runs.append((*pair, pair[1] / pair[0]))
            before, after, ratio = (statistics.median(column) for column in zip(*runs))
            ratios = [ratio for *_, ratio in runs]
            print(f"| {policy} | {pipeline} | {before:.2f} | {after:.2f} | {ratio:.2f} |"
                  f" {min(ratios):.2f}–{max(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
