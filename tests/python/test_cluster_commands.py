"""Commands and ZeroMQ messages of an edge to live keys of other hubs over NATS."""

import pytest
import redis

from nats_servers import SERVER, figures, go_on, pause
from support import eventually
from test_cluster_topics import (  # noqa: F401
    client, fields, get, hub_of, servers, wait_for, wait_for_field,
)
from test_cluster_writes import (  # noqa: F401
    audit, in_background, lines_of, owner_of, plant, refusal, write,
)
from test_plant_tags import start_plant  # noqa: F401
from write_requests import Requests, words

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")


@pytest.fixture
def two_hubs(servers, hub_of):  # noqa: F811
    """An owner with one live key that takes writes, and an edge that has it."""
    def start(*options, extra="", owner_options=()):
        nats = servers()
        owner = hub_of("a", nats, *owner_options, extra=f"writes = 'on'\n{extra}")
        eventually(lambda: _is_set(owner), "the owner's keys can be written")
        edge = hub_of("b", nats, *options, share=())
        wait_for(edge, "live:mode", b"auto")
        return nats, owner, edge

    return start


def _is_set(hub):
    try:
        return write(hub, "live:mode", "auto")
    except redis.ResponseError:
        return False


def ask(hub, *command, **options):
    with hub.redis(decode_responses=False, **options) as connection:
        connection.response_callbacks.clear()
        return connection.execute_command(*command)


COMMANDS = [
    ("live:text", "SET x 5", ["SET x 6 EX 1000", "SET x 7 XX GET KEEPTTL", "SET x 8 NX", "INCR x",
                              "INCRBYFLOAT x 1.5", "APPEND x abc", "SETRANGE x 1 __", "GETSET x 1",
                              "EXPIRE x 500", "PERSIST x", "PEXPIRE x 900000 NX", "SETEX x 100 y",
                              "MSET x z", "SETBIT x 7 1", "GETEX x PERSIST", "GETDEL x"]),
    ("live:hash", "HSET x a 1", ["HSET x b 2 c 3", "HDEL x a none", "HINCRBY x b 5",
                                 "HINCRBYFLOAT x c 0.5", "HSETNX x b 9", "HSET x", "HINCRBY x c 1",
                                 "HGETDEL x FIELDS 1 b", "DEL x"]),
    ("live:list", "RPUSH x a", ["LPUSH x b c", "LSET x 0 d", "LTRIM x 0 1", "LPOP x 5", "LLEN x"]),
    ("live:list2", "RPUSH x a b c", ["LMPOP 1 x LEFT COUNT 2", "LINSERT x BEFORE c d", "UNLINK x"]),
    ("live:set", "SADD x a", ["SADD x b c", "SREM x a none", "SPOP x 5", "SCARD x"]),
    ("live:zset", "ZADD x 1 a", ["ZADD x 2.5 b", "ZINCRBY x 0.5 a", "ZADD x INCR 1 b",
                                 "ZPOPMIN x 1", "ZREM x b"]),
    ("live:stream", "XADD x 1-1 f v", ["XADD x 2-1 f w", "XGROUP CREATE x g 0", "XDEL x 1-1",
                                       "XTRIM x MAXLEN 1", "XADD x 1-1 f late"]),
]


def outcome(hub, line, key, protocol):
    """The reply of a command, or its error."""
    command = [key if word == "x" else word for word in line.split()]
    try:
        return ask(hub, *command, protocol=protocol)
    except redis.ResponseError as error:
        return f"{type(error).__name__} {error}"


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_command_on_a_key_of_another_hub_has_the_reply_that_it_has_there(two_hubs, protocol):
    _, owner, edge = two_hubs()
    for name, first, commands in COMMANDS:
        for key in (name, f"{name}:own"):
            outcome(owner, first, key, protocol)
            eventually(lambda key=key: get(edge, key), key)
        for line in commands:
            # Two keys of the owner: one is changed at the edge, the other one there.
            if fields(edge, name):
                there = outcome(edge, line, name, protocol)
                here = outcome(owner, line, f"{name}:own", protocol)
                if line.startswith(("SPOP", "HGETDEL")):
                    assert type(there) is type(here) and len(there) == len(here), line
                else:
                    # LMPOP says the key's name.
                    assert repr(there) == repr(here).replace(":own", ""), line
                dump = [ask(owner, "DUMP", key) for key in (name, f"{name}:own")]
                assert dump[0] == dump[1], line
                ttl = [ask(owner, "TTL", key) for key in (name, f"{name}:own")]
                assert abs(ttl[0] - ttl[1]) <= 2, line
    # What its hub does not have any more is seen nowhere.
    eventually(lambda: not fields(edge, "live:text"), "the key is gone")


