"""Clients of the hubs that note every value, so that none goes back unseen."""

import json
import threading

import redis

SYMBOLS = [f"S{number}" for number in range(50)]
PATTERN = "md:S*"


class Watcher:
    """A subscriber of one run of a hub, on a thread of its own. Volume and price of each topic only
    rise: the feed's prices do, and each owner's feed has said everything from the beginning."""

    def __init__(self, name, hub):
        self.name, self.newest = name, {}
        self.faults, self.messages = [], 0
        self._is_wanted = True
        # Of its own: a hub that is killed closes the clients that it has made.
        self._client = redis.Redis("127.0.0.1", hub.resp_port, socket_timeout=1)
        self._pubsub = self._client.pubsub()
        self._pubsub.psubscribe(PATTERN)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while self._is_wanted:
            try:
                message = self._pubsub.get_message(timeout=0.5)
            except (redis.TimeoutError, redis.ConnectionError, OSError, ValueError):
                # A hub that is stopped does not answer; one that has ended never will.
                continue
            if message and message["type"] == "pmessage":
                self._note(json.loads(message["data"]))

    def _note(self, value):
        self.messages += 1
        symbol = value["symbol"]
        newest = self.newest.setdefault(symbol, {})
        for field in ("last", "bid", "ask", "volume", "seq"):
            # No price, or no volume, is what a new session has before its first value.
            if not value[field]:
                continue
            if value[field] < newest.get(field, 0):
                before = newest[field]
                self.faults.append(f"{self.name}: {field} of {symbol} was {before}, then {value}")
            newest[field] = value[field]

    def end(self):
        self._is_wanted = False
        self._thread.join(5)
        self._client.close()


class Watchers:
    """A watcher of each hub, and its values as they are now."""

    def __init__(self):
        self._watchers, self._clients, self._ended = {}, {}, []

    def watch(self, name, hub):
        self.forget(name)
        self._watchers[name] = Watcher(name, hub)
        self._clients[name] = hub.redis()

    def forget(self, name):
        if watcher := self._watchers.pop(name, None):
            watcher.end()
            self._ended.append(watcher)

    def values(self, name):
        pipeline = self._clients[name].pipeline(transaction=False)
        for symbol in SYMBOLS:
            pipeline.hgetall(f"md:{symbol}")
        return [{key.decode(): value.decode() for key, value in one.items()}
                for one in pipeline.execute()]

    def all(self):
        return [*self._ended, *self._watchers.values()]

    def messages(self):
        return sum(watcher.messages for watcher in self.all())

    def check(self):
        faults = [fault for watcher in self.all() for fault in watcher.faults]
        assert not faults, "\n".join(["a topic went back:", *faults[:5]])

    def end(self):
        for name in list(self._watchers):
            self.forget(name)
