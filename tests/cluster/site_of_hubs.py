"""A site that can be broken: three NATS servers, two hubs with one feed, and an edge. Its oracle is
what the feed has said."""

import random
import threading
import time

from feed_client import CONTROL, FeedClient, definition, login, quote, trade
from links import Links
from nats_servers import UNIT, Publisher, are_whole, cluster_file, figures, three_servers
from support import REPOSITORY, Hub, eventually
from watchers import SYMBOLS, Watchers

SOURCE, LEASES = "nasdaq", "KV_TW_tests"
HUBS = ("a", "b", "edge")
USERS = REPOSITORY / "ops/cluster/users.conf"
PASSWORD = "secret"
TESTS = "{ user: tests, password: tests }"
# Longest wait for a cluster that is whole again.
PATIENCE_S = 60
# Longest time from the owner's end to the standby's reign.
TAKEOVER_S = 4


class Oracle:
    """What the exchange has said. Prices rise, so that a value that goes back is seen."""

    def __init__(self):
        self.volumes = [0] * len(SYMBOLS)
        self.lasts = [0] * len(SYMBOLS)
        self.ticks = 0

    def tick(self, number):
        self.ticks += 1
        self.volumes[number] += 1
        self.lasts[number] = self.ticks + 10

    def messages(self, number, size):
        """The trade and the quote that give a symbol its present price."""
        price, now = self.lasts[number], time.time_ns()
        return (
            trade(number + 1, price * UNIT, size, now),
            quote(number + 1, (price - 1) * UNIT, (price + 1) * UNIT, 1, 1, now),
        )

    def expected(self, number):
        if not self.volumes[number]:
            return None
        last = self.lasts[number]
        figures = {"volume": self.volumes[number], "last": last, "bid": last - 1, "ask": last + 1}
        return {name: str(value) for name, value in figures.items()} | {"stale": "0"}


class Feed(Publisher):
    """The feed of one hub. It begins with what the exchange has said before, and goes on where the
    hub has got to when its connection was lost."""

    def __init__(self, hub, session, oracle):
        self.hub, self.history = hub, []
        super().__init__(hub, *SYMBOLS, session=session)
        traded = [number for number, volume in enumerate(oracle.volumes) if volume]
        for number in traded:
            self.send(*oracle.messages(number, oracle.volumes[number]))

    def send(self, *messages):
        self.history.extend(messages)
        try:
            super().send(*messages)
        except OSError:
            self.sequence = len(self.history) + 1
            self.is_lost = True

    def go_on(self):
        """Connects again if the hub has ended the connection, and sends what the hub lacks."""
        if not self.is_lost or self.hub.process.poll() is not None:
            return
        client = FeedClient(self.hub.connect(self.hub.feed_port))
        hello = login(0, next_sequence=1, session=self.session, role=1)
        client.send(CONTROL, 0, hello)
        client.until(lambda: client.accepted)
        with self._lock:
            self.client, self.sequence = client, client.accepted.next
            missing = self.history[self.sequence - 1:]
        self.is_lost = False
        threading.Thread(target=self._live, daemon=True).start()
        for begin in range(0, len(missing), 200):
            Publisher.send(self, *missing[begin:begin + 200])


