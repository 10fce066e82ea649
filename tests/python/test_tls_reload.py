"""Certificates that change while the server runs, that expire, and keys that are encrypted."""

import os
import signal
import socket
import ssl
import subprocess

import pytest
import redis

from certificates import Authority, has_openssl
from support import PATIENCE_S, RespSocket, eventually, free_ports


pytestmark = pytest.mark.skipif(not has_openssl(), reason="the command openssl makes certificates")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


class Files:
    """A certificate and its key, which are replaced under the same names."""

    def __init__(self, folder, authority):
        self.folder, self.authority = folder, authority
        self.certificate, self.key = folder / "hub.crt", folder / "hub.key"
        self.issue("first")

    def new(self, name, **options):
        certificate, key = self.authority.issue(f"{self.folder.name}-{name}", name, **options)
        return certificate.read_bytes(), key.read_bytes()

    def issue(self, name, **options):
        certificate, key = self.new(name, **options)
        self.replace(self.key, key)
        self.replace(self.certificate, certificate)

    def replace(self, path, data):
        """As careful programs do it."""
        other = path.with_suffix(".new")
        other.write_bytes(data)
        other.chmod(0o600)
        other.rename(path)


@pytest.fixture
def files(tmp_path, authority):
    return Files(tmp_path, authority)


@pytest.fixture
def hub(start_hub, files):
    return start(start_hub, files)


def start(start_hub, files, *options):
    (port,) = free_ports(1)
    hub = start_hub(
        "--resp-tls", f"127.0.0.1:{port}", "--tls-cert", files.certificate, "--tls-key", files.key,
        "--lanes", "2", *options,
    )
    hub.tls_port = port
    return hub


def connect(hub, authority):
    made = ssl.create_default_context(cafile=authority.certificate)
    one = socket.create_connection(("127.0.0.1", hub.tls_port), PATIENCE_S)
    return made.wrap_socket(one, server_hostname="localhost")


def shown(hub, authority):
    """The name in the certificate that new connections see."""
    with connect(hub, authority) as one:
        return one.getpeercert()["subject"][0][0][1]


def logs(hub, text, count=1):
    eventually(lambda: hub.stderr.count(text) >= count, f"'{text}' in the log")


def test_files_that_change_are_read_and_old_connections_stay(hub, files, authority):
    old = RespSocket(connect(hub, authority))
    assert shown(hub, authority) == "first"
    files.issue("second")
    eventually(lambda: shown(hub, authority) == "second", "the new certificate")
    logs(hub, "the TLS certificates were read again")
    assert old.call("PING") == b"PONG"
    assert int(hub.info()["tls_reloads"]) >= 1 and int(hub.info()["tls_reloads_refused"]) == 0


def test_a_file_that_is_written_in_place_is_read(hub, files, authority):
    certificate, key = files.new("second")
    files.key.write_bytes(key)
    files.certificate.write_bytes(certificate)
    eventually(lambda: shown(hub, authority) == "second", "the new certificate")


def test_links_to_folders_that_are_switched_are_followed(start_hub, files, authority, tmp_path):
    # Kubernetes mounts secrets in this way.
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        certificate, key = files.new(name)
        (tmp_path / name / "hub.crt").write_bytes(certificate)
        (tmp_path / name / "hub.key").write_bytes(key)
    (tmp_path / "data").symlink_to("one")
    files.certificate.unlink()
    files.key.unlink()
    files.certificate.symlink_to("data/hub.crt")
    files.key.symlink_to("data/hub.key")
    hub = start(start_hub, files)
    assert shown(hub, authority) == "one"
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(tmp_path / "data")
    eventually(lambda: shown(hub, authority) == "two", "the new certificate")


