"""Market topics and plant tags on both members of a failover: each has them from the source itself."""

import time

import pytest
import redis
import zmq

from feed_client import CONTROL, LIVE, FeedClient, definition, login, quote
from support import eventually, wait_for_values
from test_plant_tags import Plant, is_linked, value_of
from test_replicas import follow


@pytest.fixture
def members(start_simulator, start_hub):
    """A master and a replica that read the same exchange."""
    exchange = start_simulator("--rate", "2000", "--symbols", "10")
    master, replica = (start_hub("--source", exchange.source) for _ in range(2))
    follow(replica.redis(), master.resp_port)
    for hub in [master, replica]:
        hub.exchange = exchange
        wait_for_values(hub, 10)
    return master, replica


def prices(hub, symbol):
    fields = hub.hash(f"md:{symbol}")
    return {name: fields[name] for name in ("bid", "ask", "last", "volume", "ts")}


def wait_for_change(hub, symbol="RELIANCE"):
    before = prices(hub, symbol)
    eventually(lambda: prices(hub, symbol) != before, "the topic changes")


def test_topics_of_a_replica_go_on_through_its_promotion(members):
    master, replica = members
    clients = [replica.subscriber("md:RELIANCE"), replica.subscriber(patterns=["md:*"])]
    messages = replica.sub("md:RELIANCE")
    sequences = []

    def hear(count=20):
        for _ in range(count):
            sequences.append(clients[0].json()["seq"])
            clients[1].json()
            messages.recv_multipart()

    hear()
    wait_for_change(replica)
    # As FAILOVER does it, as Sentinel does it, and back again with all keys once more.
    master.redis().execute_command("FAILOVER", "TO", "127.0.0.1", replica.resp_port)
    eventually(lambda: replica.redis().role()[0] == b"master", "the replica is the master")
    hear()
    eventually(lambda: master.redis().role()[0] == b"slave", "the master is a replica")
    replica.redis().replicaof("127.0.0.1", master.resp_port)
    master.redis().replicaof("no", "one")
    hear()
    replica.redis().execute_command("REPLICAOF", "NO", "ONE")
    hear()
    assert sequences == sorted(set(sequences)), "no update is missed twice or taken back"
    wait_for_change(replica)
    assert replica.info("feed")["feed_gaps"] == replica.info("feed")["feed_lost_messages"] == 0
    # The same values on both, once the exchange is silent.
    replica.exchange.stop()
    for hub in members:
        eventually(lambda: hub.hash("md:RELIANCE")["stale"] == "1", "the end of the source")
    for symbol in ["RELIANCE", "TCS"]:
        assert prices(master, symbol) == prices(replica, symbol)


def test_a_replica_answers_for_topics_as_for_keys(members):
    master, replica = members
    master.redis().set("key", "value")
    eventually(lambda: replica.redis().get("key") == b"value", "the stream")
    client = replica.redis()
    assert client.type("md:RELIANCE") == b"hash" and client.exists("md:RELIANCE") == 1
    with pytest.raises(redis.ReadOnlyError):
        client.hset("md:RELIANCE", "bid", 1)
    # The master sends no topics: each hub has its own.
    assert replica.info("keyspace")["db0"].startswith("keys=1,")
    assert client.dbsize() == 11
    client.config_set("replica-serve-stale-data", "no")
    master.kill()
    eventually(lambda: client.info("replication")["master_link_status"] == "down", "the end")
    for key in ["key", "md:RELIANCE"]:
        with pytest.raises(redis.exceptions.MasterDownError):
            client.execute_command("EXISTS", key)
    client.config_set("replica-serve-stale-data", "yes")
    wait_for_change(replica)


def test_a_publisher_of_the_feed_is_taken_by_a_replica_and_goes_on_when_that_is_promoted(
        start_hub):
    master, replica = start_hub(), start_hub()
    follow(replica.redis(), master.resp_port)
    publishers = [FeedClient(hub.connect(hub.feed_port)) for hub in [master, replica]]

    def quoted(bid):
        return quote(1, bid * 10**9, (bid + 1) * 10**9, 1, 1, time.time_ns())

    for one in publishers:
        one.send(CONTROL, 0, login(0, next_sequence=1, session=77, role=1))
        one.until(lambda: one.accepted)
        one.send(LIVE, 1, definition(1, "GOLD", 10 * 10**9), quoted(10), session=77)
    for hub in [master, replica]:
        eventually(lambda: hub.hash("md:GOLD").get("bid") == "10", "the quote")
    replica.redis().replicaof("no", "one")
    publishers[1].send(LIVE, 3, quoted(12), session=77)
    eventually(lambda: replica.hash("md:GOLD")["bid"] == "12", "the next quote")
    assert master.hash("md:GOLD")["bid"] == "10"


def test_tags_of_a_plant_are_on_both_and_a_replica_writes_them_once_promoted(
        start_hub, tmp_path, request):
    plant = Plant(tmp_path, "--tags", "28", "--interval", "20ms")
    request.addfinalizer(plant.kill)
    master, replica = (start_hub("--mx", plant.address) for _ in range(2))
    follow(replica.redis(), master.resp_port)
    for hub in [master, replica]:
        is_linked(hub)
        value_of(hub.redis(), "mx:Tank1.Setpoint")
    changes = replica.sub("mx:Tank1.Level")
    topic, _ = changes.recv_multipart()
    assert topic == b"mx:Tank1.Level"
    assert master.redis().set("mx:Tank1.Setpoint", "21.5")
    eventually(lambda: replica.redis().get("mx:Tank1.Setpoint") == b"21.5", "the plant tells both")
    with pytest.raises(redis.ReadOnlyError):
        replica.redis().set("mx:Tank1.Setpoint", "22")
    replica.redis().replicaof("no", "one")
    assert replica.redis().set("mx:Tank1.Setpoint", "23.5")
    eventually(lambda: master.redis().get("mx:Tank1.Setpoint") == b"23.5", "the plant tells both")
    changes.recv_multipart()


def test_what_a_replica_is_pushed_is_dropped_until_it_is_promoted(start_hub):
    master, replica = start_hub(), start_hub()
    follow(replica.redis(), master.resp_port)
    push = replica.zmq(zmq.PUSH)
    push.send_multipart([b"sensor", b"1"])
    eventually(lambda: replica.info()["zmq_rejected_readonly"] == 1, "dropped")
    replica.redis().replicaof("no", "one")
    push.send_multipart([b"sensor", b"2"])
    eventually(lambda: replica.redis().get("sensor") == b"2", "taken")
