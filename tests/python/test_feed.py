"""The native feed: a client of it, the hub as its client over a bad link, and lost sources."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from feed_client import (
    ABSENT, CONTROL, FILTERED, HEARTBEAT, LIVE, RETRANSMISSION, SNAPSHOT, Definition, FeedClient,
    Skip,
    accepted, crc32c, definition, encode, last_value, login, mark, messages_of, notice, quote,
    request, skip, snapshot_request, subscribe, too_old, trade, unsubscribe, status,
)
from support import RespSocket, command, eventually, free_ports, wait_for_values


def test_the_checksum_is_castagnolis():
    assert crc32c(b"123456789") == 0xE3069283


def joined(hub, *patterns):
    client = FeedClient(hub.connect(hub.feed_port))
    client.join(*patterns)
    client.until(lambda: client.snapshots)
    return client


def nanos(text):
    return int(Decimal(text) * 10**9)


def test_login_snapshot_and_live(simulated):
    client = joined(simulated, "*")
    assert client.accepted.session != 0 and client.accepted.heartbeat_ms <= 1000
    assert client.accepted.oldest <= client.accepted.next
    assert len(client.names) == 10 and "RELIANCE" in client.names.values()
    assert len(client.values) == 10, "the snapshot has a value of each symbol"
    client.until(lambda: len(client.live) > 200)
    sequences = [sequence for sequence, _ in client.live]
    assert sequences == sorted(set(sequences))
    assert client.expected > client.accepted.next


def test_values_of_the_feed_are_those_of_the_hash(simulated):
    client = joined(simulated, "*")
    simulated.simulator.stop()
    eventually(lambda: simulated.hash("md:RELIANCE")["stale"] == "1", "the end of the source")
    end = simulated.info("feed")["feed_next_sequence"]
    client.until(lambda: client.expected == end)
    for symbol, name in client.names.items():
        fields, value = simulated.hash(f"md:{name}"), client.values[symbol]
        assert value["seq"] == int(fields["seq"])
        for price in ("bid", "ask", "last"):
            assert value[price] == nanos(fields[price]), (name, price)


def test_a_selection_skips_what_was_not_asked_for_and_accounts_for_it(simulated):
    client = joined(simulated, "RELIANCE", "T?S")
    assert set(client.names.values()) == {"RELIANCE", "TCS"}
    kinds = set()
    while len(client.live) < 50 or Skip not in kinds:
        packet = client.step()
        if packet.flags & FILTERED:
            kinds |= {type(message) for message in messages_of(packet)}
    assert {message.symbol for _, message in client.live} <= set(client.names)
    client.send(CONTROL, 0, unsubscribe("T?S"))
    reliance = next(symbol for symbol, name in client.names.items() if name == "RELIANCE")

    def only_reliance():
        client.live.clear()
        client.until(lambda: len(client.live) >= 10)
        return {message.symbol for _, message in client.live} == {reliance}

    eventually(only_reliance, "RELIANCE alone")


def test_a_later_subscription_and_a_request_bring_a_snapshot(simulated):
    client = joined(simulated, "RELIANCE")
    client.send(CONTROL, 0, subscribe("INFY"))
    client.until(lambda: client.snapshots == 2)
    assert set(client.names.values()) == {"RELIANCE", "INFY"}
    client.send(CONTROL, 0, snapshot_request("*"))
    client.until(lambda: client.snapshots == 3)


def test_a_heartbeat_carries_the_next_sequence_and_keeps_coming(simulated):
    client = joined(simulated, "*")
    simulated.simulator.stop()
    begin = time.monotonic()
    seen = len(client.heartbeats)
    client.until(lambda: len(client.heartbeats) >= seen + 6)
    assert client.heartbeats[-1].first == simulated.info("feed")["feed_next_sequence"]
    client.send(HEARTBEAT, 0)
    client.until(lambda: len(client.heartbeats) >= seen + 8)
    assert time.monotonic() - begin < 10, "at most an interval apart"


def test_what_was_lost_is_sent_again(simulated):
    client = joined(simulated, "*")
    client.until(lambda: len(client.live) >= 30)
    wanted = dict(client.live[:20])
    first, last = min(wanted), max(wanted)
    client.send(CONTROL, 0, request(first, last - first + 1))
    again = {}
    while len(again) < last - first + 1:
        packet = client.receive()
        if packet.flags & RETRANSMISSION and not packet.flags & (CONTROL | HEARTBEAT):
            for offset, message in enumerate(messages_of(packet)):
                again[packet.first + offset] = message
    assert all(again[sequence] == message for sequence, message in wanted.items())


def test_a_client_resumes_where_it_was(simulated):
    client = joined(simulated, "*")
    client.until(lambda: len(client.live) >= 50)
    session, expected = client.accepted.session, client.expected
    client.socket.close()
    missed = simulated.info("feed")["feed_next_sequence"]
    eventually(
        lambda: simulated.info("feed")["feed_next_sequence"] > missed + 200, "messages meanwhile"
    )
    again = FeedClient(simulated.connect(simulated.feed_port), expected=expected)
    again.join("*", next_sequence=expected, session=session)
    again.until(lambda: again.expected > missed + 200)
    assert again.accepted.session == session and again.snapshots == 0
    [first, *_] = again.live
    assert first[0] == expected, "it goes on with the very next message"


def test_a_publisher_feeds_the_hub(hub):
    client = FeedClient(hub.connect(hub.feed_port))
    client.send(CONTROL, 0, login(0, next_sequence=1, session=77, role=1))
    client.until(lambda: client.accepted)
    assert client.accepted.session == 77 and client.accepted.next == 1
    now_ns = time.time_ns()
    messages = [
        definition(4, "OWN", 100 * 10**9),
        quote(4, 99_500_000_000, 100_500_000_000, 7, 8, now_ns),
        trade(4, 101 * 10**9, 3, now_ns),
    ]
    client.send(LIVE, 1, *messages, session=77)
    fields = eventually(
        lambda: (found := hub.hash("md:OWN")) and found["last"] and found, "the published topic"
    )
    assert (fields["bid"], fields["ask"], fields["last"]) == ("99.5", "100.5", "101")
    assert (fields["bid_size"], fields["ask_size"], fields["last_size"]) == ("7", "8", "3")
    assert (fields["volume"], fields["ts"]) == ("3", str(now_ns))
    assert Decimal(fields["change_pct"]) == 1 and fields["stale"] == "0"
    client.socket.close()
    eventually(lambda: hub.hash("md:OWN")["stale"] == "1", "the mark of a lost publisher")


def test_a_publishers_gap_is_asked_for(hub):
    client = FeedClient(hub.connect(hub.feed_port))
    client.send(CONTROL, 0, login(0, next_sequence=1, session=78, role=1))
    client.until(lambda: client.accepted)
    now_ns = time.time_ns()
    client.send(LIVE, 1, definition(0, "GAP"), session=78)
    client.send(LIVE, 4, trade(0, 4 * 10**9, 4, now_ns), session=78)
    asked = None
    while asked is None:
        packet = client.receive()
        if packet.flags & CONTROL and packet.body[0] == 0x28:
            asked = packet.body[16:32]
    assert asked == (2).to_bytes(8, "little") + (2).to_bytes(8, "little")
    eventually(lambda: hub.hash("md:GAP").get("stale") == "2", "the doubt")
    again = [trade(0, 2 * 10**9, 2, now_ns), trade(0, 3 * 10**9, 3, now_ns)]
    client.send(RETRANSMISSION, 2, *again, session=78)
    eventually(lambda: hub.hash("md:GAP").get("volume") == "9", "all three trades")
    assert hub.hash("md:GAP")["last"] == "4", "in the order of their sequences"
    assert hub.hash("md:GAP")["stale"] == "0"
    info = hub.info("feed")
    assert info["feed_lost_messages"] == 0 and info["feed_recovered_messages"] == 2


REFUSALS = {
    "anything before the login": encode(CONTROL, 0, [subscribe("*")]),
    "a role that there is not": encode(CONTROL, 0, [login(0, role=9)]),
    "a second login": encode(CONTROL, 0, [login(0)]) * 2,
    "a stream from a subscriber": encode(CONTROL, 0, [login(0)])
    + encode(LIVE, 1, [trade(0, 1, 1, 1)]),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_breaks_the_order_is_refused_with_words(hub, what):
    client = FeedClient(hub.connect(hub.feed_port))
    client.socket.sendall(REFUSALS[what])
    with pytest.raises(ConnectionError, match="refused with reason"):
        while True:
            client.step()
    with pytest.raises(ConnectionError, match="closed|reset"):
        while True:
            client.receive()


def test_a_bad_pattern_is_refused_alone(simulated):
    client = FeedClient(simulated.connect(simulated.feed_port))
    client.join("*a*a*a*a*a*a*a*a*a*", "RELIANCE")
    with pytest.raises(ConnectionError, match="reason 5"):
        client.until(lambda: False)
    client.until(lambda: len(client.live) > 5)
    assert set(client.names.values()) == {"RELIANCE"}


FAULTS = "gaps=1%,duplicate=1%,reorder=1%,corrupt=0.5%,fragment=5%"


def test_a_bad_link_costs_the_hub_nothing(start_simulator, start_hub):
    simulator = start_simulator("--rate", "20k", "--fault", FAULTS, "--for", "5s", "--seed", "7")
    hub = start_hub("--source", simulator.source)
    client = joined(hub, "*")
    client.until(lambda: client.expected > 20_000)
    info = hub.info("feed")
    assert info["feed_gaps"] > 0 and info["feed_recovered_messages"] > 0, info
    assert info["feed_lost_messages"] == 0 and info["feed_refused_messages"] == 0
    assert simulator.wait() == 0


def test_bad_link_and_broken_connections_leave_the_same_last_values(start_simulator, start_hub):
    faults = FAULTS + ",disconnect=0.2%,corrupt-header=0.1%"
    simulator = start_simulator(
        "--rate", "5k", "--symbols", "20", "--fault", faults, "--seed", "3"
    )
    bad = start_hub("--source", simulator.source)
    wait_for_values(bad, 20)
    eventually(lambda: bad.info("feed")["feed_applied_messages"] > 15_000, "a few seconds of it")
    info = bad.info("feed")
    assert info["feed_lost_messages"] == 0, info
    assert info["feed_recovered_messages"] > 0


def test_two_inputs_that_each_lose_a_twentieth_lose_nothing_together(start_simulator, start_hub):
    simulator = start_simulator(
        "--rate", "5k", "--symbols", "20", "--fault", "loss=5%,reorder=1%", "--seed", "4"
    )
    hub = start_hub("--source", f"{simulator.source}+{simulator.source}")
    wait_for_values(hub, 20)
    eventually(lambda: hub.info("feed")["feed_applied_messages"] > 10_000, "two seconds of it")
    info = hub.info("feed")
    assert info["feed_lost_messages"] == 0 and info["feed_sources"] == 1, info
    assert info["feed_recovered_messages"] > 0


@pytest.mark.parametrize(
    "lines", ["127.0.0.1:{0}+127.0.0.1:{1}", "239.255.0.1:{0}+239.255.0.2:{1}"],
    ids=["unicast", "multicast"],
)
def test_a_feed_in_datagrams_is_recovered_over_tcp(start_simulator, start_hub, lines):
    a, b = lines.format(*free_ports(2)).split("+")
    # Each line loses by itself; what both have lost is asked for.
    simulator = start_simulator(
        "--rate", "5k", "--symbols", "20", "--fault", "loss=20%,duplicate=1%,reorder=1%",
        "--feed-udp", f"{a}+{b}@127.0.0.1",
    )
    hub = start_hub("--source", f"{simulator.source}+udp://{a}+udp://{b}@127.0.0.1")
    wait_for_values(hub, 20)
    eventually(lambda: hub.info("feed")["feed_applied_messages"] > 10_000, "two seconds of it")
    info = hub.info("feed")
    assert info["feed_lost_messages"] == 0 and info["feed_recovered_messages"] > 0, info
    line = dict(pair.split("=") for pair in info["feed_input0"].split(","))
    assert line["kind"] == "native" and line["connected"] == "1", line
    assert int(line["a_packets"]) > 100 and int(line["b_lost"]) > 0, line
    # What both lines have lost may just be missing.
    eventually(lambda: hub.hash("md:RELIANCE")["stale"] == "0", "complete values")
    simulator.kill()
    eventually(lambda: hub.hash("md:RELIANCE")["stale"] == "1", "the mark of a lost source")


def test_a_lost_source_is_marked_and_taken_up_again(start_simulator, start_hub):
    [port] = free_ports(1)
    options = ["--rate", "2k", "--symbols", "10"]
    simulator = start_simulator(*options, port=port)
    hub = start_hub("--source", f"127.0.0.1:{port}")
    wait_for_values(hub, 10)
    subscriber = hub.subscriber("md:RELIANCE")
    assert hub.info("feed")["feed_sources"] == 1
    simulator.kill()
    eventually(lambda: hub.hash("md:RELIANCE")["stale"] == "1", "the mark of a lost source")
    assert hub.hash("md:TCS")["stale"] == "1" and float(hub.hash("md:TCS")["bid"]) > 0
    eventually(lambda: subscriber.json()["stale"] == 1, "the word of it to subscribers")
    before = int(hub.hash("md:RELIANCE")["seq"])
    start_simulator(*options, port=port)
    eventually(
        lambda: (value := hub.hash("md:RELIANCE"))["stale"] == "0" and int(value["seq"]) > before,
        "news of the new exchange",
    )
    eventually(lambda: subscriber.json()["stale"] == 0, "news to who was subscribed all along")
    assert hub.info("feed")["feed_lost_messages"] == 0


def test_a_source_that_falls_silent_is_marked(start_simulator, start_hub):
    simulator = start_simulator("--rate", "2k", "--symbols", "5")
    hub = start_hub("--source", simulator.source)
    wait_for_values(hub, 5)
    assert hub.info("feed")["feed_sources"] == 1
    os.kill(simulator.pid, signal.SIGSTOP)
    try:
        eventually(lambda: hub.hash("md:RELIANCE")["stale"] == "1", "the mark of a silent source")
        # Its machine still accepts connections, which is no answer.
        for _ in range(20):
            assert hub.info("feed")["feed_sources"] == 0
            time.sleep(0.2)
        lines = hub.stderr.splitlines()
        told = [line for line in lines if " INFO " in line and "connected" in line]
        assert len(told) == 1 and hub.stderr.count("no data from the server") == 1, hub.stderr
    finally:
        os.kill(simulator.pid, signal.SIGCONT)
    eventually(lambda: hub.hash("md:RELIANCE")["stale"] == "0", "its return")
    assert hub.info("feed")["feed_sources"] == 1
    assert hub.info("feed")["feed_lost_messages"] == 0, "it resumed where it had stopped"


def test_clients_that_spoke_while_the_hub_was_busy_are_not_silent(start_hub):
    # More than a lane reads from in one turn, after a turn that takes longer than they may be
    # silent.
    hub = start_hub("--lanes", "1", "--set", "enable-debug-command=yes")
    clients = [FeedClient(hub.connect(hub.feed_port)) for _ in range(400)]
    for client in clients:
        client.join("*")
    for client in clients:
        client.until(lambda client=client: client.snapshots)
    busy = hub.redis()
    busy.connection_pool.connection_kwargs["socket_timeout"] = 30
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(busy.execute_command, "DEBUG", "SLEEP", "4")
        time.sleep(1)
        for client in clients:
            client.send(HEARTBEAT, 0, session=client.accepted.session)
        held.result()
    for client in clients:
        client.send(HEARTBEAT, 0, session=client.accepted.session)
    for client in clients:
        seen = len(client.heartbeats)
        client.until(lambda client=client, seen=seen: len(client.heartbeats) > seen + 1)


def test_two_sources_feed_one_hub(start_simulator, start_hub, tmp_path):
    (tmp_path / "a.csv").write_text("name,price,volatility\nAAA,10.00,0.2\n")
    (tmp_path / "b.csv").write_text("name,price,volatility\nBBB,20.00,0.2\n")
    a = start_simulator("--rate", "500", "--symbols", tmp_path / "a.csv")
    b = start_simulator("--rate", "500", "--symbols", tmp_path / "b.csv")
    hub = start_hub("--source", a.source, "--source", b.source)
    wait_for_values(hub, 2)
    assert hub.info("feed")["feed_sources"] == 2
    a.kill()
    eventually(lambda: hub.hash("md:AAA")["stale"] == "1", "the mark of the lost one")
    assert hub.hash("md:BBB")["stale"] == "0"


def test_a_hub_feeds_another_hub(simulated, start_hub):
    second = start_hub("--source", f"127.0.0.1:{simulated.feed_port}")
    wait_for_values(second, 10)
    simulated.simulator.stop()
    eventually(lambda: simulated.hash("md:TCS")["stale"] == "1", "the end of the source")
    for name in ("md:RELIANCE", "md:TCS"):
        prices = ("bid", "ask", "last", "volume", "ts")
        eventually(
            lambda: all(second.hash(name)[f] == simulated.hash(name)[f] for f in prices),
            f"the same values of {name}",
        )


def publisher(hub, session):
    client = FeedClient(hub.connect(hub.feed_port))
    client.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1))
    return client


def test_a_publisher_that_comes_again_before_its_end_was_noticed_goes_on(start_hub):
    hub = start_hub("--lanes", "2")
    now_ns = time.time_ns()
    first = publisher(hub, 90)
    first.until(lambda: first.accepted)
    first.send(LIVE, 1, definition(4, "TWICE"), trade(4, 10**9, 1, now_ns), session=90)
    eventually(lambda: hub.hash("md:TWICE").get("volume") == "1", "the first trade")

    def accepted_again():
        client = publisher(hub, 90)
        try:
            client.until(lambda: client.accepted)
        except ConnectionError as error:
            assert "reason 11" in str(error)
            return None
        return client

    # Its network has failed: the hub has not noticed, and the first connection stands, silent.
    again = eventually(accepted_again, "the end of the silent connection")
    assert again.accepted.next == 3, "nothing is asked for twice"
    again.send(LIVE, 3, trade(4, 2 * 10**9, 2, now_ns), session=90)
    fields = eventually(
        lambda: (found := hub.hash("md:TWICE"))["volume"] == "3" and found, "the second trade"
    )
    assert fields["last"] == "2" and fields["stale"] == "0"


def test_a_second_publisher_of_a_live_session_is_refused_and_the_first_goes_on(hub):
    first = publisher(hub, 79)
    first.until(lambda: first.accepted)
    now_ns = time.time_ns()
    first.send(LIVE, 1, definition(0, "OWN"), trade(0, 10**9, 1, now_ns), session=79)
    eventually(lambda: hub.hash("md:OWN").get("last") == "1", "the first publisher's trade")
    subscriber = hub.subscriber("md:OWN")
    assert subscriber.json()["last"] == 1
    # What follows the login of a refused publisher is not read.
    foreign = encode(CONTROL, 0, [login(0, next_sequence=1, session=79, role=1)]) + encode(
        LIVE, 1, [definition(0, "FOREIGN"), trade(0, 9 * 10**9, 1, now_ns)], 79
    )
    for _ in range(40):
        first.send(HEARTBEAT, 0, session=79)
        second = FeedClient(hub.connect(hub.feed_port))
        second.socket.sendall(foreign)
        with pytest.raises(ConnectionError, match="reason 11"):
            second.until(lambda: False)
        with pytest.raises(ConnectionError, match="closed|reset"):
            second.receive()
    first.send(LIVE, 3, trade(0, 2 * 10**9, 1, now_ns), session=79)
    update = subscriber.json()
    assert (update["last"], update["stale"]) == (2, 0), "its topics were never marked"
    assert not hub.hash("md:FOREIGN")
    assert hub.info("feed")["feed_refused_publishers"] == 40
    warnings = hub.stderr.count("another connection publishes this session")
    assert 1 <= warnings < 40, "told, but not each time"


def test_a_name_that_is_not_utf8_is_refused_with_words(hub):
    client = publisher(hub, 81)
    client.until(lambda: client.accepted)
    bad = definition(0, "LATIN").replace(b"LATIN", b"LAT\xcdN")
    client.send(LIVE, 1, definition(1, "GOOD"), bad, session=81)
    with pytest.raises(ConnectionError, match="reason 7: malformed packet: a name or text is not"):
        client.until(lambda: False)
    eventually(lambda: "its stream is invalid" in hub.stderr, "the word of it in the log")
    assert not [key for key in hub.redis().keys("md:*") if key != b"md:GOOD"]


def test_a_trade_without_price_changes_nothing(hub):
    client = publisher(hub, 82)
    client.until(lambda: client.accepted)
    now_ns = time.time_ns()
    trades = [trade(0, 2 * 10**9, 5, now_ns), trade(0, ABSENT, 1_000, now_ns)]
    client.send(LIVE, 1, definition(0, "PRICED"), *trades, session=82)
    eventually(lambda: hub.info("feed")["feed_refused_messages"] == 1, "the refusal")
    fields = hub.hash("md:PRICED")
    assert (fields["volume"], fields["last"], fields["last_size"]) == ("5", "2", "5")


def test_a_source_clock_that_is_ahead_is_shown(hub):
    client = publisher(hub, 83)
    client.until(lambda: client.accepted)
    assert hub.info("feed")["feed_clock_ahead_messages"] == 0
    # More than any test takes, and a source that is behind beside it.
    ahead_ns = time.time_ns() + 3_600 * 10**9
    trades = [trade(0, 10**9, 1, ahead_ns), trade(0, 10**9, 1, time.time_ns() - 10**9)]
    client.send(LIVE, 1, definition(0, "AHEAD"), *trades, session=83)
    info = eventually(
        lambda: (found := hub.info("feed"))["feed_applied_messages"] == 3 and found, "both trades"
    )
    assert info["feed_clock_ahead_messages"] == 1
    assert 3_000 * 10**6 < info["feed_clock_ahead_max_us"] <= 3_600 * 10**6
    clock = dict(pair.split("=") for pair in info["feed_clock_ahead0"].split(","))
    host, port = client.socket.getsockname()
    assert clock["source"] == f"{host}:{port}" and clock["messages"] == "1"
    eventually(lambda: "the clock of a source is ahead" in hub.stderr, "the word of it in the log")
    client.socket.close()
    eventually(lambda: "feed_clock_ahead0" not in hub.info("feed"), "the end of the source")
    assert hub.info("feed")["feed_clock_ahead_messages"] == 1


def test_two_publishers_of_one_symbol_are_both_heard(hub):
    """The second one was left out whole; two venues of one publisher overwrote each other."""
    owner, other = publisher(hub, 91), publisher(hub, 92)
    for client in (owner, other):
        client.until(lambda: client.accepted)
    now_ns = time.time_ns()
    mine = trade(0, 2 * 10**9, 1, now_ns, source=7)
    owner.send(LIVE, 1, definition(0, "MINE", 10**9), mine, session=91)
    eventually(lambda: hub.hash("md:MINE").get("last") == "2", "the owner's trade")
    assert hub.hash("md:MINE@7") == hub.hash("md:MINE"), "one venue"
    other.send(LIVE, 1, definition(0, "MINE", 7), trade(0, 5, 1, now_ns, source=8), session=92)
    eventually(lambda: hub.hash("md:MINE@8").get("last") == "0.000000005", "the other's trade")
    assert hub.hash("md:MINE@7")["last"] == "2"
    both = hub.hash("md:MINE")
    assert (both["volume"], both["trades"], both["last"]) == ("2", "2", "0.000000005")
    assert (both["venue"], both["last_venue"], both["high"]) == ("7,8", "8", "2")
    venue = hub.subscriber("md:MINE@8")
    assert venue.json()["symbol"] == "MINE@8"
    reader = FeedClient(hub.connect(hub.feed_port))
    reader.join("MINE@7")
    opens = []
    while not reader.snapshots:
        packet = reader.step()
        if packet.flags & SNAPSHOT:
            messages = messages_of(packet)
            opens += [message.open for message in messages if isinstance(message, Definition)]
    assert opens == [10**9], "each keeps its own definition"


def test_a_subscriber_of_the_only_venue_gets_its_updates(hub):
    client = publisher(hub, 96)
    client.until(lambda: client.accepted)
    now_ns = time.time_ns()
    client.send(LIVE, 1, definition(0, "ONE"), trade(0, 2 * 10**9, 1, now_ns, source=7), session=96)
    eventually(lambda: hub.hash("md:ONE@7").get("last") == "2", "the trade")
    subscriber = hub.subscriber("md:ONE@7")
    current = subscriber.json()
    assert (current["symbol"], current["last"], current["snapshot"]) == ("ONE@7", 2, True)
    client.send(LIVE, 3, trade(0, 3 * 10**9, 1, now_ns, source=7), session=96)
    update = subscriber.json()
    assert (update["symbol"], update["last"]) == ("ONE@7", 3)
    assert hub.hash("md:ONE")["volume"] == "2"


def test_a_halt_is_seen_by_every_subscriber(hub):
    client = publisher(hub, 93)
    client.until(lambda: client.accepted)
    topic = hub.subscriber("md:HALTED")
    now_ns = time.time_ns()
    client.send(LIVE, 1, definition(0, "HALTED"), trade(0, 2 * 10**9, 1, now_ns), session=93)
    eventually(lambda: hub.hash("md:HALTED").get("last") == "2", "the trade")
    client.send(LIVE, 3, status(0, 4, now_ns, reason=int.from_bytes(b"T1  ", "little")), session=93)
    eventually(lambda: hub.hash("md:HALTED")["state"] == "halted", "the halt")
    assert hub.hash("md:HALTED")["reason"] == "T1"
    eventually(lambda: topic.json()["state"] == "halted", "the halt's message")


def test_a_new_session_that_only_defines_a_symbol_leaves_its_old_price_stale(hub):
    client = publisher(hub, 94)
    client.until(lambda: client.accepted)
    now_ns = time.time_ns()
    client.send(LIVE, 1, definition(0, "OLD"), trade(0, 2 * 10**9, 1, now_ns), session=94)
    eventually(lambda: hub.hash("md:OLD").get("last") == "2", "the trade")
    client.socket.close()
    eventually(lambda: hub.hash("md:OLD")["stale"] == "1", "the end of the session")
    client = publisher(hub, 95)
    client.until(lambda: client.accepted)
    client.send(LIVE, 1, definition(0, "OLD"), definition(1, "NEW"), session=95)
    eventually(lambda: hub.redis().exists("md:NEW"), "the definitions")
    assert hub.hash("md:OLD")["stale"] == "1" and hub.hash("md:OLD")["last"] == "2"
    client.send(LIVE, 3, trade(0, 3 * 10**9, 1, now_ns), session=95)
    eventually(lambda: hub.hash("md:OLD")["last"] == "3", "the new session's first value")
    assert hub.hash("md:OLD")["stale"] == "0"


class Exchange:
    """The server's side of one connection, word for word."""

    def __init__(self, listener):
        self.socket, _ = listener.accept()
        self.socket.settimeout(30)
        self.client = FeedClient(self.socket)

    def hear(self, kind):
        """Waits for a control of this kind."""
        while True:
            packet = self.client.receive()
            if packet.flags & CONTROL and packet.body[0] == kind:
                return packet.body

    def say(self, flags, first, *messages):
        self.client.send(flags, first, *messages, session=SESSION)


