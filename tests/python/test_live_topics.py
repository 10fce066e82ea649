"""Market topics as a Redis client sees them: hashes under `md:`, and their stream."""

import json

import pytest
import redis

from support import DETAILS, FIELDS, Order, RespSocket, eventually, free_ports, same_value


def test_a_market_topic_is_a_hash_with_all_its_fields(simulated):
    client = simulated.redis()
    value = {field.decode(): text.decode() for field, text in client.hgetall("md:RELIANCE").items()}
    assert list(value) == [*FIELDS, *DETAILS]
    assert 0 < float(value["bid"]) < float(value["ask"])
    assert float(value["last"]) > 0
    for field in ("bid_size", "ask_size", "last_size", "volume", "seq", "ts", "recv_ts"):
        assert int(value[field]) > 0, field
    assert int(value["recv_ts"]) >= int(value["ts"]), "received before it was sent"
    assert value["stale"] == "0"
    assert abs(float(value["change_pct"])) < 50
    assert client.type("md:RELIANCE") == b"hash"
    assert client.hlen("md:RELIANCE") == len(FIELDS) + len(DETAILS)
    assert client.hget("md:RELIANCE", "stale") == b"0"
    bid, ask, nothing = client.hmget("md:RELIANCE", "bid", "ask", "nothing")
    assert float(bid) < float(ask) and nothing is None


def test_keys_scan_and_exists_see_market_topics_beside_ordinary_keys(simulated):
    client = simulated.redis()
    client.set("mine", "1")
    topics = set(client.keys("md:*"))
    assert len(topics) == 10 and b"md:RELIANCE" in topics
    assert set(client.keys("*")) == topics | {b"mine"}
    scanned = list(client.scan_iter(count=3))
    assert sorted(scanned) == sorted(topics | {b"mine"}), "each once"
    assert set(client.scan_iter(match="md:*", count=3)) == topics
    assert set(client.scan_iter(_type="hash")) == topics
    assert client.exists("md:RELIANCE", "mine", "md:NOBODY") == 2
    assert client.ttl("md:RELIANCE") == -1
    assert client.hgetall("md:NOBODY") == {} and client.type("md:NOBODY") == b"none"


WRITES = [
    ("SET", "md:RELIANCE", "1"),
    ("SET", "md:NEW", "1"),
    ("SETEX", "md:RELIANCE", "10", "1"),
    ("GETSET", "md:RELIANCE", "1"),
    ("GETDEL", "md:RELIANCE"),
    ("APPEND", "md:RELIANCE", "1"),
    ("INCR", "md:RELIANCE"),
    ("INCRBYFLOAT", "md:RELIANCE", "1.5"),
    ("MSET", "mine", "2", "md:RELIANCE", "1"),
    ("HSET", "md:RELIANCE", "bid", "1"),
    ("HSET", "md:NEW", "bid", "1"),
    ("HDEL", "md:RELIANCE", "bid"),
    ("HINCRBY", "md:RELIANCE", "volume", "1"),
    ("DEL", "md:RELIANCE"),
    ("DEL", "mine", "md:RELIANCE"),
    ("UNLINK", "md:RELIANCE"),
    ("EXPIRE", "md:RELIANCE", "10"),
    ("PEXPIREAT", "md:RELIANCE", "1"),
    ("PERSIST", "md:RELIANCE"),
    ("RENAME", "md:RELIANCE", "mine"),
    ("RENAME", "mine", "md:RELIANCE"),
    ("COPY", "mine", "md:RELIANCE"),
    ("PUBLISH", "md:RELIANCE", "false news"),
]


def test_what_the_exchange_says_cannot_be_overwritten(simulated):
    client = RespSocket(simulated.resp())
    client.call("SET", "mine", "kept")
    for write in WRITES:
        client.send(*write)
        reply = client.file.readline()
        assert reply.startswith(b"-READONLY") and b"live" in reply, (write, reply)
    assert client.call("GET", "mine") == b"kept", "a refused command must change nothing"
    assert float(simulated.hash("md:RELIANCE")["bid"]) > 1
    assert client.call("EXISTS", "md:NEW") == 0


def test_flushall_leaves_the_market_alone(simulated):
    client = simulated.redis()
    client.set("mine", "1")
    client.flushall()
    assert client.get("mine") is None
    assert len(client.keys("*")) == 10


def test_a_string_command_on_a_topic_says_that_it_is_a_hash(simulated):
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        simulated.redis().get("md:RELIANCE")


