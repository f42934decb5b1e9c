"""Reads the calls that a local model wrote into its text because its server did not understand them.

Three forms are read: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`; a fenced JSON object of that shape at the
very end of the text; and such an object that is the whole text. The name must be that of an offered tool; nothing is
guessed and nothing is mended.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from agentctl.core.codec import dumps, loads
from agentctl.core.events import Notice
from agentctl.core.types import JsonObject

_TAG = "<tool_call>"
_FENCE = "```"
_KEYS = frozenset({"name", "arguments", "parameters", "id", "type"})
_OPENS = re.compile(r"<tool_call>|```[a-z_]{0,20}[ \t]*\r?\n\s*\{")
_MAY_OPEN = re.compile(r"(?:<[a-z_]{0,9}|`{1,2}|```[a-z_]{0,20}[ \t]*(?:\r?\n\s*)?)\Z")
_OPENS_BARE = re.compile(rf'\A\s*\{{\s*"(?:{"|".join(sorted(_KEYS))})"')
_MAY_OPEN_BARE = re.compile(r'\A\s*(?:\{\s*(?:"[a-z]{0,10})?)?\Z')
_TAGGED = re.compile(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_FENCED = re.compile(r"```[a-z_]{0,20}[ \t]*\r?\n\s*(\{.*?\})\s*```", re.DOTALL)
_BARE = re.compile(r"\A\s*(\{.*\})\s*\Z", re.DOTALL)
_MOST = 32
"""Calls of one answer."""
_LONGEST_OPENING = 200
"""Characters that are kept back while they may become the start of a call."""


class TextCalls:
    """Takes text as it streams and keeps back what may be a call until the answer is over."""

    def __init__(self, names: Collection[str]) -> None:
        """`names`: of the offered tools, as they are on the wire."""
        self._names = names
        self._is_at_start = True
        self._held = ""
        self._pieces: list[str] = []
        """What came from the start of a call on."""

    def feed(self, text: str) -> str:
        """The text that is surely no call."""
        if self._pieces:
            self._pieces.append(text)
            return ""
        if not self._held and not self._is_at_start and "<" not in text and "`" not in text:
            return text
        text = self._held + text
        self._held = ""
        found = _OPENS.search(text) or (_OPENS_BARE.match(text) if self._is_at_start else None)
        if found:
            self._pieces.append(text[found.start() :])
            return text[: found.start()]
        start = self._start_of_maybe(text)
        self._held = text[start:]
        self._is_at_start = self._is_at_start and start == 0
        return text[:start]

    def finish(self, *, is_whole: bool) -> tuple[list[JsonObject], str]:
        """The calls as deltas of the chat format, and the text that is left; no calls when the answer is not whole."""
        text = "".join((self._held, *self._pieces))
        self._held = ""
        self._pieces.clear()
        form = _TAGGED if text.startswith(_TAG) else _FENCED if text.startswith(_FENCE) else _BARE
        if not is_whole or text.count(_TAG) > _MOST or text.count(_FENCE) > 2 * _MOST:
            return [], text
        calls = [self._call(found[1]) for found in form.finditer(text)]
        rest = form.sub("", text)
        read = [call for call in calls if call is not None]
        is_other = _TAG in rest if form is _TAGGED else bool(rest.strip())  # half a call, or more of an answer
        if not read or len(read) < len(calls) or is_other:
            return [], text
        return [{"index": number, "function": call} for number, call in enumerate(read)], rest.rstrip()

    def _call(self, text: str) -> JsonObject | None:
        try:
            value: Any = loads(text)
        except ValueError:
            return None
        if not isinstance(value, dict) or not _KEYS.issuperset(value) or len(value) < 2:
            return None
        arguments = value.get("arguments", value.get("parameters"))
        if value.get("name") not in self._names or not isinstance(arguments, (dict, str, type(None))):
            return None
        return {
            "name": value["name"],
            "arguments": arguments if isinstance(arguments, str) else dumps(arguments or {}).decode(),
        }

    def _start_of_maybe(self, text: str) -> int:
        """From where on the end of the text may become the start of a call."""
        if self._is_at_start and len(text) <= _LONGEST_OPENING and _MAY_OPEN_BARE.match(text):
            return 0
        found = _MAY_OPEN.search(text)
        if found is None or (found[0].startswith("<") and not _TAG.startswith(found[0])):
            return len(text)
        return found.start() if len(found[0]) <= _LONGEST_OPENING else len(text)


def recovered(count: int) -> Notice:
    """What is said about calls that were read from text."""
    what = "a tool call" if count == 1 else f"{count} tool calls"
    return Notice(
        code="call-recovered",
        text=f"The model wrote {what} as plain text, which was read as such: the server does not parse the calls of "
        "this model. A chat template with tool support is safer.",
    )
