"""The one place that opens files for writing. A crash leaves the old state or the new one, never half of each.

Whole files are replaced (temp file beside the target, write, fsync, rename, fsync the folder). Logs grow by one write
per record; a torn last record is recognised by its missing newline. Only regular files are ever opened: a FIFO or a
device in the place of a file is an OSError at once instead of a wait.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

STRAY_AGE_S = 60.0
"""A temp file older than this, which nobody holds locked, was left behind by a killed run."""

_TEMP_PREFIX = ".agentctl-"
_TEMP_SUFFIX = ".tmp"
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BLOCK = 1 << 20


# --- reading ------------------------------------------------------------------------------------------------------


def open_regular(path: str | Path, *, directory: int | None = None, follow: bool = True) -> int:
    """A descriptor for reading. Anything but a regular file is refused, without waiting for a writer.

    `directory` is a held folder that `path` is relative to; with `follow=False` a symlink is refused (ELOOP).
    Raises OSError.
    """
    found = os.stat(path, dir_fd=directory, follow_symlinks=follow)
    _check_regular(found, path)
    fd = os.open(path, _READ | (0 if follow else os.O_NOFOLLOW), dir_fd=directory)
    return _only_regular(fd, path)


def _only_regular(fd: int, path: str | Path) -> int:
    """The open descriptor, or OSError and it is closed."""
    try:
        _check_regular(os.fstat(fd), path)
    except OSError:
        os.close(fd)
        raise
    return fd


def _check_regular(found: os.stat_result, path: str | Path) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_all(fd: int, limit: int) -> bytes:
    """What is left of an open file, at most `limit` bytes."""
    pieces = []
    while limit > 0 and (piece := os.read(fd, min(limit, _BLOCK))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def read_limited(path: str | Path, limit: int) -> bytes:
    """The whole file, at most `limit` bytes. Raises OSError: EFBIG when it is larger, EINVAL for FIFOs and devices."""
    fd = open_regular(path)
    try:
        data = read_all(fd, limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(path))
    return data


def read_records(path: str | Path, *, if_any: bytes = b"") -> tuple[list[bytes], int]:
    """The complete lines of a log without their newlines, and the number of bytes of a torn last one.

    Blank lines are left out; so are all lines of a file that does not hold `if_any`. Raises OSError.
    """
    fd = open_regular(path)
    try:
        data = read_all(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)
    whole, _, torn = data.rpartition(b"\n")
    return [line for line in whole.split(b"\n") if line] if if_any in whole else [], len(torn)


# --- replacing ----------------------------------------------------------------------------------------------------


def named_target(path: str | Path) -> Path:
    """Where a file is written that a user named: at the end of its links, so that none of them is replaced.

    Raises OSError when something stands there that is no regular file. Touches nothing.
    """
    with suppress(FileNotFoundError):
        _check_regular(Path(path).stat(), path)  # not of the resolved name: /dev/stdout leads to no name at all
    return Path(os.path.realpath(path))


def replace_file(
    target: str | Path, data: bytes, *, directory: int | None = None, mode: int | None = None, syncs: bool = True
) -> None:
    """Writes a whole file or leaves the old one as it was.

    `directory` is a held folder and `target` then a bare name in it. Without `mode` an existing file keeps its mode
    and owner and a new one gets 0666 without the umask. A symlink in the place of the target is replaced, not
    followed. `syncs=False` skips the wait for the disk, for files that a crash may lose. Raises OSError.
    """
    if directory is None:
        path = Path(target)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            replace_file(path.name, data, directory=directory, mode=mode, syncs=syncs)
        finally:
            os.close(directory)
        return
    name = str(target)
    old = _stat_target(name, directory)
    temp = f"{_TEMP_PREFIX}{os.urandom(8).hex()}{_TEMP_SUFFIX}"
    created = 0o666 if mode is None and old is None else 0o600
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, created, dir_fd=directory)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            _copy_rights(fd, old, mode)
            write_all(fd, data)
            if syncs:
                os.fsync(fd)
            os.rename(temp, name, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(temp, dir_fd=directory)
        raise
    if syncs:
        sync_folder(directory)


@contextmanager
def replacing(target: str | Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `target` when the block ends well, and goes when it does not.

    A symlink in the place of the target is replaced, not followed. Raises OSError.
    """
    path = Path(target)
    _stat_target(path, None)
    temp = path.with_name(f"{_TEMP_PREFIX}{os.urandom(8).hex()}{_TEMP_SUFFIX}")
    descriptor = create_file(temp, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield file
            file.flush()
            os.fsync(descriptor)
        temp.rename(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_folder(folder)
    finally:
        os.close(folder)


def _stat_target(name: str | Path, directory: int | None) -> os.stat_result | None:
    """What stands there; None for nothing and for a symlink. Raises OSError for anything but a regular file."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return None
    _check_regular(found, name)
    return found


def _copy_rights(fd: int, old: os.stat_result | None, mode: int | None) -> None:
    if old is not None:
        own = os.fstat(fd)
        if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
            with suppress(PermissionError):  # only root may give files away
                os.fchown(fd, old.st_uid, old.st_gid)
    wanted = mode if mode is not None else (stat.S_IMODE(old.st_mode) if old is not None else None)
    if wanted is not None:
        os.fchmod(fd, wanted)


def write_all(fd: int, data: bytes) -> None:
    """Writes everything; a short write is continued, so that ENOSPC surfaces as the OSError it is."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_folder(directory: int) -> None:
    """Makes a rename or a new name in the folder durable. File systems that cannot are left alone."""
    with suppress(OSError):
        os.fsync(directory)


def remove_strays(directory: int) -> int:
    """Deletes temp files that killed runs left in a held folder. Returns how many."""
    removed = 0
    own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)  # with its own position
    try:
        with os.scandir(own) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(_TEMP_PREFIX)]
    finally:
        os.close(own)
    for name in names:
        if name.endswith(_TEMP_SUFFIX) and _is_stray(name, directory):
            with suppress(OSError):
                os.unlink(name, dir_fd=directory)
                removed += 1
    return removed


