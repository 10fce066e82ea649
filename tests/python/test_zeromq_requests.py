"""The ROUTER port: current values for any REQ or DEALER, by pyzmq."""

import json
import socket
import struct
import time

import pytest
import zmq

from support import eventually

MIB = 1 << 20


def ask(peer, *frames):
    """Asks over a REQ socket."""
    peer.send_multipart([one if isinstance(one, bytes) else one.encode() for one in frames])
    return peer.recv_multipart()


def walk(peer, *request):
    """All pages of LIST or SNAPSHOT; how many there were, and what they hold."""
    pages, frames, cursor = 0, [], b""
    while True:
        status, cursor, *page = ask(peer, *request, cursor)
        assert status == b"OK"
        pages, frames = pages + 1, frames + page
        if not cursor:
            return pages, frames


@pytest.fixture
def req(hub):
    return hub.zmq(zmq.REQ)


def test_get_tells_value_missing_and_error_apart(hub, req):
    client = hub.redis()
    client.set("plain", b"\x00value")
    client.set("empty", "")
    client.set("number", 17)
    client.hset("live:engine", mapping={"rpm": "900"})
    client.rpush("list", "a", "b")
    client.zadd("scores", {"one": 1, "half": 0.5, "all": "inf"})
    client.xadd("stream", {"a": "b"}, id="1-1")
    client.xadd("bare", {"a": "b"}, maxlen=0)
    assert ask(req, "GET", "plain") == [b"OK", b"\x00value"]
    assert ask(req, "GET", "empty") == [b"OK", b""]
    assert ask(req, "get", "number") == [b"OK", b"17"]
    assert ask(req, "GET nobody") == [b"NIL"]
    assert ask(req, "GET", "live:engine") == [b"OK", b'{"rpm":"900"}']
    assert ask(req, "GET list") == [b"OK", b'["a","b"]']
    assert ask(req, "GET scores") == [b"OK", b'[["half",0.5],["one",1],["all","inf"]]']
    assert ask(req, "GET stream") == [b"OK", b'{"id":"1-1","fields":[["a","b"]]}']
    assert ask(req, "GET bare") == [b"NIL"], "a stream without entries"


def test_a_key_past_its_time_is_missing(hub, req):
    hub.redis().set("brief", "1", px=30)
    eventually(lambda: ask(req, "GET brief") == [b"NIL"], "the end of the key")
    assert walk(req, "LIST", "brief") == (1, [])


def test_mget_gives_each_name_that_has_a_value_with_it(hub, req):
    client = hub.redis()
    client.mset({"a": "1", "b": "", "name with blanks": "3"})
    reply = ask(req, "MGET", "a", "missing", "name with blanks", "b", "")
    assert reply == [b"OK", b"a", b"1", b"name with blanks", b"3", b"b", b""]
    assert ask(req, "MGET a b") == [b"OK", b"a", b"1", b"b", b""]
    assert ask(req, "MGET", "missing") == [b"OK"]


def test_a_dealer_asks_with_and_without_delimiter_and_many_at_once(hub):
    hub.redis().set("a", "1")
    dealer = hub.zmq(zmq.DEALER)
    for number in range(500):
        dealer.send_multipart([b"tag %d" % number, b"", b"GET", b"a"])
    for number in range(500):
        assert dealer.recv_multipart() == [b"tag %d" % number, b"", b"OK", b"1"]
    dealer.send_multipart([b"GET", b"a"])
    assert dealer.recv_multipart() == [b"OK", b"1"]
    dealer.send(b"LIST")
    assert dealer.recv_multipart() == [b"OK", b"", b"a"]


def test_walks_in_a_row_are_all_answered_while_others_have_their_turn(hub):
    hub.redis().mset({f"k:{number}": "v" for number in range(3000)})
    dealer = hub.zmq(zmq.DEALER)
    for number in range(200):
        dealer.send_multipart([b"%d" % number, b"", b"LIST", b"nobody"])
        dealer.send_multipart([b"%d" % number, b"", b"GET", b"k:1"])
    peer = hub.zmq(zmq.REQ)
    assert ask(peer, "GET k:2") == [b"OK", b"v"]
    for number in range(200):
        assert dealer.recv_multipart() == [b"%d" % number, b"", b"OK", b""]
        assert dealer.recv_multipart() == [b"%d" % number, b"", b"OK", b"v"]


