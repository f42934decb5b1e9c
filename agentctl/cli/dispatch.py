"""From words to a call of the runner. Every failure on the way goes to runner/output.py."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from agentctl.core.endings import ENDINGS
from agentctl.core.errors import AgentctlError, Cancelled
from agentctl.core.signals import STOPPING, remember

_GC_THRESHOLD = (20_000, 20, 50)
"""A run is short and keeps most of what it makes: the default of 700 spends a tenth of its time looking for garbage."""


def dispatch(words: list[str]) -> int:
    """A run when the first word is a flag or there is none; otherwise the verb that it names."""
    try:
        return _dispatch(words)
    finally:
        output = sys.modules.get("agentctl.runner.output")  # what was never loaded has printed nothing
        if output is not None:
            output.end_fence()


def _dispatch(words: list[str]) -> int:
    gc.disable()  # imports make no garbage; looking for it all the same takes a fifth of the start-up
    seen = remember()
    try:
        call = _prepare(words)
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLD)
        gc.enable()
        if not _is_framed(words):
            _obey(seen)
            return call()
    except AgentctlError as error:
        return _report(error, words)
    except Exception as bug:  # noqa: BLE001 - the outermost edge: --json promises a last line on every path
        return _report(_as_error(bug), words)
    return _run(call)


def _prepare(words: list[str]) -> Callable[[], int]:
    """Everything that can fail before something was printed. Raises AgentctlError."""
    if words and not words[0].startswith("-"):
        from agentctl.cli.verbs import prepare_verb

        return prepare_verb(words)
    from agentctl.cli.run import prepare_run

    return prepare_run(words)


def _is_framed(words: Sequence[str]) -> bool:
    """Runs have their own last line for every failure, so nobody else may add a second one."""
    return not words or words[0].startswith("-") or words[0] == "demo"


def _run(call: Callable[[], int]) -> int:
    try:
        return call()
    except Exception as bug:  # noqa: BLE001 - a bug in the last word of a run; stdout may already hold that word
        from agentctl.runner.output import describe, masked, say

        for line in describe(_as_error(bug)):
            say(masked(line))
        return ENDINGS["error"].exit_code


def _report(error: AgentctlError, words: Sequence[str]) -> int:
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)  # the last line is on its way; nothing may tear it
    from agentctl.runner.output import report_failure

    return report_failure(error, words)


def _as_error(bug: Exception) -> AgentctlError:
    if isinstance(bug, AgentctlError):
        return bug
    error = AgentctlError(f"{type(bug).__name__}: {bug}", hint="This is a bug in agentctl.")
    error.__cause__ = bug.__cause__
    return error


def _obey(seen: Sequence[int]) -> None:
    """A verb ends at once, wherever it is. What its last words need is loaded before: an import that is broken off
    leaves half a module behind."""
    import agentctl.runner.failure
    import agentctl.runner.output  # noqa: F401  # loaded, not used

    for number in STOPPING:
        signal.signal(number, _stopped)
    if seen:
        _stopped(seen[0], None)


def _stopped(number: int, _frame: FrameType | None) -> None:
    name = signal.Signals(number)
    raise Cancelled(f"stopped by {name.name}", exit_code=STOPPING[name])
