"""Requests, replies and a ticker in one asyncio event loop.

    python asyncio_loop.py [CLIENTS [REQUESTS]]
"""

import asyncio
import sys

import zmq
import zmq.asyncio


async def serve(router):
    """Answers every request after other tasks have run, so that replies overtake each other."""
    answers = set()

    async def answer(client, empty, request):
        await asyncio.sleep(0)
        await router.send_multipart([client, empty, request.upper()])

    while True:
        task = asyncio.create_task(answer(*await router.recv_multipart()))
        answers.add(task)
        task.add_done_callback(answers.discard)


async def ask(context, endpoint, name, requests):
    """Sends requests one after another. Returns how many answers were right."""
    right = 0
    with context.socket(zmq.REQ) as client:
        client.connect(endpoint)
        for number in range(requests):
            request = f"{name}-{number}"
            await client.send_string(request)
            right += await client.recv_string() == request.upper()
    return right


async def follow(context, endpoint, ticks):
    """Receives what the ticker publishes, and gives up in between, which loses nothing."""
    received = []
    with context.socket(zmq.SUB) as subscriber:
        subscriber.subscribe(b"tick")
        subscriber.connect(endpoint)
        while len(received) < ticks:
            try:
                message = await asyncio.wait_for(subscriber.recv_multipart(), 0.01)
                received.append(int(message[1]))
            except asyncio.TimeoutError:
                pass
    return received


async def tick(publisher):
    """Publishes a number every 5 ms, also while the loop answers requests."""
    number = 0
    while True:
        await publisher.send_multipart([b"tick", b"%d" % number])
        number += 1
        await asyncio.sleep(0.005)


async def main(clients, requests):
    print(f"tidewire: {zmq.has('tidewire')}")
    context = zmq.asyncio.Context()
    router, publisher = context.socket(zmq.ROUTER), context.socket(zmq.PUB)
    for socket in (router, publisher):
        socket.bind("tcp://127.0.0.1:*")
    work = [asyncio.create_task(serve(router)), asyncio.create_task(tick(publisher))]
    following = asyncio.create_task(follow(context, publisher.last_endpoint.decode(), 20))
    endpoint = router.last_endpoint.decode()
    right = await asyncio.gather(
        *(ask(context, endpoint, f"client{number}", requests) for number in range(clients))
    )
    ticks = await following
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    context.destroy(linger=0)
    in_order = ticks == list(range(ticks[0], ticks[0] + len(ticks)))
    print(f"{sum(right)} answers, {len(ticks)} ticks, in order: {in_order}")


if __name__ == "__main__":
    asked = [int(argument) for argument in sys.argv[1:]] + [20, 100][len(sys.argv) - 1 :]
    asyncio.run(main(*asked))
