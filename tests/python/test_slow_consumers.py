"""Subscribers that stop reading: they hold nobody up, and have the newest values afterwards."""

import json
import socket
import time
from collections import defaultdict

import pytest

from feed_client import CONFLATE, DISCONNECT, HEARTBEAT, FeedClient
from handshakes import HELLO
from support import (
    PATIENCE_S, Order, RespSocket, command, eventually, is_closed, same_value, wait_for_values,
)

SMALL = {"receive_buffer_bytes": 4096}


@pytest.fixture
def fast(start_simulator, start_hub, tmp_path):
    """A hub that reads a fast exchange, and begins to conflate early."""
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nconflate-bytes = 65536\n")
    simulator = start_simulator("--rate", "40k")
    hub = start_hub("--source", simulator.source, "--config", path)
    hub.simulator = simulator
    wait_for_values(hub, 100)
    return hub


def stopped(hub):
    """Ends the exchange; the hub's last values, which do not change any more."""
    hub.simulator.stop()
    client = hub.redis()
    names = client.keys("md:*")

    def values():
        pipeline = client.pipeline(transaction=False)
        for name in names:
            pipeline.hgetall(name)
        found = pipeline.execute()
        return [{f.decode(): v.decode() for f, v in fields.items()} for fields in found]

    eventually(lambda: all(value["stale"] == "1" for value in values()), "the end of the source")
    return dict(zip(names, values()))


def fallen_behind(hub, more_than=1000):
    """Waits until updates have been conflated."""
    begin = hub.info("topics")["conflated_messages"]
    eventually(
        lambda: hub.info("topics")["conflated_messages"] > begin + more_than, "conflated updates"
    )


def assert_ends_at(receive, values):
    """Takes messages until each topic has its last value; none may go back on its way there."""
    last, orders, snapshots, count = {}, defaultdict(Order), 0, 0
    end = time.monotonic() + 60
    while len(last) < len(values) or not all(
        same_value(last[name], fields) for name, fields in values.items()
    ):
        assert time.monotonic() < end, "the last values did not come"
        # Comparing everything behind each message would take longer than the messages.
        for _ in range(100):
            message = receive()
            if message is None:
                break
            name, payload = message
            value = json.loads(payload)
            snapshots += "snapshot" in value
            count += 1
            orders[name].check(value)
            last[name] = payload
    return count, snapshots


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_a_redis_subscriber_that_stops_reading_has_the_newest_values_in_the_end(fast, protocol):
    one = fast.resp(**SMALL)
    client = RespSocket(one)
    client.call("HELLO", protocol)
    client.send("PSUBSCRIBE", "md:*")
    assert client.read() == [b"psubscribe", b"md:*", 1]
    fallen_behind(fast)
    values = stopped(fast)
    one.settimeout(1)

    def receive():
        try:
            kind, pattern, name, payload = client.read()
        except TimeoutError:
            return None
        assert (kind, pattern) == (b"pmessage", b"md:*")
        return name, payload

    count, snapshots = assert_ends_at(receive, values)
    assert snapshots > 100, "what stands for conflated updates is marked"
    assert count < fast.info("feed")["feed_applied_messages"]


def test_a_zeromq_subscriber_that_stops_reading_has_the_newest_values_in_the_end(fast):
    sub = fast.sub("md:", rcvhwm=10, rcvbuf=4096)
    assert sub.recv_multipart()[0].startswith(b"md:")
    fallen_behind(fast)
    values = stopped(fast)

    def receive():
        return sub.recv_multipart() if sub.poll(1000) else None

    _, snapshots = assert_ends_at(receive, values)
    assert snapshots > 100


def test_a_subscriber_that_stops_and_goes_on_during_the_feed_catches_up(fast):
    client = RespSocket(fast.resp(**SMALL))
    client.send("SUBSCRIBE", *(name for name in fast.redis().keys("md:*")))
    for _ in range(3):
        fallen_behind(fast, 100)
        now = fast.info("feed")["feed_next_sequence"]
        newest = 0
        while newest < now:
            message = client.read()
            if message[0] == b"message":
                newest = max(newest, json.loads(message[2])["seq"])


def test_a_feed_client_that_stops_reading_has_the_newest_values_in_the_end(
    start_simulator, start_hub, tmp_path
):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\njournal-messages = 16384\nconflate-bytes = 65536\n")
    simulator = start_simulator("--rate", "40k")
    hub = start_hub("--source", simulator.source, "--config", path)
    hub.simulator = simulator
    wait_for_values(hub, 100)
    client = FeedClient(hub.connect(hub.feed_port, **SMALL))
    client.join("*")
    client.until(lambda: client.snapshots)
    begin = hub.info("feed")["feed_next_sequence"]

    def far_behind():
        client.send(HEARTBEAT, 0)
        return hub.info("feed")["feed_next_sequence"] > begin + 200_000

    eventually(far_behind, "many windows of it", 60)
    values = stopped(hub)
    end = hub.info("feed")["feed_next_sequence"]
    client.until(lambda: max(client.expected, client.resume) == end and client.snapshots >= 2)
    assert client.conflated >= 1
    for symbol, name in client.names.items():
        fields = values[f"md:{name}".encode()]
        # That of the newest message in the value, such as the end of its source.
        assert client.values[symbol]["seq"] >= int(fields["seq"]), name


