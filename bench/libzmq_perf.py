#!/usr/bin/env python3
"""Measures our libzmq.so.5 beside another one with libzmq's own perf tools, in turn.

    bench/libzmq_perf.py --tools BUILD/bin --ours PREFIX/lib --stock BUILD/lib [--pairs 5]

TOOLS has local_lat, remote_lat, local_thr, remote_thr, inproc_lat and inproc_thr, as CMake builds
them. The side that binds runs on processor 0, the side that connects on processor 1; in process
both threads may use both; `--processors` chooses others. With `--other-transport` the other side uses
that one: `--stock PREFIX/lib --transports shm --other-transport ipc` compares two of ours. Each line is the median of the pairs and their spread. A ratio of
latencies below 1, and one of rates above 1, is in our favour. `cpu` is the processor time of both
processes, ours divided by the other's.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time

LATENCY = {1: 20_000, 64: 20_000, 1_024: 20_000, 65_536: 5_000, 1_048_576: 500}
RATE = {1: 2_000_000, 64: 2_000_000, 1_024: 1_000_000, 65_536: 40_000, 1_048_576: 2_000}
INPROC_LATENCY = {1: 30_000, 64: 30_000, 1_024: 30_000, 65_536: 20_000, 262_144: 20_000}
INPROC_RATE = {1: 3_000_000, 64: 3_000_000, 1_024: 2_000_000, 65_536: 200_000, 1_048_576: 20_000}
PATIENCE_S = 30


def main():
    options = read_options()
    print(f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, load average "
          f"{os.getloadavg()[0]:.1f}, {options.pairs} pairs")
    print("\n| tool | transport | bytes | ours | other | ours ÷ other | spread | cpu |")
    print("|---|---|---:|---:|---:|---:|---|---:|")
    for kind in options.kinds.split(","):
        for transport in options.transports.split(","):
            for size, count in plan(kind, transport).items():
                if not options.sizes or str(size) in options.sizes.split(","):
                    compare(options, kind, transport, size, count)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", required=True, help="folder of libzmq's perf tools")
    parser.add_argument("--ours", required=True, help="folder of our libzmq.so.5")
    parser.add_argument("--stock", required=True, help="folder of the other libzmq.so.5")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--kinds", default="lat,thr")
    parser.add_argument("--transports", default="tcp,ipc,inproc")
    parser.add_argument("--other-transport", default="", help="of the other side, if not the same")
    parser.add_argument("--processors", default="0,1", help="of the side that binds, and the other")
    parser.add_argument("--raw", action="store_true", help="print each pair too")
    parser.add_argument("--sizes", default="", help="only these sizes, separated by commas")
    return parser.parse_args()


def plan(kind, transport):
    if transport == "inproc":
        return INPROC_LATENCY if kind == "lat" else INPROC_RATE
    return LATENCY if kind == "lat" else RATE


def compare(options, kind, transport, size, count):
    ours, other, ratios, processor_ratios = [], [], [], []
    for pair in range(options.pairs):
        place = endpoint(transport, pair)
        other_place = endpoint(options.other_transport or transport, pair)
        one = measure(options, options.ours, kind, place, size, count)
        two = measure(options, options.stock, kind, other_place, size, count)
        if not one or not two:
            who = " and ".join(name for name, run in (("ours", one), ("other", two)) if not run)
            print(f"| {kind} | {transport} | {size:,} | did not end within {PATIENCE_S} s: {who} "
                  "| | | | |", flush=True)
            return
        if options.raw:
            print(f"{kind} {size} B: {place} {one[0]:.3f}, {other_place} {two[0]:.3f}", flush=True)
        ours.append(one[0])
        other.append(two[0])
        ratios.append(one[0] / two[0])
        processor_ratios.append(one[1] / max(two[1], 1e-9))
    unit = "µs" if kind == "lat" else "M/s"
    shown = [statistics.median(values) / (1 if kind == "lat" else 1e6) for values in (ours, other)]
    print(f"| {kind} | {transport} | {size:,} | {shown[0]:.3f} {unit} | {shown[1]:.3f} {unit} "
          f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} "
          f"| {statistics.median(processor_ratios):.2f} |", flush=True)


def endpoint(transport, pair):
    place = f"127.0.0.1:{21_000 + pair}" if transport == "tcp" else f"@perf-{os.getpid()}-{pair}"
    return f"{transport}://{place}"


def measure(options, library, kind, endpoint, size, count):
    """The figure that the tool prints, and the processor time of all processes in seconds.

    Nothing if a tool does not end."""
    environment = dict(os.environ, LD_LIBRARY_PATH=library)
    before = os.times()
    if endpoint.startswith("inproc"):
        tool = [os.path.join(options.tools, f"inproc_{kind}"), str(size), str(count)]
        text = finish(start(tool, environment, None))
    else:
        arguments = [endpoint, str(size), str(count)]
        local = [os.path.join(options.tools, f"local_{kind}"), *arguments]
        remote = [os.path.join(options.tools, f"remote_{kind}"), *arguments]
        processors = options.processors.split(",")
        binds = start(local, environment, processors[0])
        connects = start(remote, environment, processors[1])
        texts = finish(connects), finish(binds)
        text = None if None in texts else "".join(texts)
    if not text:
        return None
    after = os.times()
    used = sum(after[2:4]) - sum(before[2:4])
    pattern = r"latency: ([\d.]+)" if kind == "lat" else r"throughput: ([\d.]+) \[msg"
    found = re.search(pattern, text)
    if not found:
        sys.exit(f"{kind} {endpoint} {size}: no figure in {text!r}")
    return float(found.group(1)), used


def start(command, environment, processor):
    pin = ["taskset", "-c", str(processor)] if processor is not None else []
    return subprocess.Popen(
        [*pin, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    try:
        return process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


if __name__ == "__main__":
    main()
