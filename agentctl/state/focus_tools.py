"""The tools of the focus stack: `focus_task` and `focus_complete`."""

from __future__ import annotations

from pydantic import Field

from agentctl.core.arguments import Arguments
from agentctl.core.toolkit import ToolDefinition, no_subjects
from agentctl.core.types import ToolResult
from agentctl.state.focus import Focus


class FocusTaskArguments(Arguments):
    task: str = Field(min_length=1, max_length=500)


class FocusTask:
    definition = ToolDefinition(
        name="focus_task",
        description="Begin a detour: put its task, one line, on the focus stack. The task before waits below it.",
        arguments=FocusTaskArguments,
        effect="state",
        set="session",
        subjects=no_subjects,
    )

    def __init__(self, focus: Focus) -> None:
        self._focus = focus

    async def run(self, call_id: str, args: FocusTaskArguments) -> ToolResult:
        async with self._focus.folder.locked():
            stack = self._focus.push(args.task)
        waiting = f" Waiting below: {stack[-2]}." if len(stack) > 1 else ""
        said = f"Focus {len(stack)}: {stack[-1]}."
        return ToolResult(call_id=call_id, content=f"{said}{waiting}", summary=said)


class FocusCompleteArguments(Arguments):
    conclusion: str = Field(min_length=1, max_length=500)


class FocusComplete:
    definition = ToolDefinition(
        name="focus_complete",
        description="End the task on top of the focus stack with a conclusion in one line, before you answer.",
        arguments=FocusCompleteArguments,
        effect="state",
        set="session",
        subjects=no_subjects,
    )

    def __init__(self, focus: Focus) -> None:
        self._focus = focus

    async def run(self, call_id: str, args: FocusCompleteArguments) -> ToolResult:
        async with self._focus.folder.locked():
            frame, rest = self._focus.pop(args.conclusion)
        said = f"Done: {frame}."
        back = f" Back to: {rest[-1]}." if rest else " The stack is empty."
        return ToolResult(call_id=call_id, content=f"{said}{back}", summary=said)
