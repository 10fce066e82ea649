"""A pyzmq program that keeps the newest message of each topic, run with our library in place of
pyzmq's own libzmq.

    LD_PRELOAD=libzmq.so.5 python conflating.py pub ENDPOINT TOPICS CHANGES
    LD_PRELOAD=libzmq.so.5 python conflating.py sub ENDPOINT
"""

import sys

import zmq

CONFLATE_TOPICS = 10005


def publish(endpoint, topics, changes):
    publisher = zmq.Context.instance().socket(zmq.XPUB)
    publisher.setsockopt(CONFLATE_TOPICS, 1)
    publisher.setsockopt(zmq.SNDBUF, 10_000)
    publisher.bind(endpoint)
    tell(publisher.last_endpoint.decode())
    publisher.recv()
    for change in range(1, changes + 1):
        for topic in range(topics):
            publisher.send_multipart([b"topic %d" % topic, b"%d" % change, bytes(1_000)])
    tell("published")
    sys.stdin.readline()


def subscribe(endpoint):
    subscriber = zmq.Context.instance().socket(zmq.SUB)
    subscriber.setsockopt(CONFLATE_TOPICS, 1)
    subscriber.subscribe(b"")
    subscriber.connect(endpoint)
    # What comes before the next line waits for this program.
    sys.stdin.readline()
    while True:
        topic, change, _ = subscriber.recv_multipart()
        tell(f"{topic.decode()}: {change.decode()}")


def tell(line):
    print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "pub":
        publish(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        subscribe(sys.argv[2])