def start_narrow(start_simulator, start_hub, tmp_path, *options):
    """A hub with a small window that reads a fast exchange."""
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nconflate-bytes = 65536\njournal-messages = 4096\n")
    simulator = start_simulator("--rate", "40k")
    hub = start_hub("--source", simulator.source, "--config", path, *options)
    hub.simulator = simulator
    wait_for_values(hub, 100)
    return hub


def test_a_slow_feed_client_has_the_gap_marked_where_the_server_does_so(
    start_simulator, start_hub, tmp_path
):
    hub = start_narrow(start_simulator, start_hub, tmp_path, "--feed-slow", "drop")
    client = FeedClient(hub.connect(hub.feed_port, **SMALL))
    client.join("*")
    client.until(lambda: client.snapshots == 1 and client.live)
    begin = hub.info("feed")["feed_next_sequence"]

    def far_behind():
        client.send(HEARTBEAT, 0, session=client.accepted.session)
        return hub.info("feed")["feed_next_sequence"] > begin + 200_000

    eventually(far_behind, "more than the system's buffers hold", 60)
    # It could not keep up with what still comes.
    stopped(hub)
    end = hub.info("feed")["feed_next_sequence"]

    def past_the_gap():
        client.send(HEARTBEAT, 0, session=client.accepted.session)
        return client.dropped and client.expected == end

    client.until(past_the_gap)
    first, oldest = client.dropped[0]
    assert first < oldest and client.conflated == 0 and client.snapshots == 1
    eventually(lambda: hub.info("feed")["feed_dropped_messages"] > 0, "a count")
    assert hub.info("feed")["feed_dropped_messages"] >= oldest - first
    assert hub.info("feed")["feed_conflated_messages"] == 0


def test_a_slow_feed_client_that_chose_so_is_told_why_and_cut_off(
    start_simulator, start_hub, tmp_path
):
    hub = start_narrow(start_simulator, start_hub, tmp_path)
    client = FeedClient(hub.connect(hub.feed_port, **SMALL))
    client.join("*", slow=DISCONNECT)
    patient = FeedClient(hub.connect(hub.feed_port, **SMALL))
    patient.join("*", slow=CONFLATE)
    for one in (client, patient):
        one.until(lambda one=one: one.snapshots == 1 and one.live)

    def is_cut_off():
        for one in (client, patient):
            one.send(HEARTBEAT, 0, session=one.accepted.session)
        return hub.info("feed")["feed_cut_off_clients"] == 1

    # It says that it is there and reads nothing.
    eventually(is_cut_off, "the end of the slow one")

    def beats():
        patient.send(HEARTBEAT, 0, session=patient.accepted.session)

    # Reading all of it may take longer than the other one may be silent.
    with pytest.raises(ConnectionError, match="reason 8: too slow"):
        client.until(beats)

    def has_newest():
        beats()
        return patient.conflated > 0 and patient.snapshots > 1

    patient.until(has_newest)