def test_live_topics_of_a_market(simulated):
    peer = simulated.zmq(zmq.REQ)
    pages, names = walk(peer, "LIST", "md:")
    assert pages == 1 and sorted(names) == sorted(simulated.redis().keys("md:*"))
    assert walk(peer, "LIST", "md:REL") == (1, [b"md:RELIANCE"])
    status, text = ask(peer, "GET", "md:RELIANCE")
    value = json.loads(text)
    assert status == b"OK" and value["symbol"] == "RELIANCE" and value["snapshot"] is True
    assert value["bid"] < value["ask"]
    assert ask(peer, "GET", "md:NOBODY") == [b"NIL"]
    _, frames = walk(peer, "SNAPSHOT", "md:")
    snapshot = {name: json.loads(text) for name, text in zip(frames[::2], frames[1::2])}
    assert sorted(snapshot) == sorted(names)
    assert all(value["seq"] > 0 for value in snapshot.values())
    later = json.loads(ask(peer, "GET", "md:RELIANCE")[1])
    assert later["seq"] >= snapshot[b"md:RELIANCE"]["seq"]
    simulated.redis().set("key", "1")
    _, everything = walk(peer, "LIST")
    assert sorted(everything) == sorted([*names, b"key"])


def test_walks_come_in_pages_that_miss_nothing(hub, req):
    client = hub.redis()
    expected = {b"p:%d" % number: b"%d" % number for number in range(5000)}
    pipeline = client.pipeline(transaction=False)
    for name, value in expected.items():
        pipeline.set(name, value)
        pipeline.set(b"other:" + name, b"x")
    pipeline.execute()
    pages, names = walk(req, "LIST", "p:")
    assert 3 <= pages <= 10 and set(names) == set(expected)
    pages, frames = walk(req, "SNAPSHOT", "p:")
    assert pages >= 3 and dict(zip(frames[::2], frames[1::2])) == expected
    assert walk(req, "LIST", "no such prefix")[1] == []
    assert set(walk(req, "LIST", "p:49")[1]) == {n for n in expected if n.startswith(b"p:49")}


def test_a_prefix_is_no_pattern(hub, req):
    client = hub.redis()
    client.mset({"a*b": "1", "axb": "2", "[a]": "3", "a": "4", "\\q": "5", "^-": "6"})
    assert walk(req, "LIST", "a*") == (1, [b"a*b"])
    assert walk(req, "LIST", "[a") == (1, [b"[a]"])
    assert walk(req, "LIST", "\\") == (1, [b"\\q"])
    assert walk(req, "LIST", "^-") == (1, [b"^-"])


@pytest.mark.parametrize(
    "frames, word",
    [
        ([b""], b"empty"),
        ([b"SET", b"a", b"b"], b"unknown request 'SET'"),
        ([b"\xff" * 5000, b"x"], b"unknown request"),
        ([b"GET"], b"wrong number of frames for 'GET'"),
        ([b"GET", b"a", b"b"], b"wrong number of frames for 'GET'"),
        ([b"MGET"], b"wrong number of frames for 'MGET'"),
        ([b"LIST", b"a", b"nonsense"], b"cursor"),
        ([b"SNAPSHOT", b"a", b"k1", b"2"], b"wrong number of frames for 'SNAPSHOT'"),
        ([b"MGET"] + [b"k"] * 10_000, b"too long"),
        ([b"MGET"] + [b"k" * 100_000] * 100, b"too long"),
    ],
    ids=range(10),
)
def test_a_bad_request_gets_an_error_and_the_next_one_its_answer(hub, req, frames, word):
    status, text = ask(req, *frames)
    assert status == b"ERR" and word in text and len(text) < 300
    assert ask(req, "GET", "a") == [b"NIL"]
    assert hub.info()["zmq_refused_requests"] == 1


