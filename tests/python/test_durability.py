"""What outlives the program: snapshots and the append-only file."""

import socket
import threading

import pytest
import redis

from support import RespSocket, eventually, free_ports


def fill(client):
    """Keys of every type."""
    client.set("text", "tide " * 1000)
    client.set("brief", "gone one day", ex=1_000_000)
    client.incrby("count", 41)
    client.rpush("list", *range(300))
    client.sadd("set", *range(0, 3000, 7), "a")
    client.hset("hash", mapping={f"field{number}": number for number in range(300)})
    client.execute_command("HEXPIRE", "hash", 1_000_000, "FIELDS", 2, "field1", "field2")
    client.zadd("sorted", {f"member{number}": number / 3 for number in range(300)})
    for number in range(1, 150):
        client.xadd("stream", {"price": number}, id=f"{number}-1")
    client.xgroup_create("stream", "group", "0")
    client.xreadgroup("group", "consumer", {"stream": ">"}, count=5)
    client.spop("set", 3)
    client.function_load("#!lua name=l\nredis.register_function('f', function() return 7 end)")
    transaction = client.pipeline(transaction=True)
    transaction.set("one", 1).set("two", 2).execute()


def digest(client):
    return client.execute_command("DEBUG", "DIGEST")


def durable(folder, *parameters):
    words = [f"dir={folder}", "enable-debug-command=yes", *parameters]
    return [part for word in words for part in ("--set", word)]


def files_of(folder):
    return sorted(path.name for path in (folder / "appendonlydir").iterdir())


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def test_nothing_is_saved_unless_it_is_asked_for(start_hub, tmp_path):
    before = set(tmp_path.iterdir())
    hub = start_hub()
    fill(hub.redis())
    hub.stop()
    names = {path.suffix for path in set(tmp_path.iterdir()) - before}
    assert names <= {".stdout", ".stderr"}


def test_a_folder_is_enough_to_find_everything_again(start_hub, folder):
    hub = start_hub("--dir", folder, "--set", "enable-debug-command=yes")
    fill(hub.redis())
    expected = digest(hub.redis())
    hub.stop()
    assert (folder / "dump.rdb").exists()
    hub = start_hub("--dir", folder, "--set", "enable-debug-command=yes")
    assert digest(hub.redis()) == expected
    assert hub.redis().fcall("f", 0) == 7
    assert hub.info("persistence")["rdb_last_load_keys_loaded"] == 10
    hub.redis().flushdb()
    with pytest.raises(redis.ConnectionError):
        hub.redis().execute_command("SHUTDOWN", "NOSAVE")
    hub.wait()
    hub = start_hub("--dir", folder, "--set", "enable-debug-command=yes")
    assert digest(hub.redis()) == expected


def test_what_was_acknowledged_with_fsync_always_survives_a_kill(start_hub, folder):
    options = durable(folder, "appendonly=yes", "appendfsync=always")
    expected = {}
    for round_number in range(3):
        hub = start_hub(*options)
        for name, value in expected.items():
            assert int(hub.redis().get(name)) >= value, f"{name} in round {round_number}"
        done = threading.Event()

        def write(name):
            with socket.create_connection(("127.0.0.1", hub.resp_port)) as one:
                client = RespSocket(one)
                try:
                    while True:
                        expected[name] = client.call("INCR", name)
                        if expected[name] % 100 == 0:
                            done.set()
                except (OSError, EOFError, AssertionError, ValueError):
                    return

        writers = [threading.Thread(target=write, args=[f"count{n}"]) for n in range(4)]
        for writer in writers:
            writer.start()
        assert done.wait(20)
        if round_number == 1:
            hub.redis().bgrewriteaof()
        hub.process.kill()
        for writer in writers:
            writer.join()
        hub.kill()
    hub = start_hub(*options)
    for name, value in expected.items():
        assert int(hub.redis().get(name)) >= value


