"""Where a path leads: as written and behind every symlink, relative to the workspace, inside the roots or not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agentctl.core.record import Record

_DEVICES = frozenset({
    "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/random", "/dev/urandom",
})  # fmt: skip
_WRITABLE_DEVICES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
MAX_FOLDERS = 4096
MAX_MATCHES = 1000
"""Files that one file name pattern may stand for before it counts as unknown."""


class Place(Record):
    """One path as the policy sees it. Relative names have forward slashes and are empty outside the workspace."""

    shown: str
    """As it was written."""
    full: str
    """Absolute, without `.` and `..`, symlinks as they are."""
    real: str
    """Absolute, behind all symlinks."""
    names: tuple[str, ...]
    """Relative to the workspace, as written and real; one entry when both are the same."""
    is_inside: bool
    """Below one of the roots, behind all symlinks too."""
    is_device: bool = False

    @property
    def all_names(self) -> tuple[str, ...]:
        """What refusals look at: outside the workspace the absolute names without their first slash."""
        return self.names or (self.full.lstrip("/"), self.real.lstrip("/"))


class Places:
    """The roots of a run. `root` is the workspace; the others may be read and written too, their names are absolute."""

    def __init__(self, root: Path, extra_roots: Sequence[Path] = (), private_tmp: Path | None = None) -> None:
        self.root = os.path.realpath(root)
        self._written_root = os.path.abspath(root)  # noqa: PTH100  # resolves no symlinks, as a shell would not
        others = [*extra_roots, *([private_tmp] if private_tmp else [])]
        self._real_folders: dict[str, str] = {}
        self._roots = (self.root, *(os.path.realpath(path) for path in others))

    def find(self, path: str, cwd: str | None = None, access: str = "read") -> Place:
        """Never raises: what cannot be resolved lies outside."""
        joined = os.path.join(cwd or self.root, path)  # noqa: PTH118  # pathlib would drop `..` rules of its own
        full = os.path.normpath(joined)
        try:
            real = self._resolved(joined)
        except (OSError, ValueError, RecursionError):
            return Place(shown=path, full=full, real=full, names=(), is_inside=False)
        devices = _DEVICES if access == "read" else _WRITABLE_DEVICES
        is_device = full in devices or full.startswith("/dev/fd/")
        is_inside = is_device or any(_below(real, root) for root in self._roots)
        names = tuple(dict.fromkeys(name for name in (self._name(full), self._name(real)) if name is not None))
        return Place(shown=path, full=full, real=real, names=names, is_inside=is_inside, is_device=is_device)

    def find_read(self, name: str) -> Place:
        """As `find` for a file below the workspace, quick for many files: real folders are remembered."""
        folder, _, last = name.rpartition("/")
        if folder not in self._real_folders:
            if len(self._real_folders) >= MAX_FOLDERS:
                self._real_folders.clear()
            self._real_folders[folder] = self.find(folder or ".").real
        full = f"{self._real_folders[folder]}/{last}"
        if last in ("", ".", "..") or name.startswith("/") or ".." in folder or os.path.islink(full):  # noqa: PTH114  # quick
            return self.find(name)
        names = tuple(dict.fromkeys(item for item in (name, self._name(full)) if item is not None))
        is_inside = any(_below(full, root) for root in self._roots)
        return Place(shown=name, full=full, real=full, names=names, is_inside=is_inside)

    def _resolved(self, path: str) -> str:
        return os.path.realpath(path)

    def _name(self, full: str) -> str | None:
        for root in (self.root, self._written_root):
            if _below(full, root):
                return full[len(root.rstrip("/")) + 1 :] or "."
        return None


class EmptyWorkspace(Places):
    """A workspace that holds nothing, on a machine without symlinks: the disk is not looked at."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent/workspace"))

    def _resolved(self, path: str) -> str:
        return os.path.normpath(path)


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def matching_files(pattern: str, cwd: str) -> tuple[str, ...] | None:
    """What a file name pattern stands for now, or None when that is too much to say. The pattern itself counts too."""
    from glob import iglob  # only for lines with file name patterns

    found = [pattern]
    base = None if os.path.isabs(pattern) else cwd  # noqa: PTH117  # a string, maybe with odd characters
    for name in iglob(pattern, root_dir=base):  # noqa: PTH207  # pathlib has other rules for hidden files
        found.append(name)
        if len(found) > MAX_MATCHES:
            return None
    return tuple(found)