SESSION = 77


def test_after_a_loss_each_topic_is_in_doubt_until_its_own_record_comes(start_hub):
    """Word by word, with an exchange that says of three symbols that two have changed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        hub = start_hub("--source", f"127.0.0.1:{listener.getsockname()[1]}")
        exchange = Exchange(listener)
        assert exchange.hear(0x58)[1] & 1, "it reads snapshots of what has changed"
        exchange.hear(0x69)
        names = ["A", "B", "C"]
        records = [
            part for symbol, name in enumerate(names)
            for part in (definition(symbol, name), last_value(symbol, 3, bid=100 + symbol))
        ]
        exchange.say(CONTROL, 0, accepted(SESSION, 4))
        exchange.say(CONTROL, 0, notice(1, as_of=3))
        exchange.say(SNAPSHOT, 1 << 32, mark(0x22, 3, 3), *records, mark(0x23, 3, 3))

        def stale():
            return "".join(hub.hash(f"md:{name}").get("stale", "?") for name in names)

        eventually(lambda: stale() == "000", "the first values")
        told = hub.subscriber(*(f"md:{name}" for name in names))
        assert sorted(told.json()["symbol"] for _ in names) == names

        # 4 to 9 are not there any more when they are asked for.
        exchange.say(LIVE, 10, quote(1, 500, 501, 1, 1, 10))
        asked = exchange.hear(0x28)
        assert int.from_bytes(asked[16:24], "little") == 4
        exchange.say(CONTROL, 0, too_old(4, 10, recovers=True))
        eventually(lambda: stale() == "222", "the doubt")
        exchange.say(CONTROL, 0, notice(2, as_of=10, since=4))
        first = 2 << 32
        exchange.say(SNAPSHOT, first, mark(0x22, 10, 3), records[0], last_value(0, 8, bid=700))
        eventually(lambda: stale() == "022", "the first symbol's record")
        assert int(hub.hash("md:A")["bid"]) * 10**9 == 700 * 10**9
        exchange.say(SNAPSHOT, first + 3, records[2], last_value(1, 10, bid=500))
        eventually(lambda: stale() == "002", "the second symbol's record")
        exchange.say(SNAPSHOT, first + 5, skip(2), mark(0x23, 10, 3))
        eventually(lambda: stale() == "000", "the word that the third was not touched")
        assert int(hub.hash("md:C")["bid"]) == 102, "and it was not"
        info = hub.info("feed")
        assert (info["feed_lost_messages"], info["feed_snapshot_records"]) == (6, 5), info


def test_values_that_came_with_the_bytes_that_ended_the_connection_stayed_current(start_hub):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        hub = start_hub("--source", f"127.0.0.1:{listener.getsockname()[1]}")
        exchange = Exchange(listener)
        exchange.hear(0x69)
        records = definition(0, "A"), last_value(0, 1, bid=100)
        snapshot = mark(0x22, 1, 1), *records, mark(0x23, 1, 1)
        exchange.socket.sendall(
            encode(CONTROL, 0, [accepted(SESSION, 2)], SESSION)
            + encode(CONTROL, 0, [notice(1, as_of=1)], SESSION)
            + encode(SNAPSHOT, 1 << 32, snapshot, SESSION)
            + b"x" * 100
        )
    eventually(lambda: hub.hash("md:A").get("stale") == "1", "the end of the connection")


def test_a_source_that_refuses_the_login_is_told_with_its_words(start_hub):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        hub = start_hub("--source", f"127.0.0.1:{listener.getsockname()[1]}")
        exchange = Exchange(listener)
        exchange.hear(0x69)
        words = (10).to_bytes(2, "little") + bytes(6) + b"not let in".ljust(72, b"\0")
        exchange.say(CONTROL, 0, b"\x68" + bytes(15) + words)
        exchange.socket.close()
        eventually(lambda: "the server refused: not let in (reason 10)" in hub.stderr, "the words")


def test_a_venue_name_that_is_none_is_told(hub):
    client = publisher(hub, 99)
    client.until(lambda: client.accepted)
    name = b"\x32\0\x07\0" + bytes(12) + b"X/Y".ljust(32, b"\0")
    client.send(LIVE, 1, name, session=99)
    eventually(lambda: "name of a venue has other characters" in hub.stderr, "the log")
    assert "number=7 name=X/Y" in hub.stderr


def test_while_messages_are_missing_the_values_are_in_doubt(start_hub):
    """An exchange that is in no hurry to answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        hub = start_hub("--source", f"127.0.0.1:{listener.getsockname()[1]}")
        exchange = Exchange(listener)
        exchange.hear(0x69)
        exchange.say(CONTROL, 0, accepted(SESSION, 2))
        exchange.say(CONTROL, 0, notice(1, as_of=1))
        records = definition(0, "A"), last_value(0, 1, bid=100)
        exchange.say(SNAPSHOT, 1 << 32, mark(0x22, 1, 1), *records, mark(0x23, 1, 1))
        eventually(lambda: hub.hash("md:A").get("stale") == "0", "the first value")
        told = hub.subscriber("md:A")
        assert told.json()["stale"] == 0
        exchange.say(LIVE, 3, quote(0, 300 * 10**9, 301 * 10**9, 1, 1, 10))
        exchange.hear(0x28)
        update = told.json()
        assert (update["stale"], update["bid"]) == (2, 100), "the old value, marked"
        assert hub.hash("md:A")["stale"] == "2"
        missing = quote(0, 200 * 10**9, 201 * 10**9, 1, 1, 10)
        exchange.say(RETRANSMISSION, 2, missing)
        value = told.json()
        while value["bid"] != 300:
            value = told.json()
        eventually(lambda: hub.hash("md:A")["stale"] == "0", "the end of the doubt")
        while value["stale"]:
            value = told.json()
        assert hub.info("feed")["feed_lost_messages"] == 0