def test_the_append_only_file_is_rewritten_while_clients_write(start_hub, folder):
    hub = start_hub(*durable(folder, "appendonly=yes"))
    client = hub.redis()
    fill(client)
    first = files_of(folder)
    for number in range(3):
        client.bgrewriteaof()
        pipeline = client.pipeline(transaction=False)
        for other in range(2000):
            pipeline.incr(f"counter{other % 50}")
        pipeline.execute()
        eventually(lambda: hub.info("persistence")["aof_rewrites"] == number + 2, "a rewrite")
    expected = digest(client)
    assert files_of(folder) != first and len(files_of(folder)) == 3
    client.execute_command("DEBUG", "LOADAOF")
    assert digest(client) == expected
    hub.stop()
    hub = start_hub(*durable(folder, "appendonly=yes"))
    assert digest(hub.redis()) == expected
    assert hub.redis().fcall("f", 0) == 7


def test_a_folder_with_a_snapshot_keeps_its_keys_when_the_append_only_file_is_turned_on(
    start_hub, folder
):
    first = start_hub(*durable(folder, "save=900 1"))
    fill(first.redis())
    told = digest(first.redis())
    first.stop()
    second = start_hub(*durable(folder, "save=900 1", "appendonly=yes"))
    assert digest(second.redis()) == told
    second.redis().set("later", "1")
    second.kill()
    third = start_hub(*durable(folder, "save=900 1", "appendonly=yes"))
    assert third.redis().get("later") == b"1"
    third.redis().delete("later")
    assert digest(third.redis()) == told


def test_it_can_be_turned_on_and_off_at_run_time(start_hub, folder):
    hub = start_hub(*durable(folder))
    client = hub.redis()
    fill(client)
    client.config_set("appendonly", "yes")
    eventually(lambda: hub.info("persistence")["aof_rewrites"] == 1, "a base")
    client.set("after", 1)
    expected = digest(client)
    client.config_set("appendonly", "no")
    client.set("unknown", 1)
    assert hub.info("persistence")["aof_enabled"] == 0
    with pytest.raises(redis.ConnectionError):
        client.execute_command("SHUTDOWN", "NOSAVE")
    hub.wait()
    hub = start_hub(*durable(folder, "appendonly=yes"))
    assert digest(hub.redis()) == expected


def test_what_comes_after_the_file_is_turned_on_is_behind_its_base(start_hub, folder):
    client = start_hub(*durable(folder)).redis()
    client.config_set("appendfsync", "no")
    client.mset({f"key:{number}": number for number in range(20_000)})
    client.config_set("appendonly", "yes")
    client.incr("counter")
    # Had the base taken the change in, it would be on the disk, and what is in the increment not.
    assert client.execute_command("WAITAOF", 1, 0, 500) == [0, 0]
    (increment,) = (folder / "appendonlydir").glob("*.incr.aof")
    assert b"counter" in increment.read_bytes()


