"""Users of the native feed: who may publish which symbols, and who may read which."""

import hashlib
import socket
import subprocess
import threading
from struct import pack

import pytest

from feed_client import (
    CONTROL, LIVE, Definition, FeedClient, Refused, definition, encode, login, messages_of, quote,
    request, snapshot_request, trade,
)
from support import BINARY, RespSocket, environment, eventually, free_ports, is_closed

WRONG_CREDENTIALS, NOT_ALLOWED, SYMBOL_NOT_ALLOWED = 12, 13, 14


class Peer(FeedClient):
    """A client that takes note of refusals."""

    def __init__(self, hub):
        super().__init__(hub.connect(hub.feed_port))
        self.refusals = []

    def _control(self, message):
        if isinstance(message, Refused):
            self.refusals.append((message.reason, message.words))
        else:
            super()._control(message)

    def refused(self, count=1):
        self.until(lambda: len(self.refusals) >= count)
        return self.refusals[count - 1]

    def read_names(self):
        """The names of all symbols of which it has had a value."""
        assert all(symbol in self.names for symbol in self.values)
        return sorted(self.names[symbol] for symbol in self.values)


class Publisher(Peer):
    """A publisher that numbers its symbols as they come."""

    def __init__(self, hub, session, next_sequence=1, **options):
        super().__init__(hub)
        self.session, self.symbols, self.next = session, {}, next_sequence
        self.send(CONTROL, 0, login(0, next_sequence=1, session=session, role=1, **options))

    def says(self, message):
        self.send(LIVE, self.next, message, session=self.session)
        self.next += 1

    def defines(self, name):
        self.symbols[name] = len(self.symbols) + 1
        self.says(definition(self.symbols[name], name))

    def quotes(self, name, bid):
        if name not in self.symbols:
            self.defines(name)
        self.says(quote(self.symbols[name], bid * 10**9, (bid + 1) * 10**9, 1, 1, self.next))


FEEDER = {"user": b"feeder", "password": b"pw"}
DESK = {"user": b"desk", "password": b"pw"}


def set_user(hub, name, *rules):
    hub.redis().execute_command("ACL", "SETUSER", name, *rules)


def acl_log(hub, password=None):
    """Reason, object, user and client of the refusals that are kept, newest first."""
    one = RespSocket(hub.resp())
    if password:
        one.call("AUTH", password)
    entries = [dict(zip(each[::2], each[1::2])) for each in one.call("ACL", "LOG", "100")]
    names = (b"reason", b"object", b"username", b"client-info")
    return [tuple(entry[name].decode() for name in names) for entry in entries]


def bid(hub, name):
    return hub.redis().hget(f"md:{name}", "bid")


def has_bid(hub, name, price):
    eventually(lambda: bid(hub, name) == str(price).encode(), f"a bid of {price} for {name}")


@pytest.fixture
def guarded(start_hub):
    """A hub with a user who publishes `NSE.*`, and one who reads that."""
    hub = start_hub("--lanes", "2")
    set_user(hub, "feeder", "on", ">pw", "+set", "%W~md:NSE.*")
    set_user(hub, "desk", "on", ">pw", "+get", "%R~md:NSE.*")
    return hub


def test_a_publisher_writes_the_symbols_that_its_user_may_set(guarded):
    one = Publisher(guarded, 7, **FEEDER)
    one.quotes("NSE.A", 5)
    one.quotes("BSE.A", 5)
    one.quotes("NSE.B", 6)
    reason, words = one.refused()
    assert reason == SYMBOL_NOT_ALLOWED and words == "NotAllowed: may not publish BSE.A"
    has_bid(guarded, "NSE.B", 6)
    assert bid(guarded, "NSE.A") == b"5" and not guarded.redis().exists("md:BSE.A")
    assert guarded.info("feed")["feed_refused_messages"] >= 2
    reason, key, user, client = acl_log(guarded)[0]
    assert (reason, key, user) == ("key", "md:BSE.A", "feeder")
    assert "addr=127.0.0.1:" in client and "lib-name=feed" in client and "name=tests" in client


