"""Fixtures: hubs and exchanges on free ports, ended and looked at behind each test."""

import pytest

from support import BINARY, Hub, Program, Simulator, wait_for_values


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