def test_many_values_in_one_answer_have_a_bound(hub, req):
    client = hub.redis()
    for number in range(20):
        client.set(f"big:{number}", b"v" * (4 * MIB))
    names = [f"big:{number}" for number in range(20)]
    status, text = ask(req, "MGET", *names)
    assert status == b"ERR" and b"longer" in text
    assert len(ask(req, "MGET", *names[:10])) == 21
    assert len(ask(req, "GET", "big:3")[1]) == 4 * MIB


def test_a_client_that_never_reads_holds_little_and_nobody_up(hub):
    client = hub.redis()
    client.set("value", b"v" * 100_000)
    before = hub.resident_bytes()
    deaf = [hub.connect(hub.router_port, receive_buffer_bytes=4096) for _ in range(5)]
    request = b"\x01\x03GET\x00\x05value"
    for one in deaf:
        handshake(one)
        one.setblocking(False)
        # 50,000 requests would be 5 GB of answers.
        send_all_that_fits(one, request * 50_000)
    peer = hub.zmq(zmq.REQ)
    for _ in range(20):
        assert ask(peer, "GET value") == [b"OK", b"v" * 100_000]
    assert hub.resident_bytes() - before < 60 * MIB


def handshake(one):
    """As a DEALER of ZMTP 3.0, over a bare socket."""
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    one.sendall(greeting)
    properties = b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    one.sendall(b"\x04" + bytes([6 + len(properties)]) + b"\x05READY" + properties)
    received = b""
    while b"READY" not in received:
        received += one.recv(1 << 12)


def send_all_that_fits(one, data):
    """Sends until the peer has taken nothing more for a moment."""
    view, quiet = memoryview(data), 0
    while view and quiet < 20:
        try:
            view, quiet = view[one.send(view):], 0
        except BlockingIOError:
            time.sleep(0.01)
            quiet += 1


def test_a_frame_beyond_all_bounds_ends_its_connection_alone(hub, req):
    one = hub.connect(hub.router_port)
    handshake(one)
    one.sendall(b"\x02" + struct.pack(">Q", 1 << 40) + b"GET")
    assert one.recv(1 << 12) == b""
    assert ask(req, "GET", "a") == [b"NIL"]


def test_a_proxy_can_stand_between_req_and_the_hub(hub):
    """ROUTER and DEALER put their own frames into the envelope."""
    hub.redis().set("a", "1")
    context = zmq.Context()
    front, back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    port = front.bind_to_random_port("tcp://127.0.0.1")
    back.connect(f"tcp://127.0.0.1:{hub.router_port}")
    peer = hub.zmq(zmq.REQ, port=port)
    try:
        for _ in range(3):
            peer.send_multipart([b"GET", b"a"])
            assert front.poll(10_000)
            back.send_multipart(front.recv_multipart())
            assert back.poll(10_000)
            front.send_multipart(back.recv_multipart())
            assert peer.recv_multipart() == [b"OK", b"1"]
    finally:
        context.destroy(linger=0)


def test_every_lane_answers(start_hub):
    hub = start_hub("--lanes", "2")
    hub.redis().set("a", "1")
    peers = [hub.zmq(zmq.REQ) for _ in range(8)]
    assert all(ask(peer, "GET a") == [b"OK", b"1"] for peer in peers)
    hub.redis().script_load("return 1")
    assert hub.info()["zmq_answered_requests"] == 8


def test_a_port_of_requests_takes_unix_sockets(start_hub, tmp_path):
    path = tmp_path / "ask.sock"
    hub = start_hub("--zmq-router", f"ipc://{path}")
    hub.redis().set("a", "1")
    with zmq.Context() as context, context.socket(zmq.REQ) as peer:
        peer.linger, peer.rcvtimeo = 0, 10_000
        peer.connect(f"ipc://{path}")
        assert ask(peer, "GET a") == [b"OK", b"1"]


def test_telnet_gets_nothing_and_harms_nobody(hub, req):
    with socket.create_connection(("127.0.0.1", hub.router_port)) as one:
        one.sendall(b"GET / HTTP/1.1\r\n\r\n")
        one.settimeout(10)
        while one.recv(1 << 12):
            pass
    assert ask(req, "GET", "a") == [b"NIL"]
