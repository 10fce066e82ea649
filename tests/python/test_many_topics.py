"""A subscription to very many topics at once: its current values are given in slices."""

import json
import time

import pytest
import zmq

from support import Order, RespSocket, eventually

TOPICS = 20_000


@pytest.fixture
def crowded(start_simulator, start_hub):
    """A hub of one lane with more topics than a subscriber is given in one turn."""
    simulator = start_simulator("--rate", "20k", "--symbols", TOPICS)
    hub = start_hub("--source", simulator.source, "--lanes", "1")
    eventually(lambda: hub.info("topics")["market_topics"] == TOPICS, "the topics")
    return hub


class Seen:
    """What a subscriber has been given of each topic."""

    def __init__(self):
        self.orders = {}
        self.snapshots = set()

    def take(self, payload):
        value = json.loads(payload)
        symbol = value["symbol"]
        if "snapshot" in value:
            self.snapshots.add(symbol)
        self.orders.setdefault(symbol, Order()).check(value)
        return value

    def is_complete(self):
        return len(self.snapshots) == TOPICS


@pytest.mark.parametrize("protocol", [2, 3])
def test_every_topic_has_its_current_value_first_and_then_only_newer_ones(crowded, protocol):
    client = RespSocket(crowded.resp())
    if protocol == 3:
        client.call("HELLO", 3)
    client.send("PSUBSCRIBE", "md:*")
    assert client.read() == [b"psubscribe", b"md:*", 1]
    seen, firsts = Seen(), {}
    while not seen.is_complete():
        kind, pattern, channel, payload = client.read()
        assert (kind, pattern) == (b"pmessage", b"md:*")
        value = seen.take(payload)
        firsts.setdefault(channel, value)
    assert all("snapshot" in value for value in firsts.values()), "a current value comes first"
    for _ in range(2_000):
        seen.take(client.read()[3])


def test_a_zeromq_subscriber_to_everything_has_every_topic(crowded):
    sub = crowded.sub("md:", rcvhwm=0)
    seen = Seen()
    while not seen.is_complete():
        topic, payload = sub.recv_multipart()
        assert topic == b"md:" + seen.take(payload)["symbol"].encode()
    # Another prefix gives them again; what is older than these never comes.
    sub.subscribe("md:S")
    for _ in range(2_000):
        seen.take(sub.recv_multipart()[1])


def test_a_prefix_that_is_cancelled_in_the_middle_leaves_the_others_right(crowded):
    sub = crowded.sub("md:RELIANCE", rcvhwm=0)
    order = Order()
    order.check(json.loads(sub.recv_multipart()[1]))
    sub.subscribe("md:")
    sub.unsubscribe("md:")
    updates = 0
    while updates < 3:
        topic, payload = sub.recv_multipart()
        if topic == b"md:RELIANCE":
            order.check(json.loads(payload))
            updates += 1


def small(hub):
    """A client whose kernel holds little, so that the hub has to wait for it."""
    return RespSocket(hub.resp(receive_buffer_bytes=4_096))


def test_a_pattern_that_is_given_up_in_the_middle_gives_no_more(crowded):
    client = small(crowded)
    client.send("PSUBSCRIBE", "md:*")
    assert client.read()[0] == b"psubscribe"
    assert client.read()[0] == b"pmessage"
    client.send("PUNSUBSCRIBE", "md:*")
    given = 1
    while (message := client.read())[0] == b"pmessage":
        given += 1
    assert message == [b"punsubscribe", b"md:*", 0]
    assert given < TOPICS, "it was in the middle"
    assert client.call("PING") == b"PONG"
    client.send("PSUBSCRIBE", "md:*")
    assert client.read()[0] == b"psubscribe"
    seen = Seen()
    while not seen.is_complete():
        seen.take(client.read()[3])


def test_others_are_served_beside_subscribers_that_do_not_read_or_leave(crowded):
    slow = small(crowded)
    slow.send("PSUBSCRIBE", "md:*")
    assert slow.read()[0] == b"psubscribe"
    for _ in range(20):
        gone = small(crowded)
        gone.send("PSUBSCRIBE", "md:*")
        assert gone.read()[0] == b"psubscribe"
        gone.file.close()
        gone.socket.close()
    other = RespSocket(crowded.resp())
    assert other.call("PING") == b"PONG"
    eventually(lambda: other.call("PUBSUB", "NUMPAT") == 1, "the end of those that left")
    seen = Seen()
    while not seen.is_complete():
        seen.take(slow.read()[3])


def test_exec_replies_before_the_current_values_come(crowded):
    client = RespSocket(crowded.resp())
    for words in (["MULTI"], ["PSUBSCRIBE", "md:*"], ["PING"]):
        client.call(*words)
    client.send("EXEC")
    # RESP2 confirms a subscription inside the reply.
    [confirmed, pong] = client.read()
    assert (confirmed, pong) == ([b"psubscribe", b"md:*", 1], [b"pong", b""])
    seen = Seen()
    while not seen.is_complete():
        seen.take(client.read()[3])


def test_a_topic_that_appears_meanwhile_is_not_missed(crowded, start_simulator):
    from test_feed import LIVE, definition, publisher, trade

    client = small(crowded)
    client.send("PSUBSCRIBE", "md:*")
    assert client.read()[0] == b"psubscribe"
    source = publisher(crowded, 95)
    source.until(lambda: source.accepted)
    source.send(LIVE, 1, definition(0, "LATE"), trade(0, 10**9, 1, time.time_ns()), session=95)
    eventually(lambda: crowded.hash("md:LATE").get("last") == "1", "the new topic")
    while client.read()[2] != b"md:LATE":
        pass
