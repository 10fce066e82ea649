"""Plant tags across hubs over NATS: `share = ["mx:*"]` in the file of --cluster."""

import json

import pytest

from nats_servers import SERVER, go_on, pause
from support import eventually
from test_cluster_topics import client, fields, get, hub_of, servers, wait_for_field  # noqa: F401
from test_plant_tags import start_plant  # noqa: F401

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

TAGS = ["mx:*"]


@pytest.fixture
def plant(start_plant):  # noqa: F811
    return start_plant("--tags", "28", "--interval", "20ms")


def owner_of(hub_of, nats, plant, name="a", **options):  # noqa: F811
    """A hub that follows three tags of its plant."""
    return hub_of(name, nats, "--mx", plant.address, "--mx-tag", "Tank1.Level",
                  "--mx-tag", "Tank1.Setpoint", "--mx-tag", "Tank2.Level", share=TAGS, **options)


def seen(hub, name="mx:Tank1.Level"):
    return eventually(lambda: get(hub, name), f"{name}: {hub.info('cluster')}")


def test_an_edge_without_a_plant_has_value_quality_and_times(servers, hub_of, plant):  # noqa: F811
    nats = servers()
    owner = owner_of(hub_of, nats, plant)
    edge = hub_of("b", nats, share=())
    assert float(seen(edge)) >= 0
    found = fields(edge, "mx:Tank1.Level")
    assert (found[b"type"], found[b"quality"], found[b"quality_text"]) == (b"Float", b"192", b"good")
    assert (found[b"status"], found[b"stale"], found[b"hub"]) == (b"Ok", b"0", b"a")
    assert int(found[b"ts"]) > 0 and int(found[b"recv_ts"]) > 1_700_000_000 * 10**9
    # A value that stays is the same at both.
    seen(edge, "mx:Tank1.Setpoint")
    assert get(edge, "mx:Tank1.Setpoint") == get(owner, "mx:Tank1.Setpoint")
    with client(edge) as remote:
        seen(edge, "mx:Tank2.Level")
        names = [b"mx:Tank1.Level", b"mx:Tank1.Setpoint", b"mx:Tank2.Level"]
        assert sorted(remote.keys("mx:*")) == names
        assert remote.type("mx:Tank1.Level") == b"hash"
        subscriber = remote.pubsub()
        subscriber.psubscribe("mx:Tank1.L*")
        found = []
        while len(found) < 3:
            message = subscriber.get_message(timeout=10)
            assert message, "no message came"
            if message["type"] == "pmessage":
                found.append(json.loads(message["data"]))
        assert {one["tag"] for one in found} == {"Tank1.Level"}
        assert all(one["quality"] == 192 and not one["stale"] for one in found)
        assert found[0]["seq"] < found[1]["seq"] < found[2]["seq"]
        subscriber.close()
    # A tag that the plant's hub is asked for later comes, too.
    with client(owner) as keys:
        keys.get("mx:Tank1.Count")
    seen(edge, "mx:Tank1.Count")


def test_a_lost_link_to_the_plant_and_a_lost_hub_make_tags_stale(
    servers, hub_of, plant, start_plant  # noqa: F811
):
    nats = servers()
    owner = owner_of(hub_of, nats, plant)
    edge = hub_of("b", nats, share=())
    seen(edge)
    with client(edge) as remote:
        subscriber = remote.pubsub()
        subscriber.subscribe("mx:Tank1.Setpoint")

        def next_with(stale):
            while True:
                message = subscriber.get_message(timeout=10)
                assert message, "no message came"
                if message["type"] == "message":
                    if json.loads(message["data"])["stale"] == stale:
                        return

        next_with(False)
        # The owner says so itself.
        plant.kill()
        wait_for_field(edge, "mx:Tank1.Setpoint", b"quality", b"24")
        wait_for_field(edge, "mx:Tank1.Setpoint", b"stale", b"1")
        next_with(True)
        start_plant("--tags", "28", "--interval", "20ms", port=plant.port)
        wait_for_field(edge, "mx:Tank1.Setpoint", b"quality", b"192")
        next_with(False)
        # The owner is not heard.
        pause(owner)
        wait_for_field(edge, "mx:Tank1.Setpoint", b"stale", b"1")
        next_with(True)
        go_on(owner)
        wait_for_field(edge, "mx:Tank1.Setpoint", b"stale", b"0")
        next_with(False)
        subscriber.close()


def test_an_own_tag_of_the_same_name_comes_first(
    servers, hub_of, plant, start_plant  # noqa: F811
):
    nats = servers()
    owner_of(hub_of, nats, plant)
    other = start_plant("--tags", "14", "--interval", "20ms")
    second = hub_of("b", nats, "--mx", other.address, "--mx-tag", "Tank1.Level", share=())
    # Its own tag has no hub; one that its plant does not have is the other hub's.
    eventually(lambda: fields(second, "mx:Tank1.Level").get(b"quality") == b"192", "an own tag")
    assert b"hub" not in fields(second, "mx:Tank1.Level")
    wait_for_field(second, "mx:Tank2.Level", b"hub", b"a")
    # Two hubs of one plant are standbys of each other: a third one sees the first that is heard.
    third = owner_of(hub_of, nats, plant, name="c")
    edge = hub_of("d", nats, share=())
    wait_for_field(edge, "mx:Tank1.Level", b"hub", b"a")
    third.kill()
    wait_for_field(edge, "mx:Tank1.Level", b"hub", b"a")


def test_another_hub_of_the_same_plant_takes_over(servers, hub_of, plant):  # noqa: F811
    nats = servers()
    first = owner_of(hub_of, nats, plant)
    owner_of(hub_of, nats, plant, name="b")
    edge = hub_of("c", nats, share=())
    wait_for_field(edge, "mx:Tank1.Level", b"hub", b"a")
    first.kill()
    wait_for_field(edge, "mx:Tank1.Level", b"hub", b"b")
    assert fields(edge, "mx:Tank1.Level")[b"stale"] == b"0"
