"""Requests of a hub to write another hub's topics, made here (docs/cluster-protocol.md)."""

import socket
import struct

# magic, version, kind, checksum, epoch, session, number, ticket; then eight bytes of lengths
HEADER = struct.Struct("<HBBIQQQQ")
SESSION = 0x1234


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def words(*parts, protocol=2):
    """The words of a command, as a request of the kind 3 has them."""
    return bytes([protocol]) + b"".join(struct.pack("<I", len(part)) + part for part in parts)


def request(epoch, number, ticket, name, value, user=b"tests", address=b"nowhere", kind=1):
    lengths = struct.pack("<HBBI", len(name), len(user), len(address), len(value))

    def message(checksum):
        head = HEADER.pack(0x5754, 1, kind, checksum, epoch, SESSION, number, ticket)
        return head + lengths + name + user + address + value

    return message(crc32c(message(0)))


class Requests:
    """A connection to a NATS server that sends requests one by one."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.lines = self.socket.makefile("rb")
        self.socket.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
                            b"SUB _INBOX.tests 1\r\n")

    def send(self, subject, payload, reply="_INBOX.tests"):
        """Sends a request. If an answer comes here, it is the next one that `write` reads."""
        head = f"PUB {subject} {reply} {len(payload)}\r\n".encode()
        self.socket.sendall(head + payload + b"\r\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def listen(self, subject):
        """Hears answers on this subject, too."""
        self.socket.sendall(f"SUB {subject} 2\r\n".encode())

    def send_write(self, *fields, reply="_INBOX.tests", **options):
        """Sends a request to write that has no answer: the next `write` finds its own."""
        self.send("tw.tests.write.@a.x", request(*fields, **options), reply)

    def write(self, epoch, number, ticket, name, value, **options):
        """Outcome, ticket and text of the answer, which must be the next one that comes."""
        self.send_write(epoch, number, ticket, name, value, **options)
        while (words := self.lines.readline().split())[0] != b"MSG":
            assert words[0] in (b"INFO", b"PING"), words
        answer = self.lines.read(int(words[-1]) + 2)[:-2]
        magic, version, kind, _, *found = HEADER.unpack_from(answer)
        assert (magic, version, kind, found[:3]) == (0x5754, 1, 2, [epoch, SESSION, number])
        outcome, length = struct.unpack_from("<BxxxI", answer, HEADER.size)
        text = answer[HEADER.size + 8:].decode()
        assert len(text.encode()) == length
        return outcome, found[3], text

    def close(self):
        self.lines.close()
        self.socket.close()
