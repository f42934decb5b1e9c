"""The folder of the commands of one run: where it may lie, what points into it, and that it goes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from agentctl.core.redact import Redactor
from agentctl.sandbox.private import CACHES, LEAST_AGE_S, TEMPORARY, PrivateFolder, choose_base, remove_left_behind
from agentctl.state.outputs import KeptOutputs


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


def aged(folder: Path) -> Path:
    """As if it had been made a while ago."""
    made = folder.stat().st_mtime - LEAST_AGE_S - 1
    os.utime(folder, (made, made))
    return folder


def test_the_next_run_removes_what_a_killed_run_has_left(tmp_path: Path) -> None:
    kept = tmp_path / "outside"
    kept.mkdir()
    (kept / "f").write_text("x")
    code = (
        "import os, pathlib, signal, sys; from agentctl.sandbox.private import PrivateFolder;"
        f"folder = PrivateFolder(pathlib.Path({str(tmp_path)!r})); (folder.tmp / 'link').symlink_to({str(kept)!r});"
        "(folder.tmp / 'f').write_text('x'); (folder.tmp / 'd').mkdir(0); print(folder.path); sys.stdout.flush();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    died = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    left = Path(died.stdout.strip())
    PrivateFolder(tmp_path).remove()
    assert left.is_dir(), "its commands may still be dying"
    aged(left)
    PrivateFolder(tmp_path).remove()
    assert {path.name for path in tmp_path.iterdir()} == {"outside"}
    assert (kept / "f").read_text() == "x", "removing follows no link"


def test_the_folder_of_a_living_run_and_what_is_not_ours_stay(tmp_path: Path) -> None:
    living = PrivateFolder(tmp_path)
    target = tmp_path / "target"
    target.mkdir()
    (target / "f").write_text("x")
    (tmp_path / "agentctl-1-0123456789abcdef").symlink_to(target)
    others = [tmp_path / name for name in ("agentctl-notes", "agentctl-1-xyz", "agentctl-2-0123456789abcdef.bak")]
    for folder in others:
        folder.mkdir()
        aged(folder)
    aged(living.path)
    aged(target)
    remove_left_behind(tmp_path)
    assert living.tmp.is_dir()
    assert (target / "f").exists()
    assert all(folder.is_dir() for folder in others)
    living.remove()
    assert not living.path.exists()


def test_kept_outputs_of_a_living_run_stay_too(isolation: Path) -> None:
    """Of --ephemeral: they lie beside the private folders and are swept like them."""
    outputs = KeptOutputs.for_session(isolation, "s1", is_ephemeral=True, redactor=Redactor({}))
    base = Path(os.environ["TMPDIR"])
    before = set(base.iterdir())
    file = outputs.open()
    file.write(b"x")
    file.close()
    (folder,) = set(base.iterdir()) - before
    aged(folder)
    remove_left_behind(base)
    assert folder.is_dir()
    held = outputs._lock  # what the kernel does when the process dies
    assert held is not None
    held.release()
    remove_left_behind(base)
    assert not folder.exists()


def test_a_tree_that_is_too_deep_ends_nothing(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path)
    place = os.open(folder.tmp, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    try:
        folder.remove()
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path)], check=True)  # Python itself cannot
