"""The index, pruning, copies and verification of a folder of journals."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import UsageError
from agentctl.core.locks import lock_file
from agentctl.core.record import as_dict
from agentctl.core.text import digest_of
from agentctl.core.types import Message, Opaque, PendingCall, Reasoning, Text, ToolAnswer, ToolCall, Usage
from agentctl.state.checks import verify
from agentctl.state.copies import fork_session
from agentctl.state.folder import state_root
from agentctl.state.index import NAME
from agentctl.state.journal import Journal, load
from agentctl.state.retention import prune
from agentctl.state.sessions import Sessions
from agentctl.state.spare import bring_back

NOW = "2030-01-01T00:00:00Z"
DAY_NS = 86_400 * 1_000_000_000


def write_session(folder: Path, name: str, *, ended: str | None = "completed", days_old: float = 0) -> Path:
    journal = Journal(folder / f"{name}.jsonl", lambda: "2030-01-01T00:00:00.000Z", str)
    journal.header(session=name, cwd="/w", model="fake/m", agent="default", policy="d")
    journal.turn(1, Message(role="user", parts=(Text(text=f"prompt of {name}"),)))
    journal.message(Message(role="assistant", parts=(ToolCall(id="c", name="bash", arguments="{}"),)))
    journal.message(Message(role="tool", parts=(ToolAnswer(call_id="c", name="bash", content="ok"),)))
    journal.usage(Usage(input=3), 0.5)
    if ended:
        journal.end(ended, 0)
    then = time.time_ns() - int(days_old * DAY_NS)
    os.utime(journal.path, ns=(then, then))
    return journal.path


def ids(sessions: Sessions) -> list[str]:
    return [row["id"] for row in sessions.listed().sessions]


def test_the_list_is_the_same_with_and_without_its_index(tmp_path: Path) -> None:
    for number in range(5):
        write_session(tmp_path, f"s{number}", days_old=number)
    sessions = Sessions(tmp_path)
    without = sessions.listed()
    assert (tmp_path / NAME).exists()
    assert sessions.listed() == without
    assert [row["title"] for row in without.sessions] == [f"prompt of s{n}" for n in range(5)]


SPOILED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("torn", lambda data: data[:-40]),
    ("empty", lambda data: b""),
    ("garbage", lambda data: b"\0\xff" * 1000),
    ("another version", lambda data: data.replace(b"[3,", b"[99,")),
    ("no rows", lambda data: b"1\n[]\n"),
    ("short rows", lambda data: data.replace(b',"unknown":0', b"")),
    ("rows of other things", lambda data: re.sub(rb"\{.*\}", b"7", data)),
    ("lies about what changed since", lambda data: data.replace(b"prompt of", b"lie about")),
]


@pytest.mark.parametrize("spoil", [spoil for _, spoil in SPOILED], ids=[name for name, _ in SPOILED])
def test_no_list_depends_on_the_index(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    paths = [write_session(tmp_path, f"s{number}") for number in range(3)]
    sessions = Sessions(tmp_path)
    sessions.listed()
    index = tmp_path / NAME
    index.write_bytes(spoil(index.read_bytes()))
    for path in paths:
        with path.open("ab") as file:
            file.write(b'{"record":"future"}\n')
    assert {row["title"] for row in sessions.listed().sessions} == {f"prompt of s{n}" for n in range(3)}
    assert {row["unknown"] for row in sessions.listed().sessions} == {1}


def test_an_index_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    write_session(tmp_path, "s0")
    (tmp_path / NAME).mkdir()
    assert ids(Sessions(tmp_path)) == ["s0"]


def test_a_journal_that_grew_is_read_again_and_one_that_went_is_gone(tmp_path: Path) -> None:
    first, second = write_session(tmp_path, "s1"), write_session(tmp_path, "s2", ended=None)
    sessions = Sessions(tmp_path)
    assert {row["id"]: row["ended"] for row in sessions.listed().sessions} == {"s1": "completed", "s2": None}
    Journal(second, lambda: "2031", str).end("limit", 5)
    first.unlink()
    assert [(row["id"], row["ended"]) for row in sessions.listed().sessions] == [("s2", "limit")]
    assert len((tmp_path / NAME).read_bytes().splitlines()) == 1


def test_a_session_that_a_run_is_about_to_begin_is_no_problem(tmp_path: Path) -> None:
    write_session(tmp_path, "s1", days_old=1)
    blank = tmp_path / "s2.jsonl"
    blank.write_bytes(b"")
    sessions = Sessions(tmp_path)
    with lock_file(blank.with_suffix(".lock")):
        assert sessions.listed().problems == sessions.newest()[1] == ()
    assert [problem.what for problem in sessions.listed().problems] == [str(blank)]
    assert sessions.newest() == ("s1", sessions.listed().problems)


# --- pruning --------------------------------------------------------------------------------------------------------


def test_old_ones_and_those_beyond_the_newest_go_with_their_locks(tmp_path: Path) -> None:
    for number in range(6):
        lock_file(write_session(tmp_path, f"s{number}", days_old=number * 10).with_suffix(".lock")).release()
    sessions = Sessions(tmp_path)
    assert prune(sessions, keep_days=35, keep_sessions=200, now=NOW).removed == ("s5", "s4")
    assert prune(sessions, keep_days=35, keep_sessions=2, now=NOW).removed == ("s3", "s2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s0.jsonl", "s0.lock", "s1.jsonl", "s1.lock"]
    assert prune(sessions, keep_days=1, keep_sessions=1, now=NOW, spares="s1").removed == ()


def test_what_waits_is_held_or_comes_from_a_later_version_stays(tmp_path: Path) -> None:
    pending = PendingCall(
        id="a", call_id="c9", name="bash", input={}, rule="r", source="s", policy="d", expires="2031-01-01T00:00:00Z"
    )
    for name, expires in (("waiting", "2031-01-01T00:00:00Z"), ("lapsed", "2029-01-01T00:00:00Z")):
        path = write_session(tmp_path, name, ended="suspended")
        Journal(path, lambda: NOW, str).approval("waiting", pending=as_dict(pending.replace(expires=expires)))
        os.utime(path, ns=(1, 1))
    held = write_session(tmp_path, "held", days_old=100)
    later = write_session(tmp_path, "later", days_old=100)
    later.write_bytes(later.read_bytes().replace(b'"format":1', b'"format":2'))
    os.utime(later, ns=(1, 1))
    broken = tmp_path / "broken.jsonl"
    broken.write_text("?")
    os.utime(broken, ns=(1, 1))
    with lock_file(held.with_suffix(".lock")):
        pruned = prune(Sessions(tmp_path), keep_days=30, keep_sessions=1, now=NOW)
    assert (tuple(sorted(pruned.removed)), set(pruned.waiting), pruned.held) == (
        ("broken", "lapsed"),
        {"waiting", "later"},
        ("held",),
    )


def test_locks_of_runs_that_never_began_go_after_a_while(tmp_path: Path) -> None:
    write_session(tmp_path, "s0")
    for name, age_s in (("old", 90_000), ("young", 10)):
        lock_file(tmp_path / f"{name}.lock").release()
        then = time.time() - age_s
        os.utime(tmp_path / f"{name}.lock", (then, then))
    prune(Sessions(tmp_path), keep_days=30, keep_sessions=200, now=NOW)
    assert [path.name for path in tmp_path.glob("*.lock")] == ["young.lock"]


# --- copies and damage ----------------------------------------------------------------------------------------------


def test_a_copy_has_everything_but_what_belongs_to_the_session_alone(tmp_path: Path) -> None:
    source = write_session(tmp_path, "s1", ended="suspended")
    with source.open("ab") as file:
        file.write(b'{"record":"approval","x":1}\n{"record":"future","x":"hunter2"}\n{"record":"view","torn')
    target = tmp_path / "s2.jsonl"
    fork_session(
        source,
        target,
        lambda text: text.replace("hunter2", "***"),
        root=tmp_path,
        now="2031",
        session="s2",
        cwd="/v",
        forked_from="s1",
    )
    rows = [loads(line) for line in target.read_bytes().splitlines()]
    assert [row["record"] for row in rows] == ["header", "turn", "message", "message", "end", "future"]
    assert rows[-1] == {"record": "future", "x": "***"}
    assert (load(target).history, load(target).usage) == (load(source).history, Usage())
    assert verify(target).is_whole


def test_the_paths_of_a_copy_lead_to_its_files_and_what_a_service_signed_stays(tmp_path: Path) -> None:
    """A view knows what it shows only in part by digests, which are then those of the new texts."""
    output = state_root(tmp_path) / "s1" / "output"
    output.mkdir(parents=True)
    (output / "1.txt").write_text("all of it")
    (output / "2.txt").symlink_to(tmp_path / "elsewhere")
    long = "cut; all of it is in .agentctl/state/s1/output/1.txt"
    signed = Opaque(
        provider="anthropic", api="anthropic-messages", model="m", data={"thinking": long, "signature": "x"}
    )
    source = write_session(tmp_path, "s1")
    journal = Journal(source, lambda: NOW, str)
    journal.message(Message(role="assistant", parts=(Reasoning(text=long, opaque=signed), Text(text=long))))
    journal.view({"start": 1, "reasons_from": 0, "summary": long, "wholes": [[digest_of(long), "s1 elsewhere"]]})
    target = tmp_path / "s2.jsonl"
    fork_session(source, target, str, root=tmp_path, session="s2", now=NOW, cwd="/v", forked_from="s1")
    copy, moved = load(target), long.replace("/s1/", "/s2/")
    assert copy.history[-1].parts == (Reasoning(text=moved, opaque=signed), Text(text=moved))
    view = {"start": 1, "reasons_from": 0, "summary": moved, "wholes": [[digest_of(moved), "s1 elsewhere"]]}
    assert copy.view == view
    files = state_root(tmp_path) / "s2"
    assert {path.relative_to(files).as_posix(): path.read_text() for path in files.rglob("*") if path.is_file()} == {
        "output/1.txt": "all of it"
    }
    assert stat.S_IMODE((files / "output" / "1.txt").stat().st_mode) == 0o600


def test_a_copy_whose_files_cannot_be_written_keeps_the_paths_of_its_origin(tmp_path: Path) -> None:
    output = state_root(tmp_path) / "s1" / "output"
    output.mkdir(parents=True)
    (output / "1.txt").write_text("all of it")
    (state_root(tmp_path) / "s2").write_text("in the way")
    source = write_session(tmp_path, "s1")
    path = ".agentctl/state/s1/output/1.txt"
    Journal(source, lambda: NOW, str).message(Message(role="assistant", parts=(Text(text=path),)))
    fork_session(source, tmp_path / "s2.jsonl", str, root=tmp_path, session="s2", now=NOW, cwd="/v", forked_from="s1")
    assert load(tmp_path / "s2.jsonl").history == load(source).history


def test_verify_names_every_kind_of_damage(tmp_path: Path) -> None:
    path = write_session(tmp_path, "s1")
    assert verify(path).is_whole
    lines = path.read_bytes().splitlines(keepends=True)
    answer = {"role": "tool", "parts": [{"part": "answer", "call_id": "gone", "name": "x", "content": 5}]}
    bad = dumps({"record": "message", "message": answer}) + b"\n"
    lost = bad.replace(b"5}", b'"5"}')
    path.write_bytes(
        b"".join([*lines[:2], b"{\n", bad, lost, b'{"record":"usage","usage":{"input":-1}}\n', *lines[2:]])
    )
    with path.open("ab") as file:
        file.write(b'{"record":"future"}\n{"rec')
    found = verify(path)
    assert [damage.line for damage in found.damage] == [3, 4, 5, 6]
    assert "content is int" in found.damage[1].why
    assert "'gone'" in found.damage[2].why
    assert (found.torn_bytes, found.unknown) == (5, 1)
    renamed = path.rename(tmp_path / "other.jsonl")
    assert verify(renamed).damage[0].line == 0
    for content in (b"", b"?\n", b'{"record":"header","format":9}\n'):
        renamed.write_bytes(content)
        assert verify(renamed).damage[0].line == 0
    assert verify(tmp_path).damage[0].line == 0


def test_another_folders_session_is_named_also_when_it_cannot_be_read(tmp_path: Path) -> None:
    write_session(tmp_path / "one", "abc")
    (tmp_path / "one" / "def.jsonl").write_text("?")
    sessions = Sessions(tmp_path / "two")
    with pytest.raises(UsageError, match="another folder: /w"):
        sessions.find("ab")
    with pytest.raises(UsageError, match=r"another folder.*def\.jsonl"):
        sessions.find("def")


def test_a_journal_that_cannot_come_home_is_left_free_where_it_is(tmp_path: Path) -> None:
    """The run that failed to bring it back goes on in the spare place, and must not meet its own lock there."""
    source = write_session(tmp_path / "spare" / "sessions" / "key", "s")
    with pytest.raises(OSError, match=r"\S"):
        bring_back(source, tmp_path / "no such folder" / "s.jsonl")
    lock_file(source.with_suffix(".lock")).release()
    assert load(source).turns == 1
