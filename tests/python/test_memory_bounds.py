"""How much memory the server takes at most: for one huge value, for a client that does not read,
and for very many subscriptions."""

import re
import socket
import threading
from pathlib import Path

from support import RespSocket, command, eventually

MIB = 1 << 20


def peak_bytes(hub):
    """The most memory that the process has held."""
    for line in Path(f"/proc/{hub.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the process has no memory")


def test_a_value_of_512_mib_takes_little_more_than_the_value_and_the_request(start_hub):
    hub = start_hub("--lanes", "1")
    client = RespSocket(hub.resp())
    length = 512 * MIB
    client.socket.settimeout(60)
    client.socket.sendall(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n" % length)
    chunk = b"x" * MIB
    for _ in range(512):
        client.socket.sendall(chunk)
    client.socket.sendall(b"\r\n")
    assert client.read() == b"OK"
    assert client.call("STRLEN", "big") == length
    # How often the buffer of the request grows, and from what length, depends on how it arrives.
    assert peak_bytes(hub) < 1300 * MIB, f"{peak_bytes(hub) / MIB:.0f} MiB"

    # What the request needed is given back, once there is something else to do.
    def is_given_back():
        client.call("SET", "other", b"y" * (2 * MIB))
        return hub.resident_bytes() < 640 * MIB

    eventually(is_given_back, "the request's memory")


def test_a_claimed_length_takes_no_memory(start_hub):
    hub = start_hub("--lanes", "1")
    before = peak_bytes(hub)
    clients = [RespSocket(hub.resp()) for _ in range(50)]
    for client in clients:
        client.socket.sendall(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$536870912\r\n" + b"x" * 100_000)
    assert RespSocket(hub.resp()).call("PING") == b"PONG"
    assert peak_bytes(hub) - before < 64 * MIB


def test_a_client_that_writes_all_requests_before_it_reads_gets_every_reply(start_hub, tmp_path):
    # hiredis does so. A Unix socket holds little of them on the way.
    path = tmp_path / "socket"
    hub = start_hub("--lanes", "1", "--", "--unixsocket", path)
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect(str(path))
    resp = RespSocket(client)
    elements = [b"element-%d" % number for number in range(500)]
    assert resp.call("RPUSH", "list", *elements) == 500
    count = 20_000
    client.sendall(command("LRANGE", "list", "0", "499") * count + command("PING"))
    for _ in range(count):
        assert resp.file.readline() == b"*500\r\n"
        resp.file.read(sum(len(b"$%d\r\n%s\r\n" % (len(one), one)) for one in elements))
    assert resp.read() == b"PONG"
    assert peak_bytes(hub) < 128 * MIB, f"{peak_bytes(hub) / MIB:.0f} MiB"


def test_a_client_that_never_reads_takes_little_memory(start_hub):
    hub = start_hub("--lanes", "1")
    hub.redis().set("value", b"x" * 100_000)
    before = peak_bytes(hub)
    deaf = hub.resp(receive_buffer_bytes=4096)
    deaf.settimeout(1)
    request = command("GET", "value") * 1000
    sent = 0
    try:
        # Replies of 100 MB and more each round: it is stopped long before.
        for _ in range(200):
            deaf.sendall(request)
            sent += 1
    except TimeoutError:
        pass
    assert hub.redis().ping()
    assert sent < 200 or hub.info("clients")["connected_clients"] > 0
    assert peak_bytes(hub) - before < 64 * MIB, f"{(peak_bytes(hub) - before) / MIB:.0f} MiB"


def test_a_million_subscriptions_take_less_than_450_bytes_each(start_hub):
    hub = start_hub("--lanes", "1")
    before = hub.resident_bytes()
    client = hub.resp()

    def read(wanted):
        # A confirmation: `*3 $9 subscribe $LENGTH NAME :COUNT`.
        seen, last = 0, b""
        while seen < wanted:
            part = client.recv(1 << 20)
            assert part
            text = last + part
            seen += text.count(b"\r\nsubscribe\r\n")
            last = text[-12:]

    count, batch = 1_000_000, 10_000
    reader = threading.Thread(target=read, args=(count,))
    reader.start()
    for start in range(0, count, batch):
        names = [f"channel:{number}" for number in range(start, start + batch)]
        client.sendall(command("SUBSCRIBE", *names))
    reader.join()
    assert hub.info("stats")["pubsub_channels"] == count
    taken = peak_bytes(hub) - before
    assert taken < 450 * count, f"{taken / count:.0f} bytes a subscription"


def test_a_deaf_monitor_is_cut_off_and_holds_nobody_up(start_hub):
    hub = start_hub("--lanes", "1", "--set", "client-output-buffer-limit=pubsub 1mb 0 0")
    deaf = RespSocket(hub.resp(receive_buffer_bytes=4096))
    assert deaf.call("MONITOR") == b"OK"
    client = hub.redis()
    for _ in range(200):
        pipeline = client.pipeline(transaction=False)
        for _ in range(100):
            pipeline.echo(b"x" * 1000)
        pipeline.execute()
    other = RespSocket(hub.resp())
    eventually(lambda: b"flags=O" not in other.call("CLIENT", "LIST"), "its end")
    assert peak_bytes(hub) < 128 * MIB


def test_what_is_flushed_goes_back_whatever_thread_freed_it(start_hub):
    hub = start_hub("--lanes", "1")
    client = hub.redis()

    def spans():
        """64 KiB each, that blocks of 88 bytes are in: keys of 16 bytes with 64."""
        stats = client.execute_command("MEMORY", "MALLOC-STATS")
        found = re.search(r"blocks of +88 bytes: \d+ in (\d+) spans", str(stats))
        return int(found.group(1)) if found else 0

    def fill():
        pipeline = client.pipeline(transaction=False)
        for number in range(100_000):
            pipeline.set(f"key:{number:012}", "x" * 64)
        pipeline.execute()

    fill()
    assert spans() > 120
    client.flushall()
    client.memory_purge()
    eventually(lambda: spans() < 10, "the spans' memory after FLUSHALL")
    fill()
    client.flushall(asynchronous=True)
    client.memory_purge()
    eventually(lambda: spans() < 10, "the spans' memory after FLUSHALL ASYNC")
