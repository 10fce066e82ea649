"""A proxy for one TCP port whose link can be cut and healed."""

import socket
import threading


class Cut:
    """Passes connections on, unless it is cut."""

    def __init__(self, target):
        self.target, self.is_cut, self.is_closed = target, False, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Drops every connection, and each new one."""
        with self._lock:
            self.is_cut = True
            pairs, self.pairs = self.pairs, []
        for one in pairs:
            close(one)

    def heal(self):
        self.is_cut = False

    def close(self):
        self.is_closed = True
        self.listener.close()
        self.cut()

    def _accept(self):
        while not self.is_closed:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            with self._lock:
                if self.is_cut:
                    close(near)
                    continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 10)
            except OSError:
                close(near)
                continue
            far.settimeout(None)
            with self._lock:
                self.pairs += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=pass_on, args=(one, other), daemon=True).start()


def pass_on(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    close(source)
    close(target)


def close(one):
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()
