"""Remembers what was made of frozen objects: a history only grows, so each step would make the same things again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

MOST = 20_000
"""Entries; then it starts anew. A long run has a few thousand messages."""


class ByIdentity(Generic[Key, Value]):
    """A function of one frozen object, called once for each object. Comparing by value would read the whole text."""

    def __init__(self, make: Callable[[Key], Value]) -> None:
        self._make = make
        self._made: dict[int, tuple[Key, Value]] = {}

    def __call__(self, key: Key) -> Value:
        found = self._made.get(id(key))
        if found is not None:  # the entry holds the key, so nothing else can have its id
            return found[1]
        if len(self._made) >= MOST:
            self._made.clear()
        value = self._make(key)
        self._made[id(key)] = (key, value)
        return value
