"""Keys in a quorum amid faults: porcupine finds one order that explains what clients were told.

`TIDEWIRE_QUORUM_OPERATIONS` and `TIDEWIRE_QUORUM_SEED` make it a long run, or another one.
"""

import os
import random
import shutil
import subprocess

import pytest

from nats_servers import SERVER, go_on, pause, three_servers
from support import REPOSITORY
from test_quorum import is_primary, leader_of, place

OPERATIONS = int(os.environ.get("TIDEWIRE_QUORUM_OPERATIONS", "4000"))
SEED = int(os.environ.get("TIDEWIRE_QUORUM_SEED", "1"))

pytestmark = [
    pytest.mark.skipif(not SERVER, reason="there is no nats-server"),
    pytest.mark.skipif(not shutil.which("go"), reason="there is no go"),
    pytest.mark.timeout(120 + OPERATIONS // 50),
]


class Faults:
    """One fault after the other, chosen by seed. Before the next one all processes run."""

    def __init__(self, folder, start_hub, nats, hubs, places):
        self.random = random.Random(SEED)
        self.nats, self.hubs, self.places, self.start_hub = nats, hubs, places, start_hub
        self.caused = []
        self.after = None

    def next(self):
        if self.after:
            self.after()
            self.after = None
            return
        fault = self.random.choice([self.stop_primary, self.end_primary, self.lose_leader,
                                    self.stop_server, self.stop_standby])
        self.caused.append(fault.__name__)
        fault()

    def _primary(self, wanted=True):
        return next((hub for hub in self.hubs if is_primary(hub) == wanted), self.hubs[0])

    def stop_primary(self):
        hub = self._primary()
        pause(hub)
        self.after = lambda: go_on(hub)

    def stop_standby(self):
        hub = self._primary(False)
        pause(hub)
        self.after = lambda: go_on(hub)

    def end_primary(self):
        hub = self._primary()
        at = self.hubs.index(hub)
        port = hub.resp_port
        hub.kill()

        def again():
            self.hubs[at] = self.start_hub("--cluster", self.places[at], resp_port=port)

        self.after = again

    def lose_leader(self):
        server = leader_of(self.nats)
        server.kill()
        self.after = server.start

    def stop_server(self):
        server = self.random.choice(self.nats)
        server.pause()
        self.after = server.go_on


@pytest.fixture
def nats(tmp_path):
    servers = three_servers(tmp_path)
    yield servers
    for server in servers:
        server.kill()


def test_one_order_explains_what_clients_were_told_amid_faults(nats, start_hub, tmp_path):
    program = tmp_path / "quorum"
    source = REPOSITORY / "tests" / "linearizable"
    subprocess.run(["go", "build", "-o", program, "./quorum"], cwd=source, check=True)
    places = [place(tmp_path, name, nats, "keys-snapshot-megabytes = 1") for name in "ab"]
    hubs = [start_hub("--cluster", one) for one in places]
    faults = Faults(tmp_path, start_hub, nats, hubs, places)
    addresses = ",".join(f"127.0.0.1:{hub.resp_port}" for hub in hubs)
    words = [program, "-hubs", addresses, "-operations", str(OPERATIONS), "-seed", str(SEED),
             "-report", tmp_path]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    # A fault begins, or ends, each time that so many calls were answered, or none for a while.
    step, due, silent, done, verdict = min(max(OPERATIONS // 12, 100), STEP_MAX), 0, 0, 0, []
    for line in running.stdout:
        if not line.startswith("done "):
            verdict.append(line)
            continue
        now = int(line.split()[1])
        silent, done = (silent + 1 if now == done else 0), now
        if done >= due or silent >= SILENT_LINES:
            due, silent = done + step, 0
            faults.next()
    if faults.after:
        faults.after()
    assert running.wait() == 0, (verdict, faults.caused)
    print(verdict, faults.caused)
    assert verdict[-1].strip().endswith("Ok"), verdict


# Calls between the beginning and the end of a fault in a long run.
STEP_MAX = 10_000
# Lines without an answer after which the fault ends: one comes each tenth of a second.
SILENT_LINES = 80
