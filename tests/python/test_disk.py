"""Disks that are full, directories that are taken, saves that meet each other: nothing is lost."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import redis

from support import RespSocket, Reply, eventually, free_ports


def options(folder, *parameters):
    words = ["--dir", str(folder), "--set", "save="]
    return words + [part for word in parameters for part in ("--set", word)]


class Writers:
    """Clients that write until their connections end, and remember what was acknowledged."""

    def __init__(self, hub, count=3, size=2000):
        self.acknowledged = [0] * count
        self.refused = 0
        # A fast writer would fill a small disk before anything is looked at.
        self._allowed = 0
        self._hub, self._size, self._stopped = hub, size, threading.Event()
        self.threads = [threading.Thread(target=self._write, args=[n]) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def _write(self, number):
        try:
            client = RespSocket(self._hub.resp())
            counter = 0
            while not self._stopped.is_set():
                if counter >= self._allowed:
                    time.sleep(0.001)
                    continue
                value = b"%d:" % (counter + 1) + b"v" * self._size
                try:
                    client.call("SET", f"writer:{number}", value)
                except Reply as error:
                    assert "MISCONF" in str(error)
                    self.refused += 1
                    time.sleep(0.01)
                    continue
                counter += 1
                self.acknowledged[number] = counter
        except (OSError, EOFError, ValueError):
            return

    def wait_for_more(self, count=20):
        wanted = max(self.acknowledged) + count
        self.allow(count)
        eventually(lambda: min(self.acknowledged) >= wanted, "more acknowledged writes")

    def allow(self, count):
        """Lets each writer write up to `count` more than the fastest has written."""
        self._allowed = max(self.acknowledged) + count

    def join(self):
        self._stopped.set()
        for thread in self.threads:
            thread.join()

    def check(self, hub):
        client = hub.redis()
        for number, acknowledged in enumerate(self.acknowledged):
            value = client.get(f"writer:{number}")
            found = int(value.split(b":")[0]) if value else 0
            assert found >= acknowledged, f"writer {number}: {found} of {acknowledged}"


@pytest.mark.parametrize("job", [None, "bgsave", "bgrewriteaof"])
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_disk_that_was_full_for_a_while_has_all_that_was_acknowledged(
    start_hub, small_disk, policy, job
):
    settings = options(
        small_disk.path, "appendonly=yes", f"appendfsync={policy}",
        "auto-aof-rewrite-percentage=0",
    )
    hub = start_hub(*settings)
    writers = Writers(hub)
    writers.wait_for_more()
    if job:
        getattr(hub.redis(), job)()
    small_disk.fill()
    writers.allow(1000)
    eventually(lambda: _writes(hub) == "err", "a full disk")
    # Others are answered: what they ask changes nothing.
    assert hub.redis().dbsize() > 0
    eventually(lambda: _is_refused(hub), "a refusal")
    small_disk.resize("24m")
    eventually(lambda: _writes(hub) == "ok", "writes again")
    writers.wait_for_more()
    hub.process.kill()
    writers.join()
    hub.kill()
    (small_disk.path / "filler").unlink()
    hub = start_hub(*settings)
    writers.check(hub)
    for increment in small_disk.path.glob("appendonlydir/*.incr.aof"):
        assert b"\0" not in increment.read_bytes()


def _writes(hub):
    return hub.info("persistence")["aof_last_write_status"]


def test_a_log_that_cannot_be_written_is_not_loaded_again(start_hub, small_disk):
    settings = options(
        small_disk.path, "appendonly=yes", "appendfsync=everysec", "auto-aof-rewrite-percentage=0",
        "enable-debug-command=yes",
    )
    hub = start_hub(*settings)
    client = hub.redis()
    client.set("kept", 1)
    small_disk.fill()
    waiting = RespSocket(hub.resp())
    waiting.send("SET", "b", "x" * 100_000)
    eventually(lambda: _writes(hub) == "err", "a full disk")
    with pytest.raises(redis.ResponseError, match="cannot be written"):
        client.execute_command("DEBUG", "LOADAOF")
    assert client.get("kept") == b"1"
    (small_disk.path / "filler").unlink()
    assert waiting.read() == b"OK"
    eventually(lambda: _writes(hub) == "ok", "writes again")
    assert client.execute_command("DEBUG", "LOADAOF")
    assert client.strlen("b") == 100_000


def test_readers_of_the_turn_in_which_a_disk_fills_are_replied_to(start_hub, small_disk):
    settings = options(
        small_disk.path, "appendonly=yes", "appendfsync=everysec", "auto-aof-rewrite-percentage=0"
    )
    hub = start_hub(*settings, "--lanes", "2")
    # Two lanes that write much, so that one often finds the other writing; readers ask all the time.
    writers = Writers(hub)
    readers = [RespSocket(hub.resp()) for _ in range(16)]
    writers.wait_for_more()
    small_disk.fill()
    writers.allow(1000)
    while _writes(hub) != "err":
        for reader in readers:
            reader.send("GET", "writer:0")
        for reader in readers:
            reader.read()
    for reader in readers:
        assert reader.call("EXISTS", "writer:0") == 1
    small_disk.resize("24m")
    eventually(lambda: _writes(hub) == "ok", "writes again")
    writers.wait_for_more()
    writers.join()


def test_a_promoted_replica_without_a_base_says_that_its_file_keeps_nothing(
    start_hub, small_disk, tmp_path
):
    # The master's file finds room, the base that is made of it does not.
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "appendonlydir").symlink_to(small_disk.path)
    master = start_hub()
    client = master.redis()
    client.mset({f"key {number}": os.urandom(10_000) for number in range(600)})
    settings = options(folder, "appendonly=yes", "appendfsync=always")
    hub = start_hub(*settings)
    replica = hub.redis()
    replica.replicaof("127.0.0.1", master.resp_port)
    eventually(lambda: replica.info("replication")["master_link_status"] == "up", "it follows")
    eventually(lambda: _writes(replica) == "err", "the base is too large for the disk")
    replica.replicaof("no", "one")
    assert _writes(replica) == "err"
    small_disk.resize("40m")
    replica.bgrewriteaof()
    eventually(lambda: _writes(replica) == "ok", "the base is complete")
    replica.set("acknowledged", "yes")
    assert replica.waitaof(1, 0, 0) == [1, 0]
    hub.kill()
    restarted = start_hub(*settings).redis()
    assert restarted.get("acknowledged") == b"yes"
    assert restarted.dbsize() == 601


def _is_refused(hub):
    one = RespSocket(hub.resp())
    one.socket.settimeout(1)
    try:
        one.call("SET", "other", "x")
    except Reply as error:
        return "MISCONF" in str(error)
    except OSError:
        # The first one of all is held back until there is room.
        return False


def test_a_file_that_a_full_disk_refuses_stays_as_it_was(start_hub, small_disk):
    users = small_disk.path / "users.acl"
    users.write_text("user default on nopass ~* &* +@all\n")
    conf = small_disk.path / "redis.conf"
    conf.write_text(f"save \"\"\naclfile {users}\nmaxmemory 100mb\ndir {small_disk.path}\n")
    hub = start_hub("--redis-conf", conf)
    client = hub.redis()
    client.set("key", "x" * 100_000)
    client.save()
    before = {path: path.read_bytes() for path in (users, conf, small_disk.path / "dump.rdb")}
    client.execute_command("ACL", "SETUSER", "anna", "on", ">" + "p" * 9000)
    client.config_set("maxmemory", "200mb")
    client.set("key", "y" * 100_000)
    small_disk.fill()
    for words in (["ACL", "SAVE"], ["CONFIG", "REWRITE"], ["SAVE"]):
        with pytest.raises(redis.ResponseError):
            client.execute_command(*words)
    assert {path: path.read_bytes() for path in before} == before
    assert not list(small_disk.path.glob("temp-*")) and client.ping()
    (small_disk.path / "filler").unlink()
    for words in (["ACL", "SAVE"], ["CONFIG", "REWRITE"], ["SAVE"]):
        client.execute_command(*words)
    assert all(path.read_bytes() != old for path, old in before.items())


def test_a_recording_that_met_a_full_disk_is_whole(
    start_simulator, start_hub, start, small_disk
):
    simulator = start_simulator("--rate", "50000", "--symbols", "10")
    recording = small_disk.path / "day.rec"
    hub = start_hub("--source", simulator.source, "--record", recording)
    eventually(lambda: hub.info("feed")["recording_errors"] > 0, "a full disk")
    small_disk.resize("64m")
    written = hub.info("feed")["recording_messages"]
    eventually(lambda: hub.info("feed")["recording_messages"] > written + 50_000, "more of it")
    simulator.stop()
    hub.kill()
    other = start_hub()
    replay = start("replay", recording, "--to", f"127.0.0.1:{other.feed_port}", "--speed", "max")
    assert replay.wait(60) == 0, replay.stderr
    assert "damaged" not in replay.stdout + replay.stderr


def test_a_second_server_on_one_directory_is_refused_by_name(start_hub, start, tmp_path):
    folder = tmp_path / "data"
    other = tmp_path / "other"
    for path in (folder, other):
        path.mkdir()
    hub = start_hub("--dir", folder)
    program = _second(start, "--dir", folder)
    # As with a port in use: another directory sets it right.
    assert program.wait() == 2
    assert f"PID {hub.pid}" in program.stderr and str(folder) in program.stderr
    # By another name it is the same directory.
    link = tmp_path / "link"
    link.symlink_to(folder)
    program = _second(start, "--dir", link, "--set", "dbfilename=other.rdb")
    assert program.wait() == 2 and f"PID {hub.pid}" in program.stderr
    # CONFIG SET dir takes the lock along, and cannot take what another server has.
    second = start_hub("--dir", other, "--set", "enable-protected-configs=yes")
    client = second.redis()
    with pytest.raises(redis.ResponseError, match=f"PID {hub.pid}"):
        client.config_set("dir", str(folder))
    assert client.config_get("dir")["dir"] == str(other)
    hub.kill()
    client.config_set("dir", str(folder))
    third = start_hub("--dir", other)
    assert third.redis().ping()
    program = _second(start, "--dir", folder)
    assert program.wait() == 2 and f"PID {second.pid}" in program.stderr


def test_the_directory_stays_while_the_append_only_file_is_on(start_hub, tmp_path):
    folder, other = tmp_path / "one", tmp_path / "other"
    for path in (folder, other):
        path.mkdir()
    hub = start_hub("--dir", folder, "--set", "appendonly=yes", "--set", "enable-protected-configs=yes")
    client = hub.redis()
    client.set("key", "value")
    with pytest.raises(redis.ResponseError, match="set appendonly to no first"):
        client.config_set("dir", str(other))
    client.config_set("dir", client.config_get("dir")["dir"])
    client.config_set("appendonly", "no")
    client.config_set("dir", str(other))
    assert client.config_get("dir")["dir"] == str(other)


def _second(start, *arguments):
    """Another server, with ports of its own."""
    names = ("--zmq-pub", "--zmq-pull", "--zmq-router")
    ports = [word for name in names for word in (name, "tcp://127.0.0.1:0")]
    resp = f"127.0.0.1:{free_ports(1)[0]}"
    return start("serve", "--resp", resp, *ports, "--feed", "127.0.0.1:0", *arguments)


def test_two_recorders_do_not_write_one_file(start_hub, start, tmp_path):
    recording = tmp_path / "day.rec"
    start_hub("--record", recording)
    program = _second(start, "--record", recording)
    assert program.wait() != 0
    assert "in use by another process" in program.stderr


def test_concurrent_flushalls_with_save_points_refuse_no_write(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder, "--lanes", 2, "--set", "save=3600 1")
    errors = []

    def flush():
        client = RespSocket(hub.resp())
        for number in range(24):
            try:
                client.call("SET", f"key{number}", "x" * 100)
                client.call("FLUSHALL")
            except Reply as error:
                errors.append(str(error))

    clients = [threading.Thread(target=flush) for _ in range(6)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert errors == []
    client = hub.redis()
    client.set("last", "one")
    eventually(lambda: hub.info("persistence")["rdb_bgsave_in_progress"] == 0, "the last save")
    assert hub.info("persistence")["rdb_last_bgsave_status"] == "ok"
    assert not list(folder.glob("temp-*"))
    hub.stop()


def test_what_was_flushed_away_while_a_snapshot_is_made_does_not_come_back(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder, "--set", "save=3600 1000000")
    client = hub.redis()
    client.mset({f"key{number}": number for number in range(50)})
    client.config_set("rdb-key-save-delay", 100_000)
    client.bgsave()
    client.flushall()
    client.set("later", 1)
    client.config_set("rdb-key-save-delay", 0)
    eventually(lambda: hub.info("persistence")["rdb_bgsave_in_progress"] == 0, "the last save")
    hub.kill()
    hub = start_hub("--dir", folder)
    assert hub.redis().keys("key*") == []


def test_a_save_that_failed_is_tried_again_by_itself(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder, "--set", "save=3600 1000000")
    client = hub.redis()
    client.set("a", 1)
    (folder / "dump.rdb").mkdir()
    client.bgsave()
    eventually(lambda: hub.info("persistence")["rdb_last_bgsave_status"] == "err", "a failure")
    (folder / "dump.rdb").rmdir()
    eventually(lambda: hub.info("persistence")["rdb_last_bgsave_status"] == "ok", "a snapshot")
    client.set("a", 2)


def test_unfinished_files_of_a_killed_server_are_removed(start_hub, tmp_path):
    folder = tmp_path / "data"
    (folder / "appendonlydir").mkdir(parents=True)
    stale = [
        folder / "temp-4194999-0.rdb",
        folder / "appendonlydir/temp-rewriteaof-bg-4194999-1.aof",
        folder / "appendonlydir/temp-appendonly.aof.manifest-4194999-3.tmp",
    ]
    alive = folder / f"temp-{os.getpid()}-0.rdb"
    for path in [*stale, alive]:
        path.write_text("half")
    start_hub("--dir", folder)
    assert not any(path.exists() for path in stale) and alive.exists()


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("job", ["bgsave", "bgrewriteaof"])
def test_a_signal_ends_a_hub_that_saves_or_rewrites_slowly(start_hub, tmp_path, job, signal_number):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder, "--set", "appendonly=yes", "--set", "save=3600 1")
    client = hub.redis()
    client.mset({f"key{number}": number for number in range(1000)})
    # Half an hour and more.
    client.config_set("rdb-key-save-delay", 2_000_000)
    getattr(client, job)()
    name = {"bgsave": "rdb_bgsave_in_progress", "bgrewriteaof": "aof_rewrite_in_progress"}[job]
    eventually(lambda: hub.info("persistence")[name] == 1, "it runs")
    hub.stop(signal_number)
    assert not list(Path(folder).glob("**/temp-*"))
    hub = start_hub("--dir", folder, "--set", "appendonly=yes")
    assert hub.redis().dbsize() == 1000


def test_a_signal_ends_a_hub_whose_replica_takes_its_file_slowly(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder, "--set", "save=3600 1", "--set", "shutdown-timeout=0")
    client = hub.redis()
    for number in range(24):
        client.set(f"key{number}", os.urandom(1_000_000))
    replica = RespSocket(hub.resp())
    replica.send("PSYNC", "?", -1)
    # It reads nothing more: its file stays half way.
    assert replica.file.readline().startswith(b"+FULLRESYNC")
    hub.stop()
    assert (folder / "dump.rdb").exists()


def test_save_does_not_wait_for_a_rewrite(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder, "--set", "appendonly=yes", "--set", "save=")
    client = hub.redis()
    client.mset({f"key{number}": number for number in range(100)})
    client.config_set("rdb-key-save-delay", 1_000_000)
    client.bgrewriteaof()
    eventually(lambda: hub.info("persistence")["aof_rewrite_in_progress"] == 1, "a rewrite")
    with pytest.raises(redis.ResponseError, match="rewriting already in progress"):
        client.save()
    assert client.ping()


def test_zeros_that_a_failed_machine_left_at_the_end_are_cut_off(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    settings = ["--dir", folder, "--set", "appendonly=yes"]
    hub = start_hub(*settings)
    hub.redis().set("whole", 1)
    hub.stop()
    with open(folder / "appendonlydir/appendonly.aof.1.incr.aof", "ab") as increment:
        increment.write(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\nx" + b"\0" * 9747)
    hub = start_hub(*settings)
    assert hub.redis().keys() == [b"whole"]
