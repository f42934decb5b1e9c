"""Locks on files, which the kernel frees when their process dies, however it dies."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from agentctl.core.files import make_private, open_shared
from agentctl.core.record import Record


class Holder(Record):
    """Who holds a lock, as far as the lock file says."""

    pid: int | None
    host: str
    age_s: float | None

    def __str__(self) -> str:
        age = "" if self.age_s is None else f", since {self.age_s:.0f} s"
        return f"process {self.pid or 'unknown'} on {self.host or 'an unknown host'}{age}"


class LockHeld(BlockingIOError):
    """Another process holds the lock."""

    def __init__(self, path: Path, holder: Holder) -> None:
        super().__init__(errno.EWOULDBLOCK, f"locked by {holder}", str(path))
        self.holder = holder


class Lock:
    """An exclusive lock for the life of this object. The kernel frees it when the process dies, however it dies."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = path

    def release(self) -> None:
        """Frees the lock. The file stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Removes the file of the lock that is held, and frees it. Who opened it before finds that out in lock_file."""
        with suppress(OSError):
            self.path.unlink()
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock_file(path: str | Path) -> Lock:
    """Takes the lock at once or raises LockHeld with its holder. Makes the file (0600) when it is missing."""
    while True:
        fd = open_shared(path)
        try:
            make_private(fd, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockHeld(Path(path), _read_holder(fd)) from None
            if not _is_at(fd, path):  # its holder removed it in between: a lock that nobody else can meet
                os.close(fd)
                continue
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {int(time.time())} {os.uname().nodename}\n".encode(), 0)
        except BaseException:
            os.close(fd)
            raise
        return Lock(fd, Path(path))


def lock_folder(path: Path) -> Lock:
    """Takes a lock on the folder itself, which is not written to, or raises LockHeld. No symlink is followed."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if isinstance(error, BlockingIOError):
            raise LockHeld(path, Holder(pid=None, host="", age_s=None)) from None
        raise
    return Lock(fd, path)


def _is_at(fd: int, path: str | Path) -> bool:
    """Whether the open file is the one that the path names now."""
    try:
        return os.path.samestat(os.fstat(fd), Path(path).lstat())
    except FileNotFoundError:
        return False


def _read_holder(fd: int) -> Holder:
    words = os.pread(fd, 512, 0).decode(errors="replace").split()
    try:
        return Holder(pid=int(words[0]), host=words[2], age_s=max(0.0, time.time() - int(words[1])))
    except (IndexError, ValueError):  # the holder is about to write it
        return Holder(pid=None, host="", age_s=None)


class RangeLock:
    """Exclusive locks on single bytes of a file; the file need not have them. Another open of it, also in the same
    process, does not get a byte that is taken. The kernel frees all of them when the process dies, however it dies.
    """

    def __init__(self, path: str | Path) -> None:
        """Makes the file (0600) when it is missing. Raises OSError."""
        self._fd = open_shared(path)

    def try_take(self, place: int) -> bool:
        """Takes the byte at this offset; False when another holder has it. Raises OSError where there are no locks."""
        try:
            self._set(fcntl.F_WRLCK, place)
        except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, as POSIX leaves open
            return False
        return True

    def let_go(self, place: int) -> None:
        self._set(fcntl.F_UNLCK, place)

    def close(self) -> None:
        """Frees all. The file stays: removing it would let two holders in."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _set(self, kind: int, place: int) -> None:
        import struct  # only runs that share something take single bytes

        if hasattr(fcntl, "F_OFD_SETLK"):  # Linux: bound to this open file, not to the process
            row = struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, row)
        else:
            operation = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            fcntl.lockf(self._fd, operation, 1, place)
