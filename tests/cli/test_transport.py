"""`--transport sdk`: a whole run over the official clients, and what a run without them says."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.cli.conftest import APIS, World, provider_flags
from tests.server import Call, Turn

WITHOUT = """
import sys
sys.modules["openai"] = None  # as if it were not installed
from agentctl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("api", APIS)
def test_a_run_with_a_tool_call(world: World, served: Any, api: str) -> None:
    (world.cwd / "a.txt").write_text("inside")
    script = [Turn(text="looking", calls=[Call("read_file", {"path": "a.txt"})]), Turn(text="it says inside")]
    server = served(script)
    ran = world.run("-p", "read a.txt", "--transport", "sdk", "--json", server=server, api=api).ended("completed", 0)
    assert (ran.done["text"], ran.done["steps"], server.refusals) == ("it says inside", 2, [])
    assert "inside" in ran.of("tool-result")[0]["output"]
    assert {request.headers["x-stainless-lang"] for request in server.requests} == {"python"}


def test_the_variable_chooses_it_too(world: World, served: Any) -> None:
    server = served([Turn(text="ok")])
    env = {**world.env, "AGENTCTL_TRANSPORT": "sdk"}
    world.run("-p", "x", "--json", server=server, env=env).ended("completed", 0)
    assert "x-stainless-lang" in server.requests[0].headers


def test_a_client_that_is_not_installed(world: World, served: Any) -> None:
    server = served([])
    command = [sys.executable, "-c", WITHOUT, "-p", "x", "--transport", "sdk", *provider_flags(server, "openai-chat")]
    ran = subprocess.run(
        command, cwd=world.cwd, env=world.env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert "--transport sdk needs the package 'openai', which is not installed" in ran.stderr
    assert "pip install '.[sdk]'" in ran.stderr
    assert server.requests == []
