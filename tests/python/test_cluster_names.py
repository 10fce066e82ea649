"""Streams that belong to another cluster, and settings that another client has changed."""

import pytest
import redis

from nats_servers import SERVER, Publisher, cluster_file, figures
from support import Hub, eventually
from test_cluster import owns, servers, wait_for
from test_quorum import place, primary_of

assert servers  # A fixture.

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

LOG, KEYS, BUCKET = "TW_tests_LOG_nasdaq", "TW_tests_KEYS_main", "KV_TW_tests"


def config_of(server, stream):
    return eventually(lambda: server.ask(f"$JS.API.STREAM.INFO.{stream}"), "it answers")["config"]


def create(server, stream, subject):
    answer = server.ask(f"$JS.API.STREAM.CREATE.{stream}", {"name": stream, "subjects": [subject]})
    assert "error" not in answer, answer


def change(server, stream, **settings):
    config = config_of(server, stream) | settings
    answer = server.ask(f"$JS.API.STREAM.UPDATE.{stream}", config)
    assert "error" not in answer, answer


def own_fault(hub):
    return hub.info("cluster").get("cluster_own_fault", "")


def test_a_stream_of_another_cluster_was_taken_from_it(servers, start_hub, tmp_path):
    (nats,) = servers()
    create(nats, LOG, "tw.other.log.nasdaq.>")
    hub = start_hub("--cluster", cluster_file(tmp_path, "a", [nats], source="nasdaq"))
    Publisher(hub, "ONE").trade(1, 10, 5)
    eventually(lambda: "tw.other.log.nasdaq.>" in own_fault(hub), "it says so")
    assert LOG in own_fault(hub) and "tw.tests.log.nasdaq.>" in own_fault(hub)
    assert config_of(nats, LOG)["subjects"] == ["tw.other.log.nasdaq.>"]
    assert nats.ask(f"$JS.API.STREAM.DELETE.{LOG}").get("success")
    owns(hub)
    eventually(lambda: own_fault(hub) == "", "the stream is right")


def test_keys_of_another_cluster_were_taken_from_it(servers, start_hub, tmp_path, monkeypatch):
    (nats,) = servers()
    create(nats, KEYS, "tw.other.keys.main")
    with monkeypatch.context() as patch:
        patch.setattr(Hub, "_is_ready", lambda hub: True)  # It does not answer PING.
        hub = start_hub("--cluster", place(tmp_path, "a", [nats]))

    def error():
        try:
            return hub.info("cluster").get("cluster_keys_last_error", "")
        except (OSError, redis.ConnectionError):  # It does not listen yet.
            return ""

    eventually(lambda: "tw.other.keys.main" in error(), "it says so", 30)
    assert KEYS in error() and "tw.tests.keys.main" in error()
    assert config_of(nats, KEYS)["subjects"] == ["tw.other.keys.main"]
    assert nats.ask(f"$JS.API.STREAM.DELETE.{KEYS}").get("success")
    primary_of(hub)


def test_a_hub_whose_stream_was_given_to_another_cluster_said_nothing(
    servers, start_hub, tmp_path
):
    (nats,) = servers()
    hub = start_hub("--cluster", cluster_file(tmp_path, "a", [nats], source="nasdaq"))
    publisher = Publisher(hub, "ONE")
    owns(hub)
    change(nats, LOG, subjects=["tw.other.log.nasdaq.>"])
    eventually(lambda: "tw.other.log.nasdaq.>" in own_fault(hub), "it says so")
    assert config_of(nats, LOG)["subjects"] == ["tw.other.log.nasdaq.>"]
    change(nats, LOG, subjects=["tw.tests.log.nasdaq.>"])
    eventually(lambda: own_fault(hub) == "", "the stream is right again")
    publisher.trade(1, 10, 5)
    edge = start_hub("--cluster", cluster_file(tmp_path, "b", [nats]))
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)


def test_streams_that_were_changed_stayed_so_until_a_hub_was_started(servers, start_hub, tmp_path):
    (nats,) = servers()
    start_hub("--cluster", cluster_file(tmp_path, "a", [nats], source="nasdaq"))
    keys_hub = start_hub("--cluster", place(tmp_path, "b", [nats]))
    primary_of(keys_hub)
    eventually(lambda: nats.ask(f"$JS.API.STREAM.INFO.{LOG}").get("config"), "the log is made")
    before = {stream: config_of(nats, stream) for stream in (LOG, KEYS)}
    change(nats, LOG, max_age=10**9, duplicate_window=10**9)
    change(nats, KEYS, max_msg_size=100, max_msgs=5_000)
    for stream, config in before.items():
        eventually(lambda stream=stream, config=config: config_of(nats, stream) == config,
                   f"{stream} is right again", 30)
