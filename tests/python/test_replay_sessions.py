"""What `replay` sends of a DBN file besides quotes and trades: venues, sessions, trading states.

A socket of the test is the hub. Trading days are computed with zoneinfo, independently."""

import socket
import struct
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

import dbn_file
import feed_client
from support import DATA, PATIENCE_S

needs_golden = pytest.mark.skipif(not (DATA / "dbn").is_dir(), reason=f"{DATA}/dbn is missing")

HOUR_NS = 3_600 * 10**9
PRICE = 10**9
ABSENT = feed_client.ABSENT
QUOTE, TRADE, DEFINITION, STATUS, VENUE, SESSION = 0x31, 0x21, 0x71, 0x24, 0x32, 0x34
NONE, OPEN, PREVIOUS_CLOSE, PREVIOUS_SETTLEMENT = range(4)
#: What `rolls` says.
KEEPS, BEGINS, BEGINS_DAY, BEGINS_DAY_OR_AGAIN = range(4)
#: States of docs/feed-protocol.md.
PRE_OPEN, TRADING, AUCTION, HALTED, CLOSED, PAUSED = range(1, 7)


class Message:
    """One message of the stream, decoded as docs/feed-protocol.md has it."""

    def __init__(self, body):
        self.kind, _, self.source, self.symbol, self.time_ns = feed_client.PREFIX.unpack_from(body)
        if self.kind == SESSION:
            self.reference, self.day, self.is_what, self.rolls = struct.unpack_from(
                "<qIBB", body, 16
            )
        elif self.kind == VENUE:
            self.name = body[16:48].rstrip(b"\0").decode()
        elif self.kind == STATUS:
            self.state, self.reason = struct.unpack_from("<B3xI", body, 16)
        elif self.kind == DEFINITION:
            self.tick, self.lot, self.currency = struct.unpack_from("<qI4s", body, 24)
            self.name = body[40:].rstrip(b"\0").decode()


