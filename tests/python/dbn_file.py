"""DBN files read, written and followed to the top of the book, simply and independently."""

import struct
from collections import defaultdict

import zstandard

HEADER = struct.Struct("<BBHIQ")
TRADE, QUOTE, ORDER = 0x00, 0x01, 0xA0
ABSENT = 2**63 - 1
SNAPSHOT = 0x20


def read(path):
    """Names by instrument id, and the records as (rtype, instrument id, time, bytes)."""
    data = path.read_bytes()
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        data = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(data)
    assert data[:3] == b"DBN"
    version, (length,) = data[3], struct.unpack_from("<I", data, 4)
    return _names(version, data[8 : 8 + length]), list(_records(data, 8 + length))


def _names(version, metadata):
    width = 22 if version == 1 else struct.unpack_from("<H", metadata, 45)[0]
    position = 100
    (definition,) = struct.unpack_from("<I", metadata, position)
    position += 4 + definition

    def count():
        nonlocal position
        (number,) = struct.unpack_from("<I", metadata, position)
        position += 4
        return number

    def text():
        nonlocal position
        position += width
        return metadata[position - width : position].rstrip(b"\0").decode()

    for _ in range(3):
        for _ in range(count()):
            text()
    names = {}
    for _ in range(count()):
        name = text()
        for _ in range(count()):
            position += 8
            names[int(text())] = name
    return names


def _records(data, position):
    while position < len(data):
        length, rtype, _, instrument, time_ns = HEADER.unpack_from(data, position)
        yield rtype, instrument, time_ns, data[position + 16 : position + length * 4]
        position += length * 4
    assert position == len(data)


def order_time_ns(event_time_ns, body):
    """When an order took effect: those of a snapshot have the time of the snapshot."""
    (flags,) = struct.unpack_from("<B", body, 20)
    (receive_time_ns,) = struct.unpack_from("<Q", body, 24)
    return receive_time_ns if flags & SNAPSHOT else event_time_ns


def file(mappings, records, schema=2**16 - 1):
    """A file of version 2: (name, [(first day, day after the last, instrument id)]), and records.

    Without a schema it may mix them."""
    metadata = struct.pack(
        "<16sHQQQBBBH53x", b"GLBX.MDP3", schema, 0, ABSENT, 0, 1, 0, 0, 71
    )
    metadata += struct.pack("<III", 0, 0, 0) + struct.pack("<I", 0)
    metadata += struct.pack("<I", len(mappings))
    for name, intervals in mappings:
        metadata += struct.pack("<71sI", name.encode(), len(intervals))
        for first, end, instrument in intervals:
            metadata += struct.pack("<II71s", first, end, str(instrument).encode())
    metadata += bytes(-len(metadata) % 8)
    return b"DBN\x02" + struct.pack("<I", len(metadata)) + metadata + b"".join(records)


def trades_file(symbol, trades):
    """A file with these trades: (time, price, size)."""
    records = [trade(time_ns, price, size) for time_ns, price, size in trades]
    return file([(symbol, [(20200101, 20300101, 42)])], records, schema=4)


def _record(rtype, instrument, publisher, time_ns, body):
    length = (HEADER.size + len(body)) // 4
    return HEADER.pack(length, rtype, publisher, instrument, time_ns) + body


def _event(time_ns, price, size):
    return struct.pack("<qIccBBQiI", price, size, b"T", b"A", 0x80, 0, time_ns, 0, 0)


def trade(time_ns, price, size, instrument=42, publisher=1):
    return _record(TRADE, instrument, publisher, time_ns, _event(time_ns, price, size))


def quoted_trade(time_ns, price, size, bid, ask, instrument=42, publisher=1):
    """The same trade as a record of `mbp-1`."""
    level = struct.pack("<qqIIII", bid, ask, 1, 1, 1, 1)
    body = _event(time_ns, price, size) + level
    return _record(QUOTE, instrument, publisher, time_ns, body)


def order(time_ns, order_id, price, size, flags, action, side, instrument=42, publisher=1):
    body = struct.pack(
        "<QqIBBccQiI", order_id, price, size, flags, 0, action, side, time_ns, 0, 0
    )
    return _record(ORDER, instrument, publisher, time_ns, body)


