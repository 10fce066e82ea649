"""Who is let in at the ZeroMQ ports, and what they may do there: NULL, PLAIN and CURVE."""

import json
import subprocess

import pytest
import zmq

from support import BINARY, eventually

PORTS = {zmq.SUB: "pub", zmq.PUSH: "pull", zmq.REQ: "router"}
USERS = [
    "--set", "enable-debug-command=yes", "--",
    "--user", "feeder", "on", ">secret", "+@all", "~*", "&*",
    "--user", "reader", "on", ">words", "~md:*", "~live:*", "&live:*", "+get", "+scan",
    "+psubscribe",
]


@pytest.fixture
def plain(start_hub):
    return start_hub("--zmq-mechanism", "plain", *USERS)


def as_user(name, password):
    return {"plain_username": name.encode(), "plain_password": password.encode()}


def ask(peer, *frames):
    peer.send_multipart([one.encode() for one in frames])
    return peer.recv_multipart()


def let_in(hub, kind, **options):
    """Whether a peer gets past the handshake."""
    monitor = hub.zmq(kind, monitored=True, **options)
    bad = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    bad |= zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_DISCONNECTED

    def told():
        if not monitor.poll(100):
            return None
        event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
        if event & zmq.EVENT_HANDSHAKE_SUCCEEDED:
            return "in"
        return "out" if event & bad else None

    return eventually(told, "the end of the handshake") == "in"


def curve_keys():
    lines = subprocess.run([BINARY, "curve-keys"], capture_output=True, text=True, check=True)
    words = lines.stdout.split()
    assert words[0] == "public" and words[2] == "secret"
    return words[1].encode(), words[3].encode()


@pytest.fixture
def keys(tmp_path):
    """The public key of the ports, and the file with the secret one."""
    public, secret = curve_keys()
    path = tmp_path / "hub.key"
    path.write_bytes(secret + b"\n")
    return public, path


def as_client(server, pair):
    return {"curve_serverkey": server, "curve_publickey": pair[0], "curve_secretkey": pair[1]}


@pytest.mark.parametrize("kind", PORTS, ids=PORTS.values())
def test_plain_lets_users_in_and_nobody_else(plain, kind):
    assert let_in(plain, kind, **as_user("feeder", "secret"))
    assert not let_in(plain, kind, **as_user("feeder", "wrong"))
    assert not let_in(plain, kind, **as_user("nobody", "secret"))
    assert not let_in(plain, kind), "NULL is not spoken there"
    entry = plain.redis().acl_log()[0]
    assert entry["reason"] == "auth" and entry["username"] in ("nobody", "feeder")


def test_plain_peers_have_the_rights_of_their_users(plain):
    feeder = plain.push(**as_user("feeder", "secret"))
    feeder.send_multipart([b"live:a", b"1"])
    feeder.send_multipart([b"other", b"2"])
    client = plain.redis()
    eventually(lambda: client.get("other") == b"2", "what was pushed")
    reader = plain.zmq(zmq.REQ, **as_user("reader", "words"))
    assert ask(reader, "GET", "live:a") == [b"OK", b"1"]
    status, text = ask(reader, "GET", "other")
    assert status == b"ERR" and text.startswith(b"NOPERM")
    status, text = ask(reader, "MGET", "live:a")
    assert status == b"ERR" and b"mget" in text
    client.set("hidden", "3")
    assert ask(reader, "SNAPSHOT") == [b"OK", b"", b"live:a", b"1"], "the rest is not shown"
    client.execute_command("ACL", "SETUSER", "reader", "+scan")
    assert ask(reader, "LIST") == [b"OK", b"", b"live:a"], "names are not told either"
    assert ask(reader, "LIST", "hid") == [b"OK", b""]
    assert "hidden" not in str(client.acl_log()), "what is left out is no refusal"
    writer = plain.push(**as_user("reader", "words"))
    writer.send_multipart([b"live:a", b"false"])
    eventually(lambda: plain.info()["zmq_rejected_messages"] == 1, "the refusal")
    assert client.get("live:a") == b"1"
    assert {entry["username"] for entry in client.acl_log()} == {"reader"}


def test_a_plain_subscriber_hears_what_its_user_may(plain):
    sub = plain.sub("live:", "other", "", **as_user("reader", "words"))
    whole = plain.sub("", **as_user("feeder", "secret"))
    client = plain.redis()

    def both_heard():
        client.set("live:x", "1")
        return sub.poll(50) and whole.poll(50)

    eventually(both_heard, "a value")
    client.publish("other", "secret")
    client.set("live:x", "end")
    heard = []
    while heard[-1:] != [[b"live:x", b"end"]]:
        heard.append(sub.recv_multipart())
    assert {topic for topic, _ in heard} == {b"live:x"}
    while whole.recv_multipart() != [b"other", b"secret"]:
        pass


