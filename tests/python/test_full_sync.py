"""A replica's full sync: what is here stays until the master's file is whole and as it has to be."""

import re
import signal

import pytest
import redis

from support import eventually

MARK = b"m" * 40
BEGIN = b"+FULLRESYNC " + b"a" * 40 + b" 0\r\n"
NO_CHECKSUM = bytes(8)


def file_of(values, version=b"0011", checksum=NO_CHECKSUM):
    """A file of strings."""
    parts = [b"REDIS", version, b"\xfe\x00"]
    for key, value in values.items():
        parts += [b"\x00", bytes([len(key)]), key, b"\x80", len(value).to_bytes(4, "big"), value]
    return b"".join([*parts, b"\xff", checksum])


WHOLE = file_of({b"new": b"value", b"long": b"x" * 100_000})


def with_length(file):
    return b"$%d\r\n" % len(file) + file


def with_mark(file):
    return b"$EOF:" + MARK + b"\r\n" + file + MARK


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def unfinished(folder):
    return [path.name for path in folder.glob("temp-*")]


def state_of_link(client):
    return client.info("replication")["master_link_status"]


HALF = WHOLE[:50_000]
BROKEN = {
    "cut in the middle": (b"$%d\r\n" % len(WHOLE) + HALF, "master is lost"),
    "cut in the middle, with a mark": (b"$EOF:" + MARK + b"\r\n" + HALF, "master is lost"),
    "no RDB file": (b"$9\r\nnot a rdb", "it is no RDB file"),
    "a version of the future": (with_length(file_of({}, b"0099")), "its RDB version is 99"),
    "a wrong checksum": (with_length(file_of({b"new": b""}, checksum=b"12345678")), "RDB CRC"),
    "shorter than it has to be": (with_length(HALF), "ends in the middle of a record"),
    "another mark at its end": (with_mark(WHOLE)[:-1] + b"n", "another mark stands at its end"),
    "no file at all": (b"-ERR no file\r\n", "it said: -ERR no file"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_file_that_is_broken_took_the_replica_s_own_keys_away(
    start_hub, fake_master, folder, broken
):
    answer, reason = BROKEN[broken]
    hub = start_hub("--dir", folder)
    client = hub.redis()
    client.set("old", "value")
    master = fake_master(BEGIN + answer, closes=broken.startswith("cut"))
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: len(master.asked) >= 3, "it is asked again and again")
    assert client.get("old") == b"value"
    assert state_of_link(client) == "down"
    assert client.replicaof("no", "one")
    assert client.keys() == [b"old"]
    client.set("old", "again")
    assert reason in hub.stderr
    eventually(lambda: not unfinished(folder), "its file is gone")


@pytest.mark.parametrize("form", [with_length, with_mark])
def test_a_master_that_never_ended_its_file_kept_replicaof_from_being_obeyed(
    start_hub, fake_master, folder, form
):
    client = start_hub("--dir", folder).redis()
    client.set("old", "value")
    answer = form(WHOLE)
    head = answer.index(b"\n") + 1
    silent = fake_master(BEGIN + answer[:head] + HALF)
    whole = fake_master(BEGIN + answer)
    for _ in range(2):
        client.replicaof("127.0.0.1", silent.port)
        eventually(
            lambda: client.info("replication").get("master_sync_read_bytes") == len(HALF), "half"
        )
        fields = client.info("replication")
        total = len(WHOLE) if form is with_length else 0
        assert fields["master_sync_in_progress"] == 1
        assert fields["master_sync_total_bytes"] == total
        assert fields["master_sync_left_bytes"] == total - len(HALF)
        assert client.get("old") == b"value"
        (name,) = unfinished(folder)
        assert re.fullmatch(r"temp-\d+-\d+\.rdb", name)
        # A snapshot takes the directory, and leaves what is being written there.
        client.save()
        assert unfinished(folder) == [name]
        assert client.replicaof("no", "one")
        client.set("another", "value")
        assert client.dbsize() == 2
        eventually(lambda: not unfinished(folder), "its file is gone")
    client.replicaof("127.0.0.1", silent.port)
    eventually(lambda: unfinished(folder), "a file begins")
    client.replicaof("127.0.0.1", whole.port)
    eventually(lambda: state_of_link(client) == "up", "another master is followed")
    assert sorted(client.keys()) == [b"long", b"new"]
    assert "master_sync_total_bytes" not in client.info("replication")
    eventually(lambda: not unfinished(folder), "its file is gone")


def test_a_master_that_falls_silent_in_the_middle_of_its_file_is_given_up_and_asked_again(
    start_hub, fake_master, folder
):
    hub = start_hub("--dir", folder, "--set", "repl-timeout=1")
    client = hub.redis()
    client.set("own", "value")
    begin = b"REDIS0011\xfe\x00\x00\x03key\x05value\x00\x04long\x80\x00\x10\x00\x00abc"
    master = fake_master(BEGIN + b"$2000000\r\n" + begin)
    client.replicaof("127.0.0.1", master.port)
    # Meanwhile it answers, and shows nothing of what it has got.
    eventually(lambda: client.keys() == [b"own"] and len(master.asked) >= 3, "it is asked again")
    assert "Timeout receiving bulk data from MASTER" in hub.stderr
    master.close()
    eventually(lambda: client.info("replication")["master_sync_in_progress"] == 0, "it is lost")
    assert client.get("own") == b"value"
    client.replicaof("no", "one")
    client.set("own", "again")


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_written_before_a_full_sync_that_did_not_end_was_lost_with_the_process(
    start_hub, fake_master, folder, signal_number
):
    options = ["--dir", folder, "--set", "appendonly=yes", "--set", "save=3600 1"]
    hub = start_hub(*options)
    client = hub.redis()
    client.config_set("replica-read-only", "no")
    client.config_set("appendfsync", "always")
    client.set("before", "value")
    master = fake_master(BEGIN + b"$%d\r\n" % len(WHOLE) + HALF)
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: unfinished(folder), "a file begins")
    assert client.info("persistence")["aof_enabled"] == 1
    client.set("meanwhile", "value")
    if signal_number == signal.SIGTERM:
        hub.stop()
        assert not unfinished(folder)
    else:
        hub.kill()
    client = start_hub(*options).redis()
    assert sorted(client.keys()) == [b"before", b"meanwhile"]
    assert not unfinished(folder)


