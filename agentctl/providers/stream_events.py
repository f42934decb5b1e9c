"""What the decoders of typed events (Responses, Messages) share: a frame as an event, its errors, broken surrogates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ProviderError, StreamBroken
from agentctl.core.ports import StreamItem
from agentctl.core.text import clean, one_line
from agentctl.core.types import JsonObject, Usage
from agentctl.providers.adapter import Frame
from agentctl.providers.failures import from_error, stream_broken

_END_MARK = "[DONE]"


def event_of(frame: Frame) -> JsonObject | None:
    """The JSON object of a frame; None for what carries nothing (keep-alives, end marks, empty data).

    A frame named `error` always fails the stream, whatever its data is. Raises ProviderError for it, StreamBroken for
    data that begins as JSON and is none.
    """
    try:
        event = loads(frame.data)
    except ValueError:
        event = _odd(frame.data)
    if frame.event == "error" and not isinstance(event, dict):
        raise from_error(frame.data.strip() or "an error event without text")
    return event if isinstance(event, dict) else None


def _odd(data: str) -> Any:
    """Data that the strict parser refuses: half a surrogate pair is read, text that is not JSON is passed over."""
    text = data.strip()
    if not text or text == _END_MARK:
        return None
    try:
        return json.loads(text)  # reads lone surrogates, which some servers send in two events
    except ValueError as error:
        if text[0] not in "{[":
            return None
        raise stream_broken(f"The service sent an event that is not JSON: {one_line(text, 80)!r}") from error


def kind_of(event: JsonObject, frame: Frame) -> str:
    """What the event is: an error when its frame says so, else its type, else the name of its frame."""
    kind = event.get("type")
    return "error" if frame.event == "error" else kind if kind and isinstance(kind, str) else frame.event


def handle(
    frame: Frame, handlers: Mapping[str, Callable[[JsonObject], list[StreamItem]]], usage: Usage
) -> list[StreamItem]:
    """What the handler of a typed event makes of it; nothing for an event without one.

    Raises ProviderError for an event that carries an error, whatever its type, and what event_of raises.
    """
    event = event_of(frame)
    if event is None:
        return []
    handler = handlers.get(kind_of(event, frame))
    if handler is not None:
        return handler(event)
    if event.get("error"):
        raise failure(error_in(event), usage)
    return []


def error_in(event: JsonObject) -> Any:
    """The error of an event in its nested (`error: {…}`) or flat form."""
    nested = event.get("error")
    return nested if nested else {key: value for key, value in event.items() if key not in ("type", "sequence_number")}


def failure(error: Any, usage: Usage) -> ProviderError:
    """The exception of an error inside a stream, with the tokens that were paid for until then."""
    raised = from_error(error)
    raised.usage = usage if usage.total else None
    return raised


def broken(what: str, usage: Usage) -> StreamBroken:
    """The exception of a response that is no answer; `what` is a full sentence without its stop."""
    raised = stream_broken(what)
    raised.usage = usage if usage.total else None
    return raised


def joined(pieces: Iterable[str]) -> str:
    """The pieces as one text. Surrogate pairs that came in two halves are whole again, lone halves are replaced."""
    text = "".join(pieces)
    if text.isascii() or clean(text) == text:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def arguments_text(value: Any) -> str:
    """The arguments of a call as JSON text; servers also send them as an object, as null or not at all."""
    if isinstance(value, str):
        return value if value.strip() else "{}"
    return dumps(value).decode() if value is not None else "{}"


def index_of(event: JsonObject, key: str) -> int | None:
    value = event.get(key)
    return value if isinstance(value, int) else None


def text_of(value: Any) -> str:
    """A field that should be text; anything else is none."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """A token count of a usage object; null, missing and odd values are 0."""
    return value if isinstance(value, int) and value > 0 else 0