def test_a_user_that_is_deleted_is_let_go_and_changed_rights_hold(plain):
    client = plain.redis()
    peer = plain.zmq(zmq.REQ, **as_user("reader", "words"))
    client.set("more", "1")
    assert ask(peer, "GET", "more")[0] == b"ERR"
    client.acl_setuser("reader", keys=["more"], enabled=True)
    assert ask(peer, "GET", "more") == [b"OK", b"1"]
    client.acl_deluser("reader")
    peer.rcvtimeo = 300
    peer.send_multipart([b"GET", b"more"])
    with pytest.raises(zmq.Again):
        peer.recv_multipart()


def test_null_peers_are_the_default_user_and_stay_out_where_that_needs_a_password(start_hub):
    hub = start_hub()
    client = hub.redis()
    client.set("a", "1")
    peer = hub.zmq(zmq.REQ)
    assert ask(peer, "GET", "a") == [b"OK", b"1"]
    client.config_set("requirepass", "secret")
    for kind in PORTS:
        assert not let_in(hub, kind), PORTS[kind]
    client = hub.redis(password="secret")
    client.config_set("requirepass", "")
    assert all(let_in(hub, kind) for kind in PORTS)


def test_curve_encrypts_all_three_ports(start_hub, keys):
    public, path = keys
    hub = start_hub("--zmq-mechanism", "curve", "--zmq-curve-key", path)
    own = as_client(public, curve_keys())
    subs = [hub.sub("live:", **own) for _ in range(3)]
    push, peer = hub.push(**own), hub.zmq(zmq.REQ, **own)
    push.send_multipart([b"live:a", b"first"])
    eventually(lambda: ask(peer, "GET", "live:a") == [b"OK", b"first"], "the first value")
    for sub in subs:
        assert sub.recv_multipart() == [b"live:a", b"first"]
    body = bytes(range(256)) * 1000
    for number in range(200):
        push.send_multipart([b"live:a", b"%d" % number])
    push.send_multipart([b"live:big", body])
    for sub in subs:
        for number in range(200):
            assert sub.recv_multipart() == [b"live:a", b"%d" % number]
        assert sub.recv_multipart() == [b"live:big", body]
    assert ask(peer, "MGET", "live:a", "live:big") == [b"OK", b"live:a", b"199", b"live:big", body]
    late = hub.sub("live:", **own)
    assert {late.recv_multipart()[0] for _ in range(2)} == {b"live:a", b"live:big"}


def test_curve_keeps_out_who_has_no_key_or_the_wrong_one(start_hub, keys):
    public, path = keys
    hub = start_hub("--zmq-mechanism", "curve", "--zmq-curve-key", path)
    for kind in PORTS:
        assert not let_in(hub, kind)
        assert let_in(hub, kind, **as_client(public, curve_keys()))
        # A server whose key is another cannot even read the first command.
        wrong = hub.zmq(kind, **as_client(curve_keys()[0], curve_keys()))
        if kind == zmq.REQ:
            wrong.send(b"GET a")
            assert not wrong.poll(300)


def test_a_list_of_curve_clients_names_their_users(start_hub, keys, tmp_path):
    public, path = keys
    known, stranger = curve_keys(), curve_keys()
    clients = tmp_path / "clients"
    clients.write_bytes(b"# who may come in\n" + known[0] + b" reader\n")
    hub = start_hub(
        "--zmq-mechanism", "curve", "--zmq-curve-key", path, "--zmq-curve-clients", clients, *USERS
    )
    hub.redis().mset({"live:a": "1", "other": "2"})
    peer = hub.zmq(zmq.REQ, **as_client(public, known))
    assert ask(peer, "GET", "live:a") == [b"OK", b"1"]
    assert ask(peer, "GET", "other")[0] == b"ERR"
    assert not let_in(hub, zmq.REQ, **as_client(public, stranger))


@pytest.mark.parametrize(
    "options, words",
    [
        (["--zmq-mechanism", "magic"], ["magic"]),
        (["--zmq-mechanism", "curve"], ["--zmq-curve-key"]),
        (["--zmq-mechanism", "curve", "--zmq-curve-key", "/no/such"], ["/no/such"]),
        (["--zmq-curve-key", "/dev/null"], ["--zmq-mechanism curve"]),
        (["--zmq-mechanism", "curve", "--zmq-curve-key", "/dev/null"], ["/dev/null", "secret key"]),
    ],
    ids=range(5),
)
def test_a_mistake_in_the_security_of_the_ports_ends_the_start(start, options, words):
    program = start("serve", *options)
    assert program.wait() == 2
    assert len(program.stderr.splitlines()) == 1
    assert all(word in program.stderr for word in words), program.stderr


def test_a_market_comes_through_curve(start_simulator, start_hub, keys):
    public, path = keys
    simulator = start_simulator("--rate", "2000", "--symbols", "5")
    hub = start_hub(
        "--source", simulator.source, "--zmq-mechanism", "curve", "--zmq-curve-key", path
    )
    sub = hub.sub("md:RELIANCE", **as_client(public, curve_keys()))
    last = 0
    for _ in range(50):
        value = json.loads(sub.recv_multipart()[1])
        assert value["symbol"] == "RELIANCE" and value["seq"] >= last
        last = value["seq"]
