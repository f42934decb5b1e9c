"""write_file, edit_file, multi_edit: what changes on disk, and above all what does not."""

from __future__ import annotations

import os
import stat

import pytest

from agentctl.core.errors import InvalidArguments
from agentctl.core.types import FileChange, ToolResult
from tests.unit.tools.file_tools import Desk, subjects

# --- write_file ---------------------------------------------------------------------------------------------------


def test_a_new_file_with_its_folders(desk: Desk) -> None:
    assert desk.result("write_file", path="out/./a.txt", content="hé\n") == ToolResult(
        call_id="c1",
        content="Wrote 3 characters to out/a.txt.",
        summary="Wrote 3 characters to out/a.txt.",
        changed=(
            FileChange(
                path="out/a.txt", kind="added", diff="--- /dev/null\n+++ b/out/a.txt\n@@ -0,0 +1 @@\n+hé\n"
            ),
        ),
    )  # fmt: skip
    assert desk.files() == {"out/a.txt": "hé\n".encode()}


@pytest.mark.parametrize(
    ("old", "content", "new"),
    [
        (b"old\n", "new\n", b"new\n"),
        (b"\xef\xbb\xbfold\n", "new\n", b"\xef\xbb\xbfnew\n"),
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n"),
        (b"a\r\nb\r\n", "c\r\nd\n", b"c\r\nd\n"),
        ("old\r\n".encode("utf-16"), "né\n", b"\xff\xfe" + "né\r\n".encode("utf-16-le")),
        (b"caf\xe9\n", "café\n", "café\n".encode()),
        (b"\0binary", "text", b"text"),
        (b"old", "", b""),
    ],
)
def test_rewriting_keeps_encoding_mark_and_line_ends(desk: Desk, old: bytes, content: str, new: bytes) -> None:
    desk.put("f", old).chmod(0o750)
    (change,) = desk.changes("write_file", path="f", content=content)
    assert (change.path, change.kind) == ("f", "modified")
    assert desk.read("f") == new
    assert stat.S_IMODE((desk.root / "f").stat().st_mode) == 0o750


def test_the_same_content_is_not_written_again(desk: Desk) -> None:
    desk.put("f", "same\n")
    before = (desk.root / "f").stat().st_ino
    result = desk.result("write_file", path="f", content="same\n")
    assert (result.content, result.changed) == ("f holds exactly this already; nothing was written.", ())
    assert (desk.root / "f").stat().st_ino == before


@pytest.mark.parametrize(
    ("old", "new", "warns"),
    [
        ("line\n" * 10, "line " * 10, True),
        ("line\n" * 10, "line\n" * 9, False),
        ("line\n" * 10, "x", False),
        ("line\n" * 10, "line " * 40, False),
        ("", "x", False),
    ],
)
def test_lost_line_breaks_are_pointed_out(desk: Desk, old: str, new: str, warns: bool) -> None:
    desk.put("f", old)
    shown = desk.call("write_file", path="f", content=new)
    assert ("collapsed 11 lines into 1" in shown) is warns
    assert desk.read("f") == new.encode()


def test_what_is_not_written(desk: Desk) -> None:
    desk.put("d/f")
    desk.put("locked", "x").chmod(0o444)
    os.mkfifo(desk.root / "pipe")
    for path, error in {
        "d": "'d' is a folder",
        "locked": "'locked' is read-only (mode 0444)",
        "pipe": "'pipe' is not a regular file",
        "../x": "'../x' leads out",
        "d/f/x": "'d/f/x': 'd/f' is not a folder",
    }.items():
        assert desk.refusal("write_file", path=path, content="y").startswith(error)


# --- edit_file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "args", "new"),
    [
        (b"a b a", {"oldString": "b", "newString": "c"}, b"a c a"),
        (b"a b a", {"oldString": "a", "newString": "$& \\1", "replaceAll": True}, b"$& \\1 b $& \\1"),
        (b"a.c abc", {"oldString": "a.c", "newString": ""}, b" abc"),
        (b"aaa", {"oldString": "aa", "newString": "b"}, b"ba"),
        (b"x\r\ny\r\n", {"oldString": "x\ny", "newString": "1\n2\n3"}, b"1\r\n2\r\n3\r\n"),
        (b"x\r\ny\r\n", {"oldString": "x", "newString": "1\n2"}, b"1\r\n2\r\ny\r\n"),
        (b"x\r\ny\r\n", {"oldString": "x\r\ny", "newString": "1\r\n2"}, b"1\r\n2\r\n"),
        (b"x\ny\r\nz\n", {"oldString": "x\ny", "newString": "1\n2"}, b"1\n2\r\nz\n"),
        (b"x\ny\r\nz\n", {"oldString": "y\nz", "newString": "1\n2"}, b"x\n1\r\n2\n"),
        (b"no end", {"oldString": "end", "newString": "END"}, b"no END"),
        (b"\xef\xbb\xbfhead\n", {"oldString": "head", "newString": "tail"}, b"\xef\xbb\xbftail\n"),
        (b"caf\xe9 word \xff\n", {"oldString": "word", "newString": "Wort"}, b"caf\xe9 Wort \xff\n"),
        ("né\n".encode("utf-16"), {"oldString": "né", "newString": "nö"}, "nö\n".encode("utf-16")),
        (b"\xfe\xff\0a", {"oldString": "a", "newString": "ü"}, b"\xfe\xff\0\xfc"),
        ("é\u2028x\x85y".encode(), {"oldString": "x", "newString": "z"}, "é\u2028z\x85y".encode()),
    ],
)  # fmt: skip
def test_an_edit_changes_exactly_what_was_asked(desk: Desk, old: bytes, args: dict[str, object], new: bytes) -> None:
    desk.put("d/f", old).chmod(0o751)
    result = desk.result("edit_file", path="d/f", **args)
    assert desk.read("d/f") == new
    assert stat.S_IMODE((desk.root / "d/f").stat().st_mode) == 0o751
    assert [(change.path, change.kind) for change in result.changed] == [("d/f", "modified")]
    assert result.content == f"Replaced {2 if args.get('replaceAll') else 1} occurrence(s) in d/f."


