"""Hubs in a cluster where something was taken away or broken, and names that are the same."""

import os
import subprocess
import sys

import pytest

from nats_servers import SERVER, NatsServer, Publisher, cluster_file, figures
from support import BINARY, REPOSITORY, eventually, free_ports

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

LOG, SNAP, LEASES = "TW_tests_LOG_nasdaq", "TW_tests_SNAP_nasdaq", "KV_TW_tests"


@pytest.fixture
def nats(tmp_path):
    """A NATS server."""
    server = NatsServer(tmp_path, *free_ports(1))
    yield server
    server.kill()


@pytest.fixture
def hub_of(nats, start_hub, tmp_path):
    """Starts a hub: its name, its source, and more of its file."""
    def start(name, source=None, **options):
        place = cluster_file(tmp_path, name, [nats], source=source, **options)
        return start_hub("--cluster", place)

    return start


def wait_for(hub, name, **fields):
    def has():
        found = hub.hash(name)
        return all(found.get(field) == str(value) for field, value in fields.items())

    try:
        eventually(has, "")
    except AssertionError:
        found = {field: hub.hash(name).get(field) for field in [*fields, "venue", "source"]}
        raise AssertionError(f"{name} has {found}, not {fields}: {hub.info('cluster')}") from None


def own(hub, field):
    return (figures(hub) or {}).get(field)


def owns(hub):
    eventually(lambda: own(hub, "owner") == "1", "the hub owns its source")


def lines(hub):
    found = (figures(hub, f"cluster_source{number}") for number in range(8))
    return {line["name"]: line for line in found if line}


def is_whole(owner):
    """Waits until the log has everything, and the snapshot stands."""
    def whole():
        counts = [own(owner, name) for name in ("owner", "unacknowledged", "log_lag")]
        return counts == ["1", "0", "0"] and own(owner, "snapshot_age_ms") != "-1"

    eventually(whole, f"the log is whole: {owner.info('cluster')}")


def messages(nats, stream):
    answer = nats.ask(f"$JS.API.STREAM.INFO.{stream}") or {}
    return answer.get("state", {}).get("messages")


def test_no_value_goes_back_or_is_missing_after_faults():
    """A short part of `cargo xtask cluster --test`."""
    names = ["kill_the_leader", "cut_off_the_owner", "empty_a_disk", "cut_a_route", "kill_the_edge"]
    script = REPOSITORY / "tests/cluster/cluster.py"
    words = [sys.executable, script, "--test", "--seed", "21", "--faults", ",".join(names)]
    environment = os.environ | {"TIDEWIRE_BINARY": str(BINARY)}
    run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=110)
    assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-4_000:]
    assert "none went back" in run.stdout


def test_a_log_whose_messages_have_all_expired_goes_on(nats, hub_of):
    owner = hub_of("a", "nasdaq", extra="log-seconds = 1")
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    is_whole(owner)
    eventually(lambda: messages(nats, LOG) == 0, "the log is empty")
    owner.kill()
    # The next owner asks where the log ends: not at 0, though it is empty.
    owner = hub_of("a", "nasdaq", extra="log-seconds = 1")
    publisher = Publisher(owner, "ONE", session=78)
    edge = hub_of("b")
    owns(owner)
    publisher.trade(1, 11, 2)
    is_whole(owner)
    wait_for(edge, "md:ONE", last=11, volume=2, stale=0)


def test_snapshots_deleted_just_before_a_new_reign_are_made_again(nats, hub_of):
    """A page went unanswered, because the standby subscribes to its subject, and a reign without a
    snapshot did not look for its stream: edges kept old values with stale 0."""
    hubs = [hub_of("a", "nasdaq"), hub_of("b", "nasdaq")]
    publishers = [Publisher(hub, "ONE", "TWO") for hub in hubs]

    def trade(symbol, price, size):
        for publisher in publishers:
            publisher.trade(symbol, price, size)

    edge = hub_of("c")
    trade(1, 10, 5)
    trade(2, 20, 5)
    owner = eventually(lambda: next((hub for hub in hubs if own(hub, "owner") == "1"), None),
                       "one hub owns the source")
    is_whole(owner)
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    epoch = own(owner, "epoch")
    assert nats.ask(f"$JS.API.STREAM.DELETE.{SNAP}")["success"]
    assert nats.ask(f"$JS.API.STREAM.PURGE.{LEASES}")["success"]
    trade(1, 11, 2)

    def has_new_reign():
        states = [(own(hub, "owner"), own(hub, "epoch")) for hub in hubs]
        return any(is_owner == "1" and reign != epoch for is_owner, reign in states)

    eventually(has_new_reign, "a new reign begins")
    trade(1, 12, 1)
    wait_for(edge, "md:ONE", last=12, volume=8, stale=0)
    wait_for(edge, "md:TWO", last=20, volume=5, stale=0)
    eventually(lambda: messages(nats, SNAP), "the snapshot is stored again")


