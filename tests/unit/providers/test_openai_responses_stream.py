"""The Responses format, reading: every known shape of an answer."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core import errors
from agentctl.core.codec import dumps, loads, message_from_dict, message_to_dict
from agentctl.core.errors import ProviderError, StreamBroken
from agentctl.core.ports import CallStarted, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.types import JsonObject, Message, Text, Usage
from agentctl.providers.openai_responses import OpenAIResponses
from agentctl.providers.sse import SseDecoder
from tests.unit.providers.typed_events import (
    READ,
    case_id,
    cuts,
    decode,
    decoder_for,
    odd_events,
    outcome,
    recording,
    rows,
    shown,
    sse,
    stream_of,
)

ADAPTER = OpenAIResponses()
STREAMS = rows("wire_responses.jsonl", "events", "sse")
ANSWERS = [row for row in STREAMS if "message" in row["expected"]]
FAILURES = [row for row in STREAMS if "error" in row["expected"]]


@pytest.mark.parametrize("row", ANSWERS, ids=case_id)
def test_answers(row: JsonObject) -> None:
    _, completed = decode(decoder_for(ADAPTER, row), stream_of(row))
    assert outcome(completed) == row["expected"]


@pytest.mark.parametrize("row", FAILURES, ids=case_id)
def test_failures(row: JsonObject) -> None:
    expected = row["expected"]
    with pytest.raises(ProviderError) as caught:
        decode(decoder_for(ADAPTER, row), stream_of(row))
    assert type(caught.value) is getattr(errors, expected["error"])
    assert expected.get("says", "") in caught.value.message
    assert caught.value.usage == (Usage(**expected["usage"]) if expected["usage"] else None)


@pytest.mark.parametrize("row", ANSWERS, ids=case_id)
def test_a_cut_stream_is_never_an_answer(row: JsonObject) -> None:
    for stream in cuts(stream_of(row)):
        with pytest.raises(StreamBroken):
            decode(decoder_for(ADAPTER, row), stream)


@settings(max_examples=30, deadline=None)
@given(row=st.sampled_from(ANSWERS), size=st.integers(1, 90))
def test_any_chunking_gives_the_same(row: JsonObject, size: int) -> None:
    whole = decode(decoder_for(ADAPTER, row), stream_of(row))
    assert decode(decoder_for(ADAPTER, row), stream_of(row), size) == whole


FULL: list[JsonObject] = [
    {"type": "response.created", "response": {"model": "m-1", "usage": None}},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"id": "rs_1", "type": "reasoning", "summary": []},
    },
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "item_id": "rs_1", "summary_index": 0},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "item_id": "rs_1", "delta": "look"},
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "item_id": "rs_1", "summary_index": 1},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "item_id": "rs_1", "delta": "act"},
    {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "E"},
    },
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "phase": "commentary"}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "Let me"},
    {
        "type": "response.output_item.done",
        "output_index": 1,
        "item": {"type": "message", "content": [{"type": "output_text", "text": "Let me see"}]},
    },
    {"type": "response.output_item.added", "output_index": 2, "item": {"type": "message", "phase": "final_answer"}},
    {"type": "response.output_text.delta", "output_index": 2, "delta": "Done"},
    {
        "type": "response.output_item.added",
        "output_index": 3,
        "item": {"type": "function_call", "call_id": "k1", "name": "read_file", "arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", "output_index": 3, "delta": '{"path":"a"}'},
    {
        "type": "response.output_item.done",
        "output_index": 3,
        "item": {"type": "function_call", "call_id": "k1", "name": "read_file", "arguments": '{"path":"a"}'},
    },
    {"type": "response.completed", "response": {"status": "completed", "output": []}},
]


def test_the_items_of_a_stream_in_their_order() -> None:
    items, completed = decode(decoder_for(ADAPTER, {}), sse(FULL))
    assert items == [
        ReasoningPiece(text="look"),
        ReasoningPiece(text="\n\n"),
        ReasoningPiece(text="act"),
        TextPiece(text="Let me"),
        TextPiece(text=" see"),
        TextPiece(text="\n\nDone"),
        CallStarted(id="k1", name="read_file"),
    ]
    assert (completed.model, completed.message.text, completed.stop) == ("m-1", "Done", "calls")


def test_a_response_without_items_is_complete_and_empty() -> None:
    _, completed = decode(decoder_for(ADAPTER, {}), sse([{"type": "response.completed", "response": {}}]))
    assert (completed.message, completed.model) == (Message(role="assistant", parts=()), "m")


def test_names_that_the_wire_cannot_carry_come_back() -> None:
    tool = READ.replace(name="catalog.get item")
    call = {"type": "function_call", "call_id": "k1", "name": "catalog_get_item", "arguments": "{}"}
    stream = sse([{"type": "response.output_item.done", "item": call}, {"type": "response.completed", "response": {}}])
    items, completed = decode(decoder_for(ADAPTER, {"tools": (tool,)}), stream)
    assert items == [CallStarted(id="k1", name="catalog.get item")]
    assert completed.message.calls[0].name == "catalog.get item"


def test_calls_without_ids_differ_and_stay_the_same_in_every_run() -> None:
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    done = [{"type": "response.output_item.done", "output_index": n, "item": call} for n in range(2)]
    stream = sse([*done, {"type": "response.completed", "response": {}}])
    first = decode(decoder_for(ADAPTER, {}), stream)[1].message
    later = decode(decoder_for(ADAPTER, {"history": [{"role": "user", "parts": []}]}), stream)[1].message
    assert first == decode(decoder_for(ADAPTER, {}), stream)[1].message
    assert len({call.id for message in (first, later) for call in message.calls}) == 4


KINDS = (
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_part.added",
    "response.function_call_arguments.delta",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
)
ITEMS = (
    "message",
    "function_call",
    "reasoning",
    "output_text",
)


@settings(max_examples=200, deadline=None)
@given(events=odd_events(KINDS, ITEMS))
def test_whatever_comes_is_an_answer_or_a_provider_error(events: list[JsonObject]) -> None:
    with suppress(ProviderError):
        _, completed = decode(decoder_for(ADAPTER, {}), sse(events))
        assert message_from_dict(loads(dumps(message_to_dict(completed.message)))) == completed.message
    for event in events:
        with suppress(ProviderError):
            decoder_for(ADAPTER, {}).feed_whole(event)


# --- whole bodies -------------------------------------------------------------------------------------------------


def _whole(body: JsonObject) -> tuple[list[StreamItem], JsonObject]:
    decoder = decoder_for(ADAPTER, {})
    items = decoder.feed_whole(body)
    return items, outcome(decoder.finish())


def test_a_whole_body_is_an_answer() -> None:
    call = {"type": "function_call", "call_id": "k1", "name": "f", "arguments": "{}"}
    message = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    items, answer = _whole({"object": "response", "status": "completed", "output": [message, call], "error": None})
    assert items == [TextPiece(text="hi"), CallStarted(id="k1", name="f")]
    assert answer["message"]["parts"] == [
        {"part": "text", "text": "hi"},
        {"part": "call", "id": "k1", "name": "f", "arguments": "{}"},
    ]
    assert answer["stop"] == "calls"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": {"message": "slow down", "code": 429}}, "Unavailable"),
        ({"output": [], "status": "failed", "error": {"code": "server_error", "message": "m"}}, "Unavailable"),
        ({"output": [], "status": "in_progress"}, "StreamBroken"),
        ({"hello": 1}, "StreamBroken"),
    ],
)
def test_a_whole_body_that_is_no_answer(body: JsonObject, error: str) -> None:
    with pytest.raises(ProviderError) as caught:
        _whole(body)
    assert type(caught.value) is getattr(errors, error)


# --- recordings of a llama.cpp server -----------------------------------------------------------------------------

HELLO = 'Hello in French is "Bonjour". Hello in Japanese is "こんにちは".'
TOOL_TEXT = '```json\n{\n  "name": "read_file",\n  "arguments": {\n    "path": "VERSION"\n  }\n}\n```'


@pytest.mark.parametrize(
    ("name", "text", "usage"),
    [
        ("responses-text.http", HELLO, Usage(input=18, cache_read=18, output=15)),
        ("responses-tool.http", TOOL_TEXT, Usage(input=1, cache_read=191, output=29)),
    ],
)
@pytest.mark.parametrize("size", [1, 700, 1 << 20])
def test_recordings(name: str, text: str, usage: Usage, size: int) -> None:
    _, body = recording(name)
    items, completed = decode(decoder_for(ADAPTER, {}), body, size)
    assert completed.message == Message(role="assistant", parts=(Text(text=text),))
    assert (completed.usage, completed.stop, completed.model) == (usage, "end", "qwen-coder-1.5b")
    assert shown(items) == text


def test_the_end_is_known_before_the_connection_closes() -> None:
    decoder = decoder_for(ADAPTER, {})
    seen = []
    for frame in SseDecoder().feed(sse(FULL)):
        decoder.feed(frame)
        seen.append(decoder.is_done)
    assert seen == [False] * (len(FULL) - 1) + [True]
