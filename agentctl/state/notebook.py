"""The notebook of a session: findings as paragraphs of a plain text file, written and read by tools only.

The file is the truth: a revision is the hash of its text, so a change by anybody is seen. Nothing of it is ever put
into a request, except how much there is (`Pointer`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256

from agentctl.core.errors import ToolFailure
from agentctl.core.ports import Where
from agentctl.core.record import Record
from agentctl.core.text import clean
from agentctl.state.folder import SessionFolder

FILE = "notebook.md"
HINT_CHARS = 8_000
"""From here on the results of the tools say that it should be compacted."""
MAX_CHARS = 64_000
"""What would make it longer is refused."""
VERSIONS = 20
"""Earlier texts that are kept, the newest ones."""
_BLANK = r"\n\s*\n"


class Size(Record):
    notes: int
    chars: int

    def __str__(self) -> str:
        return f"{self.notes:,} {'note' if self.notes == 1 else 'notes'}, {self.chars:,} characters"


class Notebook:
    """Raises ToolFailure for what the model can mend, OSError for what the disk does."""

    def __init__(self, folder: SessionFolder, redact: Callable[[str], str]) -> None:
        self.folder = folder
        self._redact = redact

    @property
    def text(self) -> str:
        return self.folder.read(FILE) or ""

    @property
    def size(self) -> Size:
        return size_of(self.text)

    def add(self, note: str) -> Size:
        """Appends one paragraph. Only under `folder.locked()`."""
        paragraph = re.sub(_BLANK, "\n", self._redact(clean(note)).strip())
        if not paragraph:
            raise ToolFailure("The note is empty. Say what you found.")
        text = self.text
        longer = f"{text.rstrip()}\n\n{paragraph}\n" if text.strip() else f"{paragraph}\n"
        if len(longer) > MAX_CHARS:
            raise ToolFailure(
                f"Nothing was noted: the notebook has {len(text):,} characters and would have {len(longer):,}, "
                f"{MAX_CHARS:,} is the limit. read_state, then compact_state with a summary, then note it again."
            )
        self.folder.write(FILE, longer)
        return size_of(longer)

    def compact(self, text: str, revision: str) -> tuple[Size, Size, int]:
        """Replaces the whole text if it still is what was read. Only under `folder.locked()`.

        Returns the sizes before and after, and the number under which the earlier text is kept.
        """
        before = self.text
        if (now := revision_of(before)) != revision.strip().lower():
            raise ToolFailure(
                f"Nothing was changed: the notebook is at revision {now}, not at {revision!r}. "
                "read_state again, then compact what it holds now."
            )
        after = self._redact(clean(text)).strip() + "\n"
        if len(after) > MAX_CHARS:
            raise ToolFailure(f"Nothing was changed: {len(after):,} characters, {MAX_CHARS:,} is the limit.")
        number = self._keep(before)
        self.folder.write(FILE, after)
        return size_of(before), size_of(after), number

    def versions(self) -> list[int]:
        """The numbers of the earlier texts that are kept, oldest first."""
        paths = self.folder.path.glob("notebook.*.md") if self.folder.path.is_dir() else ()
        return sorted(int(middle) for path in paths if (middle := path.name.split(".")[1]).isdigit())

    def _keep(self, text: str) -> int:
        numbers = self.versions()
        number = (numbers[-1] if numbers else 0) + 1
        self.folder.write(f"notebook.{number}.md", text)
        for old in numbers[: max(0, len(numbers) + 1 - VERSIONS)]:
            (self.folder.path / f"notebook.{old}.md").unlink(missing_ok=True)
        return number


def size_of(text: str) -> Size:
    notes = len([paragraph for paragraph in re.split(_BLANK, text) if paragraph.strip()])
    return Size(notes=notes, chars=len(text))


def revision_of(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


class Pointer:
    """One line that says how much there is, never what: after a resume or a compaction, until it is read."""

    name = "notebook"
    plane = "notebook"
    where: Where = "step"

    def __init__(self, notebook: Notebook, *, is_due: bool) -> None:
        self._notebook = notebook
        self.is_due = is_due

    def render(self) -> str:
        if not self.is_due:
            return ""
        try:
            size = self._notebook.size
        except OSError:
            return ""
        return f"Notebook of this session: {size}; read_state shows them." if size.notes else ""
