"""CME MDP 3.0 into a hub: what its hashes say beside a naive exchange."""

import random
import socket
import time
from decimal import Decimal

import pytest

import mdp_packets
from mdp_packets import Exchange, packet, values
from support import eventually, free_ports


class Lines:
    """The sockets of an exchange: lines A and B, recovery and definitions."""

    def __init__(self):
        names = ["A", "B", "snapshot", "definition"]
        self.ports = dict(zip(names, free_ports(len(names))))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def option(self):
        return ",".join(f"{name}=127.0.0.1:{port}" for name, port in self.ports.items())

    def send(self, name, datagram):
        self.socket.sendto(datagram, ("127.0.0.1", self.ports[name]))

    def both(self, datagram):
        self.send("A", datagram)
        self.send("B", datagram)


@pytest.fixture
def lines():
    made = Lines()
    yield made
    made.socket.close()


def info(hub):
    """What INFO says of the first input."""
    pairs = (pair.split("=") for pair in hub.info("feed")["feed_input0"].split(","))
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def arrive(hub, exchange):
    """Waits until all packets have been received."""
    eventually(lambda: info(hub)["next_sequence"] == exchange.sequence + 1, "all packets")


def define(hub, lines, exchange, **options):
    for datagram in exchange.definitions(**options):
        lines.send("definition", datagram)
    names = [one.name for one in exchange.instruments]
    eventually(lambda: all(hub.redis().exists(f"md:{name}") for name in names), "definitions")


def is_equal(hub, exchange):
    """Waits until the hub says of every instrument what the exchange does."""
    expected = {one.name: one.values() for one in exchange.instruments}

    def differences():
        said = {name: hub.hash(f"md:{name}") for name in expected}
        return {
            name: (values(fields), expected[name], fields["stale"])
            for name, fields in said.items()
            if values(fields) != expected[name] or fields["stale"] != "0"
        }

    try:
        eventually(lambda: not differences(), "the values of the exchange")
    except AssertionError:
        raise AssertionError(differences()) from None


def recover(lines, exchange):
    for datagram in exchange.snapshots():
        lines.send("snapshot", datagram)


