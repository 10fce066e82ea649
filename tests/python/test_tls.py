"""TLS of Redis clients: what clients of other makers see, settings at run time, and attacks."""

import contextlib
import os
import resource
import socket
import ssl
import threading

import pytest
import redis

from certificates import Authority, has_openssl
from support import PATIENCE_S, Reply, RespSocket, eventually, free_ports
from tls_client import Sender, connect, context, logs, old_versions_are_refused


pytestmark = pytest.mark.skipif(not has_openssl(), reason="the command openssl makes certificates")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server", "hub")
    made.issue("trader", "trader", names="URI:urn:desk:7")
    return made


@pytest.fixture(params=["1", "3"])
def tls_hub(start_hub, authority, request):
    return start_tls(start_hub, authority, "--lanes", request.param)


@pytest.fixture
def one_lane(start_hub, authority):
    return start_tls(start_hub, authority, "--lanes", "1")


def start_tls(start_hub, authority, *options):
    """A hub with a port for TLS, which asks clients for no certificate."""
    (port,) = free_ports(1)
    hub = start_hub(
        "--resp-tls", f"127.0.0.1:{port}", "--tls-cert", authority.folder / "server.crt",
        "--tls-key", authority.folder / "server.key", *options,
    )
    hub.tls_port = port
    return hub


def client_of(port, authority, **options):
    return RespSocket(connect(port, context(authority), **options))


def ping(port, made):
    """Whether a connection serves. A server of TLS 1.3 refuses a client after its handshake."""
    with connect(port, made) as one:
        one.sendall(b"PING\r\n")
        return one.recv(100) == b"+PONG\r\n"


def is_answered(hub):
    """Another client is served at once."""
    with hub.redis(single_connection_client=True) as client:
        return client.ping()


def test_redis_py_speaks_tls(tls_hub, authority):
    options = {"ssl": True, "ssl_ca_certs": str(authority.certificate), "protocol": 3}
    client = redis.Redis(host="localhost", port=tls_hub.tls_port, **options)
    assert client.set("a", b"x" * 1_000_000)
    assert client.get("a") == b"x" * 1_000_000
    pipeline = client.pipeline()
    for number in range(10_000):
        pipeline.set(f"key:{number}", number)
    assert all(pipeline.execute())
    assert tls_hub.redis().get("key:9999") == b"9999"
    pubsub = client.pubsub()
    pubsub.subscribe("news")
    assert pubsub.get_message(timeout=PATIENCE_S)["type"] == "subscribe"
    tls_hub.redis().publish("news", b"y" * 100_000)
    assert pubsub.get_message(timeout=PATIENCE_S)["data"] == b"y" * 100_000
    assert client.info("clients")["connected_clients"] >= 2
    client.close()


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_session_is_resumed(tls_hub, authority, version):
    made = context(authority, maximum_version=ssl.TLSVersion[version])
    first = connect(tls_hub.tls_port, made)
    first.sendall(b"PING\r\n")
    assert first.recv(100) == b"+PONG\r\n"
    assert first.version() == version.replace("_", ".") and not first.session_reused
    again = connect(tls_hub.tls_port, made, session=first.session)
    again.sendall(b"PING\r\n")
    assert again.recv(100) == b"+PONG\r\n" and again.session_reused
    tls_hub.redis().config_set("tls-session-caching", "no")
    new = connect(tls_hub.tls_port, made, session=again.session)
    assert not new.session_reused


def test_bytes_one_at_a_time_are_the_same(tls_hub, authority):
    one = Sender(tls_hub.tls_port, context(authority))
    one.shake(1)
    one.tls.write(b"SET a 1\r\nGET a\r\n")
    one.tls.write(b"PING\r\n")
    one.send(1)
    assert one.read(19) == b"+OK\r\n$1\r\n1\r\n+PONG\r\n"


