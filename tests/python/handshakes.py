"""The bytes that a client of each port begins with."""

import struct

from feed_client import CONTROL, encode, login, subscribe

GREETING = (
    b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
)


def ready(socket_type):
    """The READY command of a ZeroMQ peer."""
    body = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type
    return b"\x04" + bytes([len(body)]) + body


HELLO = {
    "resp_port": b"",
    "pub_port": GREETING + ready(b"SUB"),
    "pull_port": GREETING + ready(b"PUSH"),
    "feed_port": encode(CONTROL, 0, [login(1)]) + encode(CONTROL, 0, [subscribe("*")]),
}
