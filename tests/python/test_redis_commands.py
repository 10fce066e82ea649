"""Redis clients: redis-py in both protocols, redis-cli, and the commands that they use."""

import shutil
import subprocess
import time

import pytest
import redis

from support import Reply, RespSocket, command, eventually, is_closed


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(hub, request):
    return hub.redis(request.param)


def test_ping_and_echo(hub, client):
    assert client.ping() is True
    assert client.echo(b"\x00bytes\r\n") == b"\x00bytes\r\n"
    plain = RespSocket(hub.resp())
    assert plain.call("PING", "hello") == b"hello"
    with pytest.raises(Reply, match="wrong number of arguments"):
        plain.call("PING", "1", "2")


def test_exec_with_an_argument_ends_the_transaction(hub):
    client = RespSocket(hub.resp())
    assert client.call("WATCH", "a") == b"OK"
    assert client.call("MULTI") == b"OK"
    assert client.call("SET", "a", "1") == b"QUEUED"
    wrong = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec'"
    with pytest.raises(Reply, match=wrong):
        client.call("EXEC", "x")
    with pytest.raises(Reply, match="ERR EXEC without MULTI"):
        client.call("EXEC")
    assert client.call("GET", "a") is None
    # Nothing is watched any more either.
    assert b"watch=0" in client.call("CLIENT", "INFO")


def test_numbers_are_read_as_c_reads_them(hub):
    client = RespSocket(hub.resp())
    assert client.call("HINCRBYFLOAT", "h", "f", "0x10") == b"16"
    assert client.call("HSET", "h", "f", "0x1p-1") == 0
    assert client.call("HINCRBYFLOAT", "h", "f", "1") == b"1.5"
    assert client.call("INCRBYFLOAT", "s", "-0X.8P1") == b"-1"
    with pytest.raises(Reply, match="not a valid float"):
        client.call("INCRBYFLOAT", "s", "0x")


def test_watch_of_many_keys_takes_them_all(hub):
    client, other = RespSocket(hub.resp()), hub.redis()
    keys = [f"key:{number}" for number in range(50_000)]
    for _ in range(2):
        assert client.call("WATCH", *keys, *keys[:100]) == b"OK"
        assert b"watch=50000" in client.call("CLIENT", "INFO")
        other.set(keys[-1], "1")
        assert client.call("MULTI") == b"OK"
        assert client.call("EXEC") is None
    assert b"watch=0" in client.call("CLIENT", "INFO")


def test_hello_switches_the_protocol_and_tells_of_the_server(hub):
    client = RespSocket(hub.resp())
    assert client.call("HELLO")[:6] == [b"server", b"redis", b"version", b"8.6.3", b"proto", 2]
    assert isinstance(client.call("CONFIG", "GET", "databases"), list)
    told = client.call("HELLO", "3", "SETNAME", "tester")
    assert told[b"proto"] == 3 and told[b"role"] == b"master" and told[b"id"] > 0
    assert told[b"mode"] == b"standalone" and told[b"modules"] == []
    assert client.call("CONFIG", "GET", "databases") == {b"databases": b"16"}
    assert client.call("CLIENT", "GETNAME") == b"tester"
    assert client.call("GET", "nothing") is None
    with pytest.raises(Reply, match="NOPROTO"):
        client.call("HELLO", "4")
    with pytest.raises(Reply, match="ERR Protocol version"):
        client.call("HELLO", "x")
    assert isinstance(client.call("HELLO", "2"), list)


def test_client_names_ids_and_lists(hub, client):
    assert client.client_getname() is None
    assert client.client_setname("worker") is True
    assert client.client_getname() in (b"worker", "worker")
    with pytest.raises(redis.ResponseError, match="cannot contain spaces"):
        client.client_setname("two words")
    assert client.client_setinfo("LIB-NAME", "tests") is True
    assert client.client_setinfo("LIB-VER", "1.2.3") is True
    own = client.client_info()
    assert own["name"] == "worker" and own["id"] == client.client_id()
    assert (own["lib-name"], own["lib-ver"]) == ("tests", "1.2.3")
    assert own["resp"] == str(client.get_connection_kwargs()["protocol"])
    other = hub.redis()
    assert other.client_id() != client.client_id()
    listed = {int(line["id"]): line for line in client.client_list()}
    assert listed[client.client_id()]["name"] == "worker"
    assert other.client_id() in listed
    [only] = client.client_list(client_id=[other.client_id()])
    assert int(only["id"]) == other.client_id()


