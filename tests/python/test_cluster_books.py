"""Price levels across hubs over NATS, and what is known of them after a takeover."""

import pytest

import test_depth
from feed_client import ASK, BID, CLEAR, level
from nats_servers import SERVER, UNIT, Publisher, cluster_file
from test_cluster import owns, servers, wait_for  # noqa: F401

pytestmark = pytest.mark.skipif(not SERVER, reason="there is no nats-server")


def send_book(publisher, bids):
    """Sends a whole book, with one level on the other side."""
    levels = [(BID, price) for price in bids] + [(ASK, max(bids) + 1)]
    last = len(levels) - 1
    publisher.send(
        level(1, 0, 0, 0, action=CLEAR, time_ns=5),
        *(level(1, side, price * UNIT, 1, 1, is_last=number == last, time_ns=5)
          for number, (side, price) in enumerate(levels)))


def book_is(hub, depth, bids=None):
    def is_it(book):
        return book["depth"] == depth and (bids is None or len(book["bids"]) == bids)

    test_depth.wait_for(hub, "DEEP", is_it)


def test_a_book_is_unknown_after_a_takeover_until_its_source_begins_it_again(
    servers, start_hub, tmp_path  # noqa: F811
):
    nats = servers()
    hubs, publishers = [], []
    for number, name in enumerate("ab"):
        hub = start_hub("--cluster", cluster_file(tmp_path, name, nats, source="nasdaq"))
        hubs.append(hub)
        publishers.append(Publisher(hub, "DEEP", session=80 + number))
        if number == 0:
            owns(hub)
    edge = start_hub("--cluster", cluster_file(tmp_path, "c", nats))
    for publisher in publishers:
        publisher.trade(1, 10, 1)
    wait_for(edge, "md:DEEP", last=10)
    for publisher in publishers:
        send_book(publisher, [100, 99, 98])
    for hub in (*hubs, edge):
        book_is(hub, 65536, 3)
    hubs[0].kill()
    owns(hubs[1])
    # The standby has the book from its own feed, and goes on with it. The snapshot of its reign has
    # no levels, so at the edges the book is unknown.
    book_is(hubs[1], 65536, 3)
    book_is(edge, 0)
    send_book(publishers[1], [100, 99])
    for hub in (hubs[1], edge):
        book_is(hub, 65536, 2)
