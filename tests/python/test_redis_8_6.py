"""Commands that Redis 8.2 to 8.6 added: replies in both protocols, files, replicas and waits.

The expected replies are recorded ones of Redis 8.6.3 (`redis_8_6_replies.py`). With a Redis 8.6 as
`REDIS_SERVER`, files and streams are exchanged with it as well.
"""

import re
import shlex
import socket

import pytest

from redis_8_6_replies import REPLIES
from support import RespSocket, eventually

# Ids that a server made at this time, and how long an entry was idle.
MADE_ID = re.compile(rb"\$(\d+)\r\n1[6-9]\d{11}-(\d+)\r\n")
IDLE = re.compile(r"(\$3\|1-\d\|\*2\|\$1\|a\|\$1\|\d\|):\d+\|")


class Wire:
    """A connection that gives replies as they come."""

    def __init__(self, port, protocol):
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.lines = self.socket.makefile("rb")
        self.call("HELLO", str(protocol))

    def call(self, *words):
        request = [b"*%d\r\n" % len(words)]
        for word in words:
            request.append(b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()))
        self.socket.sendall(b"".join(request))
        return self._reply()

    def _reply(self):
        line = self.lines.readline()
        kind, rest = line[:1], line[1:]
        if kind == b"$" and int(rest) >= 0:
            return line + self.lines.read(int(rest) + 2)
        if kind in b"*~%" and int(rest) > 0:
            count = int(rest) * (2 if kind == b"%" else 1)
            return line + b"".join(self._reply() for _ in range(count))
        return line


def shown(reply):
    text = MADE_ID.sub(rb"$\1\r\nNOW-\2\r\n", reply).replace(b"\r\n", b"|").decode("latin-1")
    # A sequence tells how many entries were added in one millisecond.
    return re.sub(r"NOW-\d+", "NOW", IDLE.sub(r"\1:IDLE|", text))


def expected(reply):
    return re.sub(r"NOW-\d+", "NOW", IDLE.sub(r"\1:IDLE|", reply))


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("name", REPLIES)
def test_replies_are_those_of_redis(hub, name, protocol):
    client = Wire(hub.resp_port, protocol)
    for line, *replies in REPLIES[name]:
        reply = replies[-1] if protocol == 3 else replies[0]
        assert shown(client.call(*shlex.split(line))) == expected(reply), line


def test_a_waiting_consumer_claims_what_another_one_leaves(hub):
    client, waiting = hub.redis(), RespSocket(hub.resp())
    client.xadd("s", {"a": "1"}, id="1-1")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "first", {"s": ">"})
    reply = waiting.call(
        "XREADGROUP", "GROUP", "g", "second", "BLOCK", "0", "CLAIM", "300", "STREAMS", "s", ">"
    )
    [[name, [[entry, fields, idle, deliveries]]]] = reply
    assert (name, entry, fields, deliveries) == (b"s", b"1-1", [b"a", b"1"], 1)
    assert idle >= 300
    # A new entry ends such a wait at once.
    waiting.send(
        "XREADGROUP", "GROUP", "g", "second", "BLOCK", "0", "CLAIM", "100000", "STREAMS", "s", ">"
    )
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "a waiting client")
    client.xadd("s", {"a": "2"}, id="1-2")
    [[_, [[entry, _, idle, deliveries]]]] = waiting.read()
    assert (entry, idle, deliveries) == (b"1-2", 0, 0)
    # And so does its own timeout.
    assert waiting.call(
        "XREADGROUP", "GROUP", "g", "third", "BLOCK", "50", "CLAIM", "100000", "STREAMS", "s", ">"
    ) is None


def test_producers_survive_a_restart_and_reach_a_replica(start_hub, tmp_path):
    options = ("--dir", str(tmp_path), "--", "--appendonly", "yes")
    hub = start_hub(*options)
    client = hub.redis()
    first = client.execute_command("XADD", "s", "IDMP", "p", "i", "*", "a", "1")
    replica = start_hub()
    replica.redis().replicaof("127.0.0.1", hub.resp_port)
    eventually(lambda: replica.redis().xlen("s") == 1, "the stream at the replica")
    assert client.execute_command("XADD", "s", "IDMP", "p", "i", "*", "a", "2") == first
    client.execute_command("XADD", "s", "IDMP", "p", "j", "*", "a", "3")
    eventually(lambda: replica.redis().xlen("s") == 2, "the second entry at the replica")
    told = replica.redis().xinfo_stream("s")
    assert (told["iids-added"], told["iids-duplicates"]) == (2, 1)
    for rewrites in [True, False]:
        if rewrites:
            client.bgrewriteaof()
            eventually(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0, "an end")
        hub.stop()
        hub = start_hub(*options)
        client = hub.redis()
        assert client.execute_command("XADD", "s", "IDMP", "p", "i", "*", "a", "4") == first


def test_hot_keys_are_found_by_time_and_by_bytes(hub):
    client = hub.redis()
    assert client.execute_command("HOTKEYS", "START", "METRICS", "2", "CPU", "NET") == b"OK"
    for number in range(200):
        client.set("hot", "x" * 1000)
        client.set(f"cold:{number % 20}", "x")
    pipeline = client.pipeline(transaction=True)
    for _ in range(10):
        pipeline.get("hot")
    pipeline.execute()
    assert client.execute_command("HOTKEYS", "STOP") == b"OK"
    [told] = client.execute_command("HOTKEYS", "GET")
    told = dict(zip(told[::2], told[1::2]))
    assert told[b"tracking-active"] == 0 and told[b"sample-ratio"] == 1
    by_bytes = told[b"by-net-bytes"]
    assert by_bytes[0] == b"hot" and by_bytes[1] > 200 * 1000 + 10 * 1000
    assert len(by_bytes) == 2 * 10 and told[b"total-net-bytes"] > by_bytes[1]
    assert told[b"by-cpu-time-us"]
    assert b"hotkeys-tracking-active:0" in RespSocket(hub.resp()).call("INFO", "hotkeys")
    client.set("hot", "after the end")
    [again] = client.execute_command("HOTKEYS", "GET")
    assert again[again.index(b"by-net-bytes") + 1] == by_bytes
    assert client.execute_command("HOTKEYS", "RESET") == b"OK"


