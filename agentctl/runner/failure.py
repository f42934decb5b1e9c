"""A failure before there is a run, or in a verb, in the same words as everywhere: built here, printed by output.py."""

from __future__ import annotations

from agentctl.core.errors import AgentctlError, ProviderError, exit_code_of
from agentctl.core.events import SCHEMA_VERSION, Done, ErrorEvent, Event, Init, Stamped
from agentctl.core.types import JsonObject
from agentctl.version import __version__


def startup_init(cwd: str) -> Init:
    """The first line of a run that failed before anything was settled."""
    return Init(schema=SCHEMA_VERSION, version=__version__, cwd=cwd)


def error_event(error: AgentctlError) -> Event:
    """What ended a run, in the words of its error; with the cause when it is a bug."""
    provider = error if isinstance(error, ProviderError) else None
    message = error.message
    cause = error.__cause__
    if cause is not None and type(error) is AgentctlError:
        message = f"{message} (cause: {type(cause).__name__}: {cause})" if str(cause) not in message else message
    return ErrorEvent(
        kind=error.kind,
        message=message,
        hint=error.hint,
        retryable=provider is not None and provider.retryable,
        status=provider.status if provider else None,
    )


def run_failure(error: AgentctlError, *, cwd: str, now: str) -> list[Stamped]:
    """`init`, `error` and `done` of a run that could not even read its options."""
    events: list[Event] = [
        startup_init(cwd),
        error_event(error),
        Done(ended=error.ending, exit_code=exit_code_of(error)),
    ]
    return [
        Stamped(event=event, seq=seq, time=now, session=None, turn=1, step=0)
        for seq, event in enumerate(events, start=1)
    ]


def verb_failure(error: AgentctlError) -> JsonObject:
    """The document of a verb that failed."""
    return {
        "error": {"kind": error.kind, "message": error.message, "hint": error.hint},
        "exit_code": exit_code_of(error),
    }
