"""`--learn`: one light call after the answer. It sees prompts and final answers only, and never changes the ending."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from agentctl.core.errors import LimitReached
from agentctl.core.events import Notice
from agentctl.core.ports import Degraded, Item
from agentctl.core.types import Problem
from agentctl.engine.budget import Budget
from agentctl.engine.parts import Parts
from agentctl.runner.plane import ask_within
from agentctl.state.knowledge import Added, Knowledge
from agentctl.state.knowledge_lines import LEARN_ORDER, LEARN_TOKENS, LEARNED, learned, to_learn_from
from agentctl.state.knowledge_store import StoreFailure, patiently_async

LEARN_S = 20.0
WRITE_S = 3.0
SPENT = 0.8
"""Past this share of --max-tokens or --max-cost nothing is learned."""


async def learn(
    knowledge: Knowledge, turns: Sequence[tuple[str, str]], parts: Parts, seconds_left: float, *, writes: bool
) -> AsyncGenerator[Item, None]:
    """Asks once, within its deadline and the caps of the run, and records what came as unconfirmed notes."""
    if _is_nearly_spent(parts.budget):
        yield _missed("most of --max-tokens or --max-cost is used")
        return
    seconds = min(LEARN_S, seconds_left - WRITE_S)
    try:
        text = parts.redaction.text(to_learn_from(turns))
        light = await ask_within(parts, LEARN_ORDER, text, max_output_tokens=LEARN_TOKENS, seconds=seconds)
    except LimitReached as limit:
        yield _missed(limit.message)
        return
    for spent in light.spent:
        yield spent
    if not light.text:
        yield _missed("the model gave no answer in time")
        return
    added = []
    for kind, said in learned(light.text) if writes else ():
        try:
            added.append(await _record(knowledge, parts, kind, said))
        except StoreFailure as failure:
            knowledge.file.note_problem(failure.problem())
            return
    new = [one.note.text for one in added if one.is_new]
    if new:
        head = f"Learned {len(new)} unconfirmed note{'' if len(new) == 1 else 's'}"
        yield Notice(code="memory-learned", text=f"{head}: {'; '.join(new)}")


async def _record(knowledge: Knowledge, parts: Parts, kind: str, text: str) -> Added:
    return await patiently_async(lambda: knowledge.add(kind, text, "extractor"), WRITE_S / LEARNED, parts.clock.sleep)


def _is_nearly_spent(budget: Budget) -> bool:
    limits = budget.limits
    tokens = limits.max_tokens is not None and budget.usage.total > SPENT * limits.max_tokens
    return tokens or (limits.max_cost is not None and (budget.cost_usd or 0.0) > SPENT * limits.max_cost)


def _missed(why: str) -> Degraded:
    fix = "Give the run more room, or leave --learn out."
    return Degraded(problem=Problem(code="memory-not-learned", what="--learn", why=why, fix=fix))
