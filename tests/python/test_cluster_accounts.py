"""An edge in an account of its own, as in ops/cluster/accounts.conf."""

import pytest

from nats_identities import NatsClient
from nats_servers import SERVER, cluster_file, figures
from support import REPOSITORY, eventually
from test_cluster import joined, wait_for
from test_cluster_security import log_lines, login, pair, serve

assert serve  # A fixture.

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")

ACCOUNTS = REPOSITORY / "ops/cluster/accounts.conf"
EDGE = "domain = 'tests'\n"


@pytest.fixture
def desk(serve, monkeypatch):
    """A server with the accounts of the example, and an administrator of the owners' account."""
    for number in (1, 2, 3):
        monkeypatch.setenv(f"HUB_{number}_PASSWORD", f"secret-{number}")
    text = ACCOUNTS.read_text().replace("desk", "tests")
    admin = 'users: [ { user: "admin", password: "admin" }'
    return serve(text.replace("users: [", admin, 1))


def edge_of(folder):
    return EDGE + login(folder, 3)


def test_an_edge_in_an_account_of_its_own_has_the_values_and_joins_late(
    desk, start_hub, tmp_path
):
    owner, edge, publisher = pair(
        start_hub, tmp_path, desk, login(tmp_path, 1), edge_of(tmp_path), ("hub-1", "hub-3"))
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    eventually(lambda: int(figures(owner)["snapshots"]) > 0, "a snapshot is stored")
    publisher.trade(1, 11, 1)
    late = start_hub("--cluster", cluster_file(
        tmp_path, "hub-3", [desk], extra=edge_of(tmp_path)))
    wait_for(late, "md:ONE", last=11, volume=6, stale=0)
    joined(late)
    for hub in (owner, edge, late):
        assert not log_lines(hub, "refuses"), hub.stderr
    assert "Permissions Violation" not in (desk.folder / "log").read_text()


def test_an_edge_had_nats_answer_to_any_subject_of_the_owners(desk, start_hub, tmp_path):
    _, edge, publisher = pair(
        start_hub, tmp_path, desk, login(tmp_path, 1), edge_of(tmp_path), ("hub-1", "hub-3"))
    wait_for(edge, "md:ONE", last=10, volume=5, stale=0)
    admin = NatsClient(desk.port, "admin", "admin")
    user = NatsClient(desk.port, "hub-3", "secret-3")
    assert admin.subscribe("tw.tests.keys.main") == []
    assert admin.subscribe("tw.tests.log.nyse.0") == []
    last = b'{"last_by_subj":"tw.tests.log.nasdaq.0"}'
    for reply in ("tw.tests.keys.main", "tw.tests.log.nyse.0"):
        for request, payload in (("STREAM.INFO.KV_TW_tests", b""),
                                 ("STREAM.MSG.GET.TW_tests_LOG_nasdaq", last),
                                 ("DIRECT.GET.TW_tests_LOG_nasdaq", last)):
            assert user.publish(f"$JS.tests.API.{request}", payload, reply) == []
            refused = user.publish(f"$JS.API.{request}", payload, reply)
            assert any("Permissions Violation" in error for error in refused)
    # What the edge asks for afterwards is answered after that.
    late = start_hub("--cluster", cluster_file(
        tmp_path, "hub-3", [desk], extra=edge_of(tmp_path)))
    publisher.trade(1, 11, 1)
    wait_for(late, "md:ONE", last=11, volume=6, stale=0)
    admin.settle()
    assert admin.messages == []
    # The same request of a user of the owners' account reaches them.
    assert admin.publish("$JS.API.STREAM.INFO.KV_TW_tests", b"", "tw.tests.keys.main") == []
    eventually(lambda: admin.settle() or admin.messages, "the answer of NATS is heard")
    user.close()
    admin.close()


def test_the_page_names_the_accounts_of_the_example():
    page = (REPOSITORY / "docs/cluster.md").read_text()
    assert "ops/cluster/accounts.conf" in page and '`domain = "desk"`' in page
