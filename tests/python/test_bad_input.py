"""Bad input on every port: it costs the one that sends it, and nobody else."""

import random
import socket
import struct
import time

import pytest
import zmq

from feed_client import FeedClient
from handshakes import HELLO
from support import PATIENCE_S, RespSocket, command, eventually, is_closed, wait_for_values

PORTS = ["resp_port", "pub_port", "pull_port", "feed_port"]
MIB = 1 << 20

def assert_serves(hub):
    """Every port serves a well-behaved client."""
    client = RespSocket(hub.resp())
    assert client.call("PING") == b"PONG"
    push = hub.push()
    word = b"%d" % random.getrandbits(60)
    push.send_multipart([b"live:well", word])
    eventually(lambda: client.call("GET", "live:well") == word, "a pushed message")
    assert hub.sub("live:well").recv_multipart() == [b"live:well", word]
    feed = FeedClient(hub.connect(hub.feed_port))
    feed.join("*")
    feed.until(lambda: feed.accepted)
    feed.socket.close()


def send_all_or_until_closed(one, data):
    try:
        one.sendall(data)
    except (ConnectionError, TimeoutError):
        pass


@pytest.mark.parametrize("port", PORTS)
def test_garbage_of_any_kind(hub, port):
    generator = random.Random(port)
    before = hub.resident_bytes()
    for round_number in range(60):
        one = hub.connect(getattr(hub, port))
        head = HELLO[port] if round_number % 2 else b""
        send_all_or_until_closed(one, head + generator.randbytes(generator.randrange(1, 5000)))
        one.close()
    assert_serves(hub)
    assert hub.resident_bytes() - before < 64 * MIB


BROKEN = {
    "a text protocol": (PORTS[1:], b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10),
    "zeros": (PORTS[1:], bytes(1000)),
    "a negative count": (["resp_port"], b"*-5\r\n$4\r\nPING\r\n*1\r\n$-9\r\n"),
    "no length": (["resp_port"], b"*2\r\n$x\r\n"),
    "three billion arguments": (["resp_port"], b"*3000000000\r\n$3\r\nGET\r\n"),
    "a value of 2 GB": (["resp_port"], b"*2\r\n$3\r\nGET\r\n$2147483647\r\n"),
    "more than 64 bits": (["resp_port"], b"*2\r\n$3\r\nGET\r\n$99999999999999999999\r\n"),
    "an endless line": (["resp_port"], b"x" * (2 * MIB)),
    "an endless count": (["resp_port"], b"*" + b"1" * (2 * MIB)),
    "a bad body": (["feed_port"], b"TW\x01\x10\x01\x00\xff\xff" + bytes(70_000)),
}


@pytest.mark.parametrize(
    "what, port", [(what, port) for what, (ports, _) in BROKEN.items() for port in ports]
)
def test_a_broken_protocol_closes_that_connection(hub, what, port):
    one = hub.connect(getattr(hub, port))
    send_all_or_until_closed(one, BROKEN[what][1])
    assert is_closed(one)
    assert_serves(hub)


def test_a_redis_client_is_told_what_it_did_wrong(hub):
    for text in (b"*3000000000\r\n", b"*1\r\n$2147483647\r\n", b"*1\r\n@3\r\n"):
        one = hub.resp()
        one.sendall(text)
        assert one.recv(1000).startswith(b"-ERR Protocol error: "), text
        assert is_closed(one)


