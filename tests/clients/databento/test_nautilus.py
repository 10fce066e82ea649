"""NautilusTrader's Databento adapter, unmodified."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_records import ES, needs_es

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nautilus_trader") is None, reason="nautilus_trader is not installed"
)
ISOLATED = ["unshare", "--map-root-user", "--mount", "--net"]


def has_namespaces():
    try:
        return subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


needs_namespaces = pytest.mark.skipif(
    not has_namespaces(), reason="this machine lets no user make namespaces"
)


def session(*arguments):
    script = Path(__file__).with_name("nautilus_session.py")
    done = subprocess.run(
        [*ISOLATED, sys.executable, str(script), *map(str, arguments)], capture_output=True,
        text=True, timeout=110, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@needs_namespaces
def test_definitions_quotes_and_trades_of_all_symbols_are_decoded():
    found, said = session("XNAS.ITCH")
    assert found["running"] and len(found["counts"]) == 6, said
    for counts in found["counts"].values():
        assert counts["Equity"] and counts["QuoteTick"] and counts["TradeTick"], (found, said)


@needs_namespaces
@needs_es
def test_a_future_without_a_definition_of_its_source_is_decoded():
    found, said = session("GLBX.MDP3", ES)
    assert found["running"] and found["counts"]["ESH4"]["FuturesContract"], (found, said)
