"""What the Responses service refuses. It keeps nothing: items are complete or not found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.server.validate_common import key_of, known_fields, model_of, need, schema, unique, words

FIELDS = words(
    "model input instructions tools tool_choice stream stream_options max_output_tokens reasoning include store text"
    " temperature top_p parallel_tool_calls prompt_cache_key prompt_cache_retention metadata truncation user"
    " service_tier previous_response_id safety_identifier"
)
_ITEM_FIELDS = {
    "message": "type role content id status phase",
    "function_call": "type id call_id name arguments status",
    "function_call_output": "type id call_id output status",
    "reasoning": "type id summary encrypted_content content status",
}
_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs", "function_call_output": "fc"}
_PARTS = {
    "assistant": ("output_text", "refusal"),
    "user": ("input_text", "input_image"),
    "system": ("input_text",),
    "developer": ("input_text",),
}


def check(body: dict[str, Any], headers: Mapping[str, str]) -> None:
    key_of(headers)
    known_fields(body, FIELDS, "", "Unknown parameter: '{}'.")
    model_of(body)
    limit = body.get("max_output_tokens")
    need(
        limit is None or limit >= 16,
        f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {limit} instead.",
        param="max_output_tokens",
    )
    need(not body.get("previous_response_id"), "Previous response not found.", param="previous_response_id")
    for place, tool in enumerate(body.get("tools") or ()):
        known_fields(
            tool,
            ("type", "name", "description", "parameters", "strict"),
            f"tools[{place}].",
            "Unknown parameter: '{}'.",
        )
        need(tool.get("type") == "function", f"Invalid value: tools[{place}].type", param="tools")
        schema(tool.get("parameters"), f"tools[{place}].parameters")
    unique([tool.get("name") for tool in body.get("tools") or ()], "tools")
    items: Any = body.get("input")
    if isinstance(items, str):
        return
    need(isinstance(items, list) and items, "Missing required parameter: 'input'.", param="input")
    _items(items)


def _items(items: list[Any]) -> None:
    open_calls: dict[str, str] = {}
    for place, item in enumerate(items):
        where = f"input[{place}]"
        kind = item.get("type", "message")
        need(kind in _ITEM_FIELDS, f"Invalid value: '{kind}' for {where}.type", param=where)
        known_fields(item, _ITEM_FIELDS[kind].split(), f"{where}.", "Unknown parameter: '{}'.")
        _item_id(item, kind, where)
        if kind == "message":
            _message(item, where)
        elif kind == "function_call":
            need(isinstance(item.get("arguments"), str), f"{where}.arguments must be a string", param=where)
            unique([item.get("name")], where)
            call_id = item.get("call_id") or ""
            need(0 < len(call_id) <= 64, f"Invalid '{where}.call_id': string too long. Maximum length 64.", param=where)
            open_calls[call_id] = where
        elif kind == "function_call_output":
            call_id = item.get("call_id")
            need(
                call_id in open_calls,
                f"No tool call found for function call output with call_id {call_id}.",
                param="input",
            )
            del open_calls[call_id]
            need(isinstance(item.get("output"), (str, list)), f"{where}.output", param=where)
        else:
            _reasoning(item, items[place + 1 : place + 2], where)
    for call_id in open_calls:
        need(False, f"No tool output found for function call {call_id}.", param="input")


def _item_id(item: Mapping[str, Any], kind: str, where: str) -> None:
    if "id" not in item:
        return
    item_id = item["id"]
    need(
        re.fullmatch(r"[A-Za-z0-9_-]{1,64}", item_id or ""), f"Invalid '{where}.id': '{item_id}'.", param=f"{where}.id"
    )
    prefix = _PREFIXES[kind]
    need(
        item_id.startswith(prefix),
        f"Invalid '{where}.id': '{item_id}'. Expected an ID that begins with '{prefix}'.",
        param=f"{where}.id",
    )


def _message(item: Mapping[str, Any], where: str) -> None:
    role = item.get("role")
    need(role in _PARTS, f"Invalid value: {role!r} for {where}.role", param=where)
    content: Any = item.get("content")
    if isinstance(content, str):
        return
    need(isinstance(content, list) and content, f"Missing required parameter: '{where}.content'.", param=where)
    for part in content:
        kind = part.get("type")
        need(
            kind in _PARTS[str(role)],
            f"Invalid value: '{kind}'. Supported: {_PARTS[str(role)]}.",
            param=f"{where}.content",
        )


def _reasoning(item: Mapping[str, Any], following: list[Any], where: str) -> None:
    need(isinstance(item.get("summary"), list), f"Missing required parameter: '{where}.summary'.", param=where)
    need(
        item.get("encrypted_content"),
        f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false.",
        status=404,
        param="input",
    )
    has_next = following and (
        following[0].get("type", "message") in ("function_call", "reasoning") or following[0].get("role") == "assistant"
    )
    need(
        has_next,
        f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.",
        param="input",
    )
