"""Plant tags: `mx:` keys that are read, followed and written back, beside a scripted plant."""

import json
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest
import redis
import zmq

from support import (
    BINARY, PATIENCE_S, Program, environment, eventually, free_ports, is_closed,
)

FIELDS = [
    "value", "type", "quality", "quality_text", "ts", "recv_ts", "status", "seq", "stale",
]
UNCERTAIN_LAST_USABLE = 68
BAD_COMMUNICATION_FAILURE = 24
GOOD = 192


class Plant(Program):
    """A running plant (`simulate mx`)."""

    def __init__(self, folder, *arguments, port=0):
        super().__init__(
            folder, "simulate", "mx", "--listen", f"127.0.0.1:{port}",
            "--first-change", "10ms-50ms", *arguments,
        )
        self.port = int(self.line_with("plant:").split(" on ")[1].split(",")[0].rpartition(":")[2])
        self.address = f"127.0.0.1:{self.port}"

    def counted(self):
        """The numbers that it says at its end."""
        self.stop()
        line = next(line for line in self.stdout.splitlines() if line.startswith("updates:"))
        words = line.replace(",", "").replace(";", "").split()
        return {"updates": int(words[1]), "taken": int(words[3]), "refused": int(words[5])}


@pytest.fixture
def start_plant(tmp_path, request):
    """Starts a plant; it is ended behind the test."""

    def started(*arguments, **options):
        plant = Plant(tmp_path, *arguments, **options)
        request.addfinalizer(plant.kill)
        return plant

    return started


@pytest.fixture
def plant(start_plant):
    return start_plant("--tags", "28", "--interval", "20ms")


@pytest.fixture
def hub(start_hub, plant):
    """A hub with the plant's link, which the plant has accepted."""
    return linked(start_hub, plant)


def linked(start_hub, plant, *options):
    hub = start_hub("--mx", plant.address, *options)
    hub.plant = plant
    is_linked(hub)
    return hub


def is_linked(hub):
    eventually(lambda: hub.info("plant")["plant_connected"] == 1, "a link to the plant")


def value_of(client, key):
    """Waits for the value of a tag that nobody may have asked for yet."""
    return eventually(lambda: client.get(key), f"a value of {key}")


def hash_with(hub, key, **wanted):
    """Waits until the fields of a tag are these."""

    def found():
        fields = hub.hash(key)
        return all(fields.get(name) == str(value) for name, value in wanted.items()) and fields

    return eventually(found, f"{key} with {wanted}")


def refusal(client, *command):
    with pytest.raises(redis.ResponseError) as error:
        client.execute_command(*command)
    return str(error.value)


def test_a_tag_is_followed_from_when_it_is_first_asked_for(hub):
    client = hub.redis()
    assert client.keys("mx:*") == [], "nothing was asked for"
    assert client.get("mx:Tank1.Level") is None, "the plant has not answered yet"
    assert float(value_of(client, "mx:Tank1.Level")) >= 0
    fields = hub.hash("mx:Tank1.Level")
    assert list(fields) == FIELDS
    assert (fields["type"], fields["quality"], fields["quality_text"]) == ("Float", "192", "good")
    assert (fields["status"], fields["stale"]) == ("Ok", "0")
    assert 0 < int(fields["ts"]) and int(fields["recv_ts"]) > 1_700_000_000 * 10**9
    first = int(fields["seq"])
    eventually(lambda: int(client.hget("mx:Tank1.Level", "seq")) > first, "further updates")
    assert client.hmget("mx:Tank1.Level", "type", "nothing") == [b"Float", None]
    assert client.type("mx:Tank1.Level") == b"hash"
    assert client.exists("mx:Tank1.Level", "mx:Tank9.Level", "mx:nothing") == 1
    assert client.keys("mx:*") == list(client.scan_iter("mx:*")) == [b"mx:Tank1.Level"]
    assert client.dbsize() == 1 and client.ttl("mx:Tank1.Level") == -1
    assert client.get("mx:Tank1.Nothing") is None and client.get("mx:x") is None


