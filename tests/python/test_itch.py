"""ITCH 5.0: days made, sent and played, and what the hub says of them."""

import gzip
import json
import random
import re
import socket
import struct
import subprocess
import threading

import pytest
from itch.parser import MessageParser

import itch_file
from itch_file import Market, mold, soup, values
from support import BINARY, Program, eventually, free_ports

SYMBOLS = 40


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    """A generated day: its file, and what an independent book makes of it."""
    folder = tmp_path_factory.mktemp("itch")
    path = folder / "20240105.itch"
    program = Program(folder, "itch", "generate", path, "--messages", "60k", "--symbols", SYMBOLS)
    assert program.wait() == 0, program.stderr
    messages = list(itch_file.frames(path.read_bytes()))
    return path, messages, Market(messages)


def is_equal(hub, market):
    """Waits until the hub says of every security what the market does."""
    expected = market.tops()

    def differences():
        said = {name: hub.hash(f"md:{name}") for name in expected}
        return {
            name: (values(fields) if fields else None, expected[name])
            for name, fields in said.items()
            if not fields or values(fields) != expected[name]
        }

    try:
        eventually(lambda: not differences(), "the values of the exchange")
    except AssertionError:
        assert differences() == {}


def info(hub):
    """What INFO says of the first input."""
    pairs = (pair.split("=") for pair in hub.info("feed")["feed_input0"].split(","))
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def test_a_day_is_what_another_parser_says(day):
    path, messages, market = day
    with open(path, "rb") as file:
        parsed = list(MessageParser().parse_file(file))
    assert len(parsed) == len(messages) == 60_000
    for message, raw in zip(parsed, messages):
        assert (message.message_type, message.to_bytes()) == (raw[:1], raw)
        if raw[:1] in b"AF":
            fields = struct.unpack_from(">QcI8sI", raw, 11)
            assert fields == (
                message.order_reference_number, message.buy_sell_indicator, message.shares,
                message.stock, message.price,
            )
    assert set(market.kinds) == {bytes([kind]) for kind in b"SRHYLVKJhAFECXDUPQBIN"}


def test_the_same_seed_makes_the_same_day(start, tmp_path):
    days = []
    for number, seed in enumerate((5, 5, 6)):
        path = tmp_path / f"{number}.itch"
        assert start("itch", "generate", path, "--messages", "1000", "--seed", seed).wait() == 0
        days.append(path.read_bytes())
    assert days[0] == days[1] != days[2]


def test_a_day_that_cannot_be_is_refused(start, tmp_path):
    program = start("itch", "generate", tmp_path / "x", "--messages", "100", "--symbols", "50")
    assert program.wait() == 2
    assert "at least 419 messages" in program.stderr and not (tmp_path / "x").exists()


def test_a_file_is_counted(start, day):
    path, _, market = day
    program = start("itch", "inspect", path)
    assert program.wait() == 0, program.stderr
    counts = dict(re.findall(r"^(\w)  \w+ +([\d,]+)$", program.stdout, re.M))
    assert {k.encode(): int(v.replace(",", "")) for k, v in counts.items()} == market.kinds
    assert "from       2024-01-05 08:00:00" in program.stdout
    assert "0 of unknown orders, 0 over the limits, 0 without sense" in program.stdout


def play(start, hub, path):
    program = start("replay", path, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "max")
    assert program.wait(60) == 0, program.stderr
    return program.stdout


def test_a_day_is_played_into_the_hub(hub, start, day):
    path, messages, market = day
    report = play(start, hub, path)
    assert "messages   60,000 read" in report and "not used" not in report
    published, applied = (
        int(re.search(pattern, report)[1].replace(",", ""))
        for pattern in (r"published +([\d,]+)", r"([\d,]+) messages applied")
    )
    assert published == applied
    is_equal(hub, market)
    assert hub.info("feed")["feed_refused_messages"] == 0
    halts = sum(hub.redis().exists(f"md:{name}") for name in market.names.values())
    assert halts == SYMBOLS


def test_a_file_that_is_cut_names_the_message(hub, start, day, tmp_path):
    path = tmp_path / "cut.itch"
    path.write_bytes(day[0].read_bytes()[:-5])
    program = start("replay", path, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "max")
    assert program.wait(60) == 1 and "59,999 read" in program.stdout
    assert "message 60000" in program.stderr and "cut.itch" in program.stderr


