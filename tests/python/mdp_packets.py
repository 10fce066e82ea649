"""CME MDP 3.0: packets packed by the offsets of the specification, and a naive exchange."""

import random
import struct
from decimal import Decimal

NULL_PRICE = 2**63 - 1
NULL_INT32 = 2**31 - 1
NULL_UINT64 = 2**64 - 1

NEW, CHANGE, DELETE = 0, 1, 2
LAST_TRADE, LAST_VOLUME, LAST_QUOTE, LAST_STATISTICS, END_OF_EVENT = 1, 2, 4, 8, 128
BEGIN_NS = 1_700_000_000_000_000_000


def packet(sequence, *messages, time_ns=None):
    """A packet: sequence and sending time, then each message behind its size."""
    if time_ns is None:
        time_ns = BEGIN_NS + sequence * 1_000_000
    return struct.pack("<IQ", sequence, time_ns) + b"".join(messages)


def message(template, block, *groups, version=13):
    """A message: its size counts itself and the header."""
    body = block + b"".join(groups)
    return struct.pack("<HHHHH", len(body) + 10, len(block), template, 1, version) + body


def group(length, entries):
    """A group with the header of three bytes."""
    assert all(len(entry) == length for entry in entries)
    return struct.pack("<HB", length, len(entries)) + b"".join(entries)


def group8(length, entries):
    """A group with the header of eight bytes."""
    assert all(len(entry) == length for entry in entries)
    return struct.pack("<H5xB", length, len(entries)) + b"".join(entries)


def root(time_ns, indicator):
    """The root block of incremental refreshes: 11 bytes."""
    return struct.pack("<QB2x", time_ns, indicator)


def heartbeat():
    return message(12, b"")


def channel_reset(time_ns, channel=310):
    entry = struct.pack("<h", channel)
    return message(4, struct.pack("<QB", time_ns, END_OF_EVENT), group(2, [entry]))


def status(time_ns, state, group_name=b"TW", security_id=NULL_INT32, event=0, date=65535):
    block = struct.pack(
        "<Q6s6siHBBBB", time_ns, group_name, b"", security_id, date, END_OF_EVENT, state, 0, event
    )
    assert len(block) == 30
    return message(30, block)


def level_entry(security_id, rpt_seq, kind, action, number, price, size, orders, version=13):
    """An entry of template 46: 32 bytes."""
    tradeable = NULL_INT32 if version >= 10 else 0
    return struct.pack(
        "<qiiIiBBcix", price, size, security_id, rpt_seq, orders, number, action, kind, tradeable
    )


def order_entry(order_id, size, reference, action):
    """An entry of template 46's group of orders: 24 bytes."""
    return struct.pack("<QQiBB2x", order_id, order_id, size, reference, action)


def book(time_ns, levels, orders=(), indicator=LAST_QUOTE | END_OF_EVENT, version=13):
    groups = group(32, levels), group8(24, orders)
    return message(46, root(time_ns, indicator), *groups, version=version)


def trades(time_ns, entries, indicator=LAST_TRADE, action=NEW):
    """Trade summaries: (security, rpt_seq, price, size, aggressor)."""
    packed = [
        struct.pack("<qiiIiBBI2x", price, size, security, rpt_seq, 2, aggressor, action, rpt_seq)
        for security, rpt_seq, price, size, aggressor in entries
    ]
    return message(48, root(time_ns, indicator), group(32, packed), group8(16, []))


def volume(time_ns, security_id, rpt_seq, size, indicator=LAST_VOLUME):
    entry = struct.pack("<iiIB3x", size, security_id, rpt_seq, CHANGE)
    return message(37, root(time_ns, indicator), group(16, [entry]))


def statistics(time_ns, entries):
    """Session statistics: (security, rpt_seq, kind, price)."""
    packed = [
        struct.pack("<qiIBBci1x", price, security, rpt_seq, 255, NEW, kind, NULL_INT32)
        for security, rpt_seq, kind, price in entries
    ]
    return message(51, root(time_ns, LAST_STATISTICS | END_OF_EVENT), group(24, packed))


