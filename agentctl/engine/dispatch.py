"""Calls of one step: prepared in order, run in the order asked, finished in order.

Neighbouring reads run together; anything else waits for what was asked before it. Every announced call gets exactly
one outcome here, or, when the run ends in between, in runner/headless.py. A call that waits for a person gets no
answer: when all that may run has run, the run ends, and a later one goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import groupby

from agentctl.core.errors import AgentctlError, NoAnswerYet, Suspended, ToolFailure
from agentctl.core.events import Event, ToolErrored, ToolResulted, ToolSuspended
from agentctl.core.ports import Appended, GrantUsed, Item, Pending
from agentctl.core.streams import closing
from agentctl.core.text import cut_end, cut_middle, one_line
from agentctl.core.types import Message, ToolAnswer, ToolCall, ToolResult
from agentctl.engine.parts import Parts
from agentctl.engine.prepare import Entry, Prepared, Refused, Waiting, prepare
from agentctl.engine.repair import answer

RESULT_CHARS = 30_000
_Outcome = ToolResult | NoAnswerYet


async def run_calls(
    parts: Parts, calls: Sequence[ToolCall], *, is_resumed: bool = False, may_wait: bool = True
) -> AsyncIterator[Item]:
    """Yields the events of the calls and an Appended answer for each that does not wait. Raises what ends the run.

    `is_resumed`: an earlier run announced them already. `may_wait=False`: a question that nobody answered is passed
    over, because a new prompt came instead.
    """
    allowed = calls[: max(0, parts.budget.calls_left())]
    prepared: list[Entry] = []
    for number, call in enumerate(allowed):
        announced, entry = prepare(parts, call, number, is_resumed=is_resumed)
        yield announced
        if isinstance(entry, Waiting):
            yield Pending(call=entry.pending, is_new=entry.is_new)
        prepared.append(entry)
    ends: list[AgentctlError] = []
    for _, entries in groupby(prepared, key=_group):
        async with closing(_run_group(parts, list(entries), ends, may_wait=may_wait)) as items:
            async for item in items:
                yield item
    if len(allowed) < len(calls):
        raise parts.budget.out_of_calls()
    waiting = sum(isinstance(entry, Waiting) for entry in prepared)
    if waiting:
        raise Suspended(f"{waiting} {'call waits' if waiting == 1 else 'calls wait'} for approval")
    if ends:
        raise ends[0]


def _group(entry: Entry) -> object:
    """Reads, refusals and waiting calls next to each other share a group; everything else is a barrier."""
    if not isinstance(entry, Prepared) or entry.tool.spec.effect == "read":
        return "together"
    return entry.number


# --- run and finish -------------------------------------------------------------------------------------------------


async def _run_group(
    parts: Parts, group: Sequence[Entry], ends: list[AgentctlError], *, may_wait: bool
) -> AsyncIterator[Item]:
    """Runs what may run. What ends the run later, because a question is open, is added to `ends`."""
    for entry in group:
        if isinstance(entry, Prepared) and entry.grant:
            yield GrantUsed(approval=entry.grant)
    tasks = {entry.call.id: asyncio.create_task(_run(parts, entry)) for entry in group if isinstance(entry, Prepared)}
    try:
        async with closing(_live_until(parts, list(tasks.values()))) as events:
            async for event in events:
                yield event
    finally:
        await _stop(list(tasks.values()))
    for entry in group:
        if isinstance(entry, Waiting):
            yield ToolSuspended(id=entry.call.id, name=entry.call.name, approval=entry.pending.id)
        elif isinstance(entry, Refused):
            yield Appended(message=_refusal(parts, entry))
            yield entry.event
            if entry.error is not None:
                raise entry.error
        else:
            outcome, duration_ms = tasks[entry.call.id].result()
            if isinstance(outcome, NoAnswerYet) and may_wait:
                ends.append(outcome.error)
                yield ToolSuspended(id=entry.call.id, name=entry.call.name, approval=None)
                continue
            event, message = _finish(parts, entry, _settled(entry, outcome), duration_ms)
            yield Appended(message=message)
            yield event


def _refusal(parts: Parts, entry: Refused) -> Message:
    """What the model is told. Raises LimitReached (`loop`) for the sixth call that cannot run in the same way."""
    note = ""
    if isinstance(entry.event, ToolErrored):
        name, sent = entry.call.name, {"arguments": entry.call.arguments}
        parts.repeat.before(name, sent)
        note = parts.repeat.after(name, sent, "read", entry.text, is_success=False)
    return answer(entry.call, parts.redaction.text(entry.text) + note, is_error=True)


def _settled(entry: Prepared, outcome: _Outcome) -> ToolResult:
    if isinstance(outcome, NoAnswerYet):
        return ToolResult(call_id=entry.call.id, content=outcome.otherwise)
    return outcome


async def _live_until(parts: Parts, tasks: list[asyncio.Task[tuple[_Outcome, int]]]) -> AsyncIterator[Item]:
    """Live events of the tools until every task is done."""
    wake = asyncio.Event()
    parts.live.on_event(wake.set)
    for task in tasks:
        task.add_done_callback(lambda _: wake.set())
    try:
        while not all(task.done() for task in tasks):
            await wake.wait()
            wake.clear()
            for event in parts.live.take():
                yield event
        for event in parts.live.take():
            yield event
    finally:
        parts.live.on_event(None)


async def _stop(tasks: list[asyncio.Task[tuple[_Outcome, int]]]) -> None:
    """When the run ends in between: cancels what still runs and waits until it has cleaned up."""
    running = [task for task in tasks if task.cancel()]
    if running:
        await asyncio.wait(running)
    for task in tasks:  # takes the exceptions of all, which nobody else will when the first of them ends the run
        if not task.cancelled():
            task.exception()


async def _run(parts: Parts, entry: Prepared) -> tuple[_Outcome, int]:
    """The outcome and how many milliseconds it took. A failure of the tool is a result, too."""
    result: _Outcome
    started = parts.clock.monotonic()
    call = entry.call
    try:
        parts.repeat.before(call.name, entry.args)
        result = await entry.tool.run(call.id, entry.args)
    except AgentctlError:
        raise
    except NoAnswerYet as waiting:
        result = waiting
    except ToolFailure as failure:
        result = ToolResult(call_id=call.id, content=str(failure), is_error=True)
    except OSError as error:
        result = ToolResult(call_id=call.id, content=f"{call.name} failed: {error}", is_error=True)
    except Exception as error:  # noqa: BLE001  # a bug in one tool is a result for the model; the run goes on
        text = f"{call.name} has a bug: {type(error).__name__}: {error}. Try it another way."
        result = ToolResult(call_id=call.id, content=text, is_error=True)
    return result, round((parts.clock.monotonic() - started) * 1000)


def _finish(parts: Parts, entry: Prepared, result: ToolResult, duration_ms: int) -> tuple[Event, Message]:
    call, spec = entry.call, entry.tool.spec
    is_success = not result.is_error and result.exit_code in (None, 0)
    content, is_cut = _capped(parts, parts.redaction.text(result.content))
    note = parts.repeat.after(call.name, entry.args, spec.effect, result.content, is_success=is_success)
    message = Message(
        role="tool",
        parts=(
            ToolAnswer(
                call_id=call.id, name=call.name, content=content + note, is_error=result.is_error, images=result.images
            ),
        ),
    )
    if result.is_error:
        return ToolErrored(id=call.id, name=call.name, error=content), message
    event = ToolResulted(
        id=call.id,
        name=call.name,
        output=content,
        summary=result.summary or cut_end(one_line(content), 80),
        truncated=result.is_truncated or is_cut,
        duration_ms=duration_ms,
        changed=result.changed,
        exit_code=result.exit_code,
    )
    return event, message


def _capped(parts: Parts, content: str) -> tuple[str, bool]:
    """At most RESULT_CHARS for the model; the whole is kept in a file whose path stands in the cut."""
    if len(content) <= RESULT_CHARS:
        return content, False
    kept = parts.outputs.open()
    kept.write(content.encode("utf-8", "replace"))
    path = kept.close()
    return cut_middle(content, RESULT_CHARS, f"the whole is in {path}" if path else "the whole could not be kept"), True
