"""The files of a run: read, written, moved and deleted below its roots, through the jail (config/jail.py) only.

Roots are the workspace, added folders and, for reading, single further folders such as kept outputs. Only regular
files are read or written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from agentctl.config.jail import MAX_LINKS, Place, Spot, as_failure, no_folder, no_such_file, open_beneath, open_root
from agentctl.core import files
from agentctl.core.errors import ToolFailure
from agentctl.core.openat2 import Openat2, find_openat2
from agentctl.core.record import Record

MAX_WRITE_BYTES = 64_000_000
"""Largest file that is moved between two roots on different file systems."""


class FileData(Record):
    """Content of a file with what tells later whether it is still the same one."""

    data: bytes
    mode: int
    stamp: tuple[int, int, int, int]
    """Device, inode, size and modification time in nanoseconds."""
    is_whole: bool = True


class Workspace:
    """Files below `root` and `add_dirs` for reading and writing, below `readable` for reading.

    Methods take paths as a model writes them (relative to the root, or absolute) and raise ToolFailure with a text
    that says what would work. Raises UsageError when a root is not a folder.
    """

    def __init__(
        self,
        root: Path,
        *,
        add_dirs: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        uses_openat2: bool = True,
    ) -> None:
        """`uses_openat2=False` walks every path folder by folder, as on a kernel that lacks the call."""
        self._uses_openat2 = uses_openat2
        self._roots = [
            open_root(root, is_writable=True, is_workspace=True),
            *(open_root(folder, is_writable=True, is_workspace=False) for folder in add_dirs),
            *(open_root(folder, is_writable=False, is_workspace=False) for folder in readable),
        ]
        self.root = self._roots[0].path
        self._swept: set[tuple[int, int]] = set()

    def close(self) -> None:
        for root in self._roots:
            os.close(root.descriptor)
        self._roots = []

    # --- names ------------------------------------------------------------------------------------------------------

    def locate(self, path: str, *, follows_last: bool = True) -> Place:
        """Where the path leads. With `follows_last=False` a link at its end is itself the place (move, delete)."""
        with self._walk(path, follows_last) as spot:
            return spot.place()

    def relative(self, path: str) -> str:
        """The name that the model and the policy use for it."""
        return self.locate(path).shown

    def exists(self, path: str, *, follows_last: bool = True) -> bool:
        """Whether something is there. With `follows_last=False` a dangling link at the end is something."""
        with self._walk(path, follows_last) as spot:
            return spot.stat() is not None

    # --- reading ----------------------------------------------------------------------------------------------------

    @contextmanager
    def open_file(self, path: str, *, follows_links: bool = True) -> Iterator[int]:
        """A descriptor of a regular file, for reading. With `follows_links=False` the path must have no symlink."""
        fd = open_beneath(self._kernel(), self._roots, path) if follows_links else -1
        if fd < 0:
            with self._walk(path, follows_last=True, max_links=MAX_LINKS if follows_links else 0) as spot:
                fd = spot.open_file()
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def open_folder(self, path: str) -> Iterator[tuple[int, Place]]:
        """A held descriptor of the root that the folder lies in, and the folder's place in it."""
        with self._walk(path, follows_last=True) as spot:
            if spot.missing:
                raise no_folder(path, spot.stat())
            yield spot.root.descriptor, spot.place()

    def read_bytes(self, path: str, limit: int, *, follows_links: bool = True) -> bytes:
        """The first `limit` bytes. With `follows_links=False` the path must have no symlink."""
        with self.open_file(path, follows_links=follows_links) as fd:
            return files.read_all(fd, limit)

    def read_file(self, path: str, limit: int) -> FileData:
        """The first `limit` bytes, with mode and stamp."""
        with self.open_file(path) as fd:
            found = os.fstat(fd)
            data = files.read_all(fd, limit + 1)
        return FileData(
            data=data[:limit], mode=stat.S_IMODE(found.st_mode), stamp=_stamp(found), is_whole=len(data) <= limit
        )

    # --- changing ---------------------------------------------------------------------------------------------------

    def write_bytes(self, path: str, data: bytes, *, expected: FileData | None = None) -> Place:
        """Replaces or makes a file, with missing folders. Refuses when it is no longer what `expected` was."""
        with self._walk(path, follows_last=True) as spot:
            _check_target(path, spot, expected)
            spot.make_folders()
            self._sweep(spot.folder)
            with as_failure(path, "write"):
                files.replace_file(spot.missing[-1], data, directory=spot.folder)
            return spot.place()

    def check_write(self, path: str) -> None:
        """Raises what write_bytes would, as far as that can be known without writing."""
        with self._walk(path, follows_last=True) as spot:
            _check_target(path, spot, None)

    def check_delete(self, path: str) -> Place:
        """Raises what delete would; returns the place of the file or link."""
        with self._walk(path, follows_last=False) as spot:
            _check_movable(path, spot)
            return spot.place()

    def delete(self, path: str) -> int:
        """Removes a file, or a link itself. Returns the size in bytes."""
        with self._walk(path, follows_last=False) as spot:
            found = _check_movable(path, spot)
            with as_failure(path, "delete"):
                os.unlink(spot.missing[-1], dir_fd=spot.folder)
            return found.st_size

    def move(self, source: str, target: str) -> Place:
        """Renames a file, or a link itself, into folders that are made when they are missing; never over a file."""
        with self._walk(source, follows_last=False) as old, self._walk(target, follows_last=False) as new:
            new.check_writable()
            _check_movable(source, old)
            if not new.missing or (len(new.missing) == 1 and new.stat() is not None):
                raise ToolFailure(f"{target!r} already exists. Delete it first or choose another name.")
            new.make_folders()
            with as_failure(target, "move"):
                try:
                    os.rename(old.missing[-1], new.missing[-1], src_dir_fd=old.folder, dst_dir_fd=new.folder)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    _copy_over(old, new, source)
            files.sync_folder(new.folder)
            return new.place()

    def _sweep(self, folder: int) -> None:
        """Removes what a killed run left in a folder, once per folder and run."""
        found = os.fstat(folder)
        key = (found.st_dev, found.st_ino)
        if key not in self._swept:
            self._swept.add(key)
            with suppress(OSError):
                files.remove_strays(folder)

    def _kernel(self) -> Openat2 | None:
        return find_openat2() if self._uses_openat2 else None

    @contextmanager
    def _walk(self, path: str, follows_last: bool, max_links: int = MAX_LINKS) -> Iterator[Spot]:
        spot = Spot(self._roots, path, max_links, self._kernel())
        try:
            with as_failure(path, "reach"):
                spot.walk(follows_last)
            yield spot
        finally:
            spot.close()


