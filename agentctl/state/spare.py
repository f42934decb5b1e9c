"""Where sessions are kept when the state home cannot be written: a private folder below the temporary one."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from agentctl.core.files import keep_private, make_private_dir, read_limited, replace_file
from agentctl.core.locks import LockHeld, lock_file

MAX_BYTES = 1_000_000_000
_PLACES = ("RUNNER_TEMP", "TMPDIR")


def spare_state(env: Mapping[str, str]) -> Path:
    """The same folder for every run of this user on this machine, so that a later one finds what this one saved."""
    base = next((env[name] for name in _PLACES if Path(env.get(name, "")).is_absolute()), "/tmp")
    return Path(base) / f"agentctl-{os.getuid()}"


def why_not_writable(folder: Path) -> str:
    """Why no journal can be made in the folder; empty when one can. Makes the folder."""
    try:
        make_private_dir(folder)
    except OSError as error:
        return f"{error.strerror or error}"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "it is not writable"


def is_ours(state: Path, *, makes: bool = False) -> bool:
    """Whether the spare state folder is a private one of this user; with `makes` it is made when it is missing."""
    try:
        if makes:
            make_private_dir(state)
        found = state.stat(follow_symlinks=False)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return False
    keep_private(state)
    return True


def adopt(source: Path, target: Path) -> None:
    """Copies the whole records of a journal that can be read only. Raises OSError."""
    if target.exists() or not source.exists():
        return
    make_private_dir(target.parent)
    replace_file(target, _whole(source), mode=0o600)


def bring_back(source: Path, target: Path) -> bool:
    """Takes a journal from the spare place home, when it is what stands here and what came after. Raises OSError.

    Only under the lease of the target.
    """
    if not source.exists() or not is_ours(source.parents[2]):
        return False
    here = _whole(target) if target.exists() else b""
    there = _whole(source)
    if len(there) <= len(here) or not there.startswith(here):
        return False
    try:
        lock = lock_file(source.with_suffix(".lock"))
    except LockHeld:
        return False
    with lock:  # a full disk too lets go of it: this very run may have to go on in the spare place
        replace_file(target, there, mode=0o600)
        source.unlink()
        lock.remove()
    return True


def _whole(path: Path) -> bytes:
    """The complete lines of a log."""
    whole, newline, _torn = read_limited(path, MAX_BYTES).rpartition(b"\n")
    return whole + newline
