"""Live keys that disappear, as ZeroMQ subscribers are told: as a payload, or in a frame of its own."""

import pytest
import zmq

from support import RespSocket, eventually
from test_live_keys import GONE, WAYS
from test_zeromq import joined
from test_zeromq_security import as_client, curve_keys, keys  # noqa: F401, a fixture

FLAGGED = [b"", b"gone"]


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory):
    from support import Hub

    hub = Hub(tmp_path_factory.mktemp("hub"), "--lanes", "2")
    yield hub
    hub.kill()


def asking(hub, *prefixes, **options):
    """A subscriber that asks for the frame, as libzmq's sockets do before they connect."""
    return hub.sub("__gone__", *prefixes, **options)


def take(socket, topic=b"live:x"):
    """What is told of the topic, without its name."""
    name, *rest = socket.recv_multipart()
    assert name == topic
    return rest


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0])
def test_each_way_to_disappear_has_its_frame(shared_hub, way):
    _, makes, removes = way
    client = RespSocket(shared_hub.resp())
    client.call("FLUSHALL")
    flagged, plain = asking(shared_hub, "live:x"), shared_hub.sub("live:x")
    client.call("SET", "live:x", "first")
    for socket in (flagged, plain):
        while take(socket) != [b"first"]:
            pass
    client.call("DEL", "live:x")
    for words in makes + removes:
        client.call(*words)
    assert take(flagged) == FLAGGED and take(plain) == [GONE]
    value = take(flagged)
    assert len(value) == 1 and take(plain) == value
    assert take(flagged) == FLAGGED and take(plain) == [GONE]
    for socket in (flagged, plain):
        socket.close()


def test_a_value_of_another_type_and_one_from_another_name_are_no_removal(hub):
    client = hub.redis()
    flagged = asking(hub, "live:")
    client.hset("live:x", "field", "1")
    assert take(flagged) == [b'{"field":"1"}']
    client.set("live:x", "text")
    assert take(flagged) == [b"text"]
    client.set("live:y", "other")
    assert take(flagged, b"live:y") == [b"other"]
    client.rename("live:y", "live:x")
    told = sorted(flagged.recv_multipart() for _ in range(2))
    assert told == [[b"live:x", b"other"], [b"live:y", *FLAGGED]]


def test_values_that_look_like_a_removal_are_told_as_they_are(hub):
    client = hub.redis()
    flagged, plain = asking(hub, "live:x"), hub.sub("live:x")
    for value in [b"", b"gone", *(GONE + b" " * count for count in range(4)), GONE + b"x"]:
        client.set("live:x", value)
        assert take(flagged) == [value]
        space = b" " if value.rstrip(b" ") == GONE else b""
        assert take(plain) == [value + space]
    # One that is long enough to be shared between subscribers.
    long = GONE + b" " * 100_000
    client.set("live:x", long)
    assert take(flagged) == [long] and take(plain) == [long + b" "]


