"""Bounded matching: a pattern that a model wrote never runs without an end.

RE2 (extra `[re2]`) matches in linear time. Without it, and for what RE2 refuses (look-around, back references),
Python's `re` runs in a child process that is killed at the deadline.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

MAX_PATTERN = 10_000
"""Characters of a pattern; a longer one is a mistake."""
_LINES_PER_CHECK = 5000
_RE2_MEMORY = 64 * 1024 * 1024

_CHILD = """
import re, sys
source = sys.stdin.buffer
head = source.readline().split()
flags, limit, size = int(head[0]), int(head[1]), int(head[2])
try:
    search = re.compile(source.read(size).decode(), flags).search
except (re.error, RecursionError, OverflowError) as error:
    print("E", error)
    sys.exit()
found = 0
for number, line in enumerate(source, 1):
    if search(line.rstrip(b"\\n").decode("utf-8", "replace")):
        print(number)
        found += 1
        if found >= limit:
            break
"""


class PatternError(Exception):
    """The pattern is not a regular expression. The message says where and what."""


class PatternTimeout(Exception):
    """Matching took longer than it may; the pattern or the text is at fault, and nothing was found out."""


def search_lines(
    pattern: str, data: bytes, *, ignore_case: bool = False, limit: int = 1_000_000, timeout_s: float = 5.0
) -> list[tuple[int, bytes]]:
    """The first `limit` lines in which the pattern matches somewhere: number from 1, and bytes without the newline.

    `^` and `$` are the ends of a line. Raises PatternError and PatternTimeout.
    """
    return LineSearch(pattern, ignore_case=ignore_case).lines(data, limit=limit, timeout_s=timeout_s)


def check_pattern(pattern: str) -> None:
    """Raises PatternError for what `search_lines` would refuse, without matching anything."""
    search_lines(pattern, b"", timeout_s=5.0)


class LineSearch:
    """A pattern for many texts. With RE2 it is compiled once; otherwise each text costs a child process (20 ms)."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Raises PatternError for a pattern that is too long; other faults show at the first use."""
        if len(pattern) > MAX_PATTERN:
            raise PatternError(f"the pattern has {len(pattern):,} characters; {MAX_PATTERN:,} are allowed")
        self._pattern = pattern
        self._ignore_case = ignore_case
        self._linear, self._multiline = _compile_linear(pattern, ignore_case)

    @property
    def is_linear(self) -> bool:
        """Whether matching takes time in proportion to the text, in this process."""
        return self._linear is not None

    def lines(self, data: bytes, *, limit: int = 1_000_000, timeout_s: float = 5.0) -> list[tuple[int, bytes]]:
        """As `search_lines`."""
        if self._linear is None:
            return self._lines_in_child(data, limit, timeout_s)
        return list(self._lines_here(data, limit, timeout_s))

    def _lines_here(self, data: bytes, limit: int, timeout_s: float) -> Iterator[tuple[int, bytes]]:
        """Jumps from candidate to candidate: a line that matches by itself holds the start of a match in the whole."""
        deadline = time.monotonic() + timeout_s
        number, at = 1, 0
        for steps in count(1):
            candidate = self._jump(data, at)
            if candidate < 0 or limit <= 0:
                return
            start = data.rfind(b"\n", at, candidate) + 1 or at
            end = data.find(b"\n", start)
            line = data[start:] if end < 0 else data[start:end]
            number += data.count(b"\n", at, start)
            if self._linear.search(line):
                yield number, line
                limit -= 1
            if end < 0 or end + 1 == len(data):
                return
            number, at = number + 1, end + 1
            if steps % _LINES_PER_CHECK == 0 and time.monotonic() > deadline:
                raise PatternTimeout(f"searching took longer than {timeout_s:g} s")

    def _jump(self, data: bytes, at: int) -> int:
        """Where the next line worth looking at has a match; -1 when there is none."""
        if self._multiline is None:
            return at if at < len(data) else -1
        match = self._multiline.search(data, at)
        if match is None or (match.start() == len(data) and (not data or data.endswith(b"\n"))):
            return -1  # behind the last newline there is no line
        return int(match.start())

    def _lines_in_child(self, data: bytes, limit: int, timeout_s: float) -> list[tuple[int, bytes]]:
        import re

        from agentctl.core.spawn import run

        pattern = self._pattern.encode("utf-8", "replace")
        flags = re.IGNORECASE if self._ignore_case else 0
        head = f"{int(flags)} {limit} {len(pattern)}\n".encode()
        argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _CHILD]
        ended = run(argv, stdin=head + pattern + data, timeout_s=timeout_s)
        if ended.is_timed_out or ended.is_truncated:
            raise PatternTimeout(f"the pattern {_short(self._pattern)} took longer than {timeout_s:g} s")
        said = ended.stdout.decode("utf-8", "replace")
        if said.startswith("E"):
            raise PatternError(f"the pattern {_short(self._pattern)} is not a regular expression: {said[2:].strip()}")
        if ended.exit_code != 0:
            raise PatternError(f"the pattern {_short(self._pattern)} could not be run: {ended.stderr[-200:]!r}")
        lines = _split(data)
        return [(int(number), lines[int(number) - 1]) for number in said.split()]


def _compile_linear(pattern: str, ignore_case: bool) -> tuple[Any, Any]:
    """RE2 for one line and for a whole text, both over bytes; None where RE2 is missing or refuses the pattern.

    The second is None as well when the ends of the text (`\\A`, `\\z`) cannot be told from the ends of a line.
    """
    try:
        import re2  # type: ignore[import-untyped, unused-ignore]  # optional, and without types
    except ImportError:
        return None, None
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    options.max_mem = _RE2_MEMORY
    encoded = pattern.encode("utf-8", "replace")
    try:
        one_line = re2.compile(encoded, options)
        knows_ends = b"\\A" in encoded or b"\\z" in encoded
        return one_line, None if knows_ends else re2.compile(b"(?m:" + encoded + b")", options)
    except re2.error:
        return None, None


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else pattern[:77] + "...")
