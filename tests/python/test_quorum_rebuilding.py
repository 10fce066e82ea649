"""Keys stored again at several hubs, and the note of what the stream has had."""

import threading

import pytest
import redis

from nats_servers import SERVER
from support import Hub, eventually
from test_quorum import STREAM, is_primary, keys, place, primary_of, servers, stream
from test_quorum_losses import (
    BUCKET, assert_has, done, empty_nats, fault, lose_the_end, rebuild, write,
)

assert servers  # A fixture.

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

# Why a hub stores no keys now, and may a moment later.
NOT_NOW = ("it is not known whether", "another hub is the primary", "the keys are not stored again")


def rebuild_all(hubs):
    """Has all hubs store their keys again at once. Returns the errors, None for OK."""
    answers = [None] * len(hubs)

    def rebuild(at):
        try:
            with hubs[at].redis() as client:
                assert client.execute_command("TIDEWIRE.KEYS", "REBUILD") == b"OK"
        except redis.ResponseError as error:
            answers[at] = str(error)

    threads = [threading.Thread(target=rebuild, args=(at,)) for at in range(len(hubs))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return answers


@pytest.mark.parametrize("has_bucket", [True, False])
def test_two_hubs_that_store_their_keys_at_once_lose_no_write_of_the_faster_one(
    has_bucket, servers, start_hub, tmp_path
):
    """Both said OK. The slower one then emptied the stream of the faster one, which had died."""
    nats = servers()
    places = [place(tmp_path, name, nats) for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    write(primary_of(*hubs), "k")
    eventually(lambda: len({keys(hub)["durable"] for hub in hubs}) == 1, "both have all")
    empty_nats(nats)
    for hub in hubs:
        eventually(lambda hub=hub: "NATS has lost data" in fault(hub), "it fails", 60)

    def is_begun():
        # A hub that fails gives its lease back; the bucket may be gone already.
        if not has_bucket and not stream(nats, BUCKET).get("error"):
            done(nats, f"$JS.API.STREAM.DELETE.{BUCKET}")
        found.append(rebuild_all(hubs))
        for answer in found[-1]:
            assert answer is None or any(words in answer for words in NOT_NOW), answer
        return None in found[-1]

    found = []
    eventually(is_begun, "one begins", 60)
    assert found[-1].count(None) == 1, found
    chosen = hubs[found[-1].index(None)]
    other = hubs[1 - hubs.index(chosen)]
    eventually(lambda: is_primary(chosen), f"it is the primary: {chosen.info('cluster')}", 60)
    write(chosen, "behind")
    assert keys(other)["role"] == "failed", other.info("cluster")
    if NOT_NOW[-1] in found[-1][hubs.index(other)]:
        assert NOT_NOW[-1] in str(other.info("cluster")["cluster_keys_last_error"])
    chosen.kill()
    other.kill()
    again = start_hub("--cluster", places[hubs.index(other)])
    assert_has(primary_of(again), "k", "behind")


def test_no_keys_are_stored_again_while_another_hub_can_go_on(servers, start_hub, tmp_path):
    """The lease of a primary that has died is free for a moment, before a standby has it."""
    nats = servers()
    places = [place(tmp_path, name, nats) for name in "abc"]
    hubs = [start_hub("--cluster", one) for one in places[:2]]
    write(primary_of(*hubs), "k")
    eventually(lambda: len({keys(hub)["durable"] for hub in hubs}) == 1, "both have all")
    empty_nats(nats)
    for hub in hubs:
        eventually(lambda hub=hub: "NATS has lost data" in fault(hub), "it fails", 60)
    first, second = hubs

    def refusal(hub):
        return rebuild_all([hub])[0]

    eventually(lambda: refusal(first) is None, "it begins", 60)
    eventually(lambda: is_primary(first), f"it is the primary: {first.info('cluster')}", 60)
    standby = start_hub("--cluster", places[2])
    write(first, "behind")
    eventually(lambda: keys(standby)["durable"] == keys(first)["durable"], "it has all", 30)
    first.kill()
    while not is_primary(standby):
        text = refusal(second)
        # It may be the primary since.
        assert any(words in text for words in NOT_NOW) or is_primary(standby), text
    assert_has(standby, "k", "behind")
    assert keys(second)["role"] == "failed"


def test_a_hub_that_ended_before_it_had_emptied_the_stream_has_its_keys(
    servers, start_hub, tmp_path, monkeypatch
):
    """Its snapshot had all keys, and the stream ended before it: no hub could go on."""
    nats = servers()
    hub = start_hub("--cluster", place(tmp_path, "a", nats))
    write(primary_of(hub), "k")
    done(nats, f"$JS.API.STREAM.PURGE.{STREAM}")
    eventually(lambda: int(keys(hub)["snapshot"]) > 0, "a snapshot is stored", 30)
    hub.kill()
    lose_the_end(nats)
    with monkeypatch.context() as patch:
        patch.setattr(Hub, "_is_ready", lambda hub: True)  # It never answers PING.
        hub = start_hub("--cluster", place(tmp_path, "a", nats))
    eventually(lambda: "NATS has lost data" in fault(hub), "it fails", 60)
    rebuild(hub)
    assert_has(hub, "k")
    write(hub, "behind")


def test_a_mark_that_cannot_be_written_is_shown_as_a_fault(servers, start_hub, tmp_path):
    """Only the log said so, once."""
    nats = servers()
    hub = start_hub("--cluster", place(tmp_path, "a", nats))
    write(primary_of(hub), "k")
    mark = tmp_path / "keys-tests-main-a.mark"

    def noted():
        return int(mark.read_text().split()[-1]) if mark.is_file() else 0

    eventually(lambda: noted() == stream(nats)["state"]["last_seq"], "all is noted")
    assert hub.info("cluster")["cluster_keys_mark_fault"] == ""
    mark.unlink()
    mark.mkdir()
    write(hub, "more")
    eventually(lambda: "keys-tests-main-a.mark" in hub.info("cluster")["cluster_keys_mark_fault"],
               "it is a fault")
    mark.rmdir()
    eventually(lambda: noted() == stream(nats)["state"]["last_seq"], "it is noted again")
    eventually(lambda: hub.info("cluster")["cluster_keys_mark_fault"] == "", "no fault is left")