@pytest.mark.parametrize("operation", ["PURGE", "DELETE"])
@pytest.mark.parametrize("stream", [LOG, SNAP, LEASES])
def test_a_stream_that_an_operator_takes_away_comes_back(nats, hub_of, stream, operation):
    owner = hub_of("a", "nasdaq")
    publisher = Publisher(owner, *(f"S{number}" for number in range(300)))
    edge = hub_of("b")
    for number in range(300):
        publisher.trade(number + 1, 10, 5)
    is_whole(owner)
    wait_for(edge, "md:S299", last=10, volume=5, stale=0)
    assert nats.ask(f"$JS.API.STREAM.{operation}.{stream}")["success"]
    # A symbol of one page; the others have not changed since they were stored.
    publisher.trade(1, 11, 2)
    wait_for(edge, "md:S0", last=11, volume=7)
    late = hub_of("c")
    publisher.trade(1, 12, 1)
    for hub in [edge, late]:
        wait_for(hub, "md:S0", last=12, volume=8, stale=0)
        wait_for(hub, "md:S150", last=10, volume=5, stale=0)
        wait_for(hub, "md:S299", last=10, volume=5, stale=0)
    is_whole(owner)
    eventually(lambda: messages(nats, LOG) > 0, "the log has messages again")


def test_a_nats_server_that_has_lost_everything_begins_again(nats, hub_of):
    owner = hub_of("a", "nasdaq")
    publisher = Publisher(owner, "ONE", "TWO")
    edge = hub_of("b")
    # Several reigns: the revisions of a bucket that is made again begin below their epochs.
    for price in (10, 11, 12):
        publisher.trade(1, price, 1)
        publisher.trade(2, price, 1)
        is_whole(owner)
        wait_for(edge, "md:ONE", last=price, volume=price - 9, stale=0)
        if price < 12:
            nats.kill()
            publisher.trade(1, price, 0)
            eventually(lambda: own(owner, "owner") == "0", "it owns nothing without a lease")
            nats.start()
            owns(owner)
    nats.kill()
    nats.empty_disk()
    nats.start()
    publisher.trade(1, 13, 1)
    wait_for(edge, "md:ONE", last=13, volume=4, stale=0)
    late = hub_of("c")
    wait_for(late, "md:ONE", last=13, volume=4, stale=0)
    wait_for(late, "md:TWO", last=12, volume=3, stale=0)
    wait_for(edge, "md:TWO", last=12, volume=3, stale=0)


def test_a_symbol_of_two_hubs_is_consolidated_at_each_edge(hub_of):
    hubs = [hub_of("a", "nasdaq"), hub_of("b", "nyse")]
    venues = [b"XNAS", b"XNYS"]
    publishers = [
        Publisher(hub, "ONE", session=80 + number, venue=venue)
        for number, (hub, venue) in enumerate(zip(hubs, venues))
    ]
    edge = hub_of("c")
    publishers[0].trade(1, 10, 1)
    publishers[0].quote(1, 9)
    publishers[1].trade(1, 11, 2)
    publishers[1].quote(1, 8)
    for hub in [*hubs, edge]:
        wait_for(hub, "md:ONE@XNAS", last=10, volume=1, bid=9, stale=0)
        wait_for(hub, "md:ONE@XNYS", last=11, volume=2, bid=8, stale=0)
        wait_for(hub, "md:ONE", volume=3, bid=9, bid_venue="XNAS", ask=9, ask_venue="XNYS")
        assert set(hub.hash("md:ONE")["venue"].split(",")) == {"XNAS", "XNYS"}
    # A hub that joins later makes the same of both snapshots.
    late = hub_of("d")
    wait_for(late, "md:ONE", volume=3, bid=9, bid_venue="XNAS", ask=9, ask_venue="XNYS")
    # One of both is lost: its venue is stale, the value is that of the other.
    hubs[1].kill()
    for hub in [hubs[0], edge, late]:
        wait_for(hub, "md:ONE@XNYS", stale=1)
        wait_for(hub, "md:ONE@XNAS", stale=0)
        wait_for(hub, "md:ONE", stale=0, bid=9, bid_venue="XNAS", ask=10, ask_venue="XNAS")
    publishers[0].trade(1, 12, 4)
    for hub in [hubs[0], edge, late]:
        wait_for(hub, "md:ONE@XNAS", last=12, volume=5)
        wait_for(hub, "md:ONE", last=12, volume=7)


