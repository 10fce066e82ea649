"""What a replica counts, holds back and gives up, and what its master logs about it."""

import socket
import threading

import pytest
import redis

from support import RespSocket, eventually

DEBUG = ["--set", "enable-debug-command=yes"]


def replication(client):
    return client.info("replication")


@pytest.fixture
def pair(start_hub):
    """A master and its replica, in sync."""
    master, replica = start_hub(*DEBUG), start_hub(*DEBUG)
    replica.redis().replicaof("127.0.0.1", master.resp_port)
    eventually(lambda: replication(replica.redis())["master_link_status"] == "up", "the link")
    return master, replica


def test_a_client_that_waits_for_a_key_is_released_when_its_server_becomes_a_replica(start_hub):
    master, hub = start_hub(), start_hub()
    waiting, outcome = hub.redis(single_connection_client=True), []

    def wait():
        try:
            outcome.append(waiting.blpop("list", 0))
        except redis.ResponseError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    client = hub.redis(single_connection_client=True)
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "it waits")
    client.replicaof("127.0.0.1", master.resp_port)
    thread.join(20)
    assert outcome and outcome[0].startswith("UNBLOCKED"), outcome
    eventually(lambda: replication(client)["master_link_status"] == "up", "the link")
    master.redis().rpush("list", "a", "b", "c")
    eventually(lambda: client.lrange("list", 0, -1) == [b"a", b"b", b"c"], "all elements")


def test_a_replica_counts_the_commands_of_its_master(pair):
    master, replica = pair
    before = replica.redis().info("commandstats").get("cmdstat_set", {"calls": 0})["calls"]
    for number in range(3):
        master.redis().set("key", number)

    def counted():
        stats = replica.redis().info("commandstats").get("cmdstat_set", {"calls": 0})
        return stats["calls"] - before

    eventually(lambda: counted() == 3, "three calls of SET")


def test_client_pause_holds_back_what_the_master_sends(pair):
    master, replica = pair
    client = replica.redis(single_connection_client=True)
    master.redis().set("key", "before")
    eventually(lambda: client.get("key") == b"before", "the first value")
    client.execute_command("CLIENT", "PAUSE", 100_000, "WRITE")
    held_at = replication(client)["slave_repl_offset"]
    master.redis().set("key", "behind")
    end = replication(master.redis())["master_repl_offset"]
    eventually(lambda: replication(client)["slave_read_repl_offset"] >= end, "it is read")
    assert client.get("key") == b"before"
    assert replication(client)["slave_repl_offset"] == held_at
    client.execute_command("CLIENT", "UNPAUSE")
    eventually(lambda: client.get("key") == b"behind", "the second value")


def test_the_end_says_which_replicas_do_not_have_everything(start_hub):
    hub = start_hub("--set", "shutdown-timeout=0")
    replica = hub.resp()
    replica.sendall(b"REPLCONF capa eof\r\nPSYNC ? -1\r\n")
    client = hub.redis(single_connection_client=True)
    eventually(lambda: replication(client).get("slave0", {}).get("state") == "online", "it follows")
    client.set("key", "value")
    with pytest.raises(redis.ConnectionError):
        client.execute_command("SHUTDOWN", "NOSAVE")
    hub.wait()
    log = hub.stdout + hub.stderr
    assert "Lagging replica 127.0.0.1" in log
    assert "0 of 1 replicas are in sync when shutting down." in log
    replica.close()


def test_a_replica_whose_master_does_not_answer_is_in_its_handshake(start_hub):
    silent = socket.create_server(("127.0.0.1", 0))
    client = start_hub().redis(single_connection_client=True)
    client.replicaof("127.0.0.1", silent.getsockname()[1])
    eventually(lambda: client.role()[3] == b"handshake", "its handshake")
    client.execute_command("REPLICAOF", "NO", "ONE")
    silent.close()


def test_a_shorter_repl_timeout_holds_for_the_link_that_stands(start_hub):
    silent = socket.create_server(("127.0.0.1", 0))
    hub = start_hub()
    client = hub.redis(single_connection_client=True)
    client.replicaof("127.0.0.1", silent.getsockname()[1])
    eventually(lambda: client.role()[3] == b"handshake", "its handshake")
    client.config_set("repl-timeout", 1)
    eventually(lambda: "Timeout connecting to the MASTER" in hub.stdout + hub.stderr, "the log")
    client.execute_command("REPLICAOF", "NO", "ONE")
    silent.close()


def test_files_wait_for_as_many_replicas_as_are_said(start_hub):
    master = start_hub("--set", "repl-diskless-sync-delay=1000",
                       "--set", "repl-diskless-sync-max-replicas=2")
    replicas = [start_hub().redis(single_connection_client=True) for _ in range(2)]
    client = master.redis(single_connection_client=True)
    replicas[0].replicaof("127.0.0.1", master.resp_port)
    eventually(lambda: replication(client).get("slave0", {}).get("state") == "wait_bgsave", "it waits")
    assert replicas[0].role()[3] == b"handshake"
    replicas[1].replicaof("127.0.0.1", master.resp_port)
    for one in replicas:
        eventually(lambda: replication(one)["master_link_status"] == "up", "its link")
