"""Replicas: every sync ends, whoever the other server is, and a change of parts costs no full sync."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
import redis

from support import PATIENCE_S, eventually, free_ports, redis_client_when_it_answers


DEBUG = ["--set", "enable-debug-command=yes"]


def version_of(binary):
    text = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout
    return int(text.partition("v=")[2].partition(".")[0] or 0)


def rival(name):
    """A server that others have written, if it is here."""
    found = {
        "redis-7": [shutil.which("redis-server"), os.environ.get("REDIS_7_SERVER")],
        "redis-8": [shutil.which("redis-server"), os.environ.get("REDIS_SERVER")],
        "valkey-9": [shutil.which("valkey-server"), os.environ.get("VALKEY_SERVER")],
    }[name]
    major = int(name.rpartition("-")[2])
    binary = next((one for one in found if one and version_of(one) == major), None)
    return binary or pytest.skip(f"there is no {name}")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def start_rival(tmp_path):
    """Starts a Redis or a Valkey with these options; returns a client of it."""
    started = []

    def start(name, *options, folder=None):
        port = free_ports(1)[0]
        folder = folder or tmp_path / f"{name}-{port}"
        folder.mkdir(exist_ok=True)
        words = [rival(name), "--port", port, "--save", "", "--enable-debug-command", "yes"]
        words += ["--repl-diskless-sync-delay", "0", *options]
        process = subprocess.Popen([*map(str, words)], cwd=folder, stdout=subprocess.DEVNULL)
        started.append(process)
        client = redis_client_when_it_answers(port, name)
        client.server_port, client.process, client.folder = port, process, folder
        return client

    yield start
    for process in started:
        process.kill()
        process.wait()


def replication(client):
    try:
        return client.info("replication")
    except redis.BusyLoadingError:
        return {}


def follow(replica, port):
    """Lets a server follow another one, and waits until it does."""
    replica.replicaof("127.0.0.1", port)
    wait_for_link(replica)


def wait_for_link(replica):
    eventually(lambda: replication(replica).get("master_link_status") == "up", "the link is up")


def write_values(client, timed):
    """A key of each type; a hash whose fields have a TTL if the servers know of that."""
    client.set("string", "text " * 10_000)
    client.rpush("list", *(f"element {number}" for number in range(2_000)))
    client.sadd("set", *(f"member {number}" for number in range(2_000)))
    client.hset("hash", mapping={f"field {number}": number for number in range(2_000)})
    client.zadd("sorted set", {f"member {number}": number for number in range(2_000)})
    client.set("timed", "value", ex=10_000)
    for number in range(1, 300):
        client.xadd("stream", {"field": number}, id=f"{number}-1")
    client.xgroup_create("stream", "group", 0)
    client.xreadgroup("group", "consumer", {"stream": ">"}, count=100)
    if timed:
        client.hset("small timed", mapping={"a": 1, "b": 2})
        client.execute_command("HEXPIRE", "small timed", 10_000, "FIELDS", 1, "a")
        client.hset("large timed", mapping={f"field {number}": number for number in range(1_000)})
        fields = [f"field {number}" for number in range(500)]
        client.execute_command("HEXPIRE", "large timed", 10_000, "FIELDS", 500, *fields)
    client.sadd("integers", *range(20_000))


def assert_values(client, timed):
    # How idle a consumer is tells the time, so the digests of streams may differ between servers.
    assert client.get("string") == b"text " * 10_000
    assert client.llen("list") == client.scard("set") == client.hlen("hash") == 2_000
    assert client.zscore("sorted set", "member 7") == 7
    assert 9_000 < client.ttl("timed") <= 10_000
    assert client.xlen("stream") == 299
    assert client.xpending("stream", "group")["pending"] == 100
    assert client.scard("integers") == 20_000
    if timed:
        for key, field in [("small timed", "a"), ("large timed", "field 499")]:
            (left_s,) = client.execute_command("HTTL", key, "FIELDS", 1, field)
            assert 9_000 < left_s <= 10_000
        assert client.execute_command("HTTL", "small timed", "FIELDS", 1, "b") == [-1]


@pytest.mark.parametrize("count", [20_000, 60_000])
@pytest.mark.parametrize("master", ["tidewire", "redis-7", "redis-8", "valkey-9"])
def test_a_full_sync_ends_though_the_largest_value_is_the_last(start_hub, start_rival, master,
                                                               count):
    replica = start_hub().redis()
    if master == "tidewire":
        hub = start_hub()
        client, port = hub.redis(), hub.resp_port
    else:
        client = start_rival(master)
        port = client.server_port
    for first in range(0, count, 20_000):
        client.sadd("integers", *range(first, first + 20_000))
    follow(replica, port)
    assert replica.scard("integers") == count
    some = range(0, count, 997)
    assert all(replica.smismember("integers", some))


@pytest.mark.parametrize("name", ["redis-7", "redis-8", "valkey-9"])
def test_a_server_of_another_kind_syncs_both_ways(start_hub, start_rival, name):
    timed = name != "redis-7"
    options = []
    if name == "redis-7":
        options += ["--set", "rdb-version=10"]
    for ours_is_master in [True, False]:
        hub, other = start_hub(*options), start_rival(name)
        ours = hub.redis()
        master, replica = (ours, other) if ours_is_master else (other, ours)
        write_values(master, timed)
        follow(replica, hub.resp_port if ours_is_master else other.server_port)
        assert_values(replica, timed)
        master.incr("counter")
        if timed:
            master.execute_command("HPEXPIRE", "hash", 5_000_000, "FIELDS", 1, "field 1")
            master.hset("late", mapping={"f": 1})
            master.execute_command("HEXPIRE", "late", 10_000, "FIELDS", 1, "f")
        eventually(lambda: replica.get("counter") == b"1", "the stream")
        if timed:
            def has_come():
                (left_s,) = replica.execute_command("HTTL", "late", "FIELDS", 1, "f") or [0]
                return left_s > 9_000

            eventually(has_come, "the field's TTL")
        for key in ["string", "list", "set", "hash", "sorted set", "integers", "late"]:
            assert master.dump(key) is None or replica.exists(key)
        replica.replicaof("no", "one")


@pytest.mark.parametrize("name", ["redis-7", "redis-8", "valkey-9"])
def test_files_of_all_keys_go_both_ways(start_hub, start_rival, folder, name):
    timed = name != "redis-7"
    version = {"redis-7": "10", "redis-8": "auto", "valkey-9": "80"}[name]
    hub = start_hub("--dir", folder)
    write_values(hub.redis(), timed)
    hub.redis().config_set("rdb-version", version)
    hub.redis().save()
    hub.kill()
    other = start_rival(name, "--dir", folder)
    assert_values(other, timed)
    other.set("of", name)
    other.save()
    other.process.kill()
    other.process.wait()
    ours = start_hub("--dir", folder).redis()
    eventually(lambda: ours.execute_command("INFO", "persistence")["loading"] == 0, "loaded")
    assert_values(ours, timed)
    assert ours.get("of") == name.encode()


def test_a_version_that_cannot_hold_a_field_s_ttl_is_refused_and_the_old_file_stays(start_hub,
                                                                                    folder):
    hub = start_hub("--dir", folder)
    client = hub.redis()
    client.config_set("rdb-version", "11")
    client.hset("hash", mapping={"f": 1})
    client.save()
    before = (folder / "dump.rdb").read_bytes()
    assert before.startswith(b"REDIS0011")
    client.execute_command("HEXPIRE", "hash", 10_000, "FIELDS", 1, "f")
    with pytest.raises(redis.ResponseError):
        client.save()
    assert (folder / "dump.rdb").read_bytes() == before
    assert "which RDB version 11 cannot hold" in hub.stdout + hub.stderr
    client.config_set("rdb-version", "auto")
    client.save()
    assert (folder / "dump.rdb").read_bytes().startswith(b"REDIS0012")


def test_a_key_that_a_client_of_a_writable_replica_gave_a_ttl_expires(start_hub):
    master, replica = start_hub(*DEBUG), start_hub()
    # What is due on the master goes when somebody asks for it there.
    master.redis().execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    master.redis().set("of the master", "value", px=1)
    client = replica.redis()
    follow(client, master.resp_port)
    client.config_set("replica-read-only", "no")
    client.set("own", "value", px=20)
    client.set("stays", "value", ex=10_000)
    client.set("moved", "value", px=50)
    client.execute_command("EVAL", "if redis.call('EXISTS', KEYS[1]) == 1 then "
                           "redis.call('RENAME', KEYS[1], KEYS[2]) end", 2, "moved", "other name")
    eventually(lambda: client.dbsize() == 2, "what has expired is counted no more")
    assert client.info("stats")["slave_expires_tracked_keys"] == 1
    assert client.get("stays") == b"value"
    assert master.redis().get("of the master") is None
    eventually(lambda: client.keys() == [b"stays"], "the master's key goes when it says so")


def test_a_promoted_replica_goes_on_with_its_own_replicas_and_its_master(start_hub):
    hubs = [start_hub("--set", "repl-timeout=3600") for _ in range(4)]
    first, second, third, fourth = [hub.redis() for hub in hubs]
    first.set("counter", 0)
    follow(second, hubs[0].resp_port)
    follow(third, hubs[1].resp_port)
    follow(fourth, hubs[0].resp_port)
    for _ in range(50):
        first.incr("counter")
    eventually(lambda: third.get("counter") == b"50", "the end of the chain has it")
    ids = {client.info("replication")["master_replid"] for client in [first, second, third]}
    assert len(ids) == 1
    old_id = ids.pop()
    end = first.info("replication")["master_repl_offset"]
    eventually(lambda: all(client.info("replication")["master_repl_offset"] >= end
                           for client in [second, third, fourth]), "all are at the end")

    second.replicaof("no", "one")
    now = second.info("replication")
    assert now["master_replid2"] == old_id != now["master_replid"]
    second.incr("counter")
    eventually(lambda: third.get("counter") == b"51", "the chain goes on")
    # Its old master, and another replica of that, go on where they were as well.
    follow(first, hubs[1].resp_port)
    follow(fourth, hubs[1].resp_port)
    eventually(lambda: first.get("counter") == fourth.get("counter") == b"51", "all follow")
    syncs = [client.info("stats") for client in [second, first]]
    assert syncs[0]["sync_full"] == 1 and syncs[0]["sync_partial_ok"] == 3
    assert third.info("replication")["master_replid"] == now["master_replid"]


def test_replicas_go_on_where_they_were_when_their_master_has_restarted(start_hub, folder):
    options = ["--dir", folder, "--set", "save=3600 1", *DEBUG]
    hub, replica = start_hub(*options), start_hub()
    client, following = hub.redis(), replica.redis()
    follow(following, hub.resp_port)
    for number in range(100):
        client.set(f"key {number}", number)
    client.set("short", "value", px=1)
    eventually(lambda: following.info("replication")["slave_repl_offset"]
               >= client.info("replication")["master_repl_offset"] > 0, "the replica has it all")
    before = client.info("replication")
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    hub.stop()
    hub = start_hub(*options)
    client = hub.redis()
    eventually(lambda: client.info("persistence")["loading"] == 0, "loaded")
    now = client.info("replication")
    assert now["master_replid2"] == before["master_replid"]
    assert now["repl_backlog_active"] == 1
    follow(following, hub.resp_port)
    stats = client.info("stats")
    assert stats["sync_partial_ok"] == 1 and stats["sync_full"] == 0
    client.set("after", "value")
    eventually(lambda: following.get("after") == b"value", "the stream")
    assert sorted(following.keys()) == sorted(client.keys())


def test_a_replica_of_a_redis_conf_follows_after_a_restart_without_a_full_sync(start_hub, folder):
    master = start_hub()
    conf = folder / "redis.conf"
    conf.write_text("save 3600 1\n")
    options = ["--redis-conf", conf, "--dir", folder]
    replica = start_hub(*options)
    client = replica.redis()
    follow(client, master.resp_port)
    client.execute_command("CONFIG", "REWRITE")
    assert f"replicaof 127.0.0.1 {master.resp_port}\n" in conf.read_text()
    master.redis().set("key", "value")
    eventually(lambda: client.get("key") == b"value", "the stream")
    replica.stop()
    master.redis().set("meanwhile", "value")
    client = start_hub(*options).redis()
    wait_for_link(client)
    eventually(lambda: client.get("meanwhile") == b"value", "what it has missed")
    stats = master.redis().info("stats")
    assert (stats["sync_full"], stats["sync_partial_ok"]) == (1, 1)
    with pytest.raises(redis.ReadOnlyError):
        client.set("key", "other")
    client.replicaof("no", "one")
    client.execute_command("CONFIG", "REWRITE")
    assert "replicaof" not in conf.read_text()


def test_failover_changes_parts_and_loses_no_write(start_hub):
    hubs = [start_hub() for _ in range(3)]
    first, second, third = [hub.redis() for hub in hubs]
    for replica in [second, third]:
        follow(replica, hubs[0].resp_port)
    eventually(lambda: first.info("replication").get("slave1", {}).get("state") == "online",
               "both are online")
    for words, text in [
        (["TO", "127.0.0.1", 1], "not a replica"),
        (["TO", "127.0.0.1", hubs[1].resp_port, "FORCE"], "requires both a timeout"),
        (["TIMEOUT", 0], "must be greater than 0"),
        (["ABORT"], "No failover in progress"),
        (["NONSENSE"], "syntax error"),
    ]:
        with pytest.raises(redis.ResponseError, match=text):
            first.execute_command("FAILOVER", *words)
    with pytest.raises(redis.ResponseError, match="is a replica"):
        second.execute_command("FAILOVER")

    written = []
    halt = threading.Event()

    def write():
        client = hubs[0].redis()
        while not halt.is_set():
            number = len(written)
            try:
                client.set(f"key {number}", number)
            except redis.ReadOnlyError:
                return
            written.append(number)

    writers = threading.Thread(target=write)
    writers.start()
    eventually(lambda: len(written) > 100, "some writes")
    first.execute_command("FAILOVER", "TO", "127.0.0.1", hubs[1].resp_port)
    eventually(lambda: first.role()[0] == b"slave" and second.role()[0] == b"master", "both parts")
    wait_for_link(first)
    halt.set()
    writers.join(PATIENCE_S)
    assert first.info("replication")["master_failover_state"] == "no-failover"
    assert second.dbsize() == len(written)
    follow(third, hubs[1].resp_port)
    wait_for_same_size = lambda: first.dbsize() == third.dbsize() == len(written)
    eventually(wait_for_same_size, "all have every write")
    assert second.info("stats")["sync_full"] == 0
    assert second.info("stats")["sync_partial_ok"] == 2


def test_a_failover_that_no_replica_can_take_is_given_up_and_writes_go_on(start_hub):
    hub = start_hub()
    client = hub.redis()
    replica = hub.resp()
    replica.sendall(b"REPLCONF capa eof listening-port 1\r\nPSYNC ? -1\r\n")
    eventually(lambda: client.info("replication").get("slave0", {}).get("state") == "online",
               "the replica follows")
    replica.sendall(b"REPLCONF ACK 1\r\n")
    client.set("key", "value")
    client.execute_command("FAILOVER", "TIMEOUT", 60_000)
    assert client.info("replication")["master_failover_state"] == "waiting-for-sync"
    assert client.get("key") == b"value"
    client.execute_command("FAILOVER", "ABORT")
    client.set("key", "again")
    client.execute_command("FAILOVER", "TIMEOUT", 50)
    eventually(lambda: client.info("replication")["master_failover_state"] == "no-failover",
               "it is given up")
    client.set("key", "and again")
    assert client.role()[0] == b"master"
    replica.close()


def test_after_a_failover_of_a_sentinel_the_old_master_serves_as_a_replica(start_hub, tmp_path):
    binary = shutil.which("redis-server") or pytest.skip("there is no Sentinel")
    old, new = start_hub(), start_hub()
    old.redis().sadd("integers", *range(100_000))
    follow(new.redis(), old.resp_port)
    (port,) = free_ports(1)
    conf = tmp_path / "sentinel.conf"
    conf.write_text(
        f"port {port}\nsentinel monitor m 127.0.0.1 {old.resp_port} 1\n"
        "sentinel down-after-milliseconds m 1000\nsentinel failover-timeout m 5000\n"
    )
    process = subprocess.Popen([binary, str(conf), "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        sentinel = redis.Redis(port=port)

        def fails_over():
            try:
                return sentinel.execute_command("SENTINEL", "FAILOVER", "m")
            except redis.RedisError:
                # It does not know the replica yet.
                return False

        eventually(fails_over, "Sentinel knows the replica", 60)
        eventually(lambda: new.redis().role()[0] == b"master", "the replica is the master", 60)
        wait = lambda: replication(old.redis()).get("master_link_status") == "up"
        eventually(wait, "the old master follows", 60)
        assert old.redis().scard("integers") == 100_000
        new.redis().set("key", "value")
        eventually(lambda: old.redis().get("key") == b"value", "the stream")
    finally:
        process.kill()
        process.wait()


def test_migrate_moves_keys_with_their_ttl_and_copies_and_replaces(start_hub, start_rival):
    source = start_hub().redis()
    for target_hub in [start_hub(), None]:
        other = target_hub.redis() if target_hub else start_rival("redis-8")
        port = target_hub.resp_port if target_hub else other.server_port
        write_values(source, True)

        def migrate(key, *options):
            return source.execute_command("MIGRATE", "127.0.0.1", port, key, 0, 5_000, *options)

        assert migrate("nothing") == b"NOKEY"
        names = ["string", "list", "hash", "timed", "stream", "small timed", "missing"]
        assert migrate("string", "COPY") == b"OK"
        assert source.exists("string") == other.exists("string") == 1
        with pytest.raises(redis.ResponseError, match="BUSYKEY"):
            migrate("string")
        assert source.exists("string") == 1
        assert migrate("", "REPLACE", "KEYS", *names) == b"OK"
        assert migrate("", "KEYS", "set", "sorted set", "large timed", "integers") == b"OK"
        assert source.dbsize() == 0
        assert_values(other, True)
        with pytest.raises(redis.ResponseError, match="empty string"):
            migrate("key", "KEYS", "string")
        source.set("key", "value")
        pipeline = source.pipeline()
        pipeline.execute_command("MIGRATE", "127.0.0.1", port, "key", 0, 5_000)
        with pytest.raises(redis.ResponseError, match="call it alone"):
            pipeline.execute()
        source.delete("key")


def test_migrate_proves_who_it_is_and_tells_what_the_target_said(start_hub):
    source = start_hub().redis()
    target = start_hub()
    target.redis().config_set("requirepass", "secret")
    other = target.redis(password="secret")
    other.execute_command("ACL", "SETUSER", "mover", "on", ">word", "~*", "+@all")
    for number, options in enumerate([["AUTH", "secret"], ["AUTH2", "mover", "word"]]):
        key = f"key {number}"
        source.set(key, "value")
        words = ["MIGRATE", "127.0.0.1", target.resp_port, key, 0, 5_000]
        with pytest.raises(redis.ResponseError, match="Target instance replied with error: NOAUTH"):
            source.execute_command(*words)
        with pytest.raises(redis.ResponseError, match="WRONGPASS"):
            source.execute_command(*words, *options[:-1], "wrong")
        assert source.execute_command(*words, *options) == b"OK"
        assert other.get(key) == b"value"
    assert source.dbsize() == 0


def test_migrate_to_a_silent_server_ends_and_stops_nobody_meanwhile(start_hub):
    hub = start_hub("--lanes", 1)
    client, other = hub.redis(), hub.redis()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    client.set("key", "value")
    moving = hub.resp()
    port = listener.getsockname()[1]
    moving.sendall(b"MIGRATE 127.0.0.1 %d key 0 1000\r\n" % port)
    eventually(lambda: other.info("clients")["blocked_clients"] == 1, "the client waits")
    assert other.get("key") == b"value"
    other.set("key", "changed")
    assert b"IOERR error or timeout reading" in moving.recv(1_000)
    assert other.get("key") == b"changed"
    listener.close()


def test_migrate_to_a_port_without_a_server_fails_as_in_redis(start_hub):
    client = start_hub().redis()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    words = ["MIGRATE", "127.0.0.1", port, "key", 0, 500]
    assert client.execute_command(*words) == b"NOKEY"
    client.set("key", "value")
    # redis-py takes the first word off an error's text where it knows it.
    with pytest.raises(redis.ResponseError, match="error or timeout writing to target instance"):
        client.execute_command(*words)
    with pytest.raises(redis.ResponseError, match="error or timeout connecting to the client"):
        client.execute_command("MIGRATE", "no-such-host.invalid", port, "key", 0, 500)
    assert client.get("key") == b"value"


def test_a_key_that_changes_while_it_moves_arrives_as_it_was_last(start_hub):
    source_hub, target_hub = start_hub(), start_hub()
    source, target = source_hub.redis(), target_hub.redis()
    halt = threading.Event()
    counts = {"acknowledged": 0}

    def count():
        client = source_hub.redis()
        while not halt.is_set():
            # On one of the two servers, and never on both.
            client.execute_command("EVAL", "if redis.call('EXISTS', KEYS[1]) == 1 then return "
                                   "redis.call('INCR', KEYS[1]) end return -1", 1, "counter")
            counts["acknowledged"] += 1

    counting = threading.Thread(target=count)
    source.set("counter", 0)
    counting.start()
    eventually(lambda: counts["acknowledged"] > 50, "some increments")
    for _ in range(20):
        before = int(source.get("counter"))
        words = ["MIGRATE", "127.0.0.1", target_hub.resp_port, "counter", 0, 5_000, "REPLACE"]
        assert source.execute_command(*words) == b"OK"
        assert source.get("counter") is None
        assert int(target.get("counter")) >= before
        target.execute_command("MIGRATE", "127.0.0.1", source_hub.resp_port, "counter", 0, 5_000)
        assert target.get("counter") is None
    halt.set()
    counting.join(PATIENCE_S)


@pytest.mark.parametrize("command", ["RELOAD", "LOADAOF"])
def test_a_replica_that_loads_its_keys_again_misses_nothing_of_the_stream(
    start_hub, folder, command
):
    master = start_hub(*DEBUG)
    replica = start_hub(
        "--dir", folder, *DEBUG, "--set", "appendonly=yes", "--set", "save=", "--lanes", "2"
    )
    follow(replica.redis(), master.resp_port)
    stop = threading.Event()

    def write(seed):
        client, number = master.redis(), 0
        while not stop.is_set():
            with client.pipeline(transaction=False) as pipeline:
                for _ in range(20):
                    number += 1
                    pipeline.set(f"{seed}:{number % 500}", number)
                    pipeline.rpush(f"list:{seed}:{number % 7}", number)
                pipeline.execute()

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(2)]
    for writer in writers:
        writer.start()
    client, done = replica.redis(), 0
    try:
        while done < 30:
            try:
                client.execute_command("DEBUG", command)
                done += 1
            except redis.ResponseError:
                pass  # a snapshot, a rewrite or a command of the master was under way
    finally:
        stop.set()
        for writer in writers:
            writer.join()

    def same():
        positions = [replication(one.redis())["master_repl_offset"] for one in (master, replica)]
        digests = [one.redis().execute_command("DEBUG", "DIGEST") for one in (master, replica)]
        return positions[0] == positions[1] and digests[0] == digests[1]

    eventually(same, "the same keys")


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_full_sync_whose_master_ends_leaves_the_replica_its_keys_and_history(
    start_hub, diskless
):
    options = ["--set", f"repl-diskless-sync={diskless}", "--set", "repl-diskless-sync-delay=0"]
    first, second, replica = start_hub(), start_hub(*DEBUG, *options), start_hub()
    first.redis().set("a", "b")
    # A minute for the file of all keys, unless its server ends.
    second.redis().execute_command("DEBUG", "POPULATE", 10, "other", 10)
    second.redis().config_set("rdb-key-save-delay", 6_000_000)
    follow(replica.redis(), first.resp_port)
    history = replication(replica.redis())["master_replid"]
    replica.redis().replicaof("127.0.0.1", second.resp_port)
    busy = {"wait_bgsave", "send_bulk"}
    eventually(
        lambda: replication(second.redis()).get("slave0", {}).get("state") in busy, "a full sync"
    )
    second.stop()
    follow(replica.redis(), first.resp_port)
    assert replication(replica.redis())["master_replid"] == history
    assert replica.redis().get("a") == b"b"
    statistics = first.info("stats")
    assert (statistics["sync_full"], statistics["sync_partial_ok"]) == (1, 1)


def test_changes_of_functions_reach_a_replica_in_their_order(start_hub):
    master, replica = start_hub(), start_hub()
    replica.redis().replicaof("127.0.0.1", master.resp_port)
    eventually(lambda: replica.redis().info("replication")["master_link_status"] == "up", "the link")
    library = "#!lua name=lib{0}\nredis.register_function('f{0}', function() return {0} end)"

    def change(seed):
        client, random = master.redis(), Random(seed)
        for _ in range(300):
            number = random.randint(1, 3)
            match random.randint(0, 9):
                case 0:
                    client.function_flush()
                case 1 | 2 | 3:
                    with contextlib.suppress(redis.ResponseError):
                        client.function_delete(f"lib{number}")
                case 4:
                    with client.pipeline() as transaction:
                        transaction.function_load(library.format(number), replace=True)
                        transaction.function_flush()
                        transaction.function_load(library.format(4))
                        transaction.execute()
                case _:
                    client.function_load(library.format(number), replace=True)

    for number in range(5):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(change, range(4 * number, 4 * number + 4)))
        master.redis().set("round", number)
        eventually(lambda: replica.redis().get("round") == str(number).encode(), "it has come")
        assert replica.redis().function_list() == master.redis().function_list()