@pytest.mark.parametrize("protocol", [2, 3])
def test_subscribe_gives_the_current_value_first_then_each_update(simulated, protocol):
    subscriber = simulated.subscriber("md:RELIANCE", protocol=protocol)
    first = subscriber.next()
    assert (first["type"], first["channel"]) == ("message", b"md:RELIANCE")
    value = json.loads(first["data"])
    details = list(value)[1 + len(FIELDS) : -1]
    assert list(value) == ["symbol", *FIELDS, *details, "snapshot"]
    assert details[0] == "state" and details == [name for name in DETAILS if name in details]
    assert value["symbol"] == "RELIANCE" and value["snapshot"] is True
    order = Order()
    order.check(value)
    for _ in range(20):
        value = subscriber.json()
        assert value["symbol"] == "RELIANCE" and "snapshot" not in value
        order.check(value)


@pytest.mark.parametrize("protocol", [2, 3])
def test_psubscribe_gives_every_current_value_first(simulated, protocol):
    subscriber = simulated.subscriber(patterns=["md:*"], protocol=protocol)
    orders = {}
    for _ in range(200):
        message = subscriber.next()
        assert (message["type"], message["pattern"]) == ("pmessage", b"md:*")
        value, channel = json.loads(message["data"]), message["channel"]
        assert channel == b"md:" + value["symbol"].encode()
        if channel not in orders:
            assert value["snapshot"] is True, f"the first of {channel} is its current value"
        orders.setdefault(channel, Order()).check(value)
    assert len(orders) == 10


def test_subscriptions_of_both_kinds_each_bring_their_own_message(simulated):
    subscriber = simulated.subscriber("md:TCS", patterns=["md:TC?"])
    kinds = {subscriber.next()["type"] for _ in range(20)}
    assert kinds == {"message", "pmessage"}


def test_nothing_comes_behind_the_confirmation_of_an_unsubscribe(simulated):
    client = RespSocket(simulated.resp())
    client.send("SUBSCRIBE", "md:RELIANCE", "md:TCS")
    client.send("UNSUBSCRIBE", "md:RELIANCE")
    while (message := client.read())[0] != b"unsubscribe":
        pass
    assert message == [b"unsubscribe", b"md:RELIANCE", 1]
    for _ in range(20):
        assert client.read()[1] == b"md:TCS"
    client.send("UNSUBSCRIBE")
    while (message := client.read())[0] != b"unsubscribe":
        pass
    assert message == [b"unsubscribe", b"md:TCS", 0]
    assert client.call("PING") == b"PONG", "an ordinary connection again"
    assert simulated.info("stats")["pubsub_channels"] == 0


def test_a_topic_that_comes_later_reaches_who_subscribed_before(
    start_hub, start_simulator, tmp_path
):
    (tmp_path / "symbols.csv").write_text("name,price,volatility\nLATER,100.00,0.2\n")
    [port] = free_ports(1)
    hub = start_hub("--source", f"127.0.0.1:{port}")
    subscribers = [hub.subscriber("md:LATER"), hub.subscriber(patterns=["md:L*"])]
    sub = hub.sub("md:LATER")
    start_simulator("--rate", "500", "--symbols", tmp_path / "symbols.csv", port=port)
    for subscriber in subscribers:
        assert subscriber.json()["symbol"] == "LATER"
    assert sub.recv_multipart()[0] == b"md:LATER"


def test_a_resp3_client_uses_its_connection_while_subscribed(simulated):
    client = RespSocket(simulated.resp())
    client.call("HELLO", "3")
    client.send("SUBSCRIBE", "md:RELIANCE")
    client.send("HGET", "md:RELIANCE", "stale")
    replies = []
    while b"0" not in replies:
        replies.append(client.read())
    assert [b"subscribe", b"md:RELIANCE", 1] in replies


def test_a_resp2_subscriber_may_only_subscribe(simulated):
    subscriber = simulated.subscriber("md:RELIANCE")
    client = RespSocket(subscriber.pubsub.connection._sock)
    client.send("HGETALL", "md:RELIANCE")
    with pytest.raises(Exception, match="only .*SUBSCRIBE .* are allowed in this context"):
        while True:
            client.read()


def test_the_last_update_is_what_hgetall_says(simulated):
    subscriber = simulated.subscriber(patterns=["md:*"])
    simulated.simulator.stop()
    eventually(lambda: simulated.hash("md:RELIANCE")["stale"] == "1", "the mark of a lost source")
    last = {}
    fields = {name.decode(): simulated.hash(name) for name in simulated.redis().keys("md:*")}
    while len(last) < 10 or not all(same_value(last[name], fields[name]) for name in fields):
        message = subscriber.next()
        last[message["channel"].decode()] = message["data"]
