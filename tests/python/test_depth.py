"""Price levels: native `Level` messages in, TIDEWIRE.BOOK and `book:` topics out."""

import json

import dbn_file
import itch_file
import pytest
import redis
from feed_client import (
    ASK,
    BID,
    CLEAR,
    CONTROL,
    LIVE,
    FeedClient,
    definition,
    level,
    login,
    quote,
)
from support import DATA, Reply, RespSocket, eventually, free_ports

UNIT = 10**9
ES = DATA / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"
needs_es = pytest.mark.skipif(not ES.is_file(), reason=f"{ES} is missing")


class Publisher:
    """A publisher of one symbol's levels."""

    def __init__(self, hub, name="DEEP", session=91):
        self.hub, self.session, self.sequence = hub, session, 1
        self.client = FeedClient(hub.connect(hub.feed_port))
        self.client.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1))
        self.client.until(lambda: self.client.accepted)
        self.send(definition(3, name))

    def send(self, *messages):
        self.client.send(LIVE, self.sequence, *messages, session=self.session)
        self.sequence += len(messages)

    def book(self, bids, asks, time_ns=5):
        """Sends a whole book."""
        levels = [(BID, *one) for one in bids] + [(ASK, *one) for one in asks]
        messages = [level(3, 0, 0, 0, action=CLEAR, time_ns=time_ns)]
        for position, (side, price, size, orders) in enumerate(levels):
            is_last = position == len(levels) - 1
            messages.append(
                level(3, side, price * UNIT, size, orders, is_last=is_last, time_ns=time_ns)
            )
        self.send(*messages)


BIDS = [(100, 5, 2), (99, 7, 1), (98, 1, 1)]
ASKS = [(101, 4, 1), (103, 9, 3)]


def as_book(reply):
    """The book of a RESP2 reply."""
    pairs = dict(zip(reply[::2], reply[1::2], strict=True))
    return {name.decode(): value for name, value in pairs.items()}


def wait_for(hub, symbol, condition):
    client = hub.redis()

    def found():
        try:
            book = as_book(client.execute_command("TIDEWIRE.BOOK", symbol))
        except redis.ResponseError as error:
            # Its definition is still on its way.
            assert str(error) == "unknown symbol"
            return False
        return condition(book) and book

    return eventually(found, "the book")


def test_a_publishers_levels_are_read_with_one_command(hub):
    publisher = Publisher(hub)
    publisher.book(BIDS, ASKS)
    book = wait_for(hub, "DEEP", lambda book: book["bids"])
    assert book["symbol"] == b"DEEP" and book["depth"] == 65_536 and book["ts"] == 5
    assert book["bids"] == [[b"100", 5, 2], [b"99", 7, 1], [b"98", 1, 1]]
    assert book["asks"] == [[b"101", 4, 1], [b"103", 9, 3]]
    assert book["seq"] > 0 and book["stale"] == 0
    client = hub.redis()
    few = as_book(client.execute_command("TIDEWIRE.BOOK", "DEEP", "LEVELS", 1))
    assert (few["bids"], few["asks"]) == ([[b"100", 5, 2]], [[b"101", 4, 1]])
    publisher.client.socket.close()
    wait_for(hub, "DEEP", lambda book: book["stale"] == 1 and len(book["bids"]) == 3)


def test_the_reply_is_a_map_in_resp3(hub):
    Publisher(hub).book(BIDS, ASKS)
    wait_for(hub, "DEEP", lambda book: book["bids"])
    book = hub.redis(protocol=3).execute_command("TIDEWIRE.BOOK", "DEEP")
    assert list(book) == [b"symbol", b"seq", b"ts", b"stale", b"depth", b"bids", b"asks"]