def mapping(instrument, name, time_ns=0, start_ns=2**64 - 1, end_ns=2**64 - 1):
    body = struct.pack("<B71sB71sQQ", 1, b"", 1, name.encode(), start_ns, end_ns)
    return _record(0x16, instrument, 1, time_ns, body)


def statistic(time_ns, number, reference_ns, price, instrument=42, publisher=1):
    """A statistic that is a price, in the layout of version 2."""
    body = struct.pack(
        "<QQqiIiHHBB6x", time_ns, reference_ns, price, 2**31 - 1, 0, 0, number, 0, 1, 0
    )
    return _record(0x18, instrument, publisher, time_ns, body)


def daily_bar(day_ns, close, instrument=42, publisher=1):
    body = struct.pack("<qqqqQ", close, close, close, close, 1)
    return _record(0x23, instrument, publisher, day_ns, body)


def status(time_ns, action, reason, flags=b"~~", instrument=42, publisher=1):
    """A status; the flags say whether the instrument trades, and whether it is quoted."""
    body = struct.pack("<QHHH2sc7x", time_ns, action, reason, 0, flags, b"~")
    return _record(0x12, instrument, publisher, time_ns, body)


def definition(time_ns, name, tick, lot_size, currency, instrument=42, publisher=1):
    """A definition of version 3 with the fields that Tidewire sends on."""
    body = bytearray(504)
    struct.pack_into("<Qq", body, 0, time_ns, tick)
    struct.pack_into("<i", body, 144, lot_size)
    struct.pack_into("<4s", body, 208, currency.encode())
    struct.pack_into("<71s", body, 222, name.encode())
    return _record(0x13, instrument, publisher, time_ns, body)


class Market:
    """What a file says of one instrument in the end: prices of 1e-9 units, `None` where absent."""

    def __init__(self):
        self.orders = {}
        self.levels = {b"B": defaultdict(int), b"A": defaultdict(int)}
        self.bid = self.ask = self.last = None
        self.bid_size = self.ask_size = self.last_size = self.volume = 0
        self.trades = 0

    def apply(self, rtype, body):
        if rtype == ORDER:
            order_id, price, size, flags, _, action, side = struct.unpack_from("<QqIBBcc", body)
            if action == b"T":
                self._trade(price, size)
            else:
                self._order(order_id, price, size, action, side)
        elif rtype in (TRADE, QUOTE):
            price, size, action = struct.unpack_from("<qIc", body)
            if action == b"T":
                self._trade(price, size)
            if rtype == QUOTE:
                bid, ask, self.bid_size, self.ask_size = struct.unpack_from("<qqII", body, 32)
                self.bid, self.ask = (None if p == ABSENT else p for p in (bid, ask))

    def _trade(self, price, size):
        self.last, self.last_size = price, size
        self.volume += size
        self.trades += 1

    def _order(self, order_id, price, size, action, side):
        if action == b"R":
            self._clear()
        elif action == b"A":
            self._put(order_id, price, size, side)
        elif action == b"M":
            self._take(order_id, None)
            self._put(order_id, price, size, side)
        elif action == b"C":
            self._take(order_id, size)

    def _clear(self):
        self.orders.clear()
        for level in self.levels.values():
            level.clear()

    def _put(self, order_id, price, size, side):
        self.orders[order_id] = [price, size, side]
        self.levels[side][price] += size

    def _take(self, order_id, size):
        price, held, side = self.orders[order_id]
        size = held if size is None else min(size, held)
        self.orders[order_id][1] -= size
        if self.orders[order_id][1] == 0:
            del self.orders[order_id]
        self.levels[side][price] -= size
        if self.levels[side][price] == 0:
            del self.levels[side][price]

    def top_of_orders(self):
        """Takes bid and ask from the orders."""
        bids, asks = self.levels[b"B"], self.levels[b"A"]
        self.bid, self.ask = max(bids, default=None), min(asks, default=None)
        self.bid_size, self.ask_size = bids.get(self.bid, 0), asks.get(self.ask, 0)


def follow(path):
    """The name of a file's only instrument, its market at the end, and the number of records."""
    names, records = read(path)
    market = Market()
    for rtype, instrument, _, body in records:
        market.apply(rtype, body)
    if any(rtype == ORDER for rtype, _, _, _ in records):
        market.top_of_orders()
    [name] = {names[instrument] for _, instrument, _, _ in records}
    return name, market, records
