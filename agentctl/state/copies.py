"""A second session made of one: its journal, whole or not at all, and its files of the workspace.

A run that is killed in between leaves no half session.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentctl.core.codec import dumps
from agentctl.core.errors import JournalError
from agentctl.core.files import copy_file, make_private_dir, replace_file
from agentctl.core.record import map_strings
from agentctl.core.text import digest_of
from agentctl.core.types import JsonObject
from agentctl.state.approvals import asked_anew
from agentctl.state.folder import STATE, check_inside, made, state_root
from agentctl.state.journal import read_session_log
from agentctl.state.tally import FORMAT

STAYS = frozenset({"header", "usage"})
"""Kinds that belong to one session alone: who it is, and what it cost."""
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}){0,3}", re.ASCII)


def fork_session(
    source: Path, target: Path, redact: Callable[[str], str], *, root: Path, session: str, now: str, **facts: object
) -> None:
    """Copies history, plan and views, and records that this version does not know. `facts` make the new header.

    Calls that wait for approval ask anew; what was granted stays behind. The session's files in the workspace `root`
    are copied too, and the paths of the history lead to the copies. Raises UsageError for a source that cannot be
    read, JournalError for a target that cannot be written.
    """
    rows = [row for _, row in read_session_log(source).rows if row["record"] not in STAYS]
    kept = (row if row["record"] != "approval" else asked_anew(row, session, now) for row in rows)
    header: JsonObject = {"record": "header", "time": now, "format": FORMAT, "session": session, **facts}
    masked: Iterator[JsonObject] = (map_strings(row, redact) for row in (header, *filter(None, kept)))
    if copy_files(root, source.stem, session):
        masked = _moved(masked, f"{STATE}/{source.stem}/", f"{STATE}/{session}/")
    data = b"".join(dumps(row) + b"\n" for row in masked)
    try:
        make_private_dir(target.parent)
        replace_file(target, data, mode=0o600)
    except OSError as error:
        raise JournalError(
            f"the journal {str(target)!r} cannot be written: {error}",
            hint="Free space there, or set AGENTCTL_HOME to a folder that can be written.",
        ) from error


def copy_files(root: Path, origin: str, session: str) -> bool:
    """Gives a session what another one keeps in the workspace: notebook, stack, outputs. Whether it has it all now.

    Where that cannot be written the copy of the session goes on with the paths of its origin.
    """
    source, target = state_root(root) / origin, state_root(root) / session
    copied: list[Path] = []
    try:
        check_inside(source, root)
        for name in files_below(source):
            path = made((target / name).parent, root) / target.joinpath(name).name
            with suppress(FileExistsError):  # a first try got this far
                copy_file(source / name, path)
                copied.append(path)
    except OSError:
        for path in copied:
            path.unlink(missing_ok=True)
        return False
    return target.is_dir()


def files_below(folder: Path) -> Iterator[str]:
    """Plain files, by their path relative to the folder; links are not followed."""
    for place, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            relative = path.relative_to(folder).as_posix()
            if stat.S_ISREG(path.lstat().st_mode) and FILE_NAME.fullmatch(relative):
                yield relative


def _moved(rows: Iterator[JsonObject], old: str, new: str) -> Iterator[JsonObject]:
    """The rows with every path below `old` below `new`, and views that know the texts by their new digests."""
    digests: dict[str, str] = {}

    def move(text: str) -> str:
        if old not in text:
            return digests.get(text, text)
        moved = text.replace(old, new)
        digests[digest_of(text)] = digest_of(moved)
        return moved

    return (_outside_opaque(row, move) for row in rows)


def _outside_opaque(value: Any, change: Callable[[str], str]) -> Any:
    """What a service signed stays as it is; it would refuse it otherwise."""
    if isinstance(value, dict):
        return {key: item if key == "opaque" else _outside_opaque(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_outside_opaque(item, change) for item in value]
    return change(value) if isinstance(value, str) else value
