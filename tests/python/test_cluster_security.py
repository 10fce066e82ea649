"""Hubs and the users, keys and certificates of their NATS servers."""

import json
import re
import time
import urllib.request

import pytest

from certificates import Authority, has_openssl
from nats_identities import NatsClient, Nkey, Operator, USER
from nats_servers import SERVER, NatsServer, Publisher, cluster_file, figures
from support import REPOSITORY, eventually, free_ports
from test_cluster import joined, wait_for

pytestmark = pytest.mark.skipif(not SERVER or not has_openssl(),
                                reason="there is no nats-server, or no openssl")

USERS = REPOSITORY / "ops/cluster/users.conf"


@pytest.fixture
def serve(tmp_path):
    """Starts a NATS server with a configuration; it is killed at the end."""
    started = []

    def start(text, **options):
        path = tmp_path / f"nats-{len(started)}.conf"
        path.write_text(text)
        server = NatsServer(tmp_path, *free_ports(1), options=["-c", path], **options)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


def secret(folder, name, value):
    path = folder / name
    path.write_text(value + "\n")
    return path


def pair(start_hub, folder, server, extra, edge_extra=None, names=("a", "b")):
    """An owner and an edge; returns both and the owner's publisher."""
    owner = start_hub("--cluster", cluster_file(
        folder, names[0], [server], source="nasdaq", extra=extra))
    publisher = Publisher(owner, "ONE")
    publisher.trade(1, 10, 5)
    edge = start_hub("--cluster", cluster_file(
        folder, names[1], [server], extra=extra if edge_extra is None else edge_extra))
    return owner, edge, publisher


def log_lines(hub, words):
    return [line for line in hub.stderr.splitlines() if words in line]


def refused(hub, words, what="no link to NATS"):
    """Waits for one line with these words, and that the hub serves on, more attempts later."""
    eventually(lambda: [line for line in log_lines(hub, what) if words in line],
               f"a line with '{words}': {hub.stderr}")
    hub.redis().set("key", "value")
    assert hub.redis().get("key") == b"value"


def test_a_hub_logs_in_by_user_and_password(serve, start_hub, tmp_path):
    server = serve("authorization { user: hub, password: 'right' }\n")
    extra = f"user = 'hub'\npassword-file = '{secret(tmp_path, 'password', 'right')}'"
    _, edge, _ = pair(start_hub, tmp_path, server, extra)
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)


def test_a_hub_logs_in_by_its_nkey(serve, start_hub, tmp_path):
    key, other = Nkey(tmp_path, USER), Nkey(tmp_path, USER)
    server = serve(f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}\n")
    extra = f"nkey = '{secret(tmp_path, 'seed', key.seed)}'"
    _, edge, _ = pair(start_hub, tmp_path, server, extra)
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    stranger = start_hub("--cluster", cluster_file(
        tmp_path, "c", [server], extra=f"nkey = '{secret(tmp_path, 'other', other.seed)}'"))
    refused(stranger, "authorization violation")


def test_a_hub_logs_in_by_a_credentials_file(serve, start_hub, tmp_path):
    operator = Operator(tmp_path)
    server = serve(operator.configuration)
    _, edge, _ = pair(start_hub, tmp_path, server, f"credentials = '{operator.credentials()}'")
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    stranger = start_hub("--cluster", cluster_file(tmp_path, "c", [server]))
    refused(stranger, "authorization violation")


def test_a_wrong_password_is_told_once_and_the_hub_serves_on(serve, start_hub, tmp_path):
    server = serve("authorization { user: hub, password: 'right' }\n")
    extra = f"user = 'hub'\npassword-file = '{secret(tmp_path, 'password', 'wrong')}'"
    hub = start_hub("--cluster", cluster_file(tmp_path, "a", [server], source="x", extra=extra))
    publisher = Publisher(hub, "ONE")
    publisher.trade(1, 10, 5)
    refused(hub, "authorization violation")
    wait_for(hub, "md:ONE", last=10, stale=0)
    begin, used = time.monotonic(), hub.processor_seconds()
    attempts = r"authentication error - User .hub."
    log = server.folder / "log"
    eventually(lambda: len(re.findall(attempts, log.read_text())) >= 6, f"it tries: {log}")
    assert len(log_lines(hub, "NATS")) == 1, hub.stderr
    # The thread that waited for a link took a whole core.
    assert hub.processor_seconds() - used < (time.monotonic() - begin) / 10
    assert "wrong" not in hub.stderr
    # The right one from now on.
    server.kill()
    config = server.options[1]
    with open(config, "w") as file:
        file.write("authorization { user: hub, password: 'wrong' }\n")
    server.start()
    eventually(lambda: (figures(hub) or {}).get("owner") == "1", "the hub owns its source")


