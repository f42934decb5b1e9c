"""The verbs beside the run: one document with --json, plain lines without, one error document when they fail."""

from __future__ import annotations

import json
import os
from typing import Any

import jsonschema
import pytest

from agentctl.core.endings import ENDINGS
from agentctl.core.events import EVENTS
from agentctl.core.toolnames import TOOL_NAMES
from tests.cli.conftest import World
from tests.server import Call, Turn

POLICY = """
version = 1

[[rule]]
id = "checks"
tool = "bash"
command = ["pytest *"]
decision = "allow"
match = ["pytest -q"]
not_match = ["pytest -q; rm x"]
"""


def document(ran: Any) -> Any:
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_every_event_of_a_run_fits_the_published_schema(world: World, served: Any) -> None:
    schema = document(world.run("schema", "events"))
    validator = jsonschema.Draft202012Validator(schema)
    assert not validator.is_valid({"seq": 1})
    calls = [Call("list_dir"), Call("bash", {"command": "echo hi"}), Call("bash", {"command": "touch x"}), Call("nope")]
    turns = [Turn(reasoning="hm", text="I look", calls=calls), Turn(text="done")]
    ran = world.run("-p", "go", "--json", "--allow", "bash:echo *", server=served(turns)).ended("completed", 0)
    failed = world.run("-p", "x", "--json", "--agent", "turbo").ended("usage", 2)
    for event in (*ran.events, *failed.events):
        validator.validate(event)
    jsonschema.Draft202012Validator(document(world.run("schema", "done"))).validate(ran.done)
    assert {row["title"] for row in schema["oneOf"]} == {kind.type for kind in EVENTS}


def test_the_config_schema_knows_its_keys(world: World) -> None:
    schema = document(world.run("schema", "config"))
    jsonschema.Draft202012Validator(schema).validate({"max_steps": 3, "allow": ["bash:ls *"], "timeout": "15m"})
    assert not jsonschema.Draft202012Validator(schema).is_valid({"max_stepps": 3})


def test_tools_and_agents(world: World) -> None:
    rows = document(world.run("tools", "--tools", "core", "--json"))["tools"]
    assert [row["name"] for row in rows if row["offered"]] == [
        "read_file", "write_file", "edit_file", "glob", "grep", "bash",
    ]  # fmt: skip
    assert f" tools offered of {len(TOOL_NAMES)}\n" in world.run("tools").out.decode()
    review = document(world.run("tools", "--agent", "review", "--json"))["tools"]
    assert not any(row["offered"] for row in review if row["effect"] in ("write", "exec"))
    names = [row["name"] for row in document(world.run("agents", "--json"))["agents"]]
    assert names == ["default", "quick", "deep", "plan", "review"]


def test_config_show_names_each_origin(world: World) -> None:
    (world.cwd / ".agentctl").mkdir()
    (world.cwd / ".agentctl/config.toml").write_text("max_steps = 7\nyolo = true\n")
    env = {**world.env, "AGENTCTL_TIMEOUT": "90s"}
    shown = document(world.run("config", "show", "--json", "--max-denials", "3", env=env))
    rows = {row["name"]: (row["value"], row["origin"]) for row in shown["settings"]}
    assert rows["max_steps"] == (7, str(world.cwd / ".agentctl/config.toml"))
    assert rows["timeout"] == (90.0, "AGENTCTL_TIMEOUT")
    assert rows["max_denials"] == (3, "--max-denials")
    assert rows["yolo"] == (False, "built-in")
    assert "yolo" in json.dumps(shown["problems"])


def test_models_come_from_the_service_or_from_the_catalogue(world: World, served: Any) -> None:
    server = served([], models=["b-model", "a-model"])
    flags = ["models", "--json", "--model", "openai/x", "--base-url", server.base_url]
    listed = document(world.run(*flags))
    assert (listed["source"], [row["name"] for row in listed["models"]]) == (
        "service",
        ["openai/a-model", "openai/b-model"],
    )
    env = {name: value for name, value in world.env.items() if not name.endswith("_API_KEY")}
    known = document(world.run("models", "--json", "--model", "anthropic/x", env=env))
    assert known["source"] == "catalogue"
    assert "ANTHROPIC_API_KEY" in known["why"]
    assert any(row["price"] and row["window"] for row in known["models"])


def test_doctor_says_what_is_there_and_opens_nothing(world: World) -> None:
    report = document(world.run("doctor", "--json"))
    assert report["ok"] is True
    assert {"bash", "shfmt", "rg", "git", "keys", "sandbox"} <= {check["name"] for check in report["checks"]}
    sandbox = report["sandbox"]
    assert [row["level"] for row in sandbox["levels"]] == [1, 2, 3]
    assert sandbox["level"] == max(row["level"] for row in sandbox["levels"] if row["holds"])
    assert all(row["missing"] for row in sandbox["levels"] if not row["holds"])


