"""Reading: read_file, read_many_files, list_dir."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from pydantic import Field

from agentctl.config.ignore import Entry, Walk
from agentctl.config.jail import Place
from agentctl.config.workspace import Workspace
from agentctl.core.arguments import Arguments
from agentctl.core.errors import ToolFailure
from agentctl.core.record import Record
from agentctl.core.toolkit import ToolDefinition
from agentctl.core.types import JsonObject, Subject, ToolResult
from agentctl.tools import textfile
from agentctl.tools.blocking import Stop, in_thread

DEFAULT_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_PAGE_CHARS = 4_000_000
"""Of one read; a page ends early when its lines are that long together."""
MAX_SCAN_BYTES = 100_000_000
"""Of the lines to be shown; a longer line ends the page."""
MAX_FILES = 20
MAX_ENTRIES = 300

_BLOCK = 1 << 18
_MAX_LINE_BYTES = MAX_LINE_CHARS * 4


class Page(Record):
    """Some lines of a file."""

    lines: tuple[str, ...]
    first: int
    """Number of the first one, from 1."""
    has_more: bool
    count: int
    """Lines of the file as far as it was read."""
    is_exact: bool
    """False when bytes had to be shown as U+FFFD."""


class ReadFileArguments(Arguments):
    path: str
    offset: int = Field(1, ge=1, description="First line, from 1")
    limit: int = Field(DEFAULT_LINES, ge=1, description="Number of lines")


class FileRange(Arguments):
    path: str
    offset: int = Field(1, ge=1)
    limit: int = Field(DEFAULT_LINES, ge=1)


class ReadManyArguments(Arguments):
    files: list[FileRange] = Field(min_length=1, max_length=MAX_FILES)


class ListDirArguments(Arguments):
    path: str = "."
    depth: int = Field(2, ge=1, le=6)
    includeIgnored: bool = False


def _path_subject(args: JsonObject) -> tuple[Subject, ...]:
    return (Subject(kind="path", value=args.get("path", ".")),)


def _file_subjects(args: JsonObject) -> tuple[Subject, ...]:
    return tuple(Subject(kind="path", value=item["path"]) for item in args["files"])


class ReadFile:
    definition = ToolDefinition(
        name="read_file",
        description="Read a text file. Lines come as 'N: text'.",
        arguments=ReadFileArguments,
        effect="read",
        set="core",
        subjects=_path_subject,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: ReadFileArguments) -> ToolResult:
        page = await in_thread(lambda stop: read_page(self._workspace, args.path, args.offset, args.limit, stop))
        return ToolResult(
            call_id=call_id, content=_render(page, args.path), summary=f"{len(page.lines)} lines of {args.path}"
        )


class ReadManyFiles:
    definition = ToolDefinition(
        name="read_many_files",
        description=f"Read up to {MAX_FILES} text files at once, each like read_file.",
        arguments=ReadManyArguments,
        effect="read",
        set="edit-plus",
        subjects=_file_subjects,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: ReadManyArguments) -> ToolResult:
        blocks = await asyncio.gather(*(self._block(item) for item in args.files))
        return ToolResult(call_id=call_id, content="\n\n".join(blocks), summary=f"{len(blocks)} files")

    async def _block(self, item: FileRange) -> str:
        title = f"===== {textfile.shown_name(item.path)} ====="
        try:
            page = await in_thread(lambda stop: read_page(self._workspace, item.path, item.offset, item.limit, stop))
            return f"{title}\n{_render(page, item.path)}"
        except ToolFailure as failure:
            return f"{title}\n[unreadable: {failure}]"


def read_page(workspace: Workspace, path: str, offset: int, limit: int, stop: Stop) -> Page:
    """Lines of a text file without holding more of it than is shown. Raises ToolFailure."""
    with workspace.open_file(path) as fd:
        head = os.pread(fd, textfile.SNIFF_BYTES, 0)
        if textfile.is_binary(head):
            raise textfile.binary(path)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            found = workspace.read_file(path, textfile.MAX_TEXT_BYTES)
            text = textfile.decode_whole(found, path).text
            page = _collect(_cut_lines(iter([text.encode()]), offset, limit, stop), offset, limit)
        else:
            page = _collect(_cut_lines(_blocks(fd), offset, limit, stop), offset, limit)
    if stop():
        raise ToolFailure(f"{path!r} is too large to be read up to line {offset} in time. Use bash with sed -n.")
    if offset > 1 and not page.lines:
        raise ToolFailure(f"{path!r} has {page.count} lines; there is no line {offset}.")
    return page


def _blocks(fd: int) -> Iterator[bytes]:
    skip = 3 if os.pread(fd, 3, 0) == b"\xef\xbb\xbf" else 0
    os.lseek(fd, skip, os.SEEK_SET)
    while block := os.read(fd, _BLOCK):
        yield block


class _Line(Record):
    """One line from the wanted one on; `head` is its start when it is long. A line that is not to be shown has none."""

    number: int
    head: bytes = b""
    size: int = 0
    is_whole: bool = True
    """False when its end was not looked for."""


def _cut_lines(blocks: Iterator[bytes], offset: int, limit: int, stop: Stop) -> Iterator[_Line]:
    """The lines from `offset` on, at most `limit`, then the next one if there is any.

    When the file ends before `offset`, its last line instead.
    """
    number, head, size, scanned = 1, bytearray(), 0, 0
    for block in blocks:
        if stop():
            return
        at = 0
        if number < offset:
            ends = block.count(b"\n")
            if number + ends < offset:
                size = len(block) - block.rfind(b"\n") - 1 if ends else size + len(block)
                number += ends
                continue
            while number < offset:
                at = block.index(b"\n", at) + 1
                number += 1
            size = 0
        while number < offset + limit and (end := block.find(b"\n", at)) >= 0:
            head += block[at : min(end, at + _MAX_LINE_BYTES - len(head))]
            yield _Line(number=number, head=bytes(head), size=size + end - at)
            number, head, size, at = number + 1, bytearray(), 0, end + 1
        head += block[at : at + _MAX_LINE_BYTES - len(head)]
        size += len(block) - at
        scanned += len(block)
        if number == offset + limit and size:
            yield _Line(number=number)
            return
        if size and scanned > MAX_SCAN_BYTES:
            yield _Line(number=number, head=bytes(head), size=size, is_whole=False)
            return
    if size:
        yield _Line(number=number, head=bytes(head), size=size)
    elif 1 < offset >= number:
        yield _Line(number=number - 1)


def _collect(found: Iterator[_Line], offset: int, limit: int) -> Page:
    lines: list[str] = []
    size = count = 0
    is_exact = has_more = True
    for line in found:
        count = line.number
        if count < offset or len(lines) == limit or size > MAX_PAGE_CHARS:
            break
        text = _text(line)
        is_exact = is_exact and ("\ufffd" not in text or "\ufffd".encode() in line.head)
        lines.append(text)
        size += len(text)
        if not line.is_whole:
            break
    else:
        has_more = False
    return Page(lines=tuple(lines), first=offset, has_more=has_more and bool(lines), count=count, is_exact=is_exact)


def _text(line: _Line) -> str:
    is_whole = len(line.head) == line.size and line.is_whole
    head = line.head.removesuffix(b"\r") if is_whole else line.head
    text = head.decode(errors="replace")
    if len(text) <= MAX_LINE_CHARS and is_whole:
        return text
    size = f"{line.size:,} bytes in all" if line.is_whole else f"more than {line.size:,} bytes"
    return f"{text[:MAX_LINE_CHARS]}… [line cut, {size}]"


def _render(page: Page, path: str) -> str:
    if not page.lines:
        return f"{textfile.shown_name(path)} is empty."
    lines = [f"{number}: {text}" for number, text in enumerate(page.lines, start=page.first)]
    if page.has_more:
        lines.append(f"... [more lines follow; go on with offset={page.first + len(page.lines)}]")
    if not page.is_exact:
        lines.append("[not all of it is UTF-8; \ufffd stands for other bytes]")
    return "\n".join(lines)


class ListDir:
    definition = ToolDefinition(
        name="list_dir",
        description="List a folder as a tree, without ignored files.",
        arguments=ListDirArguments,
        effect="read",
        set="edit-plus",
        subjects=_path_subject,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, call_id: str, args: ListDirArguments) -> ToolResult:
        content = await in_thread(lambda stop: self._list(args, stop))
        return ToolResult(call_id=call_id, content=content, summary=f"listed {args.path}")

    def _list(self, args: ListDirArguments, stop: Stop) -> str:
        with self._workspace.open_folder(args.path) as (root, place):
            walk = Walk(
                root, place.relative, includes_ignored=args.includeIgnored, max_depth=args.depth, should_stop=stop
            )
            lines: list[str] = []
            for entry in walk:
                if len(lines) == MAX_ENTRIES:
                    lines.append(f"... [{MAX_ENTRIES}-entry limit reached; list a folder below, or with less depth]")
                    break
                lines.append("  " * (entry.depth - 1) + _listed(entry))
        if not lines:
            return _nothing_listed(place, args.includeIgnored, walk)
        if stop():
            lines.append("... [stopped after a minute; the list is not complete]")
        return "\n".join([*lines, *(f"[{warning}]" for warning in walk.warnings[:3])])


def _nothing_listed(place: Place, includes_ignored: bool, walk: Walk) -> str:
    if walk.warnings:
        return f"Nothing could be listed: {walk.warnings[0]}"
    if includes_ignored:
        return f"{place.shown} is empty."
    return f"{place.shown} is empty, or everything in it is ignored (includeIgnored shows it)."


def _listed(entry: Entry) -> str:
    name = textfile.shown_name(entry.name)
    if entry.kind == "folder":
        return name + "/"
    if entry.kind == "link":
        slash = "/" if entry.points_to_folder else ""
        return f"{name}{slash} -> {textfile.shown_name(entry.link_target())}"
    if entry.kind == "other":
        return f"{name} (no regular file)"
    try:
        return f"{name}  {_size(entry.stat().st_size)}"
    except OSError:
        return name


def _size(count: int) -> str:
    if count < 1024:
        return f"{count}B"
    return f"{count / 1024:.1f}K" if count < 1024**2 else f"{count / 1024**2:.1f}M"
