"""What `init` says about containment is what holds: each layer that is broken takes the level down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import asyncio, json, os, resource, sys
from agentctl.core import prctl
from agentctl.sandbox import levels
from agentctl.sandbox.process import ProcessRunner

async def main():
    failed = levels.harden_self()
    exec(sys.argv[2])
    runner = ProcessRunner({"PATH": sys.argv[1]})
    could = await levels.probe(runner)
    await runner.close()
    print(json.dumps({"failed": failed, "could": could, "report": levels.report(failed)}))

asyncio.run(main())
"""


IS_ROOT = os.geteuid() == 0
NOBODY = 65534


def holds(breaking: str = "", *, python: str = sys.executable, user: int | None = None) -> Any:
    """What a hardened process reports after `breaking` was done to it."""
    argv = [python, "-B", "-c", PROGRAM, os.environ["PATH"], breaking]
    env = {"SECRET_KEY": "x"}
    done = subprocess.run(argv, capture_output=True, cwd=ROOT, timeout=30, env=env, user=user, check=True)
    return json.loads(done.stdout)


def test_a_hardened_process_is_at_level_1() -> None:
    assert holds() == {
        "failed": [],
        "could": [],
        "report": {
            "wanted": "auto",
            "level": 1,
            "network": "on",
            "missing": [
                "files: commands can write wherever this user can",
                "network: commands reach what this machine reaches",
            ],
            "fix": "Run agentctl in a container or as a user of its own when prompt or workspace are not trusted.",
        },
    }


@pytest.mark.parametrize(
    ("breaking", "layer"),
    [
        ("prctl.prctl(prctl.SET_DUMPABLE, 1)", "dumpable"),
        ("failed.append('subreaper: the kernel does not hand orphans to this process')", "subreaper"),
    ],
)
def test_a_broken_layer_takes_the_level_down(breaking: str, layer: str) -> None:
    report = holds(breaking)["report"]
    assert report["level"] == 0
    assert [line.partition(":")[0] for line in report["missing"]] == [layer, "files", "network"]


def test_a_process_that_was_not_hardened_says_so() -> None:
    code = """
import json, resource
from agentctl.sandbox import levels
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard and 1, hard))
print(json.dumps([hard != 0, levels.report()]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, timeout=30, check=True)
    may_dump, report = json.loads(done.stdout)
    named = [line.partition(":")[0] for line in report["missing"]]
    assert (report["level"], named) == (0, [*(["core"] if may_dump else []), "dumpable", "files", "network"])


@pytest.mark.skipif(not IS_ROOT, reason="only root has capabilities to lose")
def test_root_without_the_right_to_drop_capabilities_says_so() -> None:
    drops = (
        "import ctypes; [ctypes.CDLL(None).prctl(24, n, 0, 0, 0) for n in (8,)]"  # CAP_SETPCAP out of the bounding set
    )
    code = f"{drops}; import os, sys; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    argv = [sys.executable, "-c", code, "-c", PROGRAM, os.environ["PATH"], ""]
    said = json.loads(subprocess.run(argv, capture_output=True, cwd=ROOT, timeout=30, check=True).stdout)
    assert said["report"]["level"] == 0
    kept = "capabilities: commands keep CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF"
    assert kept in said["report"]["missing"]
    assert kept in said["could"]


def readable_python() -> str | None:
    """A Python that another user can run with this project."""
    check = "import sys, agentctl.sandbox.levels; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-B", "-c", check], cwd=ROOT, user=NOBODY, timeout=30).returncode == 0:
                return python
        except PermissionError:
            continue
    return None


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become somebody else")
def test_an_ordinary_user_has_the_same_level() -> None:
    python = readable_python()
    if python is None:
        pytest.skip("no Python here can be run by another user")
    said = holds(python=python, user=NOBODY)
    assert (said["failed"], said["could"], said["report"]["level"]) == ([], [], 1)
    broken = holds("prctl.prctl(prctl.SET_DUMPABLE, 1)", python=python, user=NOBODY)
    assert broken["could"] == ["dumpable: a command reads the environment of agentctl"]


def test_the_probe_sees_a_command_that_is_not_contained() -> None:
    code = """
import asyncio, os, subprocess
from agentctl.core.types import CommandEnd
from agentctl.sandbox import levels

class Bare:
    async def run(self, command, sink):
        sink("stdout", subprocess.run(command.argv, capture_output=True).stdout)
        return CommandEnd(exit_code=0)

print(*asyncio.run(levels.probe(Bare())), sep="\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, timeout=30, stdin=subprocess.PIPE, check=True
    )
    layers = {line.partition(":")[0] for line in done.stdout.decode().splitlines()}
    assert {"stdin", "session", "dumpable"} <= layers


def test_inherited_descriptors_are_closed_for_children() -> None:
    read, write = os.pipe()
    code = (
        "import os, sys; from agentctl.sandbox.levels import harden_self; "
        "harden_self(); print(os.get_inheritable(int(sys.argv[1])))"
    )
    argv = [sys.executable, "-c", code, str(write)]
    done = subprocess.run(argv, capture_output=True, cwd=ROOT, timeout=30, pass_fds=[write], check=True)
    os.close(read)
    os.close(write)
    assert done.stdout == b"False\n"
