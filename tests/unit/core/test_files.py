"""Atomic files, logs and locks: what is on disk after success, failure and kill -9."""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctl.core import files, locks


@contextmanager
def umask(value: int) -> Iterator[None]:
    old = os.umask(value)
    try:
        yield
    finally:
        os.umask(old)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def python(code: str, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload]


# --- replacing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o640, 0o4755])
def test_replacing_keeps_the_mode(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")
    target.chmod(mode)
    files.replace_file(target, b"new")
    assert (target.read_bytes(), mode_of(target)) == (b"new", mode)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_honours_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    with umask(mask):
        files.replace_file(tmp_path / "f", b"x")
    assert mode_of(tmp_path / "f") == mode
    assert os.listdir(tmp_path) == ["f"]


def test_an_explicit_mode_wins_over_both(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    with umask(0o077):
        files.replace_file(tmp_path / "f", b"x", mode=0o666)
    assert mode_of(tmp_path / "f") == 0o666


def test_links_are_replaced_and_their_targets_keep_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "soft").symlink_to("target")
    (tmp_path / "hard").hardlink_to(tmp_path / "target")
    for name in ("soft", "hard"):
        files.replace_file(tmp_path / name, b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "target": b"kept",
        "soft": b"new",
        "hard": b"new",
    }


@pytest.mark.parametrize(("kind", "code"), [("fifo", errno.EINVAL), ("folder", errno.EISDIR)])
def test_only_regular_files_are_replaced(tmp_path: Path, kind: str, code: int) -> None:
    target = tmp_path / "t"
    os.mkfifo(target) if kind == "fifo" else target.mkdir()
    with pytest.raises(OSError, match="t") as failure:
        files.replace_file(target, b"x")
    assert failure.value.errno == code
    assert os.listdir(tmp_path) == ["t"]


@pytest.mark.parametrize(("kind", "code"), [("fifo", errno.EINVAL), ("folder", errno.EISDIR)])
def test_nothing_else_is_replaced_by_a_file_that_is_written_in_pieces(tmp_path: Path, kind: str, code: int) -> None:
    target = tmp_path / "t"
    os.mkfifo(target) if kind == "fifo" else target.mkdir()
    with pytest.raises(OSError, match="t") as failure, files.replacing(target) as file:
        file.write(b"x")
    assert failure.value.errno == code
    assert os.listdir(tmp_path) == ["t"]


def test_the_target_that_a_user_names_is_what_its_links_lead_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, to in {"to-file": "file", "to-link": "to-file", "to-fifo": "fifo"}.items():
        (tmp_path / name).symlink_to(to)
    missing = files.named_target(tmp_path / "to-link")
    (tmp_path / "file").write_bytes(b"kept")
    assert [missing, files.named_target(tmp_path / "to-link")] == [tmp_path / "file"] * 2
    with pytest.raises(OSError, match="not a regular file") as failure:
        files.named_target(tmp_path / "to-fifo")
    assert failure.value.errno == errno.EINVAL
    assert (tmp_path / "file").read_bytes() == b"kept"


WRITE_FOREVER = """
import sys
from agentctl.core import files, locks
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"):
        files.replace_file(sys.argv[1], letter * 300_000)
"""


def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"a" * 300_000)
    rng = random.Random(7)
    for _ in range(8):
        writer = python(WRITE_FOREVER, str(target))
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0, 0.03))  # where the kill falls must vary
        writer.kill()
        writer.communicate()
        data = target.read_bytes()
        assert data in (b"a" * 300_000, b"b" * 300_000)


