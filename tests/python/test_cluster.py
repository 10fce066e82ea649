"""Topics across hubs over NATS: `--cluster FILE`."""

import json

import pytest

from feed_client import definition
from nats_servers import (
    SERVER, NatsServer, Publisher, cluster_file, figures, go_on, pause, three_servers,
)
from support import eventually, free_ports

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")


@pytest.fixture
def servers(tmp_path, request):
    """Starts NATS servers; what still runs is killed at the end."""
    started = []

    def start(count=1):
        made = three_servers(tmp_path) if count == 3 else [NatsServer(tmp_path, *free_ports(1))]
        started.extend(made)
        return made

    yield start
    for server in started:
        server.kill()


def has(hub, name, **fields):
    """Whether a topic's hash has these fields."""
    found = hub.hash(name)
    return all(found.get(field) == str(value) for field, value in fields.items())


def wait_for(hub, name, **fields):
    eventually(lambda: has(hub, name, **fields),
               f"{name} has {fields}: {hub.hash(name)}, {hub.info('cluster')}")


def owns(hub):
    eventually(lambda: (figures(hub) or {}).get("owner") == "1", "the hub owns its source")


def joined(hub, name="nasdaq"):
    def is_current():
        lines = (figures(hub, f"cluster_source{number}") or {} for number in range(4))
        return any(line.get("name") == name and line["current"] == "1" for line in lines)

    eventually(is_current, f"{name} is joined: {hub.info('cluster')}")


def test_an_edge_has_the_values_and_the_stream_of_another_hub(servers, start_hub, tmp_path):
    nats = servers()
    owner = start_hub("--cluster", cluster_file(tmp_path, "a", nats, source="nasdaq"))
    publisher = Publisher(owner, "ONE", "TWO")
    publisher.trade(1, 10, 5)
    publisher.quote(1, 9)
    owns(owner)
    edge = start_hub("--cluster", cluster_file(tmp_path, "b", nats))
    wait_for(edge, "md:ONE", last=10, volume=5, bid=9, stale=0)
    joined(edge)
    with edge.redis() as client:
        subscriber = client.pubsub()
        subscriber.subscribe("md:ONE")
        while subscriber.get_message(timeout=10)["type"] != "message":
            pass
        publisher.trade(1, 11, 2)
        message = json.loads(subscriber.get_message(timeout=10)["data"])
        assert (message["last"], message["volume"]) == (11, 7)
        subscriber.close()
    # A symbol that is new, and one that has had no value.
    publisher.send(definition(3, "THREE"))
    publisher.trade(3, 30, 1)
    wait_for(edge, "md:THREE", last=30, volume=1, source="cluster-nasdaq", venue="XNAS")
    assert edge.hash("md:TWO")["last"] == owner.hash("md:TWO")["last"]
    # The owner's values are as they were.
    assert owner.hash("md:ONE")["volume"] == "7"


def test_each_trade_counts_once_at_an_edge_that_joins_amid_them(servers, start_hub, tmp_path):
    nats = servers()
    owner = start_hub("--cluster", cluster_file(tmp_path, "a", nats, source="nasdaq"))
    publisher = Publisher(owner, *(f"S{number}" for number in range(300)))
    owns(owner)
    edges = []
    for round_ in range(40):
        for number in range(300):
            publisher.trade(number + 1, 10, 1)
        if round_ in (10, 25):
            name = f"e{round_}"
            edges.append(start_hub("--cluster", cluster_file(tmp_path, name, nats)))
    for edge in edges:
        for number in (0, 150, 299):
            wait_for(edge, f"md:S{number}", volume=40, trades=40, stale=0)


def test_the_end_of_the_owner_makes_its_values_stale_and_its_return_ends_that(
    servers, start_hub, tmp_path
):
    nats = servers()
    place = cluster_file(tmp_path, "a", nats, source="nasdaq")
    owner = start_hub("--cluster", place)
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    edge = start_hub("--cluster", cluster_file(tmp_path, "b", nats))
    wait_for(edge, "md:ONE", last=10, stale=0)
    owner.kill()
    wait_for(edge, "md:ONE", last=10, stale=1)
    again = start_hub("--cluster", place)
    publisher = Publisher(again, "ONE", session=78)
    publisher.trade(1, 12, 1)
    wait_for(edge, "md:ONE", last=12, volume=1, stale=0)
    eventually(lambda: figures(edge, "cluster_source0")["epoch"] == figures(again)["epoch"] != "0",
               "both hubs know the new epoch")


