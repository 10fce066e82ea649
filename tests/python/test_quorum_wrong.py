"""Messages in the stream of the keys that no hub has sent, or that no hub can read."""

import pytest
import redis

from nats_servers import SERVER
from quorum_messages import damaged, put
from support import eventually
from test_quorum import (
    STREAM, Writer, assert_has, is_primary, keys, place, primary_of, servers, stream,
)
from test_quorum_losses import fault

assert servers  # A fixture.

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

def follow(hubs):
    for hub in hubs:
        eventually(lambda hub=hub: keys(hub)["role"] in ("primary", "standby"), "it follows", 30)
        assert fault(hub) == ""


def test_a_message_that_no_hub_has_sent_has_no_effect(servers, start_hub, tmp_path):
    """It stopped all hubs of the group, and none could be started again."""
    nats = servers(3)
    places = [place(tmp_path, name, nats) for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    primary = primary_of(*hubs)
    writer = Writer("w", primary)
    writer.wait_for_more()
    for message in (b"hello", b"", b"x" * 5_000):
        put(nats, message, as_hub=False)
        writer.wait_for_more()
    writer.stop()
    put(nats, b"the last one", as_hub=False)
    eventually(lambda: int(keys(primary)["sequence"]) == stream(nats)["state"]["last_seq"],
               "an idle primary passes it over")
    follow(hubs)
    assert keys(primary)["losses"] == "0" and keys(primary)["snapshot"] == "0"
    # Behind the fence, and without a primary that has the keys.
    for hub in hubs:
        hub.kill()
    put(nats, b"hello", as_hub=False)
    hubs = [start_hub("--cluster", one) for one in places]
    assert_has(primary_of(*hubs), writer)
    again = Writer("again", *hubs)
    again.wait_for_more()
    again.stop()
    assert_has(primary_of(*hubs), writer, again)


@pytest.mark.parametrize("message", [b"hello", damaged()], ids=["text", "damaged"])
def test_the_primary_stores_a_snapshot_behind_a_message_that_no_hub_can_read(
    message, servers, start_hub, tmp_path
):
    nats = servers()
    places = [place(tmp_path, name, nats) for name in "abc"]
    hubs = [start_hub("--cluster", one) for one in places[:2]]
    primary = primary_of(*hubs)
    writer = Writer("w", primary)
    writer.wait_for_more()
    wrong = put(nats, message, as_hub=True)
    writer.wait_for_more()
    writer.stop()
    assert int(keys(primary)["losses"]) == 1 and int(keys(primary)["snapshot"]) > 0
    assert any("it is passed over" in hub.stdout + hub.stderr for hub in hubs)
    eventually(lambda: stream(nats)["state"]["first_seq"] > wrong, "it is removed from the stream")
    follow(hubs)
    for hub in hubs:
        hub.kill()
    hubs = [start_hub("--cluster", one) for one in places]
    assert_has(primary_of(*hubs), writer)
    again = Writer("again", *hubs)
    again.wait_for_more()
    again.stop()
    follow(hubs)
    assert_has(primary_of(*hubs), writer, again)


def test_no_hub_takes_over_behind_a_message_that_it_cannot_read(servers, start_hub, tmp_path):
    """It may be a write that was acknowledged."""
    nats = servers()
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary = primary_of(*hubs)
    standby = hubs[1 - hubs.index(primary)]
    with primary.redis() as client:
        client.set("before", "1")
    with standby.redis() as client:
        eventually(lambda: client.get("before") == b"1", "the standby has it")
    primary.kill()
    put(nats, damaged(), as_hub=True)
    eventually(lambda: "cannot be read: wrong checksum" in fault(standby), "it says so", 60)
    assert not is_primary(standby)
    with standby.redis() as client, pytest.raises(redis.RedisError, match="are not available"):
        client.set("new", 1)
    assert STREAM == stream(nats)["config"]["name"]
