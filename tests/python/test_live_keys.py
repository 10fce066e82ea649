"""Live keys as their subscribers see them: values, removals, current values and updates."""

import json

import pytest
import zmq

from support import RespSocket, eventually, wait_for_values

GONE = b'{"gone":true}'


def told(subscriber, end=b"live:end"):
    """What a subscriber is told until the topic `end` comes, by topic."""
    messages = []
    while (message := subscriber.next())["channel"] != end:
        messages.append((message["channel"], message["data"]))
    return messages


# How a key disappears: what makes it, and what removes it.
WAYS = [
    ("DEL", [("SET", "live:x", "v")], [("DEL", "live:x")]),
    ("UNLINK", [("SET", "live:x", "v")], [("UNLINK", "live:x")]),
    ("GETDEL", [("SET", "live:x", "v")], [("GETDEL", "live:x")]),
    ("RENAME", [("SET", "live:x", "v")], [("RENAME", "live:x", "away")]),
    ("RENAMENX", [("SET", "live:x", "v")], [("RENAMENX", "live:x", "away")]),
    ("MOVE", [("SET", "live:x", "v")], [("MOVE", "live:x", "1")]),
    ("EXPIRE", [("SET", "live:x", "v")], [("EXPIRE", "live:x", "-1")]),
    ("PEXPIREAT", [("SET", "live:x", "v")], [("PEXPIREAT", "live:x", "1")]),
    ("GETEX", [("SET", "live:x", "v")], [("GETEX", "live:x", "PXAT", "1")]),
    ("TTL", [("SET", "live:x", "v", "PX", "5")], []),
    ("field's TTL", [("HSET", "live:x", "f", "v")], [("HPEXPIRE", "live:x", "5", "FIELDS", "1", "f")]),
    ("HPEXPIREAT", [("HSET", "live:x", "f", "v")], [("HPEXPIREAT", "live:x", "1", "FIELDS", "1", "f")]),
    ("HDEL", [("HSET", "live:x", "f", "v")], [("HDEL", "live:x", "f")]),
    ("HGETDEL", [("HSET", "live:x", "f", "v")], [("HGETDEL", "live:x", "FIELDS", "1", "f")]),
    ("LPOP", [("RPUSH", "live:x", "a")], [("LPOP", "live:x")]),
    ("LMPOP", [("RPUSH", "live:x", "a")], [("LMPOP", "1", "live:x", "LEFT")]),
    ("RPOPLPUSH", [("RPUSH", "live:x", "a")], [("RPOPLPUSH", "live:x", "away")]),
    ("LTRIM", [("RPUSH", "live:x", "a")], [("LTRIM", "live:x", "1", "0")]),
    ("LREM", [("RPUSH", "live:x", "a")], [("LREM", "live:x", "0", "a")]),
    ("SREM", [("SADD", "live:x", "a")], [("SREM", "live:x", "a")]),
    ("SPOP", [("SADD", "live:x", "a")], [("SPOP", "live:x")]),
    ("SMOVE", [("SADD", "live:x", "a")], [("SMOVE", "live:x", "away", "a")]),
    ("ZREM", [("ZADD", "live:x", "1", "a")], [("ZREM", "live:x", "a")]),
    ("ZPOPMAX", [("ZADD", "live:x", "1", "a")], [("ZPOPMAX", "live:x")]),
    ("ZREMRANGEBYSCORE", [("ZADD", "live:x", "1", "a")], [("ZREMRANGEBYSCORE", "live:x", "0", "2")]),
    ("SINTERSTORE", [("SADD", "live:x", "a")], [("SINTERSTORE", "live:x", "none1", "none2")]),
    ("ZRANGESTORE", [("ZADD", "live:x", "1", "a")], [("ZRANGESTORE", "live:x", "none", "0", "1")]),
    ("SORT STORE", [("RPUSH", "live:x", "a")], [("SORT", "none", "STORE", "live:x")]),
    ("BITOP", [("SET", "live:x", "v")], [("BITOP", "AND", "live:x", "none")]),
    ("GEOSEARCHSTORE", [("SET", "live:x", "v")],
     [("GEOSEARCHSTORE", "live:x", "none", "FROMLONLAT", "1", "1", "BYRADIUS", "1", "m")]),
    ("XTRIM", [("XADD", "live:x", "1-1", "f", "v")], [("XTRIM", "live:x", "MAXLEN", "0")]),
    ("XDEL", [("XADD", "live:x", "1-1", "f", "v")], [("XDEL", "live:x", "1-1")]),
    ("SWAPDB", [("SET", "live:x", "v")], [("SWAPDB", "0", "1")]),
    ("FLUSHDB", [("SET", "live:x", "v")], [("FLUSHDB",)]),
    ("FLUSHALL", [("SET", "live:x", "v")], [("FLUSHALL", "ASYNC")]),
    ("EXEC", [("SET", "live:x", "v")], [("MULTI",), ("DEL", "live:x"), ("EXEC",)]),
    ("EVAL", [("SET", "live:x", "v")], [("EVAL", "redis.call('del', KEYS[1])", "1", "live:x")]),
]


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory):
    from support import Hub

    hub = Hub(tmp_path_factory.mktemp("hub"), "--lanes", "2")
    yield hub
    hub.kill()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0])