def test_servers_without_jetstream_are_told_once_and_the_hub_serves_on(
    serve, start_hub, tmp_path
):
    port = free_ports(1)[0]
    server = serve(f"http: 127.0.0.1:{port}\n", jetstream=False)
    hub = start_hub("--cluster", cluster_file(tmp_path, "a", [server], source="nasdaq"))
    publisher = Publisher(hub, "ONE")
    publisher.trade(1, 10, 5)
    wait_for(hub, "md:ONE", last=10, stale=0)
    refused(hub, "JetStream", what="streams cannot be made")
    # Once a second it asks again; the log has the second line after ten seconds.
    def asked():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/varz", timeout=10) as answer:
            return json.load(answer)["in_msgs"]

    eventually(lambda: asked() >= 9, "it asks again and again")
    assert len(log_lines(hub, "streams cannot be made")) == 1, hub.stderr
    assert figures(hub)["owner"] == "0"


@pytest.fixture
def desk(serve, monkeypatch):
    """A server with the users of the example."""
    for number in (1, 2, 3):
        monkeypatch.setenv(f"HUB_{number}_PASSWORD", f"secret-{number}")
    return serve(USERS.read_text().replace("desk", "tests"))


def login(folder, number):
    password = secret(folder, f"password-{number}", f"secret-{number}")
    return f"user = 'hub-{number}'\npassword-file = '{password}'"


def desk_pair(start_hub, folder, server):
    return pair(start_hub, folder, server, login(folder, 1), login(folder, 3), ("hub-1", "hub-3"))


def test_an_owner_and_an_edge_work_with_exactly_the_rights_of_the_example(
    desk, start_hub, tmp_path
):
    owner, edge, publisher = desk_pair(start_hub, tmp_path, desk)
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    eventually(lambda: int(figures(owner)["snapshots"]) > 0, "a snapshot is stored")
    # An edge that joins later reads the snapshot and the log.
    publisher.trade(1, 11, 1)
    late = start_hub("--cluster", cluster_file(
        tmp_path, "hub-3", [desk], extra=login(tmp_path, 3)))
    wait_for(late, "md:ONE", last=11, volume=6, stale=0)
    joined(late)
    # And a standby, with the same rights as the owner, takes over.
    standby = start_hub("--cluster", cluster_file(
        tmp_path, "hub-2", [desk], source="nasdaq", extra=login(tmp_path, 2)))
    second = Publisher(standby, "ONE", session=78)
    second.trade(1, 12, 7)
    owner.kill()
    wait_for(edge, "md:ONE", last=12, volume=7, stale=0)
    for hub in (edge, late, standby):
        assert not log_lines(hub, "refuses"), hub.stderr
    assert "Permissions Violation" not in (desk.folder / "log").read_text()


def test_the_user_of_an_edge_can_publish_nothing_of_a_source(desk, start_hub, tmp_path):
    _, edge, publisher = desk_pair(start_hub, tmp_path, desk)
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    edge_user = NatsClient(desk.port, "hub-3", "secret-3")
    owner_user = NatsClient(desk.port, "hub-1", "secret-1")
    for subject in ("tw.tests.log.nasdaq.0", "tw.tests.live.nasdaq.0", "tw.tests.snap.nasdaq.0.head",
                    "tw.tests.log.nyse.0", "$KV.TW_tests.lease.nasdaq",
                    "$JS.API.STREAM.DELETE.TW_tests_LOG_nasdaq",
                    "$JS.API.STREAM.PURGE.KV_TW_tests", "_INBOX.x"):
        assert any("Permissions Violation" in error for error in edge_user.publish(subject, b"x"))
    for subject in ("tw.tests.log.nyse.0", "$KV.TW_tests.lease.nyse",
                    "$JS.API.STREAM.DELETE.TW_tests_LOG_nasdaq"):
        assert any("Permissions Violation" in error for error in owner_user.publish(subject, b"x"))
    assert owner_user.publish("tw.tests.live.nasdaq.0", b"x") == []
    publisher.trade(1, 11, 1)
    wait_for(edge, "md:ONE", last=11, volume=6, stale=0)
    edge_user.close()
    owner_user.close()


