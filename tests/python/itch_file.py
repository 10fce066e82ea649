"""ITCH 5.0, MoldUDP64, SoupBinTCP and pcap, read and written simply and independently."""

import struct
from collections import Counter, defaultdict
from decimal import Decimal


def frames(data):
    """The messages of a file: each stands behind its length."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">H", data, position)
        yield data[position + 2 : position + 2 + length]
        position += 2 + length
    assert position == len(data)


def framed(message):
    return struct.pack(">H", len(message)) + message


class Market:
    """What a day says of all securities: every order in a table, every level a sum."""

    def __init__(self, messages=()):
        self.names, self.orders = {}, {}
        self.levels = defaultdict(int)
        self.last, self.volume, self.kinds = {}, Counter(), Counter()
        self.halted = {}
        for message in messages:
            self.apply(message)

    def apply(self, message):
        kind = message[:1]
        self.kinds[kind] += 1
        (locate,) = struct.unpack_from(">H", message, 1)
        body = message[11:]
        if kind == b"R":
            self.names[locate] = body[:8].decode().rstrip()
        elif kind == b"H":
            self.halted[locate] = body[8:9] in b"HP"
        elif kind in b"AF":
            reference, side, shares, _, price = struct.unpack_from(">QcI8sI", body)
            self._add(reference, locate, side, shares, price)
        elif kind in b"EC":
            reference, shares = struct.unpack_from(">QI", body)
            price = self.orders[reference][2]
            if kind == b"C":
                printable, price = struct.unpack_from(">cI", body, 20)
                assert printable == b"Y"
            self._take(reference, shares)
            self._trade(locate, price, shares)
        elif kind == b"X":
            self._take(*struct.unpack(">QI", body))
        elif kind == b"D":
            (reference,) = struct.unpack(">Q", body)
            self._take(reference, self.orders[reference][3])
        elif kind == b"U":
            original, reference, shares, price = struct.unpack(">QQII", body)
            _, side, _, held = self.orders[original]
            self._take(original, held)
            self._add(reference, locate, side, shares, price)
        elif kind == b"P":
            _, _, shares, _, price, _ = struct.unpack(">QcI8sIQ", body)
            self._trade(locate, price, shares)
        elif kind == b"Q":
            shares, _, price, _, _ = struct.unpack(">Q8sIQc", body)
            if shares:
                self._trade(locate, price, shares)

    def _add(self, reference, locate, side, shares, price):
        assert reference not in self.orders
        self.orders[reference] = [locate, side, price, shares]
        self.levels[locate, side, price] += shares

    def _take(self, reference, shares):
        order = self.orders[reference]
        locate, side, price, held = order
        assert 0 < shares <= held
        order[3] -= shares
        self.levels[locate, side, price] -= shares
        if not order[3]:
            del self.orders[reference]

    def _trade(self, locate, price, shares):
        self.last[locate] = (price, shares)
        self.volume[locate] += shares

    def tops(self):
        """By name: bid, bid size, ask, ask size, last, last size, volume, as a hub has them."""
        best = defaultdict(dict)
        for (locate, side, price), shares in self.levels.items():
            if not shares:
                continue
            better = max if side == b"B" else min
            known = best[locate].get(side)
            best[locate][side] = price if known is None else better(known, price)
        result = {}
        for locate, name in self.names.items():
            values = []
            for side in (b"B", b"S"):
                price = best[locate].get(side)
                values += [price, self.levels[locate, side, price] if price else 0]
            result[name] = (*values, *self.last.get(locate, (None, 0)), self.volume[locate])
        return result


def values(fields):
    """The same of a hub's fields."""

    def price(text):
        return int(Decimal(text) * 10_000) if text else None

    return (
        price(fields["bid"]), int(fields["bid_size"]),
        price(fields["ask"]), int(fields["ask_size"]),
        price(fields["last"]), int(fields["last_size"]), int(fields["volume"]),
    )


def mold(session, sequence, messages, count=None):
    """A packet of MoldUDP64."""
    header = session.ljust(10).encode() + struct.pack(
        ">QH", sequence, len(messages) if count is None else count
    )
    return header + b"".join(map(framed, messages))


def ethernet(payload, port, group="233.54.12.1"):
    """A frame with a datagram to a group."""
    udp = struct.pack(">HHHH", 1000, port, 8 + len(payload), 0) + payload
    address = bytes(map(int, group.split(".")))
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0,
                     bytes([10, 0, 0, 1]), address)
    return bytes(12) + b"\x08\x00" + ip + udp


def pcap(recorded):
    """A recording of frames: (time ns, frame)."""
    out = [struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)]
    for time_ns, frame in recorded:
        seconds, rest = divmod(time_ns, 10**9)
        out.append(struct.pack("<IIII", seconds, rest, len(frame), len(frame)) + frame)
    return b"".join(out)


def pcapng(recorded):
    """The same in the newer format, with times in microseconds, which is its default."""

    def block(kind, body):
        body += bytes(-len(body) % 4)
        length = len(body) + 12
        return struct.pack("<II", kind, length) + body + struct.pack("<I", length)

    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out.append(block(1, struct.pack("<HHI", 1, 0, 65_535)))
    for time_ns, frame in recorded:
        time = time_ns // 1_000
        head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame))
        out.append(block(6, head + frame))
    return b"".join(out)


def soup(kind, body=b""):
    """A packet of SoupBinTCP."""
    return framed(kind + body)
