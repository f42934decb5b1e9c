"""Every cap of a run, enforced inside the turn, before the next request or call. A new limit goes here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentctl.core.errors import DeniedTooOften, LimitReached, UsageError
from agentctl.core.events import Notice
from agentctl.core.ports import Ledger, Spent, Where
from agentctl.core.record import Record
from agentctl.core.types import Amount, Price, Request, Usage

NEAR = 0.8
"""Share of a cap from which on it is near."""
FEW, FEW_SHARE = 3, 0.1
"""Steps and calls that are few: this number, or this share of their cap."""
INPUT_MARGIN = 1.25
"""What a request sends is estimated; the most that it can cost is reckoned with this factor."""
UNKNOWN_MAXIMUM = 32_000
"""Output tokens of an answer, when neither the request nor the catalogue limits them."""


_SOME = Usage(input=1_000_000, output=1_000_000)
UNSAID = "The service does not say how many tokens a response used, so what it cost is unknown"


class Limits(Record):
    """Caps over the whole run, all its prompts together. None: no cap. The wall clock is the runner's."""

    max_steps: int
    max_tool_calls: int
    max_denials: int
    max_tokens: int | None = None
    max_cost: float | None = None


class Budget:
    """Counts what the run has used. Overshoot is at most one response, because nobody knows its size before."""

    def __init__(self, limits: Limits, price: Price | None, ledger: Ledger | None = None) -> None:
        """`ledger` is what this run shares with others; its caps count beside those of the run."""
        self.limits = limits
        self.steps = 0
        self.tool_calls = 0
        self.denials = 0
        self.usage = Usage()
        self._price = price
        self._cost = 0.0
        self._has_unpriced = False
        self._in_flight = Usage()
        self._sends = 0
        """Tokens of the last request, estimated where there is a cap."""
        self._unsaid = Usage()
        """An estimate of what the service did not report. Only the caps count it."""
        self._ledger = ledger
        self._reserved: Amount | None = None
        self._least = Amount()
        self._told: set[str] = set()

    @property
    def cost_usd(self) -> float | None:
        """None when the price of a model that answered is not known."""
        return None if self._price is None or self._has_unpriced else self._cost

    def use_price(self, price: Price | None) -> None:
        """Another model answers from here on; what was spent before keeps its price."""
        self._price = price

    def begin_step(self) -> None:
        """Before each step. Raises LimitReached when no step is left."""
        if self.steps >= self.limits.max_steps:
            raise _reached("steps", f"{self.steps} of {self.limits.max_steps} steps used", "--max-steps")
        self.steps += 1

    # --- before a request ---------------------------------------------------------------------------------------

    def admit(self, request: Request, estimate: Callable[[Request], int]) -> bool:
        """Before any request. False: other runs have reserved what is left of the shared budget, ask again later.

        Raises LimitReached when a cap is reached or what the request sends would pass it. `estimate` counts its tokens;
        it is only asked when there is a cap.
        """
        limits = self.limits
        if limits.max_tokens is None and limits.max_cost is None and self._ledger is None:
            return True
        sends = self._sends = estimate(request)
        self._check_caps(sends)
        if self._ledger is None:
            return True
        if self._price is None and self._ledger.max_cost is not None:
            raise UsageError(
                f"--budget-file counts USD, and the price of {request.model.vendor}/{request.model.name} is not known",
                hint="Say it with --price IN,OUT, or use a file with max_tokens.",
            )
        least, most = self._amount(Usage(cache_read=sends)), self._most(request, sends)
        if not self._ledger.admit(least, most):
            return False
        self._reserved, self._least = most, least
        return True

    def notices(self) -> Iterator[Notice]:
        """What a person should know before the next request: once for each cap that is near."""
        for name, used in self._shares():
            if used >= NEAR and name not in self._told:
                self._told.add(name)
                yield Notice(code="limit-near", text=f"{round(used * 100)} % of --max-{name} is used.")

    def unsaid(self) -> Iterator[Notice]:
        """Once, after the first response whose usage the service did not report, where somebody counts on it."""
        has_cap = self.limits.max_tokens is not None or self.limits.max_cost is not None or self._ledger is not None
        if self._unsaid.total and (has_cap or self._has_unpriced) and "unsaid" not in self._told:
            self._told.add("unsaid")
            yield Notice(code="usage-unknown", text=f"{UNSAID}{'; the caps count an estimate' if has_cap else ''}.")

    def near(self) -> list[str]:
        """What the model should know of its caps, a line each; empty while none is near."""
        limits = self.limits
        steps, calls = limits.max_steps - self.steps, self.calls_left()
        lines = []
        if steps <= 0:
            lines.append("This is the last step: answer now, calls would have no successor.")
        elif steps <= max(FEW, limits.max_steps * FEW_SHARE):
            lines.append(f"After this step {steps} of {limits.max_steps} are left. Come to the end.")
        if calls <= max(FEW, limits.max_tool_calls * FEW_SHARE):
            lines.append(f"{calls} of {limits.max_tool_calls} tool calls are left.")
        return [
            *lines,
            *(f"{round(used * 100)} % of the {name} are used." for name, used in self._shares() if used >= NEAR),
        ]

    def _shares(self) -> Iterator[tuple[str, float]]:
        limits = self.limits
        if limits.max_tokens is not None:
            yield "tokens", self._tokens / limits.max_tokens
        if limits.max_cost is not None:
            yield "cost", self._spent / limits.max_cost

    @property
    def _tokens(self) -> int:
        """For the caps, as `_spent` in USD: with what was not reported."""
        return self.usage.total + self._unsaid.total

    @property
    def _spent(self) -> float:
        return self._cost + self._amount(self._unsaid).cost_usd

    def _check_caps(self, sends: int) -> None:
        limits = self.limits
        if limits.max_tokens is not None and self._tokens + sends >= limits.max_tokens:
            used = f"{self._tokens:,} of {limits.max_tokens:,} tokens used, the next request sends about {sends:,}"
            raise _reached("tokens", used, "--max-tokens")
        if limits.max_cost is not None and self._price is not None:
            coming = self._price.cost(Usage(cache_read=sends))
            if self._spent + coming >= limits.max_cost:
                used = (
                    f"${self._spent:.4f} of ${limits.max_cost:.4f} spent, the next request costs at least ${coming:.4f}"
                )
                raise _reached("cost", used, "--max-cost")

    def _most(self, request: Request, sends: int) -> Amount:
        """The most that a request can cost: all of it read anew, and an answer as long as it may be."""
        output = request.options.max_output_tokens or request.model.max_output or 2 * UNKNOWN_MAXIMUM  # with thinking
        sent = round(sends * INPUT_MARGIN)
        return max(
            (
                self._amount(usage)
                for usage in (Usage(input=sent, output=output), Usage(cache_write=sent, output=output))
            ),
            key=lambda amount: amount.cost_usd,
        )

    def _amount(self, usage: Usage) -> Amount:
        return Amount(cost_usd=self._price.cost(usage) if self._price else 0.0, tokens=usage.total)

    # --- after it -----------------------------------------------------------------------------------------------

    def metered(self, usage: Usage) -> None:
        """What is known so far of the response in flight; replaces the last figure."""
        self._in_flight = usage

    def spend(self, usage: Usage, *, written: int | None = None) -> Spent:
        """A response ended, used or not: its tokens are paid for. `written`: about how many a whole answer has.

        A response without a report of its usage counts against the caps by the estimate. What it cost nobody knows.
        """
        self._in_flight = Usage()
        if usage.total:
            self._settle(self._amount(usage))
            return Spent(usage=usage, cost_usd=self._pay(usage))
        unsaid = Usage(input=self._sends, output=written or 0)
        self._settle(self._amount(unsaid))
        self._unsaid += unsaid
        is_unknown = written is not None and self._price is not None and self._price.cost(_SOME) > 0
        self._has_unpriced = self._has_unpriced or is_unknown
        return Spent(usage=usage, cost_usd=None if self._price is None or is_unknown else 0.0)

    def failed(self) -> None:
        """A request failed before it cost anything."""
        self._settle(Amount())

    def abandon(self) -> None:
        """The response in flight was given up; what it is known to have used still counts."""
        known = self._amount(self._in_flight)
        # What a service was sent it has read, also when it was not heard to the end.
        self._settle(max(known, self._least, key=lambda amount: (amount.cost_usd, amount.tokens)))
        self._pay(self._in_flight)
        self._in_flight = Usage()

    def _settle(self, spent: Amount) -> None:
        if self._ledger is not None and self._reserved is not None:
            self._ledger.settle(self._reserved, spent)
            self._reserved = None

    def _pay(self, usage: Usage) -> float | None:
        self.usage += usage
        if self._price is None:
            self._has_unpriced = self._has_unpriced or usage.total > 0
            return None
        cost = self._price.cost(usage)
        self._cost += cost
        return cost

    # --- calls --------------------------------------------------------------------------------------------------

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


class NearLimits:
    """A Section: the model hears of a cap before it ends the run."""

    name = "limits"
    plane = "limits"
    where: Where = "step"

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def render(self) -> str:
        """As promised by the port."""
        return "\n".join(self._budget.near())