CLAIMS = {
    "resp_port": [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\n", b"*1000000000\r\n"],
    "pub_port": [b"\x02" + struct.pack(">Q", 1 << 31), b"\x06" + struct.pack(">Q", 1 << 31)],
    "pull_port": [
        b"\x02" + struct.pack(">Q", 1 << 31),
        b"\x03" + struct.pack(">Q", 2**63 - 1),
        b"\x02" + struct.pack(">Q", 60 * MIB),
    ],
    "feed_port": [struct.pack("<HBBHHIIQ", 0x5754, 1, 0, 65535, 65520, 1, 0, 1)],
}


@pytest.mark.parametrize("port", PORTS)
def test_a_claimed_length_takes_no_memory(hub, port):
    before = hub.resident_bytes()
    for claim in CLAIMS[port]:
        for _ in range(20):
            one = hub.connect(getattr(hub, port))
            send_all_or_until_closed(one, HELLO[port] + claim + b"some of it")
    assert_serves(hub)
    assert hub.resident_bytes() - before < 64 * MIB, "for 60 connections that claim gigabytes"


@pytest.mark.parametrize("port", ["pub_port", "pull_port"])
def test_a_frame_of_two_gigabytes_is_refused(hub, port):
    one = hub.connect(getattr(hub, port))
    one.sendall(HELLO[port] + b"\x02" + struct.pack(">Q", 1 << 31))
    assert is_closed(one)


def test_half_a_request_holds_nobody_up(hub):
    halves = []
    for port in PORTS:
        for data in [HELLO[port][:1], HELLO[port][:-1], b"*2\r\n$3\r\nGE"]:
            one = hub.connect(getattr(hub, port))
            send_all_or_until_closed(one, data)
            halves.append(one)
    assert_serves(hub)


def test_a_request_that_comes_byte_by_byte_is_answered(simulated):
    one = simulated.resp()
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client = RespSocket(one)
    for byte in command("SET", "slow", "value") + command("GET", "slow"):
        one.sendall(bytes([byte]))
    assert client.read() == b"OK" and client.read() == b"value"

    feed = FeedClient(simulated.connect(simulated.feed_port))
    feed.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in HELLO["feed_port"]:
        feed.socket.sendall(bytes([byte]))
    feed.until(lambda: feed.snapshots)

    one = simulated.connect(simulated.pull_port)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in HELLO["pull_port"] + b"\x01\x04slow\x00\x06pushed":
        one.sendall(bytes([byte]))
    eventually(lambda: simulated.redis().get("slow") == b"pushed", "the slow message")


def served_meanwhile(hub, seconds, condition=lambda: False):
    """Other clients are answered for so long (or until the condition holds)."""
    client = RespSocket(hub.resp())
    end = time.monotonic() + seconds
    longest_s = 0
    while time.monotonic() < end and not condition():
        begin = time.monotonic()
        assert client.call("SET", "mine", "1") == b"OK"
        longest_s = max(longest_s, time.monotonic() - begin)
        time.sleep(0.005)
    assert longest_s < 2, f"a client waited {longest_s:.2f} s"


def push_without_reading(one, data, limit_bytes):
    """Sends until the peer takes no more. Returns the number of bytes it took."""
    sent = 0
    one.settimeout(0.5)
    try:
        while sent < limit_bytes:
            sent += one.send(data)
    except (TimeoutError, ConnectionError):
        pass
    return sent


def test_a_client_that_pipelines_and_never_reads(hub):
    hub.redis().set("large", "v" * 100_000)
    before = hub.resident_bytes()
    stuck = [hub.resp(receive_buffer_bytes=4096) for _ in range(5)]
    request = command("GET", "large") * 100
    for one in stuck:
        sent = push_without_reading(one, request, 100 * MIB)
        assert sent < 100 * MIB, "it is not read on while its replies lie about"
    served_meanwhile(hub, 1)
    # 16 MiB of replies and 64 MiB of requests each, in buffers that have grown by doubling.
    assert hub.resident_bytes() - before < len(stuck) * 2 * (16 + 64) * MIB
    # Replies come to who reads at last, all in order.
    client = RespSocket(stuck[0])
    stuck[0].settimeout(PATIENCE_S)
    for _ in range(100):
        assert len(client.read()) == 100_000
    for one in stuck:
        one.close()
    assert_serves(hub)


@pytest.mark.parametrize("face", ["redis", "zeromq", "feed"])
def test_a_subscriber_to_everything_that_never_reads(start_simulator, start_hub, face):
    simulator = start_simulator("--rate", "50k")
    hub = start_hub("--source", simulator.source)
    wait_for_values(hub, 100)
    before = hub.resident_bytes()
    port = {"redis": "resp_port", "zeromq": "pub_port", "feed": "feed_port"}[face]
    subscription = {
        "redis": command("PSUBSCRIBE", "md:*"),
        "zeromq": HELLO["pub_port"] + b"\x00\x04\x01md:",
        "feed": HELLO["feed_port"],
    }[face]
    for _ in range(5):
        one = hub.connect(getattr(hub, port), receive_buffer_bytes=4096)
        one.sendall(subscription)
    good = hub.subscriber("md:RELIANCE")
    served_meanwhile(hub, 4)
    assert hub.resident_bytes() - before < 100 * MIB
    last = good.json()["seq"]
    for _ in range(50):
        assert (now := good.json()["seq"]) > last
        last = now
    assert hub.info("feed")["feed_lost_messages"] == 0, "the source is not held up either"


@pytest.mark.parametrize("port", PORTS)
def test_five_hundred_connections_come_and_go(hub, port):
    before = hub.resident_bytes()
    for _ in range(5):
        many = [hub.connect(getattr(hub, port)) for _ in range(100)]
        for number, one in enumerate(many):
            if number % 2:
                send_all_or_until_closed(one, HELLO[port])
            if number % 3 == 0:
                # A reset in place of an orderly end.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()
    assert_serves(hub)
    eventually(lambda: hub.info("clients")["connected_clients"] <= 2, "the end of all of them")
    assert hub.resident_bytes() - before < 64 * MIB


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_client_above_the_limit_is_told_so(start_hub, tmp_path, lanes):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nclients-max = 20\n")
    hub = start_hub("--config", path, "--lanes", lanes)
    many = [eventually(lambda: answering(hub), "a connection") for _ in range(20)]
    one = hub.resp()
    assert one.recv(100).startswith(b"-ERR max number of clients reached")
    assert is_closed(one)
    many[0].sendall(b"PING\r\n")
    assert many[0].recv(100) == b"+PONG\r\n"
    many[-1].close()
    eventually(lambda: answering(hub), "room for another")


def answering(hub):
    """A connection to the Redis port, if there is room for it."""
    one = hub.resp()
    try:
        one.sendall(b"PING\r\n")
        return one.recv(100) == b"+PONG\r\n" and one
    except ConnectionError:
        return None


def test_a_subscription_to_many_names_is_bounded_and_forgotten(hub):
    before = hub.resident_bytes()
    client = RespSocket(hub.resp())
    for start in range(0, 100_000, 10_000):
        client.send("SUBSCRIBE", *(f"name:{n}" for n in range(start, start + 10_000)))
        for _ in range(10_000):
            client.read()
    assert hub.info("stats")["pubsub_channels"] == 100_000
    assert hub.resident_bytes() - before < 100 * MIB
    client.file.close()
    client.socket.close()
    eventually(lambda: hub.info("stats")["pubsub_channels"] == 0, "all of them forgotten")


def test_a_zeromq_subscriber_may_not_publish(hub):
    xsub = hub.zmq(zmq.XSUB)
    xsub.send(b"\x01")
    xsub.send(b"not a subscription")
    assert_serves(hub)
