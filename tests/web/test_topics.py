"""The panel of topics in a real browser."""

import re
import time

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="no Playwright").expect
from support import eventually  # noqa: E402

ROWS = ".grid-row:not([hidden])"


def names(page):
    return page.locator(f"{ROWS} .name").all_inner_texts()


def test_rows_come_in_order_and_change(pages, site):
    page = pages.open(site.url)
    expect(page.locator(".total")).to_have_text("300 topics")
    expect(page.locator(f"{ROWS} .name").first).to_have_text("AAPL")
    shown = names(page)
    assert shown == sorted(shown) and len(shown) < 80
    page.wait_for_selector(".up-a, .up-b")
    page.wait_for_selector(".down-a, .down-b")
    expect(page.locator(".state-text")).to_have_text("live")
    expect(page.locator(".figure.rate")).to_contain_text("msg/s")


def test_the_head_sorts_and_the_filter_finds(pages, site):
    page = pages.open(site.url)
    page.get_by_role("button", name="Volume").click()
    expect(page.get_by_role("columnheader", name="Volume")).to_have_attribute("aria-sort", "descending")

    def volumes():
        cells = page.locator(f"{ROWS} .cell:nth-child(8)").all_inner_texts()
        return [int(text.replace(",", "")) for text in cells if text]

    def is_sorted():
        found = volumes()
        # Rows move while they are read: nearly in order is enough, and the first is among the greatest.
        return len(found) > 20 and found[0] >= found[-1] and found[0] >= sorted(found)[-3]

    eventually(is_sorted, "rows by volume")
    page.keyboard.press("/")
    page.keyboard.type("tcs")
    expect(page.locator(".total")).to_have_text("1 topic")
    expect(page.locator(f"{ROWS} .name")).to_have_text(["TCS"])
    page.locator("input[type=search]").fill("no such name")
    expect(page.locator(".grid-empty")).to_contain_text("no such name")


def test_the_keyboard_opens_a_topic_and_closes_it(pages, site):
    page = pages.open(site.url)
    expect(page.locator(f"{ROWS} .name").first).to_have_text("AAPL")
    page.locator(".grid-body").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".grid-row.selected .name")).to_have_text("AAPL")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".grid-row.selected .name")).not_to_have_text("AAPL")
    expect(page.locator(".grid-row.selected")).to_have_count(1)
    chosen = page.locator(".grid-row.selected .name").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator(".side h2")).to_have_text(chosen)
    page.keyboard.press("Escape")
    expect(page.locator(".side")).to_be_hidden()


def test_a_topic_has_its_chart_levels_fields_and_subscribers(pages, site):
    page = pages.open(site.url, "topics/md%3ARELIANCE")
    expect(page.locator(".side .big")).to_have_text(re.compile(r"[\d,]+\.\d{2}"))
    expect(page.locator(".side canvas")).to_be_visible()
    expect(page.locator(".side .since")).to_contain_text("the hub keeps the newest values")
    expect(page.locator(".level.bid").first).to_contain_text("bid")
    expect(page.locator(".level.ask").first).to_contain_text("ask")
    fields = page.locator(".fields dt").all_inner_texts()
    assert {"bid", "ask", "last", "volume", "venue", "stale"} <= set(fields)
    expect(page.locator(".detail-head .muted")).to_contain_text("subscriber")
    page.get_by_role("button", name="1 s bars").click()
    expect(page.get_by_role("img", name="Bars of RELIANCE")).to_be_visible()


def test_topics_of_a_lost_source_are_marked(pages, make_site, start_exchange):
    exchange = start_exchange("--rate", "500", "--symbols", "20")
    site = make_site("--source", exchange.source)
    page = pages.open(site.url)
    expect(page.locator(f"{ROWS}").first).to_be_visible()
    exchange.stop()
    expect(page.locator(".mark").first).to_have_text("◌")
    expect(page.locator(".grid-row.is-old").first).to_contain_text("stale")


@pytest.mark.timeout(240)
def test_a_hundred_thousand_topics_are_some_rows_of_the_page(pages, make_site, start_exchange):
    exchange = start_exchange("--rate", "2000", "--symbols", "100000")
    site = make_site("--source", exchange.source)
    eventually(lambda: site.hub.info("topics")["market_topics"] >= 100_000, "all topics", 60)
    page = pages.open(site.url)
    begin = time.monotonic()
    expect(page.locator(".total")).to_have_text("100,000 topics", timeout=60_000)
    print(f"first rows of 100,000 topics after {time.monotonic() - begin:.2f} s")
    assert page.locator(".grid-row").count() < 80
    page.locator(".grid-body").focus()
    page.keyboard.press("End")
    expect(page.locator('[aria-rowindex="100001"]')).to_be_visible()
    expect(page.locator('[aria-rowindex="100001"] .name')).not_to_have_text("…")
    page.keyboard.press("Home")
    expect(page.locator('[aria-rowindex="2"]')).to_be_visible()
    page.locator("input[type=search]").fill("99")
    expect(page.locator(".total")).not_to_have_text("100,000 topics")
    heap = page.evaluate("performance.memory ? performance.memory.usedJSHeapSize : 0")
    assert heap < 50_000_000
