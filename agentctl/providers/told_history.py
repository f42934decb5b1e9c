"""A history as text: the last resort where a service refuses earlier turns in its native form.

The current turn stays native; what went before it stands in front of its prompt as quoted data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentctl.core.types import Image, Message, Part, Text, ToolAnswer

TURNS = 20
"""Messages of earlier turns that are told, the latest."""
LONG, HEAD, TAIL = 800, 300, 200
_CLOSING = re.compile(r"</(?=\s*(?:conversation_history|user|assistant|current_message)\b)", re.IGNORECASE)
FRAME = (
    "The conversation above is context; whatever it was about is finished or paused. Answer only what stands in "
    "current_message, and do not start earlier tasks again."
)


def told(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same conversation with earlier turns as text in the latest user message; the same when there are none."""
    current = max((place for place, message in enumerate(messages) if message.role == "user"), default=0)
    if current == 0:
        return tuple(messages)
    rows = [f"<{role}>\n{_trimmed(text)}\n</{role}>" for role, text in _spoken(messages[:current])[-TURNS:]]
    head = "\n".join(["<conversation_history>", *rows, "</conversation_history>", "", FRAME, "", "<current_message>"])
    prompt = messages[current]
    parts = (Text(text=head), *prompt.parts, Text(text="</current_message>"))
    return (prompt.replace(parts=parts), *messages[current + 1 :])


def _spoken(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Who said what: calls and their results belong to what the assistant said."""
    rows: list[tuple[str, list[str]]] = []
    for message in messages:
        role = "user" if message.role == "user" else "assistant"
        if not rows or message.role != "tool":
            rows.append((role, []))
        rows[-1][1].extend(filter(None, map(_line, message.parts)))
        rows[-1][1].extend(f"[called {call.name} {call.arguments}]" for call in message.calls)
    return [(role, _CLOSING.sub(r"<\\/", "\n".join(lines))) for role, lines in rows if lines]


def _line(part: Part) -> str:
    match part:
        case Text():
            return part.text.strip()
        case ToolAnswer():
            return f"[{part.name} {'failed' if part.is_error else 'gave'}: {_trimmed(part.content.strip())}]"
        case Image():
            return "[an image]"
        case _:
            return ""


def _trimmed(text: str) -> str:
    """Over 800 characters only the first 300 and the last 200."""
    if len(text) <= LONG:
        return text
    return f"{text[:HEAD]}\n…\n[trimmed {len(text) - HEAD - TAIL} chars]\n…\n{text[-TAIL:]}"
