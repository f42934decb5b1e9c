"""What the checkout may say: decided once, before any of its files is read.

`decide` looks at the event the run was started for. `WorkspaceReader` is then the only way to what the workspace says
about the run (config, policy, instructions): from the work tree, from the base commit, or not at all.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias, cast

from agentctl.config.basecommit import BaseCommit
from agentctl.core.record import Record
from agentctl.core.types import Problem

Level: TypeAlias = Literal["workspace", "base", "none"]

MAX_BYTES = 1_000_000
"""Largest file that may say something about a run."""

_MAX_EVENT_BYTES = 32_000_000


class Trust(Record):
    """The decision. For level `base`: where the base commit may be found, best first, and what fetches it."""

    level: Level
    why: str
    """The flag, variable or file that set it, the event that lowered it, or `built-in`."""
    base_refs: tuple[str, ...] = ()
    """Commit ids in full and names below refs/remotes/origin/."""
    fetch: str = ""


def decide(given: str | None, env: Mapping[str, str], *, origin: str = "--trust") -> Trust:
    """`given` is a level that somebody set at `origin`. Otherwise the event of the CI system decides.

    Events that run with the rights of the repository on content of somebody else get `base`.
    """
    event = _foreign_event(env)
    level = cast(Level, given) if given else ("base" if event else "workspace")
    why = origin if given else (event or "built-in")
    if level != "base":
        return Trust(level=level, why=why)
    commits, branches = _bases(env)
    refs = (*commits, *(f"refs/remotes/origin/{branch}" for branch in branches or ("HEAD",)))
    wanted = refs[0] if commits else f"+refs/heads/{branches[0]}:{refs[0]}" if branches else f"+HEAD:{refs[0]}"
    return Trust(level="base", why=why, base_refs=refs, fetch=f"git fetch --no-tags --depth=1 origin {wanted}")


def _foreign_event(env: Mapping[str, str]) -> str:
    event = env.get("GITHUB_EVENT_NAME", "")
    if event.startswith("pull_request") or event in ("issue_comment", "workflow_run"):
        return f"GITHUB_EVENT_NAME={event}"
    if env.get("CI_PIPELINE_SOURCE") == "merge_request_event":
        return "CI_PIPELINE_SOURCE=merge_request_event"
    return "CHANGE_ID" if env.get("CHANGE_ID") else ""


def _bases(env: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Commits and branches that hold the base, as the CI system names them; what is no plain name is left out."""
    event = env.get("GITHUB_EVENT_NAME", "")
    if event in ("pull_request_target", "issue_comment", "workflow_run"):
        commits = [env.get("GITHUB_SHA", "")]  # for these events it is a commit of the base itself
    elif event.startswith("pull_request"):
        commits = [_base_of_event(env.get("GITHUB_EVENT_PATH", ""))]
    else:
        commits = [env.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA", ""), env.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", "")]
    branches = [
        env.get(name, "") for name in ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CHANGE_TARGET")
    ]
    return tuple(filter(_is_commit, commits)), tuple(filter(_is_branch, branches))