class Site:
    """The servers, the hubs, the feed of the first two, and clients of all."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.links = Links()
        self.routes = {}
        self.servers = three_servers(folder, self._route, ["-c", self._users()])
        self.oracle = Oracle()
        self.session, self.starts = 100, 0
        self.hubs, self.feeds, self.to_servers = {}, {}, {}
        self.watchers = Watchers()
        self.takeovers = []
        for name in HUBS:
            self.start(name)

    def _users(self):
        """The users of the example, for these hubs; and one for the questions of the tests."""
        text = USERS.read_text().replace("desk", "tests").replace("users: [", f"users: [ {TESTS}", 1)
        for number, name in enumerate(HUBS, 1):
            text = text.replace(f"hub-{number}", name).replace(f"$HUB_{number}_PASSWORD", PASSWORD)
        path = self.folder / "users.conf"
        path.write_text(f"no_auth_user: tests\n{text}")
        (self.folder / "password").write_text(f"{PASSWORD}\n")
        return path

    def _route(self, pair, port):
        self.routes[pair] = self.links.make(port)
        return self.routes[pair].port

    def start(self, name, env=None):
        """Starts a hub; its links to the servers are its own."""
        if name not in self.to_servers:
            self.to_servers[name] = [self.links.make(server.port) for server in self.servers]
        source = None if name == "edge" else SOURCE
        urls = [f"nats://127.0.0.1:{link.port}" for link in self.to_servers[name]]
        login = f"user = '{name}'\npassword-file = '{self.folder / 'password'}'"
        place = cluster_file(self.folder, name, urls, source=source, replicas=3, extra=login)
        self.starts += 1
        folder = self.folder / f"hub-{name}-{self.starts}"
        folder.mkdir()
        hub = self.hubs[name] = Hub(folder, "--cluster", place, env=env)
        if source:
            self.session += 1
            self.feeds[name] = Feed(hub, self.session, self.oracle)
        self.watchers.watch(name, hub)

    def kill(self, name):
        self.watchers.forget(name)
        self.feeds.pop(name, None)
        self.hubs[name].kill()

    def tick(self, count):
        """The same trades to both hubs with a feed, as of one exchange."""
        for _ in range(count):
            number = self.random.randrange(len(SYMBOLS))
            self.oracle.tick(number)
            for feed in self.feeds.values():
                feed.send(*self.oracle.messages(number, 1))

    def pass_time(self, seconds):
        """Trades go on meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick(5)
            time.sleep(0.05)

    def ticks(self):
        return self.oracle.ticks

    def owner(self, among=("a", "b")):
        for name in among:
            if name in self.feeds and (figures(self.hubs[name]) or {}).get("owner") == "1":
                return name
        return None

    def standby(self):
        return "b" if self.owner() == "a" else "a"

    def await_owner(self, among=("a", "b")):
        return eventually(lambda: self.owner(among), f"one of {among} owns the source", PATIENCE_S)

    def before_a_takeover(self):
        """Waits until the servers have got over the faults before, and names owner and standby."""
        copies = "the leases have all copies"
        eventually(lambda: are_whole(self.servers, LEASES), copies, PATIENCE_S)
        return self.await_owner(), self.standby()

    def await_takeover(self, standby):
        """Waits until the standby owns the source. Nothing but the owner may be broken."""
        begin = time.monotonic()
        self.await_owner([standby])
        self.takeovers.append(time.monotonic() - begin)

    def differing(self, name):
        values = self.watchers.values(name)
        found = []
        for number, value in enumerate(values):
            wanted = self.oracle.expected(number) or {}
            if any(value.get(key) != text for key, text in wanted.items()):
                shown = {key: value.get(key) for key in wanted}
                found.append(f"{name} {SYMBOLS[number]}: expected {wanted}, found {shown}")
        return found

    def settle(self, what):
        """Waits until each hub has what the exchange has said, and an owner has it in the log."""
        self.await_owner()
        end = time.monotonic() + PATIENCE_S
        while True:
            for feed in self.feeds.values():
                feed.go_on()
            wrong = [one for name in self.hubs for one in self.differing(name)]
            owner = self.owner()
            own = owner and figures(self.hubs[owner])
            is_logged = own and own["unacknowledged"] == "0" and own["log_lag"] == "0"
            self.watchers.check()
            if not wrong and is_logged:
                return
            if time.monotonic() > end:
                raise AssertionError("\n".join([
                    f"after {what}: {len(wrong)} values differ, such as", *wrong[:3],
                    *(f"{name}: {self.hubs[name].info('cluster')}" for name in self.hubs),
                ]))
            time.sleep(0.05)

    def end(self, is_in_order=False):
        """Ends everything; in order, each hub within its time."""
        try:
            self.watchers.end()
            for hub in self.hubs.values():
                if is_in_order:
                    hub.stop()
                else:
                    hub.kill()
        finally:
            for hub in self.hubs.values():
                hub.kill()
            for server in self.servers:
                server.kill()
            self.links.end()
