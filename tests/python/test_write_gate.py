"""One gate for all writes: what keeps SET from a key keeps a ZeroMQ PUSH from it."""

import shutil
import threading
import time

import pytest
import redis
import zmq

from support import Reply, RespSocket, command, eventually, free_ports


class Pusher:
    """A producer that sends a growing number every 2 ms, whatever becomes of the hub."""

    def __init__(self, port, topic=b"target"):
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(port, topic))
        self._thread.start()

    def _run(self, port, topic):
        context = zmq.Context()
        one = context.socket(zmq.PUSH)
        one.linger = 0
        one.reconnect_ivl = 1
        one.connect(f"tcp://127.0.0.1:{port}")
        while not self._stop.is_set():
            try:
                one.send_multipart([topic, b"%d" % (self.sent + 1)], zmq.NOBLOCK)
                self.sent += 1
            except zmq.Again:
                pass
            time.sleep(0.002)
        one.linger = 5000
        one.close()
        context.term()

    def stop(self):
        self._stop.set()
        self._thread.join()


class Loading:
    """A hub that takes its time to load: it is talked to before it is ready."""

    def __init__(self, start, folder, *options, pull_port=None, delay_us=3000):
        self.resp_port, self.pub_port, self.pull_port, router, feed = free_ports(5)
        self.pull_port = pull_port or self.pull_port
        self.program = start(
            "serve", "--resp", f"127.0.0.1:{self.resp_port}",
            "--zmq-pub", f"tcp://127.0.0.1:{self.pub_port}",
            "--zmq-pull", f"tcp://127.0.0.1:{self.pull_port}",
            "--zmq-router", f"tcp://127.0.0.1:{router}", "--feed", f"127.0.0.1:{feed}",
            "--dir", folder, "--set", f"key-load-delay={delay_us}", *options,
        )
        self.client = redis.Redis(port=self.resp_port)
        eventually(self._listens, "a hub that listens")

    def _listens(self):
        try:
            return self.client.info("persistence")
        except redis.ConnectionError:
            assert self.program.process.poll() is None, self.program.stderr
            return None

    def is_loading(self):
        return self._listens()["loading"] == 1

    def go_on(self):
        """Loads the remaining keys without delay."""
        self.client.config_set("key-load-delay", 0)

    def ready(self):
        eventually(lambda: not self.is_loading(), "the end of loading")

    def stop(self):
        self.program.process.terminate()
        assert self.program.wait() == 0, self.program.stderr


APPENDING = ("--set", "appendonly=yes")


@pytest.mark.parametrize("options", [(), APPENDING], ids=["rdb", "aof"])
def test_a_pusher_during_loading_does_not_end_the_start(start_hub, start, tmp_path, options):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder, *options)
    client = hub.redis()
    pipeline = client.pipeline(transaction=False)
    for number in range(300):
        pipeline.set(f"key{number}", number)
    pipeline.set("target", "saved").execute()
    hub.stop()
    for _ in range(5):
        port = free_ports(1)[0]
        pusher = Pusher(port)
        try:
            hub = Loading(start, folder, *options, pull_port=port)
            hub.ready()
            eventually(lambda: hub.client.get("target") != b"saved", "a pushed value")
            assert hub.client.dbsize() == 301
        finally:
            pusher.stop()
        last = b"%d" % pusher.sent
        eventually(lambda: hub.client.get("target") == last, "the last pushed value")
        hub.client.set("target", "saved")
        hub.stop()


