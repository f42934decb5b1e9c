"""The jail: which paths work, which are refused, and that a swapped name leads nowhere."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentctl.config.jail import Place
from agentctl.config.workspace import Workspace
from agentctl.core.errors import ToolFailure, UsageError
from agentctl.core.openat2 import FILE, find_openat2


class World:
    """A workspace `w` with something in it, and a folder `outside` beside it."""

    def __init__(self, base: Path, *, uses_openat2: bool = True) -> None:
        self.root = base / "w"
        self.outside = base / "outside"
        self.extra = base / "extra"
        self.kept = base / "kept"
        for folder in (self.root / "dir" / "sub", self.outside, self.extra, self.kept):
            folder.mkdir(parents=True)
        (self.root / "dir" / "f").write_bytes(b"inside")
        (self.root / "..foo").write_bytes(b"dots")
        (self.outside / "secret").write_bytes(b"SECRET")
        (self.extra / "e").write_bytes(b"extra")
        (self.kept / "k").write_bytes(b"kept")
        for name, target in {
            "to-file": "dir/f",
            "to-dir": "dir",
            "to-absolute": str(self.root / "dir"),
            "to-outside": str(self.outside),
            "up": "..",
            "up-and-back": "../w/dir/f",
            "dangling-in": "dir/new",
            "dangling-out": "../outside/new",
            "loop-a": "loop-b",
            "loop-b": "loop-a",
            "zero": "/dev/zero",
            "magic-root": "/proc/self/root",
            "magic-cwd": "/proc/self/cwd/dir/f",
            "environ": "/proc/self/environ",
            "stdin": "/dev/stdin",
            "extra-link": str(self.extra),
        }.items():
            (self.root / name).symlink_to(target)
        os.mkfifo(self.root / "fifo")
        self.workspace = Workspace(self.root, add_dirs=[self.extra], readable=[self.kept], uses_openat2=uses_openat2)


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Both ways to the files: they must agree on everything."""
    made = World(tmp_path, uses_openat2=request.param)
    yield made
    made.workspace.close()


@pytest.mark.parametrize(
    ("path", "relative", "data"),
    [
        ("dir/f", "dir/f", b"inside"),
        ("./dir//f", "dir/f", b"inside"),
        ("dir/sub/../f", "dir/f", b"inside"),
        ("dir/nothing/../f", "dir/f", b"inside"),
        ("dir/../../w/dir/f", "dir/f", b"inside"),
        ("{root}/dir/f", "dir/f", b"inside"),
        ("{root}/../w/dir/f", "dir/f", b"inside"),
        ("..foo", "..foo", b"dots"),
        ("to-file", "dir/f", b"inside"),
        ("to-dir/f", "dir/f", b"inside"),
        ("to-dir/sub/../f", "dir/f", b"inside"),
        ("to-absolute/f", "dir/f", b"inside"),
        ("up-and-back", "dir/f", b"inside"),
        ("up/w/dir/f", "dir/f", b"inside"),
    ],
)
def test_paths_that_lead_to_files_inside(world: World, path: str, relative: str, data: bytes) -> None:
    path = path.format(root=world.root)
    place = Place(root=world.root, relative=relative, absolute=world.root / relative, shown=relative)
    assert world.workspace.locate(path) == place
    assert world.workspace.read_bytes(path, 100) == data
    assert world.workspace.relative(path) == relative


