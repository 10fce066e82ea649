"""Subscriptions of pages that have ended, whose names are let go turn by turn."""

import pytest

from support import eventually, free_ports
from web_client import Page


@pytest.fixture
def web(start_hub):
    port = free_ports(1)[0]
    hub = start_hub("--web", f"127.0.0.1:{port}", "--lanes", "1")
    hub.web = port
    return hub


def names_of(number):
    return [f"live:{number}:{name}" for name in range(1_000)]


def heard(redis):
    """How many channels have a subscriber."""
    return len(redis.pubsub_channels())


def ends(page, numbers):
    for number in numbers:
        page.send({"unsub": number})
    for number in numbers:
        assert page.receive() == {"done": number, "reply": "OK"}


def test_a_page_that_ended_many_names_held_the_lane_until_all_were_gone(web):
    redis = web.redis()
    page = Page(web.web)
    for number in range(1, 21):
        page.subscribe(number, *names_of(number))
    eventually(lambda: heard(redis) == 20_000, "all names have a subscriber")
    ends(page, range(1, 21))
    # They may be asked for again while they are let go, and ended again.
    page.subscribe(30, *names_of(20))
    page.subscribe(31, *names_of(1))
    ends(page, [31])
    eventually(lambda: heard(redis) == 1_000, "only those asked for again are left")
    redis.set("live:1:999", "nothing")
    redis.set("live:20:999", "new")
    assert [row[1] for row in page.next(30)] == ["live:20:999"]


def test_another_login_ends_what_the_page_follows(web):
    redis = web.redis()
    redis.execute_command("ACL SETUSER ann on >secret +@all ~* resetchannels &other:*")
    page = Page(web.web)
    for number in range(1, 6):
        page.subscribe(number, *names_of(number))
    assert page.ask("login", user="ann", password="secret")["reply"] == "OK"
    redis.set("live:1:1", "secret")
    eventually(lambda: heard(redis) == 0, "all names are let go")
    assert page.do("PING") == "PONG", "and no row has come in front of it"
