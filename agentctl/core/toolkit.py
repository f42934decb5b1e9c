"""Argument model + function → Tool, without loading either before the first call.

The static half of a tool (name, description, parameters, set, effect) stands in the generated file
`agentctl/tools/catalogue.json`; the tool's module, and with it pydantic, is imported when a call needs it.
`scripts/fix` writes the catalogue, a test compares it with the definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from agentctl.core.record import Record
from agentctl.core.types import Effect, JsonObject, Subject, ToolResult, ToolSet, ToolSpec


class ToolDefinition(Record):
    """What a tool's module declares. `arguments` is a subclass of core.arguments.Arguments."""

    name: str
    description: str
    arguments: Any
    effect: Effect
    set: ToolSet
    subjects: Callable[[JsonObject], tuple[Subject, ...]]
    acts_as: Callable[[JsonObject], tuple[str, JsonObject]] | None = None

    def catalogue_row(self) -> JsonObject:
        """What goes into catalogue.json. `wrapper` stands in it when calls of the tool stand for other calls."""
        row = {
            "name": self.name,
            "description": self.description,
            "effect": self.effect,
            "set": self.set,
            "parameters": self.arguments.wire_schema(),
        }
        return {**row, "wrapper": True} if self.acts_as else row


class Implementation(Protocol):
    """A tool's class: its definition, and a run that takes the parsed argument model."""

    definition: ToolDefinition

    async def run(self, call_id: str, args: Any) -> ToolResult: ...


class LazyTool:
    """A Tool made of a catalogue row and a way to load the rest."""

    def __init__(self, row: JsonObject, load: Callable[[], Implementation]) -> None:
        self._load = load
        self._loaded: Implementation | None = None
        self.spec = ToolSpec(
            name=row["name"],
            description=row["description"],
            parameters=row["parameters"],
            effect=row["effect"],
            set=row["set"],
            subjects=lambda args: self._tool.definition.subjects(args),
            acts_as=self._acts_as if row.get("wrapper") else None,
        )

    @property
    def _tool(self) -> Implementation:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _acts_as(self, args: JsonObject) -> tuple[str, JsonObject]:
        stands_for = self._tool.definition.acts_as
        return stands_for(args) if stands_for else (self.spec.name, args)

    def parse(self, args: JsonObject) -> JsonObject:
        parsed: JsonObject = self._tool.definition.arguments.parse(args).as_args()
        return parsed

    async def run(self, call_id: str, args: JsonObject) -> ToolResult:
        return await self._tool.run(call_id, self._tool.definition.arguments.parse(args))


def writes_path(args: JsonObject) -> tuple[Subject, ...]:
    """For tools that write the one file in `path`."""
    return (Subject(kind="path", value=args["path"], access="write"),)


def no_subjects(_args: JsonObject) -> tuple[Subject, ...]:
    """For tools that touch neither files nor commands nor the network."""
    return ()
