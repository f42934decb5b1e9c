"""What the request types of the official clients say about a body: nothing is wrong and nothing is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from agentctl.core.types import Api, JsonObject


@cache
def _types(api: Api) -> Any:
    from pydantic import TypeAdapter  # the types of one client cost a second, so each only where it is used

    if api == "openai-chat":
        from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

        return TypeAdapter(CompletionCreateParamsStreaming)
    if api == "openai-responses":
        from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

        return TypeAdapter(ResponseCreateParamsStreaming)
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return TypeAdapter(MessageCreateParamsStreaming)


def read_by_sdk(api: Api, body: JsonObject) -> Any:
    """The body as the client's types read it: fields that they do not know are gone. Raises ValidationError."""
    return _whole(_types(api).validate_python(body))


def as_sdk_wants(api: Api, body: JsonObject) -> JsonObject:
    """The body with what the client's types ask for and the service does not: ids of assistant messages."""
    if api != "openai-responses":
        return body
    return {**body, "input": [_filled(item) for item in body["input"]]}


def _filled(item: JsonObject) -> JsonObject:
    if item.get("role") != "assistant":
        return item
    content = [{**part, "annotations": []} for part in item["content"]]
    return {"id": "msg_1", "status": "completed", **item, "content": content}


def _whole(value: Any) -> Any:
    """Reads `Iterable` members, which are validated only then."""
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [_whole(item) for item in value]
    return value
