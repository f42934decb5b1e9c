"""Searching: glob for names, grep for lines. Both walk the tree in the same order and skip the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from pydantic import Field

from agentctl.config.ignore import Entry, Walk
from agentctl.config.jail import Place
from agentctl.config.workspace import Workspace
from agentctl.core.arguments import Arguments
from agentctl.core.errors import ToolFailure
from agentctl.core.toolkit import ToolDefinition
from agentctl.core.types import JsonObject, Subject, ToolResult
from agentctl.tools import matching, ripgrep
from agentctl.tools.blocking import WORK_TIMEOUT_S, Stop, in_thread
from agentctl.tools.globs import GlobPattern
from agentctl.tools.textfile import check_text, shown_name

MAX_PATHS = 200
MAX_HITS = 200
MAX_HIT_CHARS = 300
MAX_SEARCH_BYTES = 20_000_000
"""A larger file is not searched, and named."""
SMALL_TREE = 200
"""Files that are searched here before ripgrep is worth its start."""
MAX_ARGUMENT_CHARS = 100_000
MAX_TOLD = 4 * MAX_HITS
"""Hits of one ripgrep run that are looked at."""
EVERYTHING = "**/*"


class GlobArguments(Arguments):
    pattern: str
    limit: int = Field(MAX_PATHS, ge=1)
    includeIgnored: bool = False


class GrepArguments(Arguments):
    pattern: str
    include: str = Field(EVERYTHING, description="Files to search, e.g. *.py")
    ignoreCase: bool = False
    includeIgnored: bool = False


def _glob_subjects(args: JsonObject) -> tuple[Subject, ...]:
    return (Subject(kind="path", value=GlobPattern(args["pattern"]).base or "."),)


def _grep_subjects(args: JsonObject) -> tuple[Subject, ...]:
    return (Subject(kind="path", value=GlobPattern(_any_depth(args.get("include", EVERYTHING))).base or "."),)


def _any_depth(include: str) -> str:
    """A bare file name is meant for every folder."""
    return include if "/" in include.strip("/") or include.startswith("/") else f"**/{include}"


class Found(NamedTuple):
    """A file of the walk, readable until the next one is asked for."""

    entry: Entry
    name: str
    """As the policy and the model name it."""


class _Search:
    """One search: the walk below a pattern's base, and what it left out."""

    def __init__(self, workspace: Workspace, may_read: Callable[[str], bool], includes_ignored: bool, stop: Stop):
        self._workspace = workspace
        self._may_read = may_read
        self._includes_ignored = includes_ignored
        self._stop = stop
        self._withheld = 0
        self._too_large: list[str] = []
        self._unread: list[str] = []
        self._walk: Walk | None = None

    def files(self, pattern: GlobPattern, *, with_links: bool) -> Iterator[Found]:
        """Matching files that may be read, in order."""
        base = pattern.base or "."
        if not self._workspace.exists(base):
            return
        with self._workspace.open_folder(base) as (root, place):
            self._walk = Walk(root, place.relative, includes_ignored=self._includes_ignored, should_stop=self._stop)
            yield from self._matching(self._walk, place, pattern, with_links)

    def _matching(self, walk: Walk, place: Place, pattern: GlobPattern, with_links: bool) -> Iterator[Found]:
        skip = 0 if place.relative == "." else len(place.relative) + 1
        prefix = "" if place.shown == place.relative else place.root.as_posix().rstrip("/") + "/"
        for entry in walk:
            if self._stop():
                return
            if entry.kind != "file" and not (with_links and entry.kind == "link" and not entry.points_to_folder):
                continue
            if not pattern.matches(entry.path[skip:]):
                continue
            name = prefix + entry.path
            if self._may_read(name):
                yield Found(entry, name)
            else:
                self._withheld += 1

    def text(self, found: Found) -> bytes | None:
        """What is searched of a file; None when it is binary, gone or too large."""
        try:
            if self.is_large(found):
                self._too_large.append(found.name)
                return None
            return matching.searchable(found.entry.read(MAX_SEARCH_BYTES))
        except OSError as error:
            self._unread.append(f"{shown_name(found.name)}: {error.strerror}")
            return None

    def is_large(self, found: Found) -> bool:
        try:
            return found.entry.stat().st_size > MAX_SEARCH_BYTES
        except OSError:  # gone since it was listed
            return False

    def notes(self) -> list[str]:
        """What the result does not show, one line each."""
        lines = []
        if self._stop():
            lines.append(f"... [stopped after {WORK_TIMEOUT_S:.0f} s; search a smaller part of the tree]")
        if self._withheld:
            lines.append(f"[{self._withheld} file(s) left out: the policy does not allow reading them]")
        if self._too_large:
            names = ", ".join(shown_name(name) for name in self._too_large[:3])
            lines.append(f"[{len(self._too_large)} file(s) over {MAX_SEARCH_BYTES:,} bytes not searched: {names}]")
        warnings = self._unread
        if self._walk is not None:
            warnings = warnings + self._walk.warnings
            if self._walk.is_start_ignored:
                lines.append("[the folder is ignored; includeIgnored searches it]")
        return lines + [f"[{warning}]" for warning in warnings[:3]]


