"""Log lines of the hub as a stream of web pages: rights, levels, and a page that does not ask."""

import pytest
from websockets.exceptions import InvalidStatus

from support import eventually, free_ports
from web_client import Page


@pytest.fixture
def web(start_hub):
    port = free_ports(1)[0]
    hub = start_hub("--web", f"127.0.0.1:{port}", "--lanes", "2")
    hub.web = port
    return hub


def warn(web):
    """Has the hub log a warning."""
    with pytest.raises(InvalidStatus):
        Page(web.web, origin="http://evil.example")


def take(page, number):
    """Asks for the next lines."""
    page.send({"next": number})
    message = page.receive()
    assert message["lines"] == number
    return message["rows"]


def test_log_lines_come_as_they_are_logged(web):
    page = Page(web.web)
    page.send({"log": 1, "lines": 1000})
    rows = page.receive()["rows"] or take(page, 1)
    assert {"time", "level", "target", "message"} <= set(rows[0])
    assert not any(row["level"] == "warn" for row in rows)
    warn(web)
    rows = take(page, 1)
    while not any(row["level"] == "warn" for row in rows):
        rows = take(page, 1)
    line = next(row for row in rows if row["level"] == "warn")
    assert "another host" in line["message"] and line["target"].startswith("tidewire_hub")
    # Another number begins again, and the stream goes on after its end.
    page.send({"log": 2, "level": "warn", "lines": 10})
    assert page.receive() == {"lines": 2, "rows": [line]}
    assert page.ask("unsub")["reply"] == "OK"
    page.send({"unsub": 2})
    assert page.receive() == {"done": 2, "reply": "OK"}
    assert page.do("PING") == "PONG"
    page.send({"log": 3, "level": "loud"})
    assert page.receive()["code"] == "SYNTAX"
    page.close()


def test_a_page_that_does_not_ask_for_log_lines_costs_nothing_and_is_told_of_lost_ones(web):
    page = Page(web.web)
    page.send({"log": 1, "lines": 0})
    assert page.receive() == {"lines": 1, "rows": []}
    redis = web.redis()
    redis.config_set("loglevel", "debug")
    for _ in range(700):
        web.connect(web.resp_port).close()
    # Each connection is two lines: one comes, one goes.
    eventually(lambda: int(redis.info("clients")["connected_clients"]) == 1, "all have gone")
    redis.config_set("loglevel", "warning")
    page.send({"next": 1})
    message = page.receive()
    assert len(message["rows"]) <= 1_000 and message["lost"] > 0
    page.close()


def test_the_log_needs_the_right_to_monitor(web):
    admin = web.redis()
    admin.execute_command("ACL", "SETUSER", "ann", "on", ">pw", "+@all", "-monitor", "~*", "&*")
    page = Page(web.web)
    assert page.ask("login", user="ann", password="pw")["reply"] == "OK"
    assert page.ask("log")["code"] == "NOPERM"
    assert ("command", "monitor") in {
        (entry["reason"], entry["object"]) for entry in admin.acl_log()
    }
    page.close()


def test_a_login_ends_the_log_of_the_user_before(web):
    web.redis().execute_command("ACL", "SETUSER", "ann", "on", ">pw", "+ping", "~*")
    page = Page(web.web)
    page.send({"log": 1, "lines": 0})
    assert page.receive() == {"lines": 1, "rows": []}
    assert page.ask("login", user="ann", password="pw")["reply"] == "OK"
    page.send({"next": 1})
    assert page.receive()["code"] == "ERR"
    page.close()
