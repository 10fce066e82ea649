"""Client-side caches, transactions and keyspace notifications at an edge: what clients are told of
live keys and tags of another hub."""

import pytest

from nats_servers import SERVER
from support import Reply, RespSocket, eventually
from test_cluster_tags import owner_of, plant, seen  # noqa: F401
from test_cluster_topics import (  # noqa: F401
    client, fields, get, hub_of, servers, wait_for, wait_for_field,
)
from test_plant_tags import start_plant  # noqa: F401

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")


class Cache:
    """A client of RESP3 that keeps what it reads until it is told."""

    def __init__(self, hub, *mode):
        self.client = RespSocket(hub.resp())
        self.told, self.kept = [], {}
        self.call("HELLO", 3)
        assert self.call("CLIENT", "TRACKING", "ON", *mode) == b"OK"

    def take(self):
        """The next message; names that are invalid are noted."""
        message = self.client.read()
        if isinstance(message, list) and message[:1] == [b"invalidate"]:
            names = list(self.kept) if message[1] is None else message[1]
            self.told.extend(names)
            for name in names:
                self.kept.pop(name, None)
            return None
        return [message]

    def call(self, *words):
        self.client.send(*words)
        while not (reply := self.take()):
            pass
        return reply[0]

    def wait(self, *names):
        """Waits until these names are invalid."""
        while not set(names) <= set(self.told):
            assert self.take() is None
        self.told.clear()

    def get(self, name):
        """The value, out of the cache if it is there."""
        if name not in self.kept:
            # What is told while the reply is awaited is older than the reply.
            value = self.call("GET", name)
            self.kept[name] = value
        return self.kept[name]

    def stale(self, name):
        return self.call("HGETALL", name).get(b"stale")


def owner_and_edge(servers, hub_of):  # noqa: F811
    nats = servers()
    return hub_of("a", nats), hub_of("b", nats, "--lanes", "2", share=())


@pytest.mark.parametrize("mode", [(), ("PREFIX", "live:"), ("NOLOOP",)])
def test_clients_of_a_prefix_were_told_of_no_change_of_another_hubs_key(
    servers, hub_of, mode  # noqa: F811
):
    owner, edge = owner_and_edge(servers, hub_of)
    # On both lanes.
    caches = [Cache(edge, "BCAST", *mode) for _ in range(3)]

    def all_have(value):
        for cache in caches:
            cache.wait(b"live:a")
            assert cache.call("GET", "live:a") == value

    with client(owner) as keys:
        for value in (b"1", b"2"):
            keys.set("live:a", value)
            all_have(value)
        keys.delete("live:a")
        all_have(None)
        keys.rpush("live:a", "x")
        all_have(b'["x"]')
        keys.pexpire("live:a", 10)
        all_have(None)
        keys.set("live:a", "4")
        all_have(b"4")
        keys.flushall()
        all_have(None)


@pytest.mark.parametrize("mode", [(), ("NOLOOP",), ("OPTIN",), ("OPTOUT",)])
def test_a_name_that_was_read_before_its_hub_made_it_was_never_invalidated(
    servers, hub_of, mode  # noqa: F811
):
    owner, edge = owner_and_edge(servers, hub_of)
    caches = [Cache(edge, *mode) for _ in range(3)]

    def read(*words):
        replies = []
        for cache in caches:
            if mode == ("OPTIN",):
                cache.call("CLIENT", "CACHING", "YES")
            replies.append(cache.call(*words))
        assert replies == replies[:1] * 3
        return replies[0]

    def all_hear(*names):
        for cache in caches:
            cache.wait(*names)

    assert read("GET", "live:a") is None and read("EXISTS", "live:b") == 0
    with client(owner) as keys:
        keys.mset({"live:a": "1", "live:b": "1"})
        all_hear(b"live:a", b"live:b")
        # It may be kept until it changes.
        assert read("GET", "live:a") == b"1" and read("EXISTS", "live:b") == 1
        assert all(cache.call("PING") == b"PONG" and not cache.told for cache in caches)
        assert edge.info("stats")["tracking_total_keys"] == 2
        keys.set("live:a", "2")
        all_hear(b"live:a")
        assert read("GET", "live:a") == b"2"
        keys.delete("live:a")
        keys.pexpire("live:b", 10)
        all_hear(b"live:a", b"live:b")
        assert read("GET", "live:a") is None and read("EXISTS", "live:b") == 0
        # What is not remembered is not told.
        if mode in (("OPTIN",), ("OPTOUT",)):
            keys.set("live:a", "3")
            all_hear(b"live:a")
            caches[0].call("CLIENT", "CACHING", "NO" if mode == ("OPTOUT",) else "YES")
            assert caches[0].call("GET", "live:a") == b"3"
            if mode == ("OPTOUT",):
                keys.set("live:a", "4")
                wait_for(edge, "live:a", b"4")
                assert caches[0].call("PING") == b"PONG" and not caches[0].told


def test_an_invalidation_of_another_hubs_key_goes_to_the_client_of_redirect(
    servers, hub_of  # noqa: F811
):
    owner, edge = owner_and_edge(servers, hub_of)
    hears, by_prefix, reads = (RespSocket(edge.resp()) for _ in range(3))
    number = hears.call("CLIENT", "ID")
    assert hears.call("SUBSCRIBE", "__redis__:invalidate")[0] == b"subscribe"
    assert reads.call("CLIENT", "TRACKING", "ON", "REDIRECT", number) == b"OK"
    assert reads.call("GET", "live:a") is None
    with client(owner) as keys:
        keys.set("live:a", "1")
        assert hears.read() == [b"message", b"__redis__:invalidate", [b"live:a"]]
        assert reads.call("CLIENT", "TRACKING", "OFF") == b"OK"
        by_prefix.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "live:", "REDIRECT", number)
        keys.set("live:b", "1")
        assert hears.read() == [b"message", b"__redis__:invalidate", [b"live:b"]]