class Glob:
    definition = ToolDefinition(
        name="glob",
        description="Find files by name pattern from the root, e.g. src/**/*.py. Ignored files are left out.",
        arguments=GlobArguments,
        effect="read",
        set="core",
        subjects=_glob_subjects,
    )

    def __init__(self, workspace: Workspace, may_read: Callable[[str], bool]) -> None:
        self._workspace = workspace
        self._may_read = may_read

    async def run(self, call_id: str, args: GlobArguments) -> ToolResult:
        count, content = await in_thread(lambda stop: self._find(args, stop))
        return ToolResult(
            call_id=call_id,
            content=content,
            summary=f"{count} {'file matches' if count == 1 else 'files match'} {args.pattern}",
        )

    def _find(self, args: GlobArguments, stop: Stop) -> tuple[int, str]:
        search = _Search(self._workspace, self._may_read, args.includeIgnored, stop)
        lines: list[str] = []
        count = 0
        for found in search.files(GlobPattern(args.pattern), with_links=True):
            if count == args.limit:
                lines.append(f"... [{args.limit}-file limit reached; narrow the pattern]")
                break
            lines.append(shown_name(found.name))
            count += 1
        return count, "\n".join([*(lines or ["No files matched."]), *search.notes()])


class Grep:
    definition = ToolDefinition(
        name="grep",
        description="Search file contents by regex. Lines come as 'path:line: text'.",
        arguments=GrepArguments,
        effect="read",
        set="core",
        subjects=_grep_subjects,
    )

    def __init__(self, workspace: Workspace, may_read: Callable[[str], bool], *, uses_rg: bool = True) -> None:
        self._workspace = workspace
        self._may_read = may_read
        self._uses_rg = uses_rg

    async def run(self, call_id: str, args: GrepArguments) -> ToolResult:
        check_text(args.pattern, "pattern")
        count, content = await in_thread(lambda stop: self._find(args, stop))
        return ToolResult(call_id=call_id, content=content, summary=f"{count} lines match {args.pattern}")

    def _find(self, args: GrepArguments, stop: Stop) -> tuple[int, str]:
        matcher = matching.Matcher(args.pattern, ignore_case=args.ignoreCase)
        search = _Search(self._workspace, self._may_read, args.includeIgnored, stop)
        found = search.files(GlobPattern(_any_depth(args.include)), with_links=False)
        program = ripgrep.find_rg(self._workspace.root) if self._uses_rg else None
        finder = _Finder(self._workspace, search, matcher, args, program)
        hits = finder.find(found, stop)
        lines = [f"{shown_name(hit.shown)}:{hit.number}: {_shown_line(hit.line)}" for hit in hits[:MAX_HITS]]
        if len(hits) > MAX_HITS:
            lines.append(f"... [{MAX_HITS}-hit limit reached; narrow the pattern or include]")
        return len(hits[:MAX_HITS]), "\n".join([*(lines or ["No matches."]), *search.notes()])


