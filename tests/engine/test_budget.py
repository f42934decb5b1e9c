"""Caps hold before each request, whoever makes it, retries and summaries too, and with what other runs reserved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agentctl.core.errors import LimitReached, StreamBroken, UsageError
from agentctl.core.events import Notice
from agentctl.core.ports import Attempt, Item, Spent
from agentctl.core.types import Amount, Request, RequestOptions, Usage
from agentctl.engine.budget import Budget, Limits, NearLimits
from agentctl.engine.context import Context
from agentctl.engine.prompt import Prompt
from tests.engine.test_compaction import world as long_world
from tests.engine.test_turn import MODEL, World, sent
from tests.fakes import RecordingTool, Script, call, says

LIMITS = Limits(max_steps=20, max_tool_calls=50, max_denials=20)
USED = Usage(input=400, output=100)


class FakeLedger:
    """Keeps what it is told, and lets through what its list says."""

    def __init__(self, *admits: bool, max_cost: float | None = 1.0) -> None:
        self.max_cost = max_cost
        self.max_tokens: int | None = None
        self._admits = list(admits)
        self.asked: list[tuple[Amount, Amount]] = []
        self.settled: list[tuple[Amount, Amount]] = []

    def admit(self, least: Amount, most: Amount) -> bool:
        self.asked.append((least, most))
        return self._admits.pop(0) if self._admits else True

    def settle(self, most: Amount, spent: Amount) -> None:
        self.settled.append((most, spent))


def _used(items: Sequence[Item], requests: int) -> int:
    """Tokens of the first requests."""
    return sum([item.usage.total for item in items if isinstance(item, Spent)][:requests])


def spending(calls: int) -> Callable[[Request], Script]:
    numbers = iter(range(1000))

    def step(request: Request) -> Script:
        number = next(numbers)
        return says("done", usage=USED) if number >= calls else says(call("read", n=number), usage=USED)

    return step


def shared(ledger: FakeLedger, *script: Script | Callable[[Request], Script]) -> World:
    world = World(*script, tools=[RecordingTool("read")], limits=LIMITS)
    world.budget = Budget(LIMITS, MODEL.price, ledger)
    world.parts = world.parts.replace(budget=world.budget)
    return world


# --- caps of the run --------------------------------------------------------------------------------------------------


def test_a_first_request_that_alone_passes_a_cap_is_not_sent() -> None:
    world = World(says("ok"), limits=LIMITS.replace(max_tokens=50))
    with pytest.raises(LimitReached, match=r"0 of 50 tokens used, the next request sends about \d{3}"):
        world.run()
    assert world.provider.requests == []


def test_failed_attempts_are_paid_and_the_cap_holds_before_the_next_one() -> None:
    stream = [Attempt(usage=USED), Attempt(usage=USED), Attempt(usage=USED), says("never asked for")]
    world = World(stream, limits=LIMITS.replace(max_tokens=1_000))
    with pytest.raises(LimitReached) as caught:
        world.run()
    assert caught.value.limit == "tokens"
    assert world.budget.usage == USED + USED, "the third attempt was not made"


def test_a_second_request_of_the_same_step_is_checked_too() -> None:
    world = World(says("", usage=USED), says("there"), limits=LIMITS.replace(max_tokens=600))
    with pytest.raises(LimitReached):
        world.run()
    assert len(world.provider.requests) == 1


def test_summaries_count_against_the_cap() -> None:
    made = long_world(steps=30)
    made.run()
    summaries = [request for request in made.provider.requests if not request.tools]
    assert summaries
    first = made.provider.requests.index(summaries[0])
    small = long_world(steps=30)
    small.budget.limits = small.budget.limits.replace(max_tokens=_used(made.items, first) + 100)
    with pytest.raises(LimitReached):
        small.run()
    assert all(request.tools for request in small.provider.requests), "the summary was not asked for"


def test_a_cap_that_comes_near_is_said_once_and_told_to_the_model() -> None:
    world = World(spending(4), tools=[RecordingTool("read")], limits=LIMITS.replace(max_tokens=3_000))
    specs = [tool.spec for tool in world.tools.values()]
    prompt = Prompt(tools=specs, appendix="", sections=[NearLimits(world.budget)])
    context = Context(model=MODEL, prompt=prompt, tools=specs, options=RequestOptions())
    world.parts = world.parts.replace(context=context)
    world.run()
    notices = [item for item in world.items if isinstance(item, Notice)]
    assert [(notice.code, notice.text) for notice in notices] == []
    world.budget.spend(Usage(input=100))
    assert [notice.text for notice in world.budget.notices()] == ["87 % of --max-tokens is used."]
    assert list(world.budget.notices()) == []
    assert "87 % of the tokens are used." in NearLimits(world.budget).render()


@pytest.mark.parametrize(
    ("steps", "text"),
    [(0, ""), (40, ""), (45, "After this step 5 of 50 are left. Come to the end."), (50, "This is the last step: ")],
)
def test_the_model_hears_of_the_last_steps(steps: int, text: str) -> None:
    budget = Budget(Limits(max_steps=50, max_tool_calls=200, max_denials=9), None)
    for _ in range(steps):
        budget.begin_step()
    rendered = NearLimits(budget).render()
    assert rendered.startswith(text)
    assert bool(rendered) == bool(text)


# --- the shared budget ------------------------------------------------------------------------------------------------


def test_each_request_reserves_the_most_it_can_cost_and_settles_what_it_did() -> None:
    ledger = FakeLedger()
    world = shared(ledger, spending(1)).run()
    price = MODEL.price
    assert price
    assert [spent for _, spent in ledger.settled] == [Amount(cost_usd=price.cost(USED), tokens=500)] * 2
    assert [most for most, _ in ledger.settled] == [most for _, most in ledger.asked]
    for least, most in ledger.asked:
        assert most.tokens >= least.tokens + 4_000, "a whole answer of the model fits"
        assert least.cost_usd < price.cost(USED) < most.cost_usd
    assert ledger.asked[0][0].tokens == pytest.approx(sent(world.provider.requests[0]), rel=0.3)


def test_a_run_waits_while_others_hold_what_is_left_and_says_so() -> None:
    ledger = FakeLedger(False, False, True)
    world = shared(ledger, says("ok")).run()
    notices = [item for item in world.items if isinstance(item, Notice)]
    assert [notice.code for notice in notices] == ["budget-wait"]
    assert len(ledger.asked) == 3
    assert world.history[-1].text == "ok"


def test_failed_attempts_settle_and_reserve_anew() -> None:
    ledger = FakeLedger()
    shared(ledger, [Attempt(usage=USED), says("ok", usage=USED)]).run()
    assert (len(ledger.asked), len(ledger.settled)) == (2, 2)


def test_a_request_that_failed_costs_what_the_service_said() -> None:
    ledger = FakeLedger()
    with pytest.raises(StreamBroken):
        shared(ledger, StreamBroken("cut", usage=USED)).run()
    with pytest.raises(StreamBroken):
        shared(ledger, StreamBroken("refused")).run()
    assert [spent.tokens for _, spent in ledger.settled] == [500, 0]


def test_a_response_that_was_given_up_costs_at_least_what_was_sent() -> None:
    ledger = FakeLedger()
    budget = Budget(LIMITS, MODEL.price, ledger)
    request = Request(system=(), messages=(), tools=(), options=RequestOptions(), model=MODEL)
    assert budget.admit(request, lambda _: 700)
    budget.abandon()
    budget.abandon()
    assert [spent.tokens for _, spent in ledger.settled] == [700]


def test_a_budget_in_money_needs_a_price() -> None:
    world = shared(FakeLedger(), says("ok"))
    world.budget.use_price(None)
    with pytest.raises(UsageError, match="price of fake/fake-1 is not known"):
        world.run()
    tokens = FakeLedger(max_cost=None)
    tokens.max_tokens = 10_000
    world = shared(tokens, says("ok"))
    world.budget.use_price(None)
    world.run()
