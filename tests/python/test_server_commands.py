"""The server side of Redis: parameters, passwords, clients, statistics and notifications."""

import socket
from contextlib import nullcontext, suppress

import pytest
import redis

from support import Reply, RespSocket, eventually, is_closed


@pytest.fixture
def two_lanes(start_hub):
    return start_hub("--lanes", "2", "--set", "enable-debug-command=yes")


@pytest.fixture
def locked(hub):
    """A hub with a password, and a client that was there before it."""
    admin = hub.redis(single_connection_client=True)
    admin.config_set("requirepass", "secret")
    yield hub
    admin.config_set("requirepass", "")


def messages(subscriber, count):
    """The next `count` messages, without their types."""
    found = []

    def all_there():
        message = subscriber.get_message(ignore_subscribe_messages=True, timeout=0.01)
        if message:
            found.append((message["channel"], message["data"]))
        return len(found) >= count

    eventually(all_there, f"{count} messages")
    return found


def test_parameters_are_changed_together_or_not_at_all(hub):
    client = hub.redis()
    assert client.execute_command("CONFIG", "SET", "maxmemory", "1gb", "timeout", "300") == b"OK"
    found = client.config_get("maxmemory", "timeout")
    assert found == {"maxmemory": "1073741824", "timeout": "300"}
    for pairs, text in [
        (["timeout", "9", "maxmemory", "lots"], "argument must be a memory value"),
        (["timeout", "9", "timeout", "8"], "duplicate parameter"),
        (["timeout", "9", "databases", "3"], "can't set immutable config"),
        (["timeout", "9", "nothing", "3"], "Unknown option"),
        (["timeout", "9", "appendonly", "maybe"], "argument must be 'yes' or 'no'"),
    ]:
        with pytest.raises(redis.ResponseError, match=text):
            client.execute_command("CONFIG", "SET", *pairs)
        assert client.config_get("timeout") == {"timeout": "300"}


def test_an_old_name_is_the_same_parameter(hub):
    client = hub.redis()
    client.config_set("hash-max-ziplist-entries", 2)
    assert client.config_get("hash-max-listpack-entries") == {"hash-max-listpack-entries": "2"}
    client.hset("small", mapping={"a": 1, "b": 2})
    client.hset("large", mapping={"a": 1, "b": 2, "c": 3})
    encodings = [client.object("encoding", name) for name in ["small", "large"]]
    assert encodings == [b"listpack", b"hashtable"]


def test_nothing_is_told_to_a_client_without_the_password(locked):
    hub = locked
    stranger = RespSocket(hub.resp())
    for words in [["GET", "key"], ["CONFIG", "GET", "requirepass"], ["MULTI"], ["SUBSCRIBE", "a"]]:
        with pytest.raises(Reply, match="NOAUTH Authentication required"):
            stranger.call(*words)
    with pytest.raises(Reply, match="NOAUTH HELLO must be called"):
        stranger.call("HELLO", "3")
    for words in [["AUTH", "Secret"], ["AUTH", "other", "secret"]]:
        with pytest.raises(Reply, match="WRONGPASS"):
            stranger.call(*words)
    assert stranger.call("AUTH", "secret") == b"OK"
    assert stranger.call("GET", "key") is None
    told = RespSocket(hub.resp()).call("HELLO", "3", "AUTH", "default", "secret")
    assert told[b"proto"] == 3
    assert stranger.call("RESET") == b"RESET"
    with pytest.raises(Reply, match="NOAUTH"):
        stranger.call("GET", "key")


def test_a_client_without_the_password_gets_no_memory(locked):
    for begun, text in [
        (b"*100\r\n", "unauthenticated multibulk length"),
        (b"*1\r\n$100000000\r\n", "unauthenticated bulk length"),
    ]:
        one = locked.resp()
        one.sendall(begun)
        with pytest.raises(Reply, match=text):
            RespSocket(one).read()
        assert is_closed(one)


