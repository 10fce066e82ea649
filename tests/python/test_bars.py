"""Bars of market topics: `bar:` channels and keys."""

import os
import signal
import socket
import struct
import time
from collections import defaultdict

import pytest
import redis
from dbn_file import ORDER, read
from feed_client import CONTROL, LIVE, PREFIX, FeedClient, definition, login, quote, trade
from support import DATA, eventually, free_ports

UNIT = 10**9
MINUTE = 60 * UNIT
# A minute of 2023: history, which no wall clock ends.
START = 1_703_000_040 * UNIT
ES = DATA / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"


class Publisher:
    """A publisher of two symbols: A (1) and B (2)."""

    def __init__(self, hub, session=92):
        self.session, self.sequence = session, 1
        self.client = FeedClient(hub.connect(hub.feed_port))
        self.client.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1))
        self.client.until(lambda: self.client.accepted)
        self.send(definition(1, "A"), definition(2, "B"))

    def send(self, *messages):
        self.client.send(LIVE, self.sequence, *messages, session=self.session)
        self.sequence += len(messages)

    def trade(self, price, size, time_ns, symbol=1):
        self.send(trade(symbol, price * UNIT, size, time_ns))


def prices(bar):
    return bar["open"], bar["high"], bar["low"], bar["close"]


def test_a_bar_is_open_until_the_next_trade_of_another_interval(hub):
    subscriber = hub.subscriber("bar:1m:A")
    publisher = Publisher(hub)
    publisher.trade(10, 1, START + 5)
    publisher.trade(12, 2, START + 6)
    publisher.trade(9, 1, START + MINUTE - 1)
    publisher.trade(11, 5, START + MINUTE)
    first, second, third, closed, new = (subscriber.json() for _ in range(5))
    assert (first["symbol"], first["interval"], first["start"]) == ("A", "1m", START)
    assert prices(first) == (10, 10, 10, 10) and first["final"] == 0 and first["partial"] == 0
    assert prices(second) == (10, 12, 10, 12) and second["volume"] == 3
    assert prices(third) == (10, 12, 9, 9) and (third["volume"], third["trades"]) == (4, 3)
    assert third["vwap"] == 10.75
    assert closed == third | {"final": 1}
    assert (new["start"], prices(new), new["final"]) == (START + MINUTE, (11, 11, 11, 11), 0)


def test_another_message_of_the_source_closes_a_bar_and_a_late_trade_is_left_out(hub):
    subscriber = hub.subscriber("bar:1m:A")
    publisher = Publisher(hub)
    publisher.trade(10, 1, START)
    assert subscriber.json()["final"] == 0
    publisher.send(quote(2, UNIT, 2 * UNIT, 1, 1, START + MINUTE + UNIT))
    closed = subscriber.json()
    assert (closed["start"], closed["final"], prices(closed)) == (START, 1, (10, 10, 10, 10))
    publisher.trade(99, 7, START + 1)
    late = subscriber.json()
    assert (late["start"], late["final"], late["late"]) == (START, 1, 1)
    assert (late["volume"], late["partial"]) == (closed["volume"], closed["partial"])
    publisher.trade(11, 1, START + MINUTE + 2 * UNIT)
    new = subscriber.json()
    assert (new["start"], prices(new), new["late"]) == (START + MINUTE, (11, 11, 11, 11), 1)


def test_the_clock_closes_the_bar_of_a_live_source_that_says_no_more(hub):
    subscriber = hub.subscriber("bar:1s:A")
    publisher = Publisher(hub)
    now_ns = time.time_ns()
    publisher.trade(10, 1, now_ns)
    assert subscriber.json()["final"] == 0
    closed = subscriber.json()
    assert closed["final"] == 1 and closed["start"] == now_ns // UNIT * UNIT
    assert time.time_ns() >= closed["start"] + UNIT


def test_bars_of_history_wait_for_the_source_s_clock(hub):
    subscriber = hub.subscriber("bar:1s:A", "bar:1s:B")
    publisher = Publisher(hub)
    publisher.trade(10, 1, START)
    assert subscriber.json()["final"] == 0
    other = Publisher(hub, session=93)
    other.send(definition(3, "C"), trade(3, UNIT, 1, time.time_ns()))
    eventually(lambda: hub.hash("md:C").get("last") == "1", "another source's trade")
    time.sleep(0.5)
    publisher.trade(11, 1, START + 1)
    assert subscriber.json()["volume"] == 2, "the same bar is open still"


