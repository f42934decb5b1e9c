"""What every wire format asks for, on neutral messages: ids, names, schemas, pairs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core.types import Image, Message, Opaque, Reasoning, Text, ToolAnswer, ToolCall, ToolSpec
from agentctl.providers.wire_common import (
    INTERRUPTED,
    joined_roles,
    legal_history,
    legal_ids,
    local_id,
    own_data,
    paired,
    tidy,
    wire_name,
    wire_names,
    wire_schema,
    with_state,
    without_images,
)


def user(*texts: str) -> Message:
    return Message(role="user", parts=tuple(Text(text=text) for text in texts))


def says(*parts: Any) -> Message:
    return Message(role="assistant", parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def call(call_id: str, name: str = "f", arguments: str = "{}") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def answers(*rows: tuple[str, str]) -> Message:
    return Message(role="tool", parts=tuple(answer(*row) for row in rows))


def answer(call_id: str, content: str, *, is_error: bool = False) -> ToolAnswer:
    return ToolAnswer(call_id=call_id, name="f", content=content, is_error=is_error)


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="d", parameters={}, effect="read", set="core", subjects=lambda args: ())


# --- ids --------------------------------------------------------------------------------------------------------------

RULES = {
    "openai": r"[A-Za-z0-9_-]{1,40}",
    "responses": r"[A-Za-z0-9_-]{1,64}",
    "anthropic": r"[A-Za-z0-9_-]{1,64}",
    "mistral": r"[A-Za-z0-9]{9}",
}


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(st.text(max_size=70) | st.sampled_from(["k1", "abcdefgh1"]), max_size=12),
    rule=st.sampled_from(sorted(RULES)),
)
def test_ids_are_legal_unique_and_settled_by_what_came_before(ids: list[str], rule: str) -> None:
    history = [says(call(call_id)) for call_id in ids]
    mapped = legal_ids(history, rule)
    assert mapped.keys() == set(ids)
    assert len(set(mapped.values())) == len(mapped)
    assert all(re.fullmatch(RULES[rule], target) for target in mapped.values())
    begun = legal_ids(history[: len(history) // 2], rule)
    assert begun == {call_id: mapped[call_id] for call_id in begun}


def test_a_legal_id_stays_unless_an_earlier_one_took_it() -> None:
    taken = legal_ids([says(call("bad id"))], "openai")["bad id"]
    mapped = legal_ids([says(call("bad id")), answers(("bad id", "x")), says(call("k1"), call(taken))], "openai")
    assert mapped["k1"] == "k1"
    assert mapped["bad id"] == taken
    assert mapped[taken] not in (taken, "k1")


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


# --- histories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "legal"),
    [
        pytest.param(
            [user("q"), says(call("1"), call("2")), answers(("1", "a"), ("2", "b"))],
            [user("q"), says(call("1"), call("2")), answers(("1", "a"), ("2", "b"))],
            id="whole",
        ),
        pytest.param(
            [says(call("1"), call("2")), answers(("2", "b")), answers(("1", "a"))],
            [says(call("1"), call("2")), answers(("1", "a"), ("2", "b"))],
            id="order-of-the-calls-in-one-message",
        ),
        pytest.param(
            [says(call("1")), user("stop")],
            [says(call("1")), Message(role="tool", parts=(answer("1", INTERRUPTED, is_error=True),)), user("stop")],
            id="never-answered",
        ),
        pytest.param(
            [says(call("1")), user("wait"), answers(("1", "late"))],
            [says(call("1")), answers(("1", "late")), user("wait")],
            id="late",
        ),
        pytest.param(
            [answers(("9", "lost")), says(call("1")), answers(("1", "a"), ("1", "again"))],
            [
                user("[earlier result of f]\nlost"),
                says(call("1")),
                answers(("1", "a")),
                user("[earlier result of f]\nagain"),
            ],
            id="orphans",
        ),
    ],
)
def test_paired(history: list[Message], legal: list[Message]) -> None:
    assert paired(history) == tuple(legal)


def test_ids_that_come_again_are_told_apart() -> None:
    history = [says(call("0")), user("stop"), says(call("0"), call("0")), answers(("0", "a"), ("0", "b"))]
    first, lost, _, second, found = paired(history)
    assert first == says(call("0"))
    assert lost == Message(role="tool", parts=(answer("0", INTERRUPTED, is_error=True),))
    ids = [part.id for part in second.calls]
    assert len({"0", *ids}) == 3
    assert found == answers((ids[0], "a"), (ids[1], "b"))


def test_tidy() -> None:
    thought = Reasoning(text="r\ud83d")
    history = [
        user("a", " ", "b\ud83d"),
        user("\n"),
        says(thought, call("1", "f", '"\ud83d"')),
        answers(("1", "\ud83d")),
    ]
    assert tidy(history) == (
        user("a", "b�"),
        says(Reasoning(text="r�"), call("1", "f", '"�"')),
        answers(("1", "�")),
    )


@pytest.mark.parametrize(
    ("history", "legal"),
    [
        ([], [user("Continue.")]),
        ([says("hi")], [user("Continue."), says("hi"), user("Continue.")]),
        ([user("q")], [user("q")]),
    ],
)
def test_a_history_begins_with_the_user_and_does_not_end_with_the_assistant(
    history: list[Message], legal: list[Message]
) -> None:
    assert legal_history(history) == tuple(legal)


def test_joined_roles() -> None:
    history = [user("a"), user("b"), says("x"), says("y", "z"), says(call("1")), answers(("1", "r")), user("c")]
    assert joined_roles(history) == (
        user("a", "b"),
        says("x", "\n\ny", "z", call("1")),
        answers(("1", "r")),
        user("c"),
    )


def test_state_stands_at_the_very_end() -> None:
    assert with_state([user("a"), user("b")], "s") == (user("a"), user("b", "s"))
    assert with_state([answers(("1", "a"), ("2", "b"))], "s\ud83d") == (answers(("1", "a"), ("2", "b\n\ns�")),)
    assert with_state([answers(("1", ""))], "s") == (answers(("1", "s")),)
    assert with_state([user("a")], " ") == (user("a"),)
    assert with_state([], "s") == ()


def test_without_images() -> None:
    image = Image(media_type="image/png", data="AAAA")
    note = "[image left out: image/png]"
    history = [
        Message(role="user", parts=(image,)),
        Message(role="tool", parts=(answer("1", "x").replace(images=(image,)),)),
    ]
    assert without_images([*history, user("a")]) == (user(note), answers(("1", f"x\n{note}")), user("a"))


def test_opaque_data_is_only_for_its_maker() -> None:
    opaque = Opaque(provider="u", api="openai-chat", model="m", data={"a": 1})
    assert own_data(opaque, "u", "openai-chat", "m") == {"a": 1}
    assert own_data(opaque, "v", "openai-chat", "m") is None
    assert own_data(opaque, "u", "openai-responses", "m") is None
    assert own_data(opaque, "u", "openai-chat", "n") is None
    assert own_data(None, "u", "openai-chat", "m") is None
