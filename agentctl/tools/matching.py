"""Finding lines in files: plain text by bytes, a regular expression through the bounded matching of core/regex.py.

Both see the same text: lines without their ends, UTF-16 with a byte order mark as UTF-8.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Sequence

from agentctl.core.errors import ToolFailure
from agentctl.core.record import Record
from agentctl.core.regex import LineSearch, PatternError, PatternTimeout
from agentctl.tools.blocking import Stop
from agentctl.tools.textfile import is_binary

PATTERN_TIMEOUT_S = 2.0
"""For a batch in a child process, where an expression may take for ever."""
BATCH_BYTES = 4_000_000
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()\n]")


class Candidate(Record):
    """A file to search: its name and its text, made by `searchable`."""

    shown: str
    data: bytes


class Hit(Record):
    shown: str
    number: int
    line: bytes


def searchable(data: bytes) -> bytes | None:
    """Text with line feeds as the only line ends; None for a binary file."""
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        try:
            data = data.decode("utf-16").encode()
        except UnicodeError:
            return None
    elif is_binary(data):
        return None
    return data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


class Matcher:
    """One pattern for many files."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        """Raises ToolFailure for a pattern that is too long; other faults show in `find` and `check`."""
        is_plain = bool(pattern) and not ignore_case and not _SPECIAL.search(pattern)
        self._pattern = pattern
        self._plain = pattern.encode() if is_plain else None
        self._is_proven = is_plain
        try:
            self._search = LineSearch(pattern, ignore_case=ignore_case)
        except PatternError as error:
            raise _invalid(error) from None

    @property
    def batch_bytes(self) -> int:
        """How much text to hand over at once: where each search costs a process, files are joined."""
        return 0 if self._plain is not None or self._search.is_linear else BATCH_BYTES

    def check(self) -> None:
        """Raises ToolFailure when the pattern is no regular expression, also when there was nothing to search."""
        if not self._is_proven:
            self._lines(b"", 1, PATTERN_TIMEOUT_S)

    def find(self, batch: Sequence[Candidate], limit: int, stop: Stop) -> list[Hit]:
        """Matching lines in order, at most `limit`. Raises ToolFailure for a bad pattern or one that takes too long."""
        owners = [candidate for candidate in batch if candidate.data]
        starts, line = [], 1
        pieces = []
        for candidate in owners:
            starts.append(line)
            pieces.append(candidate.data if candidate.data.endswith(b"\n") else candidate.data + b"\n")
            if len(owners) > 1:
                line += pieces[-1].count(b"\n")
        if not pieces:
            return []
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._plain is not None:
            found = _plain_lines(data, self._plain, limit)
        else:
            found = self._lines(data, limit, stop.left_s if self._search.is_linear else PATTERN_TIMEOUT_S)
        hits = []
        for number, text in found:
            at = bisect_right(starts, number) - 1
            hits.append(Hit(shown=owners[at].shown, number=number - starts[at] + 1, line=text))
        return hits

    def _lines(self, data: bytes, limit: int, timeout_s: float) -> list[tuple[int, bytes]]:
        try:
            found = self._search.lines(data, limit=limit, timeout_s=timeout_s)
        except PatternTimeout:
            raise ToolFailure(
                f"The pattern {self._pattern[:80]!r} takes too long. Use a simpler one, without repeats inside repeats."
            ) from None
        except PatternError as error:
            raise _invalid(error) from None
        self._is_proven = True
        return found


def _invalid(error: PatternError) -> ToolFailure:
    return ToolFailure(f"Invalid regex: {error}. Escape characters that are meant literally.")


def _plain_lines(data: bytes, needle: bytes, limit: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    at, number = 0, 1
    while len(found) < limit and (hit := data.find(needle, at)) >= 0:
        number += data.count(b"\n", at, hit)
        end = data.index(b"\n", hit)
        found.append((number, data[data.rfind(b"\n", 0, hit) + 1 : end]))
        at, number = end + 1, number + 1
    return found
