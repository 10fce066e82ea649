"""Asks a libzmq.so.5 some 400,000 questions, and prints each with its answer.

`cargo xtask conformance interface` asks libzmq and Tidewire's library, and compares.

Usage: libzmq_interface.py LIBRARY FOLDER. Sockets of ipc are made in FOLDER.
"""

import contextlib
import ctypes
import errno
import os
import re
import signal
import struct
import sys
import time

OWN_ERRNO = 156384712
OWN_NAMES = {51: "EFSM", 52: "ENOCOMPATPROTO", 53: "ETERM", 54: "EMTHREAD"}
TYPES = [
    "PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH", "XPUB", "XSUB",
    "STREAM", "SERVER", "CLIENT", "RADIO", "DISH", "GATHER", "SCATTER", "DGRAM", "PEER", "CHANNEL",
]
LINGER, FD, LAST_ENDPOINT, IPV6, XSUB_VERBOSE_UNSUBSCRIBE = 17, 14, 32, 42, 115
NUMBERS = [-2, -1, 0, 1, 2, 3]
FURTHER_NUMBERS = [
    -(2**31), -100, -99, 4, 7, 100, 255, 256, 1000, 65535, 65536, 6553599, 6553600, 2**31 - 1,
]
SIZES = [0, 1, 4, 8]
ROOMS = [0, 1, 3, 4, 5, 8, 31, 32, 33, 40, 41, 42, 255, 256]
# What is told of an option after it was set.
ROOMS_AFTER = [4, 8, 32, 41, 300, 2000]
Z85 = b"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
TEXTS = {
    "abc": b"abc", "abc and a zero": b"abc\0", "nothing": b"", "X-a:b": b"X-a:b", "a:b": b"a:b",
    "X-a:": b"X-a:", ":b": b":b", "254 letters": b"x" * 254, "255 letters": b"x" * 255,
    "256 letters": b"x" * 256, "1000 letters": b"x" * 1000, "an address": b"127.0.0.1",
    "a network": b"127.0.0.1/8", "a wrong network": b"127.0.0.1/33",
    "a network in short": b"127.1/8x", "a wrong address": b"127.0.0.08", "::1": b"::1",
    "a key in Z85": Z85, "a key in Z85 and a zero": Z85 + b"\0", "a wrong key": Z85[:-1] + b" ",
    "a key": bytes(range(32)), "a zero within": b"a\0b", "a zero at first": b"\0abc",
    "no UTF-8": b"\xff\xfe", "host and port": b"127.0.0.1:1", "a device": b"lo",
    "a long device": b"x" * 17, "40 zeros": b"\0" * 40,
}
HOSTS = [
    "127.0.0.1", "*", "localhost", "lo", "eth0", "0.0.0.0", "[::1]", "::1", "[::]", "::",
    "[fe80::1%lo]", "fe80::1%lo", "[fe80::1%1]", "[fe80::1%nosuch]", "[127.0.0.1]", "[localhost]",
    "[lo]", "[*]", "[", "]", "[]", "[::1", "::1]", "1.2.3.4", "256.1.1.1", "127.1", "0x7f.1",
    "nosuch0", "no-such-host.invalid", "-", "_", "a b", "127.0.0.1 ", " 127.0.0.1", "", "LO",
    "127.0.0.1%lo", "ff02::1", "[::ffff:127.0.0.1]", "::ffff:127.0.0.1", "239.0.0.1",
    "[0:0:0:0:0:0:0:1]", "127.0.0.1;127.0.0.1", "%lo", "[::1%lo]", "[::1%]", "*.*", "lo0", "lo:",
    "127.0.0.1/8", "user@127.0.0.1", "\u00e9", "a" * 300, "2130706433", "0x7f000001", "0177.1",
    "127.0.1", "127.256", "127.0.0.01", "127.0.0.08", "127.16777216", "4294967296", "0x", "127..1",
    "[127.1]", "127.1%lo", "0x7f.1%1", "[::1%1x]", "::ffff:127.1",
]
PORTS = [
    "*", "0", "00", "99999", "65535", "65536", "65537", "131072", "-1", "+41999", " 41999",
    "41999 ", "41999x", "x", "", "0x10", "4 1999", "041999", "99999999999", "!", "*x", "**", "0*",
    "1e3", "41999/", "41999/path", "41999;", "41999:", "41999\n",
]
SOURCES = [
    "127.0.0.1:0", "127.0.0.1:*", "*:0", "*:*", "lo:0", "lo:41998", "localhost:0", "[::1]:0",
    "nosuch0:0", "127.0.0.1", "x:y", ":", "", ":0", "127.0.0.1:", "1.2.3.4:0", "127.0.0.1:41998",
    "127.0.0.1:99999", "127.0.0.1:-1", "eth0:0", "[lo]:0", " 127.0.0.1:0", "127.0.0.1:0;lo:0",
    "127.1:0", "0x7f.1:0", "0177.1:0", "2130706433:0", "127.0.0.08:0", "127.1%lo:0",
]
TARGETS = ["localhost:41999", "*:41999", "127.0.0.1", "", "lo:41999", "[::1]:41999"]
MALFORMED = [
    "", "tcp", "tcp:", "tcp:/", "tcp://", ":///", "://", "tcp//127.0.0.1:41999",
    "TCP://127.0.0.1:41999", " tcp://127.0.0.1:41999", "tcp:///127.0.0.1:41999",
    "http://127.0.0.1:41999", "foo://bar", "://127.0.0.1:41999", "tcp://*", "tcp://:", "tcp://a",
    "wss://127.0.0.1:41999", "pgm://lo;239.192.1.1:41999", "epgm://lo;239.192.1.1:41999",
    "norm://127.0.0.1:41999", "tipc://{1,2,3}", "tipc://<*>", "vmci://*:*", "vsock://1:2",
]
PATHS = [
    "", "FOLDER/a", "a", "@conformance", "@", "*", "/no/such/folder/x", "/tmp", "/", "FOLDER/a b",
    "FOLDER/\u00e9", "/proc/x", "@" + "x" * 105, "@" + "x" * 106, "@" + "x" * 107, "@" + "x" * 108,
]
WEB_PATHS = [
    "*:*/", "*:*/a", "127.0.0.1:41999/a/b?c", "127.0.0.1:*/a b", "/a", "", "127.0.0.1/a",
    "127.0.0.1:41999/" + "x" * 300, "127.0.0.1:41999/" + "x" * 3000, "*/a", "127.0.0.1:41999a/b",
    "127.0.0.1:0;127.0.0.1:41999/a", "localhost:41999/a", "lo:41999/a", "[::1]:41999/a",
    "127.0.0.1:41999//", "127.0.0.1:41999/\u00e9",
]
DATAGRAMS = [
    "127.0.0.1:41999", "*:41999", "*:*", "127.0.0.1:0", "127.0.0.1:*", "239.0.0.1:41999",
    "lo;239.0.0.1:41999", "127.0.0.1;239.0.0.1:41999", "*;239.0.0.1:41999", "[::1]:41999",
    "lo:41999", "localhost:41999", "", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
    "127.0.0.1:x", "127.0.0.1:-1", "[ff02::1]:41999", "lo;[ff02::1]:41999",
    "nosuch0;239.0.0.1:41999", ";239.0.0.1:41999", "239.0.0.1;239.0.0.1:41999",
    "no-such-host.invalid:41999", "lo;127.0.0.1:41999", "0x7f.1:41999", "127.0.0.08:41999",
    "127.1;239.0.0.1:41999", "0x7f000001;239.0.0.1:41999", "[::ffff:127.1]:41999",
]
CONTEXT_OPTIONS = [*range(-1, 12), 42, 70, 99]
# Longer than the end of a bind takes in a background thread.
SETTLE_S = 0.02
PATIENCE_S = 20
TRIES = 5


