"""The append-only log of a session: what happened, on disk before anything acts on it.

One JSON object a line: `{"record": KIND, "time": …, …}`. Kinds: header (format, session, cwd, model, agent, policy; a
later one says only with what a run went on), turn (n, message), message, usage (usage, cost_usd), state (todos or
pin), view (what a compaction left on the wire), approval, end (ended, exit_code). One write a record; fsync before
calls start, after each of their results, and at the end. A torn last line is cut when the journal is opened again;
kinds that this version does not know are kept and passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from agentctl.core.codec import dumps, message_from_dict, message_to_dict
from agentctl.core.errors import JournalError, UsageError
from agentctl.core.files import append_record, cut_torn_tail, make_private_dir, open_append
from agentctl.core.record import as_dict, map_strings
from agentctl.core.types import JsonObject, Message, Todo, ToolAnswer, Usage
from agentctl.state.records import Damage, Log, read_log
from agentctl.state.tally import FORMAT, NewerFormat, SessionFacts, Tally
from agentctl.state.todos import todos_from_rows

HEAD_BYTES = 65_536
"""A header stands in them; it is the first record, but the lines before it may be damaged."""


class SavedSession(SessionFacts):
    """What a journal holds, as far as this version understands it."""

    path: Path
    history: tuple[Message, ...]
    todos: tuple[Todo, ...]
    pin: JsonObject | None
    """As state/pin.py wrote it; None in sessions that never had one."""
    view: JsonObject | None
    """What the last compaction left on the wire: start, reasons_from, summary and what else engine/view.py keeps."""
    damage: tuple[Damage, ...] = ()
    """Lines that could not be read; the session is without them."""
    torn_bytes: int = 0


class Journal:
    """The open log of this run. Raises JournalError when a record cannot be written whole."""

    def __init__(self, path: Path, now: Callable[[], str], redact: Callable[[str], str]) -> None:
        self.path = path
        self._now = now
        self._redact = redact
        self.spent = Usage()
        """What this run has written down as used."""
        self.cost_usd: float | None = 0.0
        try:
            make_private_dir(path.parent)
            self._descriptor = open_append(path)
            self.torn_bytes = cut_torn_tail(self._descriptor)
            """Of a record that a killed run had begun; they are cut off."""
        except OSError as error:
            raise JournalError(f"the journal {str(path)!r} cannot be opened: {error}") from error

    def header(self, **facts: object) -> None:
        self._write("header", {"format": FORMAT, **facts})

    def turn(self, n: int, prompt: Message) -> None:
        self._write("turn", {"n": n, "message": message_to_dict(prompt)}, is_synced=True)

    def message(self, message: Message) -> None:
        """Durable when it returns, if calls follow from it or it answers one."""
        self._write(
            "message", {"message": message_to_dict(message)}, is_synced=bool(message.calls) or message.role == "tool"
        )

    def usage(self, usage: Usage, cost_usd: float | None) -> None:
        self.spent += usage
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd
        self._write("usage", {"usage": as_dict(usage), "cost_usd": cost_usd})

    def todos(self, items: Sequence[Todo]) -> None:
        self.state(todos=as_dict(tuple(items)))

    def state(self, **fields: object) -> None:
        """What of the planes comes back with the session; of each field the latest counts."""
        self._write("state", fields)

    def view(self, view: JsonObject) -> None:
        """What goes on the wire from here on; the messages before it stay in the journal."""
        self._write("view", view)

    def approval(self, state: str, **facts: object) -> None:
        """What became of a call that waits: waiting (pending), granted (id, grant), denied (id) or used (id)."""
        self._write("approval", {"state": state, **facts}, is_synced=True)

    def end(self, ended: str, exit_code: int) -> None:
        self._write("end", {"ended": ended, "exit_code": exit_code}, is_synced=True)

    def _write(self, kind: str, fields: JsonObject, *, is_synced: bool = False) -> None:
        row = map_strings({"record": kind, "time": self._now(), **fields}, self._redact)
        try:
            append_record(self._descriptor, dumps(row) + b"\n")
            if is_synced:
                os.fsync(self._descriptor)
        except OSError as error:
            raise JournalError(
                f"the journal {str(self.path)!r} cannot be written: {error}",
                hint="Free space there, set AGENTCTL_HOME to a folder that can be written, or run with --ephemeral.",
            ) from error


def load(path: Path) -> SavedSession:
    """Reads a journal. Raises UsageError naming the file when it has no readable header."""
    log = read_session_log(path)
    tally = Tally()
    history: list[Message] = []
    damage = list(log.damage)
    states: JsonObject = {}
    view: JsonObject | None = None
    for number, row in log.rows:
        kind = row["record"]
        try:
            if kind in ("turn", "message"):
                history.append(message_from_dict(row["message"]))
            tally.add(row)
        except (AttributeError, KeyError, TypeError, ValueError):
            damage.append(Damage(line=number, why=f"the values of its {kind} cannot be read"))
            continue
        if kind == "state":
            states.update(row)
        elif kind == "view":
            view = _view(row) or view
    return SavedSession(
        **facts_of(tally, path).__dict__,
        path=path,
        history=in_place(history),
        todos=todos_from_rows(states.get("todos", [])),
        pin=pin if isinstance(pin := states.get("pin"), dict) else None,
        view=view,
        damage=tuple(sorted(damage, key=lambda found: found.line)),
        torn_bytes=log.torn_bytes,
    )


def load_facts(path: str | Path) -> SessionFacts:
    """What lists say of a journal; quicker than `load`. Raises UsageError as it does."""
    tally = Tally()
    for _number, row in read_session_log(path).rows:
        try:
            tally.add(row)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return facts_of(tally, path)


def is_blank(path: Path) -> bool:
    """Whether nothing whole stands in the file: a run was killed at its first write."""
    try:
        log = read_log(path, limit=HEAD_BYTES)
    except OSError as error:
        raise _cannot_be_read(path, error) from error
    return log.is_blank


def check_header(path: Path) -> bool:
    """Whether a journal that can be loaded holds a turn, from its first bytes alone. Raises UsageError as `load` does.

    A run that ended before its first turn, or was killed there, leaves a header and nothing to go on with.
    """
    try:
        log = read_log(path, limit=HEAD_BYTES)
    except OSError as error:
        raise _cannot_be_read(path, error) from error
    tally = Tally()
    for _number, row in log.rows:
        if row["record"] == "header":
            tally.add(row)
            break
    facts_of(tally, path)
    return log.size > HEAD_BYTES or any(row["record"] in ("turn", "message") for _number, row in log.rows)


def read_session_log(path: str | Path) -> Log:
    """The lines of a journal. Raises UsageError naming the file."""
    try:
        return read_log(path)
    except OSError as error:
        raise _cannot_be_read(path, error) from error


def _cannot_be_read(path: str | Path, error: OSError) -> UsageError:
    return UsageError(f"the session file {str(path)!r} cannot be read: {error.strerror or error}")


def facts_of(tally: Tally, path: str | Path) -> SessionFacts:
    """Raises UsageError naming the file; NewerFormat for one of a later version."""
    try:
        return tally.facts()
    except NewerFormat as error:
        message = f"the session file {str(path)!r} {error.message}"
        raise NewerFormat(message, hint="Use that version, or a new session.") from None
    except UsageError as error:
        message = f"the session file {str(path)!r} {error.message}"
        raise UsageError(message, hint="Move it away or delete it.") from None


def in_place(history: Sequence[Message]) -> tuple[Message, ...]:
    """Each answer directly behind the answers to the message that asked for it.

    A run that goes on after a kill writes its prompt first and then what became of the interrupted calls.
    """
    roles = [message.role for message in history]
    if ("user", "tool") not in pairwise(roles):
        return tuple(history)
    groups: list[list[Message]] = [[]]
    asked: dict[str, int] = {}
    for message in history:
        if message.role == "tool":
            groups[asked.get(_answered(message), -1)].append(message)
        else:
            asked |= {call.id: len(groups) for call in message.calls}
            groups.append([message])
    return tuple(message for group in groups for message in group)


def _answered(message: Message) -> str:
    return next((part.call_id for part in message.parts if isinstance(part, ToolAnswer)), "")


def _view(row: JsonObject) -> JsonObject | None:
    if not isinstance(row.get("start"), int) or not isinstance(row.get("reasons_from"), int):
        return None
    return {name: value for name, value in row.items() if name not in ("record", "time")}
