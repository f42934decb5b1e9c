"""Which session a run goes on with, and the lease that keeps two runs from writing to the same one."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from agentctl.core.errors import Busy, UsageError
from agentctl.core.events import Notice
from agentctl.core.files import make_private_dir
from agentctl.core.locks import Lock, LockHeld, lock_file
from agentctl.core.ports import Clock
from agentctl.core.record import Record
from agentctl.core.types import Problem
from agentctl.state.journal import SavedSession, is_blank, load
from agentctl.state.sessions import Sessions, new_id
from agentctl.state.spare import adopt, bring_back, is_ours, why_not_writable

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
    why_unsaved: str = ""
    """Why nothing can be saved at all."""
    spare: Sessions | None = None
    """Where the session can still be kept when its own place turns out to be full or broken."""
    notices: tuple[Notice, ...] = ()
    """What the run has to say about it."""

    def release(self) -> None:
        """Frees the lease; its file goes with a session that never began."""
        if self.lease is not None:
            (self.lease.release if self.path.exists() else self.lease.remove)()


async def select(
    sessions: Sessions, wanted: Wanted, clock: Clock, *, is_ephemeral: bool, spare: Sessions | None = None
) -> Selected:
    """Finds the session and takes its lease. Raises UsageError, or Busy with the holder's pid, host and age.

    `spare` stands in for a place that cannot be written. An ephemeral run writes nothing, so it takes no lease.
    """
    why = "" if is_ephemeral else why_not_writable(sessions.folder)
    if not why:
        session_id, problems = _wanted_id(sessions, wanted, spare)
        skipped = tuple(Notice(code=problem.code, text=f"passed over: {problem.why}") for problem in problems)
        try:
            selected = await _take(sessions, wanted, session_id, clock, is_ephemeral=is_ephemeral, spare=spare)
            return selected.replace(notices=(*skipped, *selected.notices), spare=spare)
        except OSError as error:  # no lease can be made
            why = error.strerror or str(error)
    if spare is not None and is_ours(spare.folder.parents[1], makes=True):
        session_id = _wanted_id(spare, wanted, sessions)[0]
        try:
            if session_id is not None:
                adopt(sessions.path(session_id), spare.path(session_id))
            selected = await _take(spare, wanted, session_id, clock, is_ephemeral=False)
            return selected.replace(notices=(moved_notice(sessions, spare, why), *selected.notices))
        except OSError:
            pass
    session_id = _wanted_id(sessions, wanted)[0]
    selected = await _take(sessions, wanted, session_id, clock, is_ephemeral=True)
    return selected.replace(why_unsaved=f"{str(sessions.folder)!r} cannot be written: {why}")


async def _take(
    sessions: Sessions,
    wanted: Wanted,
    session_id: str | None,
    clock: Clock,
    *,
    is_ephemeral: bool,
    spare: Sessions | None = None,
) -> Selected:
    """Raises OSError where no lease of an old session can be made."""
    if session_id is None:
        return _new(sessions, is_ephemeral=is_ephemeral)
    path = sessions.path(session_id)
    elsewhere = spare.path(session_id) if spare is not None else path
    if is_ephemeral and not wanted.forks:
        return _going_on(session_id, path if path.exists() else elsewhere, None)
    if wanted.forks:
        return _fork(sessions, _load(path if path.exists() else elsewhere), is_ephemeral=is_ephemeral)
    while True:
        try:
            lease = take_lease(path)
            break
        except LockHeld as held:
            if wanted.on_busy == "fork":
                return _fork(sessions, _load(path), is_ephemeral=is_ephemeral)
            if wanted.on_busy == "fail":
                raise busy(session_id, held) from None
        await clock.sleep(POLL_S)
    try:
        has_returned = spare is not None and bring_back(elsewhere, path)
        selected = _going_on(session_id, path, lease)
    except BaseException:
        lease.release()
        raise
    if not has_returned:
        return selected
    text = f"The session was kept in {str(elsewhere.parent)!r} and is back in {str(path.parent)!r}."
    return selected.replace(notices=(*selected.notices, Notice(code="temporary-store", text=text)))


def busy(session_id: str, held: LockHeld) -> Busy:
    return Busy(
        f"the session {session_id} is held by {held.holder}",
        hint="Wait for that run, or use --on-busy wait or --on-busy fork.",
    )


def _going_on(session_id: str, path: Path, lease: Lock | None) -> Selected:
    saved = _load(path)
    notices = _notices(saved) if saved else ()
    return Selected(id=session_id, path=path, saved=saved, forked_from=None, lease=lease, notices=notices)


def _notices(saved: SavedSession) -> tuple[Notice, ...]:
    found = []
    if saved.damage:
        first = saved.damage[0]
        text = (
            f"{len(saved.damage)} lines of the session file {str(saved.path)!r} cannot be read (line {first.line}: "
            f"{first.why}); the session goes on without them. `agentctl sessions verify` names all."
        )
        found.append(Notice(code="session-damaged", text=text))
    if saved.unknown:
        text = f"{saved.unknown} records of the session are of kinds that this version does not know; they are kept."
        found.append(Notice(code="session-newer", text=text))
    return tuple(found)


def moved_notice(sessions: Sessions, spare: Sessions, why: str) -> Notice:
    text = (
        f"{str(sessions.folder)!r} cannot be written ({why}); the session is kept in {str(spare.folder)!r}, which may "
        "not outlive this job. Set AGENTCTL_HOME to a folder that can be written, or pass --ephemeral."
    )
    return Notice(code="temporary-store", text=text)


def key_id(project_key: str, key: str) -> str:
    """The id of the session of a key: the same for the same project and key, and nothing else."""
    digest = sha256(f"{project_key}\0{key}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def _wanted_id(
    sessions: Sessions, wanted: Wanted, second: Sessions | None = None
) -> tuple[str | None, tuple[Problem, ...]]:
    """The id to go on with, None for a new session; and the newer sessions that cannot be read.

    What the first place does not have is looked for in the second.
    """
    if wanted.key is not None:
        return key_id(sessions.project_key, wanted.key), ()
    if wanted.resume is None and not wanted.newest and not wanted.newest_or_new:
        return None, ()
    try:
        return (sessions.find(wanted.resume), ()) if wanted.resume is not None else sessions.newest()
    except UsageError:
        if second is not None and second.folder.is_dir():
            with suppress(UsageError):
                return _wanted_id(second, wanted)
        if wanted.newest_or_new:
            return None, ()
        raise


def _new(sessions: Sessions, *, is_ephemeral: bool) -> Selected:
    session_id = new_id()
    path = sessions.path(session_id)
    lease = None if is_ephemeral else _try_lease(path)
    return Selected(id=session_id, path=path, saved=None, forked_from=None, lease=lease)


def _fork(sessions: Sessions, saved: SavedSession | None, *, is_ephemeral: bool) -> Selected:
    fresh = _new(sessions, is_ephemeral=is_ephemeral)
    if saved is None:
        return fresh
    return fresh.replace(saved=saved, forked_from=saved.id, notices=_notices(saved))


def _load(path: Path) -> SavedSession | None:
    """None when there is nothing, or only what a run killed at its first write left; it is begun anew."""
    return load(path) if path.exists() and not is_blank(path) else None


def take_lease(path: Path) -> Lock:
    """The lease of the session with this journal. Raises LockHeld with its holder, OSError where none can be made."""
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
