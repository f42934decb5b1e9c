from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import InvalidArguments, ToolFailure
from agentctl.core.locks import lock_file
from agentctl.state import folder as folder_module
from agentctl.state.focus import MAX_DEPTH, Focus
from agentctl.state.focus_tools import FocusComplete, FocusTask
from agentctl.state.folder import SessionFolder
from agentctl.state.notebook import HINT_CHARS, MAX_CHARS, VERSIONS, Notebook, Pointer, revision_of
from agentctl.state.notebook_tools import AddState, CompactState, ReadState
from agentctl.state.toolset import CLASSES, load_class

SESSION = "01a2-session"
PROJECT = Path(__file__).parents[3]


class Desk:
    """The state tools of one session in a workspace."""

    def __init__(self, root: Path, session: str = SESSION, **options: Any) -> None:
        self.folder = SessionFolder(root, session, **options)
        self.notebook = Notebook(self.folder, lambda text: text.replace("s3cret", "***"))
        self.focus = Focus(self.folder, lambda: "2030-01-01T00:00:00.000Z")
        self.tools = {
            "add_state": AddState(self.notebook),
            "read_state": ReadState(self.notebook),
            "compact_state": CompactState(self.notebook),
            "focus_task": FocusTask(self.focus),
            "focus_complete": FocusComplete(self.focus),
        }

    def call(self, name: str, **args: object) -> str:
        tool: Any = self.tools[name]
        return str(asyncio.run(tool.run("c", tool.definition.arguments.parse(args))).content)

    @property
    def revision(self) -> str:
        return revision_of(self.notebook.text)

    def stored(self, name: str) -> str:
        return (self.folder.path / name).read_text("utf-8")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# --- the notebook ---------------------------------------------------------------------------------------------------


def test_notes_are_paragraphs_and_the_result_does_not_repeat_them(desk: Desk) -> None:
    assert desk.call("add_state", text="root cause is the LYNX loop") == "Noted: 1 note, 28 characters."
    assert desk.call("add_state", text=" goal:\n\n\n ship it \n") == "Noted: 2 notes, 44 characters."
    assert desk.stored("notebook.md") == "root cause is the LYNX loop\n\ngoal:\n ship it\n"


def test_reading_shows_size_revision_and_text(desk: Desk) -> None:
    assert desk.call("read_state") == f"Notebook: 0 notes, 0 characters, revision {revision_of('')}."
    desk.call("add_state", text="one")
    assert desk.call("read_state") == f"Notebook: 1 note, 4 characters, revision {desk.revision}.\none"


def test_pages_are_characters_and_say_what_is_left(desk: Desk) -> None:
    desk.call("add_state", text="漢" * 100)
    first = desk.call("read_state", offset=0, limit=60)
    assert first.splitlines()[1:] == ["漢" * 60, "[41 characters more: offset 60]"]
    assert desk.call("read_state", offset=60).splitlines()[1:] == ["漢" * 40]
    assert len(desk.call("read_state", offset=5_000).splitlines()) == 1


@pytest.mark.parametrize("unit", ["a", "漢"])
def test_the_hint_and_the_refusal_count_characters(desk: Desk, unit: str) -> None:
    assert "compact_state" not in desk.call("add_state", text=unit * (HINT_CHARS - 1))
    assert "compact_state" in desk.call("add_state", text="x")
    desk.folder.write("notebook.md", unit * (MAX_CHARS - 4) + "\n")
    desk.call("add_state", text="x")
    before = desk.notebook.text
    assert len(before) == MAX_CHARS
    with pytest.raises(ToolFailure, match=r"64,000 is the limit\. read_state, then compact_state"):
        desk.call("add_state", text="y")
    assert desk.notebook.text == before


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_note_is_refused(desk: Desk, text: str) -> None:
    with pytest.raises((ToolFailure, InvalidArguments)):
        desk.call("add_state", text=text)
    assert not desk.folder.path.exists() or not (desk.folder.path / "notebook.md").exists()


def test_compacting_keeps_the_earlier_text(desk: Desk) -> None:
    desk.call("add_state", text="a" * 50)
    said = desk.call("compact_state", text=" short ", revision=desk.revision.upper())
    assert said == "Compacted: 51 → 6 characters; the earlier text is kept as version 1."
    assert (desk.stored("notebook.md"), desk.stored("notebook.1.md")) == ("short\n", "a" * 50 + "\n")


