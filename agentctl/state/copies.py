"""A second journal made of one: whole or not at all, so that a run killed in between leaves no half session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentctl.core.codec import dumps
from agentctl.core.errors import JournalError
from agentctl.core.files import make_private_dir, replace_file
from agentctl.core.record import map_strings
from agentctl.core.types import JsonObject
from agentctl.state.journal import read_session_log
from agentctl.state.tally import FORMAT

STAYS = frozenset({"header", "usage", "approval"})
"""Kinds that belong to one session alone: who it is, what it cost, what was approved in it."""


def fork_session(source: Path, target: Path, redact: Callable[[str], str], *, now: str, **facts: object) -> None:
    """Copies history, plan and views, and records that this version does not know. `facts` make the new header.

    Raises UsageError for a source that cannot be read, JournalError for a target that cannot be written.
    """
    kept = [row for _, row in read_session_log(source).rows if _goes_along(row)]
    header: JsonObject = {"record": "header", "time": now, "format": FORMAT, **facts}
    data = b"".join(dumps(map_strings(row, redact)) + b"\n" for row in (header, *kept))
    try:
        make_private_dir(target.parent)
        replace_file(target, data, mode=0o600)
    except OSError as error:
        raise JournalError(
            f"the journal {str(target)!r} cannot be written: {error}",
            hint="Free space there, or set AGENTCTL_HOME to a folder that can be written.",
        ) from error


def _goes_along(row: JsonObject) -> bool:
    return row["record"] not in STAYS and row.get("ended") != "suspended"  # a copy waits for nothing
