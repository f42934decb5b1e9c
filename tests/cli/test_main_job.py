"""One prompt, a tool loop, a final answer: in each wire format, through the installed command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import APIS, World
from tests.server import Call, Turn


@pytest.mark.parametrize("api", APIS)
def test_a_plain_answer(world: World, served: Any, api: str) -> None:
    server = served([Turn(text="The answer is 42.", repeat=3)])
    ran = world.run("-p", "What is it?", "--json", server=server, api=api).ended("completed", 0)
    assert ran.done["text"] == "The answer is 42."
    assert ran.done["usage"]["output"] == 5
    text = world.run("-p", "What is it?", server=server, api=api)
    assert (text.code, text.out) == (0, b"The answer is 42.\n")
    quiet = world.run("-p", "What is it?", "--quiet", server=server, api=api)
    assert (quiet.code, quiet.out, quiet.err) == (0, b"The answer is 42.\n", "")
    assert server.refusals == []


@pytest.mark.parametrize("api", APIS)
def test_read_run_write_answer(world: World, served: Any, api: str) -> None:
    (world.cwd / "VERSION").write_text("7.4.1\n")
    server = served(
        [
            Turn(text="Reading.", calls=[Call("read_file", {"path": "VERSION"})]),
            Turn(when=r"7\.4\.1", calls=[Call("bash", {"command": "echo built-$((6*7))"})]),
            Turn(when="built-42", calls=[Call("write_file", {"path": "out/a.txt", "content": "hé\n"})]),
            Turn(when="out/a.txt", text="All done."),
        ]
    )
    ran = world.run(
        "-p", "go", "--json", "--allow", "bash:echo *", "--allow", "write_file:out/**", server=server, api=api
    )
    ran.ended("completed", 0)
    assert [event["name"] for event in ran.of("tool-call")] == ["read_file", "bash", "write_file"]
    assert (world.cwd / "out/a.txt").read_bytes() == "hé\n".encode()
    assert (ran.done["text"], ran.done["steps"], ran.done["tool_calls"]) == ("All done.", 4, 3)
    assert ran.done["files_changed"] == ["out/a.txt"]
    assert ran.done["commands"] == [{"command": "echo built-$((6*7))", "exit_code": 0}]
    assert (len(server.requests), server.refusals) == (4, [])


@pytest.mark.parametrize("api", APIS)
def test_several_calls_of_one_step_have_their_outcomes_in_order(world: World, served: Any, api: str) -> None:
    for name in "abc":
        (world.cwd / name).write_text(name * 3)
    calls = [Call("read_file", {"path": name}) for name in ("a", "b", "missing", "c")]
    server = served([Turn(calls=calls), Turn(when="ccc", text="ok")])
    ran = world.run("-p", "go", "--json", server=server, api=api).ended("completed", 0)
    assert [event["type"] for event in ran.of("tool-result", "tool-error")] == [
        "tool-result", "tool-result", "tool-error", "tool-result",
    ]  # fmt: skip
    assert server.refusals == []


@pytest.mark.parametrize("api", APIS)
def test_reasoning_goes_back_as_the_service_demands(world: World, served: Any, api: str) -> None:
    (world.cwd / "a").write_text("alpha")
    look = Call("read_file", {"path": "a"})
    server = served(
        [
            Turn(reasoning="first", calls=[look]),
            Turn(reasoning="again", text="hm", calls=[look]),
            Turn(text="alpha it is"),
        ]
    )
    ran = world.run("-p", "go", "--json", "--think", "medium", "--show-reasoning", server=server, api=api)
    assert ran.ended("completed", 0).done["text"] == "alpha it is"
    assert server.refusals == []
    if api != "openai-chat":  # which does not show it
        assert "".join(event["delta"] for event in ran.of("reasoning")) == "firstagain"


def test_what_is_denied_never_runs_and_the_run_completes(world: World, served: Any) -> None:
    calls = [Call("bash", {"command": "touch ran"}), Call("write_file", {"path": "w", "content": "x"})]
    turns = [Turn(calls=calls), Turn(when="Not allowed", text="I could not.")]
    ran = world.run("-p", "go", "--json", server=served(turns)).ended("completed", 0)
    assert sorted(path.name for path in world.cwd.iterdir()) == []
    assert [(event["name"], event["allow_with"]) for event in ran.of("tool-denied")] == [
        ("bash", "bash:touch *"),
        ("write_file", "write_file:w"),
    ]
    assert len(ran.done["denials"]) == 2
    assert all(event["reason"] and event["rule"] and event["source"] for event in ran.of("tool-denied"))
    text = world.run("-p", "go", server=served(turns))
    last = text.err.splitlines()[-1]
    assert (text.code, text.out) == (0, b"I could not.\n")
    assert last == "2 calls denied (bash 1, write_file 1); allow with --allow 'bash:touch *' --allow write_file:w"


def test_fail_on_denied_makes_it_an_ending(world: World, served: Any) -> None:
    turns = [Turn(calls=[Call("bash", {"command": "touch ran"})]), Turn(text="no")]
    world.run("-p", "go", "--json", "--fail-on", "denied", server=served(turns)).ended("denied", 4)


def test_several_prompts_are_turns_of_one_session(world: World, served: Any) -> None:
    server = served([Turn(text="one"), Turn(when="first.*one.*second", text="two")])
    ran = world.run("-p", "first", "-p", "second", "--json", server=server).ended("completed", 0)
    assert [(event["n"], event["text"]) for event in ran.of("turn-end")] == [(1, "one")]
    assert (ran.done["text"], ran.done["steps"]) == ("two", 2)
    assert [event["turn"] for event in ran.of("message")] == [1, 2]
    text = world.run("-p", "first", "-p", "second", server=served([Turn(text="one"), Turn(text="two")]))
    assert text.out == b"two\n"


def test_an_ending_that_is_not_completed_drops_the_other_prompts(world: World, served: Any) -> None:
    server = served([Turn(text="x", stop="refused", repeat=-1)])
    world.run("-p", "first", "-p", "second", "--json", server=server).ended("provider", 8)
    assert len(server.requests) == 1


def test_formats(world: World, served: Any, tmp_path: Path) -> None:
    server = served([Turn(text="answer", repeat=4)])
    done = world.run("-p", "x", "--format", "json", server=server)
    assert [event["type"] for event in done.events] == ["done"]
    target = tmp_path / "answer.txt"
    world.run("-p", "x", "-o", str(target), "--json", server=server).ended("completed", 0)
    assert target.read_text() == "answer\n"
    streamless = world.run("-p", "x", "--json", "--no-stream", server=server).ended("completed", 0)
    assert (streamless.of("text"), streamless.of("message")[0]["text"]) == ([], "answer")


def test_no_answer_no_file(world: World, served: Any, tmp_path: Path) -> None:
    target = tmp_path / "answer.txt"
    target.write_text("old")
    server = served([Turn(text="x", stop="refused")])
    ran = world.run("-p", "x", "-o", str(target), server=server)
    assert (ran.code, ran.out, target.read_text()) == (8, b"", "old")
    assert "refused" in ran.err


def test_continue_carries_history_todos_and_usage_on(world: World, served: Any) -> None:
    plan = Call("todo_write", {"todos": [{"content": "fly", "status": "in_progress"}]})
    server = served(
        [Turn(calls=[plan]), Turn(text="first answer"), Turn(when="PINEAPPLE.*first answer.*fly", text="second")]
    )
    one = world.run("-p", "remember PINEAPPLE", "--json", server=server).ended("completed", 0)
    two = world.run("-c", "-p", "and now?", "--json", server=server).ended("completed", 0)
    assert two.done["session"] == one.done["session"]
    assert two.done["usage_total"]["output"] == one.done["usage"]["output"] + two.done["usage"]["output"]
    assert two.done["todos"] == [{"content": "fly", "status": "in_progress", "note": ""}]
    assert server.refusals == []
    listed = world.run("sessions", "list", "--json")
    assert [row["id"] for row in json.loads(listed.out)["sessions"]] == [one.done["session"]]


def test_ephemeral_leaves_nothing_behind(world: World, served: Any) -> None:
    big = Call("read_file", {"path": "big"})
    (world.cwd / "big").write_text("x" * 50 + "\n" * 1500)
    server = served([Turn(calls=[big]), Turn(text="ok")])
    ran = world.run("-p", "x", "--json", "--ephemeral", server=server).ended("completed", 0)
    assert ran.done["resume"] is None
    assert [path.name for path in world.cwd.iterdir()] == ["big"]
    left = {str(path.relative_to(world.home)) for path in world.home.rglob("*") if path.is_file()}
    assert left <= {".cache/agentctl/sandbox.json"}  # of the machine, not of the run


def test_demo_needs_no_key_and_no_network(world: World) -> None:
    env = {name: value for name, value in world.env.items() if not name.endswith("_API_KEY")}
    (world.cwd / "README.md").write_text("# Sample\n")
    ran = world.run("demo", "--json", env=env).ended("completed", 0)
    assert len(ran.of("tool-call")) >= 3
    text = world.run("demo", env=env)
    assert text.code == 0
    assert "no model" in text.out.decode().lower()
