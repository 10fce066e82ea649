"""`compatibility valkey`: what differs from Redis; and rules about databases, which both have."""

import pytest
import zmq

from support import Reply, RespSocket, eventually

DENIED = "No permissions to access database"


@pytest.fixture(params=["redis", "valkey"])
def either(request, start_hub):
    """A hub that follows the one or the other."""
    hub = start_hub("--lanes", "2", "--set", f"compatibility={request.param}")
    hub.compatibility = request.param
    return hub


@pytest.fixture
def valkey(start_hub):
    """A hub that follows Valkey."""
    return start_hub("--lanes", "2", "--set", "compatibility=valkey")


def connect(hub):
    return RespSocket(hub.resp())


def run(client, line):
    return client.call(*line.split(" "))


def pairs(reply):
    return dict(zip(reply[::2], reply[1::2]))


def info(client, section):
    lines = run(client, f"INFO {section}").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def user(hub, name, rules):
    """A client that is a user with these rules."""
    run(connect(hub), f"ACL SETUSER {name} on nopass {rules}")
    client = connect(hub)
    run(client, f"AUTH {name} any")
    return client


def refused(client, line, text=DENIED):
    with pytest.raises(Reply) as caught:
        run(client, line)
    assert text in str(caught.value), line


# ------------------------------------------------------------------ databases in rules

REFUSED_IN_0 = [
    "GET key", "SET key v", "EXISTS key", "DEL key", "WATCH key", "EVAL return 1 0", "KEYS *",
    "SCAN 0", "DBSIZE", "RANDOMKEY", "FLUSHDB", "FLUSHALL", "MOVE key 1", "COPY key other DB 1",
    "SWAPDB 0 1", "SELECT 0", "SELECT 2", "BLPOP list 1", "OBJECT ENCODING key", "SORT list",
    "MIGRATE 127.0.0.1 1 key 0 10", "DUMP key", "TOUCH key", "XREAD STREAMS stream 0",
    "FCALL none 0", "RESTORE other 0 x", "MSET key 1 other 2", "RENAME key other",
]


@pytest.mark.parametrize("line", REFUSED_IN_0)
def test_commands_on_keys_are_refused_in_a_database_that_is_not_allowed(either, line):
    admin = connect(either)
    run(admin, "SET key secret")
    refused(user(either, "one", "+@all ~* db=1"), line)
    assert run(admin, "GET key") == b"secret"


def test_commands_without_keys_are_allowed_everywhere(either):
    client = user(either, "one", "+@all ~* db=1")
    assert run(client, "PING") == b"PONG"
    assert run(client, "ACL WHOAMI") == b"one"
    assert run(client, "INFO server")
    assert run(client, "SELECT 1") == b"OK"
    assert run(client, "SET key v") == b"OK"


def test_no_option_names_a_database_behind_the_rules(either):
    admin, client = connect(either), user(either, "some", "+@all ~* db=0,1")
    run(client, "SET key v")
    for options in ["DB 2", "DB 2 REPLACE", "REPLACE DB 2", "DB 1 DB 2", "DB 2 DB 1",
                    "DB 1 REPLACE DB 2", "db 2 replace db 1"]:
        refused(client, f"COPY key copy {options}")
        entry = pairs(run(admin, "ACL LOG")[0])
        assert (entry[b"reason"], entry[b"object"]) == (b"database", b"2")
    refused(client, "MOVE key 2")
    refused(client, "SWAPDB 2 0")
    refused(client, "SWAPDB 0 2")
    assert run(client, "COPY key copy DB 1 REPLACE DB 1") == 1
    assert run(client, "MOVE key 1") == 1
    run(admin, "SELECT 2")
    assert run(admin, "DBSIZE") == 0


