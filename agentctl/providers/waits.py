"""How long a service asks to be left alone: headers and texts in all the forms that are in use."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping

LONGEST_S = 86_400.0
"""No wait is taken for longer than a day; what lies above is a mistake or as good as never."""
_EPOCH_FROM = 1_000_000_000.0
"""A number of seconds above this is a point in time, sent by mistake."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = r"(?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)\b[\s,]*)+"
_PIECE = r"(\d+(?:\.\d+)?)\s*([a-z]+)"
_ASKS = r"(?:(?:try|retry|resets?|reset|available|wait)(?:\s+again)?(?:\s+(?:after|in|for))?|after)\s+(?:about\s+)?"


def retry_after(headers: Mapping[str, str], *, now: float | None = None, reads_resets: bool = True) -> float | None:
    """Seconds to wait as the response headers say, 0 to a day; None when they do not say.

    Understands Retry-After in seconds, fractions, as a date, as a duration and (by mistake) as epoch seconds;
    retry-after-ms; and where both are missing the reset headers of OpenAI (durations) and Anthropic (times).
    `reads_resets` is for responses that a limit refused: the reset headers stand on every other response as well.
    `now` is epoch seconds, for tests.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    clock = time.time() if now is None else now
    milliseconds = _number(lower.get("retry-after-ms", ""))
    if milliseconds is not None:
        return _clamp(milliseconds / 1000)
    if lower.get("retry-after"):
        wait = _any_form(lower["retry-after"], clock)
        if wait is not None:
            return wait
    return _reset(lower, clock) if reads_resets else None


def duration(text: str) -> float | None:
    """Seconds of a duration such as 6m0s, 800ms, 6hr 29min or 1h2m3.5s; None when it is not one."""
    lowered = text.strip().lower().replace("hr", "h")
    pieces = re.findall(_PIECE, lowered)
    if not pieces or re.sub(_PIECE, "", lowered).strip(" ,"):
        return None
    total = 0.0
    for amount, unit in pieces:
        scale = _UNITS["ms"] if unit in ("ms", "millisecond", "milliseconds") else _UNITS.get(unit[0])
        if scale is None:
            return None
        total += float(amount) * scale
    return _clamp(total)


def wait_in_text(text: str) -> float | None:
    """The wait that a message names, as in "try again in 7m12s" or "Resets in 6hr 29min."; None when it names none."""
    found = re.search(_ASKS + f"({_DURATION})", _glued(text[:2000].lower()))
    return duration(found.group(1)) if found else None


def _glued(text: str) -> str:
    """Puts a space behind each unit of a glued duration: 7m12s becomes 7m 12s, so that units end at a boundary."""
    return re.sub(r"(?<=\d)(ms|s|m|h|hr|min|d)(?=\d)", r"\1 ", text)


def _any_form(value: str, now: float) -> float | None:
    number = _number(value)
    if number is None:
        length = duration(value)
        return length if length is not None else _until(value, now)
    if number >= _EPOCH_FROM * 1000:
        number /= 1000
    return _clamp(number - now if number >= _EPOCH_FROM else number)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _until(value: str, now: float) -> float | None:
    """Seconds until an HTTP date or an RFC 3339 time."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime  # only ever needed for a refused request

    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(value)
        except (ValueError, TypeError):
            continue
        aware: datetime = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _clamp(aware.timestamp() - now)
    return None


def _reset(headers: Mapping[str, str], now: float) -> float | None:
    """The reset of the limits that are used up; the nearest one when the headers do not say what is left."""
    used_up: list[float] = []
    unknown: list[float] = []
    for name, value in headers.items():
        found = re.fullmatch(r"(x-ratelimit)-reset-(.+)|(anthropic-ratelimit)-(.+)-reset", name)
        wait = _any_form(value, now) if found else None
        if found is None or wait is None:
            continue
        openai, openai_what, anthropic, anthropic_what = found.groups()
        left = headers.get(f"{openai}-remaining-{openai_what}" if openai else f"{anthropic}-{anthropic_what}-remaining")
        if left is None:
            unknown.append(wait)
        elif left == "0":
            used_up.append(wait)
    return max(used_up) if used_up else min(unknown, default=None)


def _clamp(seconds: float) -> float | None:
    return min(max(seconds, 0.0), LONGEST_S) if math.isfinite(seconds) else None
