"""Keys that survive a machine: `durability = "quorum"` in the file of --cluster."""

import json
import socket
import threading
import time

import pytest

from nats_servers import SERVER, NatsServer, cluster_file, go_on, pause, three_servers
from support import Reply, RespSocket, eventually, free_ports

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

STREAM = "TW_tests_KEYS_main"


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


def place(folder, name, nats, extra=""):
    return cluster_file(folder, name, nats, receive=[], replicas=len(nats),
                        extra=f"durability = 'quorum'\n{extra}")


def keys(hub):
    """The fields of INFO's line of the keys."""
    text = hub.info("cluster").get("cluster_keys", "")
    return dict(part.split("=", 1) for part in text.split(",")) if text else {}


def is_primary(hub):
    return keys(hub).get("role") == "primary"


def primary_of(*hubs):
    return eventually(lambda: next((hub for hub in hubs if is_primary(hub)), None),
                      "one of the hubs is the primary", 30)


def ask(servers, subject, body=b""):
    """Asks a server by its own protocol; returns the answer."""
    server = next(server for server in servers if server.process)
    with socket.create_connection(("127.0.0.1", server.port), 5) as one:
        one.settimeout(5)
        with one.makefile("rwb") as file:
            file.readline()
            file.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
                       b"SUB answer 1\r\n")
            file.write(f"PUB {subject} answer {len(body)}\r\n".encode() + body + b"\r\n")
            file.flush()
            while not (line := file.readline()).startswith(b"MSG"):
                if line.startswith(b"PING"):
                    file.write(b"PONG\r\n")
                    file.flush()
            return json.loads(file.read(int(line.split()[-1])))


def stream(servers, name=STREAM):
    return ask(servers, f"$JS.API.STREAM.INFO.{name}")


def leader_of(servers):
    """The server that leads the stream KEYS."""
    return servers[int(stream(servers)["cluster"]["leader"][1:])]


class Writer:
    """A client that writes one key after the other, at the hub that takes it, and notes which
    writes were acknowledged."""

    def __init__(self, name, *hubs):
        self.name, self.hubs = name, hubs
        self.acknowledged, self.refused = [], []
        self._number, self._is_over = 0, False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        at = 0
        while not self._is_over:
            port = self.hubs[at % len(self.hubs)].resp_port
            try:
                self._write(port)
            except (OSError, Reply) as error:  # The hub has ended, or says why it takes nothing.
                self.refused.append(error)
                time.sleep(0.02)
            at += 1

    def _write(self, port):
        with socket.create_connection(("127.0.0.1", port), 1) as one:
            one.settimeout(15)
            client = RespSocket(one)
            with client.file:
                while not self._is_over:
                    self._number += 1
                    key, value = f"{self.name}:{self._number}", self._number
                    assert client.call("SET", key, value) == b"OK"
                    self.acknowledged.append((key, value))

    def wait_for_more(self, count=50, patience_s=30):
        before = len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) >= before + count,
                   f"{count} more writes: {self.refused[-3:]}", patience_s)

    def stop(self):
        self._is_over = True
        self._thread.join(20)
        assert not self._thread.is_alive()


def assert_has(hub, *writers):
    """The hub has every write that was acknowledged."""
    with hub.redis() as client:
        for writer in writers:
            pipeline = client.pipeline(transaction=False)
            for key, _ in writer.acknowledged:
                pipeline.get(key)
            found = pipeline.execute()
            lost = [pair for pair, value in zip(writer.acknowledged, found)
                    if value != str(pair[1]).encode()]
            assert not lost, f"{len(lost)} of {len(found)} are lost: {lost[:5]}"


def test_a_write_is_at_the_standby_which_refuses_writes_and_names_the_primary(
    servers, start_hub, tmp_path
):
    nats = servers()
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary = primary_of(*hubs)
    standby = hubs[1 - hubs.index(primary)]
    with primary.redis() as client, standby.redis() as other:
        client.set("one", "1")
        client.hset("two", mapping={"a": 1, "b": 2})
        with client.pipeline(transaction=True) as transaction:
            transaction.lpush("three", 1, 2, 3)
            transaction.incrby("four", 4)
            transaction.execute()
        eventually(lambda: other.get("four") == b"4", "the standby has all")
        assert other.hgetall("two") == {b"a": b"1", b"b": b"2"}
        assert other.lrange("three", 0, -1) == [b"3", b"2", b"1"]
        with pytest.raises(Exception, match=f"the primary is 127.0.0.1:{primary.resp_port}"):
            other.set("one", "2")
        with pytest.raises(Exception, match="choose the primary by a lease"):
            other.execute_command("REPLICAOF", "NO", "ONE")


