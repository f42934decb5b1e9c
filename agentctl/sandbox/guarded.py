"""Files inside the workspace that decide what runs: their state before a command, and what it did to them undone.

Level 2 cannot take a file out of a folder that commands may write to, and level 3 cannot make one read-only that is
not there yet. So the files are remembered before each command and compared after it, when nothing of it is alive.
Contents are read again only when the kernel's own record of the file (inode, size, times of change) says something
else than before; a change in the same instant as the last look is found by its digest.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from agentctl.core.files import replace_file
from agentctl.core.record import Record
from agentctl.sandbox.repositories import FILES, FOLDERS, repositories

RULE_FILES = (".agentctl/policy.toml", ".agentctl/config.toml")
RULE_FOLDERS = (".agentctl/plugins",)
"""With everything below them. What git runs and believes stands in repositories.py."""
STATE_FOLDER = ".agentctl/state"
"""Kept outputs and notebooks. agentctl itself writes there while commands run, so nothing can be compared."""
HELD_FOLDERS = (".git", ".agentctl")
"""Have to stay the folders that they are: in their place another could bring rules of its own."""

COMPILED = "__pycache__"

MAX_BYTES = 32_000_000
"""Of what is kept to be put back. What is above is compared, and a change is named but not undone."""
MAX_LINES = 20
_RECENT_NS = 200_000_000
"""A file that changed less than this before it was looked at may change again without another time."""


class _Seen(Record):
    """One path: what the kernel says of it, and its content where it has one. `kind` is file, link, folder or other."""

    kind: str
    mark: tuple[int, ...]
    mode: int
    data: bytes | None
    digest: bytes
    is_settled: bool
    """False when a change in the same instant could have the same mark."""


class Guarded:
    """The guarded files of the roots of a run. Use from one thread; `before` and `after` stand around commands."""

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        shared: Sequence[Path] = (),
        files: Iterable[Path] = (),
        folders: Iterable[Path] = (),
    ) -> None:
        """`shared` are repositories outside that commands may write to as well. `files` and `folders` are further
        ones, absolute, such as the installation of agentctl. What lies in no root is left to the other walls."""
        self._roots = tuple(roots)
        self._shared = tuple(shared)
        self._held = [root / name for root in roots for name in HELD_FOLDERS]
        self._files = [root / name for root in roots for name in RULE_FILES]
        self._files += [path for path in files if self._root_of(path)]
        self._folders = [root / name for root in roots for name in RULE_FOLDERS]
        self._folders += [path for path in folders if self._root_of(path)]
        self._known: dict[str, _Seen] = {}
        self._running = 0
        self._checked: set[Path] = set()
        """Folders of this comparison that lead where their names say; no command is alive to change that."""

    def present(self) -> tuple[list[Path], list[Path]]:
        """(folders to hold in their place, files and folders to make read-only) as they are now, without symlinks."""
        held = [path for path in self._held if path.is_dir() and not path.is_symlink()]
        fixed = [path for path in self._held if path.is_file() and not path.is_symlink()]
        fixed += [path for path in (*self._files, *self._folders) if path.exists() and not path.is_symlink()]
        fixed += [path for path in (root / STATE_FOLDER for root in self._roots) if path.is_dir()]
        for folder in repositories(self._roots, self._shared):
            inner = [Path(folder, name) for name in (*FILES, *FOLDERS)]
            fixed += [path for path in inner if path.exists() and not path.is_symlink()]
        return held, [path for path in dict.fromkeys(fixed) if path.resolve() == path]

    def before(self) -> None:
        """Remembers. With commands running already, what was before the first of them counts."""
        if not self._running:
            self._known = self._look(self._known, reads_new=True)
        self._running += 1

    def after(self) -> list[str]:
        """Undoes what commands did. Returns a line for each path, for people and for the model.

        A repository where there was none is the command's own: `git init` is ordinary work.
        """
        self._running -= 1
        self._checked.clear()
        lines = self._put_back_folders()
        now = self._look(self._known, reads_new=False)
        new_repositories = [name for name in repositories(self._roots, self._shared) if name not in self._known]
        for name in sorted({*self._known, *now}):
            old, new = self._known.get(name), now.get(name)
            if _is_same(old, new):
                continue
            path = Path(name)
            if any(path.is_relative_to(folder) for folder in new_repositories):
                continue
            if old is None and new is not None and new.kind == "folder" and path in self._held:
                continue  # kept outputs of this run may have made it
            if old is None and not os.path.lexists(path):
                continue  # went with the folder that it was in
            line = self._undo(path, old, new)
            if COMPILED not in path.parts:  # Python writes there whenever a module is imported
                lines.append(line)
        more = len(lines) - MAX_LINES
        return lines if more <= 0 else [*lines[:MAX_LINES], f"{more} more changes of guarded files were undone"]

    def _root_of(self, path: Path) -> Path | None:
        return next((root for root in (*self._roots, *self._shared) if path.is_relative_to(root)), None)

    # --- looking ------------------------------------------------------------------------------------------------

    def _look(self, known: dict[str, _Seen], *, reads_new: bool) -> dict[str, _Seen]:
        found: dict[str, _Seen] = {}
        room = MAX_BYTES
        for path in self._paths():
            before = known.get(path)
            seen = _see(path, before, room if before is not None or reads_new else -1)
            if seen is not None:
                found[path] = seen
                room -= len(seen.data or b"")
        return found

    def _paths(self) -> Iterable[str]:
        """Strings: an installation of agentctl in the workspace has hundreds of files."""
        yield from map(str, self._held)
        for folder in repositories(self._roots, self._shared):
            yield folder
            yield from (f"{folder}/{name}" for name in FILES)
            for name in FOLDERS:
                yield from _everything(f"{folder}/{name}")
        yield from map(str, self._files)
        for tree in self._folders:
            yield from _everything(str(tree))

    # --- undoing ------------------------------------------------------------------------------------------------

    def _put_back_folders(self) -> list[str]:
        """A held folder that was moved away comes back to its place, and what stands there instead goes."""
        lines = []
        for folder in self._held:
            old = self._known.get(str(folder))
            if old is None or old.kind != "folder" or _identity(folder) == old.mark[:2]:
                continue
            original = next((path for path in _neighbours(folder) if _identity(path) == old.mark[:2]), None)
            if original is None:
                continue
            with suppress(OSError):
                if os.path.lexists(folder):
                    folder.rename(folder.with_name(f"{folder.name}.of-a-command-{os.urandom(3).hex()}"))
                original.rename(folder)
                lines.append(f"{self._shown(folder)} was moved by the command; it was put back")
        return lines

    def _undo(self, path: Path, old: _Seen | None, new: _Seen | None) -> str:
        what = "made" if old is None else "deleted" if new is None else "changed"
        try:
            self._check_parents(path)
            if old is None:
                _remove(path)
                return f"{self._shown(path)} was made by the command; it was removed"
            if not _restore(path, old, new):
                return f"{self._shown(path)} was {what} by the command; it could not be put back"
        except OSError as error:
            return f"{self._shown(path)} was {what} by the command; undoing failed: {error.strerror or error}"
        return f"{self._shown(path)} was {what} by the command; it was put back"

    def _check_parents(self, path: Path) -> None:
        """Makes missing folders again; what leads elsewhere is removed first, so that nothing is written there."""
        if path.parent in self._checked:
            return
        root = self._root_of(path)
        assert root is not None, "only what lies in a root is looked at"
        step = root
        for name in path.relative_to(root).parts[:-1]:
            step /= name
            if step.is_symlink() or (os.path.lexists(step) and not step.is_dir()):
                step.unlink()
            if not step.exists():
                step.mkdir(mode=0o755)
        self._checked.add(path.parent)

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._roots[0])) if path.is_relative_to(self._roots[0]) else str(path)


def _see(path: str, known: _Seen | None, room: int) -> _Seen | None:
    """`room` is how many bytes may be kept; negative for something whose content is no matter."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    mark = (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if stat.S_ISDIR(found.st_mode):
        # Its times change with every file that is made in it, which is no matter of ours.
        return _Seen(
            kind="folder", mark=mark[:3], mode=stat.S_IMODE(found.st_mode), data=None, digest=b"", is_settled=True
        )
    if known is not None and known.mark == mark and known.is_settled:
        return known
    kind = "link" if stat.S_ISLNK(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    data, digest = _content(path, kind, found.st_size, room) if room >= 0 else (None, b"")
    return _Seen(
        kind=kind,
        mark=mark,
        mode=stat.S_IMODE(found.st_mode),
        data=data,
        digest=digest,
        is_settled=time.time_ns() - found.st_ctime_ns > _RECENT_NS,
    )


def _content(path: str, kind: str, size: int, room: int) -> tuple[bytes | None, bytes]:
    from hashlib import sha256

    try:
        if kind == "link":
            data = os.fsencode(os.readlink(path))  # noqa: PTH115  # bytes are wanted
        elif kind == "file" and size <= room:
            data = Path(path).read_bytes()
        elif kind == "file":
            with Path(path).open("rb") as file:
                digest = sha256()
                while block := file.read(1 << 20):
                    digest.update(block)
            return None, digest.digest()
        else:
            return None, b""
    except OSError as error:
        return None, str(error.errno).encode()
    return data, sha256(data).digest()


def _is_same(old: _Seen | None, new: _Seen | None) -> bool:
    if old is None or new is None:
        return old is new
    if old.kind == "folder" == new.kind:
        return True
    return (old.kind, old.mode, old.digest) == (new.kind, new.mode, new.digest)


def _restore(path: Path, old: _Seen, new: _Seen | None) -> bool:
    """Whether the old content was there to be put back."""
    if old.kind == "folder":
        if new is not None:
            _remove(path)
        path.mkdir(mode=old.mode)
        return True
    if old.data is None:
        return False
    if new is not None and (new.kind != "file" or old.kind == "link"):
        _remove(path)
    if old.kind == "link":
        path.symlink_to(os.fsdecode(old.data))
    else:
        replace_file(path, old.data, mode=old.mode, syncs=False)
    return True


def _remove(path: Path) -> None:
    """A file, a link, or a folder with everything in it; follows no symlink."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for inner in path.iterdir():
        _remove(inner)
    path.rmdir()


def _everything(folder: str) -> Iterable[str]:
    """The folder and all that is below it, without following symlinks."""
    yield folder
    waiting = [folder]
    while waiting:
        try:
            if waiting == [folder] and os.path.islink(folder):  # noqa: PTH114  # a string
                return
            with os.scandir(waiting.pop()) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            yield entry.path
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _neighbours(folder: Path) -> list[Path]:
    try:
        return list(folder.parent.iterdir())
    except OSError:
        return []


def _identity(path: Path) -> tuple[int, ...]:
    try:
        found = path.lstat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino)
