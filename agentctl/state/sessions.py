"""The sessions of a project: where their journals lie, which is the newest, and ids that sort by time."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from agentctl.core.errors import UsageError
from agentctl.core.record import Record, as_dict
from agentctl.core.types import JsonObject, Problem
from agentctl.state.index import index_row, is_current, read_index, write_index
from agentctl.state.journal import check_header, load_facts

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


class Entry(Record):
    """One journal as the folder says it."""

    id: str
    path: Path
    found: os.stat_result

    @property
    def modified_ns(self) -> int:
        return self.found.st_mtime_ns


class Listed(Record):
    """The sessions of a project, newest first, each as what SessionFacts holds, and what could not be read."""

    sessions: tuple[JsonObject, ...]
    problems: tuple[Problem, ...]


class Sessions:
    """The journals of one project, newest first by the time of their last record."""

    def __init__(self, folder: Path) -> None:
        """`folder` is named after the project's key; its siblings are the other projects."""
        self.folder = folder

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
                        found.append((stat.st_mtime_ns, file.name[: -len(SUFFIX)], stat))
        found.sort(key=lambda entry: entry[:2], reverse=True)
        return [Entry(id=name, path=self.folder / f"{name}{SUFFIX}", found=stat) for _, name, stat in found]

    def newest(self) -> tuple[str, tuple[Problem, ...]]:
        """The id of the newest session that can be read, and the newer ones that cannot.

        Raises UsageError when the project has none.
        """
        problems: list[Problem] = []
        for entry in self.entries():
            try:
                check_header(entry.path)
                return entry.id, tuple(problems)
            except UsageError as error:
                problems.append(unreadable(entry.path, error))
        raise UsageError(
            "-c: there is no saved session for this folder", hint="Run once without -c, or check -C and --project."
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
            raise _of_another_folder(f"{what} {prefix!r}", path)
        raise UsageError(f"{what} {prefix!r}: there is no such session", hint="`agentctl sessions list` shows them.")

    def listed(self) -> Listed:
        """Every session and the files that could not be read, by name. Mends the index on the way."""
        entries = self.entries()
        cached = read_index(self.folder)
        rows: dict[str, JsonObject] = {}
        problems: list[Problem] = []
        has_changed = len(cached) > len(entries)
        for entry in entries:
            row = cached.get(entry.id)
            if row is None or not is_current(row, entry.found):
                has_changed = True
                try:
                    row = index_row(as_dict(load_facts(entry.path)), entry.found)
                except UsageError as error:
                    problems.append(unreadable(entry.path, error))
                    continue
            rows[entry.id] = row
        if has_changed:
            write_index(self.folder, rows)
        return Listed(sessions=tuple(rows.values()), problems=tuple(problems))


def unreadable(path: Path, error: UsageError) -> Problem:
    return Problem(code="session-unreadable", what=str(path), why=error.message, fix=error.hint)


def _of_another_folder(said: str, path: Path) -> UsageError:
    try:
        cwd = load_facts(path).cwd
    except UsageError as error:
        return UsageError(f"{said} is a session of another folder, and {error.message}", hint=error.hint)
    return UsageError(
        f"{said} is a session of another folder: {cwd}", hint="Run there, or name that folder with -C or --project."
    )
