"""The program's options, files, signals and exit codes."""

import os
import pty
import re
import signal
import socket
import subprocess
import termios

import pytest
import redis
import zmq

from feed_client import Definition, Quote, Trade, messages_of, packets_of
from support import BINARY, STOP_TIME_MAX_S, environment, eventually, free_ports, wait_for_values


PORT_OPTIONS = ["--resp", "--zmq-pub", "--zmq-pull", "--feed", "--zmq-router"]


def fails(start, code, *words, arguments, env=None):
    """Asserts one line of words on the standard error, and the code."""
    program = start(*arguments, env=env)
    assert program.wait() == code, program.stderr
    lines = program.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("tidewire: "), lines
    for word in words:
        assert str(word) in lines[0], f"'{word}' is missing in: {lines[0]}"
    assert program.stdout == ""
    return lines[0]


@pytest.fixture
def taken():
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("option", PORT_OPTIONS)
def test_a_port_in_use_is_named(start, taken, option):
    ports = dict(zip(PORT_OPTIONS, free_ports(5)))
    ports[option] = taken
    arguments = [f"{name}=127.0.0.1:{port}" for name, port in ports.items()]
    fails(start, 2, option, f"127.0.0.1:{taken}", "in use", arguments=["serve", *arguments])


def test_a_daemon_says_that_a_port_is_in_use(start, taken):
    ports = [f"{name}=127.0.0.1:{port}" for name, port in zip(PORT_OPTIONS, free_ports(5))]
    arguments = ["serve", *ports, f"--resp=127.0.0.1:{taken}", "--set", "daemonize=yes"]
    del arguments[1 + PORT_OPTIONS.index("--resp")]
    fails(start, 2, f"127.0.0.1:{taken}", "in use", arguments=arguments)


def test_simulate_says_nothing_of_an_exchange_whose_recording_cannot_be_made(start):
    arguments = ["simulate", "--record", "/no/such/folder/file", "--feed", "127.0.0.1:0"]
    fails(start, 2, "--record", "/no/such/folder/file", arguments=arguments)


@pytest.mark.parametrize(
    "arguments", [["simulate", "--feed", "127.0.0.1:0", "--record"], ["itch", "generate"]],
    ids=["simulate", "itch generate"],
)
def test_no_file_that_is_there_is_overwritten(start, tmp_path, arguments):
    path = tmp_path / "script.sh"
    path.write_text("exit 0")
    fails(start, 2, "script.sh", "it exists already", arguments=[*arguments, str(path)])
    assert path.read_text() == "exit 0"


def test_simulate_names_a_port_in_use(start, taken):
    address = f"127.0.0.1:{taken}"
    fails(start, 2, "--feed", address, "in use", arguments=["simulate", "--feed", address])
    arguments = ["simulate", "mx", "--listen", address]
    fails(start, 2, f"--listen: cannot listen on {address}: address already in use",
          arguments=arguments)


def test_a_port_of_another_protocol_is_named(start, start_hub):
    hub = start_hub()
    address = f"127.0.0.1:{hub.resp_port}"
    wrong = [f"no hub at {address}", "no reply in the feed's protocol", "'serve --feed'"]
    fails(start, 2, "--from:", *wrong, arguments=["watch", "--once", "--from", address])
    address = f"127.0.0.1:{hub.pub_port}"
    wrong = [f"no hub at {address}", "the server speaks another protocol", "'serve --feed'"]
    fails(start, 2, "--from:", *wrong, arguments=["watch", "--once", "--from", address])


