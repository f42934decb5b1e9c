"""Reading a policy file: its keys, its faults with file, line and the nearest valid word.

A file either means exactly what it says or does not load: unknown keys, tools, decisions and patterns that cannot
match are PolicyErrors, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from agentctl.core.errors import PolicyError
from agentctl.core.text import did_you_mean
from agentctl.core.toolnames import GROUPS, TOOL_NAMES
from agentctl.core.types import Effect
from agentctl.policy.arguments import ArgumentPattern
from agentctl.policy.patterns import BadPattern, PathSet, glob_match, path_set, word_pattern
from agentctl.policy.rules import CHOICES, SUBAGENTS, Choice, Rule, RuleFile, has_effect, is_mcp, is_tool
from agentctl.policy.urls import url_pattern

VERSION = 1
TOP_KEYS = ("version", "unmatched", "rule")
CONDITIONS = ("command", "path", "url", "server", "args", "subagent")
RULE_KEYS = ("id", "tool", "decision", *CONDITIONS, "reason", "match", "not_match")
ID_PATTERN = r"[\w.:-]{1,80}"
_HEAD = r"(?m)^[ \t]*\[\[[ \t]*rule[ \t]*\]\]"
_FITTING: dict[str, frozenset[Effect]] = {
    "command": frozenset({"exec"}),
    "path": frozenset({"read", "write", "exec"}),
    "url": frozenset({"network"}),
}
"""Effects of tools whose calls can have the condition."""
_TOGETHER = (frozenset({"command", "path"}), frozenset({"server", "args"}), frozenset({"url"}))
"""Conditions that one and the same thing can meet; any of them goes with `subagent`."""


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
        self._lines = text.split("\n")
        self._heads = _head_lines(text)

    def read(self, table: dict[str, Any]) -> RuleFile:
        for key in table:
            if key not in TOP_KEYS:
                raise self._fault(-1, key, f"unknown key {key!r}", did_you_mean(key, TOP_KEYS))
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
            if key not in RULE_KEYS:
                raise self._fault(at, key, f"unknown key {key!r}", did_you_mean(key, RULE_KEYS))
        for key in ("tool", "decision"):
            if key not in row:
                raise self._fault(at, "", f"a rule without {key}", f"Add {key} = … to the rule.")
        name = row.get("id", f"rule-{at + 1}")
        if not isinstance(name, str) or not re.fullmatch(ID_PATTERN, name):
            raise self._fault(at, "id", f"bad id {name!r}", "Use letters, digits, '-', '_', '.' and ':'.")
        decision = row["decision"]
        if decision not in CHOICES:
            raise self._fault(at, "decision", f"unknown decision {decision!r}", _hint(decision, CHOICES))
        reason = row.get("reason", "")
        if not isinstance(reason, str):
            raise self._fault(at, "reason", f"reason is {reason!r}", "Write it as text in quotes.")
        said = {key: self._condition(at, key, row[key]) for key in CONDITIONS if key in row}
        rule = Rule(
            id=name,
            source=f"{self._name}:{self._line(at, '')}",
            tools=self._tools(at, self._texts(at, "tool", row["tool"])),
            decision=cast(Choice, decision),
            reason=reason,
            match=self._texts(at, "match", row.get("match", [])),
            not_match=self._texts(at, "not_match", row.get("not_match", [])),
            is_from_file=True,
            **said,
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

    # --- conditions

    def _condition(self, at: int, key: str, value: object) -> Any:
        if key == "args":
            return self._args(at, value)
        texts = self._texts(at, key, value)
        if not texts:
            raise self._fault(at, key, f"{key} is empty", f"Name a pattern, or drop {key}.")
        if key == "path":
            return PathSet.join(self._patterns(at, key, texts, lambda text: path_set((text,))))
        return self._patterns(at, key, texts, _MAKERS[key])

    def _args(self, at: int, value: object) -> tuple[ArgumentPattern, ...]:
        if not isinstance(value, dict) or not value:
            raise self._fault(at, "args", f"args is {value!r}", 'Write a table: args = { repo = "acme/*" }.')
        found = []
        for name, said in value.items():
            texts = self._texts(at, "args", said, name)
            if not texts:
                raise self._fault(at, "args", f"the argument {name!r} is empty", "Name a pattern, or drop it.")
            found.append(ArgumentPattern(name=name, texts=texts))
        return tuple(found)

    def _refuse_idle(self, at: int, rule: Rule) -> None:
        """A condition that can never be met would make an allow rule useless and a refusal a false promise."""
        shown = ", ".join(rule.tools)
        said = set(rule.conditions)
        for name, effects in _FITTING.items():
            if name in said and not any(has_effect(tool, effects) for tool in rule.tools):
                hint = f"{name} fits tools that {', '.join(sorted(effects))}; drop it or name another tool."
                raise self._fault(at, name, f"{shown} has no {name}", hint)
        for name in ("server", "args"):
            if name in said and not any(map(is_mcp, rule.tools)):
                raise self._fault(at, name, f"{shown} has no {name}", f"{name} fits tools of MCP servers; name @mcp.")
        if not any(said - {"subagent"} <= group for group in _TOGETHER):
            both = " and ".join(sorted(said - {"subagent"}))
            raise self._fault(at, sorted(said)[-1], f"nothing has {both} at once", "Write a rule for each of them.")
        if rule.subagent and not rule.is_refusal:
            hint = "A subagent never has more than the run: allow it for all, and deny it to other subagents."
            raise self._fault(at, "subagent", "an allow rule for subagents alone", hint)

    def _texts(self, at: int, key: str, value: object, shown: str = "") -> tuple[str, ...]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            raise self._fault(at, key, f"{shown or key} is {value!r}", "Write one text or a list of texts in quotes.")
        return tuple(values)

    def _patterns(
        self, at: int, key: str, texts: tuple[str, ...], make: Callable[[str], _Pattern]
    ) -> tuple[_Pattern, ...]:
        found = []
        for text in texts:
            try:
                found.append(make(text))
            except BadPattern as fault:
                raise self._fault(at, key, f"bad {key} pattern {text!r}", sentence(str(fault))) from fault
        return tuple(found)

    # --- faults and places

    def broken(self, why: str) -> PolicyError:
        """A file that is no TOML. tomllib says `… (at line 3, column 4)`."""
        found = re.search(r"at line (\d+)", why)
        line = found.group(1) if found else str(len("\n".join(self._lines).splitlines()) or 1)
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
        is_last = at < 0 or at + 1 == len(self._heads)
        following = len(self._lines) if is_last else self._heads[at + 1]
        pattern = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[].=]") if key else None
        for number in range(start, following) if pattern else ():
            if pattern and pattern.match(self._lines[number]):
                return number + 1
        return start + 1


def _head_lines(text: str) -> list[int]:
    """Lines, from 0, where a rule begins."""
    lines, last, number = [], 0, 0
    for found in re.finditer(_HEAD, text):
        number += text.count("\n", last, found.end())
        last = found.end()
        lines.append(number)
    return lines


def _any_text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise BadPattern("an empty pattern matches nothing")
    return text


def _subagent(text: str) -> str:
    if not any(glob_match(text, kind) for kind in SUBAGENTS):
        raise BadPattern(f"there is no such subagent; {did_you_mean(text, SUBAGENTS)}".rstrip("."))
    return text


_MAKERS: dict[str, Callable[[str], Any]] = {
    "command": word_pattern,
    "url": url_pattern,
    "server": _any_text,
    "subagent": _subagent,
}


def _hint(value: object, valid: Sequence[str]) -> str:
    return did_you_mean(value, valid) if isinstance(value, str) else f"Valid: {', '.join(valid)}."


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
