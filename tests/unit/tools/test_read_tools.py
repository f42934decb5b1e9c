"""read_file, read_many_files, list_dir."""

from __future__ import annotations

import os
import time
import tracemalloc

import pytest

from agentctl.core.errors import InvalidArguments
from tests.unit.tools.file_tools import Desk, subjects

NUMBERED = "".join(f"line {number}\n" for number in range(1, 5001))


@pytest.mark.parametrize(
    ("data", "args", "shown"),
    [
        (b"a\nb\n", {}, "1: a\n2: b"),
        (b"a\nb", {}, "1: a\n2: b"),
        (b"a\n\n\nb\n\n", {}, "1: a\n2: \n3: \n4: b\n5: "),
        (b"a\r\nb\r\n", {}, "1: a\n2: b"),
        (b"", {}, "f is empty."),
        (b"\n", {}, "1: "),
        (b"a\nb\nc\n", {"offset": 2}, "2: b\n3: c"),
        (b"a\nb\nc\n", {"offset": 2, "limit": 1}, "2: b\n... [more lines follow; go on with offset=3]"),
        (b"a\nb\nc\n", {"offset": "3", "limit": "9"}, "3: c"),
        ("\ufeffé\n".encode(), {}, "1: é"),
        ("é\n".encode("utf-16"), {}, "1: é"),
        ("\ufeffé\nü".encode("utf-16-be"), {"offset": 2}, "2: ü"),
        (b"caf\xe9\n", {}, "1: caf\ufffd\n[not all of it is UTF-8; \ufffd stands for other bytes]"),
        ("a\ufffdb\n".encode(), {}, "1: a\ufffdb"),
        ("a\u2028b\x85c\x0cd\n".encode(), {}, "1: a\u2028b\x85c\x0cd"),
    ],
)  # fmt: skip
def test_what_a_file_looks_like(desk: Desk, data: bytes, args: dict[str, object], shown: str) -> None:
    desk.put("f", data)
    assert desk.call("read_file", path="f", **args) == shown


def test_the_first_2000_lines_and_how_to_go_on(desk: Desk) -> None:
    desk.put("f", NUMBERED)
    lines = desk.call("read_file", path="f").split("\n")
    assert (len(lines), lines[0], lines[-2]) == (2001, "1: line 1", "2000: line 2000")
    assert lines[-1] == "... [more lines follow; go on with offset=2001]"
    lines = desk.call("read_file", path="f", offset=4001).split("\n")
    assert (len(lines), lines[0], lines[-1]) == (1000, "4001: line 4001", "5000: line 5000")


@pytest.mark.parametrize("offset", [1, 2, 100, 4999, 5000])
def test_every_line_has_its_own_number_across_blocks(desk: Desk, offset: int) -> None:
    desk.put("f", "".join(f"{number} {'x' * (number % 400)}\n" for number in range(1, 5001)))
    lines = desk.call("read_file", path="f", offset=offset, limit=10_000).split("\n")
    assert lines == [f"{number}: {number} {'x' * (number % 400)}" for number in range(offset, 5001)]


@pytest.mark.parametrize(
    ("data", "args", "error"),
    [
        (b"a\0b", {}, "'f' is a binary file, not text. Use bash"),
        (b"x" * 8000 + b"\0", {}, "'f' is a binary file"),
        (b"\xff\xfea", {}, "'f' is a binary file"),
        (b"a\nb\n", {"offset": 3}, "'f' has 2 lines; there is no line 3."),
        (b"a\nb", {"offset": 3}, "'f' has 2 lines; there is no line 3."),
        (b"a\nb", {"offset": 300}, "'f' has 2 lines; there is no line 300."),
        (b"", {"offset": 2}, "'f' has 0 lines; there is no line 2."),
    ],
)
def test_what_cannot_be_read(desk: Desk, data: bytes, args: dict[str, int], error: str) -> None:
    desk.put("f", data)
    assert desk.refusal("read_file", path="f", **args).startswith(error)


def test_a_nul_far_inside_is_still_text(desk: Desk) -> None:
    desk.put("f", b"a\n" * 5000 + b"\0\n")
    assert desk.call("read_file", path="f", offset=5001) == "5001: \0"


def test_files_that_are_none(desk: Desk) -> None:
    desk.put("d/f")
    assert desk.refusal("read_file", path="nope").startswith("No such file: 'nope'.")
    assert desk.refusal("read_file", path="d").startswith("'d' is a folder")
    assert desk.refusal("read_file", path="../x").startswith("'../x' leads out of the workspace")


@pytest.mark.parametrize("args", [{}, {"path": "f", "offset": 0}, {"path": "f", "limit": 0}, {"path": "f", "lines": 3}])
def test_arguments_that_do_not_fit_name_the_fields(desk: Desk, args: dict[str, object]) -> None:
    with pytest.raises(InvalidArguments, match=r"Fields: path, offset\?, limit\?\.$"):
        desk.result("read_file", **args)