def test_clients_are_listed_and_ended_by_what_they_are(two_lanes):
    admin, other, subscriber = (RespSocket(two_lanes.resp()) for _ in range(3))
    for name, one in [("admin", admin), ("other", other), ("listener", subscriber)]:
        one.call("CLIENT", "SETNAME", name)
    subscriber.call("SUBSCRIBE", "news")
    other.call("MULTI")
    listed = admin.call("CLIENT", "LIST").decode()
    flags = {line.split(" name=")[1].split()[0]: line.split(" flags=")[1].split()[0]
             for line in listed.splitlines() if " name= " not in line}
    assert flags == {"admin": "N", "other": "x", "listener": "P"}
    assert admin.call("CLIENT", "KILL", "TYPE", "pubsub") == 1
    assert is_closed(subscriber.socket)
    listed = admin.call("CLIENT", "LIST", "TYPE", "normal").decode()
    identity = next(line.split()[0][3:] for line in listed.splitlines() if "name=other" in line)
    assert admin.call("CLIENT", "KILL", "ID", identity, "MAXAGE", "100000") == 0
    assert admin.call("CLIENT", "KILL", "ID", identity, "SKIPME", "yes") == 1
    assert is_closed(other.socket)
    with pytest.raises(Reply, match="No such client"):
        admin.call("CLIENT", "KILL", "1.2.3.4:5")
    with pytest.raises(Reply, match="maxage should be greater than 0"):
        admin.call("CLIENT", "KILL", "MAXAGE", "0")


def test_idle_clients_are_ended(hub):
    idle = hub.resp()
    subscriber = RespSocket(hub.resp())
    subscriber.call("SUBSCRIBE", "news")
    hub.redis().config_set("timeout", 1)
    eventually(lambda: is_closed(idle), "the end of an idle connection")
    hub.redis().config_set("timeout", 0)
    hub.redis().publish("news", "still there")
    assert subscriber.read() == [b"message", b"news", b"still there"]


def test_notifications_come_in_the_order_of_what_happened(two_lanes):
    client = two_lanes.redis()
    client.config_set("notify-keyspace-events", "KEA")
    assert client.config_get("notify-keyspace-events") == {"notify-keyspace-events": "AKE"}
    subscriber = two_lanes.redis().pubsub()
    subscriber.psubscribe("__key*__:*")
    eventually(lambda: client.pubsub_numpat() == 1, "the subscription")
    client.rpush("list", "a")
    client.lpop("list")
    assert messages(subscriber, 6) == [
        (b"__keyspace@0__:list", b"rpush"), (b"__keyevent@0__:rpush", b"list"),
        (b"__keyspace@0__:list", b"lpop"), (b"__keyevent@0__:lpop", b"list"),
        (b"__keyspace@0__:list", b"del"), (b"__keyevent@0__:del", b"list"),
    ]
    client.config_set("notify-keyspace-events", "Kx")
    client.set("brief", "1", px=20)
    assert messages(subscriber, 1) == [(b"__keyspace@0__:brief", b"expired")]
    client.config_set("notify-keyspace-events", "")
    client.set("quiet", "1")
    assert subscriber.get_message(timeout=0.1) is None


def test_reads_within_writing_commands_are_counted_once_and_missing_keys_are_told(two_lanes):
    client = two_lanes.redis()
    client.config_set("notify-keyspace-events", "Em")
    subscriber = two_lanes.redis().pubsub()
    subscriber.psubscribe("__keyevent@0__:*")
    eventually(lambda: client.pubsub_numpat() == 1, "the subscription")
    # As Redis 8.0.6 counts and tells.
    twice = {"SINTERSTORE d m n", "ZDIFFSTORE d 2 m n", "BITOP AND d m n", "PFMERGE m n"}
    once = {
        "GETEX m", "GETDEL m", "BITFIELD m GET u8 0", "HRANDFIELD m", "HRANDFIELD m 2", "SSCAN m 0",
        "ZRANGESTORE d m 0 1", "GEOSEARCH m FROMLONLAT 1 1 BYRADIUS 1 m", "GEORADIUS m 1 1 1 m",
        "SORT m", "SORT m STORE d", "SET m x GET", "GETSET m x", "XACK m g 1-1", "SUNIONSTORE d m",
        "GEOSEARCHSTORE d m FROMLONLAT 1 1 BYRADIUS 1 m", "COPY m n", "XINFO STREAM m",
        "XCLAIM m g c 0 1-1", "XAUTOCLAIM m g c 0 0",
    }
    counted = {"OBJECT ENCODING m": 1, "MEMORY USAGE m": 0, "APPEND m x": 0, "HSET m f v": 0}
    for command in sorted(once | twice | counted.keys()):
        client.flushall()
        client.config_resetstat()
        with suppress(redis.ResponseError):
            client.execute_command(*command.split())
        told = 2 * (command in twice) + (command in once)
        assert client.info("stats")["keyspace_misses"] == counted.get(command, told), command
        client.publish("__keyevent@0__:end", command)
        names = [name for name, _ in messages(subscriber, told + 1)]
        assert names == [b"__keyevent@0__:keymiss"] * told + [b"__keyevent@0__:end"], command
    found = {"GETEX s": "SET s v", "SET s x GET": "SET s v", "SSCAN t 0": "SADD t a",
             "HSCAN h 0": "HSET h f v", "ZSCAN z 0": "ZADD z 1 a", "COPY s n": "SET s v",
             "HRANDFIELD h": "HSET h f v", "XINFO STREAM x": "XADD x * f v"}
    for command, before in found.items():
        client.flushall()
        client.execute_command(*before.split())
        client.config_resetstat()
        client.execute_command(*command.split())
        assert client.info("stats")["keyspace_hits"] == 1, command


