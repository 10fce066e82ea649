"""CLIENT KILL ends connections of every port, not of Redis clients alone."""

import hashlib

import pytest
import zmq

from feed_client import FeedClient
from support import RespSocket, eventually, free_ports, is_closed

KEY = "k" * 32
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03"
USERS = [
    "--", "--user", "desk", "on", ">pw", "+@all", "~*", "&*",
    "--user", "other", "on", ">pw", "+@all", "~*", "&*",
]


class Clients:
    """A hub, and one client of each of its other ports, each of a user."""

    def __init__(self, start_hub):
        (self.gateway_port,) = free_ports(1)
        self.hub = start_hub(
            "--databento", f"127.0.0.1:{self.gateway_port}", "--databento-key", KEY,
            "--databento-user", "desk", "--lanes", "2", *USERS,
        )
        self.admin = RespSocket(self.hub.resp())

    def feed(self, **credentials):
        client = FeedClient(self.hub.connect(self.hub.feed_port))
        client.join("*", **credentials)
        client.until(lambda: client.accepted)
        return client.socket

    def zeromq(self, port):
        """A peer that has sent a part of its greeting."""
        one = self.hub.connect(port)
        one.sendall(GREETING)
        assert one.recv(1) == b"\xff"
        return one

    def gateway(self):
        one = self.hub.connect(self.gateway_port)
        greeting = b""
        while greeting.count(b"\n") < 2:
            greeting += one.recv(1000)
        challenge = greeting.split(b"cram=")[1].strip().decode()
        digest = hashlib.sha256(f"{challenge}|{KEY}".encode()).hexdigest()
        words = f"auth={digest}-{KEY[-5:]}|dataset=ALL|encoding=dbn|ts_out=0\n"
        one.sendall(words.encode())
        assert b"success=1" in one.recv(1000)
        return one

    def kill(self, *words):
        return self.admin.call("CLIENT", "KILL", *words)


@pytest.fixture
def clients(start_hub):
    return Clients(start_hub)


def place(name):
    return "%s:%d" % name


def each(clients):
    hub = clients.hub
    makers = {
        hub.feed_port: clients.feed, clients.gateway_port: clients.gateway,
        hub.pub_port: lambda: clients.zeromq(hub.pub_port),
        hub.pull_port: lambda: clients.zeromq(hub.pull_port),
        hub.router_port: lambda: clients.zeromq(hub.router_port),
    }
    return [(port, make()) for port, make in makers.items()]


def test_addr_ends_a_connection_of_any_port(clients):
    for _, one in each(clients):
        assert clients.kill("ADDR", place(one.getsockname())) == 1
        assert is_closed(one)
    for _, one in each(clients):
        assert clients.kill(place(one.getsockname())) == b"OK"
        assert is_closed(one)


def test_laddr_ends_all_connections_of_a_port(clients):
    first, second = each(clients), each(clients)
    for at, (port, one) in enumerate(first):
        assert clients.kill("LADDR", f"127.0.0.1:{port}") == 2
        assert is_closed(one) and is_closed(second[at][1])
        eventually(lambda: clients.kill("LADDR", f"127.0.0.1:{port}") == 0, "an empty port")
    assert clients.admin.call("PING") == b"PONG"


def test_user_ends_the_connections_of_a_user_of_every_port(start_hub):
    clients = Clients(start_hub)
    hub = clients.hub
    desk = [clients.feed(user=b"desk", password=b"pw"), clients.gateway()]
    other, default = clients.feed(user=b"other", password=b"pw"), clients.feed()
    monitors = [hub.zmq(kind, monitored=True) for kind in (zmq.SUB, zmq.PUSH, zmq.DEALER)]
    for monitor in monitors:
        wait_for(monitor, zmq.EVENT_HANDSHAKE_SUCCEEDED)
    assert clients.kill("USER", "desk", "MAXAGE", "3600") == 0
    # As in Redis, a user that is turned off keeps its connections.
    assert clients.admin.call("ACL", "SETUSER", "desk", "off") == b"OK"
    assert clients.kill("USER", "desk") == len(desk)
    assert all(is_closed(one) for one in desk)
    # The feed's client and three peers of ZeroMQ. The one that asks is left out.
    assert clients.kill("USER", "default") == 4
    assert is_closed(default)
    for monitor in monitors:
        wait_for(monitor, zmq.EVENT_DISCONNECTED)
    assert clients.kill("USER", "other") == 1
    assert is_closed(other)


def test_a_filter_of_redis_clients_ends_no_others(clients):
    one = clients.feed()
    for words in (("TYPE", "normal"), ("SKIPME", "yes"), ("ID", "12345"),
                  ("ADDR", place(one.getsockname()), "TYPE", "normal")):
        assert clients.kill(*words) == 0
    assert clients.kill("ADDR", place(one.getsockname())) == 1
    assert is_closed(one)


def wait_for(monitor, wanted):
    def told():
        if not monitor.poll(100):
            return False
        event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
        return event & wanted

    eventually(told, "an event of the socket")


def test_a_client_that_was_killed_is_not_in_the_next_list(start_hub):
    hub = start_hub("--lanes", "2")
    admin = RespSocket(hub.resp())
    for _ in range(20):
        number = RespSocket(hub.resp()).call("CLIENT", "ID")
        assert admin.call("CLIENT", "KILL", "ID", number) == 1
        assert b"id=%d " % number not in admin.call("CLIENT", "LIST")
