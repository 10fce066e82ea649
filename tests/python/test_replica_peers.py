"""Replication with peers that lie, fall silent or send nonsense: the server goes on."""

import os
import socket
import time

import pytest
import redis

from support import eventually

FILE_BEGIN = b"REDIS0011"
# A file's end without a checksum: eight zeros.
FILE_END = b"\xff" + bytes(8)
ID = b"a" * 40


def request(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n" % len(words) + b"".join(parts)


def file_of(key, value):
    """A file of one short key."""
    record = bytes([0, len(key)]) + key + bytes([len(value)]) + value
    return FILE_BEGIN + b"\xfe\x00" + record + FILE_END


def full_sync(offset=0, file=file_of(b"key", b"value"), id=ID):
    return b"+FULLRESYNC %s %s\r\n$%d\r\n%s" % (id, str(offset).encode(), len(file), file)


class Peer:
    """A connection that sends what a test says, and reads only when it is told to."""

    def __init__(self, port, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(20)
        self.socket.connect(("127.0.0.1", port))
        self.received = b""

    def send(self, *words):
        self.socket.sendall(request(*words))

    def line(self):
        while b"\n" not in self.received:
            self.received += self.socket.recv(1 << 16) or self.fail()
        line, _, self.received = self.received.partition(b"\n")
        return line.strip() or self.line()

    def until(self, end):
        while end not in self.received:
            self.received += self.socket.recv(1 << 16) or self.fail()

    def fail(self):
        raise AssertionError(f"the connection has ended behind {self.received[:100]}")


def replication(client):
    return client.info("replication")


def link(client):
    try:
        return replication(client).get("master_link_status")
    except redis.BusyLoadingError:
        return None


# What leaves no room for a stream, or is no number at all.
OFFSETS = [2**63 - 1, 2**63 - 2**48, 2**63, 2**64 - 1, 2**64, -1, -(2**63), "+1", "1e3", ""]


def test_a_psync_from_the_least_number_there_is_gets_all_keys(start_hub):
    hub = start_hub()
    hub.redis().set("key", "value")
    first = Peer(hub.resp_port)
    first.send("PSYNC", "?", "-1")
    id = first.line().split()[1]
    assert replication(hub.redis())["master_replid"].encode() == id
    for next in [-(2**63), -(2**63) + 1, -2, 0, 2**63 - 1]:
        peer = Peer(hub.resp_port)
        peer.send("PSYNC", id, next)
        assert peer.line().startswith(b"+FULLRESYNC " + id)
    assert hub.redis().get("key") == b"value"


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_master_whose_offset_leaves_no_room_is_refused_and_nothing_is_lost(start_hub, fake_master,
                                                                            offset):
    hub = start_hub()
    client = hub.redis()
    client.set("own", "value")
    master = fake_master(full_sync(offset) + request("SET", "behind", 1))
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: len(master.asked) >= 2, "it is asked again")
    assert link(client) == "down" and client.get("own") == b"value"
    client.replicaof("no", "one")
    client.set("own", "new")
    assert replication(client)["second_repl_offset"] == -1


def test_a_stream_goes_on_at_the_greatest_offset_that_is_taken(start_hub, fake_master):
    hub = start_hub()
    client = hub.redis()
    offset = 2**63 - 1 - 2**48
    command = request("SET", "behind", "stream")
    master = fake_master(full_sync(offset) + command)
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: link(client) == "up" and client.get("behind"), "the stream is executed")
    assert replication(client)["slave_repl_offset"] == offset + len(command)
    client.replicaof("no", "one")
    client.set("own", "new")
    assert replication(client)["second_repl_offset"] == offset + len(command) + 1


@pytest.mark.parametrize("words", [("PING",), ("GET", "key"), ("SET", "key", "mine"), ("NONE",),
                                   ("MULTI",), ("SUBSCRIBE", "channel")])
def test_a_replica_that_sends_commands_is_ended_and_nothing_gets_into_its_stream(start_hub, words):
    hub = start_hub()
    hub.redis().set("key", "value")
    peer = Peer(hub.resp_port)
    peer.send("PSYNC", "?", "-1")
    assert peer.line().startswith(b"+FULLRESYNC ")
    peer.send(*words)
    stream = b""
    while received := peer.socket.recv(1 << 16):
        stream += received
    assert b"PONG" not in stream and b"ERR" not in stream and b"+OK" not in stream
    assert hub.redis().get("key") == b"value"
    eventually(lambda: "disconnecting it" in hub.stderr, "the reason in the log")


