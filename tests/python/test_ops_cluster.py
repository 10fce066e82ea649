"""The example of `ops/cluster`: its files fit each other, and start what they say.

Docker is not needed: the servers and hubs of the example run here, with its own configuration.
"""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from nats_servers import SERVER, NatsServer, Publisher, figures
from support import BINARY, REPOSITORY, environment, eventually, free_ports
from test_cluster import wait_for

FOLDER = REPOSITORY / "ops/cluster"
PASSWORDS = {f"HUB_{number}_PASSWORD": f"p{number}" for number in (1, 2, 3)}


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())


def test_the_files_name_the_same_servers_hubs_and_passwords(compose):
    services = compose["services"]
    assert {"nats-1", "nats-2", "nats-3", "hub-1", "hub-2", "hub-3"} <= set(services)
    users = set(re.findall(r'user: "([\w-]+)"', (FOLDER / "users.conf").read_text()))
    assert users == {name for name in services if name.startswith("hub-")}
    configuration = (FOLDER / "nats.conf").read_text()
    text = (FOLDER / "compose.yaml").read_text()
    for name, service in services.items():
        assert set(service.get("depends_on", [])) <= set(services)
        assert "image" in service and service["restart"] == "unless-stopped"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            exists = (FOLDER / source).is_file() if source[0] == "." else source in compose["volumes"]
            assert exists, f"{name}: {volume}"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: {port} is open to other machines"
        if name.startswith("nats-"):
            assert f"nats-route://{name}:6222" in configuration
            assert set(PASSWORDS) <= set(service["environment"])
            assert service["hostname"] == name
        if name.startswith("hub-"):
            variable = name.upper().replace("-", "_") + "_PASSWORD"
            assert service["environment"]["HUB"] == name
            assert service["environment"]["HUB_PASSWORD"].startswith("${" + variable)
    assert set(re.findall(r"\$\{(\w+)", text)) == set(PASSWORDS) | {"TIDEWIRE_IMAGE"}
    build = compose["x-hub"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).is_file()


def test_docker_accepts_the_file():
    docker = shutil.which("docker")
    plugin = [docker, "compose"] if docker else ["docker-compose"]
    try:
        asked = subprocess.run([*plugin, "version"], capture_output=True, text=True)
    except FileNotFoundError:
        asked = None
    if asked is None or asked.returncode != 0:
        pytest.skip("there is no docker compose")
    done = subprocess.run([*plugin, "-f", FOLDER / "compose.yaml", "config", "--quiet"],
                          capture_output=True, text=True, env=os.environ | PASSWORDS)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def servers(tmp_path, monkeypatch):
    """The three servers of the example, on ports of this machine."""
    for name, value in PASSWORDS.items():
        monkeypatch.setenv(name, value)
    text = (FOLDER / "nats.conf").read_text()
    shutil.copy(FOLDER / "users.conf", tmp_path)
    ports, started = free_ports(6), {}
    for number, port in enumerate(ports[3:], 1):
        text = text.replace(f"nats-route://nats-{number}:6222", f"nats-route://127.0.0.1:{port}")
    for number in (1, 2, 3):
        own = text.replace("0.0.0.0:6222", f"127.0.0.1:{ports[2 + number]}")
        own = re.sub(r"(?m)^(listen|http):.*\n|^  store_dir:.*\n", "", own)
        path = tmp_path / f"nats-{number}.conf"
        path.write_text(own)
        monkeypatch.setenv("HOSTNAME", f"nats-{number}")
        started[number] = NatsServer(tmp_path, ports[number - 1], options=["-c", path])
    yield started
    for server in started.values():
        server.kill()


def hub_file(folder, servers, name, source=None):
    """The file that the example's script writes for a hub, with the ports of this machine."""
    programs = folder / f"programs-{name}"
    programs.mkdir()
    stand_in = programs / "tidewire"
    stand_in.write_text("#!/bin/sh\necho \"$@\"\n")
    stand_in.chmod(0o755)
    script = (FOLDER / "start.sh").read_text().replace("/tmp/", f"{programs}/")
    variables = {"HUB": name, "HUB_PASSWORD": PASSWORDS[f"HUB_{name[-1]}_PASSWORD"],
                 "PATH": f"{programs}:{os.environ['PATH']}"}
    if source:
        variables["SOURCE"] = source
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    path = programs / "cluster.toml"
    text = path.read_text()
    for number, server in servers.items():
        assert f"nats://nats-{number}:4222" in text
        text = text.replace(f"nats://nats-{number}:4222", server.url)
    path.write_text(text)
    words = done.stdout.split()
    assert words[:3] == ["serve", "--cluster", str(path)]
    assert ("--source" in words) == bool(source)
    # Each option is one of the program's.
    help_text = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True,
                               env=environment()).stdout
    assert all(word in help_text for word in words if word.startswith("--"))
    return path


@pytest.mark.skipif(not SERVER, reason="there is no nats-server")
def test_the_servers_and_hubs_of_the_example_work(servers, start_hub, tmp_path):
    owner = start_hub("--cluster", hub_file(tmp_path, servers, "hub-1", "nasdaq"))
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    eventually(lambda: (figures(owner) or {}).get("owner") == "1", "hub-1 owns its source")
    edge = start_hub("--cluster", hub_file(tmp_path, servers, "hub-3"))
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    standby = start_hub("--cluster", hub_file(tmp_path, servers, "hub-2", "nasdaq"))
    second = Publisher(standby, "ONE", session=78)
    second.trade(1, 11, 7)
    owner.kill()
    wait_for(edge, "md:ONE", last=11, volume=7, stale=0)
    for hub in (edge, standby):
        assert "refuses" not in hub.stderr
