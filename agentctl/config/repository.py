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


def nearest_repository(root: Path) -> Path | None:
    """The folder or the nearest above it that holds `.git`: a folder, or a file in worktrees and submodules."""
    return next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)


def status(root: Path) -> Status | None:
    """The files below `root` that differ from the last commit, untracked ones too; None when git cannot say.

    Git looks at contents through the filters that the repository's own settings name, and into submodules with theirs:
    the ones are switched off, the others left out."""
    listed, _why = run_git(
        root,
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--ignore-submodules=dirty",
        "--",
        ".",
        timeout_s=STATUS_TIMEOUT_S,
        env=_without_filters(root),
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


def _without_filters(root: Path) -> dict[str, str]:
    """The environment that empties every `filter.NAME.clean` and `.process`. Names can hold any character, so `-c`
    would not do."""
    listed, _why = run_git(
        root, "config", "--null", "--name-only", "--get-regexp", r"^filter\.", timeout_s=STATUS_TIMEOUT_S
    )
    names = {key.rpartition(".")[0] for key in os.fsdecode(listed or b"").split("\0") if key}
    settings = [
        (f"{name}.{last}", value)
        for name in sorted(names)
        for last, value in (("clean", ""), ("process", ""), ("smudge", ""), ("required", "false"))
    ]
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for at, (key, value) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    return env


def difference(before: Status, after: Status) -> list[str]:
    """The paths that something happened to in between."""
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
