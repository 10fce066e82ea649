"""A pyzmq program at a wss:// endpoint, started by test_wss.py with our library preloaded.

Usage: speaking_wss.py serve CERTIFICATE KEY
       speaking_wss.py call ENDPOINT CERTIFICATE-TO-TRUST HOST
"""

import sys
from pathlib import Path

import zmq

KEY_PEM, CERT_PEM, TRUST_PEM, HOSTNAME = 103, 104, 105, 106


def main():
    context = zmq.Context()
    deed, *arguments = sys.argv[1:]
    if deed == "serve":
        certificate, key = arguments
        socket = context.socket(zmq.REP)
        socket.setsockopt(CERT_PEM, Path(certificate).read_bytes())
        socket.setsockopt(KEY_PEM, Path(key).read_bytes())
        socket.bind("wss://127.0.0.1:*")
        print(socket.getsockopt_string(zmq.LAST_ENDPOINT), flush=True)
        while True:
            socket.send(socket.recv()[::-1])
    endpoint, certificate, host = arguments
    socket = context.socket(zmq.REQ)
    socket.setsockopt(TRUST_PEM, Path(certificate).read_bytes())
    socket.setsockopt(HOSTNAME, host.encode())
    socket.connect(endpoint)
    socket.send(b"abc" * 20_000)
    print(len(socket.recv()), flush=True)


if __name__ == "__main__":
    main()
