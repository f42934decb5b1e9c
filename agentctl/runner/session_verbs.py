"""`sessions list`, `show`, `export`, `import`, `fork`, `prune` and `verify`. `compact` stands in session_compact.py."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agentctl.config.options import Options
from agentctl.config.paths import working_folder
from agentctl.config.settings import Settings
from agentctl.core.codec import dumps, message_to_dict
from agentctl.core.errors import AgentctlError, UsageError
from agentctl.core.files import named_target, replace_file
from agentctl.core.record import as_dict
from agentctl.core.redact import Redactor
from agentctl.core.text import one_line
from agentctl.core.types import JsonObject, Message, ToolAnswer
from agentctl.runner.clock import SystemClock
from agentctl.runner.document import UNMET, is_json, settings_of, show, table, verb
from agentctl.runner.saving import leased, sessions_of
from agentctl.runner.secrets import redactor_of
from agentctl.state.folder import check_inside, made, state_root
from agentctl.state.journal import SavedSession, load
from agentctl.state.sessions import Sessions, new_id
from agentctl.version import __version__


@verb
def sessions_list(options: Options) -> int:
    settings = settings_of(options)
    found = sessions_of(settings).listed()
    document = {"sessions": found.sessions, "problems": as_dict(found.problems)}
    if is_json(options):
        return show(options, document, ())
    rows = [
        (row["id"], row["updated"], row["ended"] or "killed", f"{row['turns']} turns", one_line(row["title"]))
        for row in found.sessions
    ]
    lines = table(rows) or [f"No session is saved for {settings.root}."]
    return show(options, document, [*lines, *(f"{problem.what}: {problem.why}" for problem in found.problems)])


@verb
def sessions_show(options: Options, session: str) -> int:
    """All that is saved of one session."""
    saved = _saved(sessions_of(settings_of(options)), session)
    document = {
        **{name: value for name, value in as_dict(saved).items() if name not in ("history", "path")},
        "history": [message_to_dict(message) for message in saved.history],
        "path": str(saved.path),
    }
    head = [
        ("session", saved.id),
        ("folder", saved.cwd),
        ("begun", saved.created),
        ("last record", saved.updated),
        ("model", saved.model),
        ("agent", saved.agent),
        ("turns", f"{saved.turns}, {saved.messages} messages"),
        ("tokens", f"{saved.usage.prompt:,} in, {saved.usage.output:,} out"),
        ("ended", saved.ended or "killed"),
    ]
    damage = [f"line {found.line}: {found.why}" for found in saved.damage]
    return show(options, document, [*table(head), *damage, "", *(_line(message) for message in saved.history)])


def _line(message: Message) -> str:
    """A message for people, on one line."""
    said = [message.text] if message.text.strip() else []
    said += [f"calls {call.name} {call.arguments}" for call in message.calls]
    said += [f"{part.name}: {part.content}" for part in message.parts if isinstance(part, ToolAnswer)]
    return f"{message.role}: {one_line(' · '.join(said), 160)}"


@verb
def sessions_verify(options: Options, session: str | None) -> int:
    """Names what cannot be read, in one session or in all of the folder. Exit code 3 when there is something."""
    from agentctl.state.checks import verify

    sessions = sessions_of(settings_of(options))
    paths = (
        [sessions.path(sessions.find(session, "session"))]
        if session
        else [sessions.path(entry.id) for entry in sessions.entries()]
    )
    found = [verify(path) for path in paths]
    is_whole = all(one.is_whole for one in found)
    document = {
        "ok": is_whole,
        "sessions": [
            {
                "id": one.id,
                "path": str(one.path),
                "ok": one.is_whole,
                "damage": as_dict(one.damage),
                "torn_bytes": one.torn_bytes,
                "unknown_records": one.unknown,
            }
            for one in found
        ],
    }
    lines = [
        f"{one.path}{f':{damage.line}' if damage.line else ''}: {damage.why}" for one in found for damage in one.damage
    ]
    lines += [f"{one.path}: a torn last record of {one.torn_bytes} bytes" for one in found if one.torn_bytes]
    lines += [f"{one.path}: {one.unknown} records of unknown kinds" for one in found if one.unknown]
    bad = sum(not one.is_whole for one in found)
    show(options, document, [*lines, f"{len(found)} sessions, {bad} damaged"])
    return 0 if is_whole else UNMET


@verb
def sessions_fork(options: Options, session: str) -> int:
    """A copy of a session to go on with."""
    from agentctl.state.approvals import holds_waiting
    from agentctl.state.copies import fork_session

    settings = settings_of(options)
    sessions = sessions_of(settings)
    saved = _saved(sessions, session)
    fresh = new_id()
    facts = {"cwd": str(settings.root), "model": saved.model, "agent": saved.agent, "policy": saved.policy}
    now = SystemClock().now()
    redact = _redactor(settings).text
    target = sessions.path(fresh)
    fork_session(saved.path, target, redact, root=settings.root, session=fresh, now=now, forked_from=saved.id, **facts)
    resume = f"agentctl -r {fresh}" if holds_waiting(target, now) else f"agentctl -r {fresh} -p 'PROMPT'"
    return show(options, {"session": fresh, "forked_from": saved.id, "resume": resume}, [fresh, resume])


@verb
def sessions_prune(options: Options) -> int:
    """Removes old sessions now, as the end of every run does."""
    from agentctl.state.retention import prune

    settings = settings_of(options)
    sessions = sessions_of(settings)
    pruned = prune(
        sessions,
        keep_days=settings.keep_days,
        keep_sessions=settings.keep_sessions,
        now=SystemClock().now(),
    )
    limits = {"keep_days": settings.keep_days, "keep_sessions": settings.keep_sessions}
    left = len(sessions.entries())
    lines = [
        *(f"removed {session}" for session in pruned.removed),
        *(f"kept {session}: it waits for an approval" for session in pruned.waiting),
        *(f"kept {session}: a run holds it, or it cannot be removed" for session in pruned.held),
        f"{len(pruned.removed)} removed, {left} left",
    ]
    return show(options, {**as_dict(pruned), "left": left, **limits}, lines)


@verb
def sessions_export(options: Options, session: str, file: str | None) -> int:
    """One archive with journal, notebook, focus and kept outputs, secrets masked."""
    from agentctl.state.archive import export_session

    settings = settings_of(options)
    sessions = sessions_of(settings)
    session_id = sessions.find(session, "session")
    target = working_folder() / (file or f"agentctl-session-{session_id}.tar.gz")
    folder = state_root(settings.root) / session_id
    log, redact = sessions.path(session_id), _redactor(settings).text
    try:
        check_inside(folder, settings.root)
        exported = export_session(log, session_id, folder, named_target(target), redact, version=__version__)
    except OSError as error:
        raise AgentctlError(f"the archive {str(target)!r} cannot be made: {error.strerror or error}") from error
    document = {"session": session_id, "file": str(target), **as_dict(exported)}
    left_out = [f"{exported.left_out} lines that cannot be read are left out"] if exported.left_out else []
    head = f"{exported.records} records, {len(exported.files)} files"
    return show(options, document, [str(target), head, *left_out])


@verb
def sessions_import(options: Options, file: str) -> int:
    """Takes an archive into this folder's sessions. With --fork under a new id."""
    from agentctl.state.archive import read_archive, unpack_files

    settings = settings_of(options)
    sessions = sessions_of(settings)
    source = working_folder() / file
    archive = read_archive(source)
    session_id = new_id() if options.fork else archive.session
    path = sessions.path(session_id)
    with leased(path, session_id):
        if path.exists():
            raise UsageError(
                f"the session {session_id} is here already", hint="Use --fork to import it under a new id."
            )
        data = _imported(archive.records, settings).replace(archive.session.encode(), session_id.encode())
        try:
            if archive.files:
                unpack_files(source, made(state_root(settings.root) / session_id, settings.root))
            replace_file(path, data, mode=0o600)
        except OSError as error:
            raise AgentctlError(f"the session cannot be written: {error}", hint="Nothing is imported.") from error
    resume = f"agentctl -r {session_id} -p 'PROMPT'"
    names = [name.removeprefix("state/") for name in archive.files]
    document = {"session": session_id, "records": len(archive.records), "files": names, "resume": resume}
    return show(options, document, [session_id, f"{len(archive.records)} records, {len(names)} files", resume])


def _imported(records: Sequence[JsonObject], settings: Settings) -> bytes:
    """The records as they are, and a header that says that the session is of this folder now."""
    here = {**records[0], "time": SystemClock().now(), "cwd": str(settings.root)}
    return b"".join(dumps(row) + b"\n" for row in (*records, here))


def _saved(sessions: Sessions, session: str) -> SavedSession:
    return load(sessions.path(sessions.find(session, "session")))


def _redactor(settings: Settings) -> Redactor:
    return redactor_of(settings, os.environ)
