"""Keys in a quorum while the disks of NATS are full, are synced for each message, or are lost."""

import json

import pytest
import redis

from nats_servers import SERVER, NatsServer, are_whole, leader, three_servers
from support import Hub, eventually, free_ports
from test_quorum import (
    STREAM, Writer, ask, assert_has, keys, place, primary_of, servers, stream,
)
from test_quorum_losses import fault

assert servers  # A fixture.

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")


def told(hub, words):
    """Waits until INFO says this about NATS."""
    def last_error():
        try:
            return str(hub.info("cluster").get("cluster_keys_last_error", ""))
        except (OSError, redis.ConnectionError):  # It does not listen yet.
            return ""

    eventually(lambda: words in last_error(), f"'{words}' in '{last_error()}'", 60)


def test_acknowledged_writes_outlive_all_processes_with_sync_interval_always(
    start_hub, tmp_path
):
    settings = tmp_path / "nats.conf"
    settings.write_text("jetstream { sync_interval: always }\n")
    nats = three_servers(tmp_path, options=["-c", settings])
    try:
        places = [place(tmp_path, name, nats) for name in "ab"]
        hubs = [start_hub("--cluster", one) for one in places]
        primary_of(*hubs)
        writers = [Writer(f"w{number}", *hubs) for number in range(4)]
        for writer in writers:
            writer.wait_for_more()
        for process in (*nats, *hubs):
            process.kill()
        for writer in writers:
            writer.stop()
        for server in nats:
            server.start()
        hubs = [start_hub("--cluster", one) for one in places]
        assert_has(primary_of(*hubs), *writers)
        again = Writer("again", *hubs)
        again.wait_for_more()
        again.stop()
        assert_has(primary_of(*hubs), *writers, again)
    finally:
        for server in nats:
            server.kill()


@pytest.mark.parametrize("is_leader", [False, True])
def test_writes_go_on_when_one_of_three_servers_is_killed(
    is_leader, servers, start_hub, tmp_path
):
    nats = servers(3)
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary_of(*hubs)
    writers = [Writer(f"w{number}", *hubs) for number in range(4)]
    for writer in writers:
        writer.wait_for_more()
    leads = eventually(lambda: leader(nats, STREAM), "one leads")
    killed = next(server for server in nats if (server is leads) == is_leader)
    killed.kill()
    for writer in writers:
        writer.wait_for_more(patience_s=60)
    killed.start()
    eventually(lambda: are_whole(nats, STREAM), "the server has all again", 60)
    for writer in writers:
        writer.wait_for_more(patience_s=60)
        writer.stop()
    assert_has(primary_of(*hubs), *writers)


