"""A page of the web port, with the WebSocket client of PyPI's `websockets`, and raw HTTP."""

import contextlib
import json
import socket

from websockets.sync.client import connect

from support import PATIENCE_S

STREAM_BYTES_MAX = 64 << 20


class Page:
    """A stream. Messages come in order; each request has a number of its own."""

    def __init__(self, port, protocol="tidewire.json.1", pack=None, unpack=None, scheme="ws",
                 query="", **options):
        self._pack, self._unpack = pack or json.dumps, unpack or json.loads
        self._stack = contextlib.ExitStack()
        self.socket = self._stack.enter_context(connect(
            f"{scheme}://127.0.0.1:{port}/stream{query}", subprotocols=[protocol], compression=None,
            max_size=STREAM_BYTES_MAX, open_timeout=PATIENCE_S, **options,
        ))
        self.number = 100
        self.rows = {}
        self.names = {}
        self.hello = self.receive()

    def send(self, message):
        self.socket.send(self._pack(message))

    def receive(self):
        return self._unpack(self.socket.recv(PATIENCE_S))

    def ask(self, verb, **members):
        """Sends a request, and returns the answer with its number."""
        self.number += 1
        self.send({verb: self.number, **members})
        while True:
            message = self.receive()
            if message.get("done", message.get("error")) == self.number:
                return message

    def do(self, *command):
        """Runs a command, and returns its reply."""
        answer = self.ask("do", command=list(command))
        assert "reply" in answer, answer
        return answer["reply"]

    def subscribe(self, number, *topics, **members):
        """Subscribes, and takes all of the first values."""
        self.send({"sub": number, "topics": list(topics), **members})
        while True:
            message = self.receive()
            assert message.get("snap") == number, message
            self.take(message)
            if not message.get("more"):
                return self.rows

    def next(self, number):
        """Asks for a batch, and takes it."""
        self.send({"next": number})
        message = self.receive()
        assert message.get("batch") == number, message
        self.take(message)
        return message["rows"]

    def take(self, message):
        """Applies rows to what the page knows."""
        for row in message["rows"]:
            if len(row) == 3:
                self.names[row[0]] = row[1]
            name, fields = self.names[row[0]], row[-1]
            if fields is None:
                self.rows.pop(name, None)
                continue
            own = self.rows.setdefault(name, {})
            for field, value in fields.items():
                if value is None:
                    own.pop(field, None)
                else:
                    own[field] = value

    def until(self, number, condition):
        """Takes batches until the page's rows are as they are to be."""
        while not condition(self.rows):
            self.next(number)

    def close(self):
        self._stack.close()


def exchange(port, request, patience_s=PATIENCE_S):
    """Sends bytes, and returns all that comes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), patience_s) as one:
        one.sendall(request)
        answer = b""
        while part := one.recv(1 << 16):
            answer += part
        return answer


def http(port, method, path, headers=(), body=b""):
    """One request. Returns status, headers (lower case) and body."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    answer = exchange(port, "\r\n".join([*lines, "", ""]).encode() + body)
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    fields = [line.split(": ", 1) for line in lines]
    return int(first.split()[1]), {name.lower(): value for name, value in fields}, body
