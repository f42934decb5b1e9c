"""apply_patch: several files in one envelope. Everything is checked before anything is written."""

from __future__ import annotations

from agentctl.config.workspace import FileData, Workspace
from agentctl.core.arguments import Arguments
from agentctl.core.errors import ToolFailure
from agentctl.core.patchtext import Chunk, FilePatch, parse_patch, patch_paths
from agentctl.core.record import Record
from agentctl.core.toolkit import ToolDefinition
from agentctl.core.types import FileChange, JsonObject, Subject, ToolResult
from agentctl.tools.blocking import in_thread
from agentctl.tools.diff import unified_diff
from agentctl.tools.manage import deleted_diff
from agentctl.tools.textfile import MAX_TEXT_BYTES, check_text, decode_whole


class ApplyPatchArguments(Arguments):
    patch: str


def _subjects(args: JsonObject) -> tuple[Subject, ...]:
    return tuple(Subject(kind="path", value=path, access="write") for path in patch_paths(args["patch"]))


class Step(Record):
    """One checked change, ready to be written."""

    section: FilePatch
    shown: str
    data: bytes | None
    """New content; None when the content stays or goes."""
    expected: FileData | None
    diff: str


class ApplyPatch:
    definition = ToolDefinition(
        name="apply_patch",
        description=(
            "Change several files at once. Sections '*** Add File: P', '*** Update File: P' "
            "(then optionally '*** Move to: P'), '*** Delete File: P'; lines start with + - or a space, "
            "'@@' separates changes."
        ),
        arguments=ApplyPatchArguments,
        effect="write",
        set="edit-plus",
        subjects=_subjects,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: ApplyPatchArguments) -> ToolResult:
        check_text(args.patch, "patch")
        done, failure = await in_thread(lambda _stop: apply_patch(self._workspace, args.patch))
        lines = [f"  {_told(change)}" for change in done]
        if failure:
            head = f"{failure} Applied before that: {len(done) or 'nothing'}."
            return ToolResult(call_id=call_id, content="\n".join([head, *lines]), is_error=True, changed=tuple(done))
        head = f"Applied {len(done)} change(s):"
        return ToolResult(call_id=call_id, content="\n".join([head, *lines]), summary=head[:-1], changed=tuple(done))


def _told(change: FileChange) -> str:
    return f"{change.kind} {change.path}" + (f" to {change.moved_to}" if change.moved_to else "")


def apply_patch(workspace: Workspace, patch: str) -> tuple[list[FileChange], str]:
    """Plans all sections, then writes them. Raises ToolFailure while planning; a failed write ends with its reason."""
    steps = [_plan(workspace, section) for section in parse_patch(patch)]
    _check_places(workspace, steps)
    done: list[FileChange] = []
    for step in steps:
        try:
            done.append(_write(workspace, step))
        except ToolFailure as failure:
            return done, str(failure)
    return done, ""


def _plan(workspace: Workspace, section: FilePatch) -> Step:
    path = section.path
    if section.kind != "add" and not workspace.exists(path, follows_last=section.kind != "delete"):
        raise ToolFailure(f"Cannot {section.kind} {path!r}: no such file. Find it with glob.")
    if section.kind == "delete":
        shown = workspace.check_delete(path).shown
        return Step(section=section, shown=shown, data=None, expected=None, diff=deleted_diff(workspace, path, shown))
    workspace.check_write(path)
    place = workspace.locate(path)
    if section.kind == "add":
        if workspace.exists(path, follows_last=False):
            raise ToolFailure(f"Cannot add {path!r}: it exists already. Use '*** Update File:' or another name.")
        text = "".join(line + "\n" for line in section.lines)
        diff = unified_diff(place.shown, None, text)
        return Step(section=section, shown=place.shown, data=text.encode(), expected=None, diff=diff)
    found = workspace.read_file(path, MAX_TEXT_BYTES)
    if section.move_to is not None:
        if workspace.exists(section.move_to, follows_last=False):
            raise ToolFailure(f"Cannot move {path!r}: {section.move_to!r} exists already. Delete it first.")
        workspace.check_write(section.move_to)
    old = decode_whole(found, path)
    text = old.text
    for chunk in section.chunks:
        text = apply_chunk(text, chunk, old.newline, path)
    data = old.encode(text) if text != old.text else None
    diff = unified_diff(place.shown, old.text, text)
    return Step(section=section, shown=place.shown, data=data, expected=found, diff=diff)


