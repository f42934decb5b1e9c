"""The one parser of patch envelopes: the patch tool applies what it finds, the policy asks it for the paths.

    *** Begin Patch                 optional, like its End
    *** Update File: src/a.py
    *** Move to: src/b.py           optional, right after Update
    @@ def greet():                 optional: the change lies below this line
     context
    -old line
    +new line
    *** Add File: notes.txt
    +first line
    *** Delete File: old.txt
    *** End Patch

A line is what stands between two line feeds; a carriage return at its end does not count.
"""

from __future__ import annotations

from typing import Literal

from agentctl.core.errors import ToolFailure
from agentctl.core.record import Record

Kind = Literal["add", "update", "delete"]

_MARKERS: dict[str, Kind] = {"*** Add File:": "add", "*** Update File:": "update", "*** Delete File:": "delete"}
_MOVE = "*** Move to:"
_BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_END_OF_FILE = "*** End of File"
_NO_NEWLINE = "\\ No newline at end of file"
_HOW = (
    "Sections start with '*** Add File: PATH', '*** Update File: PATH' or '*** Delete File: PATH'; "
    "their lines start with '+', '-' or a space."
)


class PatchLine(Record):
    sign: Literal["+", "-", " "]
    text: str


class Chunk(Record):
    """Neighbouring lines of one change. `anchor` is the text after `@@`; the change lies below that line."""

    lines: tuple[PatchLine, ...]
    anchor: str
    number: int
    """Line of the patch where it starts, from 1."""

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.sign != "+")

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.sign != "-")


class FilePatch(Record):
    """What happens to one file. Only an update has chunks and may move; only an add has lines."""

    kind: Kind
    path: str
    number: int
    """Line of the patch that names the file, from 1."""
    move_to: str | None = None
    lines: tuple[str, ...] = ()
    chunks: tuple[Chunk, ...] = ()


def patch_paths(text: str) -> tuple[str, ...]:
    """Every path that a marker line names, in order and without repeats, however broken the rest is."""
    paths: dict[str, None] = {}
    for line in _lines(text):
        for marker in (*_MARKERS, _MOVE):
            if line.lstrip().startswith(marker):
                path = line.lstrip()[len(marker) :].strip()
                if path:
                    paths[path] = None
    return tuple(paths)


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """The sections of a patch, checked for form. Raises ToolFailure with the line at fault."""
    lines = _lines(text)
    sections: list[FilePatch] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.rstrip() in (_BEGIN, _END):
            at += 1
            continue
        kind, path = _marker(line, at)
        end = at + 1
        while end < len(lines) and not _starts_section(lines[end]):
            end += 1
        sections.append(_section(kind, path, at, lines[at + 1 : end]))
        at = end
    if not sections:
        raise ToolFailure(f"The patch is empty. {_HOW}")
    _check_repeats(sections)
    return tuple(sections)


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def _starts_section(line: str) -> bool:
    return line.startswith(tuple(_MARKERS)) or line.rstrip() in (_BEGIN, _END)


def _marker(line: str, at: int) -> tuple[Kind, str]:
    for marker, kind in _MARKERS.items():
        if line.startswith(marker):
            path = line[len(marker) :].strip()
            if not path:
                raise ToolFailure(f"Line {at + 1}: {marker!r} names no file.")
            return kind, path
    if line.startswith(_MOVE):
        raise ToolFailure(f"Line {at + 1}: '{_MOVE}' may only stand right after '*** Update File:'.")
    raise ToolFailure(f"Line {at + 1} is no marker: {line[:80]!r}. {_HOW}")


