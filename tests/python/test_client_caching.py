"""Client-side caching over several lanes: who has read a key hears of its changes, once."""

import threading

import pytest

from support import Reply, RespSocket, eventually


@pytest.fixture(params=[1, 3], ids=["one lane", "three lanes"])
def hub(start_hub, request):
    return start_hub("--lanes", str(request.param))


def connect(hub, protocol=3):
    client = RespSocket(hub.resp())
    client.call("HELLO", protocol)
    return client


def clients(hub, count=4):
    """Clients of RESP3, dealt out over the lanes."""
    return [connect(hub) for _ in range(count)]


def test_every_reader_hears_of_a_change_once_on_whatever_lane(hub):
    *readers, writer = clients(hub, 7)
    writer.call("SET", "key", "1")
    for reader in readers:
        assert reader.call("CLIENT", "TRACKING", "ON") == b"OK"
        assert reader.call("GET", "key") == b"1"
    assert hub.info("clients")["tracking_clients"] == len(readers)
    assert hub.info("stats")["tracking_total_items"] == len(readers)
    writer.call("SET", "key", "2")
    for reader in readers:
        assert reader.read() == [b"invalidate", [b"key"]]
    # It was told once: until it reads again nothing more comes.
    writer.call("SET", "key", "3")
    for reader in readers:
        assert reader.call("PING") == b"PONG"
    assert hub.info("stats")["tracking_total_keys"] == 0


def test_a_cache_never_holds_what_is_old(hub):
    """Readers that keep what they read until told, beside writers: at the end all agree."""
    writers, names = clients(hub, 2), [f"key:{number}" for number in range(20)]
    writers[0].call("MSET", *[word for name in names for word in (name, "0")])
    done = threading.Event()
    failures = []

    def read():
        client, cache = connect(hub), {}

        def reply():
            while True:
                got = client.read()
                if not (isinstance(got, list) and got and got[0] == b"invalidate"):
                    return got
                for key in got[1] or list(cache):
                    cache.pop(key.decode() if isinstance(key, bytes) else key, None)

        client.send("CLIENT", "TRACKING", "ON")
        reply()
        rounds = 0
        while not done.is_set() or rounds < 2:
            rounds = rounds + 1 if done.is_set() else 0
            for name in names:
                if name not in cache:
                    client.send("GET", name)
                    # What is told while the reply is awaited is older than the reply.
                    value = reply()
                    cache[name] = value
            client.send("PING")
            reply()
        for name in names:
            client.send("GET", name)
            value = reply()
            if cache.get(name, value) != value:
                failures.append((name, cache[name], value))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(300):
        for writer in writers:
            writer.call("SET", names[number % len(names)], number)
            writer.call("MSET", names[number * 7 % 20], number, names[number * 3 % 20], number)
    done.set()
    for reader in readers:
        reader.join()
    assert not failures


def test_what_scripts_and_transactions_read_is_tracked(hub):
    reader, writer = clients(hub, 2)
    writer.call("MSET", "in:script", "1", "in:multi", "2")
    reader.call("CLIENT", "TRACKING", "ON")
    assert reader.call("EVAL", "return redis.call('get', KEYS[1])", 1, "in:script") == b"1"
    reader.call("MULTI")
    reader.call("GET", "in:multi")
    assert reader.call("EXEC") == [b"2"]
    writer.call("DEL", "in:script")
    assert reader.read() == [b"invalidate", [b"in:script"]]
    writer.call("APPEND", "in:multi", "3")
    assert reader.read() == [b"invalidate", [b"in:multi"]]


def test_ones_own_change_is_told_behind_its_reply(hub):
    (client,) = clients(hub, 1)
    client.call("CLIENT", "TRACKING", "ON")
    client.call("SET", "key", "1")
    client.call("GET", "key")
    client.send("MULTI")
    client.send("SET", "key", "2")
    client.send("GET", "key")
    client.send("EXEC")
    assert [client.read() for _ in range(3)] == [b"OK", b"QUEUED", b"QUEUED"]
    assert client.read() == [b"OK", b"2"]
    assert client.read() == [b"invalidate", [b"key"]]


def test_prefixes_are_told_together_and_not_to_whom_changed_them(hub):
    listener, quiet, writer = clients(hub, 3)
    listener.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a:", "PREFIX", "b:")
    quiet.call("CLIENT", "TRACKING", "ON", "BCAST", "NOLOOP")
    writer.call("MSET", "a:2", 1, "c:1", 1, "a:1", 1)
    assert listener.read() == [b"invalidate", [b"a:1", b"a:2"]]
    assert quiet.read() == [b"invalidate", [b"a:1", b"a:2", b"c:1"]]
    assert quiet.call("SET", "b:1", 1) == b"OK"
    assert listener.read() == [b"invalidate", [b"b:1"]]
    assert quiet.call("PING") == b"PONG"
    assert hub.info("stats")["tracking_total_prefixes"] == 3


