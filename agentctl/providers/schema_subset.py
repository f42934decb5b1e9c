"""JSON Schema of tool parameters, reduced to what the services take.

One tool with an unusual schema makes a service refuse the whole request, so the schema on the wire is loosened; what
is lost here is still checked locally when the call comes.
"""

from __future__ import annotations

from typing import Any

from agentctl.core.types import JsonObject

_TYPES = ("object", "string", "number", "integer", "boolean", "array", "null")
_COMBINATORS = ("allOf", "anyOf", "oneOf")
_ROOT_FORBIDDEN = (*_COMBINATORS, "enum", "not", "const", "if", "then", "else", "$ref", "$schema", "$id", "$comment")
_SUBSCHEMAS = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_SUBSCHEMA_LISTS = (*_COMBINATORS, "prefixItems")
_SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_GEMINI_KEYS = frozenset(
    (
        *("type", "description", "properties", "required", "items", "enum", "format", "nullable", "anyOf"),
        *("minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern"),
    )
)
_GEMINI_FORMATS = ("enum", "date-time")
_KEY_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_DEPTH = 24
_NODES = 4_000
"""References can make a small schema endless; past this many nodes the rest is left open."""


def wire_schema(parameters: JsonObject, rule: str) -> JsonObject | None:
    """The schema as it goes on the wire: an object with properties and required, no combinator at its root.

    `rule` is a Profile.schema_rule: openai, anthropic or gemini. None when the tool cannot be sent: its root is no
    object, or a property has a name that the service refuses. The input is never changed.
    """
    root = _Root(parameters or {}).flat()
    if root is None:
        return None
    schema = _Gemini(root, parameters or {}).schema() if rule == "gemini" else _node(root, 0)
    properties = schema.get("properties", {})
    if rule == "anthropic" and not all(_is_legal_key(name) for name in properties):
        return None
    kept = {
        key: value for key, value in schema.items() if key not in (*_ROOT_FORBIDDEN, "type", "properties", "required")
    }
    return {"type": "object", "properties": properties, "required": schema.get("required", []), **kept}


def _is_legal_key(name: str) -> bool:
    return 0 < len(name) <= 64 and _KEY_CHARS.issuperset(name)


# --- the root -----------------------------------------------------------------------------------------------------