@pytest.mark.parametrize(
    ("old", "args", "error"),
    [
        (b"x", {"oldString": "x", "newString": "x"}, "oldString and newString are identical."),
        (b"x", {"oldString": "", "newString": "y"}, "oldString is empty."),
        (b"x x x", {"oldString": "x", "newString": "y"}, "oldString appears 3 times in f. Add surrounding"),
        (b"abc", {"oldString": "ABC", "newString": "y"}, "oldString not found in f. It must match to the byte"),
        (b"a:\n    b\n", {"oldString": "a:\n\tb", "newString": "y"}, "oldString not found in f. Line 1 has it with ot"),
        (b"abc", {"oldString": "1: abc", "newString": "y"}, "oldString not found in f. Leave out the line numbers"),
        (b"a\0", {"oldString": "a", "newString": "y"}, "'f' is a binary file"),
        (b"caf\xe9", {"oldString": "caf", "newString": "ö"}, "The file is not UTF-8 and the new text is not"),
        (b"abc", {"oldString": "a", "newString": "\ud800"}, "newString holds half of a surrogate pair"),
    ],
)  # fmt: skip
def test_an_edit_that_does_not_fit_changes_nothing(desk: Desk, old: bytes, args: dict[str, object], error: str) -> None:
    desk.put("f", old)
    assert desk.refusal("edit_file", path="f", **args).startswith(error)


def test_an_edit_through_a_link_names_the_file_it_changed(desk: Desk) -> None:
    desk.put("real/f", "a\n")
    (desk.root / "link").symlink_to("real/f")
    (change,) = desk.changes("edit_file", path="link", oldString="a", newString="b")
    assert change.path == "real/f"
    assert (desk.root / "link").is_symlink()
    assert desk.read("real/f") == b"b\n"


def test_files_too_large_to_edit(desk: Desk) -> None:
    os.truncate(desk.put("f", "a"), 20_000_001)
    error = desk.refusal("edit_file", path="f", oldString="a", newString="b")
    assert error.startswith("'f' is larger than 20,000,000 bytes. Use bash")


# --- multi_edit ---------------------------------------------------------------------------------------------------


def test_edits_build_on_each_other_and_are_written_once(desk: Desk) -> None:
    desk.put("f", "one two two\n")
    result = desk.result(
        "multi_edit",
        path="f",
        edits=[
            {"oldString": "one", "newString": "two"},
            {"oldString": "two", "newString": "three", "replaceAll": True},
        ],
    )
    assert desk.read("f") == b"three three three\n"
    diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one two two\n+three three three\n"
    text = "Applied 2 edit(s) to f (1x, 3x)."
    change = FileChange(path="f", kind="modified", diff=diff)
    assert result == ToolResult(call_id="c1", content=text, summary=text, changed=(change,))


def test_one_bad_edit_spoils_all(desk: Desk) -> None:
    desk.put("f", "one\n")
    edits = [{"oldString": "one", "newString": "two"}, {"oldString": "one", "newString": "three"}]
    error = desk.refusal("multi_edit", path="f", edits=edits)
    assert error.startswith("edit 2: oldString not found in f.")
    assert error.endswith("No edits were applied.")


def test_edits_that_cancel_out_are_no_change(desk: Desk) -> None:
    desk.put("f", "one\n")
    edits = [{"oldString": "one", "newString": "two"}, {"oldString": "two", "newString": "one"}]
    result = desk.result("multi_edit", path="f", edits=edits)
    assert (result.content, result.changed) == ("No change to f: the edits cancel out.", ())


def test_at_least_one_edit(desk: Desk) -> None:
    with pytest.raises(InvalidArguments, match="edits: List should have at least 1"):
        desk.result("multi_edit", path="f", edits=[])


def test_the_policy_sees_the_path_as_written() -> None:
    edit = {"oldString": "a", "newString": "b"}
    assert subjects("write_file", path="a/../b", content="") == [("a/../b", "write")]
    assert subjects("edit_file", path="b", **edit) == [("b", "write")]
    assert subjects("multi_edit", path="b", edits=[edit]) == [("b", "write")]
