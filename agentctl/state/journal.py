"""The append-only log of a session: what happened, on disk before anything acts on it.

One JSON object a line: `{"record": KIND, "time": …, …}`. Kinds: header (format, session, cwd, model, agent, policy),
turn (n, prompt), message (turn, message), usage (usage, cost_usd), state (todos or pin), end (ended, exit_code). One
write a record; fsync before calls start, after each of their results, and at the end. A torn last line is cut when
the journal is opened again; kinds that this version does not know are kept and passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from agentctl.core.codec import dumps, loads, message_from_dict, message_to_dict, usage_from_dict
from agentctl.core.errors import JournalError, UsageError
from agentctl.core.files import append_record, cut_torn_tail, make_private_dir, open_append, read_records
from agentctl.core.record import Record, as_dict, map_strings
from agentctl.core.types import JsonObject, Message, Todo, Usage
from agentctl.state.todos import todos_from_rows

FORMAT = 1


class SavedSession(Record):
    """What a journal holds, as far as this version understands it."""

    id: str
    path: Path
    cwd: str
    created: str
    updated: str
    model: str
    agent: str
    policy: str
    """Digest of the policy of the run that began it."""
    title: str
    turns: int
    history: tuple[Message, ...]
    todos: tuple[Todo, ...]
    pin: JsonObject | None
    """As state/pin.py wrote it; None in sessions that never had one."""
    view: JsonObject | None
    """What the last compaction left on the wire: start, reasons_from, summary and what else engine/view.py keeps."""
    usage: Usage
    cost_usd: float | None
    ended: str | None
    """The ending of the last turn; None when it was killed."""


class Journal:
    """The open log of this run. Raises JournalError when a record cannot be written whole."""

    def __init__(self, path: Path, now: Callable[[], str], redact: Callable[[str], str]) -> None:
        self.path = path
        self._now = now
        self._redact = redact
        try:
            make_private_dir(path.parent)
            self._descriptor = open_append(path)
            cut_torn_tail(self._descriptor)
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

    def copy(self, saved: SavedSession) -> None:
        """The history and the plan of another session; what they cost stays there."""
        turns = 0
        for message in saved.history:
            if message.role == "user":
                turns += 1
                self.turn(turns, message)
            else:
                self.message(message)
        self.todos(saved.todos)
        if saved.pin is not None:
            self.state(pin=saved.pin)
        if saved.view is not None:
            self.view(saved.view)

    def usage(self, usage: Usage, cost_usd: float | None) -> None:
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
    try:
        lines, _torn = read_records(path)
    except OSError as error:
        raise UsageError(f"the session file {str(path)!r} cannot be read: {error}") from error
    rows = [row for line in lines if (row := _row(line)) is not None]
    header = next((row for row in rows if row["record"] == "header"), None)
    if header is None or header.get("format") != FORMAT:
        raise UsageError(
            f"the session file {str(path)!r} is not a journal of this version", hint="Move it away or delete it."
        )
    turns = [row for row in rows if row["record"] == "turn"]
    history = [message for row in rows if row["record"] in ("turn", "message") and (message := _message(row))]
    usages = [row for row in rows if row["record"] == "usage"]
    costs = [row.get("cost_usd") for row in usages]
    state = _last_state(rows)
    last = rows[-1]
    return SavedSession(
        id=str(header["session"]),
        path=path,
        cwd=str(header.get("cwd", "")),
        created=str(header.get("time", "")),
        updated=str(last.get("time", "")),
        model=str(header.get("model", "")),
        agent=str(header.get("agent", "")),
        policy=str(header.get("policy", "")),
        title=history[0].text[:60] if history else "",
        turns=len(turns),
        history=tuple(history),
        view=_last_view(rows),
        todos=todos_from_rows(state.get("todos", [])),
        pin=pin if isinstance(pin := state.get("pin"), dict) else None,
        usage=sum((usage_from_dict(row.get("usage", {})) for row in usages), Usage()),
        cost_usd=None if None in costs else sum(float(cost or 0) for cost in costs),
        ended=str(last["ended"]) if last["record"] == "end" else None,
    )


def _row(line: bytes) -> JsonObject | None:
    try:
        row = loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("record"), str) else None


def _last_state(rows: Sequence[JsonObject]) -> JsonObject:
    state: JsonObject = {}
    for row in rows:
        if row["record"] == "state":
            state.update(row)
    return state


def _last_view(rows: Sequence[JsonObject]) -> JsonObject | None:
    row = next((row for row in reversed(rows) if row["record"] == "view"), None)
    if row is None or not isinstance(row.get("start"), int) or not isinstance(row.get("reasons_from"), int):
        return None
    return {name: value for name, value in row.items() if name not in ("record", "time")}


def _message(row: JsonObject) -> Message | None:
    try:
        return message_from_dict(row["message"])
    except (KeyError, TypeError, ValueError):
        return None