def test_a_change_of_a_field_is_seen_at_all_hubs(two_hubs, hub_of):  # noqa: F811
    nats, owner, edge = two_hubs()
    other = hub_of("c", nats, share=())
    ask(owner, "HSET", "live:pump", "speed", "10")
    for hub in (edge, other):
        wait_for(hub, "live:pump", b'{"speed":"10"}')
    assert ask(edge, "HSET", "live:pump", "speed", "11") == 0
    for hub in (edge, other):
        wait_for(hub, "live:pump", b'{"speed":"11"}')
    assert ask(edge, "HDEL", "live:pump", "speed") == 1
    for hub in (edge, other):
        eventually(lambda hub=hub: not fields(hub, "live:pump"), "the key is gone")
    assert ask(owner, "EXISTS", "live:pump") == 0
    assert ask(edge, "PEXPIRE", "live:mode", 1) == 1
    eventually(lambda: not fields(other, "live:mode"), "the key has expired")


def test_what_cannot_run_at_the_owner_is_refused_with_its_name(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats)
    edge = hub_of("b", nats, share=())
    with client(owner) as keys:
        keys.mset({"live:one": "1", "live:two": "2"})
        keys.rpush("live:list", "x")
    for name in ("live:one", "live:two", "live:list", "mx:Tank1.Setpoint"):
        wait_for_field(edge, name, b"hub", b"a")
    payload = ask(owner, "DUMP", "live:one")
    ask(edge, "SET", "own", "1")
    for command in (["DEL", "live:one", "live:two"], ["RENAME", "live:one", "live:three"],
                    ["RENAME", "own", "live:one"], ["COPY", "own", "live:one", "REPLACE"],
                    ["BLPOP", "live:list", "1"], ["MOVE", "live:one", "3"],
                    ["RESTORE", "live:one", "0", payload, "REPLACE"],
                    ["RESTORE-ASKING", "live:one", "0", payload, "REPLACE"],
                    ["MSET", "live:one", "x", "live:two", "y"],
                    ["EVAL", "return redis.call('DEL', KEYS[1])", "1", "live:one"]):
        text = refusal(edge, *command)
        assert "READONLY" in text and "hub 'a'" in text and "HSET" in text, (command, text)
    for command in (["HSET", "mx:Tank1.Setpoint", "value", "1"], ["DEL", "mx:Tank1.Setpoint"],
                    ["SET", "mx:Tank1.Setpoint", "1", "EX", "5"]):
        text = refusal(edge, *command)
        assert text.startswith("READONLY this tag belongs to hub 'a': a plain SET"), text
    with client(edge) as remote, remote.pipeline() as pipeline:
        pipeline.incr("live:one")
        with pytest.raises(redis.ResponseError, match="hub 'a'"):
            pipeline.execute()
    with client(owner) as keys:
        assert keys.mget("live:one", "live:two") == [b"1", b"2"] and keys.llen("live:list") == 1
    taken = figures(owner, "cluster_writes_taken")
    assert (taken["done"], taken["refused"]) == ("0", "0")


def test_a_hub_that_takes_no_writes_runs_no_command(servers, hub_of):  # noqa: F811
    nats = servers()
    owner, edge = hub_of("a", nats), hub_of("b", nats, share=())
    write(owner, "live:mode", "1")
    wait_for(edge, "live:mode", b"1")
    text = refusal(edge, "INCR", "live:mode")
    assert text.startswith("READONLY hub 'a' takes no writes") and "nothing was written" in text
    assert get(owner, "live:mode") == b"1"


def test_the_audit_names_the_command(two_hubs):
    nats, owner, edge = two_hubs()
    ask(owner, "HSET", "live:pump", "speed", "10")
    wait_for(edge, "live:pump", b'{"speed":"10"}')
    assert ask(edge, "HSET", "live:pump", "speed", "ä") == 0
    assert refusal(edge, "INCR", "live:pump").startswith("WRONGTYPE")
    assert ask(edge, "DEL", "live:pump") == 1
    lines = audit(nats, 3)
    found = [[line[name] for name in ("command", "topic", "value", "outcome")] for line in lines]
    assert found == [["HSET", "live:pump", "speed ä", "done"], ["INCR", "live:pump", "", "refused"],
                     ["DEL", "live:pump", "", "done"]]
    assert lines[0]["value_bytes"] == len("speed ä".encode())
    assert lines[1]["text"].startswith("WRONGTYPE")
    assert figures(edge, "cluster_writes") == {
        "done": "2", "refused": "1", "unknown": "0", "waiting": "0"}