def test_a_transaction_is_checked_in_the_database_that_it_has_selected(either):
    client = user(either, "both", "(db=0,1 +@all -@read ~*) (db=2 +@all -@write ~*)")
    for line in ["MULTI", "SET a 1", "SELECT 2", "GET a", "SELECT 0", "SET b 1"]:
        run(client, line)
    assert len(run(client, "EXEC")) == 5
    run(client, "MULTI")
    run(client, "SELECT 2")
    refused(client, "SET a 1", "no permissions to run")
    refused(client, "EXEC", "EXECABORT")
    run(client, "MULTI")
    run(client, "SELECT 2")
    run(client, "GET a")
    run(connect(either), "ACL SETUSER both resetdbs clearselectors +@all db=0")
    replies = [str(reply) for reply in exec_replies(client)]
    assert replies[0] == "b'OK'" or "NOPERM" in replies[0], replies
    assert any("NOPERM" in reply for reply in replies), replies


def exec_replies(client):
    """The replies within EXEC's, of which some are errors."""
    client.send("EXEC")
    header = client.file.readline()
    assert header.startswith(b"*"), header
    replies = []
    for _ in range(int(header[1:])):
        try:
            replies.append(client.read())
        except Reply as error:
            replies.append(error)
    return replies


def test_scripts_and_functions_keep_to_the_databases_of_their_caller(either):
    admin = connect(either)
    run(admin, "SELECT 2")
    run(admin, "SET key secret")
    client = user(either, "some", "+@all ~* db=0,1")
    script = "redis.call('SELECT', 2) return redis.call('GET', 'key')"
    library = f"#!lua name=lib\nredis.register_function('leak', function() {script} end)"
    admin.call("FUNCTION", "LOAD", library)
    pcall = "return redis.pcall('MOVE', 'key', 2)"
    for request in [("EVAL", script, 0), ("EVAL_RO", script, 0), ("FCALL", "leak", 0),
                    ("EVAL", pcall, 0)]:
        with pytest.raises(Reply, match=DENIED):
            client.call(*request)
    asks = "redis.call('SELECT', 1) return redis.acl_check_cmd('COPY', 'a', 'b', 'DB', '2')"
    assert client.call("EVAL", asks, 0) is None


def test_a_client_that_waits_is_refused_when_its_database_is_taken_away(either):
    admin, client = connect(either), user(either, "waiter", "+@all ~* alldbs")
    client.send("BLPOP", "list", "0")
    eventually(lambda: info(admin, "clients")["blocked_clients"] == "1", "a client that waits")
    run(admin, "ACL SETUSER waiter db=3")
    run(admin, "RPUSH list secret")
    with pytest.raises(Reply, match=DENIED):
        client.read()
    assert run(admin, "LRANGE list 0 -1") == [b"secret"]


def test_rules_are_shown_kept_and_tried(either):
    admin = connect(either)
    run(admin, "ACL SETUSER u on nopass ~* &* +@all db=3,1,1 (resetdbs +get)")
    shown = pairs(run(admin, "ACL GETUSER u"))
    assert shown[b"databases"] == b"db=1,3"
    assert pairs(shown[b"selectors"][0])[b"databases"] == b""
    lines = [line for line in run(admin, "ACL LIST") if b"user u " in line]
    assert b"~* &* db=1,3 +@all (resetchannels resetdbs -@all +get)" in lines[0]
    run(admin, "ACL SETUSER again " + lines[0].decode().split(" ", 2)[2])
    again = [line for line in run(admin, "ACL LIST") if b"user again " in line]
    assert again[0].split(b" ", 2)[2] == lines[0].split(b" ", 2)[2]
    assert b"access database 2" in run(admin, "ACL DRYRUN u SELECT 2")
    assert run(admin, "ACL DRYRUN u SELECT 3") == b"OK"
    for text in ["db=", "db=,1", "db=1,", "db=1,,2", "db=a", "db=1x"]:
        refused(admin, f"ACL SETUSER u {text}", "Syntax error")
    for text in ["db=-1", "db=2147483648", "db=12345678987654321"]:
        refused(admin, f"ACL SETUSER u {text}", "out of range")
    before = int(info(admin, "stats")["acl_access_denied_db"])
    refused(user(either, "u", "db=1"), "SELECT 2")
    assert int(info(admin, "stats")["acl_access_denied_db"]) == before + 1


def test_users_without_a_rule_about_databases_are_shown_as_redis_shows_them(hub):
    client = connect(hub)
    assert b"databases" not in run(client, "ACL GETUSER default")


