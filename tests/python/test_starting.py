"""How a hub starts: what it says, whom it tells, what it raises and lowers, and what it refuses."""

import json
import os
import re
import resource
import signal
import socket
import time

import pytest
import redis

from support import PATIENCE_S, RespSocket, eventually, free_ports

OTHERS = [
    "--zmq-pub", "tcp://127.0.0.1:0", "--zmq-pull", "tcp://127.0.0.1:0",
    "--zmq-router", "tcp://127.0.0.1:0", "--feed", "127.0.0.1:0",
]


def block_of(hub):
    eventually(lambda: "started " in hub.stderr, "the start in the log")
    return hub.stderr


def test_the_start_says_what_runs_and_where(start_hub, tmp_path):
    (admin,) = free_ports(1)
    options = ["--dir", tmp_path / "keys", "--admin", f"127.0.0.1:{admin}", "--lanes", "2"]
    (tmp_path / "keys").mkdir()
    hub = start_hub(*options)
    text = block_of(hub)
    assert re.search(r"Tidewire \d+\.\d+\.\d+ \(commit [0-9a-z]+\) is serving, PID ", text)
    assert f"PID {hub.pid}\n" in text
    places = [hub.resp_port, hub.pub_port, hub.pull_port, hub.router_port, hub.feed_port, admin]
    assert all(f"127.0.0.1:{port}\n" in text for port in places)
    assert re.search(r"lanes +2\n", text) and "io_uring " in text and "epoll_pwait2 " in text
    assert re.search(r"loaded +nothing\n", text)
    hub.redis().mset({"a": 1, "b": 2})
    hub.stop()
    again = block_of(start_hub(*options))
    assert re.search(r"loaded +.*dump\.rdb, \d+ bytes, 2 keys \(0 more", again)


def test_the_start_is_one_object_in_json(start_hub):
    hub = start_hub("--log-format", "json")
    hub.redis().set("a", 1)
    hub.stop()
    lines = [json.loads(line) for line in hub.stderr.splitlines()]
    (start,) = [line for line in lines if line["message"] == "serving"]
    assert start["pid"] == hub.pid and start["level"] == "info" and start["lanes"] >= 1
    assert f"resp 127.0.0.1:{hub.resp_port}" in start["listening"]


def test_the_console_hears_of_the_start_when_the_log_is_a_file(start_hub, tmp_path):
    log = tmp_path / "hub.log"
    hub = start_hub("--set", f"logfile={log}", "--set", "loglevel=warning")
    assert "is serving" in block_of(hub) and "is serving" not in log.read_text()


def test_what_is_logged_changes_while_it_runs(start_hub):
    hub = start_hub()
    client = hub.redis(single_connection_client=True)

    def tells(word):
        with socket.create_connection(("127.0.0.1", hub.resp_port), 5) as one:
            assert RespSocket(one).call("PING") == b"PONG"
            address = "{}:{}".format(*one.getsockname())
        client.ping()
        return [line for line in hub.stderr.splitlines() if address in line and word in line]

    assert client.config_get("loglevel") == {"loglevel": "notice"} and not tells("")
    client.config_set("loglevel", "debug")
    eventually(lambda: tells("disconnected"), "the end of a connection, with its reason")
    assert "the peer closed the connection" in hub.stderr and "PeerClosed" not in hub.stderr
    client.config_set("loglevel", "notice")
    assert not tells("")
    with pytest.raises(redis.ResponseError, match="debug, verbose, notice, warning, nothing"):
        client.config_set("loglevel", "loud")


def test_a_failed_login_is_logged_without_its_password(start_hub):
    hub = start_hub()
    hub.redis().config_set("requirepass", "the-right-one")
    client = RespSocket(hub.resp())
    for words in (["AUTH", "the-wrong-one"], ["AUTH", "ann", "the-wrong-one"]):
        with pytest.raises(Exception, match="WRONGPASS"):
            client.call(*words)
    address = "{}:{}".format(*client.socket.getsockname())
    eventually(lambda: hub.stderr.count("authentication failed") == 2, "two lines")
    assert address in hub.stderr and 'user=ann' in hub.stderr and "the-wrong" not in hub.stderr