def test_shard_channels_are_names_of_their_own(two_lanes):
    sharded, plain, publisher = (RespSocket(two_lanes.resp()) for _ in range(3))
    assert sharded.call("SSUBSCRIBE", "news") == [b"ssubscribe", b"news", 1]
    assert plain.call("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
    assert publisher.call("SPUBLISH", "news", "first") == 1
    assert sharded.read() == [b"smessage", b"news", b"first"]
    assert publisher.call("PUBLISH", "news", "second") == 1
    assert plain.read() == [b"message", b"news", b"second"]
    assert publisher.call("PUBSUB", "SHARDCHANNELS") == [b"news"]
    assert publisher.call("PUBSUB", "SHARDNUMSUB", "news", "none") == [b"news", 1, b"none", 0]
    with pytest.raises(Reply, match="only .P.S.SUBSCRIBE"):
        sharded.call("GET", "key")
    assert sharded.call("SUNSUBSCRIBE") == [b"sunsubscribe", b"news", 0]
    assert publisher.call("SPUBLISH", "news", "third") == 0


def test_commands_and_errors_are_counted(two_lanes):
    clients = [two_lanes.redis() for _ in range(4)]
    clients[0].execute_command("CONFIG", "RESETSTAT")
    for client in clients:
        client.set("text", "x")
        with pytest.raises(redis.ResponseError):
            client.incr("text")
        with pytest.raises(redis.ResponseError):
            client.execute_command("GET")
    client.get("text")
    client.get("nothing")
    info = client.info("everything")
    assert info["cmdstat_set"]["calls"] == 4
    assert info["cmdstat_incrby"]["calls"] == info["cmdstat_incrby"]["failed_calls"] == 4
    assert info["cmdstat_get"]["calls"] == 2 and info["cmdstat_get"]["rejected_calls"] == 4
    assert info["errorstat_ERR"]["count"] == 8 == info["total_error_replies"]
    assert info["keyspace_hits"] == 1 and info["keyspace_misses"] == 1
    assert "p99" in info["latency_percentiles_usec_set"]
    assert "cmdstat_set" not in client.info()


def test_digests_are_those_of_the_data(two_lanes):
    client = two_lanes.redis()
    empty = client.execute_command("DEBUG", "DIGEST")
    assert empty == b"0" * 40
    client.sadd("set", "a", "b")
    client.hset("hash", mapping={"a": 1, "b": 2})
    first = client.execute_command("DEBUG", "DIGEST")
    client.delete("set", "hash")
    client.hset("hash", mapping={"b": 2, "a": 1})
    client.sadd("set", "b", "a")
    assert client.execute_command("DEBUG", "DIGEST") == first
    client.set("text", "hello")
    # What Redis 8 says of the same string.
    value = client.execute_command("DEBUG", "DIGEST-VALUE", "text")
    assert value == [b"36b23a1456b2dce2c3ed252c456761301dba8060"]


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "-1", "-inf", "x", "9.3e12"])
def test_debug_sleep_of_no_time_that_ends_returns_at_once(start_hub, seconds):
    client = start_hub("--set", "enable-debug-command=yes").redis()
    assert client.execute_command("DEBUG", "SLEEP", seconds) == b"OK"
    assert client.ping()


def test_debug_is_refused_unless_allowed(hub):
    with pytest.raises(redis.ResponseError, match="DEBUG command not allowed"):
        hub.redis().execute_command("DEBUG", "SLEEP", "0")