def test_a_standby_takes_over_and_edges_follow_it(servers, start_hub, tmp_path):
    nats = servers()
    hubs, publishers = [], []
    for number, name in enumerate("ab"):
        hub = start_hub("--cluster", cluster_file(tmp_path, name, nats, source="nasdaq"))
        hubs.append(hub)
        publishers.append(Publisher(hub, "ONE", session=80 + number))
        if number == 0:
            owns(hub)
    edge = start_hub("--cluster", cluster_file(tmp_path, "c", nats))

    def both(price):
        for publisher in publishers:
            publisher.trade(1, price, 1)

    both(10)
    wait_for(edge, "md:ONE", last=10, volume=1)
    assert figures(hubs[1])["owner"] == "0"
    # The standby has the same topic from its own source, and receives nothing of the owner.
    assert hubs[1].hash("md:ONE")["volume"] == "1"
    first = int(figures(hubs[0])["epoch"])
    hubs[0].kill()
    owns(hubs[1])
    publishers[1].trade(1, 11, 1)
    wait_for(edge, "md:ONE", last=11, volume=2, stale=0)
    assert int(figures(hubs[1])["epoch"]) > first


def test_an_owner_that_was_stopped_for_long_is_deposed(servers, start_hub, tmp_path):
    nats = servers()
    first = start_hub("--cluster", cluster_file(tmp_path, "a", nats, source="nasdaq"))
    publishers = [Publisher(first, "ONE", session=80)]
    owns(first)
    second = start_hub("--cluster", cluster_file(tmp_path, "b", nats, source="nasdaq"))
    publishers.append(Publisher(second, "ONE", session=81))
    edge = start_hub("--cluster", cluster_file(tmp_path, "c", nats))
    publishers[0].trade(1, 10, 1)
    publishers[1].trade(1, 10, 1)
    wait_for(edge, "md:ONE", last=10, volume=1)
    pause(first)
    owns(second)
    publishers[1].trade(1, 11, 1)
    wait_for(edge, "md:ONE", last=11, volume=2)
    go_on(first)
    eventually(lambda: figures(first)["owner"] == "0", "the first hub owns nothing")
    publishers[1].trade(1, 12, 1)
    wait_for(edge, "md:ONE", last=12, volume=3, stale=0)


def test_two_sources_are_received_and_never_published_again(servers, start_hub, tmp_path):
    nats = servers()
    hubs = [
        start_hub("--cluster", cluster_file(tmp_path, name, nats, source=source))
        for name, source in [("a", "nasdaq"), ("b", "nyse")]
    ]
    publishers = [Publisher(hubs[0], "AAA", session=80), Publisher(hubs[1], "BBB", session=81)]
    edge = start_hub("--cluster", cluster_file(tmp_path, "c", nats))
    publishers[0].trade(1, 10, 1)
    publishers[1].trade(1, 20, 2)
    for hub in [*hubs, edge]:
        wait_for(hub, "md:AAA", last=10, volume=1, stale=0)
        wait_for(hub, "md:BBB", last=20, volume=2, stale=0)
    publishers[0].trade(1, 11, 1)
    for hub in [*hubs, edge]:
        wait_for(hub, "md:AAA", last=11, volume=2)
    assert edge.hash("md:AAA")["source"] == "cluster-nasdaq"
    assert hubs[1].hash("md:AAA")["source"] == "cluster-nasdaq"


def test_a_hub_receives_only_the_sources_that_it_names(servers, start_hub, tmp_path):
    nats = servers()
    for name, source, symbol in [("a", "nasdaq", "AAA"), ("b", "nyse", "BBB")]:
        hub = start_hub("--cluster", cluster_file(tmp_path, name, nats, source=source))
        Publisher(hub, symbol).trade(1, 10, 1)
    edge = start_hub("--cluster", cluster_file(tmp_path, "c", nats, receive=["nys*"]))
    wait_for(edge, "md:BBB", last=10)
    assert not edge.hash("md:AAA")


