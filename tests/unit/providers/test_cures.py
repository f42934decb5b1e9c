"""The table of cures, row by row over the wire: what a service refuses, and the request that follows.

Each is tried against a server that refuses once for that cause, and against one that refuses whatever comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentctl.core.errors import ProviderError
from agentctl.core.events import Notice
from agentctl.core.ports import Completed, StreamItem
from agentctl.core.record import Record
from agentctl.core.types import Api, Image, Message, Part, Text, Think
from agentctl.providers.cures import _CURES
from agentctl.providers.make import make_provider
from tests.fakes import FakeClock
from tests.server import Call, Fault, Received, Server, Turn, serve
from tests.unit.providers.provider_requests import answers, ask, collect, endpoint_of, request_of, user

PNG = Image(
    media_type="image/png",
    data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
)


class Cause(Record):
    api: Api
    status: int
    words: str
    """Of the refusal."""
    is_there: Callable[[Any], bool]
    """Whether a body still has what the service refuses."""
    expected: Callable[[Any], bool]
    """Whether the changed body is the right one."""
    think: Think = "off"
    has_calls: bool = False
    """The refused request answers the calls of an answer with reasoning."""
    parts: tuple[Part, ...] = (Text(text="hi"),)
    earlier: tuple[Message, ...] = ()


def inputs(body: Any) -> list[str]:
    return [item["type"] for item in body["input"]]


def blocks(body: Any) -> list[str]:
    return [block["type"] for message in body["messages"] for block in message["content"]]


CAUSES: dict[str, Cause] = {
    "item_ids": Cause(
        api="openai-responses",
        status=404,
        words="Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
        is_there=lambda body: "reasoning" in inputs(body),
        expected=lambda body: (
            inputs(body) == ["message", "function_call", "function_call_output"]
            and not any("id" in item for item in body["input"])
        ),
        think="high",
        has_calls=True,
    ),
    "thinking_form": Cause(
        api="anthropic-messages",
        status=400,
        words="thinking.type.enabled is not supported by this model. Use thinking.type.adaptive.",
        is_there=lambda body: body.get("thinking", {}).get("type") == "enabled",
        expected=lambda body: body["thinking"]["type"] == "adaptive" and body["output_config"] == {"effort": "high"},
        think="high",
    ),
    "reasoning": Cause(
        api="anthropic-messages",
        status=400,
        words="messages.1.content.0: Invalid `signature` in `thinking` block",
        is_there=lambda body: "thinking" in blocks(body),
        expected=lambda body: blocks(body) == ["text", "tool_use", "tool_result"] and "thinking" not in body,
        think="high",
        has_calls=True,
    ),
    "output_room": Cause(
        api="anthropic-messages",
        status=400,
        words="max_tokens: 3000 > 2500, which is the maximum allowed number of output tokens for model-1",
        is_there=lambda body: body["max_tokens"] > 2500,
        expected=lambda body: body["max_tokens"] == 2500,
    ),
    "stream_options": Cause(
        api="openai-chat",
        status=400,
        words="Unknown parameter: 'stream_options'.",
        is_there=lambda body: "stream_options" in body,
        expected=lambda body: "stream_options" not in body and body["stream"] is True,
    ),
    "max_tokens_field": Cause(
        api="openai-chat",
        status=400,
        words="Unsupported parameter: 'max_completion_tokens' is not supported. Use 'max_tokens' instead.",
        is_there=lambda body: "max_completion_tokens" in body,
        expected=lambda body: body.get("max_tokens") == 3000,
    ),
    "images": Cause(
        api="openai-chat",
        status=400,
        words="This model does not support image input.",
        is_there=lambda body: "image_url" in str(body),
        expected=lambda body: body["messages"][-1]["content"] == "see\n\n[image left out: image/png]",
        parts=(Text(text="see"), PNG),
    ),
    "parameter": Cause(
        api="openai-chat",
        status=422,
        words="Unrecognized request argument supplied: reasoning_effort",
        is_there=lambda body: "reasoning_effort" in body,
        expected=lambda body: "reasoning_effort" not in body and body["max_completion_tokens"] == 3000,
        think="high",
    ),
    "history": Cause(
        api="openai-chat",
        status=400,
        words="Something about the earlier turns cannot be read.",
        is_there=lambda body: any(message["role"] == "assistant" for message in body["messages"]),
        expected=lambda body: (
            [message["role"] for message in body["messages"]] == ["system", "user"]
            and "<conversation_history>" in body["messages"][1]["content"]
        ),
        earlier=(user("before"), Message(role="assistant", parts=(Text(text="said"),))),
    ),
}
each_cause = pytest.mark.parametrize("name", CAUSES)


def test_every_row_of_the_table_is_here() -> None:
    assert [make.__name__.removeprefix("_") for make in _CURES] == [*CAUSES]


def outcome(cause: Cause, server: Server, times: int) -> list[list[StreamItem]]:
    """What the last request of a conversation gives, asked `times` times."""

    async def main() -> list[list[StreamItem]]:
        endpoint = endpoint_of(server, cause.api)
        provider = make_provider(endpoint, FakeClock())
        history = [*cause.earlier, Message(role="user", parts=cause.parts)]
        try:
            if cause.has_calls:
                first = (await ask(provider, request_of(endpoint, user("hi"), think=cause.think))).message
                history = [user("hi"), first, answers(first)]
            request = request_of(endpoint, *history, think=cause.think)
            return [await collect(provider.stream(request)) for _ in range(times)]
        finally:
            await provider.close()

    return asyncio.run(main())


def script(cause: Cause) -> list[Turn]:
    calls = [Turn(reasoning="hm", calls=[Call("bash", {"command": "ls"})])] if cause.has_calls else []
    return [*calls, Turn(text="fine", repeat=-1)]


def refusal(cause: Cause) -> Fault:
    return Fault(status=cause.status, body={"error": {"message": cause.words, "type": "invalid_request_error"}})


@each_cause
def test_a_refused_request_is_changed_and_the_change_is_remembered(name: str) -> None:
    cause = CAUSES[name]

    def rule(request: Received) -> Fault | None:
        return refusal(cause) if cause.is_there(request.body) else None

    with serve(script(cause), rules=[rule]) as server:
        first, second = outcome(cause, server, 2)
        bodies = [request.body for request in server.requests][1 if cause.has_calls else 0 :]
        assert server.refusals == []
    assert [cause.is_there(body) for body in bodies] == [True, False, False]
    assert [cause.expected(body) for body in bodies] == [False, True, True]
    assert bodies[1] == bodies[2]
    assert [item.code for item in first if isinstance(item, Notice)] == ["request-changed"]
    assert [item for item in second if isinstance(item, Notice)] == []
    assert isinstance(first[-1], Completed)


@each_cause
def test_a_service_that_goes_on_refusing_is_believed(name: str) -> None:
    cause = CAUSES[name]
    asked: list[Any] = []

    def rule(request: Received) -> Fault | None:
        is_first = cause.has_calls and not asked
        asked.append(request.body)
        return None if is_first else refusal(cause)

    with serve(script(cause), rules=[rule]) as server, pytest.raises(ProviderError):
        outcome(cause, server, 1)
    assert len(asked) == (3 if cause.has_calls else 2)
