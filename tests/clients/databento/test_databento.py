"""Databento's own live client, unmodified, against the hub's gateway."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time

import databento
import databento_dbn as dbn
import pytest
import zstandard
from databento.common.cram import get_challenge_response

BINARY = os.environ["TIDEWIRE_BINARY"]
# The program in `rust`, with the crate `databento`.
RUST_CLIENT = os.environ.get("TIDEWIRE_DATABENTO_RUST")
KEY = "db-tidewire-tests-of-the-gateway"
DATASET = "XNAS.ITCH"
PATIENCE_S = 30
RATE = 2_000
# The bit of the field `flags`.
SNAPSHOT = 1 << 5


def eventually(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, f"it never came true: {what}"
        time.sleep(0.01)
    return found


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Hub:
    """A hub with a gateway, and an exchange that it reads."""

    def __init__(self, folder, *options):
        resp, publish, pull, router, feed, self.port = free_ports(6)
        self.resp = resp
        with open(folder / "exchange.log", "wb") as log:
            self.exchange = subprocess.Popen(
                [BINARY, "simulate", "--feed", "127.0.0.1:0", "--rate", str(RATE), "--symbols",
                 "6"],
                stdout=log, stderr=subprocess.STDOUT,
            )
        words = eventually(
            lambda: re.search(r" on (\S+)\n", (folder / "exchange.log").read_text()), "an exchange"
        )
        self.process = subprocess.Popen(
            [BINARY, "serve", "--resp", f"127.0.0.1:{resp}", "--zmq-pub", f"127.0.0.1:{publish}",
             "--zmq-pull", f"127.0.0.1:{pull}", "--zmq-router",
             f"127.0.0.1:{router}", "--feed", f"127.0.0.1:{feed}", "--lanes", "2",
             "--databento", f"127.0.0.1:{self.port}", "--databento-key", KEY, "--source",
             words[1], *options],
        )
        eventually(lambda: self.info().get("feed_applied_messages", 0) > RATE, "messages")

    def ask(self, *words):
        """One command of Redis; the reply as it comes."""
        request = b"*%d\r\n" % len(words)
        for word in map(str.encode, words):
            request += b"$%d\r\n%s\r\n" % (len(word), word)
        with socket.create_connection(("127.0.0.1", self.resp), PATIENCE_S) as one:
            one.sendall(request + b"*1\r\n$4\r\nPING\r\n")
            reply = b""
            while not reply.endswith(b"+PONG\r\n"):
                reply += one.recv(1 << 16)
        return reply.decode()

    def info(self):
        try:
            text = self.ask("INFO", "feed")
        except OSError:
            return {}
        return {name: int(value) for name, value in re.findall(r"(\w+):(\d+)\r", text)}

    def end(self):
        for program in (self.exchange, self.process):
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
        codes = [program.wait(PATIENCE_S) for program in (self.exchange, self.process)]
        assert codes == [0, 0]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    started = Hub(tmp_path_factory.mktemp("hub"))
    yield started
    started.end()


class Session:
    """A live session whose records are kept."""

    def __init__(self, hub, key=KEY, **options):
        self.client = databento.Live(
            key=key, gateway="127.0.0.1", port=hub.port, **options
        )
        self.records = []
        self.lock = threading.Lock()
        self.client.add_callback(self.take)

    def take(self, record):
        with self.lock:
            self.records.append(record)

    def of(self, kind):
        with self.lock:
            return [record for record in self.records if isinstance(record, kind)]

    def wait(self, kind, count=1):
        eventually(lambda: len(self.of(kind)) >= count, f"{count} times {kind.__name__}")
        return self.of(kind)

    def subscribe(self, schema, symbols="ALL_SYMBOLS", **options):
        self.client.subscribe(DATASET, schema, symbols, **options)
        return self

    def start(self):
        self.client.start()
        return self


@pytest.fixture
def session(hub, request):
    def start(**options):
        started = Session(hub, **options)
        request.addfinalizer(started.client.terminate)
        return started

    return start


@contextlib.contextmanager
def trades_in_words_of_rust(hub, compression="none"):
    """A session by the words of Databento's Rust client: the socket, and what comes after them."""
    with socket.create_connection(("127.0.0.1", hub.port), PATIENCE_S) as one:
        words = one.makefile("rb")
        words.readline()
        challenge = words.readline().decode().strip().removeprefix("cram=")
        one.sendall(
            f"auth={get_challenge_response(challenge, KEY)}|dataset={DATASET}|encoding=dbn|"
            f"compression={compression}|ts_out=0|client=Rust\n"
            "schema=trades|stype_in=raw_symbol|symbols=ALL_SYMBOLS|snapshot=0|is_last=1\n"
            "start_session\n".encode()
        )
        assert words.readline().startswith(b"success=1|")
        yield one, words