def test_books_trades_and_volumes_of_two_lines_that_lose_are_the_exchange_s(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange()
    define(hub, lines, exchange)
    rng = random.Random(5)
    lines.both(exchange.next())
    for _ in range(600):
        datagram = exchange.next()
        # A third is lost on each line, and none on both.
        lost = rng.choice(["A", "B", None])
        for name in "AB":
            if name != lost:
                lines.send(name, datagram)
        if exchange.sequence % 50 == 0:
            arrive(hub, exchange)
    arrive(hub, exchange)
    is_equal(hub, exchange)
    told = info(hub)
    assert (told["kind"], told["session"], told["connected"]) == ("mdp", "XCME:310", 1)
    assert (told["lost"], told["malformed"], told["in_doubt"]) == (0, 0, 0)
    assert told["a_lost"] > 100 and told["b_lost"] > 100


def test_after_a_loss_on_both_lines_values_are_stale_until_the_snapshot(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange(instruments=3, seed=2)
    define(hub, lines, exchange)
    for _ in range(60):
        lines.both(exchange.next())
    arrive(hub, exchange)
    is_equal(hub, exchange)
    for _ in range(30):
        exchange.next()
    lines.both(exchange.heartbeat())
    names = [f"md:{one.name}" for one in exchange.instruments]
    eventually(lambda: all(hub.hash(name)["stale"] == "2" for name in names), "doubt")
    # What comes meanwhile waits for the snapshot, which comes later and is of before it.
    snapshots = list(exchange.snapshots())
    for _ in range(20):
        lines.both(exchange.next())
    arrive(hub, exchange)
    for datagram in snapshots:
        lines.send("snapshot", datagram)
    is_equal(hub, exchange)
    assert info(hub)["lost"] == 30 and info(hub)["in_doubt"] == 0


def test_levels_of_an_instrument_are_read_and_stay_right_over_a_loss(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange(instruments=2, seed=4)
    define(hub, lines, exchange)
    client, one = hub.redis(protocol=3), exchange.instruments[0]

    def same_levels():
        book = client.execute_command("TIDEWIRE.BOOK", one.name)
        told = {
            kind: [(Decimal(price.decode()), size, orders) for price, size, orders in book[side]]
            for kind, side in ((b"0", b"bids"), (b"1", b"asks"))
        }
        expected = {
            kind: [(one.price(price), *level) for price, level in one.sorted(kind)[: one.depth]]
            for kind in one.sides
        }
        return told == expected and (book[b"depth"], book[b"stale"]) == (10, 0)

    for _ in range(100):
        lines.both(exchange.next())
    eventually(same_levels, "the whole book")
    for _ in range(50):
        lines.both(exchange.next())
    eventually(same_levels, "the changed levels")
    for _ in range(20):
        exchange.next()
    lines.both(exchange.heartbeat())
    book = f"TIDEWIRE.BOOK {one.name}"
    eventually(lambda: not client.execute_command(book)[b"bids"], "nothing is known of it")
    recover(lines, exchange)
    eventually(same_levels, "the book of the snapshot")


def test_a_halt_that_was_lost_does_not_leave_the_instruments_open_as_certain(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange(instruments=2, seed=2)
    define(hub, lines, exchange)
    for _ in range(60):
        lines.both(exchange.next())
    arrive(hub, exchange)
    is_equal(hub, exchange)
    names = [f"md:{one.name}" for one in exchange.instruments]
    assert [hub.hash(name)["state"] for name in names] == ["open", "open"]
    exchange.halt()
    # Every instrument's own sequence goes on without a hole.
    for _ in range(60):
        lines.both(exchange.next())
    arrive(hub, exchange)
    assert [hub.hash(name)["stale"] for name in names] == ["2", "2"]
    assert info(hub)["in_doubt"] == 2
    for datagram in exchange.snapshots(state=2):
        lines.send("snapshot", datagram)
    is_equal(hub, exchange)
    assert [hub.hash(name)["state"] for name in names] == ["halted", "halted"]


@pytest.mark.parametrize("wrong", ["better than the best", "another price", "no price", "negative"])
def test_an_entry_that_cannot_be_puts_the_book_in_doubt(start_hub, lines, wrong):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange(instruments=1, seed=2)
    define(hub, lines, exchange)
    for _ in range(60):
        lines.both(exchange.next())
    arrive(hub, exchange)
    is_equal(hub, exchange)
    one = exchange.instruments[0]
    best, (size, orders) = one.sorted(b"0")[0]
    entry = {
        "better than the best": (mdp_packets.NEW, 2, best + one.tick, size),
        "another price": (mdp_packets.DELETE, 1, best + one.tick, size),
        "no price": (mdp_packets.NEW, 1, mdp_packets.NULL_PRICE, size),
        "negative": (mdp_packets.CHANGE, 1, best, -5),
    }[wrong]
    time_ns = exchange.begin()
    told = mdp_packets.book(time_ns, [one.entry(b"0", *entry, orders)])
    lines.both(packet(exchange.sequence, told))
    eventually(lambda: hub.hash("md:TW0")["stale"] == "2", "doubt")
    recover(lines, exchange)
    is_equal(hub, exchange)


def test_an_instrument_defined_after_a_late_start_is_in_doubt_until_its_snapshot(start_hub, lines):
    exchange = Exchange(instruments=2, seed=3)
    for _ in range(300):
        exchange.next()
    hub = start_hub("--mdp", lines.option())
    lines.both(exchange.heartbeat())
    arrive(hub, exchange)
    define(hub, lines, exchange)
    names = [f"md:{one.name}" for one in exchange.instruments]
    eventually(lambda: all(hub.hash(name)["stale"] == "2" for name in names), "doubt")
    recover(lines, exchange)
    is_equal(hub, exchange)


def test_a_hub_that_starts_late_takes_its_books_from_the_snapshots(start_hub, lines):
    exchange = Exchange(instruments=5, seed=3)
    for _ in range(300):
        exchange.next()
    hub = start_hub("--mdp", lines.option())
    define(hub, lines, exchange)
    for _ in range(20):
        lines.both(exchange.next())
    arrive(hub, exchange)
    assert info(hub)["in_doubt"] == 5
    recover(lines, exchange)
    is_equal(hub, exchange)
    for _ in range(100):
        lines.both(exchange.next())
    is_equal(hub, exchange)
    assert info(hub)["lost"] == 0


def test_a_reset_empties_all_books_and_the_next_week_begins_again(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange(instruments=2, seed=4)
    define(hub, lines, exchange)
    for _ in range(50):
        lines.both(exchange.next())
    lines.both(exchange.reset())
    arrive(hub, exchange)
    is_equal(hub, exchange)
    assert hub.hash("md:TW0")["bid"] == ""
    for _ in range(50):
        lines.both(exchange.next())
    arrive(hub, exchange)
    is_equal(hub, exchange)
    # Another week: sequence 1, sent later.
    week, told = Exchange(instruments=2, seed=4), info(hub)["messages"]
    for number in range(3):
        datagram = week.next()
        later = mdp_packets.BEGIN_NS + 10**12 + number
        lines.both(packet(week.sequence, datagram[12:], time_ns=later))
    eventually(lambda: info(hub)["messages"] > told, "a new week")
    arrive(hub, week)
    is_prices = [one.values()[:4] for one in week.instruments]
    eventually(
        lambda: [values(hub.hash(f"md:{one.name}"))[:4] for one in week.instruments] == is_prices,
        "the books of the new week",
    )


def test_prices_have_the_display_factor_and_the_change_is_from_the_settlement(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option() + ",venue=XCBT"), Exchange(instruments=1)
    # 4,000.00 on the wire times 0.01 is the settlement of 40.
    define(hub, lines, exchange, reference=4_000_000_000_000)
    instrument = exchange.instruments[0]
    time_ns = exchange.begin()
    told = mdp_packets.trades(time_ns, [(instrument.security_id, 1, 4_400 * 10**9, 3, 1)])
    told += mdp_packets.volume(time_ns, instrument.security_id, 2, 3, mdp_packets.END_OF_EVENT)
    lines.both(packet(exchange.sequence, told))
    eventually(lambda: hub.hash("md:TW0")["last"] == "44", "a trade")
    fields = hub.hash("md:TW0")
    assert (fields["last_size"], fields["volume"], float(fields["change_pct"])) == ("3", "3", 10)
    assert info(hub)["session"] == "XCBT:310"


def test_a_cancelled_trade_and_statistics_leave_the_session_s_figures_right(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange(instruments=1)
    define(hub, lines, exchange)
    one = exchange.instruments[0]

    def send(*told):
        time_ns = exchange.begin()
        lines.both(packet(exchange.sequence, *(make(time_ns) for make in told)))

    def trade(price, size, action=mdp_packets.NEW):
        entry = (one.security_id, one.next(), price * 10**11, size, 1)
        return lambda time_ns: mdp_packets.trades(time_ns, [entry], action=action)

    def volume(size):
        number = one.next()
        return lambda time_ns: mdp_packets.volume(
            time_ns, one.security_id, number, size, mdp_packets.END_OF_EVENT)

    def figures(*names):
        fields = hub.hash("md:TW0")
        return [float(fields[name] or 0) for name in names]

    names = ["volume", "trades", "vwap", "open", "high", "low"]
    for number, price in enumerate((10, 12, 14), 1):
        send(trade(price, 2), volume(2 * number))
    eventually(lambda: figures(*names) == [6, 3, 12, 10, 14, 10], "three trades")
    send(trade(14, 2, action=mdp_packets.DELETE), volume(4))
    eventually(lambda: figures(*names) == [4, 2, 11, 10, 14, 10], "one of them cancelled")
    entries = [(one.security_id, one.next(), kind, price * 10**11)
               for kind, price in ((b"4", 9), (b"7", 13), (b"8", 8))]
    send(lambda time_ns: mdp_packets.statistics(time_ns, entries))
    eventually(lambda: figures(*names) == [4, 2, 11, 9, 13, 8], "the exchange's statistics")
    # A volume that the trades do not add up to, as of spreads: no price of it is known.
    send(volume(10))
    eventually(lambda: figures(*names) == [10, 2, 0, 9, 13, 8], "the exchange's volume")
    send(trade(15, 1), volume(11))
    eventually(lambda: figures(*names) == [11, 3, 0, 9, 15, 8], "another trade")
    assert hub.hash("md:TW0")["side"] == "buy"


def test_a_status_gives_the_trading_day(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange(instruments=1)
    define(hub, lines, exchange)
    one = exchange.instruments[0]
    # A later day begins a session, with or without its event.
    for state, event, later in (17, 0, 0), (21, 0, 1), (21, 4, 2):
        time_ns = exchange.begin()
        date = time_ns // (86_400 * 10**9) + later
        day = time.strftime("%Y%m%d", time.gmtime(date * 86_400))
        told = mdp_packets.status(time_ns, state, event=event, date=date)
        entry = (one.security_id, one.next(), date * 10**11, 2, 1)
        told += mdp_packets.trades(time_ns, [entry])
        told += mdp_packets.volume(time_ns, one.security_id, one.next(), 2,
                                   mdp_packets.END_OF_EVENT)
        lines.both(packet(exchange.sequence, told))
        eventually(lambda: hub.hash("md:TW0")["trading_day"] == day, day)
        eventually(lambda: hub.hash("md:TW0")["last"] == str(date), "the trade")
        fields = hub.hash("md:TW0")
        assert (fields["volume"], fields["trades"], fields["open"]) == ("2", "1", str(date))


def test_orders_of_a_level_are_followed_by_their_number(start_hub, lines):
    (orders,) = free_ports(1)
    hub = start_hub("--mdp", f"{lines.option()},orders=127.0.0.1:{orders}")
    exchange = Exchange(instruments=1)
    define(hub, lines, exchange)
    instrument, kind, new, gone = exchange.instruments[0], b"0", 0, 2
    told = []
    for changes in ([(1, 5, new), (2, 7, new)], [(1, 0, gone)], [(2, 0, gone), (9, 0, gone)]):
        left = {1: (12, 2), 2: (7, 1), 3: None}[len(told) + 1]
        time_ns = exchange.begin()
        entries = instrument.set(kind, instrument.middle, left)
        packed = [mdp_packets.order_entry(number, size, 1, action)
                  for number, size, action in changes]
        told.append(mdp_packets.book(time_ns, entries, packed))
        lines.both(packet(exchange.sequence, told[-1]))
    arrive(hub, exchange)
    is_equal(hub, exchange)
    assert info(hub)["unknown_orders"] == 1, "order 9 was never there"


def test_what_is_no_packet_is_counted_and_harmless(start_hub, lines):
    hub, exchange = start_hub("--mdp", lines.option()), Exchange(instruments=2, seed=6)
    define(hub, lines, exchange)
    rng = random.Random(1)
    for number in range(200):
        good = exchange.next()
        lines.both(good)
        for name in ("A", "snapshot", "definition"):
            # A copy with an old sequence and wrong bytes, or cut anywhere.
            bad = bytearray(good[: rng.randrange(len(good))])
            for _ in range(min(3, len(bad) // 20)):
                bad[rng.randrange(12, len(bad))] = rng.randrange(256)
            lines.send(name, bytes(bad))
    arrive(hub, exchange)
    is_equal(hub, exchange)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("B=127.0.0.1:5", "no address"),
        ("127.0.0.1", "no port"),
        ("127.0.0.1:5,C=1", "unknown name 'C'"),
        ("127.0.0.1:5,venue=CHICAGO", "longer than 4"),
        ("203.0.113.7:5", "cannot listen on 203.0.113.7:5"),
    ],
)
def test_an_input_that_cannot_be_is_named(start, text, words):
    ports = [f"127.0.0.1:{port}" for port in free_ports(4)]
    program = start("serve", "--resp", ports[0], "--zmq-pub", ports[1], "--zmq-pull", ports[2],
                    "--feed", ports[3], "--mdp", text)
    assert program.wait() == 2
    assert words in program.stderr and "--mdp" in program.stderr
