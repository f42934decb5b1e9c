"""`policy explain`: what a headless run would do with a call, and every rule that had a say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from agentctl.core.codec import loads, scrub
from agentctl.core.errors import InvalidArguments, UsageError
from agentctl.core.record import as_dict
from agentctl.core.types import Decision, JsonObject
from agentctl.policy.engine import PolicyEngine
from agentctl.tools.sets import catalogue_tools

NO_CALL = "opaque:arguments"
"""The rule of a call that never reaches the policy, since its arguments do not fit the tool."""


def read_calls(descriptor: int) -> Iterator[tuple[str, JsonObject]]:
    """The calls of a JSON-lines input, one `{"tool": …, "input": {…}}` a line. Raises UsageError with its number."""
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = _read(line)
                tool, arguments = row["tool"], row.get("input", {})
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise UsageError(f'line {number} of stdin is not {{"tool": NAME, "input": {{…}}}}') from None
            if not isinstance(tool, str) or not isinstance(arguments, dict):
                raise UsageError(f"line {number} of stdin: tool must be a name and input an object")
            yield tool, arguments


def _read(line: bytes) -> Any:
    """A row, also one with half a character (`"\\ud83d"`): JSON can say that, and the strict parser refuses it."""
    try:
        return loads(line)
    except ValueError:
        import json  # for such rows only

        return json.loads(line.decode(), parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def explain_call(engine: PolicyEngine, tool: str, arguments: JsonObject) -> JsonObject:
    """`{verdict, runs, rule, source, reason, allow_with, losing[]}` for one call.

    Arguments that do not fit the tool are a row that does not run (rule `opaque:arguments`), not a failure: in a run
    such a call ends in a `tool-error` before the policy is asked.
    """
    decision = _decide(engine, tool, arguments)
    return {
        "verdict": decision.verdict,
        "runs": decision.runs,
        "rule": decision.rule,
        "source": decision.source,
        "reason": decision.reason,
        "allow_with": decision.allow_with,
        "losing": as_dict(decision.losing),
    }


def _decide(engine: PolicyEngine, tool: str, arguments: JsonObject) -> Decision:
    made = catalogue_tools().get(tool)
    if made is None:
        return engine.decide_by_name(tool)
    if scrub(arguments) != arguments:
        reason = "The arguments hold half a character (a lone surrogate), which no call can. Write it whole."
        return Decision(verdict="opaque", runs=False, rule=NO_CALL, source="built-in", reason=reason)
    try:
        return engine.decide(made.spec, made.parse(arguments))
    except InvalidArguments as error:
        return Decision(verdict="opaque", runs=False, rule=NO_CALL, source="built-in", reason=str(error))
