"""The jail of the file tools: which files a path means, and the only way to them.

A path is walked folder by folder from a held descriptor of a root. Every step is opened with O_NOFOLLOW relative to
the folder before it; a symlink is read and walked in the same way, `..` goes back to the folder that was entered, so
a name that is swapped for a link in between leads nowhere. Roots are the workspace, added folders and, for reading,
single further folders such as kept outputs. Only regular files are read or written; what /proc, /dev and /sys hold
is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from agentctl.core import files
from agentctl.core.errors import ToolFailure, UsageError
from agentctl.core.record import Record

MAX_LINKS = 40
MAX_WRITE_BYTES = 64_000_000
"""Largest file that is moved between two roots on different file systems."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KERNEL_FOLDERS = ("proc", "dev", "sys")


class Root(Record):
    """A folder that paths may lie in. `aliases` are the names under which an absolute path may mention it."""

    path: Path
    aliases: tuple[str, ...]
    descriptor: int
    is_writable: bool
    is_workspace: bool


class Place(Record):
    """Where a path leads, after `..` and symlinks."""

    root: Path
    relative: str
    """Relative to `root`, with forward slashes; `.` is the root itself."""
    absolute: Path
    shown: str
    """How the model and the policy name it: relative in the workspace, absolute in any other root."""


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

    def __init__(self, root: Path, *, add_dirs: Sequence[Path] = (), readable: Sequence[Path] = ()) -> None:
        self._roots = [
            _open_root(root, is_writable=True, is_workspace=True),
            *(_open_root(folder, is_writable=True, is_workspace=False) for folder in add_dirs),
            *(_open_root(folder, is_writable=False, is_workspace=False) for folder in readable),
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
                raise _no_folder(path, spot.stat())
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
            with _as_failure(path, "write"):
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
            with _as_failure(path, "delete"):
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
            with _as_failure(target, "move"):
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

    # --- walking ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _walk(self, path: str, follows_last: bool, max_links: int = MAX_LINKS) -> Iterator[_Spot]:
        spot = _Spot(self._roots, path, max_links)
        try:
            with _as_failure(path, "reach"):
                spot.walk(follows_last)
            yield spot
        finally:
            spot.close()


class _Spot:
    """One walk: the held folders from a root down, and the names behind them that are no folders (yet)."""

    def __init__(self, roots: Sequence[Root], path: str, max_links: int) -> None:
        if not roots:
            raise ToolFailure("The workspace is closed.")
        if not path or "\0" in path or not _is_encodable(path):
            raise ToolFailure(f"{path!r} is no file name. Paths are relative to the workspace; '.' is its root.")
        self._roots = roots
        self._path = path
        self.root = roots[0]
        self._names: list[str] = []
        self._folders: list[int] = []
        self.missing: list[str] = []
        self._links_left = max_links

    def close(self) -> None:
        while self._folders:
            os.close(self._folders.pop())

    @property
    def folder(self) -> int:
        """The descriptor of the last folder that exists."""
        return self._folders[-1] if self._folders else self.root.descriptor

    def place(self) -> Place:
        names = [*self._names, *self.missing]
        absolute = self.root.path.joinpath(*names)
        relative = "/".join(names) or "."
        return Place(
            root=self.root.path,
            relative=relative,
            absolute=absolute,
            shown=relative if self.root.is_workspace else absolute.as_posix(),
        )

    def stat(self) -> os.stat_result | None:
        """The thing at the end of the path, links not followed; None when there is nothing."""
        if not self.missing:
            return os.fstat(self.folder)
        if len(self.missing) > 1:
            return None
        try:
            return os.stat(self.missing[0], dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return None

    def open_file(self) -> int:
        found = self.stat()
        if found is None:
            raise ToolFailure(_no_such_file(self._path))
        if stat.S_ISDIR(found.st_mode):
            raise ToolFailure(f"{self._path!r} is a folder, not a file. Look into it with list_dir or glob.")
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailure(f"{self._path!r} is not a regular file (a pipe, socket or device) and is never opened.")
        with _as_failure(self._path, "read"):
            return files.open_regular(self.missing[0], directory=self.folder, follow=False)

    def check_writable(self) -> None:
        if not self.root.is_writable:
            raise ToolFailure(f"{self._path!r} lies in a folder that may only be read. Write inside the workspace.")

    def make_folders(self) -> None:
        """Makes what is missing above the last name; each folder is entered as it was made."""
        while len(self.missing) > 1:
            name = self.missing[0]
            with _as_failure(self._path, "make the folders of"):
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self.folder)
                self._folders.append(os.open(name, _FOLDER, dir_fd=self.folder))
            self._names.append(self.missing.pop(0))

    def walk(self, follows_last: bool) -> None:
        """Raises ToolFailure or OSError."""
        waiting = self._start(self._path)
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                waiting = self._back(waiting)
            elif self.missing:
                self.missing.append(name)
            else:
                waiting = self._step(name, waiting, follows_last)
        if len(self.missing) > 1 and self._is_file():
            raise ToolFailure(f"{self._path!r}: {'/'.join([*self._names, self.missing[0]])!r} is not a folder.")

    def _is_file(self) -> bool:
        try:
            found = os.stat(self.missing[0], dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return False
        return not stat.S_ISDIR(found.st_mode)

    def _start(self, path: str) -> list[str]:
        """Names to walk, last first; enters the root they start from."""
        if not path.startswith("/"):
            return path.split("/")[::-1]
        plain = os.path.normpath(path).replace("//", "/", 1) if path.startswith("//") else os.path.normpath(path)
        for root in self._roots:
            for alias in root.aliases:
                if plain == alias or plain.startswith(alias.rstrip("/") + "/"):
                    self._enter(root)
                    return plain[len(alias) :].split("/")[::-1]
        raise self._leaves(plain)

    def _enter(self, root: Root) -> None:
        self.close()
        self.root = root
        self._names = []
        self.missing = []

    def _back(self, waiting: list[str]) -> list[str]:
        if self.missing:
            self.missing.pop()
        elif self._names:
            self._names.pop()
            os.close(self._folders.pop())
        else:  # above the root: another root may lie there, or this one again
            return self._start(str(self.root.path.parent.joinpath(*waiting[::-1])))
        return waiting

    def _step(self, name: str, waiting: list[str], follows_last: bool) -> list[str]:
        self._refuse_kernel(name)
        try:
            self._folders.append(os.open(name, _FOLDER, dir_fd=self.folder))
            self._names.append(name)
            return waiting
        except FileNotFoundError:
            target = None
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                raise
            target = _read_link(name, self.folder)
        is_last = not any(item not in ("", ".") for item in waiting)
        if target is None or (is_last and not follows_last):
            self.missing.append(name)
            return waiting
        if not self._links_left:
            raise ToolFailure(f"{self._path!r} runs through too many symlinks, or in a circle.")
        self._links_left -= 1
        if target.startswith("/"):
            return [*waiting, *self._start(target)]
        return [*waiting, *target.split("/")[::-1]]

    def _refuse_kernel(self, name: str) -> None:
        if self.root.path == Path("/") and not self._names and name in _KERNEL_FOLDERS:
            raise ToolFailure(f"{self._path!r} leads into /{name}, which is not made of files. Use bash if needed.")

    def _leaves(self, target: str) -> ToolFailure:
        folder = PurePosixPath(target).parent
        hint = "" if _is_kernel(folder) or len(folder.parts) < 2 else f", for example --add-dir {folder}"
        return ToolFailure(
            f"{self._path!r} leads out of the workspace. Use a path inside it (the root is '.'); a run that needs "
            f"other folders is started with --add-dir{hint}."
        )


def _is_kernel(folder: PurePosixPath) -> bool:
    """Part of what the kernel makes up; memory disks are ordinary folders."""
    return folder.parts[1:2] != () and folder.parts[1] in _KERNEL_FOLDERS and folder.parts[:3] != ("/", "dev", "shm")


def _open_root(folder: Path, *, is_writable: bool, is_workspace: bool) -> Root:
    given = Path(os.path.normpath(folder.absolute()))
    real = Path(os.path.realpath(given))
    if _is_kernel(PurePosixPath(real)):
        raise UsageError(f"cannot use {str(folder)!r} as a folder", hint="It holds no files. Name an ordinary folder.")
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"cannot use {str(folder)!r} as a folder: {error.strerror}", hint="Name a folder that exists."
        ) from error
    return Root(
        path=real,
        aliases=tuple(dict.fromkeys((str(real), str(given)))),
        descriptor=descriptor,
        is_writable=is_writable,
        is_workspace=is_workspace,
    )


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _read_link(name: str, folder: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:  # no link: some other kind of file
            return None
        raise


def _stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _no_such_file(path: str) -> str:
    escaped = " Names that are shown escaped can only be reached through bash." if "\\" in path else ""
    return f"No such file: {path!r}. Find it with glob or list_dir.{escaped}"


def _no_folder(path: str, found: os.stat_result | None) -> ToolFailure:
    if found is None:
        return ToolFailure(f"No such folder: {path!r}. Look at what there is with list_dir '.'.")
    return ToolFailure(f"Not a folder: {path!r}. Read files with read_file.")


def _check_target(path: str, spot: _Spot, expected: FileData | None) -> None:
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


def _check_movable(path: str, spot: _Spot) -> os.stat_result:
    spot.check_writable()
    found = spot.stat()
    if found is None:
        raise ToolFailure(_no_such_file(path))
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailure(f"{path!r} is a folder. Take its files one by one.")
    return found


def _copy_over(old: _Spot, new: _Spot, source: str) -> None:
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


@contextmanager
def _as_failure(path: str, verb: str) -> Iterator[None]:
    """An OSError of the system becomes something the model can act on."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ToolFailure(f"Cannot {verb} {path!r}: {reason}.") from error