def test_a_killed_client_is_closed_and_leaves_the_list(hub, client):
    victim = RespSocket(hub.resp())
    number = victim.call("CLIENT", "ID")
    assert client.client_kill_filter(_id=number) == 1
    assert is_closed(victim.socket)
    eventually(lambda: not client.client_list(client_id=[number]), "the end of the killed client")


def test_command_describes_itself(hub, client):
    everything = client.command()
    assert client.command_count() == len(everything) > 60
    assert everything["get"]["arity"] == 2 and "readonly" in everything["get"]["flags"]
    assert {"hset", "subscribe", "client", "scan"} <= set(everything)
    # redis-py has no reader for what follows.
    plain = RespSocket(hub.resp())
    plain.call("HELLO", "3")
    assert {b"get", b"client|setname"} <= set(plain.call("COMMAND", "LIST"))
    docs = plain.call("COMMAND", "DOCS", "set", "hset", "nonsense")
    assert set(docs) == {b"set", b"hset"}
    assert docs[b"set"][b"group"] == b"string" and docs[b"set"][b"summary"]
    get, nothing = plain.call("COMMAND", "INFO", "get", "nonsense")
    assert get[:2] == [b"get", 2] and nothing is None
    assert plain.call("COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2") == [b"a", b"b"]


def test_info_has_its_sections_and_the_version_that_clients_expect(client):
    info = client.info()
    assert info["redis_version"] == "8.6.3" and info["arch_bits"] == 64
    assert info["cluster_enabled"] == 0 and info["role"] == "master"
    assert info["connected_clients"] >= 1 and info["used_memory"] > 1 << 19
    assert "redis_version" not in client.info("feed")
    assert client.info("feed")["feed_lost_messages"] == 0
    before = client.info("stats")["total_commands_processed"]
    client.set("a", 1)
    assert client.info("stats")["total_commands_processed"] > before
    assert client.info("keyspace")["db0"]["keys"] == 1


def test_config_get_finds_by_pattern(client):
    assert client.config_get("maxmemory") == {"maxmemory": "0"}
    assert {"save", "appendonly", "databases"} <= set(client.config_get())
    found = client.config_get("maxmemory*", "appendonly")
    assert set(found) == {
        "maxmemory", "maxmemory-clients", "maxmemory-counts-resident",
        "maxmemory-eviction-tenacity", "maxmemory-policy", "maxmemory-samples", "appendonly",
    }
    assert client.config_get("no-such-thing") == {}


def test_databases_are_apart(client):
    client.set("a", "zero")
    assert client.select(3) is True
    assert client.get("a") is None and client.dbsize() == 0
    client.set("a", "three")
    assert client.dbsize() == 1
    client.select(0)
    assert client.get("a") == b"zero"
    with pytest.raises(redis.ResponseError, match="out of range"):
        client.select(16)


def test_dbsize_and_flushall(client):
    client.mset({f"k{number}": number for number in range(500)})
    assert client.dbsize() == 500
    client.select(1)
    client.set("other", "1")
    assert client.flushall() is True
    assert client.dbsize() == 0
    client.select(0)
    assert client.dbsize() == 0 and client.keys() == []


def test_set_and_get_bytes_of_any_kind(client):
    for value in [b"", b"x", b"\x00\xff\r\n", b"9" * 19, b"-1", b"007", b"v" * 1_000_000]:
        assert client.set("k", value) is True
        assert client.get("k") == value
    assert client.get("nothing") is None
    assert client.type("k") == b"string"


def test_set_with_all_its_options(client):
    assert client.set("k", "1", nx=True) is True
    assert client.set("k", "2", nx=True) is None
    assert client.get("k") == b"1"
    assert client.set("missing", "1", xx=True) is None
    assert client.exists("missing") == 0
    assert client.set("k", "3", xx=True) is True
    assert client.set("k", "4", get=True) == b"3"
    assert client.set("fresh", "1", get=True) is None
    assert client.set("k", "5", nx=True, get=True) == b"4"
    assert client.get("k") == b"4"

    client.set("k", "1", ex=100)
    assert 98 <= client.ttl("k") <= 100
    client.set("k", "2", keepttl=True)
    assert client.ttl("k") > 0
    client.set("k", "3")
    assert client.ttl("k") == -1, "a plain SET takes the deadline away"
    client.set("k", "1", px=100_000)
    assert 98_000 <= client.pttl("k") <= 100_000
    now = int(time.time())
    client.set("k", "1", exat=now + 200)
    assert 195 <= client.ttl("k") <= 200
    client.set("k", "1", pxat=(now + 300) * 1000)
    assert 295 <= client.ttl("k") <= 300
    client.set("k", "1", exat=now - 10)
    assert client.exists("k") == 0, "a deadline that has passed"


