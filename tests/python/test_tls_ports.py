"""TLS on the ports of the feed, ZeroMQ, Databento and metrics: the certificate, versions, mistakes
of clients, and clients that stop in the middle."""

import collections
import http.client
import resource
import select
import signal
import socket
import ssl
import struct
import time

import pytest
import zmq

from certificates import Authority, has_openssl
from feed_client import (
    CONTROL, HEADER, HEARTBEAT, LIVE, SNAPSHOT, FeedClient, definition, encode, login, subscribe,
    trade,
)
from handshakes import GREETING
from support import PATIENCE_S, RespSocket, eventually, free_ports, is_closed, wait_for_values
from tls_client import Sender, connect, context, logs, old_versions_are_refused
from zws_peer import ZwsPeer, message, request


pytestmark = pytest.mark.skipif(not has_openssl(), reason="the command openssl makes certificates")

# pyzmq has no names for these options.
ZMQ_WSS_TRUST_PEM, ZMQ_WSS_HOSTNAME = 105, 106
KEY = "db-0123456789012345678901234567"


def feed_serves(one):
    client = FeedClient(one)
    client.join("*")
    client.until(lambda: client.accepted)
    return client.accepted.session > 0


def databento_serves(one):
    text = b""
    while text.count(b"\n") < 2:
        text += one.recv(100)
    return text.startswith(b"lsg_version=tidewire") and b"cram=" in text


def admin_serves(one):
    one.sendall(b"GET /health HTTP/1.1\r\n\r\n")
    reply = b""
    while part := one.recv(1000):
        reply += part
    return reply.startswith(b"HTTP/1.1 200 ") and reply.endswith(b"\r\n\r\nok\n")