def test_the_users_of_the_edge_decide_who_may_run_what(two_hubs):
    _, owner, edge = two_hubs()
    write(owner, "live:count", "1")
    wait_for(edge, "live:count", b"1")
    with client(edge) as remote:
        remote.acl_setuser("ada", enabled=True, passwords=["+secret"], keys=["live:count"],
                           commands=["+incr"])
        remote.execute_command("AUTH", "ada", "secret")
        assert remote.execute_command("INCR", "live:count") == 2
        for command in (["DEL", "live:count"], ["INCR", "live:mode"]):
            with pytest.raises(redis.exceptions.NoPermissionError):
                remote.execute_command(*command)
    assert get(owner, "live:count") == b"2" and get(owner, "live:mode") == b"auto"


def test_a_command_takes_effect_once_and_only_if_it_names_the_topic_alone(two_hubs):
    nats, owner, _ = two_hubs()
    write(owner, "live:count", "1")
    epoch = int(eventually(lambda: (figures(owner, "cluster_topics") or {}).get("epoch", "0") != "0"
                           and figures(owner, "cluster_topics")["epoch"], "a reign"))
    server = Requests(nats[0].port)
    increase, name = words(b"incr", b"live:count"), b"live:count"
    outcome_of, ticket, text = server.write(epoch, 1, 0, name, increase, kind=3)
    assert (outcome_of, text) == (3, ""), "without a ticket it takes no effect"
    assert server.write(epoch, 2, ticket, name, increase, kind=3)[::2] == (4, ":2\r\n")
    # The same again, one that is late, and what is none of a command: none has an answer.
    for number in (2, 1):
        server.send_write(epoch, number, ticket, name, increase, kind=3)
    for value in (b"", b"\x02", b"\x04" + increase[1:], increase[:-1], increase + b"x"):
        server.send_write(epoch, 3, ticket, name, value, kind=3)
    refused = [words(b"incr", b"live:mode"), words(b"get", name), words(b"blpop", name, b"0"),
               words(b"del", name, b"own"), words(b"flushall"), words(b"config", b"get", name),
               words(b"eval", b"return 1", b"1", name), words(b"none", name), words(b"incr"),
               words(b"migrate", b"127.0.0.1", b"1", name, b"0", b"1"), words(b"move", name, b"1")]
    for number, value in enumerate(refused, 3):
        answer = server.write(epoch, number, ticket, name, value, kind=3)
        assert answer[0] == 1 and answer[2].startswith("ERR "), (value, answer)
    assert server.write(epoch, 90, ticket, name, increase, kind=3)[::2] == (4, ":3\r\n")
    assert get(owner, "live:count") == b"3" and get(owner, "live:mode") == b"auto"
    taken = figures(owner, "cluster_writes_taken")
    assert (taken["done"], taken["repeated"], taken["unreadable"]) == ("2", "2", "5")
    assert taken["refused"] == str(len(refused))
    server.close()


def test_a_command_whose_owner_is_lost_ends_as_unknown_and_is_not_run_later(two_hubs):
    _, owner, edge = two_hubs()
    write(owner, "live:count", "1")
    wait_for(edge, "live:count", b"1")
    assert ask(edge, "INCR", "live:count") == 2
    pause(owner)
    result = in_background(lambda: ask(edge, "INCR", "live:count"))
    text = result()
    assert text.startswith("UNKNOWN hub 'a' is not heard any more"), text
    assert "may have taken the value, or not" in text
    # The lease was over before the edge gave up, so the request has no effect when the owner goes
    # on.
    go_on(owner)
    wait_for_field(edge, "live:count", b"stale", b"0")
    eventually(lambda: _increased(edge), "a command")
    assert get(owner, "live:count") == b"3"


def _increased(hub):
    """Whether a command was run; it was not if not."""
    try:
        return ask(hub, "INCR", "live:count")
    except redis.ResponseError as error:
        assert not str(error).startswith("UNKNOWN"), error
        return False


def test_each_command_is_as_durable_as_at_the_owner_itself(two_hubs, hub_of, tmp_path):  # noqa: F811
    folder = tmp_path / "keys"
    folder.mkdir()
    files = ("--", "--dir", folder, "--appendonly", "yes", "--appendfsync", "always")
    nats, owner, edge = two_hubs(owner_options=files)
    write(owner, "live:count", "0")
    wait_for(edge, "live:count", b"0")
    assert [ask(edge, "INCR", "live:count") for _ in range(20)] == list(range(1, 21))
    owner.kill()
    again = hub_of("a", nats, *files)
    wait_for(again, "live:count", b"20")