def test_a_live_key_that_disappears_is_told_on_every_protocol(shared_hub, way):
    _, makes, removes = way
    client = RespSocket(shared_hub.resp())
    client.call("FLUSHALL")
    by_name = shared_hub.subscriber("live:x")
    by_pattern = shared_hub.subscriber(patterns=["live:*"], protocol=3)
    socket = shared_hub.sub("live:x")
    client.call("SET", "live:x", "first")
    by_socket = lambda: socket.recv_multipart()[1]
    for take in [by_name.data, by_pattern.data, by_socket]:
        while take() != b"first":
            pass
    client.call("DEL", "live:x")
    for words in makes + removes:
        client.call(*words)
    # The value, and the removal behind it; the first removal is that of `first`.
    for take in [by_name.data, by_pattern.data, by_socket]:
        assert take() == GONE
        value = take()
        assert value not in (GONE, b"", b"[]", b"{}")
        assert take() == GONE
    for one in [by_name, by_pattern, socket]:
        one.close()


def test_many_keys_that_go_at_once_are_told_one_by_one(start_hub):
    hub = start_hub("--lanes", "2")
    client = hub.redis()
    names = {b"live:%d" % number for number in range(20_000)}
    client.mset({name: b"v" for name in names})
    subscriber = hub.subscriber(patterns=["live:*"])
    socket = hub.sub("live:")
    for _ in names:
        assert subscriber.data() == b"v"
        assert socket.recv_multipart()[1] == b"v"
    client.flushall()
    gone = {subscriber.next()["channel"] for _ in names}
    assert gone == names
    messages = [socket.recv_multipart() for _ in names]
    assert {topic for topic, payload in messages if payload == GONE} == names


def test_an_evicted_key_is_told(start_hub):
    hub = start_hub()
    client = hub.redis()
    client.set("live:old", "v")
    subscriber = hub.subscriber("live:old")
    assert subscriber.data() == b"v"
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("maxmemory", "1")
    assert subscriber.data() == GONE
    client.config_set("maxmemory", "0")


def test_a_value_is_never_taken_for_a_removal(hub):
    client = hub.redis()
    subscriber = hub.subscriber("live:x")
    for spaces in range(3):
        client.set("live:x", GONE + b" " * spaces)
        assert subscriber.data() == GONE + b" " * (spaces + 1)
        assert client.get("live:x") == GONE + b" " * spaces
    client.hset("live:h", "gone", "true")
    late = hub.subscriber("live:h")
    assert late.data() == b'{"gone":"true"}'
    client.delete("live:x")
    assert subscriber.data() == GONE


