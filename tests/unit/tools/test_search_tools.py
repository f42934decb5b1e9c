"""glob and grep: the same files in the same order, bounded, and with ripgrep or without it the same answer."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from pathlib import Path

import pytest

from agentctl.config.workspace import Workspace
from agentctl.core.errors import ToolFailure
from agentctl.core.regex import LineSearch
from agentctl.tools.ripgrep import find_rg
from agentctl.tools.search import Grep
from tests.unit.tools.file_tools import Desk, subjects

RG = find_rg(Path("/nowhere"))


@pytest.fixture
def tree(desk: Desk) -> Desk:
    desk.put(".gitignore", "*.log\nout/\n")
    desk.put("a.py", "import os\nprint('Hello')\n")
    desk.put("src/b.py", "x = 1\n# hello (world)\n")
    desk.put("src/deep/c.txt", "nothing\r\nhello\r\n")
    desk.put("src.py", "hello")
    desk.put("out/d.py", "hello\n")
    desk.put("e.log", "hello\n")
    desk.put("bin", b"hello\0")
    desk.put("wide.txt", "hello wide\n".encode("utf-16"))
    desk.put(".git/x", "hello\n")
    desk.put("node_modules/x", "hello\n")
    (desk.root / "link.py").symlink_to("a.py")
    os.mkfifo(desk.root / "pipe.py")
    return desk


@pytest.mark.parametrize(
    ("args", "files"),
    [
        ({"pattern": "*.py"}, ["a.py", "link.py", "src.py"]),
        ({"pattern": "**/*.py"}, ["a.py", "link.py", "src/b.py", "src.py"]),
        ({"pattern": "src/**"}, ["src/b.py", "src/deep/c.txt"]),
        ({"pattern": "./src/./deep/*"}, ["src/deep/c.txt"]),
        ({"pattern": "**/*.{log,txt}", "includeIgnored": True}, ["e.log", "src/deep/c.txt", "wide.txt"]),
        ({"pattern": "out/*"}, ["No files matched.", "[the folder is ignored; includeIgnored searches it]"]),
        ({"pattern": "nope/*"}, ["No files matched."]),
        ({"pattern": "**/*.py", "limit": 2}, ["a.py", "link.py", "... [2-file limit reached; narrow the pattern]"]),
    ],
)
def test_glob(tree: Desk, args: dict[str, object], files: list[str]) -> None:
    assert tree.call("glob", **args).split("\n") == files


def test_glob_shows_200_files_and_says_when_there_are_more(desk: Desk) -> None:
    for number in range(201):
        desk.put(f"f{number:03}")
    lines = desk.call("glob", pattern="*").split("\n")
    assert (len(lines), lines[199], lines[200][:26]) == (201, "f199", "... [200-file limit reache")
    assert len(desk.call("glob", pattern="*", limit=201).split("\n")) == 201


B, SRC = "src/b.py:2: # hello (world)", "src.py:1: hello"
IGNORED = "[the folder is ignored; includeIgnored searches it]"


@pytest.mark.parametrize(
    ("pattern", "args", "lines"),
    [
        ("hello", {}, [B, "src/deep/c.txt:2: hello", SRC, "wide.txt:1: hello wide"]),
        ("HELLO", {"ignoreCase": True, "include": "*.py"}, ["a.py:2: print('Hello')", B, SRC]),
        ("hello$", {"include": "src/**/*.txt"}, ["src/deep/c.txt:2: hello"]),
        ("^(import|x) ", {}, ["a.py:1: import os", "src/b.py:1: x = 1"]),
        ("(?<=x )=", {}, ["src/b.py:1: x = 1"]),
        ("hello", {"include": "*.{log,py}", "includeIgnored": True}, ["e.log:1: hello", "out/d.py:1: hello", B, SRC]),
        ("hello", {"include": "out/**"}, ["No matches.", IGNORED]),
        ("absent", {}, ["No matches."]),
        ("hello", {"include": "nope/**"}, ["No matches."]),
        ("$^", {"include": "src/**"}, ["No matches."]),
    ],
)
def test_grep(tree: Desk, pattern: str, args: dict[str, object], lines: list[str]) -> None:
    assert tree.call("grep", pattern=pattern, **args).split("\n") == lines


@pytest.mark.parametrize("pattern", ["(", "[a", "*x", "(?P<n"])
def test_a_bad_regex_is_told_even_when_nothing_is_searched(desk: Desk, pattern: str) -> None:
    error = desk.refusal("grep", pattern=pattern)
    assert error.startswith("Invalid regex: ")
    assert "Escape characters that are meant literally." in error


def test_grep_shows_200_hits_and_cuts_long_lines(desk: Desk) -> None:
    desk.put("a", "x\n" * 150 + "y" * 301 + "x\n")
    desk.put("b", "x\n" * 50)
    lines = desk.call("grep", pattern="x").split("\n")
    assert (len(lines), lines[149], lines[150], lines[199]) == (201, "a:150: x", f"a:151: {'y' * 300}…", "b:49: x")
    assert lines[200].startswith("... [200-hit limit reached")
    desk.put("b", "x\n" * 49)
    assert len(desk.call("grep", pattern="x").split("\n")) == 200


def test_what_the_policy_denies_is_neither_shown_nor_searched(tmp_path: Path) -> None:
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        return path != ".env"

    desk = Desk(tmp_path, may_read=may_read)
    desk.put(".env", "TOKEN=x\n")
    desk.put("a", "TOKEN\n")
    note = "[1 file(s) left out: the policy does not allow reading them]"
    assert desk.call("grep", pattern="TOKEN") == f"a:1: TOKEN\n{note}"
    assert desk.call("grep", pattern="(a+)+zz", includeIgnored=True) == f"No matches.\n{note}"
    assert desk.call("glob", pattern="*") == f"a\n{note}"
    assert set(asked) == {".env", "a"}


def test_large_files_are_named_instead_of_searched(desk: Desk) -> None:
    os.truncate(desk.put("big", "needle\n"), 5_000_000_000)
    desk.put("small", "needle\n")
    started = time.process_time()
    shown = desk.call("grep", pattern="needle")
    assert shown == "small:1: needle\n[1 file(s) over 20,000,000 bytes not searched: big]"
    assert time.process_time() - started < 2


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(?=a)(a+)+$", r"(a|aa)+$", r"^(\w+\s?)*\1$"])
def test_a_pattern_that_explodes_ends_in_time(desk: Desk, pattern: str) -> None:
    desk.put("hostile", "a" * 40_000 + "!\n")
    started = time.monotonic()
    if LineSearch(pattern).is_linear:
        assert desk.call("grep", pattern=pattern) == "No matches."
    else:
        assert "takes too long" in desk.refusal("grep", pattern=pattern)
    assert time.monotonic() - started < 6


def test_odd_names_and_bytes_stay_on_their_line(desk: Desk) -> None:
    fd = os.open(os.fsencode(desk.root) + b"/n\n\xff", os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(fd, b"caf\xe9 hit\n")
    os.close(fd)
    assert desk.call("grep", pattern="hit") == "n\\n\\xff:1: caf\ufffd hit"
    assert desk.call("glob", pattern="*") == "n\\n\\xff"


def test_paths_that_lead_out_are_refused(tree: Desk) -> None:
    (tree.root / "out-link").symlink_to("/etc")
    for name, key in (("glob", "pattern"), ("grep", "include")):
        for pattern in ("../*", "/etc/*", "out-link/*"):
            args = {key: pattern} if name == "glob" else {"pattern": "x", key: pattern}
            with pytest.raises(ToolFailure, match="leads out of the workspace"):
                tree.result(name, **args)


def test_added_folders_are_searched_under_their_full_names(tmp_path: Path) -> None:
    for folder in ("w", "extra/d"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "extra/d/f.py").write_text("needle\n")
    workspace = Workspace(tmp_path / "w", add_dirs=[tmp_path / "extra"])
    grep = Grep(workspace, lambda path: True)
    args = grep.definition.arguments.parse({"pattern": "needle", "include": f"{tmp_path}/extra/**/*.py"})
    assert asyncio.run(grep.run("c1", args)).content == f"{tmp_path}/extra/d/f.py:1: needle"


def test_the_policy_sees_where_a_search_starts() -> None:
    assert subjects("glob", pattern="src/**/*.py") == [("src", "read")]
    assert subjects("glob", pattern="*.py") == [(".", "read")]
    assert subjects("glob", pattern="../x/{a,b}/*") == [("../x", "read")]
    assert subjects("grep", pattern="x") == [(".", "read")]
    assert subjects("grep", pattern="x", include="*.py") == [(".", "read")]
    assert subjects("grep", pattern="x", include="/etc/*") == [("/etc", "read")]


def test_a_cancelled_search_stops_its_thread(desk: Desk) -> None:
    reached, release = threading.Event(), threading.Event()
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        reached.set()
        release.wait(5)
        return True

    for number in range(50):
        desk.put(f"f{number}", "x\n")
    grep = Grep(desk.workspace, may_read)
    args = grep.definition.arguments.parse({"pattern": "x"})

    async def cancel() -> None:
        task = asyncio.create_task(grep.run("c1", args))
        await asyncio.to_thread(reached.wait, 5)
        task.cancel()
        await asyncio.sleep(0)  # the cancellation is seen while the thread still hangs
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert len(asked) < 50


# --- with ripgrep -------------------------------------------------------------------------------------------------

WORDS = ["alpha", "beta", "gamma(", "délta", "x1", "  ", "", "end\r", "A" * 400]
PATTERNS = ["alpha", "a$", "x\\d", "gamma\\(", "(alpha|beta) x1", "délta", "^$", "\\bx1\\b"]


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
def test_ripgrep_and_the_built_in_search_say_the_same(desk: Desk) -> None:
    rng = random.Random(11)
    for number in range(260):
        folder = rng.choice(["", "d/", "d/e/", "f.x/", "-dash/"])
        text = "\n".join(" ".join(rng.choices(WORDS, k=3)) for _ in range(rng.randint(0, 6)))
        data = text.encode(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))
        desk.put(
            f"{folder}{rng.choice('ABab_')}{number}",
            data + rng.choice([b"", b"\n", b"\0\n" if number % 9 == 0 else b"\n"]),
        )
    desk.put(".gitignore", "*7\n")
    plain = Desk(desk.root, uses_rg=False)
    for pattern in PATTERNS:
        for args in ({}, {"ignoreCase": True}):
            assert desk.call("grep", pattern=pattern, **args) == plain.call("grep", pattern=pattern, **args), pattern
    assert desk.call("grep", pattern="(?<=x)1") == plain.call("grep", pattern="(?<=x)1")
    assert desk.refusal("grep", pattern="(x") == plain.refusal("grep", pattern="(x")


def test_ripgrep_in_the_workspace_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rg").write_text("#!/bin/sh\n")
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_rg(tmp_path) != str(tmp_path / "rg")
    assert find_rg(tmp_path / "elsewhere") == str(tmp_path / "rg")
