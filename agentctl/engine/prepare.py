"""What becomes of a call before anything runs: it may run, it is refused, or it waits for a person.

In this order: is there such a tool, do the arguments fit, what did a person say, what does the policy say, and is a
mask about to be written back. A call of an earlier run goes through all of it again.
"""

from __future__ import annotations

from typing import Any

from agentctl.core.codec import loads
from agentctl.core.errors import DeniedTooOften, InvalidArguments
from agentctl.core.events import Event, ToolCalled, ToolDenied, ToolErrored
from agentctl.core.ports import Standing, Tool
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean, one_line
from agentctl.core.types import Decision, JsonObject, PendingCall, ToolCall
from agentctl.engine.parts import Parts

MASKED = "The arguments hold a mask in place of a secret; writing it back would destroy the secret. Leave it alone."
NEVER_ASKED = Standing(state="unknown")
APPROVALS = "approvals"
"""The source of what a person said."""


class Prepared(Record):
    """A call that may run."""

    call: ToolCall
    tool: Tool
    args: JsonObject
    number: int
    """Its place in the step; makes every barrier a group of its own."""
    grant: str | None = None
    """The approval that lets it run; it is used up before the call does."""


class Refused(Record):
    """A call that will not run, with what its outcome event and the model are told."""

    call: ToolCall
    event: Event
    text: str
    error: DeniedTooOften | None = None


class Waiting(Record):
    """A call that a person has to look at; it gets no answer in this run."""

    call: ToolCall
    pending: PendingCall
    is_new: bool


Entry = Prepared | Refused | Waiting


def prepare(parts: Parts, call: ToolCall, number: int, *, is_resumed: bool = False) -> tuple[ToolCalled, Entry]:
    """The announcement of a call, and what becomes of it. `is_resumed`: an earlier run announced it already."""
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
        announced = ToolCalled(id=call.id, name=call.name, input=given, decision=None, resumed=is_resumed)
        return announced, Refused(call=call, event=event, text=str(error))
    decision = parts.policy.decide(tool.spec, args)
    announced = ToolCalled(id=call.id, name=call.name, input=args, decision=_shown(decision), resumed=is_resumed)
    standing = parts.approvals.standing(call, args) if is_resumed else NEVER_ASKED
    if standing.state in ("denied", "lapsed"):
        return announced, _denied_by_person(parts, call, standing)
    is_granted = standing.state == "granted" and decision.asks
    if not decision.runs and not is_granted:
        return announced, _held(parts, call, args, decision, standing)
    if tool.spec.effect in ("write", "exec") and parts.redaction.contains_mask(call.arguments):
        return announced, _masked(call)
    grant = standing.pending.id if standing.pending else None
    return announced, Prepared(call=call, tool=tool, args=args, number=number, grant=grant)


def _arguments(call: ToolCall) -> Any:
    """The arguments as JSON, or as the text that was sent when it is not a JSON object."""
    try:
        value = loads(call.arguments or "{}")
    except ValueError:
        return call.arguments
    return value if isinstance(value, dict) else call.arguments


def _shown(decision: Decision) -> JsonObject:
    return {"verdict": decision.verdict, "rule": decision.rule, "source": decision.source}


def _held(parts: Parts, call: ToolCall, args: JsonObject, decision: Decision, standing: Standing) -> Entry:
    """A call that the policy does not let run: it waits for a person where it may, else it is denied."""
    if not decision.asks:
        return _denied(parts, call, decision)
    if parts.redaction.contains_mask(call.arguments):  # what would be approved is not what was meant
        return _masked(call)
    if standing.state == "waiting" and standing.pending:
        return Waiting(call=call, pending=standing.pending, is_new=False)
    asked = parts.approvals.request(call, args, decision)
    if isinstance(asked, PendingCall):
        return Waiting(call=call, pending=asked, is_new=True)
    return _denied(parts, call, decision.replace(reason=f"{decision.reason} {asked}".strip()))


def _masked(call: ToolCall) -> Refused:
    return Refused(call=call, event=ToolErrored(id=call.id, name=call.name, error=MASKED), text=MASKED)


def _denied(parts: Parts, call: ToolCall, decision: Decision) -> Refused:
    event = ToolDenied(
        id=call.id,
        name=call.name,
        reason=decision.reason,
        rule=decision.rule,
        source=decision.source,
        allow_with=decision.allow_with,
    )
    return _counted(parts, call, event)


def _denied_by_person(parts: Parts, call: ToolCall, standing: Standing) -> Refused:
    rule = f"approval:{standing.pending.id}" if standing.pending else "approval"
    event = ToolDenied(id=call.id, name=call.name, reason=standing.reason, rule=rule, source=APPROVALS, allow_with=None)
    return _counted(parts, call, event)


def _counted(parts: Parts, call: ToolCall, event: ToolDenied) -> Refused:
    try:
        parts.budget.count_denial()
    except DeniedTooOften as error:
        return Refused(call=call, event=event, text=event.reason, error=error)
    return Refused(call=call, event=event, text=f"Not allowed, the call did not run. {event.reason}")
