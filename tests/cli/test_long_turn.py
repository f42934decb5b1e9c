"""A long turn in a small window, as the installed command: it ends because the model chose to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import APIS, World
from tests.server import Caches, Call, Fault, Received, Turn
from tests.server.cache import BYTES_A_TOKEN

WINDOW = 20_000
NO_TOOLS = r'\A(?![\s\S]*"tools":)'
SUMMARY = Turn(text="SUMMARY-NOTE: files were read", repeat=-1, when=NO_TOOLS)


def window(received: Received) -> Fault | None:
    """Refuses what is longer than the window."""
    if len(received.raw) / BYTES_A_TOKEN <= WINDOW:
        return None
    text = f"prompt is too long: {len(received.raw) // BYTES_A_TOKEN} tokens > {WINDOW} maximum"
    return Fault(status=400, body={"error": {"type": "invalid_request_error", "message": text}})


def main_requests(server: Any) -> list[Received]:
    return [request for request in server.requests if request.body.get("tools")]


def messages_of(request: Received) -> str:
    body = request.body
    return json.dumps(body.get("messages") or body["input"])


@pytest.mark.parametrize(("api", "steps"), [(APIS[0], 200), (APIS[1], 60), (APIS[2], 60)])
def test_the_model_chooses_the_end_and_every_request_has_the_task_and_the_recent_exchange(
    world: World, served: Any, api: str, steps: int
) -> None:
    (world.cwd / "big").write_text("x" * 2_000)
    turns = [
        Turn(reasoning="think " * 20, text=f"step-{n}", calls=[Call("grep", {"pattern": f"no-{n}", "path": "big"})])
        if n % 3
        else Turn(text=f"step-{n}", calls=[Call("bash", {"command": f"echo result-{n}; cat big"})])
        for n in range(steps)
    ]
    server = served([SUMMARY, *turns, Turn(text="finished at last")], rules=[window], caches=Caches())
    flags = ("--max-context", str(WINDOW), "--max-steps", "300", "--max-tool-calls", "300", "--allow", "bash", "-q")
    ran = world.run("-p", "Task KIWI: go on", "--json", *flags, "--think", "low", server=server, api=api, limit_s=120)
    ran.ended("completed", 0)
    assert (ran.done["text"], ran.done["steps"]) == ("finished at last", steps + 1)
    assert server.refusals == []
    assert len(ran.of("compacted")) == 1
    mains = main_requests(server)
    assert len(mains) == steps + 1, "none was refused and sent again"
    for number, request in enumerate(mains):
        said = messages_of(request)
        assert "Task KIWI: go on" in said
        assert all(f"step-{n}" in said for n in range(max(0, number - 2), number)), "the recent exchange"
    assert b"SUMMARY-NOTE" in mains[-1].raw
    for event in ran.of("step"):
        assert event["context"]["threshold"] == WINDOW * 0.8
        assert event["context"]["tokens"] <= WINDOW


def test_what_is_cut_of_a_past_turn_can_be_read_whole(world: World, served: Any) -> None:
    (world.cwd / "data").write_text("begin " + "d" * 30_000 + " end")
    (world.cwd / "big").write_text("x" * 20_000)
    again = [Turn(text=f"step-{n}", calls=[Call("bash", {"command": f"cat big; echo {n}"})]) for n in range(5)]
    server = served([SUMMARY, Turn(text="seen"), *again, Turn(text="done")], rules=[window], caches=Caches())
    flags = ("--json", "--max-context", str(WINDOW), "--allow", "bash")
    first = world.run("-p", "look at @data please", *flags, server=server).ended("completed", 0)
    ran = world.run("-c", "-p", "now go on", *flags, server=server).ended("completed", 0)
    assert ran.of("compacted")
    last = messages_of(server.requests[-1])
    assert "look at @data please" in last
    assert "d" * 1_000 not in last
    _, _, rest = last.partition("the whole is in ")
    path = Path(rest.partition("]")[0])
    assert path.parts[:3] == (".agentctl", "state", first.done["session"])
    assert (world.cwd / path).read_text().count("d") >= 30_000
    third = world.run("-c", "-p", "and once more", "--json", server=served([Turn(text="ok")], rules=[window]))
    third.ended("completed", 0)
    assert third.of("compacted") == [], "the view is kept with the session"


def test_results_larger_than_the_window_are_cut_instead_of_ending_the_run(world: World, served: Any) -> None:
    (world.cwd / "big").write_text("x" * 29_000)
    calls = [Call("read_file", {"path": "big"}), *(Call("bash", {"command": f"cat big; echo {n}"}) for n in range(3))]
    server = served([SUMMARY, Turn(calls=calls), Turn(text="done")], rules=[window], caches=Caches())
    ran = world.run("-p", "go", "--json", "--max-context", str(WINDOW), "--allow", "bash", server=server)
    ran.ended("completed", 0)
    assert "the whole is in .agentctl/state/" in messages_of(server.requests[-1])


def test_input_larger_than_the_window_is_cut_with_the_path_of_the_whole(world: World, served: Any) -> None:
    server = served([Turn(text="done")], rules=[window], caches=Caches())
    data = b"begin " + b"d" * 150_000 + b" end"
    ran = world.run("-p", "Task KIWI", "--json", "--max-context", str(WINDOW), server=server, stdin=data)
    ran.ended("completed", 0)
    said = messages_of(server.requests[-1])
    assert "Task KIWI" in said
    _, _, rest = said.partition("the whole is in ")
    assert (world.cwd / rest.partition("]")[0]).read_text().count("d") > 150_000
    assert len(server.requests) == 1, "nothing was left out that a summary would have to tell"


def test_forty_short_turns_go_on_in_a_small_window(world: World, served: Any) -> None:
    server = served([SUMMARY, Turn(text="answer text " * 64, repeat=-1)], caches=Caches())
    prompts = [f"turn {number}; {'please look at this thing ' * 29}" for number in range(20)]
    flags = ("--json", "--session-key", "k", "--max-context", "10000", "--max-steps", "100")
    words = [word for prompt in prompts for word in ("-p", prompt)]
    for _ in range(2):
        ran = world.run(*words, *flags, server=server).ended("completed", 0)
    mains = main_requests(server)
    assert len(mains) == 40
    assert all("turn 0;" in messages_of(request) for request in mains)
    assert b"SUMMARY-NOTE" in mains[-1].raw
    made = [request.raw.decode() for request in server.requests if not request.body.get("tools")]
    assert 0 < len(made) < 8
    assert any("turn 5;" in text for text in made), "what was dropped is summed up"
    session = ran.done["session"]
    for expected in (True, False):
        before = len(server.requests)
        compact = json.loads(world.run("sessions", "compact", session, "--json", server=server).out)
        assert (compact["is_done"], len(server.requests) - before) == (expected, int(expected))
        assert not expected or compact["messages_after"] < compact["messages_before"]


def test_attachments_larger_than_the_threshold_share_its_room(world: World, served: Any) -> None:
    for name in "abc":
        (world.cwd / f"{name}.log").write_text((f"line {name} of the build log is here\n" * 6_000)[:180_000])
    look = Turn(calls=[Call("bash", {"command": "echo looked"})])
    server = served([look, Turn(text="done")], caches=Caches())
    files = [word for name in "abc" for word in ("--file", f"{name}.log")]
    ran = world.run("-p", "Compare", *files, "--json", "--allow", "bash", server=server).ended("completed", 0)
    first, second = (request.body["messages"] for request in server.requests)
    assert second[: len(first)] == first
    assert 120_000 * 0.6 * 0.9 < len(json.dumps(first)) / 3.6 < 120_000 * 0.65
    (notice,) = ran.of("notice")
    assert (notice["code"], "the whole is in files" in notice["text"]) == ("attachments-cut", True)
    _, _, rest = json.dumps(first).partition("the whole is in ")
    assert len((world.cwd / rest.partition("]")[0]).read_text()) >= 180_000