def symbols_of(session):
    return {name for name in session.client.symbology_map.values()}


def test_a_wrong_key_is_refused(session):
    with pytest.raises(databento.BentoError, match="Authentication failed"):
        session(key="db-another-key-of-somebody-elses").subscribe("trades")


def test_trades_come_with_their_symbols(hub, session):
    live = session().subscribe("trades").start()
    trades = live.wait(dbn.TradeMsg, 100)
    assert live.client.metadata.dataset == DATASET and live.client.metadata.version == 3
    assert len(symbols_of(live)) == 6
    for trade in trades:
        assert trade.action == dbn.Action.TRADE and trade.price > 0 and trade.size > 0
        assert trade.instrument_id in live.client.symbology_map
        assert trade.ts_event <= trade.ts_recv
    sequences = [trade.sequence for trade in trades]
    assert sequences == sorted(set(sequences))
    acknowledged = [record for record in live.of(dbn.SystemMsg) if record.code == 1]
    assert len(acknowledged) == 1 and "trades" in acknowledged[0].msg


def test_one_symbol_is_only_that_symbol(hub, session):
    name = sorted(re.findall(r"md:(\S+)", hub.ask("KEYS", "md:*")))[2]
    live = session().subscribe("mbp-1", [name]).start()
    records = live.wait(dbn.MBP1Msg, 50)
    assert symbols_of(live) == {name}
    assert len({record.instrument_id for record in records}) == 1
    for record in records:
        level = record.levels[0]
        assert level.bid_px < level.ask_px and level.bid_sz > 0
    kinds = {record.action for record in live.wait(dbn.MBP1Msg, 300)}
    assert kinds == {dbn.Action.MODIFY, dbn.Action.TRADE}
    # The number that its mapping gave is a symbol as well.
    other = session().subscribe("trades", records[0].instrument_id, stype_in="instrument_id")
    assert other.start().wait(dbn.TradeMsg)[0].instrument_id == records[0].instrument_id


def test_tbbo_has_the_prices_before_the_trade(session):
    live = session().subscribe("tbbo").subscribe("mbp-1").start()
    live.wait(dbn.MBP1Msg, 500)
    quotes, checked = {}, 0
    for record in live.of(dbn.MBP1Msg):
        level = record.levels[0]
        prices = (level.bid_px, level.ask_px, level.bid_sz, level.ask_sz)
        if record.action == dbn.Action.TRADE and record.instrument_id in quotes:
            assert prices == quotes[record.instrument_id]
            checked += 1
        quotes[record.instrument_id] = prices
    assert checked > 50


def test_a_snapshot_is_the_current_value(hub, session):
    live = session().subscribe("mbp-1", snapshot=True).start()
    records = live.wait(dbn.MBP1Msg, 50)
    first = records[:6]
    assert {record.instrument_id for record in first} == set(live.client.symbology_map)
    assert all(record.flags & SNAPSHOT for record in first)
    assert not any(record.flags & SNAPSHOT for record in records[6:])


def test_definitions_and_status(hub, session):
    live = session().subscribe("definition").subscribe("status").start()
    definitions = live.wait(dbn.InstrumentDefMsg, 6)
    assert {one.raw_symbol for one in definitions} == symbols_of(live)
    for one in definitions:
        assert one.instrument_id in live.client.symbology_map
        assert one.security_update_action == dbn.SecurityUpdateAction.ADD


def test_bbo_comes_once_a_second(session):
    live = session().subscribe("bbo-1s").start()
    records = live.wait(dbn.BBOMsg, 18)
    seconds = {}
    for record in records:
        assert record.ts_recv % 1_000_000_000 == 0
        assert record.levels[0].bid_px < record.levels[0].ask_px
        seconds.setdefault(record.ts_recv, []).append(record.instrument_id)
    assert all(len(ids) == len(set(ids)) for ids in seconds.values())
    ends = [record for record in live.of(dbn.SystemMsg) if record.code == 4]
    assert {record.ts_event for record in ends} <= set(seconds)


