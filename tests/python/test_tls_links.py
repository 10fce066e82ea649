"""Links that the hub and its tools make with TLS: which servers they accept, and what they say."""

import json
import socket
import ssl
import threading

import pytest
import redis

from certificates import Authority, has_openssl
from support import eventually, free_ports
from tls_terminator import Terminator


pytestmark = pytest.mark.skipif(not has_openssl(), reason="the command openssl makes certificates")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server", "feed")
    made.issue("trader", "trader")
    return made


@pytest.fixture
def terminator(request):
    made = []

    def start(port, authority, name="server", clients_of=None, **settings):
        folder = authority.folder
        if clients_of:
            settings["authority"] = clients_of.certificate
        one = Terminator(port, folder / f"{name}.crt", folder / f"{name}.key", **settings)
        made.append(one)
        return one

    yield start
    for one in made:
        one.close()


@pytest.fixture
def exchange(start_simulator):
    return start_simulator("--rate", "2000", "--symbols", "5")


def follows(hub):
    """The source is connected, and its messages arrive."""
    eventually(lambda: hub.info()["feed_sources"] == 1, "the source")
    before = hub.info()["feed_applied_messages"]
    eventually(lambda: hub.info()["feed_applied_messages"] > before, "its messages")


def logs(hub, text):
    eventually(lambda: text in hub.stderr, f"'{text}' in the log")


def trusting(authority):
    return ["--set", f"tls-ca-cert-file={authority.certificate}"]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_source_is_read_over_tls(start_hub, exchange, authority, terminator, version):
    made = terminator(exchange.port, authority, maximum_version=ssl.TLSVersion[version])
    hub = start_hub("--source", f"tls://localhost:{made.port}", *trusting(authority))
    follows(hub)
    assert made.hosts[0] == "localhost"
    assert int(hub.info()["feed_lost_messages"]) == 0
    # The link comes back, with the stream where it stopped.
    made.cut()
    logs(hub, "disconnected; reconnecting")
    follows(hub)
    assert int(hub.info()["feed_lost_messages"]) == 0


def test_two_inputs_of_which_one_uses_tls(start_hub, exchange, authority, terminator):
    made = terminator(exchange.port, authority)
    hub = start_hub(
        "--source", f"{exchange.source}+tls://127.0.0.1:{made.port}", *trusting(authority),
    )
    follows(hub)
    eventually(lambda: hub.stderr.count("connected source=") + hub.stdout.count("connected") >= 2
               or made.peers, "both inputs")
    # An address is no name that a server could choose a certificate by.
    assert made.hosts in ([], [None])


def test_bytes_in_small_pieces_are_the_same(start_hub, exchange, authority, terminator):
    made = terminator(exchange.port, authority)
    made.piece = 11
    hub = start_hub("--source", f"tls://localhost:{made.port}", *trusting(authority))
    follows(hub)


def expired(authority):
    authority.issue("faulty", "feed", days=-1)


def other_host(authority):
    authority.issue("faulty", "feed", names="DNS:feed.example,IP:10.0.0.1")


FAULTS = [
    (expired, "TLS: the peer's certificate is refused: it has expired on 20"),
    (other_host, "it is for another host; its names are feed.example, 10.0.0.1"),
]


@pytest.mark.parametrize("fault, said", FAULTS)
def test_the_fault_of_a_certificate_is_named(
    start_hub, start, exchange, authority, terminator, fault, said
):
    fault(authority)
    made = terminator(exchange.port, authority, "faulty")
    hub = start_hub("--source", f"tls://localhost:{made.port}", *trusting(authority))
    logs(hub, said)
    assert "cannot connect; retrying" in hub.stderr and hub.info()["feed_sources"] == 0
    place = f"tls://localhost:{made.port}"
    watch = start(
        "watch", "--from", place, "--tls-ca", authority.certificate, "--once", "--info", "none",
        "--patience", "1s",
    )
    assert watch.wait() == 2 and said in watch.stderr


def test_an_issuer_that_is_unknown_is_refused(
    start_hub, start, exchange, authority, terminator, tmp_path
):
    other = Authority(tmp_path / "other", "Other authority")
    made = terminator(exchange.port, authority)
    place = f"tls://localhost:{made.port}"
    hub = start_hub("--source", place, *trusting(other))
    logs(hub, "its issuer is not trusted")
    # Without an authority of its own it trusts those of the system.
    hub = start_hub("--source", place)
    logs(hub, "its issuer is not trusted")
    watch = start("watch", "--from", place, "--once", "--info", "none", "--patience", "1s")
    assert watch.wait() == 2 and "its issuer is not trusted" in watch.stderr