def recording(messages, loss_a=0.0, loss_b=0.0, lines=2):
    """Packets of a stream on two lines of a network, as they are recorded."""
    chance = random.Random(7)
    recorded, time_ns, sequence = [], 1_704_465_000_000_000_000, 1
    while sequence <= len(messages):
        batch = messages[sequence - 1 : sequence - 1 + chance.randint(1, 30)]
        packet = mold("20240105AA", sequence, batch)
        for line, loss in list(enumerate((loss_a, loss_b)))[:lines]:
            if chance.random() >= loss:
                group = f"233.54.12.{line + 1}"
                recorded.append((time_ns, itch_file.ethernet(packet, 26_400, group)))
        recorded.append((time_ns, itch_file.ethernet(b"something else", 5_000)))
        time_ns += 1_000_000
        sequence += len(batch)
    end = mold("20240105AA", sequence, [], 0xFFFF)
    recorded.append((time_ns, itch_file.ethernet(end, 26_400)))
    return recorded


@pytest.mark.parametrize("form", [itch_file.pcap, itch_file.pcapng])
def test_a_recording_of_two_bad_lines_is_played(hub, start, day, tmp_path, form):
    _, messages, market = day
    # What one line loses is what the other has: the packets of both lost at once are few, and
    # left whole here.
    path = tmp_path / "recording.pcap"
    recorded = recording(messages, loss_a=0.05)
    path.write_bytes(form(recorded))
    report = play(start, hub, path)
    assert f"frames     {len(recorded):,}" in report
    assert "sessions   1; 60,000 messages, 0 lost in" in report
    assert "to         2024-01-05" in report
    is_equal(hub, market)


def test_what_a_recording_has_lost_is_said(hub, start, day, tmp_path):
    _, messages, _ = day
    path = tmp_path / "recording.pcap"
    path.write_bytes(itch_file.pcap(recording(messages[:5_000], loss_a=0.02, lines=1)))
    listener = hub.redis().pubsub()
    listener.psubscribe("md:*")
    report = play(start, hub, path)
    told = iter(lambda: listener.get_message(timeout=5), None)
    news = (json.loads(one["data"]) for one in told if one["type"] == "pmessage")
    assert any(one["stale"] == 2 for one in news), "what follows a loss is in doubt"
    read, lost = re.search(r"sessions   1; ([\d,]+) messages, ([\d,]+) lost", report).groups()
    read, lost = (int(text.replace(",", "")) for text in (read, lost))
    assert lost > 0 and read + lost == 5_000


def test_a_recording_that_is_cut_or_none_is_named(hub, start, day, tmp_path):
    path = tmp_path / "recording.pcap"
    path.write_bytes(itch_file.pcap(recording(day[1][:100]))[:-3])
    to = f"127.0.0.1:{hub.feed_port}"
    program = start("replay", path, "--to", to, "--speed", "max")
    assert program.wait(60) == 1 and "recording.pcap: truncated" in program.stderr
    assert "published" in program.stdout, "what came before the cut is played and summed up"
    path.write_bytes(gzip.compress(day[0].read_bytes())[:-2000])
    program = start("itch", "inspect", path)
    assert program.wait(60) == 1 and "recording.pcap: " in program.stderr


def test_a_recording_has_the_date_of_its_capture(day, start, tmp_path):
    path = tmp_path / "recording.pcap"
    path.write_bytes(itch_file.pcap(recording(day[1][:100])))
    program = start("itch", "inspect", path)
    assert program.wait(60) == 0, program.stderr
    assert "from       2024-01-05" in program.stdout
    dated = start("itch", "inspect", path, "--date", "2023-07-03")
    assert dated.wait(60) == 0 and "from       2023-07-03" in dated.stdout


def test_a_recording_of_a_link_that_is_not_read_says_so(day, start, tmp_path):
    path = tmp_path / "recording.pcap"
    recorded = bytearray(itch_file.pcap(recording(day[1][:100])))
    recorded[20:24] = (105).to_bytes(4, "little")
    path.write_bytes(recorded)
    program = start("itch", "inspect", path)
    program.wait(60)
    assert "are of link type 105, which is not read" in program.stdout + program.stderr


