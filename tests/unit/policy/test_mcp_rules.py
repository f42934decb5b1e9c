"""Conditions on MCP calls, wrappers that stand for other calls, and rules for subagents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import PolicyError
from agentctl.core.toolkit import LazyTool, ToolDefinition
from agentctl.core.types import Decision, JsonObject, Losing, Subject, ToolSpec
from agentctl.policy.plain import PlainParser
from tests.unit.policy.policy_world import World, spec

POLICY = """
version = 1

[[rule]]
id = "issues"
tool = "@mcp"
server = "github"
args = { repo = "acme/*", state = ["open", "closed"] }
decision = "allow"
match = ['github {"repo": "acme/site", "state": "open"}']
not_match = ['github {"repo": "acme/site"}', 'github {"repo": "evil/x", "state": "open"}', "github"]

[[rule]]
id = "no-secrets"
tool = ["mcp__*"]
args = { path = "*secret*" }
decision = "deny"
match = ['{"path": "a/secret.txt"}', 'files {"path": ["x", {"deep": "my-secrets"}]}']
not_match = ['{"path": "a"}', '{"other": "secret"}']

[[rule]]
id = "no-docs-server"
tool = "@mcp"
server = ["docs", "doc-*"]
decision = "deny"
match = ["docs", 'doc-x {"a": 1}']
not_match = ["documents"]
"""


def mcp(server: str, tool: str = "get") -> ToolSpec:
    return spec(f"mcp__{server}__{tool}")


def test_server_and_args(tmp_path: Path) -> None:
    engine = World(tmp_path, POLICY).engine
    fits = {"repo": "acme/site", "state": "open", "page": 2}
    rows: dict[str, tuple[ToolSpec, JsonObject, str, str]] = {
        "fits": (mcp("github"), fits, "allow", "issues"),
        "another server": (mcp("gitlab"), fits, "unmatched", "unmatched"),
        "another value": (mcp("github"), {**fits, "repo": "evil/acme/x"}, "unmatched", "unmatched"),
        "one is missing": (mcp("github"), {"repo": "acme/site"}, "unmatched", "unmatched"),
        "a list that fits": (mcp("github"), {**fits, "state": ["open", "closed"]}, "allow", "issues"),
        "a list that does not": (mcp("github"), {**fits, "state": ["open", "all"]}, "unmatched", "unmatched"),
        "an empty list": (mcp("github"), {**fits, "state": []}, "unmatched", "unmatched"),
        "an object": (mcp("github"), {**fits, "repo": {"name": "acme/site"}}, "unmatched", "unmatched"),
        "a refusal looks inside": (mcp("files"), {"path": [{"a": ["my-secret"]}]}, "deny", "no-secrets"),
        "and wins": (mcp("github"), {**fits, "path": "secret"}, "deny", "no-secrets"),
        "a server alone": (mcp("doc-a"), {}, "deny", "no-docs-server"),
        "a deep value ends": (mcp("files"), {"path": nested(100_000)}, "unmatched", "unmatched"),
    }
    found = {name: engine.decide(each, args) for name, (each, args, _, _) in rows.items()}
    expected = {name: (verdict, rule) for name, (_, _, verdict, rule) in rows.items()}
    assert {name: (item.verdict, item.rule) for name, item in found.items()} == expected
    assert found["another server"].allow_with == "mcp__gitlab__get"


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "pattern", "fits"),
    [
        (True, "true", True),
        (None, "null", True),
        (5, "5", True),
        (1.5, "1.*", True),
        ("", "", True),
        ("a\nb", "a*b", True),
        (True, "1", False),
        ("5", "?", True),
        ("A", "a", False),
    ],
)
def test_values_as_text(value: object, pattern: str, fits: bool, tmp_path: Path) -> None:
    rule = f'[[rule]]\ntool = "@mcp"\nargs = {{ x = "{pattern}" }}\n'
    for decision in ("allow", "deny"):
        engine = World(tmp_path, f'version = 1\n{rule}decision = "{decision}"\n').engine
        assert (engine.decide(mcp("a"), {"x": value}).verdict == decision) is fits


def test_bare_rules_and_the_built_in_ones(tmp_path: Path) -> None:
    """A server that calls its tool a reader is not believed."""
    reader = mcp("x").replace(effect="read")
    assert World(tmp_path).engine.decide(reader, {}).verdict == "unmatched"
    assert World(tmp_path, allow=["@mcp"]).engine.decide(reader, {}).runs
    assert World(tmp_path, allow=["mcp__x__*"]).engine.decide(reader, {}).runs
    assert not World(tmp_path, allow=["mcp__x__*"]).engine.decide(mcp("y"), {}).runs


def test_the_name_of_a_tool_that_is_not_there(tmp_path: Path) -> None:
    engine = World(tmp_path, POLICY, allow=["mcp__github__*"]).engine
    found = engine.decide_by_name("mcp__github__get")
    assert (found.verdict, found.runs, found.rule) == ("allow", False, "allow:mcp__github__*")


# --- wrappers


def wrapper(acts_as: Callable[[JsonObject], tuple[str, JsonObject]]) -> ToolSpec:
    return ToolSpec(
        name="mcp_call",
        description="",
        parameters={},
        effect="network",
        set="net",
        subjects=lambda args: (Subject(kind="server", value=args["server"]),),
        acts_as=acts_as,
    )


CALL = wrapper(lambda args: (f"mcp__{args['server']}__{args['tool']}", args["arguments"]))
FITS: JsonObject = {"server": "github", "tool": "get", "arguments": {"repo": "acme/a", "state": "open"}}


def test_a_wrapper_is_judged_as_what_it_stands_for(tmp_path: Path) -> None:
    engine = World(tmp_path, POLICY).engine
    assert engine.decide(CALL, FITS).replace(losing=()) == engine.decide(mcp("github"), FITS["arguments"])
    other = engine.decide(CALL, {**FITS, "arguments": {"repo": "evil/a", "state": "open"}})
    assert (other.verdict, other.runs, other.allow_with) == ("unmatched", False, "mcp__github__get")
    denied = engine.decide(CALL, {**FITS, "arguments": {**FITS["arguments"], "path": "secret"}})
    assert (denied.verdict, denied.rule) == ("deny", "no-secrets")


def test_rules_for_the_wrapper_itself_only_add(tmp_path: Path) -> None:
    inner_denied = 'version = 1\n[[rule]]\ntool = "mcp__github__get"\ndecision = "deny"\n'
    assert not World(tmp_path, inner_denied, allow=["@network"]).engine.decide(CALL, FITS).runs
    wrapper_asks = 'version = 1\n[[rule]]\nid = "w"\ntool = "@network"\nserver = "git*"\ndecision = "ask"\n'
    with pytest.raises(PolicyError, match="@network has no server"):
        World(tmp_path, wrapper_asks)
    engine = World(tmp_path, wrapper_asks.replace('"@network"', '"*"'), allow=["mcp__github__get"]).engine
    found = engine.decide(CALL, FITS)
    assert (found.verdict, found.rule, found.runs) == ("ask", "w", False)
    assert found.losing == (
        Losing(verdict="allow", rule="allow:mcp__github__get", source="--allow 'mcp__github__get'"),
    )


def test_a_wrapper_of_a_known_tool_is_judged_by_its_subjects(tmp_path: Path) -> None:
    known = {name: spec(name) for name in ("bash", "read_file")}
    engine = World(tmp_path, allow=["bash:ls *"], find_spec=known.get).engine

    def decide(name: str, args: JsonObject) -> Decision:
        stands_for = wrapper(lambda _args: (name, args)).replace(subjects=lambda _args: ())
        return engine.decide(stands_for, {})

    assert decide("bash", {"command": "ls -l"}).runs
    assert decide("bash", {"command": "ls; touch x"}).verdict == "unmatched"
    assert decide("bash", {"command": "rm -rf /"}).verdict == "guard"
    assert decide("read_file", {"path": "a"}).runs
    assert decide("read_file", {"path": ".env"}).rule == "builtin:secrets"
    assert decide("read_file", {}).verdict == "opaque"
    assert decide("nothing", {}).verdict == "unmatched"


def test_wrappers_of_wrappers_end(tmp_path: Path) -> None:
    endless = wrapper(lambda args: ("mcp_call", args))
    engine = World(tmp_path, allow=["*"], find_spec=lambda name: endless if name == "mcp_call" else None).engine
    found = engine.decide(endless, {"server": "x"})
    assert (found.verdict, found.runs) == ("opaque", False)


def test_arguments_that_no_wrapper_understands(tmp_path: Path) -> None:
    assert World(tmp_path, is_yolo=True).engine.decide(CALL, {"server": "github"}).verdict == "opaque"


class Wrapping:
    """A tool module as the catalogue sees it."""

    definition = ToolDefinition(
        name="mcp_call",
        description="",
        arguments=None,
        effect="network",
        set="net",
        subjects=lambda args: (),
        acts_as=lambda args: (args["name"], args["arguments"]),
    )

    async def run(self, call_id: str, args: Any) -> Any:
        raise NotImplementedError(call_id, args)


def test_a_lazy_tool_passes_it_on() -> None:
    row = {"name": "mcp_call", "description": "", "parameters": {}, "effect": "network", "set": "net"}
    wrapping = LazyTool({**row, "wrapper": True}, Wrapping)
    assert wrapping.spec.acts_as is not None
    assert wrapping.spec.acts_as({"name": "mcp__a__b", "arguments": {"x": 1}}) == ("mcp__a__b", {"x": 1})
    assert LazyTool(row, Wrapping).spec.acts_as is None


def test_the_catalogue_says_which_tools_are_wrappers() -> None:
    class Arguments:
        @staticmethod
        def wire_schema() -> JsonObject:
            return {}

    definition = Wrapping.definition.replace(arguments=Arguments)
    assert definition.catalogue_row()["wrapper"] is True
    assert "wrapper" not in definition.replace(acts_as=None).catalogue_row()


# --- subagents

CHILDREN = """
version = 1
unmatched = "allow"