def test_a_rule_without_database_0_binds_other_protocols(start_hub):
    hub = start_hub("--zmq-mechanism", "plain")
    admin = connect(hub)
    run(admin, "SET key secret")
    for name, number in [("zero", 0), ("one", 1)]:
        run(admin, f"ACL SETUSER {name} on >pw ~* &* +@all db={number}")
    for name, answer in [(b"zero", b"secret"), (b"one", b"NOPERM")]:
        options = {"plain_username": name, "plain_password": b"pw"}
        socket = hub.zmq(zmq.REQ, port=hub.router_port, **options)
        socket.send_multipart([b"GET", b"key"])
        assert any(answer in frame for frame in socket.recv_multipart())


# ------------------------------------------------------------------ the parameter

def test_the_parameter_decides_what_the_server_says_it_is(either):
    client = connect(either)
    server, hello = info(client, "server"), pairs(run(client, "HELLO"))
    if either.compatibility == "valkey":
        assert (server["server_name"], server["valkey_version"]) == ("valkey", "9.1.2")
        assert server["redis_version"] == "7.2.4"
        assert (hello[b"server"], hello[b"version"]) == (b"valkey", b"9.1.2")
    else:
        assert server["server_name"] == "tidewire" and "valkey_version" not in server
        assert hello[b"server"] == b"redis"
    refused(client, "CONFIG SET compatibility valkey", "immutable")


def test_valkeys_names_of_parameters_are_understood(either):
    client = connect(either)
    run(client, "CONFIG SET primaryuser someone")
    assert run(client, "CONFIG GET masteruser") == [b"masteruser", b"someone"]
    run(client, "CONFIG SET commandlog-execution-slower-than 5")
    assert run(client, "CONFIG GET slowlog-log-slower-than")[1] == b"5"
    listed = run(client, "CONFIG GET *")
    assert (b"primaryuser" in listed) == (either.compatibility == "valkey")


# ------------------------------------------------------------------ strings

def test_a_key_with_the_given_value_is_removed(either):
    client = connect(either)
    run(client, "SET key value")
    assert run(client, "DELIFEQ key other") == 0
    assert run(client, "DELIFEQ key value") == 1
    assert run(client, "DELIFEQ key value") == 0
    run(client, "SET number 10")
    assert run(client, "DELIFEQ number 10") == 1
    run(client, "RPUSH list value")
    refused(client, "DELIFEQ list value", "WRONGTYPE")


def test_valkey_takes_one_condition_of_set(either):
    client = connect(either)
    run(client, "SET key a")
    for options in ["IFEQ a XX", "IFEQ b IFEQ a"]:
        if either.compatibility == "valkey":
            refused(client, f"SET key a {options}", "syntax error")
        else:
            assert run(client, f"SET key a {options}") == b"OK"
    assert run(client, "SET key b IFEQ a") == b"OK"


def test_msetex_as_each_has_it(either):
    client, events = connect(either), connect(either)
    run(client, "CONFIG SET notify-keyspace-events KEA")
    run(events, "PSUBSCRIBE __keyevent@0__:*")
    is_valkey = either.compatibility == "valkey"
    wrong = ["syntax error", "or out of range"] if is_valkey else ["of key-value pairs", "numkeys"]
    refused(client, "MSETEX 3 a b", wrong[0])
    refused(client, "MSETEX 0 a b", wrong[1])
    assert run(client, "MSETEX 1 key value EX 100") == 1
    told = [events.read()[2].split(b":")[1] for _ in range(2)]
    assert told == ([b"set", b"expire"] if is_valkey else [b"expire", b"set"])


# ------------------------------------------------------------------ hash fields with TTLs

def test_options_after_the_fields_are_redis_own(either):
    client = connect(either)
    run(client, "HSET h a 1")
    lines = ["HEXPIRE h 100 FIELDS 1 a NX", "HGETEX h FIELDS 1 a EX 100",
             "HSETEX h FIELDS 1 a 2 FXX"]
    for line in lines:
        if either.compatibility == "valkey":
            refused(client, line, "numfields should be greater than 0 and match")
        else:
            assert run(client, line) in ([1], [b"1"], 1)


# ------------------------------------------------------------------ functions

