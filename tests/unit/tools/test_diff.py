"""Unified diffs: readable by patch(1), and bounded."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from agentctl.tools.diff import MAX_DIFF_CHARS, unified_diff


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ("a\n", "a\n", ""),
        (None, "a\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"),
        (None, "", "--- /dev/null\n+++ b/f\n"),
        ("a\nb\n", None, "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"),
        ("a\n", "a", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"),
        ("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nX\n6\n", "--- a/f\n+++ b/f\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+X\n 6\n"),
        ("1\n2\n", "1\nnew\n2\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n 1\n+new\n 2\n"),
        ("x\ud800\n", "y\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\ufffd\n+y\n"),
    ],
)
def test_diffs(old: str | None, new: str | None, diff: str) -> None:
    assert unified_diff("f", old, new) == diff


def test_changes_far_apart_get_their_own_hunks() -> None:
    old = [f"{number}\n" for number in range(200)]
    new = list(old)
    new[10], new[190] = "X\n", "Y\n"
    assert [line for line in unified_diff("f", "".join(old), "".join(new)).split("\n") if line.startswith("@@")] == [
        "@@ -8,7 +8,7 @@",
        "@@ -188,7 +188,7 @@",
    ]


@pytest.mark.skipif(shutil.which("patch") is None and shutil.which("git") is None, reason="needs git")
def test_git_applies_them(tmp_path: Path) -> None:
    rng = random.Random(3)
    for number in range(40):
        old = [f"{rng.randint(0, 9)}\n" for _ in range(rng.randint(1, 150))]
        new = list(old)
        for _ in range(rng.randint(1, 5)):
            at = rng.randint(0, len(new))
            new[at : at + rng.randint(0, 3)] = [f"new {rng.random()}\n" for _ in range(rng.randint(0, 3))]
        before, after = "".join(old), "".join(new)
        if before == after or not after:
            continue
        (tmp_path / "f").write_text(before)
        diff = unified_diff("f", before, after)
        done = subprocess.run(
            ["git", "apply", "-"], input=diff.encode(), cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == 0, (number, done.stderr)
        assert (tmp_path / "f").read_text() == after


def test_they_are_cut_and_quick_whatever_changed() -> None:
    old = "".join(f"{number % 7}\n" for number in range(300_000))
    new = "".join(f"{number % 5}\n" for number in range(300_000))
    started = time.process_time()
    diff = unified_diff("f", old, new)
    assert time.process_time() - started < 3
    assert len(diff) < MAX_DIFF_CHARS + 50
    assert diff.endswith("\n... [diff cut]\n")
