"""A transaction or a script that has begun is carried out to its end, whatever becomes of its client
and of its client's rights meanwhile."""

import socket
import threading

import pytest
import redis

from support import Reply, RespSocket, command, eventually

LONG = 4_000
BIG = 1 << 20


def queue(connection, *commands):
    """The bytes of a transaction."""
    commands = [("MULTI",), *commands, ("EXEC",)]
    connection.socket.sendall(b"".join(command(*one) for one in commands))


def replies(connection):
    """The replies of a transaction; of those that are errors the texts."""
    count, all_of_them = int(connection.file.readline()[1:]), []
    for _ in range(count):
        try:
            all_of_them.append(connection.read())
        except Reply as error:
            all_of_them.append(str(error))
    return all_of_them


def read_to_the_end(connection):
    """Reads until the connection ends."""
    connection.socket.setblocking(True)
    try:
        while connection.socket.recv(1 << 20):
            pass
    except OSError:
        pass


CHANGES = {
    "delete": [("ACL", "DELUSER", "worker")],
    "refuse": [("ACL", "SETUSER", "worker", "-incr", "resetkeys")],
    "disable": [("ACL", "SETUSER", "worker", "off", "nocommands")],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("lanes", [1, 2])
def test_rights_that_change_during_a_transaction_hold_behind_it(start_hub, lanes, change):
    hub = start_hub("--lanes", lanes)
    client = hub.redis()
    client.rpush("list", *range(1000))
    for number in range(12):
        client.execute_command("ACL", "SETUSER", "worker", "on", "nopass", "+@all", "~*", "&*")
        client.set("count", 0)
        worker = RespSocket(hub.resp())
        worker.call("AUTH", "worker", "x")
        worker_id = worker.call("CLIENT", "ID")
        steps = [("INCR", "count"), ("LRANGE", "list", 0, 99)] * LONG
        reader = threading.Thread(target=read_to_the_end, args=[worker])
        queue(worker, *steps)
        reader.start()
        if number % 2:
            # In the middle of EXEC more often than not.
            eventually(lambda: client.info("commandstats").get("cmdstat_multi"), "it has begun")
        for words in CHANGES[change]:
            client.execute_command(*words)
        client.client_kill_filter(_id=worker_id)
        reader.join()
        assert int(client.get("count")) in (0, LONG), "a part of the transaction was refused"
        client.config_resetstat()


def test_a_transaction_that_kills_its_own_client_is_executed_whole(hub):
    client = hub.redis()
    for number, kill in enumerate([
        ("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"),
        ("CLIENT", "KILL", "USER", "worker", "SKIPME", "no"),
        ("ACL", "DELUSER", "worker"),
    ]):
        client.execute_command("ACL", "SETUSER", "worker", "on", "nopass", "+@all", "~*", "&*")
        worker = RespSocket(hub.resp())
        worker.call("AUTH", "worker", "x")
        queue(worker, ("SET", f"before{number}", 1), kill, ("SET", f"after{number}", 1),
              ("PUBLISH", "channel", 1), ("INCR", f"after{number}"))
        read_to_the_end(worker)
        assert client.get(f"before{number}") == b"1"
        assert client.get(f"after{number}") == b"2", kill


def test_what_a_transaction_takes_from_its_own_user_is_refused_in_it(hub):
    client = hub.redis()
    client.execute_command("ACL", "SETUSER", "worker", "on", "nopass", "+@all", "~*", "&*")
    worker = RespSocket(hub.resp())
    worker.call("AUTH", "worker", "x")
    queue(worker, ("SET", "a", 1), ("ACL", "SETUSER", "worker", "-set"), ("SET", "b", 1),
          ("INCR", "a"))
    for _ in range(5):
        worker.read()
    worker.file.readline()
    assert [worker.read(), worker.read()] == [b"OK", b"OK"]
    with pytest.raises(Reply, match="NOPERM"):
        worker.read()
    assert worker.read() == 2


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_client_that_leaves_during_its_transaction_has_it_executed_whole(start_hub, lanes):
    hub = start_hub("--lanes", lanes, "--set", "busy-reply-threshold=20")
    client = hub.redis()
    wait = "local e = redis.call('TIME')[1] + 2 while redis.call('TIME')[1] + 0 < e do end "
    queue(RespSocket(leaver := hub.resp()), ("SET", "before", 1), ("EVAL", wait + "return 1", 0),
          ("PUBLISH", "channel", 1), ("SET", "after", 1),
          ("EVAL", "redis.call('publish', 'c', 1) return redis.call('set', 'last', 1)", 0))

    def is_busy():
        try:
            return not client.ping()
        except redis.ResponseError:
            return True

    eventually(is_busy, "the script runs")
    leaver.close()
    eventually(lambda: not is_busy(), "the script is over")
    assert client.mget("before", "after", "last") == [b"1", b"1", b"1"]


def test_a_client_that_leaves_during_its_script_has_it_run_to_the_end(start_hub):
    hub = start_hub("--set", "busy-reply-threshold=20")
    client = hub.redis()
    listener = hub.subscriber("channel")
    leaver = hub.resp()
    leaver.sendall(command("EVAL", """
        redis.call('set', 'before', 1)
        local e = redis.call('TIME')[1] + 2
        while redis.call('TIME')[1] + 0 < e do end
        redis.call('set', 'receivers', redis.call('publish', 'channel', 'told'))
        redis.call('set', 'after', 1)""", 0))

    def is_busy():
        try:
            return not client.ping()
        except redis.ResponseError:
            return True

    eventually(is_busy, "the script runs")
    leaver.close()
    eventually(lambda: not is_busy(), "the script is over")
    assert client.mget("before", "receivers", "after") == [b"1", b"1", b"1"]
    assert listener.data() == b"told"


REQUESTS = {
    "one command": [("MGET", *["big"] * 1000)],
    "a transaction": [("MULTI",), *[("GET", "big")] * 1000, ("SET", "after", 1), ("EXEC",)],
    "many arrays in a transaction": [
        ("MULTI",), *[("MGET", *["big"] * 20)] * 50, ("SET", "after", 1), ("EXEC",)],
    "a script": [("EVAL", """local big, all = redis.call('get', 'big'), {}
        for i = 1, 1000 do all[i] = big end
        redis.call('set', 'after', 1)
        return all""", 0)],
    "scripts in a transaction": [
        ("MULTI",), *[("EVAL", "return redis.call('get', 'big')", 0)] * 1000, ("SET", "after", 1),
        ("EXEC",)],
}


@pytest.mark.parametrize("what", REQUESTS)
def test_a_reply_longer_than_the_limit_is_not_built(start_hub, what):
    hub = start_hub("--set", "client-output-buffer-limit=normal 4mb 0 0")
    client = hub.redis()
    client.set("big", b"x" * BIG)
    before = peak_bytes(hub)
    greedy = RespSocket(hub.resp())
    greedy.socket.sendall(b"".join(command(*one) for one in REQUESTS[what]))
    # The limit and a few values; all of them would be a gigabyte.
    read_to_the_end(greedy)
    assert peak_bytes(hub) - before < 100 << 20
    assert hub.info("stats")["client_output_buffer_limit_disconnections"] == 1
    if what != "one command":
        assert client.get("after") == b"1", "it is carried out nevertheless"


def test_a_script_s_own_answers_are_not_limited_as_replies_are(start_hub):
    hub = start_hub("--set", "client-output-buffer-limit=normal 4mb 0 0")
    client = hub.redis()
    client.set("big", b"x" * BIG)
    names = ",".join(["'big'"] * 40)
    body = f"local n = 0 for _, v in ipairs(redis.call('mget', {names})) do n = n + #v end return n"
    assert client.eval(body, 0) == 40 * BIG


# Commands that look into shards by themselves, or might.
BETWEEN = [
    ("INFO",), ("INFO", "keyspace"), ("MEMORY", "STATS"), ("CLIENT", "LIST"), ("SLOWLOG", "GET"),
    ("ACL", "SETUSER", "other", "on"), ("ACL", "DELUSER", "other"), ("ACL", "LIST"),
    ("CONFIG", "SET", "notify-keyspace-events", ""), ("CONFIG", "SET", "save", ""),
    ("CONFIG", "SET", "maxmemory", "0"), ("CONFIG", "RESETSTAT"), ("SCRIPT", "LOAD", "return 1"),
    ("FUNCTION", "LIST"), ("FUNCTION", "STATS"), ("BGSAVE", "SCHEDULE"), ("CLIENT", "TRACKING", "ON"),
    ("CLIENT", "UNPAUSE"), ("LATENCY", "RESET"), ("DEBUG", "CHANGE-REPL-ID"), ("WAIT", 0, 0),
    ("EVAL", "return redis.call('info')", 0), ("TIDEWIRE.TOP",), ("REPLICAOF", "NO", "ONE"),
    ("SORT", "list", "BY", "w*"), ("SWAPDB", 5, 6),
]


class Writers:
    """Clients that change keys all the time."""

    def __init__(self, hub, *commands):
        self._stops = threading.Event()
        batch = b"".join(command(*one) for one in commands) * 20

        def write():
            connection = RespSocket(hub.resp())
            try:
                while not self._stops.is_set():
                    connection.socket.sendall(batch)
                    for _ in range(20 * len(commands)):
                        connection.read()
            except OSError:
                pass

        self._threads = [threading.Thread(target=write, daemon=True) for _ in range(2)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_):
        self._stops.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_nobody_gets_between_the_commands_of_a_transaction(start_hub, lanes):
    hub = start_hub("--lanes", lanes, "--set", "enable-debug-command=yes")
    connection = RespSocket(hub.resp())
    with Writers(hub, ("SET", "key", "W")):
        for words in BETWEEN:
            for _ in range(20):
                queue(connection, ("SET", "key", "A"), words, words, ("APPEND", "key", "B"),
                      ("GET", "key"))
                for _ in range(6):
                    connection.read()
                assert replies(connection)[-1] == b"AB", words


def test_a_killed_hub_has_all_of_a_transaction_or_nothing(start_hub, tmp_path):
    for number in range(6):
        options = ["--dir", tmp_path, "--lanes", 2, "--set", "appendonly=yes", "--set",
                   f"appendfsync={['no', 'everysec', 'always'][number % 3]}"]
        hub = start_hub(*options)
        connection = RespSocket(hub.resp())
        steps = [step for key in range(40) for step in
                 [("INCR", f"p{key}"), ("ACL", "SETUSER", "other", "on") if key % 2 else ("INFO",)]]
        ended = threading.Thread(target=read_to_the_end, args=[connection], daemon=True)
        with Writers(hub, ("APPEND", "other", "x")):
            for _ in range(10):
                queue(connection, *steps)
            ended.start()
            eventually(lambda: hub.redis().get("p0"), "a transaction has begun")
            hub.kill()
        ended.join()
        hub = start_hub(*options)
        values = set(hub.redis().mget([f"p{key}" for key in range(40)]))
        assert len(values) == 1, values
        hub.redis().delete(*[f"p{key}" for key in range(40)])
        hub.stop()


def test_a_replica_sees_all_of_a_transaction_or_nothing(start_hub):
    hub, follower = start_hub("--lanes", 2), start_hub("--lanes", 2)
    replica = follower.redis()
    replica.replicaof("127.0.0.1", hub.resp_port)
    eventually(lambda: replica.info("replication").get("master_link_status") == "up", "it follows")
    connection = RespSocket(hub.resp())
    names = [f"p{key}" for key in range(40)]
    steps = [step for name in names for step in
             [("INCR", name), ("ACL", "SETUSER", "other", "on"), ("CLIENT", "LIST")]]
    ended = threading.Thread(target=read_to_the_end, args=[connection], daemon=True)
    for _ in range(50):
        queue(connection, *steps)
    connection.send("QUIT")
    ended.start()

    def seen():
        values = set(replica.mget(names))
        assert len(values) == 1, values
        return values == {b"50"}

    eventually(seen, "all transactions")
    ended.join()


def test_what_cannot_be_in_a_transaction_is_refused_in_it(hub):
    client = RespSocket(hub.resp())
    client.call("MULTI")
    with pytest.raises(Reply, match="DEBUG command not allowed"):
        client.call("DEBUG", "SLEEP", "0")
    with pytest.raises(Reply, match="EXECABORT"):
        client.call("EXEC")
    queue(client, ("MONITOR",), ("BGSAVE",))
    for _ in range(3):
        client.read()
    assert client.file.readline() == b"*2\r\n"
    with pytest.raises(Reply, match="MONITOR isn't allowed for DENY BLOCKING client"):
        client.read()
    assert client.read() == b"Background saving scheduled"


def peak_bytes(hub):
    with open(f"/proc/{hub.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


SLOW = "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + redis.call('EXISTS', 'x') end return n"


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_who_leaves_during_a_script_of_others_is_served_behind_it(start_hub, lanes):
    """What came to a lane that could not lock shards was dropped when its client left."""
    hub = start_hub("--lanes", lanes)
    client = hub.redis()
    slow = RespSocket(hub.resp())
    assert slow.call("PING") == b"PONG"
    there = len(client.client_list())
    for number in range(5):
        slow.socket.sendall(command("EVAL", SLOW, "0", "300000"))
        leavers = []
        for at in range(20):
            gone = RespSocket(hub.resp())
            gone.socket.sendall(command("SET", f"gone:{number}:{at}", "1"))
            gone.file.close()
            gone.socket.close()
            half = RespSocket(hub.resp())
            requests = [command("SET", f"half:{number}:{at}:{part}", "1") for part in range(3)]
            half.socket.sendall(b"".join(requests))
            half.socket.shutdown(socket.SHUT_WR)
            leavers.append(half)
        for half in leavers:
            assert half.file.read() == b"+OK\r\n" * 3
        assert slow.read() == 0
        names = [f"gone:{number}:{at}" for at in range(20)]
        eventually(lambda: client.exists(*names) == 20, "every key of those who left")
    eventually(lambda: len(client.client_list()) == there, "only those there who were")


def test_one_subscriber_that_is_cut_off_counts_once(hub):
    """Each further message of the same turn counted it again."""
    client = hub.redis()
    client.config_set("client-output-buffer-limit", "pubsub 1mb 0 0")
    client.config_set("notify-keyspace-events", "AKE")
    deaf = RespSocket(hub.resp())
    deaf.call("CLIENT", "SETNAME", "deaf")
    deaf.socket.sendall(command("PSUBSCRIBE", "*"))
    before = client.info("stats")["client_output_buffer_limit_disconnections"]
    values = {f"{'k' * 400}:{number}": 1 for number in range(300)}

    def is_gone():
        client.mset(values)
        return all(one["name"] != "deaf" for one in client.client_list())

    eventually(is_gone, "an end of the subscriber")
    after = client.info("stats")["client_output_buffer_limit_disconnections"]
    assert after - before == 1


@pytest.mark.parametrize("subscribe", [("SUBSCRIBE", "live:q"), ("PSUBSCRIBE", "live:*")])
def test_current_values_follow_the_reply_to_the_transaction_that_subscribes(hub, subscribe):
    client = RespSocket(hub.resp())
    client.call("SET", "live:q", "0")
    queue(client, ("SET", "live:q", "1"), subscribe, ("INCR", "count"))
    assert [client.read() for _ in range(4)] == [b"OK"] + [b"QUEUED"] * 3
    kind, name = (word.encode() for word in subscribe)
    assert replies(client) == [b"OK", [kind.lower(), name, 1], 1]
    assert client.read()[-2:] == [b"live:q", b"1"]
    assert client.call("PING", "end") == [b"pong", b"end"]
