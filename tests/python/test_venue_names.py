"""Names of venues: a publisher may give a number another one, and a symbol may have that of a
venue's topic."""

import json
import struct
import time

import pytest

from feed_client import (
    CONTROL, HEARTBEAT, LIVE, PREFIX, FeedClient, definition, login, trade,
)
from support import eventually

UNIT = 10**9


class Publisher:
    """A publisher whose messages are of the venue with number 1."""

    def __init__(self, hub, session, name=b"tests", first=1):
        self.session, self.sequence = session, first
        self.client = FeedClient(hub.connect(hub.feed_port))
        self.client.send(
            CONTROL, 0, login(0, next_sequence=1, session=session, role=1, name=name)
        )
        self.client.until(lambda: self.client.accepted)

    def send(self, *messages):
        self.client.send(LIVE, self.sequence, *messages, session=self.session)
        self.sequence += len(messages)

    def until(self, condition, what):
        """Waits for a condition, without falling silent."""

        def is_met():
            self.client.send(HEARTBEAT, self.sequence, session=self.session)
            return condition()

        eventually(is_met, what)


def venue(name, number=1):
    return PREFIX.pack(0x32, 0, number, 0, 0) + name.encode().ljust(32, b"\0")


def bid(symbol, price, number=1):
    return PREFIX.pack(0x31, 0, number, symbol, 5) + struct.pack(
        "<qqIIII", price * UNIT, (price + 1) * UNIT, 1, 1, 0, 0
    )


def status(symbol, state, number=1):
    return PREFIX.pack(0x24, 0, number, symbol, 5) + struct.pack("<B3xIQ", state, 0, 0)


def clear(symbol, number=1):
    return PREFIX.pack(0x33, 0, number, symbol, 5) + struct.pack(
        "<qIIBBBxHxx8x", 0, 0, 0, 0, 1, 1, 0
    )


def shown(hub, name):
    """Bid, venue and staleness of a topic."""
    value = hub.hash(f"md:{name}")
    return value.get("bid"), value.get("venue"), value.get("stale")


@pytest.mark.parametrize("change", ["one session", "another connection", "another session"])
def test_a_number_with_another_name_is_another_venue_also_behind_a_second_hub(start_hub, change):
    hub = start_hub()
    second = start_hub("--source", f"127.0.0.1:{hub.feed_port}")
    publisher = Publisher(hub, 77)
    publisher.send(venue("XAAA"), definition(1, "S"), definition(2, "T"))
    publisher.send(bid(1, 10), bid(2, 20))
    for each in (hub, second):
        publisher.until(lambda: shown(each, "S") == ("10", "XAAA", "0"), "the first venue")
    if change != "one session":
        publisher.client.socket.close()
        eventually(lambda: shown(hub, "S")[2] == "1", "the end of the connection")
        is_same = change == "another connection"
        publisher = Publisher(hub, 77 if is_same else 78, first=publisher.sequence if is_same else 1)
    if change == "another session":
        publisher.send(venue("XBBB"), definition(1, "S"), definition(2, "T"))
    else:
        publisher.send(venue("XBBB"))
    publisher.send(definition(3, "U"), bid(3, 30), bid(1, 11))
    for each in (hub, second):
        publisher.until(lambda: shown(each, "S@XBBB") == ("11", "XBBB", "0"), "the second venue")
        publisher.until(lambda: shown(each, "U") == ("30", "XBBB", "0"), "a new symbol")
        publisher.until(lambda: shown(each, "S@XAAA") == ("10", "XAAA", "1"), "the first venue's end")
        publisher.until(lambda: shown(each, "T") == ("20", "XAAA", "1"), "a symbol without a value")
    publisher.until(lambda: shown(hub, "S") == ("11", "XAAA,XBBB", "0"), "the symbol")
    assert hub.hash("md:S")["bid_venue"] == "XBBB"
    publisher.until(lambda: shown(second, "S")[::2] == ("11", "0"), "the symbol behind the hub")


def test_a_level_behind_a_state_does_not_publish_the_value_again(hub):
    publisher = Publisher(hub, 77)
    publisher.send(venue("XAAA"), definition(1, "S"))
    eventually(lambda: b"md:S" in hub.redis().keys("md:*"), "the symbol")
    listener = hub.subscriber("md:S")
    publisher.send(status(1, 2))
    assert listener.json()["state"] == "open"
    publisher.send(clear(1))
    publisher.send(bid(1, 10))
    value = listener.json()
    assert value["bid"] == 10, "no message in between"


def test_a_symbol_with_the_name_of_anothers_venue_has_whole_bars(hub):
    now_ns = time.time_ns()
    one, other = Publisher(hub, 77, b"one"), Publisher(hub, 78, b"other")
    one.send(venue("XNAS"), definition(1, "S"))
    one.send(trade(1, UNIT, 1, now_ns, source=1))
    eventually(lambda: hub.hash("md:S").get("volume") == "1", "the first trade")
    other.send(venue("XNAS"), definition(1, "S@XNAS"), definition(2, "B"))
    other.send(bid(2, 5))
    eventually(lambda: hub.hash("md:B").get("bid") == "5", "the other publisher")
    listener = hub.subscriber("bar:1m:S@XNAS")
    other.send(trade(1, 2 * UNIT, 1, now_ns - 1, source=1))
    value = json.loads(listener.next()["data"])
    assert (value["close"], value["trades"], value["partial"]) == (2, 1, 0)
