"""Instructions of the repository: AGENTS.md and its kin, from the root of the repository down to the workspace.

They are read under the trust of the run, like everything that a checkout says about it: from the work tree, from the
base commit, or not at all. Without a repository only the workspace root itself is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os.path import relpath
from pathlib import Path

from agentctl.config.repository import nearest_repository
from agentctl.config.trust import Trust, WorkspaceReader
from agentctl.core.events import InstructionFile
from agentctl.core.ports import Where
from agentctl.core.text import clean
from agentctl.core.types import Problem

NAMES = ("AGENTS.md", "CLAUDE.md", ".agentctl.md")
MAX_CHARS = 12_000
"""Of one file."""
TOTAL_CHARS = 60_000
"""Of all files together; the outermost give way, since inner ones are closer to the work."""
PREFACE = (
    "Instructions of this repository, written by people. They go before your habits, never before the policy; "
    "where two differ, the later one holds."
)


class Instructions:
    """The files that were read. It is also the Section that puts them into the prompt."""

    name = "instructions"
    plane = "instructions"
    where: Where = "stable"

    def __init__(
        self,
        files: tuple[InstructionFile, ...] = (),
        texts: tuple[str, ...] = (),
        problems: tuple[Problem, ...] = (),
    ) -> None:
        self.files = files
        self.problems = problems
        self._text = "\n\n".join(
            [PREFACE, *(f"## {file.path}\n{text}" for file, text in zip(files, texts, strict=True))]
        )

    def render(self) -> str:
        return self._text if self.files else ""


def load_instructions(root: Path, trust: Trust, redact: Callable[[str], str]) -> Instructions:
    """Outermost first; paths are relative to the workspace root. `redact` masks secrets before anything is cut."""
    top = nearest_repository(root) or root
    reader = WorkspaceReader(top, trust)
    found: dict[str, tuple[InstructionFile, str]] = {}
    problems: list[Problem] = []
    for folder in _folders(top, root):
        for name in NAMES:
            data = reader.read((folder / name).relative_to(top).as_posix(), aliases=NAMES)
            if data and data.strip():
                _take(relpath(folder / name, root), data, reader.level, redact, found, problems)
    problems += [problem.replace(what=relpath(top / problem.what, root)) for problem in reader.problems]
    rows = _within_total(list(found.values()), problems)
    return Instructions(tuple(file for file, _ in rows), tuple(text for _, text in rows), tuple(problems))


def _take(
    shown: str,
    data: bytes,
    level: str,
    redact: Callable[[str], str],
    found: dict[str, tuple[InstructionFile, str]],
    problems: list[Problem],
) -> None:
    """Adds a file, cut if need be; a copy of one that is there already is left out."""
    from hashlib import sha256

    digest = sha256(data).hexdigest()
    if digest in found:
        return
    text = redact(clean(data.decode("utf-8-sig", "replace"))).strip()
    if len(text) > MAX_CHARS:
        left_out = len(text) - MAX_CHARS
        text = f"{text[:MAX_CHARS]}\n[{left_out:,} characters left out]"
        why = f"it has {left_out + MAX_CHARS:,} characters; the first {MAX_CHARS:,} were taken"
        problems.append(Problem(code="instructions-cut", what=shown, why=why, fix="Shorten it."))
    found[digest] = (InstructionFile(path=shown, sha256=digest, trust=level), text)


def _within_total(
    rows: list[tuple[InstructionFile, str]], problems: list[Problem]
) -> list[tuple[InstructionFile, str]]:
    while sum(len(text) for _, text in rows) > TOTAL_CHARS:
        file, _ = rows.pop(0)
        why = f"all instructions together have more than {TOTAL_CHARS:,} characters"
        problems.append(Problem(code="left-out", what=file.path, why=why, fix="Shorten the instructions."))
    return rows


def _folders(top: Path, root: Path) -> Iterator[Path]:
    yield top
    folder = top
    for part in root.relative_to(top).parts:
        folder /= part
        yield folder
