"""How full the context is: the threshold, the level at each step, and the estimate that real usage corrects."""

from __future__ import annotations

import pytest

from agentctl.core.errors import ContextOverflow
from agentctl.core.types import Message, RequestOptions, Text, Usage
from agentctl.engine.context import Context
from agentctl.engine.prompt import Prompt
from tests.engine.test_turn import MODEL

HISTORY = [Message(role="user", parts=(Text(text="word " * 2_000),))]


def context(window: int | None = None, max_context: int | None = None) -> Context:
    return Context(
        model=MODEL.replace(window=window),
        prompt=Prompt(tools=[], appendix=""),
        tools=[],
        options=RequestOptions(),
        max_context=max_context,
    )


@pytest.mark.parametrize(
    ("window", "threshold"), [(None, 120_000), (8_000, 6_400), (150_000, 120_000), (200_000, 120_000), (1, 1)]
)
def test_the_threshold_is_a_share_of_the_window_and_at_most_120000(window: int | None, threshold: int) -> None:
    assert context(window).threshold == threshold


@pytest.mark.parametrize(
    ("tokens", "percent", "level"), [(0, 0, "ok"), (5_333, 67, "amber"), (5_200, 65, "ok"), (7_200, 90, "red")]
)
def test_each_step_says_how_full_the_context_is(tokens: int, percent: int, level: str) -> None:
    used = context(10_000).use(Usage(input=tokens // 2, cache_read=tokens - tokens // 2))
    assert (used.tokens, used.threshold, used.percent, used.level) == (tokens, 8_000, percent, level)


@pytest.mark.parametrize(("share", "expected"), [(1.0, 1.0), (1.5, 1.5), (0.7, 0.7), (9.0, 2.0), (0.01, 0.5)])
def test_the_first_usage_that_comes_back_corrects_the_estimate(share: float, expected: float) -> None:
    made = context()
    made.request(HISTORY)
    before = made.tokens(HISTORY)
    made.use(Usage(input=round(before * share), output=999))
    assert made.tokens(HISTORY) == pytest.approx(before * expected, rel=0.01)


def test_a_service_that_says_nothing_corrects_nothing() -> None:
    made = context()
    made.request(HISTORY)
    before = made.tokens(HISTORY)
    made.use(Usage())
    assert made.tokens(HISTORY) == before


def test_a_corrected_estimate_is_held_against_max_context() -> None:
    made = context(max_context=4_000)
    made.request(HISTORY)
    made.use(Usage(input=made.tokens(HISTORY) * 2))
    with pytest.raises(ContextOverflow, match="--max-context is 4,000"):
        made.request(HISTORY)


def test_a_window_learnt_from_a_refusal_counts_until_another_model_answers() -> None:
    made = context(200_000)
    made.learn_window(10_000)
    made.use_model(made.model)
    assert made.threshold == 8_000
    made.learn_window(1_000_000)
    assert made.threshold == 8_000
    made.use_model(MODEL.replace(name="other", window=50_000))
    assert made.threshold == 40_000
