"""Live keys across hubs over NATS: `share` in the file of --cluster."""

import contextlib
import os
import struct

import pytest
import redis
import zmq

from nats_servers import (
    SERVER, NatsServer, cluster_file, figures, go_on, pause, three_servers,
)
from support import eventually, free_ports
from write_requests import Requests, crc32c

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")


@pytest.fixture
def servers(tmp_path):
    """Starts NATS servers; what still runs is killed at the end."""
    started = []

    def start(count=1):
        made = three_servers(tmp_path) if count == 3 else [NatsServer(tmp_path, *free_ports(1))]
        started.extend(made)
        return made

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def hub_of(tmp_path, start_hub):
    """Starts a hub of the cluster."""
    def start(name, nats, *options, share=("live:*",), extra="", **settings):
        lines = f"share = {list(share)}\n{extra}"
        place = cluster_file(tmp_path, name, nats, extra=lines, **settings)
        return start_hub("--cluster", place, *options)

    return start


@contextlib.contextmanager
def client(hub):
    with hub.redis(decode_responses=False) as connection:
        yield connection


def get(hub, name):
    with client(hub) as connection:
        return connection.get(name)


def wait_for(hub, name, value):
    eventually(lambda: get(hub, name) == value,
               f"{name} is {value!r}: {get(hub, name)!r}, {hub.info('cluster')}")


def fields(hub, name):
    with client(hub) as connection:
        return connection.hgetall(name)


def wait_for_field(hub, name, field, value):
    eventually(lambda: fields(hub, name).get(field) == value,
               f"{field} of {name}: {fields(hub, name)}, {hub.info('cluster')}")


def test_an_edge_has_keys_that_exist_and_their_changes(servers, hub_of):
    nats = servers()
    owner = hub_of("a", nats)
    with client(owner) as keys:
        keys.set("live:mode", "auto")
        keys.set("live:odd \xff\n", b"\x00\xff\r\n")
        keys.set("other", "stays")
        edge = hub_of("b", nats, share=())
        wait_for(edge, "live:mode", b"auto")
        assert get(edge, "live:odd \xff\n") == b"\x00\xff\r\n"
        keys.set("live:mode", "manual")
        wait_for(edge, "live:mode", b"manual")
        keys.set("live:new", "")
        wait_for(edge, "live:new", b"")
        keys.delete("live:mode")
        wait_for(edge, "live:mode", None)
    with client(edge) as remote:
        assert sorted(remote.keys("live:*")) == sorted(["live:odd \xff\n".encode(), b"live:new"])
        assert sorted(remote.scan_iter("live:*")) == sorted(remote.keys("live:*"))
        assert remote.exists("live:new") == 1 and remote.exists("live:mode", "other") == 0
        assert remote.dbsize() == 2
        found = remote.hgetall("live:new")
        assert (found[b"hub"], found[b"stale"], found[b"value"]) == (b"a", b"0", b"")
        assert remote.ttl("live:new") == -1


def test_subscribers_of_an_edge_get_value_change_and_removal(servers, hub_of):
    nats = servers()
    owner, edge = hub_of("a", nats), None
    with client(owner) as keys:
        keys.set("live:mode", "auto")
        edge = hub_of("b", nats, share=())
        wait_for(edge, "live:mode", b"auto")
        with client(edge) as remote, zmq.Context() as context:
            by_name, by_pattern = remote.pubsub(), remote.pubsub()
            by_name.subscribe("live:mode")
            by_pattern.psubscribe("live:*")
            socket = context.socket(zmq.SUB)
            socket.linger = 0
            socket.rcvtimeo = 10_000
            socket.subscribe(b"live:")
            socket.connect(f"tcp://127.0.0.1:{edge.pub_port}")

            def next_of(subscriber):
                while True:
                    message = subscriber.get_message(timeout=10)
                    assert message, "no message came"
                    if message["type"] in ("message", "pmessage"):
                        return message["data"]

            def all_get(value):
                assert next_of(by_name) == value
                assert next_of(by_pattern) == value
                assert socket.recv_multipart() == [b"live:mode", value]

            all_get(b"auto")
            keys.set("live:mode", "manual")
            all_get(b"manual")
            keys.delete("live:mode")
            all_get(b'{"gone":true}')
            keys.set("live:mode", '{"gone":true}')
            all_get(b'{"gone":true} ')
            assert remote.get("live:mode") == b'{"gone":true}'
            by_name.close()
            by_pattern.close()
            socket.close()


