"""What a state plane of a run is, and what planes are made of. planes.py puts all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from agentctl.config.settings import Settings
from agentctl.config.trust import WorkspaceReader
from agentctl.core.events import Event
from agentctl.core.ports import Degraded, Item, Section
from agentctl.core.record import Record
from agentctl.core.redact import Redactor
from agentctl.core.toolkit import Implementation
from agentctl.core.types import Message, Problem, Text
from agentctl.engine.light import Light, ask_light
from agentctl.engine.parts import Parts
from agentctl.runner.account import Account
from agentctl.state.journal import SavedSession
from agentctl.state.selection import Selected

if TYPE_CHECKING:
    from agentctl.runner.tape import Tape

Loader: TypeAlias = Callable[[], Implementation]

LIGHT_S = 30.0
"""How long a plane waits for its light call; then it does without."""


class Needs(Record):
    """What planes are made of."""

    settings: Settings
    session: str
    saved: SavedSession | None
    """The session that the run goes on with."""
    reader: WorkspaceReader
    """What the workspace says about the run, under its trust."""
    redactor: Redactor
    emit: Callable[[Event | Degraded], None]
    """How a running tool says something: see core/ports.py, Emit."""
    now: Callable[[], str]
    tape: Tape | None = None
    """With --record and --replay."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        selected: Selected,
        reader: WorkspaceReader,
        redactor: Redactor,
        emit: Callable[[Event | Degraded], None],
        now: Callable[[], str],
        tape: Tape | None,
    ) -> Needs:
        return cls(
            settings=settings,
            session=selected.id,
            saved=selected.saved,
            reader=reader,
            redactor=redactor,
            emit=emit,
            now=now,
            tape=tape,
        )


class Turn(Record):
    """One prompt that is about to be answered."""

    number: int
    """Of the session, from 1."""
    prompt: Message
    """Its first text part is the prompt itself; what else it has was attached."""

    @property
    def text(self) -> str:
        """What the person wrote, without stdin and files."""
        return next((part.text for part in self.prompt.parts if isinstance(part, Text)), "")

    @classmethod
    def of_last(cls, history: Sequence[Message], number: int) -> Turn:
        """The turn that a run without a prompt of its own goes on with."""
        prompts = (message for message in reversed(history) if message.role == "user")
        return cls(number=max(1, number), prompt=next(prompts, Message(role="user", parts=())))


_NOTHING: tuple[Item, ...] = ()


class Plane:
    """One plane of a run. Whatever a plane has no use for stays as it is here."""

    sections: tuple[Section, ...] = ()
    tools: Mapping[str, Loader] = {}
    """Its tools by name. A tool that no plane has is not offered, whatever --tools says."""
    problems: tuple[Problem, ...] = ()
    """What could not be loaded; read once, when the run begins."""

    def begin(self, turn: Turn) -> None:
        """A turn begins: sets what the sections show in it. Asks and writes nothing."""

    async def before(self, turn: Turn, parts: Parts) -> AsyncGenerator[Item, None]:
        """What is asked, saved or said before the first step of a turn. The sections are rendered after it."""
        for item in _NOTHING:
            yield item

    def note(self, item: Item) -> None:
        """Everything that a turn yields, before the turn goes on."""

    async def after(self, account: Account, parts: Parts, seconds_left: float) -> AsyncGenerator[Item, None]:
        """After the last answer of a run that completed. Never raises for what a service or a file does."""
        for item in _NOTHING:
            yield item

    def close(self) -> None:
        """At the end of the run, on every path."""


async def ask_within(parts: Parts, order: str, text: str, *, max_output_tokens: int, seconds: float = LIGHT_S) -> Light:
    """A light call with a deadline; past it, as after any failure of the service, the text is empty."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            return await ask_light(parts, order, text, max_output_tokens=max_output_tokens)
    except TimeoutError:
        return Light(text="", spent=())
