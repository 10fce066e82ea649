"""The newest message of each topic (option 10005) in pyzmq programs that load our library, with
libzmq's own sockets at the other end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

LIBRARY = os.environ["TIDEWIRE_LIBZMQ"]
PROGRAM = Path(__file__).with_name("conflating.py")
CONFLATE_TOPICS = 10005
TOPICS, CHANGES = 20, 1_000
PATIENCE_MS = 20_000


class Conflating:
    """The program as a child process."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | {"LD_PRELOAD": LIBRARY},
        )

    def line(self):
        line = self.process.stdout.readline()
        assert line, f"the program has ended: {self.process.wait()}"
        return line.rstrip("\n")

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start():
    started = []

    def begin(*arguments):
        started.append(Conflating(*arguments))
        return started[-1]

    yield begin
    for program in started:
        program.stop()


@pytest.fixture
def context():
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


def endpoint_of(transport, tmp_path):
    return {"tcp": "tcp://127.0.0.1:*", "ipc": f"ipc://{tmp_path}/socket"}[transport]


class Newest:
    """The last change of each topic, and the number of messages."""

    def __init__(self):
        self.changes, self.messages = {}, 0

    def note(self, topic, change):
        assert change > self.changes.get(topic, 0), f"{topic}: something older follows"
        self.changes[topic] = change
        self.messages += 1

    def is_complete(self):
        return list(self.changes.values()) == [CHANGES] * TOPICS


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_a_slow_program_gets_the_newest_of_each_topic(start, context, tmp_path, transport):
    publisher = context.socket(zmq.XPUB)
    publisher.sndhwm = 0
    publisher.rcvtimeo = PATIENCE_MS
    publisher.bind(endpoint_of(transport, tmp_path))
    program = start("sub", publisher.last_endpoint.decode())
    assert publisher.recv() == b"\x01"
    for change in range(1, CHANGES + 1):
        for topic in range(TOPICS):
            publisher.send_multipart([b"topic %d" % topic, b"%d" % change, bytes(1_000)])
    program.go_on()
    newest = Newest()
    while not newest.is_complete():
        topic, change = program.line().split(": ")
        newest.note(topic, int(change))
    assert newest.messages < TOPICS * CHANGES


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_a_slow_peer_gets_the_newest_of_each_topic(start, context, tmp_path, transport):
    program = start("pub", endpoint_of(transport, tmp_path), TOPICS, CHANGES)
    subscriber = context.socket(zmq.SUB)
    subscriber.rcvhwm = 1
    subscriber.rcvbuf = 10_000
    subscriber.rcvtimeo = PATIENCE_MS
    subscriber.subscribe(b"topic")
    subscriber.connect(program.line())
    assert program.line() == "published"
    newest = Newest()
    while not newest.is_complete():
        topic, change, padding = subscriber.recv_multipart()
        assert len(padding) == 1_000
        newest.note(topic, int(change))
    assert newest.messages < TOPICS * CHANGES / 2


def test_libzmq_itself_refuses_the_number(context):
    with pytest.raises(zmq.ZMQError, match="Invalid argument"):
        context.socket(zmq.SUB).setsockopt(CONFLATE_TOPICS, 1)