def test_an_unknown_symbol_is_an_error_and_a_known_one_without_levels_has_depth_0(hub):
    client = hub.redis()
    with pytest.raises(redis.ResponseError, match="unknown symbol"):
        client.execute_command("TIDEWIRE.BOOK", "NOBODY")
    for wrong in [("LEVELS",), ("LEVELS", "0"), ("LEVELS", "x"), ("DEPTH", "1")]:
        with pytest.raises(redis.ResponseError):
            client.execute_command("TIDEWIRE.BOOK", "DEEP", *wrong)
    publisher = Publisher(hub)
    publisher.send(quote(3, UNIT, 2 * UNIT, 1, 1, 5))
    eventually(lambda: hub.hash("md:DEEP"), "the topic")
    book = as_book(client.execute_command("TIDEWIRE.BOOK", "DEEP"))
    assert (book["depth"], book["bids"], book["asks"]) == (0, [], [])


def test_levels_without_the_start_of_their_book_are_no_book(hub):
    publisher = Publisher(hub)
    publisher.send(level(3, BID, UNIT, 1, is_last=True), quote(3, UNIT, 2 * UNIT, 1, 1, 5))
    eventually(lambda: hub.hash("md:DEEP").get("bid") == "1", "the quote")
    book = as_book(hub.redis().execute_command("TIDEWIRE.BOOK", "DEEP"))
    assert (book["depth"], book["bids"]) == (0, [])


@pytest.mark.parametrize("names", [{"channels": ["book:DEEP"]}, {"patterns": ["book:*"]}])
def test_a_subscriber_gets_the_book_and_then_what_changes(hub, names):
    publisher = Publisher(hub)
    publisher.book(BIDS, ASKS)
    wait_for(hub, "DEEP", lambda book: book["bids"])
    subscriber = hub.subscriber(*names.get("channels", []), patterns=names.get("patterns", ()))
    first = subscriber.json()
    assert first["symbol"] == "DEEP" and first["snapshot"] is True
    assert first["bids"] == [[100, 5, 2], [99, 7, 1], [98, 1, 1]]
    assert first["asks"] == [[101, 4, 1], [103, 9, 3]]
    publisher.send(
        level(3, BID, 100 * UNIT, 0, 0),
        level(3, ASK, 102 * UNIT, 8, 2, is_last=True, time_ns=9),
    )
    change = subscriber.json()
    assert change["bids"] == [[100, 0, 0]] and change["asks"] == [[102, 8, 2]]
    assert change["update"] == first["update"] + 1 and change["ts"] == 9
    assert "snapshot" not in change and change["seq"] > first["seq"]
    publisher.send(level(3, BID, 99 * UNIT, 6, 1, is_last=True))
    assert subscriber.json()["bids"] == [[99, 6, 1]]


def test_who_subscribes_before_the_symbol_exists_gets_its_book(hub):
    one, all_of_them = hub.subscriber("book:DEEP"), hub.subscriber(patterns=["book:*"])
    Publisher(hub).book(BIDS, ASKS)
    for subscriber in (one, all_of_them):
        book = subscriber.json()
        assert book["snapshot"] is True and len(book["bids"]) == 3


def test_the_first_message_of_a_subscription_is_a_snapshot_also_before_the_book_begins(hub):
    subscriber = hub.subscriber("book:DEEP")
    publisher = Publisher(hub)
    publisher.send(level(3, BID, UNIT, 1, is_last=True), quote(3, UNIT, 2 * UNIT, 1, 1, 5))
    eventually(lambda: hub.hash("md:DEEP").get("bid") == "1", "the quote")
    publisher.book(BIDS, ASKS)
    first = subscriber.json()
    assert first["snapshot"] is True and first["update"] == 1 and first["depth"] == 65_536
    assert first["bids"] == [[100, 5, 2], [99, 7, 1], [98, 1, 1]]


