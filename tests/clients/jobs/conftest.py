"""Workers as their users start them, ended with the tests that they work for."""

import os
import subprocess
import sys
import time

import pytest
import redis

PORT = int(os.environ.get("TIDEWIRE_PORT", "6379"))
FOLDER = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 30


def eventually(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, f"it never came true: {what}"
        time.sleep(0.02)
    return found


class Program:
    """A program of this interpreter's environment, with its words in a file."""

    def __init__(self, log, *arguments):
        self.log = log
        path = os.path.dirname(sys.executable)
        environment = {**os.environ, "TIDEWIRE_PORT": str(PORT), "PYTHONPATH": FOLDER}
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [os.path.join(path, arguments[0]), *arguments[1:]],
                cwd=FOLDER,
                env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def words(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def server():
    """Database 15, emptied."""
    client = redis.Redis(port=PORT, db=15)
    client.flushdb()
    yield client
    client.close()


@pytest.fixture
def rq_worker(tmp_path):
    """Starts workers of RQ, each with the words that `rq worker` takes."""
    started = []

    def start(*words):
        number = len(started)
        url = f"redis://127.0.0.1:{PORT}/15"
        log = tmp_path / f"rq-{number}.log"
        program = Program(log, "rq", "worker", "--url", url, "--path", FOLDER, *words)
        started.append(program)
        return program

    yield start
    for program in started:
        program.end()


@pytest.fixture(scope="module")
def celery_worker(tmp_path_factory):
    """One worker of Celery for all tests of a file."""
    for database in (13, 14):
        with redis.Redis(port=PORT, db=database) as client:
            client.flushdb()
    log = tmp_path_factory.mktemp("celery") / "celery.log"
    words = ("worker", "--loglevel=info", "--pool=threads", "--concurrency=4", "--without-mingle")
    program = Program(log, "celery", "-A", "work", *words)
    eventually(lambda: "ready." in program.words() or program.process.poll(), "the worker runs")
    yield program
    program.end()