def test_compacting_what_was_not_read_is_refused(desk: Desk) -> None:
    desk.call("add_state", text="one")
    read = desk.revision
    desk.call("add_state", text="two")
    with pytest.raises(ToolFailure, match=f"is at revision {desk.revision}, not at '{read}'"):
        desk.call("compact_state", text="only one", revision=read)
    (desk.folder.path / "notebook.md").write_text("changed by hand")
    with pytest.raises(ToolFailure):
        desk.call("compact_state", text="x", revision=read)
    assert desk.stored("notebook.md") == "changed by hand"
    with pytest.raises(ToolFailure, match="limit"):
        desk.call("compact_state", text="x" * (MAX_CHARS + 1), revision=desk.revision)


def test_the_newest_versions_are_kept(desk: Desk) -> None:
    for number in range(VERSIONS + 3):
        desk.call("compact_state", text=f"text {number}", revision=desk.revision)
    assert desk.notebook.versions() == list(range(4, VERSIONS + 4))
    assert desk.stored(f"notebook.{VERSIONS + 3}.md") == f"text {VERSIONS + 1}\n"


def test_the_pointer_says_how_much_and_nothing_of_it(desk: Desk) -> None:
    pointer = Pointer(desk.notebook, is_due=True)
    assert pointer.render() == ""
    desk.call("add_state", text="root cause is the LYNX loop")
    assert pointer.render() == "Notebook of this session: 1 note, 28 characters; read_state shows them."
    pointer.is_due = False
    assert pointer.render() == ""


# --- the folder -----------------------------------------------------------------------------------------------------


def test_it_is_made_at_the_first_write_private_and_invisible_to_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    desk = Desk(tmp_path)
    desk.call("read_state")
    assert not (tmp_path / ".agentctl").exists()
    desk.call("add_state", text="x")
    desk.call("focus_task", task="y")
    assert oct((desk.folder.path / "notebook.md").stat().st_mode)[-3:] == "600"
    assert oct(desk.folder.path.stat().st_mode)[-3:] == "700"
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"]
    assert subprocess.run(status, check=True, capture_output=True).stdout == b""


def test_an_ephemeral_session_reads_what_is_there_and_writes_nothing(tmp_path: Path) -> None:
    Desk(tmp_path).call("add_state", text="from before")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    desk = Desk(tmp_path, is_ephemeral=True)
    desk.call("add_state", text="in memory")
    desk.call("focus_task", task="detour")
    assert "from before\n\nin memory" in desk.call("read_state")
    desk.call("compact_state", text="all", revision=desk.revision)
    assert desk.call("read_state").endswith("\nall")
    assert desk.focus.stack == ["detour"]
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_fork_begins_with_what_its_origin_had_and_leaves_it_alone(tmp_path: Path) -> None:
    origin = Desk(tmp_path)
    origin.call("add_state", text="old")
    origin.call("focus_task", task="a")
    fork = Desk(tmp_path, "fork", origin=SESSION)
    fork.call("add_state", text="new")
    assert fork.focus.stack == ["a"]
    assert (fork.notebook.text, origin.notebook.text) == ("old\n\nnew\n", "old\n")


@pytest.mark.parametrize("place", [".agentctl", ".agentctl/state", f".agentctl/state/{SESSION}"])
def test_a_link_in_its_place_is_never_followed(tmp_path: Path, place: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / place).parent.mkdir(parents=True)
    (outside / "state" / SESSION).mkdir(parents=True)
    (outside / SESSION).mkdir()
    (root / place).symlink_to(outside)
    for folder in (outside, outside / SESSION, outside / "state" / SESSION):
        (folder / "notebook.md").write_text("not ours")
    desk = Desk(root)
    before = sorted(str(path) for path in outside.rglob("*"))
    with pytest.raises(OSError, match="leads out"):
        desk.call("add_state", text="x")
    with pytest.raises(OSError, match="leads out"):
        desk.call("read_state")
    assert Pointer(desk.notebook, is_due=True).render() == ""
    assert sorted(str(path) for path in outside.rglob("*")) == before


def test_a_link_or_a_pipe_in_place_of_the_notebook_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.call("focus_task", task="x")
    (tmp_path / "secret").write_text("not ours")
    (desk.folder.path / "notebook.md").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="leads out"):
        desk.call("read_state")
    (desk.folder.path / "notebook.md").unlink()
    os.mkfifo(desk.folder.path / "notebook.md")
    with pytest.raises(OSError, match="regular"):
        desk.call("read_state")


WRITER = """
import asyncio, sys
from pathlib import Path
from tests.unit.state.test_notebook import Desk
desk = Desk(Path(sys.argv[1]))
for number in range(15):
    desk.call("add_state", text=f"{sys.argv[2]}-{number}")
"""


