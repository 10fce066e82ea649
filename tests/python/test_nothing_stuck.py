"""Whatever one client runs, every lane goes on: it accepts, replies or says -BUSY, and obeys."""

import select
import signal
import socket
import threading

import pytest

from feed_client import FeedClient
from support import PATIENCE_S, Reply, RespSocket, command, eventually

ENDLESS = "while true do end"
BUSY_SOON = ("--set", "busy-reply-threshold=50")
LANES = (1, 2, 4)


class Watcher:
    """A second client: PING on a connection of each lane, again and again, until it is left."""

    def __init__(self, hub, lanes):
        self._connections = [RespSocket(hub.resp()) for _ in range(lanes)]
        self._stops = threading.Event()
        self._failure = None
        self.rounds = 0
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self._stops.set()
        self._thread.join(2 * PATIENCE_S)
        if kind is None:
            assert self._failure is None, f"a lane does not answer: {self._failure}"
            assert not self._thread.is_alive()

    def _watch(self):
        try:
            while not self._stops.is_set():
                for connection in self._connections:
                    said = ask(connection, "PING")
                    assert said == "PONG" or said.startswith("BUSY"), said
                self.rounds += 1
                self._stops.wait(0.002)
        except Exception as error:  # it is told by the test's own thread
            self._failure = repr(error)

    def goes_on(self):
        """Waits until every lane has answered what was asked from now on."""
        from_now = self.rounds + 2
        eventually(lambda: self._failure or self.rounds >= from_now, "answers of every lane")
        assert self._failure is None, f"a lane does not answer: {self._failure}"


def ask(connection, *words):
    """The reply as a text; of an error its text."""
    try:
        reply = connection.call(*words)
    except Reply as error:
        return str(error).lstrip("-")
    return reply.decode() if isinstance(reply, bytes) else reply


def send(connection, *words):
    """Sends a command, whose reply is read later or never."""
    connection.sendall(command(*words))


def leave(connection):
    connection.file.close()
    connection.socket.close()


def until_busy(hub):
    client = RespSocket(hub.resp())
    eventually(lambda: str(ask(client, "PING")).startswith("BUSY"), "-BUSY")
    return client


def clients(hub, count):
    return [RespSocket(hub.resp()) for _ in range(count)]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    "words", [("FUNCTION", "STATS"), ("SCRIPT", "KILL"), ("FUNCTION", "KILL")], ids=" ".join
)
def test_a_transaction_with_a_script_asks_about_scripts(start_hub, lanes, words):
    hub = start_hub("--lanes", lanes)
    with Watcher(hub, lanes) as watcher:
        for client in clients(hub, lanes):
            assert ask(client, "MULTI") == "OK"
            assert ask(client, "EVAL", "return 1", "0") == "QUEUED"
            assert ask(client, *words) == "QUEUED"
            client.send("EXEC")
            lines = [client.file.readline() for _ in range(3)]
            assert lines[:2] == [b"*2\r\n", b":1\r\n"]
            assert lines[2].startswith(b"-NOTBUSY" if words[1] == "KILL" else b"*4"), lines
        watcher.goes_on()


@pytest.mark.parametrize("lanes", LANES)
def test_a_script_behind_one_that_has_written_is_killed(start_hub, lanes):
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    client = RespSocket(hub.resp())
    for words in (("MULTI",), ("EVAL", "return redis.call('SET', 'a', '1')", "0"),
                  ("EVAL", ENDLESS, "0"), ("GET", "a")):
        ask(client, *words)
    client.send("EXEC")
    other = until_busy(hub)
    assert ask(other, "SCRIPT", "KILL") == "OK"
    lines = [client.file.readline() for _ in range(5)]
    assert lines[:2] == [b"*3\r\n", b"+OK\r\n"]
    assert lines[2].startswith(b"-ERR Script killed")
    assert lines[3:] == [b"$1\r\n", b"1\r\n"]


