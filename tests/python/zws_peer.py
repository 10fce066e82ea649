"""A ZeroMQ peer over WebSocket, written by hand: RFC 6455 and RFC 45 (ZWS 2.0) with NULL or PLAIN."""

import base64
import hashlib
import os
import struct

BINARY, TEXT, CLOSE, PING, PONG = 2, 1, 8, 9, 10
MORE, COMMAND = 1, 2
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def request(protocol="ZWS2.0/NULL", path="/", headers=(), key=None, version="13"):
    """An upgrade request, as libzmq and browsers send it."""
    key = key or base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}", f"Sec-WebSocket-Protocol: {protocol}",
        f"Sec-WebSocket-Version: {version}", *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def accept_of(key):
    return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest())


def frame(payload, opcode=BINARY, final=True, mask=True, reserved=0, length=None):
    """A frame of a client; `length` is what it claims."""
    length = len(payload) if length is None else length
    head = bytes([final << 7 | reserved << 4 | opcode])
    masked = 0x80 if mask else 0
    if length < 126:
        head += bytes([masked | length])
    elif length < 1 << 16:
        head += bytes([masked | 126]) + struct.pack(">H", length)
    else:
        head += bytes([masked | 127]) + struct.pack(">Q", length)
    if not mask:
        return head + payload
    key = os.urandom(4)
    octets = bytes(octet ^ key[at % 4] for at, octet in enumerate(payload))
    return head + key + octets


def command(name, data=b""):
    """A ZMTP command in a frame."""
    return frame(bytes([COMMAND, len(name)]) + name + data)


def metadata(socket_type):
    return b"\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type


def message(*parts):
    """A message in frames."""
    last = len(parts) - 1
    return b"".join(frame(bytes([MORE * (at < last)]) + part) for at, part in enumerate(parts))


class ZwsPeer:
    """A connection to a port of the hub, behind the upgrade and the handshake."""

    def __init__(self, one, socket_type, plain=None, **options):
        self.one, self.bytes = one, b""
        key = base64.b64encode(os.urandom(16)).decode()
        protocol = options.pop("protocol", "ZWS2.0/PLAIN" if plain else "ZWS2.0/NULL")
        one.sendall(request(protocol, key=key, **options))
        head = self.head()
        assert head[0] == b"HTTP/1.1 101 Switching Protocols", head
        assert b"Sec-WebSocket-Accept: " + accept_of(key) in head
        assert b"Sec-WebSocket-Protocol: " + protocol.encode() in head
        if plain:
            self.send(command(b"HELLO", b"".join(bytes([len(one)]) + one for one in plain)))
            self.heard = self.payload()
            if not self.heard.startswith(b"\x02\x07WELCOME"):
                return
            self.send(command(b"INITIATE", metadata(socket_type)))
        elif protocol == "ZWS2.0":
            self.send(message(b""))
        else:
            self.send(command(b"READY", metadata(socket_type)))
        self.heard = self.payload()

    @property
    def is_ready(self):
        return self.heard == b"\0" or self.heard.startswith(b"\x02\x05READY\x0bSocket-Type")

    def send(self, data):
        self.one.sendall(data)

    def subscribe(self, *prefixes):
        for prefix in prefixes:
            self.send(message(b"\x01" + prefix))
        return self

    def _receive(self):
        more = self.one.recv(1 << 16)
        if not more:
            raise EOFError(self.bytes)
        self.bytes += more

    def _take(self, count):
        while len(self.bytes) < count:
            self._receive()
        taken, self.bytes = self.bytes[:count], self.bytes[count:]
        return taken

    def head(self):
        while b"\r\n\r\n" not in self.bytes:
            self._receive()
        head, _, self.bytes = self.bytes.partition(b"\r\n\r\n")
        return head.split(b"\r\n")

    def frame(self):
        """The opcode and the payload of the next frame; a server neither masks nor splits."""
        first, second = self._take(2)
        assert first & 0xf0 == 0x80 and second < 128, (first, second)
        length = second
        if second == 126:
            (length,) = struct.unpack(">H", self._take(2))
            assert length >= 126
        elif second == 127:
            (length,) = struct.unpack(">Q", self._take(8))
            assert length >= 1 << 16
        return first & 15, self._take(length)

    def payload(self):
        opcode, payload = self.frame()
        assert opcode == BINARY, (opcode, payload)
        return payload

    def receive(self):
        """The next message, as a list of its frames."""
        parts, more = [], True
        while more:
            payload = self.payload()
            assert payload[0] in (0, MORE), payload
            more = payload[0] == MORE
            parts.append(payload[1:])
        return parts

    def is_ended(self):
        """Whether the hub ends the connection, with a CLOSE or without."""
        try:
            while self.frame()[0] != CLOSE:
                pass
            return True
        except (EOFError, ConnectionError):
            return True
