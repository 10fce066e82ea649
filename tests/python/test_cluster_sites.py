"""Sites: NATS servers joined by leaf nodes, and hubs that relay newest values between them."""

import json

import pytest

from nats_servers import SERVER, NatsServer, Publisher, cluster_file, figures
from support import eventually, free_ports
from tcp_cut import Cut
from test_cluster import joined, owns, wait_for

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")


class Sites:
    """New York with a port for leaf nodes, and London, whose server is a leaf of it. The link goes
    through a proxy that can be cut."""

    def __init__(self, folder):
        leaf = free_ports(1)[0]
        self.cut = Cut(leaf)
        self.servers = {}
        self.folder = folder
        self.start("newyork", # Without this, London learns the port behind the proxy.
                   f"leafnodes {{ listen: 127.0.0.1:{leaf}, no_advertise: true }}")
        self.start("london", f"""leafnodes {{
            reconnect: 1
            remotes: [ {{ url: "nats-leaf://127.0.0.1:{self.cut.port}" }} ]
        }}""")

    def start(self, name, leafnodes):
        path = self.folder / f"{name}.conf"
        path.write_text(f"server_name: {name}\njetstream {{ domain: {name} }}\n{leafnodes}\n")
        self.servers[name] = NatsServer(self.folder, *free_ports(1), options=["-c", path])

    def close(self):
        for server in self.servers.values():
            server.kill()
        self.cut.close()


@pytest.fixture
def sites(tmp_path):
    made = Sites(tmp_path)
    yield made
    made.close()


def relay_table(**options):
    lines = ["[[relay]]"]
    lines += [f"{key.replace('_', '-')} = {json.dumps(value)}" for key, value in options.items()]
    return "\n".join(lines)


@pytest.fixture
def hub_at(sites, start_hub, tmp_path):
    """Starts a hub at a site, whose cluster has the site's name."""

    def start(site, name, source=None, relay=None, cluster=None, **options):
        extra = relay_table(**relay) if relay else ""
        place = cluster_file(tmp_path, name, [sites.servers[site]], source=source, extra=extra,
                             **options)
        place.write_text(place.read_text().replace("'tests'", f"'{cluster or site}'"))
        return start_hub("--cluster", place)

    return start


TO_LONDON = {"source": "nasdaq", "cluster": "london", "domain": "london", "hz": 10}


def relays(hub, number=0):
    line = figures(hub, f"cluster_relay{number}") or {}
    return {key: int(value) if value.isdigit() else value for key, value in line.items()}


def relaying(hub, number=0):
    eventually(lambda: relays(hub, number).get("owner") == 1,
               f"the hub relays: {hub.info('cluster')}")


