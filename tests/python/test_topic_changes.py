"""Changes of market topics, seen by clients that look at them as at keys."""

import pytest

from support import RespSocket, eventually, wait_for_values


@pytest.fixture
def traded(start_simulator, start_hub):
    simulator = start_simulator("--rate", "200", "--symbols", "2")
    hub = start_hub("--source", simulator.source, "--lanes", "2")
    hub.simulator = simulator
    wait_for_values(hub, 2)
    hub.name = hub.redis().keys("md:*")[0]
    return hub


def next_tick(hub):
    before = hub.redis().hget(hub.name, "seq")
    eventually(lambda: hub.redis().hget(hub.name, "seq") != before, "a tick")


def test_a_watched_topic_that_ticks_fails_the_transaction(traded):
    client = RespSocket(traded.resp())
    client.call("WATCH", traded.name)
    next_tick(traded)
    client.call("MULTI")
    client.call("SET", "order", "1")
    assert client.call("EXEC") is None
    assert client.call("EXISTS", "order") == 0


def test_a_watched_topic_that_stays_as_it_was_lets_the_transaction_run(traded):
    traded.simulator.stop()
    stale = lambda: traded.redis().hget(traded.name, "stale") == b"1"
    eventually(stale, "the mark of a lost source")
    client = RespSocket(traded.resp())
    client.call("WATCH", traded.name, "md:NOBODY")
    client.call("MULTI")
    client.call("SET", "order", "1")
    assert client.call("EXEC") == [b"OK"]


@pytest.mark.parametrize("options", [("PREFIX", "md:"), ()])
def test_a_client_that_hears_of_all_changes_hears_of_ticks(traded, options):
    client = RespSocket(traded.resp())
    client.call("HELLO", "3")
    client.call("CLIENT", "TRACKING", "ON", "BCAST", *options)
    for _ in range(3):
        word, names = client.read()
        assert word == b"invalidate" and all(name.startswith(b"md:") for name in names)


def test_a_client_that_has_read_a_topic_must_not_keep_it(traded):
    client = RespSocket(traded.resp())
    client.call("HELLO", "3")
    client.call("CLIENT", "TRACKING", "ON")
    client.send("HGETALL", traded.name)
    while (message := client.read()) != [b"invalidate", [traded.name]]:
        assert isinstance(message, dict)


def test_ticks_are_notified_as_changes_of_a_hash(traded):
    early = traded.subscriber(patterns=["__keyspace@0__:md:*"])
    traded.redis().config_set("notify-keyspace-events", "KEA")
    late = traded.subscriber("__keyevent@0__:hset")
    for _ in range(3):
        message = early.next()
        assert message["channel"].startswith(b"__keyspace@0__:md:")
        assert message["data"] == b"hset"
        assert late.next()["data"].startswith(b"md:")
