"""How a value is written: text of a flag or a variable, or a native value of a TOML file, into its settled form.

Every reader takes (value, choices, minimum, maximum) and raises Expected, whose text says what would be valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from agentctl.core.types import Price

Kind = Literal[
    "text", "path", "url", "switch", "choice", "count", "size", "duration", "money", "price", "words", "lines"
]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_SIZES = {"k": 1_000, "m": 1_000_000}


class Expected(Exception):
    """A value that does not fit. str() completes the sentence "VALUE is not …"."""

    def __init__(self, what: str, value: object) -> None:
        super().__init__(what)
        self.value = value


def _text(value: object, *_limits: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Expected("a text with something in it", value)
    return value


def _url(value: object, *_limits: object) -> str:
    text = _text(value).strip()
    scheme, separator, rest = text.partition("://")
    if scheme.lower() not in ("http", "https") or not separator or not rest.strip("/") or " " in text:
        raise Expected("an http or https URL", value)
    return text.rstrip("/")


def _switch(value: object, *_limits: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise Expected("true or false", value)


def _choice(value: object, choices: tuple[str, ...], *_limits: object) -> str:
    if isinstance(value, str) and value.strip() in choices:
        return value.strip()
    raise Expected(_one_of(choices), value)


def _count(value: object, _choices: tuple[str, ...], minimum: float, maximum: float | None) -> int:
    return _whole(value, value, f"a whole number{_range(minimum, maximum)}", minimum, maximum)


def _size(value: object, _choices: tuple[str, ...], minimum: float, maximum: float | None) -> int:
    expected = f"a whole number{_range(minimum, maximum)}, such as 200000, 200k or 2m"
    if isinstance(value, str) and value.strip()[-1:].lower() in _SIZES:
        text = value.strip()
        scaled = _number(text[:-1], value, expected) * _SIZES[text[-1].lower()]
        return _whole(int(scaled) if scaled.is_integer() else None, value, expected, minimum, maximum)
    return _whole(value, value, expected, minimum, maximum)


def _duration(value: object, _choices: tuple[str, ...], _minimum: float, maximum: float | None) -> float:
    expected = "a time above 0, such as 90, 90s, 15m or 2h"
    if maximum is not None:
        expected = f"a time above 0 and at most {maximum:g}s, such as 90, 90s or 2m"
    unit = value.strip()[-1:].lower() if isinstance(value, str) else ""
    number = value.strip()[:-1] if isinstance(value, str) and unit in _SECONDS else value
    seconds = _number(number, value, expected) * _SECONDS.get(unit, 1)
    if seconds <= 0 or (maximum is not None and seconds > maximum):
        raise Expected(expected, value)
    return seconds


def _money(value: object, *_limits: object) -> float:
    expected = "an amount in USD above 0, such as 2.50"
    amount = _number(value.strip().removeprefix("$") if isinstance(value, str) else value, value, expected)
    if amount <= 0:
        raise Expected(expected, value)
    return amount


def _price(value: object, *_limits: object) -> Price:
    from agentctl.core.types import Price  # help and version need no types of a run

    expected = "a price in USD per million tokens, such as 0.5,1.5 (input, output, then cache reads and writes)"
    if isinstance(value, Price):
        return value
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not 2 <= len(items) <= 4:
        raise Expected(expected, value)
    amounts = [_number(item, value, expected) for item in items]
    if min(amounts) < 0:
        raise Expected(expected, value)
    classes = dict(zip(("input", "output", "cache_read", "cache_write"), amounts, strict=False))
    return Price(**classes)  # type: ignore[arg-type]  # the tiers keep their default


def _lines(value: object, _choices: tuple[str, ...], *_limits: object) -> tuple[str, ...]:
    """A list; text of a variable is split into lines, since rules and paths may hold any other character."""
    if isinstance(value, str):
        return tuple(line.strip() for line in value.splitlines() if line.strip())
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise Expected("a list of texts", value)


def _words(value: object, choices: tuple[str, ...], *_limits: object) -> tuple[str, ...]:
    """A list of names, also written with commas."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise Expected("a list of names", value)
    words = tuple(word for item in items for word in item.replace(",", " ").split())
    if not words:
        raise Expected(_one_of(choices) if choices else "a name or a list of names", value)
    for word in words:
        if choices and word not in choices:
            raise Expected(_one_of(choices), word)
    return words


def _number(text: object, value: object, expected: str) -> float:
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise Expected(expected, value)
    try:
        number = float(text)
    except (ValueError, OverflowError):
        raise Expected(expected, value) from None
    if number != number or number in (float("inf"), float("-inf")):
        raise Expected(expected, value)
    return number


def _whole(number: object, value: object, expected: str, minimum: float, maximum: float | None) -> int:
    try:
        whole = int(number) if isinstance(number, (int, str)) and not isinstance(number, bool) else None
    except ValueError:
        whole = None
    if whole is None or whole < minimum or (maximum is not None and whole > maximum):
        raise Expected(expected, value)
    return whole


def _range(minimum: float, maximum: float | None) -> str:
    return f" from {minimum:g}" + (f" to {maximum:g}" if maximum is not None else "")


def _one_of(choices: tuple[str, ...]) -> str:
    return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"


READERS: dict[str, Callable[..., Any]] = {
    "text": _text,
    "path": _text,
    "url": _url,
    "switch": _switch,
    "choice": _choice,
    "count": _count,
    "size": _size,
    "duration": _duration,
    "money": _money,
    "price": _price,
    "words": _words,
    "lines": _lines,
}
"""By kind. A path is text here; settings.py makes it absolute against the place where it was written."""
