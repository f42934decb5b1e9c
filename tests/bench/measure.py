"""What the benches share: processes that are timed, the canned server, and how slow this machine is now."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
AGENTCTL = str(Path(sys.executable).with_name("agentctl"))
ROUNDS = 9


class Sample:
    def __init__(self, wall: float, cpu: float, rss_kb: int, out: bytes) -> None:
        self.wall, self.cpu, self.rss_kb, self.out = wall, cpu, rss_kb, out


def once(command: Sequence[str], cwd: Path, env: dict[str, str]) -> Sample:
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    out = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (command, out[-500:])
    return Sample(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, out)


def medians(commands: dict[str, Sequence[str]], cwd: Path, env: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Wall and CPU seconds of each command, measured in turns so that noise meets all alike."""
    for command in commands.values():
        once(command, cwd, env)
    samples: dict[str, list[Sample]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            samples[name].append(once(command, cwd, env))
    return {
        name: (statistics.median(s.wall for s in found), statistics.median(s.cpu for s in found))
        for name, found in samples.items()
    }


REFERENCE_S = 0.150
"""What the bare script takes on the machine that the budgets in seconds are for."""


def slowness(url: str, cwd: Path, env: dict[str, str]) -> float:
    """How many times slower than that machine this one is now; at least 1."""
    return max(1.0, medians({"bare": bare(url)}, cwd, env)["bare"][0] / REFERENCE_S)


def bare(url: str) -> list[str]:
    return [sys.executable, str(HERE / "bare.py"), url]


def agent(url: str, model: str, *words: str) -> list[str]:
    return [AGENTCTL, "-p", "What is the answer?", "--json", "--model", f"openai/{model}", "--base-url", url, *words]


def report(capsys: pytest.CaptureFixture[str], **figures: float) -> None:
    with capsys.disabled():
        sys.stdout.write("\n  " + ", ".join(f"{name} {value:,.2f}" for name, value in figures.items()) + "\n")
