"""JSON Schema of a policy file, for editors and for checks without agentctl; only `agentctl schema policy` needs it."""

from __future__ import annotations

from agentctl.core.toolnames import GROUPS, TOOL_NAMES
from agentctl.core.types import JsonObject
from agentctl.policy.rulefile import ID_PATTERN, RULE_KEYS, TOP_KEYS, VERSION
from agentctl.policy.rules import CHOICES, SUBAGENTS

_TEXT: JsonObject = {"type": "string", "minLength": 1}


def _texts(item: JsonObject, about: str, at_least: int = 1) -> JsonObject:
    """One text or a list of texts."""
    return {"description": about, "anyOf": [item, {"type": "array", "items": item, "minItems": at_least}]}


_TOOL: JsonObject = {
    "anyOf": [
        {"enum": [*GROUPS, *TOOL_NAMES]},
        {"type": "string", "pattern": "^mcp__", "description": "A tool of an MCP server."},
        {"type": "string", "pattern": "[*?]", "description": "A glob that matches a built-in tool."},
    ]
}
_PROPERTIES: dict[str, JsonObject] = {
    "version": {"const": VERSION},
    "unmatched": {"enum": list(CHOICES), "description": "What holds for a subject that no rule matches."},
    "rule": {"type": "array", "items": {"$ref": "#/$defs/rule"}},
    "id": {"type": "string", "pattern": f"^{ID_PATTERN}$"},
    "tool": _texts(_TOOL, "Tools, globs of tools, or groups of tools."),
    "decision": {"enum": list(CHOICES)},
    "command": _texts(
        {"type": "string", "pattern": "\\S"},
        "Word patterns, held against every simple command of a line; a final * is any number of further words.",
    ),
    "path": _texts(
        {"type": "string", "pattern": "^[^!]"}, "Gitignore patterns relative to the workspace root, without !."
    ),
    "url": _texts({"type": "string", "pattern": "^[^@\\s#]+$"}, "[scheme://]host[:port][/path]"),
    "server": _texts(_TEXT, "MCP servers by their names in the configuration; * and ? inside."),
    "args": {
        "description": "Arguments of an MCP call and the texts they may have; * and ? inside.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": _texts({"type": "string"}, "One text or several."),
    },
    "subagent": _texts(
        {"anyOf": [{"enum": list(SUBAGENTS)}, {"type": "string", "pattern": "[*?]"}]},
        "Kinds of subagents that the rule is for; deny and ask only.",
    ),
    "reason": {"type": "string", "description": "What the model is told when the rule refuses."},
    "match": _texts({"type": "string"}, "Examples that the rule matches, run at load.", at_least=0),
    "not_match": _texts({"type": "string"}, "Examples that the rule does not match, run at load.", at_least=0),
}


def policy_schema() -> JsonObject:
    """What a schema can say; that patterns and examples mean something, `policy check` says."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agentctl policy",
        "type": "object",
        "properties": {key: _PROPERTIES[key] for key in TOP_KEYS},
        "required": ["version"],
        "additionalProperties": False,
        "$defs": {
            "rule": {
                "type": "object",
                "properties": {key: _PROPERTIES[key] for key in RULE_KEYS},
                "required": ["tool", "decision"],
                "additionalProperties": False,
                "if": {"required": ["subagent"]},
                "then": {"properties": {"decision": {"enum": [choice for choice in CHOICES if choice != "allow"]}}},
            }
        },
    }
