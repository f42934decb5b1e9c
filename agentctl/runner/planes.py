"""All state planes of a run. app.py makes them with one line; headless.py lets them speak around each turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentctl.core.events import ToolResulted
from agentctl.core.ports import Item, Section, Viewed
from agentctl.core.types import Problem
from agentctl.engine.parts import Parts
from agentctl.extensions.instructions import Instructions, load_instructions
from agentctl.runner.account import Account
from agentctl.runner.memory import MemoryPlane
from agentctl.runner.pinning import PinPlane
from agentctl.runner.plane import Loader, Needs, Plane, Turn
from agentctl.state.focus import Focus
from agentctl.state.folder import SessionFolder
from agentctl.state.notebook import Notebook, Pointer
from agentctl.state.todos import TodoList
from agentctl.state.toolset import load_class


class Planes:
    """The planes in the order in which their sections stand where they share a place."""

    def __init__(self, needs: Needs) -> None:
        self.instructions = InstructionsPlane(needs)
        folder = _folder(needs)
        self.plan = PlanPlane(needs, folder)
        self.notebook = NotebookPlane(needs, folder)
        self.pin = PinPlane(needs)
        self.memory = MemoryPlane(needs)
        self._all: tuple[Plane, ...] = (self.instructions, self.memory, self.plan, self.notebook, self.pin)

    @property
    def sections(self) -> list[Section]:
        return [section for plane in self._all for section in plane.sections]

    @property
    def tools(self) -> dict[str, Loader]:
        return {name: load for plane in self._all for name, load in plane.tools.items()}

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for plane in self._all for problem in plane.problems)

    def begin(self, turn: Turn) -> None:
        for plane in self._all:
            plane.begin(turn)

    async def before(self, turn: Turn, parts: Parts) -> AsyncGenerator[Item, None]:
        """Begins a turn, and yields what that brings."""
        self.begin(turn)
        for plane in self._all:
            async with aclosing(plane.before(turn, parts)) as items:
                async for item in items:
                    yield item

    def note(self, item: Item) -> None:
        for plane in self._all:
            plane.note(item)

    async def after(self, account: Account, parts: Parts, seconds_left: float) -> AsyncGenerator[Item, None]:
        """What comes behind the last answer; it never changes how the run ends."""
        for plane in self._all:
            async with aclosing(plane.after(account, parts, seconds_left)) as items:
                async for item in items:
                    yield item

    def close(self) -> None:
        for plane in self._all:
            plane.close()


class InstructionsPlane(Plane):
    """What people wrote for agents in the repository. Injected whatever --state-injection says: it is no state."""

    def __init__(self, needs: Needs) -> None:
        settings = needs.settings
        if settings.no_instructions:
            found = Instructions()
        else:
            found = load_instructions(settings.root, settings.trust, needs.redactor.text)
        self.files = found.files
        self.problems = found.problems
        self.sections = (found,)


class PlanPlane(Plane):
    """The todos, in each step, and the focus stack, which is never injected."""

    def __init__(self, needs: Needs, folder: SessionFolder) -> None:
        self.todos = TodoList(needs.saved.todos if needs.saved else ())
        self.sections = (self.todos,) if needs.settings.state_injection != "none" else ()
        focus = Focus(folder, needs.now)
        self.tools = {
            "todo_write": lambda: load_class("todo_write")(self.todos, needs.emit),
            **{name: _loader(name, focus) for name in ("focus_task", "focus_complete")},
        }


class NotebookPlane(Plane):
    """Findings of the session. Only how much there is ever stands in a request, where the model cannot know it."""

    def __init__(self, needs: Needs, folder: SessionFolder) -> None:
        notebook = Notebook(folder, needs.redactor.text)
        self._pointer = Pointer(notebook, is_due=needs.saved is not None)
        is_shown = needs.settings.state_injection != "none" and "read_state" in needs.settings.tools
        self.sections = (self._pointer,) if is_shown else ()
        self.tools = {name: _loader(name, notebook) for name in ("add_state", "read_state", "compact_state")}

    def note(self, item: Item) -> None:
        if isinstance(item, Viewed):
            self._pointer.is_due = True
        elif isinstance(item, ToolResulted) and item.name == "read_state":
            self._pointer.is_due = False


def _folder(needs: Needs) -> SessionFolder:
    saved = needs.saved
    origin = saved.id if saved and saved.id != needs.session else None
    return SessionFolder(needs.settings.root, needs.session, origin=origin, is_ephemeral=needs.settings.ephemeral)


def _loader(name: str, part: object) -> Loader:
    return lambda: load_class(name)(part)  # pydantic comes with the first call