def settlement(time_ns, security_id, rpt_seq, price):
    entry = struct.pack("<qiiIHBBc7x", price, NULL_INT32, security_id, rpt_seq, 65535, 3, NEW, b"6")
    return message(49, root(time_ns, LAST_STATISTICS | END_OF_EVENT), group(32, [entry]))


def snapshot(as_of, total, security_id, rpt_seq, time_ns, entries, state=17):
    """A snapshot by price: (kind, price, size, orders, level)."""
    block = struct.pack(
        "<IIiIQQHBqqq", as_of, total, security_id, rpt_seq, time_ns, time_ns, 65535, state,
        NULL_PRICE, NULL_PRICE, NULL_PRICE,
    )
    assert len(block) == 59
    packed = [
        struct.pack("<qiibHBBc", price, size, orders, number, 65535, 255, 0, kind)
        for kind, price, size, orders, number in entries
    ]
    return message(52, block, group(22, packed))


def definition(security_id, name, tick, factor, reference=NULL_PRICE, total=1, depth=10):
    """A future's definition, template 54: 224 bytes and its groups."""
    block = bytearray(224)
    struct.pack_into("<BIcQBhBB", block, 0, END_OF_EVENT, total, b"A", BEGIN_NS, 17, 310, 54, 4)
    struct.pack_into("<4s6s6s20si", block, 19, b"XCME", b"TW", b"TW", name, security_id)
    struct.pack_into("<6s6sHBBB3s3sc", block, 59, b"FUT", b"FFCXSX", 2026, 12, 255, 255,
                     b"USD", b"USD", b"F")
    struct.pack_into("<IIqq", block, 83, 1, 10_000, tick, factor)
    struct.pack_into("<q", block, 148, reference)
    feeds = [struct.pack("<3sb", b"GBX", depth), struct.pack("<3sb", b"GBI", 2)]
    return message(54, bytes(block), group(9, []), group(4, feeds), group(4, []), group(5, []))