@pytest.mark.parametrize("lanes", LANES)
def test_waiting_clients_leave_while_a_script_runs(start_hub, lanes):
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    for _ in range(3):
        waiting = [hub.resp() for _ in range(16)]
        for number, one in enumerate(waiting):
            send(one, "BLPOP", f"list:{number}", "other", "0")
        admin = hub.redis()
        eventually(lambda: admin.info("clients")["blocked_clients"] == 16, "they wait")
        with Watcher(hub, lanes) as watcher:
            runner = hub.resp()
            send(runner, "EVAL", ENDLESS, "0")
            for one in waiting[:8]:
                one.close()
            others = [until_busy(hub) for _ in range(2 * lanes)]
            for one in waiting[8:]:
                one.close()
            watcher.goes_on()
            assert ask(others[0], "SCRIPT", "KILL") == "OK"
            assert runner.recv(100).startswith(b"-ERR Script killed")
            eventually(lambda: ask(others[0], "PING") == "PONG", "the script has ended")
        eventually(lambda: admin.info("clients")["blocked_clients"] == 0, "nobody waits")
        # What is pushed now is nobody's.
        assert admin.rpush("other", "a", "b") == 2
        assert admin.delete("other") == 1


@pytest.mark.parametrize("lanes", LANES)
def test_who_has_left_during_a_script_is_not_served_by_it(start_hub, lanes):
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    waiting = [hub.resp() for _ in range(2 * lanes)]
    for one in waiting:
        send(one, "BLPOP", "list", "0")
    admin = hub.redis()
    eventually(lambda: admin.info("clients")["blocked_clients"] == len(waiting), "they wait")
    runner = RespSocket(hub.resp())
    body = f"{busy_for(0.6)} return redis.call('RPUSH', 'list', 'x')"
    runner.send("EVAL", body, "0")
    until_busy(hub)
    for one in waiting:
        one.close()
    assert runner.file.readline() == b":1\r\n"
    eventually(lambda: admin.info("clients")["blocked_clients"] == 0, "nobody waits")


def busy_for(seconds):
    return f"local start = os.clock() while os.clock() - start < {seconds} do end"


@pytest.mark.parametrize("lanes", LANES)
def test_watching_and_subscribed_clients_leave_while_a_script_runs(start_hub, lanes):
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    hub.redis().set("live:x", "1")
    watching, subscribed = clients(hub, 4 * lanes), clients(hub, 2 * lanes)
    for one in watching:
        assert ask(one, "WATCH", "a", "b") == "OK"
    for one in subscribed:
        one.send("SUBSCRIBE", "live:x")
    tracking = clients(hub, 2 * lanes)
    for one in tracking:
        one.call("HELLO", "3")
        assert ask(one, "CLIENT", "TRACKING", "ON") == "OK"
        ask(one, "GET", "a")
    with Watcher(hub, lanes) as watcher:
        runner = hub.resp()
        send(runner, "EVAL", ENDLESS, "0")
        other = until_busy(hub)
        assert ask(watching[0], "UNWATCH") == "OK"
        assert ask(watching[1], "RESET") == "RESET"
        for one in watching[2:] + subscribed + tracking:
            leave(one)
        watcher.goes_on()
        assert ask(other, "SCRIPT", "KILL") == "OK"
        eventually(lambda: ask(other, "PING") == "PONG", "the script has ended")
    admin = hub.redis()
    eventually(lambda: admin.info("clients")["watching_clients"] == 0, "nobody watches")


