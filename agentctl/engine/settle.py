"""The beginning of a turn: what becomes of the calls of the history that no answer follows.

Granted ones run. Those that still wait end the run suspended again, or, when there is a new prompt, are answered as
not approved. Questions are asked again. All others are answered as interrupted, so that resume is no special case.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from agentctl.core.events import Notice
from agentctl.core.ports import Appended, Item, Standing
from agentctl.core.streams import closing
from agentctl.core.types import Message, ToolAnswer, ToolCall
from agentctl.engine.dispatch import run_calls
from agentctl.engine.parts import Parts
from agentctl.engine.repair import INTERRUPTED, answer, open_calls

OVERTAKEN = "Not approved, the call did not run: nobody approved it before the next prompt came."


async def settle(parts: Parts, history: list[Message]) -> AsyncIterator[Item]:
    """Yields what run_calls yields for the calls that are taken up again. Raises what ends the run."""
    has_prompt = bool(history) and history[-1].role == "user"
    resumed: list[ToolCall] = []
    lapsed: list[str] = []
    for call in open_calls(history):
        standing = parts.approvals.standing(call)
        if standing.state == "unknown":
            yield _answered(history, answer(call, INTERRUPTED, is_error=True))
        elif standing.state == "lapsed" or (standing.state == "waiting" and has_prompt):
            text = standing.reason or OVERTAKEN
            yield _answered(history, answer(call, text, is_error=True))
            lapsed += [_notice(standing, call, text)] if standing.pending else []
        else:
            resumed.append(call)
    for text in lapsed:
        yield Notice(code="approval-lapsed", text=text)
    if resumed:
        async with closing(run_calls(parts, resumed, is_resumed=True, may_wait=not has_prompt)) as items:
            async for item in items:
                yield _answered(history, item.message) if isinstance(item, Appended) else item


def _notice(standing: Standing, call: ToolCall, text: str) -> str:
    return f"The approval {standing.pending.id if standing.pending else ''} of {call.name} lapsed. {text}"


def _answered(history: list[Message], message: Message) -> Appended:
    """Puts the answer directly behind those that already follow the message with its call."""
    ids = {part.call_id for part in message.parts if isinstance(part, ToolAnswer)}
    places = [place for place, asked in enumerate(history) if any(call.id in ids for call in asked.calls)]
    place = places[-1] + 1  # ids of local models repeat; the last one is meant
    while place < len(history) and history[place].role == "tool":
        place += 1
    history.insert(place, message)
    return Appended(message=message)