def sent(start, path):
    """All messages that `replay` sends of a file."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        to = f"127.0.0.1:{listener.getsockname()[1]}"
        program = start("replay", path, "--to", to, "--speed", "max")
        connection, _ = listener.accept()
    messages = []
    with connection:
        connection.settimeout(PATIENCE_S)
        for packet in packets(connection):
            if packet.flags & feed_client.CONTROL:
                (session,) = struct.unpack_from("<I", packet.body, 24)
                answer = [feed_client.accepted(session, 1)]
                connection.sendall(feed_client.encode(feed_client.CONTROL, 0, answer))
            elif packet.flags & feed_client.END:
                assert packet.first == len(messages) + 1
                end = feed_client.PREFIX.pack(0x2A, 0, 0, 0, 0)
                end += struct.pack("<QQ", packet.first, len(messages))
                connection.sendall(feed_client.encode(feed_client.CONTROL, 0, [end]))
                break
            elif packet.flags == feed_client.LIVE:
                assert packet.first == len(messages) + 1
                messages += [Message(body) for body in bodies(packet)]
        assert program.wait(PATIENCE_S) == 0, program.stderr
    return messages


def packets(connection):
    with connection.makefile("rb") as stream:
        while True:
            header = stream.read(feed_client.HEADER.size)
            (length,) = struct.unpack_from("<H", header, 6)
            yield from feed_client.packets_of(header + stream.read(length))


def bodies(packet):
    position = 0
    while position < len(packet.body):
        length = (packet.body[position] >> 4) * 16
        yield packet.body[position : position + length]
        position += length


def played(start, tmp_path, records, mappings=(("X", [(20200101, 20300101, 42)]),)):
    path = tmp_path / "sessions.dbn"
    path.write_bytes(dbn_file.file(list(mappings), records))
    return sent(start, path)


def of_kind(messages, *kinds):
    return [message for message in messages if message.kind in kinds]


def utc_ns(*date):
    return int(datetime(*date, tzinfo=timezone.utc).timestamp()) * 10**9


#: Zone, hour of the evening at which the next day begins, whether weekends belong to Monday.
CALENDARS = {
    1: ("America/Chicago", 17, True),  # GLBX.MDP3
    2: ("America/New_York", 24, False),  # XNAS.ITCH
    20: ("America/New_York", 24, False),  # OPRA.PILLAR
    57: ("Europe/London", 24, True),  # IFEU.IMPACT
    58: ("Europe/Amsterdam", 24, True),  # NDEX.IMPACT
    101: ("Europe/Berlin", 24, True),  # XEUR.EOBI
    102: ("Europe/Berlin", 24, True),  # XEEE.EOBI
    145: ("Asia/Tokyo", 16, True),  # XOSE.ITCH
    999: ("UTC", 24, False),  # not in the table
}


def trading_day(publisher, time_ns):
    """The trading day of a time as YYYYMMDD."""
    zone, evening, joins_weekends = CALENDARS[publisher]
    local = datetime.fromtimestamp(time_ns // 10**9, ZoneInfo(zone))
    day = local.date() + timedelta(days=local.hour >= evening)
    while joins_weekends and day.weekday() > 4:
        day += timedelta(days=1)
    return int(day.strftime("%Y%m%d"))


@pytest.mark.parametrize("publisher", CALENDARS)
@pytest.mark.parametrize("begin", [(2024, 3, 6), (2024, 3, 28), (2024, 10, 24), (2024, 10, 31)])
def test_each_trading_day_begins_a_session_also_where_clocks_change(
    start, tmp_path, publisher, begin
):
    times_ns = [utc_ns(*begin) + quarter * HOUR_NS // 4 for quarter in range(7 * 24 * 4)]
    records = [dbn_file.trade(time_ns, PRICE, 1, publisher=publisher) for time_ns in times_ns]
    messages = played(start, tmp_path, records)
    day, days = 0, []
    for message in of_kind(messages, SESSION, TRADE):
        if message.kind == SESSION:
            assert (message.is_what, message.reference, message.rolls) == (
                NONE,
                ABSENT,
                BEGINS_DAY_OR_AGAIN,
            )
            assert message.source == publisher
            day = message.day
            days.append(day)
        else:
            assert day == trading_day(publisher, message.time_ns), message.time_ns
    assert len(of_kind(messages, TRADE)) == len(records)
    assert days == sorted(set(days)), "each day begins once"


def test_four_days_with_settlements_have_them_as_references(start, tmp_path):
    records = []
    # From Thursday to Tuesday; clocks change on Sunday.
    for number, day in enumerate([(2024, 3, 7), (2024, 3, 8), (2024, 3, 11), (2024, 3, 12)]):
        noon_ns, date_ns = utc_ns(*day, 15), utc_ns(*day)
        records += [
            dbn_file.trade(noon_ns, (100 + number) * PRICE, 1),
            # A high and an open interest are not used; a settlement is.
            dbn_file.statistic(noon_ns + 1, 5, date_ns, 500 * PRICE),
            dbn_file.statistic(noon_ns + 2, 3, date_ns, (200 + number) * PRICE),
            dbn_file.trade(noon_ns + 3, (100 + number) * PRICE, 1),
        ]
    messages = played(start, tmp_path, records)
    sessions = [
        (one.day, one.rolls, one.is_what, one.reference) for one in of_kind(messages, SESSION)
    ]
    assert sessions == [
        (20240307, BEGINS_DAY_OR_AGAIN, NONE, ABSENT),
        (20240308, BEGINS_DAY_OR_AGAIN, PREVIOUS_SETTLEMENT, 200 * PRICE),
        (20240311, BEGINS_DAY_OR_AGAIN, PREVIOUS_SETTLEMENT, 201 * PRICE),
        (20240312, BEGINS_DAY_OR_AGAIN, PREVIOUS_SETTLEMENT, 202 * PRICE),
    ]
    kinds = [one.kind for one in messages]
    assert kinds[:4] == [VENUE, DEFINITION, SESSION, TRADE]


def test_a_close_and_a_late_settlement_change_the_reference_of_the_day(start, tmp_path):
    noon_ns = utc_ns(2024, 3, 7, 15)
    day_ns = 24 * HOUR_NS
    thursday_ns, friday_ns = utc_ns(2024, 3, 7), noon_ns + day_ns
    records = [
        dbn_file.trade(noon_ns, PRICE, 1),
        dbn_file.statistic(noon_ns + HOUR_NS, 11, thursday_ns, 99 * PRICE),
        dbn_file.trade(friday_ns, PRICE, 1),
        dbn_file.statistic(friday_ns + 1, 3, thursday_ns, 98 * PRICE),
        dbn_file.statistic(friday_ns + 2, 1, 2**64 - 1, 97 * PRICE),
        dbn_file.trade(friday_ns + 3, PRICE, 1),
    ]
    messages = played(start, tmp_path, records)
    sessions = [
        (one.day, one.rolls, one.is_what, one.reference) for one in of_kind(messages, SESSION)
    ]
    assert sessions == [
        (20240307, BEGINS_DAY_OR_AGAIN, NONE, ABSENT),
        (20240308, BEGINS_DAY_OR_AGAIN, PREVIOUS_CLOSE, 99 * PRICE),
        (20240308, KEEPS, PREVIOUS_SETTLEMENT, 98 * PRICE),
        (20240308, KEEPS, OPEN, 97 * PRICE),
    ]


def test_a_daily_bar_gives_the_previous_close(start, tmp_path):
    noon_ns = utc_ns(2024, 3, 7, 15)
    records = [
        dbn_file.daily_bar(utc_ns(2024, 3, 6), 50 * PRICE),
        dbn_file.daily_bar(utc_ns(2024, 3, 7), 51 * PRICE),
        dbn_file.trade(noon_ns, PRICE, 1),
        dbn_file.trade(noon_ns + 24 * HOUR_NS, PRICE, 1),
    ]
    sessions = of_kind(played(start, tmp_path, records), SESSION)
    assert [(one.day, one.is_what, one.reference) for one in sessions] == [
        (20240307, PREVIOUS_CLOSE, 50 * PRICE),
        (20240308, PREVIOUS_CLOSE, 51 * PRICE),
    ]


def test_a_day_begins_with_a_quote_and_again_with_its_first_trade(start, tmp_path):
    noon_ns = utc_ns(2024, 3, 7, 15)
    records = [
        dbn_file.status(noon_ns, 7, 1),
        dbn_file.trade(noon_ns + 1, PRICE, 1),
        dbn_file.trade(noon_ns + 2, PRICE, 1),
    ]
    messages = of_kind(played(start, tmp_path, records), SESSION, STATUS, TRADE)
    assert [(one.kind, getattr(one, "rolls", None)) for one in messages] == [
        (SESSION, BEGINS_DAY),
        (STATUS, None),
        (SESSION, BEGINS_DAY_OR_AGAIN),
        (TRADE, None),
        (TRADE, None),
    ]


def test_two_publishers_of_one_instrument_are_two_venues(start, tmp_path):
    time_ns = utc_ns(2024, 3, 7, 15)
    bids = [(2, 90), (3, 80), (2, 90), (3, 81), (81, 70), (2, 91), (3, 81)]
    records = [
        dbn_file.quoted_trade(time_ns + place, PRICE, 1, bid * PRICE, 99 * PRICE, publisher=source)
        for place, (source, bid) in enumerate(bids)
    ]
    messages = played(start, tmp_path, records)
    venues = {one.source: one.name for one in of_kind(messages, VENUE)}
    assert venues == {2: "XNAS", 3: "XBOS", 81: "XNAS.BASIC.XNAS"}
    assert len(of_kind(messages, DEFINITION)) == 1
    assert [one.source for one in of_kind(messages, QUOTE)] == [2, 3, 3, 81, 2]
    assert [one.source for one in of_kind(messages, TRADE)] == [source for source, _ in bids]
    known = set()
    for message in messages:
        if message.kind == VENUE:
            known.add(message.source)
        assert message.source in known, "a venue comes before its first message"


@pytest.mark.parametrize(
    "action, flags, state",
    [(1, b"NY", PRE_OPEN), (2, b"~~", AUCTION), (3, b"NY", PRE_OPEN), (4, b"~~", AUCTION),
     (5, b"~~", AUCTION), (6, b"~~", AUCTION), (6, b"NY", AUCTION), (6, b"YY", TRADING),
     (7, b"YY", TRADING), (7, b"~~", TRADING), (7, b"NY", PRE_OPEN), (7, b"NN", HALTED), (8, b"NN", HALTED), (9, b"NN", PAUSED),
     (10, b"NN", HALTED), (11, b"YY", TRADING), (12, b"NN", CLOSED), (13, b"NN", CLOSED),
     (15, b"NN", CLOSED), (0, b"YY", None), (14, b"YY", None)],
)
def test_a_status_is_a_trading_state(start, tmp_path, action, flags, state):
    time_ns = utc_ns(2024, 3, 7, 15)
    messages = played(start, tmp_path, [dbn_file.status(time_ns, action, 30, flags)])
    statuses = [(one.state, one.reason, one.source) for one in of_kind(messages, STATUS)]
    assert statuses == ([] if state is None else [(state, 30, 1)])


@needs_golden
@pytest.mark.parametrize("kind", ["dbn", "v2.dbn.zst", "v3.dbn.zst"])
def test_states_of_the_golden_files(start, kind):
    messages = sent(start, DATA / "dbn" / f"test_data.status.{kind}")
    # Trading, pre-open for a quarter of an hour, and the price indication that opens again.
    _, records = dbn_file.read(DATA / "dbn" / f"test_data.status.{kind}")
    by_action = {1: PRE_OPEN, 6: TRADING, 7: TRADING}
    expected = [
        (by_action[action], reason, time_ns)
        for _, _, time_ns, body in records
        for action, reason in [struct.unpack_from("<HH", body, 8)]
    ]
    assert expected
    statuses = [(one.state, one.reason, one.time_ns) for one in of_kind(messages, STATUS)]
    assert statuses == expected
    days = [one.day for one in of_kind(messages, SESSION)]
    assert days == sorted({trading_day(1, time_ns) for _, _, time_ns in expected})


def test_a_definition_gives_tick_lot_and_currency_and_is_sent_again_when_they_change(
    start, tmp_path
):
    time_ns = utc_ns(2024, 3, 7, 15)
    records = [
        dbn_file.definition(time_ns, "ESH4", 25 * PRICE // 100, 1, "USD"),
        dbn_file.trade(time_ns + 1, PRICE, 1),
        dbn_file.definition(time_ns + 2, "ESH4", 25 * PRICE // 100, 1, "USD"),
        dbn_file.definition(time_ns + 3, "ESH4", 5 * PRICE // 100, 1, "USD"),
        dbn_file.definition(time_ns + 4, "ESM4", 5 * PRICE // 100, 2, "EUR"),
        dbn_file.trade(time_ns + 5, PRICE, 1),
    ]
    messages = played(start, tmp_path, records, mappings=())
    said = [
        (one.name, one.tick, one.lot, one.currency, one.source)
        for one in of_kind(messages, DEFINITION)
    ]
    assert said == [
        ("ESH4", 25 * PRICE // 100, 1, b"USD\0", 1),
        ("ESH4", 5 * PRICE // 100, 1, b"USD\0", 1),
        ("ESM4", 5 * PRICE // 100, 2, b"EUR\0", 1),
    ]