class Library:
    """The functions that are asked, and the names of their errors."""

    def __init__(self, path):
        self.functions = ctypes.CDLL(path, use_errno=True)
        pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
        number = ctypes.c_int
        for name, result, arguments in [
            ("ctx_new", pointer, []), ("ctx_term", number, [pointer]),
            ("ctx_set", number, [pointer, number, number]), ("ctx_get", number, [pointer, number]),
            ("ctx_set_ext", number, [pointer, number, pointer, size]),
            ("ctx_get_ext", number, [pointer, number, pointer, pointer]),
            ("socket", pointer, [pointer, number]), ("close", number, [pointer]),
            ("setsockopt", number, [pointer, number, pointer, size]),
            ("getsockopt", number, [pointer, number, pointer, pointer]),
            ("bind", number, [pointer, text]), ("unbind", number, [pointer, text]),
            ("connect", number, [pointer, text]), ("disconnect", number, [pointer, text]),
        ]:
            function = getattr(self.functions, "zmq_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    @staticmethod
    def error(result):
        if result != -1:
            return "ok"
        number = ctypes.get_errno()
        own = OWN_NAMES.get(number - OWN_ERRNO)
        return own or errno.errorcode.get(number, str(number))

    def told(self, function, handle, option, room):
        """What `function` fills in, as hexadecimal digits."""
        buffer = ctypes.create_string_buffer(b"\xaa" * max(room, 1), max(room, 1))
        size = ctypes.c_size_t(room)
        result = self.error(function(handle, option, buffer, ctypes.byref(size)))
        return result if result != "ok" else f"ok {buffer.raw[:size.value].hex()}"

    def option(self, socket, option, room):
        told = self.told(self.getsockopt, socket, option, room)
        return "ok descriptor" if option == FD and told.startswith("ok") else told

    def set_number(self, socket, option, value):
        value = ctypes.c_int(value)
        assert self.setsockopt(socket, option, ctypes.byref(value), 4) == 0

    def last_endpoint(self, socket):
        room, size = ctypes.create_string_buffer(4000), ctypes.c_size_t(4000)
        failed = self.getsockopt(socket, LAST_ENDPOINT, room, ctypes.byref(size))
        return b"" if failed else room.value


def options_of(library, option):
    """An option of every type: what it is at first, and after it was set."""
    context = library.ctx_new()
    for kind, name in enumerate(TYPES):
        prefix = f"option {option} of {name}"

        def fresh(kind=kind):
            socket = library.socket(context, kind)
            assert socket, "a type of libzmq's"
            return socket

        socket = fresh()
        for room in ROOMS:
            yield f"{prefix} into {room}", library.option(socket, option, room)
        library.close(socket)
        numbers = [(value, size) for value in NUMBERS for size in SIZES]
        numbers += [(value, 4) for value in FURTHER_NUMBERS]
        values = [(f"{value} in {size}", struct.pack("<q", value)[:size]) for value, size in numbers]
        values += TEXTS.items()
        if option != XSUB_VERBOSE_UNSUBSCRIBE:
            # There libzmq reads from null.
            values.append(("null", None))
        for what, value in values:
            socket = fresh()
            size = 0 if value is None else len(value)
            answer = library.error(library.setsockopt(socket, option, value, size))
            yield f"{prefix} set to {what}", answer
            if answer == "ok":
                for room in ROOMS_AFTER:
                    told = library.option(socket, option, room)
                    yield f"{prefix} set to {what}, into {room}", told
            library.close(socket)
    library.ctx_term(context)


def contexts(library):
    """Options of contexts, as an int and with a size."""
    for option in CONTEXT_OPTIONS:
        context = library.ctx_new()
        got = library.ctx_get(context, option)
        yield f"context option {option}", library.error(got) if got == -1 else str(got)
        for value in NUMBERS + FURTHER_NUMBERS + [100_000]:
            answer = library.error(library.ctx_set(context, option, value))
            got = library.ctx_get(context, option)
            yield f"context option {option} set to {value}", f"{answer}, then {got}"
        for what, value in [("4", b"\1\0\0\0"), ("8", b"\1\0\0\0\0\0\0\0"), *TEXTS.items()]:
            answer = library.error(library.ctx_set_ext(context, option, value, len(value)))
            yield f"context option {option} set to {what}", answer
        library.ctx_term(context)


def endpoint(library, kind, ipv6, deed, text):
    """What becomes of an endpoint: the error or what is told, and how it is undone."""
    undo = library.unbind if deed == "bind" else library.disconnect
    begin = library.bind if deed == "bind" else library.connect
    context = library.ctx_new()
    sockets = [library.socket(context, kind) for _ in range(2)]
    for socket in sockets:
        library.set_number(socket, LINGER, 0)
        library.set_number(socket, IPV6, ipv6)
    name = text.encode()
    answer = library.error(begin(sockets[0], name))
    if answer == "ok":
        told = library.last_endpoint(sockets[0])
        answer = f"ok {without_chance(told)}"
        answer += f", undone {library.error(undo(sockets[0], told))}"
        time.sleep(SETTLE_S)
        again = library.error(begin(sockets[1], name))
        answer += f", again {again}, undone by its name {library.error(undo(sockets[1], name))}"
    for socket in sockets:
        library.close(socket)
    library.ctx_term(context)
    yield f"{deed} {TYPES[kind]}{' with IPv6' if ipv6 else ''} {ascii(text)}", answer


def without_chance(told):
    """An endpoint without what differs each time: the port, and the path."""
    told = told.decode(errors="backslashreplace")
    told = re.sub(r"(/tmp/)?(tmp|zmq-)[0-9A-Za-z]+/socket", "WILDCARD", told)
    return re.sub(r":\d{4,5}\b", lambda port: port[0] if port[0] in SAID else ":CHOSEN", told)


SAID = [f":{port}" for port in (41998, 41999, 34463, 65535, 59391)]


def endpoints(folder):
    texts = MALFORMED + [f"ws://{path}" for path in WEB_PATHS]
    for transport in "tcp", "ws":
        texts += [f"{transport}://{host}:41999" for host in HOSTS]
        texts += [f"{transport}://127.0.0.1:{port}" for port in PORTS]
        texts += [f"{transport}://{host}:{port}" for host in ("*", "lo", "eth0") for port in "*0"]
    texts += [f"tcp://{source};127.0.0.1:41999" for source in SOURCES]
    texts += [f"tcp://127.0.0.1:0;{target}" for target in TARGETS]
    texts += [f"ipc://{path.replace('FOLDER', folder)}" for path in PATHS]
    texts += [f"inproc://{name}" for name in ("", "a", " ", "*", "x" * 256, "x" * 2000, "/")]
    udp = [f"udp://{place}" for place in DATAGRAMS]
    mixed = ["tcp://127.0.0.1:41999", "inproc://a", "ws://127.0.0.1:41999/a", f"ipc://{folder}/a"]
    kind = TYPES.index
    for deed in "bind", "connect":
        for ipv6 in 0, 1:
            yield from ((kind("DEALER"), ipv6, deed, text) for text in texts)
            for name in "RADIO", "DISH", "DGRAM":
                yield from ((kind(name), ipv6, deed, text) for text in udp)
        for name in TYPES:
            yield kind(name), 0, deed, "udp://127.0.0.1:41999"
        for name in "STREAM", "RADIO", "DISH", "DGRAM":
            yield from ((kind(name), 0, deed, text) for text in mixed)


def apart(ask):
    """Asks in a process of its own, again if it dies: libzmq now and then does without a cause."""
    answers = (asked(ask()) for _ in range(TRIES))
    return next((answer for answer in answers if answer is not None), None)


def asked(questions):
    """What a child process answers; `None`: it has died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(PATIENCE_S)
        with os.fdopen(writer, "w") as output:
            for question, answer in questions:
                print(question, answer, sep="\t", file=output)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        answers = answers.read()
    _, status = os.waitpid(child, 0)
    return answers if status == 0 else None


def main():
    library, folder = Library(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for option in range(131):
        answer = apart(lambda option=option: options_of(library, option))
        print(answer or f"option {option}\tdied\n", end="")
    print(apart(lambda: contexts(library)) or "contexts\tdied\n", end="")
    for question in endpoints(folder):
        kind, ipv6, deed, text = question
        named = f"{deed} {TYPES[kind]}{' with IPv6' if ipv6 else ''} {ascii(text)}"
        answer = apart(lambda question=question: endpoint(library, *question))
        answer = answer or f"{named}\tdied\n"
        print(answer.replace(folder, "FOLDER"), end="")
        with contextlib.suppress(FileNotFoundError):
            os.unlink("a")


main()
