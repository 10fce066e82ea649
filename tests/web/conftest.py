"""Fixtures of the console's tests: a hub with its page, and a headless browser."""

import mimetypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ASSETS = HERE.parent.parent / "crates/tidewire/assets/web"
sys.path.insert(0, str(HERE.parent / "python"))

from support import BINARY, Hub, Program, Simulator, eventually, free_ports  # noqa: E402

# How long a page may take on a busy machine before a test says that nothing comes.
PATIENCE_MS = 30_000
CHROMIUM = os.environ.get("TIDEWIRE_CHROMIUM") or shutil.which("chromium")
# Shows the files of the tree in place of those in the binary: no build after each change.
FROM_TREE = os.environ.get("TIDEWIRE_WEB_FROM_TREE")

# A page whose files are put in place counts as of another network than the hub.
ARGUMENTS = ["--no-sandbox", *(["--disable-features=LocalNetworkAccessChecks"] if FROM_TREE else [])]


def has_web():
    if not BINARY.is_file():
        return False
    options = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True).stdout
    return "--web" in options


class Site:
    """A hub and the address of its page. It can be stopped, and started again in its place."""

    def __init__(self, folder, *arguments, prepare=None):
        self._folder = folder
        self._arguments = arguments
        self._prepare = prepare
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.hub = None
        self.start()

    def start(self):
        place = None if self.hub is None else self.hub.resp_port
        web = ["--web", f"127.0.0.1:{self.port}"]
        self.hub = Hub(self._folder, *self._arguments, *web, resp_port=place)
        if self._prepare is not None:
            self._prepare(self.hub)

    def kill(self):
        self.hub.kill()


@pytest.fixture(scope="module")
def make_site(tmp_path_factory):
    """Starts hubs with a page, with these options."""
    if not has_web():
        pytest.skip(f"{BINARY} has no --web")
    made = []

    def make(*arguments, **options):
        site = Site(tmp_path_factory.mktemp("site"), *arguments, **options)
        made.append(site)
        return site

    yield make
    for site in made:
        site.kill()


@pytest.fixture(scope="module")
def simulator(tmp_path_factory):
    """An exchange of 300 symbols."""
    folder = tmp_path_factory.mktemp("exchange")
    exchange = Simulator(folder, "--rate", "2000", "--symbols", "300")
    yield exchange
    exchange.kill()


@pytest.fixture
def start_exchange(tmp_path):
    """Starts exchanges with these options, and ends them."""
    started = []

    def start(*options):
        started.append(Simulator(tmp_path, *options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """A scripted plant."""
    folder = tmp_path_factory.mktemp("plant")
    port = free_ports(1)[0]
    program = Program(
        folder, "simulate", "mx", "--listen", f"127.0.0.1:{port}", "--tags", "16",
        "--first-change", "10ms-20ms", "--interval", "200ms", "--names", "names.txt",
    )
    program.line_with("plant:")
    program.address = f"127.0.0.1:{port}"
    program.names = folder / "names.txt"
    yield program
    program.kill()


@pytest.fixture(scope="module")
def site(make_site, simulator, plant):
    """A hub with market topics, plant tags and keys."""
    one = make_site(
        "--source", simulator.source, "--mx", plant.address, "--mx-tags", plant.names,
        "--mx-write-timeout", "500ms",
    )
    client = one.hub.redis()
    eventually(lambda: client.execute_command("EXISTS", "md:RELIANCE"), "the first topic")
    return one


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium, or set TIDEWIRE_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install playwright")
    playwright.expect.set_options(timeout=PATIENCE_MS)
    with playwright.sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield one
        one.close()


def from_tree(route):
    """Answers with a file of the tree, under the page's policy."""
    name = route.request.url.rpartition("/")[2] or "index.html"
    route.fulfill(path=ASSETS / name, headers={
        "Content-Type": mimetypes.guess_type(name)[0] or "text/plain",
        "Content-Security-Policy": "default-src 'self'",
    })


class Pages:
    """Opens pages, and keeps what went wrong in them."""

    def __init__(self, browser):
        self._browser = browser
        self._contexts = []
        self.troubles = []

    def open(self, url, panel="topics", width=1280, height=800, theme="dark"):
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme
        )
        context.set_default_timeout(PATIENCE_MS)
        if FROM_TREE:
            context.route(re.compile(rf"{re.escape(url)}/([\w.-]*\.\w+)?$"), from_tree)
        self._contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("console", self._heard)
        page.goto(f"{url}/#{panel}")
        return page

    def _heard(self, message):
        text = message.text
        # A connection that is refused while the hub is away, and a login that fails, are expected.
        expected = "WebSocket connection" in text or "Failed to load resource" in text
        if message.type == "error" and not expected:
            self.troubles.append(text)

    def close(self):
        for context in self._contexts:
            context.close()


@pytest.fixture
def pages(browser):
    """Opens pages; a script error or a breach of the page's policy fails the test."""
    some = Pages(browser)
    yield some
    some.close()
    assert some.troubles == []