def test_the_first_commands_may_come_with_the_end_of_the_handshake(tls_hub, authority):
    one = Sender(tls_hub.tls_port, context(authority))
    with pytest.raises(ssl.SSLWantReadError):
        one.tls.do_handshake()
    one.send(65536)
    while True:
        one.incoming.write(one.socket.recv(65536))
        try:
            one.tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            pass
    one.tls.write(b"PING\r\n" * 3)
    one.send(65536)
    assert one.read(21) == b"+PONG\r\n" * 3


def test_commands_before_the_end_are_answered_and_the_end_is_said(tls_hub, authority):
    one = Sender(tls_hub.tls_port, context(authority))
    one.shake(65536)
    one.tls.write(b"SET a 1\r\nGET a\r\n")
    with pytest.raises(ssl.SSLWantReadError):
        one.tls.unwrap()
    one.send(65536)
    data = b""
    while part := one.socket.recv(65536):
        data += part
    one.incoming.write(data)
    text = b""
    with pytest.raises(ssl.SSLZeroReturnError):
        while True:
            text += one.tls.read(100)
    assert text == b"+OK\r\n$1\r\n1\r\n"


def test_a_client_that_writes_all_before_it_reads_gets_every_reply(tls_hub, authority):
    value = b"v" * 1_000
    tls_hub.redis().set("a", value)
    one = connect(tls_hub.tls_port, context(authority))
    count = 20_000
    writer = threading.Thread(target=one.sendall, args=[b"GET a\r\n" * count])
    writer.start()
    reply = b"$1000\r\n" + value + b"\r\n"
    left = count * len(reply)
    while left:
        left -= len(one.recv(65536))
    writer.join()
    one.sendall(b"PING\r\n")
    assert one.recv(100) == b"+PONG\r\n"


def test_a_client_that_waits_is_served_and_one_that_leaves_is_gone(tls_hub, authority):
    waits = client_of(tls_hub.tls_port, authority)
    waits.send("BLPOP", "list", "0")
    client = tls_hub.redis()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "a blocked client")
    client.rpush("list", "x")
    assert waits.read() == [b"list", b"x"]
    leaves = connect(tls_hub.tls_port, context(authority))
    leaves.sendall(b"BLPOP list 0\r\n")
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "a blocked client")
    leaves.close()
    eventually(lambda: client.info("clients")["blocked_clients"] == 0, "its end")


def test_clear_text_on_the_port_for_tls_is_told_in_the_log(tls_hub):
    with socket.create_connection(("127.0.0.1", tls_hub.tls_port), PATIENCE_S) as one:
        one.sendall(b"*1\r\n$4\r\nPING\r\n")
        assert one.recv(100) == b""
    logs(tls_hub, "the peer speaks without TLS to a port with TLS")
    assert is_answered(tls_hub)


def test_tls_on_the_port_without_it_is_told_in_the_log(tls_hub, authority):
    with pytest.raises(ssl.SSLError, match="alert protocol version"):
        connect(tls_hub.resp_port, context(authority))
    logs(tls_hub, "the peer speaks TLS to a port without TLS")


def test_old_versions_are_refused(tls_hub):
    old_versions_are_refused(tls_hub.tls_port)
    logs(tls_hub, "it seems to speak TLS 1.1 or older")


@pytest.mark.parametrize("bits", [2048, 4096])
def test_a_server_with_an_rsa_key_serves_whole_and_broken_handshakes(start_hub, authority, bits):
    certificate, key = authority.issue(f"rsa{bits}", "hub", rsa_bits=bits)
    (port,) = free_ports(1)
    hub = start_hub(
        "--resp-tls", f"127.0.0.1:{port}", "--tls-cert", certificate, "--tls-key", key,
        "--lanes", "2",
    )
    for version in ("TLSv1_2", "TLSv1_3"):
        made = context(authority, maximum_version=ssl.TLSVersion[version])
        assert ping(port, made)
        one = Sender(port, made)
        one.shake(1)
        one.tls.write(b"PING\r\n")
        one.send(1)
        assert one.read(7) == b"+PONG\r\n"
        many = [Sender(port, made) for _ in range(50)]
        for one in many:
            with pytest.raises(ssl.SSLWantReadError):
                one.tls.do_handshake()
            one.send(65536)
        for one in many[::2]:
            # It is gone when its signature is made.
            one.socket.close()
        for one in many[1::2]:
            one.shake(65536)
            one.tls.write(b"PING\r\n")
            one.send(65536)
            assert one.read(7) == b"+PONG\r\n"
    assert is_answered(hub)


