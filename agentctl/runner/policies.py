"""Which policy files a run has, and how far each is believed. policy/ judges; here they are found and read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agentctl.config.settings import Settings
from agentctl.config.trust import MAX_BYTES, WorkspaceReader
from agentctl.core.errors import PolicyError
from agentctl.core.files import read_limited
from agentctl.core.types import ToolSpec
from agentctl.policy.engine import PolicyEngine
from agentctl.policy.loading import PolicySource, load_policy
from agentctl.policy.shfmt import ShfmtParser, find_shfmt
from agentctl.policy.shipped import PREFIX, profile_text
from agentctl.sandbox.environment import shell_argv
from agentctl.tools.sets import catalogue_tools

ADMIN_FOLDER = Path("/etc/agentctl")
PROJECT_POLICY = ".agentctl/policy.toml"


def load_run_policy(settings: Settings, reader: WorkspaceReader) -> PolicyEngine:
    """The policy of a run from all its sources: a set, whose order means nothing. Raises PolicyError."""
    sources = [*_named(settings, reader), *_admin(), *_project(settings, reader), *_user(settings)]
    shfmt = find_shfmt(settings.root)
    return load_policy(
        sources,
        allow=[str(given.value) for given in settings.allow],
        deny=[str(given.value) for given in settings.deny],
        is_yolo=settings.yolo,
        root=settings.root,
        shell=ShfmtParser(shfmt) if shfmt else None,
        extra_roots=[Path(folder) for folder in settings.add_dir],
        protected=_protected(settings),
        is_bash=shell_argv()[1] == "bash",
        find_spec=_find_spec,
    )


def _protected(settings: Settings) -> tuple[Path, ...]:
    """What belongs to agentctl: nothing that a model calls may write it, wherever it lies."""
    homes = settings.homes
    own = [*(getattr(homes, name) for name in homes.fields), Path(__file__).resolve().parents[1]]
    if settings.budget_file is not None:
        own += [Path(settings.budget_file), Path(f"{settings.budget_file}.lock")]
    is_file = settings.policy is not None and not settings.policy.startswith(PREFIX)
    return (*own, settings.root / settings.policy) if is_file and settings.policy else tuple(own)


def _find_spec(name: str) -> ToolSpec | None:
    """A built-in tool, for a call that stands for one."""
    tool = catalogue_tools().get(name)
    return tool.spec if tool else None


def _named(settings: Settings, reader: WorkspaceReader) -> list[PolicySource]:
    """--policy: a file, believed unless it lies in a workspace that is not; or a shipped profile."""
    if settings.policy is None:
        return []
    if settings.policy.startswith(PREFIX):
        text = profile_text(settings.policy)
        return [PolicySource(name=settings.policy, text=text, is_trusted=True, kind="shipped")]
    path = Path(settings.policy)
    inside = reader.inside(path)
    if inside is None:
        return [PolicySource(name=_shown(path, settings), text=_read(path), is_trusted=True, kind="flag")]
    data = reader.read(inside)
    if data is not None:
        return [PolicySource(name=inside, text=_decode(data, inside), is_trusted=True, kind="flag")]
    data = reader.read_untrusted(inside)
    if data is None:
        raise PolicyError(f"--policy {inside!r} does not exist or is no readable file", hint="Check the path.")
    return [PolicySource(name=inside, text=_decode(data, inside), is_trusted=False, kind="flag")]


def _project(settings: Settings, reader: WorkspaceReader) -> list[PolicySource]:
    """The checkout's own policy; of one that is not trusted, or under --isolated, only the refusals count."""
    if not os.path.lexists(settings.root / PROJECT_POLICY):
        return []
    trusted = None if settings.isolated else reader.read(PROJECT_POLICY)
    data = trusted if trusted is not None else reader.read_untrusted(PROJECT_POLICY)
    if data is None:
        return []
    text = _decode(data, PROJECT_POLICY)
    return [PolicySource(name=PROJECT_POLICY, text=text, is_trusted=trusted is not None, kind="project")]


def _user(settings: Settings) -> list[PolicySource]:
    path = settings.homes.config / "policy.toml"
    if not path.exists():
        return []
    return [PolicySource(name=str(path), text=_read(path), is_trusted=not settings.isolated, kind="user")]


def _admin() -> list[PolicySource]:
    """The machine's policy: believed when only root can write it; otherwise only its refusals."""
    path = ADMIN_FOLDER / "policy.toml"
    if not path.exists():
        return []
    is_safe = all(_only_root_writes(item) for item in (ADMIN_FOLDER, path))
    return [PolicySource(name=str(path), text=_read(path), is_trusted=is_safe, kind="admin")]


def _only_root_writes(path: Path) -> bool:
    found = path.stat()
    return found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> str:
    try:
        return _decode(read_limited(path, MAX_BYTES), str(path))
    except OSError as error:
        raise PolicyError(f"the policy {str(path)!r} cannot be read: {error.strerror or error}") from None


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PolicyError(f"{name}: not UTF-8 at byte {error.start}", hint="Save the file as UTF-8.") from None


def _shown(path: Path, settings: Settings) -> str:
    """Short names in messages: relative where the file lies below the workspace."""
    return str(path.relative_to(settings.root)) if path.is_relative_to(settings.root) else str(path)
