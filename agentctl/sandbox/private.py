"""A folder for the commands of one run: their TMPDIR and the caches of their tools. Removed at the end.

A run that is killed cannot do that, so the next one does: while a run lives it holds a lock on its folder, which the
kernel frees however the run dies.

agentctl-PID-RANDOM/    ours; commands cannot write here, which is how each of them is checked
    tmp/                TMPDIR
    cache/              what pip, npm, cargo, go and others keep
    run/                XDG_RUNTIME_DIR
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentctl.core.files import make_private_dir
from agentctl.core.locks import LockHeld, lock_folder

TEMPORARY = ("TMPDIR", "TMP", "TEMP")
CACHES: dict[str, str] = {
    "XDG_CACHE_HOME": "",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "POETRY_CACHE_DIR": "poetry",
    "npm_config_cache": "npm",
    "NPM_CONFIG_CACHE": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "npm_config_store_dir": "pnpm",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "DENO_DIR": "deno",
    "CARGO_HOME": "cargo",
    "GOCACHE": "go-build",
    "GOMODCACHE": "go-mod",
    "CCACHE_DIR": "ccache",
    "GRADLE_USER_HOME": "gradle",
    "NUGET_PACKAGES": "nuget",
    "DOTNET_CLI_HOME": "dotnet",
    "COMPOSER_CACHE_DIR": "composer",
    "BUNDLE_USER_CACHE": "bundle",
    "PRE_COMMIT_HOME": "pre-commit",
}
"""Variables by which tools are told where to keep what they download, and the name below cache/."""

_LEFT_BEHIND = re.compile(r"agentctl-(outside-)?\d+-[0-9a-f]{16}")
LEAST_AGE_S = 60.0
"""A folder of which nobody holds the lock is left alone until then: it may just be made, and the commands of a run
that was killed may still be dying."""
SWEEP_S = 2.0
"""No run is held up longer by what others have left; the rest is for the next one."""

_OF_CARGO = ("config.toml", "config")
_DOWNLOADED_BY_CARGO = ("registry", "git")


class PrivateFolder:
    """Made when it is constructed. Raises OSError."""

    def __init__(self, base: Path) -> None:
        remove_left_behind(base)
        self.path = make_private_dir(base / f"agentctl-{os.getpid()}-{os.urandom(8).hex()}").resolve()
        self.tmp, self.cache, self.run = (self.path / name for name in ("tmp", "cache", "run"))
        self._lock = None
        with suppress(OSError):  # on a file system without locks nobody can take it for left behind either
            self._lock = lock_folder(self.path)
        for folder in self.writable:
            folder.mkdir(mode=0o700)

    @property
    def writable(self) -> tuple[Path, ...]:
        """What commands may write to."""
        return self.tmp, self.cache, self.run

    @property
    def forbidden(self) -> Path:
        """A folder that does not exist and that no command may make."""
        return self.path / "outside"

    def environment(self, env: Mapping[str, str], *, is_network_on: bool) -> dict[str, str]:
        """What commands get on top of `env`."""
        self._share_cargo(env, is_network_on=is_network_on)
        return {
            **dict.fromkeys(TEMPORARY, str(self.tmp)),
            **{name: str(self.cache / folder) for name, folder in CACHES.items()},
            "XDG_RUNTIME_DIR": str(self.run),
        }

    def _share_cargo(self, env: Mapping[str, str], *, is_network_on: bool) -> None:
        """CARGO_HOME holds settings too, and without a network what was downloaded before is all there is."""
        own = Path(env.get("CARGO_HOME") or Path(env.get("HOME") or "/nonexistent", ".cargo"))
        for name in (*_OF_CARGO, *(() if is_network_on else _DOWNLOADED_BY_CARGO)):
            if (own / name).exists():
                (self.cache / "cargo").mkdir(mode=0o700, exist_ok=True)
                with suppress(OSError):
                    (self.cache / "cargo" / name).symlink_to(own / name)

    def remove(self) -> None:
        """Deletes it with everything that commands have left; what cannot be deleted stays."""
        with suppress(OSError):
            parent = os.open(self.path.parent, _FOLDER)
            try:
                _remove(self.path.name, parent)
            finally:
                os.close(parent)
        if self._lock is not None:
            self._lock.release()


def remove_left_behind(base: Path) -> None:
    """Deletes the folders of runs that were killed: ours, old enough, and held by no living process."""
    with suppress(OSError):
        parent = os.open(base, _FOLDER)
        try:
            deadline = time.monotonic() + SWEEP_S
            for name in filter(_LEFT_BEHIND.fullmatch, os.listdir(parent)):  # noqa: PTH208  # by its descriptor
                if time.monotonic() > deadline:
                    break
                _remove_if_left(base / name, parent)
        finally:
            os.close(parent)


def _remove_if_left(folder: Path, parent: int) -> None:
    with suppress(OSError):
        found = folder.lstat()
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if not is_ours or time.time() - found.st_mtime < LEAST_AGE_S:
            return
        with suppress(LockHeld), lock_folder(folder):
            _remove(folder.name, parent)


def choose_base(candidates: Sequence[Path], roots: Sequence[Path]) -> Path | None:
    """The first existing folder that we may write to and that lies in none of the roots."""
    for candidate in candidates:
        real = candidate.resolve()
        if (
            real.is_dir()
            and os.access(real, os.W_OK | os.X_OK)
            and not any(real.is_relative_to(root) for root in roots)
        ):
            return real
    return None


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _remove(name: str, parent: int) -> None:
    """Folder by folder, each by its descriptor, so that no symlink leads out, not even one that is just put there.
    Folders without permissions, as of Go's module cache, are opened first."""
    with suppress(OSError, RecursionError):
        try:
            folder = os.open(name, _FOLDER, dir_fd=parent)
        except PermissionError:
            os.chmod(name, 0o700, dir_fd=parent)  # Path has no dir_fd
            folder = os.open(name, _FOLDER, dir_fd=parent)
        try:
            if stat.S_IMODE(os.fstat(folder).st_mode) & 0o700 != 0o700:
                os.fchmod(folder, 0o700)
            with os.scandir(folder) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            for inner, is_folder in found:
                if is_folder:
                    _remove(inner, folder)
                else:
                    with suppress(OSError):
                        os.unlink(inner, dir_fd=folder)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=parent)
