"""Protected mode: a port without credentials serves this machine alone."""

import socket
import ssl
import urllib.error
import urllib.request

import pytest
import zmq

from certificates import Authority, has_openssl
from feed_client import CONTROL, Packet, Refused, encode, login, messages_of
from support import PATIENCE_S, eventually, free_ports, is_closed
from zws_peer import ZwsPeer


def address_of_this_machine():
    """One that other machines would use; a connection to it does not come from the loopback."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        one.connect(("192.0.2.1", 9))
        address = one.getsockname()[0]
    except OSError:
        address = "127.0.0.1"
    one.close()
    if address.startswith("127."):
        pytest.skip("this machine has no address beside the loopback's")
    return address


class Open:
    """A hub that listens on every interface."""

    def __init__(self, start, *options):
        self.host = address_of_this_machine()
        names = ["resp", "zmq-pub", "zmq-pull", "zmq-router", "feed", "admin", "databento"]
        self.ports = dict(zip(names, free_ports(len(names))))
        words = [f"--{name}=0.0.0.0:{port}" for name, port in self.ports.items()]
        if not any("databento-key" in str(option) for option in options):
            words = [word for word in words if "databento" not in word]
        self.program = start("serve", *words, *options)
        eventually(lambda: self.asks("127.0.0.1") == b"+PONG\r\n" or self.with_password(), "a hub")

    def with_password(self):
        return self.asks("127.0.0.1").startswith(b"-NOAUTH")

    def asks(self, host, name="resp", words=b"PING\r\n"):
        try:
            with socket.create_connection((host, self.ports[name]), 5) as one:
                one.settimeout(10)
                one.sendall(words)
                return one.recv(1000)
        except ConnectionError:
            return b""

    def zmq(self, kind, host, name, **options):
        one = zmq.Context.instance().socket(kind)
        one.linger, one.rcvtimeo = 0, 500
        for option, value in options.items():
            setattr(one, option, value)
        one.connect(f"tcp://{host}:{self.ports[name]}")
        return one

    def answers(self, host, **options):
        with self.zmq(zmq.REQ, host, "zmq-router", **options) as one:
            one.send(b"GET nothing")
            try:
                return one.recv_multipart() == [b"NIL"]
            except zmq.Again:
                return False


def test_other_machines_are_refused_at_every_port_without_credentials(start):
    hub = Open(start)
    assert hub.asks(hub.host).startswith(b"-DENIED Tidewire is running in protected mode")
    with socket.create_connection((hub.host, hub.ports["feed"]), 5) as one:
        one.settimeout(10)
        refusal = one.recv(1000)
        assert b"protected mode" in refusal and is_closed(one)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"http://{hub.host}:{hub.ports['admin']}/metrics", timeout=10)
    assert error.value.code == 403
    assert not hub.answers(hub.host) and hub.answers("127.0.0.1")
    with socket.create_connection((hub.host, hub.ports["zmq-pub"]), 5) as one:
        one.settimeout(10)
        by_websocket = ZwsPeer(one, b"SUB")
        assert by_websocket.heard == b"\x02\x05ERROR\x03400" and by_websocket.is_ended()
    with hub.zmq(zmq.PUSH, hub.host, "zmq-pull") as push:
        push.send_multipart([b"open", b"door"])
        assert hub.asks("127.0.0.1", words=b"GET open\r\n") == b"$-1\r\n"
    with hub.zmq(zmq.PUSH, "127.0.0.1", "zmq-pull") as push:
        push.send_multipart([b"open", b"door"])
        eventually(
            lambda: hub.asks("127.0.0.1", words=b"GET open\r\n") == b"$4\r\ndoor\r\n", "a value"
        )
    url = f"http://127.0.0.1:{hub.ports['admin']}/metrics"
    assert urllib.request.urlopen(url, timeout=10).status == 200
    log = hub.program.stderr
    for name in ("resp", "zmq-pub", "zmq-pull", "zmq-router", "feed", "admin"):
        assert f'port="{name}"' in log, "one warning for each open port"
    assert "refuses a connection from another machine" in log


def test_protected_mode_can_be_turned_off(start, tmp_path):
    hub = Open(start, "--protected-mode", "no")
    assert hub.asks(hub.host) == b"+PONG\r\n"
    assert hub.answers(hub.host)
    url = f"http://{hub.host}:{hub.ports['admin']}/metrics"
    assert urllib.request.urlopen(url, timeout=10).status == 200
    assert "open to other machines" in hub.program.stderr
    file = tmp_path / "tidewire.toml"
    file.write_text("protected-mode = 'no'\n")
    hub = Open(start, "--config", file)
    assert hub.asks(hub.host) == b"+PONG\r\n"
    hub = Open(start, "--config", file, "--protected-mode", "yes")
    assert hub.asks(hub.host).startswith(b"-DENIED")
    assert hub.asks("127.0.0.1", words=b"CONFIG SET protected-mode no\r\n") == b"+OK\r\n"
    assert hub.asks(hub.host) == b"+PONG\r\n"


def test_credentials_open_their_ports(start):
    hub = Open(start, "--set", "requirepass=secret", "--databento-key", "k" * 32)
    assert hub.asks(hub.host).startswith(b"-NOAUTH")
    assert not hub.answers(hub.host), "NULL proves nothing"
    assert hub.asks(hub.host, "databento", b"\n").startswith(b"lsg_version=")
    without = encode(CONTROL, 0, [login(0)])
    assert b"NotAllowed: credentials are needed" in hub.asks(hub.host, "feed", without)
    right = encode(CONTROL, 0, [login(0, user=b"", password=b"secret")])
    assert b"NotAllowed" not in hub.asks(hub.host, "feed", right)
    hub = Open(start, "--zmq-mechanism", "plain", "--set", "requirepass=secret")
    right = {"plain_username": b"default", "plain_password": b"secret"}
    assert hub.answers(hub.host, **right)
    assert not hub.answers(hub.host, **right | {"plain_password": b"wrong"})
    hub = Open(start, "--zmq-mechanism", "plain")
    any_password = {"plain_username": b"default", "plain_password": b"any"}
    assert not hub.answers(hub.host, **any_password), "a user without a password proves nothing"
    assert hub.answers("127.0.0.1", **any_password)


def test_a_user_without_a_password_is_told_why_the_feed_refuses_it(start):
    hub = Open(start, "--set", "requirepass=secret")
    guest = b"AUTH secret\r\nACL SETUSER guest on nopass ~* +@all\r\n"
    assert hub.asks("127.0.0.1", words=guest) == b"+OK\r\n+OK\r\n"

    def refusal(host, user, password):
        one = encode(CONTROL, 0, [login(0, user=user, password=password)])
        (message,) = messages_of(Packet(CONTROL, 1, 0, 0, hub.asks(host, "feed", one)[24:120]))
        return message

    told = refusal(hub.host, b"guest", b"any")
    assert told == Refused(
        10, "NotAllowed: nopass users come from this machine only (protected mode)")
    assert refusal(hub.host, b"nosuchuser", b"any").reason == 12
    local = encode(CONTROL, 0, [login(0, user=b"guest", password=b"any")])
    assert b"NotAllowed" not in hub.asks("127.0.0.1", "feed", local)
    # As with Redis, the port of Redis clients serves such a user from everywhere.
    assert hub.asks(hub.host, words=b"AUTH guest any\r\nPING\r\n") == b"+OK\r\n+PONG\r\n"


@pytest.mark.skipif(not has_openssl(), reason="the command openssl makes certificates")
def test_a_certificate_lets_a_user_without_a_password_in_from_elsewhere(start, tmp_path):
    """It did for the feed, and not for ZeroMQ with PLAIN."""
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("hub", "hub")
    (port,) = free_ports(1)
    hub = Open(
        start, f"--zmq-router-tls=wss://0.0.0.0:{port}", "--tls-cert", certificate,
        "--tls-key", key, "--tls-ca", authority.certificate, "--zmq-mechanism", "plain", "--",
        "--tls-auth-clients", "optional", "--user", "feeder", "on", "nopass", "+@all", "~*", "&*",
    )
    for shows in (False, True):
        made = ssl.create_default_context(cafile=authority.certificate)
        if shows:
            made.load_cert_chain(*authority.issue("feeder", "feeder"))
        one = socket.create_connection((hub.host, port), PATIENCE_S)
        with made.wrap_socket(one, server_hostname="localhost") as secure:
            peer = ZwsPeer(secure, b"REQ", plain=(b"feeder", b"any"))
            assert peer.is_ready == shows, peer.heard
