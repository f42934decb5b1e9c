"""The ignore-aware walk that glob, grep and list_dir share.

Rules come from `.gitignore` and `.agentctlignore` (read after it) of every folder from the root down, each for its
own folder; a later rule wins, a deeper file wins over a higher one, and what lies in an ignored folder stays ignored.
`.git` and `node_modules` are never entered, `.agentctl/state` only when the walk starts there. Folders are opened
relative to their parent without following links, so the walk cannot be led out of its root.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal

from agentctl.core import files

IGNORE_FILES = (".gitignore", ".agentctlignore")
SKIPPED_FOLDERS = frozenset({".git", "node_modules"})
SKIPPED_PATHS = frozenset({".agentctl/state"})
MAX_IGNORE_BYTES = 1_000_000
MAX_WILDCARDS = 3
"""In one name of a rule."""
MAX_SPANS = 2
"""`**` between two names of a rule."""
MAX_DEPTH = 200
"""Folders held open at once; what lies deeper is left out with a warning."""
MAX_PATH = 4096

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Kind = Literal["file", "folder", "link", "other"]


class Entry:
    """One thing found. `read` and `stat` work until the walk goes on to the next entry."""

    __slots__ = ("_folder", "depth", "kind", "name", "path", "points_to_folder")

    def __init__(self, path: str, name: str, kind: Kind, depth: int, folder: int, points_to_folder: bool) -> None:
        self.path = path
        """Relative to the root, with forward slashes."""
        self.name = name
        self.kind = kind
        self.depth = depth
        """1 for what lies directly in the folder that the walk started from."""
        self.points_to_folder = points_to_folder
        """A link to a folder; never entered."""
        self._folder = folder

    def stat(self) -> os.stat_result:
        """Raises OSError."""
        return os.stat(self.name, dir_fd=self._folder, follow_symlinks=False)

    def read(self, limit: int) -> bytes:
        """The first `limit` bytes of a regular file. Raises OSError."""
        fd = files.open_regular(self.name, directory=self._folder, follow=False)
        try:
            return files.read_all(fd, limit)
        finally:
            os.close(fd)

    def link_target(self) -> str:
        """What stands in a link; empty when it is none (any more)."""
        try:
            return os.readlink(self.name, dir_fd=self._folder)
        except OSError:
            return ""


class _Rules:
    """The rules of one folder's ignore files, and those of the folders above it."""

    def __init__(self, base: str, lines: list[str], above: _Rules | None, warn: Callable[[str], None]) -> None:
        from pathspec import GitIgnoreSpec  # 15 ms, and only when something is walked
        from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

        patterns = []
        self._exact: list[tuple[bool, Callable[[str], bool]]] = []
        for number, line in enumerate(lines, start=1):
            if not _is_tame(line):
                warn(f"{base or '.'}: ignore rule {number} is left out: too many wildcards")
                continue
            only_folders = line.rstrip(" ").endswith("/**/")  # pathspec takes this for the folder itself
            try:
                pattern = GitIgnoreSpecPattern(line.rstrip(" ")[:-1] if only_folders else line)
            except ValueError as error:
                warn(f"{base or '.'}: ignore rule {number} is left out: {error}")
                continue
            if pattern.regex is not None and pattern.include is not None:
                patterns.append(pattern)
                self._exact.append((pattern.include, _exact_match(pattern.regex, only_folders)))
        self._spec = GitIgnoreSpec(patterns)
        self._skip = len(base) + 1 if base else 0
        self._above = above

    def is_ignored(self, path: str, is_folder: bool) -> bool:
        """For something whose parent folders are not ignored."""
        name = path + "/" if is_folder else path
        rules: _Rules | None = self
        while rules is not None:
            verdict = rules._judge(name[rules._skip :])
            if verdict is not None:
                return verdict
            rules = rules._above
        return False

    def _judge(self, name: str) -> bool | None:
        # The compiled set also matches by way of a parent folder, which has been judged already: it only tells
        # cheaply that nothing matches, which is the case for nearly every file.
        if self._spec.check_file(name).include is None:
            return None
        for includes, matches in reversed(self._exact):
            if matches(name):
                return includes
        return None


def _is_tame(line: str) -> bool:
    """Matching backtracks over wildcards, and a checkout must not be able to make it last."""
    parts = line.strip().strip("/").split("/")
    spans = sum(part == "**" for part in parts[1:-1])
    return spans <= MAX_SPANS and all(len(re.findall(r"\*+", part)) <= MAX_WILDCARDS for part in parts)


def _exact_match(regex: re.Pattern[str], only_folders: bool) -> Callable[[str], bool]:
    """Whether a rule means this very path (folders end with `/`), not just a folder above it."""
    source = regex.pattern
    if source == ".":
        return lambda name: True
    if source == "(?P<ps_d>/)":
        return lambda name: name.endswith("/")
    if source.endswith("/"):  # `a/**`: all that lies below, not the folder itself
        return lambda name: (
            (found := regex.match(name)) is not None
            and len(name) > found.end()
            and (not only_folders or name.endswith("/"))
        )
    return lambda name: regex.fullmatch(name) is not None