@pytest.mark.parametrize("lanes", LANES)
def test_keys_expire_and_other_protocols_speak_while_a_script_runs(start_hub, lanes):
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    admin = hub.redis()
    for number in range(500):
        admin.set(f"key:{number}", "value", px=100 + number % 50)
    admin.set("live:a", "before")
    pushers, subscribers = [hub.push() for _ in range(lanes)], []
    with Watcher(hub, lanes) as watcher:
        runner = hub.resp()
        send(runner, "EVAL", ENDLESS, "0")
        other = until_busy(hub)
        for number, one in enumerate(pushers):
            one.send_multipart([b"pushed:%d" % number, b"value"])
        subscribers += [hub.sub("live:a") for _ in range(2 * lanes)]
        watcher.goes_on()
        assert ask(other, "SCRIPT", "KILL") == "OK"
        eventually(lambda: ask(other, "PING") == "PONG", "the script has ended")
    for number in range(lanes):
        eventually(lambda number=number: admin.get(f"pushed:{number}") == b"value", "it is stored")
    for one in subscribers:
        assert one.recv_multipart() == [b"live:a", b"before"]
    eventually(lambda: admin.dbsize() == 1 + lanes, "the keys have expired")


@pytest.mark.parametrize("lanes", LANES)
def test_blocking_timeouts_end_after_a_script(start_hub, lanes):
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    waiting = clients(hub, 2 * lanes)
    for one in waiting:
        one.send("BLPOP", "list", "1")
    admin = hub.redis()
    eventually(lambda: admin.info("clients")["blocked_clients"] == len(waiting), "they wait")
    runner = hub.resp()
    send(runner, "EVAL", busy_for(1.5), "0")
    for one in waiting:
        assert one.file.readline() == b"*-1\r\n"


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("body, code", [(ENDLESS, 0), (f"redis.call('SET', 'a', 1) {ENDLESS}", 0)])
def test_a_signal_ends_a_hub_with_an_endless_script(start_hub, tmp_path, lanes, body, code):
    hub = start_hub("--lanes", lanes, *BUSY_SOON, "--set", f"dir={tmp_path}",
                    "--set", "save=3600 1", "--set", "shutdown-timeout=1")
    hub.redis().set("b", "2")
    runner = hub.resp()
    send(runner, "EVAL", body, "0")
    until_busy(hub)
    hub.process.send_signal(signal.SIGTERM)
    assert hub.wait() == code


@pytest.mark.parametrize("lanes", LANES)
def test_a_long_call_within_a_script_does_not_silence_the_other_lanes(start_hub, lanes):
    # The pattern goes back and back inside one call, where no instruction is counted.
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    connections = [RespSocket(hub.resp()) for _ in range(4)]
    pattern = "return string.find(('a'):rep(22), ('a?'):rep(22) .. ('a'):rep(22))"
    connections[0].send("EVAL", pattern, "0")
    for one in connections[1:lanes]:
        assert ask(one, "PING") == "PONG" or str(ask(one, "PING")).startswith("BUSY")
    assert connections[0].file.readline() == b":1\r\n"
    assert ask(connections[1], "PING") == "PONG"


LONG_CALLS = {
    "gsub": "return string.gsub(('a'):rep(200000), 'a*a*a*b', 'x')",
    "find": "return string.find(('a'):rep(200000), '.-.-.-.-b')",
    "sort": "local t = {} for i = 1, 1e6 do t[i] = i % 7 end while true do table.sort(t) end",
    "join": "local s = ('x'):rep(1e8) while true do local t = s .. 'a' end",
}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("body", LONG_CALLS.values(), ids=LONG_CALLS)
def test_a_script_is_killed_in_the_middle_of_a_call_that_does_not_end(start_hub, lanes, body):
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    with Watcher(hub, lanes) as watcher:
        runner = RespSocket(hub.resp())
        runner.send("EVAL", body, "0")
        until_busy(hub)
        for other in clients(hub, 3 * lanes):
            assert str(ask(other, "GET", "a")).startswith("BUSY")
        watcher.goes_on()
        assert ask(RespSocket(hub.resp()), "SCRIPT", "KILL") == "OK"
        assert runner.file.readline().startswith(b"-ERR Script killed")
        watcher.goes_on()
        assert ask(RespSocket(hub.resp()), "GET", "a") is None


