"""A turn as chat completion chunks, or as one chat completion."""

from __future__ import annotations

from typing import Any

from tests.server.render_common import arguments, call_id, dumps
from tests.server.script import Turn

_STOPS = {"end": "stop", "calls": "tool_calls", "length": "length", "refused": "content_filter"}


def events(turn: Turn, body: Any, answer: int) -> list[tuple[str, str]]:
    base = {"id": f"chatcmpl-{answer}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    rows: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    rows += [{"reasoning_content": piece} for piece in turn.pieces(turn.reasoning)]
    rows += [{"content": piece} for piece in turn.pieces(turn.whole_text)]
    for place, call in enumerate(turn.calls):
        head = {"id": call_id(call, answer, place, "call_"), "type": "function"}
        rows.append({"tool_calls": [{"index": place, **head, "function": {"name": call.name, "arguments": ""}}]})
        rows += [
            {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}
            for piece in turn.pieces(arguments(call))
        ]
    chunks = [{**base, "choices": [{"index": 0, "delta": row, "finish_reason": None}]} for row in rows]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": _STOPS[turn.stop_reason]}]})
    if turn.usage is not None and (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**base, "choices": [], "usage": _usage(turn)})
    return [*(("", dumps(chunk)) for chunk in chunks), ("", "[DONE]")]


def whole(turn: Turn, body: Any, answer: int) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": turn.whole_text or None}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call_id(call, answer, place, "call_"),
                "type": "function",
                "function": {"name": call.name, "arguments": arguments(call)},
            }
            for place, call in enumerate(turn.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _STOPS[turn.stop_reason]}
    usage = {} if turn.usage is None else {"usage": _usage(turn)}
    return {
        "id": f"chatcmpl-{answer}",
        "object": "chat.completion",
        "model": body["model"],
        "choices": [choice],
        **usage,
    }


def _usage(turn: Turn) -> dict[str, Any]:
    counts = turn.usage
    assert counts is not None
    prompt = counts.input + counts.cache_read + counts.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": counts.output,
        "total_tokens": prompt + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.cache_read},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
    }