def test_every_type_is_shown_in_its_own_words(hub):
    client = hub.redis()
    for attribute, kind in [
        ("Setpoint", "Double"), ("Running", "Boolean"), ("Count", "Integer"), ("Name", "String"),
        ("Started", "Time"), ("Uptime", "ElapsedTime"), ("Label", "InternationalizedString"),
        ("Alarms[]", "Boolean[]"), ("History[]", "Integer[]"), ("Profile[]", "Float[]"),
        ("Trend[]", "Double[]"), ("Recipe[]", "String[]"), ("Shifts[]", "Time[]"),
        ("Trend[8]", "Double"),
    ]:
        key = f"mx:Tank1.{attribute}"
        eventually(lambda: client.get(key) is not None, f"a value of {key}")
        fields = hub.hash(key)
        if attribute != "Trend[8]":
            assert fields["type"] == kind, key
        if attribute.endswith("[]"):
            elements = client.get(key)
            assert isinstance(elements, list) and len(elements) == 8, key
            assert all(isinstance(element, bytes) for element in elements)
            assert len(json.loads(fields["value"])) == 8
        elif kind == "Boolean":
            assert client.get(key) in (b"0", b"1")
        elif kind == "Time":
            assert client.get(key)[10:11] == b"T" and client.get(key)[-1:] == b"Z"
    several = client.mget("mx:Tank1.Trend[]", "mx:Tank1.Setpoint", "mx:Tank1.Nothing")
    assert len(several[0]) == 8 and float(several[1]) >= 0 and several[2] is None


def test_a_whole_array_without_brackets_is_refused_as_the_platform_does(hub):
    client = hub.redis()
    client.get("mx:Tank1.Trend")
    fields = hash_with(hub, "mx:Tank1.Trend", quality=0)
    assert fields["status"] == "CommunicationError by RespondingNmx, detail 1003"
    assert client.get("mx:Tank1.Trend") is None


def test_a_subscription_begins_with_the_current_value_and_goes_on_as_json(hub):
    client = hub.redis()
    value_of(client, "mx:Tank1.Level")
    value_of(client, "mx:Tank2.Level")
    messages = hub.subscriber("mx:Tank1.Level")
    first = messages.json()
    assert first["snapshot"] is True and first["tag"] == "Tank1.Level"
    assert set(FIELDS) | {"tag", "snapshot"} == set(first)
    assert isinstance(first["value"], (int, float)) and first["quality"] == GOOD
    numbers = [messages.json()["seq"] for _ in range(5)]
    assert numbers == sorted(set(numbers)) and numbers[0] > first["seq"]

    matching = hub.subscriber(patterns=["mx:Tank1.*"], protocol=3)
    message = matching.next()
    assert (message["pattern"], message["channel"]) == (b"mx:Tank1.*", b"mx:Tank1.Level")
    assert json.loads(message["data"])["snapshot"] is True
    # A tag that becomes known later is heard by the same pattern.
    client.get("mx:Tank1.Recipe[]")
    while (message := matching.next())["channel"] != b"mx:Tank1.Recipe[]":
        pass
    assert len(json.loads(message["data"])["value"]) == 8


def test_subscribing_to_an_unknown_tag_asks_the_plant_for_it(hub):
    update = hub.subscriber("mx:Tank1.Setpoint").json()
    assert (update["tag"], update["type"], update["stale"]) == ("Tank1.Setpoint", "Double", 0)


def test_zeromq_subscribers_get_the_same_topics(hub):
    one = hub.sub(b"mx:Tank1.Level")
    name, payload = one.recv_multipart()
    assert name == b"mx:Tank1.Level" and json.loads(payload)["tag"] == "Tank1.Level"
    assert json.loads(one.recv_multipart()[1])["type"] == "Float"
    other = hub.sub(b"mx:Tank1.")
    name, payload = other.recv_multipart()
    assert name == b"mx:Tank1.Level" and json.loads(payload)["snapshot"] is True
    hub.push().send_multipart([b"mx:Tank1.Level", b"1"])
    eventually(lambda: hub.info("topics")["zmq_rejected_messages"] == 1, "a refused PUSH")
    assert "live source" in refusal(hub.redis(), "PUBLISH", "mx:Tank1.Level", "1")