def test_the_removal_of_a_level_that_is_not_there_is_not_published(hub):
    publisher = Publisher(hub)
    publisher.book(BIDS, ASKS)
    wait_for(hub, "DEEP", lambda book: book["bids"])
    subscriber = hub.subscriber("book:DEEP")
    first = subscriber.json()
    publisher.send(
        level(3, BID, 50 * UNIT, 0, 0, is_last=True),
        level(3, ASK, 150 * UNIT, 0, 0),
        level(3, ASK, 101 * UNIT, 0, 0, is_last=True),
    )
    change = subscriber.json()
    assert change["update"] == first["update"] + 1
    assert change["asks"] == [[101, 0, 0]] and "bids" not in change


FULL = 65_536


def send_bids(publisher, prices, size=1):
    """Sends bids as one event, in packets of up to 1,000."""
    prices = list(prices)
    for start in range(0, len(prices), 1_000):
        levels = [
            level(3, BID, price * UNIT, size, is_last=price == prices[-1])
            for price in prices[start : start + 1_000]
        ]
        publisher.send(*levels)


def test_a_book_that_left_levels_out_never_has_depth_all(hub):
    publisher = Publisher(hub)
    publisher.send(level(3, 0, 0, 0, action=CLEAR))
    send_bids(publisher, range(1, FULL + 1_001))
    book = wait_for(hub, "DEEP", lambda book: book["bids"])
    assert book["depth"] == FULL - 1 and book["bids"][0][0] == b"66536"
    # The best 1,000 levels are all that the hub knows after this.
    send_bids(publisher, range(2_001, FULL + 1_001), size=0)
    book = wait_for(hub, "DEEP", lambda book: book["bids"][0][0] == b"2000")
    assert book["depth"] == 1_000
    send_bids(publisher, range(1_001, 2_001), size=0)
    wait_for(hub, "DEEP", lambda book: book["depth"] == 0 and not book["bids"])
    publisher.book(BIDS, ASKS)
    wait_for(hub, "DEEP", lambda book: book["depth"] == FULL and len(book["bids"]) == 3)


def test_a_subscriber_of_a_huge_book_gets_its_newest_state_and_every_change(hub):
    publisher = Publisher(hub)
    subscriber = hub.subscriber("book:DEEP")
    publisher.send(level(3, 0, 0, 0, action=CLEAR))
    send_bids(publisher, range(FULL, 0, -1))
    change = subscriber.json()
    assert change["snapshot"] is True and len(change["bids"]) == FULL
    sides, update = {"bids": {}, "asks": {}}, change["update"]
    apply(sides, change)
    # Each of these clears has 65,536 levels to tell: 2.5 GB, if each were written.
    changes = []
    for size in range(2, 1_002):
        changes.append(level(3, ASK, 0, 0, action=CLEAR, is_last=True))
        changes.append(level(3, BID, FULL * UNIT, size, is_last=True))
    publisher.send(*changes[:1_000])
    publisher.send(*changes[1_000:])
    # Better bids push out the worst.
    send_bids(publisher, range(FULL + 1, FULL + 11))
    snapshots = 0
    while FULL + 10 not in bids_of(sides):
        change = subscriber.json()
        assert change["update"] > update
        assert change.get("snapshot") or change["update"] == update + 1
        update, snapshots = change["update"], snapshots + bool(change.get("snapshot"))
        apply(sides, change)
    bids = bids_of(sides)
    assert (min(bids), max(bids), len(bids)) == (11, FULL + 10, FULL)
    assert bids[FULL] == 1_001 and 1 <= snapshots < 100
    assert hub.redis().ping()


