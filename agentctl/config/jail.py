"""The jail of the file tools: where a path leads below a root, and the only way there.

Where the kernel has openat2, it resolves a path below the held descriptor of a root and refuses what leads out. What
it refuses, and every path on other kernels, is walked folder by folder: every step is opened with O_NOFOLLOW relative
to the folder before it; a symlink is read and walked in the same way, `..` goes back to the folder that was entered.
Either way a name that is swapped for a link in between leads nowhere. What /proc, /dev and /sys hold is refused.
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
from agentctl.core.openat2 import FILE, NAME_ONLY, Openat2
from agentctl.core.record import Record

MAX_LINKS = 40

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KERNEL_FOLDERS = ("proc", "dev", "sys")
_TOP = Path("/")


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


class Spot:
    """One walk: the held folders from a root down, and the names behind them that are no folders (yet)."""

    def __init__(self, roots: Sequence[Root], path: str, max_links: int, kernel: Openat2 | None) -> None:
        if not roots:
            raise ToolFailure("The workspace is closed.")
        if not _is_name(path):
            raise ToolFailure(f"{path!r} is no file name. Paths are relative to the workspace; '.' is its root.")
        self._roots = roots
        self._kernel = kernel
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
            raise ToolFailure(no_such_file(self._path))
        if stat.S_ISDIR(found.st_mode):
            raise ToolFailure(f"{self._path!r} is a folder, not a file. Look into it with list_dir or glob.")
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailure(f"{self._path!r} is not a regular file (a pipe, socket or device) and is never opened.")
        with as_failure(self._path, "read"):
            return files.open_regular(self.missing[0], directory=self.folder, follow=False)

    def check_writable(self) -> None:
        if not self.root.is_writable:
            raise ToolFailure(f"{self._path!r} lies in a folder that may only be read. Write inside the workspace.")

    def make_folders(self) -> None:
        """Makes what is missing above the last name; each folder is entered as it was made."""
        while len(self.missing) > 1:
            name = self.missing[0]
            with as_failure(self._path, "make the folders of"):
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self.folder)
                self._folders.append(os.open(name, _FOLDER, dir_fd=self.folder))
            self._names.append(self.missing.pop(0))

    def walk(self, follows_last: bool) -> None:
        """Raises ToolFailure or OSError."""
        if self._kernel is not None and self._enter_beneath(self._kernel):
            return
        self._enter(self._roots[0])
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

    def _enter_beneath(self, kernel: Openat2) -> bool:
        """The folder of a path without `..` and symlinks in one step; False when the path has to be walked."""
        plain = _plain(self._roots, self._path)
        if plain is None or not plain[1]:
            return False
        root, names = plain
        self._enter(root)
        if len(names) > 1:
            fd = kernel.open_folder(root.descriptor, "/".join(names[:-1]))
            if fd < 0:
                return False
            self._folders.append(fd)
        try:
            mode = os.stat(names[-1], dir_fd=self.folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            mode = 0
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            return False
        self._names, self.missing = names[:-1], names[-1:]
        return True

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
        if self.root.path == _TOP and not self._names and name in _KERNEL_FOLDERS:
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


def open_root(folder: Path, *, is_writable: bool, is_workspace: bool) -> Root:
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


def open_beneath(kernel: Openat2 | None, roots: Sequence[Root], path: str) -> int:
    """A regular file by one resolution of the kernel, or -1: then a walk finds it, or says what is wrong."""
    plain = _plain(roots, path) if kernel else None
    if kernel is None or plain is None:
        return -1
    folder, names = plain[0].descriptor, "/".join(plain[1])
    seen = kernel.open(folder, names, NAME_ONLY)  # a device or a FIFO is not even opened
    if seen < 0:
        return -1
    try:
        if not stat.S_ISREG(os.fstat(seen).st_mode):
            return -1
    finally:
        os.close(seen)
    fd = kernel.open(folder, names, FILE)
    if fd >= 0 and not stat.S_ISREG(os.fstat(fd).st_mode):  # swapped in between
        os.close(fd)
        return -1
    return fd


def _plain(roots: Sequence[Root], path: str) -> tuple[Root, list[str]] | None:
    """The root and the names below it when the path can be left to the kernel; None when it has to be walked."""
    if not roots or not _is_name(path) or path[-1] == "/" or "//" in path[:2]:
        return None
    root, rest = roots[0], path
    if path[0] == "/":
        for root in roots:
            alias = next((name for name in root.aliases if path.startswith(name.rstrip("/") + "/")), None)
            if alias is not None:
                rest = path[len(alias) :]
                break
        else:
            return None
    names = [name for name in rest.split("/") if name not in ("", ".")]
    return None if ".." in names or root.path == _TOP else (root, names)


def _is_name(path: str) -> bool:
    if not path or "\0" in path:
        return False
    if path.isascii():
        return True
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


def no_such_file(path: str) -> str:
    escaped = " Names that are shown escaped can only be reached through bash." if "\\" in path else ""
    return f"No such file: {path!r}. Find it with glob or list_dir.{escaped}"


def no_folder(path: str, found: os.stat_result | None) -> ToolFailure:
    if found is None:
        return ToolFailure(f"No such folder: {path!r}. Look at what there is with list_dir '.'.")
    return ToolFailure(f"Not a folder: {path!r}. Read files with read_file.")


@contextmanager
def as_failure(path: str, verb: str) -> Iterator[None]:
    """An OSError of the system becomes something the model can act on."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ToolFailure(f"Cannot {verb} {path!r}: {reason}.") from error
