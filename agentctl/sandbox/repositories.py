"""Where git keeps what it runs and believes: of the workspace, of its submodules, and of a linked work tree.

Read without git, because this happens around every command. Nothing here is taken at its word: a `.git` file counts
only when the folder it names points back, as git itself demands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentctl.core.files import read_limited

GIT = ".git"
FILES = ("config", "config.worktree", "commondir")
FOLDERS = ("hooks",)
"""What decides, below a folder of git; the folders with everything in them."""
_LINK_FILES = ("commondir", "gitdir", "config.worktree")
_MAX_DEPTH = 6


def repositories(roots: Sequence[Path], shared: Sequence[Path] = ()) -> Iterator[str]:
    """Folders of git below the roots as they are now: `.git`, those of submodules in it, and the `shared` ones."""
    for root in roots:
        folder = str(root / GIT)
        yield folder
        yield from _modules(f"{folder}/modules", _MAX_DEPTH)
    for common in shared:
        yield str(common)
        yield from _modules(f"{common}/modules", _MAX_DEPTH)


def _modules(folder: str, depth: int) -> Iterator[str]:
    if not depth:
        return
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in names:
        if os.path.lexists(f"{path}/HEAD"):
            yield path
            yield from _modules(f"{path}/modules", depth - 1)
        else:  # a submodule whose name has a slash
            yield from _modules(path, depth - 1)


def shared_repository(root: Path) -> Path | None:
    """The repository that a linked work tree (`git worktree add`) shares with others, when it lies outside of it.

    Without it no command could commit there. None for anything else.
    """
    try:
        line = _line(root / GIT)
        folder = Path(line.removeprefix("gitdir: "))
        if not line.startswith("gitdir: ") or not folder.is_absolute() or folder.parent.name != "worktrees":
            return None
        folder = folder.resolve(strict=True)
        points_back = Path(_line(folder / "gitdir")).resolve(strict=True)
        common = (folder / _line(folder / "commondir")).resolve(strict=True)
    except (OSError, ValueError):
        return None
    is_whole = points_back == (root / GIT).resolve() and common == folder.parent.parent and (common / "HEAD").is_file()
    return common if is_whole and not common.is_relative_to(root) else None


def link_files(root: Path, common: Path) -> tuple[Path, ...]:
    """What ties the linked work tree `root` to its repository, and settings of its own."""
    try:
        folder = Path(_line(root / GIT).removeprefix("gitdir: ")).resolve()
    except (OSError, ValueError):
        return ()
    return tuple(folder / name for name in _LINK_FILES) if folder.is_relative_to(common) else ()


def _line(path: Path) -> str:
    if path.is_symlink():
        raise ValueError("a link")
    return read_limited(path, 4096).decode().strip()
