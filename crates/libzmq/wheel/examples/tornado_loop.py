"""Requests, replies and a ticker in one tornado loop, with callbacks on `ZMQStream`.

    python tornado_loop.py [CLIENTS [REQUESTS]]
"""

import sys

import zmq
from tornado.ioloop import IOLoop, PeriodicCallback
from zmq.eventloop.zmqstream import ZMQStream


class Client:
    """Sends requests one after another, each from the callback of the reply before it."""

    def __init__(self, context, endpoint, name, requests, ended):
        self.name, self.left, self.ended = name, requests, ended
        self.right = 0
        socket = context.socket(zmq.REQ)
        socket.connect(endpoint)
        self.stream = ZMQStream(socket)
        self.stream.on_recv(self.answered)
        self.ask()

    def ask(self):
        self.request = f"{self.name}-{self.left}"
        self.stream.send_string(self.request)

    def answered(self, frames):
        self.right += frames[0].decode() == self.request.upper()
        self.left -= 1
        if self.left:
            self.ask()
        else:
            self.stream.close(linger=0)
            self.ended(self.right)


class Example:
    """The server, the ticker and its subscriber, and all clients."""

    def __init__(self, clients, requests):
        self.loop, self.context = IOLoop.current(), zmq.Context()
        self.unfinished, self.right, self.ticks, self.number = clients, 0, [], 0
        self.router = ZMQStream(self.bound(zmq.ROUTER))
        self.router.on_recv(self.serve)
        self.publisher = self.bound(zmq.PUB)
        subscriber = self.context.socket(zmq.SUB)
        subscriber.subscribe(b"tick")
        subscriber.connect(self.publisher.last_endpoint.decode())
        self.subscriber = ZMQStream(subscriber)
        self.subscriber.on_recv(self.ticked)
        self.ticker = PeriodicCallback(self.tick, 5)
        self.ticker.start()
        endpoint = self.router.socket.last_endpoint.decode()
        for number in range(clients):
            Client(self.context, endpoint, f"client{number}", requests, self.ended)

    def bound(self, kind):
        socket = self.context.socket(kind)
        socket.bind("tcp://127.0.0.1:*")
        return socket

    def serve(self, frames):
        client, empty, request = frames
        self.router.send_multipart([client, empty, request.upper()])

    def tick(self):
        self.publisher.send_multipart([b"tick", b"%d" % self.number])
        self.number += 1

    def ticked(self, frames):
        self.ticks.append(int(frames[1]))
        self.stop_at_end()

    def ended(self, right):
        self.right += right
        self.unfinished -= 1
        self.stop_at_end()

    def stop_at_end(self):
        if self.unfinished == 0 and len(self.ticks) >= 20:
            self.ticker.stop()
            self.loop.stop()

    def run(self):
        self.loop.start()
        self.context.destroy(linger=0)
        first = self.ticks[0]
        in_order = self.ticks == list(range(first, first + len(self.ticks)))
        print(f"{self.right} answers, {len(self.ticks[:20])} ticks, in order: {in_order}")


def main(clients, requests):
    print(f"tidewire: {zmq.has('tidewire')}")
    Example(clients, requests).run()


if __name__ == "__main__":
    asked = [int(argument) for argument in sys.argv[1:]] + [20, 100][len(sys.argv) - 1 :]
    main(*asked)
