"""Where sessions are kept when the state home cannot be written: a private folder below the temporary one."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from agentctl.core.files import keep_private, make_private_dir, replace_file
from agentctl.state.records import read_log

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


def open_spare(state: Path, folder: Path) -> None:
    """Makes `folder` below the spare state folder. Raises OSError when that is somebody else's."""
    make_private_dir(state)
    found = state.stat(follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise OSError(f"{state} belongs to somebody else")
    keep_private(state)
    make_private_dir(folder)


def adopt(source: Path, target: Path) -> None:
    """Copies the whole records of a journal that can be read only. Raises OSError."""
    if target.exists() or not source.exists():
        return
    log = read_log(source)
    with source.open("rb") as file:
        data = file.read(log.size - log.torn_bytes)
    replace_file(target, data, mode=0o600)
