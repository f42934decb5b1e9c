"""The Messages format, reading: every known shape of an answer."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core import errors
from agentctl.core.codec import dumps, loads, message_from_dict, message_to_dict
from agentctl.core.errors import ProviderError, StreamBroken
from agentctl.core.ports import CallStarted, Completed, Metered, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.types import JsonObject, Message, Text, Usage
from agentctl.providers.anthropic_messages import AnthropicMessages
from agentctl.providers.failures import from_response
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

ADAPTER = AnthropicMessages()
STREAMS = rows("wire_anthropic.jsonl", "events", "sse")
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


@pytest.mark.parametrize("row", rows("wire_anthropic.jsonl", "status"), ids=case_id)
def test_refused_requests(row: JsonObject) -> None:
    failure = from_response(row["status"], {}, dumps(row["body"]))
    assert (type(failure).__name__, failure.retryable) == (row["expected"]["error"], row["expected"]["retryable"])


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
    {"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 9, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "look"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "S"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "So"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": ": a"}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "u1", "name": "read_file", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30}},
    {"type": "message_stop"},
]


def test_the_items_of_a_stream_in_their_order() -> None:
    items, completed = decode(decoder_for(ADAPTER, {}), sse(FULL))
    assert items == [
        Metered(usage=Usage(input=9, output=1)),
        ReasoningPiece(text="look"),
        TextPiece(text="So"),
        TextPiece(text=": a"),
        CallStarted(id="u1", name="read_file"),
        Metered(usage=Usage(input=9, output=30)),
    ]
    assert (completed.model, completed.message.text, completed.stop) == ("m-1", "So: a", "calls")


def test_names_that_the_wire_cannot_carry_come_back() -> None:
    tool = READ.replace(name="catalog.get item")
    stream = sse(FULL).replace(b"read_file", b"catalog_get_item")
    items, completed = decode(decoder_for(ADAPTER, {"tools": (tool,)}), stream)
    assert CallStarted(id="u1", name="catalog.get item") in items
    assert completed.message.calls[0].name == "catalog.get item"


KINDS = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
)
ITEMS = (
    "text",
    "tool_use",
    "thinking",
    "redacted_thinking",
    "text_delta",
    "thinking_delta",
    "input_json_delta",
    "signature_delta",
    "end_turn",
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


def _whole(body: JsonObject) -> tuple[list[StreamItem], Completed]:
    decoder = decoder_for(ADAPTER, {})
    return decoder.feed_whole(body), decoder.finish()


def test_a_whole_body_is_an_answer() -> None:
    items, completed = _whole(
        {
            "type": "message",
            "model": "m-1",
            "content": [
                {"type": "thinking", "thinking": "look", "signature": "S"},
                {"type": "text", "text": "hi"},
                {"type": "tool_use", "id": "u1", "name": "f", "input": {"x": 1}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 3, "output_tokens": 4},
        }
    )
    assert items == [
        Metered(usage=Usage(input=3, output=4)),
        ReasoningPiece(text="look"),
        TextPiece(text="hi"),
        CallStarted(id="u1", name="f"),
    ]
    assert (completed.stop, completed.usage) == ("calls", Usage(input=3, output=4))
    assert completed.message.calls[0].arguments == '{"x":1}'


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "Unavailable"),
        ({"type": "message", "content": []}, "StreamBroken"),
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
        ("messages-text.http", HELLO, Usage(input=1, cache_read=35, output=15)),
        ("messages-tool.http", TOOL_TEXT, Usage(input=1, cache_read=191, output=29)),
    ],
)
@pytest.mark.parametrize("size", [1, 700, 1 << 20])
def test_recordings(name: str, text: str, usage: Usage, size: int) -> None:
    _, body = recording(name)
    items, completed = decode(decoder_for(ADAPTER, {}), body, size)
    assert completed.message == Message(role="assistant", parts=(Text(text=text),))
    assert (completed.usage, completed.stop, completed.model) == (usage, "end", "qwen-coder-1.5b")
    assert shown(items) == text


def test_the_recorded_overflow_is_an_overflow() -> None:
    headers, body = recording("messages-overflow.http")
    failure = from_response(400, headers, body)
    assert (type(failure).__name__, failure.status) == ("ContextOverflow", 400)


def test_the_end_is_known_before_the_connection_closes() -> None:
    decoder = decoder_for(ADAPTER, {})
    seen = []
    for frame in SseDecoder().feed(sse(FULL)):
        decoder.feed(frame)
        seen.append(decoder.is_done)
    assert seen == [False] * (len(FULL) - 1) + [True]
