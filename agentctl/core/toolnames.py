"""Every built-in tool with its set and effect. Policy rules and `--tools` name tools before their code is loaded.

Only tools that this version has stand here; a test compares the table with what tools/ and state/ define.
"""

from __future__ import annotations

from agentctl.core.record import Record
from agentctl.core.types import Effect, ToolSet


class ToolName(Record):
    name: str
    set: ToolSet
    effect: Effect


TOOL_NAMES: dict[str, ToolName] = {
    row.name: row
    for row in (
        ToolName(name="read_file", set="core", effect="read"),
        ToolName(name="write_file", set="core", effect="write"),
        ToolName(name="edit_file", set="core", effect="write"),
        ToolName(name="glob", set="core", effect="read"),
        ToolName(name="grep", set="core", effect="read"),
        ToolName(name="bash", set="core", effect="exec"),
        ToolName(name="multi_edit", set="edit-plus", effect="write"),
        ToolName(name="list_dir", set="edit-plus", effect="read"),
        ToolName(name="read_many_files", set="edit-plus", effect="read"),
        ToolName(name="apply_patch", set="edit-plus", effect="write"),
        ToolName(name="move_file", set="edit-plus", effect="write"),
        ToolName(name="delete_file", set="edit-plus", effect="write"),
        ToolName(name="todo_write", set="session", effect="state"),
        ToolName(name="ask", set="session", effect="state"),
        ToolName(name="focus_task", set="session", effect="state"),
        ToolName(name="focus_complete", set="session", effect="state"),
        ToolName(name="add_state", set="session", effect="state"),
        ToolName(name="read_state", set="session", effect="state"),
        ToolName(name="compact_state", set="session", effect="state"),
        ToolName(name="remember", set="session", effect="state"),
        ToolName(name="recall", set="session", effect="state"),
        ToolName(name="forget", set="session", effect="state"),
    )
}

SESSION_STATE = frozenset(
    {"todo_write", "ask", "focus_task", "focus_complete", "add_state", "read_state", "compact_state"}
)
"""What these keep belongs to the session and shows in later requests, so a replay of recorded results runs them too."""

SETS: tuple[ToolSet, ...] = ("core", "edit-plus", "session")
"""The sets that have tools in this version; all of them are offered by default."""

GROUPS: dict[str, frozenset[Effect]] = {
    "@read": frozenset({"read"}),
    "@write": frozenset({"write"}),
    "@exec": frozenset({"exec"}),
    "@network": frozenset({"network"}),
    "@state": frozenset({"state"}),
    "@mcp": frozenset(),
}
"""Policy groups by effect. `@mcp` matches names that start with mcp__."""