ESCAPES = [
    "../x",
    "dir/../../x",
    "../outside/secret",
    "/etc/passwd",
    "/etc/x",
    "to-outside/secret",
    "to-outside/new",
    "up/outside/secret",
    "up",
    "dangling-out",
    "/proc/self/environ",
    "/proc/self/cwd/dir/f",
    "/proc/self/root/etc/passwd",
    "/proc/self/fd/0",
    "/proc/self/maps",
    "/proc/self/mem",
    "/dev/fd/0",
    "zero",
    "magic-root/etc/passwd",
    "magic-cwd",
    "environ",
    "stdin",
    "{root}-sibling/x",
    "{outside}/secret",
    "//etc/passwd",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_paths_that_lead_out_are_refused_for_everything(world: World, path: str) -> None:
    path = path.format(root=world.root, outside=world.outside)
    workspace = world.workspace
    attempts: list[Callable[[], object]] = [
        lambda: workspace.locate(path),
        lambda: workspace.read_bytes(path, 10),
        lambda: workspace.write_bytes(path, b"x"),
    ]
    for attempt in attempts:
        with pytest.raises(ToolFailure, match=r"leads out of the workspace.*--add-dir"):
            attempt()
    assert sorted(os.listdir(world.outside)) == ["secret"]


@pytest.mark.parametrize("path", ["..%2fx", "..\\x", "%2e%2e/x", "~/x", "$HOME/x", "a:b", "-rf", "name\nline\x1b"])
def test_odd_names_are_literal_names_inside(world: World, path: str) -> None:
    world.workspace.write_bytes(path, b"x")
    assert (world.root / path).read_bytes() == b"x"


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
def test_what_is_no_name_is_refused(world: World, path: str) -> None:
    with pytest.raises(ToolFailure, match="is no file name"):
        world.workspace.read_bytes(path, 10)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("fifo", "not a regular file"),
        ("socket", "not a regular file"),
        ("dir", "is a folder"),
        (".", "is a folder"),
        ("loop-a", "too many symlinks"),
        ("dir/f/x", "'dir/f' is not a folder"),
        ("nothing", "No such file: 'nothing'"),
        ("dangling-in", "No such file: 'dangling-in'"),
        ("x" * 300, "File name too long"),
    ],
)
def test_only_regular_files_are_read_and_nothing_waits(world: World, path: str, error: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(world.root)  # socket names are short
        listener.bind("socket")
        os.chdir(here)
        started = time.monotonic()
        with pytest.raises(ToolFailure, match=error):
            world.workspace.read_bytes(path, 10)
        assert time.monotonic() - started < 1


def test_a_long_chain_of_links_ends(world: World) -> None:
    (world.root / "l0").symlink_to("dir/f")
    for number in range(1, 60):
        (world.root / f"l{number}").symlink_to(f"l{number - 1}")
    assert world.workspace.read_bytes("l39", 10) == b"inside"
    with pytest.raises(ToolFailure, match="too many symlinks"):
        world.workspace.read_bytes("l40", 10)


def test_other_roots(world: World) -> None:
    extra, kept = str(world.extra / "e"), str(world.kept / "k")
    assert world.workspace.locate(extra) == Place(
        root=world.extra, relative="e", absolute=world.extra / "e", shown=extra
    )
    assert world.workspace.relative("../extra/e") == extra
    assert world.workspace.relative("extra-link/e") == extra
    assert world.workspace.read_bytes(kept, 10) == b"kept"
    world.workspace.write_bytes(str(world.extra / "new" / "n"), b"n")
    assert (world.extra / "new" / "n").read_bytes() == b"n"
    for attempt in (
        lambda: world.workspace.write_bytes(kept, b"x"),
        lambda: world.workspace.delete(kept),
        lambda: world.workspace.move(kept, "k"),
        lambda: world.workspace.move("dir/f", str(world.kept / "f")),
    ):
        with pytest.raises(ToolFailure, match="may only be read"):
            attempt()
    assert world.workspace.read_bytes("dir/f", 10) == b"inside"


def test_a_root_given_through_a_link_is_known_by_both_names(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "alias").symlink_to("w")
    workspace = Workspace(tmp_path / "alias")
    assert workspace.root == world.root
    assert workspace.relative(str(tmp_path / "alias" / "dir" / "f")) == "dir/f"
    assert workspace.relative(str(world.root / "dir" / "f")) == "dir/f"


@pytest.mark.parametrize("path", ["missing", "dir/f", "/proc/self", "/dev"])
def test_a_root_must_be_an_ordinary_folder(world: World, path: str) -> None:
    with pytest.raises(UsageError, match="cannot use"):
        Workspace(world.root / path)


def test_kernel_files_are_refused_below_the_file_system_root() -> None:
    workspace = Workspace(Path("/"))
    for path in ("/proc/self/environ", "proc/self/root/etc/passwd", "dev/zero", "etc/../sys/kernel"):
        with pytest.raises(ToolFailure, match="not made of files"):
            workspace.read_bytes(path, 10)


# --- changing -----------------------------------------------------------------------------------------------------


def test_writing_makes_folders_and_follows_links_inside(world: World) -> None:
    assert world.workspace.write_bytes("a/b/c", b"1").relative == "a/b/c"
    assert world.workspace.write_bytes("to-file", b"2").relative == "dir/f"
    assert world.workspace.write_bytes("dangling-in", b"3").relative == "dir/new"
    assert (world.root / "a/b/c").read_bytes() == b"1"
    assert (world.root / "dir/f").read_bytes() == b"2"
    assert (world.root / "dir/new").read_bytes() == b"3"
    assert (world.root / "to-file").is_symlink()


def test_a_hard_link_to_the_outside_is_cut_not_written_through(world: World) -> None:
    (world.root / "hard").hardlink_to(world.outside / "secret")
    world.workspace.write_bytes("hard", b"x")
    assert (world.outside / "secret").read_bytes() == b"SECRET"


@pytest.mark.parametrize(
    ("path", "error"),
    [("dir", "is a folder"), (".", "is a folder"), ("fifo", "not a regular"), ("dir/f/x", "not a fo")],
)
def test_only_files_are_written(world: World, path: str, error: str) -> None:
    with pytest.raises(ToolFailure, match=error):
        world.workspace.write_bytes(path, b"x")
    with pytest.raises(ToolFailure, match=error):
        world.workspace.check_write(path)


def test_a_read_only_file_is_left_alone(world: World) -> None:
    (world.root / "dir/f").chmod(0o444)
    with pytest.raises(ToolFailure, match=r"read-only \(mode 0444\)"):
        world.workspace.write_bytes("dir/f", b"x")
    assert (world.root / "dir/f").read_bytes() == b"inside"


def test_a_file_that_changed_since_it_was_read_is_not_overwritten(world: World) -> None:
    seen = world.workspace.read_file("dir/f", 100)
    assert (seen.data, seen.is_whole, stat.S_ISREG(seen.mode)) == (b"inside", True, False)
    (world.root / "dir/f").write_bytes(b"theirs!")
    with pytest.raises(ToolFailure, match="changed by something else"):
        world.workspace.write_bytes("dir/f", b"mine", expected=seen)
    (world.root / "dir/f").unlink()
    with pytest.raises(ToolFailure, match="changed by something else"):
        world.workspace.write_bytes("dir/f", b"mine", expected=seen)
    assert not (world.root / "dir/f").exists()


def test_leftovers_of_a_killed_run_go_with_the_next_write(world: World) -> None:
    stray = world.root / "dir" / ".agentctl-0123.tmp"
    stray.write_bytes(b"half")
    os.utime(stray, (1, 1))
    world.workspace.write_bytes("dir/f", b"x")
    assert sorted(os.listdir(world.root / "dir")) == ["f", "sub"]


def test_delete_and_move_take_a_link_itself(world: World) -> None:
    assert world.workspace.locate("to-file", follows_last=False).relative == "to-file"
    assert world.workspace.exists("dangling-in", follows_last=False)
    assert not world.workspace.exists("dangling-in")
    world.workspace.delete("dangling-out")
    world.workspace.move("to-file", "dir/link")
    assert (world.root / "dir/link").is_symlink()
    assert not (world.root / "to-file").is_symlink()
    assert world.workspace.delete("dir/f") == 6
    assert not (world.root / "dir/f").exists()


def test_move_keeps_the_mode_and_overwrites_nothing(world: World) -> None:
    (world.root / "dir/f").chmod(0o755)
    for target in ("..foo", "dir/sub", "dangling-out", "to-dir"):
        with pytest.raises(ToolFailure, match="already exists"):
            world.workspace.move("dir/f", target)
    assert world.workspace.move("dir/f", "x/y/z").relative == "x/y/z"
    assert stat.S_IMODE((world.root / "x/y/z").stat().st_mode) == 0o755
    for source in ("dir", ".", "nothing"):
        with pytest.raises(ToolFailure, match=r"is a folder|No such file"):
            world.workspace.move(source, "q")
        with pytest.raises(ToolFailure, match=r"is a folder|No such file"):
            world.workspace.delete(source)


@pytest.mark.skipif(
    not Path("/dev/shm").is_dir() or Path("/dev/shm").stat().st_dev == Path("/tmp").stat().st_dev,
    reason="needs a second file system",
)
def test_move_between_file_systems(world: World) -> None:
    made = subprocess.run(["mktemp", "-d", "/dev/shm/agentctl-XXXXXX"], capture_output=True, text=True, check=True)
    other = Path(made.stdout.strip())
    try:
        workspace = Workspace(world.root, add_dirs=[other])
        (world.root / "dir/f").chmod(0o700)
        workspace.move("dir/f", str(other / "f"))
        assert ((other / "f").read_bytes(), stat.S_IMODE((other / "f").stat().st_mode)) == (b"inside", 0o700)
        assert not (world.root / "dir/f").exists()
    finally:
        (other / "f").unlink(missing_ok=True)
        other.rmdir()


def test_a_workspace_that_was_removed_and_made_again_is_not_written(world: World) -> None:
    workspace = Workspace(world.extra)
    (world.extra / "e").unlink()
    world.extra.rmdir()
    world.extra.mkdir()
    with pytest.raises(ToolFailure, match="Cannot write 'new'"):
        workspace.write_bytes("new", b"x")
    assert os.listdir(world.extra) == []


# --- the kernel's own jail ----------------------------------------------------------------------------------------


def test_openat2_is_used_exactly_where_the_kernel_has_it() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    how = (ctypes.c_uint64 * 3)(os.O_PATH, 0, 0x08)
    fd = libc.syscall(437, -100, b".", ctypes.byref(how), 24)
    if fd >= 0:
        os.close(fd)
    assert (find_openat2() is not None) == (fd >= 0)


def test_openat2_opens_inside_and_nothing_else(tmp_path: Path) -> None:
    kernel = find_openat2()
    if kernel is None:
        pytest.skip("this kernel has no openat2")
    world = World(tmp_path)
    folder = os.open(world.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path in ("dir/f", "to-file", "to-dir/f", "dir/sub/../f"):
            fd = kernel.open(folder, path, FILE)
            assert os.read(fd, 10) == b"inside"
            os.close(fd)
        for path in ("..", "../outside/secret", "/etc/passwd", "to-outside/secret", "up/w/dir/f", "environ", "loop-a"):
            assert kernel.open(folder, path, FILE) == -1, path
        assert kernel.open_folder(folder, "to-dir") == -1  # a link, though it stays inside
    finally:
        os.close(folder)


def test_a_plain_path_is_not_walked(world: World) -> None:
    """What openat2 is for: the number of system calls does not grow with the depth of the path."""
    (world.root / "a/b/c/d/e").mkdir(parents=True)
    (world.root / "a/b/c/d/e/f").write_bytes(b"deep")
    script = f"""
import os, sys
from pathlib import Path
from agentctl.config.workspace import Workspace
calls = []
sys.addaudithook(lambda name, _: calls.append(name) if name == "open" else None)
workspace = Workspace(Path({str(world.root)!r}), uses_openat2={find_openat2() is not None})
workspace.read_bytes("a/b/c/d/e/f", 1)
calls.clear()
assert workspace.read_bytes("a/b/c/d/e/f", 9) == b"deep"
print(len(calls))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) == (0 if find_openat2() else 7)


# --- races --------------------------------------------------------------------------------------------------------

SWAP_SECONDS = float(os.environ.get("AGENTCTL_RACE_SECONDS", "2"))
"""Of each of the two ways. CI of a release runs 60."""

SWAPPER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
names = [name.encode() for name in sys.argv[1:]]
print("ready", flush=True)
while True:
    for one, other in zip(names[::2], names[1::2]):
        libc.renameat2(-100, one, -100, other, 2)
"""


def renew(root: Path) -> None:
    """`fresh` is gone, so that the next write makes it, and `evil-fresh` is the link that it is swapped with."""
    for name in ("fresh", "evil-fresh"):
        shutil.rmtree(root / name, ignore_errors=True)  # leaves links alone
    with suppress(OSError):
        if (root / "fresh").is_symlink() and not (root / "evil-fresh").is_symlink():
            (root / "fresh").rename(root / "evil-fresh")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "renameat2"), reason="needs renameat2")
