"""Hostile sizes end in a verdict, and slow patterns do not exist."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agentctl.policy.shfmt import ShfmtParser
from tests.unit.policy.policy_world import SHFMT, World

LINES = {
    "10,000 commands": "; ".join(["true"] * 10_000),
    "2,000 nested": "$(" * 2000 + ")" * 2000,
    "1,500 groups": "(" * 1500 + "x" + ")" * 1500,
    "60 nested": "echo " + "$(echo " * 60 + ")" * 60,
    "1 MiB": "x" * (1 << 20),
    "64 KiB of words": "true " + "a " * 32_000,
    "many files": "cat " + " ".join(f"f{at}" for at in range(4000)),
    "201 links": " && ".join(["true"] * 201),
    "long sum": "echo $((" + "+".join(["1"] * 2000) + "))",
    "shell in shell": "eval " * 30 + "true",
}


@pytest.mark.parametrize("name", LINES)
def test_size(name: str, tmp_path: Path) -> None:
    world = World(tmp_path, allow=["bash:echo *"], shell=ShfmtParser(str(SHFMT)))
    start = time.process_time()
    decision = world.bash(LINES[name])
    assert not decision.runs
    assert time.process_time() - start < 2


def test_many_words_are_no_fault(tmp_path: Path) -> None:
    world = World(tmp_path, allow=["bash:true *"], shell=ShfmtParser(str(SHFMT)))
    assert world.bash("true " + "a " * 2000).runs
    assert world.bash("; ".join(["true"] * 200)).runs
    assert world.bash("true " + "{a,b}" * 40).runs


def test_patterns_are_linear(tmp_path: Path) -> None:
    """Stars that would ruin a backtracking matcher."""
    command, path = "*a" * 40 + "b", "*a" * 40 + "b/" + "**/" * 10 + "x"
    world = World(tmp_path, deny=[f"bash:{command}", f"write_file:{path}"], allow=["bash:true *"])
    start = time.process_time()
    assert world.bash("true " + "a" * 60_000).runs
    assert world.bash("'" + "a" * 30_000 + "'").verdict == "unmatched"
    assert world.write("/".join(["a" * 200] * 15)).verdict == "unmatched"
    assert time.process_time() - start < 2
