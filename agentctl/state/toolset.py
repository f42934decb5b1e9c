"""The tools of the state planes: which module and class each name loads. Nothing is imported before a call."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentctl.core.toolkit import Implementation

CLASSES: dict[str, tuple[str, str]] = {
    "todo_write": ("todo_tool", "TodoWrite"),
    "focus_task": ("focus_tools", "FocusTask"),
    "focus_complete": ("focus_tools", "FocusComplete"),
    "add_state": ("notebook_tools", "AddState"),
    "read_state": ("notebook_tools", "ReadState"),
    "compact_state": ("notebook_tools", "CompactState"),
    "remember": ("knowledge_tools", "Remember"),
    "recall": ("knowledge_tools", "Recall"),
    "forget": ("knowledge_tools", "Forget"),
}
"""Module of this folder and class of each of its tools."""


def load_class(name: str) -> Any:
    """The class of a tool of this folder, importing its module, and pydantic with it."""
    module, attribute = CLASSES[name]
    found: type[Implementation] = getattr(import_module(f"agentctl.state.{module}"), attribute)
    return found