def test_a_key_that_expires_at_its_hub_is_gone_at_the_edge(servers, hub_of):
    nats = servers()
    owner, edge = hub_of("a", nats), hub_of("b", nats, share=())
    with client(owner) as keys:
        keys.set("live:short", "1")
        wait_for(edge, "live:short", b"1")
        keys.pexpire("live:short", 100)
        wait_for(edge, "live:short", None)
        # And what is not a string comes as its subscribers get it.
        keys.hset("live:hash", mapping={"a": "1"})
        keys.rpush("live:list", "x", "y")
        wait_for(edge, "live:hash", b'{"a":"1"}')
        wait_for(edge, "live:list", b'["x","y"]')
        keys.rename("live:hash", "live:renamed")
        wait_for(edge, "live:hash", None)
        wait_for(edge, "live:renamed", b'{"a":"1"}')
        keys.flushall()
        wait_for(edge, "live:renamed", None)
        wait_for(edge, "live:list", None)


def test_long_values_come_whole_and_too_long_ones_not_at_all(servers, hub_of):
    nats = servers()
    owner = hub_of("a", nats)
    values = {f"live:long{number}": os.urandom(1 << 20) for number in range(4)}
    with client(owner) as keys:
        for name, value in values.items():
            keys.set(name, value)
        edge = hub_of("b", nats, share=())
        for name, value in values.items():
            wait_for(edge, name, value)
        keys.set("live:long0", values["live:long1"])
        wait_for(edge, "live:long0", values["live:long1"])
        # No old value in place of one that cannot travel.
        keys.set("live:long0", b"x" * ((1 << 20) + 100))
        wait_for(edge, "live:long0", None)


def test_each_hub_gives_its_own_keys_and_none_gives_anothers(servers, hub_of):
    nats = servers()
    hubs = {name: hub_of(name, nats) for name in "abc"}
    for name, hub in hubs.items():
        with client(hub) as keys:
            keys.set(f"live:{name}", name)
    for hub in hubs.values():
        for name in hubs:
            wait_for(hub, f"live:{name}", name.encode())
    with client(hubs["a"]) as keys:
        keys.delete("live:a")
    for hub in hubs.values():
        wait_for(hub, "live:a", None)
    # What another hub owns cannot be changed here, as that one takes no writes.
    with client(hubs["c"]) as keys:
        for command in [("DEL", "live:b"), ("APPEND", "live:b", "x"), ("EXPIRE", "live:b", "9"),
                        ("RENAME", "live:c", "live:b"), ("SET", "live:b", "x", "EX", "9")]:
            with pytest.raises(redis.ReadOnlyError, match="hub 'b' takes no|belongs to hub 'b'"):
                keys.execute_command(*command)
        with pytest.raises(redis.ReadOnlyError):
            keys.publish("live:b", "x")
    for hub in hubs.values():
        wait_for(hub, "live:b", b"b")


def test_a_key_of_the_hub_itself_comes_before_that_of_another(servers, hub_of):
    nats = servers()
    # Both have the key before they hear of each other.
    nats[0].kill()
    first, second = hub_of("a", nats), hub_of("b", nats)
    for hub, value in [(first, "of a"), (second, "of b")]:
        with client(hub) as keys:
            keys.set("live:x", value)
    nats[0].start()
    edge = hub_of("c", nats, share=())
    # At a third hub the name of the hub decides.
    wait_for(edge, "live:x", b"of a")
    wait_for_field(edge, "live:x", b"hub", b"a")
    assert (get(first, "live:x"), get(second, "live:x")) == (b"of a", b"of b")
    # When its own key is gone, a hub shows that of the other.
    with client(second) as keys:
        keys.delete("live:x")
    wait_for(second, "live:x", b"of a")
    with client(first) as keys:
        keys.delete("live:x")
    for hub in (first, second, edge):
        wait_for(hub, "live:x", None)


