"""Whether the records of a journal hold what they must: strictly for what is imported, by name for `verify`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentctl.core.codec import message_from_dict
from agentctl.core.errors import UsageError
from agentctl.core.record import Record
from agentctl.core.types import Image, JsonObject, Message, Opaque, Part, ToolAnswer, Usage
from agentctl.state.journal import read_session_log
from agentctl.state.records import Damage
from agentctl.state.tally import FORMAT, KINDS, Tally

ROLES = {"user", "assistant", "tool"}


class Verified(Record):
    """What `sessions verify` says of one journal."""

    id: str
    path: Path
    damage: tuple[Damage, ...]
    """Line 0: the file as a whole."""
    torn_bytes: int
    unknown: int

    @property
    def is_whole(self) -> bool:
        return not self.damage


def verify(path: Path) -> Verified:
    """Everything that is wrong with a journal. Never raises for what the file holds."""
    tally = Tally()
    try:
        log = read_session_log(path)
    except UsageError as error:
        damage = (Damage(line=0, why=error.message),)
        return Verified(id=path.stem, path=path, damage=damage, torn_bytes=0, unknown=0)
    found = list(log.damage)
    calls: set[str] = set()
    for number, row in log.rows:
        try:
            check_record(row)
            tally.add(row)
            found += [Damage(line=number, why=why) for why in _lost_calls(row, calls)]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            found.append(Damage(line=number, why=f"its {row['record']} cannot be read ({error})"))
    found.sort(key=lambda damage: damage.line)
    return Verified(
        id=path.stem,
        path=path,
        damage=(*_of_the_whole(tally, path.stem, is_blank=log.is_blank), *found),
        torn_bytes=log.torn_bytes,
        unknown=sum(row["record"] not in KINDS for _, row in log.rows),
    )


def _of_the_whole(tally: Tally, session: str, *, is_blank: bool) -> Iterator[Damage]:
    if is_blank:
        yield Damage(line=0, why="nothing whole was written")
        return
    try:
        facts = tally.facts()
    except UsageError as error:
        yield Damage(line=0, why=f"it {error.message}")
        return
    if facts.id != session:
        yield Damage(line=0, why=f"its header names the session {facts.id!r}")


def _lost_calls(row: JsonObject, calls: set[str]) -> Iterator[str]:
    """Answers to calls that the journal does not hold."""
    if row["record"] not in ("turn", "message"):
        return
    message = message_from_dict(row["message"])
    calls.update(call.id for call in message.calls)
    for part in message.parts:
        if isinstance(part, ToolAnswer) and part.call_id not in calls:
            yield f"the call {part.call_id!r} that it answers is missing"


def check_record(row: object, session: str | None = None) -> None:
    """Raises ValueError, KeyError or TypeError when a record is not as this version writes it.

    Records of unknown kinds pass. `session`: it must be the header of this one.
    """
    if not isinstance(row, dict) or not isinstance(row.get("record"), str):
        raise ValueError("no kind")
    kind = row["record"]
    if session is not None and (kind != "header" or row.get("session") != session):
        raise ValueError("not the header of the session")
    if kind == "header" and row.get("format") != FORMAT:
        raise ValueError(f"format {row.get('format')!r}")
    if kind in ("turn", "message"):
        _check_message(message_from_dict(row["message"]))
    elif kind == "usage":
        _check_usage(row)
    elif kind == "view" and not (_is_count(row["start"]) and _is_count(row["reasons_from"])):
        raise ValueError("a view without its places")


def _check_message(message: Message) -> None:
    if message.role not in ROLES:
        raise ValueError(f"role {message.role!r}")
    _check_opaque(message.opaque)
    for part in message.parts:
        _check_part(part)


def _check_part(part: Part | Image) -> None:
    for name, value in part.__dict__.items():
        if name == "opaque":
            _check_opaque(value)
        elif name == "images":
            for image in value:
                _check_part(image)
        elif not isinstance(value, bool if name == "is_error" else str):
            raise TypeError(f"{name} is {type(value).__name__}")


def _check_opaque(opaque: Opaque | None) -> None:
    if opaque is not None and not (
        isinstance(opaque.data, dict)
        and all(isinstance(opaque.__dict__[name], str) for name in ("provider", "api", "model"))
    ):
        raise TypeError("opaque")


def _check_usage(row: JsonObject) -> None:
    if not all(_is_count(row["usage"].get(name, 0)) for name in Usage.fields):
        raise ValueError("usage")
    cost = row.get("cost_usd")
    if cost is not None and not (isinstance(cost, (int, float)) and cost >= 0):
        raise ValueError("cost_usd")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0
