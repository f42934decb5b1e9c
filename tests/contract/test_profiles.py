"""Every endpoint family on the wire: one hostile history, sent as each vendor's profile says, looked at by a server.

What has to stand there is written here, not read from the profile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

from agentctl.core.record import Record
from agentctl.core.types import Api, Image, Message, Opaque, Reasoning, Text, ToolAnswer, ToolCall, ToolSpec
from agentctl.providers.adapter import Endpoint, Healing
from agentctl.providers.make import adapter_for, make_transport
from agentctl.providers.presets import PRESETS
from agentctl.providers.profiles import PROFILES
from agentctl.providers.wire import WireProvider
from tests.server import Server, Turn, serve
from tests.unit.providers.provider_requests import ask, request_of, user

PNG = Image(media_type="image/png", data="AAAA")
LONG_ID = "call with spaces, ünicode and " + "x" * 60
FOREIGN = Reasoning(
    text="thought elsewhere",
    opaque=Opaque(
        provider="https://other.example",
        api="anthropic-messages",
        model="other",
        data={"type": "thinking", "thinking": "thought elsewhere", "signature": "of-another"},
    ),
)
ODD_TOOL = ToolSpec(
    name="odd.tool/with a name",
    description="d",
    parameters={
        "type": "object",
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", None], "default": "x"},
            "b": {"type": "integer", "exclusiveMinimum": 0, "$comment": "c"},
            "c": {"$ref": "#/$defs/d"},
        },
        "$defs": {"d": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
        "additionalProperties": False,
    },
    effect="read",
    set="core",
    subjects=lambda args: (),
)
HISTORY = (
    Message(role="user", parts=(Text(text="look"), PNG)),
    Message(role="assistant", parts=(FOREIGN, ToolCall(id=LONG_ID, name="odd.tool/with a name", arguments="{}"))),
    Message(
        role="tool",
        parts=(ToolAnswer(call_id=LONG_ID, name="odd.tool/with a name", content="a picture", images=(PNG,)),),
    ),
    user("and now?"),
)


class Expected(Record):
    limit: str = "max_tokens"
    call_id: str = r"[A-Za-z0-9_-]{1,40}"
    image: str = "behind"
    """Where the image of a result stands: behind (in the next message of the user) or inside."""
    content: object = None
    """Of a message with calls and no text."""
    between: bool = False
    """Whether an assistant message parts a result from the user."""
    usage: bool = True
    """Whether the usage is asked for."""


CHAT: Mapping[str, Expected] = {
    "openai": Expected(limit="max_completion_tokens"),
    "openrouter": Expected(),
    "groq": Expected(limit="max_completion_tokens"),
    "deepseek": Expected(),
    "xai": Expected(limit="max_completion_tokens"),
    "mistral": Expected(call_id=r"[A-Za-z0-9]{9}", content="", between=True, usage=False),
    "gemini": Expected(),
    "azure": Expected(limit="max_completion_tokens"),
    "ollama": Expected(content=""),
    "lmstudio": Expected(),
    "llamacpp": Expected(),
    "vllm": Expected(),
}
RESPONSES: Mapping[str, str] = {
    **dict.fromkeys(("openai", "azure", "openrouter", "xai"), "inside"),
    **dict.fromkeys(("groq", "deepseek", "mistral", "gemini", "ollama", "lmstudio", "llamacpp", "vllm"), "behind"),
}


def sent(vendor: str, api: Api) -> Any:
    """The body that arrives."""

    async def main(server: Server) -> None:
        base = server.root_url if api == "anthropic-messages" else server.base_url
        profile = PROFILES[PRESETS[vendor].profile].replace(auth="bearer")  # what this server takes from anybody
        endpoint = Endpoint(vendor=vendor, api=api, base_url=base, key="k", profile=profile)
        provider = WireProvider(adapter_for(api), endpoint, make_transport("direct", endpoint))
        request = request_of(endpoint, *HISTORY)
        await ask(provider, request.replace(tools=(ODD_TOOL, *request.tools)))
        await provider.close()

    with serve([Turn(text="ok")]) as server:
        asyncio.run(main(server))
        assert server.refusals == []
        return server.requests[0].body


def schema_words(schema: Any) -> set[str]:
    """Every keyword of a schema, at any depth."""
    if isinstance(schema, list):
        return {word for item in schema for word in schema_words(item)}
    if not isinstance(schema, dict):
        return set()
    own = {key for key in schema if key not in ("properties", "$defs")}
    below = [value for key, value in schema.items() if key not in ("properties", "$defs", "enum", "default")]
    named = [value for key in ("properties", "$defs") for value in schema.get(key, {}).values()]
    return own | {word for item in (*below, *named) for word in schema_words(item)}


def test_every_vendor_of_chat_is_here() -> None:
    vendors = {name for name, preset in PRESETS.items() if preset.api == "openai-chat"}
    assert vendors == set(CHAT) == set(RESPONSES)


@pytest.mark.parametrize("vendor", CHAT)
def test_chat(vendor: str) -> None:
    expected, body = CHAT[vendor], sent(vendor, "openai-chat")
    assert body[expected.limit] == 3000
    assert ("stream_options" in body) is expected.usage
    messages = body["messages"]
    roles = ["system", "user", "assistant", "tool", *(["assistant"] if expected.between else []), "user"]
    if not PROFILES[PRESETS[vendor].profile].merges_same_role:
        roles.append("user")  # the image, then what the user said
    assert [message["role"] for message in messages] == roles
    caller, answer = messages[2], messages[3]
    assert caller["content"] == expected.content
    assert "thought elsewhere" not in str(body)
    call = caller["tool_calls"][0]
    assert re.fullmatch(expected.call_id, call["id"])
    assert answer["tool_call_id"] == call["id"]
    assert call["function"]["name"] == body["tools"][0]["function"]["name"] == "odd_tool_with_a_name"
    assert answer["content"] == "a picture\n[1 image(s), shown in the next message]"
    assert [part["type"] for part in messages[1]["content"]] == ["text", "image_url"]
    behind = [message for message in messages[4:] if message["role"] == "user"]
    assert "image_url" in str(behind[0])
    assert "and now?" in str(behind[-1])


@pytest.mark.parametrize("vendor", RESPONSES)
def test_responses(vendor: str) -> None:
    body = sent(vendor, "openai-responses")
    kinds = [(item["type"], item.get("role")) for item in body["input"]]
    output = next(item for item in body["input"] if item["type"] == "function_call_output")
    assert "thought elsewhere" not in str(body)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", output["call_id"])
    if RESPONSES[vendor] == "inside":
        assert [part["type"] for part in output["output"]] == ["input_text", "input_image"]
        assert kinds[2:] == [("function_call_output", None), ("message", "user")]
    else:
        assert output["output"] == "a picture\n[1 image(s), shown in the next message]"
        assert kinds[2:] == [("function_call_output", None), ("message", "user"), ("message", "user")]
        assert [part["type"] for part in body["input"][3]["content"]] == ["input_text", "input_image"]


@pytest.mark.parametrize("vendor", ["anthropic", "bedrock", "vertex"])
def test_messages(vendor: str) -> None:
    body = sent(vendor, "anthropic-messages")
    assert body["max_tokens"] == 3000
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    call, result = body["messages"][1]["content"][0], body["messages"][2]["content"][0]
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["id"])
    assert (result["type"], result["tool_use_id"]) == ("tool_result", call["id"])
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert body["messages"][2]["content"][-1]["text"] == "and now?"


GEMINI = frozenset(
    {"type", "description", "enum", "items", "required", "nullable", "format", "minItems", "maxItems", "anyOf"}
    | {"minimum", "maximum", "default"}
)


@pytest.mark.parametrize("vendor", [*CHAT, "anthropic"])
def test_the_schema_is_in_the_subset_of_the_service(vendor: str) -> None:
    body = sent(vendor, PRESETS[vendor].api)
    tool = body["tools"][0]
    schema = tool["input_schema"] if vendor == "anthropic" else tool["function"]["parameters"]
    assert schema["type"] == "object"
    assert set(schema["properties"]) == {"a", "b", "c"}
    assert not {"anyOf", "oneOf", "allOf"} & set(schema)
    if vendor == "gemini":
        assert schema_words(schema) <= GEMINI


def test_a_service_whose_results_hold_parts_gets_text_alone_as_text() -> None:
    """No preset says so for chat; a profile may."""
    profile = PROFILES["compatible"].replace(answer_parts=("openai-chat",))
    endpoint = Endpoint(vendor="v", api="openai-chat", base_url="http://127.0.0.1:1/v1", key="k", profile=profile)
    body = adapter_for("openai-chat").to_wire(request_of(endpoint, *HISTORY), endpoint, Healing())
    assert [part["type"] for part in body["messages"][3]["content"]] == ["text", "image_url"]
    plain = (*HISTORY[:2], HISTORY[2].replace(parts=(HISTORY[2].parts[0].replace(images=()),)), HISTORY[3])
    body = adapter_for("openai-chat").to_wire(request_of(endpoint, *plain), endpoint, Healing())
    assert body["messages"][3]["content"] == "a picture"
