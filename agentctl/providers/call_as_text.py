"""Tells an answer that is really a tool call which the server's parser did not recognise."""

from __future__ import annotations

import re
from collections.abc import Collection

from agentctl.core.events import Notice

_MARKUP = re.compile(r"<tool_call>|<\|tool_call|<function_call>|<function=\w|\[TOOL_CALLS\]|<\|python_tag\|>")
_NAMED = re.compile(r'"name"\s*:\s*"([^"]+)"')
_FENCE = re.compile(r"```[a-z_]*\s*\{")


def call_as_text(text: str, tool_names: Collection[str]) -> Notice | None:
    """A notice when the text holds call markup or is a JSON object that names an offered tool. `tool_names` as sent."""
    if not tool_names:
        return None
    is_call = _MARKUP.search(text) is not None
    if not is_call and (text.lstrip().startswith("{") or _FENCE.search(text)):
        is_call = any(name in tool_names for name in _NAMED.findall(text))
    if not is_call:
        return None
    return Notice(
        code="call-as-text",
        text="The model wrote a tool call as plain text, so nothing was run. The server does not parse the calls of "
        "this model: use a model or a chat template with tool support.",
    )