def test_many_refused_symbols_are_told_and_logged_within_bounds(guarded):
    one = Publisher(guarded, 7, **FEEDER)
    for number in range(500):
        one.defines(f"BSE.{number}")
    one.quotes("NSE.A", 5)
    has_bid(guarded, "NSE.A", 5)
    one.refused(16)
    one.until(lambda: len(one.heartbeats) >= 3)
    assert len(one.refusals) == 16 and len(acl_log(guarded)) == 16


def test_credentials_are_checked_and_never_shown(guarded):
    guarded.redis().config_set("requirepass", "geheim")
    cases = [
        ({}, b"default"),
        ({"user": b"feeder", "password": b"wrongword"}, b"feeder"),
        ({"user": b"feeder", "password": b""}, b"feeder"),
        ({"user": b"nosuchuser", "password": b"pw"}, b"nosuchuser"),
        ({"user": b"", "password": b"wrongword"}, b"default"),
    ]
    for role in (0, 1):
        for options, _ in cases:
            one = Peer(guarded)
            one.send(CONTROL, 0, login(0, session=7, role=role, **options))
            reason, words = one.refused()
            assert reason == WRONG_CREDENTIALS and words.startswith("NotAllowed")
            assert is_closed(one.socket)
    entries = acl_log(guarded, "geheim")
    assert {(entry[0], entry[2].encode()) for entry in entries} == {
        ("auth", user) for _, user in cases
    }
    assert "wrongword" not in guarded.stderr + str(entries)
    right = Peer(guarded)
    right.join("*", user=b"", password=b"geheim")
    right.until(lambda: right.snapshots)


def test_old_clients_may_do_what_the_default_user_may(guarded):
    set_user(guarded, "default", "resetkeys", "%W~md:OPEN.*", "%R~md:NSE.*", "~other")
    one = Publisher(guarded, 7)
    one.quotes("OPEN.A", 5)
    one.quotes("NSE.A", 5)
    assert one.refused() == (SYMBOL_NOT_ALLOWED, "NotAllowed: may not publish NSE.A")
    with_rights = Publisher(guarded, 8, **FEEDER)
    with_rights.quotes("NSE.B", 6)
    reader = Peer(guarded)
    reader.join("*")
    reader.until(lambda: reader.read_names() == ["NSE.B"])


def test_who_may_do_nothing_here_is_told_so(guarded):
    for role, options, words in (
        (1, DESK, "publishes nothing"), (0, FEEDER, "reads nothing"), (2, FEEDER, "reads nothing"),
    ):
        one = Peer(guarded)
        one.send(CONTROL, 0, login(0, session=7, role=role, **options))
        reason, told = one.refused()
        assert reason == NOT_ALLOWED and words in told and is_closed(one.socket)
    assert {entry[:3] for entry in acl_log(guarded)} == {
        ("command", "set", "desk"), ("command", "get", "feeder")
    }


@pytest.mark.parametrize("role, rule, words", [
    (0, ("+get", "%R~foo:*", "%R~book:*"), "reads nothing"),
    (1, ("+set", "%W~foo:*"), "publishes nothing"),
])
def test_a_user_with_patterns_of_other_keys_alone_is_refused_at_the_login(
    guarded, role, rule, words
):
    set_user(guarded, "other", "on", ">pw", *rule)
    options = {"session": 7, "role": role, "user": b"other", "password": b"pw"}
    one = Peer(guarded)
    one.send(CONTROL, 0, login(0, **options))
    reason, told = one.refused()
    assert reason == NOT_ALLOWED and words in told and is_closed(one.socket)
    # Permissions that come later are for the next login.
    set_user(guarded, "other", "~md:*", "+get", "+set")
    again = Peer(guarded)
    again.send(CONTROL, 0, login(0, **options))
    again.until(lambda: again.accepted)


@pytest.mark.parametrize("role", [0, 1])
def test_a_user_that_loses_its_last_permission_is_told_and_disconnected(guarded, role):
    user = (DESK, FEEDER)[role]
    one = Peer(guarded)
    one.send(CONTROL, 0, login(0, session=7, role=role, **user))
    one.until(lambda: one.accepted)
    set_user(guarded, user["user"].decode(), "resetkeys", "~foo:*")
    reason, told = one.refused()
    assert reason == NOT_ALLOWED and "nothing" in told and is_closed(one.socket)


