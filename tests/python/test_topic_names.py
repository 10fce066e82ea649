"""Names that carry last values: nothing else may be published or stored under them."""

from operator import itemgetter

import pytest
import redis
import zmq

from feed_client import CONTROL, LIVE, PREFIX, FeedClient, definition, login, quote
from support import eventually


def rejected(hub, reason, count):
    eventually(lambda: hub.info("topics")[f"zmq_rejected_{reason}"] == count, f"a refusal: {reason}")


def test_nobody_forges_a_last_value_by_publish(hub):
    client = hub.redis()
    client.set("live:price", "100")
    hub.push().send_multipart([b"sensor", b"20"])
    eventually(lambda: client.get("sensor") == b"20", "a pushed value")
    for name in ("live:price", "live:unknown", "sensor", "md:X"):
        for give in (
            lambda: client.publish(name, "forged"),
            lambda: client.eval("return redis.call('PUBLISH', KEYS[1], 'forged')", 1, name),
        ):
            with pytest.raises(redis.ResponseError, match="this channel"):
                give()
        with pytest.raises(redis.ResponseError, match="this channel"):
            client.pipeline(transaction=True).publish(name, "forged").execute()
    assert client.publish("plain", "message") == 0
    assert client.pipeline(transaction=True).publish("plain", "1").set("a", "1").execute() == [0, True]
    # A shard channel carries no last values.
    assert client.execute_command("SPUBLISH", "live:price", "message") == 0
    client.delete("sensor")
    assert client.publish("sensor", "plain again") == 0


def test_nobody_forges_a_notification_by_push(hub):
    names = [b"__keyspace@0__:x", b"__keyevent@0__:del", b"__redis__:invalidate"]
    listener = hub.subscriber(*names)
    push = hub.push()
    for name in names:
        push.send_multipart([name, b"forged"])
    push.send_multipart([b"end", b"1"])
    rejected(hub, "reserved", 3)
    eventually(lambda: hub.redis().get("end") == b"1", "a pushed value")
    assert listener.pubsub.get_message(timeout=0.2) is None
    assert hub.redis().dbsize() == 1


def test_no_key_enters_database_0_under_a_mounted_name(hub):
    client, other = hub.redis(), hub.redis(db=1)
    other.set("md:X", "1")
    for words in (
        ("SWAPDB", 0, 1), ("SWAPDB", 1, 0),
    ):
        with pytest.raises(redis.exceptions.ReadOnlyError, match="database 1 holds 'md:X'"):
            client.execute_command(*words)
    for words in (("MOVE", "md:X", 0), ("COPY", "md:X", "md:X", "DB", 0)):
        with pytest.raises(redis.exceptions.ReadOnlyError):
            other.execute_command(*words)
    client.set("a", "1")
    client.geoadd("g", (1, 1, "here"))
    dumped = client.dump("a")
    for words in (
        ("RENAME", "a", "md:X"), ("RENAMENX", "a", "md:X"), ("COPY", "a", "md:X"),
        ("RESTORE", "md:X", 0, dumped), ("SORT", "l", "STORE", "md:X"),
        ("GEORADIUS", "g", 1, 1, 10, "km", "STORE", "md:X"),
        ("GEORADIUS", "g", 1, 1, 10, "km", "STORE", "ok", "STORE", "md:X"),
        ("GEORADIUS", "g", 1, 1, 10, "km", "STOREDIST", "ok", "STORE", "md:X"),
        ("GEOSEARCHSTORE", "md:X", "g", "FROMLONLAT", 1, 1, "BYRADIUS", 10, "km"),
    ):
        with pytest.raises(redis.ResponseError):
            client.execute_command(*words)
    assert client.keys("md:*") == [] and other.get("md:X") == b"1"
    other.delete("md:X")
    assert client.execute_command("SWAPDB", 0, 1)


def test_a_master_s_keys_under_a_mounted_name_are_left_out(start_hub, start_redis):
    master = start_redis("--save", "")
    master.mset({"md:X": "1", "plain": "1"})
    hub = start_hub()
    port = master.connection_pool.connection_kwargs["port"]
    hub.redis().execute_command("REPLICAOF", "127.0.0.1", port)
    eventually(lambda: hub.redis().get("plain") == b"1", "the master's keys")
    assert hub.info("topics")["mounted_keys_left_out"] == 1
    master.set("md:Y", "1")
    one = redis.Redis(port=port, db=1)
    one.mset({"md:Z": "1", "swapped": "1"})
    master.execute_command("SWAPDB", 0, 1)
    eventually(lambda: hub.redis().get("swapped") == b"1", "the other database")
    assert hub.redis().keys("md:*") == []
    assert hub.info("topics")["mounted_keys_left_out"] == 3


def test_a_second_venue_behind_a_first_one_with_a_long_name_is_refused_by_the_first_ones_name(hub):
    """The warning named only the second venue, whose name is short."""
    symbol, clients = "M" * 40, []
    for session, name, bid in [(77, b"V" * 32, 1), (78, b"XB", 2)]:
        client = FeedClient(hub.connect(hub.feed_port))
        clients.append(client)
        client.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1))
        venue = PREFIX.pack(0x32, 0, 0, 0, 0) + name.ljust(32, b"\0")
        client.until(lambda: client.accepted)
        messages = [venue, definition(1, symbol), quote(1, bid, 3, 1, 1, 1)]
        client.send(LIVE, 1, *messages, session=session)
        eventually(lambda: hub.hash(f"md:{symbol}").get("bid"), "the first venue's value")
    eventually(lambda: "no topic for this symbol" in hub.stderr, "the warning")
    line = next(line for line in hub.stderr.splitlines() if "no topic for this symbol" in line)
    assert "first venue has more than 72 bytes" in line and "V" * 32 in line, line
    assert hub.hash(f"md:{symbol}")["venue"] == "V" * 32


def test_a_subscriber_to_the_only_venue_has_its_value_before_the_next_update(hub):
    client = FeedClient(hub.connect(hub.feed_port))
    client.send(CONTROL, 0, login(0, next_sequence=1, session=77, role=1))
    venue = PREFIX.pack(0x32, 0, 0, 0, 0) + b"XNAS".ljust(32, b"\0")
    client.until(lambda: client.accepted)
    client.send(LIVE, 1, venue, definition(1, "ONE"), quote(1, 7, 3, 8, 1, 1), session=77)
    eventually(lambda: hub.hash("md:ONE").get("bid"), "the quote")
    name = b"md:ONE@XNAS"
    heard = lambda one: itemgetter("channel", "data")(one.next())
    listener = hub.subscriber(name)
    peer = hub.zmq(zmq.SUB, [name])
    channel, text = heard(listener)
    assert channel == name and b'"symbol":"ONE@XNAS"' in text and b'"snapshot":true' in text, text
    assert peer.recv_multipart() == [name, text]
    assert hub.redis().keys("md:*") == [b"md:ONE"]
    client.send(LIVE, 4, quote(1, 9, 3, 10, 1, 1), session=77)
    channel, text = heard(listener)
    assert channel == name and b'"snapshot"' not in text, text
    assert peer.recv_multipart() == [name, text]
    assert hub.redis().keys("md:*") == [b"md:ONE"], "it is one topic with two names"
