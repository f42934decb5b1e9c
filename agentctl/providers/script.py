"""The file format of the scripted provider: answers in the order in which a model would give them.

    {"turns": [{"text": "Looking.", "tool_calls": [{"name": "list_dir", "args": {"path": "."}}]},
               {"match": "README", "text": "There is a README."},
               {"text": "Done."}]}

Every field is checked when the file is loaded, so that a slip of the pen ends the run before it starts.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import (
    AuthError,
    ContextOverflow,
    OutputCapped,
    ProviderError,
    StreamBroken,
    Unavailable,
    UsageError,
)
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean
from agentctl.core.types import JsonObject, Usage

FOREVER = -1
STOPS = ("end", "calls", "length", "refused")
FAILURES: Mapping[str, type[ProviderError]] = {
    kind.kind: kind for kind in (ProviderError, AuthError, Unavailable, StreamBroken, ContextOverflow, OutputCapped)
}
_FILE_LIMIT = 10_000_000
_PATTERN_LIMIT = 1_000
_DELAY_LIMIT_S = 3_600


class ScriptCall(Record):
    """A tool call. `arguments` is JSON text as it would come from a model, valid or not."""

    name: str
    arguments: str
    id: str | None = None


class ScriptFailure(Record):
    kind: str
    """A key of FAILURES."""
    message: str


class ScriptTurn(Record):
    """One answer. With `failure` it breaks off there, after what was said so far."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptCall, ...] = ()
    stop: str | None = None
    """One of STOPS; None: calls when there are calls, else end."""
    usage: Usage = Usage()
    match: str | None = None
    """The turn is passed over while this pattern is not found in what came after the model's last message."""
    repeat: int = 1
    """How often the turn may be used; FOREVER has no end."""
    failure: ScriptFailure | None = None
    delay_s: float = 0
    """Seconds before the first piece."""
    delta: int | None = None
    """Characters of each piece; None: each part in one piece."""


def load_script(path: Path) -> tuple[ScriptTurn, ...]:
    """Raises UsageError with the place of the fault."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):  # a FIFO would hang, a device would never end
            raise UsageError(f"The script {str(path)!r} is not a regular file.")
        if facts.st_size > _FILE_LIMIT:
            raise UsageError(f"The script {str(path)!r} has more than {_FILE_LIMIT:,} bytes.")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"The script {str(path)!r} cannot be read: {reason}.", hint="--model scripted/FILE takes a path."
        ) from error
    return parse_script(data, str(path))


def parse_script(data: bytes, source: str) -> tuple[ScriptTurn, ...]:
    """`source` begins every message. Raises UsageError."""
    try:
        document = loads(data)
    except ValueError as error:
        raise UsageError(f"{source}: not valid JSON: {error}.") from None
    values = _object(document, source, _DOCUMENT)
    if not values.get("turns"):
        raise UsageError(f"{source}: has no turns.", hint='Write {"turns": [{"text": "..."}]}.')
    return values["turns"]  # type: ignore[no-any-return]  # made by _turns


# --- checks: (value, place) → what a Record takes ---------------------------------------------------------------------

_Check: TypeAlias = Callable[[Any, str], Any]


def _object(value: Any, place: str, checks: Mapping[str, _Check]) -> JsonObject:
    if not isinstance(value, dict):
        raise _fault(place, value, "an object")
    for key in value:
        if key not in checks:
            raise UsageError(f"{place}: unknown key {key!r}.", hint=did_you_mean(key, checks))
    joint = ": " if checks is _DOCUMENT else "."
    return {key: checks[key](item, f"{place}{joint}{key}") for key, item in value.items()}


def _fault(place: str, value: Any, wanted: str) -> UsageError:
    return UsageError(f"{place} is {_shown(value)}, not {wanted}.")


def _shown(value: Any) -> str:
    text = dumps(value).decode()
    return text if len(text) <= 80 else f"{text[:80]}…"


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _fault(place, value, "text")
    return value


def _name(value: Any, place: str) -> str:
    if not _text(value, place):
        raise _fault(place, value, "a name")
    return str(value)


def _one_of(words: tuple[str, ...]) -> _Check:
    def check(value: Any, place: str) -> str:
        if _text(value, place) not in words:
            raise UsageError(f"{place} is {value!r}.", hint=did_you_mean(value, words))
        return str(value)

    return check


def _number(least: float, most: float) -> _Check:
    def check(value: Any, place: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise _fault(place, value, f"a number from {least:g} to {most:g}")
        return value

    return check


def _whole(least: int) -> _Check:
    def check(value: Any, place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise _fault(place, value, f"a whole number from {least}")
        return value

    return check


def _repeat(value: Any, place: str) -> int:
    if value == FOREVER and not isinstance(value, (bool, float)):
        return FOREVER
    return int(_whole(1)(value, f"{place} (or {FOREVER} for no end)"))


def _pattern(value: Any, place: str) -> str:
    if len(_text(value, place)) > _PATTERN_LIMIT:
        raise UsageError(f"{place} has more than {_PATTERN_LIMIT:,} characters.")
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{place} is no pattern: {value!r}: {error}.") from None
    return str(value)


def _arguments(value: Any, place: str) -> str:
    if not isinstance(value, dict):
        raise UsageError(f"{place} is {_shown(value)}, not an object.", hint="raw_args takes broken arguments as text.")
    return dumps(value).decode()


def _call(value: Any, place: str) -> ScriptCall:
    fields = _object(value, place, {"name": _name, "args": _arguments, "raw_args": _text, "id": _name})
    if "name" not in fields:
        raise UsageError(f"{place} has no name.")
    if "args" in fields and "raw_args" in fields:
        raise UsageError(f"{place} has both args and raw_args.")
    arguments = fields["args"] if "args" in fields else fields.get("raw_args", "{}")
    return ScriptCall(name=fields["name"], arguments=arguments, id=fields.get("id"))


def _failure(value: Any, place: str) -> ScriptFailure:
    fields = _object(value, place, {"kind": _one_of(tuple(FAILURES)), "message": _text})
    if "kind" not in fields:
        raise UsageError(f"{place} has no kind.", hint=f"Kinds: {', '.join(FAILURES)}.")
    return ScriptFailure(kind=fields["kind"], message=fields.get("message") or f"scripted failure: {fields['kind']}")


def _usage(value: Any, place: str) -> Usage:
    return Usage(**_object(value, place, dict.fromkeys(Usage.fields, _whole(0))))


def _list(check: _Check) -> _Check:
    def check_all(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _fault(place, value, "a list")
        return tuple(check(item, f"{place}[{number}]") for number, item in enumerate(value))

    return check_all


def _turn(value: Any, place: str) -> ScriptTurn:
    fields = _object(value, place, _TURN)
    if not fields.keys() & {"text", "reasoning", "tool_calls", "error"}:
        raise UsageError(f"{place} says nothing.", hint="Give it text, reasoning, tool_calls or error.")
    if "error" in fields:
        fields["failure"] = fields.pop("error")
    return ScriptTurn(**fields)


_TURN: Mapping[str, _Check] = {
    "text": _text,
    "reasoning": _text,
    "tool_calls": _list(_call),
    "stop": _one_of(STOPS),
    "usage": _usage,
    "match": _pattern,
    "repeat": _repeat,
    "error": _failure,
    "delay_s": _number(0, _DELAY_LIMIT_S),
    "delta": _whole(1),
}
_DOCUMENT: Mapping[str, _Check] = {"turns": _list(_turn)}