@pytest.mark.parametrize("options", [(), APPENDING], ids=["rdb", "aof"])
def test_who_subscribes_during_loading_gets_the_last_values(start_hub, start, tmp_path, options):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder, *options)
    expected = {b"live:%d" % number: b"%d" % (number * 7) for number in range(100)}
    # One command per key: the delay of a log is per command, that of a snapshot per key.
    pipeline = hub.redis().pipeline(transaction=False)
    for name in expected:
        pipeline.set(name, -1)
    for name, value in expected.items():
        pipeline.set(name, value)
    for number in range(300):
        pipeline.set(f"other:{number}", 1)
    pipeline.execute()
    hub.stop()
    # Without `go_on` below, a snapshot would take 40 s: however slow the machine, the subscribers
    # come in the middle of the load.
    hub = Loading(start, folder, *options, delay_us=100_000)
    assert hub.is_loading(), "the test must subscribe in the middle of a load"
    plain, pattern = hub.client.pubsub(), hub.client.pubsub()
    plain.subscribe(*expected)
    pattern.psubscribe("live:*")
    context = zmq.Context()
    sub = context.socket(zmq.SUB)
    sub.rcvtimeo, sub.linger = 20_000, 0
    sub.connect(f"tcp://127.0.0.1:{hub.pub_port}")
    sub.subscribe(b"live:")
    assert hub.is_loading(), "the load must not end before all have subscribed"
    hub.go_on()

    def from_redis(pubsub):
        message = pubsub.get_message(timeout=20)
        assert message is not None, "no message came"
        return message["channel"], message["data"]

    ways = [lambda: from_redis(plain), lambda: from_redis(pattern), sub.recv_multipart]
    for receive in ways:
        values = {}
        while values != expected:
            name, value = receive()
            if name in expected and not isinstance(value, int):
                values[bytes(name)] = value
                assert value == expected[name], "an intermediate value"
    context.destroy(linger=0)
    hub.stop()


def replicate(replica, master):
    replica.redis().execute_command("REPLICAOF", "127.0.0.1", master.resp_port)
    eventually(lambda: replica.info("replication")["master_link_status"] == "up", "the link")


def test_subscribers_of_a_replica_get_the_last_values_after_a_full_sync(start_hub):
    master, replica = start_hub(), start_hub()
    expected = {b"live:%d" % number: b"%d" % number for number in range(100)}
    master.redis().mset(expected)
    pattern, sub = replica.subscriber(patterns=["live:*"]), replica.sub("live:")
    replicate(replica, master)

    def from_redis():
        message = pattern.next()
        return message["channel"], message["data"]

    for receive in (from_redis, sub.recv_multipart):
        values = {}
        while values != expected:
            name, value = receive()
            values[name] = value


def rejected(hub, reason, count=1):
    eventually(lambda: hub.info("topics")[f"zmq_rejected_{reason}"] == count, f"a refusal: {reason}")


def test_a_replica_refuses_what_is_pushed_to_it(start_hub):
    master, replica = start_hub(), start_hub()
    replicate(replica, master)
    replica.push().send_multipart([b"diverged", b"1"])
    rejected(replica, "readonly")
    assert replica.redis().get("diverged") is None
    replica.redis().execute_command("CONFIG", "SET", "replica-read-only", "no")
    replica.push().send_multipart([b"diverged", b"1"])
    eventually(lambda: replica.redis().get("diverged") == b"1", "a pushed value")
    assert "zmq_rejected_messages" in replica.info("topics")


def test_nothing_is_pushed_beyond_the_memory_limit(start_hub):
    hub = start_hub("--set", "maxmemory=30mb")
    push = hub.push()
    for number in range(600):
        push.send_multipart([b"big:%d" % number, bytes(100_000)])
    eventually(
        lambda: hub.info("topics")["zmq_pushed_messages"]
        + hub.info("topics")["zmq_rejected_memory"] == 600,
        "600 messages",
    )
    topics = hub.info("topics")
    assert topics["zmq_rejected_memory"] > 100
    assert hub.info("memory")["used_memory"] < 33 << 20
    assert hub.info("errorstats")["errorstat_OOM"].startswith("count=")


def test_a_pusher_makes_room_by_eviction_as_set_does(start_hub):
    hub = start_hub("--set", "maxmemory=30mb", "--set", "maxmemory-policy=allkeys-lru")
    push = hub.push()
    for number in range(600):
        push.send_multipart([b"big:%d" % number, bytes(100_000)])
    eventually(lambda: hub.info("topics")["zmq_pushed_messages"] == 600, "600 messages")
    assert hub.info("stats")["evicted_keys"] > 100
    assert hub.redis().get("big:599") is not None


def test_too_few_replicas_refuse_a_push(start_hub):
    hub = start_hub("--set", "min-replicas-to-write=1")
    hub.push().send_multipart([b"alone", b"1"])
    rejected(hub, "noreplicas")
    assert hub.redis().get("alone") is None


