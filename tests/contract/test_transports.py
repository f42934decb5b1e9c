"""One suite for both transports: the same conversations give the same requests, messages and failures.

What is compared is what crossed the boundaries: the bytes of each request body on the wire, the items of each answer,
the class, kind, status and text of each failure. The official clients' own types vouch for the requests as well.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ProviderError
from agentctl.core.ports import Completed
from agentctl.core.record import Record, map_strings
from agentctl.core.types import Api, Image, Message, Part, Text, Think, ToolAnswer
from agentctl.providers.adapter import Endpoint, Healing
from agentctl.providers.make import adapter_for, make_transport
from agentctl.providers.models import list_models
from agentctl.providers.profiles import PROFILES
from agentctl.providers.sdk_transport import SdkTransport
from agentctl.providers.transport import DirectTransport, WireRequest
from agentctl.providers.wire import WireProvider
from agentctl.version import __version__
from tests.contract.sdk_types import as_sdk_wants, read_by_sdk
from tests.server import Call, Counts, Fault, Received, Server, Turn, serve
from tests.unit.providers.provider_requests import APIS, answers, endpoint_of, request_of

KINDS = ("direct", "sdk")
each_api = pytest.mark.parametrize("api", APIS)
each_kind = pytest.mark.parametrize("kind", KINDS)
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


def play(conversation: Conversation, api: Api, kind: str) -> Seen:
    async def main(server: Server) -> list[Completed | str]:
        endpoint = endpoint_of(server, api)
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
            heard.append(map_strings(items[-1], lambda text: text.replace(server.root_url, "http://HOST")))
            history.append(items[-1].message)
        await provider.close()
        return heard

    with serve(conversation.script) as server:
        heard = asyncio.run(main(server))
        assert server.refusals == []
        assert all(request.path.endswith(adapter_for(api).path) for request in server.requests)
        return Seen(bodies=tuple(dumps(loads(request.raw)) for request in server.requests), answers=tuple(heard))


@each_api
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_both_transports_send_and_hear_the_same(name: str, api: Api) -> None:
    conversation = CONVERSATIONS[name]
    direct, sdk = (play(conversation, api, kind) for kind in KINDS)
    assert sdk.bodies == direct.bodies
    assert sdk.answers == direct.answers
    assert len(direct.bodies) == len(direct.answers) == len(conversation.says)


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


@each_api
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_how_each_conversation_ends(name: str, api: Api) -> None:
    seen = play(CONVERSATIONS[name], api, "direct")
    ends = (end.partition(" ")[0] if isinstance(end, str) else end.stop for end in seen.answers)
    assert tuple(ends) == ENDS[name]


@each_api
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_types_of_the_clients_vouch_for_every_request(name: str, api: Api) -> None:
    for raw in play(CONVERSATIONS[name], api, "direct").bodies:
        body = as_sdk_wants(api, loads(raw))
        assert read_by_sdk(api, body) == body


# --- faults ---------------------------------------------------------------------------------------------------------

FAULTS: dict[str, Turn] = {
    "a refusal": Turn(fault=Fault(status=401, body={"error": {"message": "bad key"}})),
    "a refusal to wait for": Turn(fault=Fault(status=429, body="slow down", headers={"retry-after": "7"})),
    "a refusal in pieces": Turn(fault=Fault(status=500, body="x" * 300_000)),
    "a refusal that breaks off": Turn(
        fault=Fault(raw=b"HTTP/1.1 503 X\r\ncontent-type: text/plain\r\ncontent-length: 90\r\n\r\noverloaded, try")
    ),
    "a redirect": Turn(fault=Fault(status=307, headers={"location": "http://127.0.0.1:1/"})),
    "html": Turn(fault=Fault(body="<html><body>gateway</body></html>", content_type="text/html")),
    "an error in HTTP 200": Turn(fault=Fault(body={"error": {"message": "lost upstream", "code": 502}})),
    "nothing": Turn(fault=Fault(status=200, body="")),
    "a reset": Turn(fault=Fault(reset_before=True)),
    "silence before": Turn(delay_s=30),
    "silence inside": Turn(text="x", fault=Fault(cut_after=1, cut="stall")),
    "a broken connection": Turn(text="x", fault=Fault(cut_after=1, cut="rst")),
    "another encoding": Turn(text="x", fault=Fault(headers={"content-encoding": "gzip"})),
    "no HTTP": Turn(fault=Fault(raw=b"SSH-2.0-OpenSSH_9.6\r\n\r\n")),
}


def fails(turn: Turn, api: Api, kind: str) -> str:
    """What one request to a server like this says."""

    async def main(endpoint: Endpoint) -> None:
        transport = DirectTransport(idle_s=0.5) if kind == "direct" else SdkTransport(endpoint, idle_s=0.5)
        provider = WireProvider(adapter_for(api), endpoint, transport)
        try:
            async for _ in provider.stream(request_of(endpoint)):
                pass
        finally:
            await provider.close()

    with serve([turn]) as server:
        with pytest.raises(ProviderError) as caught:
            asyncio.run(main(endpoint_of(server, api)))
        assert len(server.requests) == 1
    return f"{failure_of(caught.value)} after {caught.value.retry_after_s}"


@each_api
@pytest.mark.parametrize("name", FAULTS)
def test_both_transports_fail_in_the_same_way(name: str, api: Api) -> None:
    assert fails(FAULTS[name], api, "sdk") == fails(FAULTS[name], api, "direct")


def spoken(server: Server, api: Api, kind: str, *, times: int = 1, **details: Any) -> list[Received]:
    async def main() -> None:
        endpoint = endpoint_of(server, api, **details)
        provider = provider_of(kind, endpoint)
        try:
            for _ in range(times):
                async for _ in provider.stream(request_of(endpoint)):
                    pass
        finally:
            await provider.close()

    asyncio.run(main())
    return server.requests


@each_api
@each_kind
def test_a_kept_connection_that_was_closed_is_replaced_at_once(kind: str, api: Api) -> None:
    with serve([Turn(text="x", fault=Fault(hangs_up=True)), Turn(text="y")]) as server:
        assert [request.connection for request in spoken(server, api, kind, times=2)] == [1, 2]


@each_api
@each_kind
def test_the_connection_is_used_again(kind: str, api: Api) -> None:
    with serve([Turn(text="x"), Turn(text="y")]) as server:
        assert [request.connection for request in spoken(server, api, kind, times=2)] == [1, 1]


AUTH: list[tuple[Api, str, str | None, dict[str, str | None]]] = [
    ("openai-chat", "bearer", "k", {"authorization": "Bearer k", "x-api-key": None}),
    ("openai-responses", "x-api-key", "k", {"authorization": None, "x-api-key": "k"}),
    ("openai-chat", "none", None, {"authorization": None, "x-api-key": None}),
    ("anthropic-messages", "x-api-key", "k", {"authorization": None, "x-api-key": "k"}),
    ("anthropic-messages", "bearer", "k", {"authorization": "Bearer k", "x-api-key": None}),
    ("anthropic-messages", "none", None, {"authorization": None, "x-api-key": None}),
]


@each_kind
@pytest.mark.parametrize(("api", "auth", "key", "expected"), AUTH)
def test_only_the_headers_of_the_profile_authenticate(
    api: Api, auth: str, key: str | None, expected: dict[str, str | None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "of-the-environment")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    profile = PROFILES["anthropic" if api == "anthropic-messages" else "compatible"].replace(auth=auth)
    unchecked = Fault(status=400, body="seen")
    with serve(rules=[lambda request: unchecked]) as server:
        with pytest.raises(ProviderError, match="seen"):
            spoken(server, api, kind, profile=profile, key=key)
        headers = server.requests[0].headers
    wanted = {**expected, "anthropic-version": profile.headers.get("anthropic-version")}
    assert {name: headers.get(name) for name in wanted} == wanted
    assert headers["user-agent"] == f"agentctl/{__version__}"
    assert headers["content-type"] == "application/json"


@each_kind
def test_the_list_of_models(kind: str) -> None:
    async def main(server: Server) -> list[str]:
        endpoint = endpoint_of(server, "openai-chat")
        transport = make_transport(kind, endpoint)
        try:
            return await list_models(endpoint, transport)
        finally:
            await transport.close()

    with serve(models=["b", "a"]) as server:
        assert asyncio.run(main(server)) == ["a", "b"]


@each_kind
def test_leaving_the_response_closes_the_connection(kind: str) -> None:
    async def main(server: Server) -> None:
        endpoint = endpoint_of(server, "openai-chat")
        transport = make_transport(kind, endpoint)
        body = WireProvider(adapter_for(endpoint.api), endpoint, transport).body(request_of(endpoint), Healing())
        asked = WireRequest(
            url=f"{endpoint.base_url}/chat/completions", headers={"authorization": "Bearer k"}, body=dumps(body)
        )
        async with transport.open(asked) as response:
            await anext(response.chunks)
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)
        await transport.close()

    with serve([Turn(text="x", fault=Fault(cut_after=1, cut="stall"))]) as server:
        asyncio.run(main(server))