def test_a_slow_subscriber_learns_the_state_of_each_key_removed_or_not(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nconflate-bytes = 16384\n")
    hub = start_hub("--config", path, "--lanes", "2")
    client = hub.redis()
    slow = RespSocket(hub.resp(receive_buffer_bytes=4096))
    slow.send("PSUBSCRIBE", "live:*")
    assert slow.read()[0] == b"psubscribe"
    expected = {}
    pipeline = client.pipeline(transaction=False)
    # The kernel decides how much it keeps for a peer that does not read: write until the hub has to.
    for turn in range(1_000):
        for number in range(100):
            name = b"live:%d" % number
            value = b"%d-%d" % (turn, number) * 20
            pipeline.set(name, value)
            expected[name] = value
            if (turn + number) % 3 == 0:
                pipeline.delete(name)
                expected[name] = GONE
        pipeline.execute()
        if hub.info("topics")["conflated_messages"] > 0:
            break
    else:
        pytest.fail("the hub conflates nothing for a subscriber that does not read")
    last = {}
    while last != expected:
        _, _, name, payload = slow.read()
        last[name] = payload


def test_a_full_mailbox_loses_no_removal(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nmailbox-bytes-max = 1024\n")
    hub = start_hub("--config", path, "--lanes", "2")
    client = hub.redis()
    names = [b"live:%d" % number for number in range(2_000)]
    client.mset({name: b"v" for name in names})
    subscribers = [hub.subscriber(patterns=["live:*"]) for _ in range(2)]
    for subscriber in subscribers:
        for _ in names:
            assert subscriber.data() == b"v"
    # All news of one command are put into the mailboxes before any lane takes them.
    client.delete(*names)
    for subscriber in subscribers:
        gone = set()
        while len(gone) < len(names):
            message = subscriber.next()
            assert message["data"] == GONE
            gone.add(message["channel"])


def test_current_values_are_told_apart_from_updates_by_who_asks(hub):
    client = hub.redis()
    client.set("live:a", "1")
    marked = hub.subscriber("__snapshot__", "live:a")
    plain = hub.subscriber("live:a")
    socket = hub.sub("__snapshot__")
    socket.subscribe("live:a")
    assert plain.data() == b"1"
    taken = [marked.next() for _ in range(2)]
    assert [(one["channel"], one["data"]) for one in taken] == [
        (b"__snapshot__", b"live:a"), (b"live:a", b"1"),
    ]
    assert socket.recv_multipart() == [b"__snapshot__", b"live:a"]
    assert socket.recv_multipart() == [b"live:a", b"1"]
    client.set("live:a", "2")
    assert plain.data() == b"2"
    assert (message := marked.next())["channel"] == b"live:a" and message["data"] == b"2"
    assert socket.recv_multipart() == [b"live:a", b"2"]
    raw = RespSocket(hub.resp())
    with pytest.raises(Exception, match="reserved"):
        raw.call("PUBLISH", "__snapshot__", "live:a")


def test_text_that_is_no_utf_8_is_told_without_loss(hub):
    client = hub.redis()
    subscriber = hub.subscriber(patterns=["live:*"])
    client.sadd("live:s", b"\xff")
    assert json.loads(subscriber.data()) == ["base64:/w=="]
    client.rpush("live:l", b"\xfe", "base64:x", "plain\u00e9")
    assert json.loads(subscriber.data()) == ["base64:/g==", "base64:YmFzZTY0Ong=", "plain\u00e9"]
    client.hset("live:h", b"\xff\xfe", b"\x80")
    assert json.loads(subscriber.data()) == {"base64://4=": "base64:gA=="}
    client.set("live:t", b"\xff\x00raw")
    assert subscriber.data() == b"\xff\x00raw"


def test_a_stream_publishes_its_newest_entry(hub):
    client = hub.redis()
    subscriber = hub.subscriber("live:s")
    client.xadd("live:s", {"a": "1", "b": b"\xff"}, id="1-1")
    entry = {"id": "1-1", "fields": [["a", "1"], ["b", "base64:/w=="]]}
    assert json.loads(subscriber.data()) == entry
    client.xadd("live:s", {"c": "2"}, id="2-1", maxlen=1)
    entry = {"id": "2-1", "fields": [["c", "2"]]}
    assert json.loads(subscriber.data()) == entry
    assert json.loads(hub.subscriber("live:s").data()) == entry, "a late subscriber"
    asks = hub.zmq(zmq.REQ)
    asks.send_multipart([b"GET", b"live:s"])
    assert json.loads(asks.recv_multipart()[1]) == entry
    client.xtrim("live:s", maxlen=0)
    assert subscriber.data() == GONE


def test_a_change_is_published_once_and_a_ttl_is_no_change(hub):
    client = hub.redis()
    subscriber = hub.subscriber(patterns=["live:*"])
    client.execute_command("HSETEX", "live:h", "EX", "100", "FIELDS", "1", "f", "v")
    client.execute_command("HEXPIRE", "live:h", "200", "FIELDS", "1", "f")
    client.execute_command("HPERSIST", "live:h", "FIELDS", "1", "f")
    client.set("live:x", "1", ex=100)
    client.expire("live:x", 200)
    client.persist("live:x")
    client.getex("live:x", ex=100)
    client.getex("live:x", persist=True)
    client.rpush("live:l", "a", "b")
    client.lmove("live:l", "live:l", "LEFT", "RIGHT")
    client.set("live:end", "1")
    assert told(subscriber) == [
        (b"live:h", b'{"f":"v"}'),
        (b"live:x", b"1"),
        (b"live:l", b'["a","b"]'),
        (b"live:l", b'["b","a"]'),
    ]


@pytest.mark.parametrize("kept", ["save=3600 1", "appendonly=yes"])
def test_a_pushed_topic_is_live_after_a_restart_and_on_a_replica(start_hub, tmp_path, kept):
    folder = tmp_path / "keys"
    folder.mkdir()
    options = ["--set", f"dir={folder}", "--set", kept]
    hub = start_hub(*options)
    replica = start_hub()
    replica.redis().replicaof("127.0.0.1", hub.resp_port)
    push = hub.push()
    push.send_multipart([b"sensor", b"1"])
    eventually(lambda: replica.redis().get("sensor") == b"1", "the value on the replica")
    follower = replica.subscriber("sensor")
    assert follower.data() == b"1", "it is live on the replica"
    hub.redis().set("sensor", "2")
    assert follower.data() == b"2"
    hub.stop()
    hub = start_hub(*options)
    subscriber = hub.subscriber("sensor")
    assert subscriber.data() == b"2", "it is live after the restart"
    hub.redis().set("sensor", "3")
    assert subscriber.data() == b"3"
    # A replica that gets it in a file of all keys knows it as well.
    late = start_hub()
    late.redis().replicaof("127.0.0.1", hub.resp_port)
    eventually(lambda: late.redis().get("sensor") == b"3", "the value on the replica")
    assert late.subscriber("sensor").data() == b"3"


def test_what_a_full_sync_takes_away_is_told(start_hub):
    master = start_hub()
    master.redis().set("live:stays", "1")
    hub = start_hub("--lanes", "2")
    hub.redis().mset({"live:goes": "1", "live:stays": "0"})
    subscriber = hub.subscriber(patterns=["live:*"])
    socket = hub.sub("live:")
    for _ in range(2):
        subscriber.data()
        socket.recv_multipart()
    hub.redis().replicaof("127.0.0.1", master.resp_port)
    while (message := subscriber.next())["channel"] != b"live:goes":
        pass
    assert message["data"] == GONE
    while (message := socket.recv_multipart())[0] != b"live:goes":
        pass
    assert message[1] == GONE


def test_debug_object_shows_a_market_topic(start_simulator, start_hub):
    simulator = start_simulator("--rate", "100", "--symbols", "2")
    hub = start_hub("--source", simulator.source, "--set", "enable-debug-command=yes")
    wait_for_values(hub, 2)
    client = hub.redis()
    text = str(client.execute_command("DEBUG", "OBJECT", client.keys("md:*")[0]))
    assert "encoding" in text and "lru_seconds_idle" in text
    with pytest.raises(Exception, match="no such key"):
        client.execute_command("DEBUG", "OBJECT", "md:NOBODY")