def test_systemd_is_told_when_the_keys_are_loaded_and_when_it_ends(start, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.settimeout(PATIENCE_S)
        path = tmp_path / "notify"
        one.bind(str(path))
        (port,) = free_ports(1)
        hub = start("serve", "--resp", f"127.0.0.1:{port}", *OTHERS, "--supervised", "systemd",
                    env={"NOTIFY_SOCKET": str(path)})
        assert one.recv(1000) == b"READY=1\nSTATUS=Ready to accept connections\n"
        assert redis.Redis(port=port).ping()
        hub.process.send_signal(signal.SIGHUP)
        assert one.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert one.recv(1000) == b"READY=1\n"
        hub.process.send_signal(signal.SIGTERM)
        assert one.recv(1000).startswith(b"STOPPING=1\n")
        assert hub.wait() == 0


def test_systemd_is_not_told_while_keys_are_loaded(start, start_hub, tmp_path):
    first = start_hub("--dir", tmp_path)
    pipeline = first.redis().pipeline()
    for number in range(2_000):
        pipeline.set(f"key:{number}", number)
    pipeline.execute()
    first.stop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind("\0tidewire-test-" + str(os.getpid()))
        one.settimeout(PATIENCE_S)
        (port, admin) = free_ports(2)
        hub = start("serve", "--resp", f"127.0.0.1:{port}", *OTHERS, "--dir", tmp_path,
                    "--admin", f"127.0.0.1:{admin}", "--set", "key-load-delay=5000",
                    "--set", "supervised=auto",
                    env={"NOTIFY_SOCKET": "@tidewire-test-" + str(os.getpid())})
        client = redis.Redis(port=port)

        def is_loading():
            try:
                return client.info("persistence")["loading"] == 1
            except redis.ConnectionError:
                return False

        eventually(is_loading, "it loads")
        assert http(admin, "GET /ready HTTP/1.1")[0] == 503
        assert http(admin, "GET /health HTTP/1.1")[0] == 200
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.recv(1000)
        one.settimeout(PATIENCE_S)
        client.config_set("key-load-delay", 0)
        assert one.recv(1000).startswith(b"READY=1\n")
        eventually(lambda: http(admin, "GET /ready HTTP/1.1")[0] == 200, "ready")
        hub.kill()


def test_a_pid_file_stands_there_as_long_as_the_hub(start_hub, tmp_path):
    path = tmp_path / "hub.pid"
    hub = start_hub("--set", f"pidfile={path}")
    eventually(path.exists, "the file")
    assert int(path.read_text()) == hub.pid
    hub.stop()
    assert not path.exists()


def test_a_daemon_leaves_its_parent_and_its_terminal(start, tmp_path):
    (port,) = free_ports(1)
    pid_file, log = tmp_path / "hub.pid", tmp_path / "hub.log"
    conf = tmp_path / "redis.conf"
    conf.write_text(f"daemonize yes\npidfile {pid_file}\nlogfile {log}\nport {port}\n"
                    f"bind 127.0.0.1\nsave \"\"\n")
    parent = start("serve", *OTHERS, "--redis-conf", conf)
    assert parent.wait() == 0 and (parent.stdout, parent.stderr) == ("", "")
    eventually(lambda: pid_file.exists() and pid_file.read_text(), "its number")
    pid = int(pid_file.read_text())
    try:
        client = redis.Redis(port=port)
        assert client.ping() and client.info("server")["process_id"] == pid
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, signal.SIGTERM)
    eventually(lambda: not pid_file.exists(), "its end")
    assert "bye bye" in log.read_text()


@pytest.mark.parametrize("setting", ["supervised=upstart", "supervised=sytemd", "loglevel=loud"])
def test_what_is_not_there_is_refused_by_name(start, setting):
    program = start("serve", "--set", setting)
    assert program.wait() == 2
    name, value = setting.split("=")
    assert name in program.stderr and value in program.stderr


