"""SHUTDOWN: replicas get what they lack first, ABORT takes it back, and nobody new gets in."""

import signal
import socket
import threading

import pytest
import redis

from support import RespSocket, eventually


@pytest.fixture
def lagging(hub):
    """A replica that follows the stream and never says that it has anything of it."""
    replica = hub.resp()
    replica.sendall(b"REPLCONF capa eof\r\nPSYNC ? -1\r\n")
    client = hub.redis(single_connection_client=True)
    eventually(lambda: client.info("replication").get("slave0", {}).get("state") == "online",
               "the replica follows")
    yield replica
    replica.close()
    if hub.process.poll() is None:
        # A signal would wait for it as well.
        eventually(lambda: client.info("replication")["connected_slaves"] == 0, "it is gone")


def shut_down(hub, *words):
    """Sends SHUTDOWN from a thread of its own; what came of it is told by the list."""
    outcome = []

    def run():
        client = hub.redis(single_connection_client=True)
        try:
            outcome.append(client.execute_command("SHUTDOWN", *words))
        except redis.RedisError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_without_replicas_there_is_nothing_to_abort(hub):
    with pytest.raises(redis.ResponseError, match="No shutdown in progress"):
        hub.redis().execute_command("SHUTDOWN", "ABORT")


def test_a_wait_for_replicas_is_aborted(hub, lagging):
    client, writer = (hub.redis(single_connection_client=True) for _ in range(2))
    client.set("key", "value")
    thread, outcome = shut_down(hub, "NOSAVE")
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "SHUTDOWN waits")
    assert client.get("key") == b"value"
    # Nothing that a replica would have to hear of is executed meanwhile.
    held = threading.Thread(target=writer.set, args=("key", "other"))
    held.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 2, "the write waits")
    assert client.get("key") == b"value"
    assert client.execute_command("SHUTDOWN", "ABORT")
    thread.join()
    held.join()
    assert str(outcome[0]) == "Errors trying to SHUTDOWN. Check logs."
    assert client.get("key") == b"other"


def test_nobody_is_waited_for_now(hub, lagging):
    hub.redis().set("key", "value")
    thread, outcome = shut_down(hub, "NOW", "NOSAVE")
    thread.join()
    assert hub.wait() == 0
    assert isinstance(outcome[0], redis.ConnectionError)


def test_the_second_signal_waits_for_nobody(hub, lagging):
    hub.redis().set("key", "value")
    hub.process.send_signal(signal.SIGTERM)
    eventually(lambda: "Waiting for replicas" in hub.stderr, "the wait")
    hub.process.send_signal(signal.SIGTERM)
    assert hub.wait() == 128 + signal.SIGTERM


def test_the_wait_ends_with_its_time(start_hub):
    hub = start_hub("--set", "shutdown-timeout=1")
    replica = hub.resp()
    replica.sendall(b"PSYNC ? -1\r\n")
    client = hub.redis(single_connection_client=True)
    eventually(lambda: client.info("replication").get("slave0", {}).get("state") == "online",
               "the replica follows")
    client.set("key", "value")
    thread, _ = shut_down(hub, "NOSAVE")
    thread.join()
    assert hub.wait() == 0


def test_who_was_cut_off_by_the_end_cannot_connect_again(start_hub):
    for _ in range(5):
        hub = start_hub("--lanes", "2", "--set", "busy-reply-threshold=1")
        script = hub.resp()
        script.sendall(b"EVAL 'while true do end' 0\r\n")
        client = RespSocket(hub.resp())

        def is_busy():
            client.socket.sendall(b"PING\r\n")
            return client.file.readline().startswith(b"-BUSY")

        eventually(is_busy, "the script has run for long")
        client.socket.sendall(b"SHUTDOWN NOSAVE\r\n")
        assert client.socket.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", hub.resp_port))
        hub.wait()


@pytest.fixture
def unsavable(start_hub, tmp_path):
    """A hub with a key that it cannot save: where the file belongs there is a folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--set", f"dir={folder}", "--set", "save=3600 1")
    hub.redis().set("key", "value")
    (folder / "dump.rdb").mkdir()
    hub.file = folder / "dump.rdb"
    return hub


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_does_not_end_what_cannot_be_saved_and_the_second_does(
    unsavable, first, second
):
    hub, client = unsavable, unsavable.redis()
    hub.process.send_signal(first)
    eventually(lambda: "did not stop the server" in hub.stderr, "the refusal")
    assert client.get("key") == b"value"
    with pytest.raises(redis.ResponseError, match="Errors trying to SHUTDOWN"):
        client.execute_command("SHUTDOWN")
    hub.process.send_signal(second)
    # It says that keys were lost.
    assert hub.wait() == 1 and "could not be saved" in hub.stderr
    assert "panicked" not in hub.stderr


def test_the_second_signal_saves_what_can_be_saved_by_then(unsavable):
    hub = unsavable
    hub.process.send_signal(signal.SIGTERM)
    eventually(lambda: "did not stop the server" in hub.stderr, "the refusal")
    hub.file.rmdir()
    hub.stop()
    assert hub.file.is_file()


def test_a_hangup_ends_nothing_and_opens_the_log_anew(start_hub, tmp_path):
    log, old = tmp_path / "hub.log", tmp_path / "hub.log.1"
    hub = start_hub("--set", f"logfile={log}")
    client = hub.redis()
    client.set("key", "value")
    eventually(lambda: "is serving" in log.read_text(), "the start in the log")
    log.rename(old)
    for count in (1, 2):
        hub.process.send_signal(signal.SIGHUP)
        eventually(lambda: log.exists() and log.read_text().count("SIGHUP") == count, "a new log")
        assert client.get("key") == b"value"
    assert "SIGHUP" not in old.read_text()


@pytest.mark.parametrize("saving", [["--dir"], ["--set", "appendonly=yes", "--set"]])
def test_a_folder_that_cannot_be_written_ends_the_start(start, saving):
    # Nobody makes files in /proc, root included.
    folder = "/proc" if saving == ["--dir"] else "dir=/proc"
    program = start("serve", *saving, folder)
    assert program.wait() == 2
    lines = program.stderr.splitlines()
    assert len(lines) == 1 and "dir '/proc': cannot create files" in lines[0]


def test_a_folder_in_which_nothing_is_saved_is_not_looked_at(start_hub):
    start_hub("--set", "dir=/proc").stop()


def test_a_signal_ends_as_its_setting_says(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    options = ["--set", f"dir={folder}", "--set", "save=3600 1"]
    for words, is_saved in (("nosave", False), ("save", True)):
        hub = start_hub(*options, "--set", f"shutdown-on-sigterm={words}")
        hub.redis().set("key", "value")
        hub.stop()
        assert (folder / "dump.rdb").exists() == is_saved


def test_a_signal_waits_for_the_first_base_of_an_append_only_file(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    settings = ["--dir", folder, "--set", "save="]
    hub = start_hub(*settings, "--set", "shutdown-timeout=60")
    client = hub.redis()
    client.mset({f"key{number}": "v" for number in range(100)})
    # A second for all of them.
    client.config_set("rdb-key-save-delay", 10_000)
    client.config_set("appendonly", "yes")
    hub.stop()
    hub = start_hub(*settings, "--set", "appendonly=yes")
    assert hub.redis().dbsize() == 100
