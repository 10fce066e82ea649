"""Fixtures: hubs and exchanges on free ports, ended and looked at behind each test."""

import os
import shutil
import subprocess

import pytest

from fake_master import FakeMaster
from support import (
    BINARY, Hub, Program, Simulator, free_ports, redis_client_when_it_answers, wait_for_values,
)

REDIS = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")


def pytest_sessionstart(session):
    if not BINARY.is_file():
        pytest.exit(f"{BINARY} is missing: cargo build --release -p tidewire", returncode=1)


@pytest.fixture
def start(tmp_path, request):
    """Starts the program with any arguments; what still runs is killed at the end."""
    return _starter(request, lambda *arguments, **options: Program(tmp_path, *arguments, **options))


@pytest.fixture
def start_hub(tmp_path, request):
    """Starts a hub with these options; at the end it must stop cleanly and at once."""
    return _starter(request, lambda *arguments, **options: Hub(tmp_path, *arguments, **options))


@pytest.fixture
def start_simulator(tmp_path, request):
    """Starts an exchange with these options."""
    return _starter(
        request, lambda *arguments, **options: Simulator(tmp_path, *arguments, **options)
    )


@pytest.fixture
def hub(start_hub):
    """A hub with default settings."""
    return start_hub()


@pytest.fixture
def simulated(start_simulator, start_hub):
    """A hub that reads an exchange of ten symbols, slow enough to follow by eye."""
    simulator = start_simulator("--rate", "2000", "--symbols", "10")
    hub = start_hub("--source", simulator.source)
    hub.simulator = simulator
    wait_for_values(hub, 10)
    return hub


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB whose size can be changed."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted: {mounted.stderr.strip()}")

    class Disk:
        path = folder

        def resize(self, size):
            subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)

        def fill(self):
            """Takes all that is left."""
            with open(folder / "filler", "ab", buffering=0) as filler:
                try:
                    while True:
                        filler.write(b"x" * 4096)
                except OSError:
                    return

    yield Disk()
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def start_redis(tmp_path):
    """Starts a real Redis 8 with these options, and ends it."""
    if not REDIS:
        pytest.skip("there is no redis-server")
    version = subprocess.run([REDIS, "--version"], capture_output=True, text=True).stdout
    if int(version.partition("v=")[2].partition(".")[0] or 0) < 8:
        pytest.skip("redis-server is older than 8: it has other files and commands")
    started = []

    def start(*options):
        port = free_ports(1)[0]
        words = ["--port", port, "--enable-debug-command", "yes", *options]
        process = subprocess.Popen([REDIS, *map(str, words)], cwd=tmp_path,
                                   stdout=subprocess.DEVNULL)
        started.append(process)
        return redis_client_when_it_answers(port, "Redis")

    yield start
    for process in started:
        process.kill()
        process.wait()


def _starter(request, make):
    def started(*arguments, **options):
        program = make(*arguments, **options)
        request.addfinalizer(lambda: _end(program, request))
        return program

    return started


def _end(program, request):
    failed = getattr(request.node, "failed", False)
    try:
        if type(program) is not Program and not failed:
            program.stop()
    finally:
        program.kill()
        if failed and program.stderr:
            print(f"--- what {program.process.args} said:\n{program.stderr[-4000:]}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call" and outcome.get_result().failed:
        item.failed = True


@pytest.fixture
def fake_master():
    """Starts a master that answers PSYNC as a test says."""
    started = []

    def start(*answers, **options):
        started.append(FakeMaster(*answers, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()
