"""The ZeroMQ ports over WebSocket (ws://), with a client written by hand and with Python's."""

import itertools
import socket
import time

import pytest
import zmq
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from support import PATIENCE_S, eventually, is_closed
from zws_peer import (
    CLOSE, COMMAND, MORE, PING, PONG, TEXT, ZwsPeer, command, frame, message, metadata, request,
)

PORTS = {b"SUB": "pub_port", b"PUSH": "pull_port", b"REQ": "router_port"}


def peer(hub, socket_type, port=None, **options):
    return ZwsPeer(hub.connect(port or getattr(hub, PORTS[socket_type])), socket_type, **options)


def sub(hub, *prefixes, **options):
    return peer(hub, b"SUB", **options).subscribe(*prefixes)


def status(hub, head, port=None):
    """The first line of the answer to a request."""
    one = hub.connect(port or hub.pub_port)
    one.sendall(head)
    answer = one.recv(1000)
    return answer.split(b"\r\n")[0].removeprefix(b"HTTP/1.1 ").decode()


def test_the_three_ports_are_reached_by_websocket_and_by_tcp(hub):
    push, ask = peer(hub, b"PUSH"), peer(hub, b"REQ")
    assert push.is_ready and ask.is_ready
    push.send(message(b"live:a", b"1"))
    client = hub.redis()
    eventually(lambda: client.get("live:a") == b"1", "what was pushed")
    ask.send(message(b"", b"GET", b"live:a"))
    assert ask.receive() == [b"", b"OK", b"1"]
    subs = [sub(hub, b"live:"), sub(hub, b"live:", path="/any/path?x=1")]
    plain = hub.sub(b"live:")
    for one in subs:
        assert one.receive() == [b"live:a", b"1"]
    assert plain.recv_multipart() == [b"live:a", b"1"]
    long = bytes(range(256)) * 300
    for body in (b"", b"x" * 124, b"x" * 125, b"x" * 300, long):
        client.set("live:a", body)
        for one in subs:
            assert one.receive() == [b"live:a", body]
        assert plain.recv_multipart() == [b"live:a", body]
    client.publish("other", "unheard")
    subs[0].send(message(b"\x00live:"))
    subs[0].subscribe(b"end")
    client.delete("live:a")
    assert subs[1].receive() == [b"live:a", b'{"gone":true}']

    def is_over():
        # The removal may come before the hub has heard of the end of the subscription.
        client.publish("end", "now")
        return readable(subs[0]) and subs[0].receive() == [b"end", b"now"]

    eventually(is_over, "the end")
    info = hub.info()
    assert info["zmq_answered_requests"] == 1
    assert info["zmq_websocket_peers"] == 4
    for one in (push, ask, *subs):
        one.one.close()
    eventually(lambda: hub.info()["zmq_websocket_peers"] == 0, "the peers' end")


def test_browsers_ask_for_no_mechanism(hub):
    """A script cannot write the slash of ZWS2.0/NULL: the names of protocols are tokens."""
    push, ask = (peer(hub, kind, protocol="ZWS2.0") for kind in (b"PUSH", b"REQ"))
    assert push.is_ready and ask.is_ready
    one = sub(hub, b"live:", protocol="ZWS2.0")
    push.send(message(b"live:a", b"1"))
    assert one.receive() == [b"live:a", b"1"]
    ask.send(message(b"GET live:a"))
    assert ask.receive() == [b"OK", b"1"]
    hub.redis().config_set("requirepass", "secret")
    out = hub.connect(hub.pub_port)
    out.sendall(request("ZWS2.0") + message(b"") + message(b"\x01live:"))
    answer = b""
    while more := out.recv(1000):
        answer += more
    assert answer.endswith(b"ZWS2.0\r\n\r\n\x88\x00"), answer


