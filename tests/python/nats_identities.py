"""NKEYs and JWTs of NATS, made with the command `openssl`, and a plain client of NATS."""

import base64
import json
import socket
import subprocess
import time

OPERATOR, ACCOUNT, USER = 14 << 3, 0, 20 << 3
SEED = 18 << 3


class Nkey:
    """A key pair of Ed25519 with NATS's names for both halves."""

    def __init__(self, folder, kind):
        self.file = folder / f"nkey-{kind}-{len(list(folder.glob('nkey-*')))}.pem"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.file)
        private = openssl("pkey", "-in", self.file, "-outform", "DER")[-32:]
        public = openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER")[-32:]
        self.public = text(bytes([kind]) + public)
        self.seed = text(bytes([SEED | kind >> 5, (kind & 31) << 3]) + private)

    def sign(self, data):
        unsigned = self.file.with_suffix(".data")
        unsigned.write_bytes(data)
        return openssl("pkeyutl", "-sign", "-inkey", self.file, "-rawin", "-in", unsigned)

    def issue(self, subject, name, kind, **claims):
        """A JWT for another key, signed by this one."""
        body = {
            "jti": name, "iat": int(time.time()), "iss": self.public, "sub": subject.public,
            "name": name, "nats": {"type": kind, "version": 2, **claims},
        }
        parts = [{"typ": "JWT", "alg": "ed25519-nkey"}, body]
        signed = b".".join(url_text(json.dumps(part).encode()) for part in parts)
        return (signed + b"." + url_text(self.sign(signed))).decode()


def openssl(*arguments):
    made = subprocess.run(["openssl", *map(str, arguments)], capture_output=True)
    assert made.returncode == 0, made.stderr
    return made.stdout


def text(key):
    """Base 32 of a key and its CRC-16."""
    crc = 0
    for byte in key:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return base64.b32encode(key + crc.to_bytes(2, "little")).rstrip(b"=").decode()


def url_text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def credentials_file(folder, jwt, key):
    """Writes a file as `nsc` does, and returns its path."""
    path = folder / "user.creds"
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n"
    )
    return path


class Operator:
    """An operator with one account that may use JetStream, for a server's configuration."""

    def __init__(self, folder):
        self.folder = folder
        self.key, self.account = Nkey(folder, OPERATOR), Nkey(folder, ACCOUNT)
        system = Nkey(folder, ACCOUNT)
        limits = {name: -1 for name in ("subs", "data", "payload", "imports", "exports", "conn",
                                        "leaf", "mem_storage", "disk_storage", "streams",
                                        "consumer")} | {"wildcards": True}
        accounts = {
            self.account.public: self.key.issue(self.account, "desk", "account", limits=limits),
            system.public: self.key.issue(system, "system", "account"),
        }
        lines = "\n".join(f"  {key}: {jwt}" for key, jwt in accounts.items())
        self.configuration = (
            f"operator: {self.key.issue(self.key, 'operator', 'operator')}\n"
            f"system_account: {system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{lines}\n}}\n"
        )

    def credentials(self):
        """The file of a new user, who may do everything."""
        user = Nkey(self.folder, USER)
        jwt = self.account.issue(user, "hub", "user", subs=-1, data=-1, payload=-1)
        return credentials_file(self.folder, jwt, user)


class NatsClient:
    """A connection to a NATS server, as thin as can be."""

    def __init__(self, port, user, password):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.lines = self.socket.makefile("rb")
        assert self.lines.readline().startswith(b"INFO ")
        login = {"user": user, "pass": password, "verbose": False, "pedantic": False}
        self.socket.sendall(b"CONNECT " + json.dumps(login).encode() + b"\r\n")
        self.errors = []
        self.messages = []
        self.subscriptions = 0
        self.settle()

    def settle(self):
        """Waits until the server has looked at everything."""
        self.socket.sendall(b"PING\r\n")
        while (line := self.lines.readline()) != b"PONG\r\n":
            assert line, f"the server has closed the connection: {self.errors}"
            if line.startswith(b"-ERR"):
                self.errors.append(line.decode().strip())
            if line.startswith(b"MSG"):
                self.messages.append((line, self.lines.read(int(line.split()[-1]) + 2)))

    def publish(self, subject, payload, reply=""):
        """Publishes, and returns what the server refuses."""
        self.errors = []
        head = f"PUB {subject} {reply} {len(payload)}\r\n".encode()
        self.socket.sendall(head + payload + b"\r\n")
        self.settle()
        return self.errors

    def subscribe(self, subject):
        """Subscribes, and returns what the server refuses."""
        self.errors = []
        self.subscriptions += 1
        self.socket.sendall(f"SUB {subject} {self.subscriptions}\r\n".encode())
        self.settle()
        return self.errors

    def close(self):
        self.lines.close()
        self.socket.close()