[[rule]]
id = "workers-build-nothing"
tool = "bash"
command = "make *"
subagent = "worker"
decision = "deny"

[[rule]]
id = "no-subagent-writes-docs"
tool = "@write"
path = "docs/**"
subagent = ["explore", "r*", "worker"]
decision = "ask"

[[rule]]
id = "explorers-see-no-internals"
tool = "@read"
path = "internal/**"
subagent = "explore"
decision = "deny"
"""


def test_rules_for_subagents(tmp_path: Path) -> None:
    engine = World(tmp_path, CHILDREN, shell=PlainParser()).engine
    bash, write = spec("bash"), spec("write_file")

    def found(kind: str | None) -> tuple[str, str, bool]:
        one = engine.for_subagent(kind) if kind else engine
        make, docs = one.decide(bash, {"command": "make x"}), one.decide(write, {"path": "docs/a"})
        return make.verdict, docs.verdict, one.may_read("internal/a")

    assert {kind: found(kind) for kind in (None, "worker", "explore", "review")} == {
        None: ("unmatched", "unmatched", True),
        "worker": ("deny", "ask", True),
        "explore": ("unmatched", "ask", False),
        "review": ("unmatched", "ask", True),
    }
    assert engine.for_subagent("worker").digest == engine.digest


def test_a_rule_for_subagents_covers_nothing(tmp_path: Path) -> None:
    """--yolo lifts an ask, but what the run may not do its subagent may not do either."""
    text = CHILDREN.replace('unmatched = "allow"', 'unmatched = "deny"')
    engine = World(tmp_path, text, is_yolo=True).engine.for_subagent("worker")
    found = engine.decide(spec("write_file"), {"path": "docs/a"})
    assert (found.verdict, found.runs) == ("unmatched", False)
