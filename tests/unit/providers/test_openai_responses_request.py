"""The Responses format, writing: bodies compared whole, checked against the SDK's types, legal for any history."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from agentctl.core.codec import dumps, message_from_dict, message_to_dict
from agentctl.core.types import JsonObject, Message, Text
from agentctl.providers.adapter import Healing
from agentctl.providers.openai_responses import OpenAIResponses
from tests.unit.providers.typed_events import (
    READ,
    any_history,
    body_of,
    case_id,
    decode,
    decoder_for,
    endpoint,
    healing,
    named,
    request,
    rows,
    sse,
)

ADAPTER = OpenAIResponses()
REQUESTS = rows("wire_responses.jsonl", "history")
HEALED = (Healing(), Healing(drops_reasoning=True), Healing(strips_item_ids=True), Healing(strips_images=True))


@pytest.mark.parametrize("row", REQUESTS, ids=case_id)
def test_bodies(row: JsonObject) -> None:
    assert named(body_of(ADAPTER, row), row["expected"]) == row["expected"]


def test_a_whole_body() -> None:
    row: JsonObject = {"history": [{"role": "user", "parts": [{"part": "text", "text": "q"}]}]}
    row["options"] = {"think": "high", "cache_key": "abc", "max_output_tokens": 900}
    body = body_of(ADAPTER, row)
    assert body == {
        "model": "m",
        "instructions": "be good\n\nmemory",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]}],
        "tools": [
            {
                "type": "function",
                "name": "read_file",
                "description": "Reads a file.",
                "parameters": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                    "required": ["path"],
                },
                "strict": False,
            }
        ],
        "reasoning": {"effort": "high"},
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 900,
        "prompt_cache_key": "abc",
        "store": False,
        "stream": True,
    }
    assert dumps(body) == dumps(body_of(ADAPTER, row))


def test_headers() -> None:
    bare = endpoint("openai-responses", {"endpoint_headers": {"x-team": "t"}})
    assert ADAPTER.headers(bare) == {"authorization": "Bearer k", "x-team": "t"}
    assert ADAPTER.headers(bare.replace(key=None)) == {"x-team": "t"}


def test_a_tool_that_cannot_be_sent_is_left_out() -> None:
    odd = READ.replace(name="odd", parameters={"type": "string"})
    row: JsonObject = {"tools": (READ, odd)}
    assert [tool["name"] for tool in body_of(ADAPTER, row)["tools"]] == ["read_file"]


def test_the_prefix_of_a_growing_history_keeps_its_bytes() -> None:
    """What a step sends begins with what the step before sent, up to the state of that step."""
    call = {"type": "function_call", "call_id": "k1", "name": "read_file", "arguments": '{"path":"a"}'}
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "E"}
    done = [{"type": "response.output_item.done", "item": item} for item in (reasoning, call)]
    answer = decode(decoder_for(ADAPTER, {}), sse([*done, {"type": "response.completed", "response": {}}]))[1].message
    result = {"role": "tool", "parts": [{"part": "answer", "call_id": "k1", "name": "read_file", "content": "v"}]}
    history: list[JsonObject] = [{"role": "user", "parts": [{"part": "text", "text": "q"}]}]
    first = body_of(ADAPTER, {"history": history, "state": "one"})
    second = body_of(ADAPTER, {"history": [*history, message_to_dict(answer), result], "state": "two"})
    assert {**first, "input": None} == {**second, "input": None}
    assert first["input"][0]["content"][:-1] == second["input"][0]["content"]
    assert second["input"][1:3] == [reasoning, call]


# --- against the SDK's own types ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sdk_body() -> Any:
    """Checks one body. The SDK's types ask for id, status and annotations of output messages, the service does not."""
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
    from pydantic import TypeAdapter

    adapter = TypeAdapter(ResponseCreateParamsStreaming)

    def check(body: JsonObject) -> None:
        checked = adapter.validate_python({**body, "input": [_filled(item) for item in body["input"]]})
        for tool in checked.get("tools", ()):
            assert tool["type"] == "function"

    return check


def _filled(item: JsonObject) -> JsonObject:
    if item.get("role") != "assistant":
        return item
    content = [{**part, "annotations": []} for part in item["content"]]
    return {"id": "msg_1", "status": "completed", **item, "content": content}


@pytest.mark.parametrize("row", REQUESTS, ids=case_id)
def test_bodies_fit_the_sdk(row: JsonObject, sdk_body: Any) -> None:
    sdk_body(body_of(ADAPTER, row))


# --- any history --------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(history=any_history("openai-responses"))
def test_any_history_is_a_legal_request(history: tuple[Message, ...]) -> None:
    for heal in HEALED:
        plain = request("openai-responses", {"state": "S"}, *history)
        body = ADAPTER.to_wire(plain, endpoint("openai-responses", {}), heal)
        assert dumps(body) == dumps(ADAPTER.to_wire(plain, endpoint("openai-responses", {}), heal))
        dumps(body).decode()
        _assert_legal(body["input"])


def _assert_legal(items: list[JsonObject]) -> None:
    kinds = [item["type"] if item["type"] != "message" else item["role"] for item in items]
    assert kinds[0] == "user"
    assert kinds[-1] in ("user", "function_call_output")
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    outputs = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert len(set(calls)) == len(calls)
    assert sorted(calls) == sorted(outputs)
    assert all(0 < len(call_id) <= 64 and call_id.isascii() for call_id in calls)
    reasoning = [item["id"] for item in items if item["type"] == "reasoning"]
    assert len(set(reasoning)) == len(reasoning)
    for place, kind in enumerate(kinds):
        if kind == "reasoning":
            following = next(other for other in kinds[place:] if other != "reasoning")
            assert following in ("assistant", "function_call")
            assert items[place]["encrypted_content"]
        if kind in ("user", "assistant"):
            content = items[place]["content"]
            assert content
            assert all(part["text"].strip() for part in content if "text" in part)
        assert "id" not in items[place] or kind == "reasoning"


def test_the_state_is_not_stored() -> None:
    history = (Message(role="user", parts=(Text(text="q"),)),)
    asked = request("openai-responses", {"state": "S"}, *history)
    ADAPTER.to_wire(asked, endpoint("openai-responses", {}), healing({}))
    assert asked.messages == tuple(message_from_dict(message_to_dict(message)) for message in history)
