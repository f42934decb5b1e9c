"""The published schema of a policy file takes what loads and refuses what does not."""

from __future__ import annotations

import tomllib

import jsonschema
import pytest

from agentctl.core.toolnames import GROUPS, TOOL_NAMES
from agentctl.policy.rulefile import RULE_KEYS, TOP_KEYS, load_rules
from agentctl.policy.schema import policy_schema
from agentctl.policy.shipped import PARTS, profile_text
from tests.unit.policy.test_load_errors import BAD
from tests.unit.policy.test_mcp_rules import CHILDREN, POLICY

SCHEMA = policy_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
BEYOND = {
    "no toml", "late toml", "example", "example two", "args example", "duplicate", "glob", "idle", "empty tool",
    "leaving path", "open bracket", "port", "server of bash", "args of bash", "url and path", "args none", "no pattern",
    *(name for name in BAD if name.startswith("shell syntax ")),
}  # fmt: skip
"""What only loading finds: examples, conditions that a tool cannot have, patterns that mean nothing."""


def test_it_is_a_schema_that_knows_every_key() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert tuple(SCHEMA["properties"]) == TOP_KEYS
    assert tuple(SCHEMA["$defs"]["rule"]["properties"]) == RULE_KEYS


@pytest.mark.parametrize("text", [*(profile_text(f"builtin:{name}") for name in PARTS), POLICY, CHILDREN])
def test_good_files(text: str) -> None:
    assert list(VALIDATOR.iter_errors(tomllib.loads(text))) == []


@pytest.mark.parametrize("name", sorted(set(BAD) - BEYOND))
def test_bad_files(name: str) -> None:
    assert not VALIDATOR.is_valid(tomllib.loads(BAD[name][0]))


@pytest.mark.parametrize("name", [*TOOL_NAMES, *GROUPS, "mcp__x__y", "*", "read_*", "mcp__*"])
def test_tools(name: str) -> None:
    text = f'version = 1\n[[rule]]\ntool = "{name}"\ndecision = "deny"\n'
    assert load_rules("x", text).rules
    assert VALIDATOR.is_valid(tomllib.loads(text))