def test_an_acknowledgement_of_more_than_there_can_be_is_none(start_hub):
    hub = start_hub()
    client = hub.redis()
    peer = Peer(hub.resp_port)
    peer.send("PSYNC", "?", "-1")
    peer.until(FILE_END[:1])
    eventually(lambda: replication(client)["slave0"]["state"] == "online", "it follows")
    end = replication(client)["master_repl_offset"]
    for offset in [end + 1_000_000, 2**63 - 1, 2**64 - 1, -(2**63)]:
        peer.send("REPLCONF", "ACK", offset, "FACK", offset)
    client.set("key", "value")
    assert client.execute_command("WAIT", 1, 100) == 0
    peer.send("REPLCONF", "ACK", replication(client)["master_repl_offset"])
    assert client.execute_command("WAIT", 1, 0) == 1


def test_a_file_s_offset_that_leaves_no_room_is_not_gone_on_with(start_hub, tmp_path):
    for offset in [2**63 - 1, 2**64 - 1]:
        folder = tmp_path / f"data {offset}"
        folder.mkdir()
        digits = str(offset).encode()
        fields = [(b"repl-stream-db", b"0"), (b"repl-id", ID), (b"repl-offset", digits)]
        told = b"".join(
            b"\xfa%c%s%c%s" % (len(name), name, len(value), value) for name, value in fields
        )
        file = file_of(b"key", b"value")[len(FILE_BEGIN):]
        (folder / "dump.rdb").write_bytes(FILE_BEGIN + told + file)
        client = start_hub("--dir", folder).redis()
        assert client.get("key") == b"value"
        assert replication(client)["second_repl_offset"] == -1
        client.set("key", "new")


def test_a_backlog_that_is_kept_for_the_longest_time_there_is_stays(start_hub):
    hub = start_hub()
    client = hub.redis()
    client.config_set("repl-backlog-ttl", 2**63 - 1)
    peer = Peer(hub.resp_port)
    peer.send("PSYNC", "?", "-1")
    peer.until(FILE_END[:1])
    peer.socket.close()
    eventually(lambda: replication(client)["connected_slaves"] == 0, "nobody follows")
    # Some sweeps later it is there still.
    time.sleep(0.5)
    assert replication(client)["repl_backlog_active"] == 1


def fill(client, count):
    for first in range(0, count, 10_000):
        client.mset({f"key {number}": os.urandom(1_000) for number in range(first, first + 10_000)})


@pytest.mark.parametrize("capability", ["eof", "psync2"])
def test_a_replica_that_takes_no_more_of_its_file_is_cut_off_and_others_get_theirs(start_hub,
                                                                                 capability):
    hub = start_hub("--set", "repl-timeout=2", "--set", "save=")
    client = hub.redis()
    fill(client, 30_000)
    hung = Peer(hub.resp_port, receive_buffer=4096)
    hung.send("REPLCONF", "capa", capability)
    hung.send("PSYNC", "?", "-1")
    eventually(lambda: replication(client)["connected_slaves"] == 1, "it has come")
    good = start_hub().redis()
    good.replicaof("127.0.0.1", hub.resp_port)
    eventually(lambda: link(good) == "up" and good.dbsize() == 30_000, "the other has all keys")
    eventually(lambda: replication(client)["connected_slaves"] == 1, "it is cut off")
    assert client.save()


def replica_with_its_file(start_hub):
    """A client of a hub that waits for one second at most, and a replica that has its file."""
    hub = start_hub("--set", "repl-timeout=1")
    peer = Peer(hub.resp_port)
    peer.send("REPLCONF", "capa", "eof")
    peer.send("PSYNC", "?", "-1")
    peer.until(FILE_END[:1])
    return hub.redis(), peer


def test_a_replica_that_has_its_file_and_says_nothing_is_cut_off(start_hub):
    client, peer = replica_with_its_file(start_hub)
    eventually(lambda: replication(client)["connected_slaves"] == 0, "it is cut off")


def test_a_replica_that_says_that_it_still_loads_is_waited_for(start_hub):
    client, peer = replica_with_its_file(start_hub)
    for _ in range(15):
        time.sleep(0.2)
        peer.socket.sendall(b"\n")
    peer.send("REPLCONF", "ACK", 0)
    client.set("key", "value")
    peer.until(b"value")


def test_a_replica_that_reads_slowly_gets_all_of_its_file(start_hub):
    hub = start_hub("--set", "repl-timeout=2", "--set", "save=")
    client = hub.redis()
    fill(client, 40_000)
    peer = Peer(hub.resp_port)
    peer.send("PSYNC", "?", "-1")
    left = int((peer.line(), peer.line())[1][1:]) - len(peer.received)
    # It takes longer than the limit, and never stops for as long. The end waits in the buffers of
    # both sockets, and the server, which has sent it, waits for the replica: no pause there.
    while left > 0:
        time.sleep(0.2 if left > 16 << 20 else 0)
        wanted = min(left, 2 << 20)
        left -= wanted
        while wanted > 0:
            wanted -= len(peer.socket.recv(wanted)) or peer.fail()
    assert replication(client)["connected_slaves"] == 1


