"""`watch` and `INFO cluster` of a hub in a cluster."""

import json
import re
import subprocess

import pytest

from nats_identities import NatsClient
from nats_servers import SERVER, Publisher, cluster_file, figures
from support import BINARY, environment, eventually
from test_cluster import owns, servers, wait_for  # noqa: F401
from test_cluster_sites import TO_LONDON, hub_at, relaying, sites  # noqa: F401

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")


def test_watch_shows_the_cluster(hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq")
    Publisher(owner, "ONE").trade(1, 10, 5)
    owns(owner)
    relay = hub_at("newyork", "relay", relay=TO_LONDON)
    relaying(relay)
    wait_for(relay, "md:ONE", last=10)

    def watched(hub, *options):
        words = [BINARY, "watch", "--once", "--from", f"127.0.0.1:{hub.feed_port}",
                 "--info", f"127.0.0.1:{hub.resp_port}", *options]
        done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    text = watched(owner)
    assert "cluster newyork · linked" in text and "nasdaq owned here · epoch" in text, text
    text = watched(relay)
    assert "nasdaq current · epoch" in text and "nasdaq → london/nasdaq relayed" in text, text
    document = json.loads(watched(relay, "--json"))["hub"]["cluster"]
    assert document["name"] == "newyork" and document["link_up"] is True
    source = document["sources"][0]
    assert source["name"] == "nasdaq" and source["heard"] == 1 and source["lag"] == 0
    assert {"sequence", "epoch", "gaps", "snapshot_age_ms"} <= set(source)
    assert document["relays"][0]["bytes_out"] > 0


def test_sources_of_former_owners_have_few_lines_and_make_room(
    servers, start_hub, tmp_path  # noqa: F811
):
    nats = servers()
    edge = start_hub("--cluster", cluster_file(tmp_path, "edge", nats))
    eventually(lambda: edge.info("cluster")["cluster_link_up"] == 1, "the edge is linked")
    client = NatsClient(nats[0].port, None, None)
    for number in range(1_100):
        client.publish(f"tw.tests.live.old-{number}.0", b"no frame")
    eventually(lambda: edge.info("cluster")["cluster_sources"] == 1_024, "as many as may be")
    eventually(lambda: edge.info("cluster")["cluster_sources_silent"] == 1_024, "none is heard")
    lines = [name for name in edge.info("cluster") if re.fullmatch(r"cluster_source\d+", name)]
    assert len(lines) == 64
    owner = start_hub("--cluster", cluster_file(tmp_path, "a", nats, source="nasdaq"))
    Publisher(owner, "ONE").trade(1, 10, 5)
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    # What is heard comes first.
    eventually(lambda: figures(edge, "cluster_source0")["name"] == "nasdaq", "it comes first")
    assert edge.info("cluster")["cluster_sources"] == 1_024
    client.close()
