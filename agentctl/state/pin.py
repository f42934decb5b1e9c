"""The pin: what the run was asked for, kept in sight. One writer (the run), one budget, two places in a request.

It is made of the prompt alone, never of stdin, files or what tools say, because it stands in the system prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.core.ports import Where
from agentctl.core.text import cut_end, one_line
from agentctl.core.types import JsonObject

MAX_CHARS = 1_000
"""Of the whole pin, in characters, after anything was added."""
GIVEN_CHARS = 600
"""Of --pin and --pin-file together; what is longer is refused, so that a constraint is never cut."""
LONG_TASK, TASK_HEAD, TASK_TAIL = 800, 300, 200
"""A task of more characters shows its beginning and end when it has to give way."""
DRAFT_TASK = 200
"""What stands of the task's own words beside what a model made of it."""
CLARIFICATION_CHARS = 200
_RESERVED = 120
"""Room that the latest clarification always has."""

HEAD = "The task of this session, pinned. Follow it as far as the policy allows:"
RECAP_OPEN, RECAP_CLOSE = "<task_recap>", "</task_recap>"


class Pin:
    """What is pinned in one session. `text` never has more than MAX_CHARS and never loses the task."""

    def __init__(
        self, task: str = "", *, given: str = "", drafted: str = "", clarifications: Sequence[str] = ()
    ) -> None:
        self.task = task.strip()
        self.given = given.strip()
        """What --pin and --pin-file say."""
        self.drafted = drafted
        """Goals and constraints as lines, made of the task by a model; empty with --pin-mode text."""
        self.clarifications = tuple(clarifications)
        self.turn = 1
        """Of the session, from 1."""

    @classmethod
    def from_row(cls, row: JsonObject) -> Pin:
        """Back from the journal; what does not fit is left out."""
        notes = row.get("clarifications")
        return cls(
            str(row.get("task", "")),
            given=str(row.get("given", "")),
            drafted=str(row.get("drafted", "")),
            clarifications=[str(note) for note in notes] if isinstance(notes, list) else (),
        )

    def row(self) -> JsonObject:
        return {
            "task": self.task if len(self.task) <= MAX_CHARS else excerpt(self.task, TASK_HEAD, TASK_TAIL),
            "given": self.given,
            "drafted": self.drafted,
            "clarifications": list(self.clarifications),
        }

    def clarify(self, text: str) -> None:
        """Adds the answer to a question as a `[+]` line; the model sees it from the next turn on."""
        note = one_line(text, CLARIFICATION_CHARS)
        if text.strip() and note not in self.clarifications:  # a run that was killed right then hears it again
            self.clarifications = (*self.clarifications, note)

    @property
    def room_for_draft(self) -> int:
        """Characters that a model's lines may have beside what a person pinned."""
        return MAX_CHARS - DRAFT_TASK - _RESERVED - len(self.given) - 3

    @property
    def text(self) -> str:
        """Oldest clarifications go first, then the middle of the task."""
        fixed = _joined(whole_lines(self.drafted, self.room_for_draft), self.given)
        notes = [f"[+] {note}" for note in self.clarifications]
        task = excerpt(self.task, DRAFT_TASK // 2, DRAFT_TASK // 4) if self.drafted else self.task
        whole = _joined(task, fixed, *notes)
        if len(whole) <= MAX_CHARS:
            return whole
        if len(task) > LONG_TASK:
            task = excerpt(task, TASK_HEAD, TASK_TAIL)
        room = MAX_CHARS - len(fixed) - 1 - (_RESERVED if notes else 0)
        task = task if len(task) <= room else excerpt(task, room // 2, room // 3)
        kept: list[str] = []
        for note in reversed(notes):
            left = MAX_CHARS - len(_joined(task, fixed, *kept)) - 1
            if len(note) > left:
                kept = kept or [cut_end(note, left)]
                break
            kept.insert(0, note)
        return _joined(task, fixed, *kept)

    @property
    def repeats_prompt(self) -> bool:
        """Whether the whole pin stands in the user's message of the first turn already."""
        return not self.given and not self.drafted and len(self.task) <= MAX_CHARS


class PinTail:
    """The pin at the end of the system prompt."""

    name = "pin"
    plane = "pin"
    where: Where = "tail"

    def __init__(self, pin: Pin) -> None:
        self._pin = pin

    def render(self) -> str:
        if not self._pin.task or (self._pin.turn == 1 and self._pin.repeats_prompt):
            return ""
        return f"{HEAD}\n{self._pin.text}"


class Recap:
    """The pin before the user's message, from the second turn on."""

    name = "recap"
    plane = "pin"
    where: Where = "head"

    def __init__(self, pin: Pin) -> None:
        self._pin = pin

    def render(self) -> str:
        if self._pin.turn == 1 or not self._pin.task:
            return ""
        text = self._pin.text.replace(RECAP_CLOSE, "</ task_recap>")
        return f"{RECAP_OPEN}\nPinned task: {text}\n{RECAP_CLOSE}"


def excerpt(text: str, head: int, tail: int) -> str:
    """The first and last characters with a line between that says how many are missing; short texts whole."""
    missing = len(text) - head - tail
    note = f"\n[{missing:,} characters left out]\n"
    return text if missing <= len(note) else f"{text[:head]}{note}{text[len(text) - tail :]}"


def whole_lines(text: str, limit: int) -> str:
    """The first lines that fit into so many characters."""
    kept: list[str] = []
    for line in text.splitlines():
        limit -= len(line) + 1
        if limit < -1:
            break
        kept.append(line)
    return "\n".join(kept)


def _joined(*rows: str) -> str:
    return "\n".join(filter(None, rows))