def _section(kind: Kind, path: str, at: int, body: list[str]) -> FilePatch:
    start = at + 1
    move_to = None
    if body and body[0].startswith(_MOVE):
        if kind != "update":
            raise ToolFailure(f"Line {start + 1}: '{_MOVE}' may only stand right after '*** Update File:'.")
        move_to = body[0][len(_MOVE) :].strip()
        if not move_to:
            raise ToolFailure(f"Line {start + 1}: '{_MOVE}' names no file.")
        body, start = body[1:], start + 1
    while body and not body[-1].strip():
        body = body[:-1]
    if kind == "add":
        return FilePatch(kind=kind, path=path, number=at + 1, lines=_added(body, start))
    if kind == "delete":
        if body:
            raise ToolFailure(f"Line {start + 1}: nothing may follow '*** Delete File:', got {body[0][:80]!r}.")
        return FilePatch(kind=kind, path=path, number=at + 1)
    chunks = _chunks(body, start)
    if move_to is None and not chunks:
        raise ToolFailure(f"Line {at + 1}: the update of {path!r} changes nothing. It needs at least one '-' line.")
    return FilePatch(kind=kind, path=path, number=at + 1, move_to=move_to, chunks=chunks)


def _added(body: list[str], start: int) -> tuple[str, ...]:
    for number, line in enumerate(body, start=start + 1):
        if line.startswith("-"):
            raise ToolFailure(f"Line {number}: '*** Add File:' cannot remove lines. Every line starts with '+'.")
        if not line.startswith("+"):
            raise ToolFailure(f"Line {number} of an added file must start with '+', got {line[:80]!r}.")
    return tuple(line[1:] for line in body)


def _chunks(body: list[str], start: int) -> tuple[Chunk, ...]:
    chunks: list[Chunk] = []
    lines: list[PatchLine] = []
    anchor = ""
    first = start + 1

    def close() -> None:
        if lines:
            chunks.append(_checked(Chunk(lines=tuple(lines), anchor=anchor, number=first)))
            lines.clear()

    for number, line in enumerate(body, start=start + 1):
        if line.startswith("@@"):
            close()
            anchor = _anchor(line)
            first = number + 1
        elif line.rstrip() not in (_END_OF_FILE, _NO_NEWLINE):
            lines.append(_patch_line(line, number))
    close()
    return tuple(chunks)


def _anchor(line: str) -> str:
    """`@@ def f():`, also `@@ -1,2 +3,4 @@ def f():`; bare line numbers say nothing."""
    words = line[2:].strip()
    if words.startswith("-") and "@@" in words:
        words = words.split("@@", 1)[1].strip()
    return words.removesuffix("@@").strip()


def _patch_line(line: str, number: int) -> PatchLine:
    if not line:  # an empty context line whose space was stripped
        return PatchLine(sign=" ", text="")
    if line[0] == "+":
        return PatchLine(sign="+", text=line[1:])
    if line[0] == "-":
        return PatchLine(sign="-", text=line[1:])
    if line[0] == " ":
        return PatchLine(sign=" ", text=line[1:])
    if line.startswith(_MOVE):
        raise ToolFailure(f"Line {number}: '{_MOVE}' may only stand right after '*** Update File:'.")
    raise ToolFailure(f"Line {number} starts with neither '+', '-' nor a space: {line[:80]!r}. {_HOW}")


def _checked(chunk: Chunk) -> Chunk:
    """Without the blank lines at its ends that only separate it from its neighbours."""
    lines = list(chunk.lines)
    blank = PatchLine(sign=" ", text="")
    while lines and lines[-1] == blank:
        lines.pop()
    while lines and lines[0] == blank:
        lines.pop(0)
    if not any(line.sign == "-" or line.text.strip() for line in lines if line.sign != "+"):
        raise ToolFailure(
            f"Line {chunk.number}: this change names no line of the file. It needs at least one '-' line, "
            "or a line that starts with a space, to say where it goes."
        )
    return chunk.replace(lines=tuple(lines))


def _check_repeats(sections: list[FilePatch]) -> None:
    from posixpath import normpath

    seen: set[str] = set()
    for section in sections:
        for path in (section.path, section.move_to):
            if path is None:
                continue
            if normpath(path) in seen:
                raise ToolFailure(f"Line {section.number}: {path!r} appears twice. Join its changes in one section.")
            seen.add(normpath(path))
