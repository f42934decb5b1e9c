"""The lines of a journal as rows, and what of them cannot be read. Nothing here knows what a row means."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentctl.core.codec import loads
from agentctl.core.files import open_regular, read_all
from agentctl.core.record import Record
from agentctl.core.types import JsonObject


class Damage(Record):
    """One line of a journal that is no record, by its number from 1."""

    line: int
    why: str


class Log(Record):
    """What stands in a journal file."""

    rows: tuple[tuple[int, JsonObject], ...]
    """Line number and row of each whole record."""
    damage: tuple[Damage, ...]
    torn_bytes: int
    """Of a last record without its newline: a killed run left it, and nothing was promised about it."""
    size: int
    modified_ns: int

    @property
    def is_blank(self) -> bool:
        """Nothing whole was ever written."""
        return not self.rows and not self.damage


def read_log(path: str | Path, *, limit: int | None = None) -> Log:
    """Every line of a journal, or of its first `limit` bytes. Raises OSError."""
    descriptor = open_regular(path)
    try:
        found = os.fstat(descriptor)
        data = read_all(descriptor, found.st_size if limit is None else min(limit, found.st_size))
    finally:
        os.close(descriptor)
    whole, newline, torn = data.rpartition(b"\n")
    rows, damage = _at_once(whole) or _line_by_line(whole if newline else b"")
    return Log(
        rows=tuple(rows),
        damage=tuple(damage),
        torn_bytes=len(torn),
        size=found.st_size,
        modified_ns=found.st_mtime_ns,
    )


def _at_once(whole: bytes) -> tuple[Iterable[tuple[int, JsonObject]], Sequence[Damage]] | None:
    """All lines as one JSON list, which is twice as fast; None when a line is damaged or blank."""
    try:
        rows = loads(b"[%b]" % whole.replace(b"\n", b","))
    except ValueError:
        return None
    if len(rows) != whole.count(b"\n") + 1 or not all(map(_is_record, rows)):
        return None
    return enumerate(rows, start=1), ()


def _line_by_line(whole: bytes) -> tuple[Iterable[tuple[int, JsonObject]], Sequence[Damage]]:
    rows: list[tuple[int, JsonObject]] = []
    damage: list[Damage] = []
    for number, line in enumerate(whole.split(b"\n"), start=1):
        if not line:
            continue
        try:
            row = loads(line)
        except ValueError:
            damage.append(Damage(line=number, why="it is not JSON"))
            continue
        if _is_record(row):
            rows.append((number, row))
        else:
            damage.append(Damage(line=number, why="it is not a record"))
    return rows, damage


def _is_record(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("record"), str)