@pytest.mark.parametrize(
    "options, words",
    [
        (["NX", "XX"], "syntax error"),
        (["EX", "10", "PX", "10"], "syntax error"),
        (["EX", "10", "KEEPTTL"], "syntax error"),
        (["NONSENSE"], "syntax error"),
        (["EX"], "syntax error"),
        (["EX", "x"], "not an integer"),
        (["EX", "0"], "invalid expire time in 'set' command"),
        (["PX", "-5"], "invalid expire time in 'set' command"),
        (["EX", "9223372036854775807"], "invalid expire time in 'set' command"),
    ],
)
def test_set_refuses_options_that_make_no_sense(client, options, words):
    client.set("k", "kept")
    with pytest.raises(redis.ResponseError, match=words):
        client.execute_command("SET", "k", "v", *options)
    assert client.get("k") == b"kept"


def test_del_exists_and_type(client):
    client.mset({"a": 1, "b": 2})
    client.hset("h", "f", "v")
    assert client.exists("a", "b", "a", "nothing") == 3
    assert (client.type("a"), client.type("h"), client.type("no")) == (b"string", b"hash", b"none")
    assert client.delete("a", "h", "nothing", "a") == 2
    assert client.exists("a", "h") == 0


def test_deadlines(client):
    client.set("k", "v")
    assert client.ttl("k") == -1 and client.ttl("nothing") == -2
    assert client.pttl("nothing") == -2 and client.expiretime("k") == -1
    assert client.expire("k", 100) is True and client.expire("nothing", 100) is False
    assert 98 <= client.ttl("k") <= 100
    assert client.expire("k", 50, gt=True) is False
    assert client.expire("k", 50, lt=True) is True
    assert client.expire("k", 60, nx=True) is False
    assert client.expire("k", 60, xx=True) is True
    assert client.pexpire("k", 90_000) is True and 85_000 <= client.pttl("k") <= 90_000
    then = int(time.time()) + 1000
    assert client.expireat("k", then) is True and client.expiretime("k") == then
    assert client.pexpireat("k", then * 1000 + 5) is True
    assert client.pexpiretime("k") == then * 1000 + 5
    assert client.persist("k") is True and client.persist("k") is False
    assert client.ttl("k") == -1
    client.expire("k", -1)
    assert client.exists("k") == 0


def test_keys_vanish_when_their_time_comes(hub):
    client = hub.redis()
    pipeline = client.pipeline(transaction=False)
    for number in range(500):
        pipeline.set(f"short{number}", "v", px=50 + number % 50)
    pipeline.set("long", "v", ex=100)
    pipeline.execute()
    # Not looked at by name: they must go by themselves, and at once.
    eventually(lambda: client.dbsize() == 1, "the end of all deadlines", 5)
    assert client.keys() == [b"long"] and client.get("short7") is None
    assert client.info("stats")["expired_keys"] == 500


def test_counting(client):
    assert client.incr("n") == 1 and client.incrby("n", 41) == 42
    assert client.decr("n") == 41 and client.decrby("n", 50) == -9
    assert client.incrbyfloat("n", 0.5) == -8.5 and client.get("n") == b"-8.5"
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.incr("n")
    client.set("n", 2**63 - 1)
    with pytest.raises(redis.ResponseError, match="overflow"):
        client.incr("n")
    assert client.get("n") == b"9223372036854775807"
    client.hset("h", "f", "v")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.incr("h")


def test_mget_and_mset(client):
    assert client.mset({"a": "1", "b": "2"}) is True
    client.hset("h", "f", "v")
    assert client.mget("a", "nothing", "b", "h") == [b"1", None, b"2", None]
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        client.execute_command("MSET", "a", "1", "b")


def test_hashes(client):
    assert client.hset("h", mapping={"a": "1", "b": "2"}) == 2
    assert client.hset("h", "a", "one") == 0
    assert client.hget("h", "a") == b"one" and client.hget("h", "nothing") is None
    assert client.hmget("h", "a", "nothing", "b") == [b"one", None, b"2"]
    assert client.hgetall("h") == {b"a": b"one", b"b": b"2"}
    assert client.hlen("h") == 2 and client.hlen("nothing") == 0
    assert client.hgetall("nothing") == {}
    client.hset("big", mapping={f"f{number}": "v" * 100 for number in range(2000)})
    assert client.hlen("big") == 2000 and len(client.hgetall("big")) == 2000
    client.set("text", "v")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.hget("text", "a")