@pytest.fixture
def filled(guarded):
    """A publisher with all rights who has given six symbols a value."""
    one = Publisher(guarded, 7)
    for name in ("NSE.A", "BSE.A", "NSE.B", "BSE.B", "X", "NSE*"):
        one.quotes(name, 5)
    has_bid(guarded, "NSE*", 5)
    guarded.publisher = one
    return guarded


def test_a_reader_gets_what_it_may_get_by_every_way(filled):
    desk = Peer(filled)
    desk.join("*", "BSE*", "?SE.A", **DESK)
    desk.until(lambda: desk.snapshots)
    assert desk.read_names() == ["NSE.A", "NSE.B"]
    # The live stream, with symbols that are new.
    for name in ("BSE.A", "BSE.NEW", "NSE.NEW", "NSE.A", "X"):
        filled.publisher.quotes(name, 7)
    desk.until(lambda: desk.values.get(symbol_of(desk, "NSE.A"), {}).get("bid") == 7 * 10**9)
    assert desk.read_names() == ["NSE.A", "NSE.B", "NSE.NEW"]
    assert set(desk.names.values()) == {"NSE.A", "NSE.B", "NSE.NEW"}
    # Snapshots of everything, and of one name, and their positions again.
    for pattern in ("*", "BSE.A", "X"):
        before = desk.snapshots
        desk.send(CONTROL, 0, snapshot_request(pattern))
        desk.until(lambda: desk.snapshots > before)
    for number in (1, 2, 3, 4):
        again = bytearray(request(number << 32, 1_000))
        again[1] = 1
        desk.send(CONTROL, 0, bytes(again))
    # The stream again.
    desk.send(CONTROL, 0, request(1, 10_000))
    seen = bytearray()
    beats = 0
    while beats < 5:
        packet = desk.receive()
        beats += packet.flags & 1
        messages = [one for one in messages_of(packet)] if not packet.flags & 1 else []
        seen += b"".join(
            one.name.encode() + b"," for one in messages if isinstance(one, Definition)
        )
        for one in messages:
            symbol = getattr(one, "symbol", None)
            assert symbol is None or symbol in desk.names, one
    assert b"NSE.A," in seen and b"BSE" not in seen and b"X" not in seen.replace(b"NSE.", b"")
    # Recovery beside datagrams.
    other = Peer(filled)
    other.join("*", role=2, **DESK)
    other.until(lambda: other.snapshots)
    assert other.read_names() == ["NSE.A", "NSE.B", "NSE.NEW"]


def symbol_of(client, name):
    return next((symbol for symbol, known in client.names.items() if known == name), None)


def test_a_name_that_may_not_be_read_is_refused_and_the_rest_goes_on(filled):
    desk = Peer(filled)
    desk.join("BSE.A", "NSE.A", **DESK)
    assert desk.refused() == (SYMBOL_NOT_ALLOWED, "NotAllowed: may not read BSE.A")
    desk.until(lambda: desk.snapshots)
    assert desk.read_names() == ["NSE.A"]
    assert acl_log(filled)[0][:3] == ("key", "md:BSE.A", "desk")


def test_glob_characters_in_a_symbol_s_name_are_only_characters(filled):
    desk = Peer(filled)
    desk.join("NSE*", **DESK)
    desk.until(lambda: desk.snapshots)
    assert "NSE*" not in desk.names.values(), "the pattern NSE.* is not for the name NSE*"
    set_user(filled, "feeder", "resetkeys", "%W~md:[AB]?", "%W~md:\\*")
    one = Publisher(filled, 9, **FEEDER)
    for name in ("A1", "C1", "*", "[AB]?"):
        one.quotes(name, 3)
    one.refused(2)
    has_bid(filled, "A1", 3)
    has_bid(filled, "*", 3)
    told = {words for _, words in one.refusals}
    assert told == {"NotAllowed: may not publish C1", "NotAllowed: may not publish [AB]?"}


