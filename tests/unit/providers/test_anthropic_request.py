"""The Messages format, writing: bodies compared whole, checked against the SDK's types, legal for any history."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from agentctl.core.codec import dumps, message_to_dict
from agentctl.core.types import JsonObject, Message
from agentctl.providers.adapter import Healing
from agentctl.providers.anthropic_messages import AnthropicMessages
from tests.unit.providers.typed_events import (
    READ,
    any_history,
    body_of,
    case_id,
    decode,
    decoder_for,
    endpoint,
    named,
    request,
    rows,
    sse,
)

ADAPTER = AnthropicMessages()
REQUESTS = rows("wire_anthropic.jsonl", "history")
MARK = {"type": "ephemeral"}
LEVELS = ("off", "medium")
HEALED = (Healing(), Healing(drops_reasoning=True), Healing(swaps_thinking=True), Healing(strips_images=True))


@pytest.mark.parametrize("row", REQUESTS, ids=case_id)
def test_bodies(row: JsonObject) -> None:
    body = body_of(ADAPTER, row)
    assert named(body, row["expected"]) == row["expected"]
    if "headers" in row:
        assert ADAPTER.headers(endpoint("anthropic-messages", row)) == row["headers"]
    if "images" in row:
        assert str(body["messages"]).count("'type': 'image'") == row["images"]


def test_a_whole_body() -> None:
    row: JsonObject = {"history": [{"role": "user", "parts": [{"part": "text", "text": "q"}]}], "state": "S"}
    row["options"] = {"think": "low"}
    body = body_of(ADAPTER, row)
    assert body == {
        "model": "m",
        "max_tokens": 32_000,
        "system": [
            {"type": "text", "text": "be good", "cache_control": MARK},
            {"type": "text", "text": "memory"},
        ],
        "tools": [
            {
                "name": "read_file",
                "description": "Reads a file.",
                "input_schema": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                    "required": ["path"],
                },
            }
        ],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "q", "cache_control": MARK}, {"type": "text", "text": "S"}],
            }
        ],
        "thinking": {"type": "enabled", "budget_tokens": 6_400},
        "stream": True,
    }
    assert dumps(body) == dumps(body_of(ADAPTER, row))


def test_no_key_no_header() -> None:
    bare = endpoint("anthropic-messages", {}).replace(key=None)
    assert ADAPTER.headers(bare) == {"anthropic-version": "2023-06-01"}


def test_a_tool_that_cannot_be_sent_is_left_out() -> None:
    odd = READ.replace(name="odd", parameters={"type": "object", "properties": {"a b": {}}})
    row: JsonObject = {"tools": (READ, odd)}
    assert [tool["name"] for tool in body_of(ADAPTER, row)["tools"]] == ["read_file"]


def _step(number: int) -> list[JsonObject]:
    """The messages that a step with two calls adds: the answer as it was streamed, and its results."""
    ids = (f"u{number}a", f"u{number}b")
    events: list[JsonObject] = [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "signature": "S"}},
        {"type": "content_block_stop", "index": 0},
    ]
    for index, call_id in enumerate(ids, 1):
        block = {"type": "tool_use", "id": call_id, "name": "read_file", "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    events += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
    answer = decode(decoder_for(ADAPTER, {"options": {"think": "medium"}}), sse(events))[1].message
    results = [{"part": "answer", "call_id": call_id, "name": "read_file", "content": "v"} for call_id in ids]
    return [message_to_dict(answer), {"role": "tool", "parts": results}]


def _unmarked(blocks: list[JsonObject]) -> list[JsonObject]:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


def test_each_step_marks_where_the_step_before_did() -> None:
    """Prefixes keep their bytes, and what was the last mark of a step carries a mark in the next one too."""
    history: list[JsonObject] = [{"role": "user", "parts": [{"part": "text", "text": "q"}]}]
    before: JsonObject | None = None
    for number in range(5):
        row = {"history": history, "state": f"state {number}", "options": {"think": "medium"}}
        body = body_of(ADAPTER, row)
        last = body["messages"][-1]["content"]
        assert (last[-1], last[-2]["cache_control"]) == ({"type": "text", "text": f"state {number}"}, MARK)
        assert dumps(body).count(b"cache_control") == min(3, 2 + number)
        if before is not None:
            assert {**before, "messages": None} == {**body, "messages": None}
            old, kept = before["messages"], body["messages"][: len(before["messages"])]
            old[-1]["content"].pop()
            assert [_unmarked(message["content"]) for message in old] == [_unmarked(m["content"]) for m in kept]
            assert kept[-1]["content"][-1]["cache_control"] == MARK
        before = body
        history = [*history, *_step(number)]


# --- against the SDK's own types ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sdk_body() -> Any:
    """Checks one body; the SDK's `Iterable` members are validated only when they are read, so they are read here."""
    from anthropic.types import MessageParam, TextBlockParam, ThinkingConfigParam, ToolParam
    from pydantic import TypeAdapter

    message, thinking = TypeAdapter(MessageParam), TypeAdapter(ThinkingConfigParam)
    text, tool = TypeAdapter(TextBlockParam), TypeAdapter(ToolParam)

    def check(body: JsonObject) -> None:
        for item in body["messages"]:
            content = message.validate_python(item)["content"]
            assert content if isinstance(content, str) else [*content]
        for block in body["system"] if isinstance(body["system"], list) else ():
            text.validate_python(block)
        for item in body["tools"]:
            tool.validate_python(item)
        if "thinking" in body:
            thinking.validate_python(body["thinking"])

    return check


@pytest.mark.parametrize("row", REQUESTS, ids=case_id)
def test_bodies_fit_the_sdk(row: JsonObject, sdk_body: Any) -> None:
    sdk_body(body_of(ADAPTER, row))


# --- any history --------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(history=any_history("anthropic-messages"))
def test_any_history_is_a_legal_request(history: tuple[Message, ...]) -> None:
    for heal in HEALED:
        for level in LEVELS:
            plain = request("anthropic-messages", {"state": "S", "options": {"think": level}}, *history)
            body = ADAPTER.to_wire(plain, endpoint("anthropic-messages", {}), heal)
            assert dumps(body) == dumps(ADAPTER.to_wire(plain, endpoint("anthropic-messages", {}), heal))
            _assert_legal(body)


def _assert_legal(body: JsonObject) -> None:
    messages = body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"]
    assert dumps(body).count(b"cache_control") <= 4
    used: set[str] = set()
    for place, message in enumerate(messages):
        blocks = message["content"]
        kinds = [block["type"] for block in blocks]
        assert kinds
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert len({*calls, *used}) == len(calls) + len(used)
        used.update(calls)
        if message["role"] == "assistant":
            assert kinds[-1] not in ("thinking", "redacted_thinking")
            led = [block.get("tool_use_id") for block in messages[place + 1]["content"][: len(calls)]]
            assert led == calls
        else:
            results = kinds.count("tool_result")
            assert kinds[:results] == ["tool_result"] * results
            before = messages[place - 1]["content"] if place else []
            assert results == sum(block["type"] == "tool_use" for block in before)
        assert all(0 < len(call_id) <= 64 and call_id.isascii() for call_id in calls)
    budget = body.get("thinking", {}).get("budget_tokens", 0)
    assert body["max_tokens"] > budget
