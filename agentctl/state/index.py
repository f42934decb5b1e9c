"""A cache of what lists say of the journals of one project. Nothing depends on it: it is made of them again.

One JSON array a line: version, id, size and time of the journal, and SessionFacts as the list shows it. A row counts
while its journal has that size and that time; a file that is torn, stale, missing or not ours costs only the time to
read the journals.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from agentctl.core.codec import dumps, loads
from agentctl.core.files import read_limited, replace_file
from agentctl.core.record import as_dict
from agentctl.state.tally import SessionFacts

NAME = "index.cache"
VERSION = 3
"""Of the rows. Another one is read from the journals again."""
MAX_BYTES = 64_000_000

Row: TypeAlias = list[Any]
_LENGTH = 5


def read_index(folder: Path) -> dict[str, Row]:
    """The rows by session id; empty when there is no index that can be used."""
    try:
        data = read_limited(folder / NAME, MAX_BYTES)
        rows = loads(b"[%b]" % data.rstrip(b"\n").replace(b"\n", b","))
        count = len(SessionFacts.fields)
        return {row[1]: row for row in rows if row[0] == VERSION and len(row) == _LENGTH and len(row[-1]) == count}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def write_index(folder: Path, rows: Iterable[Row]) -> None:
    """Replaces the index. A folder that cannot be written goes without."""
    with suppress(OSError):
        replace_file(folder / NAME, b"".join(dumps(row) + b"\n" for row in rows), mode=0o600, syncs=False)


def index_row(facts: SessionFacts, session_id: str, size: int, modified_ns: int) -> Row:
    """The row of a journal that had this size and time before it was read."""
    return [VERSION, session_id, size, modified_ns, as_dict(facts)]