def test_a_signature_that_is_not_supported_is_named(
    start_hub, exchange, terminator, tmp_path
):
    other = Authority(tmp_path / "other", curve="secp256k1")
    other.issue("server", "feed")
    made = terminator(exchange.port, other)
    hub = start_hub("--source", f"tls://localhost:{made.port}", *trusting(other))
    logs(hub, "a signature is made by an algorithm that is not supported: "
              "ECDSA with SHA-256 by a key of ECDSA secp256k1")


def test_files_of_commands_that_cannot_be_used_are_named(start, authority, tmp_path):
    half, key = tmp_path / "half.crt", tmp_path / "old.key"
    half.write_bytes(authority.certificate.read_bytes()[:200])
    authority.openssl("ecparam", "-name", "secp256k1", "-genkey", "-noout", "-out", key)
    certificate = authority.folder / "trader.crt"
    for options, said in (
        (["--tls-ca", half], "half.crt: the block 'CERTIFICATE' begins but does not end"),
        (["--tls-cert", half, "--tls-key", key], "half.crt: the block 'CERTIFICATE' begins but"),
        (["--tls-cert", certificate, "--tls-key", key],
         "old.key: the private key is of a kind that is not supported: ECDSA secp256k1; use RSA"),
    ):
        watch = start("watch", "--from", "tls://localhost:1", "--once", "--info", "none", *options)
        assert watch.wait() == 2 and said in watch.stderr, watch.stderr


def test_a_server_that_wants_a_certificate_gets_one(
    start_hub, start, exchange, authority, terminator
):
    made = terminator(exchange.port, authority, clients_of=authority)
    place = f"tls://localhost:{made.port}"
    without = start_hub("--source", place, *trusting(authority))
    logs(without, "it wants our certificate, and got none")
    pair = ["--set", f"tls-client-cert-file={authority.folder}/trader.crt",
            "--set", f"tls-client-key-file={authority.folder}/trader.key"]
    hub = start_hub("--source", place, *trusting(authority), *pair)
    follows(hub)
    assert made.peers[-1]["subject"][0][0][1] == "trader"
    # A helper signs with an RSA key.
    certificate, key = authority.issue("rsa", "rsa", rsa_bits=4096)
    rsa = start_hub(
        "--source", place, *trusting(authority), "--set", f"tls-client-cert-file={certificate}",
        "--set", f"tls-client-key-file={key}",
    )
    follows(rsa)
    assert made.peers[-1]["subject"][0][0][1] == "rsa"
    assert int(hub.info()["tls_client_certificate_days"]) in (29, 30)
    watch = start(
        "watch", "--from", place, "--tls-ca", authority.certificate, "--once", "--info", "none",
        "--patience", "2s",
    )
    assert watch.wait() == 2 and "it wants our certificate" in watch.stderr
    watch = start(
        "watch", "--from", place, "--tls-ca", authority.certificate, "--once", "--json",
        "--info", "none", "--tls-cert", authority.folder / "trader.crt",
        "--tls-key", authority.folder / "trader.key",
    )
    assert watch.wait() == 0, watch.stderr
    assert len(json.loads(watch.stdout)["symbols"]) == 5


def test_an_error_of_an_address_with_tls_names_the_option_of_that_port(start, authority):
    (port,) = free_ports(1)
    tls = ["--tls-ca", authority.certificate]
    for scheme, options, said in (("tls://", tls, "'serve --feed-tls'"), ("", [], "'serve --feed'")):
        place = f"{scheme}127.0.0.1:{port}"
        watch = start("watch", "--from", place, *options, "--once", "--info", "none",
                      "--patience", "0s")
        assert watch.wait() == 2 and said in watch.stderr, watch.stderr


def test_a_port_without_tls_is_told(start_hub, exchange, authority):
    hub = start_hub("--source", f"tls://localhost:{exchange.port}", *trusting(authority))
    logs(hub, "no version of TLS in common, or no TLS at all")


def test_a_server_that_stops_in_the_handshake_is_given_up(start_hub, authority):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        hub = start_hub("--source", f"tls://localhost:{port}", *trusting(authority))
        taken = [silent.accept()[0]]
        assert hub.redis().ping()
        eventually(lambda: "cannot connect; retrying" in hub.stderr, "the end of its patience")
        taken[0].close()


def test_nonsense_in_place_of_a_handshake_is_told(start_hub, authority):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            while True:
                try:
                    one, _ = server.accept()
                except OSError:
                    return
                one.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        hub = start_hub("--source", f"tls://localhost:{port}", *trusting(authority))
        logs(hub, "the peer speaks without TLS")


