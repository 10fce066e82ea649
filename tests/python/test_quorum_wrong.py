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


def test_a_standby_failed_at_a_message_of_the_primary_that_was_damaged_on_the_disk(
    servers, start_hub, tmp_path
):
    """The primary did not read it, and NATS leaves it out without a word."""
    nats = servers()
    places = [place(tmp_path, name, nats) for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    primary = primary_of(*hubs)
    standby = 1 - hubs.index(primary)
    with primary.redis() as client:
        for number in range(50):
            client.set(f"key{number}", f"value{number}")
    hubs[standby].kill()
    nats[0].stop()
    damage(nats[0], b"value20")
    nats[0].start()
    with primary.redis() as client:
        eventually(lambda: set_(client, "behind", "1"), "it writes again", 30)
    assert keys(primary)["losses"] == "0"
    hub = start_hub("--cluster", places[standby])
    eventually(lambda: keys(hub)["role"] == "standby" or fault(hub), "it follows", 60)
    assert fault(hub) == "" and keys(primary)["losses"] == "1"
    for one in (primary, hub):
        with one.redis() as client:
            assert client.get("key20") == b"value20" and client.get("behind") == b"1"
    # And without the one that had them in memory.
    primary.kill()
    eventually(lambda: is_primary(hub), "it takes over", 30)
    with hub.redis() as client:
        eventually(lambda: set_(client, "new", "1"), "it writes", 30)
        assert client.get("key20") == b"value20"


def set_(client, name, value):
    try:
        return client.set(name, value)
    except redis.RedisError:
        return False


def damage(server, content):
    """Changes a byte of a stored message in the files of a server that does not run."""
    found = [file for file in server.files()
             if file.suffix == ".blk" and STREAM in str(file) and content in file.read_bytes()]
    assert len(found) == 1, found
    data = bytearray(found[0].read_bytes())
    data[data.index(content)] ^= 1
    found[0].write_bytes(data)
