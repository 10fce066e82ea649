"""`serve --record` and the replay of what it writes."""

import json
import os
import re
import signal
import subprocess

import pytest

import dbn_file
from feed_client import CONTROL, LIVE, FeedClient, definition, login, quote
from support import FIELDS, eventually, wait_for_values


@pytest.fixture
def recorded(tmp_path, start_simulator, start_hub):
    """A recording of a stream that has ended, and the values behind it."""
    file = tmp_path / "stream.rec"
    simulator = start_simulator("--rate", "4000", "--symbols", "5")
    hub = start_hub("--source", simulator.source, "--record", file)
    eventually(lambda: hub.info()["feed_applied_messages"] > 4_000, "a second's messages")
    simulator.stop()
    eventually(lambda: hub.info()["feed_sources"] == 0 and stale(hub), "the end of the source")
    published = hub.info()["feed_next_sequence"] - 1
    values = {name: hub.hash(name) for name in map(bytes.decode, hub.redis().keys("md:*"))}
    info = eventually(
        lambda: (now := hub.info())["recording_messages"] >= published and now, "the recording"
    )
    assert info["recording"] == 1 and info["recording_lost_messages"] == 0
    hub.stop()
    return file, published, values


def stale(hub):
    """Whether all topics have lost their source: nothing more will come."""
    return all(hub.hash(name.decode())["stale"] == "1" for name in hub.redis().keys("md:*"))


def play(start, hub, file, *arguments):
    return start("replay", file, "--to", f"127.0.0.1:{hub.feed_port}", *arguments)


def stated(program):
    """The number of messages that the report names."""
    line = next(line for line in program.stdout.splitlines() if line.startswith("recorded"))
    return int(line.split()[1].replace(",", ""))


def test_a_recording_gives_the_values_again(recorded, start, start_hub):
    file, published, values = recorded
    hub = start_hub()
    program = play(start, hub, file, "--speed", "max")
    assert program.wait() == 0, program.stderr
    assert stated(program) == published
    assert "0 messages in 0 gaps" in program.stdout and "cleanly" in program.stdout
    assert re.search(r"sequences 1 to [\d,]+\n", program.stdout)
    for name, fields in values.items():
        again = hub.hash(name)
        for field in set(FIELDS) - {"recv_ts", "seq", "stale"}:
            assert again[field] == fields[field], (name, field)


def test_a_torn_beginning_is_not_said_to_end_cleanly(hub, start, tmp_path):
    path = tmp_path / "torn.rec"
    path.write_bytes(b"TWRECORD\x01\x00")
    program = play(start, hub, path)
    assert program.wait() == 1
    assert "cleanly" not in program.stdout and "truncated" in program.stderr


def test_it_is_played_into_a_session_that_runs(recorded, start, start_hub):
    file, _, values = recorded
    hub = start_hub()
    name = next(iter(values))
    subscriber = hub.subscriber(name)
    program = play(start, hub, file, "--speed", "10")
    assert program.wait() == 0, program.stderr
    last = values[name]["last"]

    def caught_up():
        update = json.loads(subscriber.data(), parse_float=str, parse_int=str)
        return update["last"] == last and update["volume"] == values[name]["volume"]

    eventually(caught_up, "the last price of the recording")


def test_speed_is_that_of_the_recording(recorded, start, start_hub):
    file, _, _ = recorded
    hub = start_hub()
    program = play(start, hub, file, "--speed", "0.1")
    # A second of trading takes ten: after the first values it is far from the end.
    wait_for_values(hub, 5)
    assert program.process.poll() is None
    program.stop()
    assert 0 < stated(program)


def torn(whole, share):
    """About this share of a recording: one cut at a block's end would be whole."""
    block = 32
    while True:
        length = int.from_bytes(whole[block + 8:block + 12], "little")
        end = block + 32 + length
        if end > len(whole) * share:
            return whole[:end - 1]
        block = end


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_the_beginning_of_a_truncated_file_is_played(recorded, start, start_hub, keep):
    file, published, _ = recorded
    file.write_bytes(torn(file.read_bytes(), keep))
    hub = start_hub()
    program = play(start, hub, file, "--speed", "max")
    assert program.wait() == 1
    assert "truncated: the block at byte" in program.stderr and "were played" in program.stderr
    count = stated(program)
    assert 0 < count < published
    # The replay says first that the stream is that of a hub.
    assert hub.info()["feed_applied_messages"] == count + 1