def test_a_recording_is_replayed_over_tls(
    start_hub, start, exchange, authority, terminator, tmp_path
):
    file = tmp_path / "stream.rec"
    first = start_hub("--source", exchange.source, "--record", file)
    eventually(lambda: first.info()["feed_applied_messages"] > 4_000, "messages")
    first.stop()
    hub = start_hub()
    made = terminator(hub.feed_port, authority)
    replay = start(
        "replay", file, "--to", f"tls://localhost:{made.port}", "--tls-ca", authority.certificate,
        "--speed", "max",
    )
    assert replay.wait(60) == 0, replay.stderr
    assert hub.info()["feed_applied_messages"] >= 4_000
    for options, said in (
        ([], "its issuer is not trusted; the port of 'serve --feed-tls' is expected"),
        (["--tls-ca", tmp_path / "missing"], "--tls-ca: cannot read"),
        (["--tls-ca", file], "--tls-ca:"),
        (["--tls-cert", file], "--tls-key"),
    ):
        replay = start("replay", file, "--to", f"tls://localhost:{made.port}", *options)
        assert replay.wait() == 2 and said in replay.stderr, replay.stderr
        assert len(replay.stderr.splitlines()) == 1


def test_certificates_of_links_are_read_again(
    start_hub, exchange, authority, terminator, tmp_path
):
    trusted = tmp_path / "trusted.crt"
    other = Authority(tmp_path / "other", "Other authority")
    trusted.write_bytes(other.certificate.read_bytes())
    made = terminator(exchange.port, authority)
    hub = start_hub(
        "--source", f"tls://localhost:{made.port}", "--set", f"tls-ca-cert-file={trusted}",
    )
    logs(hub, "its issuer is not trusted")
    trusted.write_bytes(authority.certificate.read_bytes())
    follows(hub)


def test_migrate_uses_tls_if_tls_cluster_is_on(start_hub, authority):
    (port,) = free_ports(1)
    target = start_hub(
        "--resp-tls", f"127.0.0.1:{port}", "--tls-cert", authority.folder / "server.crt",
        "--tls-key", authority.folder / "server.key",
    )
    hub = start_hub("--set", "tls-cluster=yes", *trusting(authority))
    client = hub.redis()
    client.set("a", "1")
    client.set("b", b"x" * 3_000_000)
    for key in ("a", "b"):
        assert client.execute_command("MIGRATE", "127.0.0.1", port, key, 0, 5_000) == b"OK"
    assert target.redis().get("a") == b"1" and target.redis().get("b") == b"x" * 3_000_000
    assert client.dbsize() == 0
    client.set("c", "1")
    # A port without TLS, a host that the certificate does not name, and no TLS at all.
    for host, other in (("127.0.0.1", target.resp_port), ("127.0.0.2", port)):
        with pytest.raises(redis.ResponseError, match="IOERR"):
            client.execute_command("MIGRATE", host, other, "c", 0, 2_000)
    client.config_set("tls-cluster", "no")
    with pytest.raises(redis.ResponseError, match="IOERR"):
        client.execute_command("MIGRATE", "127.0.0.1", port, "c", 0, 2_000)
    assert client.execute_command(
        "MIGRATE", "127.0.0.1", target.resp_port, "c", 0, 2_000) == b"OK"
    with pytest.raises(redis.ResponseError, match="Unable to update TLS configuration"):
        start_hub().redis().config_set("tls-cluster", "yes")


@pytest.mark.parametrize("how", ["silent", "refused", "closed", "clear text"])
def test_migrate_to_a_tls_port_that_does_not_answer_says_what_redis_says(
    start_hub, authority, how
):
    def serve(server):
        while True:
            try:
                one, _ = server.accept()
            except OSError:
                return
            if how == "clear text":
                one.sendall(b"-ERR no TLS here\r\n")
            if how != "silent":
                one.recv(100)
                one.close()
            else:
                taken.append(one)

    taken = []
    hub = start_hub("--set", "tls-cluster=yes", *trusting(authority))
    client = hub.redis()
    client.set("a", "1")
    said = "^IOERR error or timeout connecting to the client$"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if how == "refused":
            server.close()
        else:
            threading.Thread(target=serve, args=(server,), daemon=True).start()
        with pytest.raises(redis.ResponseError, match=said):
            client.execute_command("MIGRATE", "127.0.0.1", port, "a", 0, 300)
    assert client.get("a") == b"1"


def test_a_plant_is_reached_over_tls(start_hub, start, authority, terminator):
    (port,) = free_ports(1)
    plant = start("simulate", "mx", "--listen", f"127.0.0.1:{port}", "--tags", "14")
    plant.line_with("plant")
    made = terminator(port, authority)
    hub = start_hub(
        "--mx", f"tls://localhost:{made.port}", "--mx-tag", "Tank1.Level", *trusting(authority)
    )
    eventually(lambda: hub.redis().hget("mx:Tank1.Level", "value"), "a value")
    assert made.hosts[0] == "localhost"
    authority.issue("strange", "plant", names="DNS:plant.example")
    strange = terminator(port, authority, "strange")
    hub = start_hub(
        "--mx", f"tls://localhost:{strange.port}", "--mx-tag", "Tank1.Level", *trusting(authority)
    )
    logs(hub, "it is for another host; its name is plant.example")
