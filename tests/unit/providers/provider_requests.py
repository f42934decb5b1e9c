"""Requests and providers against the local server, for the tests of what drives the adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agentctl.core.ports import Completed, Provider, StreamItem
from agentctl.core.types import (
    Api,
    Message,
    ModelInfo,
    Request,
    RequestOptions,
    SystemBlock,
    Text,
    Think,
    ToolAnswer,
    ToolSpec,
)
from agentctl.providers.adapter import Endpoint
from agentctl.providers.profiles import PROFILES, Profile
from tests.server import Server

APIS: tuple[Api, ...] = ("openai-chat", "openai-responses", "anthropic-messages")
BASH = ToolSpec(
    name="bash",
    description="Runs a command.",
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": False,
    },
    effect="exec",
    set="core",
    subjects=lambda args: (),
)


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


def answers(message: Message, content: str = "ok") -> Message:
    """The results of all calls of a message."""
    return Message(
        role="tool", parts=tuple(ToolAnswer(call_id=call.id, name=call.name, content=content) for call in message.calls)
    )


def profile_of(api: Api) -> Profile:
    profile = PROFILES["anthropic" if api == "anthropic-messages" else "openai"]
    return profile.replace(endpoint_fallback=())


def endpoint_of(server: Server, api: Api, *, profile: Profile | None = None, key: str = "key-1") -> Endpoint:
    base_url = server.root_url if api == "anthropic-messages" else server.base_url
    return Endpoint(vendor="test", api=api, base_url=base_url, key=key, profile=profile or profile_of(api))


def request_of(
    endpoint: Endpoint, *messages: Message, name: str = "model-1", think: Think = "off", max_output: int | None = 3000
) -> Request:
    return Request(
        system=(SystemBlock(name="identity", text="Be brief."),),
        messages=messages or (user("hi"),),
        tools=(BASH,),
        options=RequestOptions(think=think, max_output_tokens=max_output),
        model=ModelInfo(
            vendor=endpoint.vendor,
            name=name,
            api=endpoint.api,
            base_url=endpoint.base_url,
            origin="test",
            profile=endpoint.profile.name,
        ),
    )


async def collect(items: AsyncIterator[StreamItem]) -> list[StreamItem]:
    return [item async for item in items]


async def ask(provider: Provider, request: Request) -> Completed:
    last = (await collect(provider.stream(request)))[-1]
    assert isinstance(last, Completed)
    return last
