"""Chat streams as real servers send them, against what they mean."""

from __future__ import annotations

import json
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import ContextOverflow, ProviderError, StreamBroken
from agentctl.core.events import Notice
from agentctl.core.ports import CallStarted, Completed, Metered, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.types import (
    Message,
    ModelInfo,
    Opaque,
    Reasoning,
    Request,
    RequestOptions,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
)
from agentctl.providers.adapter import Decoder, Endpoint
from agentctl.providers.failures import from_response
from agentctl.providers.openai_chat import OpenAIChat
from agentctl.providers.profiles import PROFILES
from agentctl.providers.sse import SseDecoder
from agentctl.providers.text_calls import TextCalls

TESTS = Path(__file__).parents[2]
CASES = [json.loads(line) for line in (TESTS / "cases" / "wire_chat.jsonl").read_text().splitlines()]
RECORDINGS = TESTS / "golden" / "recordings"
BASE_URL = "http://127.0.0.1:9/v1"


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="d", parameters={}, effect="read", set="core", subjects=lambda args: ())


def decoder(*, tools: tuple[str, ...] = (), profile: str = "openai", messages: tuple[Message, ...] = ()) -> Decoder:
    model = ModelInfo(vendor="v", name="m", api="openai-chat", base_url=BASE_URL, origin="flag", profile=profile)
    request = Request(
        system=(), messages=messages, tools=tuple(map(spec, tools)), options=RequestOptions(), model=model
    )
    endpoint = Endpoint(vendor="v", api="openai-chat", base_url=BASE_URL, key=None, profile=PROFILES[profile])
    return OpenAIChat().from_stream(request, endpoint)


def run(reader: Decoder, wire: bytes, size: int) -> tuple[list[StreamItem], Completed]:
    frames = SseDecoder()
    items: list[StreamItem] = []
    for start in range(0, len(wire), size):
        for frame in frames.feed(wire[start : start + size]):
            items.extend(reader.feed(frame))
    for frame in frames.end():
        items.extend(reader.feed(frame))
    return items, reader.finish()


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] == kind]


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("case", of_kind("stream"))
def test_stream(case: dict[str, Any], size: int) -> None:
    reader = decoder(tools=tuple(case.get("tools", ())), profile=case.get("profile", "openai"))
    check(case["expected"], lambda: run(reader, case["wire"].encode(), size))


@pytest.mark.parametrize("case", of_kind("whole"))
def test_whole_body(case: dict[str, Any]) -> None:
    reader = decoder(tools=tuple(case.get("tools", ())))
    check(case["expected"], lambda: (reader.feed_whole(json.loads(case["wire"])), reader.finish()))


def check(expected: dict[str, Any], read: Any) -> None:
    if "error" in expected:
        check_error(expected["error"], read)
        return
    items, completed = read()
    calls = [part for part in completed.message.parts if isinstance(part, ToolCall)]
    reasoning = [part for part in completed.message.parts if isinstance(part, Reasoning)]
    found = {
        "text": completed.message.text,
        "reasoning": "".join(part.text for part in reasoning),
        "stop": completed.stop,
        "detail": completed.detail,
        "model": completed.model,
        "usage": completed.usage,
        "notices": [item.code for item in items if isinstance(item, Notice)],
        "opaque": [part.opaque for part in reasoning],
        "call_opaque": [part.opaque for part in calls],
    }
    wanted_calls = expected.get("calls", [])
    assert found == {
        "text": expected.get("text", ""),
        "reasoning": expected.get("reasoning", ""),
        "stop": expected["stop"],
        "detail": expected.get("detail", ""),
        "model": expected.get("model", "m"),
        "usage": Usage(**expected.get("usage", {})),
        "notices": expected.get("notices", []),
        "opaque": [own(expected.get("opaque", {}))] if "reasoning" in expected or "opaque" in expected else [],
        "call_opaque": [own(data) for data in expected.get("call_opaque", [])] or [None] * len(calls),
    }
    assert len(calls) == len(wanted_calls)
    for call, (call_id, name, arguments) in zip(calls, wanted_calls, strict=True):
        assert fnmatch(call.id, call_id)
        assert (call.name, call.arguments) == (name, arguments)
    assert len({call.id for call in calls}) == len(calls)
    started = [[item.id, item.name] for item in items if isinstance(item, CallStarted)]
    assert started == expected.get("started", [[call.id, call.name] for call in calls])
    assert "".join(item.text for item in items if isinstance(item, TextPiece)) == completed.message.text
    assert "".join(item.text for item in items if isinstance(item, ReasoningPiece)) == found["reasoning"]
    metered = [item.usage for item in items if isinstance(item, Metered)]
    assert metered[-1:] == [completed.usage] or (not metered and completed.usage == Usage())