def test_notes_of_several_processes_are_all_there_and_whole(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name], env=env) for name in ("a", "b", "c")
    ]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]
    notes = Desk(tmp_path).notebook.text.strip().split("\n\n")
    assert sorted(notes) == sorted(f"{name}-{number}" for name in "abc" for number in range(15))


def test_a_holder_that_does_not_let_go_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.call("add_state", text="x")
    monkeypatch.setattr(folder_module, "LOCK_WAIT_S", 0.05)
    with (
        lock_file(desk.folder.path / ".lock"),
        pytest.raises(ToolFailure, match=f"being written by process {os.getpid()}"),
    ):
        desk.call("add_state", text="y")


# --- the focus stack ------------------------------------------------------------------------------------------------


def test_push_and_pop_with_a_conclusion(desk: Desk) -> None:
    assert desk.call("focus_task", task="fix the\nloop") == "Focus 1: fix the loop."
    assert desk.call("focus_task", task="read the log") == "Focus 2: read the log. Waiting below: fix the loop."
    assert json.loads(desk.stored("focus.json")) == ["fix the loop", "read the log"]
    assert desk.call("focus_complete", conclusion="it is\nfull") == "Done: read the log. Back to: fix the loop."
    assert desk.call("focus_complete", conclusion="fixed") == "Done: fix the loop. The stack is empty."
    assert json.loads(desk.stored("focus.json")) == []
    log = (desk.folder.path.parent / "focus.log").read_text().splitlines()
    entry = {"time": "2030-01-01T00:00:00.000Z", "session": SESSION}
    assert [json.loads(line) for line in log] == [
        {**entry, "action": "push", "task": "fix the loop", "depth": 1},
        {**entry, "action": "push", "task": "read the log", "depth": 2},
        {**entry, "action": "pop", "task": "read the log", "conclusion": "it is full", "depth": 1},
        {**entry, "action": "pop", "task": "fix the loop", "conclusion": "fixed", "depth": 0},
    ]


Error = tuple[Callable[[Desk], str], str]
ERRORS: dict[str, Error] = {
    "empty pop": (lambda desk: desk.call("focus_complete", conclusion="x"), "The stack is empty: .* focus_task begins"),
    "duplicate on top": (
        lambda desk: "".join(desk.call("focus_task", task="a") for _ in "ab"),
        "'a' is on top of the stack",
    ),
    "duplicate below": (
        lambda desk: "".join(desk.call("focus_task", task=name) for name in "aba"),
        "'a' is in the stack",
    ),
    "too deep": (
        lambda desk: "".join(desk.call("focus_task", task=f"t{n}") for n in range(MAX_DEPTH + 1)),
        "16 deep, which is the limit",
    ),
    "blank task": (lambda desk: desk.call("focus_task", task=" \n"), "The task is empty"),
    "blank conclusion": (
        lambda desk: desk.call("focus_task", task="a") + desk.call("focus_complete", conclusion=" "),
        "The conclusion is empty",
    ),
}


@pytest.mark.parametrize(("act", "said"), ERRORS.values(), ids=ERRORS)
def test_defined_errors_change_nothing(desk: Desk, act: Callable[[Desk], str], said: str) -> None:
    with pytest.raises(ToolFailure, match=said):
        act(desk)
    assert desk.focus.stack == [f"t{n}" for n in range(MAX_DEPTH)] if "deep" in said else len(desk.focus.stack) < 3


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[1]"])
def test_a_damaged_stack_is_said_and_left_as_it_is(desk: Desk, text: str) -> None:
    desk.folder.write("focus.json", text)
    with pytest.raises(ToolFailure, match=r"focus\.json of this session is damaged"):
        desk.call("focus_task", task="a")
    assert desk.stored("focus.json") == text


def test_a_log_that_cannot_be_written_loses_lines_but_never_the_stack(desk: Desk) -> None:
    desk.call("add_state", text="x")
    (desk.folder.path.parent / "focus.log").mkdir()
    desk.call("focus_task", task="a")
    assert desk.focus.stack == ["a"]


@pytest.mark.parametrize("name", CLASSES)
def test_every_state_tool_says_what_its_row_says(name: str) -> None:
    from agentctl.tools.sets import read_catalogue

    assert load_class(name).definition.catalogue_row() == read_catalogue()[name]


def test_the_four_triggers_stand_in_the_guidance() -> None:
    said = AddState.definition.description
    for trigger in (
        "the moment it happens",
        "a decision, denial or answer",
        "root cause",
        "acceptance criteria",
        "milestone",
    ):
        assert trigger in said