def test_a_failed_snapshot_refuses_a_push(start_hub, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder)
    hub.redis().set("one", "1")
    shutil.rmtree(folder)
    client = hub.redis()
    client.execute_command("BGSAVE")
    eventually(lambda: hub.info("persistence")["rdb_last_bgsave_status"] == "err", "a failure")
    with pytest.raises(redis.ResponseError, match="MISCONF"):
        client.set("one", "2")
    hub.push().send_multipart([b"one", b"3"])
    rejected(hub, "snapshot")
    client.config_set("stop-writes-on-bgsave-error", "no")
    hub.push().send_multipart([b"one", b"3"])
    eventually(lambda: client.get("one") == b"3", "a pushed value")
    folder.mkdir()


def test_a_pause_holds_pushers_and_loses_nothing(hub):
    client = hub.redis()
    push = hub.push()
    push.send_multipart([b"count", b"0"])
    eventually(lambda: client.get("count") == b"0", "a pushed value")
    client.execute_command("CLIENT", "PAUSE", 100_000, "WRITE")
    for number in range(1, 200):
        push.send_multipart([b"count", b"%d" % number])
    eventually(lambda: hub.info("topics")["zmq_parked_peers"] == 1, "a pusher that waits")
    assert client.get("count") == b"0"
    # What a peer has sent is stored although it has left.
    push.close(linger=5_000)
    newcomer = hub.push()
    newcomer.send_multipart([b"late", b"1"])
    eventually(lambda: hub.info("topics")["zmq_parked_peers"] == 2, "a newcomer that waits")
    client.execute_command("CLIENT", "UNPAUSE")
    eventually(lambda: client.get("count") == b"199", "the last value")
    eventually(lambda: client.get("late") == b"1", "the newcomer's value")
    topics = hub.info("topics")
    assert (topics["zmq_pushed_messages"], topics["zmq_rejected_messages"]) == (201, 0)
    assert topics["zmq_parked_peers"] == 0


@pytest.mark.parametrize("mode", ["WRITE", "ALL"])
def test_a_pause_that_ends_by_itself_lets_pushers_go_on(hub, mode):
    client = hub.redis()
    client.execute_command("CLIENT", "PAUSE", 500, mode)
    hub.push().send_multipart([b"later", b"1"])
    eventually(lambda: client.get("later") == b"1", "a pushed value")


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_busy_script_holds_pushers_and_not_their_lane(start_hub, lanes):
    hub = start_hub("--lanes", lanes, "--set", "busy-reply-threshold=50")
    pushers = [hub.push() for _ in range(4)]
    for number, push in enumerate(pushers):
        push.send_multipart([b"before:%d" % number, b"1"])
    client = hub.redis()
    eventually(lambda: client.exists(*(f"before:{n}" for n in range(4))) == 4, "pushed values")
    script = RespSocket(hub.resp())
    script.send("EVAL", "while true do end", 0)
    eventually(lambda: is_busy(client), "a busy script")
    for number, push in enumerate(pushers):
        push.send_multipart([b"during:%d" % number, b"1"])
    time.sleep(0.3)
    for _ in range(4):
        assert is_busy(RespClient(hub)), "every lane answers"
    client.execute_command("SCRIPT", "KILL")
    eventually(lambda: not is_busy(client), "the script's end")
    eventually(lambda: client.exists(*(f"during:{n}" for n in range(4))) == 4, "pushed values")


class RespClient:
    """A connection of its own, so that it lands on the next lane."""

    def __init__(self, hub):
        self.get = lambda key: RespSocket(hub.resp()).call("GET", key)


def is_busy(client):
    try:
        client.get("any")
    except Exception as error:
        assert "BUSY" in str(error) or "busy" in str(error), error
        return True
    return False


def test_monitor_and_the_counters_see_what_is_pushed(hub):
    with hub.redis().monitor() as monitor:
        before = hub.info("commandstats").get("cmdstat_set", "calls=0").split(",")[0]
        assert before == "calls=0"
        hub.push().send_multipart([b"seen", b"4\n2"])
        shown = next(one for one in monitor.listen() if one["command"].startswith("SET"))
        assert shown["command"] == "SET seen 4\\n2" and shown["client_address"] == "127.0.0.1"
    assert hub.info("commandstats")["cmdstat_set"].startswith("calls=1,")
    hub.push().send_multipart([b"md:X", b"1"])
    rejected(hub, "mounted")
    assert "rejected_calls=1" in hub.info("commandstats")["cmdstat_set"]