def test_a_hub_serves_its_own_topics_while_no_nats_server_is_there(servers, start_hub, tmp_path):
    nats = servers()
    place = cluster_file(tmp_path, "a", nats, source="nasdaq")
    nats[0].kill()
    owner = start_hub("--cluster", place)
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    wait_for(owner, "md:ONE", last=10, stale=0)
    assert owner.info("cluster")["cluster_link_up"] == 0
    nats[0].start()
    edge = start_hub("--cluster", cluster_file(tmp_path, "b", nats))
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    # And when it goes and comes back.
    nats[0].kill()
    publisher.trade(1, 11, 1)
    wait_for(owner, "md:ONE", last=11)
    wait_for(edge, "md:ONE", last=10, stale=1)
    nats[0].start()
    wait_for(edge, "md:ONE", last=11, volume=6, stale=0)


def test_values_go_on_when_the_leader_of_the_log_is_killed(servers, start_hub, tmp_path):
    nats = servers(3)
    options = {"replicas": 3}
    owner = start_hub("--cluster", cluster_file(tmp_path, "a", nats, source="nasdaq", **options))
    publisher = Publisher(owner, "ONE")
    owns(owner)
    edge = start_hub("--cluster", cluster_file(tmp_path, "b", nats, **options))
    publisher.trade(1, 10, 1)
    wait_for(edge, "md:ONE", last=10, volume=1, stale=0)
    volume = 1
    for server in nats:
        server.kill()
        for price in range(100, 120):
            publisher.trade(1, price, 1)
            volume += 1
        wait_for(edge, "md:ONE", last=119, volume=volume)
        server.start()
        eventually(lambda: (figures(owner) or {}).get("owner") == "1"
                   and figures(owner)["unacknowledged"] == "0"
                   and figures(owner)["log_lag"] == "0",
                   f"the log is whole again: {owner.info('cluster')}")
    wait_for(edge, "md:ONE", last=119, volume=volume, stale=0)


@pytest.mark.parametrize("fault, says", [
    ("cluster = 'a b'", "is no name"),
    ("servers = []", "at least one is needed"),
    ("replicas = 4", "1, 3 or 5"),
    ("nkey = '/nowhere'", "cannot read"),
    ("colour = 1", "colour"),
])
def test_a_fault_of_the_file_is_told_before_anything_starts(start, tmp_path, fault, says):
    name = fault.split(" ")[0]
    lines = {"cluster": "'tests'", "hub": "'a'", "servers": "['nats://127.0.0.1:1']"}
    lines.pop(name, None)
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    place = tmp_path / "cluster.toml"
    place.write_text(text + fault + "\n")
    program = start("serve", "--cluster", place)
    assert program.wait() != 0
    assert says in program.stderr


@pytest.mark.parametrize("receive", [["none"], ["*"]])
def test_a_source_that_only_defines_a_symbol_leaves_it_to_the_one_that_gives_it(
    servers, start_hub, tmp_path, receive
):
    nats = servers()
    first = start_hub("--cluster", cluster_file(tmp_path, "a", nats, source="nasdaq"))
    second = start_hub("--cluster", cluster_file(tmp_path, "b", nats, "cme", receive=receive))
    edge = start_hub("--cluster", cluster_file(tmp_path, "c", nats))
    one = Publisher(first, "ONE")
    one.trade(1, 10, 1)
    wait_for(edge, "md:ONE", volume=1)
    owns(second)
    other = Publisher(second, "ONE", "OTHER", venue=b"XCME")
    other.trade(2, 5, 1)
    wait_for(edge, "md:OTHER", volume=1)
    for price in range(11, 21):
        one.trade(1, price, 1)
    wait_for(edge, "md:ONE", volume=11, last=20, source="cluster-nasdaq", venue="XNAS", stale=0)
    if receive == ["*"]:
        wait_for(second, "md:ONE", volume=11, source="cluster-nasdaq")
    # Its first value makes it a venue of the symbol.
    other.trade(1, 30, 5)
    one.trade(1, 21, 1)
    wait_for(edge, "md:ONE", volume=17, source="cluster-nasdaq,cluster-cme")
    wait_for(edge, "md:ONE@XNAS", volume=12, source="cluster-nasdaq")
    wait_for(edge, "md:ONE@XCME", volume=5, source="cluster-cme")
    assert edge.info("feed")["feed_refused_messages"] == 0