def readable(one):
    one.one.settimeout(0.1)
    try:
        return bool(one.bytes) or bool(one.one.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        one.one.settimeout(30)


def test_removals_and_snapshots_are_marked_over_websocket_too(hub):
    client = hub.redis()
    client.set("live:a", "1")
    one = sub(hub, b"__gone__", b"__snapshot__", b"live:")
    assert one.receive() == [b"__snapshot__", b"live:a"]
    assert one.receive() == [b"live:a", b"1"]
    client.delete("live:a")
    assert one.receive() == [b"live:a", b"", b"gone"]


def test_a_market_comes_by_websocket(simulated):
    one = sub(simulated, b"md:RELIANCE")
    for _ in range(20):
        topic, value = one.receive()
        assert topic == b"md:RELIANCE" and value.startswith(b"{") and value.endswith(b"}")


def test_a_name_and_a_password_are_asked_for(start_hub):
    hub = start_hub(
        "--zmq-mechanism", "plain", "--", "--user", "feeder", "on", ">secret", "+@all", "~*", "&*"
    )
    for socket_type, port in PORTS.items():
        assert peer(hub, socket_type, plain=(b"feeder", b"secret")).is_ready
        wrong = peer(hub, socket_type, plain=(b"feeder", b"wrong"))
        assert wrong.heard == b"\x02\x05ERROR\x03400" and wrong.is_ended()
        assert status(hub, request("ZWS2.0/NULL"), getattr(hub, port)) == "400 Bad Request"
    assert hub.redis().acl_log()[0]["username"] == "feeder"


def test_a_script_logs_in_with_a_name_and_a_password(start_hub):
    """It cannot write the slash of ZWS2.0/PLAIN, so it asks for ZWS2.0 and says HELLO."""
    hub = start_hub(
        "--zmq-mechanism", "plain", "--", "--user", "feeder", "on", ">secret", "+@all", "~*", "&*"
    )
    for socket_type in PORTS:
        options = {"protocol": "ZWS2.0", "plain": (b"feeder", b"secret")}
        assert peer(hub, socket_type, **options).is_ready
        wrong = peer(hub, socket_type, **options | {"plain": (b"feeder", b"wrong")})
        assert wrong.heard == b"\x02\x05ERROR\x03400" and wrong.is_ended()
    for first in (message(b""), command(b"READY", metadata(b"SUB")), message(b"\x01live:")):
        out = hub.connect(hub.pub_port)
        out.sendall(request("ZWS2.0") + first + message(b"\x01live:"))
        answer = b""
        while more := out.recv(1000):
            answer += more
        assert answer.endswith(b"ZWS2.0\r\n\r\n\x88\x00"), answer


def test_python_s_websockets_logs_in_and_subscribes(start_hub):
    hub = start_hub(
        "--zmq-mechanism", "plain", "--", "--user", "feeder", "on", ">secret", "+@all", "~*", "&*"
    )
    hub.redis().set("live:a", "1")
    place, protocols = f"ws://127.0.0.1:{hub.pub_port}", ["ZWS2.0"]
    with connect(place, subprotocols=protocols, proxy=None) as one:
        assert one.subprotocol == "ZWS2.0"
        one.send(b"\x02\x05HELLO\x06feeder\x06secret")
        assert one.recv(PATIENCE_S) == b"\x02\x07WELCOME"
        one.send(b"\x02\x08INITIATE" + metadata(b"SUB"))
        assert one.recv(PATIENCE_S).startswith(b"\x02\x05READY")
        one.send(b"\0\x01live:")
        assert [one.recv(PATIENCE_S) for _ in range(2)] == [b"\x01live:a", b"\x001"]
    with connect(place, subprotocols=protocols, proxy=None) as one:
        one.send(b"\x02\x05HELLO\x06feeder\x05wrong")
        assert one.recv(PATIENCE_S) == b"\x02\x05ERROR\x03400"
        with pytest.raises(ConnectionClosed):
            one.recv(PATIENCE_S)


def test_null_peers_stay_out_where_the_default_user_needs_a_password(hub):
    assert peer(hub, b"REQ").is_ready
    hub.redis().config_set("requirepass", "secret")
    out = peer(hub, b"REQ")
    assert out.heard == b"\x02\x05ERROR\x03400" and out.is_ended()


def test_a_page_of_a_stranger_is_refused(hub):
    """A browser lets any page connect to this machine, and says which page it is."""
    origin = ["Origin: https://evil.example"]
    for port in PORTS.values():
        assert status(hub, request(headers=origin), getattr(hub, port)) == "403 Forbidden"
    assert status(hub, request(headers=["oriGIN: null"])) == "403 Forbidden"
    eventually(lambda: "--zmq-ws-origins" in hub.stderr + hub.stdout, "a line in the log")
    assert sub(hub, b"").is_ready


def test_a_page_is_let_in_by_its_origin(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text('zmq-ws-origins = ["https://a.example", "http://localhost:8000"]\n')
    hub = start_hub("--config", path)
    for origin, is_in in [
        ("https://a.example", True), ("http://localhost:8000", True), ("https://A.Example", True),
        ("https://a.example:444", False), ("http://a.example", False), ("null", False),
        ("https://a.example.evil.example", False), ("", False),
    ]:
        answer = status(hub, request(headers=[f"Origin: {origin}"]))
        assert answer == ("101 Switching Protocols" if is_in else "403 Forbidden"), origin
    two = ["Origin: https://a.example", "Origin: https://evil.example"]
    assert status(hub, request(headers=two)) == "403 Forbidden"
    hub = start_hub("--config", path, "--zmq-ws-origins", "*")
    assert sub(hub, b"", headers=["Origin: https://evil.example"]).is_ready


@pytest.mark.parametrize("origin", ["a.example", "https://a.example/", "https://", "**"])
def test_what_is_no_origin_ends_the_start(start, origin):
    program = start("serve", "--zmq-ws-origins", origin)
    assert program.wait() == 2
    assert "--zmq-ws-origins" in program.stderr and f"'{origin}'" in program.stderr


def test_the_handshake_comes_octet_by_octet(hub):
    one = hub.connect(hub.router_port)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    words = request(key="dGhlIHNhbXBsZSBub25jZQ==") + command(b"READY", metadata(b"REQ"))
    words += message(b"", b"GET", b"absent")
    for octet in words:
        one.sendall(bytes([octet]))
    taken = ZwsPeer.__new__(ZwsPeer)
    taken.one, taken.bytes = one, b""
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in taken.head()
    assert taken.payload().startswith(b"\x02\x05READY")
    assert taken.receive() == [b"", b"NIL"]


def test_everything_is_said_at_once(hub):
    """Requests behind the handshake, in one write, are answered in order."""
    one = hub.connect(hub.router_port)
    asks = b"".join(message(b"%d" % number, b"", b"GET", b"a") for number in range(1000))
    one.sendall(request() + command(b"READY", metadata(b"DEALER")) + asks)
    taken = ZwsPeer.__new__(ZwsPeer)
    taken.one, taken.bytes = one, b""
    taken.head()
    assert taken.payload().startswith(b"\x02\x05READY")
    for number in range(1000):
        assert taken.receive() == [b"%d" % number, b"", b"NIL"]


def test_many_walks_at_once_are_all_answered(hub):
    """A walk pauses its peer; the requests behind it stay in the input."""
    hub.redis().mset({f"key:{number}": "x" * 100 for number in range(300)})
    one = peer(hub, b"REQ")
    count = 30
    one.send(b"".join(message(b"", b"SNAPSHOT", b"key:") for _ in range(count)))
    for _ in range(count):
        answer = one.receive()
        assert answer[:2] == [b"", b"OK"] and len(answer) == 3 + 2 * 300


@pytest.mark.parametrize(
    "head, answer",
    [
        (request("ZWS2.0/PLAIN"), "400"),
        (request("ZWS2.0/CURVE"), "400"),
        (request("ZWS2.0"), "101"),
        (request("WSNetMQ"), "400"),
        (request("zws2.0/null"), "400"),
        (request(version="8"), "400"),
        (request(key=" "), "400"),
        (request().replace(b"GET", b"GOT"), "400"),
        (request().replace(b"HTTP/1.1", b"HTTP/1.0"), "400"),
        (request().replace(b"Upgrade: websocket", b"Upgrade: h2c"), "400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"),
        (b"GET " + b"a" * 20_000, "400"),
        (request(headers=["Cookie: " + "a" * 9000]), "400"),
        (request("chat, ZWS2.0/NULL ,ZWS2.0"), "101"),
        (request(headers=["Cookie: " + "a" * 7000]), "101"),
    ],
    ids=range(15),
)
def test_a_request_is_answered_by_its_head(hub, head, answer):
    assert status(hub, head).startswith(answer)
    assert sub(hub, b"").is_ready


@pytest.mark.parametrize(
    "words",
    [
        frame(b"\x00body", mask=False),
        frame(b"\x00body", opcode=TEXT),
        frame(b"\x00body", final=False),
        frame(b"\x00body", opcode=0),
        frame(b"\x00body", reserved=4),
        frame(b"\x00body", opcode=3),
        frame(b""),
        frame(b"x" * 126, opcode=PING),
        frame(b"", opcode=PING, final=False),
        frame(b"\x00", length=1 << 63),
        frame(b"\x00", length=(64 << 20) + 2),
        frame(b"\x00", length=(1 << 63) - 1),
        frame(b"\x03\x04PING"),
        frame(bytes([COMMAND])),
        frame(bytes([COMMAND, 200]) + b"PING"),
        frame(b"", opcode=CLOSE),
        frame(b"\x03\xe8bye", opcode=CLOSE),
    ],
    ids=range(17),
)
def test_a_malformed_frame_ends_the_connection_alone(hub, words):
    other = sub(hub, b"live:")
    one = peer(hub, b"PUSH")
    one.send(words)
    assert one.is_ended()
    hub.redis().set("live:a", "1")
    assert other.receive() == [b"live:a", b"1"]


def test_malformed_frames_before_the_handshake_end_the_connection(hub):
    for words in (message(b"early"), frame(b"\x02\x05HELLO"), frame(b"\x00", length=1 << 20)):
        one = hub.connect(hub.pull_port)
        one.sendall(request() + words)
        assert is_closed(one)


def test_a_ping_is_answered_between_the_pieces_of_a_message(hub):
    one = peer(hub, b"PUSH")
    one.send(frame(b"are you there", opcode=PING))
    assert one.frame() == (PONG, b"are you there")
    one.send(frame(b"unasked", opcode=PONG))
    one.send(frame(bytes([MORE]) + b"live:a") + frame(b"", opcode=PING) + frame(b"\x00value"))
    assert one.frame() == (PONG, b"")
    client = hub.redis()
    eventually(lambda: client.get("live:a") == b"value", "the message")
    one.send(frame(b"\x03\xe8", opcode=CLOSE))
    assert one.frame() == (CLOSE, b"\x03\xe8")
    with pytest.raises(EOFError):
        one.frame()


def test_a_message_of_megabytes_comes_in_pieces(hub):
    one, body = peer(hub, b"PUSH"), bytes(range(256)) * 10_000
    words = message(b"live:big", body) + message(b"live:end", b"1")
    for start in range(0, len(words), 70_001):
        one.send(words[start:start + 70_001])
    client = hub.redis()
    eventually(lambda: client.get("live:end") == b"1", "the end")
    assert client.get("live:big") == body
    taken = sub(hub, b"live:big")
    assert taken.receive() == [b"live:big", body]


def test_a_peer_that_says_nothing_gets_the_greeting_of_zmtp(hub):
    one = hub.connect(hub.pub_port)
    assert one.recv(100) == b"\xff" + bytes(7) + b"\x01\x7f"


def test_requests_that_never_end_keep_no_one_out(hub):
    """Half a request, half a handshake: other peers are served meanwhile."""
    halves = [request()[:50], request(), request() + command(b"READY", b"")[:-3], b"G"]
    ones = [hub.connect(hub.pub_port) for _ in range(200)]
    for one, half in zip(ones, itertools.cycle(halves)):
        one.sendall(half)
    assert sub(hub, b"").is_ready
    hub.redis().publish("a", "1")
    hub.sub("a")


def test_slow_subscribers_are_conflated_over_websocket(start_hub):
    hub = start_hub("--live-prefix", "live:")
    one = hub.connect(hub.pub_port, receive_buffer_bytes=4096)
    slow = ZwsPeer(one, b"SUB").subscribe(b"live:", b"plain")
    client = hub.redis()
    body = "x" * 50_000
    client.set("live:first", "1")
    assert slow.receive() == [b"live:first", b"1"]
    for number in range(400):
        client.set("live:a", f"{number}:{body}")
    client.set("live:a", "end")
    last, heard = -1, 0
    while True:
        topic, value = slow.receive()
        assert topic == b"live:a"
        if value == b"end":
            break
        number, rest = value.split(b":")
        assert int(number) > last and rest == body.encode()
        last, heard = int(number), heard + 1
    assert heard < 400
    assert hub.info()["conflated_messages"] > 0


def test_a_peer_is_told_when_its_user_is_gone(start_hub):
    hub = start_hub(
        "--zmq-mechanism", "plain", "--", "--user", "feeder", "on", ">secret", "+@all", "~*", "&*"
    )
    one = peer(hub, b"SUB", plain=(b"feeder", b"secret")).subscribe(b"a")
    hub.redis().acl_deluser("feeder")
    assert one.frame()[0] == CLOSE