class Instrument:
    """Levels by price; every change is told as the exchange numbers levels."""

    def __init__(self, number, rng, depth=10):
        self.security_id = 5_000 + 11 * number
        self.name = f"TW{number}"
        self.tick, self.factor = 25_000_000_000, 10_000_000
        self.middle = rng.randrange(4_000, 5_000) * self.tick
        self.depth, self.rpt_seq, self.volume, self.last = depth, 0, 0, None
        self.sides = {b"0": {}, b"1": {}}

    def next(self):
        self.rpt_seq += 1
        return self.rpt_seq

    def sorted(self, kind):
        return sorted(self.sides[kind].items(), reverse=kind == b"0")

    def set(self, kind, price, level):
        """Sets or (None) removes a level, and returns the entries that tell it."""
        before = [at for at, _ in self.sorted(kind)]
        if level is None:
            del self.sides[kind][price]
            number, action = before.index(price) + 1, DELETE
        else:
            action = CHANGE if price in self.sides[kind] else NEW
            self.sides[kind][price] = level
            number = [at for at, _ in self.sorted(kind)].index(price) + 1
        if number > self.depth:
            return []
        size, orders = level or (NULL_INT32, NULL_INT32)
        entries = [self.entry(kind, action, number, price, size, orders)]
        after = self.sorted(kind)
        if action == DELETE and len(after) >= self.depth:
            entering, (size, orders) = after[self.depth - 1]
            entries.append(self.entry(kind, NEW, self.depth, entering, size, orders))
        return entries

    def entry(self, kind, action, number, price, size, orders):
        return level_entry(self.security_id, self.next(), kind, action, number, price, size, orders)

    def step(self, rng, time_ns):
        """The messages of a random event."""
        kind = rng.choice([b"0", b"1"])
        levels = self.sorted(kind)
        choice = rng.random()
        if len(levels) > 2 and choice < 0.2:
            return self.trade(rng, kind, time_ns)
        if len(levels) > 2 and choice < 0.4:
            entries = self.set(kind, rng.choice(levels)[0], None)
        else:
            sign = -1 if kind == b"0" else 1
            price = self.middle + sign * self.tick * rng.randrange(1, 15)
            entries = self.set(kind, price, (rng.randrange(1, 500), rng.randrange(1, 9)))
        return book(time_ns, entries)

    def trade(self, rng, kind, time_ns):
        price, (size, orders) = self.sorted(kind)[0]
        taken = rng.randrange(1, size + 1)
        self.volume += taken
        self.last = price, taken
        aggressor = 2 if kind == b"0" else 1
        told = trades(time_ns, [(self.security_id, self.next(), price, taken, aggressor)])
        told += volume(time_ns, self.security_id, self.next(), self.volume)
        left = None if taken == size else (size - taken, orders)
        return told + book(time_ns, self.set(kind, price, left))

    def snapshot(self, as_of, total, time_ns, state=17):
        entries = []
        for kind in self.sides:
            for number, (price, (size, orders)) in enumerate(self.sorted(kind)[: self.depth], 1):
                entries.append((kind, price, size, orders, number))
        if self.last:
            entries.append((b"2", *self.last, NULL_INT32, 127))
        entries.append((b"e", NULL_PRICE, self.volume, NULL_INT32, 127))
        return snapshot(as_of, total, self.security_id, self.rpt_seq, time_ns, entries, state)

    def values(self):
        """What a hash says of it: bid, sizes and so on, in the traders' prices."""

        def told(kind):
            levels = self.sorted(kind)
            return (self.price(levels[0][0]), levels[0][1][0]) if levels else (None, 0)

        last = (self.price(self.last[0]), self.last[1]) if self.last else (None, 0)
        return (*told(b"0"), *told(b"1"), *last, self.volume)

    def price(self, wire):
        return Decimal(wire) * self.factor / 10**18


class Exchange:
    """A channel: the next packet of each feed."""

    def __init__(self, instruments=8, seed=1, depth=10):
        self.rng = random.Random(seed)
        self.instruments = [Instrument(n, self.rng, depth) for n in range(instruments)]
        self.sequence = 0

    def begin(self):
        self.sequence += 1
        return BEGIN_NS + self.sequence * 1_000_000

    def next(self):
        time_ns = self.begin()
        events = [
            self.rng.choice(self.instruments).step(self.rng, time_ns + number)
            for number in range(self.rng.randrange(1, 4))
        ]
        return packet(self.sequence, *events)

    def reset(self):
        time_ns = self.begin()
        for one in self.instruments:
            one.rpt_seq, one.sides = 0, {b"0": {}, b"1": {}}
        return packet(self.sequence, channel_reset(time_ns))

    def heartbeat(self):
        self.begin()
        return packet(self.sequence, heartbeat())

    def definitions(self, reference=NULL_PRICE):
        total = len(self.instruments)
        for number, one in enumerate(self.instruments, 1):
            yield packet(number, definition(one.security_id, one.name.encode(), one.tick,
                                            one.factor, reference, total, one.depth))

    def halt(self):
        time_ns = self.begin()
        return packet(self.sequence, status(time_ns, 2))

    def snapshots(self, state=17):
        known = [one for one in self.instruments if one.rpt_seq]
        time_ns = BEGIN_NS + self.sequence * 1_000_000
        for number, one in enumerate(known, 1):
            told = one.snapshot(self.sequence, len(known), time_ns, state)
            yield packet(number, told, time_ns=time_ns)


def values(fields):
    """The same of a hash."""
    def price(name):
        return Decimal(fields[name]) if fields[name] else None

    def number(name):
        return int(fields[name] or 0)

    return (price("bid"), number("bid_size"), price("ask"), number("ask_size"),
            price("last"), number("last_size"), number("volume"))
