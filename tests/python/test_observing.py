"""What operators see: MONITOR, SLOWLOG, the hottest names, and metrics over HTTP."""

import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import promql_parser
import pytest
import redis
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from support import RespSocket, free_ports


def test_monitor_shows_the_commands_of_every_lane_in_the_order_of_each_client(start_hub):
    hub = start_hub("--lanes", "3")
    watcher = RespSocket(hub.resp())
    assert watcher.call("MONITOR") == b"OK"
    others = [RespSocket(hub.resp()) for _ in range(6)]
    for number, other in enumerate(others):
        other.call("SELECT", number)
        other.call("SET", "key", b'a"\n\xff')
        other.call("EVAL", "return redis.call('get', KEYS[1])", 1, "key")
        other.call("CONFIG", "GET", "port")
        with pytest.raises(Exception, match="without any password"):
            other.call("AUTH", "secret")
    lines = [watcher.read().decode() for _ in range(5 * len(others))]
    for number, other in enumerate(others):
        host, port = other.socket.getsockname()
        own = [line.split(" ", 1)[1] for line in lines if f"[{number} {host}:{port}]" in line]
        place = f"[{number} {host}:{port}]"
        assert own[-3:] == [
            rf'{place} "SET" "key" "a\"\n\xff"',
            f'{place} "EVAL" "return redis.call(\'get\', KEYS[1])" "1" "key"',
            f'{place} "AUTH" "(redacted)"',
        ]
        script = [line for line in lines if f'[{number} lua] "get" "key"' in line]
        assert len(script) == 1
    assert not any("CONFIG" in line for line in lines)
    assert b"flags=O " in RespSocket(hub.resp()).call("CLIENT", "LIST")
    watcher.send("RESET")
    while (line := watcher.read()) != b"RESET":
        assert line.startswith(b"1"), line
    others[0].call("PING")
    assert watcher.call("PING") == b"PONG"


def test_monitor_shows_scripts_that_are_not_found_or_are_no_lua(hub):
    client = hub.redis()
    watcher = hub.redis()
    with watcher.monitor() as monitor:
        for words in (["EVALSHA", "0" * 40, 0], ["EVAL", "no lua", 0], ["EVAL", "return 1", 0]):
            try:
                client.execute_command(*words)
            except redis.ResponseError:
                pass
        names = []
        while len(names) < 3:
            name = monitor.next_command()["command"].split()[0]
            names += [name] * name.startswith("EVAL")
    assert names == ["EVALSHA", "EVAL", "EVAL"]


def test_a_slow_command_in_a_pipeline_is_logged_with_its_client(start_hub):
    hub = start_hub("--set", "enable-debug-command=yes")
    client = hub.redis(client_name="slow-one")
    pipeline = client.pipeline(transaction=False)
    for number in range(20):
        pipeline.set(f"key:{number}", number)
    pipeline.execute_command("DEBUG", "SLEEP", "0.05")
    pipeline.get("key:1")
    pipeline.execute()
    (entry,) = client.slowlog_get()
    assert entry["command"] == b"DEBUG SLEEP 0.05"
    assert entry["duration"] >= 50_000
    assert entry["client_name"] == b"slow-one"
    client.config_set("latency-monitor-threshold", 20)
    client.execute_command("DEBUG", "SLEEP", "0.05")
    (event,) = client.latency_latest()
    assert event[0] == b"command" and event[2] >= 50


def test_the_hottest_names_come_first(start_hub):
    hub = start_hub("--lanes", "2")
    client = hub.redis(protocol=3)
    for round_number in range(40):
        pipeline = client.pipeline(transaction=False)
        for number in range(100):
            pipeline.get("hot")
            pipeline.get(f"cold:{round_number * 100 + number}")
            pipeline.publish("news", "x")
        pipeline.execute()
    key, *_ = client.execute_command("TIDEWIRE.TOP", "KEYS", "COUNT", 3)
    assert (key[b"name"], key[b"kind"], key[b"db"]) == (b"hot", b"key", 0)
    assert key[b"rate"] > 0
    (channel,) = client.execute_command("TIDEWIRE.TOP", "CHANNELS")
    assert channel[b"name"] == b"news"
    client.execute_command("TIDEWIRE.TOP", "RESET")


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as response:
        return response.read().decode()


def test_metrics_are_told_over_http_beside_the_lanes(start_hub):
    (port,) = free_ports(1)
    hub = start_hub("--admin", f"127.0.0.1:{port}", "--lanes", "2")
    client = hub.redis()
    for number in range(10):
        client.set(f"key:{number}", number)
    values = {}
    for line in get(port, "/metrics").splitlines():
        if not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            values[series] = float(value)
    assert values['tidewire_commands_total{command="set"}'] == 10
    assert values['tidewire_keys{database="0"}'] == 10
    assert values['tidewire_command_duration_seconds_bucket{command="set",le="+Inf"}'] == 10
    assert 'tidewire_thread_cpu_seconds_total{thread="lane-1"}' in values
    assert values['tidewire_memory_bytes{kind="resident"}'] > 0
    assert get(port, "/health") == "ok\n"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(port, "/nothing")


def test_one_who_says_nothing_does_not_keep_others_from_the_metrics(start_hub):
    (port,) = free_ports(1)
    start_hub("--admin", f"127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(b"GET /metrics")
        assert "tidewire_uptime_seconds" in get(port, "/metrics")
    with socket.create_connection(("127.0.0.1", port)) as bad:
        bad.settimeout(20)
        bad.sendall(b"\x00\xff\r\n\r\n")
        assert bad.recv(100).startswith(b"HTTP/1.1 400 ")


def lost(given, kept, path="dashboard"):
    """Where something of `given` is not in `kept`."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [at for key, value in given.items()
                for at in lost(value, kept.get(key), f"{path}.{key}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [at for index, value in enumerate(given)
                for at in lost(value, kept[index], f"{path}[{index}]")]
    return [] if given == kept else [path]


def test_grafana_reads_all_of_the_dashboard_and_prometheus_its_queries():
    file = Path(__file__).parents[2] / "ops/grafana/tidewire.json"
    given = json.loads(file.read_text())
    plugins.register_default_plugins()
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(given)))
    assert lost(given, kept) == []
    queries = [target["expr"] for panel in given["panels"] for target in panel.get("targets", [])]
    assert len(queries) > 20
    for query in queries:
        filled = query.replace("$__rate_interval", "1m").replace("$instance", "hub:9121")
        promql_parser.parse(filled)
