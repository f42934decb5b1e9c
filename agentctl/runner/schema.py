"""JSON Schema of what a run says, made from the event types themselves; only `agentctl schema` and tests need it."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentctl.core.events import EVENTS, SCHEMA_VERSION, Done, Event
from agentctl.core.record import Record
from agentctl.core.types import JsonObject

_ENVELOPE: JsonObject = {
    "seq": {"type": "integer", "minimum": 1},
    "time": {"type": "string", "format": "date-time"},
    "session": {"type": ["string", "null"]},
    "turn": {"type": "integer", "minimum": 1},
    "step": {"type": "integer", "minimum": 0},
    "subagent": {"type": "string"},
}
_ALWAYS = ["type", "seq", "time", "session", "turn", "step"]
_PLAIN: dict[object, JsonObject] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def events_schema() -> JsonObject:
    """One line of the stream: exactly one of the known events. Further fields may appear in later versions."""
    definitions: JsonObject = {}
    rows = [_event(kind, definitions) for kind in EVENTS]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agentctl event",
        "description": f"One line of `agentctl --json`, schema version {SCHEMA_VERSION}.",
        "oneOf": rows,
        "$defs": definitions,
    }


def done_schema() -> JsonObject:
    """The last line, and the whole of stdout with --format json."""
    definitions: JsonObject = {}
    row = _event(Done, definitions)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **row, "$defs": definitions}


def _event(kind: type[Event], definitions: JsonObject) -> JsonObject:
    properties = {"type": {"const": kind.type}, **_ENVELOPE, **_properties(kind, definitions)}
    return {
        "title": kind.type,
        "description": (kind.__doc__ or "").strip().split("\n\n")[0].replace("\n", " "),
        "type": "object",
        "properties": properties,
        "required": [*_ALWAYS, *kind.fields],
    }


def _properties(kind: type[Record], definitions: JsonObject) -> JsonObject:
    hints = get_type_hints(kind)
    return {name: _schema(hints[name], definitions) for name in kind.fields}


def _schema(hint: Any, definitions: JsonObject) -> JsonObject:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(item, definitions) for item in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    return _reference(hint, definitions)


def _reference(kind: type[Record], definitions: JsonObject) -> JsonObject:
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # known from here on, should a type hold itself
        definitions[name] = {
            "type": "object",
            "properties": _properties(kind, definitions),
            "required": list(kind.fields),
        }
    return {"$ref": f"#/$defs/{name}"}