NAMES = [b"x", b"b" * 39, b"b" * 41, b"b" * 4_000, b"\xff" * 40, b"-" * 40, b""]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_history_s_name_is_forty_characters(start_hub, fake_master, name):
    hub = start_hub()
    client = hub.redis()
    client.set("own", "value")
    master = fake_master(full_sync(id=name))
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: len(master.asked) >= 2, "it is asked again")
    assert link(client) == "down" and client.get("own") == b"value"
    # Of one that is followed, too.
    master.answers = [full_sync(), b"+CONTINUE " + name + b"\r\n"]
    eventually(lambda: link(client) == "up", "it is followed")
    asked = len(master.asked)
    master.connections[-1].shutdown(socket.SHUT_RDWR)
    eventually(lambda: len(master.asked) >= asked + 2, "it is asked again")
    assert link(client) == "down"
    assert replication(client)["master_replid"].encode() == ID


def test_a_master_that_would_go_on_with_nothing_is_refused(start_hub, fake_master):
    hub = start_hub()
    client = hub.redis()
    client.set("own", "value")
    master = fake_master(b"+CONTINUE\r\n", b"+CONTINUE " + ID + b"\r\n", full_sync())
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: link(client) == "up", "the third answer is taken")
    assert len(master.asked) == 3
    assert client.keys() == [b"key"]


def test_a_discarded_transaction_of_a_master_hides_nothing_behind_it(start_hub, fake_master):
    hub = start_hub()
    client = hub.redis()
    master = fake_master(full_sync())
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: link(client) == "up", "it is followed")
    stream = request("MULTI") + request("SET", "inside", 1) + request("DISCARD")
    stream += request("SET", "behind", 1)
    master.send(stream)
    eventually(lambda: client.get("behind"), "the command behind it is executed")
    assert client.get("inside") is None
    assert replication(client)["slave_repl_offset"] == len(stream)


def test_a_command_of_a_master_with_more_than_a_million_arguments_is_executed(start_hub, fake_master):
    hub = start_hub()
    client = hub.redis()
    master = fake_master(full_sync())
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: link(client) == "up", "it is followed")
    words = [word for number in range(600_000) for word in (f"k{number}", number)]
    stream = request("MSET", *words) + request("SET", "behind", 1)
    master.send(stream)
    eventually(lambda: client.get("behind"), "the command behind it is executed")
    assert client.mget("k0", "k599999") == [b"0", b"599999"]
    assert replication(client)["slave_repl_offset"] == len(stream)
    assert len(master.asked) == 1


def test_a_client_may_send_more_than_a_million_arguments(hub):
    client = hub.redis()
    assert client.mset({f"k{number}": number for number in range(600_000)})
    assert client.get("k599999") == b"599999" and client.dbsize() == 600_000


def test_a_master_cannot_mark_messages_as_current_values(start_hub, fake_master):
    hub = start_hub()
    client = hub.redis()
    master = fake_master(full_sync())
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: link(client) == "up", "it is followed")
    listener = hub.subscriber("__snapshot__", "end")
    master.send(request("PUBLISH", "__snapshot__", "live:a") + request("MULTI")
                + request("PUBLISH", "__snapshot__", "live:b") + request("SET", "a", 1)
                + request("EXEC") + request("PUBLISH", "end", "end"))
    assert listener.data() == b"end"
    assert client.get("a") == b"1"


LENGTHS = [b"", b"abc", b"+5", b"-1", b"1 ", b"%d" % 2**63, b"%d" % (2**64 + 5), b"EOF:", b"EOF:x"]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_file_of_no_length_is_refused_and_nothing_is_lost(start_hub, fake_master, length):
    hub = start_hub("--set", "appendonly=yes")
    client = hub.redis()
    client.set("own", "value")
    head = b"+FULLRESYNC " + ID + b" 0\r\n"
    file = file_of(b"key", b"value")
    master = fake_master(head + b"$" + length + b"\r\n" + file)
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: len(master.asked) >= 2, "it is asked again")
    assert client.get("own") == b"value"
    master.answers = [full_sync()]
    eventually(lambda: link(client) == "up", "a good file is taken")
    assert client.keys() == [b"key"]


