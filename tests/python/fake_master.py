"""A master of replicas that says what a test wants, true or not."""

import socket
import threading


class FakeMaster:
    """Greets each replica, and answers PSYNCs with these bytes, the last of them again and again."""

    def __init__(self, *answers, closes=False):
        self.answers, self.closes = list(answers), closes
        self.asked, self.received = [], b""
        self.connections = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        try:
            follows = False
            while received := connection.recv(1 << 16):
                self.received += received
                if follows:
                    # An acknowledgement is not answered.
                    continue
                for _ in range(received.count(b"REPLCONF\r\n") + received.count(b"PING\r\n")):
                    connection.sendall(b"+OK\r\n")
                if b"PSYNC\r\n" in received:
                    follows = True
                    self.asked.append(received)
                    answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                    connection.sendall(answer)
                    if self.closes:
                        connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def send(self, bytes):
        self.connections[-1].sendall(bytes)

    def close(self):
        for one in [self.socket, *self.connections]:
            one.close()
