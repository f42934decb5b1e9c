"""A service that finds the request too long, in the words of every service: one compaction, one retry, or neither.

The turns run through the real adapters, transport and retries against the local server.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentctl.core.errors import AgentctlError, ContextOverflow
from agentctl.core.events import Compacted, Notice, Retry
from agentctl.core.ports import Item, Viewed
from agentctl.core.types import Api, Message, RequestOptions, Text, ToolAnswer
from agentctl.engine.context import Context
from agentctl.engine.loop import run_turn
from agentctl.engine.prompt import Prompt
from tests.engine.services import APIS, served_by
from tests.engine.test_turn import World
from tests.fakes import RecordingTool, call
from tests.server import Fault, Received, Turn, serve

ROWS: dict[str, tuple[int, Any]] = {
    "openai": (400, {"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is "
               "8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length."}}),
    "openai without a code": (400, {"error": {"message": "Your input exceeds the context window of this model."}}),
    "anthropic": (413, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}),
    "anthropic with numbers": (400, {"type": "error", "error": {"type": "invalid_request_error",
                               "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    "anthropic by bytes": (413, {"type": "error", "error": {"type": "request_too_large", "message": "too large"}}),
    "bedrock": (400, {"__type": "ValidationException", "message": "Input is too long for requested model"}),
    "bedrock input": (400, {"message": "ValidationException: input exceeds the max input token limit"}),
    "vllm": (400, {"object": "error", "type": "BadRequestError", "message": "This model's maximum context length is "
             "262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input "
             "tokens"}),
    "llama.cpp": (400, {"error": {"type": "exceed_context_size_error", "message": "request (144055 tokens) exceeds "
                  "the available context size (131072 tokens)", "n_prompt_tokens": 144055, "n_ctx": 131072}}),
    "ollama": (400, {"error": "context length exceeded"}),
    "cohere": (400, {"message": "total tokens exceeds the model's max of 4096"}),
    "ollama that cut the question away": (500, {"error": {"message": "no user query found in messages"}}),
    "gemini": (400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (1200000) "
               "exceeds the maximum number of tokens allowed (1048576)."}}]),
    "groq": (400, {"error": {"message": "Please reduce the length of the messages or completion."}}),
    "xai": (400, {"error": {"message": "This model's maximum prompt length is 131072 but the request contains 140000 "
            "tokens."}}),
    "a rate that no request of this size passes": (429, {"error": {"code": "rate_limit_exceeded", "message": "Request "
            "too large for gpt-x in organization o on tokens per min (TPM): Limit 30000, Requested 40000."}}),
}  # fmt: skip
IN_STREAM = Fault(
    insert_after=2,
    insert=b'event: response.failed\ndata: {"type":"response.failed","response":{"id":"r","status":"failed","error":'
    b'{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}\n\n',
    cut_after=3,
)
WINDOWS = {
    "openai": 8_192,
    "anthropic with numbers": 200_000,
    "llama.cpp": 131_072,
    "cohere": 4_096,
    "gemini": 1_048_576,
    "xai": 131_072,
    "a rate that no request of this size passes": 30_000,
}


class Turned:
    """A turn with a long history behind it whose first request is answered with a fault."""

    def __init__(self, api: Api, fault: Fault, *, repeat: int = 1) -> None:
        tool = RecordingTool("read")
        with serve([Turn(fault=fault, repeat=repeat, when='"tools"'), Turn(text="fine", repeat=-1)]) as server:
            model, provider = served_by(server, api)
            specs = [tool.spec]
            context = Context(
                model=model, prompt=Prompt(tools=specs, appendix=""), tools=specs, options=RequestOptions()
            )
            world = World(Exception(), tools=[tool])
            self.parts = world.parts.replace(provider=provider, context=context)
            self.history = _history()
            self.items: list[Item] = []
            self.error: AgentctlError | None = None
            asyncio.run(self._collect())
            self.asked: list[Received] = list(server.requests)
            assert server.refusals == []

    async def _collect(self) -> None:
        try:
            async for item in run_turn(self.parts, self.history):
                self.items.append(item)
        except AgentctlError as error:
            self.error = error
        await self.parts.provider.close()

    def count(self, kind: type) -> int:
        return sum(isinstance(item, kind) for item in self.items)

    @property
    def sizes(self) -> list[int]:
        """Bytes of the requests that offered tools; summaries do not."""
        return [len(request.raw) for request in self.asked if request.body.get("tools")]


def _history() -> list[Message]:
    history = [Message(role="user", parts=(Text(text="Task KIWI"),))]
    for number in range(40):
        asked = call("read", f"c{number}", n=number)
        answer = ToolAnswer(call_id=asked.id, name="read", content=f"{number} " + "x" * 200)
        history += [Message(role="assistant", parts=(asked,)), Message(role="tool", parts=(answer,))]
    return history


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", ROWS)
def test_every_text_leads_to_one_compaction_and_one_retry(api: Api, name: str) -> None:
    status, body = ROWS[name]
    turned = Turned(api, Fault(status=status, body=body))
    assert turned.error is None
    assert turned.history[-1].text == "fine"
    assert [turned.count(kind) for kind in (Viewed, Compacted, Retry)] == [1, 1, 0]
    refused, sent = turned.sizes
    assert sent < refused * 0.75
    assert len(turned.asked) == 3, "refused, summed up, asked again"


def test_a_response_that_fails_in_its_stream_is_one_too() -> None:
    turned = Turned("openai-responses", IN_STREAM)
    assert (turned.error, turned.count(Viewed), len(turned.sizes)) == (None, 1, 2)


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_that_the_refusal_names_counts_from_then_on(name: str) -> None:
    status, body = ROWS[name]
    turned = Turned("openai-chat", Fault(status=status, body=body))
    assert turned.parts.context.threshold == min(int(WINDOWS[name] * 0.8), 120_000)


@pytest.mark.parametrize("api", APIS)
def test_a_second_refusal_ends_the_turn(api: Api) -> None:
    turned = Turned(api, Fault(status=400, body=ROWS["groq"][1]), repeat=-1)
    assert isinstance(turned.error, ContextOverflow)
    assert len(turned.sizes) == 2


@pytest.mark.parametrize(
    ("status", "message", "ended", "requests", "said"),
    [
        (429, "ThrottlingException: Too many tokens, please wait before trying again", None, 2, Retry),
        (400, "field context_window must be an integer", "provider", 1, None),
        (400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the "
              "messages, 1000 in the completion).", None, 2, Notice),
    ],
    ids=["throttled", "another field", "only the output is too long"],
)  # fmt: skip
@pytest.mark.parametrize("api", APIS)
def test_what_only_sounds_like_it_compacts_nothing(
    api: Api, status: int, message: str, ended: str | None, requests: int, said: type | None
) -> None:
    turned = Turned(api, Fault(status=status, body={"error": {"message": message}}))
    assert turned.count(Viewed) == 0
    assert (turned.error.ending if turned.error else None) == ended
    assert len(turned.asked) == requests
    assert said is None or turned.count(said) == 1