@pytest.mark.parametrize("mode", [(), ("BCAST",)])
def test_a_cache_kept_what_a_hub_that_came_back_had_no_more(
    servers, hub_of, mode  # noqa: F811
):
    nats = servers()
    owner = hub_of("a", nats)
    with client(owner) as keys:
        keys.mset({"live:x": "1", "live:y": "2", "live:z": "3"})
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:z", b"3")
    cache, names = Cache(edge, *mode), [b"live:x", b"live:y", b"live:z"]
    assert [cache.get(name) for name in names] == [b"1", b"2", b"3"]
    assert [cache.stale(name) for name in names] == [b"0"] * 3
    cache.call("PING")
    cache.told.clear()
    owner.kill()
    # The field `stale` has changed.
    cache.wait(*names)
    assert [cache.stale(name) for name in names] == [b"1"] * 3
    assert [cache.get(name) for name in names] == [b"1", b"2", b"3"]
    again = hub_of("a", nats)
    with client(again) as keys:
        keys.mset({"live:y": "4", "live:z": "3"})

    def agrees():
        cache.call("PING")
        return [cache.get(name) for name in names] == [None, b"4", b"3"]

    eventually(agrees, f"what is cached: {cache.kept}")
    assert [get(edge, name) for name in names] == [None, b"4", b"3"]
    # And none of it was kept with its mark.
    wait_for_field(edge, "live:y", b"stale", b"0")
    eventually(lambda: cache.call("PING") and cache.stale(b"live:y") == b"0", "the mark")


@pytest.mark.parametrize("mode", [(), ("BCAST",)])
def test_a_name_that_was_read_before_the_edge_joined_was_never_invalidated(
    servers, hub_of, mode  # noqa: F811
):
    nats = servers()
    owner = hub_of("a", nats)
    with client(owner) as keys:
        keys.set("live:a", "1")
    before = hub_of("b", nats, share=())
    wait_for(before, "live:a", b"1")
    nats[0].kill()
    edge = hub_of("c", nats, share=())
    cache = Cache(edge, *mode)
    assert cache.get(b"live:a") is None
    nats[0].start()
    cache.wait(b"live:a")
    assert cache.get(b"live:a") == b"1"


def test_a_transaction_fails_if_another_hubs_key_has_changed(servers, hub_of):  # noqa: F811
    owner, edge = owner_and_edge(servers, hub_of)
    one = RespSocket(edge.resp())

    def runs(change=lambda: None):
        one.call("WATCH", "live:a")
        change()
        one.call("MULTI")
        one.call("PING")
        return one.call("EXEC") is not None

    def give(value):
        with client(owner) as keys:
            keys.set("live:a", value) if value else keys.delete("live:a")
        wait_for(edge, "live:a", value)

    def come_and_go():
        give(b"1")
        give(None)

    assert runs()
    assert not runs(come_and_go)
    assert not runs(lambda: give(b"2"))
    assert runs()
    assert not runs(lambda: give(b"3"))
    assert not runs(lambda: give(None))
    assert runs()


def test_a_change_of_another_hubs_key_was_no_keyspace_event(servers, hub_of):  # noqa: F811
    owner, edge = owner_and_edge(servers, hub_of)
    with client(edge) as remote:
        remote.config_set("notify-keyspace-events", "KEAn")
    by_key = edge.subscriber("__keyspace@0__:live:a")
    by_event = edge.subscriber("__keyevent@0__:hset", "__keyevent@0__:del")

    def told(*events):
        assert tuple(by_key.next()["data"] for _ in events) == events
        for event in events:
            if event != b"new":
                message = by_event.next()
                assert message["channel"].endswith(event) and message["data"] == b"live:a"

    with client(owner) as keys:
        keys.set("live:a", "1")
        told(b"new", b"hset")
        keys.set("live:a", "2")
        told(b"hset")
        keys.delete("live:a")
        told(b"del")
        keys.set("live:a", "3")
        told(b"new", b"hset")
        keys.pexpire("live:a", 10)
        told(b"del")


def test_clients_of_an_edge_were_told_of_no_change_of_another_hubs_tag(
    servers, hub_of, plant  # noqa: F811
):
    nats = servers()
    owner_of(hub_of, nats, plant)
    edge = hub_of("b", nats, share=())
    seen(edge)
    name = b"mx:Tank1.Level"
    by_prefix = Cache(edge, "BCAST", "PREFIX", "mx:Tank1.L")
    for _ in range(3):
        by_prefix.wait(name)
    reader = Cache(edge)
    for _ in range(3):
        assert reader.call("GET", name)
        reader.wait(name)


def test_a_write_to_another_hubs_key_is_told_to_the_client_that_wrote_it(
    servers, hub_of  # noqa: F811
):
    nats = servers()
    owner = hub_of("a", nats, extra="writes = 'on'")
    with client(owner) as keys:
        keys.set("live:a", "1")
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:a", b"1")
    cache = Cache(edge, "BCAST", "NOLOOP")

    def written():
        try:
            return cache.call("SET", "live:a", "2") == b"OK"
        except Reply as reply:
            # The owner has just begun, or its streams are not there yet.
            assert str(reply).startswith(("TRYAGAIN", "NOLINK", "READONLY")), reply
            return False

    eventually(written, "a write to the owner")
    cache.wait(b"live:a")
    assert cache.call("GET", "live:a") == b"2"
