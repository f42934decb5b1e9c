"""`memory compact`: one model call makes fewer notes of those that nobody recalled. A bad reply changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentctl.config.paths import working_folder
from agentctl.config.settings import Settings
from agentctl.core.errors import ProviderError, TimedOut
from agentctl.core.ports import Attempt, Completed, Provider
from agentctl.core.record import Record, as_dict
from agentctl.core.streams import closing
from agentctl.core.types import JsonObject, Message, ModelInfo, Request, RequestOptions, SystemBlock, Text, Usage
from agentctl.engine.budget import Budget, Limits
from agentctl.runner.clock import SystemClock
from agentctl.runner.provider import run_model
from agentctl.state.knowledge_lines import COMPACT_ORDER, MIN_NOTES, MIN_UNUSED, compacted, to_compact, unused
from agentctl.state.knowledge_note import Note

TRIES = 3
TIMEOUT_S = 300.0

Replace = Callable[[Sequence[Note], Sequence[tuple[str, str]]], "list[Note] | None"]


class Compaction(Record):
    is_done: bool
    before: int
    after: int
    why: str = ""
    """Why nothing was done."""
    usage: JsonObject


def compact(settings: Settings, notes: Callable[[], Sequence[Note]], replace: Replace) -> Compaction:
    """Raises what the model's service raises, and ProviderError when no reply could be used."""
    found = notes()
    old = unused(found)
    if len(found) < MIN_NOTES or len(old) < MIN_UNUSED:
        why = f"Nothing to do: {len(found)} notes, {len(old)} never recalled; it takes {MIN_NOTES} and {MIN_UNUSED}."
        return Compaction(is_done=False, before=len(found), after=len(found), why=why, usage=as_dict(Usage()))
    budget = _budget(settings)
    new = asyncio.run(_ask(settings, budget, old, dict(os.environ), working_folder()))
    if replace(old, new) is None:
        why = "Nothing was changed: another run used the notes in the meantime. Run it again."
        return Compaction(is_done=False, before=len(found), after=len(found), why=why, usage=as_dict(budget.usage))
    return Compaction(is_done=True, before=len(found), after=len(notes()), usage=as_dict(budget.usage))


def _budget(settings: Settings) -> Budget:
    limits = Limits(
        max_steps=TRIES, max_tool_calls=1, max_denials=1, max_tokens=settings.max_tokens, max_cost=settings.max_cost
    )
    return Budget(limits, None)


async def _ask(
    settings: Settings, budget: Budget, old: Sequence[Note], env: Mapping[str, str], cwd: Path
) -> list[tuple[str, str]]:
    model, provider = run_model(settings, None, env, SystemClock(), cwd, is_demo=False)
    budget.use_price(model.price)
    try:
        async with asyncio.timeout(min(TIMEOUT_S, settings.timeout)):
            for _ in range(TRIES):
                budget.begin_step()
                rows = compacted(await _reply(provider, model, settings, budget, old), old)
                if rows:
                    return rows
    except TimeoutError:
        raise TimedOut("the model did not answer in time; the notes are as they were") from None
    finally:
        await provider.close()
    raise ProviderError(
        f"no reply of the model held notes, {TRIES} times; the notes are as they were",
        hint="Try another --model.",
        kind="bad_reply",
    )


async def _reply(provider: Provider, model: ModelInfo, settings: Settings, budget: Budget, old: Sequence[Note]) -> str:
    """The text of one answer; empty when it was cut or refused, because half of it would lose notes."""
    request = Request(
        system=(SystemBlock(name="order", text=COMPACT_ORDER),),
        messages=(Message(role="user", parts=(Text(text=to_compact(old)),)),),
        tools=(),
        options=RequestOptions(max_output_tokens=settings.max_output_tokens),
        model=model,
    )
    text = ""
    async with closing(provider.stream(request)) as stream:
        async for item in stream:
            if isinstance(item, (Attempt, Completed)):
                budget.spend(item.usage)
            if isinstance(item, Completed) and item.stop == "end":
                text = item.message.text
    return text
