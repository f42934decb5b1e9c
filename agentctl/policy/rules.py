"""The policy file: its format, its faults with file and line, and `--allow` / `--deny` values as rules.

A file either means exactly what it says or does not load: unknown keys, tools, decisions and patterns that cannot
match are PolicyErrors, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, cast

from agentctl.core.errors import PolicyError
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean
from agentctl.core.toolnames import GROUPS, TOOL_NAMES
from agentctl.core.types import Effect
from agentctl.policy.patterns import (
    BadPattern,
    PathSet,
    UrlPattern,
    WordPattern,
    glob_match,
    path_set,
    url_pattern,
    word_pattern,
)

Choice = Literal["allow", "ask", "deny"]
CHOICES: tuple[Choice, ...] = ("allow", "ask", "deny")
VERSION = 1
_TOP_KEYS = ("version", "unmatched", "rule")
_RULE_KEYS = ("id", "tool", "decision", "command", "path", "url", "reason", "match", "not_match")
_ID = re.compile(r"[\w.:-]{1,80}")


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
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()
    is_inside_only: bool = False
    """Only for built-in rules: says nothing about paths outside the roots."""

    @property
    def is_bare(self) -> bool:
        return not (self.command or self.path or self.url)

    def names_tool(self, name: str, effect: Effect | None) -> bool:
        """Whether the rule speaks about calls of this tool."""
        return any(_names(tool, name, effect) for tool in self.tools)

    @property
    def facts(self) -> dict[str, Any]:
        """What the digest covers: everything that changes a verdict."""
        return {
            "id": self.id,
            "tools": sorted(self.tools),
            "decision": self.decision,
            "command": sorted(item.text for item in self.command),
            "path": sorted(self.path.texts),
            "url": sorted(item.text for item in self.url),
        }


def _names(tool: str, name: str, effect: Effect | None) -> bool:
    if tool == "@mcp":
        return name.startswith("mcp__")
    if tool.startswith("@"):
        return effect in GROUPS.get(tool, frozenset())
    return glob_match(tool, name)


class RuleFile(Record):
    """A policy file that loaded. `unmatched` is None when the file does not say."""

    rules: tuple[Rule, ...]
    unmatched: Choice | None
    unmatched_source: str = ""


def load_rules(name: str, text: str) -> RuleFile:
    """Raises PolicyError for the first fault. Examples are not run here."""
    import tomllib  # 5 ms, for runs with a policy file

    reader = _Reader(name, text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise reader.broken(str(fault)) from fault
    return reader.read(table)


_Pattern = TypeVar("_Pattern")


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = text.splitlines()
        self._heads = [at for at, line in enumerate(self._lines) if re.match(r"\s*\[\[\s*rule\s*\]\]", line)]

    def read(self, table: dict[str, Any]) -> RuleFile:
        for key in table:
            if key not in _TOP_KEYS:
                raise self._fault(-1, key, f"unknown key {key!r}", did_you_mean(key, _TOP_KEYS))
        if table.get("version") != VERSION or isinstance(table.get("version"), bool):
            raise self._fault(-1, "version", f"version is {table.get('version')!r}", f"Write `version = {VERSION}`.")
        unmatched = table.get("unmatched")
        if unmatched is not None and unmatched not in CHOICES:
            raise self._fault(-1, "unmatched", f"unknown value {unmatched!r} for unmatched", _hint(unmatched, CHOICES))
        rows = table.get("rule", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._fault(-1, "rule", "rule is not a list of tables", "Begin each rule with [[rule]].")
        rules = tuple(self._rule(at, row) for at, row in enumerate(rows))
        self._refuse_twins(rules)
        source = f"{self._name}:{self._line(-1, 'unmatched')}" if unmatched else ""
        return RuleFile(rules=rules, unmatched=unmatched, unmatched_source=source)

    def _refuse_twins(self, rules: Sequence[Rule]) -> None:
        seen: set[str] = set()
        for at, rule in enumerate(rules):
            if rule.id in seen:
                raise self._fault(at, "id", f"the id {rule.id!r} is used twice", "Give every rule its own id.")
            seen.add(rule.id)

    def _rule(self, at: int, row: dict[str, Any]) -> Rule:
        for key in row:
            if key not in _RULE_KEYS:
                raise self._fault(at, key, f"unknown key {key!r}", did_you_mean(key, _RULE_KEYS))
        for key in ("tool", "decision"):
            if key not in row:
                raise self._fault(at, "", f"a rule without {key}", f"Add {key} = … to the rule.")
        name = row.get("id", f"rule-{at + 1}")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise self._fault(at, "id", f"bad id {name!r}", "Use letters, digits, '-', '_', '.' and ':'.")
        decision = row["decision"]
        if decision not in CHOICES:
            raise self._fault(at, "decision", f"unknown decision {decision!r}", _hint(decision, CHOICES))
        reason = row.get("reason", "")
        if not isinstance(reason, str):
            raise self._fault(at, "reason", f"reason is {reason!r}", "Write it as text in quotes.")
        rule = Rule(
            id=name,
            source=f"{self._name}:{self._line(at, '')}",
            tools=self._tools(at, self._texts(at, row, "tool")),
            decision=cast(Choice, decision),
            reason=reason,
            command=self._patterns(at, row, "command", word_pattern),
            path=PathSet.join(self._patterns(at, row, "path", lambda text: path_set((text,)))),
            url=self._patterns(at, row, "url", url_pattern),
            match=self._texts(at, row, "match"),
            not_match=self._texts(at, row, "not_match"),
        )
        self._refuse_idle(at, rule)
        return rule

    def _tools(self, at: int, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not is_tool(name):
                raise self._fault(at, "tool", f"unknown tool {name!r}", did_you_mean(name, [*TOOL_NAMES, *GROUPS]))
        if not names:
            raise self._fault(at, "tool", "a rule for no tool", "Name a tool, a group or '*'.")
        return names

    def _refuse_idle(self, at: int, rule: Rule) -> None:
        for condition, effects in _CONDITION_EFFECTS.items():
            if getattr(rule, condition) and not any(_has_effect(tool, effects) for tool in rule.tools):
                shown = ", ".join(rule.tools)
                hint = f"{condition} fits tools that {', '.join(sorted(effects))}; drop it or name another tool."
                raise self._fault(at, condition, f"{shown} has no {condition}", hint)

    def _texts(self, at: int, row: dict[str, Any], key: str) -> tuple[str, ...]:
        value = row.get(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            raise self._fault(at, key, f"{key} is {value!r}", "Write one text or a list of texts in quotes.")
        return tuple(values)

    def _patterns(
        self, at: int, row: dict[str, Any], key: str, make: Callable[[str], _Pattern]
    ) -> tuple[_Pattern, ...]:
        texts = self._texts(at, row, key)
        if key in row and not texts:
            raise self._fault(at, key, f"{key} is empty", f"Name a pattern, or drop {key}.")
        found = []
        for text in texts:
            try:
                found.append(make(text))
            except BadPattern as fault:
                raise self._fault(at, key, f"bad {key} pattern {text!r}", f"{_sentence(str(fault))}") from fault
        return tuple(found)

    # --- faults and places

    def broken(self, why: str) -> PolicyError:
        """A file that is no TOML. tomllib says `… (at line 3, column 4)`."""
        found = re.search(r"at line (\d+)", why)
        line = found.group(1) if found else str(max(1, len(self._lines)))
        return PolicyError(
            f"{self._name}:{line}: not valid TOML: {why}", hint="Check quotes, brackets and `key = value`."
        )

    def _fault(self, at: int, key: str, what: str, hint: str) -> PolicyError:
        return PolicyError(f"{self._name}:{self._line(at, key)}: {what}", hint=hint)

    def _line(self, at: int, key: str) -> int:
        """Line of a key of the n-th rule, of its head when the key is not found; -1 is the part before the rules."""
        if at >= len(self._heads):
            return 1
        start = self._heads[at] if at >= 0 else 0
        following = self._heads[at + 1] if at + 1 < len(self._heads) else len(self._lines)
        pattern = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]") if key else None
        for number in range(start, following if at >= 0 else len(self._lines)):
            if pattern and pattern.match(self._lines[number]):
                return number + 1
        return start + 1


_CONDITION_EFFECTS: dict[str, frozenset[Effect]] = {
    "command": frozenset({"exec"}),
    "path": frozenset({"read", "write", "exec"}),
    "url": frozenset({"network"}),
}


def _has_effect(tool: str, effects: frozenset[Effect]) -> bool:
    if tool.startswith("@"):
        return bool(GROUPS[tool] & effects)
    return any(row.effect in effects and glob_match(tool, name) for name, row in TOOL_NAMES.items())


def is_tool(name: str) -> bool:
    """A built-in name, a group, a glob that matches one, or a name of an MCP tool."""
    return (
        name in TOOL_NAMES or name in GROUPS or name.startswith("mcp__") or any(glob_match(name, t) for t in TOOL_NAMES)
    )


def takes_commands(tool: str) -> bool:
    """Whether calls of the tool, and of no other kind, are shell lines."""
    return _has_effect(tool, frozenset({"exec"})) and not _has_effect(tool, frozenset({"read", "write"}))


def _hint(value: object, valid: Sequence[str]) -> str:
    return did_you_mean(value, valid) if isinstance(value, str) else f"Valid: {', '.join(valid)}."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def flag_rule(flag: str, text: str, decision: Choice) -> Rule:
    """`--allow` and `--deny`: `tool` or `tool:pattern`. Raises PolicyError that names the flag and its value."""
    shown = f"{flag} {text!r}"
    tool, colon, pattern = text.partition(":")
    if not is_tool(tool):
        raise PolicyError(f"{shown}: unknown tool {tool!r}", hint=did_you_mean(tool, [*TOOL_NAMES, *GROUPS]))
    rule = Rule(id=f"{flag.lstrip('-')}:{text}", source=shown, tools=(tool,), decision=decision)
    if not colon:
        return rule
    try:
        if takes_commands(tool):
            return rule.replace(command=(word_pattern(pattern),))
        if _has_effect(tool, frozenset({"read", "write"})):
            return rule.replace(path=path_set((pattern,)))
        if _has_effect(tool, frozenset({"network"})):
            return rule.replace(url=(url_pattern(pattern),))
    except BadPattern as fault:
        raise PolicyError(f"{shown}: bad pattern {pattern!r}", hint=_sentence(str(fault))) from fault
    raise PolicyError(f"{shown}: {tool} takes no pattern", hint=f"Write {flag} {tool}.")