def test_an_unknown_variable_is_named_with_the_likely_one(start_hub):
    hub = start_hub(env={"TIDEWIRE_LANE": "1"})
    eventually(
        lambda: "TIDEWIRE_LANE is unknown and has no effect; did you mean TIDEWIRE_LANES?"
        in hub.stderr,
        "the warning",
    )


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["serve", "--lanes", "0"], ["--lanes", "0"]),
        (["serve", "--lanes", "many"], ["--lanes", "many"]),
        (["serve", "--resp", "nowhere"], ["--resp", "nowhere"]),
        (["serve", "--resp", "127.0.0.1:99999"], ["--resp", "99999"]),
        (["serve", "--zmq-pub", "udp://127.0.0.1:1"], ["--zmq-pub", "udp"]),
        (["serve", "--source", "x"], ["--source", "x"]),
        (["serve", "--nonsense"], ["--nonsense"]),
        (["serve", "--config", "/no/such/file.toml"], ["/no/such/file.toml"]),
        (["serve", "--config", "/"], ["/"]),
        (["serve", "--log", "a=b=c"], ["a=b=c"]),
        (["serve", "--log", "wran"], ["wran", "warn", "TIDEWIRE_LOG"]),
        (["simulate", "--log", "tidewire_hbu=debug"], ["tidewire_hbu"]),
        (["simulate", "--rate", "0"], ["--rate", "0"]),
        (["simulate", "--symbols", "0"], ["--symbols", "0"]),
        (["simulate", "--symbols", "/no/such.csv"], ["/no/such.csv"]),
        (["simulate", "--market", "sideways"], ["--market", "sideways"]),
        (["simulate", "--fault", "gap=1%"], ["--fault", "gap"]),
        (["simulate", "--fault", "gaps=200%"], ["--fault", "200%"]),
        (["simulate", "--for", "soon"], ["--for", "soon"]),
        (["simulate", "--record", "/no/such/folder/file", "--feed", "127.0.0.1:0"],
         ["/no/such/folder/file"]),
        (["replay"], ["FILE"]),
        (["replay", "/dev/null", "--speed=-1"], ["--speed", "-1"]),
        (["demo", "--replay", "/no/such/file.dbn"], ["/no/such/file.dbn"]),
        (["simulate", "--rate", "-5"], ["--rate", "-5", "from 1"]),
        (["simulate", "--symbols", "/dev/null"], ["/dev/null: no symbols"]),
        (["serve", "--databento-key", "secret"], ["--databento-key needs --databento"]),
        (["serve", "--mx-tag", "A.B"], ["--mx-tag needs --mx"]),
        (["serve", "--mx-tags", "/dev/null"], ["--mx-tags needs --mx"]),
        (["serve", "--live-prefix", ""], ["--live-prefix ''", "every key"]),
        (["serve", "--live-prefix", "md:"], ["--live-prefix 'md:'", "reserved for market data"]),
        (["serve", "--port", "6380"], ["'--port'", "--resp 127.0.0.1:6380", "-- --port 6380"]),
        (["serve", "--resp", "127.0.0.1:7001", "--feed", "127.0.0.1:7001"],
         ["--resp and --feed name the same address", "127.0.0.1:7001"]),
        (["simulate", "mx", "--first-change", "8s-3s"], ["8s is longer than 3s", "3s-8s"]),
        (["demo", "--no-tui", "--symbols", "0"], ["--symbols 0"]),
        (["serve", "--mold", "abc"], ["--mold", "invalid address 'abc': no port"]),
        (["serve", "--", "--port", "abc"], ["--port abc", "a whole number"]),
        (["replay", "/etc"], ["/etc is a directory"]),
        (["replay", "/etc/passwd"], ["/etc/passwd: unknown kind of file", "ITCH"]),
        (["itch", "generate", "--messages", "10", "/no/such/day.itch"],
         ["--messages 10", "at least"]),
        (["itch", "generate", "--depth", "0", "/no/such/day.itch"], ["--depth 0", "1 to 4096"]),
        (["dance"], ["dance"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_bad_value_is_named(start, arguments, words):
    program = start(*arguments)
    assert program.wait() == 2, program.stderr
    lines = program.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("tidewire: "), lines
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    "text, words",
    [
        ("lanes = 2\nport = 1\n", ["line 2", "port", "`resp`"]),
        ("lanes = 'two'\n", ["line 1: lanes: ", "two", "a whole number"]),
        ("lanes = 0\n", ["line 1: lanes = 0", "from 1 to 64"]),
        ("\nresp = 'nowhere'\n", ["line 2: resp = 'nowhere'", "HOST:PORT"]),
        ("\n[mx]\naddress = '127.0.0.1:1'\nbad-after = 'x'\n", ["line 4: mx.bad-after = 'x'"]),
        ("[mx]\nuncertain-after = '5s'\n", ["line 2: mx.uncertain-after needs mx.address"]),
        ("[limits]\nspeed-max = 1\n", ["line 2", "speed-max"]),
        ("resp = \n", ["line 1"]),
        ("\x00", ["line 1"]),
    ],
    ids=repr,
)
def test_a_mistake_in_the_file_is_named_with_its_place(start, tmp_path, text, words):
    path = tmp_path / "hub.toml"
    path.write_text(text)
    fails(start, 2, path, *words, arguments=["serve", "--config", path])


def test_a_file_that_may_not_be_read_is_named(start, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_bytes(b"\xff\xfe")
    fails(start, 2, path, arguments=["serve", "--config", path])


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("TIDEWIRE_LANES", "none", ["none", "--lanes", "from the environment variable"]),
        ("TIDEWIRE_SOURCE", "127.0.0.1:5,abc", ["abc", "--source", "environment variable"]),
        ("TIDEWIRE_RECORD", "", ["--record", "environment variable TIDEWIRE_RECORD is empty"]),
    ],
)
def test_a_bad_value_in_the_environment_is_named(start, name, value, words):
    program = start("serve", env={name: value})
    assert program.wait() == 2
    assert len(program.stderr.splitlines()) == 1
    for word in [name, *words]:
        assert word in program.stderr


