"""Ending a run from outside: a signal, the clock, a reader that left. One way in, one exception out."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from agentctl.core.errors import AgentctlError, Cancelled, TimedOut
from agentctl.core.signals import STOPPING, remember, was_hangup_ignored
from agentctl.runner.output import READER_GONE

LAST_WORD_S = 4.0
"""After a stop the run has this long to clean up; then the process ends with its last line all the same."""


class Stop:
    """Cancels the task that carries the run and remembers why. The first reason wins."""

    def __init__(self) -> None:
        self.reason: AgentctlError | None = None
        self._task: asyncio.Task[object] | None = None
        self._timer: threading.Timer | None = None
        self._last_word: Callable[[AgentctlError], None] | None = None
        self._is_over = False

    def bind(self, last_word: Callable[[AgentctlError], None] | None = None) -> None:
        """From now on the current task is the one to cancel. `last_word` writes the end when cleaning up hangs."""
        self._task = asyncio.current_task()
        self._last_word = last_word

    def trigger(self, reason: AgentctlError) -> None:
        """From a callback of the loop: the run is cancelled wherever it waits."""
        if self.note(reason) and self._task is not None:
            self._task.cancel()

    def note(self, reason: AgentctlError) -> bool:
        """From the run's own task: it ends at its next `check`. Returns whether this is the reason that counts."""
        if self.reason is not None or self._is_over:
            return False
        self.reason = reason
        if self._last_word is not None:
            self._timer = threading.Timer(LAST_WORD_S, self.give_up)
            self._timer.daemon = True
            self._timer.start()
        return True

    def check(self) -> None:
        """Raises the reason when there is one."""
        if self.reason is not None:
            raise self.reason

    def take(self) -> AgentctlError | None:
        """The reason of a cancellation that has just been caught; the task may go on to its end."""
        task = asyncio.current_task()
        if self.reason is not None and task is not None:
            while task.cancelling():
                task.uncancel()
        return self.reason

    async def settle(self) -> AgentctlError | None:
        """The reason, after a cancellation that is on its way has arrived: later it would tear the last words."""
        task = asyncio.current_task()
        if self.reason is not None and task is not None and task.cancelling():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        return self.take()

    def close(self) -> None:
        """The turn is over and the end is being written: nothing can stop it any more."""
        self._is_over = True

    def finish(self) -> None:
        """The end was written in time."""
        if self._timer is not None:
            self._timer.cancel()

    def give_up(self) -> None:
        """Ends the process with its last line, whatever still hangs; the watcher takes care of commands."""
        if self._last_word is not None and self.reason is not None:
            self._last_word(self.reason)


class EarlySignals:
    """Keeps signals that come before there is an event loop."""

    def __init__(self) -> None:
        self._seen = remember()

    def hand_over(self, stop: Stop, interrupt: Callable[[], object]) -> None:
        """The loop takes over: a signal stops the run, SIGUSR1 interrupts only the running commands."""
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, _stop_by, stop, number)
        loop.add_signal_handler(signal.SIGUSR1, interrupt)
        for seen in self._seen:
            _stop_by(stop, seen)


class Launcher:
    """The process that started this one. A CI system that cancels a step signals only the step's own process, often a
    shell that passes nothing on; when that is gone, so is everybody who waits for this run.

    Only in CI, and not for a run that was started to outlive its parent, with nohup. Elsewhere it is never gone.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        is_watched = env.get("CI") or env.get("GITHUB_ACTIONS")
        self._parent = os.getppid() if is_watched and not was_hangup_ignored() else 0

    def is_gone(self) -> bool:
        return self._parent > 1 and os.getppid() != self._parent


def is_from_outside(error: AgentctlError) -> bool:
    """Whether a signal or the clock ended the run. A reader that left is something else: what was said is lost."""
    return isinstance(error, TimedOut) or (isinstance(error, Cancelled) and error.exit_code != READER_GONE)


def _stop_by(stop: Stop, number: int) -> None:
    if stop.reason is not None and number == signal.SIGINT:
        stop.give_up()  # the second Ctrl-C does not wait for anything
    name = signal.Signals(number).name
    stop.trigger(Cancelled(f"stopped by {name}", exit_code=STOPPING[signal.Signals(number)]))


def stop_after(stop: Stop, seconds: float, timeout_s: float) -> None:
    """The wall clock of the run: `seconds` are left of `timeout_s`."""
    asyncio.get_running_loop().call_later(
        seconds,
        lambda: stop.trigger(
            TimedOut(
                f"the run did not end within {timeout_s:g} s", hint="Raise --timeout, or give the run a smaller task."
            )
        ),
    )
