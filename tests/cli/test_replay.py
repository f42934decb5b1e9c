"""The same inputs replay without a network and give the same events."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.cli.conftest import APIS, Ran, World
from tests.server import Call, Fault, Turn

CHANGING = ("time", "session", "duration_ms", "resume")
SHOWN = ("message", "tool-call", "tool-result", "tool-error", "tool-denied", "retry", "done")


def normal(value: Any) -> Any:
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items() if key not in CHANGING}
    return value


def facts(ran: Ran) -> list[Any]:
    return [
        (event["type"], event.get("id"), event.get("name"), event.get("output"), event.get("text"), event.get("error"))
        for event in ran.of(*SHOWN)
    ]


@pytest.mark.parametrize("api", APIS)
def test_a_recording_replays_byte_for_byte_without_key_or_network(world: World, served: Any, api: str) -> None:
    (world.cwd / "f").write_text("one")
    down = Turn(fault=Fault(status=503, headers={"retry-after": "0"}))
    calls = [
        Call("read_file", {"path": "f"}),
        Call("bash", {"command": "echo hi"}),
        Call("bash", {"command": "touch x"}),
    ]
    server = served([down, Turn(reasoning="hm", text="I look", calls=calls), Turn(text="it says one", delta=2)])
    flags = ("-p", "what does f say?", "--json", "--ephemeral", "--allow", "bash:echo *")
    recorded = world.run(*flags, "--record", "rec.jsonl", server=server, api=api).ended("completed", 0)
    asked = len(server.requests)
    env = {name: value for name, value in world.env.items() if not name.endswith("_API_KEY")}
    one, two = (world.run(*flags, "--replay", "rec.jsonl", env=env).ended("completed", 0) for _ in range(2))
    assert normal(one.events) == normal(two.events)
    assert facts(one) == facts(recorded)
    assert one.events[0]["model"]["origin"] == "recording"
    assert len(server.requests) == asked


def test_another_prompt_is_drift_and_shows_the_difference(world: World, served: Any) -> None:
    world.run("-p", "what now?", "--json", "--record", "r", "--ephemeral", server=served([Turn(text="ok")]))
    ran = world.run("-p", "what then?", "--json", "--replay", "r", "--ephemeral").ended("provider", 8)
    (error,) = ran.of("error")
    assert error["kind"] == "drift"
    assert "what then?" in error["message"]


def test_what_the_session_keeps_is_kept_in_a_replay_too(world: World, served: Any) -> None:
    """Plan, stack and notebook show in later requests; recorded results alone would not bring them there."""
    plan = {"todos": [{"content": "look", "status": "in_progress"}]}
    revision = hashlib.sha256(b"a finding\n").hexdigest()[:12]
    server = served(
        [
            Turn(calls=[Call("todo_write", plan), Call("add_state", {"text": "a finding"})]),
            Turn(calls=[Call("focus_task", {"task": "x"}), Call("focus_complete", {"conclusion": "y"})]),
            Turn(calls=[Call("focus_complete", {"conclusion": "z"}), Call("read_state", {})]),
            Turn(calls=[Call("compact_state", {"text": "short", "revision": revision}), Call("read_state", {})]),
            Turn(text="ok"),
        ]
    )
    recorded = world.run("-p", "go", "--json", "--record", "r", server=server).ended("completed", 0)
    assert [event["error"][:18] for event in recorded.of("tool-error")] == ["The stack is empty"]
    replayed = world.run("-p", "go", "--json", "--replay", "r").ended("completed", 0)
    assert facts(replayed) == facts(recorded)
    assert replayed.done["todos"] == recorded.done["todos"]
    assert normal(replayed.of("todos")) == normal(recorded.of("todos"))
    assert replayed.done["injected"] == recorded.done["injected"]


def test_live_tools_run_again(world: World, served: Any) -> None:
    write = Call("write_file", {"path": "made", "content": "x"})
    server = served([Turn(calls=[write]), Turn(text="ok")])
    flags = ("-p", "go", "--json", "--ephemeral", "--allow", "write_file")
    world.run(*flags, "--record", "r", server=server).ended("completed", 0)
    (world.cwd / "made").unlink()
    world.run(*flags, "--replay", "r").ended("completed", 0)
    assert not (world.cwd / "made").exists()
    world.run(*flags, "--replay", "r", "--replay-tools", "live").ended("completed", 0)
    assert (world.cwd / "made").read_text() == "x"


def test_secrets_are_not_in_the_recording(world: World, served: Any) -> None:
    world.env["DEPLOY_TOKEN"] = "ghp_S3cretS3cret"
    (world.cwd / "leak").write_text("token=ghp_S3cretS3cret\n")
    server = served([Turn(calls=[Call("read_file", {"path": "leak"})]), Turn(text="the token is ghp_S3cretS3cret")])
    world.run("-p", "go", "--json", "--record", "r", "--ephemeral", server=server).ended("completed", 0)
    assert b"ghp_S3cretS3cret" not in (world.cwd / "r").read_bytes()


@pytest.mark.parametrize(
    "words", [["--replay", "missing"], ["--replay", "f", "--record", "g"], ["--record", "no/such/folder"]]
)
def test_what_cannot_be_recorded_or_replayed_is_usage(world: World, words: list[str]) -> None:
    (world.cwd / "f").write_text("{}")
    world.run("-p", "x", "--json", *words).ended("usage", 2)
