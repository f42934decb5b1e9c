"""Helpers of agentctl as real programs: bounded in time, output and environment."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from agentctl.core.spawn import Finished, ProgramMissing, find_program, run, small_environment
from tests.processes import alive, nap, wait_until


def test_output_and_exit_code() -> None:
    ended = run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=5)
    assert ended == Finished(exit_code=3, stdout=b"out\n", stderr=b"err\n")


def test_stdin_larger_than_a_pipe_comes_back() -> None:
    data = bytes(range(256)) * 8000
    assert run(["cat"], stdin=data, timeout_s=5).stdout == data


def test_stdin_is_empty_by_default() -> None:
    assert run(["cat"], timeout_s=5) == Finished(exit_code=0, stdout=b"", stderr=b"")


def test_a_program_that_does_not_read_its_stdin() -> None:
    assert run(["true"], stdin=b"x" * 1_000_000, timeout_s=5).exit_code == 0


def test_the_deadline_kills_the_whole_group() -> None:
    sleep = nap()
    started = time.monotonic()
    ended = run(["sh", "-c", f"echo begun; {sleep} & {sleep}"], timeout_s=1)
    assert ended == Finished(exit_code=-9, stdout=b"begun\n", stderr=b"", is_timed_out=True)
    assert time.monotonic() - started < 6
    assert wait_until(lambda: not alive(sleep))


def test_too_much_output_ends_the_program() -> None:
    ended = run(["yes"], timeout_s=5, max_output=100_000)
    assert (ended.exit_code, ended.is_truncated, ended.is_timed_out) == (-9, True, False)
    assert ended.stdout == b"y\n" * 50_000


def test_pipes_held_open_are_not_waited_on() -> None:
    started = time.monotonic()
    ended = run(["sh", "-c", "sleep 60 & echo done"], timeout_s=20)
    assert ended == Finished(exit_code=0, stdout=b"done\n", stderr=b"")
    assert time.monotonic() - started < 6


@pytest.mark.parametrize("name", ["no-such-program", "./no-such-program", "/no/such/program"])
def test_a_missing_program_is_named(name: str) -> None:
    with pytest.raises(ProgramMissing, match="was not found") as caught:
        run([name], timeout_s=1)
    assert caught.value.program == name


def test_the_environment_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    said = run(["env"], timeout_s=5).stdout.decode()
    assert dict(line.split("=", 1) for line in said.splitlines()) == small_environment()
    assert "ghp_secret" not in said


def test_inherited_descriptors_stay_out() -> None:
    with open(os.devnull) as extra:
        listing = run(["sh", "-c", f"test -e /dev/fd/{extra.fileno()} || echo absent"], timeout_s=5)
    assert listing.stdout == b"absent\n"


def test_relative_entries_of_path_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert find_program("tool", ".:") is None
    assert find_program("tool", f".:{tmp_path}") == str(program)
    assert find_program("./tool", "", str(tmp_path)) == f"{tmp_path}/./tool"
    assert find_program(tmp_path.name, str(tmp_path.parent)) is None  # a folder


def test_the_module_loads_nothing_heavy() -> None:
    code = "import sys, agentctl.core.spawn; print(*{'subprocess', 'asyncio', 'socket', 'pathlib'} & set(sys.modules))"
    assert run([sys.executable, "-I", "-c", code], timeout_s=10, cwd=Path(__file__).parents[3]).stdout == b"\n"
