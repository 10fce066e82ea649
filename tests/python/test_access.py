"""Access control: the keys that a command touches are the keys that the user may touch, by whatever
way the command comes."""

import pytest
import redis

from support import Reply, RespSocket

# Each touches `secret`, which the user may not; what is named before it the user may.
REQUESTS = [
    "GEORADIUS src 1 1 100 km STORE ok STORE secret",
    "GEORADIUS src 1 1 100 km STORE ok STOREDIST secret",
    "GEORADIUS src 1 1 100 km STOREDIST ok STOREDIST secret",
    "GEORADIUS src 1 1 100 km STORE okSTORE STORE secret",
    "GEORADIUSBYMEMBER src m 100 km STORE ok STORE secret",
    "GEORADIUSBYMEMBER src m 100 km STOREDIST ok ASC STORE secret",
    "SORT srclist STORE ok STORE secret",
    "SORT srclist STORE secret BY store",
    "SORT srclist STORE secret BY store ASC",
    "SORT srclist STORE ok BY nosort STORE secret",
    "XREADGROUP COUNT 5 GROUP streams ok STREAMS secretstream >",
    "XREADGROUP NOACK GROUP streams ok STREAMS secretstream >",
    "COPY src secret REPLACE",
    "ZUNIONSTORE ok 2 src secret",
    "SINTERCARD 2 ok secret LIMIT 1",
    "LMPOP 2 ok secret LEFT",
    "EVAL return 2 ok secret",
    "BITOP OR ok src secret",
    "SET secret v GET",
]


@pytest.fixture
def guarded(start_hub):
    """A hub with the keys, and with a user who may touch `src*` and `ok*` alone."""
    hub = start_hub("--lanes", "2", "--zmq-mechanism", "plain")
    admin = hub.redis()
    admin.geoadd("src", [1, 1, "m"])
    admin.rpush("srclist", 3, 1, 2)
    admin.xadd("secretstream", {"f": "v"})
    admin.xgroup_create("secretstream", "streams", 0)
    admin.set("secret", "untouched")
    admin.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "~src*", "~ok*", "+@all")
    hub.limited = hub.redis(username="limited", password="pw")
    yield hub
    assert admin.get("secret") == b"untouched"
    assert admin.xpending("secretstream", "streams")["pending"] == 0


@pytest.mark.parametrize("line", REQUESTS)
def test_a_key_that_may_not_be_touched_is_not_touched_by_an_option_that_comes_twice(guarded, line):
    words = line.split(" ")
    with pytest.raises(redis.exceptions.NoPermissionError):
        guarded.limited.execute_command(*words)
    pipeline = guarded.limited.pipeline(transaction=True)
    pipeline.execute_command(*words)
    with pytest.raises((redis.exceptions.NoPermissionError, redis.exceptions.ExecAbortError)):
        pipeline.execute()
    if words[0] == "EVAL":
        return
    script = "return redis.call(unpack(ARGV))"
    with pytest.raises(redis.exceptions.ResponseError, match="NOPERM|ermission"):
        guarded.limited.eval(script, 0, *words)


def test_what_is_told_of_a_command_s_keys_is_what_is_checked(guarded):
    def keys(line):
        return guarded.redis().execute_command("COMMAND GETKEYS", *line.split())

    assert keys("GEORADIUS src 1 1 100 km STORE ok STORE secret") == ["src", "secret"]
    assert keys("SORT srclist STORE secret BY store") == ["srclist", "secret"]
    line = "XREADGROUP COUNT 5 GROUP streams ok STREAMS a b > >"
    assert keys(line) == ["a", "b"]
    client = guarded.redis()
    denied = client.execute_command(
        "ACL", "DRYRUN", "limited", *"GEORADIUS src 1 1 9 km STORE ok STORE secret".split()
    )
    assert b"secret" in denied


def test_the_last_of_two_options_is_obeyed_where_it_is_allowed(guarded):
    run = guarded.limited.execute_command
    assert run(*"GEORADIUS src 1 1 100 km STORE ok1 STORE ok2".split()) == 1
    assert run(*"SORT srclist STORE ok1 STORE oklist".split()) == 3
    assert guarded.redis().exists("ok1", "ok2", "oklist") == 2


def test_a_transaction_ends_with_an_exec_that_its_user_may_not_run(hub):
    hub.redis().execute_command("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all", "-exec")
    one = RespSocket(hub.resp())
    assert one.call("AUTH", "u", "any") == b"OK"
    assert one.call("MULTI") == b"OK"
    assert one.call("SET", "k", "v") == b"QUEUED"
    with pytest.raises(Reply, match="EXECABORT Transaction discarded because of: NOPERM"):
        one.call("EXEC")
    # The transaction is over.
    assert one.call("SET", "k", "w") == b"OK"


def test_a_script_is_refused_with_the_code_that_redis_gives(hub):
    hub.redis().execute_command("ACL", "SETUSER", "u", "on", "nopass", "~a", "+@all")
    one = RespSocket(hub.resp())
    assert one.call("AUTH", "u", "any") == b"OK"
    with pytest.raises(Reply, match="^ERR ACL failure in script: "):
        one.call("EVAL", "return redis.call('SET', 'b', 1)", "0")
