"""A cache of what lists say of the journals of one project. Nothing depends on it: it is made of them again.

One JSON object a line, `{"version", "id", "size", "modified_ns", …facts}`. A row counts while its journal has that size
and that time; a file that is torn, stale, missing or not ours costs only the time to read the journals.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agentctl.core.codec import dumps, loads
from agentctl.core.files import read_limited, replace_file
from agentctl.core.types import JsonObject

NAME = "index.cache"
VERSION = 1
"""Of the rows. Another one is read from the journals again."""
MAX_BYTES = 64_000_000


def read_index(folder: Path) -> dict[str, JsonObject]:
    """The rows by session id; empty when there is no index that can be used."""
    try:
        data = read_limited(folder / NAME, MAX_BYTES)
        rows = loads(b"[%b]" % data.rstrip(b"\n").replace(b"\n", b","))
        return {row["id"]: row for row in rows if row["version"] == VERSION}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write_index(folder: Path, rows: Mapping[str, JsonObject]) -> None:
    """Replaces the index. A folder that cannot be written goes without."""
    with suppress(OSError):
        replace_file(folder / NAME, b"".join(dumps(row) + b"\n" for row in rows.values()), mode=0o600, syncs=False)


def is_current(row: JsonObject | None, found: os.stat_result) -> bool:
    """Whether the row still says what the journal says."""
    return row is not None and row.get("size") == found.st_size and row.get("modified_ns") == found.st_mtime_ns


def index_row(facts: JsonObject, found: os.stat_result) -> JsonObject:
    """The row of a journal that was in this state before it was read."""
    return {"version": VERSION, "size": found.st_size, "modified_ns": found.st_mtime_ns, **facts}
