"""Web pages while a script runs for too long: they are told so, and may end it."""

import threading

import pytest
import redis as redis_py

from support import eventually, free_ports
from web_client import Page

ENDLESS = "while true do end"


@pytest.fixture(params=[1, 2], ids=["one lane", "two lanes"])
def web(start_hub, request):
    port = free_ports(1)[0]
    hub = start_hub(
        "--web", f"127.0.0.1:{port}", "--lanes", str(request.param), "--set",
        "busy-reply-threshold=50",
    )
    hub.web = port
    return hub


def is_busy(page):
    return page.ask("do", command=["GET", "a"]).get("code") == "BUSY"


def run_endless(web):
    """Runs a script that does not end; the list gets the error that it ends with."""
    ends = []
    def run():
        try:
            web.redis().eval(ENDLESS, 0)
        except redis_py.exceptions.RedisError as error:
            ends.append(str(error))
    thread = threading.Thread(target=run)
    thread.start()
    return thread, ends


def test_pages_are_told_that_a_script_runs_and_end_it(web):
    web.redis().execute_command("ACL", "SETUSER", "ann", "on", ">pw", "+get", "~*", "&*")
    web.redis().set("live:a", 1)
    # Several, so that each lane has some.
    pages = [Page(web.web) for _ in range(6)]
    for page in pages:
        page.subscribe(1, "live:*")
    thread, ends = run_endless(web)
    for page in pages:
        eventually(lambda: is_busy(page), "it is busy")
    # Asking for a batch is no command: it comes when there is one.
    pages[0].send({"next": 1})
    later = Page(web.web)
    assert later.hello["user"] == "default"
    assert is_busy(later)
    assert later.ask("publish", topic="a", value="b")["code"] == "BUSY"
    guest = Page(web.web)
    assert guest.ask("login", user="ann", password="pw")["reply"] == "OK"
    assert guest.ask("do", command=["SCRIPT", "KILL"])["code"] == "NOPERM"
    assert later.ask("do", command=["function", "kill"])["code"] == "BUSY"
    assert later.ask("do", command=["script", "kill"])["reply"] == "OK"
    thread.join()
    assert "killed" in ends[0].lower()
    eventually(lambda: not is_busy(later), "it is over")
    web.redis().set("live:a", 2)
    assert pages[0].receive() == {"batch": 1, "rows": [[1, {"value": 2}]]}
    assert later.subscribe(5, "live:a") == {"live:a": {"value": 2}}
    assert all(page.do("PING") == "PONG" for page in pages)
    for page in [*pages, later, guest]:
        page.close()


def test_a_page_ends_its_own_script(web):
    page, other = Page(web.web), Page(web.web)
    page.send({"do": 1, "command": ["EVAL", ENDLESS, 0]})
    eventually(lambda: is_busy(other), "the script has run for too long")
    # Its own Redis session waits for the script, and the answer comes before the script's.
    page.send({"do": 2, "command": ["SCRIPT", "KILL"]})
    assert page.receive() == {"done": 2, "reply": "OK"}
    killed = page.receive()
    assert killed["error"] == 1 and "killed" in killed["message"].lower()
    assert page.do("PING") == "PONG"
    page.close()
    other.close()