def test_huge_files_cost_little_memory_and_time(desk: Desk) -> None:
    sparse = desk.put("sparse", b"first\n" + b"x" * 9000)
    os.truncate(sparse, 3_000_000_000)
    desk.put("long", b"y" * 30_000_000 + b"\nsecond\n")
    os.truncate(desk.put("endless", b"z" * 9000), 3_000_000_000)
    tracemalloc.start()
    started = time.process_time()
    shown = desk.call("read_file", path="sparse", limit=1)
    assert shown == "1: first\n... [more lines follow; go on with offset=2]"
    assert desk.call("read_file", path="long") == f"1: {'y' * 2000}… [line cut, 30,000,000 bytes in all]\n2: second"
    head, note = desk.call("read_file", path="endless").split("\n")
    assert head.startswith(f"1: {'z' * 2000}… [line cut, more than 100,")
    assert note == "... [more lines follow; go on with offset=2]"
    assert time.process_time() - started < 5
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_many_files_come_in_the_order_asked_and_fail_in_place(desk: Desk) -> None:
    desk.put("a", "1\n2\n3\n")
    desk.put("b", b"\0")
    desk.put("c", "last")
    shown = desk.call(
        "read_many_files",
        files=[{"path": "a", "offset": 2, "limit": 1}, {"path": "b"}, {"path": "../x"}, {"path": "c"}, {"path": "c"}],
    )
    blocks = shown.split("\n\n")
    assert blocks[0] == "===== a =====\n2: 2\n... [more lines follow; go on with offset=3]"
    assert blocks[1].startswith("===== b =====\n[unreadable: 'b' is a binary file")
    assert blocks[2].startswith("===== ../x =====\n[unreadable: '../x' leads out of the workspace")
    assert blocks[3:] == ["===== c =====\n1: last"] * 2


@pytest.mark.parametrize("count", [0, 21])
def test_between_one_and_twenty_files(desk: Desk, count: int) -> None:
    with pytest.raises(InvalidArguments, match="files: List should have at"):
        desk.result("read_many_files", files=[{"path": "a"}] * count)


def test_a_folder_as_a_tree(desk: Desk) -> None:
    for path in ("b/c/d/e", "b/f", "skip.log", "node_modules/x", ".git/config"):
        desk.put(path)
    desk.put("a.txt", b"x" * 2048)
    desk.put("big", b"x" * 1_572_864)
    desk.put(".gitignore", "*.log\n")
    (desk.root / "link").symlink_to("b")
    (desk.root / "gone").symlink_to("nowhere")
    os.mkfifo(desk.root / "pipe")
    assert desk.call("list_dir") == (
        ".gitignore  6B\na.txt  2.0K\nb/\n  c/\n  f  0B\nbig  1.5M\ngone -> nowhere\nlink/ -> b\npipe (no regular file)"
    )
    assert desk.call("list_dir", path="b", depth=3) == "c/\n  d/\n    e  0B\nf  0B"
    assert desk.call("list_dir", path="link", depth=1) == "c/\nf  0B"
    assert "skip.log  0B" in desk.call("list_dir", includeIgnored=True).split("\n")


def test_a_long_list_is_cut_and_says_so(desk: Desk) -> None:
    for number in range(301):
        desk.put(f"f{number:03}")
    lines = desk.call("list_dir").split("\n")
    assert (len(lines), lines[299]) == (301, "f299  0B")
    assert lines[300].startswith("... [300-entry limit reached")
    (desk.root / "f300").unlink()
    assert len(desk.call("list_dir").split("\n")) == 300


def test_folders_without_anything_to_show(desk: Desk) -> None:
    (desk.root / "empty").mkdir()
    desk.put("f")
    desk.put("out/x")
    desk.put(".gitignore", "out/\n")
    assert desk.call("list_dir", path="empty").startswith("empty is empty, or everything in it is ignored")
    assert desk.call("list_dir", path="out").startswith("out is empty, or everything in it is ignored")
    assert desk.call("list_dir", path="empty", includeIgnored=True) == "empty is empty."
    assert desk.refusal("list_dir", path="f").startswith("Not a folder: 'f'.")
    assert desk.refusal("list_dir", path="nope").startswith("No such folder: 'nope'.")


def test_odd_names_are_shown_escaped(desk: Desk) -> None:
    for name in (b"a\nb", b"c\x1b[31m", b"caf\xe9", "é".encode()):
        fd = os.open(os.path.join(os.fsencode(desk.root), name), os.O_CREAT, 0o600)
        os.close(fd)
    assert desk.call("list_dir") == "a\\nb  0B\nc\\x1b[31m  0B\ncaf\\xe9  0B\né  0B"
    assert "only be reached through bash" in desk.refusal("read_file", path="caf\\xe9")


def test_the_policy_sees_every_path() -> None:
    assert subjects("read_file", path="./a") == [("./a", "read")]
    assert subjects("read_many_files", files=[{"path": "a b"}, {"path": ".env"}]) == [("a b", "read"), (".env", "read")]
    assert subjects("list_dir") == [(".", "read")]
    assert subjects("list_dir", path="x") == [("x", "read")]
