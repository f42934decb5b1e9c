"""The Python face: the same code path as the command, without printing. Synchronous; no signal handlers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress

from agentctl.config.options import Options
from agentctl.config.paths import working_folder
from agentctl.core.events import Done, Stamped
from agentctl.core.record import Record
from agentctl.runner.clock import SystemClock
from agentctl.runner.headless import Run
from agentctl.runner.stop import Stop


class Outcome(Record):
    """How a run ended."""

    ended: str
    exit_code: int
    text: str
    done: Done


def events(options: Options) -> Iterator[Stamped]:
    """The events of one run as they happen, the last one with a Done. Leaving the loop early ends the run.

    The run goes on only while the next event is asked for, so its clock is checked at each of them.
    """
    with asyncio.Runner() as runner:
        stop = Stop()
        run = Run(options, env=dict(os.environ), cwd=working_folder(), clock=SystemClock(), stop=stop)
        stream = run.events()

        async def following() -> Stamped | None:
            stop.bind()
            return await anext(stream, None)

        try:
            while (stamped := runner.run(following())) is not None:
                yield stamped
        finally:
            with suppress(RuntimeError):  # already at its end
                runner.run(stream.aclose())


def run(options: Options) -> Outcome:
    """Runs to the end. Never raises for a run that fails: `ended` and `exit_code` say how it went."""
    done = next(stamped.event for stamped in events(options) if isinstance(stamped.event, Done))
    return Outcome(ended=done.ended, exit_code=done.exit_code, text=done.text, done=done)
