"""A transaction or a script that has begun is carried out to its end, whatever becomes of its client
and of its client's rights meanwhile."""

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


def peak_bytes(hub):
    with open(f"/proc/{hub.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10
