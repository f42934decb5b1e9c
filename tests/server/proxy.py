"""A real HTTP proxy on this machine: requests in absolute form are forwarded, CONNECT opens a tunnel."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def proxy(*, credentials: str = "") -> Iterator[Proxy]:
    """A running proxy. `credentials`: the value of Proxy-Authorization that it asks for."""
    running = Proxy(credentials)
    threading.Thread(target=running.accept, daemon=True).start()
    try:
        yield running
    finally:
        running.close()


class Proxy:
    def __init__(self, credentials: str) -> None:
        self.targets: list[str] = []
        """What was asked for, in order: `CONNECT host:port` or `METHOD url`."""
        self._credentials = credentials
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"http://{self.address}"

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def close(self) -> None:
        for connection in (self._listener, *self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (data := client.recv(65536)):
                    return
                head += data
            lines, _, rest = head.partition(b"\r\n\r\n")
            method, target, _ = lines.split(b"\r\n")[0].decode().split()
            self.targets.append(f"{method} {target}")
            if self._credentials and f"proxy-authorization: {self._credentials}".encode() not in _lower_names(lines):
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
                return
            host, port = _place(method, target)
            upstream = socket.create_connection((host, port))
            self._sockets.append(upstream)
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = urlsplit(target)._replace(scheme="", netloc="").geturl()
                upstream.sendall(lines.replace(target.encode(), path.encode(), 1) + b"\r\n\r\n" + rest)
            threading.Thread(target=_pump, args=(upstream, client), daemon=True).start()
            _pump(client, upstream)


def _lower_names(lines: bytes) -> bytes:
    return b"\n".join(
        name.lower() + colon + value for name, colon, value in (line.partition(b":") for line in lines.splitlines())
    )


def _place(method: str, target: str) -> tuple[str, int]:
    if method == "CONNECT":
        host, _, port = target.rpartition(":")
        return host, int(port)
    parts = urlsplit(target)
    return str(parts.hostname), parts.port or 80


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