# Whether a connection with TLS serves, and what a client without it says first.
PORTS = {
    "feed": (feed_serves, encode(CONTROL, 0, [login(1)]) + encode(CONTROL, 0, [subscribe("*")])),
    "zmq-pub": (lambda one: ZwsPeer(one, b"SUB").is_ready, GREETING),
    "zmq-pull": (lambda one: ZwsPeer(one, b"PUSH").is_ready, request()),
    "zmq-router": (lambda one: ZwsPeer(one, b"REQ").is_ready, b"\xff"),
    "databento": (databento_serves, b"auth=0-x|dataset=GLBX.MDP3|encoding=dbn|ts_out=0\n"),
    "admin": (admin_serves, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
}
each_port = pytest.mark.parametrize("name", PORTS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server", "hub")
    made.issue("trader", "trader")
    return made


def start_tls(start_hub, authority, *options, certificate="server"):
    """A hub with TLS on each of these ports beside the one without it."""
    numbers = free_ports(len(PORTS) + 2)
    ports = dict(zip(PORTS, numbers))
    words = [f"--{name}-tls=127.0.0.1:{port}" for name, port in ports.items()]
    plain = {"databento": numbers[-1], "admin": numbers[-2]}
    words += [f"--{name}=127.0.0.1:{port}" for name, port in plain.items()]
    hub = start_hub(
        *words, "--databento-key", KEY, "--tls-cert", authority.folder / f"{certificate}.crt",
        "--tls-key", authority.folder / f"{certificate}.key", *options,
    )
    hub.with_tls = ports
    hub.without = plain | {
        "feed": hub.feed_port, "zmq-pub": hub.pub_port, "zmq-pull": hub.pull_port,
        "zmq-router": hub.router_port,
    }
    return hub


@pytest.fixture
def tls_hub(start_hub, authority):
    return start_tls(start_hub, authority, "--lanes", "2")


def serves(hub, name, made):
    """Whether a new connection to the port with TLS is served."""
    with connect(hub.with_tls[name], made) as one:
        return PORTS[name][0](one)


def refuses(hub, name, made):
    """A server of TLS 1.3 refuses a client after the client's handshake."""
    try:
        return not serves(hub, name, made)
    except (ssl.SSLError, ConnectionError, EOFError, AssertionError):
        return True


@each_port
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_port_is_served_over_both_versions(tls_hub, authority, name, version):
    made = context(authority, maximum_version=ssl.TLSVersion[version])
    with connect(tls_hub.with_tls[name], made) as one:
        assert one.version() == version.replace("_", ".")
        assert PORTS[name][0](one)


@each_port
def test_the_octets_of_a_handshake_may_come_one_at_a_time(tls_hub, authority, name):
    one = Sender(tls_hub.with_tls[name], context(authority))
    one.shake(1)
    if name == "databento":
        assert one.read(12).startswith(b"lsg_version=")
    else:
        one.tls.write(b"GET /health HTTP/1.1\r\n\r\n" if name == "admin" else PORTS[name][1])
        one.send(1)
        assert one.read(9)


@each_port
def test_old_versions_are_refused(tls_hub, name):
    old_versions_are_refused(tls_hub.with_tls[name])


@each_port
def test_clear_text_on_a_port_with_tls_is_told_in_the_log(tls_hub, authority, name):
    port = tls_hub.with_tls[name]
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as one:
        one.sendall(PORTS[name][1])
        assert is_closed(one)
    logs(tls_hub, "the peer speaks without TLS to a port with TLS")
    assert f"local=127.0.0.1:{port}" in tls_hub.stderr
    assert serves(tls_hub, name, context(authority))


@pytest.mark.parametrize("name", ["databento", "feed", "admin"])
def test_the_log_knows_where_a_peer_was_that_has_left(tls_hub, name):
    one = socket.create_connection(("127.0.0.1", tls_hub.without[name]), PATIENCE_S)
    address = "%s:%d" % one.getsockname()
    if name == "databento":
        assert one.recv(4) == b"lsg_"
    # The hub looks only once the peer is gone.
    tls_hub.process.send_signal(signal.SIGSTOP)
    one.sendall(b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03")
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()
    tls_hub.process.send_signal(signal.SIGCONT)
    logs(tls_hub, f"peer={address} local=127.0.0.1:{tls_hub.without[name]} ")


def test_handshakes_are_counted_at_every_port(tls_hub, authority):
    def counted():
        info = tls_hub.info("stats")
        return [int(info[f"tls_handshakes{end}"]) for end in ("", "_failed")]

    done, failed = counted()
    for at, name in enumerate(PORTS, 1):
        assert serves(tls_hub, name, context(authority))
        eventually(lambda: counted()[0] == done + at, f"a handshake of {name}")
    ports = [*tls_hub.with_tls.values(), *tls_hub.without.values()]
    for at, port in enumerate(ports, 1):
        one = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        has_tls = port in tls_hub.with_tls.values()
        one.sendall(b"GET / HTTP/1.1\r\n\r\n" if has_tls else b"\x16\x03\x01\x00\x05\x01")
        assert is_closed(one)
        eventually(lambda: counted()[1] == failed + at, f"a failure at {port}")
    assert counted()[0] == done + len(PORTS)


@each_port
def test_tls_on_a_port_without_it_is_told_in_the_log(tls_hub, authority, name):
    port = tls_hub.without[name]
    with pytest.raises(ssl.SSLError):
        connect(port, context(authority))
    logs(tls_hub, "the peer speaks TLS to a port without TLS")
    assert f"local=127.0.0.1:{port}" in tls_hub.stderr


def test_a_client_that_waits_for_a_greeting_without_tls_is_told_in_the_log(tls_hub):
    silent = [tls_hub.connect(tls_hub.with_tls[name]) for name in ("databento", "admin")]
    logs(tls_hub, "the peer has sent nothing; a client without TLS may wait for a greeting")
    assert all(is_closed(one) for one in silent)


@each_port
def test_handshakes_that_stop_hold_no_one(start_hub, authority, name):
    hub = start_tls(start_hub, authority, "--lanes", "1")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))
    made = context(authority)
    started = Sender(hub.with_tls[name], made)
    with pytest.raises(ssl.SSLWantReadError):
        started.tls.do_handshake()
    hello = started.outgoing.read()
    many = []
    try:
        for number in range(1_500):
            one = socket.create_connection(("127.0.0.1", hub.with_tls[name]), PATIENCE_S)
            many.append(one)
            one.sendall(hello[: [0, 1, 100, len(hello)][number % 4]])
            if number % 250 == 0:
                assert all(serves(hub, other, made) for other in PORTS)
        assert all(serves(hub, other, made) for other in PORTS)
        logs(hub, "too many handshakes are unfinished")
    finally:
        for one in many:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_certificate_changes_on_all_ports_at_once(tls_hub, authority):
    made = context(authority)
    open_before = {name: connect(port, made) for name, port in tls_hub.with_tls.items()}

    def shown():
        names = set()
        for port in tls_hub.with_tls.values():
            with connect(port, made) as one:
                names.add(one.getpeercert()["subject"][0][0][1])
        return names

    assert shown() == {"hub"}
    certificate, key = authority.issue("second", "second")
    client = tls_hub.redis()
    client.config_set("tls-cert-file", str(certificate), "tls-key-file", str(key))
    assert shown() == {"second"}
    client.config_set("tls-protocols", "TLSv1.2")
    for name in PORTS:
        assert serves(tls_hub, name, made)
        assert refuses(tls_hub, name, context(authority, minimum_version=ssl.TLSVersion.TLSv1_3))
    for name, one in open_before.items():
        assert PORTS[name][0](one), "a connection keeps what it began with"
        one.close()


def test_clients_of_all_ports_must_show_a_certificate(start_hub, authority):
    hub = start_tls(start_hub, authority, "--tls-ca", authority.certificate)
    for name in PORTS:
        assert serves(hub, name, context(authority, "trader"))
        assert refuses(hub, name, context(authority))
    logs(hub, "the peer shows no certificate")
    hub.redis().config_set("tls-auth-clients", "optional")
    for name in PORTS:
        assert serves(hub, name, context(authority))


def test_a_certificate_names_the_user_of_a_zeromq_peer(start_hub, authority):
    hub = start_tls(start_hub, authority, "--tls-ca", authority.certificate)
    client = hub.redis()
    client.config_set("tls-auth-clients", "optional", "tls-auth-clients-user", "CN")
    client.execute_command("ACL", "SETUSER", "trader", "on", "+get", "~desk:*")
    client.set("desk:a", "1")
    client.set("other:a", "1")
    client.execute_command("ACL", "SETUSER", "default", ">secret")

    def asks(certificate, **options):
        one = connect(hub.with_tls["zmq-router"], context(authority, certificate))
        return ZwsPeer(one, b"REQ", **options)

    # With NULL, and without a mechanism as browsers ask.
    for options in ({}, {"protocol": "ZWS2.0"}):
        one = asks("trader", **options)
        for key, answer in ((b"desk:a", [b"OK", b"1"]), (b"other:a", [b"ERR"])):
            one.send(message(b"", b"GET", key))
            assert one.receive()[1:3][: len(answer)] == answer
    assert asks(None).heard == b"\x02\x05ERROR\x03400"
    client.execute_command("AUTH", "secret")
    client.execute_command("ACL", "DELUSER", "trader")
    assert one.is_ended()
    assert asks("trader").heard == b"\x02\x05ERROR\x03400"
    logs(hub, "TLS certificate")


def test_a_certificate_names_the_user_of_a_feed_client(start_hub, authority):
    hub = start_tls(start_hub, authority, "--tls-ca", authority.certificate)
    client = hub.redis()
    client.config_set("tls-auth-clients", "optional", "tls-auth-clients-user", "CN")
    rules = "on", "+get", "+set", "%W~md:MINE", "%R~md:*"
    client.execute_command("ACL", "SETUSER", "trader", *rules)
    client.execute_command("ACL", "SETUSER", "default", "resetkeys", "%R~md:*")

    def publish(certificate, session, name):
        publisher = FeedClient(connect(hub.with_tls["feed"], context(authority, certificate)))
        publisher.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1))
        publisher.send(LIVE, 1, definition(1, name), trade(1, 10**9, 1, 5), session=session)
        return publisher

    open_ones = [publish("trader", 1, "OTHER"), publish(None, 2, "MINE")]
    open_ones.append(publish("trader", 3, "MINE"))
    eventually(lambda: client.hget("md:MINE", "last") == b"1", "the trade that may be published")
    assert int(client.hget("md:MINE", "volume")) == 1
    assert client.keys("md:OTHER") == []
    log = RespSocket(hub.resp()).call("ACL", "LOG")
    entries = [dict(zip(entry[::2], entry[1::2])) for entry in log]
    refused = [(entry[b"username"], entry[b"object"]) for entry in entries]
    assert (b"trader", b"md:OTHER") in refused
    for one in open_ones:
        one.socket.close()


