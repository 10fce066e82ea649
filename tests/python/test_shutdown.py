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


def test_a_signal_does_not_end_what_cannot_be_saved(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--set", f"dir={folder}", "--set", "save=3600 1")
    client = hub.redis()
    client.set("key", "value")
    # Where the file belongs there is a folder.
    (folder / "dump.rdb").mkdir()
    for count, signal_number in enumerate((signal.SIGTERM, signal.SIGINT), 1):
        hub.process.send_signal(signal_number)
        eventually(lambda: hub.stderr.count("can't exit") == count, "the refusal")
        assert client.get("key") == b"value"
    with pytest.raises(redis.ResponseError, match="Errors trying to SHUTDOWN"):
        client.execute_command("SHUTDOWN")
    (folder / "dump.rdb").rmdir()
    hub.stop()
    assert (folder / "dump.rdb").is_file()


def test_a_signal_ends_as_its_setting_says(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    options = ["--set", f"dir={folder}", "--set", "save=3600 1"]
    for words, is_saved in (("nosave", False), ("save", True)):
        hub = start_hub(*options, "--set", f"shutdown-on-sigterm={words}")
        hub.redis().set("key", "value")
        hub.stop()
        assert (folder / "dump.rdb").exists() == is_saved
