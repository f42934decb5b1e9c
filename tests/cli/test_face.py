"""The Python face: the same code path as the command, without printing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agentctl
from agentctl import Options
from tests.server import Call, Turn


def options(server: Any, **more: Any) -> Options:
    return Options(prompt=("go",), model="openai/gpt-5", api="openai-chat", base_url=server.base_url, **more)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-openai")


def test_run_gives_the_outcome(served: Any, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = agentctl.run(options(served([Turn(text="42")])))
    assert (outcome.ended, outcome.exit_code, outcome.text) == ("completed", 0, "42")
    assert outcome.done.steps == 1
    assert capfd.readouterr() == ("", "")


def test_events_come_one_by_one_and_the_last_is_done(served: Any) -> None:
    Path("a").write_text("x")
    server = served([Turn(calls=[Call("read_file", {"path": "a"})]), Turn(text="ok")])
    types = [stamped.event.type for stamped in agentctl.events(options(server))]
    assert types == ["init", "tool-start", "step", "tool-call", "tool-result", "text", "message", "step", "done"]


def test_leaving_the_loop_early_ends_the_run(served: Any) -> None:
    server = served([Turn(text="x" * 1000, delta=1, pause_s=0.05)])
    for stamped in agentctl.events(options(server)):
        if stamped.event.type == "text":
            break
    assert server.requests[0].client_left.wait(5)


def test_a_failure_is_an_outcome_not_an_exception() -> None:
    outcome = agentctl.run(Options(prompt=("x",), agent="turbo"))
    assert (outcome.ended, outcome.exit_code) == ("usage", 2)


def test_two_runs_in_one_process_do_not_share_anything(served: Any) -> None:
    plan = Call("todo_write", {"todos": [{"content": "a", "status": "done"}]})
    server = served([Turn(calls=[plan]), Turn(text="1"), Turn(text="2")])
    first = agentctl.run(options(server))
    second = agentctl.run(options(server))
    assert (first.done.todos != (), second.done.todos) == (True, ())
    assert first.done.usage != second.done.usage