def lanes(hub):
    return hub.info("lanes")["lanes"]


def test_the_file_gives_way_to_the_environment_and_that_to_the_command_line(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("lanes = 2\nlive-prefix = ['file:']\n[limits]\nclients-max = 123\n")
    from_file = start_hub("--config", path)
    assert lanes(from_file) == 2
    assert from_file.redis().config_get("live-prefixes") == {"live-prefixes": "file:"}
    assert from_file.redis().config_get("maxclients") == {"maxclients": "123"}
    environment = {"TIDEWIRE_CONFIG": str(path), "TIDEWIRE_LANES": "3"}
    from_environment = start_hub(env=environment | {"TIDEWIRE_LIVE_PREFIX": "env:"})
    assert lanes(from_environment) == 3
    assert from_environment.redis().config_get("live-prefixes") == {"live-prefixes": "env:"}
    from_command_line = start_hub("--lanes", "4", "--live-prefix", "line:", env=environment)
    assert lanes(from_command_line) == 4
    assert from_command_line.redis().config_get("live-prefixes") == {"live-prefixes": "line:"}


def test_addresses_too_come_from_file_and_environment(start, tmp_path):
    resp, pub, pull, feed, router = free_ports(5)
    path = tmp_path / "hub.toml"
    path.write_text(
        f"resp = '127.0.0.1:1'\nzmq-pub = 'tcp://127.0.0.1:{pub}'\n"
        f"zmq-pull = '127.0.0.1:{pull}'\nfeed = '127.0.0.1:1'\n"
        f"zmq-router = 'tcp://127.0.0.1:{router}'\n"
    )
    start(
        "serve", "--config", path, "--feed", f"127.0.0.1:{feed}", "--log", "info",
        env={"TIDEWIRE_RESP": f"127.0.0.1:{resp}", "TIDEWIRE_FEED": "127.0.0.1:2"},
    )
    for port in (resp, pub, pull, feed, router):
        connect_soon(port)


def connect_soon(port):
    def connected():
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return True
        except ConnectionRefusedError:
            return False

    eventually(connected, f"somebody at {port}")


def test_pinned_lanes_run(start_hub):
    hub = start_hub("--pin", "--lanes", "1")
    assert hub.info("lanes")["pinned"] == 1


@pytest.mark.parametrize("choice", ["auto", "off"])
def test_a_lane_tells_how_its_sends_leave(start_hub, choice):
    hub = start_hub("--lanes", "1", "--io-uring", choice)
    subscribers = [hub.redis().pubsub() for _ in range(20)]
    for subscriber in subscribers:
        subscriber.subscribe("prices")
        assert subscriber.get_message(timeout=5)["type"] == "subscribe"
    publisher = hub.redis()
    for number in range(200):
        assert publisher.publish("prices", number) == 20
    for subscriber in subscribers:
        heard = [subscriber.get_message(timeout=5)["data"] for _ in range(200)]
        assert heard == [str(number).encode() for number in range(200)]
    lane = dict(field.split("=") for field in hub.info("lanes")["lane0"].split(","))
    tries_both = int(lane["io_uring_send_ns"]) > 0
    assert tries_both == (int(lane["send_ns"]) > 0)
    if choice == "off":
        assert not tries_both
    if not tries_both:
        assert lane["sends"] == "calls"


def test_a_unix_socket_serves_redis_clients(start, tmp_path):
    path = tmp_path / "hub.sock"
    ports = free_ports(4)
    names = PORT_OPTIONS[1:]
    others = [f"{name}=127.0.0.1:{port}" for name, port in zip(names, ports)]
    program = start("serve", "--resp", f"ipc://{path}", *others)
    eventually(path.exists, "the socket")
    client = redis.Redis(unix_socket_path=str(path))
    assert client.set("a", "1") and client.get("a") == b"1"
    client.close()
    program.stop()
    assert not path.exists(), "the socket's file is cleared away"


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_hub_with_all_its_clients(start_simulator, start_hub, signal_number):
    simulator = start_simulator("--rate", "20000")
    hub = start_hub("--source", simulator.source)
    idle = [hub.resp() for _ in range(50)]
    idle += [hub.connect(hub.feed_port), hub.connect(hub.pub_port), hub.connect(hub.pull_port)]
    wait_for_values(hub, 100)
    stuck = hub.subscriber(patterns=["md:*"])
    sub = hub.sub("")
    sub.recv_multipart()
    assert stuck.json()["snapshot"] is True
    hub.process.send_signal(signal_number)
    assert hub.process.wait(STOP_TIME_MAX_S) == 0
    assert not re.search("WARN|ERROR|panicked", hub.stderr), "a quiet end"
    for one in idle:
        one.settimeout(STOP_TIME_MAX_S)
        while one.recv(1 << 16):
            pass
    simulator.stop(signal_number)
    assert simulator.published() > 0


def test_the_start_is_told_by_default_and_more_when_asked(start_hub):
    plain = start_hub()
    plain.redis().set("a", 1)
    plain.stop()
    assert plain.stdout == "" and "is serving" in plain.stderr
    assert "connected" not in plain.stderr
    telling = start_hub("--log", "debug")
    telling.redis().set("a", 1)
    telling.stop()
    assert telling.stdout == "" and "connected" in telling.stderr
    by_environment = start_hub(env={"TIDEWIRE_LOG": "info"})
    by_environment.stop()
    assert "serving" in by_environment.stderr


def demo(start, *arguments):
    """A demo that ends by itself; the ports of a hub of this machine may be in its way."""
    program = start("demo", *arguments)
    assert program.wait(30) == 0, program.stderr
    return program


def test_demo_ends_with_a_summary_that_nothing_is_missing(start):
    program = demo(start, "--for", "3s", "--no-tui", "--rate", "20k")
    text = program.stdout
    assert "redis-cli -p" in text and "HGETALL md:RELIANCE" in text
    published = number(r"published +([\d,]+) messages", text)
    applied, missing, twice = (
        number(rf"([\d,]+) {word}", text) for word in ("by the hub", "missing", "twice")
    )
    assert published > 0 and applied == published, text
    assert (missing, twice) == (0, 0), text
    assert number(r"\(([\d,]+) messages lost\)", text) == 0
    assert re.search(r"latency +p50 \S+ \S+, p99 \S+ \S+, p99.9 \S+ \S+", text)
    assert "\x1b" not in text, "plain lines have no control codes"


def test_demo_without_a_terminal_writes_plain_lines(start):
    program = demo(start, "--for", "1500ms", "--rate", "5k", "--symbols", "20")
    assert "\x1b" not in program.stdout and "0 missing, 0 twice" in program.stdout


def test_demo_in_a_terminal_shows_the_table(tmp_path):
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    process = subprocess.Popen(
        [BINARY, "demo", "--for", "2s", "--rate", "5k"],
        stdin=slave, stdout=slave, stderr=slave, env=environment({"TERM": "xterm"}), cwd=tmp_path,
    )
    os.close(slave)
    shown = b""
    try:
        while True:
            shown += os.read(master, 1 << 16)
    except OSError:
        pass
    assert process.wait(20) == 0
    for word in [b"RELIANCE", b"bid", b"ask", b"volume", b"p99.9", b"0 missing, 0 twice"]:
        assert word in shown.lower() or word in shown, word


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, f"{pattern} in {text}"
    return int(found[1].replace(",", ""))


def test_demo_takes_a_free_port_where_one_is_taken_and_says_so(start):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in PORT_OPTIONS]
    names = PORT_OPTIONS
    ports = [listener.getsockname()[1] for listener in listeners]
    options = [f"{name}=127.0.0.1:{port}" for name, port in zip(names, ports)]
    program = start("demo", "--no-tui", "--for", "20s", *options)
    program.line_with("redis-cli -p")
    for port in ports:
        assert f"127.0.0.1:{port} is taken" in program.stdout
    port = number(r"redis-cli -p (\d+)", program.stdout)
    assert port not in ports
    client = redis.Redis(port=port)
    assert client.ping()
    pubs = re.search(r"ZeroMQ publish +\S*?127.0.0.1:(\d+)", program.stdout)
    with zmq.Context() as context, context.socket(zmq.SUB) as sub:
        sub.rcvtimeo = 10_000
        sub.connect(f"tcp://127.0.0.1:{pubs[1]}")
        sub.subscribe("md:RELIANCE")
        assert sub.recv_multipart()[0] == b"md:RELIANCE"
    client.close()
    program.stop(signal.SIGINT)
    assert "0 missing, 0 twice" in program.stdout, "an interrupted demo sums up as well"
    for listener in listeners:
        listener.close()


