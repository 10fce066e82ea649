"""Links that can be cut: TCP proxies on the loopback, each in front of one port."""

import asyncio
import contextlib
import threading

CHUNK = 1 << 16


class Links:
    """The proxies of a site, on a thread of their own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._servers = []

    def make(self, port, own_port=0):
        """A link to a port."""
        return self.call(self._make(port, own_port))

    async def _make(self, port, own_port):
        link = Link(self, port)
        server = await asyncio.start_server(link.serve, "127.0.0.1", own_port)
        self._servers.append(server)
        link.port = server.sockets[0].getsockname()[1]
        return link

    def call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def end(self):
        if not self._thread.is_alive():
            return

        async def end():
            for server in self._servers:
                server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.call(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


class Link:
    """A link to one port of the loopback."""

    def __init__(self, links, target):
        self.links, self.target, self.port = links, target, 0
        self._is_up = asyncio.Event()
        self._is_up.set()
        self._refuses = False
        self._writers = set()

    def cut(self, silently):
        """Ends its connections and refuses others; or, silently, lets no byte through, as a cable
        that is pulled."""

        async def cut():
            self._refuses = not silently
            self._is_up.clear()
            if not silently:
                for writer in list(self._writers):
                    writer.transport.abort()

        self.links.call(cut())

    def heal(self):
        """What was sent meanwhile arrives."""

        async def heal():
            self._refuses = False
            self._is_up.set()

        self.links.call(heal())

    async def serve(self, reader, writer):
        self._writers.add(writer)
        try:
            if self._refuses:
                return
            await self._is_up.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(far_writer)
            try:
                ways = [self._pass(reader, far_writer), self._pass(far_reader, writer)]
                tasks = [asyncio.ensure_future(way) for way in ways]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                self._drop(far_writer)
        except OSError:
            # The server is down.
            pass
        finally:
            self._drop(writer)

    def _drop(self, writer):
        self._writers.discard(writer)
        writer.transport.abort()

    async def _pass(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._is_up.wait()
                writer.write(data)
                await writer.drain()