@pytest.mark.parametrize(("answer", "is_told"), [("exit 0", True), ("exit 1", False), ("sleep 9", False)])
def test_doctor_tells_of_a_sudo_that_asks_nobody(world: World, answer: str, is_told: bool) -> None:
    programs = world.cwd.parent / "bin"
    programs.mkdir()
    (programs / "sudo").write_text(f"#!/bin/sh\n{answer}\n")
    (programs / "sudo").chmod(0o755)
    world.env["PATH"] = f"{programs}:{world.env['PATH']}"
    report = json.loads(world.run("doctor", "--json").out)
    assert ("sudo" in [check["name"] for check in report["checks"]]) is is_told


def test_doctor_names_what_commands_get_and_what_is_masked(world: World) -> None:
    world.env.update({"DEPLOY_TOKEN": "A-value-of-17", "DB_PASSWORD": "plain"})
    ran = world.run("doctor", "--json")
    checks = {(check["name"], check["state"]): check["what"] for check in json.loads(ran.out)["checks"]}
    assert "HOME" in checks["environment", "ok"]
    assert "DEPLOY_TOKEN" not in checks["environment", "ok"]
    assert "DEPLOY_TOKEN" in checks["secrets", "ok"]
    assert "DB_PASSWORD" in checks["secrets", "note"]
    assert "A-value-of-17" not in ran.out.decode()
    assert ("jail", "ok") in checks


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_doctor_ends_3_when_sessions_cannot_be_saved(world: World) -> None:
    world.home.chmod(0o500)
    assert world.run("doctor").code == 3


def test_policy_check_and_explain(world: World) -> None:
    (world.cwd / "p.toml").write_text(POLICY)
    assert document(world.run("policy", "check", "--policy", "p.toml", "--json"))["ok"] is True
    words = ["policy", "explain", "--policy", "p.toml", "--json"]
    row = document(world.run(*words, "bash", '{"command": "pytest -q"}'))
    assert (row["verdict"], row["runs"], row["rule"]) == ("allow", True, "checks")
    assert "p.toml" in row["source"]
    lines = "".join(
        json.dumps({"tool": tool, "input": given}) + "\n"
        for tool, given in (
            ("bash", {"command": "git push"}),
            ("read_file", {"path": "a.py"}),
            ("read_many_files", {"files": [{"path": "a"}, {"path": ".env"}]}),
            ("write_file", {"path": "./src/../x", "content": ""}),
            ("web_fetch", {"url": "https://example.org"}),
        )
    )
    ran = world.run(*words, "-", stdin=lines.encode())
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["runs"] for row in rows] == [False, True, False, False, False]
    assert "allow with: --allow" in world.run("policy", "explain", "bash", '{"command": "make x"}').out.decode()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('version = 1\n[[rule]]\ntool = "bash"\ndecision = "alow"\n', "allow"),
        ('version = 1\n[[rule]]\ntool = "bash"\ncomand = ["x"]\ndecision = "deny"\n', "command"),
        ('version = 1\n[[rule]]\ntool = "reed_file"\ndecision = "deny"\n', "read_file"),
        ('version = 1\nunmatched = "maybe"\n', "maybe"),
        ("version = 9\n", "version"),
        ("not toml at all", ""),
        (POLICY.replace("pytest -q; rm x", "pytest -x"), "pytest -x"),
    ],
)
def test_a_policy_that_may_not_mean_what_it_says_does_not_load(world: World, text: str, word: str) -> None:
    (world.cwd / "bad.toml").write_text(text)
    ran = world.run("policy", "check", "--policy", "bad.toml", "--json")
    assert ran.code == 2
    error = json.loads(ran.out)["error"]
    assert "bad.toml" in error["message"]
    assert word in error["message"] + error["hint"]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["polcy", "check"], "policy"),
        (["policy", "chek"], "check"),
        (["schema", "event"], "events"),
        (["tools", "--tols", "core"], "--tools"),
        (["sessions"], "list"),
    ],
)
def test_a_misspelt_verb_names_the_nearest_one(world: World, words: list[str], near: str) -> None:
    ran = world.run(*words, "--json")
    assert ran.code == 2
    failure = json.loads(ran.out)
    assert failure["exit_code"] == 2
    assert near in failure["error"]["message"] + failure["error"]["hint"]


def test_sessions_list_is_empty_at_first(world: World) -> None:
    assert document(world.run("sessions", "list", "--json")) == {"sessions": [], "problems": []}
    assert "No session" in world.run("sessions", "list").out.decode()


def test_help_names_every_ending_and_fits_80_columns(world: World) -> None:
    text = world.run("--help").out.decode()
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in ENDINGS)
    assert "\x1b" not in text
