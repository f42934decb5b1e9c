"""Calls of one step: prepared in order, run in the order asked, finished in order.

Neighbouring reads run together; anything else waits for what was asked before it. Every announced call gets exactly
one outcome here, or, when the run ends in between, in runner/headless.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import Any

from agentctl.core.codec import loads
from agentctl.core.errors import AgentctlError, DeniedTooOften, InvalidArguments, ToolFailure
from agentctl.core.events import Event, ToolCalled, ToolDenied, ToolErrored, ToolResulted
from agentctl.core.ports import Appended, Item, Tool
from agentctl.core.record import Record
from agentctl.core.streams import closing
from agentctl.core.text import cut_end, cut_middle, did_you_mean, one_line
from agentctl.core.types import Decision, JsonObject, Message, ToolAnswer, ToolCall, ToolResult
from agentctl.engine.parts import Parts
from agentctl.engine.repair import answer

RESULT_CHARS = 30_000
MASKED = "The arguments hold a mask in place of a secret; writing it back would destroy the secret. Leave it alone."


class Prepared(Record):
    """A call that may run."""

    call: ToolCall
    tool: Tool
    args: JsonObject
    number: int
    """Its place in the step; makes every barrier a group of its own."""


class Refused(Record):
    """A call that will not run, with what its outcome event and the model are told."""

    call: ToolCall
    event: Event
    text: str
    error: DeniedTooOften | None = None


async def run_calls(parts: Parts, calls: Sequence[ToolCall]) -> AsyncIterator[Item]:
    """Yields the events of the calls and an Appended answer for each. Raises what ends the run."""
    allowed = calls[: max(0, parts.budget.calls_left())]
    prepared: list[Prepared | Refused] = []
    for number, call in enumerate(allowed):
        announced, entry = _prepare(parts, call, number)
        yield announced
        prepared.append(entry)
    for _, entries in groupby(prepared, key=_group):
        group = list(entries)
        async with closing(_run_group(parts, group)) as items:
            async for item in items:
                yield item
    if len(allowed) < len(calls):
        raise parts.budget.out_of_calls()


def _group(entry: Prepared | Refused) -> object:
    """Reads and refusals next to each other share a group; everything else is a barrier."""
    if isinstance(entry, Refused) or entry.tool.spec.effect == "read":
        return "together"
    return entry.number


# --- prepare ------------------------------------------------------------------------------------------------------


def _prepare(parts: Parts, call: ToolCall, number: int) -> tuple[ToolCalled, Prepared | Refused]:
    parts.budget.tool_calls += 1
    given = _arguments(call)
    tool = parts.tools.get(call.name)
    try:
        if tool is None:
            hint = did_you_mean(call.name, parts.tools, limit=30)
            raise InvalidArguments(f"There is no tool named {call.name!r}. {hint}".strip())
        if not isinstance(given, dict):
            sent = one_line(call.arguments, 120)
            raise InvalidArguments(f"The arguments are not a JSON object: {sent!r}. Send the whole call again.")
        args = tool.parse(given)
    except InvalidArguments as error:
        event = ToolErrored(id=call.id, name=call.name, error=str(error))
        announced = ToolCalled(id=call.id, name=call.name, input=given, decision=None)
        return announced, Refused(call=call, event=event, text=str(error))
    decision = parts.policy.decide(tool.spec, args)
    announced = ToolCalled(id=call.id, name=call.name, input=args, decision=_shown(decision))
    if not decision.runs:
        return announced, _denied(parts, call, decision)
    if tool.spec.effect in ("write", "exec") and parts.redaction.contains_mask(call.arguments):
        return announced, Refused(call=call, event=ToolErrored(id=call.id, name=call.name, error=MASKED), text=MASKED)
    return announced, Prepared(call=call, tool=tool, args=args, number=number)


def _arguments(call: ToolCall) -> Any:
    """The arguments as JSON, or as the text that was sent when it is not a JSON object."""
    try:
        value = loads(call.arguments or "{}")
    except ValueError:
        return call.arguments
    return value if isinstance(value, dict) else call.arguments


def _shown(decision: Decision) -> JsonObject:
    return {"verdict": decision.verdict, "rule": decision.rule, "source": decision.source}


def _denied(parts: Parts, call: ToolCall, decision: Decision) -> Refused:
    event = ToolDenied(
        id=call.id,
        name=call.name,
        reason=decision.reason,
        rule=decision.rule,
        source=decision.source,
        allow_with=decision.allow_with,
    )
    try:
        parts.budget.count_denial()
    except DeniedTooOften as error:
        return Refused(call=call, event=event, text=decision.reason, error=error)
    return Refused(call=call, event=event, text=f"Not allowed, the call did not run. {decision.reason}")


# --- run and finish -------------------------------------------------------------------------------------------------


async def _run_group(parts: Parts, group: Sequence[Prepared | Refused]) -> AsyncIterator[Item]:
    tasks = {entry.call.id: asyncio.create_task(_run(parts, entry)) for entry in group if isinstance(entry, Prepared)}
    try:
        async with closing(_live_until(parts, list(tasks.values()))) as events:
            async for event in events:
                yield event
    finally:
        await _stop(list(tasks.values()))
    for entry in group:
        if isinstance(entry, Prepared):
            event, message = _finish(parts, entry, *tasks[entry.call.id].result())
        else:
            event, message = entry.event, answer(entry.call, parts.redaction.text(entry.text), is_error=True)
        yield Appended(message=message)
        yield event
        if isinstance(entry, Refused) and entry.error is not None:
            raise entry.error


async def _live_until(parts: Parts, tasks: list[asyncio.Task[tuple[ToolResult, int]]]) -> AsyncIterator[Item]:
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


async def _stop(tasks: list[asyncio.Task[tuple[ToolResult, int]]]) -> None:
    """When the run ends in between: cancels what still runs and waits until it has cleaned up."""
    running = [task for task in tasks if task.cancel()]
    if running:
        await asyncio.wait(running)
    for task in tasks:  # takes the exceptions of all, which nobody else will when the first of them ends the run
        if not task.cancelled():
            task.exception()


async def _run(parts: Parts, entry: Prepared) -> tuple[ToolResult, int]:
    """The result and how many milliseconds it took. A failure of the tool is a result, too."""
    started = parts.clock.monotonic()
    call = entry.call
    try:
        parts.repeat.before(call.name, entry.args)
        result = await entry.tool.run(call.id, entry.args)
    except AgentctlError:
        raise
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
