"""Messages that a test stores in the stream of the keys."""

import json
import socket
import struct

from support import eventually

SUBJECT = "tw.tests.keys.main"


def put(nats, message, as_hub):
    """Stores a message behind the last one; as a hub does, if `as_hub`. Its sequence."""
    for _ in range(1_000):
        last = info(nats)["state"]["last_seq"]
        head = b"NATS/1.0\r\n"
        if as_hub:
            head += f"Nats-Expected-Last-Sequence: {last}\r\n".encode()
        if sequence := store(nats, head + b"\r\n", message):
            return sequence
    raise AssertionError("the stream takes no message")


def info(nats):
    server = next(server for server in nats if server.process)
    return eventually(lambda: server.ask("$JS.API.STREAM.INFO.TW_tests_KEYS_main"), "it answers")


def store(nats, head, message):
    server = next(server for server in nats if server.process)
    with socket.create_connection(("127.0.0.1", server.port), 5) as one:
        one.settimeout(5)
        with one.makefile("rwb") as file:
            file.readline()
            file.write(b'CONNECT {"verbose":false,"headers":true}\r\nSUB answer 1\r\n')
            length = len(head) + len(message)
            file.write(f"HPUB {SUBJECT} answer {len(head)} {length}\r\n".encode())
            file.write(head + message + b"\r\n")
            file.flush()
            while not (line := file.readline()).startswith(b"MSG"):
                if line.startswith(b"PING"):
                    file.write(b"PONG\r\n")
                    file.flush()
            answer = json.loads(file.read(int(line.split()[-1])))
            return None if "error" in answer else answer["seq"]


def damaged():
    """A message of a hub's form whose checksum is wrong."""
    return struct.pack("<HBBIQQI20s", 0x4b54, 1, 1, 7, 1, 0, 5, bytes(20)) + b"hello"
