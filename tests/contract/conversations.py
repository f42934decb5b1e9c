"""The conversations that every way to a service has to carry, and what is seen of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ProviderError
from agentctl.core.ports import Completed
from agentctl.core.record import Record, map_strings
from agentctl.core.types import Image, Message, Part, Text, Think, ToolAnswer
from agentctl.providers.adapter import Endpoint
from agentctl.providers.make import adapter_for, make_transport
from agentctl.providers.wire import WireProvider
from tests.server import Call, Counts, Fault, Received, Server, Turn, serve
from tests.unit.providers.provider_requests import answers, request_of

PNG = Image(
    media_type="image/png",
    data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
)
LS = Call("bash", {"command": "ls"}, id="call_ls")
TOO_LONG = {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum", "type": "invalid_request_error"}}
PWD = Call("bash", {"command": "pwd"}, id="call_pwd")


class Conversation(Record):
    """What a user and the tools say, and what the service answers; one request for each entry of `says`."""

    script: tuple[Turn, ...]
    says: tuple[tuple[Part, ...] | str, ...]
    """Before each request: parts of a user message, or the content of the results of the last message's calls."""
    think: Think = "off"
    is_error: bool = False
    images: tuple[Image, ...] = ()


def asks(text: str, *more: Part) -> tuple[Part, ...]:
    return (Text(text=text), *more)


CONVERSATIONS: dict[str, Conversation] = {
    "plain": Conversation(
        script=(Turn(text="grüße 😀\u2028 <b>", delta=2),), says=(asks('häl\u2028lo \x7f \\ "q" /'),)
    ),
    "multi-turn": Conversation(
        script=(Turn(text="one"), Turn(text="two"), Turn(text="three", usage=Counts(input=9, cache_read=90, output=3))),
        says=(asks("1"), asks("2"), asks("3")),
    ),
    "one tool": Conversation(script=(Turn(text="looking", calls=[LS]), Turn(text="done")), says=(asks("go"), "a.txt")),
    "parallel": Conversation(script=(Turn(calls=[LS, PWD], delta=3), Turn(text="done")), says=(asks("go"), "ok")),
    "tool error": Conversation(
        script=(Turn(calls=[LS]), Turn(text="I see")), says=(asks("go"), "no such file"), is_error=True
    ),
    "bad arguments": Conversation(
        script=(Turn(calls=[Call("bash", '{"command": ', id="call_b")]), Turn(text="sorry")),
        says=(asks("go"), "no JSON"),
    ),
    "reasoning with tools": Conversation(
        script=(
            Turn(reasoning="hm, let me see", text="looking", calls=[LS], delta=4),
            Turn(reasoning="aha", calls=[PWD]),
            Turn(reasoning="so", text="done"),
            Turn(text="bye"),
        ),
        says=(asks("go"), "a.txt", "/work", asks("thanks")),
        think="high",
    ),
    "image": Conversation(script=(Turn(text="a dot"),), says=(asks("what is it?", PNG),)),
    "image from a tool": Conversation(
        script=(Turn(calls=[LS]), Turn(text="a dot")), says=(asks("look"), "see"), images=(PNG,)
    ),
    "empty": Conversation(script=(Turn(text=""),), says=(asks("say nothing"),)),
    "cut by length": Conversation(script=(Turn(text="half an", stop="length"),), says=(asks("write"),)),
    "refusal": Conversation(script=(Turn(text="I can't", stop="refused"),), says=(asks("harm"),)),
    "broken off": Conversation(
        script=(Turn(text="half", delta=1, fault=Fault(cut_after=4, cut="fin")),), says=(asks("go"),)
    ),
    "ended early": Conversation(script=(Turn(text="half", delta=1, fault=Fault(cut_after=3)),), says=(asks("go"),)),
    "overflow": Conversation(script=(Turn(fault=Fault(status=400, body=TOO_LONG)),), says=(asks("long"),)),
}


class Seen(Record):
    """Everything of a conversation that can be compared."""

    paths: tuple[str, ...]
    headers: tuple[Mapping[str, str], ...]
    bodies: tuple[bytes, ...]
    """JSON with every field in its place; only which characters are escaped is not compared."""
    answers: tuple[Completed | str, ...]
    """Of each request; of a failed one what it says."""


def failure_of(error: ProviderError) -> str:
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", f"{error.message} ({error.hint})")
    return f"{type(error).__name__} {error.kind} {error.status} {error.retryable} {error.usage}: {text}"


def provider_of(kind: str, endpoint: Endpoint) -> WireProvider:
    return WireProvider(adapter_for(endpoint.api), endpoint, make_transport(kind, endpoint))


def told(conversation: Conversation, said: tuple[Part, ...] | str, history: Sequence[Message]) -> Message:
    if not isinstance(said, str):
        return Message(role="user", parts=said)
    given = answers(history[-1], said)
    parts = (
        part.replace(is_error=conversation.is_error, images=conversation.images)
        for part in given.parts
        if isinstance(part, ToolAnswer)
    )
    return given.replace(parts=tuple(parts))


def play(
    conversation: Conversation,
    endpoint_for: Callable[[Server], Endpoint],
    kind: str,
    rules: Sequence[Callable[[Received], Fault | None]] = (),
) -> Seen:
    """Over one transport, against a server of its own. `rules` answer what is no model call, at /token."""

    async def main(server: Server) -> list[Completed | str]:
        endpoint = endpoint_for(server)
        provider = provider_of(kind, endpoint)
        history: list[Message] = []
        heard: list[Completed | str] = []
        for said in conversation.says:
            history.append(told(conversation, said, history))
            try:
                items = [
                    item
                    async for item in provider.stream(
                        request_of(endpoint, *history, think=conversation.think, max_output=40_000)
                    )
                ]
            except ProviderError as error:
                heard.append(failure_of(error))
                break
            assert isinstance(items[-1], Completed)
            heard.append(map_strings(items[-1], lambda text: text.replace(endpoint.base_url, "BASE")))
            history.append(items[-1].message)
        await provider.close()
        return heard

    with serve(conversation.script, rules=rules) as server:
        heard = asyncio.run(main(server))
        assert server.refusals == []
        asked = tuple(request for request in server.requests if request.path != "/token")
        return Seen(
            paths=tuple(request.path for request in asked),
            headers=tuple(request.headers for request in asked),
            bodies=tuple(dumps(loads(request.raw)) for request in asked),
            answers=tuple(heard),
        )


ENDS: dict[str, tuple[str, ...]] = {
    "plain": ("end",),
    "multi-turn": ("end", "end", "end"),
    "one tool": ("calls", "end"),
    "parallel": ("calls", "end"),
    "tool error": ("calls", "end"),
    "bad arguments": ("calls", "end"),
    "reasoning with tools": ("calls", "calls", "end", "end"),
    "image": ("end",),
    "image from a tool": ("calls", "end"),
    "empty": ("end",),
    "cut by length": ("length",),
    "refusal": ("refused",),
    "broken off": ("StreamBroken",),
    "ended early": ("StreamBroken",),
    "overflow": ("ContextOverflow",),
}
"""What becomes of each request: why the model stopped, or the class of the failure."""
