"""Clients of the hub's ports with TLS, as Python's ssl makes them."""

import socket
import ssl

from support import PATIENCE_S, eventually


def context(authority, client=None, **settings):
    made = ssl.create_default_context(cafile=authority.certificate)
    if client:
        made.load_cert_chain(authority.folder / f"{client}.crt", authority.folder / f"{client}.key")
    for name, value in settings.items():
        setattr(made, name, value)
    return made


def connect(port, made, **options):
    """A connection whose handshake is done."""
    one = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made.wrap_socket(one, server_hostname="localhost", **options)


class Sender:
    """A client whose bytes the test sends as it likes."""

    def __init__(self, port, made):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = made.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def shake(self, size):
        """Does the handshake in pieces of this size."""
        while True:
            try:
                self.tls.do_handshake()
                return self.send(size)
            except ssl.SSLWantReadError:
                self.send(size)
                self.incoming.write(self.socket.recv(65536))

    def send(self, size):
        data = self.outgoing.read()
        for at in range(0, len(data), size):
            self.socket.sendall(data[at : at + size])

    def read(self, length):
        data = b""
        while len(data) < length:
            try:
                part = self.tls.read(65536)
                assert part, f"it has ended after {data[-100:]}"
                data += part
            except ssl.SSLWantReadError:
                received = self.socket.recv(65536)
                assert received, f"it was cut off after {data[-100:]}"
                self.incoming.write(received)
        return data


def logs(hub, text):
    """Waits for a line of the log."""
    eventually(lambda: text in hub.stderr, f"'{text}' in the log")


def old_versions_are_refused(port):
    """A greeting of each version before 1.2 gets an alert, and the connection ends."""
    suites = bytes.fromhex("c02bc02fc02cc030002f0035")
    for version in (0x0300, 0x0301, 0x0302):
        hello = version.to_bytes(2, "big") + bytes(32) + b"\x00"
        hello += len(suites).to_bytes(2, "big") + suites + b"\x01\x00"
        hello = b"\x01" + len(hello).to_bytes(3, "big") + hello
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as one:
            one.sendall(b"\x16\x03\x01" + len(hello).to_bytes(2, "big") + hello)
            alert = one.recv(100)
            assert alert[0] == 0x15 and alert[5:] in (b"\x02\x46", b"\x02\x28"), alert
            assert one.recv(100) == b""