class _Finder:
    """Feeds files to the matcher: the first ones here, many more to ripgrep where there is one."""

    def __init__(
        self,
        workspace: Workspace,
        search: _Search,
        matcher: matching.Matcher,
        args: GrepArguments,
        program: str | None,
    ) -> None:
        self._workspace = workspace
        self._search = search
        self._matcher = matcher
        self._args = args
        self._program = program
        self._hits: list[matching.Hit] = []
        self._batch: list[matching.Candidate] = []
        self._batch_bytes = 0

    def find(self, files: Iterator[Found], stop: Stop) -> list[matching.Hit]:
        """Hits in the order of the files; one more than MAX_HITS when there are more."""
        for count, found in enumerate(files, start=1):
            if self._program is not None and count > SMALL_TREE:
                self._flush(stop)
                self._by_ripgrep(_chain(found, files), stop)
                break
            self._add(self._search.text(found), found.name, stop)
            if self._is_full:
                break
        self._flush(stop)
        self._matcher.check()
        return self._hits

    @property
    def _room(self) -> int:
        return MAX_HITS + 1 - len(self._hits)

    @property
    def _is_full(self) -> bool:
        return self._room <= 0

    def _add(self, data: bytes | None, name: str, stop: Stop) -> None:
        if data is None:
            return
        self._batch.append(matching.Candidate(shown=name, data=data))
        self._batch_bytes += len(data)
        if self._batch_bytes >= self._matcher.batch_bytes:
            self._flush(stop)

    def _flush(self, stop: Stop) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if batch and not self._is_full and not stop():
            self._hits += self._matcher.find(batch, self._room, stop)

    def _by_ripgrep(self, files: Iterator[Found], stop: Stop) -> None:
        names: list[str] = []
        size = 0
        for found in files:
            if self._search.is_large(found) or "\n" in found.name:
                self._run_ripgrep(names, stop)
                names, size = [], 0
                self._add(self._search.text(found), found.name, stop)
                self._flush(stop)
            else:
                names.append(found.name)
                size += len(found.name)
            if len(names) == ripgrep.MAX_FILES_PER_RUN or size > MAX_ARGUMENT_CHARS:
                self._run_ripgrep(names, stop)
                names, size = [], 0
            if self._is_full:
                return
        self._run_ripgrep(names, stop)

    def _run_ripgrep(self, names: list[str], stop: Stop) -> None:
        if not names or self._is_full or stop() or self._program is None:
            return
        told = ripgrep.matching_lines(
            self._program,
            self._args.pattern,
            self._workspace.root,
            names,
            ignore_case=self._args.ignoreCase,
            limit=self._room,
            timeout_s=max(1.0, stop.left_s),
        )
        if told is None:  # an expression that ripgrep does not know, or a file that vanished
            for name in names:
                self._add(self._text(name), name, stop)
            self._flush(stop)
            return
        self._hits += self._confirmed(self._told_lines(told), stop)[: self._room]

    def _told_lines(self, told: list[tuple[str, int]]) -> Iterator[matching.Hit]:
        name, lines = "", [b""]
        for hit, number in told:
            if hit != name:
                name, lines = hit, (self._text(hit) or b"").split(b"\n")
            if number <= len(lines):
                yield matching.Hit(shown=name, number=number, line=lines[number - 1])

    def _confirmed(self, hits: Iterator[matching.Hit], stop: Stop) -> list[matching.Hit]:
        """Those that match here as well: the file may be another one by now, and ripgrep ends lines at a lone CR."""
        maybe = list(islice(hits, MAX_TOLD))
        lines = matching.Candidate(shown="", data=b"".join(hit.line + b"\n" for hit in maybe))
        return [maybe[found.number - 1] for found in self._matcher.find([lines], len(maybe), stop)]

    def _text(self, name: str) -> bytes | None:
        """The text through the jail, whatever stands there by now."""
        try:
            return matching.searchable(self._workspace.read_bytes(name, MAX_SEARCH_BYTES, follows_links=False))
        except ToolFailure:
            return None


def _chain(first: Found, rest: Iterator[Found]) -> Iterator[Found]:
    yield first
    yield from rest


def _shown_line(line: bytes) -> str:
    text = line[: MAX_HIT_CHARS * 4].decode(errors="replace")
    return text if len(text) <= MAX_HIT_CHARS else text[:MAX_HIT_CHARS] + "…"