def test_acknowledged_writes_are_at_the_standby_after_the_primary_was_killed(
    servers, start_hub, tmp_path
):
    nats = servers(3)
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary = primary_of(*hubs)
    standby = hubs[1 - hubs.index(primary)]
    writers = [Writer(f"w{number}", primary, standby) for number in range(4)]
    for writer in writers:
        writer.wait_for_more()
    primary.kill()
    eventually(lambda: is_primary(standby), "the standby takes over", 30)
    for writer in writers:
        writer.wait_for_more()
    for writer in writers:
        writer.stop()
    assert_has(standby, *writers)


def test_a_primary_that_was_stopped_acknowledges_nothing_and_answers_no_read(
    servers, start_hub, tmp_path
):
    nats = servers(3)
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary = primary_of(*hubs)
    standby = hubs[1 - hubs.index(primary)]
    writer = Writer("w", primary)
    writer.wait_for_more()
    pause(primary)
    eventually(lambda: is_primary(standby), "the standby takes over", 30)
    with standby.redis() as client:
        client.set("read", "new")
        # These reach the stopped process before it goes on.
        sockets = [primary.resp() for _ in range(3)]
        for one in sockets:
            one.sendall(b"*2\r\n$3\r\nGET\r\n$4\r\nread\r\n")
            one.sendall(b"*3\r\n$3\r\nSET\r\n$4\r\nread\r\n$3\r\nold\r\n")
        before = len(writer.acknowledged)
        go_on(primary)
        for one in sockets:
            answer = one.recv(1000)
            assert answer.startswith((b"-CLUSTERDOWN", b"-LOADING", b"-READONLY")) or not answer, answer
            assert b"+OK" not in answer, answer
        # It follows the new primary, and has dropped what was not acknowledged.
        eventually(lambda: keys(primary).get("role") == "standby", "it follows", 30)
        writer.stop()
        # What was on its way when it was stopped may have been acknowledged by the stream.
        assert len(writer.acknowledged) <= before + 1, writer.acknowledged[before:]
        with primary.redis() as other:
            eventually(lambda: other.get("read") == b"new", "it has the new value")
            assert int(keys(primary)["deposed"]) == 1
        assert client.get("read") == b"new"
    assert_has(standby, writer)


def test_writes_go_on_after_the_leader_of_the_stream_was_killed(servers, start_hub, tmp_path):
    nats = servers(3)
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary_of(*hubs)
    writers = [Writer(f"w{number}", *hubs) for number in range(4)]
    for writer in writers:
        writer.wait_for_more()
    leader_of(nats).kill()
    for writer in writers:
        writer.wait_for_more(patience_s=60)
    for writer in writers:
        writer.stop()
    assert_has(primary_of(*hubs), *writers)


