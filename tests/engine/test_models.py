"""A turn whose model changes: what was used is paid at the price of the model that used it, the window follows."""

from __future__ import annotations

import pytest

from agentctl.core.errors import LimitReached
from agentctl.core.ports import Answering, Attempt, Completed, Metered, Spent
from agentctl.core.types import ModelInfo, Price, Request, RequestOptions, Usage
from agentctl.engine.budget import Budget, Limits
from tests.engine.test_turn import MODEL, World
from tests.fakes import RecordingTool, call, says

OTHER = MODEL.replace(name="fake-2", window=1000, price=Price(input=100.0, output=200.0))
UNPRICED = OTHER.replace(price=None)
USED = Usage(input=1000, output=10)
REQUEST = Request(system=(), messages=(), tools=(), options=RequestOptions(), model=MODEL)
LIMITS = Limits(max_steps=20, max_tool_calls=50, max_denials=20)


def by(model: ModelInfo, answer: Completed) -> list[Answering | Metered | Completed]:
    return [Answering(model=model), Metered(usage=answer.usage), answer]


def test_each_response_costs_what_its_model_costs() -> None:
    tool = RecordingTool("read")
    first, second = says(call("read"), usage=USED), says("done", usage=USED)
    world = World(first, [Attempt(usage=USED), *by(OTHER, second)], tools=[tool]).run()
    costs = [item.cost_usd for item in world.items if isinstance(item, Spent)]
    assert costs == pytest.approx([0.00101, 0.00101, 0.102])
    assert world.budget.cost_usd == pytest.approx(0.10402)
    assert world.budget.usage == Usage(input=3000, output=30)


def test_later_requests_are_made_for_the_model_that_answers() -> None:
    tool = RecordingTool("read")
    world = World(by(OTHER, says(call("read"))), by(OTHER, says("done")), tools=[tool]).run()
    assert [request.model for request in world.provider.requests] == [MODEL, OTHER]
    assert world.parts.context.threshold == 800


def test_a_cut_answer_is_asked_for_again_with_the_limit_of_the_model_that_answered() -> None:
    small = OTHER.replace(max_output=7000)
    world = World(by(small, says("half", stop="length")), by(small, says("whole")), max_output_tokens=3000).run()
    assert [request.options.max_output_tokens for request in world.provider.requests] == [3000, 7000]


def test_the_cost_is_unknown_once_a_model_without_a_price_was_used() -> None:
    world = World(by(UNPRICED, says("done", usage=USED))).run()
    assert (world.budget.cost_usd, world.budget.usage) == (None, USED)


def test_what_a_given_up_response_used_is_paid_at_its_price() -> None:
    budget = Budget(LIMITS, MODEL.price)
    budget.metered(USED)
    budget.abandon()
    budget.use_price(OTHER.price)
    budget.metered(USED)
    budget.abandon()
    assert budget.cost_usd == pytest.approx(0.10301)


def test_the_cap_on_cost_counts_both() -> None:
    budget = Budget(LIMITS.replace(max_cost=0.1), MODEL.price)
    budget.spend(USED)
    assert budget.admit(REQUEST, lambda request: 10)
    budget.use_price(OTHER.price)
    budget.spend(USED)
    with pytest.raises(LimitReached, match=r"\$0\.1030 of \$0\.1000 spent"):
        budget.admit(REQUEST, lambda request: 10)