def test_redirection_reaches_a_subscriber_of_resp2_until_it_has_left(hub):
    reader, writer = clients(hub, 2)
    told = connect(hub, protocol=2)
    number = told.call("CLIENT", "ID")
    told.call("SUBSCRIBE", "__redis__:invalidate")
    writer.call("SET", "key", "1")
    reader.call("CLIENT", "TRACKING", "ON", "REDIRECT", number)
    reader.call("GET", "key")
    writer.call("SET", "key", "2")
    assert told.read() == [b"message", b"__redis__:invalidate", [b"key"]]
    reader.call("GET", "key")
    writer.call("FLUSHALL")
    assert told.read() == [b"message", b"__redis__:invalidate", None]
    reader.call("GET", "key")
    told.file.close()
    told.socket.close()
    eventually(lambda: writer.call("CLIENT", "LIST", "ID", number) == b"", "its end")
    writer.call("SET", "key", "3")
    assert reader.read() == [b"tracking-redir-broken", number]
    assert b"broken_redirect" in reader.call("CLIENT", "TRACKINGINFO")[b"flags"]


def test_what_expires_is_told(hub):
    reader, writer = clients(hub, 2)
    writer.call("SET", "key", "1", "PX", 50)
    reader.call("CLIENT", "TRACKING", "ON")
    reader.call("GET", "key")
    assert reader.read() == [b"invalidate", [b"key"]]


def test_the_table_is_bounded_and_those_who_have_left_are_forgotten(hub):
    reader, writer = clients(hub, 2)
    writer.call("CONFIG", "SET", "tracking-table-max-keys", 100)
    reader.call("CLIENT", "TRACKING", "ON")
    told = 0
    for number in range(500):
        reader.send("GET", f"key:{number}")
    replies = 0
    while replies < 500 or told < 400:
        got = reader.read()
        replies += got is None
        told += isinstance(got, list)
    assert hub.info("stats")["tracking_total_keys"] <= 100
    # The table forgets any key, also the newest.
    writer.call("CONFIG", "SET", "tracking-table-max-keys", 1_000)
    other = connect(hub)
    other.call("CLIENT", "TRACKING", "ON")
    other.call("GET", "kept")
    reader.file.close()
    reader.socket.close()
    eventually(
        lambda: writer.call("PING") and hub.info("stats")["tracking_total_items"] == 1,
        "an end of what nobody waits for",
    )


def test_a_market_topic_is_never_kept(simulated):
    client = connect(simulated)
    client.call("CLIENT", "TRACKING", "ON")
    (name, *_) = client.call("KEYS", "md:*")
    assert client.call("HGET", name, "seq") is not None
    assert client.read() == [b"invalidate", [name]]


@pytest.mark.parametrize("mode", (["NOLOOP"], ["OPTIN", "NOLOOP"], ["OPTOUT", "NOLOOP"]))
def test_a_market_topic_is_never_kept_by_a_client_without_loops(simulated, mode):
    client = connect(simulated)
    (name, *_) = client.call("KEYS", "md:*")
    client.call("CLIENT", "TRACKING", "ON", *mode)
    for read in (["HGET", name, "seq"], ["EVAL_RO", "return redis.call('HGET', KEYS[1], 'seq')", 1, name]):
        if "OPTIN" in mode:
            client.call("CLIENT", "CACHING", "YES")
        assert client.call(*read) is not None
        assert client.read() == [b"invalidate", [name]]


@pytest.mark.parametrize("mode", ([], ["BCAST"]))
def test_what_only_the_server_removes_is_told_to_clients_without_loops(hub, mode):
    client = connect(hub)
    client.call("SET", "evicted", "v")
    client.call("CLIENT", "TRACKING", "ON", "NOLOOP", *mode)
    client.call("GET", "evicted")
    client.call("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    # Its own command makes the server remove the key.
    client.call("CONFIG", "SET", "maxmemory", "1")
    assert client.read() == [b"invalidate", [b"evicted"]]
    client.call("CONFIG", "SET", "maxmemory", "0")


def test_a_client_served_during_a_script_is_not_told_what_the_script_s_client_is_told(hub):
    owner, other = connect(hub), connect(hub)
    owner.call("CONFIG", "SET", "busy-reply-threshold", "50")
    owner.call("SET", "key", "1")
    owner.call("CLIENT", "TRACKING", "ON")
    owner.call("GET", "key")
    script = """
        redis.call('set', KEYS[1], '2')
        local function now()
            local time = redis.call('time')
            return time[1] * 1000 + time[2] / 1000
        end
        local till = now() + 1500
        while now() < till do end
        return 'done'
    """
    owner.send("EVAL", script, "1", "key")

    def is_busy():
        try:
            return other.call("PING") != b"PONG"
        except Reply as reply:
            return str(reply).startswith("BUSY")

    eventually(is_busy, "-BUSY")
    assert owner.read() == b"done"
    assert owner.read() == [b"invalidate", [b"key"]]
    assert other.call("PING") == b"PONG"