def test_the_form_can_be_that_of_all_zeromq_subscribers(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text('zmq-gone = "flag"\n')
    for options in [{"env": {"TIDEWIRE_ZMQ_GONE": "flag"}}, {}]:
        arguments = [] if options else ["--config", path]
        hub = start_hub(*arguments, **options)
        client = hub.redis()
        socket, redis_subscriber = hub.sub("live:"), hub.subscriber("live:x")
        client.set("live:x", "v")
        assert take(socket) == [b"v"] and redis_subscriber.data() == b"v"
        client.delete("live:x")
        assert take(socket) == FLAGGED and redis_subscriber.data() == GONE
        hub.stop()


def test_the_command_line_goes_before_the_file_and_knows_two_forms(start_hub, start, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text('zmq-gone = "flag"\n')
    hub = start_hub("--config", path, "--zmq-gone", "json")
    socket = hub.sub("live:")
    hub.redis().set("live:x", "v")
    assert take(socket) == [b"v"]
    hub.redis().delete("live:x")
    assert take(socket) == [GONE]
    wrong = start("serve", "--zmq-gone", "never")
    assert wrong.wait() == 2 and "never" in wrong.stderr and "flag" in wrong.stderr


def test_who_asks_no_more_gets_the_payload_again(hub):
    client = hub.redis()
    socket = asking(hub, "live:x")
    joined(hub, socket, "1")
    client.set("live:x", "v")
    client.delete("live:x")
    assert [take(socket) for _ in range(2)] == [[b"v"], FLAGGED]
    socket.unsubscribe(b"__gone__")
    joined(hub, socket, "2")
    client.set("live:x", "v")
    client.delete("live:x")
    assert [take(socket) for _ in range(2)] == [[b"v"], [GONE]]


def test_a_late_subscriber_hears_nothing_of_what_is_gone(hub):
    client = hub.redis()
    client.set("live:gone", "v")
    client.set("live:here", "v")
    client.delete("live:gone")
    late = asking(hub, "live:")
    assert take(late, b"live:here") == [b"v"]
    client.set("live:end", "v")
    assert take(late, b"live:end") == [b"v"]


def test_subscriptions_that_come_together_hold_together(hub):
    """A peer sends its subscriptions in an order of its own: the one to everything comes first."""
    client = hub.redis()
    client.set("live:x", "v")
    for _ in range(20):
        socket = hub._context.socket(zmq.SUB)
        socket.rcvtimeo, socket.linger = 20_000, 0
        for prefix in (b"", b"__snapshot__", b"__gone__"):
            socket.subscribe(prefix)
        socket.connect(f"tcp://127.0.0.1:{hub.pub_port}")
        assert socket.recv_multipart() == [b"__snapshot__", b"live:x"]
        assert take(socket) == [b"v"]
        socket.close()


def test_many_at_once_and_an_evicted_one(hub):
    client = hub.redis()
    names = {b"live:%d" % number for number in range(20_000)}
    client.mset({name: b"v" for name in names})
    socket = asking(hub, "live:")
    for _ in names:
        assert socket.recv_multipart()[1:] == [b"v"]
    client.flushall()
    assert {tuple(socket.recv_multipart()) for _ in names} == {(name, *FLAGGED) for name in names}
    client.set("live:x", "v")
    assert take(socket) == [b"v"]
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("maxmemory", "1")
    assert take(socket) == FLAGGED
    client.config_set("maxmemory", "0")


def test_a_slow_subscriber_keeps_no_dead_value(start_hub, tmp_path):
    path = tmp_path / "hub.toml"
    path.write_text("[limits]\nconflate-bytes = 16384\n")
    hub = start_hub("--config", path, "--lanes", "2")
    client = hub.redis()
    slow = asking(hub, "live:", "joined:", rcvhwm=1, rcvbuf=4096)
    eventually(lambda: (client.publish("joined:", ""), slow.poll(50))[1], "a subscriber")
    expected = {}
    pipeline = client.pipeline(transaction=False)
    # The kernel decides how much it keeps for a peer that does not read.
    for turn in range(1_000):
        for number in range(100):
            name, value = b"live:%d" % number, b"%d-%d" % (turn, number) * 20
            pipeline.set(name, value)
            expected[name] = value
            if (turn + number) % 3 == 0:
                pipeline.delete(name)
                del expected[name]
        pipeline.execute()
        if hub.info("topics")["conflated_messages"] > 0:
            break
    else:
        pytest.fail("the hub conflates nothing for a subscriber that does not read")
    client.set("live:end", "v")
    values = {}
    while values != expected | {b"live:end": b"v"}:
        name, value, *flag = slow.recv_multipart()
        if flag:
            assert [value, *flag] == FLAGGED
            values.pop(name, None)
        elif name != b"joined:":
            values[name] = value


def test_an_encrypted_subscriber_is_told_alike(start_hub, keys):  # noqa: F811
    public, path = keys
    hub = start_hub("--zmq-mechanism", "curve", "--zmq-curve-key", path)
    flagged = asking(hub, "live:", **as_client(public, curve_keys()))
    plain = hub.sub("live:", **as_client(public, curve_keys()))
    client = hub.redis()
    client.set("live:x", GONE)
    assert take(flagged) == [GONE] and take(plain) == [GONE + b" "]
    client.delete("live:x")
    assert take(flagged) == FLAGGED and take(plain) == [GONE]


def test_nothing_else_is_published_under_the_name(hub):
    raw = RespSocket(hub.resp())
    with pytest.raises(Exception, match="reserved"):
        raw.call("PUBLISH", "__gone__", "live:x")
    push = hub.push()
    push.send_multipart([b"__gone__", b"live:x"])
    eventually(lambda: hub.info("topics")["zmq_rejected_messages"] == 1, "a refusal")
    assert hub.redis().exists("__gone__") == 0
