"""Under which key the state of a project is kept, and for which git remote it was made."""

from __future__ import annotations

from pathlib import Path

from agentctl.config.paths import Homes, project_key
from agentctl.config.remote import remote_of
from agentctl.core.codec import dumps, loads
from agentctl.core.files import read_limited, replace_file
from agentctl.core.record import Record

NAME = "project.json"
_MAX_BYTES = 100_000


class Store(Record):
    """Where the state of a run's project is."""

    key: str
    root: str
    remote: str | None
    """Of the folder now. None: git has none, or the project has a name of its own."""
    is_recorded: bool
    """The store knows this remote already."""
    replaces: str | None = None
    """The remote that the store of this path was made for, when this is the first run of another one."""


def find_store(places: Homes, root: Path, name: str | None) -> Store:
    """The store of a folder or of `--project NAME`. Touches nothing.

    A remote that differs from the recorded one has a store of its own, also when it comes back later. A name is the
    user's word: no remote is looked at.
    """
    key = project_key(root, name)
    if name:
        return Store(key=key, root=str(root), remote=None, is_recorded=True)
    remote = remote_of(root)
    recorded = recorded_remote(places.sessions(key))
    if remote is None or recorded in (None, remote):
        return Store(key=key, root=str(root), remote=remote, is_recorded=remote is None or recorded is not None)
    other = project_key(root, remote=remote)
    is_known = recorded_remote(places.sessions(other)) == remote
    return Store(
        key=other, root=str(root), remote=remote, is_recorded=is_known, replaces=None if is_known else recorded
    )


def record_store(folder: Path, store: Store) -> None:
    """Writes down whose state the folder holds, once. Raises OSError."""
    if not store.is_recorded:
        replace_file(folder / NAME, dumps({"root": store.root, "remote": store.remote}) + b"\n", mode=0o600)


def recorded_remote(folder: Path) -> str | None:
    """The git remote that a store was made for, without secrets; None when it was made for none."""
    try:
        row = loads(read_limited(folder / NAME, _MAX_BYTES))
    except (OSError, ValueError):
        return None
    said = row.get("remote") if isinstance(row, dict) else None
    return said if isinstance(said, str) else None
