"""`watch`: the terminal view, driven through a pseudo terminal, and its JSON."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from feed_client import LIVE, definition, status, trade
from support import BINARY, PATIENCE_S, Program, environment, eventually, free_ports
from test_feed import publisher


class Terminal:
    """The program in a terminal of its own; what it draws is kept as a screen of text."""

    def __init__(self, *arguments, rows=30, columns=120):
        self.rows, self.columns = rows, columns
        self.screen = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.raw = b""
        self._rest = b""
        self.master, self._slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            [str(BINARY), "watch", *map(str, arguments)],
            stdin=self._slave, stdout=self._slave, stderr=subprocess.PIPE,
            env=environment({"TERM": "xterm-256color"}), start_new_session=True,
        )

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.screen = [[" "] * columns for _ in range(rows)]
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, wait_s=0.05):
        while select.select([self.master], [], [], wait_s)[0]:
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return
            self.raw += data
            self._draw(data)
            wait_s = 0

    def text(self):
        self.read()
        return "\n".join("".join(line) for line in self.screen)

    def press(self, keys):
        os.write(self.master, keys)

    def shows(self, words):
        """Waits until the screen holds `words`."""
        pattern = words if isinstance(words, re.Pattern) else re.compile(re.escape(words))
        try:
            eventually(lambda: pattern.search(self.text()), f"'{pattern.pattern}' on the screen")
        except AssertionError:
            raise AssertionError(f"'{pattern.pattern}' is not in:\n{self.text()}") from None

    def symbols(self):
        """The first column of the table."""
        lines = [line for line in self.text().split("\n") if line.startswith("│")]
        names = [line[1:].split() for line in lines]
        return [words[0] for words in names if len(words) > 6 and re.match(r"[\d.-]", words[1])]

    def end(self, code=0):
        """Waits for the end; the terminal must be as it was."""
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end:\n{self.text()}"
            self.read()
        self.read()
        stderr = self.process.stderr.read().decode()
        assert self.process.returncode == code, stderr
        assert termios.tcgetattr(self._slave) == self.before
        assert self.raw.rstrip().endswith(b"\x1b[?1049l") or b"\x1b[?1049l" in self.raw[-200:]
        return stderr

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.master)
        os.close(self._slave)

    def _draw(self, data):
        """Positions and letters; colours and the like are passed over."""
        data = self._rest + data
        text = data.decode("utf-8", "ignore")
        self._rest = b""
        while text:
            match = re.match(r"\x1b\[(\d*);?(\d*)[Hf]", text)
            if match:
                self.row = int(match[1] or 1) - 1
                self.column = int(match[2] or 1) - 1
            elif match := re.match(r"\x1b\[[0-9;?]*[A-Za-z]", text):
                if match[0] == "\x1b[2J":
                    self.screen = [[" "] * self.columns for _ in range(self.rows)]
            elif text.startswith("\x1b"):
                self._rest = text.encode() if len(text) < 12 else b""
                return
            else:
                match = re.match(r".", text, re.S)
                if self.row < self.rows and self.column < self.columns and text[0] >= " ":
                    self.screen[self.row][self.column] = text[0]
                self.column += 1
            text = text[match.end():]


@pytest.fixture
def terminal(request):
    def start(hub, *arguments, **options):
        places = ["--from", f"127.0.0.1:{hub.feed_port}", "--info", f"127.0.0.1:{hub.resp_port}"]
        started = Terminal(*places, *arguments, **options)
        request.addfinalizer(started.close)
        return started

    return start


def look(start, hub, *arguments):
    """What `watch --once --json` says."""
    places = ["--from", f"127.0.0.1:{hub.feed_port}", "--info", f"127.0.0.1:{hub.resp_port}"]
    if "--for" not in arguments:
        arguments += ("--for", "300ms")
    program = start("watch", *places, "--once", "--json", *arguments)
    assert program.wait() == 0, program.stderr
    return json.loads(program.stdout)


def test_json_has_what_the_hub_has(simulated, start):
    seen = look(start, simulated)
    assert seen["version"] == 1 and seen["connection"]["state"] == "connected"
    assert seen["symbol_count"] == len(seen["symbols"]) == 10
    assert seen["messages"] > 0 and seen["messages_per_second"] > 0
    latency = seen["latency_ns"]
    assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
    assert latency["count"] + latency["ahead_of_clock"] == seen["messages"]
    assert seen["recovery"]["lost"] == seen["recovery"]["conflated"] == 0
    assert seen["hub"]["market_topics"] == 10 and seen["hub"]["sources"] == 1
    updates = [row["updates"] for row in seen["symbols"]]
    assert updates == sorted(updates, reverse=True)


def test_json_says_what_redis_says_of_a_topic(simulated, start):
    simulated.simulator.stop()
    name = eventually(
        lambda: next(
            (name for name in simulated.redis().keys("md:*")
             if simulated.hash(name.decode())["stale"] == "1"), None),
        "a topic whose source is gone",
    ).decode()
    fields = simulated.hash(name)
    (row,) = look(start, simulated, name)["symbols"]
    assert row["symbol"] == name.removeprefix("md:")
    for field in ("bid", "ask", "last"):
        assert row[field] == float(fields[field])
    for field in ("bid_size", "ask_size", "last_size", "volume", "ts"):
        assert row[field] == int(fields[field]), field
    # The end of its source is a message about the topic, and no change of its value.
    assert row["seq"] >= int(fields["seq"])
    assert row["change_pct"] == pytest.approx(float(fields["change_pct"]), abs=1e-4)


def test_patterns_and_columns_choose_the_rows(simulated, start):
    names = sorted(name.decode().removeprefix("md:") for name in simulated.redis().keys("md:*"))
    seen = look(start, simulated, names[0], names[1][:-1] + "?", "--sort", "symbol")
    assert [row["symbol"] for row in seen["symbols"]] == names[:2]
    seen = look(start, simulated, "--sort", "last", "--ascending", "--rows", "3")
    prices = [row["last"] for row in seen["symbols"]]
    assert len(prices) == 3 and prices == sorted(prices)


def test_without_a_hub_it_says_so(start):
    (port,) = free_ports(1)
    program = start("watch", "--from", f"127.0.0.1:{port}", "--once", "--patience", "200ms")
    assert program.wait() == 2
    assert f"no hub at 127.0.0.1:{port}" in program.stderr and "refused" in program.stderr


def test_the_table_is_shown_and_q_leaves(simulated, terminal):
    shown = terminal(simulated)
    shown.shows("connected")
    shown.shows(re.compile(r"10 of 10"))
    shown.shows(re.compile(r"latency: source time"))
    shown.shows(re.compile(r"now p50 \d"))
    shown.shows(re.compile(r"hub [\d,]+/s"))
    assert len(shown.symbols()) == 10
    shown.press(b"q")
    assert shown.end() == ""


def test_keys_filter_sort_and_begin_anew(simulated, terminal):
    names = sorted(name.decode().removeprefix("md:") for name in simulated.redis().keys("md:*"))
    shown = terminal(simulated, "--sort", "symbol")
    eventually(lambda: shown.symbols() == names, "the names in their order")
    shown.press(b" ")
    eventually(lambda: shown.symbols() == names[::-1], "the names turned round")
    shown.press(b"/" + names[3].lower().encode())
    eventually(lambda: shown.symbols() == [names[3]], "one name")
    shown.press(b"\r\x1b")
    eventually(lambda: len(shown.symbols()) == 10, "all names again")
    shown.press(b"\x1b[C")
    shown.shows("bid▼")
    messages = re.compile(r"· ([\d,]+) messages")

    def count():
        found = messages.search(shown.text())
        return int(found[1].replace(",", "")) if found else 0

    eventually(lambda: count() > 2_500, "messages")
    before = count()

    def begun_anew():
        # Again each time: a machine that is slow to draw shows a small figure all the same.
        shown.press(b"r")
        return count() < before

    eventually(begun_anew, "figures that begin anew")
    shown.press(b"\x03")
    shown.end()


def test_a_smaller_window_keeps_the_table(simulated, terminal):
    shown = terminal(simulated)
    shown.shows("latency: source time")
    shown.resize(12, 90)
    os.kill(shown.process.pid, signal.SIGWINCH)
    eventually(lambda: 0 < len(shown.symbols()) < 10, "fewer rows")
    assert "latency: source time" not in shown.text()
    shown.press(b"q")
    shown.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_give_the_terminal_back(simulated, terminal, number):
    shown = terminal(simulated)
    shown.shows("connected")
    shown.process.send_signal(number)
    shown.end()


def test_it_outlives_the_hub(tmp_path, start_simulator, start_hub, terminal):
    simulator = start_simulator("--rate", "500", "--symbols", "3")
    hub = start_hub("--source", simulator.source)
    shown = terminal(hub)
    shown.shows("3 of 3")
    hub.stop()
    shown.shows("retrying")
    ports = [hub.resp_port, hub.pub_port, hub.pull_port, hub.feed_port]
    options = ["--resp", "--zmq-pub", "--zmq-pull", "--feed"]
    places = [f"{name}=127.0.0.1:{port}" for name, port in zip(options, ports)]
    again = Program(tmp_path, "serve", "--source", simulator.source, "--zmq-router=127.0.0.1:0", *places)
    try:
        shown.shows("1 reconnects")
        shown.shows("3 of 3")
        shown.shows(re.compile(r"[1-9]\d*/s · [\d,]+ messages"))
        shown.press(b"q")
        shown.end()
    finally:
        again.kill()


def test_what_is_no_terminal_is_refused(hub, start):
    program = start("watch", "--from", f"127.0.0.1:{hub.feed_port}")
    assert program.wait() == 2 and "--once" in program.stderr


def test_it_ends_when_its_terminal_is_gone(simulated, terminal):
    shown = terminal(simulated)
    shown.shows("connected")
    # No signal tells of it: the program is not the leader of a session with this terminal.
    os.close(shown._slave)
    os.close(shown.master)
    try:
        assert shown.process.wait(PATIENCE_S) == 0, shown.process.stderr.read()
    finally:
        # What is closed behind the test.
        shown.master, shown._slave = pty.openpty()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_pattern_that_nothing_matches_is_an_answer_of_its_own(simulated, start, form):
    places = ["--from", f"127.0.0.1:{simulated.feed_port}", "--info", "none"]
    program = start("watch", *places, "NOPE", "--once", "--for", "100ms", *form)
    assert program.wait() == 1
    assert "NOPE" in program.stderr and "matches" in program.stderr


def test_one_clock_never_differs_from_itself(simulated, start):
    seen = look(start, simulated, "--for", "1s")
    assert seen["latency_ns"]["ahead_of_clock"] == 0


def test_state_and_venue_are_shown(hub, start, terminal):
    client = publisher(hub, 77)
    client.until(lambda: client.accepted)
    now_ns = time.time_ns()
    client.send(
        LIVE, 1, definition(0, "HALTED"), trade(0, 2 * 10**9, 1, now_ns), status(0, 4, now_ns),
        definition(1, "VENUE"), trade(1, 2 * 10**9, 1, now_ns, source=7), session=77,
    )
    eventually(lambda: hub.hash("md:HALTED").get("state") == "halted", "the halt")
    rows = {row["symbol"]: row for row in look(start, hub, "HALTED", "VENUE")["symbols"]}
    assert (rows["HALTED"]["state"], rows["HALTED"]["state_name"]) == (4, "halted")
    assert (rows["HALTED"]["venue"], rows["VENUE"]["venue"]) == ("tests", "7")
    shown = terminal(hub, columns=140)
    shown.shows(re.compile(r"HALTED .* halted"))
    shown.press(b"q")
    shown.end()
    client.socket.close()
    eventually(
        lambda: look(start, hub, "HALTED")["symbols"][0]["state_name"] == "stale", "its end",
    )
