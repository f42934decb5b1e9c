"""Pure functions that make a history whole again, whatever cut it off."""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.core.types import Message, ToolAnswer, ToolCall

INTERRUPTED = "interrupted, effects unknown"


def open_calls(history: Sequence[Message]) -> list[ToolCall]:
    """The calls that no answer follows, in the order they were asked for."""
    calls: dict[str, ToolCall] = {}
    for message in history:
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls[part.id] = part
            elif isinstance(part, ToolAnswer):
                calls.pop(part.call_id, None)
    return list(calls.values())


def answer(call: ToolCall, content: str, *, is_error: bool = False) -> Message:
    """The message that answers one call."""
    return Message(
        role="tool", parts=(ToolAnswer(call_id=call.id, name=call.name, content=content, is_error=is_error),)
    )
