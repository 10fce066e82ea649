"""The stream of web pages: topics as rows, commands with the user's rights, hostile frames."""

import json
import socket
import struct

import pytest
from websockets.exceptions import ConnectionClosed

from support import PATIENCE_S, eventually, free_ports, wait_for_values
from web_client import Page


@pytest.fixture
def web(start_hub):
    return start_web(start_hub)


def start_web(start_hub, *options):
    port = free_ports(1)[0]
    hub = start_hub("--web", f"127.0.0.1:{port}", "--lanes", "2", *options)
    hub.web = port
    return hub


@pytest.fixture
def page(web):
    one = Page(web.web)
    yield one
    one.close()


def test_a_live_key_is_followed_from_its_value_to_its_end(web, page):
    redis = web.redis()
    redis.hset("live:a", mapping={"x": "1", "y": "2"})
    assert page.hello["user"] == "default" and page.hello["server"].startswith("Tidewire ")
    assert page.subscribe(1, "live:*") == {"live:a": {"x": "1", "y": "2"}}
    redis.hset("live:a", "x", "3")
    assert page.next(1) == [[1, {"x": "3"}]]
    redis.hdel("live:a", "y")
    assert page.next(1) == [[1, {"y": None}]]
    redis.set("live:b", "auto")
    assert page.next(1) == [[2, "live:b", {"value": "auto"}]]
    redis.delete("live:a")
    assert page.next(1) == [[1, None]]
    assert page.ask("unsub") == {"done": page.number, "reply": "OK"}


def test_a_value_that_is_flushed_in_the_same_pipeline_stayed_at_the_page(web, page):
    redis = web.redis()
    page.subscribe(1, "live:*")
    for number in range(50):
        with redis.pipeline(transaction=False) as pipe:
            pipe.set("live:a", number)
            pipe.flushall()
            pipe.set(f"live:end:{number}", 1)
            pipe.execute()
        end = f"live:end:{number}"
        page.until(1, lambda rows: end in rows and "live:a" not in rows)


def test_a_page_that_does_not_ask_gets_the_newest_value_only(web, page):
    redis = web.redis()
    redis.set("live:n", 0)
    page.subscribe(1, "live:n")
    with redis.pipeline(transaction=False) as pipe:
        for number in range(1, 2_001):
            pipe.set("live:n", number)
        pipe.execute()
    page.until(1, lambda rows: rows["live:n"]["value"] == 2_000)
    conflated = int(web.redis().info("web")["web_conflated_updates"])
    assert conflated > 0


def test_fields_and_rates_are_chosen_by_the_page(web, page):
    redis = web.redis()
    redis.hset("live:a", mapping={"bid": "1", "ask": "2"})
    page.subscribe(1, "live:a", fields=["bid"], hz=1000)
    assert page.rows == {"live:a": {"bid": "1"}}
    page.send({"next": 1})
    redis.hset("live:a", "ask", "3")
    redis.hset("live:a", "bid", "4")
    assert page.receive() == {"batch": 1, "rows": [[1, {"bid": "4"}]]}


def test_short_rows_have_numbers_of_fields(web, page):
    redis = web.redis()
    redis.hset("live:a", mapping={"x": "1", "y": "2"})
    page.send({"sub": 1, "topics": ["live:*"], "short": True})
    first = page.receive()
    assert first["rows"] == [[1, "live:a", [0, "1", 1, "2"]]]
    assert first["fields"] == {"0": "x", "1": "y"}
    redis.hset("live:a", mapping={"y": "3", "z": "4"})
    page.send({"next": 1})
    # Both fields are of one write.
    assert page.receive() == {
        "batch": 1, "rows": [[1, [1, "3", 2, "4"]]], "fields": {"2": "z"},
    }
    redis.hdel("live:a", "x")
    page.send({"next": 1})
    assert page.receive() == {"batch": 1, "rows": [[1, [0, None]]]}
    page.send({"view": 2, "topics": ["live:*"], "fields": ["z"], "rows": 5, "short": True})
    while (message := page.receive())["total"] == 0:
        page.send({"next": 2})
    assert message["rows"] == [[1, [0, "4"]]] and message["fields"] == {"0": "z"}


def test_market_topics_come_as_rows(start_hub, start_simulator):
    simulator = start_simulator("--rate", "2000", "--symbols", "10")
    hub = start_web(start_hub, "--source", simulator.source)
    wait_for_values(hub, 10)
    page = Page(hub.web)
    rows = page.subscribe(1, "md:*", hz=1000)
    eventually(lambda: len(rows) == 10 or page.next(1) and None, "ten topics")
    name = sorted(rows)[0]
    assert {"symbol", "bid", "ask", "seq", "stale"} <= set(rows[name])
    assert "snapshot" not in rows[name]
    first = rows[name]["seq"]
    page.until(1, lambda rows: rows[name]["seq"] > first + 20)
    fields = hub.redis().hgetall(name)
    assert set(rows[name]) & {field.decode() for field in fields} >= {"bid", "ask", "venue"}
    page.subscribe(2, f"book:{name.removeprefix('md:')}", f"bar:1s:{name.removeprefix('md:')}")
    page.close()


