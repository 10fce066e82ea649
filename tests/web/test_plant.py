"""The panel of plant tags: qualities, limits, and writes with their outcome."""

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="no Playwright").expect

ROWS = ".grid-row:not([hidden])"


def write(page, value):
    page.get_by_role("textbox", name="New value").fill(value)
    page.get_by_role("button", name="Write…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(value)
    dialog.get_by_role("button", name="Write", exact=True).click()


def test_tags_show_value_quality_and_time(pages, site):
    page = pages.open(site.url, "plant")
    page.locator("input[type=search]").fill("Quality.")
    expect(page.locator(ROWS)).to_have_count(3)
    expect(page.locator(ROWS).nth(0)).to_contain_text("✕ bad")
    expect(page.locator(ROWS).nth(1)).to_contain_text("✓ good")
    expect(page.locator(ROWS).nth(2)).to_contain_text("? uncertain")
    expect(page.locator(f"{ROWS} canvas").first).to_be_visible()


def test_alarms_come_from_quality_and_limits(pages, site):
    page = pages.open(site.url, "plant/mx%3ATank1.Setpoint")
    expect(page.locator(".side h2")).to_have_text("Tank1.Setpoint")
    page.get_by_role("spinbutton", name="high limit").fill("-100")
    page.get_by_role("spinbutton", name="high limit").press("Enter")
    expect(page.locator(".side .quality")).to_have_text("▲ above -100")
    page.get_by_role("button", name="Alarms").click()
    page.locator("input[type=search]").fill("Setpoint")
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator(ROWS)).to_contain_text("above -100")


def test_a_write_is_confirmed_and_shown_as_ok(pages, site):
    page = pages.open(site.url, "plant/mx%3ATank1.Setpoint")
    write(page, "21.5")
    expect(page.locator(".outcome")).to_contain_text("✓ ok")
    expect(page.locator(".side .big")).to_have_text("21.5")
    assert site.hub.redis().hget("mx:Tank1.Setpoint", "value") == b"21.5"


def test_a_write_that_is_not_confirmed_is_not_sent(pages, site):
    page = pages.open(site.url, "plant/mx%3ATank1.Setpoint")
    page.get_by_role("textbox", name="New value").fill("77")
    page.get_by_role("button", name="Write…").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".outcome")).to_have_text("")
    assert site.hub.redis().hget("mx:Tank1.Setpoint", "value") != b"77"


def test_a_refused_write_shows_the_words_of_the_plant(pages, site):
    page = pages.open(site.url, "plant/mx%3ATank1.Level")
    write(page, "5")
    expect(page.locator(".outcome")).to_contain_text("✕ refused")
    expect(page.locator(".outcome")).to_contain_text("SecurityError")


def test_a_write_without_an_answer_is_unknown(pages, site):
    page = pages.open(site.url, "plant/mx%3AFaults.Lost")
    write(page, "5")
    expect(page.locator(".outcome")).to_contain_text("? unknown")
    expect(page.locator(".outcome")).to_contain_text("may or may not")
