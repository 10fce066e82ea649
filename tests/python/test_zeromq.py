"""ZeroMQ clients (libzmq through pyzmq), and what passes between them and Redis clients."""

import json
import threading

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from support import PATIENCE_S, Order, eventually, same_value, wait_for_values


def settled(hub, **counts):
    """Waits until INFO says these figures."""
    eventually(
        lambda: all(hub.info().get(name) == value for name, value in counts.items()),
        f"{counts} in INFO",
    )


def joined(hub, sub, name):
    """Waits until a subscription is known to the hub: a message sent before it is lost."""
    sub.subscribe(b"joined:")
    client = hub.redis()

    def answered():
        client.publish("joined:", name)
        return sub.poll(50)

    eventually(answered, "a subscriber that has joined")
    sub.unsubscribe(b"joined:")
    # The answers that were on their way.
    while sub.poll(50):
        sub.recv_multipart()


def test_sub_gets_the_current_value_first_then_each_update(simulated):
    sub = simulated.sub("md:RELIANCE")
    topic, payload = sub.recv_multipart()
    value = json.loads(payload)
    assert topic == b"md:RELIANCE" and value["symbol"] == "RELIANCE"
    assert value["snapshot"] is True and value["bid"] < value["ask"]
    order = Order()
    order.check(value)
    for _ in range(20):
        topic, payload = sub.recv_multipart()
        value = json.loads(payload)
        assert topic == b"md:RELIANCE" and "snapshot" not in value
        order.check(value)


def test_redis_and_zeromq_clients_see_the_same_last_values(simulated):
    subscriber = simulated.subscriber(patterns=["md:*"])
    sub = simulated.sub("md:")
    simulated.simulator.stop()
    eventually(lambda: simulated.hash("md:TCS")["stale"] == "1", "the end of the source")
    values = {name: simulated.hash(name) for name in simulated.redis().keys("md:*")}

    def last_of(receive):
        last = {}
        while not all(name in last and same_value(last[name], values[name]) for name in values):
            name, payload = receive()
            last[name] = payload
        return last

    def from_redis():
        message = subscriber.next()
        return message["channel"], message["data"]

    assert last_of(from_redis) == last_of(sub.recv_multipart)


def test_a_prefix_gets_every_topic_that_begins_so(simulated):
    sub = simulated.sub("md:")
    firsts = {}
    for _ in range(200):
        topic, payload = sub.recv_multipart()
        firsts.setdefault(topic, json.loads(payload))
    assert len(firsts) == 10 and all(value["snapshot"] is True for value in firsts.values())
    only = simulated.sub("md:HDFC")
    assert {only.recv_multipart()[0] for _ in range(10)} == {b"md:HDFCBANK"}


def test_a_cancelled_subscription_ends(simulated):
    sub = simulated.sub("md:RELIANCE", "md:TCS")
    assert {sub.recv_multipart()[0] for _ in range(40)} == {b"md:RELIANCE", b"md:TCS"}
    sub.unsubscribe("md:RELIANCE")
    eventually(
        lambda: {sub.recv_multipart()[0] for _ in range(20)} == {b"md:TCS"}, "TCS alone"
    )


def test_a_pushed_message_becomes_a_topic_for_everybody(hub):
    plain, pattern = hub.subscriber("sensor:1"), hub.subscriber(patterns=["sensor:*"])
    sub = hub.sub("sensor:")
    joined(hub, sub, "sensor")
    push = hub.push()
    push.send_multipart([b"sensor:1", b"21.5"])
    message = plain.next()
    assert (message["channel"], message["data"]) == (b"sensor:1", b"21.5")
    message = pattern.next()
    assert (message["channel"], message["data"]) == (b"sensor:1", b"21.5")
    assert sub.recv_multipart() == [b"sensor:1", b"21.5"]
    assert hub.redis().get("sensor:1") == b"21.5"


def test_who_subscribes_to_a_pushed_topic_gets_its_value_first(hub):
    push = hub.push()
    push.send_multipart([b"live:door", b"open"])
    client = hub.redis()
    eventually(lambda: client.get("live:door") == b"open", "the pushed value")
    assert hub.subscriber("live:door").data() == b"open"
    assert hub.subscriber(patterns=["live:*"]).data() == b"open"
    assert hub.sub("live:").recv_multipart() == [b"live:door", b"open"]


def test_every_pushed_message_arrives_in_order(hub):
    subscriber = hub.subscriber("count")
    sub = hub.sub("count")
    joined(hub, sub, "count")
    push = hub.push()
    for number in range(5000):
        push.send_multipart([b"count", b"%d" % number])
    assert [int(subscriber.data()) for _ in range(5000)] == list(range(5000))
    assert [int(sub.recv_multipart()[1]) for _ in range(5000)] == list(range(5000))
    assert hub.redis().get("count") == b"4999"
    settled(hub, zmq_pushed_messages=5000, zmq_rejected_messages=0)