def _check_places(workspace: Workspace, steps: list[Step]) -> None:
    """Two names of one file are one file: a link and its target, or a path with `..`."""
    seen: set[str] = set()
    for step in steps:
        names = [step.shown]
        if step.section.move_to is not None:
            names.append(workspace.locate(step.section.move_to, follows_last=False).shown)
        for name in names:
            if name in seen:
                raise ToolFailure(f"{name!r} appears twice in the patch. Join its changes in one section.")
            seen.add(name)


def _write(workspace: Workspace, step: Step) -> FileChange:
    section = step.section
    if section.kind == "delete":
        workspace.delete(section.path)
        return FileChange(path=step.shown, kind="deleted", diff=step.diff)
    if step.data is not None:
        workspace.write_bytes(section.path, step.data, expected=step.expected)
    if section.move_to is not None:
        target = workspace.move(section.path, section.move_to)
        return FileChange(path=step.shown, kind="moved", moved_to=target.shown, diff=step.diff)
    return FileChange(path=step.shown, kind="added" if section.kind == "add" else "modified", diff=step.diff)


def apply_chunk(text: str, chunk: Chunk, newline: str, path: str) -> str:
    """The text with one change made. Raises ToolFailure when its lines are not there, or in more than one place."""
    lines = text.split("\n")
    has_last_newline = lines[-1] == ""
    if has_last_newline:
        lines.pop()
    elif newline == "\r\n":
        lines[-1] += "\r"
    parts = [chunk]
    if not _places(lines, chunk.old):
        parts = _without_neighbours(chunk)
    for part in parts:
        lines = _change(lines, part, newline, path)
    text = "\n".join(lines)
    if has_last_newline:
        return text + "\n" if lines else ""
    return text.removesuffix("\r") if newline == "\r\n" else text


def _change(lines: list[str], chunk: Chunk, newline: str, path: str) -> list[str]:
    at = _place(lines, chunk, path)
    changed: list[str] = []
    used = at
    for line in chunk.lines:
        if line.sign == "+":
            changed.append(line.text + "\r" if newline == "\r\n" else line.text)
            continue
        if line.sign == " ":
            changed.append(lines[used])
        used += 1
    return lines[:at] + changed + lines[used:]


def _place(lines: list[str], chunk: Chunk, path: str) -> int:
    places = _places(lines, chunk.old)
    if len(places) > 1 and chunk.anchor:
        anchors = [at for at, line in enumerate(lines) if line.strip() == chunk.anchor.strip()]
        if len(anchors) == 1:
            places = [at for at in places if at >= anchors[0]][:1]
    if len(places) == 1:
        return places[0]
    first = chunk.old[0][:80]
    if not places:
        raise ToolFailure(
            f"Line {chunk.number} of the patch: its old lines, from {first!r} on, do not match {path}. "
            "They must match exactly; read the file again. Nothing was changed."
        )
    raise ToolFailure(
        f"Line {chunk.number} of the patch: its old lines, from {first!r} on, appear {len(places)} times in {path}. "
        "Add lines around them, or '@@ LINE' with a line above. Nothing was changed."
    )


def _places(lines: list[str], old: tuple[str, ...]) -> list[int]:
    found = []
    for at in range(len(lines) - len(old) + 1):
        if lines[at].removesuffix("\r") == old[0] and all(
            lines[at + offset].removesuffix("\r") == line for offset, line in enumerate(old)
        ):
            found.append(at)
    return found


def _without_neighbours(chunk: Chunk) -> list[Chunk]:
    """Removed and added lines without context may mean several places: a removal after an addition starts a new one."""
    if any(line.sign == " " for line in chunk.lines):
        return [chunk]
    starts = [0]
    for at in range(1, len(chunk.lines)):
        if chunk.lines[at].sign == "-" and chunk.lines[at - 1].sign == "+":
            starts.append(at)
    ends = [*starts[1:], len(chunk.lines)]
    return [chunk.replace(lines=chunk.lines[start:end]) for start, end in zip(starts, ends, strict=True)]