def test_start_plays_what_the_hub_still_keeps(hub, session):
    # Twice: what a replay gives is what was live.
    first = session().subscribe("trades").start()
    known = first.wait(dbn.TradeMsg, 200)
    start = known[0].ts_event
    live = session().subscribe("trades", start=start).start()
    live.wait(dbn.TradeMsg, 400)
    eventually(
        lambda: any(record.code == 3 for record in live.of(dbn.SystemMsg)), "the replay's end"
    )
    replayed = live.of(dbn.TradeMsg)
    assert replayed[0].sequence == known[0].sequence
    assert replayed[0].ts_event == start

    def form(record):
        return (record.sequence, record.instrument_id, record.price, record.size, record.ts_event)

    assert list(map(form, replayed[:200])) == list(map(form, known[:200]))
    sequences = [record.sequence for record in live.of(dbn.TradeMsg)]
    assert sequences == sorted(set(sequences))


def test_start_at_zero_begins_with_the_oldest(hub, session):
    live = session().subscribe("definition", start=0).subscribe("trades", start=0).start()
    trades = live.wait(dbn.TradeMsg, 10)
    assert trades[0].sequence < 100
    said = [record.msg for record in live.of(dbn.SystemMsg)]
    assert any(re.search(r"sequences 1 to \d+", words) for words in said)


def test_what_is_not_served_is_an_error_record(session):
    live = session().subscribe("cmbp-1").subscribe("trades", "NO-SUCH-SYMBOL").start()
    errors = live.wait(dbn.ErrorMsg, 2)
    assert [error.code for error in errors] == [5, 4]
    assert "'cmbp-1'" in errors[0].err and "NO-SUCH-SYMBOL" in errors[1].err
    assert "use mbp-1, tbbo" in errors[0].err
    # The session goes on.
    live.subscribe("trades")
    live.wait(dbn.TradeMsg)


def test_a_subscription_can_be_taken_back(hub):
    """Python's client has no words for it."""
    with trades_in_words_of_rust(hub) as (one, words):
        decoder = dbn.DBNDecoder()
        records = []

        def take_until(done):
            end = time.monotonic() + PATIENCE_S
            while not done():
                assert time.monotonic() < end
                records.extend(decoder.write_and_decode(words.read1()))

        take_until(lambda: sum(isinstance(one, dbn.TradeMsg) for one in records) > 20)
        one.sendall(
            b"unsubscribe|schema=trades|stype_in=raw_symbol|symbols=ALL_SYMBOLS|is_last=1\n"
            b"schema=bbo-1s|stype_in=raw_symbol|symbols=ALL_SYMBOLS\n"
        )
        take_until(lambda: any(getattr(one, "code", None) == 5 for one in records))
        ended = next(n for n, one in enumerate(records) if getattr(one, "code", None) == 5)
        take_until(lambda: sum(isinstance(one, dbn.BBOMsg) for one in records) > 5)
        assert not any(isinstance(one, dbn.TradeMsg) for one in records[ended:])


def test_a_session_compressed_with_zstd_says_the_same(hub):
    """Python's client asks for no compression."""
    with trades_in_words_of_rust(hub, "zstd") as (_, words):
        unpack, decoder, records = zstandard.ZstdDecompressor().decompressobj(), dbn.DBNDecoder(), []
        end = time.monotonic() + PATIENCE_S
        while sum(isinstance(one, dbn.TradeMsg) for one in records) <= 20:
            assert time.monotonic() < end
            records.extend(decoder.write_and_decode(unpack.decompress(words.read1())))


def test_a_silent_session_gets_heartbeats(session):
    live = session(heartbeat_interval_s=5).subscribe("trades", "NO-SUCH-SYMBOL").start()
    beats = eventually(
        lambda: [record for record in live.of(dbn.SystemMsg) if record.is_heartbeat()], "a heartbeat"
    )
    assert beats[0].ts_event > 0


def test_records_carry_their_time_of_sending_on_request(session):
    live = session(ts_out=True).subscribe("trades").start()
    trades = live.wait(dbn.TradeMsg, 20)
    assert live.client.metadata.ts_out
    assert all(trade.ts_out >= trade.ts_recv >= trade.ts_event for trade in trades)


