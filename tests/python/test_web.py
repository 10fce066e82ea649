"""The web port over HTTP: pages, metrics, logins, hosts and origins, hostile requests."""

import base64
import gzip
import json
import ssl

import pytest

from certificates import Authority, has_openssl
from support import command, free_ports
from web_client import Page, exchange, http
from websockets.exceptions import InvalidStatus


@pytest.fixture
def web(start_hub):
    port = free_ports(1)[0]
    hub = start_hub("--web", f"127.0.0.1:{port}", "--lanes", "2")
    hub.web = port
    return hub


def test_the_pages_are_served(web):
    status, headers, body = http(web.web, "GET", "/")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert b"Tidewire" in body and int(headers["content-length"]) == len(body)
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    status, _, _ = http(web.web, "GET", "/", [f"If-None-Match: {headers['etag']}"])
    assert status == 304
    assert http(web.web, "HEAD", "/")[2] == b""
    assert http(web.web, "GET", "/health")[2] == b"ok\n"
    assert http(web.web, "GET", "/ready")[2] == b"ready\n"
    status, headers, body = http(web.web, "GET", "/metrics")
    assert status == 200 and b"tidewire_" in body
    assert http(web.web, "GET", "/other")[0] == 404
    assert http(web.web, "GET", "/package.json")[0] == 404
    assert http(web.web, "POST", "/", body=b"x")[0] == 405


def test_files_are_sent_in_gzip_to_browsers_that_take_it(web):
    _, plain, whole = http(web.web, "GET", "/tidewire.js")
    assert "content-encoding" not in plain and plain["vary"] == "Accept-Encoding"
    status, headers, body = http(web.web, "GET", "/tidewire.js", ["Accept-Encoding: br, gzip"])
    assert status == 200 and headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == whole and len(body) < len(whole) / 2
    assert headers["etag"] != plain["etag"]
    for tag, coding, status in [(headers["etag"], "gzip", 304), (plain["etag"], "gzip", 200),
                                (plain["etag"], "gzip;q=0", 304), (headers["etag"], "br", 200),
                                # Codings have no case, and the comparison of tags is weak.
                                (headers["etag"], "GZIP", 304), (plain["etag"], "GZip; Q=0", 304),
                                ("W/" + plain["etag"], "br", 304),
                                (f'"x", W/{headers["etag"]}', "gzip", 304),
                                ("W/" + plain["etag"], "gzip", 200)]:
        ask = [f"If-None-Match: {tag}", f"Accept-Encoding: {coding}"]
        assert http(web.web, "GET", "/tidewire.js", ask)[0] == status, (tag, coding)


