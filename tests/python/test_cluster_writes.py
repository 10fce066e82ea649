"""Writes to live keys and plant tags of other hubs over NATS: `writes` in the file of --cluster."""

import base64
import json
import threading

import pytest
import redis

from nats_identities import NatsClient
from nats_servers import SERVER, NatsServer, figures, go_on, pause
from support import eventually, free_ports
from test_cluster_topics import (  # noqa: F401
    client, fields, get, hub_of, servers, wait_for, wait_for_field,
)
from test_plant_tags import start_plant  # noqa: F401
from write_requests import Requests, request

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

ALL = ["live:*", "mx:*"]
STREAM = "TW_tests_AUDIT"


@pytest.fixture
def plant(start_plant):  # noqa: F811
    return start_plant("--tags", "28", "--interval", "20ms")


@pytest.fixture
def owner_of(hub_of, plant):  # noqa: F811
    """A hub that takes writes to its live keys and to tags of its plant."""
    def start(name, nats, *options, extra="", tags=("Tank1.Setpoint", "Tank1.Level"), **settings):
        words = [word for tag in tags for word in ("--mx-tag", tag)]
        return hub_of(name, nats, "--mx", plant.address, *words, *options, share=ALL,
                      extra=f"writes = 'on'\n{extra}", **settings)

    return start


# redis-py tells these words by the error's class.
WORDS = {redis.exceptions.ReadOnlyError: "READONLY ", redis.exceptions.NoPermissionError: "NOPERM "}


def refusal(hub, *command):
    with client(hub) as connection, pytest.raises(redis.ResponseError) as error:
        connection.execute_command(*command)
    return WORDS.get(type(error.value), "") + str(error.value)


def write(hub, name, value):
    with client(hub) as connection:
        return connection.set(name, value)


def lines_of(nats):
    """The lines that the audit stream has."""
    info = nats[0].ask(f"$JS.API.STREAM.INFO.{STREAM}") or {}
    state, found = info.get("state", {}), []
    for number in range(state.get("first_seq", 1), state.get("last_seq", 0) + 1):
        answer = nats[0].ask(f"$JS.API.STREAM.MSG.GET.{STREAM}", {"seq": number}) or {}
        if "message" not in answer:
            # The stream is being made again.
            return []
        line = json.loads(base64.b64decode(answer["message"]["data"]))
        found.append({**line, "subject": answer["message"]["subject"]})
    return found


def audit(nats, count):
    """The lines of the audit stream, when there are so many."""
    return eventually(lambda: len(found := lines_of(nats)) >= count and found,
                      f"{count} lines of the audit")


def in_background(work):
    """Runs `work` in a thread; returns a function that waits for its result."""
    results = []

    def run():
        try:
            results.append(work())
        except redis.ResponseError as error:
            results.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result():
        thread.join(60)
        assert results, "it has not ended"
        return results[0]

    return result


def test_a_tag_is_written_at_an_edge_and_seen_at_all_hubs(servers, hub_of, owner_of):  # noqa: F811
    nats = servers()
    owner = owner_of("a", nats)
    edges = [hub_of(name, nats, share=()) for name in "bc"]
    for edge in edges:
        wait_for_field(edge, "mx:Tank1.Setpoint", b"hub", b"a")
    assert write(edges[0], "mx:Tank1.Setpoint", "21.5") is True
    for hub in (owner, *edges):
        wait_for(hub, "mx:Tank1.Setpoint", b"21.5")
    # What the plant itself says comes back word by word.
    assert refusal(edges[0], "SET", "mx:Tank1.Level", "5") == refusal(
        owner, "SET", "mx:Tank1.Level", "5")
    assert refusal(edges[1], "SET", "mx:Tank1.Level", "5").startswith("REFUSED SecurityError by")
    hot = refusal(edges[0], "SET", "mx:Tank1.Setpoint", "hot")
    assert "a number is expected, not 'hot'" in hot and "nothing was written" in hot
    assert figures(edges[0], "cluster_writes") == {
        "done": "1", "refused": "2", "unknown": "0", "waiting": "0"}
    taken = figures(owner, "cluster_writes_taken")
    assert (taken["done"], taken["refused"], taken["unknown"], taken["repeated"]) == (
        "1", "3", "0", "0")
    # Its own plant counts each write once: one accepted, two refused by it and one by the owner's.
    info = owner.info("plant")
    assert (info["plant_writes_ok"], info["plant_writes_refused"]) == (1, 3)


