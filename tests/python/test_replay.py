"""DBN files played into a hub, and what the hub says of them in the end."""

import fcntl
import re
import signal
import socket
import struct
import termios
import time
from decimal import Decimal

import pytest
import zstandard

import dbn_file
from feed_client import CONTROL, HEADER, LIVE, FeedClient, accepted
from support import DATA, REPOSITORY, eventually, free_ports

ES = DATA / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"

needs_es = pytest.mark.skipif(not ES.is_file(), reason=f"{ES} is missing")
needs_golden = pytest.mark.skipif(not (DATA / "dbn").is_dir(), reason=f"{DATA}/dbn is missing")


def play(start, hub, path, *options, speed="max"):
    """Plays a file to its end, and returns what is said of it."""
    to = f"127.0.0.1:{hub.feed_port}"
    program = start("replay", path, "--to", to, "--speed", speed, *options)
    assert program.wait(60) == 0, program.stderr
    assert program.stderr == ""
    return Report(program.stdout)


class Report:
    """The figures of a replay."""

    def __init__(self, text):
        self.text = text
        self.read, self.used = self._numbers(r"([\d,]+) read, ([\d,]+) used")
        unused = re.findall(r"not used +([\d,]+) (.+)", text)
        self.unused = {kind: int(count.replace(",", "")) for count, kind in unused}
        published = (
            r"([\d,]+) messages: ([\d,]+) quotes, ([\d,]+) trades, ([\d,]+) definitions, "
            r"([\d,]+) statuses, ([\d,]+) session starts, ([\d,]+) venues"
        )
        self.published, *parts = self._numbers(published)
        self.quotes, self.trades, self.definitions, _, self.sessions, _ = parts
        self.last_sequence, self.applied = self._numbers(
            r"has sequences 1 to ([\d,]+), ([\d,]+) messages applied"
        )
        assert self.read == self.used + sum(self.unused.values()), text
        # Records that are carried whole take messages of their own.
        assert self.published >= sum(parts), text
        assert self.applied == self.published == self.last_sequence, text

    def _numbers(self, pattern):
        found = re.search(pattern, self.text)
        assert found, f"{pattern} in {self.text}"
        return [int(text.replace(",", "")) for text in found.groups()]

    def line(self, name):
        return next(
            line.removeprefix(name).strip()
            for line in self.text.splitlines()
            if line.startswith(name)
        )


def equal(market, fields):
    """Whether the hub says what the file says."""
    for name in ("bid", "ask", "last"):
        price = getattr(market, name)
        expected = "" if price is None else Decimal(price) / 10**9
        said = fields[name] and Decimal(fields[name])
        assert said == expected, name
    for name in ("bid_size", "ask_size", "last_size", "volume"):
        assert int(fields[name]) == getattr(market, name), name


@needs_es
def test_every_order_of_a_session_is_accounted_for(hub, start):
    subscriber = hub.subscriber("md:ESH4")
    report = play(start, hub, ES)
    assert (report.read, report.used, report.unused) == (68_792, 68_792, {})
    assert report.definitions == 1
    name, market, records = dbn_file.follow(ES)
    assert name == "ESH4" and len(records) == 68_792
    assert report.trades == market.trades
    fields = hub.hash("md:ESH4")
    equal(market, fields)
    info = hub.info("feed")
    assert info["feed_applied_messages"] == report.applied
    assert info["feed_lost_messages"] == info["feed_gaps"] == 0
    while subscriber.json()["seq"] < int(fields["seq"]):
        pass


@needs_es
def test_the_times_of_first_and_last_record_are_said(hub, start):
    report = play(start, hub, ES)
    _, records = dbn_file.read(ES)
    times_ns = [dbn_file.order_time_ns(time_ns, body) for _, _, time_ns, body in records]
    for name, time_ns in (("from", min(times_ns)), ("to", max(times_ns))):
        whole = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ns // 10**9))
        assert report.line(name) == f"{whole}.{time_ns % 10**9:09} UTC"


GOLDEN = [
    f"test_data.{schema}.{kind}"
    for schema in ("mbp-1", "tbbo", "trades")
    for kind in ("dbn", "v1.dbn.zst", "v2.dbn.zst", "v3.dbn.zst")
]


