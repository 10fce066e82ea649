"""The panel of the hub, the connection's state, logins and rights, narrow pages."""

import re

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="no Playwright").expect
from support import eventually  # noqa: E402

ROWS = ".grid-row:not([hidden])"


def test_the_hub_shows_lanes_rates_clients_and_log(pages, site):
    page = pages.open(site.url, "hub")
    expect(page.locator(".tile").first).to_contain_text("applied")
    for title in ("Lanes", "Inputs and recovery", "Clients and slow consumers", "Slow log", "Log",
                  "Replication", "Persistence", "Cluster", "Rates", "Latency", "Memory"):
        expect(page.get_by_role("region", name=title, exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Lanes")).to_contain_text("%")
    expect(page.get_by_role("region", name="Inputs and recovery")).to_contain_text("✓ 0")
    expect(page.get_by_role("region", name="Clients and slow consumers")).to_contain_text("connected")
    log = page.get_by_role("region", name="Log", exact=True)
    expect(log).to_contain_text("is serving")
    # A page of another host is refused, which the hub logs.
    page.request.post(f"{site.url}/login", headers={"Origin": "http://elsewhere.example"}, data="{}")
    expect(log.locator(".log-line.warn")).to_contain_text("another host")
    log.get_by_role("button", name="Errors").click()
    expect(log).to_contain_text("No line of this level yet")
    expect(page.get_by_role("region", name="Rates").locator("canvas")).to_be_visible()


def test_a_slow_subscriber_is_named(pages, make_site, start_exchange):
    exchange = start_exchange("--rate", "20000", "--symbols", "500")
    site = make_site("--source", exchange.source)
    slow = site.hub.connect(site.hub.resp_port, receive_buffer_bytes=4096)
    slow.sendall(b"CLIENT SETNAME sleeper\r\nPSUBSCRIBE md:*\r\n")
    page = pages.open(site.url, "hub")
    clients = page.get_by_role("region", name="Clients and slow consumers")
    sleeper = clients.locator("tr.slow").filter(has_text="sleeper")
    expect(sleeper).to_contain_text("▲ slow", timeout=60_000)
    # The page itself is one of the clients.
    expect(clients.locator("tr").filter(has_text="console")).to_contain_text("web page")


def test_the_page_stays_when_the_hub_goes_away_and_comes_back(pages, make_site, start_exchange):
    exchange = start_exchange("--rate", "500", "--symbols", "20")
    site = make_site("--source", exchange.source)
    page = pages.open(site.url)
    expect(page.locator(ROWS)).to_have_count(20)
    site.kill()
    expect(page.locator("#banner")).to_contain_text("Disconnected")
    expect(page.locator("#banner")).to_contain_text("Trying again")
    expect(page.locator(".state-text")).to_have_text("reconnecting")
    expect(page.locator(ROWS)).to_have_count(20)
    site.start()
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".state-text")).to_have_text("live")
    expect(page.locator(ROWS)).to_have_count(20)
    page.wait_for_selector(".up-a, .up-b, .down-a, .down-b")


@pytest.fixture(scope="module")
def guarded(make_site, simulator):
    """A hub whose users have passwords; `desk` may read market topics and keys under app:."""
    def add_users(hub):
        client = hub.redis()
        client.set("app:text", "hello")
        client.execute_command(
            "ACL", "SETUSER", "desk", "on", ">pass", "%R~md:*", "%R~app:*", "%R~book:*", "&md:*",
            "-@all", "+@read", "+ping", "+hello", "+subscribe", "+psubscribe",
        )
        client.config_set("requirepass", "secret")

    return make_site("--source", simulator.source, prepare=add_users)


def log_in(page, user, password):
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_a_hub_with_users_asks_for_one(pages, guarded):
    page = pages.open(guarded.url)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(page, "default", "wrong")
    expect(page.get_by_role("alert")).to_have_text("Wrong user or password.")
    log_in(page, "default", "secret")
    expect(page.locator(f"{ROWS} .name").first).to_have_text("AAPL")
    page.reload()
    expect(page.locator(f"{ROWS} .name").first).to_have_text("AAPL")
    cookies = page.context.cookies()
    assert [(one["name"], one["httpOnly"], one["sameSite"]) for one in cookies] == [("tidewire", True, "Strict")]


def test_a_user_logs_out(pages, guarded):
    page = pages.open(guarded.url)
    log_in(page, "desk", "pass")
    page.get_by_role("button", name="desk · log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.context.cookies() == []


def test_what_a_user_may_not_do_is_refused_and_said(pages, guarded):
    page = pages.open(guarded.url, "keys/app%3Atext")
    log_in(page, "desk", "pass")
    area = page.get_by_label("Value", exact=True)
    expect(area).to_have_value("hello")
    area.fill("changed")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".side .error")).to_contain_text("NOPERM")
    client = guarded.hub.redis(password="secret")
    assert client.get("app:text") == b"hello"
    assert any(entry["username"] == "desk" for entry in client.acl_log())
    page.goto(f"{guarded.url}/#hub")
    expect(page.locator(".hub > .error")).to_contain_text("may not read the figures")


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("panel, sign", [
    ("topics", ".grid-row .name"), ("topics/md%3ARELIANCE", ".side .big"), ("plant", ".quality"),
    ("plant/mx%3ATank1.Setpoint", ".side .big"), ("keys", ".grid-row .type"), ("keys/md%3ARELIANCE", ".side tbody tr"),
    ("hub", ".tile"),
])
def test_a_page_of_390_pixels_needs_no_sideways_scroll(pages, site, panel, sign, theme):
    page = pages.open(site.url, panel, width=390, height=844, theme=theme)
    page.wait_for_selector(sign)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    outside = page.evaluate("""() => [...document.querySelectorAll("button, input, a, h2, select")]
        .filter((one) => one.offsetParent && !one.closest(".scroll"))
        .filter((one) => one.getBoundingClientRect().right > 391).map((one) => one.outerHTML.slice(0, 80))""")
    assert outside == []


def test_the_theme_is_chosen_and_remembered(pages, site):
    page = pages.open(site.url)
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_the_number_keys_change_the_panel(pages, site):
    page = pages.open(site.url)
    for key, name in (("2", "Plant"), ("3", "Keys"), ("4", "Hub"), ("1", "Topics")):
        page.keyboard.press(key)
        expect(page.locator(".tab[aria-current]")).to_have_text(name)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_page_policy_forbids_other_sources(pages, site):
    page = pages.open(site.url)
    answer = page.request.get(site.url)
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    eventually(lambda: page.locator(ROWS).count() > 0, "rows under this policy")
