"""Where agentctl keeps things: the config, state, data and cache homes, and the key of a project's state."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from agentctl.core.errors import ConfigError
from agentctl.core.record import Record

_NOWHERE = "/nonexistent"
CONFIG_FILE = "config.toml"
PROJECT_FOLDER = ".agentctl"

_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "state": ("XDG_STATE_HOME", ".local/state"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
}


class Homes(Record):
    """Absolute folders; none of them needs to exist."""

    config: Path
    state: Path
    data: Path
    cache: Path

    @property
    def config_file(self) -> Path:
        return self.config / CONFIG_FILE

    def sessions(self, key: str) -> Path:
        """The folder of a project's session logs; `key` is a project_key."""
        return self.state / "sessions" / key

    @property
    def memory(self) -> Path:
        """The folder of the notes of all projects."""
        return self.data / "memory"


def working_folder() -> Path:
    """The folder of this process; its last known name when it was deleted, which then does not exist."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.environ.get("PWD") or _NOWHERE)


def homes(env: Mapping[str, str]) -> Homes:
    """AGENTCTL_HOME moves all four below itself. Otherwise the platform's places; relative XDG values are ignored.

    Raises ConfigError when AGENTCTL_HOME is not absolute: the same value would mean another folder in each step.
    """
    moved = env.get("AGENTCTL_HOME", "")
    if moved:
        home = Path(moved)
        if not home.is_absolute():
            raise ConfigError(f"AGENTCTL_HOME: {moved!r} is not an absolute path.", hint="Give the whole path.")
        return Homes(config=home, state=home / "state", data=home / "data", cache=home / "cache")
    return Homes(**{name: _home(name, env) for name in Homes.fields})


def project_file(root: Path) -> Path:
    """The config file of a project."""
    return root / PROJECT_FOLDER / CONFIG_FILE


def _home(name: str, env: Mapping[str, str]) -> Path:
    variable, default = _XDG[name]
    given = Path(env.get(variable, ""))
    if given.is_absolute():
        return given / "agentctl"
    if sys.platform.startswith("linux"):  # the rule is one line here, and platformdirs costs half an interpreter start
        home = env.get("HOME", "")  # a relative one would be another folder in each step
        return Path(home if home.startswith("/") else _home_of_user(), default, "agentctl")
    import platformdirs

    places = platformdirs.PlatformDirs("agentctl", appauthor=False)
    return {
        "config": places.user_config_path,
        "state": places.user_state_path,
        "data": places.user_data_path,
        "cache": places.user_cache_path,
    }[name]


def _home_of_user() -> str:
    """Of a user without HOME; a place that cannot be written for one that the machine does not know."""
    import pwd  # only without HOME

    try:
        return pwd.getpwuid(os.getuid()).pw_dir or _NOWHERE
    except KeyError:
        return _NOWHERE


def project_key(root: Path, name: str | None = None, remote: str | None = None) -> str:
    """SHA-256 in hex of `--project NAME`, or of the folder's real path, with `remote` for one that came later."""
    from hashlib import sha256

    said = f"name:{name}" if name else f"path:{root.resolve()}"
    said = f"{said}\0remote:{remote}" if remote else said
    return sha256(said.encode("utf-8", "surrogateescape")).hexdigest()
