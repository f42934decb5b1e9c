"""Speed of policies: a file of 200 rules, with and without examples. Run with `pytest -m bench`."""

from __future__ import annotations

import gc
import os
import statistics
import time
from pathlib import Path

import pytest

from agentctl.policy.loading import PolicySource, load_policy
from agentctl.policy.shfmt import ShfmtParser, find_shfmt
from tests.bench.measure import report, slowness

pytestmark = pytest.mark.bench
ROUNDS = 15
RULES = 200
BUDGET_MS = 20
PROGRAMS = ("git", "npm", "cargo", "docker", "kubectl", "terraform", "aws", "pip", "make", "dotnet", "helm", "php")


def rule(n: int, examples: str = "") -> str:
    """Half are about commands, the rest about paths and hosts. `examples` are two each: plain ones, or lines too."""
    program = PROGRAMS[n % len(PROGRAMS)]
    decision = "deny" if n % 3 else "allow"
    command, plain, other = f'command = ["{program} sub{n} *"]', f"{program} sub{n} a b{n}", f"{program} y{n}"
    is_line = examples == "lines" and decision == "deny"
    tool, condition, match, not_match = [
        ("bash", command, plain, other),
        ("@write", f'path = ["src{n}/**", "*.x{n}"]', f"src{n}/a/b.py", f"lib{n}/a.py"),
        ("bash", command, f"cd x && {plain} 'a b' | wc -l" if is_line else plain, other),
        (
            "@network",
            f'url = ["*.host{n}.example.org"]',
            f"https://a.host{n}.example.org/x",
            f"https://example.org/{n}",
        ),
    ][n % 4]
    said = f'match = ["{match}"]\nnot_match = ["{not_match}"]\n' if examples else ""
    return f'[[rule]]\nid = "r{n}"\ntool = "{tool}"\n{condition}\ndecision = "{decision}"\nreason = "r"\n{said}'


def load_ms(text: str, root: Path) -> float:
    """CPU of a load in this process, which has imported all of it, and of the parser that the load starts."""
    source = PolicySource(name="p.toml", text=text, is_trusted=True, kind="flag")
    found = []
    for _ in range(ROUNDS):
        gc.collect()  # the heap of the tests is not that of the command
        shfmt = find_shfmt(root)
        assert shfmt
        gc.disable()
        before, own = os.times(), time.process_time()
        load_policy([source], allow=[], deny=[], is_yolo=False, root=root, shell=ShfmtParser(shfmt))
        gc.enable()
        after = os.times()
        children = after.children_user + after.children_system - before.children_user - before.children_system
        found.append(time.process_time() - own + children)
    return statistics.median(found) * 1000


def test_two_hundred_rules(tmp_path: Path, env: dict[str, str], url: str, capsys: pytest.CaptureFixture[str]) -> None:
    rules, plain, lines = (
        load_ms("version = 1\n" + "".join(rule(n, examples) for n in range(RULES)), tmp_path)
        for examples in ("", "plain", "lines")
    )
    slow = slowness(url, tmp_path, env)
    report(capsys, rules_ms=rules, with_400_examples_ms=plain, with_shell_lines_ms=lines, slowness=slow)
    assert rules <= BUDGET_MS * slow
    assert plain <= 1.5 * BUDGET_MS * slow, "400 examples are run beside"
    assert lines <= 3 * BUDGET_MS * slow, "33 of the examples go through the parser, which is a process"
