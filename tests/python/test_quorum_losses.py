"""What NATS loses of the keys: it is healed, or said. No hub goes on with less."""

from pathlib import Path

import pytest
import redis

from nats_servers import SERVER, NatsServer
from support import Hub, RespSocket, eventually, free_ports
from quorum_messages import damaged, put
from test_quorum import STREAM, ask, is_primary, keys, place, primary_of, servers, stream

assert servers  # A fixture.

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

BUCKET = "KV_TW_tests"


def fault(hub):
    try:
        return hub.info("cluster").get("cluster_keys_fault", "")
    except (OSError, redis.ConnectionError):  # It does not listen yet.
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


def rebuild(hub):
    """Has a hub that has failed store its keys again, as soon as it knows of no other primary."""
    def is_begun():
        try:
            return hub.redis().execute_command("TIDEWIRE.KEYS", "REBUILD") == b"OK"
        except redis.ResponseError as error:
            # The lease of a hub that has failed a moment ago counts for up to 3 s.
            words = ("it is not known whether", "another hub is the primary")
            assert any(one in str(error) for one in words), error
            return False

    eventually(is_begun, "it begins", 30)
    eventually(lambda: is_primary(hub), f"it is the primary: {hub.info('cluster')}", 60)


def lose_the_end(nats):
    """The server begins again with what it had long before."""
    last = stream(nats)["state"]["last_seq"]
    assert nats[0].ask(f"$JS.API.STREAM.DELETE.{STREAM}")["success"]
    settings = {"name": STREAM, "subjects": ["tw.tests.keys.main"], "first_seq": last - 1_000}
    assert nats[0].ask(f"$JS.API.STREAM.CREATE.{STREAM}", settings)["config"]


@pytest.mark.parametrize("at_standby", [False, True])
@pytest.mark.parametrize("lose", [delete_stream, empty_nats, lose_the_end])
def test_a_hub_that_has_failed_begins_again_with_the_keys_of_its_memory(
    lose, at_standby, servers, start_hub, tmp_path
):
    """Hubs that had all keys could only be stopped, and the keys were lost with them."""
    nats = servers()
    places = [place(tmp_path, name, nats) for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    primary = primary_of(*hubs)
    standby = hubs[1 - hubs.index(primary)]
    write(primary, "k")
    with primary.redis(db=3) as client:
        client.set("elsewhere", "3", ex=1_000)
    with standby.redis(db=3) as client:
        eventually(lambda: client.get("elsewhere") == b"3", "the standby has all")
    with pytest.raises(redis.ResponseError, match="nothing is to be rebuilt"):
        primary.redis().execute_command("TIDEWIRE.KEYS", "REBUILD")
    lose(nats)
    for hub in hubs:
        eventually(lambda hub=hub: "NATS has lost data" in fault(hub), "it fails", 60)
    chosen, other = (standby, primary) if at_standby else (primary, standby)
    rebuild(chosen)
    assert fault(chosen) == ""
    assert_has(chosen, "k")
    write(chosen, "behind")

    def refusal():
        try:
            return other.redis().execute_command("TIDEWIRE.KEYS", "REBUILD")
        except redis.ResponseError as error:
            return str(error)

    eventually(lambda: "another hub is the primary" in str(refusal()), "the other is refused", 30)
    other.kill()
    again = start_hub("--cluster", places[hubs.index(other)])
    eventually(lambda: keys(again)["role"] == "standby", "it follows", 30)
    assert_has(again, "k", "behind")
    chosen.kill()
    again.kill()
    hubs = [start_hub("--cluster", one) for one in places]
    assert_has(primary_of(*hubs), "k", "behind")
    with primary_of(*hubs).redis(db=3) as client:
        assert client.get("elsewhere") == b"3" and client.ttl("elsewhere") > 800


def test_only_an_administrator_may_store_keys_again(servers, start_hub, tmp_path):
    nats = servers()
    hub = start_hub("--cluster", place(tmp_path, "a", nats))
    primary_of(hub)
    with hub.redis() as client:
        client.execute_command("ACL", "SETUSER", "ann", "on", "nopass", "~*", "+@all", "-@admin")
        client.execute_command("ACL", "SETUSER", "bob", "on", "nopass", "~*", "+@all",
                               "-@dangerous")
    for name in ("ann", "bob"):
        with hub.redis(username=name, password="x") as client:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command("TIDEWIRE.KEYS", "REBUILD")


def test_a_hub_that_had_not_loaded_all_keys_stores_none(
    servers, start_hub, tmp_path, monkeypatch
):
    nats = servers()
    (tmp_path / "keys-tests-main-a.mark").write_text(
        "the stream of the keys has had message 99\n")
    with monkeypatch.context() as patch:
        patch.setattr(Hub, "_is_ready", lambda hub: True)  # It never answers PING.
        hub = start_hub("--cluster", place(tmp_path, "a", nats))
    eventually(lambda: "NATS has lost data" in fault(hub), "it fails", 60)
    with pytest.raises(redis.ResponseError, match="had not loaded all keys"):
        hub.redis().execute_command("TIDEWIRE.KEYS", "REBUILD")


def test_a_standby_stores_its_keys_again_behind_a_message_that_it_cannot_read(
    servers, start_hub, tmp_path
):
    nats = servers()
    places = [place(tmp_path, name, nats) for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    primary = primary_of(*hubs)
    standby = hubs[1 - hubs.index(primary)]
    write(primary, "k")
    with standby.redis() as client:
        eventually(lambda: client.get("k49") == b"49", "the standby has all")
    primary.kill()
    put(nats, damaged(), as_hub=True)
    eventually(lambda: "cannot be read" in fault(standby), "it fails", 60)
    rebuild(standby)
    write(standby, "behind")
    again = start_hub("--cluster", places[hubs.index(primary)])
    eventually(lambda: keys(again)["role"] == "standby", "it follows", 30)
    assert_has(again, "k", "behind")
