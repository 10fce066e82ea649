"""What NATS loses of the keys: it is healed, or said. No hub goes on with less."""

from pathlib import Path

import pytest
import redis

from nats_servers import SERVER, NatsServer
from support import Hub, RespSocket, eventually, free_ports
from test_quorum import STREAM, ask, is_primary, keys, place, primary_of, servers, stream

assert servers  # A fixture.

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

BUCKET = "KV_TW_tests"


def fault(hub):
    try:
        return hub.info("cluster").get("cluster_keys_fault", "")
    except redis.ConnectionError:  # It does not listen yet.
        return ""


def write(hub, prefix, count=50):
    with hub.redis() as client:
        for number in range(count):
            client.set(f"{prefix}{number}", number)


def assert_has(hub, *prefixes):
    with hub.redis() as client:
        for prefix in prefixes:
            for number in range(50):
                assert client.get(f"{prefix}{number}") == str(number).encode(), (prefix, number)


def done(nats, subject, body=b""):
    answer = ask(nats, subject, body)
    assert answer.get("success"), answer


def delete_stream(nats):
    done(nats, f"$JS.API.STREAM.DELETE.{STREAM}")


def empty_nats(nats):
    for server in nats:
        server.kill()
        server.empty_disk()
        server.start()


@pytest.mark.parametrize("lose", [delete_stream, empty_nats])
def test_no_hub_begins_without_the_keys_that_nats_has_lost(
    lose, servers, start_hub, tmp_path, monkeypatch
):
    """A hub that started made the stream, was the primary without keys, and acknowledged."""
    nats = servers()
    places = [place(tmp_path, name, nats) for name in "abc"]
    hubs = [start_hub("--cluster", one) for one in places[:2]]
    primary = primary_of(*hubs)
    write(primary, "k")
    standby = next(hub for hub in hubs if hub is not primary)
    again = places[hubs.index(standby)]
    eventually(lambda: list(tmp_path.glob("keys-tests-main-*.mark")), "it is noted")
    lose(nats)
    standby.kill()
    # One knows by its folder that there were keys, one by the hub that runs.
    with monkeypatch.context() as patch:
        # They never answer PING.
        patch.setattr(Hub, "_is_ready", lambda hub: True)
        hubs = [primary, start_hub("--cluster", again), start_hub("--cluster", places[2])]
    for hub in hubs:
        eventually(lambda hub=hub: "NATS has lost data" in fault(hub), "it says so", 60)
        assert keys(hub)["role"] == "failed"
        with hub.redis() as client, pytest.raises(redis.RedisError):
            client.set("new", 1)
    assert stream(nats).get("error", {}).get("err_code") == 10059, "the stream is not made"
    # The documented way to begin again.
    for hub in hubs:
        hub.kill()
    for file in tmp_path.glob("keys-tests-main-*.mark"):
        file.unlink()
    hubs = [start_hub("--cluster", one) for one in places]
    write(primary_of(*hubs), "new")
    assert stream(nats)["state"]["first_seq"] > 10**13


@pytest.mark.parametrize(("request_", "body"), [
    ("PURGE", b""), ("PURGE", b'{"keep":3}'), ("MSG.DELETE", b'{"seq":%d}'),
])
def test_keys_that_only_the_primary_has_are_stored_before_more_is_acknowledged(
    request_, body, servers, start_hub, tmp_path
):
    """The primary went on; what it acknowledged was gone with it."""
    nats = servers()
    places = [place(tmp_path, name, nats) for name in "abc"]
    hubs = [start_hub("--cluster", one) for one in places[:2]]
    primary = primary_of(*hubs)
    write(primary, "before")
    if b"%d" in body:
        body = body % (stream(nats)["state"]["first_seq"] + 20)
    done(nats, f"$JS.API.STREAM.{request_}.{STREAM}", body)
    eventually(lambda: int(keys(primary)["snapshot"]) > 0, "a snapshot is stored", 30)
    assert int(keys(primary)["losses"]) == 1 and is_primary(primary)
    write(primary, "behind")
    for hub in hubs:
        assert fault(hub) == ""
        hub.kill()
    hubs = [start_hub("--cluster", one) for one in places]
    assert_has(primary_of(*hubs), "before", "behind")
    for hub in hubs:
        eventually(lambda hub=hub: keys(hub)["role"] in ("primary", "standby"), "it follows", 30)
        assert_has(hub, "before", "behind")


