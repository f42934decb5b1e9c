"""A rule as a value, and which tools and subagents the words of a rule stand for."""

from __future__ import annotations

from typing import Any, Literal

from agentctl.core.record import Record
from agentctl.core.toolnames import GROUPS, TOOL_NAMES
from agentctl.core.types import Effect
from agentctl.policy.arguments import ArgumentPattern
from agentctl.policy.patterns import PathSet, WordPattern, glob_match
from agentctl.policy.urls import UrlPattern

Choice = Literal["allow", "ask", "deny"]
CHOICES: tuple[Choice, ...] = ("allow", "ask", "deny")
SUBAGENTS = ("explore", "review", "worker")
"""Kinds of subagents that a rule can name."""


class Rule(Record):
    """One rule. Without a condition it matches every call of its tools."""

    id: str
    source: str
    """`file:line`, or the flag as it was given."""
    tools: tuple[str, ...]
    decision: Choice
    reason: str = ""
    command: tuple[WordPattern, ...] = ()
    path: PathSet = PathSet()
    path_except: PathSet = PathSet()
    """Only for built-in rules: paths that the rule leaves alone."""
    url: tuple[UrlPattern, ...] = ()
    server: tuple[str, ...] = ()
    args: tuple[ArgumentPattern, ...] = ()
    subagent: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()
    is_from_file: bool = False
    """Whether a policy file holds it; flags and the built-in rules bring no examples."""
    is_inside_only: bool = False
    """Only for built-in rules: says nothing about paths outside the roots."""

    @property
    def is_bare(self) -> bool:
        """Whether it speaks about calls as such: no condition on what they touch."""
        return not (self.command or self.path or self.url or self.server)

    @property
    def is_refusal(self) -> bool:
        return self.decision != "allow"

    def names_tool(self, name: str, effect: Effect | None) -> bool:
        """Whether the rule speaks about calls of this tool."""
        return any(_names(tool, name, effect) for tool in self.tools)

    def names_subagent(self, kind: str | None) -> bool:
        """Whether it counts for a subagent of this kind; None is the run itself."""
        return not self.subagent or (kind is not None and any(glob_match(item, kind) for item in self.subagent))

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions as they are written, without those that the rule does not have."""
        found = {
            "command": [item.text for item in self.command],
            "path": list(self.path.texts),
            "url": [item.text for item in self.url],
            "server": list(self.server),
            "args": {item.name: list(item.texts) for item in self.args},
            "subagent": list(self.subagent),
        }
        return {name: value for name, value in found.items() if value}

    @property
    def facts(self) -> dict[str, Any]:
        """What the digest covers: everything that changes a verdict."""
        conditions = {
            name: {key: sorted(texts) for key, texts in sorted(value.items())}
            if isinstance(value, dict)
            else sorted(value)
            for name, value in self.conditions.items()
        }
        return {"id": self.id, "tools": sorted(self.tools), "decision": self.decision, **conditions}


class RuleFile(Record):
    """A policy file that loaded. `unmatched` is None when the file does not say."""

    rules: tuple[Rule, ...]
    unmatched: Choice | None
    unmatched_source: str = ""


def _names(tool: str, name: str, effect: Effect | None) -> bool:
    if tool == "@mcp":
        return name.startswith("mcp__")
    if tool.startswith("@"):
        return effect in GROUPS.get(tool, frozenset())
    return glob_match(tool, name)


def is_tool(name: str) -> bool:
    """A built-in name, a group, a glob that matches one, or a name of an MCP tool."""
    return (
        name in TOOL_NAMES or name in GROUPS or name.startswith("mcp__") or any(glob_match(name, t) for t in TOOL_NAMES)
    )


def is_mcp(tool: str) -> bool:
    """Whether the word of a rule stands for tools of MCP servers."""
    return tool == "@mcp" or tool.startswith("mcp_") or glob_match(tool, "mcp__a__b")


def has_effect(tool: str, effects: frozenset[Effect]) -> bool:
    """Whether the word of a rule stands for a tool with one of these effects."""
    if tool.startswith("@"):
        return bool(GROUPS[tool] & effects)
    return tool == "*" or any(row.effect in effects and glob_match(tool, name) for name, row in TOOL_NAMES.items())


def takes_commands(tool: str) -> bool:
    """Whether calls of the tool, and of no other kind, are shell lines."""
    return has_effect(tool, frozenset({"exec"})) and not has_effect(tool, frozenset({"read", "write"}))
