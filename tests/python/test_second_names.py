"""The second name of a symbol with one venue: `md:S@V`, `book:S@V`, `bar:1m:S@V`.

Its subscribers hear all that is published of the symbol, and change nothing about it.
"""

import json
import time

import pytest
import zmq

from feed_client import (
    BID, CLEAR, CONTROL, LIVE, PREFIX, FeedClient, definition, level, login, quote, status, trade,
)
from support import Order, RespSocket, eventually

UNIT = 10**9
PLAIN = ["md:ONE", "book:ONE", "bar:1s:ONE"]
SECOND = [name + "@XNAS" for name in PLAIN]


class Publisher:
    """A publisher of the symbol ONE at one venue."""

    def __init__(self, hub, session=77, venue=b"XNAS"):
        self.session, self.sequence = session, 1
        self.client = FeedClient(hub.connect(hub.feed_port))
        self.client.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1))
        self.client.until(lambda: self.client.accepted)
        self.send(PREFIX.pack(0x32, 0, 0, 0, 0) + venue.ljust(32, b"\0"), definition(1, "ONE"))

    def send(self, *messages):
        self.client.send(LIVE, self.sequence, *messages, session=self.session)
        self.sequence += len(messages)


def book(price, time_ns=5):
    return [
        level(1, 0, 0, 0, action=CLEAR, time_ns=time_ns),
        level(1, BID, price * UNIT, 3, is_last=True, time_ns=time_ns),
    ]


def bid(price, time_ns=5):
    return quote(1, price * UNIT, (price + 1) * UNIT, 1, 1, time_ns)


class Heard:
    """What one subscriber to some names has heard, by name."""

    def __init__(self, take):
        self.take, self.all = take, {}

    def until(self, name, condition):
        """Takes messages until one of this name fulfils the condition."""
        while True:
            channel, text = self.take()
            value = json.loads(text)
            self.all.setdefault(channel.decode(), []).append(value)
            if channel.decode() == name and condition(value):
                return value

    def updates(self, name):
        """All messages of a name behind the present value, without the symbol."""
        updates = [dict(value) for value in self.all.get(name, [])]
        for value in updates:
            assert value.pop("symbol") == name.split(":")[-1], value
        return [value for value in updates if not value.get("snapshot") or "bids" in value]


def listen(hub, kind, names):
    if kind == "zmq":
        peer = hub.zmq(zmq.SUB, [name.encode() for name in names])
        return Heard(peer.recv_multipart)
    patterns = names if kind == "pattern" else []
    channels = names if kind == "channel" else []
    listener = hub.subscriber(*channels, patterns=patterns)

    def take():
        message = listener.next()
        return message["channel"], message["data"]

    return Heard(take)


@pytest.mark.parametrize("kind", ["channel", "zmq"])
@pytest.mark.parametrize("lanes", ["1", "2"])
def test_subscribers_of_the_only_venue_hear_what_those_of_the_symbol_hear(start_hub, kind, lanes):
    hub = start_hub("--lanes", lanes)
    publisher = Publisher(hub)
    publisher.send(bid(5), *book(5))
    eventually(lambda: hub.hash("md:ONE").get("bid"), "the quote")
    first = listen(hub, kind, PLAIN)
    for name in PLAIN[:2]:
        first.until(name, lambda value: value["snapshot"])
    second = listen(hub, kind, SECOND)
    for name in SECOND[:2]:
        second.until(name, lambda value: value["snapshot"])
    assert [len(one.all[name]) for one in (first, second) for name in one.all] == [1, 1, 1, 1]
    now_ns = time.time_ns() // UNIT * UNIT - 10 * UNIT
    publisher.send(trade(1, 6 * UNIT, 2, now_ns), bid(7, now_ns), status(1, 4, now_ns))
    publisher.send(level(1, BID, 8 * UNIT, 1, is_last=True, time_ns=now_ns))
    # The source's clock closes the bar.
    publisher.send(bid(9, now_ns + 3 * UNIT))
    for one, names in ((first, PLAIN), (second, SECOND)):
        one.until(names[2], lambda value: value["final"] == 1)
    publisher.client.socket.close()
    for one, names in ((first, PLAIN), (second, SECOND)):
        one.until(names[1], lambda value: value["stale"] == 1)
        if not any(value["stale"] for value in one.all[names[0]]):
            one.until(names[0], lambda value: value["stale"] == 1)
    for own, other in zip(PLAIN, SECOND):
        expected = first.updates(own)
        assert second.updates(other) == expected and len(expected) > 1, own
    assert hub.redis().keys("md:*") == [b"md:ONE"]
    reply = hub.redis().execute_command("TIDEWIRE.BOOK", "ONE")
    assert reply[2:] == hub.redis().execute_command("TIDEWIRE.BOOK", "ONE@XNAS")[2:]
    assert dict(zip(reply[::2], reply[1::2]))[b"depth"] == 65536


