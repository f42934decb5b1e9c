"""What a server says and does: turns, calls, faults, and what it remembers of the requests."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` as text goes out as it is, valid JSON or not. An empty id is made up."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True)
class Counts:
    """Tokens; `input` without the cached ones, `output` with reasoning."""

    input: int = 10
    cache_read: int = 0
    cache_write: int = 0
    output: int = 5
    reasoning: int = 0


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one answer. Without `status`, `body` and `raw` the turn is streamed, and then broken.

    Numbers of events count the server-sent events of the turn.
    """

    status: int | None = None
    """Answers with this status and `body` in place of the turn."""
    body: Any = None
    """bytes or text as it is, anything else as JSON; with it the status is 200 when none is given."""
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """These bytes are the whole HTTP response; then the connection is closed."""
    whole: bool = False
    """The turn as one JSON body, as servers do that cannot stream."""
    reset_before: bool = False
    """RST before any byte of the answer."""
    cut_after: int | None = None
    """Stops after this many events, in the way `cut` says."""
    cut_bytes: int | None = None
    """Stops after this many bytes of the body."""
    cut: str = "end"
    """end (a proper HTTP end), fin (the connection closes inside the body), rst, stall (silence)."""
    insert_after: int | None = None
    """Puts `insert`, as it is, behind this many events."""
    insert: bytes = b""
    drop: Sequence[int] = ()
    """Numbers of events, from 0, that are left out."""
    newline: bytes = b"\n"
    bom: bool = False
    comments: bool = False
    """A comment line before every event."""
    gzip: bool = False
    chunk_bytes: int = 0
    """Size of the pieces in which the body is written; 0: an event at a time."""
    hangs_up: bool = False
    """Closes the kept-alive connection when the next request arrives on it."""


@dataclass(frozen=True)
class Turn:
    text: str | Sequence[str] = ""
    reasoning: str = ""
    calls: Sequence[Call] = ()
    stop: str = ""
    usage: Counts | None = Counts()
    delta: int = 0
    fault: Fault | None = None
    repeat: int = 1
    when: str = ""
    delay_s: float = 0.0
    pause_s: float = 0.0
    keepalives: int = 0
    """Comments before the first event, `pause_s` between them: what a server sends while it reads a long prompt."""

    @property
    def whole_text(self) -> str:
        return self.text if isinstance(self.text, str) else "".join(self.text)

    @property
    def stop_reason(self) -> str:
        return self.stop or ("calls" if self.calls else "end")

    def pieces(self, text: str) -> list[str]:
        """A text as its deltas."""
        if text == self.whole_text and not isinstance(self.text, str):
            return list(self.text)
        size = self.delta or max(1, len(text))
        return [text[start : start + size] for start in range(0, len(text), size)]


@dataclass
class Received:
    """A request, and what became of it."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    raw: bytes
    connection: int
    """Number of the TCP connection, from 1."""
    body: Any = None
    """The parsed JSON; None when it is none."""
    status: int | None = None
    """What was answered; None when nothing was."""
    client_left: threading.Event = field(default_factory=threading.Event)
    """Set when the client closed the connection before the answer was whole."""


class Refused(Exception):
    """The request breaks a rule of its wire format."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
