"""The tools of the notebook: `add_state`, `read_state`, `compact_state`."""

from __future__ import annotations

from pydantic import Field

from agentctl.core.arguments import Arguments
from agentctl.core.toolkit import ToolDefinition, no_subjects
from agentctl.core.types import ToolResult
from agentctl.state.notebook import HINT_CHARS, Notebook, Size, revision_of

PAGE_CHARS, MOST_CHARS = 16_000, 28_000


class AddStateArguments(Arguments):
    text: str = Field(min_length=1)


class AddState:
    definition = ToolDefinition(
        name="add_state",
        description=(
            "Note one finding in this session's notebook, the moment it happens: a decision, denial or answer; a key "
            "fact or root cause; the start of a task with several steps (goal, acceptance criteria); a milestone "
            "(conclusion, paths). A correction is a new note."
        ),
        arguments=AddStateArguments,
        effect="state",
        set="session",
        subjects=no_subjects,
    )

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    async def run(self, call_id: str, args: AddStateArguments) -> ToolResult:
        async with self._notebook.folder.locked():
            size = self._notebook.add(args.text)
        return ToolResult(call_id=call_id, content=f"Noted: {size}.{_hint(size)}", summary=f"Noted: {size}.")


class ReadStateArguments(Arguments):
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=PAGE_CHARS, ge=1, le=MOST_CHARS, description="characters")


class ReadState:
    definition = ToolDefinition(
        name="read_state",
        description="Read the notebook, with the revision that compact_state needs.",
        arguments=ReadStateArguments,
        effect="state",
        set="session",
        subjects=no_subjects,
    )

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    async def run(self, call_id: str, args: ReadStateArguments) -> ToolResult:
        text = self._notebook.text
        size = self._notebook.size
        head = f"Notebook: {size}, revision {revision_of(text)}."
        page = text[args.offset : args.offset + args.limit]
        end = args.offset + len(page)
        rest = f"\n[{len(text) - end:,} characters more: offset {end}]" if end < len(text) else ""
        return ToolResult(
            call_id=call_id,
            content=f"{head}{_hint(size)}\n{page.rstrip() if not rest else page}{rest}".rstrip(),
            summary=head,
            is_truncated=bool(rest),
        )


class CompactStateArguments(Arguments):
    text: str = Field(min_length=1, description="The whole new text")
    revision: str = Field(description="As read_state gave it")


class CompactState:
    definition = ToolDefinition(
        name="compact_state",
        description="Replace the notebook by a summary; read all of it first. The earlier text is kept.",
        arguments=CompactStateArguments,
        effect="state",
        set="session",
        subjects=no_subjects,
    )

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    async def run(self, call_id: str, args: CompactStateArguments) -> ToolResult:
        async with self._notebook.folder.locked():
            before, after, number = self._notebook.compact(args.text, args.revision)
        said = (
            f"Compacted: {before.chars:,} → {after.chars:,} characters; the earlier text is kept as version {number}."
        )
        return ToolResult(call_id=call_id, content=f"{said}{_hint(after)}", summary=said)


def _hint(size: Size) -> str:
    if size.chars <= HINT_CHARS:
        return ""
    return f"\nIt has more than {HINT_CHARS:,} characters: read_state, then compact_state with a summary."