def test_protected_mode_lets_a_certificate_in(start, authority):
    from test_protected_mode import address_of_this_machine
    host = address_of_this_machine()
    names = ["resp", "zmq-pub", "zmq-pull", "zmq-router", "feed"]
    plain = free_ports(len(names) + len(PORTS))
    words = [f"--{name}=127.0.0.1:{port}" for name, port in zip(names, plain)]
    with_tls = dict(zip(PORTS, plain[len(names):]))
    words += [f"--{name}-tls=0.0.0.0:{port}" for name, port in with_tls.items()]
    certificate, key = authority.issue("machine", "machine", names=f"IP:{host}")
    program = start(
        "serve", *words, "--databento-key", KEY, "--tls-cert", certificate, "--tls-key", key,
        "--tls-ca", authority.certificate,
    )
    eventually(lambda: "is serving" in program.stderr, "a hub")

    def serves_there(name, made):
        one = socket.create_connection((host, with_tls[name]), PATIENCE_S)
        with made.wrap_socket(one, server_hostname=host) as secure:
            return PORTS[name][0](secure)

    for name in PORTS:
        assert serves_there(name, context(authority, "trader"))
    assert "without credentials" not in program.stderr
    resp = socket.create_connection(("127.0.0.1", plain[0]), PATIENCE_S)
    resp.sendall(b"CONFIG SET tls-auth-clients optional\r\n")
    assert resp.recv(100) == b"+OK\r\n"
    for name in set(PORTS) - {"databento"}:
        with pytest.raises((AssertionError, ConnectionError, ssl.SSLError)):
            assert serves_there(name, context(authority))
        assert "refuses a connection from another machine: " in program.stderr
        assert f'port="{name}"' in program.stderr