@pytest.mark.parametrize("interval, length", [("1s", 1), ("1m", 60), ("1h", 3_600), ("1d", 86_400)])
def test_each_interval_begins_at_a_multiple_of_itself(hub, interval, length):
    subscriber = hub.subscriber(patterns=[f"bar:{interval}:*"])
    publisher = Publisher(hub)
    at = START + 12_345_678_901
    publisher.trade(10, 1, at)
    bar = subscriber.json()
    assert bar["interval"] == interval and bar["start"] == at // (length * UNIT) * (length * UNIT)


def test_a_bar_is_a_read_only_hash(hub):
    publisher = Publisher(hub)
    publisher.trade(10, 1, START)
    eventually(lambda: hub.hash("md:A").get("last") == "10", "the trade")
    client = hub.redis()
    assert client.keys("bar:*") == [], "no client has asked for bars"
    assert hub.hash("bar:1m:A") == {"trades": "0"}, "bars begin with the first reading"
    publisher.trade(12, 3, START + 1)
    bar = eventually(lambda: (found := hub.hash("bar:1m:A")).get("open") and found, "the bar")
    assert list(bar) == [
        "start", "open", "high", "low", "close", "vwap", "volume", "trades", "final", "partial",
        "late", "seq",
    ]
    assert (bar["open"], bar["volume"], bar["final"]) == ("12", "3", "0")
    assert bar["partial"] == "1", "the symbol had traded in this minute before"
    assert client.keys("bar:*") == [b"bar:1m:A"] and client.type("bar:1m:A") == b"hash"
    assert hub.hash("bar:1m:NOBODY") == {} and hub.hash("bar:2m:A") == {}
    for write in [("SET", "bar:1m:A", "1"), ("DEL", "bar:1m:A"), ("PUBLISH", "bar:1m:A", "x")]:
        with pytest.raises(redis.ResponseError, match="live"):
            client.execute_command(*write)
    client.set("bar:mine", "1")
    assert client.get("bar:mine") == b"1", "other names stay free"


def test_a_trade_without_a_price_is_in_no_bar(hub):
    subscriber = hub.subscriber("bar:1m:A")
    publisher = Publisher(hub)
    publisher.send(trade(1, 2**63 - 1, 5, START))
    publisher.trade(10, 1, START + 1)
    assert subscriber.json()["volume"] == 1


@pytest.mark.skipif(not ES.is_file(), reason=f"{ES} is missing")
def test_the_bars_of_a_session_are_those_of_its_trades(hub, start):
    names, records = read(ES)
    trades = defaultdict(list)
    for rtype, instrument, time_ns, body in records:
        price, size = int.from_bytes(body[8:16], "little", signed=True), body[16:20]
        if rtype == ORDER and body[22:23] == b"T" and names[instrument] == "ESH4":
            trades[time_ns].append((price, int.from_bytes(size, "little")))
    lengths = {"1s": UNIT, "1m": MINUTE, "1h": 60 * MINUTE, "1d": 24 * 60 * MINUTE}
    expected = {interval: {} for interval in lengths}
    for interval, length in lengths.items():
        for time_ns in sorted(trades):
            start_ns = time_ns // length * length
            for price, size in trades[time_ns]:
                expected[interval].setdefault(start_ns, []).append((price, size))
    subscriber = hub.subscriber(patterns=["bar:*:ESH4"])
    program = start("replay", ES, "--to", f"127.0.0.1:{hub.feed_port}", "--speed", "max")
    last = {interval: max(bars) for interval, bars in expected.items()}
    total = sum(size for bars in expected["1d"].values() for _, size in bars)
    final = defaultdict(dict)
    newest = {}
    while newest.get("1d", {}).get("start") != last["1d"] or any(
        newest[interval]["start"] != start_ns for interval, start_ns in last.items()
    ) or newest["1d"]["volume"] != sum(size for _, size in expected["1d"][last["1d"]]):
        bar = subscriber.json()
        newest[bar["interval"]] = bar
        if bar["final"]:
            assert bar["start"] not in final[bar["interval"]], "final bars are told once"
            final[bar["interval"]][bar["start"]] = bar
    assert program.wait(60) == 0, program.stderr
    # A slow subscriber may miss some, but those it gets are right.
    assert final["1m"] and final["1s"]
    for interval, bars in final.items():
        for start_ns, bar in bars.items():
            own = expected[interval][start_ns]
            high, low = max(price for price, _ in own), min(price for price, _ in own)
            wanted = [own[0][0], high, low, own[-1][0]]
            assert [round(price * UNIT) for price in prices(bar)] == wanted, (interval, start_ns)
            assert bar["volume"] == sum(size for _, size in own)
            assert bar["trades"] == len(own) and bar["late"] == 0 and bar["partial"] == 0
    assert total > 0


