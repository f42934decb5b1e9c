"""Lines that match, through RE2 and through the child process: the same answers, and never without an end."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core.regex import LineSearch, PatternError, PatternTimeout, check_pattern, search_lines

BACKTRACKING = "(?!x)"
"""RE2 refuses look-around, so a pattern with it goes to the child process."""

DATA = b"foo\nbar\r\nba\xff z\nFOOT\n\nend"

ROWS: list[tuple[str, bytes, bool, list[tuple[int, bytes]]]] = [
    ("foo", DATA, False, [(1, b"foo")]),
    ("foo", DATA, True, [(1, b"foo"), (4, b"FOOT")]),
    ("^ba", DATA, False, [(2, b"bar\r"), (3, b"ba\xff z")]),
    ("^$", DATA, False, [(5, b"")]),
    ("d$", DATA, False, [(6, b"end")]),
    ("$", b"a\nb", False, [(1, b"a"), (2, b"b")]),
    ("$", b"a\nb\n", False, [(1, b"a"), (2, b"b")]),
    ("", b"", False, []),
    ("x*", b"\n", False, [(1, b"")]),
    ("o\\nb", DATA, False, []),
    ("[^q]r", b"a\nr\nar", False, [(3, b"ar")]),
    ("\\br", b"a\nr\nar", False, [(2, b"r")]),
    ("\\Aend", DATA, False, [(6, b"end")]),
    ("ä.$", "äö\nxäö\nö".encode(), False, [(1, "äö".encode()), (2, "xäö".encode())]),
]


@pytest.mark.parametrize("prefix", ["", BACKTRACKING], ids=["linear", "child"])
@pytest.mark.parametrize(("pattern", "data", "ignore_case", "expected"), ROWS)
def test_rows(prefix: str, pattern: str, data: bytes, ignore_case: bool, expected: list[tuple[int, bytes]]) -> None:
    assert search_lines(prefix + pattern, data, ignore_case=ignore_case) == expected


def test_both_ways_are_really_taken() -> None:
    assert LineSearch("foo").is_linear
    assert not LineSearch("foo(?!x)").is_linear


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["a", "a+$", "^b", "[^c]b", "\\bc", "^$", "a|bc$", "\\s", "b\\b", "(?s).b", "$"]),
    st.text("abc \n", max_size=30),
)
def test_jumping_finds_what_line_by_line_finds(pattern: str, text: str) -> None:
    search = LineSearch(pattern)
    data = text.encode()
    jumped = search.lines(data)
    search._multiline = None  # the slow way, that cannot skip a line
    assert jumped == search.lines(data)


@pytest.mark.parametrize("prefix", ["", BACKTRACKING], ids=["linear", "child"])
def test_the_limit(prefix: str) -> None:
    assert search_lines(prefix + "a", b"a\n" * 100, limit=2) == [(1, b"a"), (2, b"a")]


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[z-a]", "(?!x)(", "*"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(PatternError, match="is not a regular expression"):
        check_pattern(pattern)


def test_a_pattern_can_be_too_long() -> None:
    with pytest.raises(PatternError, match="10,001 characters"):
        check_pattern("a" * 10_001)


def test_catastrophic_backtracking_ends() -> None:
    started = time.monotonic()
    with pytest.raises(PatternTimeout, match="longer than"):
        search_lines(r"(?=a)(a+)+$", b"a" * 40 + b"!", timeout_s=0.5)
    assert time.monotonic() - started < 4


def test_the_same_pattern_is_harmless_in_linear_time() -> None:
    assert search_lines(r"(a+)+$", b"a" * 100_000 + b"!") == []
