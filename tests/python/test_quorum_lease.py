"""The bucket of leases: its settings, and what is in it that no hub has written."""

import socket

import pytest

from nats_servers import SERVER, NatsServer
from support import eventually, free_ports
from test_cluster_names import BUCKET, change, config_of
from test_quorum import (
    Writer, assert_has, is_primary, keys, place, primary_of, servers,
)

assert servers  # A fixture.

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

LEASE = "$KV.TW_tests.keys.main"
EDITS = {
    "100ms": {"max_age": 10**8, "duplicate_window": 10**8},
    "never": {"max_age": 0},
    "1h": {"max_age": 3_600 * 10**9},
    "subjects": {"subjects": ["$KV.other.>"]},
    "size": {"max_msg_size": 10},
    "unanswered": {"no_ack": True},
}


def last_error(hub):
    return hub.info("cluster").get("cluster_keys_last_error", "")


def reply_to(server, subject, payload, reply):
    """Has NATS answer a request on a subject, as any client with the right to ask can."""
    with socket.create_connection(("127.0.0.1", server.port), 5) as one:
        text = f"PUB {subject} {reply} {len(payload)}\r\n{payload}\r\nPING\r\n"
        one.sendall(('CONNECT {"verbose":false}\r\n' + text).encode())
        file = one.makefile("rb")
        while (line := file.readline()) != b"PONG\r\n":
            assert line and not line.startswith(b"-ERR"), line


@pytest.mark.parametrize("edit", EDITS)
def test_a_bucket_of_leases_that_was_changed_made_two_primaries_or_none(
    edit, servers, start_hub, tmp_path
):
    (nats,) = servers()
    hubs = [start_hub("--cluster", place(tmp_path, name, [nats])) for name in "ab"]
    primary_of(*hubs)
    eventually(lambda: {keys(hub)["role"] for hub in hubs} == {"primary", "standby"}, "both follow")
    before = config_of(nats, BUCKET)
    writer = Writer("w", *hubs)
    writer.wait_for_more()
    change(nats, BUCKET, **EDITS[edit])

    def is_right():
        assert not all(is_primary(hub) for hub in hubs)
        return config_of(nats, BUCKET) == before

    eventually(is_right, "the bucket is right again")

    def one_is_primary():
        roles = [is_primary(hub) for hub in hubs]
        assert not all(roles)
        return any(roles)

    eventually(one_is_primary, "one is the primary", 30)
    writer.wait_for_more()
    primary = primary_of(*hubs)
    primary.kill()
    (other,) = (hub for hub in hubs if hub is not primary)
    primary_of(other)
    writer.wait_for_more()
    writer.stop()
    assert_has(other, writer)


def test_a_primary_whose_bucket_is_wrong_and_stays_so_acknowledged_writes(start_hub, tmp_path):
    """The hubs' user may not change the bucket."""
    config = tmp_path / "nats.conf"
    config.write_text("""
        accounts: { TESTS: { jetstream: enabled, users: [
            { user: hub, password: p, permissions: {
                publish: { deny: ["$JS.API.STREAM.UPDATE.KV_TW_tests"] } } }
            { user: admin, password: p }
        ] } }
        no_auth_user: admin
    """)
    nats = NatsServer(tmp_path, *free_ports(1), options=["-c", config])
    try:
        (tmp_path / "password").write_text("p\n")
        login = f"user = 'hub'\npassword-file = '{tmp_path / 'password'}'"
        hubs = [start_hub("--cluster", place(tmp_path, name, [nats], login)) for name in "ab"]
        writer = Writer("w", primary_of(*hubs))
        writer.wait_for_more()
        writer.stop()
        change(nats, BUCKET, max_age=10**8, duplicate_window=10**8)
        right = "$JS.API.STREAM.UPDATE.KV_TW_tests"

        def none_is_primary():
            roles = [is_primary(hub) for hub in hubs]
            assert not all(roles)
            return not any(roles) and all(right in last_error(hub) for hub in hubs)

        eventually(none_is_primary, "no hub is the primary, and both say why", 30)
        change(nats, BUCKET, max_age=3 * 10**9, duplicate_window=3 * 10**9)
        assert_has(primary_of(*hubs), writer)
    finally:
        nats.kill()


def test_a_sealed_bucket_of_leases_was_not_named(servers, start_hub, tmp_path):
    (nats,) = servers()
    hub = start_hub("--cluster", place(tmp_path, "a", [nats]))
    primary_of(hub)
    change(nats, BUCKET, sealed=True)
    eventually(lambda: f"stream {BUCKET} is sealed" in last_error(hub), "it says so")
    eventually(lambda: not is_primary(hub), "it is no primary")
    # The hubs make it again, if an administrator deletes it.
    assert nats.ask(f"$JS.API.STREAM.DELETE.{BUCKET}").get("success")
    primary_of(hub)


@pytest.mark.parametrize("subject, payload", [
    (f"$JS.API.STREAM.INFO.{BUCKET}", ""),
    (f"$JS.API.STREAM.MSG.GET.{BUCKET}", f'{{"last_by_subj":"{LEASE}"}}'),
    (f"$JS.API.DIRECT.GET.{BUCKET}", f'{{"last_by_subj":"{LEASE}"}}'),
])
def test_an_answer_of_nats_in_place_of_the_lease_stopped_the_primary(
    subject, payload, servers, start_hub, tmp_path
):
    (nats,) = servers()
    hubs = [start_hub("--cluster", place(tmp_path, name, [nats])) for name in "ab"]
    primary = primary_of(*hubs)
    eventually(lambda: {keys(hub)["role"] for hub in hubs} == {"primary", "standby"}, "both follow")
    reigns = keys(primary)["reigns"]
    writer = Writer("w", primary)

    def last_lease():
        return nats.ask(f"$JS.API.STREAM.MSG.GET.{BUCKET}", {"last_by_subj": LEASE})["message"]

    for _ in range(10):
        reply_to(nats, subject, payload, LEASE)
        written = last_lease()["seq"]
        eventually(lambda written=written: last_lease()["seq"] > written, "it is written over")
        writer.wait_for_more(1)
        assert is_primary(primary)
    writer.stop()
    assert keys(primary)["reigns"] == reigns
    assert_has(primary, writer)
