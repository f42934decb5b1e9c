"""Compiles faults.c and runs the installed command under it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

AGENTCTL = str(Path(sys.executable).with_name("agentctl"))
SOURCE = Path(__file__).with_name("faults.c")


@cache
def library() -> str:
    """The compiled library. A machine without a C compiler fails here: without it nothing is shown."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "the fault injection needs a C compiler"
    built = Path(mkdtemp(prefix="agentctl-faults-")) / "faults.so"
    command = [compiler, "-Wall", "-Werror", "-shared", "-fPIC", "-O1", "-o", str(built), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return str(built)


class Faulty:
    """A folder with a home and a script, in which the command meets one fault."""

    def __init__(self, root: Path, script: Mapping[str, Any]) -> None:
        self.cwd, self.home, self.tmp, self.log = root / "project", root / "home", root / "tmp", root / "log"
        self.below = self.home
        """Where operations count."""
        for folder in (self.cwd, self.home, self.tmp):
            folder.mkdir(parents=True)
        (self.cwd / "script.json").write_text(json.dumps(script))

    def run(self, *words: str, at: int = 0, kind: str = "", logs: bool = False) -> subprocess.CompletedProcess[bytes]:
        """`words` behind the model. `at` counts operations that change files below the home."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "AGENTCTL_HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "LD_PRELOAD": library(),
            "FAULTS_BELOW": str(self.below),
            "FAULTS_AT": str(at),
            "FAULTS_KIND": kind,
        }
        if logs:
            env["FAULTS_LOG"] = str(self.log)
            self.log.unlink(missing_ok=True)
        command = [AGENTCTL, "--model", "scripted/script.json", "--json", "--yolo", *words]
        return subprocess.run(
            command, cwd=self.cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
        )

    def operations(self) -> list[tuple[str, int]]:
        """What the last run with `logs` did, in order: letter (see faults.c) and size."""
        rows = (line.split() for line in self.log.read_text().splitlines())
        return [(what, int(size)) for what, size in rows]

    def journals(self) -> list[Path]:
        """Also those in the temporary store."""
        return sorted([*self.home.rglob("*.jsonl"), *self.tmp.rglob("*.jsonl")])
