"""`mbp-10` and `ohlcv` of Databento's own client, against a book and bars made here."""

import functools

import databento_dbn as dbn
import pytest
from test_databento import SNAPSHOT, eventually, is_over
from test_records import ES, GOLDEN, live, needs_es, needs_golden, quiet, records_of  # noqa: F401

LEVELS = 10
LAST = 128
NO_PRICE = 2**63 - 1
SECONDS = {"ohlcv-1s": 1, "ohlcv-1m": 60, "ohlcv-1h": 3_600, "ohlcv-1d": 86_400}
RTYPES = {"ohlcv-1s": 0x20, "ohlcv-1m": 0x21, "ohlcv-1h": 0x22, "ohlcv-1d": 0x23}


class Book:
    """The price levels of one instrument, from its orders."""

    def __init__(self):
        self.orders, self.sides = {}, {"B": {}, "A": {}}

    def change(self, side, price, size, count):
        level = self.sides[side].setdefault(price, [0, 0])
        level[0] += size
        level[1] += count
        if level[1] == 0:
            del self.sides[side][price]

    def remove(self, number):
        side, price, size = self.orders.pop(number)
        self.change(side, price, -size, -1)

    def apply(self, record):
        action, number = str(record.action), record.order_id
        if action == "R":
            self.__init__()
        elif action in ("A", "M"):
            if number in self.orders:
                self.remove(number)
            self.orders[number] = (str(record.side), record.price, record.size)
            self.change(str(record.side), record.price, record.size, 1)
        elif action == "C":
            side, price, size = self.orders[number]
            self.remove(number)
            if size > record.size:
                self.orders[number] = (side, price, size - record.size)
                self.change(side, price, size - record.size, 1)

    def levels(self):
        best = []
        for side, is_bid in (("B", True), ("A", False)):
            levels = self.sides[side]
            prices = sorted(levels, reverse=is_bid)[:LEVELS]
            best.append([(price, *levels[price]) for price in prices])
            best[-1] += [(NO_PRICE, 0, 0)] * (LEVELS - len(prices))
        return tuple(zip(*best, strict=True))


@functools.cache
def orders_of_es():
    return [record for record in records_of(ES) if isinstance(record, dbn.MBOMsg)]


def levels_of(record):
    return tuple(
        ((pair.bid_px, pair.bid_sz, pair.bid_ct), (pair.ask_px, pair.ask_sz, pair.ask_ct))
        for pair in record.levels
    )


def without_repeats(states):
    return [state for last, state in zip([None, *states], states) if state != last]


@needs_es
def test_ten_levels_are_those_of_an_independent_book(quiet, live):  # noqa: F811
    hub, book, expected = quiet(), Book(), []
    for record in orders_of_es():
        book.apply(record)
        if record.flags & LAST:
            expected.append(book.levels())
    session = live(hub, "mbp-10")
    hub.play(ES, "--depth", "10")
    expected = without_repeats(expected)
    eventually(lambda: levels_of(session.of(dbn.MBP10Msg)[-1]) == expected[-1], "the last levels")
    records = session.of(dbn.MBP10Msg)
    found = without_repeats([levels_of(record) for record in records])
    assert found == expected
    actions = {str(record.action) for record in records}
    assert {"A", "C", "M", "T"} <= actions
    # A client that comes later begins with the same book.
    late = live(hub, "mbp-10", snapshot=True)
    first = late.wait(dbn.MBP10Msg)[0]
    assert first.flags & SNAPSHOT and levels_of(first) == expected[-1]


@needs_es
def test_ten_levels_of_a_replay_from_the_journal(quiet, live):  # noqa: F811
    hub = quiet()
    session = live(hub, "mbp-10")
    hub.play(ES, "--depth", "10")
    again = live(hub, "mbp-10", start=0)
    eventually(lambda: is_over(again), "the replay's end")
    kept = [levels_of(record) for record in again.of(dbn.MBP10Msg)]
    eventually(lambda: len(session.of(dbn.MBP10Msg)) >= len(kept), "the live records")
    assert kept == [levels_of(record) for record in session.of(dbn.MBP10Msg)]