def test_snapshots_that_are_lost_are_stored_again(servers, start_hub, tmp_path):
    nats = servers()
    place_ = place(tmp_path, "a", nats, "keys-snapshot-megabytes = 1")
    hub = start_hub("--cluster", place_)
    primary_of(hub)
    write(hub, "k")
    with hub.redis() as client:
        for round_ in range(3):
            before = int(keys(hub)["snapshot"])
            client.set("long", bytes([65 + round_]) * 1_100_000)
            eventually(lambda: int(keys(hub)["snapshot"]) > before, "a snapshot is stored", 30)
    eventually(lambda: stream(nats)["state"]["messages"] < 50, "the stream is trimmed")
    done(nats, "$JS.API.STREAM.PURGE.TW_tests_KEYSNAP_main", b'{"keep":1}')
    eventually(lambda: keys(hub)["losses"] == "1", "it sees that", 30)
    eventually(lambda: stream(nats, "TW_tests_KEYSNAP_main")["state"]["messages"] >= 3,
               "a snapshot is stored again", 30)
    write(hub, "behind")
    hub.kill()
    hub = start_hub("--cluster", place_)
    primary_of(hub)
    assert_has(hub, "k", "behind")


def test_a_bucket_of_leases_that_was_deleted_is_made_again(servers, start_hub, tmp_path):
    """There was no primary until a hub was restarted, and the bucket began with revision 1."""
    nats = servers()
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary = primary_of(*hubs)
    write(primary, "before")
    epoch = int(keys(primary)["epoch"])
    done(nats, f"$JS.API.STREAM.DELETE.{BUCKET}")
    eventually(lambda: not any(map(is_primary, hubs)), "the lease ends", 30)
    primary = primary_of(*hubs)
    write(primary, "behind")
    assert_has(primary, "before", "behind")
    assert int(keys(primary)["epoch"]) > epoch > 10**13
    assert stream(nats, BUCKET)["config"]["first_seq"] > 10**13


def test_writes_longer_than_the_servers_take_are_stored_in_parts(start_hub, tmp_path):
    """One such write blocked all clients of the group, and no snapshot could be stored."""
    settings = tmp_path / "nats.conf"
    settings.write_text("max_payload: 65536\n")
    nats = [NatsServer(tmp_path, *free_ports(1), ["-c", settings])]
    try:
        places = [place(tmp_path, name, nats, "keys-snapshot-megabytes = 1") for name in "ab"]
        hubs = [start_hub("--cluster", one) for one in places]
        primary = primary_of(*hubs)
        standby = hubs[1 - hubs.index(primary)]
        with primary.resp() as one:
            one.settimeout(60)
            client = RespSocket(one)
            assert client.call("SET", "long", "x" * 1_100_000) == b"OK"
            assert client.call("SET", "short", "y") == b"OK"
        with standby.redis() as other:
            eventually(lambda: other.get("short") == b"y", "the standby has it")
            assert other.strlen("long") == 1_100_000
        eventually(lambda: int(keys(primary)["snapshot"]) > 1_000_000, "a snapshot is stored", 90)
    finally:
        nats[0].kill()


def test_a_hub_without_replicas_in_its_file_does_not_lower_the_copies(
    servers, start_hub, tmp_path
):
    nats = servers(3)
    primary_of(start_hub("--cluster", place(tmp_path, "a", nats)))
    file = place(tmp_path, "b", nats)
    path = Path(file)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(one for one in lines if not one.startswith("replicas")) + "\n")
    hub = start_hub("--cluster", file)
    eventually(lambda: keys(hub)["role"] == "standby", "it follows", 30)
    for name in (STREAM, BUCKET, "TW_tests_KEYSNAP_main"):
        assert stream(nats, name)["config"]["num_replicas"] == 3, name
