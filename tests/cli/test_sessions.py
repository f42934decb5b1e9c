"""Going on with a session: which one, by whom, and what comes along."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

from tests.cli.conftest import APIS, World, finish
from tests.server import Call, Fault, Turn

SLOW = Turn(text="slow " * 40, delta=5, pause_s=0.1)


@pytest.mark.parametrize("api", APIS)
def test_by_prefix_by_key_and_newest(world: World, served: Any, api: str) -> None:
    server = served(
        [Turn(text="one"), Turn(when="PINEAPPLE.*one", text="two"), Turn(when="PINEAPPLE.*two", text="three")]
    )
    one = world.run("-p", "PINEAPPLE", "--json", "--session-key", "repo#7", server=server, api=api).ended(
        "completed", 0
    )
    two = world.run("-p", "y", "--json", "--session-key", "repo#7", server=server, api=api).ended("completed", 0)
    three = world.run("-r", one.done["session"][:12], "-p", "z", "--json", server=server, api=api).ended("completed", 0)
    assert one.done["session"] == two.done["session"] == three.done["session"]
    assert server.refusals == []


def test_another_key_and_another_folder_are_other_sessions(world: World, served: Any) -> None:
    server = served([Turn(text="a", repeat=-1)])
    one = world.run("-p", "x", "--json", "--session-key", "k", server=server).done["session"]
    assert world.run("-p", "x", "--json", "--session-key", "l", server=server).done["session"] != one
    (world.cwd / "sub").mkdir()
    assert world.run("-p", "x", "--json", "-C", "sub", "--session-key", "k", server=server).done["session"] != one
    named = ("--project", "name", "--session-key", "k", "--json", "-p", "x")
    first = world.run(*named, server=server).done["session"]
    assert world.run(*named, "-C", "sub", server=server).done["session"] == first
    ran = world.run("-r", one, "-C", "sub", "-p", "x", "--json", server=server).ended("usage", 2)
    assert str(world.cwd) in ran.of("error")[0]["message"]


def test_continue_or_new_needs_no_first_run(world: World, served: Any) -> None:
    server = served([Turn(text="a"), Turn(when="FIRST", text="b")])
    one = world.run("--continue-or-new", "-p", "FIRST", "--json", server=server).ended("completed", 0)
    two = world.run("--continue-or-new", "-p", "x", "--json", server=server).ended("completed", 0)
    assert one.done["session"] == two.done["session"]


def test_a_fork_leaves_the_session_as_it_is(world: World, served: Any) -> None:
    server = served([Turn(text="a"), Turn(when="FIRST", text="b"), Turn(when="FIRST", text="c")])
    one = world.run("-p", "FIRST", "--json", server=server).done
    journal = next((world.home / ".local/state/agentctl/sessions").glob(f"*/{one['session']}.jsonl"))
    before = journal.read_bytes()
    forked = world.run("-c", "--fork", "-p", "x", "--json", server=server).ended("completed", 0).done
    assert forked["session"] != one["session"]
    assert forked["usage_total"] == forked["usage"]
    assert journal.read_bytes() == before
    again = world.run("-r", forked["session"], "-p", "y", "--json", server=server).ended("completed", 0)
    assert again.done["session"] == forked["session"]


def test_a_busy_session_names_its_holder_and_the_first_run_is_not_disturbed(world: World, served: Any) -> None:
    server = served([SLOW, Turn(text="c")])
    key = ("--session-key", "k", "--json")
    process = world.start("-p", "y", *key, server=server)
    process.stdout.readline()
    ran = world.run("-p", "z", *key, server=server).ended("busy", 10)
    assert str(process.pid) in ran.of("error")[0]["message"]
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_waiting_for_a_busy_session_and_forking_it(world: World, served: Any) -> None:
    server = served([Turn(text="seed"), SLOW, Turn(text="forked"), Turn(when="BUSY", text="waited")])
    key = ("--session-key", "k", "--json")
    world.run("-p", "SEED", *key, server=server).ended("completed", 0)
    process = world.start("-p", "BUSY", *key, server=server)
    process.stdout.readline()
    forked = world.run("-p", "z", *key, "--on-busy", "fork", server=server).ended("completed", 0)
    waited = world.run("-p", "z", *key, "--on-busy", "wait", server=server).ended("completed", 0)
    assert (forked.done["text"], waited.done["text"]) == ("forked", "waited")
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_lease_of_a_killed_run_is_free_at_once(world: World, served: Any) -> None:
    server = served([SLOW, Turn(text="on")])
    key = ("--session-key", "k", "--json")
    process = world.start("-p", "y", *key, server=server)
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    started = time.monotonic()
    world.run("-p", "z", *key, server=server).ended("completed", 0)
    assert time.monotonic() - started < 10


def test_model_and_agent_come_from_the_session_where_nothing_else_says(world: World, served: Any) -> None:
    server = served([Turn(text="a", repeat=-1)])
    base = ["--base-url", server.base_url, "--json", "-p", "x"]
    world.run("--model", "openai/gpt-5-mini", "--agent", "quick", *base).ended("completed", 0)
    same = world.run("-c", *base).ended("completed", 0).events[0]
    assert (same["model"]["name"], same["model"]["origin"], same["agent"]) == ("gpt-5-mini", "session", "quick")
    other = world.run("-c", "--model", "openai/gpt-5", "--agent", "deep", *base).ended("completed", 0).events[0]
    assert (other["model"]["name"], other["agent"]) == ("gpt-5", "deep")


def test_a_changed_policy_is_said(world: World, served: Any) -> None:
    server = served([Turn(text="a", repeat=-1)])
    world.run("-p", "x", "--json", server=server).ended("completed", 0)
    same = world.run("-c", "-p", "x", "--json", server=server).ended("completed", 0)
    changed = world.run("-c", "-p", "x", "--json", "--deny", "bash", server=server).ended("completed", 0)
    assert [event["code"] for event in same.of("notice")] == []
    assert [event["code"] for event in changed.of("notice")] == ["policy-changed"]


@pytest.mark.parametrize(
    "words",
    [["-c", "-r", "x"], ["--session-key", "a", "-c"], ["--fork"], ["-r", "nope"], ["-r", "*"], ["--session-key", " "]],
)
def test_flags_that_name_no_session(world: World, words: list[str]) -> None:
    world.run("-p", "x", "--json", *words).ended("usage", 2)


def test_another_wire_format_can_go_on(world: World, served: Any) -> None:
    (world.cwd / "f").write_text("one")
    look = Turn(reasoning="r", text="I look", calls=[Call("read_file", {"path": "f"})])
    server = served([look, Turn(text="first"), Turn(when="MANGO.*first", text="second", repeat=3)])
    world.run("-p", "MANGO", "--json", server=server, api="anthropic-messages").ended("completed", 0)
    for api in APIS:
        world.run("-c", "--fork", "-p", "x", "--json", server=server, api=api).ended("completed", 0)
    assert server.refusals == []


def test_two_runs_at_once_in_one_folder_lose_nothing(world: World, served: Any) -> None:
    server = served([Turn(text="ok", pause_s=0.02, delta=1, repeat=-1)])
    processes = [world.start("-p", f"run {n}", "--json", server=server) for n in range(6)]
    sessions = {finish(process).ended("completed", 0).done["session"] for process in processes}
    listed = json.loads(world.run("sessions", "list", "--json").out)
    assert {row["id"] for row in listed["sessions"]} == sessions
    assert (len(sessions), listed["problems"]) == (6, [])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [400, 422])
def test_a_history_that_the_service_refuses_goes_as_text(world: World, served: Any, api: str, status: int) -> None:
    (world.cwd / "f").write_text("one")
    look = Turn(reasoning="r", text="I look", calls=[Call("read_file", {"path": "f"})])
    refusal = Fault(status=status, body={"error": {"message": "this conversation is not one of mine"}})
    server = served(
        [
            look,
            Turn(text="first"),
            Turn(fault=refusal),
            Turn(when="conversation_history.*MANGO.*first", calls=[Call("read_file", {"path": "f"})]),
            Turn(when="conversation_history.*MANGO.*first", text="second"),
        ]
    )
    world.run("-p", "MANGO", "--json", server=server, api=api).ended("completed", 0)
    ran = world.run("-c", "-p", "and now?", "--json", server=server, api=api).ended("completed", 0)
    assert ran.done["text"] == "second"
    assert [event["code"] for event in ran.of("notice")] == ["request-changed"]
    assert len(server.requests) == 5


@pytest.mark.parametrize("status", [400, 404])
def test_items_that_the_service_no_longer_has_are_sent_inline(world: World, served: Any, status: int) -> None:
    """S12, on resume: the history is whole without a single id of the service, and that is said once."""
    (world.cwd / "f").write_text("one")
    call = Call("read_file", {"path": "f"})
    gone = Fault(status=status, body={"error": {"message": "Item with id 'rs_0' not found."}})
    server = served(
        [
            Turn(reasoning="r", text="I look", calls=[call]),
            Turn(text="first"),
            Turn(fault=gone),
            Turn(reasoning="r", calls=[call]),
            Turn(text="second"),
        ]
    )
    api = "openai-responses"
    world.run("-p", "MANGO", "--json", server=server, api=api).ended("completed", 0)
    ran = world.run("-c", "-p", "and now?", "--json", server=server, api=api).ended("completed", 0)
    assert ran.done["text"] == "second"
    assert [event["code"] for event in ran.of("notice")] == ["request-changed"]
    refused, healed, last = ([*server.requests[n].body["input"]] for n in (2, 3, 4))
    assert [item["id"][:3] for item in refused if "id" in item] == ["rs_"]
    assert [item.get("role", item["type"]) for item in healed if "id" not in item] == [
        "user",
        "assistant",
        "function_call",
        "function_call_output",
        "assistant",
        "user",
    ]
    assert last[: len(healed)] == healed, "the rest of the run goes on with what was accepted"
    assert server.refusals == []


def test_a_first_turn_that_the_service_refuses_is_asked_once(world: World, served: Any) -> None:
    refusal = Fault(status=400, body={"error": {"message": "no"}})
    server = served([Turn(fault=refusal, repeat=-1)])
    world.run("-p", "x", "--json", server=server).ended("provider", 8)
    assert len(server.requests) == 1


@pytest.mark.parametrize("api", APIS)
def test_a_run_killed_in_a_stream_goes_on_in_another_format(world: World, served: Any, api: str) -> None:
    """Nothing of the broken answer comes back; the service accepts two prompts in a row."""
    server = served([SLOW, Turn(when="MANGO", text="on")])
    key = ("--session-key", "k", "--json")
    process = world.start("-p", "MANGO", *key, server=server, api=api)
    while b'"text"' not in process.stdout.readline():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    other = APIS[(APIS.index(api) + 1) % len(APIS)]
    world.run("-p", "and now?", *key, server=server, api=other).ended("completed", 0)
    assert "slow" not in json.dumps(server.requests[-1].body)
    assert server.refusals == []