def bids_of(sides):
    return {price // UNIT: size for price, size in sides["bids"].items()}


def test_a_zeromq_subscriber_gets_the_book_too(hub):
    publisher = Publisher(hub)
    publisher.book(BIDS, ASKS)
    wait_for(hub, "DEEP", lambda book: book["bids"])
    socket = hub.sub("book:DEEP")
    topic, payload = socket.recv_multipart()
    assert topic == b"book:DEEP" and json.loads(payload)["snapshot"] is True
    publisher.send(level(3, BID, 99 * UNIT, 6, 1, is_last=True))
    assert json.loads(socket.recv_multipart()[1])["bids"] == [[99, 6, 1]]


def test_clients_cannot_publish_false_levels(hub):
    Publisher(hub).book(BIDS, ASKS)
    subscriber = hub.subscriber("book:DEEP")
    subscriber.json()
    with pytest.raises(redis.ResponseError, match="live source"):
        hub.redis().publish("book:DEEP", "{}")


def test_no_peer_forges_a_book_of_a_symbol_that_nobody_has_asked_for(hub):
    """A PUSH reached every subscriber of `book:DEEP`, and PUBLISH those of unknown symbols."""
    Publisher(hub).book(BIDS, ASKS)
    with pytest.raises(redis.ResponseError, match="live source"):
        hub.redis().publish("book:UNKNOWN", "{}")
    push = hub.push()
    push.send_multipart([b"book:DEEP", b"forged"])
    push.send_multipart([b"book:UNKNOWN", b"forged"])
    eventually(lambda: hub.redis().info("topics")["zmq_rejected_mounted"] == 2, "refusals")
    assert hub.redis().exists("book:DEEP", "book:UNKNOWN") == 0


def test_a_slow_subscriber_gets_whole_books_instead_of_missed_changes(hub):
    publisher = Publisher(hub)
    publisher.book(BIDS, ASKS)
    wait_for(hub, "DEEP", lambda book: book["bids"])
    slow = RespSocket(hub.connect(hub.resp_port, receive_buffer_bytes=4_096))
    slow.send("SUBSCRIBE", "book:DEEP")
    rounds = 40_000
    for start in range(0, rounds, 500):
        changes = [
            level(3, BID, 100 * UNIT, size, 1, is_last=True)
            for size in range(start + 1, start + 501)
        ]
        publisher.send(*changes)
    wait_for(hub, "DEEP", lambda book: book["bids"][0][1] == rounds)
    slow.read()
    update, bids, conflated = 0, {}, 0
    while bids.get(100) != rounds:
        change = json.loads(slow.read()[2])
        assert change["update"] > update
        if change.get("snapshot"):
            bids = {}
            conflated += update > 0
        else:
            assert change["update"] == update + 1, "no change is missing without a snapshot"
        update = change["update"]
        bids.update({price: size for price, size, _ in change["bids"]})
    assert conflated > 0 and bids == {100: rounds, 99: 7, 98: 1}


def test_a_client_of_the_hubs_feed_gets_the_levels(hub):
    follower = FeedClient(hub.connect(hub.feed_port))
    follower.join("*")
    publisher = Publisher(hub)
    publisher.book(BIDS, ASKS)
    levels = []

    def has_all():
        levels[:] = [one for _, one in follower.live if type(one).__name__ == "Level"]
        return len(levels) == 6

    follower.until(has_all)
    assert [one.action for one in levels] == [CLEAR, 0, 0, 0, 0, 0]
    assert follower.names[levels[0].symbol] == "DEEP"
    assert (levels[1].price, levels[1].size, levels[1].orders) == (100 * UNIT, 5, 2)


def prices_and_sizes(levels):
    return [(round(float(price) * UNIT), size) for price, size, _ in levels]


def apply(sides, change):
    """Applies a message of a `book:` topic to levels by price."""
    if change.get("snapshot"):
        sides["bids"], sides["asks"] = {}, {}
    for side, levels in sides.items():
        for price, size, _ in change.get(side, []):
            levels.pop(round(price * UNIT), None)
            if size:
                levels[round(price * UNIT)] = size


def test_an_exchange_s_book_is_followed_from_the_middle_of_the_day(start_hub, start, tmp_path):
    path = tmp_path / "20240105.itch"
    made = start("itch", "generate", path, "--messages", "60k", "--symbols", "8")
    assert made.wait(60) == 0, made.stderr
    market = itch_file.Market(itch_file.frames(path.read_bytes()))
    line, request = free_ports(2)
    lines = f"A=127.0.0.1:{line},request=127.0.0.1:{request}"
    hub = start_hub("--mold", f"{lines},date=2024-01-05")
    sender = start("itch", "send", path, "--rate", "20k", "--mold", lines, "--linger", "60s")

    def messages():
        pairs = (pair.split("=") for pair in hub.info("feed")["feed_input0"].split(","))
        return int(dict(pairs)["messages"])

    eventually(lambda: messages() > 15_000, "a part of the day")
    locate, name = next(iter(market.names.items()))
    client = hub.redis()
    first = as_book(client.execute_command("TIDEWIRE.BOOK", name))
    assert first["depth"] == 0, "no client has asked before"
    subscriber = hub.subscriber(f"book:{name}")
    sides, update = {"bids": {}, "asks": {}}, 0
    expected = {
        side: {
            price * UNIT // 10_000: size
            for (own, kind, price), size in market.levels.items()
            if own == locate and kind == letter and size
        }
        for side, letter in (("bids", b"B"), ("asks", b"S"))
    }
    eventually(lambda: messages() == 60_000, "the day", patience_s=60)
    book = as_book(client.execute_command("TIDEWIRE.BOOK", name, "LEVELS", 65_536))
    assert book["depth"] == 65_536
    assert {side: dict(prices_and_sizes(book[side])) for side in sides} == expected
    while update < 1 or change["seq"] < book["seq"]:
        change = subscriber.json()
        assert change.get("snapshot") or change["update"] == update + 1
        update = change["update"]
        apply(sides, change)
    assert sides == expected
    sender.stop()


@needs_es
def test_the_levels_of_a_replayed_session_are_those_of_its_orders(hub, start):
    subscriber = hub.subscriber("book:ESH4")
    to = f"127.0.0.1:{hub.feed_port}"
    program = start("replay", ES, "--to", to, "--speed", "max", "--depth", "10")
    assert program.wait(60) == 0, program.stderr
    name, market, _ = dbn_file.follow(ES)
    expected = [
        sorted(market.levels[b"B"].items(), reverse=True)[:10],
        sorted(market.levels[b"A"].items())[:10],
    ]
    book = as_book(hub.redis().execute_command("TIDEWIRE.BOOK", name))
    assert book["depth"] == 10 and book["stale"] == 1
    assert [prices_and_sizes(book[side]) for side in ("bids", "asks")] == expected
    # A subscriber that applies the changes has the same book.
    sides, update, is_stale = {"bids": {}, "asks": {}}, 0, 0
    while not is_stale:
        change = subscriber.json()
        assert change.get("snapshot") or change["update"] == update + 1
        update, is_stale = change["update"], change["stale"]
        apply(sides, change)
    assert [sides["bids"], sides["asks"]] == [dict(levels) for levels in expected]


def test_a_book_is_for_those_who_may_read_its_key(hub):
    """Any user with the command read every book."""
    Publisher(hub).book(BIDS, ASKS)
    wait_for(hub, "DEEP", lambda book: book["bids"])
    admin = hub.redis()
    admin.execute_command("ACL", "SETUSER", "one", "on", ">p", "%R~book:DEEP", "+tidewire.book")
    rules = "~app:*", "+@read", "+multi", "+exec"
    admin.execute_command("ACL", "SETUSER", "other", "on", ">p", *rules)
    one, other = (RespSocket(hub.resp()) for _ in range(2))
    one.call("AUTH", "one", "p")
    assert as_book(one.call("TIDEWIRE.BOOK", "DEEP"))["bids"]
    other.call("AUTH", "other", "p")
    for symbol in ("DEEP", "NOBODY"):
        with pytest.raises(Reply, match="NOPERM"):
            other.call("TIDEWIRE.BOOK", symbol)
    other.call("MULTI")
    other.call("TIDEWIRE.BOOK", "DEEP")
    with pytest.raises(Reply, match="NOPERM"):
        other.call("EXEC")
