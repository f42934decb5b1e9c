"""The session of a run from its beginning to its end: choosing it, opening its journal, what is left to do after it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agentctl.config.settings import Settings
from agentctl.config.store import record_store
from agentctl.core.errors import AgentctlError, JournalError, UsageError
from agentctl.core.events import Notice
from agentctl.core.locks import Lock, LockHeld
from agentctl.core.ports import Clock
from agentctl.core.record import Record
from agentctl.core.redact import Redactor
from agentctl.core.types import Problem, Usage
from agentctl.engine.budget import Budget
from agentctl.runner.clock import SystemClock
from agentctl.state.journal import Journal, load
from agentctl.state.selection import Selected, busy, moved_notice, select, take_lease, wanted_of
from agentctl.state.sessions import Sessions
from agentctl.state.spare import adopt, is_ours, spare_state

DAY_S = 86_400


class Opened(Record):
    """The journal of a run, None where nothing is saved, and what there is to say about it."""

    journal: Journal | None
    selected: Selected
    notices: tuple[Notice, ...] = ()
    problems: tuple[Problem, ...] = ()


def sessions_of(settings: Settings) -> Sessions:
    return Sessions(settings.homes.sessions(settings.project_key), root=settings.root)


def leased(path: Path, session_id: str) -> Lock:
    """Raises Busy, and AgentctlError where no lease can be made."""
    try:
        return take_lease(path)
    except LockHeld as held:
        raise busy(session_id, held) from None
    except OSError as error:
        raise AgentctlError(
            f"{str(path.parent)!r} cannot be written: {error.strerror or error}",
            hint="Set AGENTCTL_HOME to a folder that can be written.",
        ) from error


async def select_session(settings: Settings, env: Mapping[str, str], clock: Clock) -> Selected:
    """The session with its lease. Raises UsageError and Busy."""
    wanted = wanted_of(
        continue_newest=settings.continue_,
        continue_or_new=settings.continue_or_new,
        resume=settings.resume,
        key=settings.session_key,
        forks=settings.fork,
        on_busy=settings.on_busy,
    )
    spare = Sessions(spare_state(env) / "sessions" / settings.project_key, root=settings.root)
    new_store = _new_store(settings)
    try:
        selected = await select(sessions_of(settings), wanted, clock, is_ephemeral=settings.ephemeral, spare=spare)
    except UsageError as error:
        if new_store:
            error.hint = new_store[0].text
        raise
    return selected.replace(notices=(*new_store, *selected.notices))


def _new_store(settings: Settings) -> tuple[Notice, ...]:
    store = settings.store
    if store.replaces is None:
        return ()
    text = (
        f"The state of this folder was made for the git remote {store.replaces}; now it is {store.remote}. A new store "
        "begins; --project NAME would keep one store for both."
    )
    return (Notice(code="new-store", text=text),)


def open_journal(settings: Settings, selected: Selected, redactor: Redactor, clock: Clock, **facts: str) -> Opened:
    """The open journal. A place that cannot be written is a notice at the start, not an end.

    `facts` are model, agent and policy digest of this run.
    """
    if settings.ephemeral:
        return Opened(journal=None, selected=selected)
    why = selected.why_unsaved
    if not why:
        try:
            return _opened(settings, selected, redactor, clock, **facts)
        except JournalError as error:
            why = error.message
        moved = _moved(settings, selected, why)
        try:
            if moved is not None:
                return _opened(settings, moved, redactor, clock, **facts)
        except JournalError as error:
            why = error.message
    fix = "Set AGENTCTL_HOME to a folder that can be written, or pass --ephemeral."
    problem = Problem(code="session-not-saved", what="session", why=why, fix=fix)
    return Opened(journal=None, selected=selected, problems=(problem,))


def _opened(settings: Settings, selected: Selected, redactor: Redactor, clock: Clock, **facts: str) -> Opened:
    """Raises JournalError."""
    saved = selected.saved
    about = {"session": selected.id, "cwd": str(settings.root), **facts}
    if saved is not None and selected.forked_from is not None:
        from agentctl.state.copies import fork_session  # most runs copy none

        about["forked_from"] = selected.forked_from
        fork_session(saved.path, selected.path, redactor.text, root=settings.root, now=clock.now(), **about)
        copy = load(selected.path)
        selected = selected.replace(saved=saved.replace(history=copy.history, view=copy.view))
    journal = Journal(selected.path, clock.now, redactor.text)
    if saved is None or (selected.forked_from is None and _goes_on_with(about, saved)):
        journal.header(**about)
    with suppress(OSError):
        record_store(selected.path.parent, settings.store)
    torn: tuple[Notice, ...] = ()
    if journal.torn_bytes:
        text = f"The last record of the session was torn by a killed run; its {journal.torn_bytes} bytes are cut off."
        torn = (Notice(code="session-torn", text=text),)
    return Opened(journal=journal, selected=selected, notices=(*selected.notices, *torn))


def _goes_on_with(about: Mapping[str, str], saved: object) -> bool:
    """Whether this run is another one than the session has last been told of."""
    return any(getattr(saved, name) != about[name] for name in ("cwd", "model", "agent", "policy"))


def _moved(settings: Settings, selected: Selected, why: str) -> Selected | None:
    """The same session in the spare place; None when there is none or it is there already."""
    spare = selected.spare
    if spare is None or not is_ours(spare.folder.parents[1], makes=True):
        return None
    path = spare.path(selected.id)
    try:
        if selected.forked_from is None and selected.saved is not None:
            adopt(selected.path, path)
        lease = take_lease(path)
    except OSError:
        return None
    selected.release()
    notice = moved_notice(sessions_of(settings), spare, why)
    return selected.replace(path=path, lease=lease, spare=None, notices=(*selected.notices, notice))


def write_rest(journal: Journal, budget: Budget) -> None:
    """What a response that was cut off is known to have used: no item of the turn tells it. Raises JournalError."""
    left = Usage(**{name: max(0, getattr(budget.usage, name) - getattr(journal.spent, name)) for name in Usage.fields})
    if left.total:
        known = budget.cost_usd is not None and journal.cost_usd is not None
        journal.usage(left, max(0.0, (budget.cost_usd or 0) - (journal.cost_usd or 0)) if known else None)


def prune_after(settings: Settings, selected: Selected) -> None:
    """Removes old sessions of the project; never fails, the run is over."""
    from agentctl.state.retention import prune  # after the last line

    with suppress(OSError):
        prune(
            Sessions(selected.path.parent),
            keep_days=settings.keep_days,
            keep_sessions=settings.keep_sessions,
            now=SystemClock().now(),
            spares=selected.id,
        )
