"""The workspace state of a session: `.agentctl/state/<session>/`, made at the first write, invisible to git."""

from __future__ import annotations

from pathlib import Path

from agentctl.core.files import make_private_dir, replace_file

STATE = ".agentctl/state"
"""Below the workspace root. One folder per session, and focus.log."""


def state_root(root: Path) -> Path:
    """Where the state of all sessions of a workspace lies. Touches nothing."""
    return root / STATE


def made(folder: Path, root: Path) -> Path:
    """A folder at or below the state root of the workspace `root`, now there and private. Raises OSError.

    A checkout may bring a symlink in its place; what it points at is not ours to write to.
    """
    check_inside(folder, root)
    make_private_dir(folder)
    _hide_from_git(state_root(root))
    return folder


def check_inside(path: Path, root: Path) -> None:
    """Raises OSError when the path leads out of the workspace's state."""
    if not path.resolve().is_relative_to(state_root(root.resolve())):
        raise OSError(f"{path} leads out of the state folder of the workspace")


def _hide_from_git(state: Path) -> None:
    """Whatever stands in the state folder, the ignore file too, is invisible to git."""
    ignore = state / ".gitignore"
    if not ignore.exists():
        replace_file(ignore, b"*\n", mode=0o600, syncs=False)