def test_many_topics_come_in_parts(web):
    redis = web.redis()
    with redis.pipeline(transaction=False) as pipe:
        for number in range(20_000):
            pipe.set(f"live:{number}", number)
        pipe.execute()
    page = Page(web.web)
    page.send({"sub": 1, "topics": ["live:*"]})
    parts = 0
    while True:
        message = page.receive()
        parts += 1
        page.take(message)
        if not message.get("more"):
            break
    assert len(page.rows) == 20_000 and parts >= 20
    assert page.rows["live:77"] == {"value": 77}
    page.close()
    eventually(lambda: int(redis.info("web")["web_topics"]) == 0, "no topic without a page")


def test_several_subscriptions_share_a_page(web, page):
    redis = web.redis()
    redis.set("live:a", "1")
    redis.set("live:b", "1")
    page.subscribe(1, "live:*")
    page.subscribe(2, "live:a")
    redis.set("live:a", "2")
    assert page.next(2) == [[page_number(page, "live:a"), {"value": 2}]]
    assert page.next(1) == [[page_number(page, "live:a"), {"value": 2}]]
    page.send({"unsub": 1})
    assert page.receive() == {"done": 1, "reply": "OK"}
    redis.set("live:b", "3")
    redis.set("live:a", "3")
    assert page.next(2) == [[page_number(page, "live:a"), {"value": 3}]]
    # The same number again begins again, with other topics.
    page.rows.clear()
    assert page.subscribe(2, "live:b") == {"live:b": {"value": 3}}


def page_number(page, name):
    return next(number for number, known in page.names.items() if known == name)


def test_commands_have_the_replies_of_redis(web, page):
    assert page.ask("set", topic="k", value="v")["reply"] == "OK"
    assert page.do("GET", "k") == "v"
    assert page.do("HSET", "h", "a", 1, "b", "2") == 2
    assert page.do("HGETALL", "h") == {"a": "1", "b": "2"}
    assert page.do("SCAN", "0", "MATCH", "h")[1] == ["h"]
    assert page.do("GET", "none") is None
    assert page.do("SET", "raw", "base64:/w==") == "OK"
    assert page.do("GET", "raw") == "base64:/w==" and web.redis().get("raw") == b"\xff"
    assert page.ask("do", command=["LPUSH", "k", "x"])["code"] == "WRONGTYPE"
    assert page.ask("do", command=["NOSUCH"])["code"] == "ERR"
    assert page.ask("publish", topic="news", value="x")["reply"] == 0
    for words in (["SUBSCRIBE", "a"], ["MULTI"], ["BLPOP", "a", 0], ["MONITOR"], ["HELLO", 2]):
        assert page.ask("do", command=words)["code"] == "NOTHERE"
    assert "redis_version" in page.do("INFO", "server")
    names = [line.split()[1] for line in page.do("CLIENT", "LIST").splitlines()]
    own = "addr=%s:%s" % page.socket.local_address[:2]
    assert own in names


def test_many_commands_are_answered_in_order(page):
    for number in range(1_000, 2_000):
        page.send({"do": number, "command": ["INCR", "n"]})
    answers = [page.receive() for _ in range(1_000)]
    assert answers == [{"done": 1_000 + n, "reply": n + 1} for n in range(1_000)]


def test_a_command_follows_the_rights_of_its_user(web):
    admin = web.redis()
    admin.execute_command(
        "ACL", "SETUSER", "ann", "on", ">secret", "+get", "+subscribe", "+psubscribe", "~own:*",
        "resetchannels", "&live:own*",
    )
    admin.execute_command("CONFIG", "SET", "requirepass", "top")
    page = Page(web.web)
    assert page.hello["user"] is None
    assert page.ask("do", command=["GET", "own:a"])["code"] == "NOAUTH"
    assert page.ask("sub", topics=["live:own"])["code"] == "NOAUTH"
    assert page.ask("login", user="ann", password="no")["code"] == "WRONGPASS"
    assert page.ask("login", user="ann", password="secret")["reply"] == "OK"
    assert page.do("GET", "own:a") is None
    assert page.ask("do", command=["GET", "other"])["code"] == "NOPERM"
    assert page.ask("set", topic="own:a", value="x")["code"] == "NOPERM"
    assert page.ask("sub", topics=["live:other"])["code"] == "NOPERM"
    assert page.ask("sub", topics=["live:*"])["code"] == "NOPERM"
    page.subscribe(1, "live:own*")
    reasons = {(entry["reason"], entry["object"]) for entry in web.redis(password="top").acl_log()}
    assert {("key", "other"), ("command", "set"), ("channel", "live:*")} <= reasons
    # A change of the rights ends the stream.
    web.redis(password="top").execute_command("ACL", "SETUSER", "ann", "resetchannels")
    with pytest.raises(ConnectionClosed) as ended:
        page.receive()
    assert ended.value.rcvd.code == 1008