def test_an_append_only_file_goes_on_when_a_full_sync_has_come_to_nothing(start_hub, fake_master,
                                                                         tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    options = ["--set", "appendonly=yes", "--dir", folder]
    hub = start_hub(*options)
    client = hub.redis()
    nothing = b"+FULLRESYNC " + ID + b" 0\r\n$abc\r\n"
    master = fake_master(full_sync(), nothing, b"+CONTINUE\r\n" + request("SET", "late", 1))
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: link(client) == "up", "it is followed")
    master.connections[-1].shutdown(socket.SHUT_RDWR)
    eventually(lambda: link(client) == "up" and client.get("late"), "the stream goes on")
    eventually(lambda: client.info("persistence")["aof_enabled"], "the file is written again")


def test_a_file_whose_stream_is_in_a_database_that_is_not_there_is_taken(start_hub, fake_master):
    hub = start_hub()
    client = hub.redis()
    file = file_of(b"key", b"value")
    file = FILE_BEGIN + b"\xfa\x0erepl-stream-db\x0299" + file[len(FILE_BEGIN):]
    master = fake_master(full_sync(0, file) + request("SET", "behind", "stream"))
    client.replicaof("127.0.0.1", master.port)
    eventually(lambda: link(client) == "up", "the master is followed")
    eventually(lambda: client.get("behind") == b"stream", "its stream is executed")
    assert client.get("key") == b"value"


def test_an_acknowledgement_for_a_wait_that_is_over_answers_no_other_command(start_hub):
    hub = start_hub()
    client = hub.redis()
    replica, waiter = Peer(hub.resp_port), Peer(hub.resp_port)
    replica.send("PSYNC", "?", "-1")
    eventually(lambda: replication(client).get("slave0", {}).get("state") == "online",
               "the replica has its file")
    waiter.send("SET", "key", "value")
    assert waiter.line() == b"+OK"
    waiter.send("WAIT", 1, 100)
    assert waiter.line() == b":0"
    waiter.send("BLPOP", "list", 0)
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "it waits for the list")
    client.set("other", "value")
    replica.send("REPLCONF", "ACK", replication(client)["master_repl_offset"])
    assert client.wait(1, 20_000) == 1
    client.rpush("list", "element")
    waiter.until(b"element\r\n")
    assert waiter.received.startswith(b"*2\r\n")


def test_a_wait_waits_for_changes_of_its_own_connection_only(start_hub):
    hub = start_hub()
    client = hub.redis()
    replica, reader, writer = (Peer(hub.resp_port) for _ in range(3))
    replica.send("PSYNC", "?", "-1")
    eventually(lambda: replication(client).get("slave0", {}).get("state") == "online",
               "the replica has its file")
    # It has not said that it has loaded its file.
    reader.send("WAIT", 1, 100)
    assert reader.line() == b":0"
    replica.send("REPLCONF", "ACK", replication(client)["master_repl_offset"])
    # From here on it acknowledges nothing of its own accord.
    writer.send("SET", "key", "value")
    assert writer.line() == b"+OK"
    reader.send("GET", "key")
    reader.until(b"value\r\n")
    reader.received = b""
    reader.send("WAIT", 1, 0)
    assert reader.line() == b":1"
    for change in [("SET", "key", "again"), ("PUBLISH", "channel", "message"),
                   ("EVAL", "redis.call('incr', 'n')", 0)]:
        replica.send("REPLCONF", "ACK", replication(client)["master_repl_offset"])
        client.set("barrier", "value")
        writer.socket.sendall(request(*change) + request("WAIT", 1, 100))
        writer.line()
        assert writer.line() == b":0", change
    # What another client changes for a waiting one counts as its own.
    reader.send("BLPOP", "list", 0)
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "it waits for the list")
    client.rpush("list", "element")
    reader.until(b"element\r\n")
    reader.received = b""
    reader.send("WAIT", 1, 100)
    assert reader.line() == b":0"


def test_a_short_pause_of_everything_ends_although_shutdown_holds_writes(start_hub):
    hub = start_hub("--set", "shutdown-timeout=3600")
    client = hub.redis()
    replica, stopper, other = (Peer(hub.resp_port) for _ in range(3))
    replica.send("PSYNC", "?", "-1")
    eventually(lambda: replication(client).get("slave0", {}).get("state") == "online",
               "the replica has its file")
    # The replica acknowledges nothing, so SHUTDOWN waits.
    client.set("key", "value")
    stopper.send("SHUTDOWN", "NOSAVE")
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "it waits")
    other.send("CLIENT", "PAUSE", 50, "ALL")
    assert other.line() == b"+OK"
    other.send("PING")
    assert other.line() == b"+PONG"
    other.send("CLIENT", "UNPAUSE")
    assert other.line() == b"+OK"
    other.send("SET", "key", "waits")
    client.execute_command("SHUTDOWN", "ABORT")
    assert other.line() == b"+OK"
    assert stopper.line().startswith(b"-ERR")
