"""Which files form the set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentctl.core.errors import PolicyError
from agentctl.policy.sources import PolicySource, find_sources

TEXT = "version = 1\n"


def read_trusted(path: Path) -> tuple[str, bool] | None:
    return (path.read_text(), True) if path.is_file() else None


def read_untrusted(path: Path) -> tuple[str, bool] | None:
    return (path.read_text(), False) if path.is_file() else None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work" / ".agentctl").mkdir(parents=True)
    return tmp_path / "work"


def test_the_whole_set(root: Path, tmp_path: Path) -> None:
    (root / ".agentctl" / "policy.toml").write_text(TEXT)
    (root / "ci.toml").write_text(TEXT)
    admin = tmp_path / "admin"
    admin.mkdir()
    for path in (tmp_path / "user.toml", tmp_path / "out.toml", admin / "b.toml", admin / "a.toml"):
        path.write_text(TEXT)
    os.chmod(admin / "b.toml", 0o666)
    flags = [str(root / "ci.toml"), str(tmp_path / "out.toml")]
    found = find_sources(
        flags, root=root, read_workspace=read_untrusted, user_file=tmp_path / "user.toml", admin_folder=admin
    )
    is_root = os.getuid() == 0
    assert found == (
        PolicySource(name=flags[0], text=TEXT, is_trusted=False, kind="flag"),
        PolicySource(name=flags[1], text=TEXT, is_trusted=True, kind="flag"),
        PolicySource(name=str(admin / "a.toml"), text=TEXT, is_trusted=is_root, kind="admin"),
        PolicySource(name=str(admin / "b.toml"), text=TEXT, is_trusted=False, kind="admin"),
        PolicySource(name=".agentctl/policy.toml", text=TEXT, is_trusted=False, kind="project"),
        PolicySource(name=str(tmp_path / "user.toml"), text=TEXT, is_trusted=True, kind="user"),
    )


def test_nothing_is_fine(root: Path, tmp_path: Path) -> None:
    assert find_sources([], root=root, read_workspace=read_trusted, admin_folder=tmp_path / "none") == ()


def test_files_that_cannot_be_read(root: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "big.toml").write_bytes(b"#" * (1 << 21))
    for name, message in (("none.toml", "no such file"), ("bad.toml", "cannot be read"), ("big.toml", "larger than")):
        with pytest.raises(PolicyError, match=message):
            find_sources([str(tmp_path / name)], root=root, read_workspace=read_trusted)
    with pytest.raises(PolicyError, match="no such file"):
        find_sources([str(root / "none.toml")], root=root, read_workspace=read_trusted)
    with pytest.raises(PolicyError, match="cannot be read"):
        find_sources([], root=root, read_workspace=read_trusted, user_file=tmp_path / "bad.toml")