def test_a_zeromq_peer_can_ask_for_tags_on_the_router_port(hub):
    asker = hub.zmq(zmq.REQ, port=hub.router_port)

    def ask(*frames):
        asker.send_multipart(frames)
        return asker.recv_multipart()

    assert ask(b"GET", b"mx:Tank1.Setpoint") == [b"NIL"], "the plant has not answered yet"
    eventually(lambda: ask(b"GET", b"mx:Tank1.Setpoint")[0] == b"OK", "a value")
    word, text = ask(b"GET", b"mx:Tank1.Setpoint")
    value = json.loads(text)
    assert (value["tag"], value["quality"], value["snapshot"]) == ("Tank1.Setpoint", GOOD, True)
    several = ask(b"MGET", b"mx:Tank1.Setpoint", b"mx:Tank1.Nothing")
    assert several == [b"OK", b"mx:Tank1.Setpoint", text]
    assert b"mx:Tank1.Setpoint" in ask(b"LIST", b"mx:")
    assert ask(b"SNAPSHOT", b"mx:Tank1.")[-2:] == [b"mx:Tank1.Setpoint", text]


def test_set_writes_to_the_plant_and_ends_with_its_own_answer(hub):
    client = hub.redis()
    messages = hub.subscriber("mx:Tank1.Setpoint")
    assert client.set("mx:Tank1.Setpoint", "21.5") is True
    eventually(lambda: client.get("mx:Tank1.Setpoint") == b"21.5", "the value from the plant")
    while messages.json()["value"] != 21.5:
        pass
    for key, text in [
        ("mx:Tank2.Setpoint", "-1e-7"),
        ("mx:Tank1.Name", "Süßwasser 💧"),
        ("mx:Tank1.Trend[]", "[1, 2.5, -3]"),
        ("mx:Tank1.Recipe[]", '["a", "\\u00fc\\ud83d\\udca7", ""]'),
    ]:
        assert client.set(key, text) is True, key
    eventually(lambda: client.get("mx:Tank2.Setpoint") == b"-1e-7", "the value from the plant")
    eventually(lambda: len(client.get("mx:Tank1.Recipe[]") or []) == 3, "the array as written")
    info = hub.info("plant")
    assert (info["plant_writes_ok"], info["plant_writes_waiting"]) == (5, 0)
    assert hub.plant.counted()["taken"] == 5


CATEGORIES = [
    "CommunicationError", "ConfigurationError", "OperationalError", "SecurityError",
    "SoftwareError", "OtherError",
]


def test_a_refusal_is_told_with_its_category_and_detail(hub):
    client = hub.redis()
    for category in CATEGORIES:
        text = refusal(client, "SET", f"mx:Faults.{category}", "1")
        assert text.startswith(f"REFUSED {category} by ") and ", detail " in text
    assert refusal(client, "SET", "mx:Tank1.Level", "1").startswith("REFUSED SecurityError")
    assert client.set("mx:Faults.Warning", "1") is True, "taken, with a remark"
    info = hub.info("plant")
    assert (info["plant_writes_refused"], info["plant_writes_ok"]) == (7, 1)


def test_a_value_of_another_type_is_refused_before_anything_is_sent(hub):
    client = hub.redis()
    assert client.set("mx:Tank1.Setpoint", "7") is True
    for key, text, expected in [
        ("mx:Tank1.Setpoint", "hot", "a number is expected, not 'hot'"),
        ("mx:Tank1.Setpoint", "", "a number is expected"),
        ("mx:Tank1.Setpoint", "nan", "a number is expected"),
        ("mx:Tank1.Running", "2", "true, false, 1 or 0 is expected"),
        ("mx:Tank1.Count", "2147483648", "a whole number of 32 bits is expected"),
        ("mx:Tank1.Started", "today", "a time such as"),
        ("mx:Tank1.Trend[]", "5", "a JSON array is expected"),
        ("mx:Tank1.Trend[]", '["a"]', "a JSON array is expected"),
        ("mx:Tank1.Name", b"\xff\xfe", "a text of UTF-8 is expected"),
        ("mx:Tank1.Nothing", "1", "the plant has no tag 'Tank1.Nothing'"),
        ("mx:nothing", "1", "the plant has no tag 'nothing'"),
    ]:
        error = refusal(client, "SET", key, text)
        assert expected in error and error.endswith("nothing was written"), error
    eventually(lambda: client.get("mx:Tank1.Setpoint") == b"7", "the first value")
    assert hub.info("plant")["plant_writes_not_sent"] == 11
    assert hub.plant.counted()["taken"] == 1