@needs_golden
@pytest.mark.parametrize("file", GOLDEN)
def test_quotes_and_trades_of_every_version(hub, start, file):
    path = DATA / "dbn" / file
    report = play(start, hub, path)
    name, market, records = dbn_file.follow(path)
    assert report.read == report.used == len(records) == 2
    assert report.trades == market.trades
    equal(market, hub.hash(f"md:{name}"))


@needs_golden
@pytest.mark.parametrize("kind", ["dbn", "v1.dbn.zst", "v2.dbn.zst", "v3.dbn", "v3.dbn.zst"])
def test_orders_that_cannot_be_known_are_counted_by_kind(hub, start, kind):
    report = play(start, hub, DATA / "dbn" / f"test_data.mbo.{kind}")
    assert (report.read, report.used) == (2, 0)
    [(kind, count)] = report.unused.items()
    assert (kind, count) == ("Mbo: cancel of an order that is not in the book", 2)


@needs_golden
def test_records_without_prices_are_counted_by_kind(hub, start):
    report = play(start, hub, DATA / "dbn/test_data.ohlcv-1s.v3.dbn.zst")
    assert report.read == sum(report.unused.values()) > 0
    assert all("Ohlcv" in kind for kind in report.unused)


STEP_NS = 100_000_000
TRADES = [(1_700_000_000_000_000_000 + n * STEP_NS, (100 + n) * 10**9, n + 1) for n in range(11)]


@pytest.fixture
def second(tmp_path):
    """A file of eleven trades within one second."""
    path = tmp_path / "second.dbn"
    path.write_bytes(dbn_file.trades_file("OWN", TRADES))
    assert len(dbn_file.read(path)[1]) == 11
    return path


def test_trades_are_played_at_the_speed_that_is_asked_for(hub, start, second):
    subscriber = hub.subscriber("md:OWN")
    for speed, least_s in (("1", 1.0), ("10", 0.1), ("max", 0.0)):
        begin = time.monotonic()
        report = play(start, hub, second, speed=speed)
        assert least_s <= time.monotonic() - begin < least_s + 10
        assert (report.read, report.used, report.trades) == (11, 11, 11)
        prices = []
        while 110 not in prices:
            value = subscriber.json()
            # A session begins before its first value.
            if not value["stale"]:
                prices.append(value["last"])
        assert [price for price in prices if price][-11:] == list(range(100, 111))
        eventually(lambda: subscriber.json()["stale"] == 1, "the end of the publisher")
    assert hub.hash("md:OWN")["last"] == "110"


def test_orders_that_come_again_count_each_trade_once(hub, start, tmp_path):
    path = tmp_path / "orders.dbn"
    (first_ns, price, _), (second_ns, _, _), *_ = TRADES
    records = [
        dbn_file.order(first_ns, 1, price, 5, 0, b"A", b"A"),
        dbn_file.order(second_ns, 0, price, 2, 0, b"T", b"B"),
        dbn_file.order(second_ns, 1, price, 2, 0x80, b"C", b"A"),
    ]
    path.write_bytes(dbn_file.file([("TWICE", [(20200101, 20300101, 42)])], records, schema=0))
    for _ in range(3):
        play(start, hub, path, "--orders")
        fields = hub.hash("md:TWICE")
        assert (fields["volume"], fields["trades"], fields["ask_size"]) == ("2", "1", "3")


def test_an_event_older_than_its_capture_does_not_stall_the_replay(hub, start, tmp_path):
    path = tmp_path / "old.dbn"
    first_ns = TRADES[0][0]
    old = bytearray(dbn_file.definition(first_ns, "OLD", 10**7, 1, "USD"))
    struct.pack_into("<Q", old, 8, first_ns - 40 * DAY_NS)
    trades = [dbn_file.trade(*trade) for trade in TRADES[:2]]
    path.write_bytes(dbn_file.file([("OLD", [(20200101, 20300101, 42)])], [bytes(old), *trades]))
    assert play(start, hub, path, speed="1").trades == 2


def test_a_record_without_a_time_is_played_at_once(hub, start, tmp_path):
    path = tmp_path / "undefined.dbn"
    times_ns = [2**64 - 1, TRADES[0][0], 2**64 - 1, 0, TRADES[1][0]]
    path.write_bytes(dbn_file.trades_file("UNDEFINED", [(at, 10**9, 1) for at in times_ns]))
    assert play(start, hub, path, speed="1").trades == 5


