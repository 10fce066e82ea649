"""wss:// in pyzmq programs that load our library, with Python's own TLS (OpenSSL) at the other
end, which speaks WebSocket and ZeroMQ by hand."""

import base64
import hashlib
import os
import socket
import ssl
import struct
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = os.environ["TIDEWIRE_LIBZMQ"]
PROGRAM = Path(__file__).with_name("speaking_wss.py")
PATIENCE_S = 20
HOST = "hub.example"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
COMMAND, LAST, MORE = 2, 0, 1
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A certificate that is its own issuer, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", key, "-out", certificate, "-subj", f"/CN={HOST}"]
    command += ["-addext", f"subjectAltName=DNS:{HOST}"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def start():
    started = []

    def begin(*arguments):
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"LD_PRELOAD": LIBRARY},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


class WebSocket:
    """Frames of ZWS over a stream; a client masks them, with zeros."""

    def __init__(self, stream, masks):
        self.stream, self.masks = stream, masks

    def exactly(self, count):
        found = b""
        while len(found) < count:
            part = self.stream.recv(count - len(found))
            assert part, "the connection has ended"
            found += part
        return found

    def head(self):
        found = b""
        while not found.endswith(b"\r\n\r\n"):
            found += self.exactly(1)
        return found

    def send(self, flags, body):
        length = len(body) + 1
        mask_bit, mask = (0x80, bytes(4)) if self.masks else (0, b"")
        if length < 126:
            header = bytes([0x82, mask_bit | length])
        else:
            header = bytes([0x82, mask_bit | 127]) + struct.pack(">Q", length)
        self.stream.sendall(header + mask + bytes([flags]) + body)

    def receive(self):
        first, second = self.exactly(2)
        assert first == 0x82
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", self.exactly(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self.exactly(8))
        mask = self.exactly(4) if second & 0x80 else bytes(4)
        body = self.exactly(length)
        if any(mask):
            body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
        return body[0], body[1:]


def ready(kind):
    return b"\5READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind


def to_server(endpoint, certificate, version):
    place = endpoint.removeprefix("wss://").rstrip("/")
    address, port = place.split(":")
    context = ssl.create_default_context(cafile=str(certificate))
    context.minimum_version = context.maximum_version = version
    plain = socket.create_connection((address, int(port)), timeout=PATIENCE_S)
    return context.wrap_socket(plain, server_hostname=HOST)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_of_openssl_is_answered(made, start, version):
    certificate, key = made
    server = start("serve", certificate, key)
    endpoint = server.stdout.readline().strip()
    with to_server(endpoint, certificate, version) as stream:
        key = base64.b64encode(os.urandom(16))
        stream.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n"
            b"Sec-WebSocket-Key: " + key + b"\r\n\r\n"
        )
        web = WebSocket(stream, masks=True)
        assert web.head().startswith(b"HTTP/1.1 101 ")
        web.send(COMMAND, ready(b"REQ"))
        flags, command = web.receive()
        assert flags == COMMAND and command.startswith(b"\5READY")
        for body in (b"", b"abc", bytes(range(256)) * 400):
            web.send(MORE, b"")
            web.send(LAST, body)
            assert web.receive() == (MORE, b"")
            assert web.receive() == (LAST, body[::-1])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_of_openssl_is_called(made, start, version):
    certificate, key = made
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.minimum_version = context.maximum_version = version
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        port = listener.getsockname()[1]
        client = start("call", f"wss://127.0.0.1:{port}", certificate, HOST)
        plain, _ = listener.accept()
        plain.settimeout(PATIENCE_S)
        with context.wrap_socket(plain, server_side=True) as stream:
            web = WebSocket(stream, masks=False)
            lines = web.head().split(b"\r\n")
            (key,) = (line[18:].strip() for line in lines if line.startswith(b"Sec-WebSocket-Key:"))
            accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
            stream.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n"
                b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
            )
            web.send(COMMAND, ready(b"REP"))
            flags, command = web.receive()
            assert flags == COMMAND and command.startswith(b"\5READY")
            assert web.receive() == (MORE, b"")
            assert web.receive() == (LAST, b"abc" * 20_000)
            web.send(MORE, b"")
            web.send(LAST, b"x" * 70_000)
            assert client.stdout.readline() == "70000\n"


def test_a_program_with_another_name_of_the_host_is_not_served(made, start):
    certificate, key = made
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        port = listener.getsockname()[1]
        start("call", f"wss://127.0.0.1:{port}", certificate, "other.example")
        plain, _ = listener.accept()
        plain.settimeout(PATIENCE_S)
        with pytest.raises(ssl.SSLError):
            with context.wrap_socket(plain, server_side=True) as stream:
                stream.recv(1)
