"""Processes that a test can tell from all others, and whether they are still there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def nap() -> str:
    """A long command whose command line no other process on this machine has."""
    return f"sleep 97.{os.getpid()}{time.monotonic_ns() % 10**9:09}"


def alive(command: str) -> list[int]:
    """The processes with exactly this command line; zombies have none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if line.replace(b"\0", b" ").strip() == command.encode():
                found.append(int(entry.name))
    return found


def wait_until(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    """Whether the condition held within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
