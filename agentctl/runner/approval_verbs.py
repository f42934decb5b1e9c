"""`approvals list|approve|deny`: what a person says to calls that wait, written into the journal of their session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agentctl.config.options import Options
from agentctl.config.settings import Settings
from agentctl.core.errors import Busy, JournalError, UsageError
from agentctl.core.locks import LockHeld
from agentctl.core.record import Record, as_dict
from agentctl.core.types import JsonObject, Problem
from agentctl.policy.grants import grant_for
from agentctl.runner.approvals import KEY_VARIABLE
from agentctl.runner.clock import SystemClock
from agentctl.runner.document import settings_of, show, verb
from agentctl.runner.progress import whole
from agentctl.runner.secrets import startup_redactor
from agentctl.state.approvals import SavedApproval, read_approvals
from agentctl.state.journal import Journal
from agentctl.state.selection import take_lease
from agentctl.state.sessions import Sessions


class Found(Record):
    """An approval and the session it belongs to."""

    session: str
    path: Path
    approval: SavedApproval

    def is_open(self, now: str) -> bool:
        """Whether a person's word still counts: also one that said no, until the model was told."""
        return self.approval.state in ("waiting", "granted", "denied") and now < self.approval.pending.expires


@verb
def approvals_list(options: Options) -> int:
    """Calls that wait, and those whose word was given but not carried out yet."""
    settings = settings_of(options)
    now = SystemClock().now()
    found, problems = _found(settings)
    rows = [_row(item) for item in found if item.is_open(now)]
    lines = [line for row in rows for line in _lines(row)] or ["No call waits for approval."]
    document = {"approvals": rows, "problems": as_dict(tuple(problems))}
    return show(options, document, [*lines, *(f"{problem.what}: {problem.why}" for problem in problems)])


@verb
def approvals_approve(options: Options, id: str | None, is_all: bool) -> int:
    """A yes to these calls: bound to their arguments and rules, used once, signed when there is a key."""
    settings = settings_of(options)
    key = os.environ.get(KEY_VARIABLE, "")
    chosen = _chosen(settings, id, is_all=is_all, verb="approve")
    for session, items in _by_session(chosen).items():
        with _journal_of(items[0]) as journal:
            for item in _still_open(items):
                grant = grant_for(item.approval.pending, project=settings.project_key, session=session, key=key)
                journal.approval("granted", id=grant.approval, grant=as_dict(grant))
    return _told(options, "approved", "granted", chosen, is_signed=bool(key))


@verb
def approvals_deny(options: Options, id: str | None, is_all: bool) -> int:
    """A no to these calls: the model is told in the next run."""
    chosen = _chosen(settings_of(options), id, is_all=is_all, verb="deny")
    for items in _by_session(chosen).values():
        with _journal_of(items[0]) as journal:
            for item in _still_open(items):
                journal.approval("denied", id=item.approval.pending.id)
    return _told(options, "denied", "denied", chosen, is_signed=False)


# --- which ------------------------------------------------------------------------------------------------------------


def _found(settings: Settings) -> tuple[list[Found], list[Problem]]:
    """Every approval of the project, or of the session that -r names, and the files that could not be read."""
    folder = settings.homes.sessions(settings.project_key)
    sessions, named = Sessions(folder, root=settings.root), settings.resume
    paths = [sessions.path(sessions.find(named))] if named else sorted(folder.glob("*.jsonl"))
    found: list[Found] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            found += [Found(session=path.stem, path=path, approval=approval) for approval in read_approvals(path)]
        except OSError as error:
            why = error.strerror or str(error)
            problems.append(Problem(code="session-unreadable", what=str(path), why=why))
    return found, problems


def _chosen(settings: Settings, wanted: str | None, *, is_all: bool, verb: str) -> list[Found]:
    """The approvals that the words name. Raises UsageError when there is none, or when one was settled already."""
    if is_all == (wanted is not None):
        raise UsageError(
            f"agentctl approvals {verb} needs an ID or --all{', not both' if is_all else ''}.",
            hint="`agentctl approvals list` shows what waits.",
        )
    now = SystemClock().now()
    found, _problems = _found(settings)
    if is_all:
        chosen = [item for item in found if item.is_open(now)]
        if not chosen:
            raise UsageError("no call waits for approval", hint="`agentctl approvals list` shows what waits.")
        return chosen
    prefix = str(wanted).strip().lower()
    chosen = [item for item in found if prefix and item.approval.pending.id.startswith(prefix)]
    if len(chosen) != 1:
        raise _no_such(settings, str(wanted), len(chosen))
    if not chosen[0].is_open(now):
        raise UsageError(_why_settled(chosen[0].approval), hint="Its call has to be made again by the model.")
    return chosen