class Reader:
    """A subscriber that keeps what it gets, and never waits."""

    def __init__(self, one):
        client = subscriber(one)
        self.socket, self.data = client.socket, bytearray(client.data)
        self.socket.setblocking(False)

    def read(self):
        try:
            while part := self.socket.recv(1 << 16):
                self.data += part
        except (BlockingIOError, ssl.SSLWantReadError):
            pass

    def messages(self):
        """The messages of the stream, by their sequences, which have no gap."""
        found, at, expected = {}, 0, None
        while at + HEADER.size <= len(self.data):
            _, _, flags, count, length, _, _, first = HEADER.unpack_from(self.data, at)
            at += HEADER.size + length
            if flags & (HEARTBEAT | CONTROL | SNAPSHOT) or at > len(self.data):
                continue
            assert expected in (None, first), "a TCP stream has neither gap nor overlap"
            expected = first + count
            begin = at - length
            for sequence in range(first, expected):
                end = begin + (self.data[begin] >> 4) * 16
                found[sequence] = bytes(self.data[begin:end])
                begin = end
        return found


def send_all(publisher, stream, readers, is_done):
    """Sends a stream and keeps every connection alive until all is done."""
    publisher.socket.setblocking(False)
    waiting, alive_s, end_s = collections.deque(stream), 0, time.monotonic() + 60
    while waiting or not is_done():
        assert time.monotonic() < end_s, "the stream has not come"
        if time.monotonic() > alive_s + 0.5:
            alive_s = time.monotonic()
            for reader in readers:
                reader.socket.send(encode(HEARTBEAT, 0, []))
            if not waiting:
                waiting.append(encode(HEARTBEAT, 0, [], session=9))
        try:
            while waiting:
                sent = publisher.socket.send(waiting[0])
                # TLS takes all or nothing.
                assert sent == len(waiting[0])
                waiting.popleft()
        except (BlockingIOError, ssl.SSLWantWriteError):
            pass
        select.select([reader.socket for reader in readers], [], [], 0.01)
        for reader in readers:
            reader.read()


