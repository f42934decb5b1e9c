"""Remembers what was made of frozen objects: a history only grows, so each step would make the same things again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import is_
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Item = TypeVar("Item")
AnyItem = TypeVar("AnyItem", contravariant=True)

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


class Fold(Protocol[AnyItem]):
    """What is made of a sequence, item by item."""

    def add(self, item: AnyItem) -> None: ...


State = TypeVar("State", bound=Fold)  # type: ignore[type-arg]  # a bound cannot name another type variable


class Growing(Generic[Key, Item, State]):
    """A fold over a sequence that grows between calls: only what is new is added. Not for several threads at once.

    The items are told apart by identity, so they must be frozen. Another key or another beginning starts anew, and
    the state is the same as that of a fold over the whole sequence; the caller must not change it.
    """

    def __init__(self, start: Callable[[Key], State]) -> None:
        self._start = start
        self._last: tuple[Key, tuple[Item, ...], State] | None = None

    def __call__(self, key: Key, items: Iterable[Item]) -> State:
        now = tuple(items)
        last, self._last = self._last, None  # forgotten when adding fails half-way
        if last is not None and last[0] == key and len(last[1]) <= len(now) and all(map(is_, last[1], now)):
            seen, state = len(last[1]), last[2]
        else:
            seen, state = 0, self._start(key)
        for item in now[seen:]:
            state.add(item)
        self._last = (key, now, state)
        return state