def test_messagepack_carries_the_same(web):
    msgpack = pytest.importorskip("msgpack")
    page = Page(web.web, "tidewire.msgpack.1", pack=msgpack.packb, unpack=msgpack.unpackb)
    web.redis().hset("live:a", "x", "1")
    assert page.subscribe(1, "live:a") == {"live:a": {"x": "1"}}
    assert page.do("ECHO", "é") == "é"
    page.socket.send(b"\xc1")
    assert page.receive()["code"] == "SYNTAX"
    # Numbers as keys are texts, and so are whole numbers beyond 64 bits.
    page.send({"do": 7, "command": ["ECHO", "é"], 5: {-1: 2}})
    assert page.receive() == {"done": 7, "reply": "é"}
    web.redis().set("live:b", "18446744073709551616")
    page.rows.clear()
    assert page.subscribe(2, "live:b") == {"live:b": {"value": "18446744073709551616"}}
    page.socket.send("{}")
    with pytest.raises(ConnectionClosed) as ended:
        page.receive()
    assert ended.value.rcvd.code == 1003


@pytest.mark.parametrize("text,number", [
    ("[]", 0), ("{", 0), ('{"other":4}', 4), ('{"sub":5}', 5), ('{"sub":5,"topics":[1e]}', 0),
    ('{"do":6,"command":[]}', 6), ('{"next":7}', 7),
])
def test_a_wrong_message_is_answered_and_the_stream_goes_on(page, text, number):
    page.socket.send(text)
    answer = page.receive()
    assert answer["error"] == number and answer["code"] in ("SYNTAX", "ERR")
    assert page.do("PING") == "PONG"


@pytest.mark.parametrize("frame,code", [
    (b"\x81\x05hello", 1002),                           # not masked
    (b"\xc1\x80\0\0\0\0", 1002),                        # a reserved bit
    (b"\x80\x80\0\0\0\0", 1002),                        # continues nothing
    (b"\x83\x80\0\0\0\0", 1002),                        # an unknown type
    (b"\x09\x80\0\0\0\0", 1002),                        # a PING in parts
    (b"\x81\x81\0\0\0\0\xff", 1007),                    # not UTF-8
    (b"\x82\x81\0\0\0\0x", 1003),                       # binary, where text is agreed on
    (b"\x81\xff" + struct.pack(">Q", 1 << 40) + b"\0\0\0\0", 1009),
    (b"\x88\x82\0\0\0\0\x03\xed", 1002),                # a code that is never sent
])
def test_a_broken_frame_ends_the_stream_with_its_code(web, frame, code):
    with raw_stream(web) as one:
        one.sendall(frame)
        assert close_code(one) == code
    assert Page(web.web).do("PING") == "PONG"


