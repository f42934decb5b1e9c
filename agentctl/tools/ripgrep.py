"""Large trees through ripgrep: it says which lines of which files match, and nothing more.

The files are chosen by our own walk and the text of every hit is read again through the jail, so what ripgrep sees
when a file is swapped under its hands is never shown.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from agentctl.core import spawn

MAX_FILES_PER_RUN = 500
_HIT = re.compile(rb"([^\0\n]+)\0(\d+):")


def find_rg(root: Path) -> str | None:
    """An `rg` on PATH or beside this Python, never one that lies in the workspace."""
    beside = Path(sys.executable).with_name("rg")
    candidates = (spawn.find_program("rg"), str(beside))
    for program in candidates:
        if program is None or not os.access(program, os.X_OK):
            continue
        real = Path(program).resolve()
        if not real.is_relative_to(root):
            return str(real)
    return None


def matching_lines(
    program: str,
    pattern: str,
    root: Path,
    names: Sequence[str],
    *,
    ignore_case: bool,
    limit: int,
    timeout_s: float,
) -> list[tuple[str, int]] | None:
    """File and line number of every hit, files in the order given; None when ripgrep could not tell.

    `names` are relative to `root`, without line feeds, at most MAX_FILES_PER_RUN of them.
    """
    argv = [
        program,
        "--no-config",
        "--no-messages",
        "--no-ignore",
        "--hidden",
        "--color=never",
        "--no-heading",
        "--with-filename",
        "--line-number",
        "--null",
        "--text",
        "--crlf",
        "--threads=1",
        f"--max-count={limit}",
        "--max-columns=1",  # the text is read again, through the jail
        "--ignore-case" if ignore_case else "--case-sensitive",
        f"--regexp={pattern}",
        "--",
        *names,
    ]
    done = spawn.run(argv, cwd=root, timeout_s=timeout_s)
    if done.exit_code not in (0, 1) or done.is_timed_out or done.is_truncated:
        return None
    return [(os.fsdecode(name), int(number)) for name, number in _HIT.findall(done.stdout)]