def test_rights_that_change_in_the_middle_of_a_stream_count_at_once(filled):
    desk = Peer(filled)
    desk.join("*", **DESK)
    desk.until(lambda: desk.snapshots)
    set_user(filled, "desk", "resetkeys", "%R~md:BSE.*")
    for name in ("NSE.A", "NSE.B", "BSE.A"):
        filled.publisher.quotes(name, 9)
    desk.until(lambda: desk.values.get(symbol_of(desk, "BSE.A"), {}).get("bid") == 9 * 10**9)
    assert sorted(desk.names.values()) == ["BSE.A", "BSE.B", "NSE.A", "NSE.B"]
    for name in ("NSE.A", "NSE.B"):
        assert desk.values[symbol_of(desk, name)]["bid"] == 5 * 10**9, "nothing since the change"
    # Everything is allowed, and then nothing but one.
    set_user(filled, "desk", "allkeys")
    desk.until(lambda: len(desk.read_names()) == 6 and desk.values[0]["bid"] == 9 * 10**9)
    set_user(filled, "desk", "resetkeys", "%R~md:X")
    filled.publisher.quotes("BSE.B", 11)
    filled.publisher.quotes("X", 11)
    desk.until(lambda: desk.values[symbol_of(desk, "X")]["bid"] == 11 * 10**9)
    assert desk.values[symbol_of(desk, "BSE.B")]["bid"] == 5 * 10**9
    # A change of the password is none of rights.
    before = desk.snapshots
    set_user(filled, "desk", ">other")
    filled.publisher.quotes("X", 12)
    desk.until(lambda: desk.values[symbol_of(desk, "X")]["bid"] == 12 * 10**9)
    assert desk.snapshots == before


def test_a_reader_that_resumes_gets_what_it_may_read_since_it_was_away(filled):
    desk = Peer(filled)
    desk.join("*", **DESK)
    desk.until(lambda: desk.snapshots and desk.expected or desk.heartbeats)
    session, position = desk.accepted.session, desk.accepted.next
    desk.socket.close()
    set_user(filled, "desk", "%R~md:BSE.*")
    again = Peer(filled)
    again.join("*", session=session, next_sequence=position, **DESK)
    again.until(lambda: again.read_names() == ["BSE.A", "BSE.B", "NSE.A", "NSE.B"])


def test_a_deleted_user_s_connections_end(filled):
    desk = Peer(filled)
    desk.join("*", **DESK)
    desk.until(lambda: desk.snapshots)
    feeder = Publisher(filled, 9, **FEEDER)
    feeder.quotes("NSE.F", 5)
    has_bid(filled, "NSE.F", 5)
    filled.redis().execute_command("ACL", "DELUSER", "desk", "feeder")
    for one in (desk, feeder):
        assert one.refused() == (NOT_ALLOWED, "NotAllowed: the user is deleted")
        assert is_closed(one.socket)
    assert filled.redis().hget("md:NSE.F", "stale") == b"1"


def test_a_publisher_that_loses_a_right_goes_on_with_what_is_left(guarded):
    feeder = Publisher(guarded, 9, **FEEDER)
    for name in ("NSE.A", "NSE.B"):
        feeder.quotes(name, 5)
    has_bid(guarded, "NSE.B", 5)
    set_user(guarded, "feeder", "%W~md:MORE.*")
    feeder.quotes("MORE.A", 5)
    has_bid(guarded, "MORE.A", 5)
    set_user(guarded, "feeder", "resetkeys", "%W~md:NSE.A")
    eventually(lambda: guarded.redis().hget("md:NSE.B", "stale") == b"1", "a free topic")
    assert feeder.refused() == (
        NOT_ALLOWED, "NotAllowed: the user may publish less from now on; log in again",
    )
    again = Publisher(guarded, 9, next_sequence=feeder.next, **FEEDER)
    again.symbols = feeder.symbols
    again.until(lambda: again.accepted)
    assert again.accepted.next == feeder.next, "nothing is lost, and nothing comes twice"
    again.quotes("NSE.B", 8)
    again.quotes("NSE.A", 8)
    has_bid(guarded, "NSE.A", 8)
    assert bid(guarded, "NSE.B") == b"5"
    assert again.refused() == (SYMBOL_NOT_ALLOWED, "NotAllowed: may not publish NSE.B")
    assert guarded.redis().hget("md:NSE.B", "stale") == b"1"
    # Another publisher has the right, and gets the topic.
    other = Publisher(guarded, 10)
    other.quotes("NSE.B", 9)
    has_bid(guarded, "NSE.B", 9)