class FirstHub:
    """A hub that restarts on the same ports, with a publisher of A at the venues FAST and SLOW."""

    def __init__(self, start):
        self._start, self._ports, self.session = start, free_ports(5), 0
        self.feed_port = self._ports[0]

    def begin(self):
        names = ("feed", "resp", "zmq-pub", "zmq-pull", "zmq-router")
        ports = zip(names, self._ports)
        self.program = self._start(
            "serve", *(f"--{name}={'tcp://' * ('zmq' in name)}127.0.0.1:{port}" for name, port in ports)
        )
        self.session += 1
        self.publisher = eventually(self._connected, "a connection")
        for number, name in [(1, b"FAST"), (2, b"SLOW")]:
            self.publisher.send(PREFIX.pack(0x32, 0, number, 0, 0) + struct.pack("<32s", name))

    def _connected(self):
        try:
            return Publisher(self, self.session)
        except OSError:
            return None

    def connect(self, port):
        return socket.create_connection(("127.0.0.1", port), 5)

    def trade(self, venue, second):
        self.publisher.send(trade(1, UNIT, 1, START + second * UNIT, source=venue))

    def volume(self):
        volume = redis.Redis(port=self._ports[1]).hget("md:A", "volume")
        return int(volume or 0)

    def are_joined(self, hubs):
        """Waits until these hubs have what the present run has so far."""
        bid = str(self.session)
        self.publisher.send(quote(2, self.session * UNIT, 100 * UNIT, 1, 1, START))
        for hub in hubs:
            eventually(lambda: hub.hash("md:B").get("bid") == bid, "the quote of this run")


FAST, SLOW = 1, 2
VENUES = {"A": (FAST, SLOW), "A@FAST": (FAST,), "A@SLOW": (SLOW,)}
BEFORE = [(FAST, 40), (SLOW, 10), (FAST, 41), (SLOW, 11)]
AFTER = [(SLOW, 12), (SLOW, 13), (FAST, 42), (SLOW, 14)]


def bars_are(hubs, trades, missed=()):
    """Waits for the bars of these trades, which are partial without those that are missed."""
    for place, hub in enumerate(hubs):
        for name, venues in VENUES.items():
            of = [sum(venue in venues for venue, _ in some) for some in (trades, missed)]
            expected = {"trades": str(of[0] - of[1]), "partial": str(int(of[1] > 0))}

            def is_expected():
                return expected.items() <= hub.hash(f"bar:1m:{name}").items()

            eventually(is_expected, (place, name, expected))


def chain(start, start_hub):
    """A hub that restarts, one behind it, and one behind that, with a client of all bars each."""
    first = FirstHub(start)
    first.begin()
    second = start_hub("--source", f"127.0.0.1:{first.feed_port}")
    third = start_hub("--source", f"127.0.0.1:{second.feed_port}")
    for hub in (second, third):
        hub.subscriber(patterns=["bar:1m:*"])
    first.are_joined((second, third))
    for venue, at in BEFORE:
        first.trade(venue, at)
    bars_are((second, third), BEFORE)
    return first, second, third


def test_trades_of_a_venue_whose_clock_is_slow_are_in_the_bars_behind_a_hub_that_restarts(
    start, start_hub
):
    """They were before the newest trade of the other venue, and were taken for repeated ones."""
    first, second, third = chain(start, start_hub)
    first.program.kill()
    first.begin()
    first.are_joined((second, third))
    for venue, at in AFTER:
        first.trade(venue, at)
    bars_are((second, third), BEFORE + AFTER)


@pytest.mark.parametrize("missed", range(len(AFTER) + 1))
def test_trades_that_a_hub_has_missed_are_missing_in_the_bars_of_each_hub_behind_it(
    start, start_hub, missed
):
    """The second hub said so, and the third one showed bars without them as whole."""
    first, second, third = chain(start, start_hub)
    os.kill(second.pid, signal.SIGSTOP)
    try:
        first.program.kill()
        first.begin()
        for venue, at in AFTER[:missed]:
            first.trade(venue, at)
        eventually(lambda: first.volume() == missed, "the trades at the first hub")
    finally:
        os.kill(second.pid, signal.SIGCONT)
    first.are_joined((second, third))
    for venue, at in AFTER[missed:]:
        first.trade(venue, at)
    bars_are((second, third), BEFORE + AFTER, AFTER[:missed])
    for hub in (second, third):
        eventually(lambda: hub.hash("md:A").get("volume") == str(len(AFTER)), "the volume")
        assert hub.hash("md:A")["vwap"] == "1"
