"""`--allow` and `--deny` values as rules."""

from __future__ import annotations

from agentctl.core.errors import PolicyError
from agentctl.core.text import did_you_mean
from agentctl.core.toolnames import GROUPS, TOOL_NAMES
from agentctl.policy.patterns import BadPattern, path_set, word_pattern
from agentctl.policy.rulefile import sentence
from agentctl.policy.rules import Choice, Rule, has_effect, is_tool, takes_commands
from agentctl.policy.urls import url_pattern


def flag_rule(flag: str, text: str, decision: Choice) -> Rule:
    """`tool` or `tool:pattern` as a rule. Raises PolicyError that names the flag and its value."""
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
        if has_effect(tool, frozenset({"read", "write"})):
            return rule.replace(path=path_set((pattern,)))
        if has_effect(tool, frozenset({"network"})):
            return rule.replace(url=(url_pattern(pattern),))
    except BadPattern as fault:
        raise PolicyError(f"{shown}: bad pattern {pattern!r}", hint=sentence(str(fault))) from fault
    raise PolicyError(f"{shown}: {tool} takes no pattern", hint=f"Write {flag} {tool}.")
