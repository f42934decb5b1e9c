"""Writing text: write_file, edit_file, multi_edit.

An edit replaces text literally and touches nothing else: encoding, byte order mark, line ends, mode and the bytes
around it stay. A file with CRLF is edited with LF in the arguments and keeps its CRLF.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from agentctl.config.workspace import FileData, Workspace
from agentctl.core.arguments import Arguments
from agentctl.core.errors import ToolFailure
from agentctl.core.toolkit import ToolDefinition, writes_path
from agentctl.core.types import FileChange, ToolResult
from agentctl.tools.blocking import in_thread
from agentctl.tools.diff import unified_diff
from agentctl.tools.textfile import (
    MAX_TEXT_BYTES,
    TextFile,
    check_text,
    decode,
    decode_whole,
    is_binary,
    with_newlines,
)


class WriteFileArguments(Arguments):
    path: str
    content: str


class EditFileArguments(Arguments):
    path: str
    oldString: str
    newString: str
    replaceAll: bool = False


class Edit(Arguments):
    oldString: str
    newString: str
    replaceAll: bool = False


class MultiEditArguments(Arguments):
    path: str
    edits: list[Edit] = Field(min_length=1)


class WriteFile:
    definition = ToolDefinition(
        name="write_file",
        description="Write a whole file, with missing folders. Prefer edit_file for changes.",
        arguments=WriteFileArguments,
        effect="write",
        set="core",
        subjects=writes_path,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: WriteFileArguments) -> ToolResult:
        check_text(args.content, "content")
        content, changed = await in_thread(lambda _stop: write_text(self._workspace, args.path, args.content))
        return ToolResult(call_id=call_id, content=content, summary=content.split("\n")[0], changed=changed)


def write_text(workspace: Workspace, path: str, content: str) -> tuple[str, tuple[FileChange, ...]]:
    """Writes a whole file; an existing text file keeps its encoding, byte order mark and line ends."""
    found = workspace.read_file(path, MAX_TEXT_BYTES) if workspace.exists(path) else None
    old = _readable(found, path)
    data = content.encode()
    size, kept = len(content), ""
    if old is not None:
        if old.newline == "\r\n" and "\r" not in content and old.text.count("\n") == old.text.count("\r\n"):
            content = with_newlines(content, "\r\n")
            kept = " It keeps its CRLF line ends."
        data = old.encode(content) if old.is_exact else content.encode()
    if found is not None and found.is_whole and found.data == data:
        return f"{path} holds exactly this already; nothing was written.", ()
    place = workspace.write_bytes(path, data, expected=found)
    diff = "" if old is None and found is not None else unified_diff(place.shown, old.text if old else None, content)
    change = FileChange(path=place.shown, kind="added" if found is None else "modified", diff=diff)
    collapsed = _collapse_warning(old.text, content) if old is not None else ""
    return f"Wrote {size} characters to {place.shown}.{kept}{collapsed}", (change,)


def _readable(found: FileData | None, path: str) -> TextFile | None:
    """The old text when there is one that can be shown and kept to."""
    if found is None or not found.is_whole or is_binary(found.data):
        return None
    try:
        return decode(found.data, path)
    except ToolFailure:
        return None


def _collapse_warning(old: str, new: str) -> str:
    before, after = old.count("\n") + 1, new.count("\n") + 1
    if old and 0.5 <= len(new) / len(old) <= 1.5 and after < before / 2:
        return (
            f"\nWarning: this collapsed {before} lines into {after} of about the same length. "
            "If the line breaks were lost by mistake, send the whole file again."
        )
    return ""


class EditFile:
    definition = ToolDefinition(
        name="edit_file",
        description="Replace exact text in a file. oldString must occur once, unless replaceAll.",
        arguments=EditFileArguments,
        effect="write",
        set="core",
        subjects=writes_path,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: EditFileArguments) -> ToolResult:
        edit = Edit(oldString=args.oldString, newString=args.newString, replaceAll=args.replaceAll)
        counts, changed = await in_thread(lambda _stop: edit_text(self._workspace, args.path, [edit], is_one=True))
        content = f"Replaced {counts[0]} occurrence(s) in {changed[0].path}."
        return ToolResult(call_id=call_id, content=content, summary=content, changed=changed)


class MultiEdit:
    definition = ToolDefinition(
        name="multi_edit",
        description="Several edit_file replacements in one file, in order; all or none are applied.",
        arguments=MultiEditArguments,
        effect="write",
        set="edit-plus",
        subjects=writes_path,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: MultiEditArguments) -> ToolResult:
        counts, changed = await in_thread(lambda _stop: edit_text(self._workspace, args.path, args.edits))
        if not changed:
            content = f"No change to {args.path}: the edits cancel out."
        else:
            times = ", ".join(f"{count}x" for count in counts)
            content = f"Applied {len(counts)} edit(s) to {changed[0].path} ({times})."
        return ToolResult(call_id=call_id, content=content, summary=content, changed=changed)


def edit_text(
    workspace: Workspace, path: str, edits: Sequence[Edit], *, is_one: bool = False
) -> tuple[list[int], tuple[FileChange, ...]]:
    """Applies edits one after the other in memory, then writes once. Returns how often each replaced something.

    Raises ToolFailure before anything is written when one of them does not fit.
    """
    found = workspace.read_file(path, MAX_TEXT_BYTES)
    old = decode_whole(found, path)
    text = old.text
    counts = []
    for number, edit in enumerate(edits, start=1):
        try:
            text, count = replace(text, edit, old.newline, path)
        except ToolFailure as failure:
            if is_one:
                raise
            raise ToolFailure(f"edit {number}: {failure} No edits were applied.") from None
        counts.append(count)
    if text == old.text:
        return counts, ()
    place = workspace.write_bytes(path, old.encode(text), expected=found)
    diff = unified_diff(place.shown, old.text, text)
    return counts, (FileChange(path=place.shown, kind="modified", diff=diff),)


def replace(text: str, edit: Edit, newline: str, path: str) -> tuple[str, int]:
    """The new text and the number of replacements. Raises ToolFailure with what would work."""
    if not edit.oldString:
        raise ToolFailure("oldString is empty. Give the text to replace, or write a new file with write_file.")
    if edit.oldString == edit.newString:
        raise ToolFailure("oldString and newString are identical.")
    check_text(edit.oldString, "oldString")
    check_text(edit.newString, "newString")
    old = edit.oldString
    count = text.count(old)
    if not count and "\n" in old and "\r\n" in text:
        old = with_newlines(old, "\r\n")
        count = text.count(old)
    if not count:
        raise ToolFailure(f"oldString not found in {path}. {_why_not_found(text, edit.oldString)}")
    if count > 1 and not edit.replaceAll:
        raise ToolFailure(f"oldString appears {count} times in {path}. Add surrounding lines, or set replaceAll.")
    new = edit.newString
    if "\n" in old:
        newline = "\r\n" if "\r\n" in old else "\n"
    if newline == "\r\n":
        new = with_newlines(new, newline)
    return text.replace(old, new), count


def _why_not_found(text: str, old: str) -> str:
    if re.match(r"\d+: ", old):
        return "Leave out the line numbers that read_file puts in front of the lines."
    wanted = [line.strip() for line in old.strip().split("\n")]
    lines = [line.strip() for line in text.split("\n")]
    for at, line in enumerate(lines):
        if line == wanted[0] and lines[at : at + len(wanted)] == wanted:
            return f"Line {at + 1} has it with other spaces at the line starts or ends; copy them exactly."
    return "It must match to the byte; read the file again and copy the text."