def test_a_quorum_has_each_command_before_its_reply(two_hubs, hub_of):  # noqa: F811
    quorum = "durability = 'quorum'"
    nats, owner, edge = two_hubs(extra=quorum)
    write(owner, "live:count", "0")
    wait_for(edge, "live:count", b"0")
    assert [ask(edge, "INCR", "live:count") for _ in range(20)] == list(range(1, 21))
    owner.kill()
    again = hub_of("a", nats, extra=quorum)

    def value():
        try:
            return get(again, "live:count")
        except redis.ResponseError:
            return None

    eventually(lambda: value() == b"20", "the last value")


def test_the_longest_command_and_reply_are_carried_and_longer_ones_are_told(two_hubs):
    _, owner, edge = two_hubs()
    for name in ("long", "longest"):
        write(owner, f"live:{name}", "")
        wait_for(edge, f"live:{name}", b"")
    half = b"x" * (512 * 1024 - 1 - 3 * 4 - len("append" + "live:long"))
    assert ask(edge, "APPEND", "live:long", half) == len(half)
    assert "at most 524288 bytes" in refusal(edge, "APPEND", "live:long", half + b"x")
    assert get(owner, "live:long") == half
    for name, length in (("long", 1_047_000), ("longest", 1_048_576)):
        write(owner, f"live:{name}", b"y" * length)
        eventually(lambda name=name, length=length: len(get(edge, f"live:{name}") or b"") == length,
                   "the long value")
    assert ask(edge, "GETDEL", "live:long") == b"y" * 1_047_000
    text = refusal(edge, "GETDEL", "live:longest")
    assert "hub 'a' has run the command, but its reply has 1048588 bytes" in text
    assert ask(owner, "EXISTS", "live:long", "live:longest") == 0


def test_commands_travel_while_the_edge_has_no_memory_left(two_hubs):
    _, owner, edge = two_hubs()
    ask(edge, "CONFIG", "SET", "maxmemory", "1")
    assert "used memory" in refusal(edge, "SET", "own", "1")
    assert ask(edge, "APPEND", "live:mode", "x") == 5
    assert get(owner, "live:mode") == b"autox"


def test_messages_of_a_pusher_reach_the_hub_of_the_topic_in_their_order(two_hubs):
    _, owner, edge = two_hubs()
    write(owner, "live:count", "-1")
    wait_for(edge, "live:count", b"-1")
    with client(owner) as keys:
        heard = keys.pubsub(ignore_subscribe_messages=True)
        heard.subscribe("live:count")
        push = edge.push()
        for number in range(3_000):
            push.send_multipart([b"live:count", str(number).encode()])
        wait_for(owner, "live:count", b"2999")
        wait_for(edge, "live:count", b"2999")
        values = []
        eventually(lambda: _hear(heard, values) == 2_999, "the last value")
        values = [value for value in values if value >= 0]
        assert values == list(range(3_000)), "each one, in order"
    assert edge.info("topics")["zmq_pushed_messages"] == 3_000
    eventually(lambda: figures(edge, "cluster_writes")["waiting"] == "0", "none waits")
    assert figures(edge, "cluster_writes")["done"] == "3000"
    assert figures(owner, "cluster_writes_taken")["done"] == "3000"


def _hear(heard, values):
    while message := heard.get_message():
        values.append(int(message["data"]))
    return values[-1] if values else None


def test_a_message_that_its_hub_does_not_take_is_counted_and_logged(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner_of("a", nats)
    silent = hub_of("b", nats)
    edge = hub_of("c", nats, share=())
    write(silent, "live:mode", "auto")
    wait_for(edge, "live:mode", b"auto")
    wait_for_field(edge, "mx:Tank1.Setpoint", b"hub", b"a")
    push = edge.push()
    push.send_multipart([b"live:mode", b"manual"])
    eventually(lambda: figures(edge, "cluster_writes")["refused"] == "1", "it is refused")
    assert "a ZeroMQ message for a topic of another hub is not written" in edge.stderr
    # A tag is written by SET alone, as a tag of the hub's own plant.
    push.send_multipart([b"mx:Tank1.Setpoint", b"1"])
    eventually(lambda: edge.info("topics")["zmq_rejected_messages"] == 1, "it is refused")
    assert get(silent, "live:mode") == b"auto"