def test_records_that_claim_too_much_are_refused(tls_hub):
    for head in (b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\x00"):
        with socket.create_connection(("127.0.0.1", tls_hub.tls_port), PATIENCE_S) as one:
            one.sendall(head + b"x" * 1_000)
            while one.recv(100):
                pass
    assert is_answered(tls_hub)


def test_a_record_that_was_changed_ends_the_connection_and_runs_nothing(tls_hub, authority):
    one = Sender(tls_hub.tls_port, context(authority))
    one.shake(65536)
    one.tls.write(b"SET changed 1\r\n")
    data = bytearray(one.outgoing.read())
    data[-1] ^= 1
    one.socket.sendall(data)
    while one.socket.recv(65536):
        pass
    assert tls_hub.redis().exists("changed") == 0


def test_thousands_of_handshakes_that_stop_delay_no_one(tls_hub, authority):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))
    started = Sender(tls_hub.tls_port, context(authority))
    with pytest.raises(ssl.SSLWantReadError):
        started.tls.do_handshake()
    hello = started.outgoing.read()
    many = []
    try:
        for number in range(4_000):
            one = socket.create_connection(("127.0.0.1", tls_hub.tls_port), PATIENCE_S)
            many.append(one)
            # Some say nothing, some a part, and some all of what comes first.
            one.sendall(hello[: [0, 1, 100, len(hello)][number % 4]])
            if number % 500 == 0:
                assert is_answered(tls_hub)
                assert ping(tls_hub.tls_port, context(authority))
        assert is_answered(tls_hub)
        # No more than a limited number of them is kept.
        lanes = int(tls_hub.redis().config_get("io-threads")["io-threads"])
        kept = int(tls_hub.info()["connected_clients"])
        assert kept < 20
        closed = 0
        for one in many:
            one.settimeout(0)
            try:
                while one.recv(65536):
                    pass
                closed += 1
            except BlockingIOError:
                pass
            except ConnectionResetError:
                closed += 1
        assert closed >= 4_000 - 1_024 * lanes - 64
        assert ping(tls_hub.tls_port, context(authority))
    finally:
        for one in many:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_peer_that_stops_in_a_record_is_only_gone_when_it_leaves(one_lane, authority):
    one = Sender(one_lane.tls_port, context(authority))
    one.shake(65536)
    one.tls.write(b"SET part 1\r\n")
    data = one.outgoing.read()
    one.socket.sendall(data[:-1])
    assert is_answered(one_lane)
    clients = int(one_lane.info()["connected_clients"])
    one.socket.close()
    eventually(lambda: int(one_lane.info()["connected_clients"]) < clients, "its end")
    assert one_lane.redis().exists("part") == 0


