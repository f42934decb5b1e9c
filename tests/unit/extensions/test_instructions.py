"""Which instruction files count: from the root of the repository down, under the trust of the run."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from agentctl.config.trust import Trust
from agentctl.core.events import InstructionFile
from agentctl.extensions.instructions import MAX_CHARS, TOTAL_CHARS, Instructions, load_instructions

WORKSPACE = Trust(level="workspace", why="test")
NONE = Trust(level="none", why="test")


def git(folder: Path, *words: str) -> str:
    said = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return said.stdout.strip()


def load(root: Path, trust: Trust = WORKSPACE) -> Instructions:
    return load_instructions(root, trust, lambda text: text.replace("s3cret", "***"))


def names(found: Instructions) -> list[str]:
    return [file.path for file in found.files]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """above/repo/pkg/sub with a file in each folder."""
    root = tmp_path / "above" / "repo" / "pkg" / "sub"
    root.mkdir(parents=True)
    for folder in (root, *list(root.parents)[:3]):
        (folder / "AGENTS.md").write_text(f"rule of {folder.name}")
    return root


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_from_the_nearest_repository_down_outermost_first(tree: Path, kind: str) -> None:
    """`.git` is a file in worktrees and submodules."""
    marker = tree.parents[1] / ".git"
    marker.mkdir() if kind == "folder" else marker.write_text("gitdir: /elsewhere")
    found = load(tree)
    assert names(found) == ["../../AGENTS.md", "../AGENTS.md", "AGENTS.md"]
    text = found.render()
    assert [text.index(f"rule of {name}") for name in ("repo", "pkg", "sub")] == sorted(
        text.index(f"rule of {name}") for name in ("repo", "pkg", "sub")
    )
    assert "rule of above" not in text


def test_a_real_worktree_and_a_submodule_are_roots_of_their_own(tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q")
    (main / "AGENTS.md").write_text("outer")
    git(main, "add", ".")
    git(main, "commit", "-q", "-m", "x")
    tree = main / "inner-worktree"
    git(main, "worktree", "add", "-q", str(tree))
    (main / "AGENTS.md").write_text("outer, changed")
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(main), "sub")
    assert load(tree).render().endswith("## AGENTS.md\nouter")
    assert names(load(main / "sub")) == ["AGENTS.md"]


def test_without_a_repository_only_the_folder_itself(tree: Path) -> None:
    assert names(load(tree)) == ["AGENTS.md"]


def test_the_family_in_order_with_hash_and_trust(tmp_path: Path) -> None:
    for name in (".agentctl.md", "CLAUDE.md", "AGENTS.md"):
        (tmp_path / name).write_text(f"from {name}")
    digest = sha256(b"from AGENTS.md").hexdigest()
    found = load(tmp_path)
    assert found.files[0] == InstructionFile(path="AGENTS.md", sha256=digest, trust="workspace")
    assert names(found) == ["AGENTS.md", "CLAUDE.md", ".agentctl.md"]


def test_a_second_name_or_a_copy_counts_once_and_an_empty_file_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("one")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / ".agentctl.md").write_text("one")
    found = load(tmp_path)
    assert (names(found), found.problems) == (["AGENTS.md"], ())
    (tmp_path / "AGENTS.md").write_text(" \n")
    (tmp_path / ".agentctl.md").unlink()
    assert load(tmp_path).render() == ""


def test_a_link_elsewhere_is_left_out_and_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_text("from outside")
    (root / "AGENTS.md").symlink_to("../outside")
    found = load(root)
    assert found.render() == ""
    assert [(problem.code, problem.what) for problem in found.problems] == [("left-out", "AGENTS.md")]


def test_the_cap_is_in_characters_and_said(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("漢" * MAX_CHARS)
    assert load(tmp_path).problems == ()
    (tmp_path / "AGENTS.md").write_text("漢" * (MAX_CHARS + 5))
    found = load(tmp_path)
    assert found.render().endswith("漢\n[5 characters left out]")
    assert [problem.code for problem in found.problems] == ["instructions-cut"]


def test_the_outermost_give_way_to_the_total(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    root = tmp_path
    for number in range(6):
        (root / "AGENTS.md").write_text(f"{number}" * (TOTAL_CHARS // 5))
        root = root / "d"
        root.mkdir()
    found = load(root)
    assert len(found.files) == 5
    assert [problem.what for problem in found.problems] == ["../../../../../../AGENTS.md"]


def test_secrets_are_masked(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("the key is s3cret")
    assert "s3cret" not in load(tmp_path).render()


def test_the_base_commit_speaks_for_a_strangers_checkout(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    inner = tmp_path / "pkg"
    inner.mkdir()
    (tmp_path / "AGENTS.md").write_text("good rule")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "base")
    base = Trust(level="base", why="test", base_refs=(git(tmp_path, "rev-parse", "HEAD"),), fetch="git fetch")
    (tmp_path / "AGENTS.md").write_text("evil rule")
    (inner / "AGENTS.md").write_text("evil inner rule")
    found = load(inner, base)
    assert [(file.path, file.trust) for file in found.files] == [("../AGENTS.md", "base")]
    assert "evil" not in found.render()
    assert [problem.what for problem in found.problems] == ["AGENTS.md"]


@pytest.mark.parametrize("trust", [NONE, Trust(level="base", why="test", base_refs=("0" * 40,), fetch="git fetch x")])
def test_without_trust_nothing_is_read_and_all_is_named(tree: Path, trust: Trust) -> None:
    git(tree.parents[1], "init", "-q")
    found = load(tree, trust)
    assert (found.files, found.render()) == ((), "")
    assert [problem.what for problem in found.problems] == ["../../AGENTS.md", "../AGENTS.md", "AGENTS.md"]
    assert all(problem.fix for problem in found.problems)