@pytest.mark.parametrize("lanes", (2, 4))
def test_scripts_without_a_pause_let_other_lanes_have_their_turn(start_hub, lanes):
    hub = start_hub("--lanes", lanes)
    runner = hub.resp()
    script = command("EVAL", "local n = 0 for i = 1, 3000 do n = n + i end return 'done'", "0")
    stops = threading.Event()

    def run():
        replies = runner.makefile("rb")
        while not stops.is_set():
            runner.sendall(script * 50)
            for _ in range(100):
                replies.readline()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for client in clients(hub, 2 * lanes):
            for number in range(20):
                assert ask(client, "SET", f"key:{number}", "value") == "OK"
                assert ask(client, "EVAL", "return redis.call('GET', KEYS[1])", "1",
                           f"key:{number}") == "value"
    finally:
        stops.set()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("lanes", (2, 4))
def test_dbsize_counts_a_renamed_key_once(start_hub, lanes):
    hub = start_hub("--lanes", lanes)
    client = hub.redis()
    client.set("key:0", "value")
    client.set("other", "value")
    stops = threading.Event()

    def rename():
        own = hub.redis()
        number = 0
        while not stops.is_set():
            pipeline = own.pipeline(transaction=False)
            for _ in range(50):
                pipeline.rename(f"key:{number}", f"key:{number + 1}")
                number += 1
            pipeline.execute()

    thread = threading.Thread(target=rename)
    thread.start()
    try:
        for _ in range(40):
            pipeline = client.pipeline(transaction=False)
            for _ in range(50):
                pipeline.dbsize()
            assert set(pipeline.execute()) == {2}
            assert set(client.pipeline().dbsize().dbsize().execute()) == {2}
            assert client.eval("return redis.call('DBSIZE')", 0) == 2
    finally:
        stops.set()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("lanes", (2, 4))
def test_a_transaction_limits_memory_while_the_append_only_file_is_begun(start_hub, tmp_path, lanes):
    hub = start_hub("--lanes", lanes, "--set", f"dir={tmp_path}")
    ends = threading.Event()

    def switch():
        own = RespSocket(hub.resp())
        while not ends.is_set():
            for value in ("yes", "no"):
                ask(own, "CONFIG", "SET", "appendonly", value)
            ask(own, "BGREWRITEAOF")

    thread = threading.Thread(target=switch)
    thread.start()
    try:
        with Watcher(hub, lanes) as watcher:
            for client in clients(hub, lanes):
                for _ in range(100):
                    for words in (("MULTI",), ("SET", "a", "1"), ("KEYS", "*"),
                                  ("CONFIG", "SET", "maxmemory", "1gb"), ("SET", "b", "1")):
                        ask(client, *words)
                    assert client.call("EXEC")[2] == b"OK"
            watcher.goes_on()
    finally:
        ends.set()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("lanes", LANES)
def test_time_goes_on_within_a_script(start_hub, lanes):
    hub = start_hub("--lanes", lanes, "--set", "busy-reply-threshold=20")
    client = hub.redis()
    body = """
        local function now()
          local time = redis.call('TIME')
          return time[1] + time[2] / 1000000
        end
        redis.call('SET', 'key', 'value', 'PX', 30)
        local start = now()
        while now() < start + 0.1 do end
        return redis.call('GET', 'key')"""
    # The key's time has come, but not for the script.
    assert client.eval(body, 0) == b"value"
    eventually(lambda: client.get("key") is None, "it has expired")