def test_clients_must_show_a_certificate_of_the_authority(start_hub, authority, tmp_path):
    hub = start_tls(start_hub, authority, "--tls-ca", authority.certificate)
    assert ping(hub.tls_port, context(authority, "trader"))

    def is_refused(made):
        # Of a cut connection Python shows an end, if nothing says why.
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            assert not ping(hub.tls_port, made)

    is_refused(context(authority))
    logs(hub, "the peer shows no certificate")
    other = Authority(tmp_path / "other", "Other authority")
    stranger = context(authority)
    stranger.load_cert_chain(*other.issue("stranger", "trader"))
    is_refused(stranger)
    logs(hub, "its issuer is not trusted")
    late = context(authority)
    late.load_cert_chain(*authority.issue("late", "trader", days=-1))
    is_refused(late)
    logs(hub, "it has expired")
    giant = context(authority)
    names = ",".join(f"DNS:{'n' * 50}{number}.example" for number in range(1_500))
    giant.load_cert_chain(*authority.issue("giant", "trader", names=names))
    is_refused(giant)
    assert is_answered(hub) and ping(hub.tls_port, context(authority, "trader"))
    client = hub.redis()
    client.config_set("tls-auth-clients", "optional")
    assert ping(hub.tls_port, context(authority))
    is_refused(stranger)
    client.config_set("tls-auth-clients", "no")
    assert ping(hub.tls_port, context(authority))


def test_a_certificate_of_version_1_serves_and_is_refused_of_clients_with_the_reason(
    start_hub, authority
):
    """`openssl x509 -req` makes one without extensions, and Redis takes it."""
    certificate, key = authority.issue("old", "hub", names=None)
    hub = start_tls(start_hub, authority, "--tls-ca", authority.certificate)
    client = hub.redis()
    client.config_set("tls-auth-clients", "no")
    client.config_set("tls-cert-file", str(certificate), "tls-key-file", str(key))
    made = context(authority, check_hostname=False)
    assert ping(hub.tls_port, made)
    with pytest.raises(redis.ResponseError, match="Unable to update TLS configuration"):
        client.config_set("tls-key-file", f"{authority.folder}/trader.key")
    logs(hub, "does not belong to the certificate")
    assert ping(hub.tls_port, made)
    client.config_set("tls-auth-clients", "yes")
    made.load_cert_chain(certificate, key)
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        assert not ping(hub.tls_port, made)
    logs(hub, "it is X.509 version 1, and 3 is needed")


def test_a_certificate_names_a_user(start_hub, authority):
    hub = start_tls(start_hub, authority, "--tls-ca", authority.certificate)
    client = hub.redis()
    client.config_set("tls-auth-clients", "optional")
    client.execute_command("ACL", "SETUSER", "trader", "on", "+@all", "~*")
    client.execute_command("ACL", "SETUSER", "urn:desk:7", "on", "+@all", "~*")
    client.execute_command("ACL", "SETUSER", "default", ">secret")
    client.execute_command("AUTH", "secret")

    def who(certificate):
        one = connect(hub.tls_port, context(authority, certificate))
        return RespSocket(one).call("ACL", "WHOAMI")

    for field, name in (("CN", b"trader"), ("URI", b"urn:desk:7")):
        client.config_set("tls-auth-clients-user", field)
        assert who("trader") == name
        with pytest.raises(Reply, match="NOAUTH"):
            who(None)
    client.execute_command("ACL", "SETUSER", "urn:desk:7", "off")
    before = int(client.info("stats")["acl_access_denied_tls_cert"])
    with pytest.raises(Reply, match="NOAUTH"):
        who("trader")
    assert int(client.info("stats")["acl_access_denied_tls_cert"]) == before + 1
    entry = RespSocket(hub.resp())
    entry.call("AUTH", "secret")
    entry = entry.call("ACL", "LOG")[0]
    entry = dict(zip(entry[::2], entry[1::2]))
    assert (entry[b"reason"], entry[b"context"], entry[b"object"], entry[b"username"]) == (
        b"tls-cert", b"toplevel", b"", b"urn:desk:7"
    )
    assert entry[b"client-info"].startswith(b"addr=127.0.0.1:")