def test_requests_follow_each_other_on_one_connection(web):
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /health HTTP/1.0\r\n\r\n"
    answer = exchange(web.web, one * 3 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 4 and answer.endswith(b"ok\n")
    assert answer.count(b"Connection: keep-alive") == 3


@pytest.mark.parametrize("headers", [
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\nContent-Length: 0\r\n",
    "Content-Length : 0\r\n",
    "A: b\nB: c\r\n",
    "A: b\r\n c\r\n",
    "Host: other\r\n",
])
def test_a_smuggled_request_is_not_served(web, headers):
    request = f"GET /health HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
    answer = exchange(web.web, (request + "GET /ready HTTP/1.0\r\n\r\n").encode())
    assert answer.startswith(b"HTTP/1.1 400 ") and b"ready" not in answer
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("request_bytes", [
    command("PING"), b"\x00" * 100 + b"\n", b"GET / HTTP/2.0\r\n\r\n", b"x" * 5_000, b"\r\n",
    b"GET / HTTP/1.1\r\nA: " + b"b" * 10_000, b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    # Without a line end.
    b"\xff\0\0\0\0\0\0\0\x01\x7f", b"x" * 100,
])
def test_what_is_no_request_is_refused(web, request_bytes):
    answer = exchange(web.web, request_bytes)
    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505 "))
    assert http(web.web, "GET", "/health")[0] == 200


def test_a_page_of_another_host_is_refused(web):
    with pytest.raises(InvalidStatus) as refused:
        Page(web.web, origin="http://evil.example")
    assert refused.value.response.status_code == 403
    Page(web.web, origin=f"http://127.0.0.1:{web.web}").close()
    Page(web.web).close()
    status, _, _ = http(web.web, "POST", "/login", ["Origin: http://evil.example"], b"{}")
    assert status == 403


def test_a_foreign_name_of_this_machine_is_refused(web):
    for host, status in [("evil.example", 421), (f"localhost:{web.web}", 200), ("[::1]", 200)]:
        request = f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        assert exchange(web.web, request.encode()).startswith(f"HTTP/1.1 {status} ".encode())


def test_listed_pages_and_names_are_served(start_hub):
    port = free_ports(1)[0]
    start_hub("--web", f"127.0.0.1:{port}", "--web-origins", "http://wall.example,http://hub.lan:1")
    Page(port, origin="http://wall.example").close()
    answer = exchange(port, b"GET / HTTP/1.1\r\nHost: hub.lan:1\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_login_is_a_cookie_and_ends_with_its_user(web):
    admin = web.redis()
    admin.execute_command("ACL", "SETUSER", "ann", "on", ">secret", "+@all", "~*", "&*")
    admin.execute_command("CONFIG", "SET", "requirepass", "top")
    assert json.loads(http(web.web, "GET", "/api/session")[2]) == {
        "user": None, "needs_login": True,
    }
    assert http(web.web, "GET", "/metrics")[0] == 401
    status, headers, _ = http(
        web.web, "POST", "/login", body=b'{"user":"ann","password":"secret"}'
    )
    assert status == 204
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    own = [f"Cookie: a=b; {cookie.partition(';')[0]}"]
    assert json.loads(http(web.web, "GET", "/api/session", own)[2])["user"] == "ann"
    assert http(web.web, "GET", "/metrics", own)[0] == 200
    page = Page(web.web, additional_headers={"Cookie": own[0].removeprefix("Cookie: ")})
    assert page.hello["user"] == "ann" and page.do("ACL", "WHOAMI") == "ann"
    page.close()
    admin.execute_command("ACL", "DELUSER", "ann")
    assert json.loads(http(web.web, "GET", "/api/session", own)[2])["user"] is None


def test_a_logout_ends_the_login(web):
    web.redis().execute_command("ACL", "SETUSER", "ann", "on", ">secret", "+@all", "~*")
    _, headers, _ = http(web.web, "POST", "/login", body=b'{"user":"ann","password":"secret"}')
    own = [f"Cookie: {headers['set-cookie'].partition(';')[0]}"]
    foreign = [*own, "Content-Length: 0", "Origin: http://elsewhere.example"]
    assert http(web.web, "POST", "/logout", foreign)[0] == 403
    assert json.loads(http(web.web, "GET", "/api/session", own)[2])["user"] == "ann"
    status, headers, _ = http(web.web, "POST", "/logout", [*own, "Content-Length: 0"])
    assert status == 204 and "Max-Age=0" in headers["set-cookie"]
    assert json.loads(http(web.web, "GET", "/api/session", own)[2])["user"] == "default"


def test_failed_logins_are_kept_and_limited(web):
    for _ in range(10):
        status, _, body = http(
            web.web, "POST", "/login", body=b'{"user":"ann","password":"wrong"}'
        )
        assert status == 401 and json.loads(body)["code"] == "WRONGPASS"
    status, headers, _ = http(web.web, "POST", "/login", body=b'{"user":"ann","password":"x"}')
    assert status == 429 and 0 < int(headers["retry-after"]) <= 60
    entry = web.redis().acl_log()[0]
    assert entry["reason"] == "auth" and entry["username"] == "ann"
    assert http(web.web, "POST", "/login", body=b"[]")[0] == 400


def test_credentials_of_a_program_are_taken(web):
    admin = web.redis()
    admin.execute_command("ACL", "SETUSER", "bot", "on", ">pw", "+get", "~*")
    admin.execute_command("CONFIG", "SET", "requirepass", "top")
    basic = base64.b64encode(b"bot:pw").decode()
    page = Page(web.web, additional_headers={"Authorization": f"Basic {basic}"})
    assert page.hello["user"] == "bot"
    page.close()
    status, _, body = http(web.web, "GET", "/metrics", [f"Authorization: Basic {basic}"])
    assert status == 403 and b"NOPERM" in body
    wrong = base64.b64encode(b"bot:no").decode()
    with pytest.raises(InvalidStatus) as refused:
        Page(web.web, additional_headers={"Authorization": f"Basic {wrong}"})
    assert refused.value.response.status_code == 401


@pytest.mark.skipif(not has_openssl(), reason="there is no openssl")
def test_pages_are_served_with_tls(start_hub, tmp_path):
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("server", "localhost")
    port = free_ports(1)[0]
    hub = start_hub("--web-tls", f"127.0.0.1:{port}", "--tls-cert", certificate, "--tls-key", key)
    trust = ssl.create_default_context(cafile=authority.certificate)
    page = Page(port, scheme="wss", ssl=trust, origin=f"https://127.0.0.1:{port}")
    hub.redis().set("live:a", 1)
    assert page.subscribe(1, "live:a") == {"live:a": {"value": 1}}
    page.close()
    with pytest.raises(InvalidStatus):
        Page(port, scheme="wss", ssl=trust, origin=f"http://127.0.0.1:{port}")


def test_other_machines_are_served_in_clear_text_only_if_that_is_said(start):
    program = start("serve", "--web", "0.0.0.0:0")
    assert program.wait() == 2 and "--web-insecure" in program.stderr


def test_a_given_address_in_use_is_an_error(web, start):
    ports = [f"127.0.0.1:{port}" for port in free_ports(4)]
    program = start(
        "serve", "--web", f"127.0.0.1:{web.web}", "--resp", ports[0], "--zmq-pub", ports[1],
        "--zmq-pull", ports[2], "--zmq-router", ports[3], "--feed", "127.0.0.1:0",
    )
    assert program.wait() == 2 and "--web: " in program.stderr
