"""All state planes of a run. app.py makes them with one line; headless.py lets them speak around each turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentctl.core.ports import Item, Section
from agentctl.core.toolkit import Implementation
from agentctl.core.types import Problem
from agentctl.engine.parts import Parts
from agentctl.extensions.instructions import Instructions, load_instructions
from agentctl.runner.account import Account
from agentctl.runner.memory import MemoryPlane
from agentctl.runner.pinning import PinPlane
from agentctl.runner.plane import Loader, Needs, Plane, Turn
from agentctl.state.todos import TodoList


class Planes:
    """The planes in the order in which their sections stand where they share a place."""

    def __init__(self, needs: Needs) -> None:
        self.instructions = InstructionsPlane(needs)
        self.plan = PlanPlane(needs)
        self.pin = PinPlane(needs)
        self.memory = MemoryPlane(needs)
        self._all: tuple[Plane, ...] = (self.instructions, self.memory, self.plan, self.pin)

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
    """The todos."""

    def __init__(self, needs: Needs) -> None:
        self.todos = TodoList(needs.saved.todos if needs.saved else ())
        self.sections = (self.todos,) if needs.settings.state_injection != "none" else ()

        def todo_write() -> Implementation:
            from agentctl.state.todo_tool import TodoWrite  # pydantic comes with the first call

            return TodoWrite(self.todos, needs.emit)

        self.tools = {"todo_write": todo_write}
