"""The sockets: HTTP/1.1 with kept-alive connections, one thread each, and every way to break an answer."""

from __future__ import annotations

import json
import re
import select
import socket
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from tests.server.cache import Caches
from tests.server.script import Fault, Received, Refused, Turn
from tests.server.wire import Wire, check, wire_of

Rule = Callable[[Received], Fault | None]
_OVER = Fault(status=418, body={"error": {"message": "the script has no more turns", "type": "invalid_request_error"}})


@contextmanager
def serve(
    script: Sequence[Turn] = (),
    *,
    rules: Sequence[Rule] = (),
    models: Sequence[str] = (),
    caches: Caches | None = None,
    tls: Path | None = None,
) -> Iterator[Server]:
    """A running server; it and all its threads are gone when the block is left.

    With `caches` the tokens that it reports are counted, with what the caches hold of them, instead of scripted.
    `tls`: a PEM file with key and certificate, for https:// addresses.
    """
    server = Server(script, rules, models, caches, tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class _Gone(Exception):
    """The connection is over."""


class Server:
    def __init__(
        self,
        script: Sequence[Turn],
        rules: Sequence[Rule],
        models: Sequence[str],
        caches: Caches | None = None,
        tls: Path | None = None,
    ) -> None:
        self.caches = caches
        self.requests: list[Received] = []
        self.refusals: list[str] = []
        self.connections = 0
        self._rules = tuple(rules)
        self._models = tuple(models)
        self._script = tuple(script)
        self._left = [turn.repeat for turn in script]
        self._answers = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._tls = _tls_context(tls) if tls is not None else None
        self.root_url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.base_url = f"{self.root_url}/v1"

    def start(self) -> None:
        self._spawn(self._accept)

    def stop(self) -> None:
        self._stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        with self._lock:
            sockets, threads = list(self._sockets), list(self._threads)
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(5)

    # --- connections --------------------------------------------------------------------------------------------

    def _spawn(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets.add(connection)
                self.connections += 1
                number = self.connections
            self._spawn(self._talk, connection, number)

    def _talk(self, connection: socket.socket, number: int) -> None:
        if self._tls is not None:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:
                return  # who does not trust the certificate leaves
            with self._lock:
                self._sockets.add(connection)
        stream = connection.makefile("rb")
        hangs_up = False
        try:
            while (request := _read_request(stream, number)) is not None:
                if hangs_up:
                    break
                with self._lock:
                    self.requests.append(request)
                hangs_up = self._serve(connection, request)
        except (OSError, _Gone):
            pass
        finally:
            stream.close()
            with self._lock:
                self._sockets.discard(connection)
            connection.close()

    # --- answers ------------------------------------------------------------------------------------------------

    def _serve(self, connection: socket.socket, request: Received) -> bool:
        """Answers one request. True when the connection is closed at the next one."""
        path = request.path.partition("?")[0]
        with suppress(ValueError):
            request.body = json.loads(request.raw) if request.raw else None
        fault = next((fault for rule in self._rules if (fault := rule(request)) is not None), None)
        if fault is not None:
            return _Answer(connection, request, self._stopping).plain(fault)
        if path == "/v1/models" and request.method == "GET":
            listing = {"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]}
            return _Answer(connection, request, self._stopping).plain(Fault(body=listing))
        wire = wire_of(request)
        if wire is None or request.method != "POST":
            return _Answer(connection, request, self._stopping).plain(Fault(status=404, body={"detail": "Not Found"}))
        return self._model_call(connection, request, wire)

    def _model_call(self, connection: socket.socket, request: Received, wire: Wire) -> bool:
        answer = _Answer(connection, request, self._stopping)
        try:
            check(wire, request)
        except Refused as refused:
            with self._lock:
                self.refusals.append(refused.message)
            return answer.plain(Fault(status=refused.status, body=wire.error(refused)))
        turn, number = self._next_turn(request)
        if turn is None:
            return answer.plain(_OVER)
        if self.caches is not None:
            with self._lock:
                turn = replace(turn, usage=self.caches.meter(request.path, request.body).counts())
        if turn.delay_s:
            self._stopping.wait(turn.delay_s)
        fault = turn.fault or Fault()
        if fault.reset_before:
            answer.reset()
        if fault.status is not None or fault.body is not None or fault.raw is not None:
            return answer.plain(fault)
        if fault.whole or not (request.body.get("stream") or wire.pack):
            return answer.plain(Fault(status=200, body=wire.whole(turn, request.body, number), hangs_up=fault.hangs_up))
        return answer.streamed(wire.events(turn, request.body, number), fault, turn, wire)

    def _next_turn(self, request: Received) -> tuple[Turn | None, int]:
        text = request.raw.decode("utf-8", "replace")
        with self._lock:
            self._answers += 1
            for place, turn in enumerate(self._script):
                if self._left[place] != 0 and re.search(turn.when, text):
                    self._left[place] -= 1
                    return turn, self._answers
        return None, self._answers


class _Answer:
    """Writes one response, whole or broken."""

    def __init__(self, connection: socket.socket, request: Received, stopping: threading.Event) -> None:
        self._connection = connection
        self._request = request
        self._stopping = stopping
        self._packer = zlib.compressobj(wbits=31)

    def plain(self, fault: Fault) -> bool:
        if fault.raw is not None:
            self._send(fault.raw)
            raise _Gone
        body, kind = _as_body(fault.body)
        status = fault.status or 200
        headers = {"content-type": fault.content_type or kind, "content-length": str(len(body)), **fault.headers}
        self._request.status = status  # before the client can have read it
        self._send(_head(status, headers) + body)
        return fault.hangs_up

    def streamed(self, events: list[tuple[str, str]], fault: Fault, turn: Turn, wire: Wire) -> bool:
        kind = fault.content_type or wire.content_type or "text/event-stream; charset=utf-8"
        headers = {"content-type": kind, **fault.headers}
        if fault.gzip:
            headers["content-encoding"] = "gzip"
        self._request.status = 200
        self._send(_head(200, {**headers, "transfer-encoding": "chunked"}))
        for _ in range(turn.keepalives):
            self._write(b": still thinking" + fault.newline * 2, fault)
            time.sleep(turn.pause_s)
        left = fault.cut_bytes
        for number, piece in enumerate(_pieces(events, fault, wire.pack)):
            if fault.cut_after is not None and number >= fault.cut_after:
                self._cut(fault.cut)
            if number and turn.pause_s:
                time.sleep(turn.pause_s)
            if left is not None and left <= len(piece):
                self._write(piece[:left], fault)
                self._cut(fault.cut)
            self._write(piece, fault)
            left = left if left is None else left - len(piece)
        self._finish(fault)
        return fault.hangs_up

    def reset(self) -> None:
        """Closes with RST."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise _Gone

    def _cut(self, how: str) -> None:
        if how == "end":
            self._send(b"0\r\n\r\n")
        elif how == "rst":
            self.reset()
        elif how == "stall":
            self._wait_for_client()
        raise _Gone

    def _finish(self, fault: Fault) -> None:
        if fault.gzip:
            self._chunk(self._packer.flush())
        self._send(b"0\r\n\r\n")

    def _write(self, data: bytes, fault: Fault) -> None:
        if fault.gzip:
            data = self._packer.compress(data) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        size = fault.chunk_bytes or len(data) or 1
        for start in range(0, len(data), size):
            self._chunk(data[start : start + size])

    def _chunk(self, data: bytes) -> None:
        if data:
            self._send(b"%x\r\n%s\r\n" % (len(data), data))

    def _send(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError:
            self._request.client_left.set()
            raise

    def _wait_for_client(self) -> None:
        """Says nothing until the client leaves or the server stops."""
        while not self._stopping.is_set():
            readable, _, _ = select.select([self._connection], [], [], 0.05)
            if readable:
                try:
                    is_open = bool(self._connection.recv(1, socket.MSG_PEEK))
                except OSError:
                    is_open = False
                if not is_open:
                    self._request.client_left.set()
                    return


def _pieces(events: list[tuple[str, str]], fault: Fault, pack: Callable[[str, str], bytes] | None) -> Iterator[bytes]:
    """The events as bytes, one piece each, with what the fault adds and leaves out."""
    for number, (name, data) in enumerate(events):
        if number in fault.drop:
            continue
        if pack is not None:
            yield (fault.insert if number == fault.insert_after else b"") + pack(name, data)
            continue
        lines = [f"event: {name}"] if name else []
        lines.append(f"data: {data}")
        text = fault.newline.join([*(line.encode() for line in lines), b"", b""])
        if fault.comments:
            text = b": still here" + fault.newline * 2 + text
        if number == fault.insert_after:
            text = fault.insert + text
        yield b"\xef\xbb\xbf" + text if fault.bom and number == 0 else text


def _tls_context(file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def _as_body(body: Any) -> tuple[bytes, str]:
    if body is None:
        return b"", "text/plain"
    if isinstance(body, bytes):
        return body, "text/plain"
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8"
    return json.dumps(body).encode(), "application/json"


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode()


def _read_request(stream: BinaryIO, connection: int) -> Received | None:
    start = stream.readline().decode("latin-1").split()
    if len(start) < 2:
        return None
    headers: dict[str, str] = {}
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    raw = stream.read(int(headers.get("content-length", 0)))
    return Received(method=start[0], path=start[1], headers=headers, raw=raw, connection=connection)
