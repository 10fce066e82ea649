"""Web pages among the clients: CLIENT LIST and KILL, logouts, and pages that read nothing."""

import contextlib
import json
import socket
import struct

import pytest
from websockets.exceptions import ConnectionClosed

from support import PATIENCE_S, eventually, free_ports
from web_client import Page, http


@pytest.fixture
def web(start_hub):
    port = free_ports(1)[0]
    hub = start_hub("--web", f"127.0.0.1:{port}", "--lanes", "2")
    hub.web = port
    return hub


def pages(redis):
    """The lines of CLIENT LIST about pages."""
    return [line for line in redis.client_list() if line["lib-name"] == "web"]


def ends_with(page, code):
    with pytest.raises(ConnectionClosed) as ended:
        while True:
            page.receive()
    assert ended.value.rcvd.code == code


def test_client_list_shows_pages_with_name_user_and_what_they_follow(web):
    redis = web.redis()
    redis.set("live:a", "1")
    page = Page(web.web, query="?other=1&name=wall%203+b")
    assert page.socket.remote_address[1] == web.web
    page.subscribe(1, "live:*", "live:a")
    for number in range(10):
        redis.set("live:a", number)
    eventually(lambda: [line for line in pages(redis) if int(line["conflated"]) > 0], "it counts")
    [line] = pages(redis)
    own = "%s:%s" % page.socket.local_address[:2]
    assert (line["name"], line["user"], line["addr"]) == ("wall_3_b", "default", own)
    assert (line["sub"], line["psub"], line["flags"], line["behind"]) == ("1", "1", "P", "1")
    assert int(line["tot-mem"]) > 4_096 and line["omem"] == "0"
    assert redis.execute_command("CLIENT LIST", "ID", line["id"])
    assert int(redis.info("web")["web_memory_bytes"]) >= int(line["tot-mem"])
    page.close()
    eventually(lambda: not pages(redis), "it has left")
    assert int(redis.info("web")["web_memory_bytes"]) == 0


@pytest.mark.parametrize("words", [
    lambda line: ("ID", line["id"]), lambda line: ("ADDR", line["addr"]),
    lambda line: ("TYPE", "pubsub"), lambda line: ("USER", "ann"),
])
def test_client_kill_ends_a_page_and_says_so(web, words):
    redis = web.redis()
    redis.execute_command("ACL", "SETUSER", "ann", "on", ">pw", "+@all", "~*", "&*")
    page = Page(web.web, query="?name=wall")
    assert page.ask("login", user="ann", password="pw")["reply"] == "OK"
    page.subscribe(1, "live:*")
    eventually(lambda: [one for one in pages(redis) if one["flags"] == "P"], "it is listed")
    assert redis.execute_command("CLIENT KILL", *words(pages(redis)[0])) == 1
    ends_with(page, 4001)
    eventually(lambda: int(redis.info("web")["web_streams"]) == 0, "it is gone")


def test_a_logout_ends_the_streams_of_that_login_and_no_others(web):
    web.redis().execute_command("ACL", "SETUSER", "ann", "on", ">pw", "+@all", "~*", "&*")
    cookies = []
    for _ in range(2):
        _, headers, _ = http(web.web, "POST", "/login", body=b'{"user":"ann","password":"pw"}')
        cookies.append(headers["set-cookie"].partition(";")[0])
    # Several streams, so that both lanes have some.
    mine = [Page(web.web, additional_headers={"Cookie": cookies[0]}) for _ in range(4)]
    other = Page(web.web, additional_headers={"Cookie": cookies[1]})
    logged_in = Page(web.web, additional_headers={"Cookie": cookies[0]})
    assert logged_in.ask("login", user="ann", password="pw")["reply"] == "OK"
    assert all(page.hello["user"] == "ann" for page in [*mine, other])
    assert http(web.web, "POST", "/logout", [f"Cookie: {cookies[0]}", "Content-Length: 0"])[0] == 204
    for page in mine:
        ends_with(page, 4002)
    assert other.do("PING") == "PONG" and logged_in.do("PING") == "PONG"
    other.close()
    logged_in.close()


def test_a_login_with_the_cookie_of_another_login_ends_that_one(web):
    web.redis().execute_command("ACL", "SETUSER", "ann", "on", ">pw", "+@all", "~*", "&*")
    right, wrong = (json.dumps({"user": "ann", "password": text}).encode() for text in ("pw", "no"))

    def log_in(*headers, body=right):
        status, answer, _ = http(web.web, "POST", "/login", headers, body)
        return status, answer.get("set-cookie", "").partition(";")[0]

    _, older = log_in()
    pages_of_it = [Page(web.web, additional_headers={"Cookie": older}) for _ in range(4)]
    assert log_in(f"Cookie: {older}", body=wrong)[0] == 401
    assert all(page.do("PING") == "PONG" for page in pages_of_it), "a failed login ends nothing"
    _, newer = log_in(f"Cookie: {older}")
    for page in pages_of_it:
        ends_with(page, 4002)
    sessions = [http(web.web, "GET", "/api/session", [f"Cookie: {one}"]) for one in (older, newer)]
    assert [json.loads(body)["user"] for _, _, body in sessions] == ["default", "ann"]