def test_certificates_change_at_run_time_and_a_bad_one_changes_nothing(tls_hub, authority):
    client = tls_hub.redis()
    old = client_of(tls_hub.tls_port, authority)

    def shown():
        with connect(tls_hub.tls_port, context(authority)) as one:
            return one.getpeercert()["subject"][0][0][1]

    assert shown() == "hub"
    certificate, key = authority.issue("second", "second")
    client.config_set("tls-cert-file", str(certificate), "tls-key-file", str(key))
    assert shown() == "second" and old.call("PING") == b"PONG"
    text = "'%s'[)] - Unable to update TLS configuration: .*%s"
    encrypted = authority.encrypt(key, "secret")
    for name, value, said in (
        ("tls-cert-file", f"{authority.folder}/server.crt", "does not belong to the certificate"),
        ("tls-key-file", "/nowhere", "No such file"),
        ("tls-key-file", str(authority.certificate), "no private key"),
        ("tls-key-file", str(encrypted), "is encrypted, and no password for it is set"),
        ("tls-ciphersuites", "nonsense", "no cipher suite of 'nonsense' is supported"),
        ("tls-protocols", "TLSv1.1", "TLSv1.1' is not supported"),
        ("tls-auth-clients", "yes", "tls-ca-cert-file"),
    ):
        with pytest.raises(redis.ResponseError, match=text % (name, said)):
            client.config_set(name, value)
        logs(tls_hub, said)
        assert shown() == "second"
    # The parameter that is to blame is named, and not the first one.
    with pytest.raises(redis.ResponseError, match=text % ("tls-key-file", "/no where: No such")):
        client.config_set("tls-cert-file", str(certificate), "tls-key-file", "/no\nwhere")
    assert shown() == "second" and old.call("PING") == b"PONG"
    assert client.config_get("tls-key-file") == {"tls-key-file": str(key)}