def limited(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def refused(port):
    """What a client is told at once, and whether the connection ends behind it."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as one:
        one.settimeout(PATIENCE_S)
        told = b""
        while part := one.recv(1000):
            told += part
        return told


def test_the_soft_limit_on_open_files_is_raised(start_hub):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip("the hard limit is too low to raise anything to")
    hub = start_hub("--set", "maxclients=300", preexec=limited(256, 4096))
    assert hub.redis().config_get("maxclients") == {"maxclients": "300"}
    clients = [hub.resp() for _ in range(290)]
    clients[-1].sendall(b"PING\r\n")
    assert clients[-1].recv(100) == b"+PONG\r\n"
    assert "maxclients has been reduced" not in hub.stderr


def test_a_low_limit_on_open_files_lowers_maxclients_and_nobody_waits_in_silence(start_hub):
    hub = start_hub(preexec=limited(200, 200))
    client = hub.redis(single_connection_client=True)
    most = int(client.config_get("maxclients")["maxclients"])
    assert most < 200 and f"maxclients has been reduced to {most}" in hub.stderr
    with pytest.raises(redis.ResponseError, match=f"number of clients, try with {most}"):
        client.config_set("maxclients", 10_000)
    rejected = client.info("stats")["rejected_connections"]
    clients = [hub.resp() for _ in range(most - 1)]
    clients[-1].sendall(b"PING\r\n")
    assert clients[-1].recv(100) == b"+PONG\r\n"
    for count in range(1, 30):
        assert refused(hub.resp_port) == b"-ERR max number of clients reached\r\n"
        # Each of them is counted once.
        assert client.info("stats")["rejected_connections"] == rejected + count
    # Until there is no descriptor left for any port.
    peers = []
    while len(peers) < 200:
        peer = hub.connect(hub.pull_port)
        peers.append(peer)
        peer.sendall(b"\xff")
        if b"max number of clients reached" in peer.recv(200):
            break
    assert len(peers) < 200
    for port in (hub.pub_port, hub.router_port, hub.feed_port):
        assert b"max number of clients reached" in refused(port)
    assert refused(hub.resp_port) == b"-ERR max number of clients reached\r\n"
    assert client.ping()
    for one in clients[:20] + peers[:20]:
        one.close()
    eventually(lambda: hub.redis().ping(), "room again")


def test_nobody_waits_in_silence_when_the_kernel_has_no_descriptor(start_hub):
    hub = start_hub()
    client = hub.redis(single_connection_client=True)
    assert client.ping()
    before = resource.prlimit(hub.pid, resource.RLIMIT_NOFILE)
    # accept() itself fails from now on.
    others, count = without_holes(hub)
    resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, (count, before[1]))
    for port in (hub.resp_port, hub.pull_port, hub.feed_port, hub.resp_port):
        assert b"max number of clients reached" in refused(port)
    assert client.ping()
    resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, before)
    assert hub.redis().ping()
    for one in others:
        one.close()


def test_a_limit_that_is_too_low_for_a_single_client_ends_the_start(start):
    program = start("serve", "--resp", "127.0.0.1:0", *OTHERS, preexec=limited(48, 48))
    assert program.wait() == 2 and "'ulimit -n' of 48" in program.stderr


def http(port, line, rest=b"Host: x\r\n\r\n"):
    """Status, headers and body of an answer."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as one:
        one.settimeout(PATIENCE_S)
        one.sendall(line.encode() + b"\r\n" + rest)
        text = b""
        while part := one.recv(1 << 16):
            text += part
    head, _, body = text.decode().partition("\r\n\r\n")
    status, *headers = head.split("\r\n")
    return int(status.split()[1]), dict(one.split(": ") for one in headers), body


def test_health_and_readiness_are_told_apart(start_hub, start_simulator):
    (admin, source) = free_ports(2)
    hub = start_hub("--admin", f"127.0.0.1:{admin}", "--source", f"127.0.0.1:{source}")
    assert http(admin, "GET /health HTTP/1.1") [::2] == (200, "ok\n")
    status, _, body = http(admin, "GET /ready HTTP/1.1")
    assert status == 503 and body == f"source 127.0.0.1:{source}: not connected\n"
    simulator = start_simulator(port=source)
    eventually(lambda: http(admin, "GET /ready HTTP/1.1")[0] == 200, "the source is there")
    simulator.stop()
    eventually(lambda: http(admin, "GET /ready HTTP/1.1")[0] == 503, "it is gone")
    (master,) = free_ports(1)
    hub.redis().execute_command("REPLICAOF", "127.0.0.1", master)
    assert f"master 127.0.0.1:{master}: connect\n" in http(admin, "GET /ready HTTP/1.1")[2]


def test_what_cannot_be_reached_is_told(start_hub):
    source, plant = free_ports(2)
    hub = start_hub("--source", f"127.0.0.1:{source}", "--mx", f"127.0.0.1:{plant}")
    for place in (f"source=127.0.0.1:{source}", f"peer=127.0.0.1:{plant}"):
        line = re.compile(f"cannot connect; .*{place} .*refused attempts=1 ")
        eventually(lambda: line.search(hub.stderr), place)
    (master,) = free_ports(1)
    hub.redis().execute_command("REPLICAOF", "127.0.0.1", master)
    eventually(lambda: re.search("the master is lost .*times=1 ", hub.stderr), "the master")


def test_health_is_told_when_there_is_no_descriptor_left(start_hub):
    port = free_ports(1)[0]
    hub = start_hub("--admin", f"127.0.0.1:{port}", "--lanes", "2", preexec=limited(100, 100))
    before = resource.prlimit(hub.pid, resource.RLIMIT_NOFILE)
    clients, count = without_holes(hub)
    # What is needed from now on is what the hub has kept.
    resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, (count, before[1]))
    for _ in range(5):
        assert http(port, "GET /health HTTP/1.1")[0] == 200
    resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, before)
    for one in clients:
        one.close()


