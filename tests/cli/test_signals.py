"""Signals at any time: a documented exit code, valid lines, one `done`, nothing left running, at most 5 s."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ran, World, finish
from tests.processes import wait_until
from tests.server import Call, Turn

RUNS = int(os.environ.get("AGENTCTL_SIGNAL_RUNS", "24"))
SEED = os.environ.get("AGENTCTL_SIGNAL_SEED", "") or str(time.time_ns() % 10**8)
PARTS = 3


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are only seen with PR_SET_CHILD_SUBREAPER")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_signals_at_random_times(part: int, tmp_path: Path) -> None:
    """A failure names its run; AGENTCTL_SIGNAL_SEED repeats it, AGENTCTL_SIGNAL_RUNS makes the campaign longer."""
    runs, seed = max(1, RUNS // PARTS), f"{SEED}.{part}"
    command = [sys.executable, "-m", "tests.cli.signal_campaign", str(runs), seed, str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, timeout=60 + 20 * runs, check=True)
    report = json.loads(done.stdout)
    sys.stdout.write(f"signals: {report}\n")
    assert report["faults"] == [], f"AGENTCTL_SIGNAL_SEED={SEED}: {report}"
    assert sum(report["counts"].values()) == runs


def test_the_campaign_sees_what_is_left_behind(tmp_path: Path) -> None:
    """Planted: a process that leaves a daemon. Otherwise a clean report would mean nothing."""
    script = (
        "import subprocess, sys; from tests.cli import signal_campaign as c; import ctypes\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); c.ORPHAN_S = 0.5\n"
        "subprocess.run(['sh', '-c', 'setsid sleep 5 >/dev/null 2>&1 & exit 0'])\n"
        "print(c.orphans()); [c.os.kill(pid, 9) for pid in c.children()]"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert "sleep 5" in done.stdout


def child_of_a_shell(world: World, server: Any, prefix: str, **env: str) -> int:
    """Starts a run below a shell that is killed; seconds until the run has ended, or 99."""
    command = " ".join(map(shlex.quote, world.command("-p", "go", "--json", "--yolo", server=server)))
    script = f"{prefix} {command} > out.jsonl 2> err.txt & echo $!; wait"
    out = world.cwd / "out.jsonl"
    shell = subprocess.Popen(
        ["bash", "-c", script], cwd=world.cwd, env={**world.env, **env}, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        assert wait_until(lambda: out.exists() and b"tool-call" in out.read_bytes(), 20)
        shell.kill()
        shell.wait()
        started = time.monotonic()
        is_over = wait_until(lambda: not Path(f"/proc/{pid}").exists() or "State:\tZ" in state(pid), 2.5)
        return round(time.monotonic() - started) if is_over else 99
    finally:
        shell.stdout.close()
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "State:\tZ"


SLEEPS = [Turn(calls=[Call("bash", {"command": "sleep 60"})]), Turn(text="x")]


@pytest.mark.parametrize(
    ("prefix", "env", "ends"),
    [
        ("", {"CI": "true"}, True),
        ("", {"GITHUB_ACTIONS": "true"}, True),
        ("nohup", {"CI": "true"}, False),
        ("", {}, False),
    ],
    ids=["CI", "Actions", "nohup", "elsewhere"],
)
def test_in_ci_a_run_does_not_outlive_the_step_that_started_it(
    world: World, served: Any, prefix: str, env: dict[str, str], ends: bool
) -> None:
    """A runner that cancels a step kills the step's shell, which passes no signal on."""
    took = child_of_a_shell(world, served(SLEEPS), prefix, **env)
    assert (took < 5) is ends
    if ends:
        done = json.loads((world.cwd / "out.jsonl").read_bytes().splitlines()[-1])
        assert (done["type"], done["ended"], done["exit_code"]) == ("done", "cancelled", 129)


def test_the_way_a_runner_cancels(world: World, served: Any) -> None:
    """SIGINT, SIGTERM after 7.5 s, SIGKILL after 2.5 s more: long before the second one everything is over."""
    process = world.start("-p", "go", "--json", "--yolo", server=served(SLEEPS))
    for line in process.stdout:
        if b"tool-call" in line:
            break
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    finish(process)
    assert process.returncode == 130
    assert time.monotonic() - started < 7.5


def test_a_second_ctrl_c_does_not_wait(world: World, served: Any) -> None:
    stubborn = "trap '' TERM INT; while :; do sleep 1; done"
    process = world.start(
        "-p", "go", "--json", "--yolo", server=served([Turn(calls=[Call("bash", {"command": stubborn})])])
    )
    lines = [process.stdout.readline()]
    while b"tool-call" not in lines[-1]:
        lines.append(process.stdout.readline())
    time.sleep(0.2)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    started = time.monotonic()
    ran = finish(process)
    Ran(ran.code, b"".join(lines) + ran.out, ran.err.encode()).ended("cancelled", 130)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_verb_ends_with_its_document(world: World, number: int, code: int) -> None:
    """Also while it waits for its input."""
    process = world.start("policy", "explain", "-", "--json", stdin=subprocess.PIPE)
    process.stdin.write(b'{"tool": "read_file", "input": {"path": "a"}}\n')
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(number)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == code
    assert json.loads(out)["exit_code"] == code


WINDOWS = """
import sys
sys.platform = "win32"
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "termios", "pwd", "grp", "_posixsubprocess"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from agentctl.cli.main import main
code = main(sys.argv[1:])
sys.stdout.write(f"{code} {sorted(name for name in sys.modules if name.startswith('agentctl'))}")
"""


@pytest.mark.parametrize("words", [["-p", "x"], ["doctor"], ["-p", "x", "--json"], []])
def test_windows_is_told_at_once(words: list[str]) -> None:
    """A stub: an interpreter that says it is Windows and has none of the modules that only Unix has."""
    done = subprocess.run([sys.executable, "-c", WINDOWS, *words], capture_output=True, text=True, check=True)
    assert done.stdout == "2 ['agentctl', 'agentctl.cli', 'agentctl.cli.main', 'agentctl.version']"
    assert done.stderr == "agentctl: Windows is not supported. Run it in WSL 2 or in a Linux container.\n"