def test_demo_names_a_bad_address(start):
    fails(start, 2, "--resp", "192.0.2.1", arguments=["demo", "--resp", "192.0.2.1:6379"])


@pytest.mark.parametrize("command", [[], ["serve"], ["simulate"], ["replay"], ["demo"]])
def test_help_explains_every_option(start, command):
    program = start(*command, "--help")
    assert program.wait() == 0 and program.stderr == ""
    text = program.stdout
    assert "Usage: tidewire" in text
    expected = {
        "": ["serve", "simulate", "replay", "demo"],
        "serve": ["--resp", "--zmq-pub", "--zmq-pull", "--feed", "--lanes", "--pin", "--config"],
        "simulate": ["--rate", "--symbols", "--seed", "--market", "--fault", "--record"],
        "replay": ["--to", "--speed", "--loop"],
        "demo": ["--for", "--no-tui", "--replay"],
    }
    for word in expected["".join(command)]:
        assert word in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "--no-tui", "--for", "20s", "--rate", "5k"],
        ["simulate", "--feed", "127.0.0.1:0", "--rate", "5k", "--for", "20s"],
        ["simulate", "mx", "--listen", "127.0.0.1:0", "--for", "20s"],
        ["curve-keys"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_ends_the_program_quietly(arguments, tmp_path):
    process = subprocess.Popen(
        [BINARY, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment(), cwd=tmp_path,
    )
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read().decode()
    assert process.wait(60) == 0, said
    assert "panicked" not in said and "Broken pipe" not in said, said


def test_a_log_that_nobody_reads_ends_nothing(tmp_path):
    port = free_ports(1)[0]
    addresses = ["--resp", f"127.0.0.1:{port}", "--feed", "127.0.0.1:0"]
    for name in ("pub", "pull", "router"):
        addresses += [f"--zmq-{name}", "tcp://127.0.0.1:0"]
    process = subprocess.Popen(
        [BINARY, "serve", "--log", "debug", *addresses], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(), cwd=tmp_path,
    )
    process.stderr.close()
    try:
        client = redis.Redis(port=port)

        def answers():
            try:
                return client.ping()
            except redis.ConnectionError:
                assert process.poll() is None, "it has ended"
                return None

        eventually(answers, "an answer")
        for _ in range(20):
            client.config_set("maxmemory", "100mb")
            client.connection_pool.disconnect()
        assert client.ping() and process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        (["serv"], "'serve'"),
        (["serve", "--rsep", "127.0.0.1:1"], "'--resp'"),
        (["simulate", "--market", "bul"], "'bull'"),
        (["serve", "--lanes", "many"], "a whole number from 1 to 64"),
        (["simulate", "--seed", "x"], "a whole number"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_answered_with_what_would_be_right(start, arguments, wanted):
    fails(start, 2, wanted, arguments=arguments)


def test_version(start):
    program = start("--version")
    assert program.wait() == 0 and re.match(r"tidewire \d+\.\d+\.\d+", program.stdout)


def test_simulate_says_what_it_does_and_records(start_simulator, tmp_path):
    path = tmp_path / "stream"
    simulator = start_simulator(
        "--rate", "5k", "--symbols", "7", "--messages", "5000", "--record", path
    )
    assert simulator.wait() == 0
    assert "5,000 messages/s of 7 symbols, seed 1" in simulator.stdout
    published = simulator.published()
    assert published == 5_000
    assert number(r"recorded: ([\d,]+) messages, 0 lost", simulator.stdout) >= published
    assert path.read_bytes()[:3] == b"TW\x01"


def recorded(start_simulator, folder, *options):
    """What an exchange with these options says, as its recording has it."""
    path = folder / f"stream{len(list(folder.iterdir()))}"
    # So many messages, however long the machine takes for them.
    words = ["--rate", "2k", "--messages", "1000", "--record", path, *options]
    simulator = start_simulator(*words)
    assert simulator.wait() == 0
    return [m for packet in packets_of(path.read_bytes()) for m in messages_of(packet)]


def prices_of(messages):
    return [
        (m.symbol, m.bid, m.ask) if isinstance(m, Quote) else (m.symbol, m.price, m.size)
        for m in messages
        if isinstance(m, (Quote, Trade))
    ][:400]


def test_the_same_seed_gives_the_same_prices(start_simulator, tmp_path):
    first, again, other = (
        prices_of(recorded(start_simulator, tmp_path, "--seed", seed)) for seed in (5, 5, 6)
    )
    assert len(first) == 400 and first == again and first != other


def test_markets_tend_where_they_are_told_to(start_simulator, tmp_path):
    def mean_change(market):
        messages = recorded(start_simulator, tmp_path, "--market", market, "--symbols", "5")
        opens = {m.symbol: m.open for m in messages if isinstance(m, Definition)}
        trades = [m for m in messages if isinstance(m, Trade)][:200]
        assert len(trades) == 200
        return sum(m.price / opens[m.symbol] - 1 for m in trades) / len(trades)

    assert mean_change("bull") > mean_change("neutral") > mean_change("bear")


def test_the_exchange_is_paced_evenly(start_simulator, tmp_path):
    messages = recorded(start_simulator, tmp_path)
    times_ns = [m.time_ns for m in messages if isinstance(m, (Quote, Trade))]
    assert times_ns == sorted(times_ns)
    quotes = sum(isinstance(m, Quote) for m in messages)
    assert 0.6 < quotes / len(times_ns) < 0.8, "seven of ten are quotes"
    windows = {(time_ns - times_ns[0]) // 10_000_000 for time_ns in times_ns}
    assert len(windows) > 25, "no burst a second: of fifty parts of the time most have some"


def test_a_spread_stands_between_bid_and_ask(start_simulator, tmp_path):
    for m in recorded(start_simulator, tmp_path):
        if isinstance(m, Quote):
            assert 0.0004 < (m.ask - m.bid) / m.bid < 0.0025


@pytest.mark.parametrize("symbols", [1, 250])
def test_as_many_symbols_as_asked_for(start_simulator, start_hub, symbols):
    simulator = start_simulator("--rate", "5k", "--symbols", symbols)
    hub = start_hub("--source", simulator.source)
    eventually(lambda: len(hub.redis().keys("md:*")) == symbols, "all symbols")
    assert hub.redis().exists("md:RELIANCE") == 1


def test_sources_can_stand_in_the_environment_and_in_the_file(start_simulator, start_hub, tmp_path):
    sources = []
    for name in ("AAA", "BBB"):
        path = tmp_path / f"{name}.csv"
        path.write_text(f"name,price,volatility\n{name},10.00,0.2\n")
        sources.append(start_simulator("--rate", "500", "--symbols", path).source)
    path = tmp_path / "hub.toml"
    path.write_text(f"source = ['{sources[0]}', '{sources[1]}']\n")
    wait_for_values(start_hub("--config", path), 2)
    wait_for_values(start_hub(env={"TIDEWIRE_SOURCE": ",".join(sources)}), 2)
