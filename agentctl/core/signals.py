"""Signals that stop a run, from the first moment of the process on.

Before there is an event loop they are only remembered: an exception out of a signal handler in the middle of an import
would leave modules behind that are half made, and the last line could not be written any more. This is the first
module of ours that a process loads, so it takes `_signal`: the enums of `signal` cost 3 ms in which a signal would
still kill.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C part of signal; type checkers have no stub for it

STOPPING = {_signal.SIGHUP: 129, _signal.SIGINT: 130, _signal.SIGTERM: 143}
"""Signal → exit code."""

_seen: list[int] = []
_ignored_hangup: bool = _signal.getsignal(_signal.SIGHUP) == _signal.SIG_IGN


def was_hangup_ignored() -> bool:
    """Whether this process was started with nohup. A SIGHUP that comes all the same still stops it."""
    return _ignored_hangup


def remember() -> list[int]:
    """From now on these signals are only written down. Returns the list that they come into.

    SIGUSR1, which interrupts running commands, is nothing before there are any; by default it would kill.
    """
    for number in STOPPING:
        _signal.signal(number, _remember)
    _signal.signal(_signal.SIGUSR1, _signal.SIG_IGN)
    return _seen


def hold_signals() -> None:
    """The last line is out and its exit code said: nothing changes it while the process takes itself apart."""
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (*STOPPING, _signal.SIGUSR1))


def _remember(number: int, _frame: object) -> None:
    _seen.append(number)