def test_a_killed_function_names_the_command_that_killed_it(either):
    admin = connect(either)
    run(admin, "CONFIG SET busy-reply-threshold 1")
    library = "#!lua name=lib\nserver.register_function('spin', function() while true do end end)"
    admin.call("FUNCTION", "LOAD", library)
    client = connect(either)
    client.send("FCALL", "spin", 0)

    def is_killed():
        try:
            return run(admin, "FUNCTION KILL") == b"OK"
        except Reply as error:
            assert "NOTBUSY" in str(error), error
            return False

    eventually(is_killed, "a function that runs")
    name = "FUNCTION" if either.compatibility == "valkey" else "SCRIPT"
    with pytest.raises(Reply, match=f"killed by user with {name} KILL"):
        client.read()


def test_forms_of_commands_on_fields(valkey):
    client = connect(valkey)
    for line in ["HSETEX h EX 10 FIELDS 2 a 1", "HGETEX h FIELDS 2 a", "HEXPIRE h 10 FIELDS 2 a",
                 "HPERSIST h FIELDS 2 a", "HGETDEL h FIELDS 2 a", "HGETEX h FIELDS 0 a"]:
        refused(client, line, "numfields should be greater than 0 and match")
    refused(client, "HTTL h FIELDS 2 a", "syntax error")
    refused(client, "HEXPIRE h -1 FIELDS 1 a", "invalid expire time in 'hexpire' command")
    refused(client, "HEXPIRE h 1 NX XX FIELDS 1 a", "NX and XX, GT or LT options")
    refused(client, "HSETEX h NX XX FIELDS 1 a 1", "syntax error")
    refused(client, "HSETEX h EX 1 PX 1 FIELDS 1 a 1", "syntax error")
    assert run(client, "HSETEX h XX FIELDS 1 a 1") == 0
    assert run(client, "HSETEX h NX EX 100 FIELDS 1 a 1") == 1
    assert run(client, "HSETEX h NX FIELDS 1 a 2") == 0
    assert run(client, "HSETEX h XX KEEPTTL FIELDS 1 a 3") == 1
    assert run(client, "HTTL h FIELDS 1 a") == [100]
    assert run(client, "OBJECT ENCODING h") == b"hashtable"
    assert "keys_with_volatile_items=1" in info(client, "keyspace")["db0"]


def test_a_past_ttl_is_told_as_expiry(valkey):
    client, events = connect(valkey), connect(valkey)
    run(client, "CONFIG SET notify-keyspace-events KEA")
    run(events, "PSUBSCRIBE __keyevent@0__:*")

    def told(count):
        return [events.read()[2].split(b":")[1] for _ in range(count)]

    run(client, "HSET h a 1 b 2")
    assert told(1) == [b"hset"]
    assert run(client, "HEXPIRE h 0 FIELDS 1 a") == [2]
    assert told(1) == [b"hexpired"]
    assert run(client, "HGETEX h PX 0 FIELDS 1 b") == [b"2"]
    assert told(2) == [b"hexpired", b"del"]
    assert run(client, "HSETEX h EX 0 FIELDS 2 a 1 b 2") == 1
    assert told(4) == [b"hset", b"hexpire", b"hexpired", b"del"]
    assert run(client, "HSETEX h EX 100 FIELDS 1 a 1") == 1
    assert told(2) == [b"hset", b"hexpire"]
    assert run(client, "HGETDEL h FIELDS 1 a") == [b"1"]
    assert told(2) == [b"hdel", b"del"]
    assert info(client, "stats")["expired_fields"] == "4"


# ------------------------------------------------------------------ clients and logs

def ids(client, line):
    text = run(client, line).decode()
    rows = [dict(field.split("=", 1) for field in row.split(" ")) for row in text.splitlines()]
    return [row["id"] for row in rows]