def test_what_commands_take_is_told_as_redis_tells_it(hub, start_redis):
    def told(client):
        """The arguments of each command by full name, without what tells their history."""
        found = {}

        def text(value):
            return value.decode() if isinstance(value, bytes) else value

        def one(argument):
            fields = {text(name): text(value) for name, value in argument.items()}
            for name in ("summary", "since", "deprecated_since"):
                fields.pop(name, None)
            if "flags" in fields:
                fields["flags"] = sorted(map(text, fields["flags"]))
            if "arguments" in fields:
                fields["arguments"] = [one(part) for part in fields["arguments"]]
            return fields

        def note(commands):
            for name, document in commands.items():
                if b"arguments" in document and b"module" not in document:
                    found[text(name)] = [one(part) for part in document[b"arguments"]]
                note(document.get(b"subcommands", {}))

        note(client.call("COMMAND", "DOCS"))
        return found

    port = start_redis("--save", "").connection_pool.connection_kwargs["port"]
    other = socket.create_connection(("127.0.0.1", port))
    ours, theirs = (RespSocket(one) for one in (hub.resp(), other))
    for client in (ours, theirs):
        client.call("HELLO", 3)
    expected = told(theirs)
    expected.pop("failover")
    found = told(ours)
    assert len(expected) > 270
    assert {name: found.get(name) for name in expected} == expected


def test_a_killed_connection_to_the_master_is_made_anew_and_goes_on_where_it_was(start_hub):
    master, replica = start_hub(), start_hub()
    for words in (("TYPE", "master"), (f"127.0.0.1:{master.resp_port}",)):
        with pytest.raises(redis.ResponseError) if len(words) == 1 else nullcontext():
            assert replica.redis().execute_command("CLIENT", "KILL", *words) == 0
    replica.redis().replicaof("127.0.0.1", master.resp_port)
    eventually(lambda: replica.info("replication")["master_link_status"] == "up", "the link")
    for count, words in enumerate((("TYPE", "master"), (f"127.0.0.1:{master.resp_port}",)), 1):
        master.redis().set("key", count)
        replica.redis().execute_command("CLIENT", "KILL", *words)
        eventually(lambda: master.info("stats")["sync_partial_ok"] == count, "it goes on")
        master.redis().set("other", count)
        eventually(lambda: replica.redis().get("other") == b"%d" % count, "the stream")
    assert master.info("stats")["sync_full"] == 1


def test_a_client_is_told_of_with_the_fields_that_redis_8_0_has(hub):
    line = hub.redis().execute_command("CLIENT INFO")
    line = line if isinstance(line, dict) else dict(
        word.split("=", 1) for word in line.decode().split()
    )
    assert list(line) == (
        "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem "
        "multi-mem rbs rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver "
        "io-thread"
    ).split()


def test_a_pattern_of_command_names_is_in_any_case(hub):
    def listed(pattern):
        return hub.redis().execute_command("COMMAND LIST", "FILTERBY", "PATTERN", pattern)

    assert listed("HGET*") == listed("hget*") and b"hgetall" in listed("hGeT*")


def test_a_cluster_that_is_asked_for_is_refused_at_the_start(start):
    program = start("serve", "--resp", "127.0.0.1:0", "--", "--cluster-enabled", "yes")
    assert program.wait() == 2
    assert "cluster-enabled" in program.stderr


def test_many_watched_keys_are_each_watched_once(hub):
    client, other = hub.redis(), hub.redis()
    names = [f"key:{at}" for at in range(80_000)]
    with client.pipeline(transaction=True) as pipeline:
        pipeline.watch(*names)
        pipeline.watch(*names[:10])
        assert hub.redis().info("clients")["total_watched_keys"] == 80_000
        other.set("key:79999", "changed")
        pipeline.multi()
        pipeline.get("key:1")
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    assert hub.redis().info("clients")["total_watched_keys"] == 0


@pytest.mark.parametrize("command", ["SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER"])
def test_a_count_that_one_reply_cannot_hold_is_refused_and_never_cut(hub, command):
    client = hub.redis()
    client.sadd("SRANDMEMBER", "a")
    client.hset("HRANDFIELD", "a", 1)
    client.zadd("ZRANDMEMBER", {"a": 1})
    with pytest.raises(redis.ResponseError, match="-20000000 is out of range"):
        client.execute_command(command, command, -20_000_000)
    assert len(client.execute_command(command, command, -70_000)) == 70_000


def test_digests_of_scores_are_those_of_redis(start_hub, start_redis):
    hub = start_hub("--set", "enable-debug-command=yes").redis()
    real = start_redis()
    scores = [100_000_000, 1_700_000_000_000, 1e16, 1e21, 0.1, 1e-7, 123456789012, 3, float("inf")]
    for client in (hub, real):
        client.zadd("few", {f"m{at}": score for at, score in enumerate(scores)})
        client.zadd("many", {f"m{at}": at * 1e8 for at in range(300)})
    for key in ("few", "many"):
        digest = [one.execute_command("DEBUG", "DIGEST-VALUE", key) for one in (hub, real)]
        assert digest[0] == digest[1], key
    assert hub.execute_command("DEBUG", "DIGEST") == real.execute_command("DEBUG", "DIGEST")
