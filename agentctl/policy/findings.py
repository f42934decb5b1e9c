"""What a shell line turns out to do: its commands, its files, the guards it trips, and why it cannot be judged."""

from __future__ import annotations

from agentctl.core.record import Record
from agentctl.policy.code import Code
from agentctl.policy.guards import CommandGuard
from agentctl.policy.places import Place
from agentctl.policy.words import Form


class Invocation(Record):
    """A command as it will run. `views` are other ways to read its words, which only refusals look at."""

    words: tuple[Form, ...]
    views: tuple[tuple[Form, ...], ...] = ()
    is_covered: bool = False
    """Judged by what it runs (a transparent wrapper, a function of the line): only refusals look at it."""
    code: tuple[Code, ...] = ()
    takes_input: bool = False
    """It may run what it reads, where that is no matter of allowing it."""

    @property
    def shown(self) -> str:
        return shown(self.words)

    @property
    def name(self) -> str:
        """The program without its folder; empty for an assignment or a redirection alone."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""


class FileUse(Record):
    place: Place
    access: str
    words: tuple[Form, ...]
    """The command that uses it; empty for a redirection without a command."""


class Trip(Record):
    """A guard row and what trips it."""

    row: CommandGuard
    shown: str


class Judgement(Record):
    """All that is to be held against the rules."""

    invocations: tuple[Invocation, ...] = ()
    files: tuple[FileUse, ...] = ()
    trips: tuple[Trip, ...] = ()
    faults: tuple[str, ...] = ()
    """Why the line cannot be judged; nothing lifts these."""


def shown(words: tuple[Form, ...]) -> str:
    """A command for people: unknown pieces are an ellipsis."""
    return " ".join(word.shown for word in words)


class Collector:
    """Takes what the walk over a line finds, in order."""

    def __init__(self) -> None:
        self.invocations: list[Invocation] = []
        self.files: list[FileUse] = []
        self.trips: list[Trip] = []
        self.faults: list[str] = []

    def code(self, code: Code) -> None:
        """Code that belongs to no command of its own."""
        self.invocations.append(Invocation(words=(), is_covered=True, code=(code,)))

    def trip(self, row: CommandGuard, what: str) -> None:
        self.trips.append(Trip(row=row, shown=what))

    def result(self) -> Judgement:
        return Judgement(
            invocations=tuple(self.invocations),
            files=tuple(self.files),
            trips=tuple(self.trips),
            faults=tuple(dict.fromkeys(self.faults)),
        )
