#!/usr/bin/env python3
"""Measures what connected peers cost a socket of libzmq's C interface: memory a peer, and processor
time while nothing happens.

    bench/libzmq_peers.py --ours OURS/lib/libzmq.so.5 --stock STOCK/lib/libzmq.so.5 \
        [--peers 10000] [--idle-s 5]

A child process loads the library and binds a socket (ROUTER, then PUB) at a free port of the loopback
interface. This one connects so many peers with the NULL mechanism of ZMTP 3.1; those of PUB subscribe to one
topic each. Memory is the growth of the child's `VmRSS`, divided by the peers. The processor time is
that of all the child's threads.
"""

import argparse
import ctypes
import os
import resource
import socket
import struct
import subprocess
import sys
import time

from processes import memory_kib, processor_s

PUB, ROUTER = 1, 6
LAST_ENDPOINT, BACKLOG = 32, 19
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16) + b"\x00" + bytes(31)
ANSWERS = {ROUTER: b"DEALER", PUB: b"SUB"}
PATIENCE_S = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", help="our libzmq.so.5")
    parser.add_argument("--stock", help="the other")
    parser.add_argument("--peers", type=int, default=10_000)
    parser.add_argument("--idle-s", type=float, default=5)
    parser.add_argument("--bind", nargs=2, metavar=("LIBRARY", "KIND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.bind:
        bind(options.bind[0], int(options.bind[1]))
        return
    print(f"{options.peers:,} peers, load average {os.getloadavg()[0]:.1f}\n")
    print("| socket | library | KiB a peer | CPU ms a second, no peer | CPU ms a second, all peers |")
    print("|---|---|---:|---:|---:|")
    for kind, name in ((ROUTER, "ROUTER"), (PUB, "PUB")):
        for library in ("ours", "stock"):
            figures = measure(getattr(options, library), kind, options)
            cells = " | ".join(f"{figure:.2f}" for figure in figures)
            print(f"| {name} | {library} | {cells} |", flush=True)


def bind(library, kind):
    zmq = ctypes.CDLL(library)
    zmq.zmq_ctx_new.restype = zmq.zmq_socket.restype = ctypes.c_void_p
    context = ctypes.c_void_p(zmq.zmq_ctx_new())
    one = ctypes.c_void_p(zmq.zmq_socket(context, kind))
    backlog = ctypes.c_int(4096)
    zmq.zmq_setsockopt(one, BACKLOG, ctypes.byref(backlog), 4)
    if zmq.zmq_bind(one, b"tcp://127.0.0.1:*"):
        sys.exit("it does not bind")
    text, length = ctypes.create_string_buffer(200), ctypes.c_size_t(200)
    zmq.zmq_getsockopt(one, LAST_ENDPOINT, text, ctypes.byref(length))
    print(text.value.decode().rsplit(":", 1)[1], flush=True)
    sys.stdin.readline()


def measure(library, kind, options):
    command = [sys.executable, __file__, "--bind", str(library), str(kind)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as child:
        port = int(child.stdout.readline())
        empty_ms = idle_ms(child.pid, options.idle_s)
        before = memory_kib(child.pid)
        peers = [connect(port, kind, number) for number in range(options.peers)]
        time.sleep(1)
        used = (memory_kib(child.pid) - before) / len(peers)
        full_ms = idle_ms(child.pid, options.idle_s)
        for peer in peers:
            peer.close()
        child.stdin.close()
        child.terminate()
    return used, empty_ms, full_ms


def connect(port, kind, number):
    one = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    properties = b"\x0bSocket-Type" + struct.pack(">I", len(ANSWERS[kind])) + ANSWERS[kind]
    ready = b"\x05READY" + properties
    one.sendall(GREETING + b"\x04" + bytes([len(ready)]) + ready)
    got = b""
    while len(got) < 66 or len(got) < 66 + got[65]:
        part = one.recv(4096)
        if not part:
            sys.exit("a peer was disconnected")
        got += part
    if kind == PUB:
        topic = b"\x01topic:%06d" % number
        one.sendall(b"\x00" + bytes([len(topic)]) + topic)
    return one


def idle_ms(process, idle_s):
    before = processor_s(process)
    time.sleep(idle_s)
    return (processor_s(process) - before) / idle_s * 1e3


if __name__ == "__main__":
    main()