def test_a_hub_that_is_heard_comes_before_one_that_is_not(servers, hub_of):
    nats = servers()
    nats[0].kill()
    first, second = hub_of("a", nats), hub_of("b", nats)
    for hub, value in [(first, "of a"), (second, "of b")]:
        with client(hub) as keys:
            keys.set("live:x", value)
            keys.set(f"live:{value[-1]}", value)
    nats[0].start()
    edge = hub_of("c", nats, share=())
    wait_for(edge, "live:x", b"of a")
    pause(first)
    wait_for(edge, "live:x", b"of b")
    # What only the silent hub has stays, and is marked.
    wait_for_field(edge, "live:a", b"stale", b"1")
    assert get(edge, "live:a") == b"of a"
    go_on(first)
    wait_for(edge, "live:x", b"of a")
    wait_for_field(edge, "live:a", b"stale", b"0")


def test_a_hub_that_comes_back_without_a_key_takes_it_away(servers, hub_of):
    nats = servers()
    owner = hub_of("a", nats)
    with client(owner) as keys:
        keys.set("live:x", "1")
        keys.set("live:y", "2")
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:x", b"1")
    owner.kill()
    wait_for_field(edge, "live:x", b"stale", b"1")
    again = hub_of("a", nats)
    with client(again) as keys:
        keys.set("live:y", "3")
    wait_for(edge, "live:y", b"3")
    wait_for(edge, "live:x", None)
    wait_for_field(edge, "live:y", b"stale", b"0")


def test_a_deletion_while_the_edge_hears_nothing_is_seen_when_it_does(servers, hub_of):
    nats = servers()
    owner, edge = hub_of("a", nats), hub_of("b", nats, share=())
    with client(owner) as keys:
        for number in range(300):
            keys.set(f"live:{number}", number)
        wait_for(edge, "live:299", b"299")
        pause(edge)
        keys.delete(*(f"live:{number}" for number in range(0, 300, 2)))
        keys.set("live:1", "changed")
        go_on(edge)
        wait_for(edge, "live:1", b"changed")
        # The same while NATS is away.
        nats[0].kill()
        keys.delete("live:3")
        keys.set("live:5", "changed")
        nats[0].start()
        wait_for(edge, "live:5", b"changed")
    wait_for(edge, "live:3", None)
    with client(edge) as remote:
        assert remote.dbsize() == 149
        assert len(remote.keys("live:*")) == 149


def test_only_shared_names_leave_a_hub_and_only_wanted_hubs_are_received(servers, hub_of):
    nats = servers()
    owner = hub_of("a", nats, share=["live:out:*"])
    hub_of("b", nats)
    # Another name might be another hub's before.
    eventually(lambda: (figures(owner, "cluster_topics_received") or {}).get("joined") == "1",
               "the hub has joined")
    with client(owner) as keys:
        keys.set("live:in:x", "1")
        keys.set("live:out:x", "2")
    edge = hub_of("c", nats, share=(), extra="receive-hubs = ['a*']")
    wait_for(edge, "live:out:x", b"2")
    with client(edge) as remote:
        assert remote.keys("live:*") == [b"live:out:x"]
    eventually(lambda: (figures(edge, "cluster_topics_hub0") or {}).get("name") == "a",
               "the hub is in INFO")
    assert figures(edge, "cluster_topics_hub1") is None


