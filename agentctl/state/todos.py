"""The plan of a session: a short list that the model replaces as a whole and sees in every step."""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.core.events import Todos
from agentctl.core.ports import Where
from agentctl.core.text import one_line
from agentctl.core.types import JsonObject, Todo

MAX_ITEMS = 50
MAX_CHARS = 500
"""Of an item's content, and of its note."""
MARKS = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]", "blocked": "[!]"}


class TodoList:
    """The items of one session. It is also the Section that puts them into the prompt."""

    name = "todos"
    plane = "plan"
    where: Where = "step"

    def __init__(self, items: Sequence[Todo] = ()) -> None:
        self.items = tuple(items)

    def replace(self, items: Sequence[Todo]) -> None:
        self.items = tuple(items)

    def count(self, status: str) -> int:
        return sum(item.status == status for item in self.items)

    def event(self) -> Todos:
        return Todos(items=self.items, done=self.count("done"), total=len(self.items), blocked=self.count("blocked"))

    def lines(self) -> list[str]:
        """One line an item, whatever stands in it."""
        return [
            f"{MARKS[item.status]} {_folded(item.content)}{f' ({_folded(item.note)})' if item.note else ''}"
            for item in self.items
        ]

    def warnings(self) -> list[str]:
        """What is wrong with the list as a plan; it was stored all the same."""
        found = []
        running, blocked = self.count("in_progress"), self.count("blocked")
        left = len(self.items) - self.count("done")
        if running > 1:
            found.append(f"{running} items are in progress; work on one at a time.")
        if not running and left > blocked:
            found.append("Nothing is in progress although work remains; mark the item you are on.")
        if any(item.status == "blocked" and not item.note for item in self.items):
            found.append("A blocked item has no note; say what blocks it.")
        return found

    def render(self) -> str:
        """The section of the prompt; empty while there is no plan."""
        if not self.items:
            return ""
        blocked = f", {self.count('blocked')} blocked" if self.count("blocked") else ""
        head = f"Your plan ({self.count('done')}/{len(self.items)} done{blocked}); keep it current with todo_write:"
        return "\n".join([head, *self.lines()])


def _folded(text: str) -> str:
    return one_line(text, MAX_CHARS)


def todos_from_rows(rows: Sequence[JsonObject]) -> tuple[Todo, ...]:
    """Back from the journal; rows that are no items are left out."""
    return tuple(
        Todo(content=str(row["content"]), status=row["status"], note=str(row.get("note", "")))
        for row in rows
        if isinstance(row, dict) and row.get("status") in MARKS and "content" in row
    )