def test_a_day_compressed_with_gzip_is_read_as_it_is_published(start, day, tmp_path):
    plain = start("itch", "inspect", day[0])
    assert plain.wait(60) == 0
    whole, half = day[0].read_bytes(), len(day[0].read_bytes()) // 2
    path = tmp_path / f"{day[0].name}.gz"
    # Several members, as some programs write them.
    path.write_bytes(gzip.compress(whole[:half]) + gzip.compress(whole[half:]))
    packed = start("itch", "inspect", path)
    assert packed.wait(60) == 0

    def counts(program):
        return [line for line in program.stdout.splitlines() if not line.startswith("read in")]

    assert counts(packed) == counts(plain)
    # The same on standard input.
    with path.open("rb") as packed:
        told = subprocess.run([BINARY, "itch", "inspect", "-", "--date", "2024-01-05"], stdin=packed,
                              timeout=60, capture_output=True, text=True, check=True)
    assert counts(told) == counts(plain)


def send(start, day, *options, rate="40k"):
    return start("itch", "send", day[0], "--rate", rate, *options)


def test_two_lines_that_each_lose_a_packet_in_twenty_lose_nothing(start_hub, start, day):
    a, b, request = free_ports(3)
    lines = f"A=127.0.0.1:{a},B=127.0.0.1:{b},request=127.0.0.1:{request}"
    hub = start_hub("--mold", f"{lines},date=2024-01-05")
    program = send(start, day, "--mold", lines, "--fault", "loss=5%,duplicate=1%,reorder=1%",
                   "--linger", "60s")
    eventually(lambda: info(hub)["messages"] == 60_000, "the day", patience_s=60)
    is_equal(hub, day[2])
    status = info(hub)
    assert (status["lost"], status["malformed"], status["unknown_orders"]) == (0, 0, 0)
    assert status["next_sequence"] == 60_001 and len(str(status["session"])) == 10
    assert status["a_lost"] > 0 and status["b_lost"] > 0
    assert hub.info("feed")["feed_lost_messages"] == 0
    program.stop()
    assert "sent       60,000 messages" in program.stdout


def test_a_group_of_multicast_is_joined_and_caught_up_with(start_hub, start, day):
    a, request = free_ports(2)
    lines = f"A=239.255.77.1:{a},request=127.0.0.1:{request},interface=127.0.0.1"
    program = send(start, day, "--mold", lines, rate="30k")
    program.line_with("sending")
    hub = start_hub("--mold", lines)
    eventually(lambda: info(hub)["messages"] == 60_000, "the day", patience_s=60)
    is_equal(hub, day[2])
    assert info(hub)["lost"] == 0
    program.stop()


def test_who_can_ask_nobody_says_what_is_lost(start_hub):
    [port] = free_ports(1)
    hub = start_hub("--mold", f"127.0.0.1:{port}")
    assert info(hub)["kind"] == "mold"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        event = b"S" + bytes(10) + b"O"
        one.send(mold("S", 1, [event]))
        one.send(b"no packet")
        one.send(mold("S", 4, [event, b"S too short"]))
        eventually(lambda: info(hub)["next_sequence"] == 6, "the end of patience")
    status = info(hub)
    assert (status["lost"], status["gaps"], status["malformed"]) == (2, 1, 1)
    assert hub.info("feed")["feed_lost_messages"] == 2


def order(locate, number, side, price, shares=5, name=b"XX"):
    """A new order, five hours into the day."""
    head = struct.pack(">HH", locate, 0) + (18 * 10**12).to_bytes(6, "big")
    return b"A" + head + struct.pack(">QcI8sI", number, side, shares, name.ljust(8), price)


def deletion(locate, number):
    head = struct.pack(">HH", locate, 0) + (18 * 10**12).to_bytes(6, "big")
    return b"D" + head + struct.pack(">Q", number)


