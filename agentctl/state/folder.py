"""The workspace state of a session: `.agentctl/state/<session>/`, made at the first write, invisible to git."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentctl.core.errors import ToolFailure
from agentctl.core.files import make_private_dir, read_limited, replace_file
from agentctl.core.locks import LockHeld, lock_file

STATE = ".agentctl/state"
"""Below the workspace root. One folder per session, and focus.log."""
MAX_BYTES = 4_000_000
"""Of one file of it; the largest that is written is a notebook at its limit."""
LOCK = ".lock"
LOCK_WAIT_S, POLL_S = 3.0, 0.02


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


class SessionFolder:
    """The files of one session. With `is_ephemeral` what is written stays in memory and ends with the run."""

    def __init__(self, root: Path, session: str, *, origin: str | None = None, is_ephemeral: bool = False) -> None:
        """`origin` is the session that this one was forked from; its files count until this one has its own."""
        self.root = root
        self.session = session
        self.path = state_root(root) / session
        self._origin = state_root(root) / origin if origin else None
        self.is_ephemeral = is_ephemeral
        self._kept: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        """The text of a file, None when there is none. Raises OSError for one that is no plain file of ours."""
        if name in self._kept:
            return self._kept[name]
        for folder in filter(None, (self.path, self._origin)):
            path = folder / name
            if path.is_symlink() or path.exists():
                check_inside(path, self.root)
                return read_limited(path, MAX_BYTES).decode("utf-8", "replace")
        return None

    def write(self, name: str, text: str) -> None:
        """The whole file or none of it, on disk when it returns. Raises OSError."""
        if self.is_ephemeral:
            self._kept[name] = text
            return
        replace_file(made(self.path, self.root) / name, text.encode("utf-8", "replace"), mode=0o600)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """One writer at a time, whichever process it is in. Raises ToolFailure when another one does not let go."""
        if self.is_ephemeral:
            yield
            return
        path = made(self.path, self.root) / LOCK
        ends = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                lock = lock_file(path)
                break
            except LockHeld as held:
                if time.monotonic() > ends:
                    raise ToolFailure(f"The notebook is being written by {held.holder}. Try again later.") from None
            await asyncio.sleep(POLL_S)
        with lock:
            yield