def subscriber(one):
    client = FeedClient(one)
    client.join("*")
    client.until(lambda: client.snapshots)
    return client


@pytest.mark.parametrize("certificate", ["server", "rsa"])
def test_many_megabytes_of_the_feed_are_the_same_over_tls(start_hub, authority, certificate):
    if certificate == "rsa":
        authority.issue("rsa", "hub", rsa_bits=2048)
    # 250,000 trades of 32 bytes are 8 MB, in packets of nearly the greatest length.
    a_packet, packets = 2_000, 125
    stream = []
    for first in range(2, 2 + a_packet * packets, a_packet):
        trades = [trade(1, 10**9 + first + at, 1, first + at) for at in range(a_packet)]
        stream.append(encode(LIVE, first, trades, session=9))
    hub = start_tls(start_hub, authority, "--lanes", "2", certificate=certificate)
    made = context(authority)
    publisher = FeedClient(connect(hub.with_tls["feed"], made))
    publisher.send(CONTROL, 0, login(0, next_sequence=1, session=9, role=1))
    publisher.until(lambda: publisher.accepted)
    publisher.send(LIVE, 1, definition(1, "TLS"), session=9)
    eventually(lambda: hub.hash("md:TLS"), "the topic")
    old = context(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    readers = [
        Reader(connect(hub.with_tls["feed"], made)), Reader(connect(hub.with_tls["feed"], old)),
        Reader(hub.connect(hub.feed_port)),
    ]
    last = stream[-1][-32 + 8 :][:8]

    def is_done():
        return all(last in reader.data[-100_000:] for reader in readers)

    send_all(publisher, stream, readers, is_done)
    first, *others = [reader.messages() for reader in readers]
    for other in others:
        common = first.keys() & other.keys()
        assert len(common) >= a_packet * packets
        assert all(first[sequence] == other[sequence] for sequence in common)
    eventually(lambda: hub.hash("md:TLS")["volume"] == str(a_packet * packets), "all trades")


def test_a_subscriber_over_tls_that_stops_reading_has_the_newest_values_in_the_end(
    start_hub, start_simulator, authority, tmp_path
):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\njournal-messages = 16384\nconflate-bytes = 65536\n")
    simulator = start_simulator("--rate", "40k", "--symbols", "10")
    hub = start_tls(start_hub, authority, "--source", simulator.source, "--config", path)
    wait_for_values(hub, 10)
    one = hub.connect(hub.with_tls["feed"], receive_buffer_bytes=4096)
    client = FeedClient(context(authority).wrap_socket(one, server_hostname="localhost"))
    client.join("*")
    client.until(lambda: client.snapshots)
    begin = hub.info("feed")["feed_next_sequence"]

    def far_behind():
        client.send(HEARTBEAT, 0)
        return hub.info("feed")["feed_next_sequence"] > begin + 150_000

    eventually(far_behind, "many windows of it", 60)
    simulator.stop()
    eventually(lambda: hub.hash("md:RELIANCE")["stale"] == "1", "the end of the source")
    end = hub.info("feed")["feed_next_sequence"]
    client.until(lambda: max(client.expected, client.resume) == end and client.snapshots >= 2)
    assert client.conflated >= 1
    for symbol, name in client.names.items():
        assert client.values[symbol]["seq"] >= int(hub.hash(f"md:{name}")["seq"]), name


def test_megabytes_go_by_websocket_with_tls_as_they_are(tls_hub, authority):
    made = context(authority)
    listens = ZwsPeer(connect(tls_hub.with_tls["zmq-pub"], made), b"SUB").subscribe(b"live:")
    push = ZwsPeer(connect(tls_hub.with_tls["zmq-pull"], made), b"PUSH")
    asks = ZwsPeer(connect(tls_hub.with_tls["zmq-router"], made), b"REQ")
    value = bytes(range(256)) * 20_000
    push.send(message(b"live:a", value))
    assert listens.receive() == [b"live:a", value]
    asks.send(message(b"", b"GET", b"live:a"))
    assert asks.receive() == [b"", b"OK", value]
    assert tls_hub.redis().get("live:a") == value


def test_zeromqs_own_protocol_goes_through_tls_too(tls_hub, authority):
    """As of a peer behind a proxy such as stunnel."""
    one = connect(tls_hub.with_tls["zmq-pub"], context(authority))
    one.sendall(GREETING)
    assert one.recv(1) == b"\xff"


@pytest.mark.skipif(not zmq.has("WSS"), reason="this libzmq has no wss://")
def test_libzmq_connects_with_tls(tls_hub, authority):
    made = zmq.Context()
    try:
        with made.socket(zmq.REQ) as one:
            one.linger, one.rcvtimeo = 0, int(PATIENCE_S * 1000)
            one.setsockopt_string(ZMQ_WSS_TRUST_PEM, authority.certificate.read_text())
            one.setsockopt_string(ZMQ_WSS_HOSTNAME, "localhost")
            one.connect(f"wss://127.0.0.1:{tls_hub.with_tls['zmq-router']}")
            one.send(b"GET nothing")
            assert one.recv_multipart() == [b"NIL"]
    finally:
        made.destroy(linger=0)


@pytest.mark.parametrize("certificate", ["server", "rsa"])
def test_metrics_come_whole_over_https(start_hub, authority, certificate):
    if certificate == "rsa":
        authority.issue("rsa", "hub", rsa_bits=4096)
    hub = start_tls(start_hub, authority, certificate=certificate)
    for path in ("/metrics", "/ready", "/health", "/nothing"):
        made = context(authority)
        one = http.client.HTTPSConnection("localhost", hub.with_tls["admin"], context=made)
        one.request("GET", path)
        reply = one.getresponse()
        body = reply.read()
        assert reply.status == (404 if path == "/nothing" else 200)
        assert len(body) == int(reply.headers["Content-Length"])
        one.close()
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    slow.connect(("127.0.0.1", hub.with_tls["admin"]))
    secure = context(authority).wrap_socket(slow, server_hostname="localhost")
    secure.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    text = b""
    while part := secure.recv(100):
        text += part
    assert text.startswith(b"HTTP/1.1 200 ") and text.endswith(b"\n") and len(text) > 10_000


def test_a_port_with_tls_needs_a_certificate_and_an_address_of_its_own(start, authority):
    (port,) = free_ports(1)
    for name in PORTS:
        key = ["--databento-key", KEY] if name == "databento" else []
        one = start("serve", f"--{name}-tls", f"127.0.0.1:{port}", *key)
        assert one.wait() == 2, one.stderr
        assert "--tls-cert and --tls-key" in one.stderr
    place = f"127.0.0.1:{port}"
    one = start("serve", "--feed", place, "--feed-tls", place)
    assert one.wait() == 2
    assert f"--feed and --feed-tls name the same address, {place}" in one.stderr
