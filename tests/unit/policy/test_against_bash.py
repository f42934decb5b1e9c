"""The judgement of shell lines against a real bash: a line that may run never runs a denied program.

Thousands of generated lines are judged and run, in a sandbox, where the denied program is a stub that leaves a mark.
The stub has to run in many of them, or the sandbox would be broken. The lines are the same in every run;
`AGENTCTL_FUZZ_SEED=random` looks for new ones, a number repeats a run, `AGENTCTL_FUZZ_SECONDS` makes it longer. A
machine with Linux but without bubblewrap fails here: nothing is skipped.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import pytest

from agentctl.core.types import Decision
from agentctl.policy.shfmt import ShfmtParser
from tests.unit.policy.policy_world import SHFMT, World
from tests.unit.policy.shell_generator import ShellGenerator
from tests.unit.policy.shell_oracle import Oracle
from tests.unit.policy.shell_oracle_driver import make_files

if not sys.platform.startswith("linux"):
    pytest.skip("bubblewrap needs the namespaces of Linux", allow_module_level=True)

GIVEN = os.environ.get("AGENTCTL_FUZZ_SEED", "")
SEED = random.randrange(1 << 30) if GIVEN == "random" else int(GIVEN or 20261130)
SHARES = 16
LINES = 140
"""Lines of each share; all shares together are the run."""
SECONDS = float(os.environ.get("AGENTCTL_FUZZ_SECONDS") or 0) / SHARES
ALLOWED = (
    ":", "[", "awk", "break", "builtin", "cat", "cd", "command", "declare", "echo", "env", "eval", "exec", "exit",
    "export", "false", "find", "getopts", "git", "grep", "hash", "kill", "let", "local", "ls", "mapfile", "printf",
    "read", "readarray", "readonly", "return", "sed", "set", "shopt", "sort", "tac", "tar", "tee", "test", "time",
    "trap", "true", "type", "typeset", "unset", "wait", "wc", "xargs",
)  # fmt: skip
"""Programs of the strict policy: none that a rule would make an allowed interpreter."""


class Run:
    """One share of the run: lines are made, judged by two policies, then run."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._generator = ShellGenerator(seed)
        self._oracle = Oracle(folder)
        root = folder / "root"
        make_files(root)
        shell = ShfmtParser(str(SHFMT))
        allow = [f"bash:{name} *" for name in ALLOWED]
        deny = ["bash:canary *"]
        self._strict = World(root, allow=allow, deny=deny, shell=shell)
        self._open = World(root, deny=deny, is_yolo=True, shell=shell)
        self.judged = self.passed = self.marked = 0
        self.bypasses: list[str] = []

    def batch(self, count: int) -> None:
        lines = list(dict.fromkeys(self._generator.line() for _ in range(count)))
        may_run = [self._may_run(line) for line in lines]
        for line, passes, seen in zip(lines, may_run, self._oracle.see(lines), strict=True):
            self.judged += 1
            self.passed += passes
            self.marked += seen.ran
            if passes and seen.ran:
                self.bypasses.append(line)

    def _may_run(self, line: str) -> bool:
        """Under a list of harmless programs, or with everything allowed but what cannot be followed."""
        return self._strict.bash(line).runs or follows(self._open.bash(line))


def follows(decision: Decision) -> bool:
    """Whether it runs and all of it was judged: --yolo lets code through that nobody can follow, and says so."""
    rules = {decision.rule, *(item.rule for item in decision.losing)}
    return decision.runs and "opaque:code" not in rules


@pytest.mark.parametrize("share", range(SHARES))
def test_no_line_runs_what_is_denied(share: int, tmp_path: Path) -> None:
    run = Run(tmp_path, SEED + share)
    end = time.monotonic() + SECONDS
    run.batch(LINES)
    while time.monotonic() < end:
        run.batch(LINES)
    counts = f"seed {SEED}: {run.judged} lines, {run.passed} may run, {run.marked} ran the stub"
    sys.stdout.write(f"{counts}\n")
    assert not run.bypasses, f"{counts}, {len(run.bypasses)} bypasses: {run.bypasses}"
    assert run.marked > run.judged * 0.2, counts
    assert run.passed > run.judged * 0.05, counts


def test_the_oracle_sees_the_stub(tmp_path: Path) -> None:
    """The control: what the sandbox reports, and that it ends what does not end."""
    expected = {
        "canary x": True,
        "can''ary": True,
        "/usr/bin/canary": True,
        "echo x | xargs -n1 canary": True,
        "(canary) &": True,
        "sed '1e canary' a.txt": True,
        "awk 'BEGIN{system(\"canary\")}'": True,
        "git -c alias.x='!canary' x": True,
        "bash <<< canary": True,
        "touch /usr/x /etc/x /x || canary": True,
        "echo canary": False,
        "cat <<'X'\n$(canary)\nX": False,
        "while true; do :; done; canary": False,
        "cat < /dev/tcp/127.0.0.1/22 && canary": False,
        "sleep 60; canary": False,
    }
    seen = Oracle(tmp_path).see(list(expected))
    assert {line: item.ran for line, item in zip(expected, seen, strict=True)} == expected
    killed = {line for line, item in zip(expected, seen, strict=True) if item.was_killed}
    loop = {"while true; do :; done; canary"}  # its limit is CPU time, which a busy machine gives out slowly
    assert killed - loop == {"sleep 60; canary"}


def test_the_same_seed_makes_the_same_lines() -> None:
    first, second = ShellGenerator(7), ShellGenerator(7)
    lines = [first.line() for _ in range(200)]
    assert lines == [second.line() for _ in range(200)]
    assert len(set(lines)) > 150
