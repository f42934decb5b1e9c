"""move_file and delete_file."""

from __future__ import annotations

import stat

import pytest

from agentctl.core.errors import InvalidArguments
from agentctl.core.types import FileChange, ToolResult
from tests.unit.tools.file_tools import Desk, subjects


def test_moving_makes_folders_and_keeps_content_and_mode(desk: Desk) -> None:
    desk.put("a", b"\0\xff").chmod(0o755)
    text = "Moved a to x/y/b."
    assert desk.result("move_file", **{"from": "./a", "to": "x/y/b"}) == ToolResult(
        call_id="c1", content=text, summary=text, changed=(FileChange(path="a", kind="moved", moved_to="x/y/b"),)
    )
    assert desk.files() == {"x/y/b": b"\0\xff"}
    assert stat.S_IMODE((desk.root / "x/y/b").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        ("a", "a", "from and to are the same path."),
        ("a", "d/../a", "from and to are the same path."),
        ("nope", "b", "No such file: 'nope'."),
        ("a", "d/f", "'d/f' already exists. Delete it first or choose another name."),
        ("a", "d", "'d' already exists."),
        ("d", "e", "'d' is a folder."),
        ("a", "../b", "'../b' leads out"),
        ("../b", "c", "'../b' leads out"),
        ("a", "d/f/x", "'d/f/x': 'd/f' is not a folder."),
    ],
)
def test_moves_that_are_refused(desk: Desk, source: str, target: str, error: str) -> None:
    desk.put("a", "1")
    desk.put("d/f", "2")
    assert desk.refusal("move_file", **{"from": source, "to": target}).startswith(error)


def test_deleting_says_how_much_went(desk: Desk) -> None:
    desk.put("d/f", "one\ntwo\n")
    desk.put("bin", b"\0\1\2")
    (desk.root / "link").symlink_to("d/f")
    assert desk.result("delete_file", path="link").content.startswith("Deleted link (")
    text = "Deleted d/f (8 bytes)."
    diff = "--- a/d/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"
    assert desk.result("delete_file", path="d/f") == ToolResult(
        call_id="c1", content=text, summary=text, changed=(FileChange(path="d/f", kind="deleted", diff=diff),)
    )
    assert desk.changes("delete_file", path="bin") == (FileChange(path="bin", kind="deleted"),)
    assert desk.files() == {}


def test_deletes_that_are_refused(desk: Desk) -> None:
    desk.put("d/f")
    for path, error in {
        "d": "'d' is a folder.",
        ".": "'.' is a folder.",
        "x": "No such file",
        "..": "'..' leads",
    }.items():
        assert desk.refusal("delete_file", path=path).startswith(error)


def test_arguments_are_named_as_on_the_wire(desk: Desk) -> None:
    with pytest.raises(InvalidArguments, match=r"from: Field required .* Fields: from, to\.$"):
        desk.result("move_file", source="a", to="b")


def test_the_policy_sees_both_ends() -> None:
    assert subjects("move_file", **{"from": "a b", "to": "c"}) == [("a b", "write"), ("c", "write")]
    assert subjects("delete_file", path="x") == [("x", "write")]