OTHER_WRITES = [
    ("SET", "mx:Tank1.Setpoint", "1", "EX", "10"),
    ("SET", "mx:Tank1.Setpoint", "1", "NX"),
    ("SETEX", "mx:Tank1.Setpoint", "10", "1"),
    ("GETSET", "mx:Tank1.Setpoint", "1"),
    ("INCR", "mx:Tank1.Count"),
    ("APPEND", "mx:Tank1.Name", "x"),
    ("MSET", "mine", "2", "mx:Tank1.Setpoint", "1"),
    ("HSET", "mx:Tank1.Setpoint", "value", "1"),
    ("DEL", "mx:Tank1.Setpoint"),
    ("EXPIRE", "mx:Tank1.Setpoint", "10"),
    ("RENAME", "mx:Tank1.Setpoint", "mine"),
]


def test_every_other_write_is_refused_and_changes_nothing(hub):
    client = hub.redis()
    assert client.set("mx:Tank1.Setpoint", "7") is True
    for command in OTHER_WRITES:
        assert "'mx:' keys are plant tags" in refusal(client, *command), command
    assert client.get("mine") is None
    with pytest.raises(redis.ResponseError, match="outside of MULTI and scripts"):
        client.eval("return redis.call('SET', KEYS[1], '1')", 1, "mx:Tank1.Setpoint")
    eventually(lambda: client.get("mx:Tank1.Setpoint") == b"7", "the first value")
    pipeline = client.pipeline(transaction=True)
    pipeline.set("mine", "1").set("mx:Tank1.Setpoint", "1").get("mx:Tank1.Setpoint")
    replies = pipeline.execute(raise_on_error=False)
    assert replies[0] is True and float(replies[2]) == 7, "the others are executed"
    assert "outside of MULTI" in str(replies[1])
    client.flushall()
    eventually(lambda: client.get("mx:Tank1.Setpoint") == b"7", "the first value")
    assert hub.plant.counted()["taken"] == 1


def test_a_tag_is_written_while_memory_is_full(hub):
    client = hub.redis()
    value_of(client, "mx:Tank1.Setpoint")
    client.config_set("maxmemory", 1)
    assert refusal(client, "SET", "key", "value").startswith("command not allowed when used memory")
    assert client.set("mx:Tank1.Setpoint", "77.25")


def test_a_lost_completion_is_unknown_and_never_ok(start_plant, start_hub):
    hub = linked(start_hub, start_plant("--tags", "14"), "--mx-write-timeout", "300ms")
    client = hub.redis()
    text = refusal(client, "SET", "mx:Faults.Lost", "1")
    assert text.startswith("UNKNOWN no completion came within 300 ms"), text
    assert client.set("mx:Tank1.Setpoint", "1") is True
    assert hub.info("plant")["plant_writes_unknown"] == 1


def test_a_waiting_write_holds_nobody_else_and_replies_stay_in_order(start_plant, start_hub):
    hub = linked(start_hub, start_plant("--tags", "14"), "--lanes", "1")
    other = hub.redis()
    ended = []

    def write():
        pipeline = hub.redis().pipeline(transaction=False)
        pipeline.set("mx:Faults.Delayed", "3").get("mine").set("mx:Tank1.Setpoint", "4")
        ended.append(pipeline.execute(raise_on_error=False))

    thread = threading.Thread(target=write)
    thread.start()
    eventually(lambda: hub.info("plant")["plant_writes_waiting"] == 1, "a write under way")
    assert other.set("mine", "1") is True, "nobody else waits"
    thread.join(PATIENCE_S)
    assert ended == [[True, b"1", True]]


def test_client_unblock_leaves_the_write_unknown(start_plant, start_hub):
    hub = linked(start_hub, start_plant("--tags", "14"))
    writer, other = hub.redis(), hub.redis()
    writer.ping()
    number = writer.client_id()
    ended = []
    thread = threading.Thread(
        target=lambda: ended.append(refusal(writer, "SET", "mx:Faults.Lost", "1"))
    )
    thread.start()
    eventually(lambda: hub.info("plant")["plant_writes_waiting"] == 1, "a write under way")
    assert other.client_unblock(number)
    thread.join(PATIENCE_S)
    assert ended[0].startswith("UNKNOWN the client was unblocked"), ended


