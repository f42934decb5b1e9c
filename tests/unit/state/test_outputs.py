"""Kept outputs: when a file is made, what is in it, and that a disk never fails a tool."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
from pathlib import Path

import pytest

from agentctl.core.redact import Redactor
from agentctl.state.outputs import MAX_BYTES, SHOWN_BYTES, KeptOutputs

TOKEN = "ghp_0123456789abcdefAB"
FOLDER = ".agentctl/state/s1/output"


def kept_outputs(root: Path, *, is_ephemeral: bool = False) -> KeptOutputs:
    return KeptOutputs.for_session(root, "s1", is_ephemeral=is_ephemeral, redactor=Redactor({"GITHUB_TOKEN": TOKEN}))


def test_nothing_is_made_before_there_is_more_than_can_be_shown(tmp_path: Path) -> None:
    file = kept_outputs(tmp_path).open()
    file.write(b"x" * SHOWN_BYTES)
    assert list(tmp_path.iterdir()) == []
    file.write(b"y")
    assert (tmp_path / FOLDER / "1.txt").stat().st_size == SHOWN_BYTES + 1  # while it is produced
    assert file.close() == f"{FOLDER}/1.txt"


def test_a_short_one_that_is_closed_is_kept_all_the_same(tmp_path: Path) -> None:
    file = kept_outputs(tmp_path).open()
    file.write(b"short")
    assert file.close() == f"{FOLDER}/1.txt"
    assert (tmp_path / FOLDER / "1.txt").read_bytes() == b"short"


def test_an_empty_one_is_not(tmp_path: Path) -> None:
    assert kept_outputs(tmp_path).open().close() is None
    assert list(tmp_path.iterdir()) == []


def test_discard_leaves_nothing(tmp_path: Path) -> None:
    file = kept_outputs(tmp_path).open()
    file.write(b"x" * 100_000)
    file.discard()
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_numbers_go_on_over_runs_of_a_session(tmp_path: Path) -> None:
    paths = []
    for _ in range(2):
        outputs = kept_outputs(tmp_path)
        files = [outputs.open(), outputs.open()]
        for file in files:
            file.write(b"x")
        paths += [file.close() for file in files]
    assert paths == [f"{FOLDER}/{n}.txt" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_only_the_owner_can_read_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        file = kept_outputs(tmp_path).open()
        file.write(b"x")
        file.close()
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / ".agentctl").rglob("*")}
    assert modes == {"state": 0o700, "s1": 0o700, "output": 0o700, "1.txt": 0o600, ".gitignore": 0o600}


def test_git_does_not_see_it(tmp_path: Path) -> None:
    file = kept_outputs(tmp_path).open()
    file.write(b"x")
    file.close()
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, cwd=tmp_path, capture_output=True, check=True).stdout == b""


def test_secrets_are_masked_also_across_writes(tmp_path: Path) -> None:
    file = kept_outputs(tmp_path).open()
    file.write(f"a {TOKEN[:5]}".encode())
    file.write(f"{TOKEN[5:]} b {TOKEN[:9]}".encode())
    file.close()
    assert (tmp_path / FOLDER / "1.txt").read_text() == f"a [masked:GITHUB_TOKEN] b {TOKEN[:9]}"


def test_the_cap(tmp_path: Path) -> None:
    file = kept_outputs(tmp_path).open()
    chunk = b"z" * (1 << 20)
    for _ in range(MAX_BYTES // len(chunk)):
        file.write(chunk)
    file.write(b"12345")
    assert file.close() == f"{FOLDER}/1.txt"
    path = tmp_path / FOLDER / "1.txt"
    note = b"\n[5 bytes more were not kept]\n"
    assert path.stat().st_size == MAX_BYTES + len(note)
    with path.open("rb") as stream:
        stream.seek(MAX_BYTES - 1)
        assert stream.read() == b"z" + note


def test_the_temporary_folder_of_an_ephemeral_run_goes_with_it(isolation: Path, tmp_path: Path) -> None:
    outputs = kept_outputs(tmp_path, is_ephemeral=True)
    file = outputs.open()
    file.write(b"x")
    path = Path(file.close() or "")
    assert path.parent.parent == isolation / "tmp"
    assert (path.name, path.read_bytes(), stat.S_IMODE(path.parent.stat().st_mode)) == ("1.txt", b"x", 0o700)
    outputs.close()
    assert list((isolation / "tmp").iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_symlink_out_of_the_workspace_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / ".agentctl").mkdir(parents=True)
    outside.mkdir()
    (root / ".agentctl" / "state").symlink_to(outside)
    file = kept_outputs(root).open()
    file.write(b"x")
    assert file.close() is None
    assert not list(outside.rglob("*.txt"))


def test_a_full_disk_means_not_kept_and_nothing_else(tmp_path: Path) -> None:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, old[1]))  # EFBIG, as Python ignores SIGXFSZ
    try:
        file = kept_outputs(tmp_path).open()
        for _ in range(10):
            file.write(b"x" * 50_000)
        assert file.close() is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert list((tmp_path / FOLDER).iterdir()) == []
