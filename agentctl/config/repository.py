"""What git says about the work tree: whether there is one, and which files differ from the last commit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from agentctl.config.git import run_git

STATUS_TIMEOUT_S = 15.0
Status: TypeAlias = Mapping[str, tuple[str, int, int]]
"""Changed paths (relative to the folder asked about) → (state, modification time in ns, size)."""


def is_work_tree(root: Path) -> bool:
    """Whether the folder lies below one that holds `.git`, as a folder or, in worktrees and submodules, as a file."""
    return any((folder / ".git").exists() for folder in (root, *root.parents))


def status(root: Path) -> Status | None:
    """The files below `root` that differ from the last commit, untracked ones too; None when git cannot say."""
    listed, _why = run_git(
        root,
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--",
        ".",
        timeout_s=STATUS_TIMEOUT_S,
    )
    prefix, _why = run_git(root, "rev-parse", "--show-prefix", timeout_s=STATUS_TIMEOUT_S)
    if listed is None or prefix is None:
        return None
    below = os.fsdecode(prefix).rstrip("\n")
    found: dict[str, tuple[str, int, int]] = {}
    for entry in filter(None, os.fsdecode(listed).split("\0")):
        state, path = entry[:2], entry[3:].removeprefix(below)
        try:
            seen = (root / path).lstat()
            found[path] = (state, seen.st_mtime_ns, seen.st_size)
        except OSError:
            found[path] = (state, 0, 0)
    return found


def difference(before: Status, after: Status) -> list[str]:
    """The paths that something happened to in between."""
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