def test_versions_and_suites_are_those_that_were_set(tls_hub, authority):
    client = tls_hub.redis()
    client.config_set("tls-protocols", "TLSv1.2")
    with connect(tls_hub.tls_port, context(authority)) as one:
        assert one.version() == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        ping(tls_hub.tls_port, context(authority, minimum_version=ssl.TLSVersion.TLSv1_3))
    client.config_set("tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256")
    with connect(tls_hub.tls_port, context(authority)) as one:
        assert one.cipher()[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    client.config_set("tls-protocols", "", "tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256")
    with connect(tls_hub.tls_port, context(authority)) as one:
        assert one.cipher()[0] == "TLS_CHACHA20_POLY1305_SHA256"


def test_the_port_for_tls_comes_and_goes_at_run_time(start_hub, authority):
    hub = start_hub("--lanes", "2")
    first, second = free_ports(2)
    client = hub.redis(single_connection_client=True)
    with pytest.raises(redis.ResponseError, match="Unable to update TLS configuration"):
        client.config_set("tls-port", first)
    logs(hub, "a TLS port needs a certificate and its key")
    client.config_set(
        "tls-cert-file", f"{authority.folder}/server.crt",
        "tls-key-file", f"{authority.folder}/server.key",
        "tls-ca-cert-file", str(authority.certificate), "tls-port", first,
    )
    assert ping(first, context(authority, "trader"))
    client.config_set("tls-port", second)
    assert ping(second, context(authority, "trader"))
    with pytest.raises(ConnectionRefusedError):
        connect(first, context(authority))
    # The same address changes from clear text to TLS and back.
    client.config_set("port", first, "tls-port", hub.resp_port)
    assert ping(hub.resp_port, context(authority, "trader"))
    client.config_set("port", hub.resp_port, "tls-port", 0)
    assert is_answered(hub)
    with pytest.raises(ConnectionRefusedError):
        connect(second, context(authority))


def test_another_port_leaves_the_one_for_tls_where_it_is(start_hub, authority):
    (port, new) = free_ports(2)
    hub = start_hub(
        "--resp-tls", f"127.0.0.2:{port}", "--tls-cert", authority.folder / "server.crt",
        "--tls-key", authority.folder / "server.key",
    )
    hub.redis().config_set("port", new)
    made = context(authority)
    one = socket.create_connection(("127.0.0.2", port), PATIENCE_S)
    with made.wrap_socket(one, server_hostname="localhost") as secure:
        secure.sendall(b"PING\r\n")
        assert secure.recv(100) == b"+PONG\r\n"


def test_a_redis_conf_with_tls_alone(start, authority, tmp_path):
    (port,) = free_ports(1)
    conf = tmp_path / "redis.conf"
    conf.write_text(
        f"port 0\nbind 127.0.0.1\ntls-port {port}\ntls-cert-file {authority.folder}/server.crt\n"
        f"tls-key-file {authority.folder}/server.key\ntls-ca-cert-dir {authority.folder}\n"
        f"dir {tmp_path}\nsave \"\"\n"
    )
    ports = free_ports(4)
    program = start(
        "serve", "--redis-conf", conf, "--zmq-pub", f"tcp://127.0.0.1:{ports[0]}",
        "--zmq-pull", f"tcp://127.0.0.1:{ports[1]}", "--zmq-router", f"tcp://127.0.0.1:{ports[2]}",
        "--feed", f"127.0.0.1:{ports[3]}",
    )
    logs(program, "resp-tls")
    assert ping(port, context(authority, "trader"))
    one = RespSocket(connect(port, context(authority, "trader")))
    assert one.call("CONFIG", "GET", "port") == [b"port", b"0"]
    program.stop()


@pytest.mark.parametrize("wrong", [None, "issuer", "host"])
def test_a_replica_follows_over_tls_only_a_master_that_proves_itself(
    start_hub, authority, tmp_path, wrong
):
    master = start_tls(start_hub, authority, "--tls-ca", authority.certificate)
    trusted = authority
    if wrong == "issuer":
        trusted = Authority(tmp_path / "other", "Other authority")
    master.redis().set("a", b"x" * 1_000_000)
    replica = start_hub(
        "--set", "tls-replication=yes", "--set", f"tls-ca-cert-file={trusted.certificate}",
        "--set", f"tls-client-cert-file={authority.folder}/trader.crt",
        "--set", f"tls-client-key-file={authority.folder}/trader.key",
    )
    client = replica.redis()
    # The certificate names 127.0.0.1 and no other address.
    host = "127.0.0.2" if wrong == "host" else "127.0.0.1"
    if wrong == "host":
        master.redis().config_set("bind", "127.0.0.1 127.0.0.2")
    client.replicaof(host, master.tls_port)
    if wrong:
        said = "its issuer is not trusted" if wrong == "issuer" else "it is for another host"
        logs(replica, said)
        assert client.info("replication")["master_link_status"] == "down"
    if wrong == "host":
        client.config_set("tls-verify-hostname", "no")
    if wrong != "issuer":
        eventually(lambda: client.get("a") == b"x" * 1_000_000, "the master's keys")
        master.redis().set("b", "2")
        eventually(lambda: client.get("b") == b"2", "the master's stream")
        eventually(lambda: master.redis().wait(1, 100) == 1, "an acknowledgement")


def test_a_certificate_file_without_an_end_is_refused(tls_hub, authority, tmp_path):
    """A lane read it until the memory was used up, and waited for a pipe without a writer."""
    client = tls_hub.redis()
    long, pipe = tmp_path / "long.crt", tmp_path / "pipe"
    long.write_bytes(b"#" * (1 << 21))
    os.mkfifo(pipe)
    for file, said in ((long, "longer than 1 MiB"), (pipe, "no regular file")):
        with pytest.raises(redis.ResponseError, match="Unable to update TLS configuration"):
            client.config_set("tls-cert-file", str(file))
        logs(tls_hub, said)
    with pytest.raises(redis.ResponseError):
        client.config_set("tls-cert-file", "/dev/zero")
    assert is_answered(tls_hub) and ping(tls_hub.tls_port, context(authority))