def test_a_full_disk_refuses_a_master_s_file_and_no_key_is_lost(
    start_hub, fake_master, small_disk
):
    hub = start_hub("--dir", small_disk.path)
    client = hub.redis()
    client.set("old", "value")
    master = fake_master(BEGIN + with_length(file_of({b"new": b"x" * 6_000_000})))
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: len(master.asked) >= 3, "it is asked again and again")
    assert client.get("old") == b"value"
    assert "cannot be kept in the directory 'dir'" in hub.stderr
    assert "No space left on device" in hub.stderr
    small_disk.resize("64m")
    eventually(lambda: state_of_link(client) == "up", "there is space")
    assert client.strlen("new") == 6_000_000
    assert not client.exists("old")
    assert not unfinished(small_disk.path)


def test_a_directory_that_takes_no_file_leaves_the_replica_its_keys(
    start_hub, fake_master, folder
):
    hub = start_hub("--set", f"dir={folder}", "--set", "save=")
    client = hub.redis()
    client.set("old", "value")
    aside = folder.with_name("aside")
    folder.rename(aside)
    master = fake_master(BEGIN + with_length(WHOLE))
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: len(master.asked) >= 3, "it is asked again and again")
    assert client.keys() == [b"old"]
    assert "cannot be kept in the directory 'dir'" in hub.stderr
    aside.rename(folder)
    eventually(lambda: state_of_link(client) == "up", "the directory is there")
    assert sorted(client.keys()) == [b"long", b"new"]


def test_a_server_that_ended_while_it_loaded_its_master_s_keys_saved_half_of_them(
    start_hub, fake_master, folder
):
    options = ["--dir", folder, "--set", "save=1 1"]
    hub = start_hub(*options)
    client = hub.redis()
    client.set("old", "value")
    client.save()
    before = (folder / "dump.rdb").read_bytes()
    # It is read in parts, and a minute long.
    values = {b"key %d" % number: b"x" * 20_000 for number in range(300)}
    master = fake_master(BEGIN + with_length(file_of(values)))
    client.config_set("key-load-delay", 200_000)
    client.replicaof("127.0.0.1", master.port)

    def is_loading():
        try:
            client.get("old")
            return False
        except redis.BusyLoadingError:
            return True

    eventually(is_loading, "the file is loaded")
    assert not unfinished(folder)
    with pytest.raises(redis.BusyLoadingError):
        client.replicaof("no", "one")
    # The master hears that this server is there, more than once, before the load is over.
    eventually(lambda: master.received.endswith(b"\n\n\n"), "empty lines")
    assert is_loading()
    hub.stop()
    assert (folder / "dump.rdb").read_bytes() == before
    assert start_hub(*options).redis().keys() == [b"old"]


@pytest.mark.parametrize("is_lazy", ["yes", "no"])
def test_info_said_that_nothing_was_loaded_while_a_master_s_keys_took_the_place_of_others(
    start_hub, is_lazy
):
    debug = ("--set", "enable-debug-command=yes")
    master, replica = start_hub(*debug), start_hub(*debug, "--set", f"replica-lazy-flush={is_lazy}")
    master.redis().execute_command("DEBUG", "POPULATE", 1000, "master")
    client = replica.redis()
    client.execute_command("DEBUG", "POPULATE", 500, "own")
    client.config_set("key-load-delay", 100_000)
    client.replicaof("127.0.0.1", master.resp_port)
    eventually(lambda: client.info("persistence")["loading"] == 1, "it loads")
    with pytest.raises(redis.BusyLoadingError):
        client.get("own:0")
    client.config_set("key-load-delay", 0)
    eventually(lambda: client.info("replication")["master_link_status"] == "up", "it follows")
    assert client.info("persistence")["loading"] == 0 and client.dbsize() == 1000
    freed = 500 if is_lazy == "yes" else 0
    eventually(lambda: client.info("memory")["lazyfreed_objects"] == freed, "the old keys are freed")
