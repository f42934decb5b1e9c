"""Which session a run goes on with, and the lease that keeps two runs from writing to the same one."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from agentctl.core.errors import Busy, UsageError
from agentctl.core.files import Lock, LockHeld, lock_file, make_private_dir
from agentctl.core.ports import Clock
from agentctl.core.record import Record
from agentctl.state.journal import SavedSession, load
from agentctl.state.sessions import Sessions, new_id

POLL_S = 0.2
"""How often --on-busy wait looks again. The run's own clock bounds the wait."""


class Wanted(Record):
    """What the flags ask for; at most one of the first four."""

    newest: bool = False
    """-c"""
    newest_or_new: bool = False
    """--continue-or-new"""
    resume: str | None = None
    """-r: an id or the beginning of exactly one."""
    key: str | None = None
    """--session-key: the same key in the same project is the same session."""
    forks: bool = False
    on_busy: str = "fail"
    """fail, wait or fork"""


class Selected(Record):
    """The session of a run. The lease is held until `release`; a killed run loses it at once."""

    id: str
    path: Path
    saved: SavedSession | None
    """What it goes on with; None for a new session."""
    forked_from: str | None
    lease: Lock | None

    def release(self) -> None:
        if self.lease is not None:
            self.lease.release()


async def select(sessions: Sessions, wanted: Wanted, clock: Clock, *, is_ephemeral: bool) -> Selected:
    """Finds the session and takes its lease. Raises UsageError, or Busy with the holder's pid, host and age.

    An ephemeral run writes nothing, so it takes no lease.
    """
    session_id = _wanted_id(sessions, wanted)
    if session_id is None:
        return _new(sessions, is_ephemeral=is_ephemeral)
    path = sessions.path(session_id)
    if wanted.forks:
        return _fork(sessions, _load(path), is_ephemeral=is_ephemeral)
    if is_ephemeral:
        return Selected(id=session_id, path=path, saved=_load(path), forked_from=None, lease=None)
    while True:
        try:
            lease = take_lease(path)
            break
        except LockHeld as held:
            if wanted.on_busy == "fork":
                return _fork(sessions, _load(path), is_ephemeral=is_ephemeral)
            if wanted.on_busy == "fail":
                raise Busy(
                    f"the session {session_id} is held by {held.holder}",
                    hint="Wait for that run, or use --on-busy wait or --on-busy fork.",
                ) from None
        await clock.sleep(POLL_S)
    return Selected(id=session_id, path=path, saved=_load(path), forked_from=None, lease=lease)


def key_id(project_key: str, key: str) -> str:
    """The id of the session of a key: the same for the same project and key, and nothing else."""
    digest = sha256(f"{project_key}\0{key}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def _wanted_id(sessions: Sessions, wanted: Wanted) -> str | None:
    """The id to go on with; None for a new session."""
    if wanted.key is not None:
        return key_id(sessions.project_key, wanted.key)
    if wanted.resume is not None:
        return sessions.find(wanted.resume)
    if wanted.newest:
        return sessions.newest().id
    if wanted.newest_or_new:
        try:
            return sessions.newest().id
        except UsageError:
            return None
    return None


def _new(sessions: Sessions, *, is_ephemeral: bool) -> Selected:
    session_id = new_id()
    path = sessions.path(session_id)
    lease = None if is_ephemeral else _try_lease(path)
    return Selected(id=session_id, path=path, saved=None, forked_from=None, lease=lease)


def _fork(sessions: Sessions, saved: SavedSession | None, *, is_ephemeral: bool) -> Selected:
    fresh = _new(sessions, is_ephemeral=is_ephemeral)
    return fresh if saved is None else fresh.replace(saved=saved, forked_from=saved.id)


def _load(path: Path) -> SavedSession | None:
    return load(path) if path.exists() else None


def take_lease(path: Path) -> Lock:
    """The lock of a session, by the path of its journal. Raises LockHeld with its holder, and OSError."""
    make_private_dir(path.parent)
    return lock_file(path.with_suffix(".lock"))


def _try_lease(path: Path) -> Lock | None:
    """A new session has nobody to wait for; where no lease can be made, its journal will say why."""
    try:
        return take_lease(path)
    except OSError:
        return None


def wanted_of(
    *,
    continue_newest: bool,
    continue_or_new: bool,
    resume: str | None,
    key: str | None,
    forks: bool,
    on_busy: str,
) -> Wanted:
    """Checks that the flags do not contradict each other. Raises UsageError naming them."""
    given = [
        flag
        for flag, is_given in (
            ("-c", continue_newest),
            ("--continue-or-new", continue_or_new),
            ("-r", resume is not None),
            ("--session-key", key is not None),
        )
        if is_given
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} name different sessions", hint="Keep one of them.")
    if forks and not given:
        raise UsageError("--fork needs a session to copy", hint="Add -c, -r ID or --session-key.")
    if key is not None and not key.strip():
        raise UsageError("--session-key is empty", hint="Use something like repo/branch/job.")
    return Wanted(
        newest=continue_newest, newest_or_new=continue_or_new, resume=resume, key=key, forks=forks, on_busy=on_busy
    )