def test_a_publisher_of_many_symbols_leaves_them_stale_and_goes_on(hub):
    count = 6_000
    client = publisher(hub, 98)
    client.until(lambda: client.accepted)
    now_ns = time.time_ns()
    for first in range(0, count, 10):
        messages = [
            message
            for number in range(first, first + 10)
            for message in (definition(number, f"MANY{number}"), trade(number, 10**9, 1, now_ns))
        ]
        client.send(LIVE, 2 * first + 1, *messages, session=98)
    last = f"md:MANY{count - 1}"
    eventually(lambda: hub.hash(last).get("volume") == "1", "the last trade")
    client.socket.close()
    names = [f"md:MANY{number}" for number in range(count)]

    def all_stale():
        return all(hub.redis().hget(name, "stale") == b"1" for name in names[::97] + [last])

    eventually(all_stale, "all of them stale")

    def accepted_again():
        client = publisher(hub, 98)
        try:
            client.until(lambda: client.accepted)
        except ConnectionError as error:
            assert "reason 11" in str(error)
            return None
        return client

    again = eventually(accepted_again, "the session is free again")
    assert again.accepted.next == 2 * count + 1
    again.send(LIVE, 2 * count + 1, trade(count - 1, 10**9, 1, now_ns), session=98)
    eventually(lambda: hub.hash(last)["volume"] == "2", "the next trade")
    assert hub.hash(last)["stale"] == "0"


