"""Every way a run can end: its ending, its exit code, its last line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import APIS, World, finish
from tests.server import Call, Counts, Fault, Turn, render_chat

ANSWER = Turn(text="recovered")
OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'
LONG = {"text": "this is a longer answer in several pieces", "delta": 4}


def nap() -> str:
    """A long command that no other process on this machine has."""
    return f"sleep 97.{os.getpid()}{time.monotonic_ns() % 10**9:09}"


def alive(command: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").strip()
            except OSError:
                continue
            if line == command.encode():
                found.append(int(entry.name))
    return found


def wait_for(condition: Any, limit_s: float = 15) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("api", APIS)
def test_a_bad_key_ends_as_auth_at_once(world: World, served: Any, api: str) -> None:
    body = {"error": {"message": "bad key", "type": "authentication_error"}}
    server = served([Turn(fault=Fault(status=401, body=body), repeat=-1)])
    ran = world.run("-p", "go", "--json", server=server, api=api).ended("auth", 9)
    assert len(server.requests) == 1
    assert "bad key" in ran.of("error")[0]["message"]


def test_no_credit_is_not_retried(world: World, served: Any) -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    server = served([Turn(fault=Fault(status=429, body=body), repeat=-1)])
    world.run("-p", "go", "--json", server=server).ended("auth", 9)
    assert len(server.requests) == 1


def test_a_missing_key_names_its_variable(world: World) -> None:
    env = {name: value for name, value in world.env.items() if not name.endswith("_API_KEY")}
    ran = world.run("-p", "x", "--json", "--model", "openai/gpt-5", env=env).ended("auth", 9)
    assert "OPENAI_API_KEY" in ran.of("error")[0]["message"] + ran.of("error")[0]["hint"]


@pytest.mark.parametrize("api", APIS)
def test_a_rate_limit_is_waited_out_as_told(world: World, served: Any, api: str) -> None:
    limited = Turn(fault=Fault(status=429, headers={"retry-after": "1"}), repeat=2)
    started = time.monotonic()
    ran = world.run("-p", "go", "--json", server=served([limited, ANSWER]), api=api).ended("completed", 0)
    assert [event["status"] for event in ran.of("retry")] == [429, 429]
    assert (ran.done["text"], ran.done["retries"]) == ("recovered", 2)
    assert time.monotonic() - started >= 1.9


@pytest.mark.parametrize(
    "fault",
    [
        Fault(cut_after=1),
        Fault(cut_after=4),
        Fault(cut_after=4, cut="fin"),
        Fault(cut_after=4, cut="rst"),
        Fault(
            insert_after=4,
            insert=b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n',
        ),
        Fault(reset_before=True),
        Fault(status=200, body="<html>gateway</html>", content_type="text/html"),
    ],
    ids=["first event", "in the text", "FIN", "RST", "error event", "reset", "HTML"],
)
@pytest.mark.parametrize("api", APIS)
def test_a_broken_stream_is_never_an_answer(world: World, served: Any, api: str, fault: Fault) -> None:
    ran = world.run("-p", "go", "--json", server=served([Turn(**LONG, fault=fault), ANSWER]), api=api)
    ran.ended("completed", 0)
    assert ran.done["text"] == "recovered"
    assert [event["text"] for event in ran.of("message")] == ["recovered"]
    if ran.of("text")[0]["delta"] != "recovered":
        assert ran.of("retry")[0]["discard"] is True


def test_a_service_that_stays_down_is_unavailable(world: World, served: Any) -> None:
    server = served([Turn(fault=Fault(status=503, headers={"retry-after": "0"}), repeat=-1)])
    ran = world.run("-p", "go", "--json", server=server).ended("unavailable", 75)
    assert len(server.requests) == 4
    assert ran.of("error")[0]["retryable"] is True


@pytest.mark.parametrize("api", APIS)
def test_a_rejected_request_keeps_the_services_words(world: World, served: Any, api: str) -> None:
    body = {"error": {"message": "messages.3: unexpected block", "type": "invalid_request_error"}}
    server = served([Turn(fault=Fault(status=400, body=body), repeat=-1)])
    ran = world.run("-p", "go", "--json", server=server, api=api).ended("provider", 8)
    assert "unexpected block" in ran.of("error")[0]["message"]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "turn", [Turn(text="half", stop="length", repeat=-1), Turn(stop="refused", repeat=-1), Turn(repeat=-1)]
)
def test_half_refused_and_empty_answers_are_none(world: World, served: Any, api: str, turn: Turn) -> None:
    ran = world.run("-p", "go", "--json", server=served([replace(turn, repeat=-1)]), api=api)
    assert ran.ended("provider", 8).done["text"] == ""


@pytest.mark.parametrize("cut", ["stall", "rst", "fin", "end"])
def test_a_whole_answer_is_one_whatever_becomes_of_the_connection(world: World, served: Any, cut: str) -> None:
    """Everything but the last line, and then silence, or a connection that breaks."""
    whole = Turn(text="all of it")
    events = len(render_chat.events(whole, {"model": "m", "stream_options": {"include_usage": True}}, 1))
    server = served([Turn(text="all of it", fault=Fault(cut_after=events - 1, cut=cut))])
    ran = world.run("-p", "go", "--json", server=server).ended("completed", 0)
    assert (ran.done["text"], ran.done["retries"], len(server.requests)) == ("all of it", 0, 1)
    assert ran.done["usage"]["output"] == 5
    assert ran.done["duration_ms"] < 9_000


def test_the_clock_holds_against_a_stalled_stream(world: World, served: Any) -> None:
    started = time.monotonic()
    server = served([Turn(**LONG, fault=Fault(cut_after=4, cut="stall"))])
    world.run("-p", "go", "--json", "--timeout", "2", server=server).ended("timeout", 124)
    assert time.monotonic() - started < 7


def test_the_clock_holds_against_a_running_command(world: World, served: Any) -> None:
    sleep = nap()
    server = served([Turn(calls=[Call("bash", {"command": f"{sleep} & {sleep}"})]), Turn(text="x")])
    ran = world.run("-p", "go", "--json", "--yolo", "--timeout", "3", server=server).ended("timeout", 124)
    assert ran.of("tool-error")[0]["error"] == "interrupted, effects unknown"
    assert alive(sleep) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_run_with_its_command_and_a_last_line(
    world: World, served: Any, number: int, code: int
) -> None:
    sleep = nap()
    server = served([Turn(calls=[Call("bash", {"command": f"{sleep} & {sleep}; true"})]), Turn(text="x")])
    process = world.start("-p", "go", "--json", "--yolo", server=server)
    wait_for(lambda: len(alive(sleep)) == 2)
    started = time.monotonic()
    process.send_signal(number)
    finish(process).ended("cancelled", code)
    assert time.monotonic() - started < 5
    assert alive(sleep) == []


def test_sigusr1_interrupts_the_command_and_the_turn_goes_on(world: World, served: Any) -> None:
    sleep = nap()
    server = served(
        [Turn(calls=[Call("bash", {"command": f"echo before; {sleep}"})]), Turn(when="unknown", text="went on")]
    )
    process = world.start("-p", "go", "--json", "--yolo", server=server)
    wait_for(lambda: alive(sleep))
    process.send_signal(signal.SIGUSR1)
    ran = finish(process).ended("completed", 0)
    assert ran.done["text"] == "went on"
    assert "before" in ran.of("tool-error")[0]["error"]
    assert alive(sleep) == []


@pytest.mark.parametrize(
    ("sent", "ended", "code"),
    [(None, "completed", 0), (signal.SIGUSR1, "completed", 0), (signal.SIGTERM, "cancelled", 143)],
)
def test_a_command_that_agentctl_ended_has_no_exit_code(
    sent: int | None, ended: str, code: int, world: World, served: Any
) -> None:
    """Whatever it answers to the signal: a gate on `exit_code == 0` must not take a timeout for a success."""
    sleep = nap()
    command = f"trap 'exit 0' TERM; {sleep} & wait"
    server = served([Turn(calls=[Call("bash", {"command": command})]), Turn(text="went on")])
    limit = ["--tool-timeout", "1s"] if sent is None else []
    process = world.start("-p", "go", "--json", "--yolo", *limit, server=server)
    wait_for(lambda: alive(sleep))
    if sent is not None:
        process.send_signal(sent)
    ran = finish(process).ended(ended, code)
    assert ran.done["commands"] == [{"command": command, "exit_code": None}]
    assert [event["exit_code"] for event in ran.of("tool-result")] == ([None] if sent is None else [])


def test_kill_9_takes_the_commands_along_and_the_session_goes_on(world: World, served: Any) -> None:
    sleep = nap()
    server = served(
        [
            Turn(text="step one", calls=[Call("bash", {"command": sleep})]),
            Turn(when="MANGO.*step one.*unknown", text="on"),
        ]
    )
    process = world.start("-p", "go MANGO", "--json", "--yolo", server=server)
    wait_for(lambda: alive(sleep))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not alive(sleep), 5)
    ran = world.run("-c", "-p", "carry on", "--json", server=server).ended("completed", 0)
    assert ran.done["text"] == "on"
    assert server.refusals == []


def test_a_reader_that_leaves_ends_the_run_quietly(world: World, served: Any) -> None:
    server = served([Turn(text="x " * 200, delta=2, pause_s=0.05), Turn(text="y")])
    process = world.start("-p", "go", "--json", server=server)
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (141, b"agentctl: the reader of stdout is gone\n")


def test_a_reader_that_leaves_while_nothing_is_written_ends_the_run(world: World, served: Any) -> None:
    server = served([Turn(text="late", delay_s=30)])
    process = world.start("-p", "go", "--json", server=server)
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    process.communicate(timeout=5)
    assert process.returncode == 141


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_stdout_that_was_closed_from_the_start_ends_as_one_without_a_reader(
    world: World, served: Any, closed: str
) -> None:
    """Its number goes to no other file: nothing of ours is written where it does not belong, and nothing hangs."""
    command = " ".join(world.command("-p", "x", "--json", server=served([Turn(text="ok")])))
    done = subprocess.run(
        ["bash", "-c", f"exec {command} {closed}"], cwd=world.cwd, env=world.env, capture_output=True, timeout=20
    )
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr
    (journal,) = world.home.rglob("*.jsonl")
    assert all(json.loads(line)["record"] for line in journal.read_text().splitlines())


def test_a_reader_that_does_not_read_does_not_outlast_the_clock(world: World, served: Any) -> None:
    server = served([Turn(text="x" * 500_000, delta=5000, repeat=-1)])
    process = world.start("-p", "go", "--json", "--timeout", "2", server=server)
    assert process.wait(12) == 124
    out, _ = process.communicate()
    assert out.startswith(b'{"type":"init"')


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "x", "--json", "--no-such-flag"],
        ["-p", "x", "--json", "--agent", "turbo"],
        ["-p", "x", "--json", "--policy", "missing.toml"],
        ["-p", "x", "--json", "--max-steps", "many"],
        ["-p", "x", "--json", "--think", "hard"],
        ["-p", "x", "--json", "--tools", "reed_file"],
        ["-p", "x", "--json", "--file", "missing"],
        ["-p", "x", "--json", "--prompt-file", "missing"],
        ["-p", "x", "--json", "-C", "missing"],
        ["-p", "x", "--json", "--model", "opena/gpt-5"],
        ["-p", "x", "--json", "--base-url", "ftp://x"],
        ["-p", "x", "--json", "--allow", "reed_file"],
        ["-c", "-p", "x", "--json"],
        ["-p", "", "--json"],
        ["--json"],
    ],
    ids=lambda words: " ".join(words),
)
def test_bad_input_ends_as_usage_with_a_line_that_names_it(world: World, words: list[str]) -> None:
    ran = world.run(*words).ended("usage", 2)
    (error,) = ran.of("error")
    assert "Traceback" not in ran.err
    assert error["message"]
    assert error["hint"] or any(word.strip("-") in error["message"] for word in words)
    assert error["message"] in ran.err


def test_without_anything_there_is_short_help_and_exit_2(world: World) -> None:
    ran = world.run()
    assert (ran.code, ran.out) == (2, b"")
    assert "agentctl --help" in ran.err


LOOP = [Call("list_dir", {"path": "."})]


@pytest.mark.parametrize(
    ("flags", "which", "usage"),
    [
        (["--max-steps", "3"], "steps", Counts()),
        (["--max-tool-calls", "2"], "tool_calls", Counts()),
        (["--max-tokens", "2000"], "tokens", Counts(input=900, output=100)),
        (["--max-cost", "5"], "cost", Counts(input=10, output=400_000)),
    ],
)
def test_each_cap_ends_the_run_and_says_which(
    world: World, served: Any, flags: list[str], which: str, usage: Counts
) -> None:
    server = served([Turn(calls=LOOP, usage=usage, repeat=-1)])
    ran = world.run("-p", "go", "--json", *flags, server=server).ended("limit", 5)
    assert ran.done["limit"] == which
    assert len(server.requests) <= 4


def test_what_every_prompt_asks_for_is_no_loop(world: World, served: Any) -> None:
    (world.cwd / "f").write_text("one")
    server = served(
        [turn for _ in range(7) for turn in (Turn(calls=[Call("read_file", {"path": "f"})]), Turn(text="ok"))]
    )
    words = [word for n in range(7) for word in ("-p", f"look again, {n}")]
    ran = world.run(*words, "--json", server=server).ended("completed", 0)
    assert not any("identical" in str(request.body) for request in server.requests)
    assert len(ran.of("tool-result")) == 7


def test_a_loop_is_stopped(world: World, served: Any) -> None:
    ran = world.run("-p", "go", "--json", server=served([Turn(calls=LOOP, repeat=-1)])).ended("limit", 5)
    assert ran.done["limit"] == "loop"


def test_the_clock_names_what_was_asked_for(world: World, served: Any) -> None:
    ran = world.run("-p", "go", "--json", "--timeout", "1.5", server=served([Turn(text="x", delay_s=20)]))
    assert ran.ended("timeout", 124).of("error")[0]["message"] == "the run did not end within 1.5 s"


def test_a_model_that_keeps_asking_for_what_is_denied_is_stopped(world: World, served: Any) -> None:
    server = served([Turn(calls=[Call("bash", {"command": "touch x"})], repeat=-1)])
    ran = world.run("-p", "go", "--json", "--max-denials", "5", server=server).ended("denied", 4)
    assert len(ran.done["denials"]) == 5


def test_max_cost_without_a_known_price_is_usage(world: World, served: Any) -> None:
    server = served([Turn(text="x")])
    ran = world.run(
        "-p", "go", "--json", "--max-cost", "1", "--model", "openai/no-such-model", "--base-url", server.base_url
    )
    ran.ended("usage", 2)
    assert server.requests == []


def test_a_full_disk_behind_stdout_is_an_error(world: World, served: Any) -> None:
    with Path("/dev/full").open("wb") as full:
        process = world.start("-p", "go", "--json", server=served([Turn(text="x", repeat=-1)]), stdout=full)
        _, err = process.communicate(timeout=15)
        assert process.returncode == 1
        assert b"cannot be written" in err