@pytest.mark.parametrize("lanes", (2, 4))
def test_function_stats_names_a_function_as_soon_as_it_is_busy(start_hub, lanes):
    hub = start_hub("--lanes", lanes, *BUSY_SOON)
    library = "#!lua name=l\nredis.register_function{function_name='endless', callback=" \
        f"function() {ENDLESS} end, flags={{'no-writes'}}}}"
    runner, *others = clients(hub, 2 * lanes + 1)
    assert ask(runner, "FUNCTION", "LOAD", library) == "l"
    for number in range(60):
        monitors = clients(hub, 2 * lanes)
        for monitor in monitors:
            assert ask(monitor, "MONITOR") == "OK"
        runner.send("FCALL", "endless", "0")
        # One on another lane is told that the function begins.
        assert select.select([one.socket for one in monitors], [], [], PATIENCE_S)[0]
        for monitor in monitors:
            leave(monitor)
        other = others[number % len(others)]
        running = other.call("FUNCTION", "STATS")[1]
        assert running and running[1] == b"endless", f"round {number}: {running}"
        assert ask(other, "FUNCTION", "KILL") == "OK"
        assert b"Script killed" in runner.file.readline()


def test_debug_sleep_stops_every_lane(start_hub):
    hub = start_hub("--lanes", "4", "--set", "enable-debug-command=yes")
    sleeper, others = RespSocket(hub.resp()), clients(hub, 8)

    def clocks():
        replies = [one.call("TIME") for one in others]
        return [int(seconds) + int(micros) / 1e6 for seconds, micros in replies]

    before, gaps = clocks(), [0] * len(others)
    sleeper.send("DEBUG", "SLEEP", "0.5")
    answer = threading.Thread(target=sleeper.file.readline)
    answer.start()
    is_over = False
    while not is_over:
        # Once more when the answer is there: a lane may have been asked just before.
        is_over = not answer.is_alive()
        after = clocks()
        gaps = [max(gap, late - early) for gap, early, late in zip(gaps, before, after)]
        before = after
    assert min(gaps) >= 0.4, gaps


def test_the_watchdog_names_the_lane_that_is_stuck(start_hub):
    hub = start_hub("--lanes", "2", "--set", "enable-debug-command=yes")
    sleeper = hub.resp()
    send(sleeper, "DEBUG", "SLEEP", "4")
    eventually(lambda: "a lane's turn does not end" in hub.stderr, "the warning")
    # The command stops the other lane as well, in the midst of its turn.
    eventually(lambda: 'doing="debug"' in hub.stderr, "the lane that sleeps")
    line = next(line for line in hub.stderr.splitlines() if 'doing="debug"' in line)
    assert "does not end" in line and "lane=" in line and "seconds=" in line
    assert sleeper.recv(10) == b"+OK\r\n"
    eventually(lambda: "long turn has ended" in hub.stderr, "its end")


def test_metrics_are_there_while_a_script_runs(start_hub):
    port = None
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    hub = start_hub("--lanes", "2", *BUSY_SOON, "--admin", f"127.0.0.1:{port}")
    hub.redis().set("key", "value")

    def metrics():
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as one:
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            return b"".join(iter(lambda: one.recv(65_536), b"")).decode()

    assert 'tidewire_keys{database="0"} 1' in metrics()
    runner = hub.resp()
    send(runner, "EVAL", ENDLESS, "0")
    other = until_busy(hub)
    page = metrics()
    assert 'tidewire_keys{database="0"} 1' in page
    assert "tidewire_lane_turn_seconds" in page
    assert ask(other, "SCRIPT", "KILL") == "OK"


@pytest.mark.parametrize("count, form", [(1_000, "S%06d"), (200, "*0*1*2*3*4*5*%d*")])
def test_many_patterns_of_a_feed_client_hold_no_lane(start_simulator, start_hub, count, form):
    topics = 20_000
    simulator = start_simulator("--rate", "20k", "--symbols", topics)
    hub = start_hub("--source", simulator.source, "--lanes", "1")
    eventually(lambda: hub.info("topics")["market_topics"] == topics, "the topics")
    client = FeedClient(hub.connect(hub.feed_port))
    with Watcher(hub, 1) as watcher:
        watcher.goes_on()
        before = watcher.rounds
        client.join(*(form % number for number in range(count)))
        client.until(lambda: client.snapshots)
        if "*" in form:
            # It was one turn, which answered once.
            assert watcher.rounds > before + 20
        watcher.goes_on()
