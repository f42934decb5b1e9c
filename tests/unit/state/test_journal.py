from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentctl.core.codec import loads
from agentctl.core.errors import JournalError, UsageError
from agentctl.core.types import Image, Message, Opaque, Reasoning, Text, Todo, ToolAnswer, ToolCall, Usage
from agentctl.state.journal import Journal, in_place, is_blank, load
from agentctl.state.sessions import Sessions, new_id

OPAQUE = Opaque(provider="http://127.0.0.1", api="anthropic-messages", model="m", data={"signature": "AAA="})
PROMPT = Message(role="user", parts=(Text(text="go"), Image(media_type="image/png", data="aGk=")))
ASKED = Message(
    role="assistant",
    parts=(
        Reasoning(text="hm", opaque=OPAQUE),
        Text(text="I look"),
        ToolCall(id="c1", name="read_file", arguments="{}"),
    ),
)
RESULT = Message(
    role="tool", parts=(ToolAnswer(call_id="c1", name="read_file", content="1: x\u2028\ud83d", images=()),)
)


def open_journal(path: Path) -> Journal:
    return Journal(path, lambda: "2030-01-01T00:00:00.000Z", lambda text: text.replace("hunter2", "[masked:X]"))


def written(folder: Path) -> Path:
    path = folder / "sessions" / "s1.jsonl"
    journal = open_journal(path)
    journal.header(session="s1", cwd="/w", model="fake/m", agent="default", policy="d")
    journal.turn(1, PROMPT)
    journal.message(ASKED)
    journal.usage(Usage(input=5, output=2), 0.25)
    journal.message(RESULT)
    journal.todos([Todo(content="a", status="done")])
    journal.usage(Usage(input=1), 0.5)
    journal.end("completed", 0)
    return path


def test_everything_comes_back(tmp_path: Path) -> None:
    saved = load(written(tmp_path))
    assert saved.history[:2] == (PROMPT, ASKED)
    assert saved.history[2].parts[0].content == "1: x\u2028\ufffd"  # type: ignore[union-attr]
    assert (saved.id, saved.cwd, saved.turns, saved.title, saved.ended) == ("s1", "/w", 1, "go", "completed")
    assert (saved.usage, saved.cost_usd) == (Usage(input=6, output=2), 0.75)
    assert saved.todos == (Todo(content="a", status="done"),)


def test_files_and_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_journal_cut_at_any_byte_loads_with_every_whole_record(tmp_path: Path) -> None:
    whole = written(tmp_path).read_bytes()
    lines = whole.splitlines(keepends=True)
    header = len(lines[0])
    for length in range(header, len(whole) + 1):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(whole[:length])
        kept = whole[:length].count(b"\n")
        kinds = [loads(line)["record"] for line in lines[:kept]]
        saved = load(path)
        assert len(saved.history) == kinds.count("turn") + kinds.count("message")


def test_going_on_after_a_torn_record_loses_only_that_record(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    journal = open_journal(path)
    journal.turn(2, PROMPT)
    saved = load(path)
    assert (saved.turns, len(saved.history), saved.ended) == (2, 4, None)
    assert all(loads(line) for line in path.read_bytes().split(b"\n") if line)


def test_unknown_records_are_kept_and_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"record":"future","x":1}\nnot json\n[1]\n')
    assert len(load(path).history) == 3


def test_secrets_are_masked_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    journal = open_journal(path)
    journal.header(session="s", cwd="hunter2", model="m", agent="a", policy="p")
    journal.turn(1, Message(role="user", parts=(Text(text="x hunter2 y"),)))
    assert b"hunter2" not in path.read_bytes()
    assert b"[masked:X]" in path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"\n", b"garbage\n", b'{"record":"header","format":99}\n', b"\0" * 500])
def test_a_file_that_is_no_journal_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.jsonl"):
        load(path)


def test_a_journal_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file where the folder should be")
    with pytest.raises(JournalError, match="cannot be opened"):
        open_journal(tmp_path / "sessions" / "s.jsonl")


def test_ids_are_version_7_unique_and_in_the_order_of_time() -> None:
    ids = [new_id() for _ in range(500)]
    assert len(set(ids)) == 500
    assert {one[14] for one in ids} == {"7"}
    assert {one[19] for one in ids} <= set("89ab")
    assert ids[0][:8] <= ids[-1][:8]


def test_the_newest_readable_session_is_found_and_broken_ones_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    with pytest.raises(UsageError, match="no saved session"):
        Sessions(folder).newest()
    path = written(tmp_path)
    broken = folder / "broken.jsonl"
    broken.write_text("?")
    os.utime(path, ns=(1, 1))
    sessions = Sessions(folder)
    newest, passed_over = sessions.newest()
    found = sessions.listed()
    assert newest == "s1"
    assert [row["id"] for row in found.sessions] == ["s1"]
    assert [Path(problem.what).name for problem in (*passed_over, *found.problems)] == ["broken.jsonl"] * 2


def test_lines_that_cannot_be_read_are_counted_and_the_rest_comes_back(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    welded = lines[2][:-1] + lines[3]
    path.write_bytes(
        b"".join([*lines[:2], welded, b'{"record":"message","message":{"role":"tool"}}\n', b"[1]\n", *lines[4:]])
    )
    saved = load(path)
    assert [(found.line, found.why) for found in saved.damage] == [
        (3, "it is not JSON"),
        (4, "the values of its message cannot be read"),
        (5, "it is not a record"),
    ]
    assert [message.role for message in saved.history] == ["user", "tool"]


def test_a_file_with_nothing_whole_is_blank_and_one_with_damage_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for content, expected in [
        (b"", True),
        (b'{"record":"hea', True),
        (b"\0" * 100_000, True),
        (b"garbage\n", False),
        (b'{"record":"header"}\n', False),
    ]:
        path.write_bytes(content)
        assert is_blank(path) is expected


def test_a_later_version_is_named_and_its_kinds_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"record":"future","time":"2031"}\n')
    saved = load(path)
    assert (saved.unknown, saved.updated, saved.ended) == (1, "2031", "completed")
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2'))
    with pytest.raises(UsageError, match="newer agentctl"):
        load(path)


def test_a_later_header_says_with_what_the_session_went_on(tmp_path: Path) -> None:
    path = written(tmp_path)
    journal = open_journal(path)
    journal.header(session="s1", cwd="/elsewhere", model="other/n", agent="deep", policy="e")
    saved = load(path)
    assert (saved.id, saved.cwd, saved.model, saved.agent, saved.policy) == ("s1", "/elsewhere", "other/n", "deep", "e")
    assert (saved.turns, saved.ended) == (1, "completed")


def test_answers_written_after_the_next_prompt_stand_behind_their_call() -> None:
    second = Message(role="user", parts=(Text(text="go on"),))
    other = Message(role="tool", parts=(ToolAnswer(call_id="c2", name="bash", content="ok"),))
    asked = ASKED.replace(parts=(*ASKED.parts, ToolCall(id="c2", name="bash", arguments="{}")))
    end = Message(role="assistant", parts=(Text(text="done"),))
    written_down = [PROMPT, asked, other, second, RESULT, end]
    assert in_place(written_down) == (PROMPT, asked, other, RESULT, second, end)
    assert in_place([PROMPT, ASKED, RESULT, second, end]) == (PROMPT, ASKED, RESULT, second, end)
    assert in_place([RESULT]) == (RESULT,)


def test_wide_rights_are_taken_away(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    open_journal(path)
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
