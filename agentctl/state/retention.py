"""Which sessions go: those untouched for too long, and those beyond the newest so many. Never one that is held by a
run or waits for an approval."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from agentctl.core.errors import UsageError
from agentctl.core.locks import LockHeld, lock_file
from agentctl.core.record import Record
from agentctl.state.approvals import holds_waiting
from agentctl.state.index import NAME
from agentctl.state.journal import check_header
from agentctl.state.sessions import Sessions
from agentctl.state.tally import NewerFormat

DAY_S = 86_400
MOST = 2_000
"""Sessions that one call removes at most: the end of a run must not take long."""
LOCK_AGE_S = 3_600
"""A lock without a journal is left alone for so long: its run may be about to begin."""


class Pruned(Record):
    """Ids of what was removed, and of what was due but stayed."""

    removed: tuple[str, ...]
    waiting: tuple[str, ...]
    held: tuple[str, ...]


def prune(sessions: Sessions, *, keep_days: int, keep_sessions: int, now: str, spares: str = "") -> Pruned:
    """Removes journals with their locks. `spares` is the id of a session that stays in any case.

    `now` is RFC 3339, UTC: what can still be approved then stays.
    """
    seconds = time.time()
    entries = sessions.entries()
    oldest_ns = (seconds - keep_days * DAY_S) * 1_000_000_000
    due = [entry for place, entry in enumerate(entries) if place >= keep_sessions or entry.modified_ns < oldest_ns]
    removed: list[str] = []
    waiting: list[str] = []
    held: list[str] = []
    for entry in reversed(due):
        if len(removed) == MOST:
            break
        if entry.id == spares:
            continue
        state = _remove(sessions.path(entry.id), now)
        {"removed": removed, "waiting": waiting, "held": held}[state].append(entry.id)
    _remove_locks(sessions, {entry.id for entry in entries}, seconds)
    if removed and len(removed) == len(entries):
        with suppress(OSError):
            (sessions.folder / NAME).unlink()
    return Pruned(removed=tuple(removed), waiting=tuple(waiting), held=tuple(held))


def _remove(path: Path, now: str) -> str:
    """What became of the session: removed, waiting or held."""
    try:
        lock = lock_file(path.with_suffix(".lock"))
    except LockHeld:
        return "held"
    except OSError:
        return "held"
    if _is_waiting(path, now):
        lock.release()
        return "waiting"
    try:
        path.unlink(missing_ok=True)
    except OSError:
        lock.release()
        return "held"
    lock.remove()
    return "removed"


def _is_waiting(path: Path, now: str) -> bool:
    """Also when only a later version could say."""
    try:
        check_header(path)
    except NewerFormat:
        return True
    except UsageError:
        return False
    return holds_waiting(path, now)


def _remove_locks(sessions: Sessions, known: set[str], now: float) -> None:
    """Of runs that ended before they had a journal."""
    for path in sessions.folder.glob("*.lock"):
        with suppress(OSError):
            if path.stem not in known and now - path.stat().st_mtime > LOCK_AGE_S:
                lock_file(path).remove()