def send(client, *words):
    client.socket.sendall(command(*words))


def test_publishers_whose_input_is_read_at_the_end_of_a_long_turn_are_not_silent(start_hub):
    # Input counted as arrived when the turn began that read it. After a turn longer than a
    # silence, a sender with nothing more to read yet was cut off, and its topics went stale.
    hub = start_hub("--lanes", "1", "--set", "busy-reply-threshold=60000")
    clients = [FeedClient(hub.connect(hub.feed_port)) for _ in range(8)]
    for client in clients:
        client.join("*")
        client.until(lambda client=client: client.snapshots)
    first, second = RespSocket(hub.resp()), RespSocket(hub.resp())
    busy = (
        "local t = redis.call('TIME'); local e = t[1] * 1000 + t[2] / 1000 + ARGV[1]; "
        "repeat t = redis.call('TIME') until t[1] * 1000 + t[2] / 1000 >= e"
    )
    # While the first script runs, the rest becomes ready in this order, for one turn.
    send(first, "EVAL", busy, "0", "500")
    time.sleep(0.2)
    send(second, "EVAL", busy, "0", "3500")
    time.sleep(0.1)
    for client in clients:
        client.send(HEARTBEAT, 0, session=client.accepted.session)
    first.read()
    second.read()
    for client in clients:
        client.send(HEARTBEAT, 0, session=client.accepted.session)
        seen = len(client.heartbeats)
        client.until(lambda client=client, seen=seen: len(client.heartbeats) > seen + 1)


def test_a_publisher_that_is_silent_is_disconnected_with_a_warning(hub):
    link = publisher(hub, 77)
    link.until(lambda: link.accepted)
    eventually(lambda: "publisher disconnected: nothing arrives from it" in hub.stderr, "a warning")
    assert "session=77" in hub.stderr
