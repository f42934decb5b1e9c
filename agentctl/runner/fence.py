"""Text for people on its way into a CI log: nothing in it is a command of the log's reader.

GitHub's runner reads both streams of a step and obeys a line that begins with `::name` (white space before it and the
case do not count) and `##[name]` anywhere in a line. stderr stands between `::stop-commands::TOKEN` and `::TOKEN::`;
the token is random and never shown before it ends the fence, so nobody can end it early. stdout carries the answer,
which may be read by a program, so nothing is put around it: a line of it that would be a command is broken up. JSON
lines need none of this: they begin with a brace, and core/codec.py writes `##[` as an escape.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_COMMAND = r"(^|[\r\n])(\s*)::"
_ESCAPE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])?"
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"


def is_actions(env: Mapping[str, str]) -> bool:
    """Whether a GitHub runner reads what we print. Forgejo and Gitea set the same variable."""
    return env.get("GITHUB_ACTIONS", "").lower() == "true"


def plain_answer(text: str, env: Mapping[str, str]) -> str:
    """The answer as text mode prints it: no terminal control, and on Actions no line that is a command."""
    if not text.replace("\n", "").replace("\t", "").isprintable():  # compiling takes 1 ms, and nearly all answers are
        text = re.sub(_CONTROL, "", re.sub(_ESCAPE, "", text))
    return defused(text) if is_actions(env) else text


def defused(text: str) -> str:
    """The same text with a space in every `::` that begins a line and in every `##[`."""
    if "::" in text:
        text = re.sub(_COMMAND, r"\1\2: :", text)
    return text.replace("##[", "## [")


class Fence:
    """The fence around stderr of one process. Both lines are empty where nobody reads commands."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._token = os.urandom(16).hex() if is_actions(env) else ""
        self._is_open = False

    def open(self) -> bytes:
        """What goes before the first line; nothing before the others."""
        if not self._token or self._is_open:
            return b""
        self._is_open = True
        return f"::stop-commands::{self._token}\n".encode()

    def close(self) -> bytes:
        """What goes behind the last line; nothing when no line was printed. A new fence has a new token."""
        if not self._is_open:
            return b""
        line = f"::{self._token}::\n".encode()
        self._token, self._is_open = os.urandom(16).hex(), False
        return line
