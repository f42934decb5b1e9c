"""Patterns on the arguments of an MCP call: `args = { repo = "acme/*" }`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentctl.core.record import Record
from agentctl.policy.patterns import glob_match


class ArgumentPattern(Record):
    """One argument and the texts it may have; `*` is any run of characters, `?` exactly one."""

    name: str
    texts: tuple[str, ...]

    def surely(self, args: Mapping[str, Any]) -> bool:
        """For allow: the argument is there and all of it fits. An object never does."""
        return self.name in args and self._fits(args[self.name])

    def _fits(self, value: object) -> bool:
        items = value if isinstance(value, list) else [value]
        return bool(items) and all(not isinstance(item, (list, dict)) and self._matches(item) for item in items)

    def maybe(self, args: Mapping[str, Any]) -> bool:
        """For deny and ask: something in the argument fits."""
        return self.name in args and any(self._matches(leaf) for leaf in _leaves(args[self.name]))

    def _matches(self, value: object) -> bool:
        text = _text(value)
        return any(glob_match(pattern, text) for pattern in self.texts)


def _leaves(value: object) -> Iterator[object]:
    """All that is neither list nor object inside the value."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, (list, dict)):
            todo.extend(item.values() if isinstance(item, dict) else item)
        else:
            yield item


def _text(value: object) -> str:
    """A JSON value as a pattern sees it: text without quotes, else `true`, `null`, `12`."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
