"""A client of the native feed, written from docs/feed-protocol.md and from nothing else."""

import struct
from dataclasses import dataclass, field

MAGIC, VERSION = 0x5754, 1
LIVE, HEARTBEAT, SNAPSHOT, RETRANSMISSION, END, CONTROL, FILTERED = 0, 1, 2, 4, 8, 16, 32
ABSENT = 2**63 - 1
HEADER = struct.Struct("<HBBHHIIQ")
PREFIX = struct.Struct("<BBHIQ")


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data):
    """CRC-32C (Castagnoli)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@dataclass
class Packet:
    flags: int
    count: int
    session: int
    first: int
    body: bytes


@dataclass
class Trade:
    symbol: int
    time_ns: int
    price: int
    size: int


@dataclass
class Quote:
    symbol: int
    time_ns: int
    bid: int
    ask: int
    bid_size: int
    ask_size: int


@dataclass
class Definition:
    symbol: int
    open: int
    name: str


@dataclass
class LastValue:
    symbol: int
    sequence: int
    bid: int
    ask: int
    last: int
    volume: int


@dataclass
class Skip:
    count: int


@dataclass
class Begin:
    as_of: int


@dataclass
class End:
    as_of: int
    records: int


@dataclass
class Accepted:
    next: int
    oldest: int
    session: int
    heartbeat_ms: int


@dataclass
class Refused:
    reason: int
    words: str


@dataclass
class Notice:
    as_of: int
    number: int


@dataclass
class TooOld:
    first: int
    oldest: int
    conflated: bool
    dropped: bool = False


@dataclass
class Level:
    symbol: int
    time_ns: int
    price: int
    size: int
    orders: int
    side: int
    action: int
    is_last: int


@dataclass
class Other:
    kind: int


def encode(flags, first, messages, session=0):
    """A packet of these messages."""
    body = b"".join(messages)

    def header(checksum):
        return HEADER.pack(
            MAGIC, VERSION, flags, len(messages), len(body), session, checksum, first
        )

    return header(crc32c(header(0) + body)) + body


# What the server does when the client is too slow; 0 is its own choice.
CONFLATE, LEAVE_OUT, DISCONNECT = 1, 2, 3


def login(
    subscriptions, next_sequence=0, session=0, role=0, slow=0, name=b"tests", user=None, password=b""
):
    kind = 0x58 if user is None else 0xF8
    body = PREFIX.pack(kind, 0, 0, 0, 0) + struct.pack(
        "<QIBBH48s", next_sequence, session, role, slow, subscriptions, name
    )
    return body if user is None else body + struct.pack("<48s112s", user, password)


def subscribe(pattern, resume=False):
    return PREFIX.pack(0x69, int(resume), 0, 0, 0) + struct.pack("<80s", pattern.encode())


def unsubscribe(pattern):
    return PREFIX.pack(0x6A, 0, 0, 0, 0) + struct.pack("<80s", pattern.encode())


def snapshot_request(pattern):
    return PREFIX.pack(0x6B, 0, 0, 0, 0) + struct.pack("<80s", pattern.encode())


def request(first, count):
    return PREFIX.pack(0x28, 0, 0, 0, 0) + struct.pack("<QQ", first, count)


def trade(symbol, price, size, time_ns, source=0):
    return PREFIX.pack(0x21, 0, source, symbol, time_ns) + struct.pack("<qII", price, size, 0)


def status(symbol, state, time_ns, reason=0):
    return PREFIX.pack(0x24, 0, 0, symbol, time_ns) + struct.pack("<B3xIQ", state, reason, 0)


def quote(symbol, bid, ask, bid_size, ask_size, time_ns):
    return PREFIX.pack(0x31, 0, 0, symbol, time_ns) + struct.pack(
        "<qqIIII", bid, ask, bid_size, ask_size, 0, 0
    )


BID, ASK = 1, 2
SET, CLEAR, END_OF_LEVELS = 0, 1, 2


def level(symbol, side, price, size, orders=1, action=SET, is_last=False, depth=0, time_ns=0):
    return PREFIX.pack(0x33, 0, 0, symbol, time_ns) + struct.pack(
        "<qIIBBBxHxx8x", price, size, orders, side, action, is_last, depth
    )


def definition(symbol, name, open_price=ABSENT):
    return PREFIX.pack(0x71, 0, 0, symbol, 0) + struct.pack(
        "<qqI4s72s", open_price, 0, 0, b"USD", name.encode()
    )


# What a server says.


def accepted(session, next_sequence, oldest=1, partial=True, heartbeat_ms=1_000):
    return PREFIX.pack(0x38, int(partial), 0, 0, 0) + struct.pack(
        "<QQIIQ", next_sequence, oldest, session, heartbeat_ms, 0
    )


def notice(number, as_of, since=0):
    return PREFIX.pack(0x2B, 0, 0, 0, since) + struct.pack("<QII", as_of, number, 0)


def too_old(wanted, oldest, recovers=False):
    return PREFIX.pack(0x29, 4 * recovers, 0, 0, 0) + struct.pack("<QQ", wanted, oldest)


def mark(kind, as_of, records):
    """The beginning (0x22) or the end (0x23) of a snapshot."""
    return PREFIX.pack(kind, 0, 0, 0, 0) + struct.pack("<QQ", as_of, records)


def skip(count):
    return PREFIX.pack(0x10, 0, 0, 0, count)


def last_value(symbol, sequence, bid):
    """A record of a bid of so many whole units, and of nothing else."""
    return PREFIX.pack(0x61, 0, 0, symbol, 5) + struct.pack(
        "<QqqIIIIqIB3xQqQ", sequence, bid * 10**9, ABSENT, 1, 0, 0, 0, ABSENT, 0, 2, 0, ABSENT, 1
    )


def packets_of(stream):
    """The packets of a stream of bytes, each checked."""
    position = 0
    while position < len(stream):
        packet, position = _packet_at(stream, position)
        yield packet


def _packet_at(stream, position):
    header = stream[position : position + HEADER.size]
    magic, version, flags, count, length, session, checksum, first = HEADER.unpack(header)
    assert (magic, version) == (MAGIC, VERSION) and length % 16 == 0
    body = stream[position + HEADER.size : position + HEADER.size + length]
    assert len(body) == length
    assert crc32c(header[:12] + bytes(4) + header[16:] + body) == checksum
    return Packet(flags, count, session, first, bytes(body)), position + HEADER.size + length


def messages_of(packet):
    """The messages of a packet."""
    position, count = 0, 0
    while position < len(packet.body):
        kind = packet.body[position]
        length = (kind >> 4) * 16
        assert length > 0
        yield _message(packet.body[position : position + length])
        position += length
        count += 1
    assert count == packet.count


def _message(body):
    kind, flags, _, symbol, time_ns = PREFIX.unpack_from(body)

    def fields(form):
        return struct.unpack_from("<" + form, body, 16)

    def text(start):
        return body[start:].rstrip(b"\0").decode()

    match kind:
        case 0x21:
            return Trade(symbol, time_ns, *fields("qI"))
        case 0x31:
            return Quote(symbol, time_ns, *fields("qqII"))
        case 0x33:
            return Level(symbol, time_ns, *fields("qIIBBB"))
        case 0x71:
            return Definition(symbol, *fields("q"), text(40))
        case 0x61:
            sequence, bid, ask = fields("Qqq")
            (last,) = struct.unpack_from("<q", body, 56)
            (volume,) = struct.unpack_from("<Q", body, 72)
            return LastValue(symbol, sequence, bid, ask, last, volume)
        case 0x10:
            return Skip(time_ns)
        case 0x22:
            return Begin(fields("Q")[0])
        case 0x23:
            return End(*fields("QQ"))
        case 0x38:
            return Accepted(*fields("QQII"))
        case 0x68:
            return Refused(fields("H")[0], text(24))
        case 0x2B:
            return Notice(*fields("QI"))
        case 0x29:
            return TooOld(*fields("QQ"), bool(flags & 1), bool(flags & 2))
    return Other(kind)


@dataclass
class FeedClient:
    """A subscriber over one connection that takes note of all that it is told."""

    socket: object
    data: bytes = b""
    packets: list = field(default_factory=list)
    heartbeats: list = field(default_factory=list)
    # Name by symbol id, and the newest price of each symbol with the sequence it has from.
    names: dict = field(default_factory=dict)
    values: dict = field(default_factory=dict)
    expected: int = 0
    live: list = field(default_factory=list)
    accepted: object = None
    snapshots: int = 0
    # How often it was told that it had been too slow.
    conflated: int = 0
    # The ranges that were left out because of that.
    dropped: list = field(default_factory=list)
    # The stream goes on here after the last conflation.
    resume: int = 0

    def send(self, flags, first, *messages, session=0):
        self.socket.sendall(encode(flags, first, messages, session))

    def join(self, *patterns, **options):
        """Logs in and subscribes."""
        self.send(CONTROL, 0, login(len(patterns), **options))
        resume = options.get("next_sequence", 0) > 0
        for pattern in patterns:
            self.send(CONTROL, 0, subscribe(pattern, resume))

    def receive(self):
        """Waits for the next packet."""
        while len(self.data) < HEADER.size:
            self._more()
        length = HEADER.size + HEADER.unpack_from(self.data)[4]
        while len(self.data) < length:
            self._more()
        packet, end = _packet_at(self.data, 0)
        self.data = self.data[end:]
        return packet

    def _more(self):
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise ConnectionError("the hub has closed the connection")
        self.data += chunk

    def step(self):
        """Takes the next packet, and returns it."""
        packet = self.receive()
        if packet.flags & HEARTBEAT:
            self.heartbeats.append(packet)
            if self.expected and packet.first:
                assert packet.first == max(self.expected, self.resume), "all that was sent has come"
            return packet
        if packet.flags & CONTROL:
            for message in messages_of(packet):
                self._control(message)
            return packet
        if packet.flags & SNAPSHOT:
            for message in messages_of(packet):
                self._snapshot(message)
            return packet
        if self.expected and self.expected < self.resume:
            self.expected = self.resume
        if self.expected:
            assert packet.first == self.expected, "a TCP stream has neither gap nor overlap"
        sequence = packet.first
        for message in messages_of(packet):
            self._live(sequence, message)
            sequence += message.count if isinstance(message, Skip) else 1
        self.expected = sequence
        return packet

    def until(self, condition):
        """Takes packets until the condition holds."""
        while not condition():
            self.step()

    def _control(self, message):
        if isinstance(message, Accepted):
            self.accepted = message
        if isinstance(message, TooOld) and message.conflated:
            self.conflated += 1
            self.resume = message.oldest
        if isinstance(message, TooOld) and message.dropped:
            self.dropped.append((message.first, message.oldest))
            self.resume = message.oldest
        if isinstance(message, Refused):
            raise ConnectionError(f"refused with reason {message.reason}: {message.words}")

    def _snapshot(self, message):
        if isinstance(message, Definition):
            self.names[message.symbol] = message.name
        if isinstance(message, LastValue) and message.sequence >= self._sequence(message.symbol):
            self.values[message.symbol] = {
                "seq": message.sequence, "bid": message.bid, "ask": message.ask,
                "last": message.last,
            }
        if isinstance(message, End):
            self.snapshots += 1

    def _live(self, sequence, message):
        if isinstance(message, Definition):
            self.names[message.symbol] = message.name
        if isinstance(message, Level):
            self.live.append((sequence, message))
        if isinstance(message, (Quote, Trade)) and sequence > self._sequence(message.symbol):
            value = self.values.setdefault(message.symbol, {})
            value["seq"] = sequence
            if isinstance(message, Quote):
                value |= {"bid": message.bid, "ask": message.ask}
            else:
                value["last"] = message.price
            self.live.append((sequence, message))

    def _sequence(self, symbol):
        return self.values.get(symbol, {"seq": 0})["seq"]
