"""A fault at every single call into the system: a write is old or new, a log loses at most what nobody was told of.

A profile hook sees each call before it happens and strikes at the k-th, for all k: kill -9, or the disk says no.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WORLD = """
import errno, json, os, signal, sys, time
from pathlib import Path
from agentctl.core import files
from agentctl.core.errors import JournalError
from agentctl.core.types import Message, Text, ToolCall
from agentctl.state.journal import Journal, load
from agentctl.config.workspace import Workspace

folder = Path(sys.argv[1])
CALLS = {"open", "write", "fsync", "rename", "close", "unlink", "fchmod", "fchown", "flock", "ftruncate", "stat",
         "fstat", "lseek", "mkdir", "chmod", "pwrite"}

def strike(fault):
    if fault == "KILL":
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError(getattr(errno, fault), os.strerror(getattr(errno, fault)))

def run(action, fault, k):
    '''The exit status of a child in which the k-th call fails; 77 when there was no k-th one any more.'''
    pid = os.fork()
    if pid == 0:
        count = 0
        def hook(frame, event, called):
            nonlocal count
            if event == "c_call" and getattr(called, "__name__", "") in CALLS and \\
               getattr(called, "__module__", "") in ("posix", "fcntl"):
                count += 1
                if count == k:
                    sys.setprofile(None)
                    strike(fault)
        code = 0
        try:
            sys.setprofile(hook)
            action()
            sys.setprofile(None)
        except (OSError, JournalError):
            code = 5
        except BaseException as error:
            os.write(2, repr(error).encode())
            code = 9
        os._exit(77 if code == 0 and count < k else code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
REPLACE = """
target = folder / "f"
OLD, NEW = b"old" * 50_000, b"new" * 60_000
report = {"k": 0, "wrong": [], "seen": set()}
for fault in ("KILL", "EIO", "ENOSPC"):
    for k in range(1, 200):
        target.write_bytes(OLD)
        status = run(lambda: files.replace_file(target, NEW), fault, k)
        data = target.read_bytes()
        if data not in (OLD, NEW) or (status == 77 and data != NEW) or status in (1, 9):
            report["wrong"].append([fault, k, status, len(data)])
        report["seen"].add("new" if data == NEW else "old")
        strays = [name for name in os.listdir(folder) if name != "f"]
        if fault != "KILL" and len(strays) > (k == 2):
            report["wrong"].append([fault, k, "strays", strays])
        for name in strays:
            os.utime(folder / name, (1, 1))
        workspace = Workspace(folder)
        workspace.write_bytes("g", b"the next write sweeps")
        workspace.close()
        left = sorted(os.listdir(folder))
        if left != ["f", "g"]:
            report["wrong"].append([fault, k, "left", left])
        (folder / "g").unlink()
        report["k"] = max(report["k"], k)
        if status == 77:
            break
    else:
        report["wrong"].append([fault, "no end"])
report["seen"] = sorted(report["seen"])
print(json.dumps(report))
"""
JOURNAL = """
path = folder / "s" / "j.jsonl"
told = folder / "told"

def texts():
    return [message.text for message in load(path).history] if path.exists() and path.stat().st_size else []

def action():
    journal = Journal(path, lambda: "now", lambda text: text)
    if path.stat().st_size == 0:
        journal.header(session="s", cwd="/", model="m", agent="default", policy="p")
    fd = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in range(3):
        journal.turn(number, Message(role="user", parts=(Text(text=f"t{number}"),)))
        os.write(fd, b"x")  # somebody was told that it is saved; a strike here is one more, never one less

report = {"k": 0, "wrong": []}
for fault in ("KILL", "EIO", "ENOSPC"):
    for k in range(1, 200):
        for item in (path, told):
            item.unlink(missing_ok=True)
        status = run(action, fault, k)
        acknowledged = len(told.read_bytes()) if told.exists() else 0
        try:
            found = texts()
        except Exception as error:
            report["wrong"].append([fault, k, repr(error)])
            continue
        expected = [f"t{number}" for number in range(3)]
        if found != expected[: len(found)] or not acknowledged <= len(found) <= acknowledged + 1 or status in (1, 9):
            report["wrong"].append([fault, k, status, acknowledged, found])
        journal = Journal(path, lambda: "now", lambda text: text)  # goes on behind whatever is there
        if not path.stat().st_size:
            journal.header(session="s", cwd="/", model="m", agent="default", policy="p")
        journal.turn(9, Message(role="user", parts=(Text(text="after"),)))
        if texts() != [*found, "after"]:
            report["wrong"].append([fault, k, "after", texts()])
        report["k"] = max(report["k"], k)
        if status == 77:
            break
    else:
        report["wrong"].append([fault, "no end"])
print(json.dumps(report))
"""
ORDER = """
calls = []
def hook(frame, event, called):
    if event == "c_call" and getattr(called, "__name__", "") in ("write", "fsync", "rename", "unlink"):
        calls.append(called.__name__)
sys.setprofile(hook)
files.replace_file(folder / "f", b"x" * 100_000)
sys.setprofile(None)
print(json.dumps(calls))
"""


def play(script: str, folder: Path) -> object:
    done = subprocess.run(
        [sys.executable, "-c", WORLD + script, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_file_is_old_or_new_whatever_call_fails(tmp_path: Path) -> None:
    report = play(REPLACE, tmp_path)
    assert isinstance(report, dict)
    assert report["wrong"] == []
    assert report["seen"] == ["new", "old"]
    assert report["k"] > 10


def test_a_log_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    report = play(JOURNAL, tmp_path)
    assert isinstance(report, dict)
    assert report["wrong"] == []
    assert report["k"] > 10


def test_the_data_is_on_disk_before_the_name_and_the_name_before_the_answer(tmp_path: Path) -> None:
    """What a loss of power may reorder: bytes, then their sync, then the name, then the sync of the folder."""
    assert play(ORDER, tmp_path) == ["write", "fsync", "rename", "fsync"]


@pytest.mark.parametrize("limit", [0, 10, 70_000])
def test_a_file_size_limit_is_an_error_and_leaves_the_old_file(tmp_path: Path, limit: int) -> None:
    """EFBIG, as a quota would be: nothing is half written."""
    (tmp_path / "f").write_bytes(b"old")
    script = (
        "import resource, sys\nfrom agentctl.core import files\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "try:\n    files.replace_file(sys.argv[1], b'x' * 100_000)\n"
        "except OSError as error:\n    print(error.strerror)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "f")], capture_output=True, text=True)
    assert done.stdout == "File too large\n", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"
