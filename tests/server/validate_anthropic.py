"""What the Anthropic Messages service refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.server.validate_common import key_of, known_fields, model_of, need, schema, unique, words

FIELDS = words(
    "model messages max_tokens system tools tool_choice stream temperature top_p top_k stop_sequences thinking metadata"
    " cache_control output_config service_tier"
)
_BLOCK_FIELDS = {
    "text": "type text cache_control",
    "image": "type source cache_control",
    "tool_use": "type id name input cache_control",
    "tool_result": "type tool_use_id content is_error cache_control",
    "thinking": "type thinking signature",
    "redacted_thinking": "type data",
}
UNTHOUGHT = "un"
"""Marks the ids of calls that came without a thinking block, so none can be asked back."""
_BLOCKS = {"user": ("text", "image", "tool_result"), "assistant": ("text", "tool_use", "thinking", "redacted_thinking")}
_EXTRA = "{}: Extra inputs are not permitted"
SIGNATURE = "signed-"
"""How the signatures begin that this server gives out; others are invalid."""


def check(body: dict[str, Any], headers: Mapping[str, str]) -> None:
    key_of(headers, also_x_api_key=True)
    need(headers.get("anthropic-version"), "anthropic-version: header is required")
    known_fields(body, FIELDS, "", _EXTRA)
    model_of(body)
    limit = body.get("max_tokens")
    need(isinstance(limit, int), "max_tokens: Field required")
    need(int(limit or 0) >= 1, "max_tokens: Input should be greater than or equal to 1")
    is_budgeted = _thinking(body) == "enabled"
    for place, tool in enumerate(body.get("tools") or ()):
        known_fields(tool, ("name", "description", "input_schema", "cache_control", "type"), f"tools.{place}.", _EXTRA)
        schema(tool.get("input_schema"), f"tools.{place}.input_schema")
    unique([tool.get("name") for tool in body.get("tools") or ()], "tools")
    _system(body.get("system"))
    messages: Any = body.get("messages")
    need(isinstance(messages, list) and messages, "messages: Field required")
    _messages(messages, is_budgeted)
    need(str(body).count("'cache_control'") <= 4, "A maximum of 4 blocks with cache_control may be provided.")


def _thinking(body: Mapping[str, Any]) -> str:
    thinking = body.get("thinking") or {"type": "disabled"}
    kind = thinking.get("type")
    need(kind in ("enabled", "adaptive", "disabled"), f"thinking.type: {kind!r} is not known")
    if kind == "enabled":
        budget = thinking.get("budget_tokens", 0)
        need(budget >= 1024, "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        need(budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`.")
    if kind != "disabled":
        need(body.get("temperature", 1) == 1, "`temperature` may only be set to 1 when thinking is enabled.")
    return str(kind)


def _system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    for place, block in enumerate(system):
        known_fields(block, ("type", "text", "cache_control"), f"system.{place}.", _EXTRA)
        need(block.get("text", "").strip(), f"system.{place}: text content blocks must contain non-whitespace text")


def _messages(messages: list[Any], is_budgeted: bool) -> None:
    """`is_budgeted`: calls in flight must begin with their thinking; an adaptive model takes them without."""
    need(messages[0].get("role") == "user", 'messages: first message must use the "user" role')
    need(messages[-1].get("role") == "user", "This model does not support assistant message prefill.")
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages.{place}"
        known_fields(message, ("role", "content"), f"{where}.", _EXTRA)
        role = message.get("role")
        need(role in _BLOCKS, f"{where}.role: unexpected value {role!r}")
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        need(isinstance(blocks, list) and blocks, f"{where}: all messages must have non-empty content")
        for number, block in enumerate(blocks):
            _block(block, str(role), f"{where}.content.{number}")
        if role == "user":
            _answers(blocks, waiting, where)
            waiting = []
        else:
            need(not waiting, f"{where}: `tool_use` ids were found without `tool_result` blocks: {', '.join(waiting)}")
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            was_thought = not (waiting and waiting[0].startswith(f"toolu_{UNTHOUGHT}"))
            if is_budgeted and waiting and was_thought and place == len(messages) - 2:
                first = blocks[0]["type"]
                need(
                    first in ("thinking", "redacted_thinking"),
                    f"{where}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`.",
                )


def _block(block: Any, role: str, where: str) -> None:
    kind = block.get("type")
    need(kind in _BLOCKS[role], f"{where}: unexpected block of type {kind!r}")
    known_fields(block, _BLOCK_FIELDS[kind].split(), f"{where}.", _EXTRA)
    if kind == "text":
        need(block.get("text"), "messages: text content blocks must be non-empty")
        need(block["text"].strip(), "messages: text content blocks must contain non-whitespace text")
    elif kind == "tool_use":
        need(
            re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block.get("id") or ""),
            f"{where}.tool_use.id: does not match the pattern",
        )
        need(isinstance(block.get("input"), dict), f"{where}.tool_use.input: Input should be a valid dictionary")
    elif kind == "thinking":
        need(str(block.get("signature", "")).startswith(SIGNATURE), f"{where}: Invalid `signature` in `thinking` block")


def _answers(blocks: list[Any], waiting: list[str], where: str) -> None:
    """Every call of the message before is answered once, before any other block."""
    given = [block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"]
    for call_id in given:
        need(call_id in waiting, f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}.")
    missing = [call_id for call_id in waiting if call_id not in given]
    need(
        not missing,
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}.",
    )
    need(len(given) == len(set(given)), f"{where}: each tool_use must have a single result.")
    kinds = [block["type"] for block in blocks]
    need(kinds[: len(given)] == ["tool_result"] * len(given), f"{where}: `tool_result` blocks must come first.")
    for block in blocks:
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            for part in block["content"]:
                need(part.get("type") in ("text", "image"), f"{where}.tool_result.content: {part.get('type')!r}")
                need(part.get("type") != "text" or part.get("text", "").strip(), f"{where}: text must be non-empty")