def test_keys_and_scan_find_each_key_once(client):
    client.mset({f"key:{number}": "v" for number in range(1000)})
    client.hset("hash", "f", "v")
    assert len(client.keys("*")) == 1001
    assert sorted(client.keys("key:99?")) == [b"key:%d" % n for n in range(990, 1000)]
    assert client.keys("[gh]ash") == [b"hash"] and client.keys("nothing*") == []
    scanned = list(client.scan_iter())
    assert len(scanned) == len(set(scanned)) == 1001
    assert len(list(client.scan_iter(match="key:1*", count=10))) == 111
    assert list(client.scan_iter(_type="hash")) == [b"hash"]
    cursor, some = client.scan(count=10)
    assert cursor != 0 and 0 < len(some) < 1001
    with pytest.raises(redis.ResponseError, match="invalid cursor"):
        client.execute_command("SCAN", "x")


@pytest.mark.parametrize("protocol", [2, 3])
def test_publish_reaches_channels_and_patterns(hub, protocol):
    client = hub.redis(protocol)
    assert client.publish("news", "nobody") == 0
    plain = hub.subscriber("news", protocol=protocol)
    pattern = hub.subscriber(patterns=["n?ws", "x*"], protocol=protocol)
    assert client.publish("news", b"\x00hello\r\n") == 2
    message = plain.next()
    assert (message["type"], message["channel"]) == ("message", b"news")
    assert message["data"] == b"\x00hello\r\n"
    message = pattern.next()
    assert (message["type"], message["pattern"]) == ("pmessage", b"n?ws")
    assert (message["channel"], message["data"]) == (b"news", b"\x00hello\r\n")
    assert client.publish("other", "1") == 0
    assert client.pubsub_channels() == [b"news"]
    assert client.pubsub_channels("x*") == []
    assert client.pubsub_numpat() == 2
    assert [(bytes(a), b) for a, b in client.pubsub_numsub("news", "other")] == [
        (b"news", 1), (b"other", 0),
    ]
    plain.pubsub.unsubscribe("news")
    assert plain.next()["type"] == "unsubscribe"
    assert client.publish("news", "2") == 1
    assert pattern.data() == b"2"
    pattern.pubsub.punsubscribe()
    assert {pattern.next()["channel"] for _ in range(2)} == {b"n?ws", b"x*"}
    assert client.pubsub_numpat() == 0


def test_messages_keep_their_order_and_their_number(hub):
    subscriber = hub.subscriber("numbers")
    pipeline = hub.redis().pipeline(transaction=False)
    for number in range(5000):
        pipeline.publish("numbers", number)
    assert pipeline.execute() == [1] * 5000
    assert [int(subscriber.data()) for _ in range(5000)] == list(range(5000))


def test_large_messages_arrive_whole(hub):
    subscribers = [hub.subscriber("large", protocol=protocol) for protocol in (2, 3)]
    body = bytes(range(256)) * 4000
    assert hub.redis().publish("large", body) == 2
    assert [subscriber.data() == body for subscriber in subscribers] == [True, True]


def test_a_pipeline_is_answered_in_order_up_to_quit(hub):
    client = RespSocket(hub.resp())
    requests = [command("INCR", "n") for _ in range(10_000)]
    client.socket.sendall(b"".join(requests) + command("QUIT") + command("INCR", "n"))
    assert [client.read() for _ in range(10_000)] == list(range(1, 10_001))
    assert client.read() == b"OK"
    assert is_closed(client.socket)
    assert hub.redis().get("n") == b"10000", "nothing is done behind QUIT"


def test_inline_commands_are_understood(hub):
    client = RespSocket(hub.resp())
    client.socket.sendall(b"SET greeting 'hello world'\r\nGET greeting\nPING\r\n")
    assert [client.read() for _ in range(3)] == [b"OK", b"hello world", b"PONG"]