def _is_stray(name: str, directory: int) -> bool:
    try:
        fd = open_regular(name, directory=directory, follow=False)
    except OSError:
        return False
    try:
        if time.time() - os.fstat(fd).st_mtime < STRAY_AGE_S:
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


# --- growing ------------------------------------------------------------------------------------------------------


def create_file(path: str | Path, mode: int = 0o600) -> int:
    """A new file for writing, with exactly this mode. Raises FileExistsError when the name is taken."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    os.fchmod(fd, mode)
    return fd


def copy_file(source: str | Path, target: str | Path) -> None:
    """A private copy of a plain file that nobody writes to any more; links are not followed.

    Raises OSError, FileExistsError when the name is taken. Then there is no new file.
    """
    read = open_regular(source, follow=False)
    try:
        written = create_file(target)
        try:
            while block := os.read(read, _BLOCK):
                write_all(written, block)
        except OSError:
            os.unlink(target)  # noqa: PTH108  # also for a path that is a text
            raise
        finally:
            os.close(written)
    finally:
        os.close(read)


def open_append(path: str | Path, mode: int = 0o600) -> int:
    """A log for append_record, made when it is missing; one that is open to more users than `mode` says is closed.

    Its last component must not be a symlink. Raises OSError.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        fd = _only_regular(os.open(path, flags), path)
        make_private(fd, mode)
        return fd
    os.fchmod(fd, mode)
    folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_folder(folder)
    finally:
        os.close(folder)
    return fd


def open_shared(path: str | Path) -> int:
    """A file that processes lock, made (0600) when it is missing; what stands in it stays. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    return _only_regular(os.open(path, flags, 0o600), path)


def append_record(fd: int, record: bytes) -> None:
    """Adds one line with one write; a missing newline is added. The caller fsyncs where it promises something.

    Raises OSError. When the disk took only a part of the record, that part is cut off again first.
    """
    line = record if record.endswith(b"\n") else record + b"\n"
    if b"\n" in line[:-1]:
        raise ValueError("a record must not contain a newline")
    written = os.write(fd, line)
    if written == len(line):
        return
    end = os.lseek(fd, 0, os.SEEK_CUR)
    if os.fstat(fd).st_size == end:  # nobody appended behind it
        os.ftruncate(fd, end - written)
    raise OSError(errno.EIO, f"only {written} of {len(line)} bytes were written")


def cut_torn_tail(fd: int) -> int:
    """Cuts a last record without newline off a log that open_append gave. Returns how many bytes went.

    Only for the owner of the log (under its lock): another writer could be in the middle of that record.
    """
    size = end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(fd, end)
    return size - end


# --- folders, rights and streams -----------------------------------------------------------------------------------


def make_private(fd: int, mode: int) -> None:
    """Takes an open file or folder from users that `mode` does not name. Somebody else's is left as it is."""
    found = stat.S_IMODE(os.fstat(fd).st_mode)
    if found & ~mode & 0o7777 or found & mode & 0o700 != mode & 0o700:
        with suppress(PermissionError):
            os.fchmod(fd, mode)


def make_private_dir(path: str | Path) -> Path:
    """The folder, made with mode 0700 together with its missing parents, whatever the umask. Raises OSError.

    A folder that is there already and open to others is closed to them; its parents are left alone.
    """
    folder = Path(path)
    missing = []
    for step in (folder, *folder.parents):
        if step.exists():
            break
        missing.append(step)
    for step in reversed(missing):
        with suppress(FileExistsError):  # another run made it in between
            step.mkdir(mode=0o700)
            step.chmod(0o700)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not missing:
        keep_private(folder)
    return folder


def keep_private(folder: Path) -> None:
    """Takes the rights of others away from a folder of ours; what another owner set stays as it is."""
    with suppress(OSError):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & 0o077:
            folder.chmod(mode & 0o700)


def fill_standard_stream(number: int) -> None:
    """Opens 0, 1 or 2 that was closed; those before it are open. A closed stdout is one whose reader is gone."""
    if number != 1:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        return
    reader, writer = os.pipe()
    os.dup2(writer, number)
    os.close(writer)
    if reader != number:
        os.close(reader)
