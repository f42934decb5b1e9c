"""Runs inside the sandbox as its process 1: one bash per line, and whether the stub ran. Standard library only.

Reads JSON lines `{"line": …}` from standard input and answers each with `{"ran": bool, "was_killed": bool}`. Between
two lines every process is gone and every file is fresh.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

DEADLINE_S = 2.0
GRACE_S = 0.25
"""How long jobs in the background may outlive their shell."""
MAX_PROCESSES = 60
HITS = Path("/hits/ran")
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/w/home",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for at, text in enumerate(sys.stdin):
        folder = Path(f"/w/{at}")
        Path("/w/home").mkdir()
        make_files(folder)
        was_killed = run(json.loads(text)["line"], folder)
        ran = HITS.exists()
        HITS.unlink(missing_ok=True)
        for place in ("/w", "/tmp", "/dev/shm"):
            empty(Path(place))
        sys.stdout.write(json.dumps({"ran": ran, "was_killed": was_killed}) + "\n")


def empty(folder: Path) -> None:
    for item in folder.iterdir():
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()


def make_files(folder: Path) -> None:
    """The same files that the judged workspace holds."""
    for name in ("src", "sub", ".git/objects", ".git/refs/heads"):
        (folder / name).mkdir(parents=True)
    (folder / "a.txt").write_text("canary x\nb\n")
    (folder / "b.txt").write_text("1\n")
    (folder / "src/x.py").write_text("pass\n")
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n")


def run(line: str, folder: Path) -> bool:
    """Whether it had to be ended. Afterwards nothing that it started is left."""
    shell = os.fork()
    if shell == 0:
        start(line, folder)
    end = time.monotonic() + DEADLINE_S
    was_killed = False
    while True:
        found = reap()
        if found is None:
            return was_killed
        if shell in found:
            end = min(end, time.monotonic() + GRACE_S)
        if time.monotonic() > end or len(processes()) > MAX_PROCESSES:
            was_killed = True
            os.kill(-1, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, 0.03)


def start(line: str, folder: Path) -> None:
    """Becomes the shell."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.setsid()
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        resource.setrlimit(resource.RLIMIT_NPROC, (256, 256))
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.execve("/usr/bin/bash", ["bash", "--noprofile", "--norc", "-c", line], ENVIRONMENT)
    finally:
        os._exit(127)


def reap() -> set[int] | None:
    """The children that have ended; None when there is none left at all. Process 1 inherits every orphan."""
    found = set()
    while True:
        try:
            child, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if child == 0:
            return found
        found.add(child)


def processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


if __name__ == "__main__":
    main()