def test_payloads_of_any_bytes_and_size(hub):
    sub = hub.sub("blob")
    joined(hub, sub, "blob")
    push = hub.push()
    for body in [b"", b"\x00\xff", bytes(range(256)) * 20_000]:
        push.send_multipart([b"blob", body])
        assert sub.recv_multipart() == [b"blob", body]
        assert hub.redis().get("blob") == body


def test_publish_from_redis_reaches_zeromq_subscribers_of_the_name(hub):
    sub, other = hub.sub("news"), hub.sub("other")
    joined(hub, sub, "news")
    joined(hub, other, "other")
    client = hub.redis()
    client.publish("news", "hello")
    client.publish("newspaper", b"\x00")
    client.publish("other", "last")
    assert sub.recv_multipart() == [b"news", b"hello"]
    assert sub.recv_multipart() == [b"newspaper", b"\x00"], "a subscription is a prefix"
    assert other.recv_multipart() == [b"other", b"last"]
    assert client.get("news") is None, "PUBLISH leaves no value"


def test_a_write_under_live_is_published_to_both(hub):
    client = hub.redis()
    subscriber = hub.subscriber("live:state")
    sub = hub.sub("live:state")
    joined(hub, sub, "live:state")
    client.set("live:state", "running")
    assert subscriber.data() == b"running"
    assert sub.recv_multipart() == [b"live:state", b"running"]
    client.delete("live:state")
    client.hset("live:state", mapping={"rpm": "900", "quote": 'say "hi"'})
    gone, expected = {"gone": True}, {"rpm": "900", "quote": 'say "hi"'}
    assert subscriber.json() == gone
    topic, payload = sub.recv_multipart()
    assert topic == b"live:state" and json.loads(payload) == gone
    assert subscriber.json() == expected
    topic, payload = sub.recv_multipart()
    assert topic == b"live:state" and json.loads(payload) == expected
    client.hset("live:state", "rpm", "901")
    assert subscriber.json()["rpm"] == "901"
    client.set("plain:state", "quiet")
    client.set("live:state", "end")
    assert subscriber.data() == b"end", "only keys under live: are published"


def test_a_subscriber_of_a_live_key_gets_its_value_first(hub):
    client = hub.redis()
    client.set("live:a", "1")
    client.hset("live:b", "field", "2")
    assert hub.subscriber("live:a").data() == b"1"
    assert hub.subscriber("live:b").json() == {"field": "2"}
    both = hub.subscriber(patterns=["live:*"])
    assert {both.next()["channel"] for _ in range(2)} == {b"live:a", b"live:b"}
    sub = hub.sub("live:")
    assert {sub.recv_multipart()[0] for _ in range(2)} == {b"live:a", b"live:b"}


def test_every_write_that_changes_a_live_value_is_published(hub):
    client = hub.redis()
    subscriber = hub.subscriber("live:n")
    client.incr("live:n")
    client.incrby("live:n", 9)
    client.append("live:n", "0")
    client.mset({"live:n": "7", "x": "1"})
    client.rename("x", "live:n")
    assert [subscriber.data() for _ in range(5)] == [b"1", b"10", b"100", b"7", b"1"]


def test_live_prefixes_can_be_chosen(start_hub):
    hub = start_hub("--live-prefix", "app:,plant:")
    subscriber = hub.subscriber("app:a", "plant:b", "live:c")
    client = hub.redis()
    for name in ("live:c", "app:a", "plant:b"):
        client.set(name, name)
    assert [subscriber.data(), subscriber.data()] == [b"app:a", b"plant:b"]


def test_all_lanes_see_the_same_stream(start_hub):
    hub = start_hub("--lanes", "2")
    subscribers = [hub.subscriber("wide", "live:wide") for _ in range(12)]
    patterns = [hub.subscriber(patterns=["wid?"]) for _ in range(4)]
    subs = [hub.sub("wide", "live:wide") for _ in range(12)]
    for sub in subs:
        joined(hub, sub, "wide")
    info = hub.info("lanes")
    lanes = [info[f"lane{number}"].split(",")[0] for number in range(2)]
    assert "connections=0" not in lanes, f"each lane has its share: {lanes}"
    client, push = hub.redis(), hub.push()
    assert client.publish("wide", "from redis") == 16
    for subscriber in subscribers + patterns:
        assert subscriber.data() == b"from redis"
    push.send_multipart([b"wide", b"from zeromq"])
    for subscriber in subscribers + patterns:
        assert subscriber.data() == b"from zeromq"
    for number in range(200):
        client.set("live:wide", number)
    for subscriber in subscribers:
        assert [int(subscriber.data()) for _ in range(200)] == list(range(200))
    for sub in subs:
        assert sub.recv_multipart() == [b"wide", b"from redis"]
        assert sub.recv_multipart() == [b"wide", b"from zeromq"]
        assert [int(sub.recv_multipart()[1]) for _ in range(200)] == list(range(200))