def test_a_damaged_block_ends_the_replay_before_it(recorded, start, start_hub):
    file, published, _ = recorded
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    program = play(start, start_hub(), file, "--speed", "max")
    assert program.wait() == 1 and "damaged" in program.stderr
    assert 0 < stated(program) < published


def blocks_of(whole):
    """The header of a recording, and its blocks."""
    blocks, at = [], 32
    while at < len(whole):
        end = at + 32 + int.from_bytes(whole[at + 8:at + 12], "little")
        blocks.append(whole[at:end])
        at = end
    return whole[:32], blocks


@pytest.mark.parametrize("damage", ["missing", "doubled", "swapped", "no beginning", "no last"])
def test_a_block_missing_doubled_or_swapped_is_not_played_without_a_word(
    recorded, start, start_hub, damage
):
    """The report said `0 messages in 0 gaps` and `cleanly`, and a doubled block was played twice."""
    file, published, _ = recorded
    head, blocks = blocks_of(file.read_bytes())
    middle = len(blocks) // 2
    match damage:
        case "missing":
            del blocks[middle]
        case "doubled":
            blocks.insert(middle, blocks[middle])
        case "swapped":
            blocks[middle:middle + 2] = blocks[middle:middle + 2][::-1]
        case "no beginning":
            del blocks[:2]
        case "no last":
            del blocks[-2]
    file.write_bytes(head + b"".join(blocks))
    hub = start_hub()
    program = play(start, hub, file, "--speed", "max")
    assert program.wait() == 1
    count = stated(program)
    # Without the beginning, no symbol is defined.
    applied = 0 if damage == "no beginning" else count
    assert hub.info()["feed_applied_messages"] == applied + 1
    if damage == "doubled":
        assert count == published and "0 messages in 0 gaps" in program.stdout
    else:
        assert f"missing    {published - count:,} messages in 1 gaps" in program.stdout
        assert "damaged: blocks are missing" in program.stderr and count < published
    if damage in ("doubled", "swapped"):
        assert "in 1 blocks that are doubled or out of order" in program.stdout
        assert "1 blocks are doubled or out of order" in program.stderr


def test_a_hub_that_pauses_for_seconds_does_not_end_the_replay(recorded, start, start_hub):
    """The replay ended with `no reply in the feed's protocol`."""
    file, _, _ = recorded
    hub = start_hub()
    program = play(start, hub, file, "--speed", "max", "--loop")
    eventually(lambda: hub.info()["feed_applied_messages"] > 4_000, "a round")
    os.kill(hub.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            program.process.wait(5)
    finally:
        os.kill(hub.process.pid, signal.SIGCONT)
    before = hub.info()["feed_applied_messages"]
    eventually(lambda: hub.info()["feed_applied_messages"] > before + 4_000, "another round")
    program.stop(signal.SIGINT)
    assert program.wait() == 0, program.stderr


def test_a_hub_that_was_killed_leaves_a_recording_that_goes_on(
    tmp_path, start_simulator, start_hub, start
):
    file = tmp_path / "stream.rec"
    simulator = start_simulator("--rate", "4000", "--symbols", "5")
    hub = start_hub("--source", simulator.source, "--record", file)
    eventually(lambda: hub.info()["recording_messages"] > 2_000, "a recording")
    hub.kill()
    with open(file, "ab") as torn:
        torn.write(b"TWBK\x02\x00\x00\x00half a block")
    again = start_hub("--source", simulator.source, "--record", file)
    eventually(lambda: again.info()["recording_messages"] > 2_000, "more of it")
    again.stop()
    simulator.stop()
    hub = start_hub()
    program = play(start, hub, file, "--speed", "max")
    assert program.wait() == 0, program.stderr
    assert "of 2 runs of the hub" in program.stdout and "without an end mark" in program.stdout
    assert stated(program) > 4_000
    assert len(hub.redis().keys("md:*")) == 5


def test_another_file_is_not_written_over(tmp_path, start):
    file = tmp_path / "notes.txt"
    file.write_text("what somebody else wrote, and wants to keep\n")
    places = [f"--{name}=127.0.0.1:0" for name in ("resp", "zmq-pub", "zmq-pull", "feed")]
    program = start("serve", *places, "--record", file)
    assert program.wait() == 2
    assert "--record" in program.stderr and "no recording" in program.stderr
    assert file.read_text().startswith("what somebody")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_replay_does_not_say_that_the_hub_was_killed(recorded, start, hub, number):
    file, _, values = recorded
    program = play(start, hub, file, "--speed", "0.001")
    eventually(lambda: hub.info("feed")["feed_applied_messages"] > 0, "the first messages")
    program.stop(number)
    assert "interrupted: the rest was not played" in program.stdout
    assert "end mark" not in program.stdout and program.wait() == 0


def test_one_damaged_byte_does_not_cost_the_blocks_behind_it(recorded, start, tmp_path):
    file, _, _ = recorded
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 3] ^= 0xFF
    file.write_bytes(whole)
    addresses = [f"--{name}=127.0.0.1:0" for name in ("resp", "zmq-pub", "zmq-pull", "zmq-router", "feed")]
    program = start("serve", *addresses, "--record", file)
    assert program.wait() != 0
    assert "damaged at byte" in program.stderr and "a valid block follows" in program.stderr
    assert file.read_bytes() == whole