@needs_golden
def test_ten_levels_of_a_file_with_ten_levels(quiet, live):  # noqa: F811
    hub = quiet()
    session = live(hub, "mbp-10")
    path = GOLDEN / "test_data.mbp-10.v3.dbn.zst"
    hub.play(path, "--depth", "10")
    expected = [levels_of(r) for r in records_of(path) if isinstance(r, dbn.MBP10Msg)]
    expected = without_repeats(expected)
    eventually(
        lambda: without_repeats([levels_of(r) for r in session.of(dbn.MBP10Msg)])[-2:] == expected,
        "its levels",
    )


def bars_of(trades, seconds):
    """Start, open, high, low, close and volume of each interval, by the trades' own times."""
    bars, length = {}, seconds * 10**9
    for time, price, size in trades:
        start = time - time % length
        bar = bars.setdefault(start, [price, price, price, price, 0])
        bar[1], bar[2] = max(bar[1], price), min(bar[2], price)
        bar[3] = price
        bar[4] += size
    return [(start, *bar) for start, bar in sorted(bars.items())]


@needs_es
@pytest.mark.parametrize("schema", SECONDS)
@pytest.mark.parametrize("way", ["live", "replay"])
def test_bars_are_those_of_an_independent_computation(quiet, live, schema, way):  # noqa: F811
    hub = quiet()
    trades = [
        (record.ts_event, record.price, record.size)
        for record in orders_of_es()
        if record.action == "T"
    ]
    expected = bars_of(trades, SECONDS[schema])
    if way == "live":
        session = live(hub, schema)
    hub.play(ES)
    # A bar closes with a message that is 50 ms later than its end.
    last = max(record.ts_event for record in orders_of_es())
    length = SECONDS[schema] * 10**9
    expected = [bar for bar in expected if bar[0] + length + 50_000_000 <= last]
    if way == "replay":
        session = live(hub, schema, start=0)
        eventually(lambda: is_over(session), "the replay's end")
    eventually(lambda: len(session.of(dbn.OHLCVMsg)) >= len(expected), "the bars")
    records = session.of(dbn.OHLCVMsg)
    found = [(r.ts_event, r.open, r.high, r.low, r.close, r.volume) for r in records]
    assert found[: len(expected)] == expected
    assert {record.rtype for record in records} <= {RTYPES[schema]}


@needs_es
def test_a_bar_that_began_before_the_client_came_is_not_sent(quiet, live):  # noqa: F811
    hub = quiet()
    hub.play(ES)
    session = live(hub, "ohlcv-1d")
    hub.play(ES)
    late = live(hub, "trades", snapshot=True)
    late.wait(dbn.TradeMsg)
    assert session.of(dbn.OHLCVMsg) == []


@needs_es
def test_ten_levels_of_a_recording_begin_in_the_middle_with_the_whole_book(
    quiet, live, tmp_path,  # noqa: F811
):
    options = ["--record", str(tmp_path / "stream.rec")]
    hub = quiet(*options)
    session = live(hub, "mbp-10")
    hub.play(ES, "--depth", "10")
    middle = orders_of_es()[40_000].ts_event
    eventually(lambda: len(session.of(dbn.MBP10Msg)) > 37_000, "the live records")
    expected = [levels_of(r) for r in session.of(dbn.MBP10Msg) if r.ts_event >= middle]
    hub.end()
    hub = quiet(*options)
    hub.play(ES, "--depth", "1")
    replay = live(hub, "mbp-10", start=middle)
    eventually(lambda: len(replay.of(dbn.MBP10Msg)) >= len(expected), "the earlier run")
    assert [levels_of(r) for r in replay.of(dbn.MBP10Msg)[: len(expected)]] == expected
