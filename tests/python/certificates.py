"""Certificates for the tests of TLS, made by the command `openssl`."""

import shutil
import subprocess


def has_openssl():
    """Whether the command is installed."""
    return shutil.which("openssl") is not None


class Authority:
    """An authority in a folder of its own, and what it issues."""

    def __init__(self, folder, name="Authority", curve="prime256v1"):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.key, self.certificate = folder / "ca.key", folder / "ca.crt"
        self.openssl("ecparam", "-name", curve, "-genkey", "-noout", "-out", self.key)
        self.openssl(
            "req", "-x509", "-new", "-key", self.key, "-sha256", "-days", "30",
            "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
            "-out", self.certificate,
        )

    def issue(self, file, name, names="DNS:localhost,IP:127.0.0.1", days=30, rsa_bits=None,
              extended_use=None):
        """Issues a certificate; returns its file and that of its key. Without names it has no
        extensions, and is of version 1 of X.509."""
        key, request, certificate = (self.folder / f"{file}.{end}" for end in ("key", "csr", "crt"))
        if rsa_bits:
            self.openssl("genrsa", "-out", key, rsa_bits)
        else:
            self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        key.chmod(0o600)
        self.openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        options = []
        if names:
            extensions = self.folder / f"{file}.ext"
            lines = f"subjectAltName={names}\n"
            if extended_use:
                lines += f"extendedKeyUsage={extended_use}\n"
            extensions.write_text(lines)
            options = ["-extfile", extensions]
        self.openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
            "-CAcreateserial", "-days", days, "-sha256", *options, "-out", certificate,
        )
        return certificate, key

    def encrypt(self, key, password):
        """Returns a file with the same key, encrypted."""
        encrypted = key.with_suffix(".encrypted")
        self.openssl("pkey", "-in", key, "-aes256", "-passout", f"pass:{password}",
                      "-out", encrypted)
        return encrypted

    @staticmethod
    def openssl(*arguments):
        """Runs the command."""
        made = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
