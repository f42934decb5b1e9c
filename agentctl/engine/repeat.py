"""The repeat guard: a model that asks for the same thing over and over is told, then stopped."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from agentctl.core.codec import dumps
from agentctl.core.errors import LimitReached
from agentctl.core.types import Effect, JsonObject

TELL_AT = 3
STOP_AT = 6
NOTE = (
    "\n\n[This was the third identical call with an identical result. Nothing changed in between; "
    "do something else, or finish with what you know.]"
)
_Key: TypeAlias = tuple[str, bytes]
_CHANGES: frozenset[Effect] = frozenset({"write", "exec", "network"})


class RepeatGuard:
    """Counts identical calls with identical results. A change in between, or another result, starts anew.

    A call that cannot run, because there is no such tool or its arguments do not fit, counts like one that failed.
    Denied calls never come here; they count towards --max-denials only.
    """

    def __init__(self) -> None:
        self._seen: dict[_Key, tuple[int, str]] = {}
        self._running: Counter[_Key] = Counter()
        """Reads of one step run together: those that have begun count, too."""

    def begin_turn(self) -> None:
        """What was asked for in an earlier turn somebody may well ask for again."""
        self._seen.clear()
        self._running.clear()

    def before(self, name: str, args: JsonObject) -> None:
        """Raises LimitReached (`loop`) instead of letting the sixth identical call run."""
        key = _key(name, args)
        count, _ = self._seen.get(key, (0, ""))
        if count + self._running[key] >= STOP_AT - 1:
            raise LimitReached(
                "loop",
                f"{name} was asked for {STOP_AT} times with the same arguments and nothing changed in between",
                hint="The model is stuck: change the prompt, or give it what it is missing.",
            )
        self._running[key] += 1

    def after(self, name: str, args: JsonObject, effect: Effect, content: str, *, is_success: bool) -> str:
        """Notes a finished call. Returns what to add to its result for the model."""
        key = _key(name, args)
        self._running[key] -= 1
        count, last = self._seen.get(key, (0, content))
        count = count + 1 if last == content else 1
        if is_success and effect in _CHANGES:
            self._seen = {}
        self._seen[key] = (count, content)
        return NOTE if count == TELL_AT else ""


def _key(name: str, args: JsonObject) -> _Key:
    return name, dumps(dict(sorted(args.items())))
