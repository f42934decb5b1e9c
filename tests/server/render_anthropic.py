"""A turn as Messages events, or as one message."""

from __future__ import annotations

import json
from typing import Any

from tests.server.render_common import arguments, call_id, dumps
from tests.server.script import Counts, Turn
from tests.server.validate_anthropic import SIGNATURE, UNTHOUGHT

_STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}


def events(turn: Turn, body: Any, answer: int) -> list[tuple[str, str]]:
    start = {**_message(turn, body, answer), "content": [], "stop_reason": None}
    start["usage"] = {**_usage(turn.usage or Counts()), "output_tokens": 1}
    rows: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, (block, deltas) in enumerate(_blocks(turn, answer)):
        rows.append({"type": "content_block_start", "index": index, "content_block": block})
        rows += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        rows.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": _STOPS[turn.stop_reason], "stop_sequence": None}}
    rows.append({**end, "usage": {"output_tokens": (turn.usage or Counts()).output}})
    rows.append({"type": "message_stop"})
    return [(row["type"], dumps(row)) for row in rows]


def whole(turn: Turn, body: Any, answer: int) -> Any:
    message = _message(turn, body, answer)
    for block, deltas in _blocks(turn, answer):
        done = dict(block)
        for delta in deltas:
            kind = delta["type"].removesuffix("_delta")
            if kind == "input_json":
                done["input"] = json.loads(arguments(next(call for call in turn.calls if call.name == block["name"])))
            else:
                done[kind] = done.get(kind, "") + delta[kind]
        message["content"].append(done)
    return message


def _message(turn: Turn, body: Any, answer: int) -> dict[str, Any]:
    return {
        "id": f"msg_{answer}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": _STOPS[turn.stop_reason],
        "stop_sequence": None,
        "usage": _usage(turn.usage or Counts()),
    }


def _blocks(turn: Turn, answer: int) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if turn.reasoning:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in turn.pieces(turn.reasoning)]
        deltas.append({"type": "signature_delta", "signature": f"{SIGNATURE}{answer}"})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if turn.whole_text:
        pieces = [{"type": "text_delta", "text": piece} for piece in turn.pieces(turn.whole_text)]
        blocks.append(({"type": "text", "text": ""}, pieces))
    prefix = "toolu_" if turn.reasoning else f"toolu_{UNTHOUGHT}"
    for place, call in enumerate(turn.calls):
        head = {"type": "tool_use", "id": call_id(call, answer, place, prefix), "name": call.name, "input": {}}
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in turn.pieces(arguments(call))]
        blocks.append((head, [{"type": "input_json_delta", "partial_json": ""}, *parts]))
    return blocks


def _usage(counts: Counts) -> dict[str, Any]:
    return {
        "input_tokens": counts.input,
        "cache_read_input_tokens": counts.cache_read,
        "cache_creation_input_tokens": counts.cache_write,
        "output_tokens": counts.output,
    }