def test_a_client_that_reads_nothing_costs_the_others_nothing(hub, session):
    """It is told what it has missed when it reads again; the others miss nothing meanwhile."""
    with socket.create_connection(("127.0.0.1", hub.port), PATIENCE_S) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        words = deaf.makefile("r")
        assert words.readline().startswith("lsg_version=")
        challenge = words.readline().strip().removeprefix("cram=")
        answer = get_challenge_response(challenge, KEY)
        deaf.sendall(f"auth={answer}|dataset={DATASET}|encoding=dbn|ts_out=0\n".encode())
        assert words.readline().startswith("success=1|session_id=")
        deaf.sendall(b"schema=mbp-1|stype_in=raw_symbol|symbols=ALL_SYMBOLS\nstart_session\n")
        live = session().subscribe("trades").start()
        live.wait(dbn.TradeMsg, 500)
    sequences = [trade.sequence for trade in live.of(dbn.TradeMsg)]
    assert sequences == sorted(set(sequences))
    assert hub.info()["databento_clients"] >= 1


@pytest.mark.parametrize(
    "words",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"start_session\n", b"a" * 70_000, b"auth=\n",
     b"auth=0-0|dataset=X\nschema=trades|symbols=A\n"],
)
def test_who_is_no_client_is_sent_away(hub, words):
    with socket.create_connection(("127.0.0.1", hub.port), PATIENCE_S) as one:
        one.sendall(words)
        said = b""
        try:
            while data := one.recv(1 << 16):
                said += data
        except ConnectionResetError:
            pass
    assert b"cram=" in said and b"success=1" not in said


@pytest.mark.skipif(not RUST_CLIENT, reason="the client in Rust was not built")
@pytest.mark.parametrize(
    "case",
    ["records", "compressed", "replay", "snapshot", "unsubscribe", "reconnect", "wrong-key", "not-served"],
)
def test_databentos_client_in_rust(hub, case):
    done = subprocess.run(
        [RUST_CLIENT, str(hub.port), KEY, case], capture_output=True, text=True,
        timeout=2 * PATIENCE_S, check=False,
    )
    assert done.returncode == 0, done.stderr


def trades_of(session):
    return session.of(dbn.TradeMsg)


def is_over(session):
    """Whether the replay is."""
    return any(record.code == 3 for record in session.of(dbn.SystemMsg))


def test_start_reaches_back_into_the_recording(request, tmp_path):
    """Further than the journal does, and before the hub's own start; each message once."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    config = tmp_path / "hub.toml"
    config.write_text("[limits]\njournal-messages = 1024\n")
    options = ["--config", str(config), "--record", str(tmp_path / "stream.rec")]
    first = Hub(tmp_path / "one", *options)
    request.addfinalizer(first.end)
    eventually(lambda: first.info()["feed_next_sequence"] > 8 * 1024, "more than the journal keeps")
    live = Session(first).subscribe("mbp-1", start=0).start()
    eventually(lambda: is_over(live), "the replay's end")
    live.wait(dbn.MBP1Msg, 10_000)
    live.client.terminate()
    sequences = [record.sequence for record in live.of(dbn.MBP1Msg)]
    assert sequences == sorted(set(sequences)), "each once, in order"
    # No quote or trade has the numbers of the venue, of six definitions, and of the records with
    # which a symbol begins: nothing, and what the exchange knows of it.
    others = set(range(1, sequences[-1])) - set(sequences)
    assert len(others) <= 1 + 6 + 3 * 6, "no block of the recording is left out"
    assert not [number for number in others if number > 1024], "nothing of the stream is"
    assert not live.of(dbn.ErrorMsg)
    assert any("the recording" in record.msg for record in live.of(dbn.SystemMsg))
    half = live.of(dbn.MBP1Msg)[len(sequences) // 2].ts_event
    first.end()

    # Another run, whose numbers of symbols are its own.
    restart_ns = time.time_ns()
    second = Hub(tmp_path / "two", *options)
    request.addfinalizer(second.end)
    again = Session(second).subscribe("trades", start=half).start()
    eventually(lambda: is_over(again), "the replay's end")
    eventually(lambda: trades_of(again)[-1].ts_event > restart_ns, "trades of the second run")
    again.client.terminate()
    trades = trades_of(again)
    assert trades[0].ts_event >= half
    known = {
        (one.ts_event, one.price, one.size) for one in live.of(dbn.MBP1Msg)
        if one.action == dbn.Action.TRADE and one.ts_event >= half
    }
    told = [(one.ts_event, one.price, one.size) for one in trades]
    assert known <= set(told) and len(told) == len(set(told))
    times = [one.ts_event for one in trades]
    assert times == sorted(times)
