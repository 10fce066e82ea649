"""`tidewire certs`: certificates that other programs accept, and files that stay secret."""

import os
import re
import shutil
import ssl
import stat
import subprocess

import pytest
import redis

from certificates import has_openssl
from support import BINARY, free_ports


pytestmark = pytest.mark.skipif(not has_openssl(), reason="the command openssl looks at them")


def certs(*arguments, umask=0o022):
    return subprocess.run(
        [BINARY, "certs", *map(str, arguments)], capture_output=True, text=True, umask=umask,
    )


def make(folder, *arguments):
    made = certs("--dir", folder, *arguments)
    assert made.returncode == 0, made.stderr
    return made.stdout


def openssl(*arguments):
    made = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    return made.returncode, made.stdout + made.stderr


def test_openssl_accepts_what_was_made(tmp_path):
    folder = tmp_path / "tls"
    said = make(folder, "--host", "hub.example,10.0.0.7", "--client", "alice", "--days", "90")
    assert "server.crt" in said and "redis-cli" in said
    for name, purpose in (("server", "sslserver"), ("server", "sslclient"), ("alice", "sslclient")):
        code, text = openssl(
            "verify", "-x509_strict", "-purpose", purpose, "-CAfile", folder / "ca.crt",
            folder / f"{name}.crt",
        )
        assert code == 0, text
    code, text = openssl(
        "verify", "-purpose", "sslserver", "-CAfile", folder / "ca.crt", folder / "alice.crt"
    )
    assert code != 0, "a client's certificate is not one of a server"
    for option, host, is_right in (
        ("-verify_hostname", "hub.example", True), ("-verify_ip", "10.0.0.7", True),
        ("-verify_hostname", "other.example", False), ("-verify_ip", "10.0.0.8", False),
    ):
        code, text = openssl(
            "verify", option, host, "-CAfile", folder / "ca.crt", folder / "server.crt"
        )
        assert (code == 0) == is_right, text
    _, text = openssl("x509", "-in", folder / "ca.crt", "-noout", "-text")
    assert "CA:TRUE, pathlen:0" in text and "Certificate Sign" in text
    _, text = openssl("x509", "-in", folder / "alice.crt", "-noout", "-subject")
    assert text.strip().replace(" ", "").endswith("CN=alice")
    days = 90 * 86_400
    assert openssl("x509", "-in", folder / "alice.crt", "-checkend", days - 600)[0] == 0
    assert openssl("x509", "-in", folder / "alice.crt", "-checkend", days + 600)[0] != 0


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_keys_are_secret_whatever_the_umask(tmp_path, umask):
    folder = tmp_path / "tls"
    made = certs("--dir", folder, umask=umask)
    assert made.returncode == 0, made.stderr
    for path in folder.iterdir():
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o600 if path.suffix == ".key" else 0o644 & ~umask), path
    assert sorted(path.name for path in folder.iterdir()) == [
        "ca.crt", "ca.key", "client.crt", "client.key", "server.crt", "server.key",
    ]


def test_a_key_is_opened_with_its_mode_from_the_beginning(tmp_path):
    if not shutil.which("strace"):
        pytest.skip("strace shows how files are opened")
    trace = tmp_path / "trace"
    made = subprocess.run(
        ["strace", "-f", "-e", "trace=openat,fchmod,chmod,fchmodat", "-o", trace, BINARY, "certs",
         "--dir", tmp_path / "tls"], capture_output=True, text=True,
    )
    if made.returncode != 0:
        pytest.skip("strace cannot run here")
    opened = [line for line in trace.read_text().splitlines() if ".key." in line]
    assert len(opened) == 3 and all("O_EXCL" in line and ", 0600)" in line for line in opened)
    assert "chmod" not in trace.read_text()


def test_nothing_is_overwritten_unasked(tmp_path):
    folder = tmp_path / "tls"
    make(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    again = certs("--dir", folder)
    assert again.returncode == 2 and "server.crt exists; use --replace" in again.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    said = make(folder, "--no-server", "--client", "bob,carol")
    assert "using" in said
    make(folder, "--replace")
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"server.crt", "server.key", "client.crt", "client.key"}
    for name in ("server", "client", "bob", "carol"):
        assert openssl("verify", "-CAfile", folder / "ca.crt", folder / f"{name}.crt")[0] == 0