def test_a_live_key_is_written_at_an_edge_and_seen_at_all_hubs(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats)
    edges = [hub_of(name, nats, share=()) for name in "bc"]
    with client(owner) as keys:
        keys.set("live:mode", "auto")
        keys.rpush("live:list", "one")
        for edge in edges:
            wait_for(edge, "live:mode", b"auto")
            eventually(lambda edge=edge: get(edge, "live:list"), "the list")
        with client(edges[0]) as remote:
            assert remote.set("live:mode", b"man\x00ual\xff") is True
            # The client waits for one write, and its further commands follow.
            with remote.pipeline(transaction=False) as pipeline:
                for number in range(200):
                    pipeline.set("live:mode", str(number))
                assert pipeline.execute() == [True] * 200
            assert keys.get("live:mode") == b"199", "it was written when the edge heard of it"
            assert remote.set("live:list", "now a text") is True
        assert keys.get("live:list") == b"now a text"
        for edge in edges:
            wait_for(edge, "live:mode", b"199")
            wait_for(edge, "live:list", b"now a text")
        script = "return redis.call('SET', KEYS[1], 'x')"
        assert "READONLY" in refusal(edges[0], "EVAL", script, 1, "live:mode")
        too_long = refusal(edges[0], "SET", "live:mode", b"x" * (512 * 1024 + 1))
        assert "at most 524288 bytes" in too_long
        longest = b"y" * (512 * 1024)
        assert write(edges[0], "live:mode", longest) is True
        assert keys.get("live:mode") == longest


def test_a_hub_takes_no_writes_unless_its_file_says_so(servers, hub_of):  # noqa: F811
    nats = servers()
    owner, edge = hub_of("a", nats), hub_of("b", nats, share=())
    write(owner, "live:mode", "auto")
    wait_for(edge, "live:mode", b"auto")
    text = refusal(edge, "SET", "live:mode", "manual")
    assert text.startswith("READONLY hub 'a' takes no writes") and "nothing was written" in text
    assert get(owner, "live:mode") == b"auto"


