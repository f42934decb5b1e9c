"""Which part of a history goes on the wire. Pure; the history itself is never changed."""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.core.record import Record
from agentctl.core.types import Message, Reasoning, Text

LONG_CHARS, HEAD_CHARS, TAIL_CHARS = 800, 300, 200


class View(Record):
    """Which part of a history goes on the wire."""

    start: int = 0
    """Index of the first message of the tail; what stands before it is left out, except the task."""
    reasons_from: int = 0
    """Messages before this index go without their reasoning."""
    summary: str = ""


def apply(history: Sequence[Message], view: View) -> tuple[Message, ...]:
    """The messages of a request: the task, then the tail."""
    if view.start == 0 and view.reasons_from == 0:
        return tuple(history)
    task = [place for place, message in enumerate(history) if message.role == "user"][-1:]
    first = [place for place, message in enumerate(history) if message.role == "user"][:1]
    kept = [
        *(_trimmed(history[place]) for place in first if place < view.start and place not in task),
        *(_prompt_only(history[place]) for place in task if place < view.start),
    ]
    tail = [
        without_reasoning(message) if place < view.reasons_from else message
        for place, message in enumerate(history[view.start :], start=view.start)
    ]
    return tuple(message for message in (*kept, *tail) if message.parts)


def without_reasoning(message: Message) -> Message:
    if not any(isinstance(part, Reasoning) for part in message.parts):
        return message
    return message.replace(parts=tuple(part for part in message.parts if not isinstance(part, Reasoning)))


def _trimmed(message: Message) -> Message:
    """An earlier user message: over 800 characters only its beginning and end."""
    text = message.text
    if len(text) <= LONG_CHARS:
        return Message(role="user", parts=(Text(text=text),) if text.strip() else ())
    left_out = len(text) - HEAD_CHARS - TAIL_CHARS
    cut = f"{text[:HEAD_CHARS]}\n[{left_out:,} characters left out]\n{text[-TAIL_CHARS:]}"
    return Message(role="user", parts=(Text(text=cut),))


def _prompt_only(message: Message) -> Message:
    """The task itself stays whole; what was attached to it is cut like an earlier message."""
    prompt, *attached = [part for part in message.parts if isinstance(part, Text)] or [Text(text="")]
    cut = [part for block in attached for part in _trimmed(Message(role="user", parts=(block,))).parts]
    return Message(role="user", parts=(prompt, *cut))