def without_holes(hub):
    """Clients that take what numbers are free below the highest, and how many are in use then.

    The limit is on the numbers: what the hub keeps above a hole is of no use below the limit.
    """
    clients = []
    while True:
        used = eventually(lambda: settled(hub.pid), "no descriptor comes or goes")
        if len(used) > max(used):
            return clients, len(used)
        clients.append(hub.resp())


def settled(pid):
    """The descriptors of a process, if they are the same for a while."""
    def numbers():
        return {int(number) for number in os.listdir(f"/proc/{pid}/fd")}

    first = numbers()
    for _ in range(10):
        time.sleep(0.02)
        if numbers() != first:
            return None
    return first


def test_watchers_ask_as_http_has_it(start_hub):
    (admin,) = free_ports(1)
    start_hub("--admin", f"127.0.0.1:{admin}")
    silent = [socket.create_connection(("127.0.0.1", admin)) for _ in range(100)]
    status, headers, body = http(admin, "HEAD /health HTTP/1.1")
    assert (status, headers["Content-Length"], body) == (200, "3", "")
    status, headers, _ = http(admin, "POST /health HTTP/1.1")
    assert status == 405 and headers["Allow"] == "GET, HEAD"
    assert http(admin, "GET /nothing HTTP/1.1")[0] == 404
    assert http(admin, "GET /" + "a" * 5_000 + " HTTP/1.1")[0] == 414
    assert http(admin, "GET / HTTP/1.1", b"a: b\r\n" * 5_000)[0] == 431
    assert http(admin, "SET a b")[0] == 400
    assert "tidewire_uptime_seconds" in http(admin, "GET /metrics HTTP/1.1")[2]
    for one in silent:
        one.close()


