"""A folder of notes, and processes of their own that work on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from agentctl.state.knowledge import Knowledge

KEY = "k" * 64
PROJECT = Path(__file__).parents[3]


class MovedClock:
    """A clock that stands until it is moved."""

    def __init__(self, now: str = "2030-01-01T00:00:00.000Z") -> None:
        self.time = now

    def now(self) -> str:
        return self.time


def knowledge(folder: Path, clock: MovedClock | None = None, **options: Any) -> Knowledge:
    return Knowledge(folder, KEY, now=(clock or MovedClock()).now, **options)


def store(folder: Path) -> Path:
    return folder / f"{KEY}.db"


def process(folder: Path, code: str, *words: str, **options: Any) -> subprocess.Popen[bytes]:
    """Runs `code` with `knowledge` made for the folder, `patiently` and `words` at hand."""
    head = (
        "import sys\n"
        "from pathlib import Path\n"
        "from agentctl.state.knowledge import Knowledge\n"
        "from agentctl.state.knowledge_store import patiently, StoreFailure\n"
        f"knowledge = Knowledge(Path(sys.argv[1]), {KEY!r}, now=lambda: '2030-01-01T00:00:00.000Z')\n"
        "words = sys.argv[2:]\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(
        [sys.executable, "-c", head + code, str(folder), *words], cwd=PROJECT, **{**pipes, **options}
    )