def test_files_that_are_wrong_change_nothing_and_are_told_once(hub, files, authority):
    certificate, key = files.new("second")
    refused = "the TLS certificates on disk are refused, and those in use stay"
    count = 0

    def is_refused(reason):
        nonlocal count
        count += 1
        logs(hub, refused, count)
        assert reason in hub.stderr
        assert shown(hub, authority) == "first"

    files.certificate.write_bytes(certificate[: len(certificate) // 2])
    is_refused("hub.crt: the block 'CERTIFICATE' begins but does not end")
    files.certificate.write_bytes(certificate)
    is_refused("the private key does not belong to the certificate")
    files.key.unlink()
    is_refused("No such file")
    files.key.write_bytes(b"")
    is_refused("no private key")
    # Nothing more is said while they stay like this.
    os.kill(hub.process.pid, signal.SIGHUP)
    is_refused("SIGHUP")
    files.replace(files.key, key)
    eventually(lambda: shown(hub, authority) == "second", "the whole pair")
    assert hub.stderr.count(refused) == count == int(hub.info()["tls_reloads_refused"])


def test_sighup_reads_the_files_at_once(hub, files, authority):
    files.issue("second")
    os.kill(hub.process.pid, signal.SIGHUP)
    eventually(lambda: "SIGHUP" in hub.stderr, "the signal")
    eventually(lambda: shown(hub, authority) == "second", "the new certificate")
    os.kill(hub.process.pid, signal.SIGHUP)
    assert hub.redis().ping()


def test_sighup_without_tls_is_as_before(start_hub):
    hub = start_hub()
    os.kill(hub.process.pid, signal.SIGHUP)
    logs(hub, "SIGHUP: reopening the log file")
    assert hub.redis().ping() and "TLS" not in hub.stderr
    assert "tls_certificate_days" not in hub.info()


def test_an_authority_that_changes_decides_about_clients(start_hub, files, authority, tmp_path):
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(authority.certificate.read_bytes())
    hub = start(start_hub, files, "--tls-ca", trusted)
    other = Authority(tmp_path / "other", "Other authority")
    pair = other.issue("stranger", "stranger")

    def is_served():
        made = ssl.create_default_context(cafile=authority.certificate)
        made.load_cert_chain(*pair)
        one = socket.create_connection(("127.0.0.1", hub.tls_port), PATIENCE_S)
        try:
            with made.wrap_socket(one, server_hostname="localhost") as secure:
                secure.sendall(b"PING\r\n")
                return secure.recv(100) == b"+PONG\r\n"
        except (ssl.SSLError, ConnectionError):
            return False

    assert not is_served()
    trusted.write_bytes(authority.certificate.read_bytes() + other.certificate.read_bytes())
    eventually(is_served, "the client of the other authority")


def test_a_certificate_of_clients_is_used_and_warned_of(start_hub, files):
    said = "the TLS certificate is not for this side of a connection (extended key usage)"
    hub = start(start_hub, files)
    assert said not in hub.stderr
    files.issue("client", extended_use="clientAuth")
    hub.process.send_signal(signal.SIGHUP)
    eventually(lambda: said in hub.stderr, "a warning at the reload")
    assert hub.info()["tls_reloads"] == 1
    with pytest.raises(ssl.SSLError):
        connect(hub, files.authority)
    hub = start(start_hub, files)
    eventually(lambda: said in hub.stderr, "a warning at the start")


@pytest.mark.parametrize("days, said", [
    # One of 0 days would be over as soon as the server starts a second later.
    (20, "the TLS certificate expires soon"), (1, "the TLS certificate expires soon"),
    (-1, "the TLS certificate has expired"), (200, None),
])
def test_an_end_that_is_near_is_told(start_hub, tmp_path, authority, days, said):
    files = Files(tmp_path, authority)
    files.issue("near", days=days)
    (admin,) = free_ports(1)
    hub = start(start_hub, files, "--admin", f"127.0.0.1:{admin}")
    left = int(hub.info()["tls_certificate_days"])
    assert left in (days - 1, days)
    if said:
        logs(hub, said)
        assert hub.stderr.count(said) == 1
    page = hub.redis()
    ends = int(page.info("tls")["tls_certificate_ends"])
    with socket.create_connection(("127.0.0.1", admin), PATIENCE_S) as one:
        one.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b""
        while part := one.recv(65536):
            text += part
    line = f'tidewire_tls_certificate_ends_seconds{{of="server"}} {ends}\n'
    assert line in text.decode()
    if not said:
        assert "expire" not in hub.stderr


def test_a_key_that_others_can_read_is_told(start_hub, files):
    files.key.chmod(0o644)
    hub = start(start_hub, files)
    logs(hub, "other users can read the private key")


@pytest.mark.parametrize("method", [["-v2", "aes-256-cbc"], ["-v2", "des3"], ["-scrypt"]])
def test_an_encrypted_key_is_used_with_its_password(start_hub, files, authority, method):
    encrypted = files.folder / "encrypted.key"
    made = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", files.key, *method, "-passout", "pass:sea of glass",
         "-out", encrypted], capture_output=True, text=True,
    )
    assert made.returncode == 0, made.stderr
    encrypted.rename(files.key)
    hub = start(start_hub, files, "--set", "tls-key-file-pass=sea of glass")
    assert shown(hub, authority) == "first"
    client = hub.redis()
    for password, said in (("wrong", "the password does not decrypt"), ("", "set tls-key-file-pass")):
        with pytest.raises(redis.ResponseError, match="Unable to update TLS configuration"):
            client.config_set("tls-key-file-pass", password)
        logs(hub, said)
        assert shown(hub, authority) == "first"
    assert "sea of glass" not in hub.stderr


def test_a_key_in_the_old_encryption_of_openssl_is_refused_with_the_way_out(start, files):
    made = subprocess.run(
        ["openssl", "ec", "-in", files.key, "-aes256", "-passout", "pass:secret", "-out",
         files.folder / "old.key"], capture_output=True, text=True,
    )
    assert made.returncode == 0, made.stderr
    ports = free_ports(5)
    program = start(
        "serve", "--resp", f"127.0.0.1:{ports[0]}", "--resp-tls", f"127.0.0.1:{ports[1]}",
        "--tls-cert", files.certificate, "--tls-key", files.folder / "old.key",
        "--set", "tls-key-file-pass=secret", "--feed", f"127.0.0.1:{ports[2]}",
        "--zmq-pub", f"tcp://127.0.0.1:{ports[3]}", "--zmq-pull", "tcp://127.0.0.1:0",
        "--zmq-router", "tcp://127.0.0.1:0",
    )
    assert program.wait() == 2
    assert "openssl pkcs8 -topk8" in program.stderr
