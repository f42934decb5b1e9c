"""The rules that are always there: reading is allowed, files with secrets are not read, state tools are allowed."""

from __future__ import annotations

from agentctl.policy.path_guards import SECRET_EXCLUDED, SECRET_PATTERNS
from agentctl.policy.patterns import path_set
from agentctl.policy.rules import Rule
from agentctl.policy.verdicts import BUILT_IN

BUILTIN_RULES: tuple[Rule, ...] = (
    Rule(id="builtin:read", source=BUILT_IN, tools=("@read",), decision="allow", is_inside_only=True),
    Rule(
        id="builtin:secrets",
        source=BUILT_IN,
        tools=("@read", "@exec"),
        decision="deny",
        path=path_set(SECRET_PATTERNS),
        path_except=path_set(SECRET_EXCLUDED),
        reason="Files of this kind hold keys. Go on without their contents; `.env.example` may be read.",
    ),
    Rule(id="builtin:state", source=BUILT_IN, tools=("@state",), decision="allow"),
)