def test_a_hub_heard_the_inboxes_of_others_and_could_forge_what_nats_answers(
    desk, start_hub, tmp_path
):
    owner, edge, publisher = desk_pair(start_hub, tmp_path, desk)
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    standby = NatsClient(desk.port, "hub-2", "secret-2")
    for subject in ("_INBOX.>", "_INBOX.tests.>", "_INBOX.tests.hub-1.>", "_INBOX.tests.a.>",
                    "_INBOX.tests.*.>", "$JS.API.>", ">"):
        errors = standby.subscribe(subject)
        assert any("Permissions Violation" in error for error in errors), subject
    assert standby.subscribe("tw.tests.log.>") == []
    publisher.trade(1, 11, 1)
    wait_for(edge, "md:ONE", last=11, volume=6, stale=0)
    reply = eventually(lambda: heard_reply(standby), "a frame with its inbox")
    assert reply.startswith("_INBOX.tests.hub-1.")
    # The rights let it publish neither there nor anywhere below another hub's inbox.
    for subject in (reply, "_INBOX.tests.hub-1.x", "_INBOX.tests.hub-2.x"):
        errors = standby.publish(subject, b'{"stream":"TW_tests_LOG_nasdaq","seq":1}')
        assert any("Permissions Violation" in error for error in errors), subject
    # JetStream answers where a request says; what it sends is no acknowledgement, and no frame.
    sent = figures(owner)["frames"]
    for target in ("tw.tests.live.nasdaq.0", "tw.tests.snap.nasdaq.0.head", reply):
        assert standby.publish("$JS.API.DIRECT.GET.TW_tests_LOG_nasdaq", b'{"last_by_subj":'
                               b'"tw.tests.log.nasdaq.0"}', target) == []
    eventually(lambda: log_lines(edge, "a message that a stream has sent is ignored"),
               "the edge ignores it")
    publisher.trade(1, 12, 1)
    wait_for(edge, "md:ONE", last=12, volume=7, stale=0)
    eventually(lambda: int(figures(owner)["frames"]) > int(sent), "the owner has sent more")
    assert figures(owner)["owner"] == "1"
    eventually(lambda: figures(owner)["unacknowledged"] == "0", "all is acknowledged")
    standby.close()


def heard_reply(client):
    """The inbox that a message of a log names, if one was heard."""
    client.settle()
    for line, _ in client.messages:
        words = line.decode().split()
        if len(words) == 5:
            return words[3]
    return None


def test_a_source_without_the_right_to_publish_it_is_told_and_others_go_on(
    desk, start_hub, tmp_path
):
    _, edge, _ = desk_pair(start_hub, tmp_path, desk)
    thief = start_hub("--cluster", cluster_file(
        tmp_path, "hub-1", [desk], source="nyse", extra=login(tmp_path, 1)))
    Publisher(thief, "TWO", session=79).trade(1, 1, 1)
    refused(thief, "nyse", what="streams cannot be made")
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    assert not edge.hash("md:TWO")


def test_the_page_has_the_users_of_the_example():
    page = (REPOSITORY / "docs/cluster.md").read_text()
    assert f"```text\n{USERS.read_text()}```\n" in page


def tls_server(serve, authority, name="server", **names):
    certificate, key = authority.issue(name, "nats", **names)
    return serve(f"""
        tls {{
            cert_file: "{certificate}", key_file: "{key}"
            ca_file: "{authority.certificate}", verify: true
        }}
    """)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


def tls_lines(authority, ca=None, name="hub"):
    certificate, key = authority.issue(name, "hub")
    ca = ca or authority.certificate
    return f"tls-ca = '{ca}'\ntls-cert = '{certificate}'\ntls-key = '{key}'"


def test_hubs_and_servers_show_each_other_certificates(serve, start_hub, tmp_path, authority):
    server = tls_server(serve, authority)
    _, edge, _ = pair(start_hub, tmp_path, server, tls_lines(authority))
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    # A hub without a certificate of its own.
    extra = f"tls-ca = '{authority.certificate}'"
    bare = start_hub("--cluster", cluster_file(tmp_path, "c", [server], extra=extra))
    refused(bare, "ertificate")


@pytest.mark.parametrize("fault, says", [
    ("authority", "UnknownIssuer"), ("expired", "xpired"), ("name", "not valid for name"),
    ("plain", "does not speak TLS"),
])
def test_a_server_that_cannot_be_trusted_is_refused_with_the_reason(
    serve, start_hub, tmp_path, authority, fault, says
):
    ca = None
    match fault:
        case "authority":
            ca = Authority(tmp_path / "other", name="Other").certificate
            server = tls_server(serve, authority)
        case "expired":
            server = tls_server(serve, authority, days=-1)
        case "name":
            server = tls_server(serve, authority, names="DNS:another.example")
        case "plain":
            server = serve("")
    extra = tls_lines(authority, ca)
    hub = start_hub("--cluster", cluster_file(tmp_path, "a", [server], source="x", extra=extra))
    refused(hub, says)
    assert hub.info("cluster")["cluster_link_up"] == 0
    assert len(log_lines(hub, "no link to NATS")) == 1, hub.stderr