@pytest.mark.parametrize("arguments, said", [
    (["--host", "a b"], "a DNS name or an IP address is expected"),
    (["--host", "10.0.0.256"], "a DNS name or an IP address is expected"),
    (["--client", "../evil"], "letters, digits"),
    (["--client", "server"], "choose another name"),
    (["--client", "a,a"], "the name is used twice"),
    (["--days", "0"], "--days"),
    (["--no-server", "--host", "a"], "--no-server leaves it out"),
])
def test_mistakes_are_told_and_make_no_file(tmp_path, arguments, said):
    folder = tmp_path / "tls"
    made = certs("--dir", folder, *arguments)
    assert made.returncode == 2 and said in made.stderr, made.stderr
    assert len(made.stderr.splitlines()) == 1
    assert not folder.exists()


def test_an_authority_that_does_not_fit_is_refused(tmp_path):
    folder, other = tmp_path / "tls", tmp_path / "other"
    make(folder)
    make(other)
    more = ("--dir", folder, "--no-server", "--client", "bob")
    key = (folder / "ca.key").read_bytes()
    shutil.copy(other / "ca.key", folder / "ca.key")
    assert "it is not the key of" in certs(*more).stderr
    (folder / "ca.key").unlink()
    assert "ca.key does not: put it there" in certs(*more).stderr
    (folder / "ca.key").write_bytes(key[:100])
    assert "ca.key:" in certs(*more).stderr
    (folder / "ca.key").write_bytes(key)
    (folder / "ca.crt").write_text("nonsense")
    assert "ca.crt: no certificate" in certs(*more).stderr
    assert not (folder / "bob.crt").exists()


def test_a_full_disk_leaves_no_part_of_a_key(tmp_path):
    folder = tmp_path / "file"
    folder.write_text("")
    made = certs("--dir", folder)
    assert made.returncode == 2 and "--dir" in made.stderr
    if os.path.exists("/dev/full"):
        # A limit on the size of files stands for a full disk.
        small = subprocess.run(
            ["sh", "-c", f"ulimit -f 0; trap '' XFSZ; exec {BINARY} certs --dir {tmp_path}/tls"],
            capture_output=True, text=True,
        )
        assert small.returncode == 1 and "cannot write" in small.stderr, small.stderr
        assert list((tmp_path / "tls").iterdir()) == []


def test_a_pair_of_a_run_that_was_stopped_is_told_and_completed(start, tmp_path):
    folder = tmp_path / "tls"
    make(folder)
    old = (folder / "server.crt").read_bytes()
    make(folder, "--replace")
    # As if it had been stopped between the key and the certificate.
    (folder / "server.crt").rename(folder / ".server.crt.unfinished")
    (folder / "server.crt").write_bytes(old)
    words = [
        "serve", *(f"--{name}=127.0.0.1:{port}" for name, port in zip(
            ("resp", "resp-tls", "feed"), free_ports(3))),
        *(f"--zmq-{name}=tcp://127.0.0.1:{port}" for name, port in zip(
            ("pub", "pull", "router"), free_ports(3))),
        "--tls-cert", folder / "server.crt", "--tls-key", folder / "server.key",
    ]
    hub = start(*words)
    hub.wait()
    assert "'tidewire certs' was stopped before it was done: run it again" in hub.stderr
    assert "completed" in make(folder, "--no-server", "--client", "bob")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / "server.crt", folder / "server.key")
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_a_hub_and_its_clients_use_them(start_hub, tmp_path):
    folder = tmp_path / "tls"
    make(folder, "--client", "trader,clerk")
    (port,) = free_ports(1)
    hub = start_hub(
        "--resp-tls", f"127.0.0.1:{port}", "--tls-cert", folder / "server.crt",
        "--tls-key", folder / "server.key", "--tls-ca", folder / "ca.crt",
        "--set", "tls-auth-clients-user=CN",
    )
    hub.redis().execute_command("ACL", "SETUSER", "trader", "on", "+@all", "~*")
    options = {"ssl": True, "ssl_ca_certs": str(folder / "ca.crt")}
    pair = {"ssl_certfile": str(folder / "trader.crt"), "ssl_keyfile": str(folder / "trader.key")}
    client = redis.Redis(host="localhost", port=port, **options, **pair)
    assert client.execute_command("ACL", "WHOAMI") == b"trader"
    with pytest.raises((redis.ConnectionError, ssl.SSLError)):
        redis.Redis(host="localhost", port=port, **options).ping()
    if shutil.which("redis-cli"):
        made = subprocess.run(
            ["redis-cli", "-h", "localhost", "-p", str(port), "--tls", "--cacert",
             folder / "ca.crt", "--cert", folder / "trader.crt", "--key", folder / "trader.key",
             "PING"], capture_output=True, text=True,
        )
        if not re.search("nrecognized option|Unknown option", made.stdout + made.stderr):
            assert made.stdout.strip() == "PONG", made.stderr
