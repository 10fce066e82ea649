"""Records that a source sends whole, through the hub to Databento's own client: as in the file."""

import datetime
import os
import signal
import socket
import struct
import subprocess
import threading
from pathlib import Path

import databento_dbn as dbn
import pytest
import zstandard
from databento.common.cram import get_challenge_response
from test_databento import (
    BINARY, DATASET, KEY, PATIENCE_S, SNAPSHOT, Hub, Session, eventually, free_ports, is_over,
)

DATA = Path(os.environ.get("TIDEWIRE_DATA", "no-data"))
GOLDEN = DATA / "dbn"
ES = DATA / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"{GOLDEN} is missing")
needs_es = pytest.mark.skipif(not ES.is_file(), reason=f"{ES} is missing")
KINDS = {
    "definition": dbn.InstrumentDefMsg,
    "statistics": dbn.StatMsg,
    "imbalance": dbn.ImbalanceMsg,
    "mbo": dbn.MBOMsg,
}
NONE_64, NONE_PRICE = 2**64 - 1, 2**63 - 1


class QuietHub(Hub):
    """A hub that has what was played into it, and nothing else."""

    def __init__(self, *options):
        self.resp, publish, pull, router, feed, self.port = free_ports(6)
        self.feed = feed
        self.process = subprocess.Popen(
            [BINARY, "serve", "--resp", f"127.0.0.1:{self.resp}", "--zmq-pub",
             f"127.0.0.1:{publish}", "--zmq-pull", f"127.0.0.1:{pull}", "--zmq-router",
             f"127.0.0.1:{router}", "--feed", f"127.0.0.1:{feed}", "--lanes", "2", "--databento",
             f"127.0.0.1:{self.port}", "--databento-key", KEY, *options],
        )
        eventually(self.info, "a hub")

    def play(self, path, *options):
        done = subprocess.run(
            [BINARY, "replay", str(path), "--to", f"127.0.0.1:{self.feed}", "--speed", "max",
             *options],
            capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0


@pytest.fixture
def quiet(request):
    def start(*options):
        hub = QuietHub(*options)
        request.addfinalizer(lambda: hub.process.poll() is None and hub.end())
        return hub

    return start


@pytest.fixture
def live(request):
    def start(hub, schema, symbols="ALL_SYMBOLS", **options):
        session = Session(hub).subscribe(schema, symbols, **options).start()
        request.addfinalizer(session.client.terminate)
        return session

    return start


def unpacked(path):
    data = path.read_bytes()
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        data = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(data)
    return data


def records_of(path):
    """The records of a file as its vendor's decoder reads them, in version 3."""
    decoder = dbn.DBNDecoder(upgrade_policy=dbn.VersionUpgradePolicy.UPGRADE_TO_V3)
    return decoder.write_and_decode(unpacked(path))


def body(record):
    """A record's bytes without those of its header that the hub sets: the instrument's number."""
    data = bytearray(bytes(record))
    data[4:8] = bytes(4)
    return bytes(data)


def golden_files():
    if not GOLDEN.is_dir():
        return []
    names = sorted(path.name for path in GOLDEN.iterdir())
    return [
        name for name in names
        if name.split(".")[1] in KINDS and name.endswith(("dbn", "dbn.zst"))
    ]


@needs_golden
@pytest.mark.parametrize("name", golden_files())
def test_what_a_file_holds_arrives_as_its_own_decoder_reads_it(quiet, live, name):
    hub, schema = quiet(), name.split(".")[1]
    kind = KINDS[schema]
    report = hub.play(GOLDEN / name, "--orders")
    expected = [record for record in records_of(GOLDEN / name) if isinstance(record, kind)]
    assert len(expected) == 2 and "carried" in report
    session = live(hub, schema, start=0)
    eventually(lambda: is_over(session), "the replay's end")
    found = [record for record in session.of(kind)]
    if schema == "definition":
        # First those that the session begins with, one for each topic.
        found = found[-2:]
    assert list(map(body, found)) == list(map(body, expected))
    for record in found:
        assert record.instrument_id in session.client.symbology_map
        assert record.publisher_id == 1 or record.publisher_id == 2


@needs_es
def test_orders_are_sent_only_on_request(quiet, live):
    hub = quiet()
    report = hub.play(ES)
    assert "carried" not in report
    session = live(hub, "mbo", start=0)
    eventually(lambda: is_over(session), "the replay's end")
    assert not session.of(dbn.MBOMsg)


@needs_golden
def test_the_newest_statistics_are_a_snapshot_and_a_symbol_is_only_itself(quiet, live):
    hub = quiet()
    hub.play(GOLDEN / "test_data.statistics.v3.dbn.zst")
    hub.play(GOLDEN / "test_data.imbalance.v3.dbn.zst")
    expected = records_of(GOLDEN / "test_data.imbalance.v3.dbn.zst")[1:]
    session = live(hub, "imbalance", ["SPOT"], snapshot=True)
    session.subscribe("statistics", ["SPOT"], snapshot=True)
    found = session.wait(dbn.ImbalanceMsg)
    assert body(found[-1]) == body(expected[-1])
    others = live(hub, "statistics", snapshot=True)
    others.wait(dbn.StatMsg)
    assert not session.of(dbn.StatMsg)


@needs_golden
def test_records_come_from_the_recording_too(quiet, live, tmp_path):
    options = ["--record", str(tmp_path / "stream.rec")]
    first = quiet(*options)
    first.play(GOLDEN / "test_data.statistics.v3.dbn.zst")
    first.play(GOLDEN / "test_data.definition.v3.dbn.zst")
    first.end()
    second = quiet(*options)
    second.play(GOLDEN / "test_data.definition.v3.dbn.zst")
    session = live(second, "definition", start=0)
    eventually(lambda: is_over(session), "the replay's end")
    names = [one.raw_symbol for one in session.of(dbn.InstrumentDefMsg)]
    # Two of the earlier run and two of this one, each in its place.
    assert names.count("MSFT") == 4
    # No source has defined it in this run.
    assert set(names) == {"MSFT", "ID146945"}


class Orders:
    """A simple order book by order."""

    def __init__(self):
        self.orders = {}

    def apply(self, record):
        key, action = record.order_id, str(record.action)
        if action == "R":
            self.orders.clear()
        elif action in "AM":
            self.orders[key] = (str(record.side), record.price, record.size)
        elif action == "C" and key in self.orders:
            side, price, size = self.orders.pop(key)
            if size > record.size:
                self.orders[key] = (side, price, size - record.size)


@needs_es
def test_every_order_of_a_session_and_the_book_that_is_left(quiet, live):
    hub = quiet()
    hub.play(ES, "--orders")
    expected = [record for record in records_of(ES) if isinstance(record, dbn.MBOMsg)]
    session = live(hub, "mbo", start=0)
    eventually(lambda: is_over(session), "the replay's end")
    assert list(map(body, session.of(dbn.MBOMsg))) == list(map(body, expected))

    book = Orders()
    for record in expected:
        book.apply(record)
    other = live(hub, "mbo", snapshot=True)
    eventually(
        lambda: any(record.flags & 0x80 for record in other.of(dbn.MBOMsg)), "the snapshot's end"
    )
    snapshot = other.of(dbn.MBOMsg)
    assert str(snapshot[0].action) == "R" and all(one.flags & SNAPSHOT for one in snapshot)
    assert [bool(one.flags & 0x80) for one in snapshot] == [False] * (len(snapshot) - 1) + [True]
    taken = Orders()
    for record in snapshot:
        taken.apply(record)
    assert taken.orders == book.orders and len(book.orders) > 100
    # The best of each side first.
    bids = [one.price for one in snapshot[1:] if str(one.side) == "B"]
    asks = [one.price for one in snapshot[1:] if str(one.side) == "A"]
    assert bids == sorted(bids, reverse=True) and asks == sorted(asks)


def definition(instrument_id, symbol, asset, expiration_ns, received_ns):
    """A future's definition in version 3."""
    record = bytearray(520)
    record[:2] = 130, 0x13
    struct.pack_into("<HIQQqqQQ", record, 2, 1, instrument_id, received_ns, received_ns,
                     250_000_000, 10**9, expiration_ns, 0)
    for offset in (56, 64, 72, 80, 88, 96, 104, 120, 128):
        struct.pack_into("<q", record, offset, NONE_PRICE)
    for offset, text in ((224, b"USD"), (238, symbol), (330, b"XCME"), (335, asset), (391, asset)):
        record[offset:offset + len(text)] = text
    record[487:489], record[493], record[497] = b"FF", ord("A"), ord("N")
    return bytes(record)


def trade(instrument_id, time_ns, price, sequence):
    return struct.pack("<BBHIQqIBBBBQiI", 12, 0, 1, instrument_id, time_ns, price * 10**9, 1,
                       ord("T"), ord("B"), 0, 0, time_ns, 0, sequence)


def fragment(path, *records):
    path.write_bytes(b"".join(records))
    return path


def day(month, number):
    return int(datetime.datetime(2024, month, number, tzinfo=datetime.UTC).timestamp() * 10**9)


def test_a_continuous_symbol_is_the_next_to_expire_and_rolls_with_the_data(quiet, live, tmp_path):
    hub = quiet()
    chain = [(1, b"ESH4", day(3, 15)), (2, b"ESM4", day(6, 21)), (3, b"ESU4", day(9, 20))]
    definitions = [
        definition(number, symbol, b"ES", expiration_ns, day(3, 1))
        for number, symbol, expiration_ns in chain
    ]
    hub.play(fragment(tmp_path / "one.dbn.frag", *definitions))
    session = live(hub, "trades", ["ES.c.0"], stype_in="continuous")
    second = live(hub, "trades", ["ES.c.1"], stype_in="continuous")
    eventually(lambda: session.of(dbn.SymbolMappingMsg), "a mapping")
    eventually(lambda: second.of(dbn.SymbolMappingMsg), "a mapping")
    hub.play(fragment(
        tmp_path / "two.dbn.frag", *definitions,
        trade(1, day(3, 14), 1, 1), trade(2, day(3, 14), 2, 2), trade(3, day(3, 14), 3, 3),
        trade(2, day(3, 16), 4, 4), trade(1, day(3, 16), 5, 5), trade(3, day(3, 16), 6, 6),
    ))
    assert [one.price // 10**9 for one in session.wait(dbn.TradeMsg, 2)] == [1, 4]
    assert [one.price // 10**9 for one in second.wait(dbn.TradeMsg, 2)] == [2, 6]
    mappings = [
        (one.stype_in_symbol, one.stype_out_symbol) for one in session.of(dbn.SymbolMappingMsg)
    ]
    assert mappings[0] == ("ES.c.0", "ESH4") and mappings[-1] == ("ES.c.0", "ESM4")


def test_two_ranks_of_one_subscription_roll_together(quiet, live, tmp_path):
    hub = quiet()
    chain = [(1, b"ESH4", day(3, 15)), (2, b"ESM4", day(6, 21)), (3, b"ESU4", day(9, 20))]
    definitions = [
        definition(number, symbol, b"ES", expiration_ns, day(3, 1))
        for number, symbol, expiration_ns in chain
    ]
    hub.play(fragment(tmp_path / "one.dbn.frag", *definitions))
    session = live(hub, "trades", ["ES.c.0", "ES.c.1"], stype_in="continuous")
    eventually(lambda: len(session.of(dbn.SymbolMappingMsg)) == 2, "the mappings")
    hub.play(fragment(
        tmp_path / "two.dbn.frag", *definitions,
        trade(1, day(3, 14), 1, 1), trade(2, day(3, 14), 2, 2), trade(3, day(3, 16), 3, 3),
        trade(2, day(3, 16), 4, 4), trade(3, day(3, 16), 5, 5),
    ))
    eventually(lambda: len(session.of(dbn.TradeMsg)) == 5, "the trades")
    told, names = [], {}
    for record in session.records:
        if isinstance(record, dbn.SymbolMappingMsg):
            names[record.instrument_id] = record.stype_in_symbol
        elif isinstance(record, dbn.TradeMsg):
            told.append((names[record.instrument_id], record.price // 10**9))
    assert told == [
        ("ES.c.0", 1), ("ES.c.1", 2), ("ES.c.1", 3), ("ES.c.0", 4), ("ES.c.1", 5),
    ]


def test_a_continuous_symbol_by_volume_is_an_error(quiet, live):
    session = live(quiet(), "trades", ["ES.v.0"], stype_in="continuous")
    assert "calendar only" in session.wait(dbn.ErrorMsg)[0].err


@pytest.mark.parametrize(
    ("stype_in", "symbols", "named"),
    [
        ("parent", "ES.FUT,NQ.OPT", "ES.FUT, NQ.OPT"),
        ("instrument_id", "77", "1 symbol is not known yet; records follow once they are: 77"),
        ("continuous", "ES.c.0", "ES.c.0"),
        ("raw_symbol", ",".join(f"S{number}" for number in range(10, 30)), "and 10 more"),
    ],
)
def test_unknown_symbols_are_an_error_record(quiet, live, stype_in, symbols, named):
    session = live(quiet(), "trades", symbols.split(","), stype_in=stype_in)
    error = session.wait(dbn.ErrorMsg)[0]
    assert error.code == 4 and named in error.err


def test_a_minute_has_the_best_prices_at_its_end(quiet, live, tmp_path):
    hub = quiet()
    start = day(3, 1)
    hub.play(fragment(
        tmp_path / "one.dbn.frag",
        *(trade(1, start + second * 10**9, second + 1, second) for second in range(0, 130, 10)),
    ))
    session = live(hub, "bbo-1m", start=0)
    records = session.wait(dbn.BBOMsg, 2)
    assert [record.ts_recv - start for record in records[:2]] == [60 * 10**9, 120 * 10**9]
    assert [record.price // 10**9 for record in records[:2]] == [51, 111]
    assert all(record.rtype == dbn.RType.BBO_1M for record in records)


class Door:
    """A port that stays open while the hub behind it restarts."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.behind = None
        self.ready = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.connect, args=(client,), daemon=True).start()

    def connect(self, client):
        self.ready.wait(PATIENCE_S)
        server = socket.create_connection(("127.0.0.1", self.behind), PATIENCE_S)
        server.settimeout(None)
        threading.Thread(target=self.copy, args=(client, server), daemon=True).start()
        self.copy(server, client)

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def test_a_client_that_reconnects_after_errors_reconnects_after_the_hubs_end(
    quiet, tmp_path, request
):
    door, file = Door(), tmp_path / "one.dbn.frag"
    request.addfinalizer(door.listener.close)
    first = quiet()
    door.behind = first.port
    door.ready.set()
    session = Session(door, reconnect_policy="reconnect")
    request.addfinalizer(session.client.terminate)
    gaps = []
    session.client.add_reconnect_callback(lambda start, end: gaps.append((start, end)))
    session.subscribe("trades").start()
    eventually(lambda: session.of(dbn.SystemMsg), "the acknowledgement")
    first.play(fragment(file, trade(1, day(3, 1), 1, 1)))
    session.wait(dbn.TradeMsg)
    door.ready.clear()
    first.end()
    assert session.wait(dbn.ErrorMsg)[0].err == "the hub is stopping"
    second = quiet()
    door.behind = second.port
    door.ready.set()
    eventually(lambda: gaps, "the reconnection")
    second.play(fragment(file, trade(1, day(3, 2), 2, 2)))
    assert [one.price // 10**9 for one in session.wait(dbn.TradeMsg, 2)] == [1, 2]


@needs_golden
@pytest.mark.parametrize(
    ("client", "version"),
    [("Databento/0.50.0 Python/3.11.7 Linux/6", 2), ("Databento/0.55.0 Python/3.11.7 Linux/6", 3)],
)
def test_a_client_that_cannot_decode_version_3_gets_version_2(quiet, client, version):
    hub = quiet()
    for schema in ("statistics", "definition"):
        hub.play(GOLDEN / f"test_data.{schema}.v3.dbn.zst")
    with socket.create_connection(("127.0.0.1", hub.port), PATIENCE_S) as one:
        words = one.makefile("rb")
        words.readline()
        challenge = words.readline().decode().strip().removeprefix("cram=")
        one.sendall(
            f"auth={get_challenge_response(challenge, KEY)}|dataset={DATASET}|encoding=dbn|"
            f"ts_out=0|client={client}\n"
            "schema=statistics|stype_in=raw_symbol|symbols=ALL_SYMBOLS|snapshot=1\n"
            "schema=definition|stype_in=raw_symbol|symbols=ALL_SYMBOLS\n"
            "start_session\n".encode()
        )
        assert words.readline().startswith(b"success=1|")
        decoder = dbn.DBNDecoder(upgrade_policy=dbn.VersionUpgradePolicy.AS_IS)
        records = []

        def has(*kinds):
            return all(any(type(one) is kind for one in records) for kind in kinds)

        wanted = {
            2: (dbn.InstrumentDefMsgV2, dbn.StatMsgV1), 3: (dbn.InstrumentDefMsg, dbn.StatMsg),
        }[version]
        one.settimeout(PATIENCE_S)
        while not has(*wanted):
            records.extend(decoder.write_and_decode(words.read1()))
    assert records[0].version == version
    found = [one for one in records if type(one) is wanted[0] and one.raw_symbol == "MSFT"]
    assert len(found) == 1 and found[0].security_update_action == "A"