def test_a_failed_snapshot_refuses_nothing_that_writes_no_key(start_hub, tmp_path):
    """PUBLISH, PFCOUNT and scripts that only read were refused as writes are."""
    folder = tmp_path / "data"
    folder.mkdir()
    hub = start_hub("--dir", folder)
    client = hub.redis()
    client.set("one", "1")
    client.pfadd("many", "a")
    shutil.rmtree(folder)
    client.execute_command("BGSAVE")
    eventually(lambda: hub.info("persistence")["rdb_last_bgsave_status"] == "err", "a failure")
    assert client.publish("channel", "text") == 0
    assert client.spublish("channel", "text") == 0
    assert client.pfcount("many") == 1
    assert client.eval("return redis.call('GET', 'one')", 0) == b"1"
    assert client.evalsha(client.script_load("return 1"), 0) == 1
    transaction = client.pipeline(transaction=True)
    transaction.eval("return 1", 0)
    transaction.publish("channel", "text")
    assert transaction.execute() == [1, 0]
    for refused in (
        lambda: client.set("two", "2"),
        lambda: client.ping(),
        lambda: client.eval("return redis.call('SET', 'two', '2')", 0),
        lambda: client.eval("#!lua\nreturn 1", 0),
    ):
        with pytest.raises(redis.ResponseError, match="MISCONF"):
            refused()
    assert client.eval("#!lua flags=no-writes\nreturn 1", 0) == 1
    folder.mkdir()


def test_a_replica_without_its_master_refuses_a_write_as_a_replica(start_hub):
    hub = start_hub("--set", "replica-serve-stale-data=no")
    client = hub.redis()
    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(redis.ResponseError, match="READONLY|read only"):
        client.set("one", "1")
    with pytest.raises(redis.ResponseError, match="MASTERDOWN|Link with MASTER"):
        client.get("one")
    answer = RespSocket(hub.resp()).call("HELLO", "2")
    assert answer[answer.index(b"role") + 1] == b"replica"


def test_a_write_behind_multi_waits_for_the_end_of_a_pause(start_hub):
    """It was queued at once, so that EXEC could follow as soon as the pause ended elsewhere."""
    hub = start_hub()
    client, other = hub.redis(), RespSocket(hub.resp())
    other.call("MULTI")
    client.client_pause(60_000, all=False)
    other.socket.sendall(command("INCR", "count") + command("EXEC"))
    eventually(lambda: hub.info("clients")["blocked_clients"] == 1, "a client that waits")
    client.client_unpause()
    assert other.read() == b"QUEUED"
    assert other.read() == [1]


@pytest.mark.parametrize(
    "words",
    [
        ("BLPOP", "none", "0.02"),
        ("BLMOVE", "none", "other", "LEFT", "LEFT", "0.02"),
        ("BZPOPMIN", "none", "0.02"),
        ("XREAD", "BLOCK", "20", "STREAMS", "none", "$"),
        ("WAIT", "1", "20"),
    ],
)
def test_a_command_that_waited_to_no_end_is_in_the_slow_log(hub, words):
    client = hub.redis()
    client.config_set("slowlog-log-slower-than", 0)
    client.slowlog_reset()
    client.execute_command(*words)
    logged = [entry["command"] for entry in client.slowlog_get(-1)]
    assert " ".join(words).encode() in logged


def test_what_client_pause_cannot_read_pauses_nothing(hub):
    client = hub.redis()
    for words in (("PAUSE", "60000", "WRITE", "x"), ("UNBLOCK", "1", "TIMEOUT", "x")):
        with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
            client.execute_command("CLIENT", *words)
    assert client.set("one", "1")


def test_exec_of_a_subscriber_is_an_aborted_transaction(hub):
    connection = RespSocket(hub.resp())
    connection.call("SUBSCRIBE", "channel")
    with pytest.raises(Reply, match="EXECABORT Transaction discarded because of: Can't execute"):
        connection.call("EXEC")
