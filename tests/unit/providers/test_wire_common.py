"""What every wire format asks for, on neutral messages: ids, names, schemas, pairs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core.types import Opaque, ToolSpec
from agentctl.providers.wire_common import (
    local_id,
    own_data,
    wire_name,
    wire_names,
    wire_schema,
)


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="d", parameters={}, effect="read", set="core", subjects=lambda args: ())


# --- ids --------------------------------------------------------------------------------------------------------------


def test_local_ids_are_deterministic_and_new() -> None:
    first, second = set[str](), {local_id(set(), "r", "f", "0")}
    assert local_id(first, "r", "f", "0") in second
    assert local_id(second, "r", "f", "0") not in first
    assert len(second) == 2


# --- names ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(names=st.sets(st.text(max_size=80) | st.sampled_from(["a.b", "a/b", "a_b", "", "x" * 70, "x" * 71]), max_size=8))
def test_names_are_legal_and_reversible(names: set[str]) -> None:
    to_wire, back = wire_names(map(spec, sorted(names)))
    assert to_wire.keys() == names
    assert {back[to_wire[name]] for name in names} == names
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire) for wire in back)
    assert to_wire == wire_names(map(spec, sorted(names, reverse=True)))[0]


def test_legal_names_stay_and_others_make_way() -> None:
    to_wire, _ = wire_names([spec("a.b"), spec("a_b"), spec("c d")])
    assert (to_wire["a_b"], to_wire["c d"]) == ("a_b", "c_d")
    assert to_wire["a.b"].startswith("a_b_")
    assert wire_name("gone.tool", to_wire) == "gone_tool"


# --- schemas ----------------------------------------------------------------------------------------------------------

EMPTY = {"type": "object", "properties": {}, "required": []}
A = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("rule", "schema", "wire"),
    [
        ("openai", {}, EMPTY),
        ("openai", {"type": "object"}, EMPTY),
        ("openai", {"type": ["object", "null"]}, EMPTY),
        ("openai", {"type": "string"}, None),
        ("openai", {"type": "array", "items": {}}, None),
        ("openai", {"anyOf": [{"type": "string"}, {"type": "number"}]}, None),
        ("openai", {"$ref": "https://example.org/x.json"}, None),
        ("openai", {"$ref": "#/$defs/T", "$defs": {"T": A}}, {**A, "$defs": {"T": A}}),
        ("openai", {"$ref": "#"}, None),
        ("openai", {"oneOf": [A, {"type": "string"}]}, A),
        (
            "openai",
            {"allOf": [A, {"properties": {"b": {}}, "required": ["b"]}]},
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]},
        ),
        (
            "openai",
            {"oneOf": [A, {**A, "properties": {"a": {"type": "string"}, "b": {}}}]},
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
        ),
        ("openai", {**EMPTY, "$schema": "x", "not": {}, "title": "t"}, {**EMPTY, "title": "t"}),
        (
            "openai",
            {"properties": {"x": {"type": "array"}, "y": {"type": "any"}, "z": {"properties": 5, "required": "q"}}},
            {
                "type": "object",
                "properties": {"x": {"type": "array", "items": {}}, "y": {}, "z": {"required": []}},
                "required": [],
            },
        ),
        (
            "anthropic",
            {"properties": {"a.b-c_1": {}}},
            {"type": "object", "properties": {"a.b-c_1": {}}, "required": []},
        ),
        ("anthropic", {"properties": {"a b": {}}}, None),
        ("anthropic", {"properties": {"x" * 65: {}}}, None),
        (
            "gemini",
            {
                "additionalProperties": False,
                "properties": {"a": {"const": "x"}, "b": {"type": ["integer", "null"]}},
                "required": ["a", "gone"],
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string", "enum": ["x"]}, "b": {"nullable": True, "type": "integer"}},
                "required": ["a"],
            },
        ),
        (
            "gemini",
            {"properties": {"a": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"type": "array", "items": {"format": "uri"}}}},
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}, "required": []},
        ),
        (
            "gemini",
            {"properties": {"a": {"anyOf": [{"type": "string", "enum": ["", None]}, {"type": "null"}]}}},
            {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}, "required": []},
        ),
        (
            "gemini",
            {"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}},
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
                "required": [],
            },
        ),
    ],
)
def test_schema(rule: str, schema: dict[str, Any], wire: dict[str, Any] | None) -> None:
    before = repr(schema)
    assert wire_schema(schema, rule) == wire
    assert repr(schema) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "anyOf", "allOf", "items", "required", "enum", "$ref", "const", "a"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    schema=st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "allOf", "$ref", "x"]), JSON),
    rule=st.sampled_from(["openai", "anthropic", "gemini"]),
)
def test_any_schema_gives_an_object_or_nothing(schema: dict[str, Any], rule: str) -> None:
    wire = wire_schema(schema, rule)
    if wire is not None:
        assert wire["type"] == "object"
        assert isinstance(wire["properties"], dict)
        assert isinstance(wire["required"], list)
        assert not {"anyOf", "oneOf", "allOf", "$ref", "enum", "not"} & wire.keys()


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
    assert wire_schema(tree, "openai") == {**tree, "required": []}
    assert wire_schema(tree, "gemini") is not None


@pytest.mark.parametrize("rule", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("word", ["anyOf", "allOf", "oneOf", "properties"])
def test_a_hostile_schema_is_no_bomb(word: str, rule: str) -> None:
    """Each definition refers to the next one ten times over."""
    many: Any = [{"$ref": "#/$defs/{next}"}] * 10
    shape = {str(place): item for place, item in enumerate(many)} if word == "properties" else many
    defs = {str(place): json.loads(json.dumps({word: shape}).replace("{next}", str(place + 1))) for place in range(20)}
    assert len(json.dumps(wire_schema({"$ref": "#/$defs/0", "$defs": defs}, rule))) < 1_000_000


def test_opaque_data_is_only_for_its_maker() -> None:
    opaque = Opaque(provider="u", api="openai-chat", model="m", data={"a": 1})
    assert own_data(opaque, "u", "openai-chat", "m") == {"a": 1}
    assert own_data(opaque, "v", "openai-chat", "m") is None
    assert own_data(opaque, "u", "openai-responses", "m") is None
    assert own_data(opaque, "u", "openai-chat", "n") is None
    assert own_data(None, "u", "openai-chat", "m") is None