ATTACKS = {
    "post": b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET stolen 1\r\n",
    "host": b"PUT / HTTP/1.1\r\nAccept: *\r\nhost: x\r\n\r\nSET stolen 1\r\n",
    "multibulk": b"*1\r\n$4\r\nPost\r\n*3\r\n$3\r\nSET\r\n$6\r\nstolen\r\n$1\r\n1\r\n",
    "transaction": b"MULTI\r\nSET stolen 1\r\nHOST: x\r\nEXEC\r\n",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_browser_cannot_be_made_to_send_commands(hub, attack):
    for cut in (len(attack), 7):
        with hub.resp() as one:
            one.sendall(attack[:cut])
            if cut < len(attack):
                time.sleep(0.01)
                try:
                    one.sendall(attack[cut:])
                except OSError:
                    pass
            try:
                while one.recv(1000):
                    pass
            except ConnectionResetError:
                pass
    assert hub.redis().get("stolen") is None
    assert hub.stderr.count("Possible SECURITY ATTACK detected") == 1
    # As data the words are what they were.
    assert hub.redis().set("post", "Host:") and hub.redis().echo("POST") == b"POST"


def test_no_other_port_takes_commands_out_of_http(start_hub):
    databento, admin = free_ports(2)
    hub = start_hub("--databento", f"127.0.0.1:{databento}", "--databento-key", "db-key",
                    "--admin", f"127.0.0.1:{admin}")
    body = b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET stolen 1\r\nauth=x|dataset=a\r\n"
    for port in (hub.feed_port, hub.pub_port, hub.pull_port, hub.router_port, databento, admin):
        with hub.connect(port) as one:
            one.sendall(body)
            try:
                while one.recv(1000):
                    pass
            except ConnectionResetError:
                pass
    assert hub.redis().get("stolen") is None and hub.redis().ping()


def test_a_folder_named_by_a_directive_of_the_command_line_keeps_the_keys(start_hub, tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir()
    hub = start_hub("--", "--dir", folder)
    assert hub.redis().config_get("save")["save"], "it saves as often as Redis does"
    hub.redis().set("key", "value")
    assert hub.redis().save()
    assert (folder / "dump.rdb").exists()
    hub.redis().set("late", "value")
    hub.stop()
    again = start_hub("--", "--dir", folder).redis()
    assert again.mget("key", "late") == [b"value", b"value"]


def test_a_databento_key_that_can_be_guessed_is_warned_of(start_hub):
    (port,) = free_ports(1)
    options = ["--databento", f"127.0.0.1:{port}", "--databento-key"]
    hub = start_hub(*options, "abc")
    hub.stop()
    assert "--databento-key has 3 characters" in hub.stderr and "abc" not in hub.stderr
    hub = start_hub(*options, "db-0123456789abcdefghijklmnopqrs")
    hub.stop()
    assert "--databento-key has" not in hub.stderr


@pytest.mark.parametrize("messages", [0, 63, 67_108_865])
def test_a_journal_that_cannot_be_kept_is_one_line_and_no_panic(start, tmp_path, messages):
    file = tmp_path / "hub.toml"
    file.write_text(f"[limits]\njournal-messages = {messages}\n")
    program = start("serve", *OTHERS, "--resp", "127.0.0.1:0", "--config", file)
    assert program.wait() == 2
    assert f"limits.journal-messages = {messages}" in program.stderr
    assert "64 to 67108864" in program.stderr and len(program.stderr.splitlines()) == 1


@pytest.mark.parametrize("limit", [
    "clients-max", "market-topics-max", "conflate-bytes", "zmq-high-water-bytes",
    "zmq-frame-bytes-max", "topic-bytes-max", "pubsub-hard-bytes", "pubsub-soft-bytes",
    "pubsub-soft-seconds", "mailbox-bytes-max",
])
@pytest.mark.parametrize("value", [0, 1, 3, 2**63 - 1])
def test_no_limit_of_the_file_makes_the_hub_panic(start, tmp_path, limit, value):
    """It starts, or refuses with one line."""
    file = tmp_path / "hub.toml"
    file.write_text(f"[limits]\n{limit} = {value}\n")
    program = start("serve", *OTHERS, "--resp", "127.0.0.1:0", "--config", file)
    eventually(lambda: program.process.poll() is not None or "is serving" in program.stderr
               or "is serving" in program.stdout, "a start or a refusal")
    if program.process.poll() is None:
        program.stop()
    else:
        assert program.wait() == 2 and len(program.stderr.splitlines()) == 1, program.stderr
    assert "panicked" not in program.stderr
