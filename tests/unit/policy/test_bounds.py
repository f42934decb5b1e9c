"""Hostile sizes end in a verdict, and slow patterns do not exist."""

from __future__ import annotations

import os
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
    "dynamic words": "git " + "$x " * 20_000,
    "quoted commands": "; ".join(["'true'"] * 5000),
    "functions": "; ".join(f"f{at}() {{ f{at + 1} | f{at}; }}" for at in range(199)),
    "values": "; ".join(f"a{at}=x{at}" for at in range(60)) + "; git " + " ".join(f"$a{at}" for at in range(60)),
    "loops": "for a in 1 2; do cd x; " * 40 + "touch y" + "; done" * 40,
    "folders": "; ".join(f"cd d{at}" for at in range(100)) + "; touch x",
    "evals": "eval 'eval \"eval x\"'; " * 60,
    "patterns": "cat " + "* " * 3000,
    "substitutions": "$(true)" * 190,
    "letters": "tar -" + "v" * 60_000,
    "old letters": "tar " + "f" * 60_000,
    "colons": "git show " + "a:" * 30_000,
    "pathspecs": "git diff -- " + "a:b:c " * 3000,
    "two readings": "base64 " + " ".join(f"f{at}" for at in range(4000)),
    "comments": "psql -c '" + "/*" * 16_000 + "*/" * 16_000 + "'",
    "runner": "npx " + "a " * 500,
    "shells behind runners": "; ".join(["npx " + "sh -c x " * 20] * 60),
    "texts behind runners": "for i in "
    + " ".join(f"x={at}" for at in range(60))
    + "; do "
    + "; ".join(f'npx -c "$i#{at}"' for at in range(190))
    + "; done",
    "wrappers behind runners": "npx " + "npx env " * 30,
    "unknown words behind runners": "; ".join(["npx " + "sh $a " * 30] * 180),
    "words of another machine": "; ".join(["ssh h '" + "a " * 390 + "'"] * 80),
    "values of another machine": "a=1; " + "; ".join(['ssh h "$a $b ' + "a " * 50 + '" $a $a'] * 190),
    "values that become arrays": "; ".join(f"declare a{at}='(x)' b{at}=$a{at}" for at in range(199)),
    "open braces": "cat " + "{" * 60_000,
    "braces": "cat " + "{a,b}" * 12_000,
    "braces in braces": "cat " + "{a," * 20_000 + "}" * 4000,
    "digits": "'" + "1" * 60_000 + "x' y",
    "dots": "'" + "." * 60_000 + "x' y",
    "an awk program": "awk '" + "{print}" * 8500 + "' a.txt",
    "prints": "awk '" + "print " * 10_000 + "' a.txt",
    "copies": "psql -c '" + "copy " * 12_000 + "'",
    "empty lines": "mysql -e '" + "\n" * 30_000 + "'",
    "a deep path": "a='" + "a/" * 30_000 + "'; cat $a",
    "a long name": "read -" + "a" * 60_000,
}
SECONDS = 2


@pytest.mark.parametrize("name", LINES)
def test_size(name: str, tmp_path: Path) -> None:
    """The time of this process and of shfmt, so that a busy machine does not count."""
    (tmp_path / "a.txt").write_text("x")
    world = World(tmp_path, allow=["bash:echo *"], shell=ShfmtParser(str(SHFMT)))
    start = used()
    decision = world.bash(LINES[name])
    assert not decision.runs
    assert used() - start < SECONDS


def used() -> float:
    """Seconds of processor time, children that have ended too."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def test_huge_lines_never_reach_the_parser(tmp_path: Path) -> None:
    """Sizes are looked at first: these end before any program is started."""
    world = World(tmp_path, allow=["bash:true *"], shell=ShfmtParser(str(tmp_path / "no-such-program")))
    for name in ("10,000 commands", "1 MiB", "64 KiB of words", "long sum", "dynamic words"):
        start = used()
        reason = world.bash(LINES[name]).reason
        assert "smaller pieces" in reason or "into a file" in reason, (name, reason)
        assert used() - start < 0.2


def test_long_documents_are_fine(tmp_path: Path) -> None:
    """Text that is not code may be long: a file that is written, a commit message."""
    text = "\n".join(f"line {at}; with & and | in it" for at in range(1500))
    world = World(tmp_path, allow=["bash:cat *", "bash:git commit *"], shell=ShfmtParser(str(SHFMT)))
    assert world.bash(f"cat > notes.txt <<'EOF'\n{text}\nEOF").runs
    assert world.bash(f"git commit -m '{text}'").runs


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