def test_hubs_that_start_empty_have_the_keys_again(servers, start_hub, tmp_path):
    nats = servers(3)
    places = [place(tmp_path, name, nats) for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    primary = primary_of(*hubs)
    writer = Writer("w", *hubs)
    writer.wait_for_more(200)
    writer.stop()
    with primary.redis() as client:
        client.select(3)
        client.set("elsewhere", "3", ex=1_000)
        client.function_load("#!lua name=own\nredis.register_function('f', function() return 7 end)")
    for hub in hubs:
        hub.kill()
    hubs = [start_hub("--cluster", one) for one in places]
    primary = primary_of(*hubs)
    assert_has(primary, writer)
    with primary.redis(db=3) as client:
        assert client.get("elsewhere") == b"3" and client.ttl("elsewhere") > 900
        assert client.fcall("f", 0) == 7
    again = Writer("again", *hubs)
    again.wait_for_more()
    again.stop()
    assert_has(primary, writer, again)


def test_a_hub_that_ends_in_order_hands_over_at_once(servers, start_hub, tmp_path):
    nats = servers(3)
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary = primary_of(*hubs)
    standby = hubs[1 - hubs.index(primary)]
    writer = Writer("w", primary, standby)
    writer.wait_for_more()
    primary.stop()
    writer.wait_for_more()
    writer.stop()
    assert_has(standby, writer)


def test_without_a_quorum_clients_are_told_after_ten_seconds(servers, start_hub, tmp_path):
    nats = servers(3)
    hub = start_hub("--cluster", place(tmp_path, "a", nats))
    primary_of(hub)
    one = hub.resp()
    client = RespSocket(one)
    assert client.call("SET", "a", "1") == b"OK"
    for server in nats[:2]:
        server.pause()
    one.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n2\r\n")
    one.settimeout(30)
    answer = one.recv(1000)
    assert answer.startswith(b"-CLUSTERDOWN") and b"may or may not take effect" in answer, answer
    assert one.recv(1000) == b"", "the connection ends, because its other replies are unknown"
    with hub.redis() as other, pytest.raises(Exception, match="nothing was done"):
        other.get("a")
    for server in nats[:2]:
        server.go_on()
    primary_of(hub)
    with hub.redis() as other:
        eventually(lambda: other.get("a") in (b"1", b"2"), "one of both")


def test_only_clients_of_keys_wait_for_the_quorum(servers, start_hub, tmp_path):
    """INFO and PING of a new connection waited 10 s behind the write of another one."""
    nats = servers()
    hub = start_hub("--cluster", place(tmp_path, "a", nats))
    primary_of(hub)
    writer, reader = hub.resp(), hub.resp()
    assert RespSocket(writer).call("SET", "a", "1") == b"OK"
    nats[0].pause()
    writer.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n2\r\n")
    eventually(lambda: int(keys(hub)["offset"]) > int(keys(hub)["durable"]), "it is executed")
    with hub.resp() as one:
        for words in (["PING"], ["HELLO", "2"], ["CLIENT", "ID"], ["CONFIG", "GET", "maxmemory"],
                      ["SELECT", "0"], ["ECHO", "x"], ["ACL", "WHOAMI"], ["MULTI"]):
            try:
                RespSocket(one).call(*words)
            except Reply as error:  # The lease has ended meanwhile.
                assert words == ["PING"] and str(error).startswith("CLUSTERDOWN"), error
    reader.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n")
    # All of that was answered before the quorum was: nothing is acknowledged, and no one was told.
    fields = keys(hub)
    assert int(fields["offset"]) > int(fields["durable"]) and fields["stalls"] == "0", fields
    for one in (writer, reader):
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.recv(1)
        one.settimeout(30)
    nats[0].go_on()
    assert writer.recv(100) == b"+OK\r\n"
    answer = reader.recv(100)
    assert answer == b"$1\r\n2\r\n" or answer.startswith(b"-CLUSTERDOWN"), answer


def test_a_wait_that_ends_tells_nothing_that_is_not_acknowledged(servers, start_hub, tmp_path):
    """BLPOP and its kind said at once that a list was empty whose last element was not acknowledged
    as taken. It was there again at the next primary."""
    nats = servers()
    hub = start_hub("--cluster", place(tmp_path, "a", nats))
    primary_of(hub)
    waits = [["BLPOP", "list", "0.05"], ["BRPOP", "list", "0.05"],
             ["BRPOPLPUSH", "list", "other", "0.05"],
             ["BLMOVE", "list", "other", "LEFT", "LEFT", "0.05"],
             ["BLMPOP", "0.05", "1", "list", "LEFT"], ["BZPOPMIN", "zset", "0.05"],
             ["BZPOPMAX", "zset", "0.05"], ["BZMPOP", "0.05", "1", "zset", "MIN"],
             ["XREAD", "BLOCK", "50", "STREAMS", "stream", "0"],
             ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "50", "STREAMS", "stream", ">"],
             ["WAIT", "1", "50"], ["BLPOP", "list", "0"], ["BLPOP", "list", "0"]]
    with hub.redis() as client:
        client.rpush("list", "v")
        client.zadd("zset", {"m": 1})
        client.xadd("stream", {"a": "b"}, id="1-1")
        client.xgroup_create("stream", "g", id="$")
    taker, asker, *clients = [hub.resp() for _ in range(len(waits) + 2)]
    names = [RespSocket(one).call("CLIENT", "ID") for one in clients]
    nats[0].pause()
    for words in (["LPOP", "list"], ["ZPOPMIN", "zset"], ["XTRIM", "stream", "MAXLEN", "0"]):
        taker.sendall(request(*words))
    eventually(lambda: int(keys(hub)["offset"]) > int(keys(hub)["durable"]), "it is executed")
    for one, words in zip(clients, waits):
        one.sendall(request(*words))
    eventually(lambda: hub.info("clients")["blocked_clients"] == 2, "the time of most is over")
    asker.sendall(request("CLIENT", "UNBLOCK", names[-2], "TIMEOUT")
                  + request("CLIENT", "UNBLOCK", names[-1], "ERROR"))
    eventually(lambda: hub.info("clients")["blocked_clients"] == 0, "all waits have ended")
    assert keys(hub)["stalls"] == "0"
    told = [received(one) for one in (taker, asker, *clients)]
    # The lease may have ended meanwhile.
    assert all(one is None or one.startswith(b"-CLUSTERDOWN") for one in told), told
    nats[0].go_on()
    for one, before in zip(clients, told[2:]):
        one.settimeout(30)
        answer = before or one.recv(1_000)
        words = (b"*-1", b"$-1", b":0", b"-UNBLOCKED", b"-CLUSTERDOWN")
        assert answer.startswith(words), answer