def test_leftovers_are_removed_once_they_are_old_and_nobody_holds_them(tmp_path: Path) -> None:
    import fcntl

    for name in (".agentctl-old.tmp", ".agentctl-held.tmp", ".agentctl-fresh.tmp", "mine.tmp", ".agentctl-x"):
        (tmp_path / name).write_bytes(b"")
        if "fresh" not in name:
            os.utime(tmp_path / name, (1, 1))
    held = os.open(tmp_path / ".agentctl-held.tmp", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert files.remove_strays(folder) == 1
    finally:
        os.close(folder)
        os.close(held)
    assert sorted(os.listdir(tmp_path)) == [".agentctl-fresh.tmp", ".agentctl-held.tmp", ".agentctl-x", "mine.tmp"]


LIMITED = """
import os, resource, signal, sys
from agentctl.core import files, locks
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    if sys.argv[2] == "replace":
        files.replace_file(sys.argv[1], b"n" * 5000)
    else:
        fd = files.open_append(sys.argv[1])
        files.append_record(fd, b"n" * 5000)
except OSError as error:
    print(type(error).__name__, error.errno)
"""


def test_a_full_disk_leaves_the_old_file_and_no_leftover(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    said, _ = python(LIMITED, str(tmp_path / "f"), "replace").communicate()
    assert said.split() == [b"OSError", str(errno.EFBIG).encode()]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"old"}


def test_a_record_that_did_not_fit_is_cut_off_again(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'{"n":1}\n')
    said, _ = python(LIMITED, str(tmp_path / "log"), "append").communicate()
    assert said.split() == [b"OSError", str(errno.EIO).encode()]
    assert (tmp_path / "log").read_bytes() == b'{"n":1}\n'


# --- growing ------------------------------------------------------------------------------------------------------


def test_a_log_is_private_whatever_the_umask_and_holds_one_line_a_record(tmp_path: Path) -> None:
    with umask(0):
        fd = files.open_append(tmp_path / "log")
    for record in (b"one", b"two\n", b""):
        files.append_record(fd, record)
    os.close(fd)
    fd = files.open_append(tmp_path / "log")
    files.append_record(fd, b"three")
    os.close(fd)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n\nthree\n"
    assert mode_of(tmp_path / "log") == 0o600
    assert files.read_records(tmp_path / "log") == ([b"one", b"two", b"three"], 0)


def test_a_record_with_a_newline_inside_is_refused(tmp_path: Path) -> None:
    fd = files.open_append(tmp_path / "log")
    with pytest.raises(ValueError, match="newline"):
        files.append_record(fd, b"a\nb")
    os.close(fd)
    assert (tmp_path / "log").read_bytes() == b""


@pytest.mark.parametrize(
    ("data", "records", "torn"),
    [
        (b"", [], 0),
        (b"a\nb\n", [b"a", b"b"], 0),
        (b"a\nb", [b"a"], 1),
        (b"torn", [], 4),
        (b"a\n\nb\n\0\0\0", [b"a", b"b"], 3),
        (b"a\n" + b"x" * 3_000_000, [b"a"], 3_000_000),
    ],
)
def test_a_torn_tail_is_told_apart_and_can_be_cut(tmp_path: Path, data: bytes, records: list[bytes], torn: int) -> None:
    log = tmp_path / "log"
    log.write_bytes(data)
    assert files.read_records(log) == (records, torn)
    fd = files.open_append(log)
    assert files.cut_torn_tail(fd) == torn
    files.append_record(fd, b"next")
    os.close(fd)
    assert files.read_records(log) == ([*records, b"next"], 0)


APPEND_MANY = """
import sys
from agentctl.core import files, locks
fd = files.open_append(sys.argv[1])
for number in range(300):
    files.append_record(fd, f"{sys.argv[2]} {number} {'x' * 500}".encode())
"""


def test_writers_at_once_lose_and_tear_nothing(tmp_path: Path) -> None:
    writers = [python(APPEND_MANY, str(tmp_path / "log"), str(number)) for number in range(3)]
    assert [writer.communicate() for writer in writers] == [(b"", b"")] * 3
    records, torn = files.read_records(tmp_path / "log")
    assert torn == 0
    assert sorted(records) == sorted(
        f"{writer} {number} {'x' * 500}".encode() for writer in range(3) for number in range(300)
    )


def test_a_new_file_must_be_new(tmp_path: Path) -> None:
    with umask(0):
        os.close(files.create_file(tmp_path / "f"))
    assert mode_of(tmp_path / "f") == 0o600
    with pytest.raises(FileExistsError):
        files.create_file(tmp_path / "f")


# --- reading ------------------------------------------------------------------------------------------------------


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    assert files.read_limited(tmp_path / "f", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes") as failure:
        files.read_limited(tmp_path / "f", 4)
    assert failure.value.errno == errno.EFBIG


@pytest.mark.parametrize("read", [lambda path: files.read_limited(path, 10), files.read_records, files.open_append])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, read: object) -> None:
    assert callable(read)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "fifo", tmp_path / "folder", Path("/dev/zero")):
        started = time.monotonic()
        with pytest.raises(OSError, match=r"regular file|directory"):
            read(path)
        assert time.monotonic() - started < 1


# --- locks and folders ----------------------------------------------------------------------------------------------

HOLD = """
import sys
from agentctl.core import locks
with locks.lock_file(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_names_its_holder_and_dies_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = python(HOLD, str(path), stdin=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(locks.LockHeld, match=f"process {holder.pid} on {os.uname().nodename}, since ") as refused:
        locks.lock_file(path)
    assert (refused.value.holder.pid, refused.value.holder.host) == (holder.pid, os.uname().nodename)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with locks.lock_file(path) as lock:
        assert lock.path == path
        with pytest.raises(locks.LockHeld):
            locks.lock_file(path)
    locks.lock_file(path).release()
    assert mode_of(path) == 0o600


def test_private_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with umask(0o277):
        made = files.make_private_dir(tmp_path / "a" / "b")
    assert [mode_of(path) for path in (tmp_path, tmp_path / "a", made)] == [0o755, 0o700, 0o700]
    assert files.make_private_dir(made) == made
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        files.make_private_dir(tmp_path / "f")
