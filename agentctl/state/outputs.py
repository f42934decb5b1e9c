"""Whole results in files, written while they are produced, so that the model can look at what was cut."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from agentctl.core.files import create_file, make_private_dir, write_all
from agentctl.core.locks import Lock, lock_folder
from agentctl.core.redact import RedactingDecoder, Redactor
from agentctl.state.folder import made, state_root

MAX_BYTES = 64 * 1024 * 1024
"""Of one file; more is counted and dropped."""
SHOWN_BYTES = 30_000
"""What is at most shown whole: up to here nothing is written to disk."""


class KeptOutputs:
    """Implements core.ports.Outputs: files 1.txt, 2.txt … in one folder, made at the first write.

    In a workspace that is `.agentctl/state/<session>/output/`, which hides itself from git; `--ephemeral` uses a
    folder in TMPDIR that `close` removes. A disk that is full or read-only never fails a tool: the result is then
    not kept, and the tool says so.
    """

    def __init__(self, folder: Path, *, root: Path, redactor: Redactor, is_temporary: bool = False) -> None:
        self._folder = folder
        self._root = root
        self._redactor = redactor
        self._is_temporary = is_temporary
        self._made: list[Path] = []
        self._lock: Lock | None = None
        """On the folder of a run with --ephemeral: that of a run that was killed goes with a later run's."""

    @classmethod
    def for_session(cls, root: str | Path, session: str, *, is_ephemeral: bool, redactor: Redactor) -> Self:
        """The place for the outputs of one session in the workspace `root`. Touches nothing."""
        root = Path(root)
        if is_ephemeral:
            name = f"agentctl-{os.getpid()}-{os.urandom(8).hex()}"
            return cls(Path(os.environ.get("TMPDIR") or "/tmp") / name, root=root, redactor=redactor, is_temporary=True)
        return cls(state_root(root) / session / "output", root=root, redactor=redactor)

    @property
    def count(self) -> int:
        """How many files this run has made."""
        return len(self._made)

    @property
    def shown_folder(self) -> str:
        """The folder as it stands in the paths that the model is given."""
        return self._shown(self._folder)

    def open(self) -> KeptOutput:
        """As promised by the port."""
        return KeptOutput(self._create, self._shown, self._redactor)

    def close(self) -> None:
        """Removes what a run with --ephemeral has kept."""
        if self._is_temporary:
            for path in self._made:
                with suppress(OSError):
                    path.unlink()
            with suppress(OSError):
                self._folder.rmdir()
        if self._lock is not None:
            self._lock.release()

    def _create(self) -> tuple[Path, int]:
        folder = make_private_dir(self._folder) if self._is_temporary else made(self._folder, self._root)
        if self._is_temporary and self._lock is None:
            with suppress(OSError):
                self._lock = lock_folder(folder)
        number = len(self._made) + 1
        while True:
            path = folder / f"{number}.txt"
            try:
                fd = create_file(path)
            except FileExistsError:  # of an earlier run of this session
                number += 1
                continue
            self._made.append(path)
            return path, fd

    def _shown(self, path: Path) -> str:
        return str(path) if self._is_temporary else path.relative_to(self._root).as_posix()


class KeptOutput:
    """Implements core.ports.OutputFile. `write` never raises."""

    def __init__(self, create: Callable[[], tuple[Path, int]], show: Callable[[Path], str], redactor: Redactor) -> None:
        self._create = create
        self._show = show
        self._decoder = RedactingDecoder(redactor)
        self._waiting: list[bytes] = []
        self._size = 0
        self._dropped = 0
        self._path: Path | None = None
        self._fd = -1
        self._has_failed = False

    def write(self, data: bytes) -> None:
        if self._size >= MAX_BYTES or self._has_failed:
            self._dropped += len(data)
        else:
            self._add(self._decoder.feed(data))

    def close(self) -> str | None:
        self._add(self._decoder.end())
        if self._dropped:
            self._put(f"\n[{self._dropped:,} bytes more were not kept]\n".encode())
        if self._waiting:
            self._put(b"")
        self._release()
        return None if self._has_failed or self._path is None else self._show(self._path)

    def discard(self) -> None:
        self._release()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
            self._path = None

    def _add(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        room = MAX_BYTES - self._size
        self._dropped += max(0, len(data) - room)
        self._size += len(data)
        if self._size > SHOWN_BYTES:
            self._put(data[:room])
        elif data:
            self._waiting.append(data)

    def _put(self, data: bytes) -> None:
        if self._has_failed:
            return
        try:
            if self._path is None:
                self._path, self._fd = self._create()
            write_all(self._fd, b"".join((*self._waiting, data)))
            self._waiting.clear()
        except OSError:
            self._has_failed = True
            self.discard()

    def _release(self) -> None:
        self._waiting.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