def open_deaf(port, *messages):
    """A page that reads nothing but the response to its request."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    one.settimeout(PATIENCE_S)
    one.connect(("127.0.0.1", port))
    one.sendall(
        b"GET /stream?name=deaf HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        b"Sec-WebSocket-Version: 13\r\n\r\n"
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += one.recv(1)
    for message in messages:
        text = json.dumps(message).encode()
        one.sendall(b"\x81\xfe" + struct.pack(">H", len(text)) + b"\0\0\0\0" + text
                    if len(text) > 125 else bytes([0x81, 0x80 | len(text)]) + b"\0\0\0\0" + text)
    return one


def test_a_page_that_never_reads_costs_bounded_memory_and_others_nothing(web):
    redis = web.redis()
    topics, value = 5_000, "x" * 100
    def write(number):
        with redis.pipeline(transaction=False) as pipe:
            for topic in range(topics):
                pipe.set(f"live:{topic}", f"{number} {value}")
            pipe.execute()
    write(0)
    redis.rpush("long", *(value for _ in range(10_000)))
    used = int(redis.info("memory")["used_memory"])
    # It asks for everything, many times.
    deaf = open_deaf(
        web.web, {"sub": 1, "topics": ["live:*"]}, {"view": 2, "topics": ["live:*"], "rows": 1000},
        {"log": 3}, *({"next": 1} for _ in range(50)),
        *({"do": 100 + number, "command": ["LRANGE", "long", 0, -1]} for number in range(60)),
    )
    page = Page(web.web)
    page.subscribe(1, "live:*")
    for number in range(1, 31):
        write(number)
        page.until(1, lambda rows: rows[f"live:{topics - 1}"]["value"].startswith(f"{number} "))
    grown = int(redis.info("memory")["used_memory"]) - used
    # Two pages of 5,000 topics, 1 MiB of output that is not read, and the reply that did not fit. It
    # asks for sixty, each of 1 MB.
    assert grown < 12 << 20, grown
    [line] = [one for one in pages(redis) if one["name"] == "deaf"]
    assert int(line["behind"]) >= topics and int(line["conflated"]) > topics
    assert int(line["tot-mem"]) > topics * 100
    deaf.close()
    page.close()
    eventually(lambda: int(redis.info("web")["web_topics"]) == 0, "no topic without a page")
    eventually(lambda: int(redis.info("memory")["used_memory"]) - used < 3 << 20, "memory is back")


def test_pages_count_in_the_memory_limit_of_clients(web):
    redis = web.redis()
    with redis.pipeline(transaction=False) as pipe:
        for topic in range(20_000):
            pipe.set(f"live:{topic}", topic)
        pipe.execute()
    page = Page(web.web)
    page.subscribe(1, "live:*")
    eventually(lambda: pages(redis) and int(pages(redis)[0]["tot-mem"]) > 2 << 20, "it is counted")
    redis.config_set("maxmemory-clients", "1mb")
    with pytest.raises(ConnectionClosed):
        while True:
            page.receive()
    assert int(redis.info("stats")["evicted_clients"]) == 1 and redis.ping()


@pytest.mark.parametrize("reads", [False, True], ids=["reads nothing", "reads"])
def test_an_evicted_page_locks_no_redis_client_out(web, reads):
    before = [web.redis() for _ in range(4)]
    assert all(redis.ping() for redis in before)
    before[0].config_set("maxmemory-clients", "1mb")
    for number in range(1, 4):
        page = Page(web.web)
        with contextlib.suppress(ConnectionClosed):
            for part in range(1, 9):
                topics = [f"live:{part}_{at}*b" for at in range(3_000)]
                page.send({"sub": part, "topics": topics})
            if reads:
                for _ in range(8):
                    page.receive()

        def is_evicted():
            # Clients that come and go: each command looks at the limit.
            with contextlib.closing(web.redis()) as fresh:
                return fresh.info("stats")["evicted_clients"] == number and fresh.ping()

        eventually(is_evicted, "the page is evicted")
        eventually(lambda: before[0].info("web")["web_streams"] == 0, "its stream has ended")
        assert before[0].info("web")["web_memory_bytes"] == 0
        assert all(redis.ping() for redis in before), "they hold little"
        page.close()
    assert before[0].info("stats")["evicted_clients"] == 3
    assert web.redis().config_set("maxmemory-clients", "0")


def test_a_limit_that_no_eviction_satisfies_lets_new_clients_in(web):
    redis = web.redis()
    redis.client_no_evict("ON")
    redis.config_set("maxmemory-clients", "1")
    assert web.redis().ping() and web.redis().config_set("maxmemory-clients", "0")
