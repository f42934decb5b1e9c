"""A turn as Responses events, or as one response object."""

from __future__ import annotations

from typing import Any

from tests.server.render_common import arguments, call_id, dumps
from tests.server.script import Turn


def events(turn: Turn, body: Any, answer: int) -> list[tuple[str, str]]:
    started = {**_response(turn, body, answer, ()), "status": "in_progress"}
    rows: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    items = _items(turn, body, answer)
    for place, item in enumerate(items):
        rows += _item_events(turn, item, place)
    final = _response(turn, body, answer, items)
    rows.append({"type": f"response.{final['status']}", "response": final})
    return [(row["type"], dumps({**row, "sequence_number": number})) for number, row in enumerate(rows)]


def whole(turn: Turn, body: Any, answer: int) -> Any:
    return _response(turn, body, answer, _items(turn, body, answer))


def _item_events(turn: Turn, item: dict[str, Any], place: int) -> list[dict[str, Any]]:
    at = {"output_index": place, "item_id": item["id"]}
    kind = item["type"]
    if kind == "message":
        text = item["content"][0].get("text", item["content"][0].get("refusal", ""))
        field = "output_text" if "text" in item["content"][0] else "refusal"
        empty = {**item["content"][0], "text" if field == "output_text" else "refusal": ""}
        part = {**at, "content_index": 0}
        middle: list[dict[str, Any]] = [{"type": "response.content_part.added", **part, "part": empty}]
        middle += [{"type": f"response.{field}.delta", **part, "delta": piece} for piece in turn.pieces(text)]
        middle.append({"type": f"response.{field}.done", **part, "text": text})
        middle.append({"type": "response.content_part.done", **part, "part": item["content"][0]})
        start = {**item, "content": []}
    elif kind == "function_call":
        name = "response.function_call_arguments"
        middle = [{"type": f"{name}.delta", **at, "delta": piece} for piece in turn.pieces(item["arguments"])]
        middle.append({"type": f"{name}.done", **at, "arguments": item["arguments"]})
        start = {**item, "arguments": ""}
    else:
        text = item["summary"][0]["text"]
        part = {**at, "summary_index": 0}
        name = "response.reasoning_summary_text"
        middle = [{"type": f"{name}.delta", **part, "delta": piece} for piece in turn.pieces(text)]
        middle.append({"type": f"{name}.done", **part, "text": text})
        start = {**item, "summary": []}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": {**start, "status": "in_progress"}},
        *middle,
        {"type": "response.output_item.done", "output_index": place, "item": item},
    ]


def _items(turn: Turn, body: Any, answer: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.reasoning:
        item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{answer}", "status": "completed"}
        item["summary"] = [{"type": "summary_text", "text": turn.reasoning}]
        if "reasoning.encrypted_content" in (body.get("include") or ()):
            item["encrypted_content"] = f"sealed-{answer}"
        items.append(item)
    if turn.whole_text or not turn.calls:
        part: dict[str, Any] = {"type": "output_text", "text": turn.whole_text, "annotations": []}
        if turn.stop == "refused":
            part = {"type": "refusal", "refusal": turn.whole_text or "I can't help with that."}
        items.append(
            {"type": "message", "id": f"msg_{answer}", "role": "assistant", "status": "completed", "content": [part]}
        )
    for place, call in enumerate(turn.calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{answer}x{place}",
                "call_id": call_id(call, answer, place, "call_"),
                "name": call.name,
                "arguments": arguments(call),
                "status": "completed",
            }
        )
    return items


def _response(turn: Turn, body: Any, answer: int, items: Any) -> dict[str, Any]:
    response: dict[str, Any] = {
        "id": f"resp_{answer}",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "incomplete" if turn.stop == "length" else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if turn.stop == "length" else None,
        "output": list(items),
        "usage": None,
    }
    counts = turn.usage
    if items and counts is not None:
        prompt = counts.input + counts.cache_read + counts.cache_write
        response["usage"] = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": counts.cache_read},
            "output_tokens": counts.output,
            "output_tokens_details": {"reasoning_tokens": counts.reasoning},
            "total_tokens": prompt + counts.output,
        }
    return response