def test_a_session_belongs_to_the_user_that_began_it(guarded):
    feeder = Publisher(guarded, 9, **FEEDER)
    feeder.quotes("NSE.A", 5)
    has_bid(guarded, "NSE.A", 5)
    feeder.socket.close()
    eventually(lambda: guarded.redis().hget("md:NSE.A", "stale") == b"1", "its end")
    thief = Publisher(guarded, 9)
    reason, words = thief.refused()
    assert reason == NOT_ALLOWED and "another user" in words and is_closed(thief.socket)
    again = Publisher(guarded, 9, **FEEDER)
    again.until(lambda: again.accepted)
    assert again.accepted.next == 3


def test_two_publishers_with_different_rights_for_one_symbol(guarded):
    set_user(guarded, "rival", "on", ">pw", "+set", "%W~md:BSE.*")
    rival = Publisher(guarded, 8, user=b"rival", password=b"pw")
    rival.quotes("NSE.A", 1)
    rival.refused()
    assert not guarded.redis().exists("md:NSE.A"), "a refused name makes no topic"
    feeder = Publisher(guarded, 9, **FEEDER)
    feeder.quotes("NSE.A", 5)
    has_bid(guarded, "NSE.A", 5)
    rival.says(quote(rival.symbols["NSE.A"], 10**9, 2 * 10**9, 1, 1, 99))
    rival.quotes("BSE.A", 2)
    has_bid(guarded, "BSE.A", 2)
    assert bid(guarded, "NSE.A") == b"5"


def venue(number, name):
    return pack("<BBHIQ32s", 0x32, 0, number, 0, 0, name)


def venue_quote(symbol, source, bid_price):
    return pack("<BBHIQqqIIII", 0x31, 0, source, symbol, 1, bid_price * 10**9, 10**11, 1, 1, 0, 0)


def test_the_name_of_a_symbol_decides_over_its_venues(guarded):
    set_user(guarded, "feeder", "resetkeys", "%W~md:AAA")
    set_user(guarded, "rival", "on", ">pw", "+set", "%W~md:AAA@XNAS")
    feeder = Publisher(guarded, 9, **FEEDER)
    for number, name in ((1, b"XNAS"), (2, b"XNYS")):
        feeder.says(venue(number, name))
    feeder.defines("AAA")
    feeder.says(venue_quote(1, 1, 5))
    feeder.says(venue_quote(1, 2, 6))
    has_bid(guarded, "AAA@XNAS", 5)
    has_bid(guarded, "AAA", 6)
    rival = Publisher(guarded, 10, user=b"rival", password=b"pw")
    rival.quotes("AAA@XNAS", 50)
    assert rival.refused()[0] == SYMBOL_NOT_ALLOWED, "it would change the value of AAA"
    feeder.says(venue_quote(1, 2, 7))
    has_bid(guarded, "AAA", 7)
    assert bid(guarded, "AAA@XNAS") == b"5"
    # A reader of one venue gets that topic alone.
    set_user(guarded, "desk", "resetkeys", "%R~md:AAA@XNAS")
    desk = Peer(guarded)
    desk.join("*", **DESK)
    desk.until(lambda: desk.snapshots)
    assert desk.read_names() == ["AAA@XNAS"]


def test_logins_that_are_damaged_or_come_twice(guarded):
    whole = login(0, session=7, role=1, **FEEDER)
    for wrong in (whole[:-16], whole[:96], whole + bytes(16), b"\xe8" + whole[1:224]):
        one = Peer(guarded)
        one.socket.sendall(encode(CONTROL, 0, [wrong]))
        assert is_closed(one.socket)
    for at in (80, 127, 128, 239):
        damaged = bytearray(whole)
        damaged[at] = 0xFF
        one = Peer(guarded)
        one.send(CONTROL, 0, bytes(damaged))
        assert one.refused()[0] == 7 and is_closed(one.socket)
    one = Publisher(guarded, 7, **FEEDER)
    one.until(lambda: one.accepted)
    one.send(CONTROL, 0, login(0, session=7, role=1))
    assert is_closed(one.socket)
    half = Peer(guarded)
    half.socket.sendall(encode(CONTROL, 0, [whole])[:-1])
    reader = Peer(guarded)
    reader.join("*", **DESK)
    reader.until(lambda: reader.accepted)
    reader.send(CONTROL, 0, login(0))
    assert reader.refused()[0] == 1 and is_closed(reader.socket)
    assert guarded.redis().ping()


