"""Bars of a recorded run, and of the replay of its recording."""

import pytest

from feed_client import CONTROL, LIVE, PREFIX, FeedClient, definition, login, trade
from support import eventually

UNIT = 10**9
# An hour of 2023: history, which no wall clock ends.
START = 1_703_001_600 * UNIT
NAMES = ["bar:1h:S", "bar:1h:S@XNAS", "bar:1h:S@XNYS"]


class Publisher:
    """A publisher of the symbol S at one venue."""

    def __init__(self, hub, session, venue):
        self.session, self.sequence = session, 1
        self.client = FeedClient(hub.connect(hub.feed_port))
        self.client.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1))
        self.client.until(lambda: self.client.accepted)
        self.send(PREFIX.pack(0x32, 0, 0, 0, 0) + venue.ljust(32, b"\0"), definition(1, "S"))

    def send(self, *messages):
        self.client.send(LIVE, self.sequence, *messages, session=self.session)
        self.sequence += len(messages)

    def trades(self, *seconds):
        self.send(*(trade(1, (10 + at) * UNIT, 1 + at, START + at * UNIT) for at in seconds))


def bars(hub):
    """The bars of all names, without what each hub numbers for itself."""
    found = {name: hub.hash(name) for name in NAMES}
    for bar in found.values():
        bar.pop("seq", None)
    return found


@pytest.mark.parametrize("kind", ["pattern", "channels"])
def test_a_replay_gives_the_bars_of_the_run_that_was_recorded(start, start_hub, tmp_path, kind):
    """The bar of the first venue began again, as a partial one, when the second venue came."""
    recording = tmp_path / "stream.rec"
    wanted = {"patterns": ["bar:1h:*"]} if kind == "pattern" else {}
    channels = NAMES if kind == "channels" else []
    live = start_hub("--record", recording)
    live.subscriber(*channels, **wanted)
    one, two = Publisher(live, 1, b"XNAS"), Publisher(live, 2, b"XNYS")
    volume = 0
    for publisher, seconds in [(one, [1, 2, 3]), (two, [4]), (one, [5]), (two, [6, 7])]:
        publisher.trades(*seconds)
        volume += sum(1 + at for at in seconds)
        eventually(lambda: live.hash("md:S").get("volume") == str(volume), "the trades")
    expected = bars(live)
    assert [expected[name]["trades"] for name in NAMES] == ["7", "4", "3"]
    assert {bar["partial"] for bar in expected.values()} == {"0"}
    live.stop()
    again = start_hub()
    again.subscriber(*channels, **wanted)
    program = start(
        "replay", recording, "--to", f"127.0.0.1:{again.feed_port}", "--speed", "max"
    )
    assert program.wait() == 0, program.stderr
    assert bars(again) == expected


def test_bars_read_under_the_only_venue_s_name_go_on_when_a_second_one_comes(hub):
    """They began again, as partial ones, unless a client had subscribed to them."""
    one, two = Publisher(hub, 1, b"XNAS"), Publisher(hub, 2, b"XNYS")
    one.trades(1)
    eventually(lambda: hub.hash("md:S").get("trades") == "1", "the trade")
    assert hub.hash("bar:1h:S@XNAS") == {"trades": "0"}
    one.trades(2, 3)
    eventually(lambda: hub.hash("bar:1h:S@XNAS")["trades"] == "2", "its next ones")
    two.trades(4)
    eventually(lambda: hub.hash("md:S").get("trades") == "4", "the other venue's trade")
    one.trades(5)
    eventually(lambda: hub.hash("md:S").get("trades") == "5", "the fifth")
    found = bars(hub)
    assert (found["bar:1h:S"]["trades"], found["bar:1h:S@XNAS"]["trades"]) == ("4", "3")
    assert found["bar:1h:S@XNAS"]["partial"] == "1", "the first trade came before any reading"
