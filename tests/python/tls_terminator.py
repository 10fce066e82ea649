"""A TLS server in front of another port, as proxies are, with faults on demand."""

import contextlib
import select
import socket
import ssl
import threading


class Terminator:
    """Takes TLS connections, and passes their bytes to a port of this machine."""

    def __init__(self, port, certificate, key, authority=None, **settings):
        self._port = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        if authority:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(authority)
        for name, value in settings.items():
            setattr(self._context, name, value)
        self.hosts = []
        self.peers = []
        self._context.sni_callback = lambda _, name, __: self.hosts.append(name)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open = []
        self._lock = threading.Lock()
        # Bytes of each piece that is passed on; None for all at once.
        self.piece = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[one], daemon=True).start()

    def _serve(self, one):
        one.settimeout(30)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), self._context.wrap_socket(one, server_side=True) as tls:
            self.peers.append(tls.getpeercert())
            other = socket.create_connection(("127.0.0.1", self._port))
            with other:
                with self._lock:
                    self._open += [tls, other]
                self._pass(tls, other)

    def _pass(self, tls, other):
        """Passes bytes both ways, in one thread: a connection of OpenSSL belongs to one."""
        while True:
            ready = [tls] if tls.pending() else select.select([tls, other], [], [])[0]
            for source in ready:
                try:
                    data = source.recv(65536)
                except ssl.SSLWantReadError:
                    continue
                if not data:
                    return
                target = other if source is tls else tls
                size = self.piece or len(data)
                for at in range(0, len(data), size):
                    target.sendall(data[at : at + size])

    def cut(self):
        """Cuts all connections, as a network that fails."""
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)
            self._open.clear()

    def close(self):
        self._listener.close()
        self.cut()