def test_a_restart_of_the_recorded_hub_adds_no_venue_to_a_symbol_of_two(
    start, start_hub, tmp_path
):
    """The venue of before the second one came was `XNAS#2` beside one named `consolidated`."""
    recording, file = tmp_path / "stream.rec", tmp_path / "two.dbn"
    for run in range(2):
        hub = start_hub("--record", recording)
        records = [
            dbn_file.quoted_trade(
                (1_704_204_000 + 60 * run + place) * 10**9, price, 5, price - 1, price + 1,
                publisher=publisher,
            )
            for place, (publisher, price) in enumerate([(2, 110), (43, 91 - run), (2, 92)])
        ]
        file.write_bytes(dbn_file.file([("AAA", [(20200101, 20300101, 42)])], records))
        program = play(start, hub, file, "--speed", "max")
        assert program.wait() == 0, program.stderr
        fields = set(FIELDS) - {"recv_ts", "seq", "stale", "source"}
        names = ("md:AAA", "md:AAA@XNAS", "md:AAA@ARCX")
        values = {name: hub.hash(name) for name in names}
        hub.stop()
    again = start_hub()
    program = play(start, again, recording, "--speed", "max")
    assert program.wait() == 0, program.stderr
    assert sorted(name.decode() for name in again.redis().keys("md:*")) == sorted(names)
    for name, value in values.items():
        found = again.hash(name)
        for field in fields:
            assert found[field] == value[field], (name, field)


def test_a_recording_does_not_have_that_the_stopping_hub_loses_its_publishers(
    start, start_hub, tmp_path
):
    """It ended with the prices of the publisher whose connection the hub had closed last."""
    recording, unit = tmp_path / "stream.rec", 10**9
    hub, publishers = start_hub("--record", recording), []
    for session, name, bid, ask in [(1, b"P", 100, 110), (2, b"Q", 90, 105)]:
        client = FeedClient(hub.connect(hub.feed_port))
        client.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1, name=name))
        client.until(lambda client=client: client.accepted)
        messages = definition(1, "A"), quote(1, bid * unit, ask * unit, 1, 1, 1_704_204_000 * unit)
        client.send(LIVE, 1, *messages, session=session)
        eventually(lambda bid=bid: str(bid) in best(hub, "bid"), "its quote")
        publishers.append(client)
    shown = eventually(
        lambda: (now := hub.hash("md:A")).get("ask") == "105" and now, "the best of both"
    )
    assert (shown["bid"], shown["stale"]) == ("100", "0")
    hub.stop()
    again = start_hub()
    program = play(start, again, recording, "--speed", "max")
    assert program.wait() == 0, program.stderr
    value = again.hash("md:A")
    assert (value["bid"], value["ask"]) == ("100", "105")


def best(hub, field):
    """A field of all topics."""
    return [hub.hash(name.decode()).get(field) for name in hub.redis().keys("md:*")]
