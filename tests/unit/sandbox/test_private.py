"""The folder of the commands of one run: where it may lie, what points into it, and that it goes."""

from __future__ import annotations

from pathlib import Path

from agentctl.sandbox.private import CACHES, TEMPORARY, PrivateFolder, choose_base


def test_it_is_private_and_everything_points_into_it(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path)
    env = folder.environment({"HOME": str(tmp_path)}, is_network_on=False)
    assert set(env) == {*TEMPORARY, *CACHES, "XDG_RUNTIME_DIR"}
    assert all(any(Path(value).is_relative_to(place) for place in folder.writable) for value in env.values())
    assert {oct(path.stat().st_mode & 0o777) for path in (folder.path, *folder.writable)} == {"0o700"}
    assert not folder.forbidden.exists()
    assert folder.forbidden.parent == folder.path


def test_cargo_keeps_its_settings_and_without_a_network_its_downloads(tmp_path: Path) -> None:
    own = tmp_path / "home" / ".cargo"
    (own / "registry").mkdir(parents=True)
    (own / "config.toml").write_text("[net]\n")
    (own / "credentials.toml").write_text("token")
    for is_on, expected in ((False, {"config.toml", "registry"}), (True, {"config.toml"})):
        folder = PrivateFolder(tmp_path)
        env = folder.environment({"HOME": str(tmp_path / "home")}, is_network_on=is_on)
        assert {path.name for path in Path(env["CARGO_HOME"]).iterdir()} == expected
        folder.remove()
    assert (own / "registry").is_dir(), "removing follows no link"


def test_it_goes_with_all_that_commands_left(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = PrivateFolder(tmp_path)
    deep = folder.tmp / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    (folder.tmp / "link").symlink_to(outside)
    for path in (deep, deep.parent):
        path.chmod(0o500)
    folder.remove()
    assert not folder.path.exists()
    assert (outside / "kept").read_text() == "kept"


def test_it_never_lies_where_commands_may_write(tmp_path: Path) -> None:
    workspace, other = tmp_path / "w", tmp_path / "other"
    for path in (workspace / "tmp", other):
        path.mkdir(parents=True)
    (tmp_path / "link").symlink_to(workspace / "tmp")
    missing = tmp_path / "missing"
    assert choose_base([workspace / "tmp", tmp_path / "link", missing, other], [workspace]) == other
    assert choose_base([workspace / "tmp", missing], [workspace]) is None