def test_half_a_command_at_the_end_is_cut_off_if_that_is_allowed(start_hub, start, folder):
    hub = start_hub(*durable(folder, "appendonly=yes"))
    hub.redis().set("whole", 1)
    hub.stop()
    increment = folder / "appendonlydir/appendonly.aof.1.incr.aof"
    with open(increment, "ab") as file:
        file.write(b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n")
    hub = start_hub(*durable(folder, "appendonly=yes"))
    assert hub.redis().keys() == [b"whole"]
    hub.redis().set("next", 1)
    hub.stop()
    hub = start_hub(*durable(folder, "appendonly=yes"))
    assert sorted(hub.redis().keys()) == [b"next", b"whole"]
    hub.stop()
    with open(increment, "ab") as file:
        file.write(b"*2\r\n$3\r\nDEL\r\n")
    options = durable(folder, "appendonly=yes", "aof-load-truncated=no")
    program = start("serve", "--resp", f"127.0.0.1:{free_ports(1)[0]}", *options)
    assert program.wait() == 1
    assert "Unexpected end of file reading the append only file" in program.stderr


def test_half_a_transaction_is_cut_off_although_an_empty_increment_follows(start_hub, folder):
    log = folder / "appendonlydir"
    log.mkdir()
    names = [f"appendonly.aof.{number}.incr.aof" for number in (1, 2)]
    lines = [f"file {name} seq {number} type i\n" for number, name in enumerate(names, 1)]
    (log / "appendonly.aof.manifest").write_text("".join(lines))
    whole = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
    torn = b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n2\r\n"
    (log / names[0]).write_bytes(whole + torn)
    (log / names[1]).write_bytes(b"")
    client = start_hub(*durable(folder, "appendonly=yes")).redis()
    assert (client.get("a"), client.get("b")) == (b"1", None)
    assert (log / names[0]).read_bytes() == whole


def test_no_rewrite_begins_while_debug_reload_has_removed_the_keys(start_hub, folder):
    options = durable(folder, "appendonly=yes", "enable-debug-command=yes")
    hub = start_hub(*options, "--lanes", "2")
    client = hub.redis()
    with client.pipeline(transaction=False) as pipeline:
        for number in range(20_000):
            pipeline.set(f"key:{number}", number)
        pipeline.execute()
    stop = threading.Event()

    def rewrite():
        other = hub.redis()
        while not stop.is_set():
            try:
                other.bgrewriteaof()
            except redis.ResponseError:
                pass
            except redis.ConnectionError:
                return

    thread = threading.Thread(target=rewrite)
    thread.start()
    done = 0
    while done < 5:
        try:
            client.execute_command("DEBUG", "RELOAD")
            done += 1
        except redis.ResponseError:
            pass
    hub.kill()
    stop.set()
    thread.join()
    assert start_hub(*options).redis().dbsize() == 20_000


def test_a_broken_snapshot_is_named_and_nothing_is_served(start_hub, start, folder):
    hub = start_hub(*durable(folder))
    fill(hub.redis())
    hub.redis().save()
    hub.stop()
    snapshot = folder / "dump.rdb"
    whole = snapshot.read_bytes()
    for broken, text in [
        (whole[:-9], "middle of a record"),
        (whole[:-8] + b"12345678", "CRC error"),
        (b"REDIS0099" + whole[9:], "version is 99"),
        (b"nothing of that kind", "no RDB file"),
    ]:
        snapshot.write_bytes(broken)
        address = f"127.0.0.1:{free_ports(1)[0]}"
        program = start("serve", "--resp", address, *durable(folder))
        assert program.wait() == 1
        assert text in program.stderr and "dump.rdb" in program.stderr


def test_an_empty_snapshot_refuses_the_start_and_stays_as_it_is(start, folder):
    (folder / "dump.rdb").write_bytes(b"")
    program = start("serve", "--resp", f"127.0.0.1:{free_ports(1)[0]}", *durable(folder))
    assert program.wait() == 1
    assert "dump.rdb: empty file" in program.stderr
    assert (folder / "dump.rdb").read_bytes() == b""


def test_bytes_behind_the_checksum_of_a_snapshot_are_not_executed(start_hub, folder):
    hub = start_hub(*durable(folder))
    hub.redis().set("kept", 1)
    hub.redis().save()
    hub.stop()
    for tail in [b"*1\r\n$8\r\nFLUSHALL\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n", b"\0" * 100]:
        with open(folder / "dump.rdb", "ab") as file:
            file.write(tail)
        hub = start_hub(*durable(folder, "save="))
        assert hub.redis().keys() == [b"kept"]
        hub.stop()


@pytest.mark.parametrize(
    "version, plain, timed",
    [("auto", b"REDIS0011", b"REDIS0012"), ("10", b"REDIS0010", b"REDIS0012"),
     ("12", b"REDIS0012", b"REDIS0012"), ("80", b"VALKEY080", b"VALKEY080")],
)
def test_a_base_has_the_chosen_version_unless_that_cannot_hold_the_keys(
    start_hub, folder, version, plain, timed
):
    options = durable(folder, "appendonly=yes", f"rdb-version={version}")

    def head(hub):
        hub.redis().bgrewriteaof()
        eventually(lambda: not hub.info("persistence")["aof_rewrite_in_progress"], "a rewrite")
        return [path.read_bytes()[:9] for path in folder.glob("appendonlydir/*.base.rdb")]

    hub = start_hub(*options)
    hub.redis().hset("hash", "field", 1)
    assert head(hub) == [plain]
    hub.redis().execute_command("HEXPIRE", "hash", 1_000_000, "FIELDS", 1, "field")
    assert head(hub) == [timed]
    hub.stop()
    assert start_hub(*options).redis().httl("hash", "field")[0] > 900_000


def test_an_incremented_field_is_logged_so_that_redis_7_understands_it(start_hub, folder):
    hub = start_hub(*durable(folder, "appendonly=yes"))
    client = hub.redis()
    client.hincrbyfloat("plain", "field", 1.5)
    client.hset("timed", mapping={"field": 1, "other": 1})
    client.execute_command("HEXPIRE", "timed", 1_000_000, "FIELDS", 1, "field")
    client.hincrbyfloat("timed", "field", 1.5)
    hub.stop()
    log = b"".join(path.read_bytes() for path in folder.glob("appendonlydir/*.incr.aof"))
    before, _, behind = log.partition(b"timed")
    assert b"HSET\r\n$5\r\nplain" in before and b"HSETEX" not in before
    assert b"HSETEX\r\n$5\r\ntimed\r\n$7\r\nKEEPTTL" in behind
    client = start_hub(*durable(folder, "appendonly=yes")).redis()
    assert client.hget("plain", "field") == b"1.5" and client.hget("timed", "field") == b"2.5"
    assert client.httl("timed", "field")[0] > 900_000


def test_a_trim_with_a_limit_is_loaded_as_redis_has_logged_it(start_hub, folder):
    log = folder / "appendonlydir"
    log.mkdir()
    name = "appendonly.aof.1.incr.aof"
    (log / "appendonly.aof.manifest").write_text(f"file {name} seq 1 type i\n")
    lines = ["SELECT 0", *(f"XADD s {number}-1 a b" for number in range(1, 8))]
    lines += ["XADD s MAXLEN = 8 LIMIT 10 8-1 a b", "XADD s MINID = 3-1 LIMIT 10 9-1 a b"]
    lines += ["XTRIM s MAXLEN = 5 LIMIT 20"]
    commands = [line.encode().split() for line in lines]
    (log / name).write_bytes(b"".join(
        b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        for words in commands
    ))
    client = start_hub(*durable(folder, "appendonly=yes")).redis()
    assert [entry[0] for entry in client.xrange("s")] == [b"%d-1" % n for n in range(5, 10)]
    with pytest.raises(redis.ResponseError, match="LIMIT cannot be used"):
        client.execute_command("XADD", "s", "MAXLEN", "=", 5, "LIMIT", 10, "*", "a", "b")


def test_writes_are_refused_while_snapshots_fail(start_hub, folder):
    hub = start_hub(*durable(folder, "save=900 1000000"))
    client = hub.redis()
    client.set("a", 1)
    # Where the snapshot should go there is a folder.
    (folder / "dump.rdb").mkdir()
    client.bgsave()
    eventually(lambda: hub.info("persistence")["rdb_last_bgsave_status"] == "err", "a failure")
    with pytest.raises(redis.ResponseError, match="MISCONF"):
        client.set("a", 2)
    assert client.get("a") == b"1"
    (folder / "dump.rdb").rmdir()
    client.bgsave()
    eventually(lambda: hub.info("persistence")["rdb_last_bgsave_status"] == "ok", "a snapshot")
    client.set("a", 2)


def test_a_save_point_saves_by_itself(start_hub, folder):
    hub = start_hub(*durable(folder, "save=1 5"))
    for number in range(5):
        hub.redis().set(f"key{number}", number)
    eventually(lambda: (folder / "dump.rdb").exists(), "a snapshot")
    eventually(
        lambda: hub.info("persistence")["rdb_changes_since_last_save"] == 0, "no more changes"
    )


def test_redis_loads_what_we_saved_and_we_what_it_saved(start_hub, start_redis, folder):
    hub = start_hub(*durable(folder, "appendonly=yes"))
    client = hub.redis()
    client.set("base", 1)
    client.bgrewriteaof()
    eventually(lambda: hub.info("persistence")["aof_rewrites"] == 2, "a rewrite")
    fill(client)
    client.save()
    expected = digest(client)
    hub.stop()
    theirs = start_redis("--dir", folder, "--appendonly", "no")
    assert digest(theirs) == expected
    theirs.shutdown(nosave=True)
    theirs = start_redis("--dir", folder, "--appendonly", "yes")
    assert digest(theirs) == expected
    assert theirs.fcall("f", 0) == 7
    theirs.bgrewriteaof()
    eventually(lambda: theirs.info("persistence")["aof_rewrite_in_progress"] == 0, "its rewrite")
    theirs.rpush("theirs", 1, 2, 3)
    theirs.save()
    expected = digest(theirs)
    theirs.shutdown(nosave=True)
    for parameter in ["appendonly=yes", "appendonly=no"]:
        hub = start_hub(*durable(folder, parameter))
        assert digest(hub.redis()) == expected
        hub.stop()


def test_a_replica_s_append_only_file_has_what_came_with_the_file_of_all_keys(start_hub, folder):
    master = start_hub()
    fill(master.redis())
    options = durable(folder, "appendonly=yes")
    replica = start_hub(*options)
    replica.redis().set("of-its-own", "gone with the first file of its master")
    replica.redis().replicaof("127.0.0.1", master.resp_port)
    eventually(lambda: replica.info("replication")["master_link_status"] == "up", "the link")
    with master.redis().pipeline(transaction=False) as writer:
        writer.set("later", "by the stream")
        # On the disk of one replica.
        writer.execute_command("WAITAOF", 0, 1, 20_000)
        assert writer.execute() == [True, [0, 1]]
    expected = digest(replica.redis())
    replica.kill()
    replica = start_hub(*options)
    assert digest(replica.redis()) == expected
    assert replica.redis().exists("of-its-own") == 0
    assert replica.redis().get("later") == b"by the stream"


def test_flushall_leaves_no_file_that_would_bring_the_keys_back(start_hub, folder):
    options = durable(folder, "save=3600 1")
    hub = start_hub(*options)
    hub.redis().set("key", "value")
    hub.redis().save()
    transaction = hub.redis().pipeline(transaction=True)
    transaction.flushall().set("other", "value").execute()
    hub.kill()
    hub = start_hub(*options)
    assert hub.redis().keys() == [b"other"]


def test_which_keys_are_used_is_known_after_a_restart(start_hub, folder):
    for policy, ask in (("allkeys-lru", "IDLETIME"), ("allkeys-lfu", "FREQ")):
        options = durable(folder, f"maxmemory-policy={policy}", "save=3600 1")
        hub = start_hub(*options)
        client = hub.redis()
        client.set("key", "value")
        payload = client.dump("key")
        client.execute_command("RESTORE", "key", 0, payload, "REPLACE", ask, 200)
        hub.stop()
        hub = start_hub(*options)
        assert 195 <= hub.redis().execute_command("OBJECT", ask, "key") <= 260
        hub.redis().flushall()
        hub.stop()


def test_the_file_of_functions_alone_can_be_had(start_hub):
    hub = start_hub()
    client = hub.redis()
    client.set("secret-key", 1)
    client.function_load("#!lua name=tides\nredis.register_function('f', function() return 7 end)")
    files = []
    for filters in ([], [("rdb-filter-only", "functions")]):
        asking = RespSocket(hub.resp())
        for option, value in [("capa", "eof"), ("rdb-only", 1), *filters]:
            assert asking.call("REPLCONF", option, value) == b"OK"
        asking.socket.sendall(b"SYNC\r\n")
        client.set("later", 1)
        # Nothing of the stream comes behind it: the connection ends.
        received = asking.socket.makefile("rb").read()
        length, file = received.split(b"\r\n", 1)
        assert length == b"$%d" % len(file)
        files.append(file)
    whole, functions = files
    assert b"secret-key" in whole and b"tides" in whole
    assert b"secret-key" not in functions and b"tides" in functions
    with pytest.raises(Exception, match="Unsupported rdb-filter-only option: keys"):
        RespSocket(hub.resp()).call("REPLCONF", "rdb-filter-only", "keys")
