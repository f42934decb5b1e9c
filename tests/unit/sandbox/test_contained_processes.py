"""Behind walls, too, a command gets and ends as it would without: descriptors, signals, deadlines, daemons."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.core.types import CommandEnd
from tests.processes import alive, nap
from tests.unit.sandbox.sandbox_world import World

if sys.platform != "linux":
    pytest.skip("Landlock, seccomp and namespaces are Linux's", allow_module_level=True)

LEVELS = pytest.mark.parametrize("level", [2, 3])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    return World(tmp_path.resolve())


@LEVELS
@pytest.mark.parametrize(
    ("script", "end", "out"),
    [
        ("ls /proc/self/fd | tr '\\n' ' '", CommandEnd(exit_code=0), "0 1 2 3 "),
        ("readlink /proc/self/fd/0; cat", CommandEnd(exit_code=0), "/dev/null\n"),
        ("trap; grep SigIgn /proc/self/status", CommandEnd(exit_code=0), "SigIgn:\t0000000000000000\n"),
        ("(exec 3</dev/tty) 2>/dev/null; echo $?", CommandEnd(exit_code=0), "1\n"),
        ("grep NoNewPrivs /proc/self/status", CommandEnd(exit_code=0), "NoNewPrivs:\t1\n"),
        ("grep Seccomp: /proc/self/status", CommandEnd(exit_code=0), "Seccomp:\t2\n"),
        ("ulimit -c", CommandEnd(exit_code=0), "0\n"),
        ("exit 3", CommandEnd(exit_code=3), ""),
        ("kill -9 $$", CommandEnd(exit_code=None, signal=9), ""),
        ("echo out; no-such-program", CommandEnd(exit_code=127), "out\n"),
    ],
)  # fmt: skip
def test_what_a_command_is_given_and_how_it_ends(
    level: int, script: str, end: CommandEnd, out: str, world: World
) -> None:
    if "ulimit" in script:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    ran = world.run(level, script)
    assert (ran.end.replace(notes=()), ran.out) == (end, out)


@LEVELS
def test_a_daemon_ends_with_its_command(level: int, world: World) -> None:
    sleep = nap()
    ran = world.run(level, f"(setsid {sleep} >/dev/null 2>&1 &); nohup {sleep} >/dev/null 2>&1 & echo started")
    assert (ran.end.exit_code, ran.out) == (0, "started\n")
    assert not alive(sleep)


@LEVELS
def test_a_deadline_lets_a_command_clean_up(level: int, world: World) -> None:
    sleep = nap()
    started = time.monotonic()
    script = f"trap 'echo cleaned > cleaned; exit 5' TERM; echo begun; {sleep} & wait"
    ran = world.run(level, script, timeout_s=1)
    assert (ran.end.is_timed_out, ran.out) == (True, "begun\n")
    assert (world.root / "cleaned").exists()
    assert not alive(sleep)
    assert time.monotonic() - started < 8


@LEVELS
def test_a_deadline_holds_against_a_command_that_does_not_listen(level: int, world: World) -> None:
    sleep = nap()
    ran = world.run(level, f"trap '' TERM; {sleep} & {sleep}", timeout_s=0.5)
    assert ran.end.is_timed_out
    assert not alive(sleep)


@LEVELS
def test_a_missing_program_and_a_missing_folder_are_said(level: int, world: World) -> None:
    import shutil

    shutil.rmtree(world.home)
    ran = world.run(level, "cd ~ 2>/dev/null; echo $?")
    assert ran.out == "1\n"
    shutil.rmtree(world.root)
    with pytest.raises(OSError, match=r"not run|not be started"):
        world.run(level, "true")
