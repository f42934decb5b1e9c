"""Many runs at once in one folder, some killed at a random instant: nothing is lost, nothing is torn.

`AGENTCTL_SOAK=50` starts that many at a time, for `AGENTCTL_SOAK_ROUNDS` rounds; `AGENTCTL_SOAK_SEED` repeats one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agentctl.state.checks import verify
from agentctl.state.journal import is_blank, load
from tests.faults.preload import AGENTCTL
from tests.faults.test_faults import said, unsaved

IS_LONG = "AGENTCTL_SOAK" in os.environ
RUNS = int(os.environ.get("AGENTCTL_SOAK", "8"))
ROUNDS = int(os.environ.get("AGENTCTL_SOAK_ROUNDS", "2" if IS_LONG else "1"))
SEED = int(os.environ.get("AGENTCTL_SOAK_SEED", "20260101"))
ENDINGS = {"completed", "error", "busy", "usage"}
STEPS = [
    {
        "text": f"step {n}",
        "tool_calls": [
            {"name": "bash", "args": {"command": f"echo {n}; sleep 0.05"}},
            {"name": "read_file", "args": {"path": "f"}},
        ],
    }
    for n in range(4)
]


class Started:
    """A run with its output in a file, so that a kill loses none of it."""

    def __init__(self, world: World, words: Sequence[str]) -> None:
        self.words = list(words)
        self.out = world.root / f"out-{len(world.started)}"
        with self.out.open("wb") as out:
            command = [AGENTCTL, "--model", "scripted/script.json", "--json", "--yolo", *words]
            self.process = subprocess.Popen(
                command, cwd=world.cwd, env=world.env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        world.started.append(self)

    @property
    def events(self) -> list[dict[str, Any]]:
        return said(self.out.read_bytes())


class World:
    def __init__(self, root: Path) -> None:
        self.root, self.cwd, self.home = root, root / "project", root / "home"
        self.cwd.mkdir()
        self.home.mkdir()
        (self.cwd / "f").write_text("one\n")
        (self.cwd / "script.json").write_text(json.dumps({"turns": [*STEPS, {"text": "done", "repeat": -1}]}))
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(root)}
        self.started: list[Started] = []

    def journals(self) -> list[Path]:
        return sorted(self.home.rglob("*.jsonl"))

    def verb(self, *words: str) -> Any:
        ran = subprocess.run(
            [AGENTCTL, "sessions", *words, "--json"], cwd=self.cwd, env=self.env, capture_output=True, check=False
        )
        assert ran.returncode == 0, (words, ran.stderr)
        return json.loads(ran.stdout)


def left_behind(cwd: Path) -> list[int]:
    """Processes that still work in the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == cwd and (entry / "stat").read_text().rsplit(")")[-1].split()[0] != "Z":
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_parallel_runs_with_random_kills_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, chance = World(tmp_path), random.Random(SEED)
    counts: Counter[str] = Counter()
    for number in range(ROUNDS):
        one_round(world, chance, number, counts)
    if IS_LONG:
        with capsys.disabled():
            sys.stdout.write(f"\n  seed {SEED}: {dict(sorted(counts.items()))}\n")
    assert counts["killed"] > 0
    assert counts["completed"] > 0


def one_round(world: World, chance: random.Random, number: int, counts: Counter[str]) -> None:
    ways: list[list[str]] = [
        [],
        ["--session-key", "shared", "--on-busy", "fork"],
        ["--continue-or-new", "--on-busy", "fork"],
    ]
    runs = [
        Started(world, ["-p", f"round {number} run {n}", *([] if n % 2 else chance.choice(ways)), *own_key(n, number)])
        for n in range(RUNS)
    ]
    victims = {run: chance.uniform(0.1, 1.2) * (1 + RUNS / 10) for run in runs if chance.random() < 0.5}
    killer = Thread(target=kill, args=(victims, time.monotonic()))
    killer.start()
    while killer.is_alive():
        if chance.random() < 0.2:
            counts["lists in between"] += 1
            assert world.verb("list")["problems"] == []
        time.sleep(0.02)
    for run in runs:
        run.process.wait(timeout=120)
        counts[check(world, run)] += 1
    counts["sessions"] = len(world.journals())
    deadline = time.monotonic() + 10
    while left_behind(world.cwd) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_behind(world.cwd) == []
    assert world.verb("verify")["ok"]
    listed = {row["id"] for row in world.verb("list")["sessions"]}
    assert listed == {path.stem for path in world.journals() if not is_blank(path)}
    counts["resumed"] += go_on(world, [run for run in runs if run.process.returncode == -9])


def kill(victims: dict[Started, float], started: float) -> None:
    """Each at its time, the first one in the middle of its work: on a slow machine that time may lie behind its end."""
    first = next(iter(victims), None)
    waiting = dict(victims)
    while waiting and any(run.process.poll() is None for run in waiting):
        for run, after in [*waiting.items()]:
            if time.monotonic() - started > after or (run is first and b'"tool-result"' in run.out.read_bytes()):
                del waiting[run]
                if run.process.poll() is None:
                    os.killpg(run.process.pid, signal.SIGKILL)
        time.sleep(0.005)


def own_key(n: int, number: int) -> list[str]:
    return ["--session-key", f"{number}-{n}"] if n % 2 else []


def check(world: World, run: Started) -> str:
    """How the run ended. What it said is on disk, and nothing in its journal is damaged."""
    events = run.events
    code = run.process.returncode
    if code == -9:
        ended = "killed"
    else:
        assert [event["type"] for event in events].count("done") == 1
        ended = str(events[-1]["ended"])
        assert ended in ENDINGS, events[-1]
        assert events[-1]["exit_code"] == code
    session = next((event["session"] for event in events if event["session"]), None)
    if session is not None:
        (path,) = (path for path in world.journals() if path.stem == session)
        assert list(unsaved(events, load(path).history)) == [], run.words
        assert verify(path).is_whole, run.words
    return ended


def go_on(world: World, killed: Sequence[Started]) -> int:
    """A killed run's session is free at once and goes on."""
    again = [
        Started(world, ["-p", "go on", "-r", session])
        for run in killed
        if run.words[-2] == "--session-key"
        for session in {event["session"] for event in run.events if event["session"]}
    ]
    for run in again:
        run.process.wait(timeout=120)
        assert check(world, run) == "completed"
    return len(again)
