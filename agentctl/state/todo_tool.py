"""The tool `todo_write`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentctl.core.arguments import Arguments
from agentctl.core.ports import Emit
from agentctl.core.toolkit import ToolDefinition, no_subjects
from agentctl.core.types import Todo, ToolResult
from agentctl.state.todos import MAX_CHARS, MAX_ITEMS, TodoList


class Item(Arguments):
    content: str = Field(min_length=1, max_length=MAX_CHARS)
    status: Literal["pending", "in_progress", "done", "blocked"]
    note: str = Field(default="", max_length=MAX_CHARS, description="Why it is blocked, or what came out.")


class TodoWriteArguments(Arguments):
    todos: list[Item] = Field(max_length=MAX_ITEMS)


class TodoWrite:
    definition = ToolDefinition(
        name="todo_write",
        description="Replace your plan as a whole. One item in_progress at a time.",
        arguments=TodoWriteArguments,
        effect="state",
        set="session",
        subjects=no_subjects,
    )

    def __init__(self, todos: TodoList, emit: Emit) -> None:
        self._todos = todos
        self._emit = emit

    async def run(self, call_id: str, args: TodoWriteArguments) -> ToolResult:
        self._todos.replace([Todo(content=item.content, status=item.status, note=item.note) for item in args.todos])
        event = self._todos.event()
        self._emit(event)
        summary = f"Plan updated: {event.done}/{event.total} done."
        warnings = [f"Warning: {text}" for text in self._todos.warnings()]
        return ToolResult(
            call_id=call_id, content="\n".join([summary, *self._todos.lines(), *warnings]), summary=summary
        )
