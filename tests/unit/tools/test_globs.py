"""File patterns: what matches, where the search starts, and that no pattern takes long."""

from __future__ import annotations

import time

import pytest

from agentctl.core.errors import ToolFailure
from agentctl.tools.globs import GlobPattern, expand_braces


@pytest.mark.parametrize(
    ("pattern", "base", "matching", "other"),
    [
        ("*.py", "", ["a.py", ".py"], ["a.pyc", "d/a.py"]),
        ("**/*.py", "", ["a.py", "d/a.py", "d/e/a.py"], ["a.pyc"]),
        ("**", "", ["a", "d/e"], []),
        ("**/*", "", ["a", "d/e", ".hidden"], []),
        ("src/**/*.py", "src", ["a.py", "d/e/a.py"], ["a"]),
        ("src/**", "src", ["a", "d/e"], []),
        ("./src/a.py", "src", ["a.py"], ["b.py", "d/a.py"]),
        ("a/b*/**/c?.[ch]", "a", ["b/c1.h", "bx/d/e/c2.c"], ["b/c12.c", "c/c1.h", "b/c1.x"]),
        ("**/a/**/b", "", ["a/b", "x/a/y/z/b", "a/a/b"], ["b", "a/c"]),
        ("*.{py,md}", "", ["a.py", "b.md"], ["a.{py,md}", "a.txt"]),
        ("src/{a,b/c}/*.x", "src", ["a/1.x", "b/c/2.x"], ["b/1.x"]),
        ("{a,b}/x", "", ["a/x", "b/x"], ["c/x"]),
        ("x{1}y", "", ["x{1}y"], ["x1y"]),
        ("[!a-c]*", "", ["d", "zz"], ["a", "bb"]),
        ("[^a]x", "", ["bx"], ["ax"]),
        ("[]a]x", "", ["]x", "ax"], ["bx"]),
        ("[a", "", ["[a"], ["a"]),
        ("\\*x", "", ["*x"], ["ax"]),
        ("a.b", "", ["a.b"], ["axb"]),
        ("*a*b*", "", ["ab", "xxaxxbxx"], ["ba", "b"]),
        ("dir/", "", ["dir"], ["dir/x"]),
        ("/abs/x/*.py", "/abs/x", ["a.py"], ["b/a.py"]),
        ("../up/*.py", "../up", ["a.py"], []),
    ],
)
def test_patterns(pattern: str, base: str, matching: list[str], other: list[str]) -> None:
    made = GlobPattern(pattern)
    assert made.base == base
    assert [path for path in matching + other if made.matches(path)] == matching


def test_braces() -> None:
    assert expand_braces("a{b,c{d,e}}f{g,h}") == ["abfg", "abfh", "acdfg", "acdfh", "abfg", "abfh", "acefg", "acefh"]
    assert expand_braces("a{,b}") == ["a", "ab"]
    assert expand_braces("a\\{b,c}") == ["a\\{b,c}"]


@pytest.mark.parametrize(
    ("pattern", "error"), [("", "no file pattern"), ("/", "no file"), ("{a,b}" * 7, "more than 64")]
)
def test_patterns_that_are_refused(pattern: str, error: str) -> None:
    with pytest.raises(ToolFailure, match=error):
        GlobPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 60 + "*b", "a" * 255),
        ("**/a/" * 60 + "b", "a/" * 1000 + "c"),
        ("**/*a*a*a*a*a*a*b", "/".join(["a" * 255] * 15)),
        ("?" * 200 + "*" * 50, "a" * 199),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    started = time.process_time()
    assert not GlobPattern(pattern).matches(path)
    assert time.process_time() - started < 1