def test_an_edge_that_starts_while_the_owner_is_down_waits_for_it(hub_of):
    """No message names the source until then, and what a snapshot says could be of any age."""
    owner = hub_of("a", "nasdaq")
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    is_whole(owner)
    owner.kill()
    edge, named = hub_of("b"), hub_of("c", receive=["nasdaq"])
    owner = hub_of("a", "nasdaq")
    publisher = Publisher(owner, "ONE", session=78)
    publisher.trade(1, 11, 1)
    for hub in [edge, named]:
        wait_for(hub, "md:ONE", last=11, volume=1, stale=0)


def test_two_hubs_with_the_same_name_are_told_apart(hub_of):
    """As a standby whose file was copied from the owner's."""
    first = hub_of("a", "nasdaq")
    publishers = [Publisher(first, "ONE", session=80)]
    owns(first)
    second = hub_of("a", "nasdaq")
    publishers.append(Publisher(second, "ONE", session=81))
    edge = hub_of("a")
    for publisher in publishers:
        publisher.trade(1, 10, 5)
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    assert (own(first, "owner"), own(second, "owner")) == ("1", "0")
    first.kill()
    owns(second)
    publishers[1].trade(1, 11, 1)
    wait_for(edge, "md:ONE", last=11, volume=6, stale=0)


def test_clusters_whose_names_differ_in_case_share_nothing(nats, start_hub, tmp_path):
    def hub_of(name, cluster, source=None):
        place = cluster_file(tmp_path, name, [nats], source=source)
        place.write_text(place.read_text().replace("'tests'", f"'{cluster}'"))
        return start_hub("--cluster", place)

    owners = [hub_of("a", "desk", "nasdaq"), hub_of("b", "Desk", "nasdaq")]
    edges = [hub_of("c", "desk"), hub_of("d", "Desk")]
    for number, owner in enumerate(owners):
        Publisher(owner, f"S{number}", session=80 + number).trade(1, 10, 5)
        owns(owner)
        is_whole(owner)
    for number, edge in enumerate(edges):
        wait_for(edge, f"md:S{number}", last=10, volume=5, stale=0)
        assert not edge.hash(f"md:S{1 - number}")
        eventually(lambda: list(lines(edge)) == ["nasdaq"], "it receives one source")


def test_patterns_choose_the_sources_that_a_hub_receives(hub_of):
    for number, source in enumerate(["nasdaq", "nasdaq-test", "Nyse", "lse"]):
        hub = hub_of(source, source)
        Publisher(hub, f"S{number}", session=80 + number).trade(1, 10, 1)
    cases = {
        "b": (["nasdaq"], {"nasdaq"}),
        "c": (["nas*"], {"nasdaq", "nasdaq-test"}),
        "d": (["*e", "n*q"], {"nasdaq", "Nyse", "lse"}),
        "e": (["nyse"], set()),
        "f": ([], set()),
        "g": (["*"], {"nasdaq", "nasdaq-test", "Nyse", "lse"}),
    }
    edges = {name: hub_of(name, receive=receive) for name, (receive, _) in cases.items()}
    # The last one has them all: the messages of each source have come to each edge.
    eventually(lambda: len(lines(edges["g"])) == 4, "the sources are received")
    for name, (_, expected) in cases.items():
        eventually(lambda: set(lines(edges[name])) == expected,
                   f"{name} receives {expected}: {lines(edges[name])}")


def test_a_source_with_another_name_is_another_source(hub_of):
    owner = hub_of("a", "nasdaq")
    Publisher(owner, "ONE").trade(1, 10, 5)
    edge = hub_of("b")
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0, source="cluster-nasdaq")
    is_whole(owner)
    owner.kill()
    wait_for(edge, "md:ONE", last=10, stale=1)
    owner = hub_of("a", "nasdaq-2")
    publisher = Publisher(owner, "ONE", session=78)
    publisher.trade(1, 11, 1)
    # The hub that knows the old name keeps its values apart, as of a source that may come back.
    wait_for(edge, "md:ONE", last=11, volume=6, stale=0)
    wait_for(edge, "md:ONE@XNAS", last=10, volume=5, stale=1)
    wait_for(edge, "md:ONE@XNAS#2", last=11, volume=1, stale=0)
    # One that starts now hears only of the new one.
    late = hub_of("c")
    wait_for(late, "md:ONE", last=11, volume=1, stale=0, source="cluster-nasdaq-2", venue="XNAS")