def test_a_long_wait_is_said(hub, start, tmp_path):
    path = tmp_path / "far.dbn"
    times_ns = [TRADES[0][0], TRADES[0][0] + 7 * DAY_NS]
    path.write_bytes(dbn_file.trades_file("FAR", [(at, 10**9, 1) for at in times_ns]))
    program = start("replay", path, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "1")
    eventually(lambda: "record=2 wait_s=604" in program.stderr, "the warning")
    program.stop(signal.SIGINT)


def test_files_that_were_joined_are_named(hub, start, second):
    second.write_bytes(second.read_bytes() * 2)
    to = f"127.0.0.1:{hub.feed_port}"
    said = ("record 12", "another DBN stream begins")
    one_line(start("replay", second, "--to", to, "--speed", "max"), 1, second, *said, played=11)


def test_a_compressed_file_is_played_like_a_plain_one(hub, start, second, tmp_path):
    path = tmp_path / "second.dbn.zst"
    path.write_bytes(zstandard.compress(second.read_bytes()))
    assert play(start, hub, path).trades == 11
    assert hub.hash("md:OWN")["volume"] == str(sum(range(1, 12)))


def test_a_record_of_unknown_type_is_counted(hub, start, second):
    unknown = dbn_file.HEADER.pack(8, 0x77, 1, 42, TRADES[-1][0]) + bytes(16)
    second.write_bytes(second.read_bytes() + unknown)
    report = play(start, hub, second)
    assert (report.read, report.used) == (12, 11)
    assert report.unused == {"of unknown type 0x77": 1}


def test_a_loop_begins_again_until_it_is_stopped(hub, start, second):
    program = start(
        "replay", second, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "10", "--loop"
    )
    eventually(lambda: hub.info("feed")["feed_applied_messages"] >= 33, "a third round")
    program.stop(signal.SIGINT)
    assert "records    11 read" in program.stdout, "the last whole round"
    assert "published  14 messages" in program.stdout
    assert "rounds " in program.stdout and "messages in all" in program.stdout


def test_a_loop_of_a_file_that_publishes_nothing_ends_and_says_so(hub, start, tmp_path):
    path = tmp_path / "nothing.dbn"
    unknown = dbn_file.HEADER.pack(8, 0x77, 1, 42, TRADES[-1][0]) + bytes(16)
    path.write_bytes(dbn_file.file([], [unknown]))
    program = start("replay", path, "--to", f"127.0.0.1:{hub.feed_port}", "--loop")
    one_line(program, 1, path, "--loop has nothing to repeat", played=1)


def test_a_replay_that_is_interrupted_says_how_far_it_came(hub, start, second):
    program = start("replay", second, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "0.01")
    eventually(lambda: hub.hash("md:OWN").get("last") == "100", "the first trade")
    program.stop()
    assert 0 < Report(program.stdout).read < 11
    assert Report(program.stdout).line("ends") == "interrupted: the rest was not played"


def one_line(program, code, *words, played=None):
    """One error, and a report only of the records before it, if some were played."""
    assert program.wait(60) == code, (program.stdout, program.stderr)
    lines = program.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("tidewire: "), lines
    if played is None:
        assert program.stdout == "", "nothing was played"
    else:
        assert Report(program.stdout).read == played
    for word in words:
        assert str(word) in lines[0], f"'{word}' is missing in: {lines[0]}"


def test_a_file_that_cannot_be_read_is_named(hub, start, tmp_path):
    to = ["--to", f"127.0.0.1:{hub.feed_port}"]
    one_line(start("replay", "/no/such/file.dbn", *to), 2, "/no/such/file.dbn", "No such file")
    one_line(start("replay", tmp_path, *to), 2, tmp_path, "is a directory")


@pytest.mark.parametrize(
    "content, words",
    [(b"", "empty file"), (b"\x28\xb5\x2f\xfd" + b"\xff" * 40, "zstd")],
)
def test_a_file_of_nothing_and_a_damaged_archive_are_told_apart(
    hub, start, tmp_path, content, words
):
    path = tmp_path / "bad.dbn.zst"
    path.write_bytes(content)
    one_line(start("replay", path, "--to", f"127.0.0.1:{hub.feed_port}"), 2, path, words)


