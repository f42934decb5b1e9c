"""Puts the envelope on events: number, time, session, turn, step; masks secrets; joins text pieces.

Text and reasoning are joined for at most COALESCE_S seconds, so that twenty thousand deltas do not become as many
lines. A secret that is split over pieces is masked all the same: the stream redactor holds back what may be its
beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from agentctl.core.events import Event, ReasoningDelta, Retry, Stamped, TextDelta
from agentctl.core.ports import Clock
from agentctl.core.record import map_strings

COALESCE_S = 0.05


class StreamRedactor(Protocol):
    def feed(self, chunk: str) -> str: ...

    def end(self) -> str: ...


class PiecesRedactor(Protocol):
    def feed(self, piece: str) -> list[str]: ...

    def end(self) -> list[str]: ...


class Redactor(Protocol):
    def text(self, text: str) -> str: ...

    def stream(self) -> StreamRedactor: ...

    def pieces(self) -> PiecesRedactor: ...


class Stamper:
    """The envelope of one run. `position` gives (turn, step) at the time of the call."""

    def __init__(
        self,
        *,
        session: str | None,
        clock: Clock,
        redactor: Redactor,
        position: Callable[[], tuple[int, int]],
        joins: bool = True,
    ) -> None:
        """`joins=False` for recordings and replays: pieces leave as they came, whatever the clock says."""
        self._session = session
        self._clock = clock
        self._redactor = redactor
        self._position = position
        self._joins = joins
        self._seq = 0
        self._kind: type[TextDelta | ReasoningDelta] = TextDelta
        self._held: StreamRedactor | None = None
        self._apart: PiecesRedactor | None = None
        """Instead of it, where pieces are not joined."""
        self._joined = ""
        self._since = 0.0

    def stamp(self, event: Event) -> Iterator[Stamped]:
        """The lines that are due now: none for a piece that is still being joined."""
        if isinstance(event, (TextDelta, ReasoningDelta)):
            yield from self._piece(event)
            return
        if isinstance(event, Retry) and event.discard:
            self._held, self._joined = None, ""
        yield from self.flush()
        yield self._envelope(map_strings(event, self._redactor.text))

    def mask(self, text: str) -> str:
        """For what leaves the run beside its events."""
        return self._redactor.text(text)

    @property
    def is_joining(self) -> bool:
        """True while text waits that `due` will give out."""
        return bool(self._joined)

    def due(self) -> Iterator[Stamped]:
        """The joined text, when it has waited long enough; what may be part of a secret stays."""
        now = self._clock.monotonic()
        if self._joined and now - self._since >= COALESCE_S:
            text, self._joined, self._since = self._joined, "", now
            yield self._envelope(self._kind(delta=text))

    def flush(self) -> Iterator[Stamped]:
        """Everything that is held back: at the end of a text, before any other event."""
        if self._held is not None:
            text, self._held, self._joined = self._joined + self._held.end(), None, ""
            if text:
                yield self._envelope(self._kind(delta=text))
        if self._apart is not None:
            rest, self._apart = self._apart.end(), None
            yield from (self._envelope(self._kind(delta=text)) for text in rest)

    def _piece(self, event: TextDelta | ReasoningDelta) -> Iterator[Stamped]:
        if self._kind is not type(event):
            yield from self.flush()
            self._kind = type(event)
        if not self._joins:
            self._apart = self._apart or self._redactor.pieces()
            yield from (self._envelope(self._kind(delta=text)) for text in self._apart.feed(event.delta))
            return
        if self._held is None:
            self._held = self._redactor.stream()
        self._joined += self._held.feed(event.delta)
        yield from self.due()

    def _envelope(self, event: Event) -> Stamped:
        self._seq += 1
        turn, step = self._position()
        return Stamped(event=event, seq=self._seq, time=self._clock.now(), session=self._session, turn=turn, step=step)