def check_error(expected: dict[str, Any], read: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        read()
    assert type(caught.value).__name__ == expected["type"]
    assert expected["contains"] in caught.value.message
    assert caught.value.retryable
    if "usage" in expected:
        assert caught.value.usage == Usage(**expected["usage"])


def own(data: dict[str, Any]) -> Opaque:
    return Opaque(provider=BASE_URL, api="openai-chat", model="m", data=data)


def test_local_ids_are_the_same_in_every_reading_and_new_in_the_history() -> None:
    wire = (
        b'data: {"id":"r1","choices":[{"delta":{"tool_calls":[{"id":"k1","function":{"name":"f"}}]}}]}\n\ndata: [DONE]'
    )
    history = (Message(role="assistant", parts=(ToolCall(id="k1", name="f", arguments="{}"),)),)
    ids = {run(decoder(tools=("f",), messages=history), wire, 9)[1].message.calls[0].id for _ in range(2)}
    assert len(ids) == 1
    assert ids.pop().startswith("call_")
    assert run(decoder(tools=("f",)), wire, 9)[1].message.calls[0].id == "k1"


def test_mapped_tool_names_come_back() -> None:
    wire = b'data: {"choices":[{"delta":{"tool_calls":[{"id":"k1","function":{"name":"a_b"}}]}}]}\n\ndata: [DONE]\n\n'
    items, completed = run(decoder(tools=("a.b",)), wire, 50)
    assert items == [CallStarted(id="k1", name="a.b")]
    assert completed.message.parts == (ToolCall(id="k1", name="a.b", arguments="{}"),)


def test_arguments_of_a_long_call_stay_linear() -> None:
    piece = {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "a" * 50}}]}}]}
    first = {
        "choices": [{"delta": {"tool_calls": [{"index": 0, "id": "k", "function": {"name": "f", "arguments": '"'}}]}}]
    }
    wire = f"data: {json.dumps(first)}\n\n" + f"data: {json.dumps(piece)}\n\n" * 20_000
    wire += 'data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\n'
    _, completed = run(decoder(tools=("f",)), wire.encode(), 1400)
    assert completed.message.calls[0].arguments == '"' + "a" * 1_000_000


def test_a_character_cut_into_two_deltas_is_one_in_the_message() -> None:
    frame = 'data: {"choices":[{"logprobs":NaN,"delta":{"content":"%s"}}]}\n\n'
    wire = frame % "a\\ud83d" + frame % "\\ude00b" + frame % "\\ud83d" + "data: [DONE]\n\n"
    assert run(decoder(), wire.encode(), 40)[1].message.text == "a😀b�"


def test_junk_without_end_is_a_broken_stream() -> None:
    with pytest.raises(StreamBroken, match="more than 100 frames"):
        run(decoder(), b"data: : PROCESSING\n\n" * 101, 1000)


def test_the_terminal_frame_is_known() -> None:
    reader = decoder()
    frames = SseDecoder().feed(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    assert [(reader.feed(frame), reader.is_done) for frame in frames] == [([], False), ([], True)]


def recorded(name: str, profile: str) -> tuple[list[str], Completed]:
    """The notices and the end of a recorded answer."""
    head, _, body = (RECORDINGS / f"{name}.http").read_bytes().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    items, completed = run(decoder(tools=("read_file",), profile=profile), body, 333)
    return [item.code for item in items if isinstance(item, Notice)], completed


@pytest.mark.parametrize(
    ("name", "profile", "text", "usage", "notices"),
    [
        pytest.param(
            "chat-text",
            "llamacpp",
            'Hello in French is "Bonjour". In Japanese, it is "こんにちは".',
            Usage(input=36, output=16),
            [],
            id="text",
        ),
        pytest.param(
            "chat-tool",
            "compatible",
            '```json\n{\n  "name": "read_file",\n  "arguments": {\n    "path": "VERSION"\n  }\n}\n```',
            Usage(input=187, cache_read=5, output=29),
            ["call-as-text"],
            id="fenced-call",
        ),
        pytest.param(
            "chat-tool-after",
            "compatible",
            '{"name": "read_file", "arguments": {"path": "VERSION"}}',
            Usage(input=198, cache_read=18, output=17),
            ["call-as-text"],
            id="bare-call",
        ),
    ],
)
def test_recordings(name: str, profile: str, text: str, usage: Usage, notices: list[str]) -> None:
    """Answers of llama.cpp's server, whose small model writes its calls as text."""
    assert recorded(name, profile) == (
        notices,
        Completed(
            message=Message(role="assistant", parts=(Text(text=text),)),
            usage=usage,
            stop="end",
            model="qwen-coder-1.5b",
        ),
    )


@pytest.mark.parametrize("name", ["chat-tool", "chat-tool-after"])
def test_recorded_calls_in_the_text_are_read_where_the_profile_says_so(name: str) -> None:
    notices, completed = recorded(name, "llamacpp")
    (call,) = completed.message.parts
    assert isinstance(call, ToolCall)
    assert (notices, completed.stop) == (["call-recovered"], "calls")
    assert (call.name, call.arguments) == ("read_file", '{"path":"VERSION"}')


def test_a_hostile_text_full_of_openings_is_read_quickly() -> None:
    reader = TextCalls({"f"})
    text = "<tool_call>{" * 100_000
    assert reader.feed(text) == ""
    started = time.process_time()
    assert reader.finish(is_whole=True) == ([], text)
    for opening in ("", "x```json\n"):
        reader = TextCalls({"f"})
        pieces = [opening, *["  "] * 20_000]
        assert "".join([*map(reader.feed, pieces), reader.finish(is_whole=True)[1]]) == "".join(pieces)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(("name", "kind"), [("chat-bad", ProviderError), ("chat-overflow", ContextOverflow)])
def test_recorded_refusals(name: str, kind: type[ProviderError]) -> None:
    head, _, body = (RECORDINGS / f"{name}.http").read_bytes().partition(b"\r\n\r\n")
    error = from_response(int(head.split()[1]), {}, body)
    assert (type(error), error.status, error.retryable) == (kind, 400, False)
    assert json.loads(body)["error"]["message"] in error.message