def _stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _check_target(path: str, spot: Spot, expected: FileData | None) -> None:
    spot.check_writable()
    if not spot.missing:
        raise ToolFailure(f"{path!r} is a folder, not a file. Give the name of a file in it.")
    found = spot.stat()
    if found is not None:
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailure(f"{path!r} is not a regular file and is never written. Choose another name.")
        if not found.st_mode & 0o222:
            raise ToolFailure(f"{path!r} is read-only (mode {stat.S_IMODE(found.st_mode):04o}). Change its mode first.")
    if expected is not None and (found is None or _stamp(found) != expected.stamp):
        raise ToolFailure(f"{path!r} was changed by something else in the meantime. Read it again, then edit it.")


def _check_movable(path: str, spot: Spot) -> os.stat_result:
    spot.check_writable()
    found = spot.stat()
    if found is None:
        raise ToolFailure(no_such_file(path))
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailure(f"{path!r} is a folder. Take its files one by one.")
    return found


def _copy_over(old: Spot, new: Spot, source: str) -> None:
    """A move between file systems: the copy is complete before the original goes."""
    fd = old.open_file()
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        data = files.read_all(fd, MAX_WRITE_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_WRITE_BYTES:
        raise ToolFailure(f"{source!r} is too large to be moved to another file system here. Use bash with mv.")
    files.replace_file(new.missing[-1], data, directory=new.folder, mode=mode)
    os.unlink(old.missing[-1], dir_fd=old.folder)