def _no_such(settings: Settings, wanted: str, count: int) -> UsageError:
    if count:
        return UsageError(f"{wanted!r} fits {count} approvals", hint="Give more of the id.")
    folder = settings.homes.sessions(settings.project_key)
    for path in folder.parent.glob("*/*.jsonl"):
        if path.parent != folder and any(item.pending.id.startswith(wanted) for item in read_approvals(path)):
            hint = f"Run in the folder of the session {path.stem}, or name that folder with -C."
            return UsageError(f"{wanted!r} is an approval of another folder or project", hint=hint)
    return UsageError(f"there is no approval {wanted!r}", hint="`agentctl approvals list` shows what waits.")


def _why_settled(approval: SavedApproval) -> str:
    told = {
        "used": "was used: the call has been run",
        "answered": "is settled: the model has been told how the call ended",
    }
    return f"the approval {approval.pending.id} {told.get(approval.state, f'expired at {approval.pending.expires}')}"


# --- writing ----------------------------------------------------------------------------------------------------------


def _by_session(chosen: Sequence[Found]) -> dict[str, list[Found]]:
    sessions: dict[str, list[Found]] = {}
    for item in chosen:
        sessions.setdefault(item.session, []).append(item)
    return sessions


class _journal_of:
    """The journal of a session, opened under its lease, so that no run goes on with it meanwhile. Raises Busy."""

    def __init__(self, item: Found) -> None:
        self._item = item

    def __enter__(self) -> Journal:
        try:
            self._lease = take_lease(self._item.path)
        except LockHeld as held:
            raise Busy(
                f"the session {self._item.session} is held by {held.holder}", hint="Wait for that run to end."
            ) from None
        except OSError as error:
            raise UsageError(f"the session {self._item.session} cannot be locked: {error.strerror or error}") from error
        redactor = startup_redactor()
        try:
            return Journal(self._item.path, SystemClock().now, redactor.text)
        except JournalError:
            self._lease.release()
            raise

    def __exit__(self, *_error: object) -> None:
        self._lease.release()


def _still_open(items: Sequence[Found]) -> list[Found]:
    """Read again under the lease: a run may have settled some since."""
    now = SystemClock().now()
    known = {approval.pending.id: approval for approval in read_approvals(items[0].path)}
    fresh = [item.replace(approval=known[item.approval.pending.id]) for item in items]
    for item in fresh:
        if not item.is_open(now):
            raise UsageError(_why_settled(item.approval), hint="Its call has to be made again by the model.")
    return fresh


# --- showing ----------------------------------------------------------------------------------------------------------


def _row(item: Found) -> JsonObject:
    pending = item.approval.pending
    return {
        "id": pending.id,
        "session": item.session,
        "state": item.approval.state,
        "call_id": pending.call_id,
        "name": pending.name,
        "input": pending.input,
        "rule": pending.rule,
        "source": pending.source,
        "requested": item.approval.requested,
        "expires": pending.expires,
    }


def _lines(row: JsonObject) -> list[str]:
    return [
        f"{row['id']}  {row['state']}  session {row['session']}",
        f"  {row['name']} {whole(row['input'])}",
        f"  asked for by {row['rule']} ({row['source']}), until {row['expires']}",
    ]


def _told(options: Options, word: str, state: str, chosen: Sequence[Found], *, is_signed: bool) -> int:
    rows = [{**_row(item), "state": state} for item in chosen]
    sessions = list(dict.fromkeys(item.session for item in chosen))
    lines = [f"{word}: {row['id']}  {row['name']} {whole(row['input'])}" for row in rows]
    lines += [f"go on with: agentctl -r {session}, with the policy of the run that asked" for session in sessions]
    return show(options, {word: rows, "signed": is_signed}, lines)