@pytest.mark.parametrize(
    "content",
    [b"", b"D", b"DBN", b"hello, this is text\n" * 100, b"DBN\x02\xff\xff\xff\xff", b"DBN\x63" * 9,
     b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd" + b"\xff" * 100],
    ids=["empty", "one", "short", "text", "claims", "version", "zstd-short", "zstd-bad"],
)
def test_a_file_that_is_no_dbn_is_named(hub, start, tmp_path, content):
    path = tmp_path / "bad.dbn"
    path.write_bytes(content)
    one_line(start("replay", path, "--to", f"127.0.0.1:{hub.feed_port}"), 2, path)


@pytest.mark.parametrize("name", ["README.md", "tests/python/test_replay.py", "Cargo.lock"])
def test_a_text_file_is_not_taken_for_records(hub, start, name):
    program = start("replay", REPOSITORY / name, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "max")
    kinds = ["recording of serve --record", "DBN", "ITCH 5.0", "network capture"]
    one_line(program, 2, name, "unknown kind of file", *kinds)
    assert hub.redis().keys("md:*") == []


@pytest.mark.parametrize("option", [["--depth", "10"], ["--orders"]])
def test_an_option_that_an_exchange_file_does_not_know_is_not_ignored(hub, start, tmp_path, option):
    path = tmp_path / "day.itch"
    assert start("itch", "generate", path, "--messages", "1k").wait(60) == 0
    program = start("replay", path, "--to", f"127.0.0.1:{hub.feed_port}", *option)
    one_line(program, 2, option[0], "DBN files", path)


def test_a_truncated_file_names_the_record(hub, start, second):
    second.write_bytes(second.read_bytes()[:-10])
    to = f"127.0.0.1:{hub.feed_port}"
    one_line(start("replay", second, "--to", to, "--speed", "max"), 1, second, "record 11", played=10)


def test_a_record_of_no_length_ends_the_replay(hub, start, second):
    second.write_bytes(second.read_bytes() + bytes(16))
    to = f"127.0.0.1:{hub.feed_port}"
    one_line(start("replay", second, "--to", to, "--speed", "max"), 1, second, "record 12", played=11)


@needs_es
def test_a_truncated_archive_names_the_record(hub, start, tmp_path):
    path = tmp_path / "short.dbn.zst"
    path.write_bytes(ES.read_bytes()[:100_000])
    to = f"127.0.0.1:{hub.feed_port}"
    program = start("replay", path, "--to", to, "--speed", "max")
    program.wait(60)
    played = Report(program.stdout).read
    assert played > 0
    one_line(program, 1, path, f"record {played + 1}", played=played)


def test_all_records_before_the_fault_of_a_file_arrive(hub, start, tmp_path):
    path = tmp_path / "cut.dbn"
    records = [dbn_file.trade(MARCH_NS + number, 10**9, 1) for number in range(1_001)]
    path.write_bytes(dbn_file.file([("CUT", [(20200101, 20300101, 42)])], records)[:-3])
    to = f"127.0.0.1:{hub.feed_port}"
    program = start("replay", path, "--to", to, "--speed", "max")
    one_line(program, 1, path, "record 1001", "truncated", "1000 records", played=1_000)
    assert hub.hash("md:CUT")["trades"] == "1000"


def test_a_hub_that_does_not_run_is_named(start, second):
    [port] = free_ports(1)
    one_line(start("replay", second, "--to", f"127.0.0.1:{port}"), 2, f"127.0.0.1:{port}", "hub")


def test_a_hub_that_ends_meanwhile_is_named(start_hub, start, second):
    hub = start_hub()
    to = f"127.0.0.1:{hub.feed_port}"
    program = start("replay", second, "--to", to, "--speed", "0.01")
    eventually(lambda: hub.hash("md:OWN").get("last") == "100", "the first trade")
    hub.stop()
    one_line(program, 1, to)


@pytest.mark.parametrize("port", ["resp_port", "pub_port"])
def test_a_port_of_another_protocol_is_not_taken_for_a_feed(hub, start, second, port):
    to = f"127.0.0.1:{getattr(hub, port)}"
    one_line(start("replay", second, "--to", to), 2, to)


def test_a_demo_plays_a_file(start, second):
    resp, pub, pull, feed, router = free_ports(5)
    program = start(
        "demo", "--no-tui", "--replay", second, "--for", "2s", "--resp", f"127.0.0.1:{resp}",
        "--zmq-pub", f"127.0.0.1:{pub}", "--zmq-pull", f"127.0.0.1:{pull}",
        "--feed", f"127.0.0.1:{feed}", "--zmq-router", f"127.0.0.1:{router}",
    )
    assert program.wait(30) == 0, program.stderr
    report = Report(program.stdout)
    assert (report.read, report.used, report.trades) == (11, 11, 11)
    assert f"{report.applied} messages by the hub" in program.stdout


DAY_NS = 86_400 * 10**9
HOUR_NS = DAY_NS // 24
#: 2024-03-01.
MARCH_NS = 1_709_251_200 * 10**9
PRICE = 10**9


def played(start, hub, tmp_path, *file):
    path = tmp_path / "file.dbn"
    path.write_bytes(dbn_file.file(*file))
    return play(start, hub, path)


def test_a_trade_that_two_schemas_tell_counts_once(hub, start, tmp_path):
    records = []
    for number, size in enumerate([2, 1, 1]):
        time_ns = MARCH_NS + number // 2
        records.append(dbn_file.trade(time_ns, 5 * PRICE, size))
        records.append(dbn_file.quoted_trade(time_ns, 5 * PRICE, size, 4 * PRICE, 6 * PRICE))
    report = played(start, hub, tmp_path, [("X", [(20240101, 20250101, 42)])], records)
    assert report.trades == 3
    assert report.unused == {"Mbp1: trade that another schema has told": 3}
    fields = hub.hash("md:X")
    assert (fields["volume"], fields["last_size"], fields["bid"]) == ("4", "1", "4")


def test_a_reused_instrument_id_has_the_name_of_each_day(hub, start, tmp_path):
    mappings = [("OLD", [(20240301, 20240302, 42)]), ("NEW", [(20240302, 20240303, 42)])]
    records = [
        dbn_file.trade(MARCH_NS, PRICE, 1),
        dbn_file.trade(MARCH_NS + DAY_NS, 2 * PRICE, 2),
        # It comes late.
        dbn_file.trade(MARCH_NS + DAY_NS - 1, 3 * PRICE, 4),
        dbn_file.trade(MARCH_NS + DAY_NS + 1, 4 * PRICE, 8),
    ]
    played(start, hub, tmp_path, mappings, records)
    volumes = {name: hub.hash(f"md:{name}")["volume"] for name in ("OLD", "NEW")}
    # The late trade is of the next trading day, which began at 23:00 UTC.
    assert volumes == {"OLD": "4", "NEW": "10"}


def test_a_late_quote_of_a_contract_that_was_rolled_off_is_not_the_new_one_s(hub, start, tmp_path):
    mappings = [("ES.c.0", [(20240301, 20240302, 1), (20240302, 20240303, 2)])]

    def quoted(instrument, time_ns, bid):
        return dbn_file.quoted_trade(time_ns, PRICE, 1, bid, bid + PRICE, instrument)

    records = [
        quoted(1, MARCH_NS, 10 * PRICE),
        quoted(2, MARCH_NS + DAY_NS, 20 * PRICE),
        quoted(1, MARCH_NS + DAY_NS + 1, 11 * PRICE),
    ]
    played(start, hub, tmp_path, mappings, records)
    assert hub.hash("md:ES.c.0")["bid"] == "20"
    assert hub.hash("md:ID1")["bid"] == "11"


def test_a_mapping_in_the_middle_names_what_comes_behind_it(hub, start, tmp_path):
    records = [
        dbn_file.mapping(42, "ESH4"),
        dbn_file.trade(MARCH_NS, PRICE, 1),
        dbn_file.mapping(42, "ESM4"),
        dbn_file.trade(MARCH_NS + 1, 2 * PRICE, 2),
        dbn_file.mapping(42, "ESU4", start_ns=MARCH_NS + 10),
        dbn_file.trade(MARCH_NS + 9, 2 * PRICE, 4),
        dbn_file.trade(MARCH_NS + 10, 2 * PRICE, 8),
    ]
    played(start, hub, tmp_path, [], records)
    volumes = {name: hub.hash(f"md:{name}")["volume"] for name in ("ESH4", "ESM4", "ESU4")}
    assert volumes == {"ESH4": "1", "ESM4": "6", "ESU4": "8"}


def test_a_name_that_gets_another_id_keeps_its_session_and_its_reference(hub, start, tmp_path):
    path = tmp_path / "ids.dbn"
    # From the 1st to the 2nd of March within one trading day of the publisher.
    evening_ns, second_ns = MARCH_NS + 23 * HOUR_NS + HOUR_NS // 2, MARCH_NS + DAY_NS
    records = [
        dbn_file.trade(MARCH_NS + 10 * HOUR_NS, 90 * 10**9, 5, instrument=1),
        dbn_file.statistic(MARCH_NS + 20 * HOUR_NS, 3, MARCH_NS, 100 * 10**9, instrument=1),
        dbn_file.trade(evening_ns, 104 * 10**9, 7, instrument=1),
        dbn_file.trade(second_ns, 105 * 10**9, 1, instrument=2),
    ]
    mapping = ("ROLL", [(20240301, 20240302, 1), (20240302, 20240303, 2)])
    path.write_bytes(dbn_file.file([mapping], records))
    report = play(start, hub, path)
    assert (report.definitions, report.sessions) == (1, 2)
    fields = hub.hash("md:ROLL")
    assert (fields["volume"], fields["prev_close"], fields["change_pct"]) == ("8", "100", "5")


#: Files of one day, as Databento gives them: one schema a file, or one hour.
FILES_OF_A_DAY = {
    "trades": [
        dbn_file.trade(MARCH_NS + 14 * HOUR_NS, 100 * PRICE, 5),
        dbn_file.trade(MARCH_NS + 14 * HOUR_NS + 9, 102 * PRICE, 5),
    ],
    "later trades": [dbn_file.trade(MARCH_NS + 15 * HOUR_NS, 103 * PRICE, 7)],
    "status": [dbn_file.status(MARCH_NS + 13 * HOUR_NS, 7, 1)],
    "statistics": [dbn_file.statistic(MARCH_NS + HOUR_NS, 11, MARCH_NS - DAY_NS, 90 * PRICE)],
    # Its first trade is that of "trades".
    "mbp-1": [
        dbn_file.quoted_trade(MARCH_NS + 14 * HOUR_NS + at, 10 * price * PRICE, 5, 4 * PRICE, 6 * PRICE)
        for at, price in [(0, 10), (9, 10)]
    ],
}


@pytest.mark.parametrize(
    "files, volume, close",
    [
        (["trades", "later trades"], "17", ""),
        (["trades", "status"], "10", ""),
        (["trades", "status", "later trades"], "17", ""),
        (["statistics", "trades", "later trades"], "17", "90"),
        (["trades", "statistics"], "10", "90"),
        (["statistics", "trades", "trades"], "10", "90"),
        (["trades", "status", "mbp-1"], "10", ""),
        (["mbp-1", "mbp-1", "later trades"], "17", ""),
    ],
)
def test_a_second_file_of_a_day_goes_on_with_it_and_counts_each_trade_once(
    hub, start, tmp_path, files, volume, close
):
    for file in files:
        mapping = [("DAY", [(20200101, 20300101, 42)])]
        played(start, hub, tmp_path, mapping, FILES_OF_A_DAY[file])
    fields = hub.hash("md:DAY")
    assert (fields["volume"], fields["open"], fields["prev_close"]) == (volume, "100", close)
    assert fields["trading_day"] == "20240301"


def order(time_ns, action, side, order_id, price):
    """An order event that ends its event."""
    price, size, flags = price * 10**9, 3, 0x80
    body = struct.pack(
        "<QqIBBccQiI", order_id, price, size, flags, 0, action, side, time_ns, 0, 0
    )
    length = (dbn_file.HEADER.size + len(body)) // 4
    return dbn_file.HEADER.pack(length, dbn_file.ORDER, 1, 42, time_ns) + body


def best(hub, name):
    """Depth, bids and asks; a level is price, size and number of orders."""
    reply = hub.redis().execute_command("TIDEWIRE.BOOK", name)
    fields = dict(zip(reply[::2], reply[1::2], strict=True))
    bids, asks = (
        [(int(price), size, orders) for price, size, orders in fields[side]]
        for side in (b"bids", b"asks")
    )
    return fields[b"depth"], bids, asks


@pytest.mark.parametrize("first", [b"C", b"R"])
def test_the_levels_of_a_book_that_begins_empty_arrive(hub, start, tmp_path, first):
    path = tmp_path / "levels.dbn"
    records = [
        order(MARCH_NS, first, b"N" if first == b"R" else b"B", 9, 90),
        order(MARCH_NS + 1, b"A", b"B", 1, 100),
        order(MARCH_NS + 2, b"A", b"A", 2, 101),
    ]
    path.write_bytes(dbn_file.file([("EMPTY", [(20240301, 20240302, 42)])], records))
    play(start, hub, path, "--depth", "10")
    assert best(hub, "EMPTY") == (10, [(100, 3, 1)], [(101, 3, 1)])
    assert hub.info("feed")["feed_refused_messages"] == 0


def test_many_levels_cost_no_more_than_few(hub, start, tmp_path):
    """A book as deep as this one was compared with itself at each event, for minutes."""
    path = tmp_path / "deep.dbn"
    levels, changes = 5_000, 20_000
    records = [order(MARCH_NS, b"A", b"B", number, 1 + number) for number in range(levels)]
    records += [
        order(MARCH_NS, b"A", b"B", levels + number, 1 + number * 7_919 % levels)
        for number in range(changes)
    ]
    path.write_bytes(dbn_file.file([("DEEP", [(20240301, 20240302, 42)])], records))
    report = play(start, hub, path, "--depth", str(levels))
    assert report.line("levels").startswith(f"{1 + levels + changes:,} messages")
    _, bids, _ = best(hub, "DEEP")
    assert bids == [(price, 15, 5) for price in range(levels, levels - 10, -1)]


@pytest.mark.parametrize("schema", ["mbo", "mbp-1"])
def test_an_empty_first_book_of_a_later_file_empties_the_quote(hub, start, tmp_path, schema):
    mapping = [("CLEARED", [(20200101, 20300101, 42)])]
    absent = 2**63 - 1
    quoted = dbn_file.quoted_trade(MARCH_NS, 5 * PRICE, 1, 4 * PRICE, 6 * PRICE)
    played(start, hub, tmp_path, mapping, [quoted])
    assert hub.hash("md:CLEARED")["bid"] == "4"
    next_ns = MARCH_NS + DAY_NS
    first = {
        "mbo": order(next_ns, b"R", b"N", 0, 0),
        "mbp-1": dbn_file.quoted_trade(next_ns, 5 * PRICE, 1, absent, absent),
    }
    played(start, hub, tmp_path, mapping, [first[schema]])
    fields = hub.hash("md:CLEARED")
    assert (fields["bid"], fields["ask"], fields["bid_size"]) == ("", "", "0")


def test_a_replay_into_a_hub_that_lags_leaves_no_gap(start_simulator, start_hub, start, tmp_path):
    # Room was counted in messages, but the bytes of definitions run out first: messages that were
    # not sent yet were dropped, and nothing said so.
    path, symbols = tmp_path / "day.rec", 60_000
    simulator = start_simulator("--rate", "20k", "--symbols", symbols)
    recorder = start_hub("--source", simulator.source, "--record", path)
    eventually(lambda: recorder.info("topics")["market_topics"] == symbols, "the topics")
    recorder.stop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        to = f"127.0.0.1:{listener.getsockname()[1]}"
        program = start("replay", path, "--to", to, "--speed", "max")
        connection, _ = listener.accept()
        hub = FeedClient(connection)
        session = hub.receive().session
        hub.send(CONTROL, 0, accepted(session, 1), session=session)
        # It does not read until no more is written. Then the window of the replay is full.
        waiting = [-1, 0]
        while waiting[-1] == 0 or waiting[-1] != waiting[-2]:
            time.sleep(0.3)
            held = fcntl.ioctl(connection, termios.FIONREAD, b"\0" * 4)
            waiting.append(struct.unpack("i", held)[0])
        expected, stream = 1, connection.makefile("rb")
        while expected <= 2 * symbols:
            _, _, flags, count, length, _, _, first = HEADER.unpack(stream.read(HEADER.size))
            stream.read(length)
            if flags == LIVE:
                assert first == expected, "a TCP stream has no gap"
                expected += count


def test_a_hub_that_does_not_apply_all_of_a_replay_makes_it_fail(start_hub, start, tmp_path):
    path = tmp_path / "day.itch"
    assert start("itch", "generate", path, "--messages", "2k").wait(60) == 0
    limits = tmp_path / "tidewire.toml"
    limits.write_text("[limits]\nmarket-topics-max = 2\n")
    hub = start_hub("--config", limits)
    program = start("replay", path, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "max")
    assert program.wait(60) == 1
    assert "published" in program.stdout, "the report comes first"
    assert re.search(r"the hub has not applied [\d,]+ of the [\d,]+ messages", program.stderr)