def test_an_edge_behind_a_relay_has_the_newest_values(hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq")
    publisher = Publisher(owner, "ONE", "TWO")
    publisher.trade(1, 10, 5)
    publisher.quote(1, 9)
    owns(owner)
    relay = hub_at("newyork", "relay", relay=TO_LONDON)
    joined(relay)
    edge = hub_at("london", "edge")
    wait_for(edge, "md:ONE", last=10, volume=5, bid=9, ask=10, trades=1, stale=0,
             source="cluster-nasdaq", venue="XNAS")
    # Many changes within a tick come as their last value, with the figures of all of them.
    for price in range(100, 400):
        publisher.trade(1, price, 2)
    wait_for(edge, "md:ONE", last=399, volume=605, trades=301, high=399, low=10, stale=0)
    for field in ("open", "vwap", "volume", "trades", "high", "low", "last_size"):
        assert edge.hash("md:ONE").get(field) == owner.hash("md:ONE").get(field), field
    publisher.trade(2, 30, 1)
    wait_for(edge, "md:TWO", last=30, volume=1)
    # An edge that joins late has them from the snapshot.
    late = hub_at("london", "late")
    wait_for(late, "md:ONE", last=399, volume=605, trades=301, stale=0)
    joined(late)
    assert figures(late, "cluster_source0")["relays"] == "1"


def test_a_relay_sends_few_values_and_shows_the_bytes_saved(hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq")
    publisher = Publisher(owner, "ONE", "TWO")
    owns(owner)
    relay = hub_at("newyork", "relay", relay=TO_LONDON | {"hz": 1})
    relaying(relay)
    edge = hub_at("london", "edge")
    publisher.trade(1, 1, 1)
    wait_for(edge, "md:ONE", last=1)
    for round_ in range(40):
        for _ in range(500):
            publisher.trade(1, round_ + 2, 1)
    wait_for(edge, "md:ONE", last=41, volume=20_001, trades=20_001)
    shown = eventually(lambda: relays(relay)["bytes_in"] >= 32 * 20_000 and relays(relay),
                       f"all is counted: {relays(relay)}")
    assert shown["bytes_saved"] == shown["bytes_in"] - shown["bytes_out"] > shown["bytes_in"] / 2
    assert shown["symbols"] == 2 and shown["hz"] == 1
    assert int(edge.hash("md:ONE")["trades"]) == 20_001


def test_patterns_say_what_is_relayed_and_which_symbols_in_full(hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq")
    publisher = Publisher(owner, "FULL", "SOME", "NONE")
    owns(owner)
    options = TO_LONDON | {"hz": 1, "full": ["F*"], "conflated": ["S*", "F*"]}
    relay = hub_at("newyork", "relay", relay=options)
    relaying(relay)
    edge = hub_at("london", "edge")
    for number in (1, 2, 3):
        publisher.trade(number, 1, 1)
    wait_for(edge, "md:FULL", last=1)
    wait_for(edge, "md:SOME", last=1)
    subscriber = edge.subscriber("md:FULL")
    assert subscriber.json()["last"] == 1
    for price in range(2, 102):
        publisher.trade(1, price, 1)
    assert [subscriber.json()["last"] for _ in range(100)] == list(range(2, 102))
    wait_for(edge, "md:FULL", last=101, volume=101, trades=101)
    assert not edge.hash("md:NONE")
    assert relays(relay)["symbols"] == 2
    subscriber.close()


def test_values_are_stale_while_the_leaf_link_is_cut_and_right_when_it_is_healed(sites, hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq")
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    owns(owner)
    relay = hub_at("newyork", "relay", relay=TO_LONDON)
    edge = hub_at("london", "edge")
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    sites.cut.cut()
    wait_for(edge, "md:ONE", last=10, stale=1)
    publisher.trade(1, 11, 7)
    wait_for(owner, "md:ONE", last=11, volume=12)
    # The site with the source notices nothing.
    wait_for(relay, "md:ONE", last=11, volume=12, stale=0)
    sites.cut.heal()
    wait_for(edge, "md:ONE", last=11, volume=12, trades=2, stale=0)
    publisher.trade(1, 12, 1)
    wait_for(edge, "md:ONE", last=12, volume=13, stale=0)


def test_staleness_of_the_source_goes_through_a_relay(hub_at, tmp_path):
    owner = hub_at("newyork", "owner", source="nasdaq")
    Publisher(owner, "ONE").trade(1, 10, 5)
    owns(owner)
    hub_at("newyork", "relay", relay=TO_LONDON)
    edge = hub_at("london", "edge")
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    owner.kill()
    wait_for(edge, "md:ONE", last=10, stale=1)
    again = hub_at("newyork", "owner", source="nasdaq")
    Publisher(again, "ONE", session=78).trade(1, 12, 1)
    wait_for(edge, "md:ONE", last=12, volume=1, stale=0)


def test_a_second_relay_takes_over_from_the_first(hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq")
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    owns(owner)
    first = hub_at("newyork", "first", relay=TO_LONDON)
    relaying(first)
    second = hub_at("newyork", "second", relay=TO_LONDON)
    joined(second)
    edge = hub_at("london", "edge")
    wait_for(edge, "md:ONE", last=10, stale=0)
    assert relays(second)["owner"] == 0
    first.kill()
    relaying(second)
    publisher.trade(1, 11, 1)
    wait_for(edge, "md:ONE", last=11, volume=6, stale=0)


def test_a_relayed_source_is_not_relayed_back(hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq", receive=[])
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    owns(owner)
    hub_at("newyork", "relay", relay=TO_LONDON, receive=["nasdaq"])
    back = {"source": "nasdaq", "cluster": "newyork", "domain": "newyork", "as": "echo"}
    london = hub_at("london", "london", relay=back)
    wait_for(london, "md:ONE", last=10, stale=0)
    eventually(lambda: relays(london).get("refused") == 1, "the relay is refused")
    assert "not relayed again" in london.stderr
    # One that is told to relay it again does, to a third site.
    paris = {"source": "nasdaq", "cluster": "paris", "domain": "newyork", "as": "chain"}
    told = hub_at("london", "told", relay=paris | {"again": True})
    relaying(told)
    publisher.trade(1, 11, 1)
    edge = hub_at("newyork", "edge", cluster="paris")
    wait_for(edge, "md:ONE", last=11, volume=6, source="cluster-chain", stale=0)
    joined(edge, "chain")
    shown = figures(edge, "cluster_source0")
    assert (shown["relays"], shown["path"]) == ("2", "newyork>london")
    assert figures(edge, "cluster_source1") is None


def test_values_do_not_come_back_to_a_site_that_they_have_come_through(hub_at):
    """Over three relays and under another name, an owner's own values counted twice at it."""
    owner = hub_at("newyork", "owner", source="nasdaq")
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    owns(owner)
    relaying(hub_at("newyork", "first", relay=TO_LONDON))
    paris = {"source": "nasdaq", "cluster": "paris", "domain": "newyork", "as": "chain",
             "again": True}
    relaying(hub_at("london", "second", relay=paris))
    back = {"source": "chain", "cluster": "newyork", "as": "back", "again": True}
    third = hub_at("newyork", "third", cluster="paris", relay=back)
    fourth = hub_at("newyork", "fourth", cluster="paris",
                    relay=back | {"cluster": "london", "domain": "london"})
    for hub in [third, fourth]:
        wait_for(hub, "md:ONE", last=10, volume=5, stale=0)
        eventually(lambda: relays(hub).get("refused") == 1, "the relay is refused")
        assert "path=newyork>london" in hub.stderr
    publisher.trade(1, 11, 1)
    wait_for(third, "md:ONE", last=11, volume=6)
    wait_for(owner, "md:ONE", last=11, volume=6, venue="XNAS", stale=0)
    assert figures(owner, "cluster_source0") is None


def test_an_owner_that_is_away_gets_its_source_back_though_relays_are_in_a_circle(hub_at):
    """The relay took the source in the owner's cluster, and the owner never got it back."""
    owner = hub_at("newyork", "owner", source="nasdaq")
    Publisher(owner, "ONE").trade(1, 10, 5)
    owns(owner)
    relaying(hub_at("newyork", "there", relay=TO_LONDON))
    back = {"source": "nasdaq", "cluster": "newyork", "domain": "newyork", "again": True}
    circle = hub_at("london", "back", relay=back)
    edge = hub_at("newyork", "edge")
    for hub in [circle, edge]:
        wait_for(hub, "md:ONE", last=10, volume=5, stale=0)
    eventually(lambda: relays(circle).get("refused") == 1, "the relay is refused")
    owner.kill()
    for hub in [circle, edge]:
        wait_for(hub, "md:ONE", last=10, stale=1)
    assert (relays(circle)["refused"], relays(circle)["owner"]) == (1, 0)
    again = hub_at("newyork", "owner", source="nasdaq")
    publisher = Publisher(again, "ONE", session=78)
    publisher.trade(1, 12, 1)
    owns(again)
    for hub in [circle, edge]:
        wait_for(hub, "md:ONE", last=12, volume=1, stale=0)


def test_the_owner_itself_may_relay_its_source(hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq", relay=TO_LONDON)
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    relaying(owner)
    edge = hub_at("london", "edge")
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    publisher.trade(1, 11, 1)
    wait_for(edge, "md:ONE", last=11, volume=6, stale=0)


def test_a_second_source_of_a_symbol_at_the_relay_hub_does_not_stop_the_first(hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq", receive=[])
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    owns(owner)
    relay = hub_at("newyork", "relay", relay=TO_LONDON)
    edge = hub_at("london", "edge")
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    # The relay hub has one symbol with two venues now, London still has one.
    other = hub_at("newyork", "other", source="nyse", receive=[])
    Publisher(other, "ONE", session=79, venue=b"XNYS").trade(1, 20, 3)
    wait_for(relay, "md:ONE@XNYS", last=20, volume=3)
    publisher.trade(1, 11, 1)
    wait_for(relay, "md:ONE@XNAS", last=11, volume=6)
    wait_for(edge, "md:ONE", last=11, volume=6, venue="XNAS", stale=0)
    # The same of a relay that begins then.
    hub_at("newyork", "late", relay=TO_LONDON | {"as": "again"})
    there = hub_at("london", "there", receive=["again"])
    wait_for(there, "md:ONE", last=11, volume=6, venue="XNAS", stale=0)
    publisher.trade(1, 12, 1)
    wait_for(there, "md:ONE", last=12, volume=7, stale=0)


def test_a_relay_whose_own_link_is_down_says_that_it_owns_nothing_there(sites, hub_at):
    owner = hub_at("newyork", "owner", source="nasdaq")
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    owns(owner)
    london = sites.servers["london"]
    table = TO_LONDON | {"servers": [london.url]}
    del table["domain"]
    relay = hub_at("newyork", "relay", relay=table)
    relaying(relay)
    london.kill()
    eventually(lambda: relays(relay)["owner"] == 0, f"the lease is over: {relay.info('cluster')}")
    london.start()
    relaying(relay)
    edge = hub_at("london", "edge")
    publisher.trade(1, 11, 1)
    wait_for(edge, "md:ONE", last=11, volume=6, stale=0)
