"""The panel of keys: scan, the form of each type, edits, the command line, hostile names."""

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="no Playwright").expect

ROWS = ".grid-row:not([hidden])"
HOSTILE = '<img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def keys(site):
    client = site.hub.redis()
    client.set("app:text", "hello")
    client.set("app:json", '{"rate":100}')
    client.set("app:bytes", b"\xff\x00")
    client.hset("app:hash", mapping={"name": "Ada", "role": "trader"})
    client.rpush("app:list", *[f"job {number}" for number in range(450)])
    client.sadd("app:set", "eu", "us")
    client.zadd("app:zset", {"ada": 12.5, "bob": 9})
    for number in range(70):
        client.xadd("app:stream", {"size": number})
    for number in range(2_500):
        client.set(f"many:{number:05}", "x", ex=5_000)
    for name in (HOSTILE, f"live:{HOSTILE}"):
        client.hset(name, mapping={HOSTILE: HOSTILE})
    return client


def test_keys_are_scanned_by_page_with_type_ttl_and_memory(pages, site, keys):
    page = pages.open(site.url, "keys")
    page.locator("input[type=search]").fill("app:*")
    expect(page.locator(".toolbar")).to_contain_text("8 keys")
    row = page.locator(ROWS).filter(has_text="app:zset")
    expect(row).to_contain_text("zset")
    expect(row).to_contain_text("B")
    page.get_by_label("Type", exact=True).select_option("hash")
    expect(page.locator(ROWS)).to_have_count(1)
    page.get_by_label("Type", exact=True).select_option("")
    page.locator("input[type=search]").fill("many:*")
    expect(page.locator(ROWS).first).to_contain_text("1 h")
    for _ in range(20):
        page.locator(".grid-body").press("End")
        if page.locator(".toolbar").get_by_text("2,500 keys", exact=True).count():
            break
        page.wait_for_timeout(100)
    expect(page.locator(".toolbar")).to_contain_text("2,500 keys")


@pytest.mark.parametrize("name, text", [
    ("app:text", "hello"), ("app:json", '"rate": 100'), ("app:bytes", "read only"), ("app:hash", "trader"),
    ("app:list", "job 0"), ("app:set", "eu"), ("app:zset", "12.5"), ("app:stream", "size 69"),
    ("md:RELIANCE", "read-only"),
])
def test_each_type_has_its_own_form(pages, site, keys, name, text):
    page = pages.open(site.url, f"keys/{name.replace(':', '%3A')}")
    expect(page.locator(".side h2")).to_have_text(name)
    if name == "app:text":
        expect(page.get_by_label("Value", exact=True)).to_have_value(text)
    else:
        expect(page.locator(".side")).to_contain_text(text)
    expect(page.locator(".side .pairs")).to_contain_text("Memory")


def test_a_long_list_comes_by_page(pages, site, keys):
    page = pages.open(site.url, "keys/app%3Alist")
    rows = page.locator(".side tbody tr")
    expect(rows).to_have_count(200)
    page.locator(".side").get_by_role("button", name="More").click()
    expect(rows).to_have_count(400)


def test_values_and_ttl_are_edited(pages, site, keys):
    page = pages.open(site.url, "keys/app%3Ahash")
    page.get_by_role("button", name="Edit role").click()
    page.get_by_role("textbox", name="New value").fill("analyst")
    page.keyboard.press("Enter")
    expect(page.locator(".side tbody")).to_contain_text("analyst")
    assert keys.hget("app:hash", "role") == b"analyst"
    page.get_by_placeholder("field").fill("desk")
    page.get_by_placeholder("value").fill("rates")
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".side tbody")).to_contain_text("rates")
    page.get_by_label("TTL in seconds").fill("100")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("button", name="Remove TTL")).to_be_visible()
    assert 0 < keys.ttl("app:hash") <= 100
    page.get_by_role("button", name="Remove TTL").click()
    expect(page.get_by_role("button", name="Remove TTL")).to_have_count(0)
    assert keys.ttl("app:hash") == -1


def test_a_text_is_saved_with_its_ttl(pages, site, keys):
    keys.set("edit:text", "old", ex=1_000)
    page = pages.open(site.url, "keys/edit%3Atext")
    page.get_by_label("Value", exact=True).fill("new")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    assert keys.get("edit:text") == b"new" and keys.ttl("edit:text") > 900


def test_a_key_is_deleted_after_a_question(pages, site, keys):
    keys.set("delete:me", "x")
    page = pages.open(site.url, "keys/delete%3Ame")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".side")).to_be_hidden()
    assert keys.exists("delete:me") == 0


def test_the_command_line_completes_runs_and_remembers(pages, site, keys):
    page = pages.open(site.url, "keys")
    line = page.get_by_role("combobox", name="Command")
    line.fill("hge")
    expect(page.get_by_role("option").filter(has_text="HGETALL")).to_contain_text("key")
    line.fill("hgeta")
    line.press("Tab")
    expect(line).to_have_value("HGETALL ")
    line.press_sequentially("app:zset")
    line.press("Enter")
    expect(page.get_by_role("log")).to_contain_text("WRONGTYPE")
    line.fill('SET said "a b\\n"')
    line.press("Enter")
    expect(page.get_by_role("log")).to_contain_text("OK")
    assert keys.get("said") == b"a b\n"
    line.fill("CONFIG SET requirepass hunter2x")
    expect(page.get_by_role("log")).not_to_contain_text("hunter2x")
    line.fill("")
    line.press("ArrowUp")
    expect(line).to_have_value('SET said "a b\\n"')


def test_a_hostile_name_stays_text_everywhere(pages, site, keys):
    page = pages.open(site.url, "keys")
    page.locator("input[type=search]").fill("onerror")
    row = page.locator(ROWS).filter(has_text="live:<img")
    expect(row).to_be_visible()
    row.click()
    expect(page.locator(".side h2")).to_have_text(f"live:{HOSTILE}")
    expect(page.locator(".side tbody")).to_contain_text(HOSTILE)
    line = page.get_by_role("combobox", name="Command")
    line.fill("HGETALL 'live:<img src=x onerror=\"window.hacked=1\">'")
    line.press("Enter")
    expect(page.get_by_role("log")).to_contain_text("onerror")
    page.goto(f"{site.url}/#topics")
    page.get_by_role("button", name="Live").click()
    topic = page.locator(ROWS).filter(has_text="live:<img")
    expect(topic).to_contain_text(HOSTILE)
    topic.click()
    expect(page.locator(".side h2")).to_have_text(f"live:{HOSTILE}")
    expect(page.locator(".fields")).to_contain_text(HOSTILE)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img:not(.brand img)").count() == 0