@pytest.mark.parametrize("server", ["no server", "a server that does not answer"])
def test_after_a_loss_the_wrong_book_is_not_shown_as_certain(start_hub, server):
    port, request = free_ports(2)
    options = "" if server == "no server" else f",request=127.0.0.1:{request}"
    hub = start_hub("--mold", f"A=127.0.0.1:{port}{options}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        one.send(mold("S1", 1, [order(1, 1, b"B", 10_000), order(1, 2, b"S", 20_000)]))
        eventually(lambda: hub.hash("md:XX").get("bid") == "1", "the book")
        assert hub.hash("md:XX")["stale"] == "0"
        # Message 3, which deletes the only bid, is lost.
        one.send(mold("S1", 4, [order(1, 3, b"S", 19_000)]))
        eventually(lambda: hub.hash("md:XX")["stale"] == "2", "doubt")
        # What comes after the loss, of symbols old and new, proves nothing.
        eventually(lambda: info(hub)["lost"] == 1, "the loss", patience_s=30)
        one.send(mold("S1", 5, [order(1, 4, b"S", 18_000), order(2, 5, b"B", 7, name=b"NEW")]))
        eventually(lambda: hub.hash("md:XX")["ask"] == "1.8", "what comes after the loss")
        eventually(lambda: hub.hash("md:NEW").get("stale") == "2", "doubt about a new symbol")
        assert hub.hash("md:XX")["stale"] == "2"
        # Another session begins without doubt.
        one.send(mold("S1", 7, [], count=0xFFFF))
        eventually(lambda: hub.hash("md:XX")["stale"] == "1", "the end of the session")
        one.send(mold("S2", 1, [order(1, 1, b"B", 10_000)]))
        eventually(lambda: hub.hash("md:XX")["stale"] == "0", "a certain value")
        fields = hub.hash("md:XX")
        assert (fields["bid"], fields["ask"]) == ("1", "")
        assert hub.hash("md:NEW")["stale"] == "1"


def test_values_are_in_doubt_while_messages_are_missing_and_right_when_they_come(start_hub):
    port, request = free_ports(2)
    hub = start_hub("--mold", f"A=127.0.0.1:{port},request=127.0.0.1:{request}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        one.send(mold("S1", 1, [order(1, 1, b"B", 10_000)]))
        one.send(mold("S1", 3, [order(1, 3, b"S", 19_000)]))
        eventually(lambda: hub.hash("md:XX").get("stale") == "2", "doubt")
        one.send(mold("S1", 2, [deletion(1, 1)]))
        eventually(lambda: hub.hash("md:XX")["stale"] == "0", "the missing message")
        assert (hub.hash("md:XX")["bid"], hub.hash("md:XX")["ask"]) == ("", "1.9")
        assert info(hub)["lost"] == 0


def test_a_stray_packet_far_ahead_changes_nothing(start_hub):
    [port] = free_ports(1)
    hub = start_hub("--mold", f"127.0.0.1:{port}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        one.send(mold("S1", 1, [order(1, 1, b"B", 10_000)]))
        one.send(mold("S1", 1_000_000, [order(1, 9, b"B", 90_000)]))
        one.send(mold("S1", 1, [], count=0xFFFF))
        one.send(mold("S1", 2, [order(1, 2, b"B", 11_000)]))
        eventually(lambda: hub.hash("md:XX").get("bid") == "1.1", "the next message")
        assert hub.hash("md:XX")["stale"] == "0"
        assert (info(hub)["next_sequence"], info(hub)["lost"]) == (3, 0)


@pytest.mark.parametrize("session, sequence", [("S0", 1), ("S0", 9_000_000), ("S1", 9_000_000)])
@pytest.mark.parametrize("count", [None, 0])
def test_a_stray_datagram_that_comes_first_does_not_shut_out_the_session(
    start_hub, session, sequence, count
):
    """It was taken for the session, and the real one was left out for seconds."""
    [port] = free_ports(1)
    hub = start_hub("--mold", f"127.0.0.1:{port}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        stray = [] if count == 0 else [order(1, 1, b"B", 90_000, name=b"OLD")]
        one.send(mold(session, sequence, stray, count))
        for number in (1, 2, 3):
            one.send(mold("S1", number, [order(1, number, b"B", 10_000 + number)]))
        eventually(lambda: hub.hash("md:XX").get("bid") == "1.0003", "the session")
        eventually(lambda: info(hub)["next_sequence"] == 4, "its figures")
        assert (info(hub)["session"], info(hub)["lost"]) == ("S1", 0)
        assert hub.hash("md:XX")["stale"] == "0"


def test_a_sender_that_restarts_with_the_same_session_begins_with_empty_books(start_hub):
    [port] = free_ports(1)
    hub = start_hub("--mold", f"127.0.0.1:{port}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        old = [order(1, 1, b"B", 10_000), order(1, 2, b"S", 20_000), order(1, 3, b"S", 30_000)]
        one.send(mold("S1", 1, old))
        eventually(lambda: hub.hash("md:XX").get("stale") == "0", "the book")
        eventually(lambda: hub.hash("md:XX")["stale"] == "1", "silence", patience_s=30)
        one.send(mold("S1", 1, [order(1, 7, b"B", 7_000)]))
        one.send(mold("S1", 2, [order(1, 8, b"B", 8_000)]))
        eventually(lambda: hub.hash("md:XX")["stale"] == "0", "the new book")
        assert (hub.hash("md:XX")["bid"], hub.hash("md:XX")["ask"]) == ("0.8", "")


def test_info_names_the_session_that_has_taken_over(start_hub):
    [port] = free_ports(1)
    hub = start_hub("--mold", f"127.0.0.1:{port}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        one.send(mold("S1", 1, [order(1, 1, b"B", 10_000)]))
        eventually(lambda: hub.hash("md:XX").get("stale") == "0", "the book")
        eventually(lambda: hub.hash("md:XX")["stale"] == "1", "silence", patience_s=30)
        one.send(mold("S2", 1, [order(1, 1, b"B", 10_000)]))
        one.send(mold("S2", 2, [order(1, 2, b"B", 11_000)]))
        eventually(lambda: hub.hash("md:XX")["bid"] == "1.1", "the new session")
        eventually(lambda: info(hub)["session"] == "S2", "its name")


def event(letter):
    return b"S\0\0\0\0" + (18 * 10**12).to_bytes(6, "big") + letter


def traded(locate, price, shares, name=b"AA"):
    head = struct.pack(">HH", locate, 0) + (18 * 10**12).to_bytes(6, "big")
    return b"P" + head + struct.pack(">QcI8sIQ", 0, b"B", shares, name.ljust(8), price, 1)


def test_another_session_is_another_day_with_its_own_volume(start_hub):
    [port] = free_ports(1)
    hub = start_hub("--mold", f"127.0.0.1:{port}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        for session, price, shares in (("DAY1", 10_000, 100), ("DAY2", 20_000, 7)):
            one.send(mold(session, 1, [event(b"Q"), traded(1, price, shares), event(b"C")]))
            one.send(mold(session, 4, [], count=0xFFFF))
            last = str(price // 10_000)
            eventually(lambda: hub.hash("md:AA").get("last") == last, session)
            eventually(lambda: hub.hash("md:AA")["stale"] == "1", "the end of the session")
            fields = hub.hash("md:AA")
            assert (fields["volume"], fields["trades"]) == (str(shares), "1")
            assert (fields["open"], fields["high"], fields["low"]) == (last, last, last)
            assert float(fields["change_pct"]) == 0 and fields["state"] == "closed"
            assert fields["trading_day"] != "0"


def test_two_days_that_are_played_are_not_added_together(hub, start, tmp_path):
    for name, day, price, shares in (("S111826", 20_261_118, 10_000, 100),
                                     ("S111926", 20_261_119, 20_000, 7)):
        path = tmp_path / f"{name}.itch"
        told = [event(b"Q"), traded(1, price, shares, b"TWODAYS"), event(b"C")]
        path.write_bytes(b"".join(itch_file.framed(message) for message in told))
        play(start, hub, path)
        eventually(lambda: hub.hash("md:TWODAYS").get("trading_day") == str(day), "the day")
        eventually(lambda: hub.hash("md:TWODAYS")["volume"] == str(shares), "its volume")
        assert hub.hash("md:TWODAYS")["open"] == str(price // 10_000)


def test_a_late_start_without_a_server_is_in_doubt(start_hub):
    [port] = free_ports(1)
    hub = start_hub("--mold", f"A=127.0.0.1:{port}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", port))
        one.send(mold("S1", 100_000, [order(1, 1, b"B", 10_000)]))
        eventually(lambda: hub.hash("md:XX").get("stale") == "2", "doubt")


def test_a_login_answered_with_a_later_message_is_a_loss_with_doubt(start_hub):
    event = b"S" + bytes(10) + b"O"
    accepted = b" " * 9 + b"7" + b"%20d" % 50
    told = soup(b"A", accepted) + soup(b"S", event) + soup(b"S", order(1, 1, b"B", 10_000))
    exchange = Exchange(lambda *_: told)
    hub = start_hub("--soup", f"127.0.0.1:{exchange.port}")
    eventually(lambda: hub.hash("md:XX").get("stale") == "2", "doubt")
    assert info(hub)["lost"] == 49
    exchange.listener.close()


def test_an_answer_with_messages_in_one_read_left_topics_current_after_the_end(start_hub):
    [port] = free_ports(1)
    hub = start_hub("--soup", f"127.0.0.1:{port}")
    eventually(lambda: "cannot connect" in hub.stderr, "a failed attempt")
    stale = lambda: hub.hash("md:XX").get("stale")

    def told(next_sequence, *messages):
        with socket.create_server(("127.0.0.1", port)) as listener:
            one, _ = listener.accept()
        with one:
            one.makefile("rb").read(49)
            answer = soup(b"A", b" " * 9 + b"7" + b"%20d" % next_sequence)
            one.sendall(answer + b"".join(soup(b"S", message) for message in messages))
            eventually(lambda: stale() == "0", "a value")
        eventually(lambda: stale() == "1", "the end of the connection")

    told(1, b"S" + bytes(10) + b"O", order(1, 1, b"B", 10_000))
    # A connection that comes back with a message in the same read.
    told(3, order(1, 2, b"B", 10_100))
    assert info(hub)["lost"] == 0


def test_a_stream_over_tcp_goes_on_after_every_disconnect(start_hub, start, day):
    [port] = free_ports(1)
    program = send(start, day, "--soup", f"127.0.0.1:{port},user=ME,password=SECRET", "--fault",
                   "disconnect=0.02%", "--wait", rate="60k")
    hub = start_hub("--soup", f"127.0.0.1:{port},user=ME,password=SECRET,date=2024-01-05")
    eventually(lambda: info(hub)["messages"] == 60_000, "the day", patience_s=60)
    is_equal(hub, day[2])
    status = info(hub)
    assert status["lost"] == 0 and status["connections"] > 3
    program.stop()
    assert "clients    " in program.stdout


class Exchange(threading.Thread):
    """A server of SoupBinTCP as its specification has it: one connection, scripted."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answer, self.logins = answer, []
        self.start()

    def run(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            with one:
                login = one.makefile("rb").read(49)
                self.logins.append(login)
                one.sendall(self.answer(len(self.logins), login))
                try:
                    while one.recv(1000):
                        pass
                except OSError:
                    pass


def test_a_login_says_who_what_and_from_where(start_hub):
    event = b"S" + bytes(10) + b"O"

    def answer(number, login):
        accepted = b" " * 9 + b"7" + b"%20d" % (1 if number == 1 else 3)
        end = soup(b"S", event) * 2 + (b"\0\0" if number == 1 else soup(b"Z"))
        return soup(b"+", b"hello") + soup(b"A", accepted) + soup(b"H") + end

    exchange = Exchange(answer)
    hub = start_hub("--soup", f"127.0.0.1:{exchange.port},user=ME,password=SECRET")
    eventually(lambda: len(exchange.logins) == 2, "a second login")
    assert exchange.logins[0] == b"\0\x2fLME    SECRET    " + b" " * 10 + b"%20d" % 1
    assert exchange.logins[1] == b"\0\x2fLME    SECRET    " + b" " * 9 + b"7" + b"%20d" % 3
    eventually(lambda: info(hub)["next_sequence"] == 5, "four messages")
    assert info(hub)["session"] == 7
    exchange.listener.close()


def test_a_login_that_is_rejected_is_told_and_tried_again(start_hub):
    exchange = Exchange(lambda *_: soup(b"J", b"A"))
    hub = start_hub("--soup", f"127.0.0.1:{exchange.port}")
    eventually(lambda: len(exchange.logins) >= 2, "another try")
    assert "wrong user or password" in hub.stderr
    exchange.listener.close()


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("--mold", "B=127.0.0.1:5", "no address"),
        ("--mold", "127.0.0.1", "no port"),
        ("--mold", "127.0.0.1:5,C=1", "unknown name 'C'"),
        ("--soup", "127.0.0.1:5,user=TOOLONG", "longer than 6"),
        ("--soup", "127.0.0.1:5,date=yesterday", "invalid date"),
        ("--mold", "203.0.113.7:5", "cannot listen on 203.0.113.7:5"),
    ],
)
def test_an_input_that_cannot_be_is_named(start, option, text, words):
    ports = [f"127.0.0.1:{port}" for port in free_ports(4)]
    program = start("serve", "--resp", ports[0], "--zmq-pub", ports[1], "--zmq-pull", ports[2],
                    "--feed", ports[3], option, text)
    assert program.wait() == 2
    assert words in program.stderr and option in program.stderr