def test_writers_on_all_lanes_leave_one_order_for_all_readers(start_hub):
    hub = start_hub("--lanes", "2")
    readers = [hub.subscriber("live:race") for _ in range(6)]
    writers = [hub.redis() for _ in range(6)]

    def write(number):
        for step in range(100):
            writers[number].set("live:race", f"{number}:{step}")

    threads = [threading.Thread(target=write, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    streams = [[reader.data() for _ in range(600)] for reader in readers]
    assert all(stream == streams[0] for stream in streams)
    assert streams[0][-1] == hub.redis().get("live:race")


def test_xsub_and_pull_peers_are_served(simulated):
    xsub = simulated.zmq(zmq.XSUB)
    xsub.send(b"\x01md:TCS")
    topic, payload = xsub.recv_multipart()
    assert topic == b"md:TCS" and json.loads(payload)["snapshot"] is True
    xsub.send(b"\x00md:TCS")
    xsub.send(b"\x01md:INFY")
    eventually(lambda: xsub.recv_multipart()[0] == b"md:INFY", "the other topic")


def test_a_proxy_can_stand_between(simulated):
    """XSUB on the hub's side and XPUB for its own subscribers, as libzmq's proxy has them."""
    context = zmq.Context()
    front, back = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
    control = context.socket(zmq.PAIR)
    front.connect(f"tcp://127.0.0.1:{simulated.pub_port}")
    port = back.bind_to_random_port("tcp://127.0.0.1")
    control.bind("inproc://control")
    end = context.socket(zmq.PAIR)
    end.connect("inproc://control")
    thread = threading.Thread(target=zmq.proxy_steerable, args=(front, back, None, control))
    thread.start()
    try:
        sub = simulated.zmq(zmq.SUB, ["md:RELIANCE"], port=port)
        assert {sub.recv_multipart()[0] for _ in range(5)} == {b"md:RELIANCE"}
    finally:
        end.send(b"TERMINATE")
        thread.join(PATIENCE_S)
        context.destroy(linger=0)


@pytest.mark.parametrize("kind", [zmq.REQ, zmq.PUSH, zmq.PUB], ids=["REQ", "PUSH", "PUB"])
def test_a_peer_of_the_wrong_kind_is_turned_away(hub, kind):
    # libzmq does not try again behind a failed handshake: who looks must look from the start.
    monitor = hub.zmq(kind, port=hub.pub_port, monitored=True)
    end = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    end |= zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL

    def turned_away():
        if not monitor.poll(100):
            return False
        return recv_monitor_message(monitor)["event"] & end

    eventually(turned_away, "the end of the connection")
    sub = hub.sub("still")
    joined(hub, sub, "still")


def test_messages_of_another_form_are_counted_and_left_out(simulated):
    push = simulated.push()
    push.send_multipart([b"only a topic"])
    push.send_multipart([b"topic", b"payload", b"more"])
    push.send_multipart([b"", b"payload"])
    push.send_multipart([b"t" * 5000, b"payload"])
    push.send_multipart([b"md:RELIANCE", b"false news"])
    push.send_multipart([b"good", b"payload"])
    client = simulated.redis()
    eventually(lambda: client.get("good") == b"payload", "the good one")
    settled(simulated, zmq_pushed_messages=1, zmq_rejected_messages=5)
    assert client.exists("only a topic", "topic", "t" * 5000) == 0
    assert float(client.hget("md:RELIANCE", "bid")) > 0


def test_each_of_several_subscribers_to_one_prefix_gets_values_and_updates(
    start_simulator, start_hub
):
    simulator = start_simulator("--rate", "2000", "--symbols", "5")
    hub = start_hub("--source", simulator.source, "--lanes", "1")
    wait_for_values(hub, 5)
    subs = []
    for _ in range(3):
        sub = hub.sub("md:RELIANCE")
        subs.append(sub)
        assert json.loads(sub.recv_multipart()[1])["snapshot"] is True
        for one in subs:
            for _ in range(3):
                one.recv_multipart()
    # One that leaves takes nothing from the others.
    subs[0].close()
    subs[1].unsubscribe(b"md:RELIANCE")
    while subs[1].poll(200):
        subs[1].recv_multipart()
    for _ in range(5):
        assert "snapshot" not in json.loads(subs[2].recv_multipart()[1])


def test_a_live_list_and_a_live_set_are_published_as_json(hub):
    sub = hub.sub("live:")
    joined(hub, sub, "live:")
    client = hub.redis()
    client.rpush("live:queue", "one", 'two "2"')
    assert sub.recv_multipart() == [b"live:queue", b'["one","two \\"2\\""]']
    client.sadd("live:numbers", 7)
    assert sub.recv_multipart() == [b"live:numbers", b'["7"]']
