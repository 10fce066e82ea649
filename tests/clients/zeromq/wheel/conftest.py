"""Environments with pyzmq from PyPI and our wheel, which are kept between runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PYZMQ = ["25.1.2", "26.4.0", "27.3.0"]
WHEEL = Path(os.environ["TIDEWIRE_WHEEL"])
WORK = Path(os.environ["TIDEWIRE_WORK"])
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


class Environment:
    """A virtual environment."""

    def __init__(self, name, packages):
        self.folder = WORK / name
        self.interpreter = self.folder / "bin/python"
        stamp = self.folder / "installed.txt"
        wanted = "\n".join(packages)
        if not stamp.exists() or stamp.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", self.folder], check=True)
            self.pip("install", "--only-binary=:all:", *packages)
            stamp.write_text(wanted)

    def pip(self, command, *arguments):
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [self.interpreter, "-m", "pip", command, *quiet, *map(str, arguments)], check=True
        )

    def install_wheel(self):
        self.pip("install", "--no-deps", "--no-index", "--force-reinstall", WHEEL)

    def python(self, *arguments, **environment):
        """Runs Python. Returns the finished process."""
        clean = {key: os.environ[key] for key in os.environ if key != "TIDEWIRE_LIBZMQ"}
        return subprocess.run(
            [self.interpreter, *map(str, arguments)],
            capture_output=True,
            text=True,
            env=clean | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
            check=False,
        )

    def files(self, pattern):
        """Returns the files of installed packages that match, with their bytes."""
        (packages,) = self.folder.glob("lib/python*/site-packages")
        found = (path for path in packages.glob(pattern) if path.is_file())
        return {path: path.read_bytes() for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="session", params=PYZMQ)
def installed(request):
    """An environment with a pyzmq, event loops and our wheel."""
    loops = [line for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    environment = Environment(f"pyzmq-{request.param}", [f"pyzmq=={request.param}", *loops])
    environment.version = request.param
    environment.install_wheel()
    return environment


@pytest.fixture
def bare():
    """An environment with the newest pyzmq and without our wheel."""
    environment = Environment("bare", [f"pyzmq=={PYZMQ[-1]}"])
    yield environment
    environment.pip("uninstall", "--yes", "tidewire-libzmq")
