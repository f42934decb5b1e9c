"""The verbs `memory …`: the notes of a project for people and pipelines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from agentctl.config.options import Options
from agentctl.config.settings import Settings
from agentctl.core.codec import dumps, loads
from agentctl.core.errors import AgentctlError, UsageError
from agentctl.core.files import named_target, read_limited, replace_file
from agentctl.core.text import did_you_mean
from agentctl.core.types import JsonObject
from agentctl.runner.document import is_json, settings_of, show, table, verb
from agentctl.runner.memory import knowledge_of
from agentctl.runner.output import print_bytes, say
from agentctl.state.knowledge import MAX_FORGET, Knowledge
from agentctl.state.knowledge_decay import is_time
from agentctl.state.knowledge_note import KINDS, MAX_CHARS, MAX_NOTES, ORIGINS, UNCONFIRMED, Note, clean_text, order_in
from agentctl.state.knowledge_store import READ_WAIT_S, WRITE_WAIT_S, StoreFailure, patiently

T = TypeVar("T")

MAX_IMPORT_BYTES = 8_000_000
_SHOWN = tuple(name for name in Note.fields if name != "subject")


class NotesError(AgentctlError):
    """The notes of a project cannot be used."""

    kind = "memory"


@verb
def memory_list(options: Options, is_all: bool) -> int:
    knowledge = _knowledge(settings_of(options), writes=False)
    notes = _use(knowledge, knowledge.valid)
    closed = _use(knowledge, knowledge.closed) if is_all else []
    rows = [
        (note.id, note.label, note.origin, f"{note.recalls}/{note.shown}", _line(note)) for note in (*notes, *closed)
    ]
    lines = table([("ID", "KIND", "FROM", "RECALLED/SHOWN", "TEXT"), *rows]) if rows else ["There are no notes."]
    return show(options, [_row(note) for note in (*notes, *closed)], lines)


@verb
def memory_add(options: Options, text: str, kind: str | None) -> int:
    if not any(map(str.isalnum, text)):
        raise UsageError("the note says nothing", hint="agentctl memory add --kind command 'Tests run with make test'")
    knowledge = _writable(settings_of(options))
    added = _use(knowledge, lambda: knowledge.add(kind or "fact", text, "person"), WRITE_WAIT_S)
    document = {
        "note": _row(added.note),
        "is_new": added.is_new,
        "is_cut": added.is_cut,
        "replaced": [_row(note) for note in added.replaced],
        "stored": added.count,
    }
    done = f"Remembered as {added.note.kind} ({added.count} stored)" if added.is_new else "Already recorded"
    lines = [f"{done}: {added.note.id} {added.note.text}"]
    lines += [f"It replaces: {note.id} {note.text}" for note in added.replaced]
    lines += [f"It was cut to {MAX_CHARS} characters."] if added.is_cut else []
    return show(options, document, lines)


@verb
def memory_forget(options: Options, note: str) -> int:
    knowledge = _writable(settings_of(options))
    try:
        forgotten = _use(knowledge, lambda: knowledge.forget(note), WRITE_WAIT_S)
    except ValueError as error:
        raise UsageError(str(error), hint="`agentctl memory list` shows the ids.") from None
    lines = [f"{found.id} {found.text}" for found in forgotten.notes]
    if not forgotten.is_done:
        shown = "; ".join(lines[:8])
        raise UsageError(
            f"{note!r} is in {len(lines)} notes, more than {MAX_FORGET}, and none was forgotten: {shown}",
            hint="Name one by its id.",
        )
    if not lines:
        raise UsageError(f"no note has the id or holds the text {note!r}", hint="`agentctl memory list` shows them.")
    return show(
        options, {"forgotten": [_row(found) for found in forgotten.notes]}, [f"Forgot {line}" for line in lines]
    )


@verb
def memory_gc(options: Options, is_purge: bool) -> int:
    knowledge = _writable(settings_of(options))
    if not _use(knowledge, lambda: [*knowledge.valid(), *knowledge.closed()]):
        return show(options, {"expired": 0, "evicted": 0, "purged": 0, "stored": 0}, ["There are no notes."])
    swept = _use(knowledge, knowledge.sweep, WRITE_WAIT_S)
    purged = swept.purged + (_use(knowledge, knowledge.purge, WRITE_WAIT_S) if is_purge else 0)
    stored = len(_use(knowledge, knowledge.valid))
    document = {"expired": swept.expired, "evicted": swept.evicted, "purged": purged, "stored": stored}
    line = f"{swept.expired} expired, {swept.evicted} evicted, {purged} deleted for good; {stored} stored."
    return show(options, document, [line])


@verb
def memory_compact(options: Options) -> int:
    from agentctl.runner.memory_compact import compact  # brings a model and a network

    settings = settings_of(options)
    knowledge = _writable(settings)
    done = compact(
        settings,
        lambda: _use(knowledge, knowledge.valid),
        lambda old, new: _use(knowledge, lambda: knowledge.replace(old, new), WRITE_WAIT_S),
    )
    document = {
        "compacted": done.is_done,
        "why": done.why,
        "before": done.before,
        "after": done.after,
        "usage": done.usage,
    }
    return show(options, document, [done.why or f"{done.before} notes became {done.after}."])


@verb
def memory_export(options: Options, file: str | None) -> int:
    """Every valid note: JSON lines, or with --json one array."""
    knowledge = _knowledge(settings_of(options), writes=False)
    rows = [_row(note) for note in _use(knowledge, knowledge.valid)]
    data = dumps(rows, indent=True) + b"\n" if is_json(options) else b"".join(dumps(row) + b"\n" for row in rows)
    if file is None or file == "-":
        print_bytes(data.rstrip(b"\n"))
        return 0
    try:
        replace_file(named_target(file), data, mode=0o600)
    except OSError as error:
        raise UsageError(f"{file!r} cannot be written: {error.strerror or error}") from None
    return 0


@verb
def memory_import(options: Options, file: str) -> int:
    knowledge = _writable(settings_of(options))
    notes, left_out = _parsed(_read(file), knowledge)
    taken = _use(knowledge, lambda: knowledge.take_in(notes), WRITE_WAIT_S) if notes else 0
    stored = len(_use(knowledge, knowledge.valid))
    document = {"imported": taken, "known": len(notes) - taken, "left_out": left_out, "stored": stored}
    lines = [f"{taken} imported, {len(notes) - taken} known; {stored} stored."]
    return show(options, document, [*lines, *(f"left out: {row['text']}: {row['why']}" for row in left_out)])


# --- rows -----------------------------------------------------------------------------------------------------------


def _row(note: Note) -> JsonObject:
    return {**{name: getattr(note, name) for name in _SHOWN}, "quarantined": note.is_quarantined}


def _line(note: Note) -> str:
    state = f"[{note.reason}] " if note.closed else "[quarantined] " if note.is_quarantined else ""
    return state + note.text


def _read(file: str) -> str:
    try:
        data = _stdin() if file == "-" else read_limited(file, MAX_IMPORT_BYTES)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file!r} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{file!r} is not UTF-8 at byte {error.start}") from None


def _stdin() -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(0, 1 << 16):
        pieces.append(piece)
        if sum(map(len, pieces)) > MAX_IMPORT_BYTES:
            raise UsageError(f"stdin holds more than {MAX_IMPORT_BYTES:,} bytes")
    return b"".join(pieces)


def _parsed(text: str, knowledge: Knowledge) -> tuple[list[Note], list[JsonObject]]:
    """The notes of an export, JSON lines or an array, and those that read like orders. Raises UsageError."""
    try:
        rows = (
            loads(text)
            if text.lstrip().startswith("[")
            else [loads(line) for line in text.splitlines() if line.strip()]
        )
    except ValueError as error:
        raise UsageError(
            f"it is neither JSON lines nor a JSON array: {error}", hint="`agentctl memory export` writes both."
        ) from None
    if len(rows) > MAX_NOTES:
        raise UsageError(f"it holds {len(rows)} notes; a project has at most {MAX_NOTES}")
    notes, left_out = [], []
    for number, row in enumerate(rows, start=1):
        note = _note(row, number, knowledge)
        if not note.closed:
            why = order_in(clean_text(note.text))
            left_out += [{"text": note.text, "why": why}] if why else []
            notes += [] if why else [note]
    return notes, left_out


def _note(row: Any, number: int, knowledge: Knowledge) -> Note:
    """What a file says of itself confirms nothing: who recorded the note, and how often it was asked for."""
    if not isinstance(row, dict) or not isinstance(row.get("text"), str) or not any(map(str.isalnum, row["text"])):
        raise UsageError(f"entry {number} is no note: it needs a text", hint="Nothing was imported.")
    kind, origin = row.get("kind", "fact"), row.get("origin", "import")
    for value, valid in ((kind, KINDS), (origin, ORIGINS)):
        if value not in valid:
            raise UsageError(
                f"entry {number}: {value!r} is not one of {', '.join(valid)}", hint=did_you_mean(str(value), valid)
            )
    now = knowledge.now()
    times = {name: _time(row.get(name)) for name in ("created", "updated", "recalled")}
    return Note(
        id="",
        kind=kind,
        text=row["text"],
        origin=origin if origin in UNCONFIRMED else "import",
        session=str(row.get("session") or "")[:64],
        created=times["created"] or now,
        updated=min(times["updated"] or now, now),
        recalled=times["recalled"],
        recalls=min(1, _count(row.get("recalls"))),
        shown=_count(row.get("shown")),
        closed=str(row.get("closed") or ""),
    )


def _time(value: object) -> str:
    return value if isinstance(value, str) and is_time(value) else ""


def _count(value: object) -> int:
    return max(0, min(value, 1_000_000)) if isinstance(value, int) else 0


# --- the store --------------------------------------------------------------------------------------------------------


def _knowledge(settings: Settings, *, writes: bool) -> Knowledge:
    return knowledge_of(settings, dict(os.environ), writes=writes)


def _writable(settings: Settings) -> Knowledge:
    if settings.trust.level != "workspace":
        raise UsageError(
            f"the notes are read-only: the workspace is not trusted ({settings.trust.why})",
            hint="Pass --trust workspace if what runs here is yours.",
        )
    return _knowledge(settings, writes=True)


def _use(knowledge: Knowledge, action: Callable[[], T], seconds: float = READ_WAIT_S) -> T:
    """Work on the store; what was set aside is said on stderr. Raises NotesError."""
    try:
        result = patiently(action, seconds)
    except StoreFailure as failure:
        raise NotesError(f"{failure.path}: {failure.why}", hint=failure.fix) from None
    for problem in knowledge.file.take_untold():
        say(f"{problem.what}: {problem.why}")
    return result
