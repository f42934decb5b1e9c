"""What one turn needs, made by runner/app.py. Every part is behind a seam, so a test can put another in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from agentctl.core.events import Event
from agentctl.core.ports import Approvals, Clock, Degraded, Outputs, Policy, Provider, Saved, Tool
from agentctl.core.record import Record
from agentctl.core.types import ModelInfo
from agentctl.engine.budget import Budget
from agentctl.engine.context import Context
from agentctl.engine.repeat import RepeatGuard


class Redaction(Protocol):
    def text(self, text: str) -> str: ...

    def contains_mask(self, text: str) -> bool: ...


class LiveEvents:
    """Events that running tools send; dispatch takes them out while it waits. One loop, no threads."""

    def __init__(self) -> None:
        self._events: list[Event | Degraded | Saved] = []
        self._wake: Callable[[], None] | None = None

    def emit(self, event: Event | Degraded | Saved) -> None:
        self._events.append(event)
        if self._wake is not None:
            self._wake()

    def take(self) -> list[Event | Degraded | Saved]:
        taken, self._events = self._events, []
        return taken

    def on_event(self, wake: Callable[[], None] | None) -> None:
        """Calls `wake` at each event from now on; None stops it."""
        self._wake = wake


class Parts(Record):
    provider: Provider
    context: Context
    tools: Mapping[str, Tool]
    """The tools that are offered, by name, in wire order."""
    policy: Policy
    approvals: Approvals
    budget: Budget
    repeat: RepeatGuard
    outputs: Outputs
    live: LiveEvents
    redaction: Redaction
    clock: Clock

    def use_model(self, model: ModelInfo) -> None:
        """Another model answers from here on: its price and its window count."""
        self.budget.use_price(model.price)
        self.context.use_model(model)