def run(*arguments, **variables):
    return subprocess.run(
        [BINARY, *arguments], env=environment(variables), capture_output=True, text=True, timeout=60
    )


def test_tools_and_following_hubs_log_in(filled, start_hub, tmp_path):
    set_user(filled, "follower", "on", ">folgt", "+get", "%R~md:NSE.*")
    set_user(filled, "default", ">geheim")
    feed = f"127.0.0.1:{filled.feed_port}"
    password = tmp_path / "password"
    password.write_text("folgt\n")
    follower = start_hub("--source", feed, "--source-user", "follower",
                         "--source-password-file", str(password))
    eventually(lambda: follower.redis().hget("md:NSE.A", "bid") == b"5", "a value")
    assert not follower.redis().exists("md:BSE.A")
    follower = start_hub("--source", feed, "--source-user", "follower",
                         env={"TIDEWIRE_SOURCE_PASSWORD": "folgt"})
    eventually(lambda: follower.redis().hget("md:NSE.B", "bid") == b"5", "a value")
    refused = start_hub("--source", feed)
    eventually(lambda: "NotAllowed: credentials are needed" in refused.stderr, "a warning")
    eventually(lambda: "cannot connect; retrying" in refused.stderr, "its attempts")
    assert refused.stderr.count("credentials are needed") == 1, "one line for one refusal"
    watch = ("watch", "--from", feed, "--info", "none", "--once", "--for", "10ms", "--patience", "2s")
    seen = run(*watch, "--user", "desk", REDISCLI_AUTH="pw")
    assert "NSE.A" in seen.stdout and "BSE.A" not in seen.stdout, seen.stderr
    seen = run(*watch)
    assert seen.returncode != 0 and "credentials are needed" in seen.stderr


