"""CONFIG SET port and bind: where clients connect is changed while others are served."""

import socket

import pytest
import redis

from support import eventually, free_ports


def can_connect(port, host="127.0.0.1"):
    try:
        with redis.Redis(host=host, port=port, socket_timeout=5) as client:
            return client.ping()
    except redis.ConnectionError:
        return False


@pytest.fixture(params=["1", "3"])
def lanes_hub(start_hub, request):
    """With one lane, which listens itself, and with several, of which one does."""
    return start_hub("--lanes", request.param)


def test_the_port_is_another_and_who_is_connected_stays(lanes_hub):
    (port,) = free_ports(1)
    clients = [lanes_hub.redis(single_connection_client=True) for _ in range(6)]
    for one in clients:
        one.ping()
    old = lanes_hub.resp_port
    clients[0].config_set("port", port)
    assert not can_connect(old)
    assert can_connect(port)
    assert all(one.ping() for one in clients)
    assert clients[1].config_get("port") == {"port": str(port)}
    assert clients[1].info("server")["tcp_port"] == port
    new = redis.Redis(port=port, single_connection_client=True)
    assert new.client_info()["laddr"] == f"127.0.0.1:{port}"
    new.close()
    clients[2].config_set("port", old)
    assert can_connect(old) and not can_connect(port)


def test_a_port_that_is_taken_changes_nothing(hub):
    client = hub.redis(single_connection_client=True)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(redis.ResponseError, match="Unable to listen on this port"):
            client.execute_command("CONFIG", "SET", "timeout", "70", "port", taken)
    assert client.config_get("port", "timeout") == {"port": str(hub.resp_port), "timeout": "0"}
    assert can_connect(hub.resp_port)
    with pytest.raises(redis.ResponseError, match="Failed to bind to specified addresses"):
        client.config_set("bind", "999.999.999.999")
    assert client.config_get("bind") == {"bind": "127.0.0.1"}
    assert can_connect(hub.resp_port)


def test_addresses_come_and_go(lanes_hub):
    client = lanes_hub.redis(single_connection_client=True)
    port = lanes_hub.resp_port
    assert not can_connect(port, "127.0.0.2")
    client.config_set("bind", "127.0.0.1 127.0.0.2")
    assert can_connect(port, "127.0.0.2") and can_connect(port)
    client.config_set("bind", "* -::*")
    assert can_connect(port, "127.0.0.3") and can_connect(port)
    client.config_set("bind", "127.0.0.2")
    assert can_connect(port, "127.0.0.2") and not can_connect(port)
    client.config_set("bind", "")
    assert not can_connect(port, "127.0.0.2")
    client.config_set("bind", "127.0.0.1")
    assert can_connect(port)


def test_a_redis_conf_may_leave_the_socket_alone(start, tmp_path):
    path, conf = tmp_path / "redis.sock", tmp_path / "redis.conf"
    (port,) = free_ports(1)
    conf.write_text(f'port {port}\nbind ""\nunixsocket {path}\nsave ""\n')
    others = ["--zmq-pub", "tcp://127.0.0.1:0", "--zmq-pull", "tcp://127.0.0.1:0"]
    others += ["--zmq-router", "tcp://127.0.0.1:0", "--feed", "127.0.0.1:0"]
    start("serve", "--lanes", "2", "--redis-conf", str(conf), *others)
    eventually(path.exists, "the socket is there")
    client = redis.Redis(unix_socket_path=str(path), single_connection_client=True)
    assert client.config_get("bind") == {"bind": ""} and not can_connect(port)
    client.config_set("bind", "127.0.0.1")
    assert can_connect(port)
    client.execute_command("CONFIG", "REWRITE")
    assert f"port {port}\nbind 127.0.0.1\n" in conf.read_text()
    client.close()


def test_a_place_to_listen_is_no_parameter_of_the_command_line(start):
    program = start("serve", "--set", "port=7000")
    assert program.wait() == 2
    assert "give the address of Redis clients with --resp" in program.stderr


def test_resp_wins_over_port_and_bind(start, tmp_path):
    path, conf = tmp_path / "redis.sock", tmp_path / "redis.conf"
    (said, wanted) = free_ports(2)
    conf.write_text(f"port {said}\nbind 127.0.0.1 127.0.0.2\nunixsocket {path}\nsave \"\"\n"
                    f"unixsocketperm 700\n")
    others = ["--zmq-pub", "tcp://127.0.0.1:0", "--zmq-pull", "tcp://127.0.0.1:0"]
    others += ["--zmq-router", "tcp://127.0.0.1:0", "--feed", "127.0.0.1:0"]
    start("serve", "--redis-conf", conf, "--resp", f"127.0.0.1:{wanted}", *others)
    eventually(lambda: path.exists() and path.stat().st_mode & 0o777 == 0o700, "the socket")
    eventually(lambda: can_connect(wanted), "the port")
    assert can_connect(wanted) and not can_connect(said) and not can_connect(said, "127.0.0.2")
    client = redis.Redis(unix_socket_path=str(path), single_connection_client=True)
    assert client.config_get("port") == {"port": str(wanted)}
    assert client.config_get("bind") == {"bind": "127.0.0.1"}
    client.close()


def test_no_address_stays_no_address_once_it_is_rewritten(start, tmp_path):
    path, conf = tmp_path / "socket", tmp_path / "redis.conf"
    (port,) = free_ports(1)
    conf.write_text(f"port {port}\nbind 127.0.0.1\nunixsocket {path}\nsave \"\"\n")
    words = ["serve", "--feed", "127.0.0.1:0", "--zmq-pub", "tcp://127.0.0.1:0",
             "--zmq-pull", "tcp://127.0.0.1:0", "--zmq-router", "tcp://127.0.0.1:0",
             "--redis-conf", conf]

    def client():
        one = redis.Redis(unix_socket_path=str(path))
        return one if path.exists() and one.ping() else None

    hub = start(*words)
    first = eventually(client, "an answer")
    first.config_set("bind", "")
    assert not can_connect(port)
    first.config_rewrite()
    first.close()
    assert 'bind ""' in conf.read_text()
    hub.stop()
    hub = start(*words)
    assert eventually(client, "an answer").config_get("bind") == {"bind": ""}
    assert not can_connect(port)
    hub.stop()
