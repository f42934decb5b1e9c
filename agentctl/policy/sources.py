"""Which policy files form the set of a run: --policy, admin folder, project, user. Trust is decided elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from agentctl.core.errors import PolicyError
from agentctl.core.record import Record

Kind = Literal["flag", "admin", "project", "user", "builtin"]
ADMIN_FOLDER = Path("/etc/agentctl")
MAX_BYTES = 1024 * 1024


class PolicySource(Record):
    """A policy text with its origin. Of an untrusted one only deny and ask rules and a stricter `unmatched` count."""

    name: str
    """The path as it is shown."""
    text: str
    is_trusted: bool
    kind: Kind


ReadWorkspace: TypeAlias = Callable[[Path], tuple[str, bool] | None]
"""Text and trust of a file inside the workspace (maybe from the base commit); None when there is none."""


def find_sources(
    flags: Sequence[str],
    *,
    root: Path,
    read_workspace: ReadWorkspace,
    user_file: Path | None = None,
    admin_folder: Path = ADMIN_FOLDER,
) -> tuple[PolicySource, ...]:
    """All sources that exist. `user_file` is None for isolated runs. Raises PolicyError for a --policy file that
    cannot be read, and for any existing policy file that is not text: a refusal must not get lost."""
    found = [_flag_source(flag, root, read_workspace) for flag in flags]
    for path in sorted(admin_folder.glob("*.toml")) if admin_folder.is_dir() else ():
        is_owned = _is_admin_owned(path) and _is_admin_owned(admin_folder)
        found.append(PolicySource(name=str(path), text=_text(path), is_trusted=is_owned, kind="admin"))
    project = read_workspace(root / ".agentctl" / "policy.toml")
    if project:
        found.append(PolicySource(name=".agentctl/policy.toml", text=project[0], is_trusted=project[1], kind="project"))
    if user_file and user_file.is_file():
        found.append(PolicySource(name=str(user_file), text=_text(user_file), is_trusted=True, kind="user"))
    return tuple(found)


def _flag_source(flag: str, root: Path, read_workspace: ReadWorkspace) -> PolicySource:
    path = Path(flag).absolute()
    if path.resolve().is_relative_to(root.resolve()):
        read = read_workspace(path)
        if read is None:
            raise PolicyError(f"--policy {flag!r}: no such file", hint="Name a policy file that exists.")
        return PolicySource(name=flag, text=read[0], is_trusted=read[1], kind="flag")
    if not path.is_file():
        raise PolicyError(f"--policy {flag!r}: no such file", hint="Name a policy file that exists.")
    return PolicySource(name=flag, text=_text(path), is_trusted=True, kind="flag")


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise PolicyError(
                f"{path}: larger than {MAX_BYTES:,} bytes", hint="A policy file is a short list of rules."
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise PolicyError(f"{path}: cannot be read: {fault}", hint="Make it a readable UTF-8 file.") from fault


def _is_admin_owned(path: Path) -> bool:
    """Root owns it and nobody else may write it."""
    status = path.stat()
    return status.st_uid == 0 and not status.st_mode & 0o022
