"""Replays of what can be read only once: named pipes, standard input, process substitution."""

import os
import signal
import threading

import pytest

import dbn_file
from support import eventually

UNIT = 10**9


def a_dbn_file():
    """Some trades of one day."""
    records = [
        dbn_file.quoted_trade((1_704_204_000 + at) * UNIT, 100 + at, 5, 99, 101)
        for at in range(50)
    ]
    return dbn_file.file([("AAA", [(20200101, 20300101, 42)])], records)


def written(pipe, parts):
    """Writes the parts into a named pipe, which a reader opens in its own time."""

    def write():
        with open(pipe, "wb", buffering=0) as out:
            for part in parts:
                part = part() if callable(part) else part
                out.write(part or b"")

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def replay(start, hub, file, *options):
    return start("replay", file, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "max", *options)


def content(kind, start, start_hub, tmp_path):
    """The bytes of a file of a kind."""
    file = tmp_path / "file"
    if kind == "dbn":
        file.write_bytes(a_dbn_file())
    elif kind == "itch":
        assert start("itch", "generate", file, "--messages", "3k").wait() == 0
    else:
        source = tmp_path / "source.dbn"
        source.write_bytes(a_dbn_file())
        hub = start_hub("--record", file)
        assert replay(start, hub, source).wait() == 0
        hub.stop()
    return file


def report(program):
    """What is said of the file, beside its name."""
    lines = program.stdout.splitlines()
    return [line for line in lines if not line.startswith("file ")]


@pytest.mark.parametrize("kind", ["dbn", "itch", "recording"])
def test_a_file_that_comes_through_a_pipe_is_played(start, start_hub, tmp_path, pipe, kind):
    """It was refused as unknown: each look at its kind took bytes from it."""
    file = content(kind, start, start_hub, tmp_path)
    whole = file.read_bytes()
    expected = replay(start, start_hub(), file)
    assert expected.wait() == 0, expected.stderr
    thread = written(pipe, [whole[:3], whole[3:700], whole[700:]])
    program = replay(start, start_hub(), pipe)
    assert program.wait() == 0, program.stderr
    thread.join()
    if kind == "itch":
        # Neither has a date in its name, so both are of today.
        assert "3,000 read" in program.stdout
    assert report(program) == report(expected)


def test_the_hub_waits_while_a_pipe_is_slow(start, start_hub, pipe):
    """It ended the connection of a replay whose input did not come for some seconds."""
    whole, hub = a_dbn_file(), start_hub()
    is_heard = threading.Event()
    late = threading.Event()

    def pause():
        is_heard.set()
        late.wait(30)

    thread = written(pipe, [whole[:-200], pause, whole[-200:]])
    program = replay(start, hub, pipe)
    assert is_heard.wait(30)
    eventually(lambda: hub.info()["feed_applied_messages"] > 50, "the first part")
    # Longer than the silence after which a hub takes a publisher for dead.
    silence = threading.Event()
    assert not silence.wait(4)
    late.set()
    assert program.wait() == 0, program.stderr
    thread.join()
    assert "50 read" in program.stdout


def test_a_replay_that_waits_for_a_pipe_can_be_interrupted(start, start_hub, pipe):
    whole, hub = a_dbn_file(), start_hub()
    ended = threading.Event()
    thread = written(pipe, [whole[:-200], lambda: ended.wait(30) and None])
    program = replay(start, hub, pipe)
    eventually(lambda: hub.info()["feed_applied_messages"] > 50, "the first part")
    program.process.send_signal(signal.SIGINT)
    assert program.wait() == 0, program.stderr
    assert "interrupted" in program.stdout
    ended.set()
    thread.join()


@pytest.mark.parametrize("command", ["replay", "demo"])
def test_what_can_be_read_once_is_not_played_in_rounds(start, hub, pipe, command):
    options = {
        "replay": ("replay", pipe, "--loop", "--to", f"127.0.0.1:{hub.feed_port}"),
        "demo": ("demo", "--replay", pipe),
    }
    program = start(*options[command])
    assert program.wait() == 2
    assert "can be read only once" in program.stderr
    assert "save it to a file" in program.stderr


def test_decode_reads_a_pipe(start, pipe):
    """It said that the pipe's name is neither a file nor hexadecimal digits."""
    thread = written(pipe, [b"zz"])
    program = start("decode", "mx", pipe)
    program.wait()
    thread.join()
    assert "neither a file" not in program.stderr
