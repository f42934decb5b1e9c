"""The ignore-aware walk: its rules one by one, and against git itself on random trees."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from agentctl.config.ignore import Walk, walk


def plant(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def walked(root: Path, start: str = ".", **options: bool) -> list[str]:
    fd = os.open(root, os.O_RDONLY)
    try:
        return [entry.path + "/" * (entry.kind == "folder") for entry in Walk(fd, start, **options)]  # type: ignore[arg-type]  # only flags
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("rules", "files", "left"),
    [
        ({".gitignore": "*.log\n"}, ["a.log", "b/a.log", "b/c"], ["b/", "b/c"]),
        ({".gitignore": "/a\n"}, ["a", "b/a"], ["b/", "b/a"]),
        ({".gitignore": "out/\n"}, ["out/x", "b/out"], ["b/", "b/out"]),
        ({".gitignore": "*.py\n!keep.py\n"}, ["a.py", "keep.py"], ["keep.py"]),
        ({".gitignore": "!keep.py\n*.py\n"}, ["a.py", "keep.py"], []),
        ({".gitignore": "out/\n!out/keep\n"}, ["out/keep"], []),
        ({".gitignore": "*.py\n", "b/.gitignore": "!*.py\n"}, ["a.py", "b/a.py"], ["b/", "b/.gitignore", "b/a.py"]),
        ({"b/.gitignore": "/x\n"}, ["x", "b/x", "b/c/x"], ["b/", "b/.gitignore", "b/c/", "b/c/x", "x"]),
        ({".gitignore": "a/**/z\n"}, ["a/z", "a/b/c/z", "z"], ["a/", "a/b/", "a/b/c/", "z"]),
        ({".gitignore": "*.x\n", ".agentctlignore": "!b.x\n*.y\n"}, ["a.x", "b.x", "c.y"], [".agentctlignore", "b.x"]),
        ({".gitignore": "x\\\nok\n"}, ["ok", "x"], ["x"]),
        ({".gitignore": "a\r\nb\r\n"}, ["a", "b", "c"], ["c"]),
        ({".gitignore": "\ufeffa\n"}, ["a", "c"], ["c"]),
        ({}, [".git/c", "b/.git/x", "node_modules/x", "b/node_modules/y", ".agentctl/state/s"], [".agentctl/", "b/"]),
        ({}, [".agentctl/config.toml", "state/x"], [".agentctl/", ".agentctl/config.toml", "state/", "state/x"]),
        ({}, ["b", "a/z", "a.txt", "A"], ["A", "a/", "a/z", "a.txt", "b"]),
    ],
)  # fmt: skip
def test_rules(tmp_path: Path, rules: dict[str, str], files: list[str], left: list[str]) -> None:
    plant(tmp_path, {**rules, **dict.fromkeys(files, "")})
    assert [path for path in walked(tmp_path) if path != ".gitignore"] == left


def test_ignored_files_on_request_but_never_what_is_always_skipped(tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys(["out/x", ".git/x", "node_modules/x", ".agentctl/state/x"], ""))
    plant(tmp_path, {".gitignore": "*\n"})
    assert walked(tmp_path) == []
    assert walked(tmp_path, includes_ignored=True) == [".agentctl/", ".gitignore", "out/", "out/x"]


def test_kept_outputs_are_found_when_the_walk_starts_there(tmp_path: Path) -> None:
    plant(tmp_path, {".agentctl/state/.gitignore": "*\n", ".agentctl/state/s/output/1.txt": ""})
    assert walked(tmp_path) == [".agentctl/"]
    start = ".agentctl/state/s/output"
    assert walked(tmp_path, start) == []
    assert walked(tmp_path, start, includes_ignored=True) == [".agentctl/state/s/output/1.txt"]
    assert walked(tmp_path, ".git", includes_ignored=True) == []


def test_walks_side_by_side_over_one_descriptor(tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys([f"f{number:03}" for number in range(300)], ""))
    fd = os.open(tmp_path, os.O_RDONLY)
    one, other = walk(fd), walk(fd)
    next(one)
    assert len(list(other)) == 300
    assert len(list(one)) == 299
    os.close(fd)


def test_a_start_below_the_root_obeys_the_rules_above(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.log\nout/\n", "a/x.log": "", "a/y": "", "out/z": ""})
    assert walked(tmp_path, "a") == ["a/y"]
    assert walked(tmp_path, "out") == []
    assert walked(tmp_path, "out", includes_ignored=True) == ["out/z"]
    fd = os.open(tmp_path, os.O_RDONLY)
    ignored = Walk(fd, "out")
    assert (list(ignored), ignored.is_start_ignored) == ([], True)
    os.close(fd)


def test_links_are_named_and_not_entered(tmp_path: Path) -> None:
    plant(tmp_path, {"real/f": ""})
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / ".gitignore").symlink_to("real/f")
    os.mkfifo(tmp_path / ".agentctlignore")
    fd = os.open(tmp_path, os.O_RDONLY)
    found = [(entry.path, entry.kind, entry.points_to_folder, entry.depth) for entry in walk(fd)]
    os.close(fd)
    assert found == [
        (".agentctlignore", "other", False, 1),
        (".gitignore", "link", False, 1),
        ("broken", "link", False, 1),
        ("link", "link", True, 1),
        ("loop", "link", True, 1),
        ("real", "folder", False, 1),
        ("real/f", "file", False, 2),
    ]


def test_a_folder_swapped_for_a_link_is_not_entered(tmp_path: Path) -> None:
    plant(tmp_path, {"w/a/f": "", "outside/secret": ""})
    fd = os.open(tmp_path / "w", os.O_RDONLY)
    found = []
    for entry in walk(fd):
        found.append(entry.path)
        if entry.path == "a":
            (tmp_path / "w/a").rename(tmp_path / "w/b")
            (tmp_path / "w/a").symlink_to("../outside")
    os.close(fd)
    assert found == ["a"]


def test_entries_are_read_while_the_walk_stands_on_them(tmp_path: Path) -> None:
    plant(tmp_path, {"a/b/f": "content"})
    (tmp_path / "l").symlink_to("a/b/f")
    fd = os.open(tmp_path, os.O_RDONLY)
    read = {}
    for entry in walk(fd):
        if entry.kind == "file":
            read[entry.path] = (entry.read(3), entry.stat().st_size)
        if entry.kind == "link":
            assert entry.link_target() == "a/b/f"
            with pytest.raises(OSError, match="symbolic links"):
                entry.read(3)
    os.close(fd)
    assert read == {"a/b/f": (b"con", 7)}


def test_it_stops_when_told_and_goes_no_deeper_than_asked(tmp_path: Path) -> None:
    plant(tmp_path, {"a/b/c/f": "", "z": ""})
    fd = os.open(tmp_path, os.O_RDONLY)
    assert [entry.path for entry in Walk(fd, max_depth=2)] == ["a", "a/b", "z"]
    asked: list[int] = []

    def should_stop() -> bool:
        asked.append(1)
        return len(asked) > 2

    assert [entry.path for entry in walk(fd, should_stop=should_stop)] == ["a", "a/b", "z"]
    os.close(fd)


def test_bad_rules_are_left_out_with_a_warning(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "x\\\n*a*a*a*a*a*b\na/**/b/**/c/**/d\ngone\n", "gone": "", "a" * 200: ""})
    fd = os.open(tmp_path, os.O_RDONLY)
    found = Walk(fd)
    started = time.monotonic()
    assert [entry.path for entry in found] == [".gitignore", "a" * 200]
    assert time.monotonic() - started < 2
    assert [warning.split(":")[0] for warning in found.warnings] == [".", ".", "."]
    assert [warning.split(": ")[1] for warning in found.warnings] == [
        f"ignore rule {number} is left out" for number in (1, 2, 3)
    ]
    os.close(fd)


def test_very_deep_trees_end(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    top = os.dup(here)
    for _ in range(230):
        os.mkdir("d" * 10, dir_fd=here)
        deeper = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    found = Walk(top)
    assert max(entry.depth for entry in found) == 200
    assert len(found.warnings) == 1
    assert "not entered" in found.warnings[0]
    os.close(top)


NAMES = ["a", "b", "c", "ab", "a.log", "b.py", "x y", "foo", ".h", "build"]
PATTERNS = """a|b/|/a|*.log|!a|!b/|a/*|/a/b|**/b|a/**|a/**/c|!*.py|*|!*/|foo|?|[ab]|[!a]|/*|!/foo|b/**/a|\\#x|#c||  |a |
build/|!build/|*.*|!.h|**|a/|!a/b|c/*.py|!c/b.py|x\\ y|x y|/**/a|a*b|[a-|\\!a|foo/**/|!foo/a|foo/**/b/""".replace(
    "\n", ""
).split("|")


def grow(rng: random.Random, folder: Path, depth: int) -> None:
    for name in rng.sample(NAMES, rng.randint(1, 5)):
        if depth < 3 and rng.random() < 0.5:
            (folder / name).mkdir()
            grow(rng, folder / name, depth + 1)
        else:
            (folder / name).touch()
    if rng.random() < (1 if depth == 0 else 0.35):
        rules = [rng.choice(PATTERNS) for _ in range(rng.randint(1, 4))]
        (folder / ".gitignore").write_text("\n".join(rules) + "\n")


def git_lists(root: Path) -> Iterable[str]:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    argv = ["git", "-C", str(root), "ls-files", "-o", "--exclude-standard", "-z"]
    listed = subprocess.run(argv, capture_output=True, check=True).stdout
    return (path for path in listed.decode().split("\0") if path)


@pytest.mark.parametrize("block", range(4))
def test_the_walk_finds_what_git_finds(tmp_path: Path, block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        (tmp_path / str(seed)).mkdir()
        grow(random.Random(seed), tmp_path / str(seed), 0)
    found = [path for path in walked(tmp_path) if not path.endswith("/")]
    assert len(found) > 100
    assert sorted(found) == sorted(git_lists(tmp_path))