class _Root:
    """Folds $ref and combinators of the root into its properties and required."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._nodes = 0

    def flat(self) -> JsonObject | None:
        """None when the root is no object."""
        return self._flat(self._schema, 0)

    def _flat(self, node: Any, depth: int) -> JsonObject | None:
        self._nodes += 1
        if not isinstance(node, dict) or depth > _DEPTH or self._nodes > _NODES:
            return None
        if "$ref" in node:
            target = _resolved(node["$ref"], self._schema)
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return None if target is None else self._flat({**target, **rest}, depth + 1)
        kind = node.get("type", "object")
        if kind != "object" and not (isinstance(kind, list) and "object" in kind):
            return None
        flat: JsonObject = {**node, "type": "object"}
        flat["properties"] = dict(node["properties"]) if isinstance(node.get("properties"), dict) else {}
        flat["required"] = _names(node.get("required"))
        for word in _COMBINATORS:
            variants = node.get(word)
            if isinstance(variants, list) and variants and not self._fold(flat, word, variants, depth):
                return None
            flat.pop(word, None)
        return flat

    def _fold(self, flat: JsonObject, word: str, variants: list[Any], depth: int) -> bool:
        """Properties of all variants join; required is what every variant requires (allOf: what any requires)."""
        folded = [item for item in (self._flat(variant, depth + 1) for variant in variants) if item is not None]
        if not folded or (word == "allOf" and len(folded) < len(variants)):
            return False
        for item in folded:
            for name, schema in item["properties"].items():
                flat["properties"].setdefault(name, schema)
        names = [name for item in folded for name in item["required"]]
        if word != "allOf":
            names = [name for name in names if all(name in item["required"] for item in folded)]
        flat["required"] = list(dict.fromkeys((*flat["required"], *names)))
        if all(item.get("additionalProperties") is False for item in folded):
            flat.setdefault("additionalProperties", False)
        return True


def _resolved(ref: Any, root: JsonObject) -> JsonObject | None:
    """The target of a reference inside this schema; references to elsewhere are never fetched."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    target: Any = root
    for step in ref[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if isinstance(target, dict) else None
    return target if isinstance(target, dict) else None


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


# --- below the root -----------------------------------------------------------------------------------------------


def _node(node: Any, depth: int) -> Any:
    """A schema that every strict validator takes: known types, arrays with items, lists and maps where they belong."""
    if not isinstance(node, dict):
        return node if isinstance(node, bool) else {}
    if depth > _DEPTH:
        return {}
    read = ((key, _keyword(key, value, depth + 1)) for key, value in node.items())
    kept = {key: value for key, value in read if value is not None}
    if kept.get("type") == "array" and "items" not in kept and "prefixItems" not in kept:
        kept["items"] = {}
    if kept.get("additionalProperties") is False and "properties" in kept:
        kept.setdefault("required", [])
    return kept


def _keyword(key: str, value: Any, depth: int) -> Any:
    """The value of one keyword, None when it makes no sense there."""
    if key in _SUBSCHEMA_MAPS:
        return {name: _node(item, depth) for name, item in value.items()} if isinstance(value, dict) else None
    if key in _SUBSCHEMA_LISTS:
        return [_node(item, depth) for item in value] if isinstance(value, list) and value else None
    if key in _SUBSCHEMAS:
        return _node(value, depth)
    if key == "required":
        return _names(value)
    return _type(value) if key == "type" else value


def _type(value: Any) -> Any:
    if isinstance(value, list):
        known = [item for item in value if item in _TYPES]
        return (known[0] if len(known) == 1 else known) or None
    return value if value in _TYPES else None


class _Gemini:
    """The OpenAPI subset: references inlined, one type, no empty enum values, nothing unknown."""

    def __init__(self, root: JsonObject, schema: JsonObject) -> None:
        self._flat = root
        self._schema = schema
        """Where references point to."""
        self._nodes = 0

    def schema(self) -> JsonObject:
        return self._node(self._flat, 0, ())

    def _node(self, node: Any, depth: int, refs: tuple[str, ...]) -> JsonObject:
        self._nodes += 1
        if not isinstance(node, dict) or depth > _DEPTH or self._nodes > _NODES:
            return {"type": "string"}
        if "$ref" in node:
            return self._inlined(node, depth, refs)
        node = _spelt_out(node)
        variants = [item for word in ("anyOf", "oneOf") for item in _list(node.get(word)) if isinstance(item, dict)]
        kept = {key: value for key, value in node.items() if key in _GEMINI_KEYS and key != "anyOf"}
        _one_type(kept, variants)
        _gemini_values(kept)
        real = [item for item in variants if item.get("type") != "null"]
        if len(real) == 1:
            return {**self._node(real[0], depth + 1, refs), **kept}
        if real:
            kept["anyOf"] = [self._node(item, depth + 1, refs) for item in real]
        self._children(kept, depth, refs)
        return kept

    def _inlined(self, node: JsonObject, depth: int, refs: tuple[str, ...]) -> JsonObject:
        """A reference that is being inlined already would never end; there any object may stand."""
        ref, rest = str(node["$ref"]), {key: value for key, value in node.items() if key != "$ref"}
        target = _resolved(ref, self._schema)
        if target is None or ref in refs:
            return self._node({"type": "object", **rest} if target is not None else rest, depth + 1, refs)
        return self._node({**target, **rest}, depth + 1, (*refs, ref))

    def _children(self, kept: JsonObject, depth: int, refs: tuple[str, ...]) -> None:
        properties, required = kept.pop("properties", None), _names(kept.pop("required", None))
        if isinstance(properties, dict):
            kept["properties"] = {name: self._node(item, depth + 1, refs) for name, item in properties.items()}
            kept["required"] = [name for name in required if name in properties]
        if kept.get("type") == "array" or "items" in kept:
            kept["items"] = self._node(kept.get("items"), depth + 1, refs)


def _spelt_out(node: JsonObject) -> JsonObject:
    """Without the words for which the subset has others: const and allOf."""
    node = {"enum": [node["const"]], **node} if "const" in node else node
    for item in _list(node.get("allOf")):
        node = {**item, **node} if isinstance(item, dict) else node
    return node


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _one_type(kept: JsonObject, variants: list[JsonObject]) -> None:
    kinds = kept.pop("type", None)
    known = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind in _TYPES]
    if "null" in known or any(item.get("type") == "null" for item in variants):
        kept["nullable"] = True
    real = [kind for kind in known if kind != "null"]
    if real:
        kept["type"] = real[0]
    elif not variants:
        kept["type"] = "object" if isinstance(kept.get("properties"), dict) else "string"


def _gemini_values(kept: JsonObject) -> None:
    values = kept.pop("enum", None)
    if isinstance(values, list) and kept.get("type", "string") == "string":
        named = [value for value in values if isinstance(value, str) and value]
        if named:
            kept["enum"] = named
    if kept.get("format") not in (None, *_GEMINI_FORMATS):
        del kept["format"]