class Walk:
    """Iterates over everything below a folder, in the order of the names' bytes, folders before what they hold.

    `root` is a held descriptor; `start` is relative to it, `.` for the root itself. Entries come as they are found.
    `should_stop` is asked for each folder and ends the walk early. `warnings` fills while it runs.
    """

    def __init__(
        self,
        root: int,
        start: str = ".",
        *,
        includes_ignored: bool = False,
        max_depth: int = MAX_DEPTH,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._root = root
        self._start = [name for name in start.split("/") if name not in ("", ".")]
        self._includes_ignored = includes_ignored
        self._max_depth = min(max_depth, MAX_DEPTH)
        self._should_stop = should_stop
        self.warnings: list[str] = []
        self.is_start_ignored = False
        """The start itself lies in something that is never entered or is ignored; then there are no entries."""

    def __iter__(self) -> Iterator[Entry]:
        held = [os.open(".", _FOLDER, dir_fd=self._root)]  # its own position: walks run side by side
        try:
            rules: _Rules | None = None
            path = ""
            for name in self._start:
                rules = self._read_rules(held[-1], path, rules)
                path = f"{path}/{name}" if path else name
                if name in SKIPPED_FOLDERS or self._is_ignored(rules, path, is_folder=True):
                    self.is_start_ignored = True
                    return
                held.append(os.open(name, _FOLDER, dir_fd=held[-1]))
            yield from self._folder(held[-1], path, rules, 1)
        except OSError as error:
            self.warnings.append(f"{'/'.join(self._start) or '.'}: {error.strerror}")
        finally:
            for fd in held:
                os.close(fd)

    def _folder(self, folder: int, base: str, rules: _Rules | None, depth: int) -> Iterator[Entry]:
        if self._should_stop():
            return
        listed = self._list(folder, base)
        if any(name in IGNORE_FILES for name, _ in listed):
            rules = self._read_rules(folder, base, rules)
        for name, kind in listed:
            path = f"{base}/{name}" if base else name
            is_folder = kind == "folder"
            if is_folder and (name in SKIPPED_FOLDERS or path in SKIPPED_PATHS):
                continue
            if self._is_ignored(rules, path, is_folder):
                continue
            points_to_folder = kind == "link" and _leads_to_folder(name, folder)
            yield Entry(path, name, kind, depth, folder, points_to_folder)
            if is_folder and depth < self._max_depth:
                yield from self._enter(folder, path, name, rules, depth)
            elif is_folder and depth == MAX_DEPTH:
                self.warnings.append(f"{path[:200]}: deeper than {MAX_DEPTH} folders, not entered")

    def _enter(self, parent: int, path: str, name: str, rules: _Rules | None, depth: int) -> Iterator[Entry]:
        if len(path) > MAX_PATH:
            self.warnings.append(f"{path[:200]}…: a path of more than {MAX_PATH} characters, not entered")
            return
        try:
            fd = os.open(name, _FOLDER, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # gone or swapped since it was listed
                self.warnings.append(f"{path}: {error.strerror}")
            return
        try:
            yield from self._folder(fd, path, rules, depth + 1)
        finally:
            os.close(fd)

    def _list(self, folder: int, base: str) -> list[tuple[str, Kind]]:
        found: list[tuple[str, Kind]] = []
        try:
            with os.scandir(folder) as entries:
                found.extend((entry.name, _kind(entry)) for entry in entries)
        except OSError as error:
            self.warnings.append(f"{base or '.'}: {error.strerror}")
        found.sort(key=lambda item: os.fsencode(item[0]))
        return found

    def _is_ignored(self, rules: _Rules | None, path: str, is_folder: bool) -> bool:
        return not self._includes_ignored and rules is not None and rules.is_ignored(path, is_folder)

    def _read_rules(self, folder: int, base: str, above: _Rules | None) -> _Rules | None:
        if self._includes_ignored:
            return None
        lines: list[str] = []
        for name in IGNORE_FILES:
            with suppress(OSError):  # none here, or a link or pipe in its place
                fd = files.open_regular(name, directory=folder, follow=False)
                try:
                    text = files.read_all(fd, MAX_IGNORE_BYTES).decode("utf-8-sig", "surrogateescape")
                finally:
                    os.close(fd)
                lines.extend(text.split("\n"))
        lines = [line.removesuffix("\r") for line in lines]
        if not any(line.strip() and not line.startswith("#") for line in lines):
            return above
        return _Rules(base, lines, above, self.warnings.append)


def walk(
    root: int, start: str = ".", *, includes_ignored: bool = False, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[Entry]:
    """The entries of a Walk whose warnings nobody needs."""
    return iter(Walk(root, start, includes_ignored=includes_ignored, should_stop=should_stop))


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _leads_to_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder).st_mode)
    except OSError:
        return False
