"""What a service says went wrong → the ProviderError that it means.

Messages carry the service's own words on one line; hints say what to do. Retry-After and the like end up in
`retry_after_s`, a rejected field in `param`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentctl.core.errors import ContextOverflow, OutputCapped, ProviderError, StreamBroken
from agentctl.core.text import one_line
from agentctl.providers.failure_facts import Facts, read_body, read_value
from agentctl.providers.failure_table import (
    BAD_REQUEST,
    BILLING,
    FAILED_STREAM,
    PROXIED_REJECTION,
    RATE_LIMIT,
    ROOM_TEXTS,
    ROWS,
    USED_UP,
    WINDOW_TEXT,
    WINDOW_TEXTS,
    Row,
)
from agentctl.providers.waits import retry_after

__all__ = ["from_error", "from_response", "retry_after", "stream_broken"]

NEAR_RESET_S = 60.0
"""A used-up plan that resets within this time is waited for like a rate limit."""
_TOO_MANY = 429
_SMALLEST_ROOM = 64
"""Less room for the output than this is no room: the prompt has to become shorter."""


def from_error(error: Any, *, status: int | None = None) -> ProviderError:
    """The failure behind an error value from inside a body or a stream.

    `error` is an object, a string, a list or JSON inside a string. `status` is the HTTP status where it was not 200;
    without it a status or code inside the error counts, and an error that says neither is a StreamBroken.
    """
    return _failure(status, read_value(error), None)


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The failure behind a response that is not 2xx."""
    facts = read_body(body)
    location = next((value for name, value in headers.items() if name.lower() == "location"), "")
    if 300 <= status < 400 and location:
        facts = facts.replace(texts=(location,))
    return _failure(status, facts, retry_after(headers, reads_resets=status == _TOO_MANY))


def stream_broken(what: str) -> StreamBroken:
    """A response that is no answer (wrong format, empty, cut); `what` is a full sentence without its stop."""
    return StreamBroken(f"{what}.", hint=FAILED_STREAM.hint)


def _failure(status: int | None, facts: Facts, asked_wait: float | None) -> ProviderError:
    said = status if status is not None else next(reversed(facts.statuses), None)
    wait = asked_wait if asked_wait is not None else facts.wait_s
    row = _row(said, facts, wait)
    capped = _output_capped(said, facts, row)
    if capped is not None:
        return capped
    message = _message(row.what, said, facts)
    if row is USED_UP and wait is not None:
        message = f"{message.rstrip('.')} (resets in {_duration(wait)})"
    error = row.error(
        message,
        hint=row.hint,
        status=said,
        kind=row.kind,
        param=facts.param if row.error is ProviderError else "",
        retry_after_s=wait if row.error.retryable else None,
    )
    if row.is_retryable is not None:
        error.retryable = row.is_retryable
    if isinstance(error, ContextOverflow):
        error.window = _window(facts)
    return error


def _window(facts: Facts) -> int | None:
    """The window of the service, when its refusal of a long prompt names it."""
    found = (re.search(pattern, facts.searched) for pattern in WINDOW_TEXTS)
    number = next((match["window"] for match in found if match), None)
    return int(number.replace(",", "")) if number else None


def _row(status: int | None, facts: Facts, wait: float | None) -> Row:
    row = next((row for row in ROWS if row.fits(status, facts)), FAILED_STREAM)
    if row is USED_UP and wait is not None and wait <= NEAR_RESET_S:
        return RATE_LIMIT
    if row.kind == "unavailable" and status is not None and status >= 500 and _holds_rejection(status, facts):
        return PROXIED_REJECTION
    return row


def _holds_rejection(status: int, facts: Facts) -> bool:
    """Whether the innermost error is the service's 4xx, wrapped by something that answered 5xx."""
    inner = [code for code in facts.statuses if code != status]
    return bool(BAD_REQUEST.codes & facts.codes) or any(code in (400, 404, 422) for code in inner[-1:])


def _message(what: str, status: int | None, facts: Facts) -> str:
    place = f" (HTTP {status})" if status is not None else ""
    words = facts.words
    if not words:
        words = "the answer was empty" if status is not None else "it gave no reason"
    return f"{what}{place}: {words}"


def _output_capped(status: int | None, facts: Facts, row: Row) -> OutputCapped | None:
    """The prompt is fine but the output asked for is too long; only where the service said how much would do."""
    if row is not BILLING and row.kind not in (ContextOverflow.kind, BAD_REQUEST.kind):
        return None
    text = facts.searched
    found = next((found for found in (re.search(pattern, text) for pattern in ROOM_TEXTS) if found), None)
    if found is None:
        return None
    numbers = {name: int(value.replace(",", "")) for name, value in found.groupdict().items() if value}
    window = re.search(WINDOW_TEXT, text)
    if "window" not in numbers and window:
        numbers["window"] = int(window.group("window").replace(",", ""))
    room, is_limit = _room(numbers)
    if room is None or room < (1 if is_limit else _SMALLEST_ROOM):
        return None
    what = row.what if row is BILLING else "The output asked for is longer than what fits"
    error = OutputCapped(_message(what, status, facts), room=room, status=status)
    error.kind = "output_limit" if is_limit else "output_room"
    error.hint = "Ask for fewer output tokens."
    if row is BILLING:
        error.kind, error.ending, error.hint = row.kind, row.error.ending, row.hint
    return error


def _room(numbers: Mapping[str, int]) -> tuple[int | None, bool]:
    """Output tokens that would fit, and whether that is a limit of the model and not what the prompt leaves."""
    if "cap" in numbers:
        return numbers["cap"], True
    if "below" in numbers:
        return numbers["below"] - 1, True
    prompt = numbers.get("prompt")
    if prompt is None and "total" in numbers and "output" in numbers:
        prompt = numbers["total"] - numbers["output"]
    if prompt is None or "window" not in numbers:
        return None, False
    return numbers["window"] - prompt, False


def _duration(seconds: float) -> str:
    hours, minutes = int(seconds // 3600), int(seconds % 3600 // 60)
    return one_line(f"{hours} h {minutes} min" if hours else f"{minutes} min {int(seconds % 60)} s")
