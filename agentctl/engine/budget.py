"""Every cap of a run, enforced inside the turn, before the next request or call. A new limit goes here."""

from __future__ import annotations

from agentctl.core.errors import DeniedTooOften, LimitReached
from agentctl.core.ports import Spent
from agentctl.core.record import Record
from agentctl.core.types import Price, Usage


class Limits(Record):
    """Caps over the whole run, all its prompts together. None: no cap. The wall clock is the runner's."""

    max_steps: int
    max_tool_calls: int
    max_denials: int
    max_tokens: int | None = None
    max_cost: float | None = None


class Budget:
    """Counts what the run has used. Overshoot is at most one response, because nobody knows its size before."""

    def __init__(self, limits: Limits, price: Price | None) -> None:
        self.limits = limits
        self.steps = 0
        self.tool_calls = 0
        self.denials = 0
        self.usage = Usage()
        self._price = price
        self._cost = 0.0
        self._has_unpriced = False
        self._in_flight = Usage()
        self._last = Usage()

    @property
    def cost_usd(self) -> float | None:
        """None when the price of a model that answered is not known."""
        return None if self._price is None or self._has_unpriced else self._cost

    def use_price(self, price: Price | None) -> None:
        """Another model answers from here on; what was spent before keeps its price."""
        self._price = price

    def begin_step(self) -> None:
        """Before each step. Raises LimitReached when a cap is reached or its request would surely pass it."""
        if self.steps >= self.limits.max_steps:
            raise _reached("steps", f"{self.steps} of {self.limits.max_steps} steps used", "--max-steps")
        self.check_caps()
        self.steps += 1

    def check_caps(self) -> None:
        """Before any request: tokens and cost. Raises LimitReached."""
        limits = self.limits
        # What the next request sends is known to be at least what the last one sent and got back.
        known = Usage(cache_read=self._last.total)
        if limits.max_tokens is not None and (self.usage + known).total >= limits.max_tokens:
            used = f"{self.usage.total:,} of {limits.max_tokens:,} tokens used, the next request sends {known.total:,}"
            raise _reached("tokens", used, "--max-tokens")
        if limits.max_cost is not None and self._price is not None:
            cost = self._cost
            if cost + self._price.cost(known) >= limits.max_cost:
                raise _reached("cost", f"${cost:.4f} of ${limits.max_cost:.4f} spent", "--max-cost")

    def metered(self, usage: Usage) -> None:
        """What is known so far of the response in flight; replaces the last figure."""
        self._in_flight = usage

    def spend(self, usage: Usage, *, is_answer: bool = False) -> Spent:
        """A response ended, used or not: its tokens are paid for."""
        self._in_flight = Usage()
        if is_answer:
            self._last = usage
        return Spent(usage=usage, cost_usd=self._pay(usage))

    def abandon(self) -> None:
        """The response in flight was given up; what it is known to have used still counts."""
        self._pay(self._in_flight)
        self._in_flight = Usage()

    def _pay(self, usage: Usage) -> float | None:
        self.usage += usage
        if self._price is None:
            self._has_unpriced = self._has_unpriced or usage.total > 0
            return None
        cost = self._price.cost(usage)
        self._cost += cost
        return cost

    def calls_left(self) -> int:
        return self.limits.max_tool_calls - self.tool_calls

    def out_of_calls(self) -> LimitReached:
        return _reached(
            "tool_calls", f"{self.tool_calls} of {self.limits.max_tool_calls} tool calls used", "--max-tool-calls"
        )

    def count_denial(self) -> None:
        """Raises DeniedTooOften with the last denial that the limit allows."""
        self.denials += 1
        if self.denials >= self.limits.max_denials:
            raise DeniedTooOften(
                f"{self.denials} calls were denied, the limit of --max-denials",
                hint="Allow what the task needs with --allow or a policy file, or say in the prompt what it may not do",
            )


def _reached(limit: str, used: str, flag: str) -> LimitReached:
    return LimitReached(limit, f"limit reached: {used}", hint=f"Raise {flag}, or give the run a smaller task.")
