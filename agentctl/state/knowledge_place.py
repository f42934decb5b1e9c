"""Where the notes of a project are. Imported by every run, so it loads nothing."""

from __future__ import annotations

import os
from pathlib import Path


def store_of(folder: Path, key: str) -> Path:
    """The file of a project; `key` is its project key."""
    return folder / f"{key}.db"


def exists(path: Path) -> bool:
    """Whether there is a store. Costs one look at the folder; SQLite is not loaded."""
    return os.path.lexists(path)


def is_writable(folder: Path) -> bool:
    """Of the nearest folder that is there."""
    nearest = next(step for step in (folder, *folder.parents) if step.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