def test_a_link_lost_in_the_middle_of_a_write_leaves_it_unknown_and_comes_back(hub):
    client = hub.redis()
    value_of(client, "mx:Tank1.Level")
    text = refusal(client, "SET", "mx:Faults.Disconnect", "1")
    assert text.startswith("UNKNOWN the link was lost before the completion came"), text
    # The plant is there still: the hub registers, adds and advises again.
    hash_with(hub, "mx:Tank1.Level", quality=GOOD, stale=0, status="Ok")
    is_linked(hub)
    assert client.set("mx:Tank1.Setpoint", "3") is True
    info = hub.info("plant")
    assert (info["plant_links"], info["plant_writes_unknown"]) == (2, 1)


def test_tags_are_bad_while_there_is_no_link_and_good_again_behind_it(start_plant, start_hub):
    plant = start_plant("--tags", "14")
    hub = linked(start_hub, plant, "--mx-tag", "Tank1.Level", "--mx-tag", "mx:Tank1.Setpoint")
    hash_with(hub, "mx:Tank1.Level", quality=GOOD)
    before = hash_with(hub, "mx:Tank1.Setpoint", quality=GOOD)
    messages = hub.subscriber("mx:Tank1.Setpoint")
    assert messages.json()["snapshot"] is True
    plant.kill()
    lost = messages.json()
    assert (lost["quality"], lost["stale"]) == (BAD_COMMUNICATION_FAILURE, 1)
    assert lost["quality_text"] == "bad: communication failure"
    assert lost["status"].startswith("CommunicationError by RequestingNmx")
    assert lost["seq"] > int(before["seq"]), "a change of quality is an update"
    assert str(lost["value"]) == before["value"] or float(before["value"]) == lost["value"]
    client = hub.redis()
    assert client.get("mx:Tank1.Setpoint") is not None, "the last value stays"
    assert refusal(client, "SET", "mx:Tank1.Setpoint", "1").startswith("NOLINK")
    assert refusal(client, "SET", "mx:Tank1.Other", "1").startswith("NOLINK")
    start_plant("--tags", "14", port=plant.port)
    good = messages.json()
    assert (good["quality"], good["stale"]) == (GOOD, 0) and good["seq"] > lost["seq"]
    is_linked(hub)
    assert client.set("mx:Tank1.Setpoint", "8") is True


def test_a_silent_tag_becomes_uncertain_and_then_bad(start_plant, start_hub):
    plant = start_plant("--tags", "14", "--interval", "20ms")
    hub = linked(start_hub, plant, "--mx-uncertain-after", "1s", "--mx-bad-after", "2s")
    messages = hub.subscriber("mx:Tank1.Level")
    last = messages.json()
    assert last["quality"] == GOOD
    plant.process.send_signal(signal.SIGSTOP)
    try:
        while (uncertain := messages.json())["quality"] == GOOD:
            last = uncertain
        assert uncertain["quality"] == UNCERTAIN_LAST_USABLE and uncertain["stale"] == 1
        assert uncertain["quality_text"] == "uncertain: last usable value"
        assert uncertain["value"] == last["value"] and uncertain["seq"] > last["seq"]
        while (bad := messages.json())["quality"] != BAD_COMMUNICATION_FAILURE:
            pass
        assert bad["stale"] == 1 and bad["status"].startswith("CommunicationError")
        assert bad["seq"] > uncertain["seq"] and bad["value"] == last["value"]
    finally:
        plant.process.send_signal(signal.SIGCONT)
    hash_with(hub, "mx:Tank1.Level", quality=GOOD, stale=0)


def test_a_tag_that_does_not_change_is_asked_for_again_and_stays_good(start_plant, start_hub):
    hub = linked(
        start_hub, start_plant("--tags", "14"), "--mx-uncertain-after", "3s", "--mx-bad-after", "6s"
    )
    messages = hub.subscriber("mx:Tank1.Setpoint")
    assert [messages.json()["quality"] for _ in range(3)] == [GOOD] * 3
    assert hub.info("plant")["plant_refreshes"] >= 2


