"""The notes of a project in a run: what it may do with them, when they are chosen, and what is learned at the end.

Every run makes this plane, so SQLite and all that works on notes is imported only for a project that has some.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agentctl.config.settings import BUILT_IN, Settings
from agentctl.core.events import MessageText
from agentctl.core.ports import Appended, Degraded, Item, Where
from agentctl.core.toolkit import Implementation
from agentctl.core.types import JsonObject, Message, Problem, Text, ToolAnswer
from agentctl.engine.parts import Parts
from agentctl.runner.account import Account
from agentctl.runner.clock import SystemClock
from agentctl.runner.plane import Needs, Plane, Turn
from agentctl.runner.secrets import redactor_of
from agentctl.state.knowledge_place import exists, is_writable, store_of

if TYPE_CHECKING:
    from agentctl.state.knowledge import Knowledge
    from agentctl.state.knowledge_store import StoreFailure
    from agentctl.state.knowledge_tools import MemoryTools

T = TypeVar("T")

INJECTIONS = {"full": "boot", "lean": "relevant", "none": ""}
"""What of the notes each --state-injection puts into prompts."""
COUNT_WAIT_S = 0.5
MAX_HEARD = 200
"""Results and files of a session whose words are recognised in a note."""
_NAMES = ("remember", "recall", "forget")


def knowledge_of(settings: Settings, env: Mapping[str, str], *, writes: bool) -> Knowledge:
    """The notes of a project for a verb: secrets of the environment are masked in what it records."""
    from agentctl.state.knowledge import Knowledge

    return Knowledge(
        settings.homes.memory,
        settings.project_key,
        now=SystemClock().now,
        redact=redactor_of(settings, env).text,
        remote=settings.store.remote or "",
        writes=writes,
    )


def memory_mode(settings: Settings) -> tuple[str, tuple[Problem, ...]]:
    """on, read or off, and what of the flags cannot be had. A checkout that is not trusted changes no notes."""
    mode = settings.memory
    if mode == "on" and settings.ephemeral:
        mode = "read"
    is_untrusted = settings.trust.level != "workspace"
    problems = []
    if mode == "on" and is_untrusted:
        mode = "read"
        if settings.origins["memory"] != BUILT_IN:
            problems.append(_left_out(f"{settings.origins['memory']} on", settings))
    if settings.learn and mode != "on":
        problems.append(_left_out("--learn", settings))
    return mode, tuple(problems)


def _left_out(what: str, settings: Settings) -> Problem:
    if settings.trust.level != "workspace":
        why = f"the workspace is not trusted ({settings.trust.why}), so the notes are read-only"
        return Problem(code="left-out", what=what, why=why, fix="Use --trust workspace if the checkout is yours.")
    why = "--ephemeral saves nothing" if settings.ephemeral else f"memory is {settings.memory}"
    return Problem(code="left-out", what=what, why=why, fix="Use --memory on, without --ephemeral.")


class NotesSection:
    """The block of notes of a turn: chosen when it begins, the same bytes until it ends."""

    name = "knowledge"
    plane = "knowledge"
    where: Where = "turn"

    def __init__(self) -> None:
        self.text = ""

    def render(self) -> str:
        return self.text


class MemoryPlane(Plane):
    """Off, it looks at nothing. A replay takes what the recorded run was shown, whatever the notes are by now."""

    def __init__(self, needs: Needs) -> None:
        settings = needs.settings
        self._needs = needs
        self._mode, self.problems = memory_mode(settings)
        self._is_replay = needs.tape is not None and needs.tape.is_replay
        self._writes = self._mode == "on" and (not self._is_replay or settings.replay_tools == "live")
        self._injection = INJECTIONS[settings.state_injection] if self._mode != "off" else ""
        self._section = NotesSection()
        self._knowledge: Knowledge | None = None
        self._shared: MemoryTools | None = None
        self._turns: list[list[str]] = []
        self._heard: deque[str] = deque(maxlen=MAX_HEARD)
        self._chosen: list[str] = []
        self._shown: list[str] = []
        if self._injection:
            self.sections = (self._section,)
        if needs.saved and self._mode == "on":
            newest_first = (text for message in reversed(needs.saved.history) for text in reversed(_foreign(message)))
            self._heard.extendleft(islice(newest_first, MAX_HEARD))
        if self._mode != "off":
            self.tools = {name: partial(self._load, name) for name in self._offered()}
            self.problems = (*self.problems, *self._untold())

    # --- what is offered ----------------------------------------------------------------------------------------

    def _offered(self) -> list[str]:
        """The tools that can do something: recall and forget need notes, remember and forget a store to change."""
        if self._is_replay and self._needs.tape:
            return list(self._needs.tape.kept("memory tools").get("names", []))
        folder = self._needs.settings.homes.memory
        can_write = self._mode == "on" and is_writable(folder)
        if self._mode == "on" and not can_write:
            self.problems = (*self.problems, _unwritable(folder))
        try:
            has_notes = self._has_store and _patiently(self._notes().has_notes)
            wanted = {"remember": can_write, "recall": has_notes, "forget": has_notes and can_write}
        except _failures() as failure:
            self._notes().file.note_problem(failure.problem())
            wanted = {}
        names = [name for name, is_of_use in wanted.items() if is_of_use]
        self._keep("memory tools", {"names": names})
        return names

    def _load(self, name: str) -> Implementation:
        from agentctl.state.knowledge_tools import Forget, MemoryTools, Recall, Remember  # pydantic: first call

        if self._shared is None:
            self._shared = MemoryTools(
                knowledge=self._notes(), emit=self._needs.emit, sleep=SystemClock().sleep, was_heard=self._was_heard
            )
        classes: dict[str, type[Implementation]] = {"remember": Remember, "recall": Recall, "forget": Forget}
        made: Implementation = classes[name](self._shared)  # type: ignore[call-arg]  # each takes the shared part
        return made

    # --- turns --------------------------------------------------------------------------------------------------

    def begin(self, turn: Turn) -> None:
        if not self._injection:
            return
        name = f"notes of turn {len(self._turns) + 1}"
        if self._is_replay and self._needs.tape:
            self._section.text = str(self._needs.tape.kept(name).get("block", ""))
            return
        self._chosen, self._section.text = [], ""
        if self._has_store:
            from agentctl.state.knowledge_section import block_for  # SQLite comes with the first note of a project

            self._chosen, self._section.text = block_for(self._notes(), self._injection, turn.text)
        self._keep(name, {"block": self._section.text})

    async def before(self, turn: Turn, parts: Parts) -> AsyncGenerator[Item, None]:
        self._turns.append([turn.text, ""])
        self._heard += _foreign(turn.prompt)
        self._shown += self._chosen
        for problem in self._untold():
            yield Degraded(problem=problem)

    def note(self, item: Item) -> None:
        if isinstance(item, MessageText) and self._turns:
            self._turns[-1][1] = item.text
        elif isinstance(item, Appended) and self._mode == "on":
            self._heard += _foreign(item.message)

    def _was_heard(self, text: str) -> bool:
        from agentctl.state.knowledge_likeness import is_in

        return is_in(text, self._heard)

    async def after(self, account: Account, parts: Parts, seconds_left: float) -> AsyncGenerator[Item, None]:
        if self._mode != "on" or not self._needs.settings.learn:
            return
        from agentctl.runner.memory_learn import learn  # most runs learn nothing

        turns = [(prompt, answer) for prompt, answer in self._turns]
        async with aclosing(learn(self._notes(), turns, parts, seconds_left, writes=self._writes)) as items:
            async for item in items:
                yield item
        for problem in self._untold():
            yield Degraded(problem=problem)

    def close(self) -> None:
        """Counts what was shown. A count that is lost does no harm, and nobody is left to be told."""
        if self._shown and self._writes and self._notes().can_write:
            with suppress(*_failures()):
                _patiently(lambda: self._notes().count_shown(self._shown), COUNT_WAIT_S)

    # --- the notes ----------------------------------------------------------------------------------------------

    @property
    def _has_store(self) -> bool:
        return exists(store_of(self._needs.settings.homes.memory, self._needs.settings.project_key))

    def _notes(self) -> Knowledge:
        """Loaded when there is something to read or to write."""
        if self._knowledge is None:
            from agentctl.state.knowledge import Knowledge

            settings = self._needs.settings
            self._knowledge = Knowledge(
                settings.homes.memory,
                settings.project_key,
                now=self._needs.now,
                redact=self._needs.redactor.text,
                remote=settings.store.remote or "",
                writes=self._writes,
                session=self._needs.session,
            )
        return self._knowledge

    def _untold(self) -> list[Problem]:
        return self._knowledge.file.take_untold() if self._knowledge else []

    def _keep(self, name: str, value: JsonObject) -> None:
        if self._needs.tape:
            self._needs.tape.keep(name, value)


def _foreign(message: Message) -> list[str]:
    """What did not come from the person or the model: results, attached files, stdin."""
    if message.role == "tool":
        return [part.content for part in message.parts if isinstance(part, ToolAnswer) and part.name not in _NAMES]
    return [part.text for part in message.parts if isinstance(part, Text)][1:] if message.role == "user" else []


def _patiently(action: Callable[[], T], seconds: float | None = None) -> T:
    from agentctl.state.knowledge_store import READ_WAIT_S, patiently

    return patiently(action, READ_WAIT_S if seconds is None else seconds)


def _failures() -> tuple[type[StoreFailure], ...]:
    from agentctl.state.knowledge_store import StoreFailure

    return (StoreFailure,)


def _unwritable(folder: Path) -> Problem:
    return Problem(
        code="memory-read-only",
        what=str(folder),
        why="the folder cannot be written: this run records no notes",
        fix="Set AGENTCTL_HOME to a folder that can be written, or pass --memory read.",
    )