def test_a_live_key_too_is_conflated_to_its_newest_value(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nconflate-bytes = 65536\n")
    hub = start_hub("--config", path)
    stuck = RespSocket(hub.resp(**SMALL))
    stuck.call("SUBSCRIBE", "live:big")
    writer = hub.redis()

    def written():
        pipeline = writer.pipeline(transaction=False)
        for _ in range(100):
            written.number += 1
            pipeline.set("live:big", b"%d:" % written.number + b"x" * 20_000)
        pipeline.execute()
        return hub.info("topics")["conflated_messages"] > 100

    written.number = 0
    eventually(written, "conflated writes")
    newest = writer.get("live:big")
    previous = 0
    while True:
        payload = stuck.read()[2]
        number = int(payload.partition(b":")[0])
        assert number > previous, "newer with each message"
        previous = number
        if payload == newest:
            break
    assert number == written.number


def test_a_subscriber_to_plain_messages_is_cut_off_at_its_limit(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\npubsub-hard-bytes = 1000000\n")
    hub = start_hub("--config", path)
    good = hub.subscriber("news")
    stuck = RespSocket(hub.resp(**SMALL))
    stuck.call("SUBSCRIBE", "news")
    publisher = hub.redis()
    before = hub.resident_bytes()
    body, count = b"x" * 10_000, 0
    while hub.info("topics")["cut_off_subscribers"] == 0:
        assert publisher.publish("news", body) >= 1
        assert good.data() == body, "the one that reads gets every message"
        count += 1
        assert count < 5000, "50 MB are far above the limit"
    assert hub.info("stats")["client_output_buffer_limit_disconnections"] == 1
    assert is_closed(stuck.socket)
    assert publisher.publish("news", body) == 1
    assert good.data() == body
    assert hub.resident_bytes() - before < 32 << 20


def test_a_soft_limit_counts_only_when_it_lasts(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\npubsub-soft-bytes = 100000\npubsub-soft-seconds = 1\n")
    hub = start_hub("--config", path)
    stuck = RespSocket(hub.resp(**SMALL))
    stuck.call("SUBSCRIBE", "news")
    publisher = hub.redis()
    sent = 0

    def cut_off():
        nonlocal sent
        if sent < 20_000_000:
            for _ in range(20):
                publisher.publish("news", b"x" * 10_000)
            sent += 200_000
        else:
            publisher.publish("news", b"x")
        return hub.info("topics")["cut_off_subscribers"] == 1

    eventually(cut_off, "the end of a second above the soft limit")
    assert hub.redis().config_get("client-output-buffer-limit") == {
        "client-output-buffer-limit":
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 100000 1"
    }


def test_a_slow_zeromq_subscriber_misses_plain_messages_and_they_are_counted(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nzmq-high-water-bytes = 1000000\n")
    hub = start_hub("--config", path)
    stuck = hub.connect(hub.pub_port, **SMALL)
    stuck.sendall(HELLO["pub_port"] + b"\x00\x05\x01news")
    good = hub.sub("news")
    publisher = hub.redis()

    def joined():
        publisher.publish("news", "joined")
        return good.poll(50)

    eventually(joined, "a subscriber that has joined")
    while good.poll(100):
        good.recv_multipart()
    body, count = b"x" * 10_000, 0
    while hub.info("topics")["dropped_messages"] == 0:
        publisher.publish("news", body)
        assert good.recv_multipart() == [b"news", body]
        count += 1
        assert count < 5000
    # It is not cut off: what comes is whole, and goes on when there is room again.
    # All is read, because the kernel tells of room only when there is much of it.
    stuck.settimeout(1)
    try:
        while True:
            assert stuck.recv(1 << 16)
    except TimeoutError:
        pass
    dropped = hub.info("topics")["dropped_messages"]
    publisher.publish("news", "again")
    assert good.recv_multipart() == [b"news", b"again"]
    assert hub.info("topics")["dropped_messages"] == dropped


def test_one_that_stops_reading_costs_the_others_nothing(fast):
    stuck = [fast.resp(**SMALL) for _ in range(10)]
    for one in stuck:
        one.sendall(command("PSUBSCRIBE", "md:*"))
    fallen_behind(fast)
    quick = fast.subscriber("md:RELIANCE")
    begin = time.monotonic()
    order = Order()
    value = quick.json()
    assert value["snapshot"] is True
    order.check(value)
    for _ in range(200):
        value = quick.json()
        assert "snapshot" not in value, "every single update"
        order.check(value)
    assert time.monotonic() - begin < PATIENCE_S
    assert fast.info("feed")["feed_lost_messages"] == 0


def test_a_peer_that_leaves_with_many_subscriptions_is_taken_out_in_parts(start_hub):
    hub = start_hub("--lanes", "1")
    names = [f"channel:{number}" for number in range(20_000)]
    leaving, staying = (RespSocket(hub.resp()) for _ in range(2))
    for kind in ("SUBSCRIBE", "PSUBSCRIBE"):
        leaving.send(kind, *names)
        for _ in names:
            leaving.read()
    staying.send("SUBSCRIBE", *names[:100])
    for _ in range(100):
        staying.read()
    peer = hub.sub(*names)
    client = hub.redis()
    eventually(lambda: client.publish(names[-1], "x") == 2, "they are subscribed")
    peer.recv()
    leaving.socket.shutdown(socket.SHUT_RDWR)
    peer.close()
    # Who comes meanwhile gets every message, and once.
    again = hub.subscriber(names[0])
    client.publish(names[0], "first")
    assert again.data() == b"first"
    assert staying.read() == [b"message", names[0].encode(), b"first"]
    eventually(lambda: hub.info("stats")["pubsub_channels"] == 100, "its channels are taken out")
    eventually(lambda: hub.info("stats")["pubsub_patterns"] == 0, "its patterns are taken out")
    assert client.publish(names[0], "last") == 2
    assert client.publish(names[-1], "nobody") == 0
    assert again.data() == b"last"