def fill(client):
    """Keys of every type and encoding."""
    client.set("text", "a text")
    client.set("number", 12345)
    client.set("long", "x" * 1000, px=100_000_000)
    client.rpush("list", *range(5))
    client.rpush("long-list", *["y" * 100] * 500)
    client.sadd("integers", *range(20))
    client.sadd("set", *"abc")
    client.sadd("large-set", *[f"member:{number}" for number in range(300)])
    client.hset("hash", mapping={"a": "1", "b": "2"})
    client.hset("large-hash", mapping={f"field:{number}": number for number in range(700)})
    client.hset("timed", mapping={"a": "1", "b": "2"})
    client.hpexpireat("timed", 4_102_444_800_000, "a")
    client.hset("large-timed", mapping={f"field:{number}": number for number in range(700)})
    client.hpexpireat("large-timed", 4_102_444_800_000, "field:7")
    client.zadd("sorted", {"a": 1.5, "b": 2})
    client.zadd("large-sorted", {f"member:{number}": number / 8 for number in range(300)})
    client.pfadd("estimate", *range(100))
    for number in range(1, 250):
        client.xadd("stream", {"a": str(number)}, id=f"{number}-1")
    client.xdel("stream", "7-1")
    client.xgroup_create("stream", "group", "0")
    client.xreadgroup("group", "consumer", {"stream": ">"}, count=20)
    client.execute_command("XADD", "produced", "IDMP", "p", "i", "*", "a", "1")
    client.execute_command("XADD", "produced", "IDMPAUTO", "q", "*", "a", "1", "b", "2")
    client.execute_command("XADD", "produced", "IDMP", "p", "i", "*", "a", "1")
    client.execute_command("XCFGSET", "stream", "IDMP-DURATION", "500", "IDMP-MAXSIZE", "7")


def state(client):
    """What `fill` has made, as far as both servers show it in the same way."""
    info = {}
    for name in ["stream", "produced"]:
        told = client.xinfo_stream(name)
        info[name] = {field: value for field, value in told.items() if "radix" not in field}
    keys = sorted(client.keys("*"))
    return {
        "keys": keys,
        "digests": [client.execute_command("DEBUG", "DIGEST-VALUE", key) for key in keys],
        "infos": info,
        "pending": client.xpending("stream", "group"),
        "ttl": client.pexpiretime("long"),
    }


def is_recent(client):
    major, minor = client.info("server")["redis_version"].split(".")[:2]
    return (int(major), int(minor)) >= (8, 6)


@pytest.mark.parametrize("from_redis", [True, False], ids=["from_redis", "to_redis"])
def test_files_are_exchanged_with_redis_8_6(start_redis, start_hub, tmp_path, from_redis):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    redis = start_redis("--dir", theirs, "--save", "")
    if not is_recent(redis):
        pytest.skip("this Redis is older than 8.6")
    options = ("--dir", str(theirs), "--", "--enable-debug-command", "yes")
    if from_redis:
        fill(redis)
        before = state(redis)
        redis.save()
        client = start_hub(*options).redis()
    else:
        hub = start_hub(*options)
        fill(hub.redis())
        before = state(hub.redis())
        hub.redis().save()
        client = start_redis("--dir", theirs)
        eventually(lambda: not client.info("persistence")["loading"], "the end of the load")
    assert state(client) == before
    again = client.execute_command("XADD", "produced", "IDMPAUTO", "q", "*", "b", "2", "a", "1")
    assert again == before["infos"]["produced"]["last-generated-id"], "the same digest of fields"


def test_redis_8_6_follows_a_hub_and_a_hub_follows_it(start_redis, start_hub):
    redis = start_redis("--save", "")
    if not is_recent(redis):
        pytest.skip("this Redis is older than 8.6")
    hub = start_hub("--", "--enable-debug-command", "yes")
    for master, replica, port in [
        (hub.redis(), redis, hub.resp_port),
        (redis, hub.redis(), redis.connection_pool.connection_kwargs["port"]),
    ]:
        replica.execute_command("REPLICAOF", "NO", "ONE")
        master.flushall()
        fill(master)
        replica.replicaof("127.0.0.1", port)
        eventually(lambda: replica.info("replication")["master_link_status"] == "up", "a link")
        master.execute_command("SET", "text", "another", "IFEQ", "a text")
        master.execute_command("MSETEX", "2", "m", "1", "n", "2", "EX", "1000")
        master.execute_command("DELEX", "number", "IFEQ", "12345")
        master.execute_command("XADD", "produced", "IDMP", "p", "i", "*", "a", "1")
        master.execute_command("XADD", "produced", "IDMP", "p", "k", "*", "a", "1")
        master.execute_command(
            "XREADGROUP", "GROUP", "group", "other", "CLAIM", "0", "COUNT", "5", "STREAMS",
            "stream", ">",
        )
        master.set("last", "1")
        eventually(lambda: replica.get("last") == b"1", "the last command")
        assert state(replica) == state(master)
        master.delete("last")
        replica.execute_command("REPLICAOF", "NO", "ONE")
