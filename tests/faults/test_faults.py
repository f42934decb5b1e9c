"""What is on disk when a write fails, falls short or is the last thing that happens, at every write of a run.

What a run has said (an event on stdout) is acknowledged: the message behind it is on disk. Afterwards everything loads
and the session goes on. Every operation meets one kind of fault; with `AGENTCTL_FAULTS=all` it meets each kind, and the
session goes on after every one of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.types import Message, ToolAnswer
from agentctl.state.checks import verify
from agentctl.state.journal import is_blank, load
from tests.faults.preload import Faulty

KINDS = ("eio", "enospc", "short", "kill", "half")
KILLS = ("kill", "half")
SCRIPT = {
    "turns": [
        {
            "text": "I look",
            "tool_calls": [
                {"name": "bash", "args": {"command": "echo one >> marks"}},
                {"name": "todo_write", "args": {"todos": [{"content": "a", "status": "in_progress"}]}},
            ],
            "usage": {"input": 10, "output": 5},
        },
        {"text": "then", "tool_calls": [{"name": "write_file", "args": {"path": "two", "content": "2"}}]},
        {"text": "done"},
    ]
}
GO_ON = ("--session-key", "k", "-p")
IS_ALL = os.environ.get("AGENTCTL_FAULTS") == "all"
CHANGES = frozenset("WSPTFNCM")


def said(out: bytes) -> list[dict[str, Any]]:
    """The whole lines of stdout; each must be an event."""
    return [json.loads(line) for line in out.split(b"\n")[:-1]]


def saved(world: Faulty) -> tuple[Message, ...]:
    """The history of the one session, wherever it was kept; every journal loads."""
    histories = [load(path).history for path in world.journals() if not is_blank(path)]
    assert [found.damage for path in world.journals() if not is_blank(path) for found in (verify(path),)] == [
        () for _ in histories
    ]
    return max(histories, key=len, default=())


def unsaved(events: Sequence[dict[str, Any]], history: Sequence[Message]) -> Iterator[str]:
    """What was said although it is not on disk."""
    texts = [message.text for message in history if message.role == "assistant"]
    calls = {call.id for message in history for call in message.calls}
    answers = {part.call_id for message in history for part in message.parts if isinstance(part, ToolAnswer)}
    is_interrupted = events and events[-1]["type"] == "done" and events[-1]["ended"] != "completed"
    for event in events:
        if event["type"] == "message" and event["text"] not in texts:
            yield f"message {event['text']!r}"
        if event["type"] == "tool-call" and event["id"] not in calls:
            yield f"call {event['id']}"
        if event["type"] == "tool-result" and event["id"] not in answers:
            yield f"result {event['id']}"
        if event["type"] == "tool-error" and event["id"] not in answers and not is_interrupted:
            yield f"error {event['id']}"


def number_of_operations(world: Faulty, *words: str) -> int:
    ran = world.run(*words, logs=True)
    assert said(ran.stdout)[-1]["ended"] == "completed", ran.stderr
    return sum(what in CHANGES for what, _ in world.operations())


def check(world: Faulty, kind: str, at: int, *words: str) -> str:
    """One run with one fault; how it ended."""
    ran = world.run(*words, at=at, kind=kind)
    events = said(ran.stdout)
    last = events[-1] if events else {}
    if kind in KILLS and ran.returncode == -9:
        assert last.get("type") != "done"
        ended = "killed"
    else:
        assert [event["type"] for event in events].count("done") == 1, (kind, at, ran.stderr)
        assert (last["type"], last["exit_code"]) == ("done", ran.returncode), (kind, at)
        assert last["ended"] in ("completed", "error"), (kind, at, last["ended"])
        assert last["ended"] == "completed" or [event["type"] for event in events].count("error") == 1
        ended = str(last["ended"])
    if not any(problem["code"] == "session-not-saved" for problem in last.get("problems", [])):
        assert list(unsaved(events, saved(world))) == [], (kind, at)
    return ended


def number_of(place: int, kind: str) -> bool:
    """Whether an operation meets this kind of fault here."""
    return IS_ALL or place % len(KINDS) == KINDS.index(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_every_write_of_a_new_session(tmp_path: Path, kind: str) -> None:
    count = number_of_operations(Faulty(tmp_path / "0", SCRIPT), *GO_ON, "go")
    assert count > 20
    endings = []
    for at in [place for place in range(1, count + 1) if number_of(place, kind)]:
        world = Faulty(tmp_path / str(at), SCRIPT)
        endings.append(check(world, kind, at, *GO_ON, "go"))
        if IS_ALL or at % 2:
            before = len(saved(world))
            after = world.run(*GO_ON, "go on")
            assert said(after.stdout)[-1]["ended"] == "completed", (kind, at, after.stderr)
            assert len(saved(world)) > before, (kind, at)
    assert not IS_ALL or set(endings) >= ({"killed"} if kind in KILLS else {"error"}), endings


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_every_write_of_a_session_that_goes_on(tmp_path: Path, kind: str) -> None:
    call = {"name": "bash", "args": {"command": "true"}}
    world = Faulty(tmp_path, {"turns": [{"text": "one", "tool_calls": [call]}, {"text": "two", "repeat": -1}]})
    number_of_operations(world, *GO_ON, "go")
    journal = world.journals()[0]
    whole = journal.read_bytes()
    count = number_of_operations(world, *GO_ON, "go on")
    for at in [place for place in range(1, count + 1) if number_of(place, kind)]:
        for path in world.journals():
            path.unlink()
        journal.write_bytes(whole + (b'{"record":"message","torn' if at % 2 else b""))
        check(world, kind, at, *GO_ON, "go on")
        assert journal.read_bytes().startswith(whole)


def test_a_message_is_on_disk_before_its_calls_start_and_a_result_before_the_next_request(tmp_path: Path) -> None:
    """On disk: fsynced. From the order of what the process did, with no fault."""
    world = Faulty(tmp_path, SCRIPT)
    world.below = world.home / "state" / "sessions"
    ran = world.run(*GO_ON, "go", logs=True)
    journal = world.journals()[0].read_bytes()
    ends = [place + 1 for place, byte in enumerate(ran.stdout) if byte == 10]
    events = said(ran.stdout)
    written = synced = shown = seen = 0
    for what, size in world.operations():
        written += size if what == "W" else 0
        synced = written if what == "F" else synced
        shown += size if what == "O" else 0
        while seen < len(events) and ends[seen] <= shown:
            rows = [json.loads(line) for line in journal[:synced].split(b"\n")[:-1]]
            on_disk = json.dumps([row.get("message") for row in rows])
            event = events[seen]
            if event["type"] in ("tool-call", "tool-result"):
                assert f'"{event["id"]}"' in on_disk, event
            if event["type"] == "tool-result":
                assert any(
                    part["part"] == "answer" for row in rows if row.get("message") for part in row["message"]["parts"]
                )
            seen += 1
    assert seen == len(events)
    assert written == len(journal)


def test_no_step_reads_or_writes_the_whole_history(tmp_path: Path) -> None:
    """Bytes below the home for each step of a long run: as many for the last as for the first, and none are read."""
    steps = 40
    turns = []
    for n in range(steps):
        args = {"path": "f", "content": f"{n:03}" + "x" * 2_000}
        turns.append(
            {"text": f"step {n:03}", "tool_calls": [{"id": f"call_{n:03}", "name": "write_file", "args": args}]}
        )
    world = Faulty(tmp_path, {"turns": [*turns, {"text": "done"}]})
    world.below = world.home / "state" / "sessions"
    assert said(world.run(*GO_ON, "go", logs=True).stdout)[-1]["steps"] == steps + 1
    size = world.journals()[0].stat().st_size
    operations = world.operations()
    assert sum(number for what, number in operations if what in "WSP") < size + 1_000
    assert [number for what, number in operations if what == "R"] == []
    messages = [number for what, number in operations if what == "W" and number > 2_000]
    assert len(messages) == steps
    assert max(messages) == min(messages)
    world.run(*GO_ON, "go on", logs=True)
    assert sum(number for what, number in world.operations() if what == "R") < 2 * size + 100_000
