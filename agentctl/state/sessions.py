"""The sessions of a project: where their journals lie, which is the newest, and ids that sort by time."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agentctl.core.errors import UsageError
from agentctl.core.types import Problem
from agentctl.state.journal import SavedSession, load


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


class Sessions:
    """The journals of one project, newest first by the time of their last record."""

    def __init__(self, folder: Path) -> None:
        """`folder` is named after the project's key; its siblings are the other projects."""
        self._folder = folder

    @property
    def project_key(self) -> str:
        return self._folder.name

    def path(self, session_id: str) -> Path:
        return self._folder / f"{session_id}.jsonl"

    def newest(self) -> SavedSession:
        """Raises UsageError when the project has no session that can be read."""
        for path in self._paths():
            try:
                return load(path)
            except UsageError:
                continue
        raise UsageError(
            "-c: there is no saved session for this folder", hint="Run once without -c, or check -C and --project."
        )

    def find(self, prefix: str) -> str:
        """The id that begins with `prefix`. Raises UsageError when there is none, or more than one, or elsewhere."""
        found = [path.stem for path in self._paths() if path.stem.startswith(prefix.strip().lower())]
        if len(found) == 1 and prefix.strip():
            return found[0]
        if len(found) > 1:
            raise UsageError(f"-r {prefix!r} fits {len(found)} sessions", hint="Give more of the id.")
        for path in self._folder.parent.glob(f"*/{_plain(prefix)}*.jsonl"):
            raise UsageError(
                f"-r {prefix!r} is a session of another folder: {load(path).cwd}",
                hint="Run there, or name that folder with -C.",
            )
        raise UsageError(f"-r {prefix!r}: there is no such session", hint="`agentctl sessions list` shows them.")

    def all(self) -> tuple[list[SavedSession], list[Problem]]:
        """Every session, newest first, and the files that could not be read, by name."""
        found: list[SavedSession] = []
        problems: list[Problem] = []
        for path in self._paths():
            try:
                found.append(load(path))
            except UsageError as error:
                problems.append(Problem(code="session-unreadable", what=str(path), why=error.message, fix=error.hint))
        return found, problems

    def _paths(self) -> list[Path]:
        def touched(path: Path) -> float:
            try:
                return path.stat().st_mtime_ns
            except OSError:
                return 0.0

        return sorted(self._folder.glob("*.jsonl"), key=touched, reverse=True) if self._folder.is_dir() else []
