"""Reads what a service says went wrong, whatever shape it has: the facts that failures.py classifies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentctl.core.codec import loads
from agentctl.core.record import Record
from agentctl.core.text import one_line
from agentctl.providers.waits import duration, wait_in_text

WORDS_LIMIT = 500
"""Characters of a service's own words that a message carries."""
_DEEPEST = 8
_TEXT_KEYS = ("message", "msg", "error_description", "error_message", "detail", "title")
_CODE_KEYS = ("code", "type", "status", "status_code", "reason", "__type", "error_code")
_NESTED_KEYS = ("error", "errors", "detail", "details", "metadata", "raw", "response", "body", "innererror", "cause")
_WAIT_KEYS = ("retry_after", "retry_after_seconds", "retryDelay", "resets_in_seconds")


class Facts(Record):
    """What was found in an error. `texts` and `statuses` go from the outermost to the innermost."""

    texts: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    """Symbolic codes and types, in lower case."""
    statuses: tuple[int, ...] = ()
    param: str = ""
    wait_s: float | None = None

    @property
    def words(self) -> str:
        """The most specific text, on one line; a code when there is no text."""
        text = next((text for text in reversed(self.texts) if text), "") or ", ".join(sorted(self.codes))
        return one_line(text, WORDS_LIMIT)

    @property
    def searched(self) -> str:
        """All texts and codes, in lower case, cut: what patterns look at."""
        return " ".join((*self.texts, *sorted(self.codes))).lower()[:6000]


def read_value(value: Any) -> Facts:
    """An error object, string or list, with JSON inside strings unwrapped."""
    found = _Found()
    found.add(value, 0)
    text = " ".join(found.texts)
    return Facts(
        texts=tuple(found.texts),
        codes=frozenset(found.codes),
        statuses=tuple(found.statuses),
        param=found.param or param_in_text(text),
        wait_s=found.wait_s if found.wait_s is not None else wait_in_text(text),
    )


def read_body(body: bytes) -> Facts:
    """A response body: JSON, a page of HTML (only its visible text is kept), plain text or nothing."""
    text = body.decode("utf-8", errors="replace").strip().removeprefix("\ufeff")
    if re.match(r"<(!doctype|html|\?xml|head|body|h\d)", text, re.IGNORECASE):
        return Facts(texts=(visible_text(text),))
    return read_value(text)


def visible_text(page: str) -> str:
    """The readable words of a page of HTML; its title when there are none."""
    from html import unescape  # only ever needed for a proxy's error page

    body = _text_outside(page, ("script", "style", "svg", "head")) or _text_outside(page, ("script", "style", "svg"))
    return one_line(unescape(body), 200)


def _text_outside(page: str, hidden: tuple[str, ...]) -> str:
    """The text of a page without its tags and without what stands in the hidden elements. Takes linear time."""
    words = []
    inside = ""
    for piece in page[:100_000].split("<"):
        tag, _, text = piece.partition(">")
        name = tag.partition(" ")[0].lower()
        if inside:
            inside = "" if name == f"/{inside}" else inside
        elif name in hidden:
            inside = name
        if not inside:
            words.append(text)
    return " ".join(" ".join(words).split())


_PARAM_TEXTS = (
    r"(?:unsupported|unknown|unrecognized|invalid|unexpected) "
    r"(?:request )?(?:parameter|argument|field|name|value|keyword argument|property)(?: supplied)?:? "
    r"(?!(?:for|in|is|of|at)\b)[\"'`]?([a-z_][\w.\[\]]{0,60})",
    r"(?<![\w.])([a-z_][\w.]{0,60})[\"'`]?\]?: extra inputs are not permitted",
    r"property [\"'`]([a-z_][\w.]{0,60})[\"'`] is (?:unsupported|not supported|unknown)",
    r"'loc': \('body', '([a-z_]\w{0,60})'",
    r"does not support (?:the )?[\"'`]([a-z_][\w.]{0,60})[\"'`]",
    r"(?:parameter|field|argument) [\"'`]([a-z_][\w.]{0,60})[\"'`] (?:is|was) (?:not|un)",
    r"[\"'`]([a-z_][\w.]{0,60})[\"'`] (?:parameter )?(?:is|was|are) "
    r"(?:not (?:supported|allowed|permitted|recognized)|unsupported|deprecated)",
    r"[\"'`]([a-z_]\w{0,60})[\"'`] and [\"'`][a-z_]\w{0,60}[\"'`] cannot both be",
    r"invalid ([a-z_]+): only ",
)


def param_in_text(text: str) -> str:
    """The request field that a refusal names in its text; empty when it names none."""
    for pattern in _PARAM_TEXTS:
        found = re.search(pattern, text[:2000], re.IGNORECASE)
        if found:
            return found.group(1).rstrip(".")
    return ""


class _Found:
    """Collects facts while it walks an error of unknown shape."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.codes: set[str] = set()
        self.statuses: list[int] = []
        self.param = ""
        self.wait_s: float | None = None

    def add(self, value: Any, depth: int) -> None:
        if depth > _DEEPEST:
            return
        if isinstance(value, str):
            self._text(value.strip(), depth)
        elif isinstance(value, Mapping):
            self._object(value, depth)
        elif isinstance(value, list):
            for item in value[:4]:
                self.add(item, depth + 1)

    def _text(self, text: str, depth: int) -> None:
        inner = _json_in(text)
        if inner is None:
            if text:
                self.texts.append(text)
            return
        before, value = inner
        if before:
            self.texts.append(before)
        self.add(value, depth + 1)

    def _object(self, value: Mapping[str, Any], depth: int) -> None:
        for key in _CODE_KEYS:
            self._code(value.get(key))
        if "failed_generation" in value:
            self.codes.add("tool_use_failed")
        for key in _WAIT_KEYS:
            self._wait(value.get(key))
        self._param(value)
        for key in _TEXT_KEYS:
            if isinstance(value.get(key), str):
                self._text(value[key].strip(), depth)
        for key in _NESTED_KEYS:
            inner = value.get(key)
            if inner is not None and not (isinstance(inner, str) and key in _TEXT_KEYS):
                self.add(inner, depth + 1)

    def _code(self, code: Any) -> None:
        if isinstance(code, bool):
            return
        if isinstance(code, int) or (isinstance(code, str) and code.isdigit()):
            if 100 <= int(code) <= 599:
                self.statuses.append(int(code))
        elif isinstance(code, str) and code and code != "error" and len(code) <= 100:
            self.codes.add(code.lower())

    def _wait(self, value: Any) -> None:
        if isinstance(value, str):
            self.wait_s = duration(value if value.rstrip()[-1:].isalpha() else f"{value}s")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self.wait_s = duration(f"{max(float(value), 0.0):f}s")

    def _param(self, value: Mapping[str, Any]) -> None:
        param, place = value.get("param"), value.get("loc")
        if isinstance(param, str) and param:
            self.param = param
        elif isinstance(place, list) and place and not self.param:
            self.param = ".".join(str(step) for step in place if step != "body")


def _json_in(text: str) -> tuple[str, Any] | None:
    """The text before an error in JSON, and that error; None when the text holds no such thing."""
    start = min((place for place in (text.find("{"), text.find("[{")) if place >= 0), default=-1)
    if start < 0:
        return None
    end = max(text.rfind("}"), text.rfind("]")) + 1
    try:
        value = loads(text[start:end])
    except ValueError:
        return None
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict) or not any(key in first for key in (*_TEXT_KEYS, *_NESTED_KEYS, *_CODE_KEYS)):
        return None
    return text[:start].strip(), value
