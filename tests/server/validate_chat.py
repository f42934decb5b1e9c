"""What the chat completions service refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.server.validate_common import key_of, known_fields, model_of, need, schema, unique, words

FIELDS = words(
    "model messages tools tool_choice stream stream_options max_tokens max_completion_tokens temperature top_p stop"
    " seed reasoning_effort prompt_cache_key parallel_tool_calls response_format n user store metadata verbosity"
    " service_tier safety_identifier prompt_cache_retention"
    " thinking reasoning chat_template_kwargs"  # fields of compatible services
)
_ROLES = ("system", "developer", "user", "assistant", "tool")


def check(body: dict[str, Any], headers: Mapping[str, str]) -> None:
    key_of(headers)
    known_fields(body, FIELDS, "", "Unrecognized request argument supplied: {}")
    model_of(body)
    _limits(body)
    need(
        body.get("stream") or "stream_options" not in body,
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        param="stream_options",
    )
    _tools(body.get("tools"))
    messages: Any = body.get("messages")
    need(isinstance(messages, list) and messages, "'messages' is a required array", param="messages")
    _messages(messages)


def _limits(body: Mapping[str, Any]) -> None:
    need(
        not ("max_tokens" in body and "max_completion_tokens" in body),
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        param="max_tokens",
    )
    is_reasoner = str(body["model"]).startswith(("o1", "o3", "o4", "gpt-5", "gpt-6"))
    need(
        not (is_reasoner and "max_tokens" in body),
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        param="max_tokens",
        code="unsupported_parameter",
    )
    for name in ("max_tokens", "max_completion_tokens"):
        need(int(body.get(name) or 1) >= 1, f"{name} must be at least 1", param=name)


def _tools(tools: Any) -> None:
    if tools is None:
        return
    need(isinstance(tools, list) and tools, "[] is too short - 'tools'", param="tools")
    for place, tool in enumerate(tools):
        known_fields(tool, ("type", "function"), f"tools[{place}].", "Unknown parameter: '{}'.")
        need(tool.get("type") == "function", f"tools[{place}].type", param="tools")
        function = tool["function"]
        known_fields(
            function,
            ("name", "description", "parameters", "strict"),
            f"tools[{place}].function.",
            "Unknown parameter: '{}'.",
        )
        schema(function.get("parameters"), f"tools[{place}].function.parameters")
    unique([tool["function"].get("name") for tool in tools], "tools")


def _messages(messages: list[Any]) -> None:
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        role = message.get("role") if isinstance(message, dict) else None
        need(role in _ROLES, f"Invalid value: {role!r} for {where}.role", param=where)
        if role == "tool":
            call_id = message.get("tool_call_id")
            need(
                call_id in waiting,
                "Invalid parameter: messages with role 'tool' must be a response to a message with 'tool_calls'.",
                param=f"{where}.role",
            )
            waiting.remove(call_id)
            need(_is_content(message.get("content"), ("text",)), f"{where}.content: string or text parts", param=where)
            continue
        need(
            not waiting,
            "An assistant message with 'tool_calls' must be followed by tool messages for each 'tool_call_id'."
            f" The following tool_call_ids did not have response messages: {', '.join(waiting)}",
            param=f"{where}.role",
        )
        if role == "assistant":
            waiting = _calls(message, where)
        else:
            kinds = ("text", "image_url") if role == "user" else ("text",)
            need(
                _is_content(message.get("content"), kinds),
                f"Invalid type for '{where}.content'",
                param=f"{where}.content",
            )
    need(not waiting, f"tool_call_ids did not have response messages: {', '.join(waiting)}", param="messages")


def _calls(message: Mapping[str, Any], where: str) -> list[str]:
    calls = message.get("tool_calls")
    need(calls is None or (isinstance(calls, list) and calls), f"{where}.tool_calls: empty array", param=where)
    content = message.get("content")
    need(
        (content is None and calls) or _is_content(content, ("text", "refusal")),
        f"Invalid value for 'content': expected a string, got {content!r}.",
        param=f"{where}.content",
    )
    ids = []
    for call in calls or ():
        need(call.get("type") == "function", f"{where}.tool_calls: type", param=where)
        need(isinstance(call["function"].get("arguments"), str), f"{where}: arguments must be a string", param=where)
        unique([call["function"].get("name")], f"{where}.tool_calls")
        call_id = call.get("id") or ""
        need(
            0 < len(call_id) <= 40, f"Invalid '{where}.tool_calls.id': string too long. Maximum length 40.", param=where
        )
        ids.append(call_id)
    need(len(ids) == len(set(ids)), f"{where}: duplicate tool call ids", param=where)
    return ids


def _is_content(content: Any, kinds: tuple[str, ...]) -> bool:
    if isinstance(content, str):
        return True
    return isinstance(content, list) and bool(content) and all(part.get("type") in kinds for part in content)
