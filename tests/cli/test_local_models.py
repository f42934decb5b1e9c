"""A local server whose model writes its calls as text: they are read, said, and judged like any call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import World
from tests.server import Server, Turn

LOCAL = ("ollama", "lmstudio", "llamacpp", "vllm")


def written(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def asked(server: Server, vendor: str) -> tuple[str, ...]:
    return ("-p", "go", "--json", "--model", f"{vendor}/small", "--base-url", server.base_url)


def keyed(world: World) -> dict[str, str]:
    """The server of the tests wants a key of everybody."""
    return {**world.env, "AGENTCTL_API_KEY": "any"}


@pytest.mark.parametrize("vendor", LOCAL)
def test_a_call_in_the_text_is_run_and_said(world: World, served: Any, vendor: str) -> None:
    (world.cwd / "a.txt").write_text("inside")
    server = served([Turn(text=f"Looking.\n{written('read_file', path='a.txt')}", delta=5), Turn(text="inside")])
    ran = world.run(*asked(server, vendor), env=keyed(world)).ended("completed", 0)
    assert [event["code"] for event in ran.of("notice")] == ["call-recovered"]
    assert [event["text"] for event in ran.of("message")] == ["Looking.\n", "inside"]
    assert "".join(event["delta"] for event in ran.of("text")) == "Looking.\ninside"
    assert ran.of("tool-result")[0]["output"] == "1: inside"
    assert server.refusals == []
    roles = [message["role"] for message in server.requests[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]


def test_a_call_in_the_text_is_judged_like_any_call(world: World, served: Any) -> None:
    (world.cwd / "a.txt").write_text("inside")
    server = served([Turn(text=written("bash", command="rm a.txt")), Turn(text="denied")])
    ran = world.run(*asked(server, "ollama"), env=keyed(world)).ended("completed", 0)
    assert [event["name"] for event in ran.of("tool-denied")] == ["bash"]
    assert (world.cwd / "a.txt").exists()


def test_a_hosted_model_that_writes_a_call_is_only_told_of(world: World, served: Any) -> None:
    text = written("read_file", path="a.txt")
    server = served([Turn(text=text)])
    ran = world.run("-p", "go", "--json", server=server).ended("completed", 0)
    assert [event["code"] for event in ran.of("notice")] == ["call-as-text"]
    assert (ran.done["text"], ran.of("tool-call")) == (text, [])
