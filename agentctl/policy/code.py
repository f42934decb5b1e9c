"""What a command can carry: text that another program will run."""

from __future__ import annotations

from agentctl.core.record import Record


class Code(Record):
    """Text that another program will run. `is_interpreter`: an allow rule naming the program lifts it."""

    what: str
    is_interpreter: bool = False
    is_from_input: bool = False
    """It is read from standard input, so whatever feeds the pipe is run."""