def test_keys_that_are_loaded_stay_the_hubs_own(servers, hub_of, tmp_path):
    nats = servers()
    folder = tmp_path / "data"
    folder.mkdir()
    files = ("--", "--dir", folder, "--appendonly", "yes")
    first = hub_of("a", nats, *files)
    with client(first) as keys:
        keys.set("live:x", "of a")
        keys.set("live:y", "of a")
    first.kill()
    second = hub_of("b", nats)
    with client(second) as keys:
        eventually(lambda: "cluster_topics" in second.info("cluster"), "it takes part")
        keys.set("live:z", "of b")
    again = hub_of("a", nats, *files)
    wait_for(again, "live:z", b"of b")
    assert (get(again, "live:x"), get(again, "live:y")) == (b"of a", b"of a")
    wait_for(second, "live:x", b"of a")
    # Keys of other hubs are in no file of this one.
    again.kill()
    nats[0].kill()
    alone = hub_of("a", nats, *files)
    with client(alone) as keys:
        eventually(lambda: sorted(keys.keys("*")) == [b"live:x", b"live:y"], "only its own keys")


def test_keys_go_on_when_the_leader_of_the_log_is_killed(servers, hub_of):
    nats = servers(3)
    owner = hub_of("a", nats, replicas=3)
    edge = hub_of("b", nats, share=(), replicas=3)
    with client(owner) as keys:
        for round_, server in enumerate(nats):
            keys.set("live:x", f"before {round_}")
            wait_for(edge, "live:x", f"before {round_}".encode())
            server.kill()
            keys.set("live:x", f"after {round_}")
            wait_for(edge, "live:x", f"after {round_}".encode())
            server.start()
            eventually(lambda: figures(owner, "cluster_topics")["log_lag"] == "0"
                       and figures(owner, "cluster_topics")["unacknowledged"] == "0",
                       f"the log is whole: {owner.info('cluster')}")


def test_a_hub_whose_link_is_down_says_that_it_owns_its_topics_no_more(servers, hub_of):
    (nats,) = servers()
    owner = hub_of("a", [nats])

    def is_owner():
        return (figures(owner, "cluster_topics") or {}).get("owner")

    eventually(lambda: is_owner() == "1", "it has its lease")
    nats.kill()
    eventually(lambda: is_owner() == "0", f"the lease is over: {owner.info('cluster')}")
    nats.start()
    eventually(lambda: is_owner() == "1", "it has its lease again")


def test_a_key_was_not_stale_between_a_new_reign_and_its_values(servers, hub_of):
    nats = servers()
    owner, edge = hub_of("a", nats), hub_of("b", nats, share=())
    with client(owner) as keys:
        keys.set("live:mode", "auto")
        keys.set("live:gone", "x")
    for name, value in (("live:mode", b"auto"), ("live:gone", b"x")):
        wait_for(edge, name, value)
        wait_for_field(edge, name, b"stale", b"0")
    epoch = eventually(lambda: int(figures(owner, "cluster_topics")["epoch"]), "INFO has its reign")
    owner.kill()
    wait_for_field(edge, "live:mode", b"stale", b"1")
    # The first frame of the next reign: a heartbeat. Nothing else of it is there.
    def frame(checksum):
        return struct.pack("<HBBIQ6sHII", 0x4354, 1, 4, checksum, 1,
                           (epoch + 1).to_bytes(6, "little"), 1, 7, 0)

    seen = []
    with Requests(nats[0].port) as connection:
        def stale():
            connection.send("tw.tests.live.@a.1", frame(crc32c(frame(0))), reply="")
            found = fields(edge, "live:mode")
            assert found[b"value"] == b"auto"
            seen.append(found[b"stale"])
            return seen[-1]

        eventually(lambda: stale() == b"2", "its value is in doubt")
    assert set(seen) <= {b"1", b"2"}
    # The hub itself, with other keys.
    again = hub_of("a", nats)
    with client(again) as keys:
        keys.set("live:mode", "manual")
    wait_for(edge, "live:mode", b"manual")
    wait_for_field(edge, "live:mode", b"stale", b"0")
    eventually(lambda: not fields(edge, "live:gone"), "the other key is gone")