def test_swapping_names_for_links_leads_nowhere(world: World) -> None:
    """Folders and files of the workspace are exchanged with links to the outside as fast as the machine can."""
    root = world.root
    (world.outside / "f").write_bytes(b"SECRET")
    (root / "evil-dir").symlink_to(world.outside)
    (root / "evil-file").symlink_to(world.outside / "f")
    (root / "dir" / "g").write_bytes(b"inside")
    (root / "evil-fresh").symlink_to(world.outside)
    pairs = [root / "dir", root / "evil-dir", root / "..foo", root / "evil-file", root / "fresh", root / "evil-fresh"]
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, *map(str, pairs)], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    counts = dict.fromkeys(("read", "written", "made", "refused", "escaped"), 0)

    def attack() -> None:
        end = time.monotonic() + SWAP_SECONDS
        while time.monotonic() < end:
            for path in ("dir/f", "..foo"):
                try:
                    counts["escaped"] += b"SECRET" in world.workspace.read_bytes(path, 100)
                    counts["read"] += 1
                except ToolFailure:
                    counts["refused"] += 1
            renew(root)
            for path in ("dir/new/sub/n", "dir/n", "..foo", "fresh/sub/n"):
                try:
                    world.workspace.write_bytes(path, b"mine")
                    counts["made" if path.startswith("fresh") else "written"] += 1
                except ToolFailure:
                    counts["refused"] += 1

    try:
        assert swapper.stdout.readline() == b"ready\n"
        threads = [threading.Thread(target=attack) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        swapper.kill()
        swapper.communicate()
    assert {path.name: path.read_bytes() for path in world.outside.iterdir()} == {"secret": b"SECRET", "f": b"SECRET"}
    assert counts["escaped"] == 0
    assert min(counts["read"], counts["written"], counts["made"], counts["refused"]) > 0, counts
    sys.stdout.write(f"race: {counts}\n")
