"""Commands of a page one after the other: their replies stay in order and cost bounded memory."""

import json
import re
import socket
import struct

import pytest

from support import eventually, free_ports
from test_web_clients import open_deaf, pages
from web_client import Page

LONG_ELEMENTS, ELEMENT = 10_000, "x" * 100
LONG_BYTES = LONG_ELEMENTS * len(ELEMENT)
PAIRS = 30
# Up to 4 MiB of replies, and so the commands behind them, are with the kernel.
TAKEN_BY_THE_KERNEL = 8


@pytest.fixture(params=[1, 2], ids=["one lane", "two lanes"])
def web(start_hub, request):
    port = free_ports(1)[0]
    hub = start_hub("--web", f"127.0.0.1:{port}", "--lanes", str(request.param))
    hub.web = port
    hub.redis().rpush("long", *(ELEMENT for _ in range(LONG_ELEMENTS)))
    return hub


def long_ones():
    """Commands with long replies, each in front of one that counts."""
    for number in range(PAIRS):
        yield {"do": 100 + 2 * number, "command": ["LRANGE", "long", 0, -1]}
        yield {"do": 101 + 2 * number, "command": ["INCR", "counter"]}


def messages_of(connection):
    """The messages that come on a raw connection, read at full speed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    reader = connection.makefile("rb")
    while head := reader.read(2):
        length = head[1]
        if length >= 126:
            form, size = (">H", 2) if length == 126 else (">Q", 8)
            length = struct.unpack(form, reader.read(size))[0]
        body = reader.read(length)
        yield json.loads(body) if head[0] == 0x81 else (head[0], body)


def inner(redis):
    """The Redis session of the page that asks for long replies."""
    return [line for line in redis.client_list() if line["cmd"] in ("lrange", "incr")]


def wait_until_full(redis):
    """Waits until the output of the page that does not read has no more room."""
    def is_full():
        lines = [line for line in pages(redis) if line["name"] == "deaf"]
        return lines and int(lines[0]["omem"]) > 256 << 10
    eventually(is_full, "the page's output waits")


def test_the_next_command_waits_until_the_replies_before_it_are_read(web):
    redis = web.redis()
    deaf = open_deaf(web.web, *long_ones())
    wait_until_full(redis)
    other = Page(web.web)
    assert other.do("PING") == "PONG" and other.do("LLEN", "long") == LONG_ELEMENTS
    # Its Redis session does not make the next long reply.
    eventually(lambda: all(int(line["omem"]) == 0 for line in inner(redis)), "nothing waits there")
    assert inner(redis)
    [omem] = [int(line["omem"]) for line in pages(redis) if line["name"] == "deaf"]
    assert omem < 2 * LONG_BYTES
    assert int(redis.get("counter") or 0) <= TAKEN_BY_THE_KERNEL
    replies = [message for _, message in zip(range(2 * PAIRS + 1), messages_of(deaf))][1:]
    assert [reply["done"] for reply in replies] == list(range(100, 100 + 2 * PAIRS))
    assert all(len(reply["reply"]) == LONG_ELEMENTS for reply in replies[::2])
    assert [reply["reply"] for reply in replies[1::2]] == list(range(1, PAIRS + 1))
    other.close()
    deaf.close()


def test_a_page_that_is_killed_has_no_further_command_executed(web):
    redis = web.redis()
    deaf = open_deaf(web.web, *long_ones())
    wait_until_full(redis)
    [line] = [line for line in pages(redis) if line["name"] == "deaf"]
    assert redis.execute_command("CLIENT KILL", "ID", line["id"]) == 1
    *_, last = messages_of(deaf)
    assert last[0] == 0x88 and struct.unpack(">H", last[1][:2]) == (4001,)
    eventually(lambda: int(redis.info("web")["web_streams"]) == 0, "it is gone")
    eventually(lambda: not inner(redis), "so is its Redis session")
    assert int(redis.get("counter") or 0) <= TAKEN_BY_THE_KERNEL
    deaf.close()


def test_a_page_that_leaves_has_no_further_command_executed(web):
    redis = web.redis()
    deaf = open_deaf(web.web, *long_ones())
    wait_until_full(redis)
    deaf.close()
    eventually(lambda: not pages(redis) and not inner(redis), "both are gone")
    assert int(redis.get("counter") or 0) <= TAKEN_BY_THE_KERNEL


def test_many_small_commands_are_answered_in_order(web):
    page = Page(web.web)
    for number in range(1_000):
        page.send({"do": 1 + number, "command": ["INCRBY", "counter", number]})
    total = 0
    for number in range(1_000):
        total += number
        assert page.receive() == {"done": 1 + number, "reply": total}
    page.close()


def test_commands_of_64_kilobytes_wait_for_each_other(web):
    page, value = Page(web.web), "v" * 60_000
    for number in range(100):
        page.send({"do": 1 + number, "command": ["SET", f"key:{number}", value]})
    assert [page.receive()["done"] for _ in range(100)] == list(range(1, 101))
    assert web.redis().dbsize() == 101
    page.close()


def test_batches_come_beside_long_replies(web):
    redis = web.redis()
    redis.set("live:a", 0)
    page = Page(web.web)
    page.subscribe(1, "live:a")
    requests = list(long_ones())
    for message in requests:
        page.send(message)
    page.send({"next": 1})
    redis.set("live:a", 1)
    done, batches = [], []
    while len(done) < len(requests) or not batches:
        message = page.receive()
        if "batch" in message:
            batches.append(message["rows"])
        else:
            done.append(message["done"])
    assert done == [request["do"] for request in requests]
    assert batches == [[[1, {"value": 1}]]]
    page.close()


def test_a_write_to_a_plant_keeps_its_place_among_long_replies(start_hub, start):
    plant = start("simulate", "mx", "--listen", "127.0.0.1:0", "--first-change", "10ms-20ms")
    address = re.search(r" on ([^,]+),", plant.line_with("plant:"))[1]
    port = free_ports(1)[0]
    hub = start_hub("--web", f"127.0.0.1:{port}", "--mx", address)
    hub.redis().rpush("long", *(ELEMENT for _ in range(LONG_ELEMENTS)))
    page = Page(port)
    page.subscribe(1, "mx:Tank1.*")
    eventually(
        lambda: page.ask("set", topic="mx:Tank1.Setpoint", value="20").get("reply") == "OK",
        "a write that the plant takes",
    )
    for number in range(10):
        page.send({"set": 1_000 + 2 * number, "topic": "mx:Tank1.Setpoint", "value": str(number)})
        page.send({"do": 1_001 + 2 * number, "command": ["LRANGE", "long", 0, -1]})
    replies = []
    while len(replies) < 20:
        message = page.receive()
        if "done" in message:
            replies.append(message)
    assert [reply["done"] for reply in replies] == list(range(1_000, 1_020))
    assert all(reply["reply"] == "OK" for reply in replies[::2])
    page.close()
