"""Sessions that start in the past, and instruments that go on under another name."""

import struct

import databento_dbn as dbn
from test_databento import eventually, is_over
from test_records import (  # noqa: F401
    NONE_64, NONE_PRICE, definition, fragment, live, quiet,
)

T = 1_704_205_800 * 10**9
SECOND, DAY = 10**9, 86_400 * 10**9
SNAPSHOT, LAST = 32, 128


def event(rtype, publisher, instrument, time_ns, price, action):
    words = {0x00: 12, 0x01: 20}[rtype]
    return struct.pack(
        "<BBHIQqIcBBBQiI", words, rtype, publisher, instrument, time_ns, price, 7, action,
        ord("B"), LAST, 0, time_ns, 0, 0,
    )


def trade(publisher, seconds, price):
    return event(0x00, publisher, 1, T + int(seconds * SECOND), price, b"T")


def quote(publisher, seconds, bid):
    record = event(0x01, publisher, 1, T + int(seconds * SECOND), bid, b"M")
    return record + struct.pack("<qqIIII", bid, bid + 2, 1, 1, 1, 1)


def order(instrument, time_ns, action, number, price, size):
    return struct.pack(
        "<BBHIQQqIBBccQiI", 14, 0xA0, 2, instrument, time_ns, number, price, size, LAST, 0,
        action, b"B", time_ns, 0, 0,
    )


def mapping(instrument, name, start_ns, end_ns):
    return struct.pack(
        "<BBHIQB71sB71sQQ", 44, 0x16, 2, instrument, start_ns, 1, name, 1, name, start_ns, end_ns,
    )


def replayed(session):
    eventually(lambda: is_over(session), "the replay's end")
    return session.records


def with_symbols(session, kind):
    """The session's records of this kind, each with its symbol."""
    names, found = {}, []
    for record in session.records:
        if isinstance(record, dbn.SymbolMappingMsg):
            names[record.instrument_id] = record.stype_out_symbol
        elif isinstance(record, kind):
            found.append((names[record.instrument_id], record))
    return found


def test_the_last_trade_of_a_first_venue_is_its_own_also_behind_a_restart(quiet, live, tmp_path):
    """It was an old one, and one interval came twice."""
    options = ["--record", str(tmp_path / "stream.rec")]
    name = mapping(1, b"AAA", T, NONE_64)
    first = quiet(*options)
    first.play(fragment(
        tmp_path / "one.dbn.frag", name, quote(2, .1, 100), quote(9, .15, 200),
        trade(2, .2, 100), trade(9, .3, 200), trade(2, 1.2, 101), quote(9, 2, 202),
    ))
    first.end()
    second = quiet(*options)
    second.play(fragment(
        tmp_path / "two.dbn.frag", name, trade(2, 10.2, 110), quote(2, 11.1, 111),
        trade(2, 11.2, 111), quote(9, 14.1, 210), quote(2, 15.1, 112), trade(9, 17, 211),
        quote(2, 18.1, 114), quote(9, 30, 213), quote(2, 30, 115),
    ))
    told = {}
    for start in (0, T + SECOND, T + 5 * SECOND):
        session = live(second, "bbo-1s", start=start)
        replayed(session)
        told[start] = {
            (symbol, (one.ts_recv - T) / SECOND, one.levels[0].bid_px, one.price, one.publisher_id)
            for symbol, one in with_symbols(session, dbn.BBOMsg) if one.ts_recv < T + 30 * SECOND
        }
        places = [(symbol[:3], one.publisher_id, one.ts_recv)
                  for symbol, one in with_symbols(session, dbn.BBOMsg)]
        assert len(places) == len(set(places)), "each interval once"
        assert ("AAA@XNAS", 12, 111, 111, 2) in told[start]
        assert ("AAA@XNAS", 16, 112, 111, 2) in told[start]
        assert ("AAA@XNAS", 19, 114, 111, 2) in told[start]
        expected = {one for one in told[0] if T + one[1] * SECOND > start + SECOND}
        assert {one for one in told[start] if T + one[1] * SECOND > start + SECOND} == expected


def test_a_replay_begins_with_the_definition_of_its_start(quiet, live, tmp_path):
    """There was none where a newer one came later, and two where two subscriptions named it."""
    hub = quiet()
    times = [day * DAY for day in (1, 3, 5)]
    definitions = [definition(1, b"ESH4", b"ES", T + 90 * DAY, T + at) for at in times]
    trades = [trade(1, day * 86_400, 5) for day in (2, 4, 6)]
    records = [record for pair in zip(definitions, trades) for record in pair]
    hub.play(fragment(tmp_path / "one.dbn.frag", *records))
    for start, expected in ((0, [1, 3, 5]), (4 * DAY - 1, [3, 5]), (6 * DAY, [5])):
        session = live(hub, "definition", ["ESH4"], start=T + start if start else 0)
        replayed(session)
        found = [(one.ts_event - T) // DAY for one in session.of(dbn.InstrumentDefMsg)]
        assert found == expected
    # Without a start; then a file that has no definition.
    session = live(hub, "definition", ["ESH4"])
    session.subscribe("trades", ["ESH4"])
    session.wait(dbn.InstrumentDefMsg)
    hub.play(fragment(
        tmp_path / "two.dbn.frag", mapping(1, b"ESH4", T, NONE_64), trade(1, 7 * 86_400, 6),
    ))
    session.wait(dbn.TradeMsg)
    assert len(session.of(dbn.InstrumentDefMsg)) == 1


def test_orders_of_an_id_with_another_name_are_whole_there(quiet, live, tmp_path):
    """The name began with a cancel of an order that its clients had not got."""
    hub = quiet()
    session = live(hub, "mbo")
    report = hub.play(fragment(
        tmp_path / "orders.dbn.frag", mapping(1, b"AAA", T, T + DAY),
        mapping(1, b"BBB", T + DAY, NONE_64),
        *[order(1, T + number, b"A", 10 + number, 100 + number, 5) for number in range(3)],
        order(1, T + DAY + 3, b"C", 12, 102, 5), order(1, T + DAY + 4, b"M", 11, 103, 2),
    ), "--orders")
    assert "5 orders, 4 again under another name" in report
    session.wait(dbn.MBOMsg, 9)
    told = [
        (symbol, str(one.action), one.order_id, one.price if one.price != NONE_PRICE else None,
         int(one.flags))
        for symbol, one in with_symbols(session, dbn.MBOMsg)
    ]
    assert told[3:] == [
        ("BBB", "R", 0, None, SNAPSHOT), ("BBB", "A", 12, 102, SNAPSHOT),
        ("BBB", "A", 11, 101, SNAPSHOT), ("BBB", "A", 10, 100, SNAPSHOT | LAST),
        ("BBB", "C", 12, 102, LAST), ("BBB", "M", 11, 103, LAST),
    ]
    snapshot = live(hub, "mbo", ["BBB"], snapshot=True)
    snapshot.wait(dbn.MBOMsg, 3)
    assert [one.order_id for one in snapshot.of(dbn.MBOMsg)] == [0, 11, 10]
