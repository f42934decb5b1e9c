"""kill -9 around a granted call, at every record of the journal and at every event: it never runs twice.

AGENTCTL_CRASH_ROUNDS=N repeats the campaign with the other orders of calls and words.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from agentctl.core.record import as_dict
from agentctl.policy.grants import grant_for
from agentctl.runner.clock import SystemClock
from agentctl.state.approvals import read_approvals
from agentctl.state.journal import Journal
from tests.unit.runner.waiting import END, READ, Place, Told, bash

SUSPEND = ("--on-ask", "suspend", "--json")
COMMANDS = ("echo a >> log && echo said", "echo b >> log && echo said")
KILLER = """
import os, signal, sys
from agentctl import events
from agentctl.cli.run import parse_run
import agentctl.policy.commands, agentctl.tools.read, agentctl.tools.shell
for line in sys.stdin:
    last, child = int(line), os.fork()
    if not child:
        for number, _ in enumerate(events(parse_run(sys.argv[1:])), start=1):
            if number == last:
                os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""Goes on with a session once for each line of stdin, in a process that kills itself at the event of that number."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    found.date = "2040-01-01"
    return found


def decide(place: Place, session: str, *words: str) -> None:
    """What `approvals approve` and `deny` write."""
    path = place.journal(session)
    journal = Journal(path, lambda: "2040-01-02T00:00:00.000Z", str)
    for word, approval in zip(words, read_approvals(path), strict=True):
        grant = grant_for(approval.pending, project=path.parent.name, session=session)
        if word == "granted":
            journal.approval("granted", id=grant.approval, grant=as_dict(grant))
        elif word == "denied":
            journal.approval("denied", id=grant.approval)


def suspend(place: Place) -> Told:
    calls = [bash(COMMANDS[0]), READ, bash(COMMANDS[1])]
    told = place.run(place.script({"text": "I act", "tool_calls": calls}), "-p", "go", *SUSPEND)
    assert told.done["ended"] == "suspended"
    return told


def go_on(place: Place, session: str) -> Told:
    """Without a prompt where something waits, else with one: as a pipeline would."""
    told = place.run(place.script(END), "-r", session, "--json")
    if told.done["ended"] == "usage":
        told = place.run(place.script(END), "-r", session, "-p", "carry on", "--json")
    return told


def test_killed_at_every_record(place: Place) -> None:
    """The journal as each kill would leave it, also in the middle of a line, with the side effects of that moment."""
    session = suspend(place).done["session"]
    decide(place, session, "granted", "granted")
    path = place.journal(session)
    assert place.run(place.script(END), "-r", session, "--json").done["ended"] == "completed"
    assert place.log == ["a", "b"]
    lines = path.read_bytes().splitlines(keepends=True)
    seen: set[tuple[int, int]] = set()
    for count in range(3, len(lines) + 1):
        for torn in (b"", lines[count][: len(lines[count]) // 2] if count < len(lines) else b""):
            ran = ran_by(lines[:count])
            (place.root / "log").write_text("".join(f"{name}\n" for name in ran))
            path.write_bytes(b"".join(lines[:count]) + torn)
            told = go_on(place, session)
            assert told.done["ended"] in ("completed", "suspended"), (count, told.of("error"))
            assert len(place.log) == len(set(place.log)), (count, place.log)
            seen.add((len(ran), len(place.log)))
    assert {(0, 0), (0, 2), (1, 2), (2, 2)} <= seen


def ran_by(lines: list[bytes]) -> list[str]:
    """The commands that may have run by then: those whose grant is used."""
    rows = [json.loads(line) for line in lines]
    names = {row["pending"]["id"]: row["pending"]["input"]["command"][5] for row in rows if "pending" in row}
    return [names[row["id"]] for row in rows if row["record"] == "approval" and row["state"] == "used"]


WORDS = tuple(product(("granted", "denied", "waiting"), repeat=2))
ROUNDS = int(os.environ.get("AGENTCTL_CRASH_ROUNDS", "0"))
CAMPAIGN = WORDS * ROUNDS or [("granted", "granted")]


@pytest.mark.parametrize("words", CAMPAIGN, ids="-".join)
def test_killed_for_real_at_every_event(place: Place, words: tuple[str, str], tmp_path: Path) -> None:
    """A process that goes on with granted calls ends by SIGKILL at its k-th event; the next one takes over."""
    session = suspend(place).done["session"]
    decide(place, session, *words)
    home, kept = Path(place.env["AGENTCTL_HOME"]), tmp_path / "kept"
    shutil.copytree(home, kept)
    allowed = {name for name, word in zip("ab", words, strict=True) if word == "granted"}
    outcomes: set[tuple[str, ...]] = set()
    with killer(place, "-r", session, "--json", script=place.script(END)) as ends_at:
        for last in range(1, 40):
            shutil.rmtree(home)
            shutil.copytree(kept, home)
            (place.root / "log").unlink(missing_ok=True)
            if ends_at(last) == 0:
                break
            told = go_on(place, session)
            assert told.done["ended"] in ("completed", "suspended"), told.of("error")
            assert len(place.log) == len(set(place.log)), (last, place.log)
            assert set(place.log) <= allowed
            outcomes.add(tuple(place.log))
    assert 3 < last < 39
    if words == ("granted", "granted"):
        assert ("a", "b") in outcomes


def test_killed_at_every_event_of_the_run_that_asks(place: Place) -> None:
    """What had been written down by then can be approved; what had not is never run by anybody's word."""
    place.date = SystemClock().now()[:10]  # the run that asks has the real clock
    calls = [bash(COMMANDS[0]), READ, bash(COMMANDS[1])]
    script = place.script({"text": "I act", "tool_calls": calls})
    seen: set[int] = set()
    with killer(place, "-p", "go", *SUSPEND, "--session-key", "k", script=script) as ends_at:
        for last in range(2, 40):
            shutil.rmtree(place.env["AGENTCTL_HOME"], ignore_errors=True)
            (place.root / "log").unlink(missing_ok=True)
            is_over = ends_at(last) == 0
            session = next(Path(place.env["AGENTCTL_HOME"]).glob("state/sessions/*/*.jsonl")).stem
            waiting = [approval.state for approval in read_approvals(place.journal(session))]
            assert set(waiting) <= {"waiting"}
            decide(place, session, *("granted" for _ in waiting))
            assert go_on(place, session).done["ended"] == "completed"
            assert place.log == ["a", "b"][: len(waiting)]
            seen.add(len(waiting))
            if is_over:
                break
    assert seen == {0, 1, 2}


@contextmanager
def killer(place: Place, *words: str, script: Path) -> Iterator[Callable[[int], int]]:
    """A function that gives how a run ended that was to be killed at this event: 0, or the signal."""
    words = (*words, "--stdin", "none", "--model", f"scripted/{script}")
    command = [sys.executable, "-c", KILLER, *words]
    with subprocess.Popen(
        command, cwd=place.root, env=place.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        source, sink = process.stdout, process.stdin

        def ends_at(last: int) -> int:
            print(last, file=sink, flush=True)
            status = int(source.readline())
            assert status in (0, signal.SIGKILL)
            return status

        yield ends_at
