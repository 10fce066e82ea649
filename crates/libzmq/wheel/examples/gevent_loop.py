"""Requests, replies and a ticker in greenlets of one gevent hub.

    python gevent_loop.py [CLIENTS [REQUESTS]]
"""

import sys

import gevent
import zmq.green as zmq


def serve(router):
    """Answers every request."""
    while True:
        client, empty, request = router.recv_multipart()
        gevent.sleep(0)
        router.send_multipart([client, empty, request.upper()])


def ask(context, endpoint, name, requests):
    """Sends requests one after another. Returns how many answers were right."""
    right = 0
    with context.socket(zmq.REQ) as client:
        client.connect(endpoint)
        for number in range(requests):
            request = f"{name}-{number}"
            client.send_string(request)
            right += client.recv_string() == request.upper()
    return right


def follow(context, endpoint, ticks):
    """Polls for what the ticker publishes."""
    received = []
    with context.socket(zmq.SUB) as subscriber:
        subscriber.subscribe(b"tick")
        subscriber.connect(endpoint)
        poller = zmq.Poller()
        poller.register(subscriber, zmq.POLLIN)
        while len(received) < ticks:
            if poller.poll(10):
                received.append(int(subscriber.recv_multipart()[1]))
    return received


def tick(publisher):
    """Publishes a number every 5 ms, also while the hub answers requests."""
    number = 0
    while True:
        publisher.send_multipart([b"tick", b"%d" % number])
        number += 1
        gevent.sleep(0.005)


def main(clients, requests):
    print(f"tidewire: {zmq.has('tidewire')}")
    context = zmq.Context()
    router, publisher = context.socket(zmq.ROUTER), context.socket(zmq.PUB)
    for socket in (router, publisher):
        socket.bind("tcp://127.0.0.1:*")
    work = [gevent.spawn(serve, router), gevent.spawn(tick, publisher)]
    following = gevent.spawn(follow, context, publisher.last_endpoint.decode(), 20)
    endpoint = router.last_endpoint.decode()
    asking = [
        gevent.spawn(ask, context, endpoint, f"client{number}", requests)
        for number in range(clients)
    ]
    gevent.joinall([following, *asking], raise_error=True)
    gevent.killall(work)
    context.destroy(linger=0)
    ticks, right = following.value, sum(one.value for one in asking)
    in_order = ticks == list(range(ticks[0], ticks[0] + len(ticks)))
    print(f"{right} answers, {len(ticks)} ticks, in order: {in_order}")


if __name__ == "__main__":
    asked = [int(argument) for argument in sys.argv[1:]] + [20, 100][len(sys.argv) - 1 :]
    main(*asked)
