"""Promotion by Sentinel without loss: the replica asks its master to hand over."""

import signal

import pytest
import redis

from support import eventually, is_closed
from test_replicas import follow, rival, start_rival, wait_for_link  # noqa: F401 (fixture)

# The name of a sentinel's connection for commands.
SENTINEL = "sentinel-0123abcd-cmd"


def members(start_hub, *options):
    master, replica = (start_hub(*options) for _ in range(2))
    follow(replica.redis(), master.resp_port)
    return master, replica


def promote(hub, name=SENTINEL):
    """What Sentinel sends to a replica that it promotes."""
    pipeline = hub.redis(client_name=name).pipeline()
    pipeline.execute_command("SLAVEOF", "NO", "ONE")
    pipeline.execute_command("CONFIG", "REWRITE")
    pipeline.execute_command("CLIENT", "KILL", "TYPE", "normal")
    pipeline.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    return pipeline.execute(raise_on_error=False)


def is_master(hub):
    return hub.redis().role()[0] == b"master"


def test_the_master_of_a_replica_that_sentinel_promotes_follows_it(start_hub):
    master, replica = members(start_hub)
    writer = master.redis()
    writer.set("key", "value")
    assert promote(replica)[0] in (b"OK", True)
    eventually(lambda: is_master(replica), "the replica is the master")
    eventually(lambda: not is_master(master), "the master is a replica")
    wait_for_link(master.redis())
    replica.redis().set("another", "value")
    eventually(lambda: master.redis().get("another") == b"value", "the stream")
    assert replica.redis().get("key") == b"value"
    assert replica.info("stats")["sync_full"] == 0, "it goes on where it was"
    assert master.info("replication")["master_failover_state"] == "no-failover"


def test_clients_of_the_old_master_are_sent_away_once_it_has_handed_over(start_hub):
    master, replica = members(start_hub)
    old = master.resp()
    promote(replica)
    eventually(lambda: not is_master(master), "the master is a replica")
    assert is_closed(old)


def test_a_redis_conf_says_what_the_handover_has_made_of_its_hub(start_hub, tmp_path):
    hubs, confs = [], []
    for number in range(2):
        folder = tmp_path / f"data-{number}"
        folder.mkdir()
        confs.append(folder / "redis.conf")
        confs[-1].write_text("save 3600 1\n")
        hubs.append(start_hub("--redis-conf", confs[-1], "--dir", folder))
    master, replica = hubs
    follow(replica.redis(), master.resp_port)
    replica.redis().execute_command("CONFIG", "REWRITE")
    assert "replicaof" in confs[1].read_text()
    promote(replica)
    eventually(lambda: "replicaof" not in confs[1].read_text(), "the new master's says nothing")
    line = f"replicaof 127.0.0.1 {replica.resp_port}\n"
    eventually(lambda: line in confs[0].read_text(), "the old one's names it")


@pytest.mark.parametrize("name", [None, "sentinel-0123abcd-pubsub", "someone"])
def test_a_replica_that_any_other_client_promotes_leaves_its_master_alone(start_hub, name):
    master, replica = members(start_hub)
    promote(replica, name)
    assert is_master(replica)
    master.redis().set("key", "value")
    assert is_master(master)
    assert "failover" not in str(master.redis().info("commandstats"))


def test_a_master_that_refuses_stays_and_the_replica_takes_over(start_hub):
    master, replica = (start_hub() for _ in range(2))
    client = master.redis()
    client.execute_command("ACL", "SETUSER", "copier", "on", ">word", "+psync", "+replconf", "+ping")
    for option in [("masteruser", "copier"), ("masterauth", "word")]:
        replica.redis().config_set(*option)
    follow(replica.redis(), master.resp_port)
    promote(replica)
    eventually(lambda: is_master(replica), "the replica is the master")
    assert is_master(master)
    (entry,) = client.acl_log()
    assert (entry["username"], entry["object"]) == ("copier", "failover")


def test_a_master_that_does_not_answer_is_not_waited_for(start_hub):
    master, replica = members(start_hub)
    master.process.send_signal(signal.SIGSTOP)
    try:
        promote(replica)
        eventually(lambda: is_master(replica), "the replica is the master")
        replica.redis().set("key", "value")
    finally:
        master.process.send_signal(signal.SIGCONT)
    # It takes the request when it wakes, for which it is too late.
    eventually(lambda: master.info("replication")["master_failover_state"] == "no-failover",
               "no failover is under way")
    assert is_master(replica)


def test_a_second_promotion_meanwhile_changes_nothing_and_another_master_ends_it(start_hub):
    master, replica = members(start_hub)
    other = start_hub()
    other.redis().set("of the other", "value")
    master.process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(2):
            promote(replica)
        replica.redis().replicaof("127.0.0.1", other.resp_port)
    finally:
        master.process.send_signal(signal.SIGCONT)
    wait_for_link(replica.redis())
    assert replica.redis().get("of the other") == b"value"
    assert not is_master(replica)


def test_a_redis_hands_over_to_a_hub_too(start_hub, start_rival):  # noqa: F811
    master, replica = start_rival("redis-8"), start_hub()
    master.set("key", "value")
    follow(replica.redis(), master.server_port)
    eventually(lambda: master.info("replication")["slave0"]["state"] == "online", "Redis knows it")
    promote(replica)
    eventually(lambda: is_master(replica), "the replica is the master")
    eventually(lambda: master.role()[0] == b"slave", "the master is a replica")
    wait_for_link(master)
    assert replica.redis().get("key") == b"value"


def test_failover_says_what_redis_says(start_hub):
    master, replica = members(start_hub)
    port = replica.resp_port
    refusals = {
        ("ABORT",): "No failover in progress.",
        ("TO", "127.0.0.1", "x"): "value is not an integer or out of range",
        ("TO", "127.0.0.1", "99999"): "FAILOVER target HOST and PORT is not a replica.",
        ("TO", "127.0.0.1", "1"): "FAILOVER target HOST and PORT is not a replica.",
        ("TO", "127.0.0.1"): "syntax error",
        ("TO", "127.0.0.1", port, "FORCE"):
            "FAILOVER with force option requires both a timeout and target HOST and IP.",
        ("TIMEOUT", 0): "FAILOVER timeout must be greater than 0",
        ("TIMEOUT", 1, "TIMEOUT", 2): "syntax error",
    }
    for words, text in refusals.items():
        with pytest.raises(redis.ResponseError) as error:
            master.redis().execute_command("FAILOVER", *words)
        assert str(error.value) == text
    with pytest.raises(redis.ResponseError) as error:
        replica.redis().execute_command("FAILOVER")
    assert str(error.value) == "FAILOVER is not valid when server is a replica."
    with pytest.raises(redis.ResponseError) as error:
        start_hub().redis().execute_command("FAILOVER")
    assert str(error.value) == "FAILOVER requires connected replicas."


def test_failover_asks_replicas_how_far_they_are(start_hub):
    # By themselves they say it once a second, and writes wait.
    hub = start_hub()
    replica = hub.resp()
    replica.sendall(b"REPLCONF capa eof listening-port 1\r\nPSYNC ? -1\r\n")
    client = hub.redis()
    eventually(lambda: client.info("replication").get("slave0", {}).get("state") == "online",
               "the replica follows")
    replica.sendall(b"REPLCONF ACK 0\r\n")
    client.set("key", "value")
    client.execute_command("FAILOVER", "TIMEOUT", 60_000)
    received = b""
    while b"GETACK" not in received:
        received += replica.recv(65_536)
    client.execute_command("FAILOVER", "ABORT")
    client.set("key", "other")
    replica.close()