class Line:
    """A line between a hub and one that follows it, which can be cut."""

    def __init__(self, target):
        self.target, self.ends, (self.port,) = target, [], free_ports(1)
        self.listener = None

    def open(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, args=(self.listener,), daemon=True).start()

    def cut(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.ends:
            one.close()
        self.ends.clear()

    def _serve(self, listener):
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self.target))
            self.ends += [here, there]
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    @staticmethod
    def _copy(source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def stale(hub):
    """Which market topics are stale."""
    client = hub.redis()
    return {key.decode()[3:]: client.hget(key, "stale") for key in client.keys("md:*")}


def test_a_following_hub_does_not_show_as_current_what_its_user_may_not_read_any_more(
    start_hub, tmp_path
):
    hub = start_hub()
    set_user(hub, "mirror", "on", ">pw", "+get", "%R~md:*")
    publisher = Publisher(hub, 7)
    for name in ("NSE.A", "BSE.A", "BSE.B"):
        publisher.quotes(name, 5)
    has_bid(hub, "BSE.B", 5)
    line, password = Line(hub.feed_port), tmp_path / "password"
    line.open()
    password.write_text("pw")
    follower = start_hub("--source", f"127.0.0.1:{line.port}", "--source-user", "mirror",
                         "--source-password-file", password)
    all_current = {"NSE.A": b"0", "BSE.A": b"0", "BSE.B": b"0"}
    eventually(lambda: stale(follower) == all_current, "all values")
    set_user(hub, "mirror", "resetkeys", "%R~md:NSE.*")
    narrowed = {"NSE.A": b"0", "BSE.A": b"1", "BSE.B": b"1"}
    eventually(lambda: stale(follower) == narrowed, "what it may not read is stale")
    publisher.quotes("NSE.A", 6)
    has_bid(follower, "NSE.A", 6)
    assert stale(follower) == narrowed and bid(follower, "BSE.A") == b"5"
    # The permission comes back, and goes while the line is cut.
    set_user(hub, "mirror", "%R~md:BSE.*")
    eventually(lambda: stale(follower) == all_current, "all values again")
    publisher.quotes("BSE.A", 7)
    has_bid(follower, "BSE.A", 7)
    line.cut()
    eventually(lambda: set(stale(follower).values()) == {b"1"}, "the end of the line")
    set_user(hub, "mirror", "resetkeys", "%R~md:BSE.*")
    line.open()
    swapped = {"NSE.A": b"1", "BSE.A": b"0", "BSE.B": b"0"}
    eventually(lambda: stale(follower) == swapped, "what it may read")
    # Nothing is left.
    set_user(hub, "mirror", "resetkeys")
    eventually(lambda: set(stale(follower).values()) == {b"1"}, "nothing that it may read")
    eventually(lambda: "reads nothing" in follower.stderr, "the reason in its log")
    set_user(hub, "mirror", "%R~md:*")
    eventually(lambda: stale(follower) == all_current, "all values at the end")


class Gateway:
    """A client of the Databento gateway that keeps all that it is sent."""

    def __init__(self, hub, port, key):
        self.socket = hub.connect(port)
        self.data = b""
        self.until(b"cram=")
        self.until(b"\n", self.data.index(b"cram="))
        challenge = self.data.split(b"cram=")[1].strip().decode()
        digest = hashlib.sha256(f"{challenge}|{key}".encode()).hexdigest()
        self.send(f"auth={digest}-{key[-5:]}|dataset=ALL|encoding=dbn|ts_out=0")

    def send(self, line):
        self.socket.sendall(line.encode() + b"\n")

    def until(self, words, after=0):
        while words not in self.data[after:]:
            chunk = self.socket.recv(1 << 16)
            assert chunk, self.data
            self.data += chunk


def test_a_client_of_the_gateway_reads_what_its_user_may(start_hub):
    key, (port,) = "k" * 32, free_ports(1)
    hub = start_hub("--databento", f"127.0.0.1:{port}", "--databento-key", key,
                    "--databento-user", "desk")
    with hub.connect(port) as one:
        assert b"NotAllowed: the user of --databento-user" in one.recv(1000) and is_closed(one)
    set_user(hub, "desk", "on", ">pw", "+get", "%R~md:NSE.*")
    publisher = Publisher(hub, 7)
    for name in ("NSE.A", "BSE.A"):
        publisher.quotes(name, 5)
    has_bid(hub, "BSE.A", 5)
    client = Gateway(hub, port, key)
    client.until(b"success=1")
    for schema in ("mbp-1", "trades", "definition"):
        client.send(f"schema={schema}|stype_in=raw_symbol|symbols=ALL_SYMBOLS|snapshot=0")
    client.send("start_session")
    client.until(b"NSE.A")
    by_name = Gateway(hub, port, key)
    for symbols in ("BSE.A,NSE.A", "2"):
        kind = "instrument_id" if symbols == "2" else "raw_symbol"
        by_name.send(f"schema=mbp-1|stype_in={kind}|symbols={symbols}|snapshot=0")
    by_name.send("start_session")
    by_name.until(b"NSE.A\0")
    for name in ("BSE.NEW", "NSE.NEW", "BSE.A", "NSE.A", "NSE.LAST"):
        publisher.quotes(name, 6)
        publisher.says(trade(publisher.symbols[name], 6 * 10**9, 1, publisher.next))
    client.until(b"NSE.LAST")
    assert b"BSE" not in client.data and b"NSE.NEW" in client.data
    by_name.until(pack("<q", 6 * 10**9))
    assert by_name.data.count(b"BSE.A") == 1, "in the error, as an unknown name"
    set_user(hub, "desk", "%R~md:BSE.*")
    assert is_closed(client.socket)
    again = Gateway(hub, port, key)
    again.send("schema=mbp-1|stype_in=raw_symbol|symbols=ALL_SYMBOLS|snapshot=0")
    again.send("start_session")
    again.until(b"BSE.A\0")