def test_clients_are_found_by_what_they_are_and_are_not(valkey):
    admin, named = connect(valkey), connect(valkey)
    number = str(run(named, "CLIENT ID"))
    for line in ["SELECT 3", "CLIENT SETNAME named", "CLIENT CAPA redirect unknown"]:
        run(named, line)
    for filters in ["NAME named", "DB 3", "CAPA r", "FLAGS N NAME named", f"ID {number}",
                    "NOT-DB 0", "NOT-NAME other DB 3", "IP 127.0.0.1 DB 3", "TYPE normal DB 3",
                    f"ID {number} 999999 DB 3"]:
        assert ids(admin, f"CLIENT LIST {filters}") == [number], filters
    for filters in ["NAME other", "NOT-NAME named", "NOT-CAPA r", "NOT-DB 3", "NOT-FLAGS N",
                    f"NOT-ID {number}", "NOT-IP 127.0.0.1", "NOT-TYPE normal", "IP 127.0.0",
                    "IDLE 1000 DB 3", "MAXAGE 1000 DB 3", "USER default NOT-USER default"]:
        assert number not in ids(admin, f"CLIENT LIST {filters}"), filters
    for line, text in [("FLAGS Q", "Unknown flags found in the provided filter: Q"),
                       ("NOT-CAPA x", "Unknown capa found in the NOT-CAPA filter: x"),
                       ("DB 16", "DB number should be between 0 and 15"),
                       ("USER none", "No such user 'none'"), ("ID a", "syntax error"),
                       ("ID 0", "client-id should be greater than 0"), ("TYPE", "syntax error")]:
        refused(admin, f"CLIENT LIST {line}", text)
    assert run(admin, "CLIENT KILL DB 3 NOT-NAME other") == 1
    assert ids(admin, "CLIENT LIST NAME named") == []


def test_redis_has_fewer_filters_and_its_own_order(hub):
    first, second = connect(hub), connect(hub)
    numbers = [str(run(client, "CLIENT ID")) for client in (second, first, second)]
    assert ids(first, "CLIENT LIST ID " + " ".join(numbers)) == numbers
    assert "capa=" not in run(first, "CLIENT INFO").decode()
    refused(first, "CLIENT LIST NAME a", "syntax error")
    refused(first, "CLIENT KILL NAME a", "syntax error")
    refused(first, "CLIENT KILL ID a", "client-id should be greater than 0")


def test_large_requests_and_replies_are_kept(either):
    client = connect(either)
    run(client, "CLIENT SETNAME big")
    for log in ["request", "reply"]:
        run(client, f"CONFIG SET commandlog-{log}-larger-than 1024")
    client.call("SET", "key", "x" * 2048)
    run(client, "GET key")
    run(client, "MULTI")
    client.call("SET", "other", "y" * 3000)
    run(client, "EXEC")
    requests = run(client, "COMMANDLOG GET -1 large-request")
    replies = run(client, "COMMANDLOG GET -1 large-reply")
    if either.compatibility == "redis":
        assert requests == replies == []
        return
    assert [entry[3][:2] for entry in requests] == [[b"SET", b"other"], [b"SET", b"key"]]
    assert requests[1][2] == len("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2048\r\n") + 2048 + 2
    assert [entry[3] for entry in replies] == [[b"GET", b"key"]]
    assert replies[0][2] == 2048 + len("$2048\r\n") + 2 and replies[0][5] == b"big"
    assert run(client, "COMMANDLOG LEN large-reply") == 1
    refused(client, "COMMANDLOG LEN huge", "type should be one of the following")
    refused(client, "COMMANDLOG GET -2 slow", "count should be greater than or equal to -1")
    run(client, "COMMANDLOG RESET large-reply")
    assert run(client, "COMMANDLOG LEN large-reply") == 0


# ------------------------------------------------------------------ places in a polygon

def test_places_in_a_polygon(valkey):
    client = connect(valkey)
    run(client, "GEOADD p 1 1 in 3 3 out 0.5 1.5 edge")
    assert run(client, "GEOSEARCH p BYPOLYGON 3 0 0 4 0 0 4 ASC") == [b"in", b"edge"]
    refused(client, "GEOSEARCH p BYPOLYGON 2 0 0 4 0", "at least 3 vertices")
    refused(client, "GEOSEARCH p BYPOLYGON 4 0 0 4 0 0 4", "at least 3 vertices")
    refused(client, "GEOSEARCH p FROMMEMBER in BYPOLYGON 3 0 0 4 0 0 4", "syntax error")
    refused(client, "GEOSEARCH p FROMMEMBER none BYRADIUS 1 km", "member none does not exist")
