"""Where things lie."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from agentctl.config.paths import Homes, homes, project_file, project_key
from agentctl.core.errors import ConfigError

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the XDG places")


def test_one_variable_moves_everything() -> None:
    found = homes({"AGENTCTL_HOME": "/moved", "XDG_CONFIG_HOME": "/xdg", "HOME": "/home/u"})
    assert found == Homes(
        config=Path("/moved"), state=Path("/moved/state"), data=Path("/moved/data"), cache=Path("/moved/cache")
    )
    assert found.config_file == Path("/moved/config.toml")
    assert found.sessions("abc") == Path("/moved/state/sessions/abc")


def test_a_relative_home_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"AGENTCTL_HOME: 'here' is not an absolute path\."):
        homes({"AGENTCTL_HOME": "here"})


@linux
def test_the_defaults() -> None:
    assert homes({"HOME": "/home/u"}) == Homes(
        config=Path("/home/u/.config/agentctl"),
        state=Path("/home/u/.local/state/agentctl"),
        data=Path("/home/u/.local/share/agentctl"),
        cache=Path("/home/u/.cache/agentctl"),
    )


@linux
def test_xdg_counts_and_relative_values_do_not() -> None:
    env = {"HOME": "/home/u", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "state", "XDG_DATA_HOME": ""}
    assert homes(env) == Homes(
        config=Path("/c/agentctl"),
        state=Path("/home/u/.local/state/agentctl"),
        data=Path("/home/u/.local/share/agentctl"),
        cache=Path("/home/u/.cache/agentctl"),
    )


def test_the_key_is_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "project")
    expected = hashlib.sha256(f"path:{(tmp_path / 'project').resolve()}".encode()).hexdigest()
    assert project_key(tmp_path / "project") == project_key(tmp_path / "link") == expected


def test_a_name_replaces_the_path(tmp_path: Path) -> None:
    assert project_key(tmp_path, "web") == project_key(tmp_path / "elsewhere", "web")
    assert project_key(tmp_path, "web") != project_key(tmp_path, "api") != project_key(tmp_path)
    assert project_key(tmp_path, str(tmp_path.resolve())) != project_key(tmp_path)


def test_the_config_of_a_project() -> None:
    assert project_file(Path("/w")) == Path("/w/.agentctl/config.toml")