def test_the_audit_has_who_wrote_what_and_what_became_of_it(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner_of("a", nats)
    edge = hub_of("b", nats, share=())
    wait_for_field(edge, "mx:Tank1.Setpoint", b"hub", b"a")
    wait_for_field(edge, "mx:Tank1.Level", b"hub", b"a")
    with client(edge) as remote:
        remote.acl_setuser("ada", enabled=True, passwords=["+secret"], keys=["mx:*"],
                           categories=["+@all"])
        remote.execute_command("AUTH", "ada", "secret")
        address = remote.client_info()["addr"]
        assert remote.set("mx:Tank1.Setpoint", "21.5") is True
        with pytest.raises(redis.ResponseError) as error:
            remote.set("mx:Tank1.Level", "ä" * 500)
    first, second = audit(nats, 2)
    assert first["subject"] == "tw.tests.audit.@a"
    wanted = {"stage": "end", "cluster": "tests", "hub": "a", "edge": "b", "user": "ada",
              "client": address, "command": "SET"}
    assert wanted.items() <= first.items() and wanted.items() <= second.items()
    assert (first["topic"], first["value"], first["outcome"], first["text"]) == (
        "mx:Tank1.Setpoint", "21.5", "done", "")
    assert first["came"] > 1_700_000_000 * 10**9 and first["ts"] >= first["came"]
    assert (second["topic"], second["value"], second["value_bytes"]) == (
        "mx:Tank1.Level", "ä" * 128, 1000)
    # redis-py leaves the first word out.
    assert (second["outcome"], second["text"]) == ("refused", f"ERR {error.value}")


def test_a_write_whose_owner_is_lost_ends_as_unknown_and_the_standby_takes_the_next(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner, standby = owner_of("a", nats), owner_of("b", nats)
    edge = hub_of("c", nats, share=())
    wait_for_field(edge, "mx:Tank1.Setpoint", b"hub", b"a")
    assert write(edge, "mx:Tank1.Setpoint", "1") is True
    pause(owner)
    result = in_background(lambda: write(edge, "mx:Tank1.Setpoint", "2"))
    text = result()
    assert text.startswith("UNKNOWN hub 'a' is not heard any more"), text
    assert "may have taken the value, or not" in text
    # The other hub of the plant is the topic's owner now.
    wait_for_field(edge, "mx:Tank1.Setpoint", b"hub", b"b")
    assert write(edge, "mx:Tank1.Setpoint", "3") is True
    wait_for(edge, "mx:Tank1.Setpoint", b"3")
    # The former owner comes back: it was away for longer than its lease, and does not do what it
    # was asked for then.
    go_on(owner)
    wait_for_field(edge, "mx:Tank1.Setpoint", b"hub", b"a")
    wait_for(owner, "mx:Tank1.Setpoint", b"3")
    assert owner.info("plant")["plant_writes_ok"] == 1
    assert standby.info("plant")["plant_writes_ok"] == 1
    owner.kill()
    wait_for_field(edge, "mx:Tank1.Setpoint", b"hub", b"b")
    assert write(edge, "mx:Tank1.Setpoint", "4") is True
    wait_for(standby, "mx:Tank1.Setpoint", b"4")


def test_a_first_write_without_an_answer_was_told_as_unknown(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats)
    write(owner, "live:mode", "auto")
    edge = hub_of("b", nats, share=(), extra="write-seconds = 1")
    wait_for(edge, "live:mode", b"auto")
    pause(owner)
    # It has no ticket, so that it takes no effect, whenever it comes.
    text = refusal(edge, "SET", "live:mode", "one")
    assert text.startswith("NOLINK hub 'a' ") and text.endswith(": nothing was written"), text
    go_on(owner)
    eventually(lambda: _written(edge, "live:mode", "two"), "a write")
    assert get(owner, "live:mode") == b"two"


def test_writes_end_at_once_while_the_link_is_down(servers, hub_of, owner_of):  # noqa: F811
    nats = servers()
    owner = owner_of("a", nats)
    write(owner, "live:mode", "auto")
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:mode", b"auto")
    assert write(edge, "live:mode", "one") is True
    # A request is on its way when the link is lost: no one knows its end.
    pause(owner)
    result = in_background(lambda: write(edge, "live:mode", "two"))
    eventually(lambda: figures(edge, "cluster_writes")["waiting"] == "1", "a write that waits")
    nats[0].kill()
    assert result().startswith("UNKNOWN the link to NATS was lost before hub 'a' answered")
    go_on(owner)
    text = refusal(edge, "SET", "live:mode", "three")
    assert text.startswith("NOLINK") and text.endswith("nothing was written")
    nats[0].start()
    wait_for_field(edge, "live:mode", b"stale", b"0")
    assert eventually(lambda: _written(edge, "live:mode", "four"), "a write")
    wait_for(edge, "live:mode", b"four")


def _written(hub, name, value):
    """Whether a write was done; nothing was written if not."""
    try:
        return write(hub, name, value)
    except redis.ResponseError as error:
        assert not str(error).startswith("UNKNOWN"), error
        return False


def test_a_required_audit_has_a_line_before_each_write_and_without_it_nothing_is_written(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats, extra="audit = 'required'")
    write(owner, "live:mode", "auto")
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:mode", b"auto")
    assert eventually(lambda: _written(edge, "live:mode", "one"), "a write")
    done = eventually(lambda: [line for line in lines_of(nats) if line["outcome"] == "done"],
                      "a line of the end")[0]
    begin, end = (line for line in lines_of(nats) if line["write"] == done["write"])
    assert (begin["stage"], begin["outcome"], begin["value"]) == ("begin", "", "one")
    assert (end["stage"], end["outcome"]) == ("end", "done")
    # A stream of the same name that takes nothing more: an administrator's own.
    info = nats[0].ask(f"$JS.API.STREAM.INFO.{STREAM}")
    assert nats[0].ask(f"$JS.API.STREAM.UPDATE.{STREAM}", {
        **info["config"], "max_msgs": info["state"]["messages"], "discard": "new"})["config"]
    assert refusal(edge, "SET", "live:mode", "two") == (
        "NOAUDIT the audit stream cannot be written: nothing was written")
    assert get(owner, "live:mode") == b"one"
    assert nats[0].ask(f"$JS.API.STREAM.UPDATE.{STREAM}", info["config"])["config"]
    assert write(edge, "live:mode", "three") is True


def test_an_audit_that_cannot_be_written_stops_no_write_and_gets_it_later(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats)
    write(owner, "live:mode", "auto")
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:mode", b"auto")
    assert write(edge, "live:mode", "one") is True
    audit(nats, 1)
    assert nats[0].ask(f"$JS.API.STREAM.DELETE.{STREAM}")["success"]
    assert write(edge, "live:mode", "two") is True
    assert get(owner, "live:mode") == b"two"
    line, = audit(nats, 1)
    assert (line["value"], line["outcome"]) == ("two", "done")
    eventually(lambda: figures(owner, "cluster_writes_taken")["audited"] == "2", "two lines")
    assert figures(owner, "cluster_writes_taken")["unaudited"] == "0"


def test_a_write_is_as_durable_as_one_at_the_owner_itself(
    servers, hub_of, owner_of, tmp_path  # noqa: F811
):
    nats, folder = servers(), tmp_path / "keys"
    folder.mkdir()
    files = ("--", "--dir", folder, "--appendonly", "yes", "--appendfsync", "always")
    owner = owner_of("a", nats, *files)
    write(owner, "live:mode", "auto")
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:mode", b"auto")
    for number in range(20):
        assert write(edge, "live:mode", str(number)) is True
    owner.kill()
    again = owner_of("a", nats, *files)
    wait_for(again, "live:mode", b"19")


def test_a_write_to_a_hub_in_a_quorum_ends_when_the_quorum_has_it(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    quorum = "durability = 'quorum'"
    owner = owner_of("a", nats, extra=quorum)
    eventually(lambda: _written(owner, "live:mode", "auto"), "it is the primary")
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:mode", b"auto")
    for number in range(20):
        assert write(edge, "live:mode", str(number)) is True
    owner.kill()
    again = owner_of("a", nats, extra=quorum)
    eventually(lambda: _value(again, "live:mode") == b"19", "the last value")


def _value(hub, name):
    """A key of a hub that may not answer for its keys yet."""
    try:
        return get(hub, name)
    except redis.ResponseError:
        return None


def test_writes_of_many_clients_end_each_with_its_own_outcome(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats)
    edges = [hub_of(name, nats, share=()) for name in "bc"]
    with client(owner) as keys:
        keys.mset({f"live:{number}": "" for number in range(20)})
    for edge in edges:
        wait_for(edge, "live:19", b"")
        wait_for_field(edge, "mx:Tank1.Level", b"hub", b"a")

    def work(edge, number):
        def run():
            with client(edge) as remote:
                for value in range(30):
                    assert remote.set(f"live:{number}", f"{number} {value}") is True
                    with pytest.raises(redis.ResponseError) as error:
                        remote.set("mx:Tank1.Level", str(value))
                    assert "SecurityError" in str(error.value)
            return "done"

        return run

    results = [in_background(work(edges[number % 2], number)) for number in range(20)]
    assert [result() for result in results] == ["done"] * 20
    with client(owner) as keys:
        assert keys.mget([f"live:{number}" for number in range(20)]) == [
            f"{number} 29".encode() for number in range(20)]
    taken = figures(owner, "cluster_writes_taken")
    assert (taken["done"], taken["refused"], taken["repeated"], taken["waiting"]) == (
        "600", "600", "0", "0")
    eventually(lambda: figures(owner, "cluster_writes_taken")["audited"] == "1200", "all lines")


READS = '"$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.*"'
TOPICS = '"tw.tests.log.>", "tw.tests.live.>", "tw.tests.snap.>"'
# Exactly the rights of docs/cluster.md. Also d takes writes.
USERS = f"""
accounts: {{ TESTS: {{ jetstream: enabled, users: [
  {{ user: "a", password: "secret-a", permissions: {{
    publish: ["tw.tests.log.@a.>", "tw.tests.live.@a.>", "tw.tests.snap.@a.>"
      "$KV.TW_tests.lease.@a"
      "$JS.API.STREAM.CREATE.TW_tests_LOG_@a", "$JS.API.STREAM.UPDATE.TW_tests_LOG_@a"
      "$JS.API.STREAM.CREATE.TW_tests_SNAP_@a", "$JS.API.STREAM.UPDATE.TW_tests_SNAP_@a"
      "$JS.API.STREAM.CREATE.KV_TW_tests", "$JS.API.STREAM.UPDATE.KV_TW_tests"
      "tw.tests.answer.*.@a.*", "tw.tests.audit.@a", "$JS.API.STREAM.CREATE.TW_tests_AUDIT", {READS}]
    subscribe: [{TOPICS}, "tw.tests.write.@a.*", "$KV.TW_tests.lease.@a", "_INBOX.tests.a.>"] }} }}
  {{ user: "b", password: "secret-b", permissions: {{
    publish: ["tw.tests.write.@a.b", {READS}]
    subscribe: [{TOPICS}, "tw.tests.answer.b.>", "_INBOX.tests.b.>"] }} }}
  {{ user: "c", password: "secret-c", permissions: {{
    publish: [{READS}]
    subscribe: [{TOPICS}, "tw.tests.answer.c.>", "_INBOX.tests.c.>"] }} }}
  {{ user: "d", password: "secret-d", permissions: {{
    publish: ["tw.tests.write.@a.d", "tw.tests.answer.*.@d.*", "tw.tests.audit.@d", {READS}]
    subscribe: [{TOPICS}, "tw.tests.write.@d.*", "_INBOX.tests.d.>"] }} }}
  {{ user: "admin", password: "secret" }}
] }} }}
"""


def test_which_hub_may_write_is_a_right_of_nats(tmp_path, hub_of):  # noqa: F811
    config = tmp_path / "users.conf"
    config.write_text(USERS)
    server = NatsServer(tmp_path, *free_ports(1), options=["-c", config])
    try:
        def login(name):
            password = tmp_path / f"password-{name}"
            password.write_text(f"secret-{name}\n")
            return f"user = '{name}'\npassword-file = '{password}'\n"

        owner = hub_of("a", [server], extra=login("a") + "writes = 'on'")
        write(owner, "live:mode", "auto")
        edge, other = (hub_of(name, [server], share=(), extra=login(name)) for name in "bc")
        for hub in (edge, other):
            wait_for(hub, "live:mode", b"auto")
        assert write(edge, "live:mode", "one") is True
        assert get(owner, "live:mode") == b"one"
        log = server.folder / "log"
        assert "Permissions Violation" not in log.read_text()
        assert refusal(other, "SET", "live:mode", "two") == (
            "NOPERM the NATS user of this hub may not write to topics of hub 'a': "
            "nothing was written")
        deaf = hub_of("d", [server], share=(), extra=login("d"))
        wait_for(deaf, "live:mode", b"one")
        assert refusal(deaf, "SET", "live:mode", "two") == (
            "NOPERM the NATS user of this hub may not subscribe to tw.tests.answer.d.>: "
            "nothing was written")
        # Nor in the name of another hub, nor a line of the audit.
        user = NatsClient(server.port, "c", "secret-c")
        for subject in ("tw.tests.write.@a.b", "tw.tests.audit.@a"):
            assert any("Permissions Violation" in error for error in user.publish(subject, b"x"))
        user.close()
        assert get(owner, "live:mode") == b"one"
        eventually(lambda: figures(owner, "cluster_writes_taken")["audited"] == "1", "the audit")
    finally:
        server.kill()


def test_a_hub_that_takes_writes_answered_those_that_were_for_another_hub(tmp_path):
    config = tmp_path / "users.conf"
    config.write_text(USERS)
    server = NatsServer(tmp_path, *free_ports(1), options=["-c", config])
    try:
        taker = NatsClient(server.port, "d", "secret-d")
        for subject in ("tw.tests.>", "tw.tests.write.>", "tw.tests.write.*.*",
                        "tw.tests.write.@a.*", "tw.tests.write.@a.b", "tw.tests.*.@a.*",
                        "*.tests.write.@a.b", ">"):
            errors = taker.subscribe(subject)
            assert any("Permissions Violation" in error for error in errors), subject
        for subject in ("tw.tests.log.*.1", "tw.tests.write.@d.*"):
            assert taker.subscribe(subject) == []
        # It hears no request to another hub, and so has nothing that it might answer.
        edge = NatsClient(server.port, "b", "secret-b")
        reply = "tw.tests.answer.b.@a.0000000000001234-1"
        assert edge.publish("tw.tests.write.@a.b", b"request", reply) == []
        taker.settle()
        assert taker.messages == []
        errors = taker.publish(reply, b"answer")
        assert any("Permissions Violation" in error for error in errors)
        edge.close()
        taker.close()
    finally:
        server.kill()


def test_a_hub_that_takes_writes_acknowledged_and_answered_in_place_of_others(tmp_path):
    config = tmp_path / "users.conf"
    config.write_text(USERS)
    server = NatsServer(tmp_path, *free_ports(1), options=["-c", config])
    try:
        owner, edge, taker = (
            NatsClient(server.port, name, f"secret-{name}") for name in ("a", "b", "d"))
        for subject in ("_INBOX.>", "_INBOX.tests.>", "_INBOX.tests.a.>", "_INBOX.tests.a.x.1",
                        "tw.tests.answer.>", "tw.tests.answer.b.>", "tw.tests.answer.*.@d.*"):
            errors = taker.subscribe(subject)
            assert any("Permissions Violation" in error for error in errors), subject
        assert taker.subscribe("_INBOX.tests.d.>") == []
        # It hears a frame of another hub, and sees where that one waits for the acknowledgement.
        assert taker.subscribe("tw.tests.log.*.1") == [] and owner.subscribe("_INBOX.tests.a.>") == []
        ack = "_INBOX.tests.a.x.1"
        assert owner.publish("tw.tests.log.@a.1", b"frame", ack) == []
        taker.settle()
        (line, _), = taker.messages
        assert line.split()[3] == ack.encode()
        answers = ("tw.tests.answer.b.@a.1-1", "tw.tests.answer.c.@a.1-1", "tw.tests.answer.b.@b.1-1")
        for subject in (ack, "_INBOX.tests.a.y", "_INBOX.tests.b.y", "_INBOX.x", *answers):
            errors = taker.publish(subject, b'{"stream":"TW_tests_LOG_@a","seq":1}')
            assert any("Permissions Violation" in error for error in errors), subject
        owner.settle()
        assert owner.messages == []
        # Its own answers, and those alone, reach the hub that has asked.
        assert edge.subscribe("tw.tests.answer.b.>") == []
        assert taker.publish("tw.tests.answer.b.@d.1-1", b"answer") == []
        edge.settle()
        (line, _), = edge.messages
        assert line.split()[1] == b"tw.tests.answer.b.@d.1-1"
        for one in (owner, edge, taker):
            one.close()
    finally:
        server.kill()


def test_an_owner_answered_wherever_a_request_said(servers, owner_of):  # noqa: F811
    nats = servers()
    owner = owner_of("a", nats)
    write(owner, "live:mode", "auto")
    epoch = int(eventually(lambda: (figures(owner, "cluster_topics") or {}).get("epoch", "0") != "0"
                           and figures(owner, "cluster_topics")["epoch"], "a reign"))
    server = Requests(nats[0].port)
    # In place of itself to another edge, in place of another owner, and to the log.
    for reply in ("tw.tests.answer.b.@a.0000000000001234-1", "tw.tests.answer.x.@b.1-1",
                  "tw.tests.log.@a.1", "tw.tests.answer.x.@a"):
        server.send("tw.tests.write.@a.x", request(epoch, 1, 0, b"live:mode", b"one"), reply)
    eventually(lambda: figures(owner, "cluster_writes_taken")["unreadable"] == "4", "all four")
    # A hub of this version, and one of an earlier one.
    for number, reply in enumerate(("tw.tests.answer.x.@a.0000000000001234-2", "_INBOX.tests"), 2):
        server.listen(reply)
        assert server.write(epoch, number, 0, b"live:mode", b"one", reply=reply)[0] == 3
    assert get(owner, "live:mode") == b"auto"
    server.close()


def test_an_edge_used_up_the_numbers_of_another_edge(servers, owner_of):  # noqa: F811
    nats = servers()
    owner = owner_of("a", nats)
    write(owner, "live:mode", "auto")
    epoch = int(eventually(lambda: (figures(owner, "cluster_topics") or {}).get("epoch", "0") != "0"
                           and figures(owner, "cluster_topics")["epoch"], "a reign"))
    server = Requests(nats[0].port)
    _, ticket, _ = server.write(epoch, 1, 0, b"live:mode", b"one")
    # Another hub, with the session of the first one and the highest number of all.
    other = request(epoch, 2**64 - 1, 0, b"live:mode", b"two")
    server.send("tw.tests.write.@a.other", other, "_INBOX.other")
    assert server.write(epoch, 2, ticket, b"live:mode", b"three")[0] == 0
    assert get(owner, "live:mode") == b"three"
    assert figures(owner, "cluster_writes_taken")["repeated"] == "0"
    server.close()


def test_a_hub_that_had_just_started_hid_the_topic_that_a_client_wrote(
    servers, hub_of, owner_of, tmp_path  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats)
    write(owner, "live:mode", "auto")
    nats[0].kill()
    # The hub has no link yet: each name that it does not share itself may be another hub's.
    folder = tmp_path / "data"
    folder.mkdir()
    files = ("--", "--dir", folder, "--appendonly", "yes")
    edge = hub_of("b", nats, *files, share=("live:own:*",))
    for command in (("SET", "mx:Tank1.Setpoint", "77"), ("SET", "live:mode", "77"),
                    ("HSET", "live:mode", "field", "77"), ("MSET", "live:mode", "77"),
                    ("EVAL", "return redis.call('SET', KEYS[1], 'x')", 1, "live:mode"),
                    ("SETEX", "mx:Tank1.Setpoint", "100", "77")):
        text = refusal(edge, *command)
        assert "NOLINK" in text and "nothing was written" in text, (command, text)
    with client(edge) as keys:
        assert keys.exists("mx:Tank1.Setpoint", "live:mode") == 0
        # Its own names, and other keys, go on.
        assert keys.set("live:own:1", "x") and keys.set("mode", "x")
    nats[0].start()
    wait_for_field(edge, "mx:Tank1.Setpoint", b"hub", b"a")
    wait_for(edge, "live:mode", b"auto")
    eventually(lambda: _written(edge, "mx:Tank1.Setpoint", "21.5"), "a write of a tag")
    wait_for(owner, "mx:Tank1.Setpoint", b"21.5")
    eventually(lambda: _written(edge, "live:mode", "manual"), "a write of a key")
    assert get(owner, "live:mode") == b"manual"
    # A name that no other hub has becomes a key of this hub, but a tag is never one.
    eventually(lambda: figures(edge, "cluster_topics_received")["joined"] == "1", "all are heard")
    assert write(edge, "live:new", "x") is True
    assert write(edge, "live:mode", "auto") is True
    for name in ("mx:Tank1.Nope", "mx:Nope"):
        assert refusal(edge, "SET", name, "1").startswith("no hub that is received has a tag")
        assert refusal(edge, "HSET", name, "f", "1").startswith("no hub that is received has a tag")
    # A key that is loaded is this hub's, also without a link.
    edge.kill()
    nats[0].kill()
    edge = hub_of("b", nats, *files, share=("live:own:*",))
    with client(edge) as keys:
        assert (keys.get("live:new"), keys.get("live:own:1")) == (b"x", b"x")
        assert keys.append("live:new", "y") == 2 and keys.set("live:new", "z") is True
        assert keys.delete("live:new") == 1
    assert "NOLINK" in refusal(edge, "SET", "live:new", "x")


def test_a_write_that_its_client_saw_as_unknown_was_counted_as_done(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats)
    write(owner, "live:mode", "auto")
    edge = hub_of("b", nats, share=())
    wait_for(edge, "live:mode", b"auto")
    assert write(edge, "live:mode", "one") is True
    for number, how in enumerate(("TIMEOUT", "ERROR"), 1):
        pause(owner)
        with client(edge) as remote:
            identity = remote.client_id()

            def work(remote=remote):
                try:
                    return remote.set("live:mode", "two")
                except redis.ResponseError as error:
                    return str(error)

            result = in_background(work)
            eventually(lambda: figures(edge, "cluster_writes")["waiting"] == "1", "a write")
            with client(edge) as other:
                assert other.execute_command("CLIENT", "UNBLOCK", identity, how) == 1
            assert result().startswith(("UNKNOWN the client was unblocked", "UNBLOCKED"))
        go_on(owner)
        eventually(lambda: figures(edge, "cluster_writes")["waiting"] == "0", "its end")
        found = figures(edge, "cluster_writes")
        assert (found["done"], found["unknown"]) == ("1", str(number))


def test_what_is_no_request_is_counted_and_a_repeated_one_takes_no_effect(
    servers, hub_of, owner_of  # noqa: F811
):
    nats = servers()
    owner = owner_of("a", nats)
    write(owner, "live:mode", "auto")
    epoch = int(eventually(lambda: (figures(owner, "cluster_topics") or {}).get("epoch", "0") != "0"
                           and figures(owner, "cluster_topics")["epoch"], "a reign"))
    server = Requests(nats[0].port)
    server.send("tw.tests.write.@a.x", b"what is no request")
    # Without a ticket it takes no effect, and the answer has one.
    outcome, ticket, text = server.write(epoch, 1, 0, b"live:mode", b"one")
    assert (outcome, text) == (3, "") and ticket > 0
    assert figures(owner, "cluster_writes_taken")["unreadable"] == "1"
    assert get(owner, "live:mode") == b"auto"
    assert server.write(epoch, 2, ticket, b"live:mode", b"one")[0] == 0
    assert get(owner, "live:mode") == b"one"
    write(owner, "live:mode", "two")
    # The same again, and one that is late: neither has an answer.
    for number in (2, 1):
        server.send_write(epoch, number, ticket, b"live:mode", b"one")
    # Another reign, and topics that are not shared.
    outcome, _, text = server.write(epoch - 1, 3, ticket, b"live:mode", b"one")
    assert outcome == 1 and text.startswith("TRYAGAIN")
    assert get(owner, "live:mode") == b"two"
    assert figures(owner, "cluster_writes_taken")["repeated"] == "2"
    server.send_write(epoch + 1, 4, ticket, b"live:mode", b"one")
    write(owner, "other", "own")
    for number, name in enumerate((b"other", b"live:nothing", b"mx:Tank9.Level"), 5):
        outcome, _, text = server.write(epoch, number, ticket, name, b"one")
        assert outcome == 1 and "does not share this topic" in text
    assert (get(owner, "other"), get(owner, "live:mode")) == (b"own", b"two")
    server.close()