def test_errors_name_what_is_wrong_and_the_connection_goes_on(hub):
    client = RespSocket(hub.resp())
    for request, words in [
        (("NOSUCH", "a"), "ERR unknown command 'NOSUCH'"),
        (("GET",), "ERR wrong number of arguments for 'get' command"),
        (("CLIENT", "NOSUCH"), "ERR unknown subcommand 'NOSUCH'"),
        (("AUTH", "secret"), "AUTH"),
    ]:
        with pytest.raises(Reply, match=words):
            client.call(*request)
    assert client.call("PING") == b"PONG"
    assert hub.info("stats")["total_error_replies"] >= 4


@pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not on PATH")
@pytest.mark.parametrize("options", [[], ["-3"]], ids=["resp2", "resp3"])
def test_redis_cli(simulated, options):
    def cli(*arguments, script=None):
        line = ["redis-cli", "-p", str(simulated.resp_port), *options, *arguments]
        done = subprocess.run(line, input=script, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done
        return done.stdout

    assert cli("PING") == "PONG\n"
    assert cli("SET", "k", "v", "EX", "100") == "OK\n"
    assert cli("GET", "k") == "v\n"
    assert "bid" in cli("HGETALL", "md:RELIANCE")
    assert "md:RELIANCE" in cli("--scan", "--pattern", "md:*").split()
    assert "READONLY" in cli("HSET", "md:RELIANCE", "bid", "1")
    assert cli(script="SET a 1\nINCR a\n").split() == ["OK", "2"]
    assert "tidewire_version" in cli("INFO")


@pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not on PATH")
def test_redis_cli_subscribes(simulated, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        line = ["redis-cli", "-p", str(simulated.resp_port), "SUBSCRIBE", "md:RELIANCE"]
        cli = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out)
    try:
        text = eventually(
            lambda: (tmp_path / "out").read_text().count('"symbol":"RELIANCE"') > 3
            and (tmp_path / "out").read_text(),
            "updates in redis-cli",
        )
    finally:
        cli.terminate()
        cli.wait()
    first, second = [line for line in text.splitlines() if line.startswith("{")][:2]
    assert '"snapshot":true' in first and '"snapshot":true' not in second


REFUSALS = [
    (("SCAN", "-5"), "ERR invalid cursor"),
    (("LMPOP", 1, "list", "LEFT", "COUNT", 0, "COUNT", 2), "ERR count should be greater than 0"),
    (("LMPOP", 1, "list", "LEFT", "COUNT", 1, "COUNT", 2), "ERR syntax error"),
    (("ACL", "LOG", "RESET", "x"),
     "ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP."),
    (("SLOWLOG", "GET", "x"), "ERR count should be greater than or equal to -1"),
    (("CONFIG", "SET", "slave-read-only", "x"),
     "ERR CONFIG SET failed (possibly related to argument 'slave-read-only') - argument must be "
     "'yes' or 'no'"),
    (("PUBSUB", "CHANNELS", "a", "b"),
     "ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP."),
]


@pytest.mark.parametrize("words, text", REFUSALS)
def test_a_mistake_gets_the_error_that_redis_has_for_it(hub, words, text):
    with pytest.raises(Reply) as refusal:
        RespSocket(hub.resp()).call(*words)
    assert str(refusal.value) == text


@pytest.mark.parametrize("cursor", ["+0", " 0", "-0", "00"])
def test_a_cursor_is_any_text_that_is_a_number_for_redis(hub, cursor):
    client = RespSocket(hub.resp())
    client.call("SET", "key", "value")
    assert client.call("SCAN", cursor, "COUNT", 1000) == [b"0", [b"key"]]


def test_sort_takes_a_text_that_begins_with_a_zero_for_nothing(hub):
    client = hub.redis()
    client.rpush("list", b"\0a", b"1", b"\0b", b"-1")
    assert client.sort("list") == [b"-1", b"\0a", b"\0b", b"1"]


def test_pfmerge_keeps_what_its_destination_had_counted(hub):
    client = hub.redis()
    client.pfadd("to", "a", "b", "c")
    client.pfadd("from", "d")
    assert client.pfcount("to") == 3
    client.pfmerge("to", "from")
    assert client.get("to")[:16] == b"HYLL\1\0\0\0\3" + bytes(6) + b"\x80"
    assert client.pfcount("to") == 4


def test_a_transaction_subscribes_to_no_shard_channel(hub):
    client = RespSocket(hub.resp())
    client.call("MULTI")
    client.call("SSUBSCRIBE", "channel")
    client.send("EXEC")
    assert client.file.readline() == b"*1\r\n"
    with pytest.raises(Reply, match="SSUBSCRIBE isn't allowed for a DENY BLOCKING client"):
        client.read()
    assert client.call("PING") == b"PONG"