def received(one):
    """What a connection has received; `None` for nothing."""
    one.setblocking(False)
    try:
        return one.recv(1_000)
    except BlockingIOError:
        return None


def request(*words):
    """A request as bytes."""
    words = [str(word).encode() for word in words]
    parts = [b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(one), one) for one in words]
    return b"".join(parts)


def test_what_the_start_refuses_is_refused_later_too(servers, start_hub, tmp_path):
    """CONFIG SET appendonly yes was accepted, and the hub did not start any more."""
    nats = servers()
    hub = start_hub("--cluster", place(tmp_path, "a", nats),
                    "--set", "enable-debug-command=yes")
    with primary_of(hub).redis() as client:
        client.set("a", "1")
        for words in (["CONFIG", "SET", "appendonly", "yes"],
                      ["CONFIG", "SET", "maxmemory", "0", "APPENDONLY", "YES"],
                      ["DEBUG", "RELOAD"], ["DEBUG", "RELOAD", "NOSAVE"], ["DEBUG", "LOADAOF"]):
            with pytest.raises(Exception, match='durability (is|=) "quorum"'):
                client.execute_command(*words)
        assert client.config_get("appendonly") == {"appendonly": "no"}
        client.config_set("appendonly", "no")
        assert client.get("a") == b"1"


def test_snapshots_bound_the_stream_and_a_damaged_one_is_not_used(servers, start_hub, tmp_path):
    nats = servers()
    places = [place(tmp_path, name, nats, "keys-snapshot-megabytes = 1") for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    primary = primary_of(*hubs)
    with primary.redis() as client:
        for round_ in range(1, 5):
            before = int(keys(primary)["snapshot"])
            pipeline = client.pipeline(transaction=False)
            for number in range(300):
                pipeline.set(f"k{number}", f"{round_}:" + "x" * 5_000)
            pipeline.lpush("list", round_)
            pipeline.execute()
            eventually(lambda: int(keys(primary)["snapshot"]) > before, "a snapshot is stored")
        client.set("behind", "it")
    eventually(lambda: stream(nats)["state"]["first_seq"] > 1, "the stream is trimmed")
    for hub in hubs:
        hub.kill()
    # The newest head is none.
    ask(nats, "tw.tests.keysnap.main.head", b"no head")
    hubs = [start_hub("--cluster", one) for one in places]
    primary = primary_of(*hubs)
    with primary.redis() as client:
        assert client.get("behind") == b"it"
        assert client.lrange("list", 0, -1) == [b"4", b"3", b"2", b"1"]
        assert all(client.get(f"k{number}").startswith(b"4:") for number in range(300))
    assert any("the head of a snapshot is damaged" in hub.stdout + hub.stderr for hub in hubs)
