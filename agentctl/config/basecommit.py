"""Reads files of the base commit: only plumbing that reads objects, in a git that can run nothing of the repository."""

from __future__ import annotations

from pathlib import Path

from agentctl.config.git import run_git
from agentctl.core.record import Record

TIMEOUT_S = 20.0

_PLAIN_FILES = ("100644", "100755")
_SYMLINK = "120000"


class Blob(Record):
    """A file of the base commit. Neither `data` nor `refusal`: there is none."""

    data: bytes | None = None
    refusal: str = ""
    """Completes "in the base commit it …"."""
    link: str | None = None
    """Where it points, when it is a symlink."""


class BaseCommit:
    """One commit of the repository around `root`; found at the first question."""

    def __init__(self, root: Path, refs: tuple[str, ...]) -> None:
        self._root = root
        self._refs = refs
        self._commit: str | None = None
        self._is_looked_up = False
        self.why = ""
        """Why there is no commit, in git's words."""

    @property
    def commit(self) -> str | None:
        """The full id of the first of the refs that is in the clone, or None."""
        if not self._is_looked_up:
            self._is_looked_up = True
            self._commit = next(filter(None, map(self._resolve, self._refs)), None)
            if "single revision" in self.why:
                self.why = f"{self._refs[0]} is not in this clone"
        return self._commit

    def read(self, path: str, limit: int) -> Blob:
        """`path` is relative to the root, plain, with forward slashes."""
        commit = self.commit
        if commit is None:
            return Blob()
        listed = self._git("ls-tree", "-z", "-l", "--end-of-options", commit, path) or b""
        entry = listed.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        about, _, _name = entry.partition("\t")
        words = about.split()
        if len(words) != 4:
            return Blob()
        mode, kind, name, size = words
        if mode == _SYMLINK:
            target = (self._git("cat-file", "blob", name) or b"").decode("utf-8", "surrogateescape")
            return Blob(refusal="is not a regular file", link=target)
        if kind != "blob" or mode not in _PLAIN_FILES:
            return Blob(refusal="is not a regular file")
        if int(size) > limit:
            return Blob(refusal=f"is larger than {limit:,} bytes")
        data = self._git("cat-file", "blob", name)
        return Blob(data=data) if data is not None else Blob(refusal=f"cannot be read: {self.why}")

    def _resolve(self, ref: str) -> str | None:
        found = self._git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        return found.decode().strip() if found else None

    def _git(self, *arguments: str) -> bytes | None:
        """The output; None when git failed, with the reason in `why`."""
        output, why = run_git(self._root, *arguments, timeout_s=TIMEOUT_S)
        self.why = why or self.why
        return output
