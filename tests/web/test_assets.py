"""What the binary carries for the page: size, policy, colours, the pinned library."""

import base64
import gzip
import hashlib
import re

import pytest

from conftest import ASSETS

SIZE_MAX = 150 * 1024
SCRIPTS = sorted(path for path in ASSETS.glob("*.js") if "min" not in path.name)


def test_everything_together_is_under_150_kb_compressed():
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in ASSETS.iterdir()}
    for name, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        print(f"{size:8,} {name}")
    print(f"{sum(sizes.values()):8,} in total")
    assert sum(sizes.values()) < SIZE_MAX


@pytest.mark.parametrize("name", ["uPlot.iife.min.js", "uPlot.min.css"])
def test_the_library_is_the_one_that_is_pinned(name):
    digest = base64.b64encode(hashlib.sha384((ASSETS / name).read_bytes()).digest()).decode()
    page = (ASSETS / "index.html").read_text()
    assert re.search(rf'{re.escape(name)}"\s+integrity="sha384-{re.escape(digest)}"', page)
    assert "MIT License" in (ASSETS / "uPlot.LICENSE").read_text()


def test_the_page_has_no_inline_script_or_style():
    page = (ASSETS / "index.html").read_text()
    assert "<style" not in page
    assert not re.search(r"\s(style|on[a-z]+)=", page)
    assert not re.search(r"<script[^>]*>(?!</script>)", page)
    assert "http:" not in page and "https:" not in page


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_data_becomes_markup_or_code(script):
    text = script.read_text()
    found = re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|\beval\(|"
        r"new Function|setAttribute\(\"(?:style|on)", text,
    )
    assert found == []


def themes():
    text = (ASSETS / "console.css").read_text()
    light = dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6})", text.split(':root[data-theme="dark"]')[0]))
    dark_part = text.split(':root[data-theme="dark"]')[1].split("}")[0]
    return {"light": light, "dark": {**light, **dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6})", dark_part))}}


def luminance(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


BACKGROUNDS = ["page", "surface", "raised", "odd", "chosen"]
TEXTS = ["text", "muted", "up", "down", "good", "warn", "bad", "accent", "violet"]
# Text on a fill of its own, and the edges of controls and lines of charts (3 to 1).
PAIRS = [
    ("on-accent", "accent", 4.5), ("on-bad", "bad-fill", 4.5), ("text", "up-light", 4.5),
    ("text", "down-light", 4.5), ("text", "warn-fill", 4.5), ("up", "up-light", 4.5),
    ("down", "down-light", 4.5), ("edge", "surface", 3), ("edge", "page", 3),
]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(theme):
    colours = themes()[theme]
    pairs = [(text, ground, 4.5) for text in TEXTS for ground in BACKGROUNDS] + PAIRS
    weak = [
        (text, ground, round(contrast(colours[text], colours[ground]), 2))
        for text, ground, least in pairs
        if contrast(colours[text], colours[ground]) < least
    ]
    assert weak == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_up_and_down_differ_for_the_colour_blind(theme):
    """In blue and yellow, which nearly all people tell apart (b of a red-green blind eye)."""
    colours = themes()[theme]

    def yellow(colour):
        red, green, blue = (int(colour[at:at + 2], 16) for at in (1, 3, 5))
        return (0.6 * red + 0.4 * green) - blue

    assert abs(yellow(colours["up"]) - yellow(colours["down"])) > 60
