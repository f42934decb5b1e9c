"""The sessions of a project: where their journals lie, which is the newest, and ids that sort by time."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agentctl.config.store import recorded_remote
from agentctl.core.errors import UsageError
from agentctl.core.locks import LockHeld, lock_file
from agentctl.core.record import Record
from agentctl.core.types import JsonObject, Problem
from agentctl.state.index import Row, index_row, read_index, write_index
from agentctl.state.journal import check_header, is_blank, load_facts

SUFFIX = ".jsonl"


def new_id() -> str:
    """A UUID of version 7: its order is the order of time."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (
        (milliseconds & (1 << 48) - 1) << 80
        | 0x7 << 76
        | (random >> 68 & 0xFFF) << 64
        | 0b10 << 62
        | random & (1 << 62) - 1
    )
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _plain(prefix: str) -> str:
    """Only what an id can hold, so that a prefix is never a pattern."""
    return "".join(char for char in prefix.lower() if char in "0123456789abcdef-") or "none"


class Entry(NamedTuple):
    """One journal as the folder says it. Not a Record: a list may have ten thousand."""

    modified_ns: int
    id: str
    size: int


class Listed(Record):
    """The sessions of a project, newest first, each as what SessionFacts holds, and what could not be read."""

    sessions: tuple[JsonObject, ...]
    problems: tuple[Problem, ...]


class Sessions:
    """The journals of one project, newest first by the time of their last record."""

    def __init__(self, folder: Path, *, root: Path | None = None) -> None:
        """`folder` is named after the project's key; its siblings are the other projects. `root`: the workspace."""
        self.folder = folder
        self._root = root

    @property
    def project_key(self) -> str:
        return self.folder.name

    def path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.jsonl"

    def entries(self) -> list[Entry]:
        """Every journal, newest first. None in a folder that cannot be read."""
        found = []
        with suppress(OSError), os.scandir(self.folder) as files:
            for file in files:
                if file.name.endswith(SUFFIX):
                    with suppress(OSError):  # pruned in between
                        stat = file.stat(follow_symlinks=False)
                        found.append(Entry(stat.st_mtime_ns, file.name[: -len(SUFFIX)], stat.st_size))
        found.sort(reverse=True)
        return found

    def newest(self) -> tuple[str, tuple[Problem, ...]]:
        """The id of the newest session that can be read and has a turn, and the newer ones that cannot be read.

        Raises UsageError when the project has none.
        """
        problems: list[Problem] = []
        for entry in self.entries():
            try:
                if check_header(self.path(entry.id)):
                    return entry.id, tuple(problems)
            except UsageError as error:
                if not is_being_begun(self.path(entry.id)):
                    problems.append(unreadable(self.path(entry.id), error))
        why = f" that can be read: {problems[0].why}" if problems else ""
        raise UsageError(
            f"-c: there is no saved session for this folder{why}",
            hint="Run once without -c, or check -C and --project.",
        )

    def find(self, prefix: str, what: str = "-r") -> str:
        """The id that begins with `prefix`. Raises UsageError when there is none, or more than one, or elsewhere."""
        wanted = prefix.strip().lower()
        found = [entry.id for entry in self.entries() if entry.id.startswith(wanted)]
        if wanted in found:
            return wanted
        if len(found) == 1 and wanted:
            return found[0]
        if len(found) > 1:
            raise UsageError(f"{what} {prefix!r} fits {len(found)} sessions", hint="Give more of the id.")
        for path in self.folder.parent.glob(f"*/{_plain(prefix)}*{SUFFIX}"):
            raise _of_another_store(f"{what} {prefix!r}", path, self._root)
        raise UsageError(f"{what} {prefix!r}: there is no such session", hint="`agentctl sessions list` shows them.")

    def listed(self) -> Listed:
        """Every session and the files that could not be read, by name. Mends the index on the way."""
        entries = self.entries()
        cached = read_index(self.folder)
        rows: list[Row] = []
        problems: list[Problem] = []
        has_changed = len(cached) > len(entries)
        for entry in entries:
            row = cached.get(entry.id)
            if row is None or row[2] != entry.size or row[3] != entry.modified_ns:
                has_changed = True
                try:
                    row = self._read(entry)
                except UsageError as error:
                    if not is_being_begun(self.path(entry.id)):
                        problems.append(unreadable(self.path(entry.id), error))
                    continue
            rows.append(row)
        if has_changed:
            write_index(self.folder, rows)
        return Listed(sessions=tuple(row[-1] for row in rows), problems=tuple(problems))

    def _read(self, entry: Entry) -> Row:
        path = f"{self.folder}/{entry.id}{SUFFIX}"  # as text: there may be ten thousand
        return index_row(load_facts(path), entry.id, entry.size, entry.modified_ns)


def is_being_begun(path: Path) -> bool:
    """Whether a run holds the session and is about to write its first record."""
    try:
        if not is_blank(path):
            return False
        lock_file(path.with_suffix(".lock")).release()
    except LockHeld:
        return True
    except (OSError, UsageError):
        return False
    return False


def unreadable(path: Path, error: UsageError) -> Problem:
    return Problem(code="session-unreadable", what=str(path), why=error.message, fix=error.hint)


def _of_another_store(said: str, path: Path, root: Path | None) -> UsageError:
    try:
        cwd = load_facts(path).cwd
    except UsageError as error:
        return UsageError(f"{said} is a session of another folder, and {error.message}", hint=error.hint)
    if root is None or Path(cwd).resolve() != root.resolve():
        return UsageError(
            f"{said} is a session of another folder: {cwd}", hint="Run there, or name that folder with -C or --project."
        )
    remote = recorded_remote(path.parent)
    if remote is None:
        return UsageError(
            f"{said} is a session of this folder, kept for another project",
            hint="Give the --project NAME that it was made with, or none when there was none.",
        )
    return UsageError(
        f"{said} is a session of this folder from when its git remote was {remote}",
        hint="Each remote has a store of its own, and finds it again when it comes back. From now on, --project NAME "
        "keeps one store for all remotes.",
    )
