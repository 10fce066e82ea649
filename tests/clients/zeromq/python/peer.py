"""Tidewire's ZeroMQ sockets in a process of their own, driven a line at a time."""

import itertools
import os
import subprocess
import threading

PROGRAM = os.environ["TIDEWIRE_ZMQ_PEER"]


class Refused(Exception):
    """What the peer could not do; the number is an errno."""

    def __init__(self, text):
        super().__init__(text)
        self.number = int(text.split()[0])


class Peer:
    """The process. `socket` opens a socket in it."""

    def __init__(self):
        self._process = subprocess.Popen(
            [PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._names = (f"s{number}" for number in itertools.count())

    def socket(self, kind):
        name = next(self._names)
        self.ask(f"open {name} {kind}")
        return Socket(self, name)

    def ask(self, line):
        """Sends a command; gives what stands behind `ok`."""
        self.begin(line)
        return self.end()

    def begin(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def end(self):
        answer = self._process.stdout.readline()
        if not answer:
            raise EOFError(f"the peer has ended: {self._process.wait()}")
        word, _, rest = answer.rstrip("\n").partition(" ")
        if word != "ok":
            raise Refused(rest)
        return rest

    def stop(self):
        self._process.stdin.close()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()


class Socket:
    """One of its sockets, as far as pyzmq's has the same names."""

    def __init__(self, peer, name):
        self._peer = peer
        self._name = name

    def _ask(self, command, *words):
        return self._peer.ask(" ".join([command, self._name, *words]))

    def set(self, number, value):
        if isinstance(value, int):
            value = value.to_bytes(4, "little", signed=True)
        self._ask("option", str(int(number)), value.hex() or "-")

    def bind(self, endpoint):
        return self._ask("bind", endpoint)

    def connect(self, endpoint):
        self._ask("connect", endpoint)

    def join(self, group):
        self._ask("join", group.hex() or "-")

    def send_multipart(self, frames):
        self._ask("send", *(frame.hex() or "-" for frame in frames))

    def recv_multipart(self):
        return _frames(self._ask("receive"))

    def start_echo(self, count):
        """Sends back so many messages while the test goes on; the result waits for the end."""
        self._peer.begin(f"echo {self._name} {count}")
        return self._peer.end

    def close(self):
        self._ask("close")


def _frames(words):
    return [bytes.fromhex(word) if word != "-" else b"" for word in words.split()]


def in_background(work):
    """Runs `work` in a thread; the result waits for it and gives or raises what it did."""
    outcome = []

    def run():
        try:
            outcome.append((work(), None))
        except Exception as error:  # told to whoever waits
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end():
        thread.join(30)
        assert outcome, "the thread does not end"
        value, error = outcome[0]
        if error:
            raise error
        return value

    end.is_over = lambda: not thread.is_alive()
    return end
