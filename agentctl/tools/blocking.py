"""File work in a thread, so that signals, deadlines and other calls never wait for a disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from agentctl.core.errors import ToolFailure

T = TypeVar("T")

WORK_TIMEOUT_S = 60.0
"""After this, work that can be cut short ends with what it has."""
_GRACE_S = 2.0


class Stop:
    """Tells work in a thread when to end: its time is over, or nobody waits for it any more."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._is_cancelled = False

    def __call__(self) -> bool:
        return self._is_cancelled or time.monotonic() > self._until

    def cancel(self) -> None:
        self._is_cancelled = True

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())


async def in_thread(work: Callable[[Stop], T], seconds: float = WORK_TIMEOUT_S) -> T:
    """The result of `work(stop)`. A cancelled caller waits shortly for the work to see it.

    Raises ToolFailure when the work does not end within its time, for example on a dead network disk.
    """
    stop = Stop(seconds)
    task = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds + _GRACE_S)
    except asyncio.CancelledError:
        stop.cancel()
        await asyncio.wait({task}, timeout=_GRACE_S)
        task.add_done_callback(_forget)
        raise
    if not done:
        stop.cancel()
        task.add_done_callback(_forget)
        raise ToolFailure(f"The files did not answer within {seconds:.0f} s. Try a smaller part of the tree.")
    return task.result()


def _forget(task: asyncio.Future[T]) -> None:
    """Nobody reads this result any more; asking for the exception keeps asyncio from reporting it."""
    if not task.cancelled():
        task.exception()
