"""bytes ⇄ Message and Event. The one place that knows how our values look as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agentctl.core.events import Stamped
from agentctl.core.record import Record, as_dict
from agentctl.core.text import clean
from agentctl.core.types import (
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Price,
    PriceTier,
    Reasoning,
    Text,
    ToolAnswer,
    ToolCall,
    Usage,
)

_PARTS: dict[str, type[Record]] = {
    "text": Text,
    "reasoning": Reasoning,
    "image": Image,
    "call": ToolCall,
    "answer": ToolAnswer,
}
_NAMES = {kind: name for name, kind in _PARTS.items()}
_LINE_BREAKS = tuple((char.encode(), f"\\u{ord(char):04x}".encode()) for char in "\x85\u2028\u2029")
"""Line breaks for some readers (str.splitlines, old JavaScript), so they leave as escapes."""
_LOG_COMMAND = (b"##[", b"##\\u005b")
"""Obeyed by GitHub's runner wherever it stands in a line of a log."""


def scrub(value: Any) -> Any:
    """The same JSON value with every lone surrogate replaced and NaN and infinity as null."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): scrub(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value


def dumps(value: object, *, indent: bool = False) -> bytes:
    """JSON in UTF-8 without a newline. Takes Records, lone surrogates and integers beyond 64 bits."""
    try:
        data = orjson.dumps(value, _plain, orjson.OPT_INDENT_2 if indent else 0)
    except TypeError:
        data = _dumps_odd(value, indent=indent)
    for sign, escape in (*_LINE_BREAKS, _LOG_COMMAND):
        if sign in data:
            data = data.replace(sign, escape)
    return data


def _dumps_odd(value: object, *, indent: bool) -> bytes:
    """For lone surrogates, keys that are no text and integers beyond 64 bits, which orjson refuses."""
    import json

    layout: JsonObject = {"indent": 2} if indent else {"separators": (",", ":")}
    return json.dumps(scrub(as_dict(value)), ensure_ascii=False, allow_nan=False, **layout).encode()


def _plain(value: object) -> Any:
    """What orjson does not know by itself; it asks again for what is inside."""
    if isinstance(value, Record):
        return {name: value.__dict__[name] for name in value.fields}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def loads(data: bytes | str) -> Any:
    """JSON text to a value. Raises ValueError."""
    return orjson.loads(data)


def encode_event(stamped: Stamped) -> bytes:
    """One line of the JSON-lines stream, with its newline."""
    event = stamped.event
    row: JsonObject = {
        "type": stamped.event.type,
        "seq": stamped.seq,
        "time": stamped.time,
        "session": stamped.session,
        "turn": stamped.turn,
        "step": stamped.step,
    }
    if stamped.subagent is not None:
        row["subagent"] = stamped.subagent
    row.update({name: event.__dict__[name] for name in event.fields})
    return dumps(row) + b"\n"


def message_to_dict(message: Message) -> JsonObject:
    """A message as it stands in the journal."""
    row: JsonObject = {
        "role": message.role,
        "parts": [{"part": _NAMES[type(part)], **as_dict(part)} for part in message.parts],
    }
    if message.opaque:
        row["opaque"] = as_dict(message.opaque)
    return row


def message_from_dict(row: JsonObject) -> Message:
    """Back from the journal. Raises KeyError, TypeError or ValueError when the row is not a message."""
    opaque = row.get("opaque")
    parts = tuple(map(_part, row["parts"]))
    return Message.from_fields({"role": row["role"], "parts": parts, "opaque": Opaque(**opaque) if opaque else None})


def _part(row: JsonObject) -> Part:
    values = dict(row)
    kind = _PARTS[values.pop("part")]
    if values.get("opaque"):
        values["opaque"] = Opaque(**values["opaque"])
    if "images" in values:
        values["images"] = tuple(Image(**image) for image in values["images"])
    return kind.from_fields(values)  # type: ignore[return-value]  # _PARTS holds exactly the members of Part


def price_from_dict(row: JsonObject) -> Price:
    """A price as `as_dict` writes it."""
    return Price(**{**row, "tiers": tuple(PriceTier(**tier) for tier in row.get("tiers", ()))})


def usage_from_dict(row: JsonObject) -> Usage:
    return Usage(**{name: int(row.get(name, 0)) for name in Usage.fields})
