"""Many runs of the installed command, each hit by random signals at random times. A process of its own:

    python -m tests.cli.signal_campaign RUNS SEED FOLDER

prints one JSON object: `counts` by how the runs ended, and `faults`, a list of what broke a promise. This process is
the home of orphans (PR_SET_CHILD_SUBREAPER), so whatever a run leaves behind becomes its child and is seen.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agentctl.state.journal import load
from tests.server import Call, Turn, serve

AGENTCTL = str(Path(sys.executable).with_name("agentctl"))
ENDS = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}
EXIT_S = 5.0
"""From the signal to the end of the process, as promised; a busy machine is given SLACK_S more."""
SLACK_S = float(os.environ.get("AGENTCTL_CAMPAIGN_SLACK", "3"))
ORPHAN_S = 3.0
"""The watcher of a killed run needs a moment to notice."""
AT_ONCE = 2

COMMANDS = (
    "sleep 30",
    "sleep 30 & sleep 30",
    "(setsid sleep 30 &) ; sleep 30",
    "nohup sleep 30 >/dev/null 2>&1 & disown; sleep 30",
    "yes",
    "trap '' TERM INT HUP; while :; do sleep 1; done",
    "cat; read x; sleep 30",
    "python3 -c 'import time, signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(30)'",
    "sleep 30 | sleep 30",
    "for i in 1 2 3 4 5 6; do (sleep 30 &); done; echo out; sleep 30",
)
SHORT = ("echo hi", "ls", "cat big.txt", "false", "sleep 0.05")


def turns(luck: random.Random) -> list[Turn]:
    """What the model says in one run: text in pieces, short commands, then a long command or a slow answer."""
    said = []
    for _ in range(luck.randrange(3)):
        calls = [Call("bash", {"command": luck.choice(SHORT)}), Call("read_file", {"path": "big.txt", "limit": 3})]
        said.append(Turn(text="Looking. " * 5, delta=7, pause_s=luck.choice((0.0, 0.005)), calls=calls))
    calls = [Call("bash", {"command": luck.choice(COMMANDS)}) for _ in range(luck.choice((1, 1, 2)))]
    said.append(luck.choice((Turn(calls=calls), Turn(text="slow " * 400, delta=5, pause_s=0.02), Turn(delay_s=20))))
    return [*said, Turn(text="The end.", repeat=-1)]


class Plan:
    """Everything about one run that chance decides, from its own seed."""

    def __init__(self, seed: str) -> None:
        luck = random.Random(seed)
        self.turns = turns(luck)
        first = luck.choice((*ENDS, *ENDS, signal.SIGUSR1, signal.SIGKILL))
        self.shots = [(luck.choice((luck.uniform(0, 0.25), luck.uniform(0.1, 2.0))), first)]
        if luck.random() < 0.4:
            self.shots.append((luck.uniform(0, 0.5), luck.choice((*ENDS, signal.SIGUSR1))))
        self.waits = luck.random() < 0.7
        """For the first line, before the clock of the first signal starts."""
        self.form = luck.choice(("--json", "--json", "--json", "text"))
        self.is_ephemeral = luck.random() < 0.2

    @property
    def fatal(self) -> list[int]:
        """The signals after which a run has to end."""
        return [number for _, number in self.shots if number != signal.SIGUSR1]


def play(name: str, folder: Path, plan: Plan) -> tuple[str, list[str]]:
    """Runs once. How it ended, and what was wrong with it."""
    cwd, home = folder / name / "w", folder / name / "home"
    for made in (cwd, home):
        made.mkdir(parents=True)
    (cwd / "big.txt").write_text("line\n" * 20_000)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENAI_API_KEY": "sk-test-1234"}
    with serve(plan.turns) as server:
        words = ["-p", "go", "--yolo", "--model", "openai/gpt-5", "--api", "openai-chat", "--base-url", server.base_url]
        words += ["--json"] if plan.form == "--json" else []
        words += ["--ephemeral"] if plan.is_ephemeral else []
        words += ["--timeout", "20"]
        out, err = folder / name / "out", folder / name / "err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [AGENTCTL, *words], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                start_new_session=True,
            )  # fmt: skip
            began = time.monotonic()
            while plan.waits and not out.stat().st_size and not err.stat().st_size and time.monotonic() - began < 10:
                time.sleep(0.005)
            took = shoot(process, plan)
    said, complaints = out.read_bytes(), err.read_text(errors="replace")
    faults = judge(plan, process.returncode, took, said, complaints)
    faults += check_sessions(home)
    how = "before the program began" if is_before(process.returncode, said, complaints) else ending(process.returncode)
    return how, [f"{name}: {fault}" for fault in faults]


def shoot(process: subprocess.Popen[bytes], plan: Plan) -> float:
    """Sends the signals and waits for the end; seconds from the first deadly signal to it."""
    hit = None
    for delay, number in plan.shots:
        try:
            process.wait(delay)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            if number != signal.SIGUSR1 and hit is None:
                hit = time.monotonic()
    if hit is None and process.poll() is None:  # only SIGUSR1, which ends nothing
        time.sleep(0.3)
        process.terminate()
        hit = time.monotonic()
    try:
        process.wait(EXIT_S + SLACK_S + 10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return 99.0
    return 0.0 if hit is None else time.monotonic() - hit


def judge(plan: Plan, code: int, took: float, out: bytes, err: str) -> list[str]:
    faults = []
    if took > EXIT_S + SLACK_S:
        faults.append(f"took {took:.1f} s to end")
    is_killed, is_early = code == -signal.SIGKILL, is_before(code, out, err)
    if not is_killed and not is_early and code not in (0, 5, *ENDS.values()):
        faults.append(f"exit code {code}; stderr {err[-300:]!r}")
    if "Traceback" in err and not is_early:
        faults.append(f"traceback: {err[-600:]!r}")
    if plan.form == "--json" and not is_early:
        faults += check_lines(code, out, is_killed)
    return faults


def is_before(code: int, out: bytes, err: str) -> bool:
    """The signal met Python while it was starting, before a line of ours ran: nobody could have written a last line."""
    if out or "agentctl: " in err or "/agentctl/" in err:
        return False
    return code in [-number for number in (*ENDS, signal.SIGUSR1)] or (code == 1 and "KeyboardInterrupt" in err)


def check_lines(code: int, out: bytes, is_killed: bool) -> list[str]:
    """Whole JSON lines, `init` first, exactly one `done` last, its code the exit code, an outcome for every call."""
    whole, _, rest = out.rpartition(b"\n")
    try:
        events: list[dict[str, Any]] = [json.loads(line) for line in whole.split(b"\n") if whole]
    except ValueError as error:
        return [f"a line is no JSON: {error}: {out[-200:]!r}"]
    if is_killed:
        return []
    faults = [f"a torn last line: {rest[:80]!r}"] if rest else []
    types = [event["type"] for event in events]
    if types[:1] != ["init"] or types.count("init") != 1:
        faults.append(f"init is not first: {types[:3]}")
    if types[-1:] != ["done"] or types.count("done") != 1:
        faults.append(f"done is not last, or not once: {types[-3:]}")
    elif events[-1]["exit_code"] != code:
        faults.append(f"done says {events[-1]['exit_code']}, the process {code}")
    if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
        faults.append("seq has gaps")
    outcomes = ("tool-result", "tool-error", "tool-denied", "tool-suspended")
    called = sorted(event["id"] for event in events if event["type"] == "tool-call")
    if called != sorted(event["id"] for event in events if event["type"] in outcomes):
        faults.append("a call has no outcome, or two")
    return faults


def check_sessions(home: Path) -> list[str]:
    """Whatever was saved loads again."""
    faults = []
    for path in home.rglob("*.jsonl"):
        try:
            load(path)
        except Exception as error:  # noqa: BLE001  # any failure is a finding
            if path.stat().st_size:
                faults.append(f"the session does not load: {error}")
    return faults


def ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def children() -> set[int]:
    listing = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in listing.split()}


def orphans() -> list[str]:
    """What is left below this process when all runs are over."""
    deadline = time.monotonic() + ORPHAN_S
    while time.monotonic() < deadline:
        for pid in children():
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
        if not children():
            return []
        time.sleep(0.02)
    return [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in children()]


def campaign(runs: int, seed: str, folder: Path) -> dict[str, Any]:
    """Waves of AT_ONCE runs side by side; after each wave nothing may be left."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for first in range(0, runs, AT_ONCE):
        names = [f"{seed}-{number}" for number in range(first, min(runs, first + AT_ONCE))]
        with ThreadPoolExecutor(AT_ONCE) as side_by_side:
            for how, wrong in side_by_side.map(lambda name: play(name, folder, Plan(name)), names):
                counts[how] += 1
                faults += wrong
        faults += [f"{names[0]}…: left behind: {line}" for line in orphans()]
    return {"runs": runs, "seed": seed, "counts": dict(counts.most_common()), "faults": faults}


def main(argv: Sequence[str]) -> int:
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) != 0:
        raise SystemExit("orphans cannot be seen here: no PR_SET_CHILD_SUBREAPER")
    sys.stdout.write(json.dumps(campaign(int(argv[0]), argv[1], Path(argv[2]))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
