"""Failover by Redis Sentinel: hubs take the parts that it gives them, and clients go on."""

import signal
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

import sentinels
from certificates import Authority, has_openssl
from sentinels import DOWN_AFTER_MS, NAME, Sentinels
from support import PATIENCE_S as SHORT_PATIENCE_S
from support import Reply, RespSocket, eventually, free_ports

# Each waits for several failovers at most, one of which may be tried again.
pytestmark = pytest.mark.timeout(400)

PATIENCE_S = sentinels.PATIENCE_S


@pytest.fixture
def start_sentinels(tmp_path):
    """Starts three sentinels, and ends them."""
    started = []

    def start(*arguments, **options):
        started.append(Sentinels(tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for group in started:
        group.close()


@pytest.fixture
def start_members(start_hub):
    """Starts a master and hubs that follow it."""

    def start(count=2, *options):
        hubs = [start_hub(*options) for _ in range(count)]
        for hub in hubs[1:]:
            follow(hub, hubs[0])
        return hubs

    return start


def follow(hub, master):
    hub.redis().replicaof("127.0.0.1", master.resp_port)
    eventually(lambda: link_of(hub) == "up", "the replica follows")


def replication(hub, **options):
    """INFO replication; empty while the hub cannot say."""
    try:
        return hub.redis(**options).info("replication")
    except redis.BusyLoadingError:
        return {}


def role_of(hub, **options):
    return replication(hub, **options).get("role")


def link_of(hub, **options):
    return replication(hub, **options).get("master_link_status")


def wait_for_replica(hub, **options):
    """Waits until a hub follows its master."""
    has_link = lambda: role_of(hub, **options) == "slave" and link_of(hub, **options) == "up"
    eventually(has_link, "it is a replica that follows", PATIENCE_S)


def keys_of(hub, **options):
    return set(hub.redis(decode_responses=True, **options).scan_iter(count=10_000))


def wait_for_same_keys(*hubs, **options):
    """Waits until all have the same keys, and returns these."""
    has_same = lambda: len({frozenset(keys_of(hub, **options)) for hub in hubs}) == 1
    eventually(has_same, "all have the same keys", PATIENCE_S)
    return keys_of(hubs[0], **options)


class Writer(threading.Thread):
    """Writes keys in order, each until it is acknowledged."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.acknowledged = client, []
        self.halt = threading.Event()

    def run(self):
        number = 0
        while not self.halt.is_set():
            try:
                self.client.set(f"written {number}", number)
            except (redis.RedisError, OSError):
                # Not too many questions at once to sentinels that have something to do.
                self.halt.wait(0.02)
                continue
            self.acknowledged.append(f"written {number}")
            number += 1

    def wait_for_more(self, count=100):
        """Waits until so many more writes are acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= wanted, "writes go on", PATIENCE_S)


@contextmanager
def writing(client):
    writer = Writer(client)
    writer.start()
    try:
        writer.wait_for_more()
        yield writer
    finally:
        writer.halt.set()
        writer.join(SHORT_PATIENCE_S)
    assert not writer.is_alive(), "the writer has ended"


def test_a_killed_master_is_replaced_and_comes_back_as_a_replica(
        start_hub, start_members, start_sentinels):
    old, new = start_members()
    client = old.redis()
    client.set("certain", "value")
    assert client.wait(1, 0) == 1
    group = start_sentinels(old.resp_port)
    group.wait_until_all_is_well(replicas=1)
    news = group.clients[0].pubsub()
    news.subscribe("+switch-master")
    found = group.redis_py()
    with writing(found.master_for(NAME)) as writer:
        old.kill()
        before = len(writer.acknowledged)
        group.wait_for_master(new.resp_port)
        writer.wait_for_more()
    told = lambda: (news.get_message(True, 1) or {}).get("data", "").split()[:5]
    expected = [NAME, "127.0.0.1", str(old.resp_port), "127.0.0.1", str(new.resp_port)]
    eventually(lambda: told() == expected, "sentinels tell their subscribers")
    assert role_of(new) == "master"
    assert new.redis().get("certain") == b"value"
    # Its files are gone with it: everything comes from the new master.
    old = start_hub(resp_port=old.resp_port)
    wait_for_replica(old)
    keys = wait_for_same_keys(old, new)
    assert keys.issuperset(writer.acknowledged[before + 1:]), "what the new master acknowledged"
    group.wait_until_all_is_well(replicas=1)
    assert found.discover_slaves(NAME) == [("127.0.0.1", old.resp_port)]
    assert found.slave_for(NAME).get("certain") == b"value"


def test_sentinel_failover_changes_parts_and_loses_no_acknowledged_write(
        start_members, start_sentinels):
    hubs = start_members()
    group = start_sentinels(hubs[0].resp_port)
    group.wait_until_all_is_well(replicas=1)
    with writing(group.redis_py().master_for(NAME)) as writer:
        for old, new in [hubs, hubs[::-1]]:
            group.fail_over()
            group.wait_for_master(new.resp_port)
            wait_for_replica(old)
            writer.wait_for_more()
            group.wait_until_all_is_well(replicas=1)
    # Redis loses here what the old master took until it was demoted.
    assert wait_for_same_keys(*hubs).issuperset(writer.acknowledged)
    assert not any(hub.info("stats")["sync_full"] > 1 for hub in hubs)


def test_a_part_that_sentinel_gives_outlives_a_restart(start_hub, start_sentinels, tmp_path):
    hubs, options = [], []
    for number in range(2):
        folder = tmp_path / f"data-{number}"
        folder.mkdir()
        conf = folder / "redis.conf"
        conf.write_text("save 3600 1\n")
        options.append(["--redis-conf", conf, "--dir", folder])
        hubs.append(start_hub(*options[-1]))
    old, new = hubs
    follow(new, old)
    old.redis().set("key", "value")
    group = start_sentinels(old.resp_port)
    group.wait_until_all_is_well(replicas=1)
    group.fail_over()
    group.wait_for_master(new.resp_port)
    wait_for_replica(old)
    confs = [option[1].read_text for option in options]
    line = f"replicaof 127.0.0.1 {new.resp_port}\n"
    eventually(lambda: line in confs[0]() and "replicaof" not in confs[1](), "both files say it")
    group.close()
    for hub in hubs:
        hub.stop()
    old, new = (start_hub(*option, resp_port=hub.resp_port) for option, hub in zip(options, hubs))
    assert role_of(new) == "master"
    wait_for_replica(old)
    assert old.redis().get("key") == b"value"


def is_stopped(hub):
    """Whether each thread has stopped: a signal reaches them one after the other."""
    threads = Path(f"/proc/{hub.pid}/task").glob("*/stat")
    return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


def test_a_master_that_was_stopped_wakes_as_a_replica_and_drops_its_own_writes(
        start_members, start_sentinels):
    old, new = start_members()
    old.redis().set("common", "value")
    group = start_sentinels(old.resp_port)
    group.wait_until_all_is_well(replicas=1)
    late = RespSocket(old.resp())
    assert late.call("PING") == b"PONG"
    old.process.send_signal(signal.SIGSTOP)
    eventually(lambda: is_stopped(old), "each thread of the master has stopped")
    try:
        # It takes this when it wakes, and does not know then that it is replaced.
        late.send("SET", "of the old one", "value")
        group.wait_for_master(new.resp_port)
        new.redis().set("of the new one", "value")
    finally:
        old.process.send_signal(signal.SIGCONT)
    wait_for_replica(old)
    assert wait_for_same_keys(old, new) == {"common", "of the new one"}
    with pytest.raises(redis.ReadOnlyError):
        old.redis().set("another", "value")


def test_the_replica_of_the_lowest_priority_is_promoted_and_one_of_zero_never(
        start_members, start_sentinels):
    first, never, second, third = start_members(4)
    for hub, priority in [(never, 0), (second, 20), (third, 10)]:
        hub.redis().config_set("replica-priority", priority)
    group = start_sentinels(first.resp_port)
    group.wait_until_all_is_well(replicas=3)
    wanted = {str(never.resp_port): "0", str(second.resp_port): "20", str(third.resp_port): "10"}

    def known(client):
        return {one["port"]: str(one["slave-priority"]) for one in group.replicas(client)}

    eventually(lambda: all(known(client) == wanted for client in group.clients),
               "all sentinels know the priorities", PATIENCE_S)
    first.kill()
    group.wait_for_master(third.resp_port)
    for hub in [never, second]:
        eventually(lambda: replication(hub).get("master_port") == third.resp_port,
                   "the others follow the new master", PATIENCE_S)
        wait_for_replica(hub)
    third.kill()
    group.wait_for_master(second.resp_port)
    assert role_of(never) == "slave"


def test_a_replica_that_is_not_announced_is_not_shown_to_clients(start_members, start_sentinels):
    master, hidden, shown = start_members(3)
    group = start_sentinels(master.resp_port)
    group.wait_until_all_is_well(replicas=2)
    hidden.redis().config_set("replica-announced", "no")

    def ports(client):
        return [one["port"] for one in group.replicas(client)]

    eventually(lambda: all(ports(client) == [str(shown.resp_port)] for client in group.clients),
               "the sentinels show the other one", PATIENCE_S)
    assert group.redis_py().discover_slaves(NAME) == [("127.0.0.1", shown.resp_port)]


def test_too_few_replicas_make_a_master_refuse_writes_until_one_is_back(start_members):
    master, replica = start_members()
    client = master.redis()
    client.config_set("min-replicas-to-write", 1)
    client.config_set("min-replicas-max-lag", 1)
    client.set("key", "value")
    replica.process.send_signal(signal.SIGSTOP)

    def is_refused():
        try:
            client.set("key", "other")
        except redis.ResponseError as error:
            return str(error) == "NOREPLICAS Not enough good replicas to write."
        return False

    try:
        eventually(is_refused, "writes are refused", PATIENCE_S)
        # It stays so: what may be lost is what was written before.
        assert is_refused()
        assert client.get("key") is not None
    finally:
        replica.process.send_signal(signal.SIGCONT)
    eventually(lambda: not is_refused(), "writes are taken again", PATIENCE_S)


# From Redis's documentation of Sentinel and of ACL.
SENTINEL_USER = (
    "ON >word-of-sentinel allchannels +multi +slaveof +ping +exec +subscribe +config|rewrite +role "
    "+publish +info +client|setname +client|kill +script|kill"
).split()
REPLICA_USER = "ON >word-of-replica +psync +replconf +ping".split()


def test_sentinels_with_users_of_their_own_and_a_password(start_hub, start_sentinels):
    admin = {"password": "word-of-admin"}
    hubs = [start_hub() for _ in range(2)]
    for hub in hubs:
        client = hub.redis()
        client.execute_command("ACL", "SETUSER", "sentinel-user", *SENTINEL_USER)
        client.execute_command("ACL", "SETUSER", "replica-user", *REPLICA_USER)
        client.config_set("masteruser", "replica-user")
        client.config_set("masterauth", "word-of-replica")
        client.config_set("requirepass", "word-of-admin")
    old, new = hubs
    new.redis(**admin).replicaof("127.0.0.1", old.resp_port)
    wait_for_replica(new, **admin)
    group = start_sentinels(
        old.resp_port, f"sentinel auth-user {NAME} sentinel-user",
        f"sentinel auth-pass {NAME} word-of-sentinel", "requirepass word-among-sentinels",
        password="word-among-sentinels",
    )
    group.wait_until_all_is_well(replicas=1)
    client = group.redis_py(**admin).master_for(NAME)
    client.set("key", "value")
    assert client.wait(1, 0) == 1
    group.fail_over()
    group.wait_for_master(new.resp_port)
    wait_for_replica(old, **admin)
    old.kill()
    with writing(client) as writer:
        writer.wait_for_more()
    denied = new.redis(**admin).execute_command("ACL", "LOG")
    assert denied == [], "the rights of Redis's documentation are enough"


def test_a_sentinel_ends_a_script_that_makes_its_master_busy(start_members, start_sentinels):
    master, _ = start_members()
    client = master.redis()
    client.config_set("busy-reply-threshold", 100)
    group = start_sentinels(master.resp_port)
    group.wait_until_all_is_well(replicas=1)
    # A wait that fails with an error that says who has ended it.
    script = RespSocket(master.resp())
    with pytest.raises(Reply, match="SCRIPT KILL"):
        script.socket.settimeout(PATIENCE_S)
        script.call("EVAL", "while true do end", 0)
    eventually(lambda: client.ping(), "it answers again")


def test_what_sentinels_tell_each_other_goes_through_the_hubs(start_members, start_sentinels):
    master, replica = start_members()
    group = start_sentinels(master.resp_port)
    for hub in [master, replica]:
        messages = hub.subscriber("__sentinel__:hello")
        ports = set()
        eventually(lambda: ports.add(messages.data().split(b",")[1]) or len(ports) == 3,
                   "a message of each", PATIENCE_S)
        assert ports == {str(port).encode() for port in group.ports}


def test_members_are_known_by_the_addresses_that_they_announce(start_members, start_sentinels):
    old, new = start_members()
    with Relay(old.resp_port) as old_relay, Relay(new.resp_port) as new_relay:
        for hub, relay in [(old, old_relay), (new, new_relay)]:
            hub.redis().config_set("replica-announce-ip", "127.0.0.1")
            hub.redis().config_set("replica-announce-port", relay.port)
        new.redis().replicaof("no", "one")
        new.redis().replicaof("127.0.0.1", old_relay.port)
        wait_for_replica(new)
        group = start_sentinels(old_relay.port)
        group.wait_until_all_is_well(replicas=1)
        assert [one["port"] for one in group.replicas()] == [str(new_relay.port)]
        with writing(group.redis_py().master_for(NAME)) as writer:
            group.fail_over()
            group.wait_for_master(new_relay.port)
            writer.wait_for_more()
        wait_for_replica(old)
        assert replication(old)["master_port"] == new_relay.port
        assert wait_for_same_keys(old, new).issuperset(writer.acknowledged)
        group.wait_until_all_is_well(replicas=1)
        assert [one["port"] for one in group.replicas()] == [str(old_relay.port)]


class Relay:
    """A port that passes all bytes on to another one, as address translation does."""

    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                with suppress(OSError):
                    other = socket.create_connection(("127.0.0.1", self._target))
                    for pair in [(one, other), (other, one)]:
                        threading.Thread(target=self._pass, args=pair, daemon=True).start()

    @staticmethod
    def _pass(source, sink):
        with suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        for one in [source, sink]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.mark.skipif(not has_openssl(), reason="the command openssl makes certificates")
def test_sentinels_over_tls(start_hub, start_sentinels, tmp_path):
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("server", "server")
    files = [f"tls-cert-file {certificate}", f"tls-key-file {key}",
             f"tls-ca-cert-file {authority.certificate}", "tls-auth-clients no"]
    trust = {"ssl": True, "ssl_ca_certs": str(authority.certificate)}
    hubs = []
    for _ in range(2):
        (port,) = free_ports(1)
        sets = ["tls-replication=yes", "tls-auth-clients=no",
                f"tls-ca-cert-file={authority.certificate}"]
        options = [word for one in sets for word in ("--set", one)]
        hub = start_hub("--resp-tls", f"127.0.0.1:{port}", "--tls-cert", certificate,
                        "--tls-key", key, *options)
        hub.tls_port = port
        hubs.append(hub)
    old, new = hubs
    new.redis().replicaof("127.0.0.1", old.tls_port)
    wait_for_replica(new)
    try:
        group = start_sentinels(old.tls_port, *files, "tls-replication yes", tls=trust)
    except AssertionError:
        pytest.skip("this Sentinel is built without TLS")
    group.wait_until_all_is_well(replicas=1)
    client = group.redis_py(**trust).master_for(NAME)
    client.set("key", "value")
    group.fail_over()
    group.wait_for_master(new.tls_port)
    wait_for_replica(old)
    with writing(client) as writer:
        writer.wait_for_more()
    assert wait_for_same_keys(old, new).issuperset({"key", *writer.acknowledged})


def test_the_time_that_a_link_is_down_does_not_count_the_silence_before(start_members):
    # Sentinel promotes no replica whose link was down for more than ten times `down-after`.
    master, replica = start_members()
    master.redis().config_set("repl-ping-replica-period", 3_600)
    silent = lambda: replication(replica)["master_last_io_seconds_ago"] >= 5
    eventually(silent, "the master has nothing to say", PATIENCE_S)
    master.kill()
    eventually(lambda: link_of(replica) == "down", "the link is down")
    assert replication(replica)["master_link_down_since_seconds"] < 5
    assert replica.redis().role()[4] == -1
    replica.redis().replicaof("no", "one")
    replica.redis().replicaof("127.0.0.1", master.resp_port)
    assert replication(replica)["master_link_down_since_seconds"] == -1, "it was never up"
