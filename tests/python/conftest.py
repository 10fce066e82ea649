"""Fixtures: hubs and exchanges on free ports, ended and looked at behind each test."""

import os
import shutil
import subprocess

import pytest
import redis

from support import BINARY, Hub, Program, Simulator, eventually, free_ports, wait_for_values

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
        client = redis.Redis(port=port)

        def answers():
            try:
                return client.ping()
            except (redis.ConnectionError, redis.BusyLoadingError):
                return None

        eventually(answers, "an answer of Redis")
        return client

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