def test_a_second_venue_that_comes_later_takes_nothing_from_subscribers_of_the_first(hub):
    one = Publisher(hub)
    one.send(bid(5), *book(5))
    eventually(lambda: hub.hash("md:ONE").get("bid"), "the quote")
    heard = [listen(hub, kind, SECOND[:2]) for kind in ("channel", "pattern", "zmq")]
    for each in heard:
        for name in SECOND[:2]:
            each.until(name, lambda value: value["snapshot"])
    for price in range(6, 10):
        one.send(trade(1, price * UNIT, 1, price))
    # A value of the venue's own topic may overtake older ones that are on their way from the
    # other lane: subscribers have these before the second venue comes.
    for each in heard:
        each.until("md:ONE@XNAS", lambda value: value["volume"] == 4)
    other = Publisher(hub, 78, b"XNYS")
    other.send(quote(1, UNIT, 99 * UNIT, 1, 1, 5))
    eventually(lambda: hub.hash("md:ONE")["venue"] == "XNAS,XNYS", "the second venue")
    for price in range(10, 15):
        one.send(trade(1, price * UNIT, 1, price), level(1, BID, price * UNIT, 1, is_last=True))
    for each in heard:
        each.until("md:ONE@XNAS", lambda value: value["volume"] == 9)
        each.until("book:ONE@XNAS", lambda value: value["bids"][0][0] == 14)
        order, volumes = Order(), []
        for value in each.all["md:ONE@XNAS"]:
            order.check(value)
            assert value["symbol"] == "ONE@XNAS" and value["bid"] == 5, value
            volumes.append(value["volume"])
        assert sorted(set(volumes)) == list(range(10)) and volumes == sorted(volumes)
        known = {}
        for value in each.all["book:ONE@XNAS"]:
            known = {} if value.get("snapshot") else known
            known.update((price, size) for price, size, _ in value.get("bids", []))
        assert known == {5: 3} | {price: 1 for price in range(10, 15)}
    names = sorted(hub.redis().keys("md:*"))
    assert names == [b"md:ONE", b"md:ONE@XNAS", b"md:ONE@XNYS"]


def test_a_subscription_to_many_names_hears_each_update_once(hub):
    publisher = Publisher(hub)
    publisher.send(bid(5))
    eventually(lambda: hub.hash("md:ONE").get("bid"), "the quote")
    every = hub.subscriber(patterns=["md:*"])
    peer = hub.zmq(zmq.SUB, [b"md:"])
    one = hub.subscriber("md:ONE@XNAS")
    assert every.next()["channel"] == b"md:ONE" == peer.recv_multipart()[0]
    assert one.next()["channel"] == b"md:ONE@XNAS"
    for price in (6, 7, 8):
        publisher.send(bid(price))
        assert one.json()["bid"] == price
        assert every.next()["channel"] == b"md:ONE" == peer.recv_multipart()[0]
    one.close()
    eventually(lambda: hub.redis().pubsub_numsub("md:ONE@XNAS")[0][1] == 0, "the end of one")
    publisher.send(bid(9))
    assert every.json()["bid"] == 9
    assert every.pubsub.get_message(timeout=0.2) is None


@pytest.mark.parametrize("splits", [False, True])
def test_a_slow_subscriber_of_the_only_venue_has_the_newest_value_in_the_end(
    start_hub, tmp_path, splits
):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nconflate-bytes = 65536\n")
    hub = start_hub("--config", path)
    publisher = Publisher(hub)
    publisher.send(bid(5), *book(5))
    eventually(lambda: hub.hash("md:ONE").get("bid"), "the quote")
    one = hub.resp(receive_buffer_bytes=4096)
    client = RespSocket(one)
    for name in SECOND[:2]:
        client.call("SUBSCRIBE", name)

    def fill():
        begin = hub.info("topics")["conflated_messages"]
        price = 10
        while hub.info("topics")["conflated_messages"] < begin + 100:
            for _ in range(20):
                prices = range(price, price + 50)
                publisher.send(*(trade(1, price * UNIT, 1, price) for price in prices))
                price += 50
            publisher.send(level(1, BID, price * UNIT, 1, is_last=True))

    fill()
    if splits:
        Publisher(hub, 78, b"XNYS").send(quote(1, UNIT, 99 * UNIT, 1, 1, 5))
        eventually(lambda: "XNYS" in hub.hash("md:ONE")["venue"], "the second venue")
        fill()
    publisher.send(bid(7))
    eventually(lambda: hub.hash("md:ONE@XNAS")["bid"] == "7", "the last quote")
    volume = int(hub.hash("md:ONE@XNAS")["volume"])
    order, best = Order(), hub.redis().execute_command("TIDEWIRE.BOOK", "ONE@XNAS", "LEVELS", 1)
    best = dict(zip(best[::2], best[1::2]))[b"bids"][0][0]
    last, is_whole = None, False
    while last != (volume, 7) or not is_whole:
        _, channel, text = client.read()
        if not isinstance(text, bytes):
            continue
        value = json.loads(text)
        assert value["symbol"] == "ONE@XNAS"
        if channel == b"md:ONE@XNAS":
            order.check(value)
            last = (value["volume"], value["bid"])
        else:
            is_whole |= value["bids"][0][0] == float(best)


def test_a_lane_that_was_behind_gives_the_newest_values_under_the_second_name(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nmailbox-bytes-max = 1024\n")
    hub = start_hub("--config", path, "--lanes", "2")
    publisher = Publisher(hub)
    publisher.send(bid(5), *book(5))
    eventually(lambda: hub.hash("md:ONE").get("bid"), "the quote")
    heard = [listen(hub, kind, SECOND[:2]) for kind in ("channel", "pattern", "zmq") * 4]
    for each in heard:
        for name in SECOND[:2]:
            each.until(name, lambda value: value["snapshot"])
    price = 10
    while "mailbox full" not in hub.stderr:
        for _ in range(20):
            publisher.send(*(bid(price + step) for step in range(50)))
            price += 50
    publisher.send(level(1, BID, price * UNIT, 1, is_last=True), bid(7))
    for each in heard:
        each.until("md:ONE@XNAS", lambda value: value["bid"] == 7)
        if not any(value["bids"][0][0] == price for value in each.all["book:ONE@XNAS"]):
            each.until("book:ONE@XNAS", lambda value: value["bids"][0][0] == price)
