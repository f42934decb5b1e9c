"""A folder for the commands of one run: their TMPDIR and the caches of their tools. Removed at the end.

agentctl-PID-RANDOM/    ours; commands cannot write here, which is how each of them is checked
    tmp/                TMPDIR
    cache/              what pip, npm, cargo, go and others keep
    run/                XDG_RUNTIME_DIR
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentctl.core.files import make_private_dir

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

_OF_CARGO = ("config.toml", "config")
_DOWNLOADED_BY_CARGO = ("registry", "git")


class PrivateFolder:
    """Made when it is constructed. Raises OSError."""

    def __init__(self, base: Path) -> None:
        self.path = make_private_dir(base / f"agentctl-{os.getpid()}-{os.urandom(8).hex()}").resolve()
        self.tmp, self.cache, self.run = (self.path / name for name in ("tmp", "cache", "run"))
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
        _remove_tree(str(self.path))


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


def _remove_tree(path: str) -> None:
    """Follows no symlink. Folders without write permission, as of Go's module cache, are opened first."""
    with suppress(OSError):
        if stat.S_IMODE(os.lstat(path).st_mode) & 0o700 != 0o700:
            os.chmod(path, 0o700)  # noqa: PTH101  # strings: thousands of files may be there
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _remove_tree(entry.path)
                else:
                    with suppress(OSError):
                        os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(path)  # noqa: PTH106
