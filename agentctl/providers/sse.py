"""Server-sent events: bytes as they come from the network to frames (WHATWG event streams).

Kinder than the standard where servers are sloppy: the last event counts without its blank line, and an `error` event
counts without data. Lines that mean nothing here (comments, id, retry) are dropped.
"""

from __future__ import annotations

from agentctl.core.errors import ProviderError
from agentctl.providers.adapter import Frame

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""An event may carry an image in base64; beyond this the server is not speaking the protocol."""

_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Reads one response. Splits of the bytes, also inside a line end or a character, make no difference."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._is_begun = False
        self._ends_with_cr = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this chunk completes. Raises ProviderError when one event is larger than the cap."""
        if not self._is_begun:
            chunk = self._without_bom(chunk)
        if self._ends_with_cr or b"\r" in chunk:
            chunk = self._with_newlines(chunk)
        rest = self._rest
        if rest:
            seam = len(rest) - 1
            rest += chunk
            end = rest.rfind(b"\n\n", seam)
            if end < 0:
                return self._wait()
            whole = bytes(rest[:end])
            del rest[: end + 2]
        else:
            end = chunk.rfind(b"\n\n")
            if end < 0:
                rest += chunk
                return self._wait()
            whole = chunk[:end]
            if len(chunk) > end + 2:
                rest += chunk[end + 2 :]
        if b"\n\n" not in whole:
            frame = _frame(whole)
            return [] if frame is None else [frame]
        return [frame for block in whole.split(b"\n\n") if (frame := _frame(block)) is not None]

    def end(self) -> list[Frame]:
        """The event that was never finished with a blank line, if any."""
        block = bytes(self._rest)
        self._rest.clear()
        frame = _frame(block)
        return [] if frame is None else [frame]

    def _without_bom(self, chunk: bytes) -> bytes:
        """Holds the first bytes back while they may still be the start of a byte order mark."""
        start = bytes(self._rest) + chunk
        self._rest.clear()
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._rest += start
            return b""
        self._is_begun = True
        return start.removeprefix(_BOM)

    def _with_newlines(self, chunk: bytes) -> bytes:
        if self._ends_with_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._ends_with_cr = False
        if chunk:
            self._ends_with_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _wait(self) -> list[Frame]:
        if len(self._rest) > MAX_EVENT_BYTES:
            begun = self._rest[:60].decode("utf-8", "ignore")  # the cut may go through a character
            raise ProviderError(
                f"The server sent one event of more than {MAX_EVENT_BYTES // 2**20} MiB: {begun!r}…",
                hint="Check that the base URL points to a model API.",
                kind="protocol",
            )
        return []


def _frame(block: bytes) -> Frame | None:
    if block.startswith(b"data: ") and b"\n" not in block:  # by far the most frequent form
        data = block[6:].decode("utf-8", "replace")
        return Frame(event="", data=data) if data else None
    event = b""
    lines = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")  # a comment has an empty field name
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field == b"event":
            event = value.removeprefix(b" ")
    data = b"\n".join(lines).decode("utf-8", "replace")
    if not data and event != b"error":
        return None
    return Frame(event=event.decode("utf-8", "replace"), data=data)