def _base_of_event(path: str) -> str:
    """`pull_request.base.sha` of the event file of a workflow run; empty when it cannot be read."""
    from agentctl.core.codec import loads

    try:
        with Path(path).open("rb") as file:
            event = loads(file.read(_MAX_EVENT_BYTES))
        return str(event["pull_request"]["base"]["sha"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _is_commit(text: str) -> bool:
    return len(text) in (40, 64) and all(char in "0123456789abcdef" for char in text)


def _is_branch(text: str) -> bool:
    plain = text.replace("/", "").replace("-", "").replace("_", "").replace(".", "")
    return plain.isalnum() and plain.isascii() and ".." not in text and not text.startswith(("-", "/", "."))


class WorkspaceReader:
    """Reads what the workspace says about the run, under a trust decision. Files are read whole, at most 1 MB."""

    def __init__(self, root: Path, trust: Trust) -> None:
        self._root = root
        self._trust = trust
        self._base = BaseCommit(root, trust.base_refs) if trust.level == "base" else None
        self._problems: dict[str, Problem] = {}

    @property
    def level(self) -> Level:
        """What holds in effect: `none` also when the base commit is not in the clone."""
        return "none" if self._base is not None and self._base.commit is None else self._trust.level

    @property
    def problems(self) -> tuple[Problem, ...]:
        """One for each file that was left out so far, with what mends it."""
        return tuple(self._problems.values())

    def inside(self, path: Path) -> str | None:
        """The path relative to the root, when it lies in the workspace, by its name or by where it leads."""
        for candidate in (Path(os.path.normpath(self._root / path)), (self._root / path).resolve()):
            for root in (self._root, self._root.resolve()):
                if candidate != root and candidate.is_relative_to(root):
                    return candidate.relative_to(root).as_posix()
        return None

    def read(self, path: str, *, aliases: Collection[str] = ()) -> bytes | None:
        """The trusted content of a file, by its path relative to the root; None when there is none.

        A file that exists and is not given is named in `problems`, except a symlink to one of `aliases` in its own
        folder: a second name of a file that is read anyway. Raises ValueError for a path that leaves the root.
        """
        parts = _parts(path)
        if self.level == "workspace":
            return self._read_worktree(path, parts, aliases)
        if self.level == "base" and self._base is not None:
            return self._read_base(path, parts, self._base, aliases)
        if self._exists(parts):
            self._leave_out(path, *self._why_untrusted())
        return None

    def read_untrusted(self, path: str) -> bytes | None:
        """What the work tree says, trusted or not. Only refusals of it may count: they cannot widen anything."""
        return self._read_worktree(path, _parts(path))

    def _read_worktree(self, path: str, parts: tuple[str, ...], aliases: Collection[str] = ()) -> bytes | None:
        try:
            return _read_plain(self._root, parts)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP and _link(self._root.joinpath(*parts)) in aliases:
                return None
            why = _REFUSED.get(error.errno or 0) or error.strerror or str(error)
            self._leave_out(path, why, "Put a plain, readable file of at most 1 MB there.")
            return None

    def _read_base(self, path: str, parts: tuple[str, ...], base: BaseCommit, aliases: Collection[str]) -> bytes | None:
        blob = base.read("/".join(parts), MAX_BYTES)
        if blob.link in aliases:
            return None
        if blob.refusal:
            self._leave_out(path, f"in the base commit it {blob.refusal}", "Commit a plain file of at most 1 MB.")
        elif blob.data is None and self._exists(parts):
            why = f"it is not in the base commit ({self._trust.why})"
            self._leave_out(path, why, "It counts once it is merged; --trust workspace believes the checkout.")
        return blob.data

    def _why_untrusted(self) -> tuple[str, str]:
        if self._base is None:
            return (
                f"the workspace is not trusted ({self._trust.why})",
                "Use --trust workspace if the checkout is yours.",
            )
        return (
            f"the base commit cannot be read ({self._trust.why}): {self._base.why}",
            f"Run before agentctl: {self._trust.fetch}",
        )

    def _exists(self, parts: tuple[str, ...]) -> bool:
        return os.path.lexists(self._root.joinpath(*parts))

    def _leave_out(self, path: str, why: str, fix: str) -> None:
        self._problems[path] = Problem(code="left-out", what=path, why=why, fix=fix)


def _link(path: Path) -> str | None:
    """Where a symlink points, as it is written; None when it is none."""
    try:
        return str(path.readlink())
    except OSError:
        return None


_REFUSED = {
    errno.ELOOP: "it is a symbolic link or lies behind one",
    errno.EFBIG: "it is larger than 1 MB",
    errno.EINVAL: "it is not a regular file",
    errno.ENXIO: "it is not a regular file",
}


def _parts(path: str) -> tuple[str, ...]:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
        raise ValueError(f"{path!r} is not a path inside the workspace")
    return pure.parts


def _read_plain(root: Path, parts: tuple[str, ...]) -> bytes:
    """Raises OSError: ELOOP for a link anywhere below the root, EINVAL for no regular file, EFBIG above the limit."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = _open_below(folder, part, os.O_DIRECTORY)
            os.close(folder)
            folder = inner
        with open(_open_below(folder, parts[-1], os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(folder)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, "too large")
    return data


def _open_below(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    except NotADirectoryError:  # Linux says so for a link that was to be a folder
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            raise OSError(errno.ELOOP, "a symbolic link") from None
        raise
