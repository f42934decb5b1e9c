"""What a run loads, and what it does not: start-up is a promise."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.conftest import APIS, World, provider_flags
from tests.server import Call, Turn

PROBE = """
import json, sys
from agentctl.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write(json.dumps({"code": code, "modules": sorted(sys.modules)}) + "\\n")
"""
NEVER = ("openai", "anthropic", "rich", "jsonschema", "yaml", "httpx", "requests")
NOT_FOR_AN_ANSWER = ("pydantic", "tenacity", "pathspec", "re2", "platformdirs", "tomllib")
ADAPTERS = {
    "openai-chat": "agentctl.providers.openai_chat",
    "openai-responses": "agentctl.providers.openai_responses",
    "anthropic-messages": "agentctl.providers.anthropic_messages",
}


def loaded(world: World, *words: str) -> set[str]:
    command = [sys.executable, "-c", PROBE, *words]
    ran = subprocess.run(command, cwd=world.cwd, env=world.env, stdin=subprocess.DEVNULL, capture_output=True)
    report = json.loads(ran.stderr.splitlines()[-1])
    assert report["code"] == 0, ran.stderr
    return set(report["modules"])


@pytest.mark.parametrize("api", APIS)
def test_a_one_line_answer_loads_only_what_it_needs(world: World, served: Any, api: str) -> None:
    server = served([Turn(text="42")])
    modules = loaded(world, "-p", "x", "--quiet", *provider_flags(server, api))
    assert modules & {*NEVER, *NOT_FOR_AN_ANSWER} == set()
    assert {name for name in ADAPTERS.values() if name in modules} == {ADAPTERS[api]}
    assert not {name for name in modules if name.startswith(("agentctl.tools.", "agentctl.policy.commands"))} - {
        "agentctl.tools.sets"
    }


def test_a_tool_call_loads_its_own_family(world: World, served: Any) -> None:
    (world.cwd / "a").write_text("x")
    server = served([Turn(calls=[Call("read_file", {"path": "a"})]), Turn(text="42")])
    modules = loaded(world, "-p", "x", "--quiet", *provider_flags(server, "openai-chat"))
    assert not modules & set(NEVER)
    assert "pydantic" in modules
    assert "agentctl.tools.read" in modules
    assert "agentctl.tools.edit" not in modules


def test_the_demo_needs_no_http(world: World) -> None:
    assert "httpx2" not in loaded(world, "demo", "--quiet")