def test_qualities_and_troubles_of_the_plant_are_shown_as_they_are(hub):
    client = hub.redis()
    for name, quality in [("Good", 192), ("Uncertain", 64), ("Bad", 0)]:
        client.get(f"mx:Quality.{name}")
        fields = hash_with(hub, f"mx:Quality.{name}", quality=quality)
        assert fields["quality_text"] == name.lower() and fields["stale"] == "0"
    client.get("mx:Troubles.OperationalError")
    fields = hash_with(hub, "mx:Troubles.OperationalError", quality=0)
    assert fields["status"].startswith("OperationalError by ")


def test_users_need_the_right_to_a_tag_as_to_any_key(hub):
    admin = hub.redis()
    admin.execute_command(
        "ACL", "SETUSER", "operator", "on", ">secret", "+@all", "%R~mx:*", "%RW~mx:Tank1.*"
    )
    operator = hub.redis(username="operator", password="secret")
    assert operator.set("mx:Tank1.Setpoint", "1") is True
    assert "permission" in refusal(operator, "SET", "mx:Tank2.Setpoint", "1").lower()
    operator.get("mx:Tank2.Setpoint")


def test_the_metrics_and_info_tell_of_the_link(start_plant, start_hub):
    port = free_ports(1)[0]
    plant = start_plant("--tags", "14")
    hub = linked(start_hub, plant, "--admin", f"127.0.0.1:{port}", "--mx-tag", "Tank1.Level")
    hash_with(hub, "mx:Tank1.Level", quality=GOOD)
    hub.redis().set("mx:Tank1.Setpoint", "1")
    info = hub.info("plant")
    assert info["plant_address"] == plant.address
    assert info["plant_tags"] == 2 and info["plant_updates"] > 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as page:
        text = page.read().decode()
    assert "tidewire_plant_connected 1" in text
    assert 'tidewire_plant_writes_total{outcome="ok"} 1' in text


def test_without_a_plant_the_names_are_ordinary_keys(start_hub):
    client = start_hub().redis()
    assert client.set("mx:Tank1.Setpoint", "1") is True
    assert client.incr("mx:Tank1.Setpoint") == 2
    assert client.publish("mx:Tank1.Setpoint", "x") == 0


def test_a_peer_that_is_no_plant_is_left_and_tried_again(start_hub):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        hub = start_hub("--mx", f"127.0.0.1:{listener.getsockname()[1]}")
        for _ in range(3):
            with listener.accept()[0] as one:
                one.settimeout(PATIENCE_S)
                one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100)
                assert is_closed(one)
        client = hub.redis()
        assert client.get("mx:Tank1.Level") is None and client.set("mine", "1") is True
        assert refusal(client, "SET", "mx:Tank1.Level", "1").startswith("NOLINK")
        assert hub.info("plant")["plant_connected"] == 0


def test_wrong_options_are_named(tmp_path):
    def error(*arguments):
        result = subprocess.run(
            [str(BINARY), "serve", "--mx", "127.0.0.1:1", *arguments],
            capture_output=True, timeout=PATIENCE_S, env=environment(), cwd=tmp_path,
        )
        assert result.returncode != 0
        return result.stderr.decode()

    names = tmp_path / "names"
    names.write_text("Tank1.Level # first\n\nTank1\n")
    assert f"{names}, line 3: 'Tank1' is not a tag" in error("--mx-tags", str(names))
    assert "uncertain first" in error("--mx-uncertain-after", "9s", "--mx-bad-after", "1s")


def test_nothing_is_lost_between_the_plant_and_the_last_values(start_plant, start_hub, tmp_path):
    names = tmp_path / "names"
    plant = start_plant("--tags", "5000", "--interval", "500ms", "--names", str(names))
    hub = linked(start_hub, plant, "--mx-tags", str(names))
    count = len(names.read_text().splitlines())
    # Those of Faults and Troubles that have no value are there all the same.
    eventually(lambda: hub.info("plant")["plant_tags"] == count, f"{count} tags")
    eventually(lambda: hub.info("plant")["plant_updates"] > 20_000, "20,000 updates")
    sent = plant.counted()["updates"]
    eventually(lambda: hub.info("plant")["plant_connected"] == 0, "the end of the link")
    info = hub.info("plant")
    assert info["plant_updates"] == sent
    assert info["plant_unreadable"] == 0