def raw_stream(web, receive_buffer_bytes=None):
    one = socket.socket()
    if receive_buffer_bytes:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    one.settimeout(PATIENCE_S)
    one.connect(("127.0.0.1", web.web))
    one.sendall(
        b"GET /stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += one.recv(1)
    assert head.startswith(b"HTTP/1.1 101 ")
    return one


def close_code(one):
    """Reads frames up to a CLOSE, and returns its code."""
    received = b""
    while part := one.recv(1 << 16):
        received += part
    at = 0
    while at < len(received):
        length, start = received[at + 1], at + 2
        if length == 126:
            length, start = struct.unpack(">H", received[start:start + 2])[0], start + 2
        if received[at] == 0x88:
            return struct.unpack(">H", received[start:start + 2])[0]
        at = start + length
    return None


def text_frame(text):
    """A frame with a mask of zeros."""
    head = bytes([0x81, 0x80 | len(text)]) if len(text) < 126 else (
        b"\x81\xfe" + struct.pack(">H", len(text))
    )
    return head + b"\0\0\0\0" + text


def test_a_page_that_never_reads_costs_bounded_memory_and_no_other_page(web):
    redis = web.redis()
    with redis.pipeline(transaction=False) as pipe:
        for number in range(1_000):
            pipe.set(f"live:{number}", "x" * 100)
        pipe.execute()
    other = Page(web.web)
    other.subscribe(1, "live:1")
    with raw_stream(web, 4_096) as one:
        one.sendall(text_frame(b'{"sub":1,"topics":["live:*"],"hz":1000}'))
        before = web.resident_bytes()
        for round_number in range(50):
            one.sendall(text_frame(b'{"next":1}'))
            with redis.pipeline(transaction=False) as pipe:
                for number in range(1_000):
                    pipe.set(f"live:{number}", f"{round_number}" * 50)
                pipe.execute()
            rows = other.next(1)
            assert len(rows) == 1
        assert web.resident_bytes() - before < 16 << 20


def test_the_hub_says_goodbye(web):
    page = Page(web.web)
    web.stop()
    with pytest.raises(ConnectionClosed) as ended:
        page.receive()
    assert ended.value.rcvd.code == 1001


def test_client_kill_ends_a_page(web, page):
    address = "%s:%s" % page.socket.local_address[:2]
    assert web.redis().execute_command("CLIENT", "KILL", "ADDR", address) == 1
    with pytest.raises(ConnectionClosed):
        page.receive()


def test_a_plant_write_answers_when_the_plant_has(start_hub, start):
    plant = start("simulate", "mx", "--listen", "127.0.0.1:0", "--first-change", "10ms-20ms")
    address = plant.line_with("plant:").split(" on ")[1].split(",")[0]
    hub = start_web(start_hub, "--mx", address)
    page = Page(hub.web)
    page.subscribe(1, "mx:Tank1.*")
    eventually(
        lambda: page.ask("set", topic="mx:Tank1.Setpoint", value="21.5").get("reply") == "OK",
        "a write that the plant takes",
    )
    answer = page.ask("set", topic="mx:Tank1.Level", value="5")
    assert answer["code"] == "REFUSED" and "SecurityError" in answer["message"]
    page.close()


def test_the_counters_of_the_web_port_move(web, page):
    web.redis().set("live:a", 1)
    page.subscribe(1, "live:a")
    web.redis().set("live:a", 2)
    page.next(1)
    page.do("PING")
    info = web.redis().info("web")
    expected = {"web_connections": 1, "web_streams": 1, "web_subscriptions": 1, "web_topics": 1}
    assert {name: info[name] for name in expected} == expected
    assert info["web_batches"] >= 1 and info["web_rows"] >= 1 and info["web_commands"] >= 1
    page.close()
    eventually(lambda: web.redis().info("web")["web_connections"] == 0, "no connection")
    assert web.redis().info("web")["web_streams"] == 0


def test_a_view_is_a_page_of_many_topics(web, page):
    redis = web.redis()
    with redis.pipeline(transaction=False) as pipe:
        for number in range(10_000):
            pipe.hset(f"live:{number:05}", "v", number)
        pipe.execute()

    def see(condition):
        """Takes pages until one is as it is to be; returns the names in order."""
        while True:
            message = page.receive()
            assert message.get("page") == 2, message
            page.take(message)
            if "order" in message:
                see.order = message["order"]
            page.send({"next": 2})
            names = [page.names[number] for number in see.order]
            if condition(message, names):
                return names

    view = {"view": 2, "topics": ["live:*"], "rows": 3, "hz": 1000}
    page.send(view | {"sort": "v", "descending": True})
    names = see(lambda message, _: message["total"] == 10_000)
    assert names == ["live:09999", "live:09998", "live:09997"]
    assert page.rows[names[0]] == {"v": "9999"}
    redis.hset("live:00007", "v", 20_000)
    see(lambda _, names: names[0] == "live:00007")
    redis.delete("live:09999")
    see(lambda message, names: names[1] == "live:09998" and message["total"] == 9_999)
    page.send(view | {"sort": "name", "from": 5_000})
    names = see(lambda message, _: message["from"] == 5_000)
    assert names[0] == "live:05000" and len(names) == 3
    page.send(view | {"filter": "0012", "rows": 50})
    names = see(lambda message, names: "live:00120" in names)
    assert names == sorted(name for name in names if "0012" in name)
    page.send({"unsub": 2})
    while page.receive() != {"done": 2, "reply": "OK"}:
        pass
    assert page.do("PING") == "PONG"


def test_of_members_with_one_name_the_last_one_counts(web, page):
    redis = web.redis()
    redis.set("live:d", '{"a":1,"a":2}')
    page.subscribe(1, "live:d")
    assert page.rows["live:d"] == {"a": 2}
    for value, row in [('{"a":1,"a":2,"a":3}', {"a": 3}), ('{"a":2,"a":3,"a":1}', {"a": 1}),
                       ('{"a":2,"b":5,"\\u0061":4}', {"a": 4, "b": 5})]:
        redis.set("live:d", value)
        page.until(1, lambda rows: rows["live:d"] == row)
        assert json.loads(redis.get("live:d")) == row
