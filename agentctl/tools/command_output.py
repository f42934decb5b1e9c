"""What a command writes, on its way to three readers: live events, the kept file, and the cut text for the model.

Bytes are decoded and redacted once, before anything else sees them. However much comes, what stays in memory is head
and tail; after FLOOD_BYTES only the tail of the raw bytes is looked at, so that gigabytes pass at pipe speed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from agentctl.core.ports import OutputFile
from agentctl.core.redact import RedactingDecoder, Redactor

LIVE_CHARS = 1_000_000
"""Of one call; a longer output goes on in the kept file."""
LIVE_PAUSE_S = 0.05
"""Output that comes within this time is one event."""
FLOOD_BYTES = 64 * 1024 * 1024
"""Of one stream; as much as is kept."""
_RAW_TAIL = 128 * 1024

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class CommandOutput:
    """Takes the chunks of one command. `emit(stream, text)` sends a live event; `file` keeps the whole."""

    def __init__(self, redactor: Redactor, file: OutputFile, emit: Callable[[str, str], None], limit: int) -> None:
        self._file = file
        self._limit = limit
        self._live = LiveOutput(emit)
        self._streams = {name: _Stream(redactor, limit) for name in ("stdout", "stderr")}

    def feed(self, stream: str, chunk: bytes) -> None:
        """One chunk as it came from the pipe."""
        self._pass_on(stream, self._streams[stream].feed(chunk))

    def end(self) -> None:
        """Lets out what was held back. Call it once, when no more chunks come."""
        for name, stream in self._streams.items():
            self._pass_on(name, stream.end())
        self._live.end()

    @property
    def is_cut(self) -> bool:
        """Whether the blocks show less than there was."""
        return sum(stream.total for stream in self._streams.values()) > self._limit

    @property
    def has_any(self) -> bool:
        """Whether anything came at all."""
        return any(stream.total for stream in self._streams.values())

    @property
    def lines(self) -> int:
        """Lines of both streams."""
        return sum(stream.newlines for stream in self._streams.values())

    def blocks(self) -> str:
        """`stdout:` and `stderr:` with head and tail of each, together at most about `limit` characters."""
        out, err = self._streams["stdout"], self._streams["stderr"]
        for_err = min(err.total, max(self._limit // 3, self._limit - out.total))
        shown = {"stdout": out.show(self._limit - for_err), "stderr": err.show(for_err)}
        return on_lines(*(f"{name}:\n{text}" for name, text in shown.items() if text)) or "(no output)"

    def _pass_on(self, stream: str, text: str) -> None:
        if text:
            self._file.write(text.encode("utf-8", "replace"))
            self._live.add(stream, text)


class _Stream:
    """One of the two outputs: redacted text, of which head and tail stay."""

    def __init__(self, redactor: Redactor, limit: int) -> None:
        self._redactor = redactor
        self._decoder = RedactingDecoder(redactor)
        self._head_limit = limit - limit // 3
        self._tail_limit = limit // 3
        self._head = ""
        self._tail = ""
        self._raw = bytearray()
        self._bytes = 0
        self.total = 0
        """Characters, or bytes where they were not decoded."""
        self.newlines = 0

    def feed(self, chunk: bytes) -> str:
        """The text that can be shown and kept now; nothing once the stream is a flood."""
        self._bytes += len(chunk)
        self.newlines += chunk.count(b"\n")
        if self._bytes > FLOOD_BYTES:
            self._skip(chunk)
            return ""
        return self._keep(self._decoder.feed(chunk))

    def end(self) -> str:
        """The rest of the text."""
        rest = self._keep(self._decoder.end())
        if self._raw:
            last = RedactingDecoder(self._redactor)
            self._tail = (last.feed(bytes(self._raw)) + last.end())[-self._tail_limit :]
            self._raw.clear()
        return rest

    def show(self, limit: int) -> str:
        """At most about `limit` characters: all, or head and tail with a line that says what is missing."""
        if self.total <= limit:
            return readable(self._head + self._tail)
        tail_limit = limit // 3
        head, tail = self._head[: limit - tail_limit], (self._head + self._tail)[-tail_limit:]
        unit = "bytes" if self._bytes > FLOOD_BYTES else "characters"
        left_out = self.total - len(head) - len(tail)
        return on_lines(readable(head), f"... [{left_out:,} {unit} left out] ...", readable(tail))

    def _keep(self, text: str) -> str:
        self.total += len(text)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += text[:room]
        if len(text) > room:
            self._tail += text[max(0, room) :]
            if len(self._tail) > 2 * self._tail_limit:
                self._tail = self._tail[-self._tail_limit :]
        return text

    def _skip(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._raw += chunk
        if len(self._raw) > 2 * _RAW_TAIL:
            del self._raw[:-_RAW_TAIL]


class LiveOutput:
    """Joins what comes in quick succession, and stops after LIVE_CHARS."""

    def __init__(self, emit: Callable[[str, str], None]) -> None:
        self._emit = emit
        self._waiting: list[tuple[str, str]] = []
        self._left = LIVE_CHARS
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0

    def add(self, stream: str, text: str) -> None:
        if self._left <= 0:
            return
        self._left -= len(text)
        if self._left <= 0:
            text = text[: self._left or None] + "\n[no more live output of this command]\n"
        self._waiting.append((stream, text))
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(self._next, loop.time()), self._flush)

    def end(self) -> None:
        """Sends what still waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()

    def _flush(self) -> None:
        self._timer = None
        self._next = asyncio.get_running_loop().time() + LIVE_PAUSE_S
        joined: dict[str, list[str]] = {}
        for stream, text in self._waiting:
            joined.setdefault(stream, []).append(text)
        self._waiting.clear()
        for stream, texts in joined.items():
            self._emit(stream, "".join(texts))


def on_lines(*texts: str) -> str:
    """Joined so that each begins a line, without blank lines in between."""
    *before, last = texts or ("",)
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in before) + last


def readable(text: str) -> str:
    """As a terminal would have left it: no escape sequences, overwritten progress lines gone, controls as U+FFFD."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")
    return _CONTROLS.sub("�", text)