@pytest.mark.parametrize("count", [1, 3])
def test_no_acknowledged_write_is_lost_when_the_disks_are_full(
    count, servers, start_hub, tmp_path
):
    nats = servers(count)
    places = [place(tmp_path, name, nats) for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    primary_of(*hubs)
    writers = [Writer(f"w{number}", *hubs) for number in range(2)]
    for writer in writers:
        writer.wait_for_more()
    for server in nats:
        server.fill_disk()
    for writer in writers:
        eventually(lambda writer=writer: any("CLUSTERDOWN" in str(one) for one in writer.refused),
                   f"it is told: {writer.refused[-3:]}", 60)
    # A server that could not write does not use its files any more until it is started again.
    for server in nats:
        server.fill_disk(False)
    for server in nats:
        server.kill()
    for server in nats:
        server.start()
    for writer in writers:
        writer.wait_for_more(patience_s=90)
        writer.stop()
    assert [fault(hub) for hub in hubs] == ["", ""]
    assert_has(primary_of(*hubs), *writers)
    for hub in hubs:
        hub.kill()
    hubs = [start_hub("--cluster", one) for one in places]
    assert_has(primary_of(*hubs), *writers)


def test_a_stream_that_is_full_refuses_writes_and_says_why(servers, start_hub, tmp_path):
    nats = servers()
    hubs = [start_hub("--cluster", place(tmp_path, name, nats)) for name in "ab"]
    primary = primary_of(*hubs)
    writer = Writer("w", *hubs)
    writer.wait_for_more()
    found = stream(nats)
    config = {**found["config"], "max_bytes": found["state"]["bytes"] + 20_000}
    answer = ask(nats, f"$JS.API.STREAM.UPDATE.{STREAM}", json.dumps(config).encode())
    assert answer["config"]["max_bytes"] > 0, answer
    told(primary, "maximum bytes exceeded")
    eventually(lambda: any("CLUSTERDOWN" in str(one) for one in writer.refused),
               f"it is told: {writer.refused[-3:]}", 60)
    config["max_bytes"] = -1
    ask(nats, f"$JS.API.STREAM.UPDATE.{STREAM}", json.dumps(config).encode())
    writer.wait_for_more(patience_s=60)
    writer.stop()
    assert_has(primary_of(*hubs), writer)
    assert all(keys(hub)["losses"] == "0" for hub in hubs)


BUCKET = {
    "name": "KV_TW_tests", "subjects": ["$KV.TW_tests.>"], "max_msgs_per_subject": 1,
    "max_age": 3_000_000_000, "duplicate_window": 3_000_000_000, "discard": "new",
    "deny_delete": True, "allow_rollup_hdrs": True, "allow_direct": True,
    "description": "made by hand",
}
RIGHTS = """
authorization {
  users: [
    { user: admin, password: admin }
    { user: hub, password: hub, permissions: {
      publish: ["tw.tests.keys.main", "tw.tests.keysnap.main.>", "tw.tests.keysmark.main"
        "$KV.TW_tests.keys.main"
        "$JS.API.STREAM.CREATE.TW_tests_KEYS_main", "$JS.API.STREAM.PURGE.TW_tests_KEYS_main"
        "$JS.API.STREAM.CREATE.TW_tests_KEYSNAP_main"
        "$JS.API.STREAM.PURGE.TW_tests_KEYSNAP_main"
        "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.*"]
      subscribe: ["tw.tests.log.>", "tw.tests.live.>", "tw.tests.snap.>"
        "tw.tests.keysmark.main", "_INBOX.tests.>"]
    } }
  ]
  default_permissions: { publish: ">", subscribe: ">" }
}
no_auth_user: admin
"""


def test_a_bucket_that_an_administrator_has_made_needs_no_right_to_change_it(
    start_hub, tmp_path, monkeypatch
):
    """Hubs insisted on STREAM.UPDATE, and the servers refused what they asked for."""
    settings, password = tmp_path / "nats.conf", tmp_path / "password"
    settings.write_text(RIGHTS)
    password.write_text("hub\n")
    nats = [NatsServer(tmp_path, *free_ports(1), ["-c", settings])]
    extra = f"user = 'hub'\npassword-file = '{password}'"
    places = [place(tmp_path, name, nats, extra) for name in "abc"]

    def set_bucket(operation, **changes):
        body = json.dumps({**BUCKET, **changes}).encode()
        answer = ask(nats, f"$JS.API.STREAM.{operation}.KV_TW_tests", body)
        assert answer.get("config"), answer

    try:
        set_bucket("CREATE")
        hubs = [start_hub("--cluster", one) for one in places[:2]]
        primary = primary_of(*hubs)
        eventually(lambda: sorted(keys(hub)["role"] for hub in hubs) == ["primary", "standby"],
                   "the other follows", 30)
        with primary.redis() as client:
            client.set("a", "1")
        assert stream(nats, "KV_TW_tests")["config"]["description"] == "made by hand"
        set_bucket("UPDATE", max_age=9_000_000_000)
        with monkeypatch.context() as patch:
            patch.setattr(Hub, "_is_ready", lambda hub: True)  # It does not answer PING.
            hub = start_hub("--cluster", places[2])
        told(hub, "needs the right to publish to $JS.API.STREAM.UPDATE.KV_TW_tests")
        set_bucket("UPDATE")
        eventually(lambda: keys(hub)["role"] == "standby", "it follows", 30)
    finally:
        nats[0].kill()
