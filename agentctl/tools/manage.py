"""Moving and deleting: move_file, delete_file."""

from __future__ import annotations

from pydantic import Field

from agentctl.config.workspace import Workspace
from agentctl.core.arguments import Arguments
from agentctl.core.errors import ToolFailure
from agentctl.core.toolkit import ToolDefinition, writes_path
from agentctl.core.types import FileChange, JsonObject, Subject, ToolResult
from agentctl.tools.blocking import in_thread
from agentctl.tools.diff import unified_diff
from agentctl.tools.textfile import MAX_TEXT_BYTES, decode_whole


class MoveFileArguments(Arguments):
    source: str = Field(alias="from")
    to: str


class DeleteFileArguments(Arguments):
    path: str


def _move_subjects(args: JsonObject) -> tuple[Subject, ...]:
    return tuple(Subject(kind="path", value=args[end], access="write") for end in ("from", "to"))


class MoveFile:
    definition = ToolDefinition(
        name="move_file",
        description="Move or rename a file; never over an existing one.",
        arguments=MoveFileArguments,
        effect="write",
        set="edit-plus",
        subjects=_move_subjects,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: MoveFileArguments) -> ToolResult:
        change = await in_thread(lambda _stop: self._move(args))
        content = f"Moved {change.path} to {change.moved_to}."
        return ToolResult(call_id=call_id, content=content, summary=content, changed=(change,))

    def _move(self, args: MoveFileArguments) -> FileChange:
        source = self._workspace.locate(args.source, follows_last=False)
        if source.absolute == self._workspace.locate(args.to, follows_last=False).absolute:
            raise ToolFailure("from and to are the same path. Choose another name.")
        target = self._workspace.move(args.source, args.to)
        return FileChange(path=source.shown, kind="moved", moved_to=target.shown)


class DeleteFile:
    definition = ToolDefinition(
        name="delete_file",
        description="Delete one file.",
        arguments=DeleteFileArguments,
        effect="write",
        set="edit-plus",
        subjects=writes_path,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: DeleteFileArguments) -> ToolResult:
        size, change = await in_thread(lambda _stop: self._delete(args.path))
        content = f"Deleted {change.path} ({size} bytes)."
        return ToolResult(call_id=call_id, content=content, summary=content, changed=(change,))

    def _delete(self, path: str) -> tuple[int, FileChange]:
        place = self._workspace.locate(path, follows_last=False)
        diff = deleted_diff(self._workspace, path, place.shown)
        size = self._workspace.delete(path)
        return size, FileChange(path=place.shown, kind="deleted", diff=diff)


def deleted_diff(workspace: Workspace, path: str, shown: str) -> str:
    """The diff of the deletion; empty for links and for what is no text."""
    try:
        if workspace.locate(path).shown != shown:
            return ""
        return unified_diff(shown, decode_whole(workspace.read_file(path, MAX_TEXT_BYTES), path).text, None)
    except ToolFailure:
        return ""
