"""Approval across processes, with the installed command: what it prints, what goes on the wire, who may write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

from tests.cli.conftest import APIS, World, finish
from tests.server import Call, Turn

COMMAND = "echo ran >> log"
WANTS = Turn(text="I act", calls=[Call("read_file", {"path": "f"}), Call("bash", {"command": COMMAND})])
SUSPEND = ("-p", "go MANGO", "--on-ask", "suspend")


@pytest.mark.parametrize("api", APIS)
def test_two_jobs_and_a_person_between_them(world: World, served: Any, api: str) -> None:
    """The history that goes on is one that the service accepts: every call answered, in its place."""
    (world.cwd / "f").write_text("one")
    server = served([WANTS, Turn(when="MANGO", text="finished"), Turn(when="finished", text="more")])
    first = world.run(*SUSPEND, "--json", server=server, api=api).ended("suspended", 6)
    listed = json.loads(world.run("approvals", "list", "--json").out)
    assert [row["input"] for row in listed["approvals"]] == [{"command": COMMAND}]
    session = first.done["session"]
    assert world.run("approvals", "approve", "--all", "-r", session).code == 0
    again = world.run("-r", session, "--json", server=server, api=api).ended("completed", 0)
    assert (world.cwd / "log").read_text() == "ran\n"
    assert again.done["usage_total"]["output"] > again.done["usage"]["output"]
    world.run("-r", session, "-p", "more", "--json", server=server, api=api).ended("completed", 0)
    assert server.refusals == []
    assert world.run("approvals", "approve", first.done["approvals"][0]["id"]).code == 2


def test_what_people_read(world: World, served: Any) -> None:
    """All of the arguments, on one line, nothing that turns the direction of the text, and the commands to go on."""
    given = {"path": "log", "content": f"{'x' * 400} \u202egpj.exe\n::error::x"}
    server = served([Turn(calls=[Call("write_file", given)])])
    ran = world.run(*SUSPEND, server=server)
    assert (ran.code, ran.out) == (6, b"")
    waiting = next(line for line in ran.err.splitlines() if " waits for approval " in line and "write_file" in line)
    shown = json.dumps(given)
    assert waiting.endswith(shown)
    session = ran.err.rpartition("agentctl -r ")[2].split()[0]
    assert f"agentctl approvals approve --all -r {session}" in ran.err
    assert f"go on with: agentctl -r {session} --on-ask suspend" in ran.err
    listed = world.run("approvals", "list")
    assert shown in listed.out.decode()
    assert [line for line in listed.out.decode().splitlines() if line.startswith(":")] == []
    denied = world.run("approvals", "deny", "--all")
    assert denied.out.startswith(b"denied: ")
    assert shown in denied.out.decode()


def test_stdin_is_not_looked_at(world: World, served: Any) -> None:
    server = served([WANTS, Turn(text="finished")])
    session = world.run(*SUSPEND, "--json", server=server).ended("suspended", 6).done["session"]
    world.run("approvals", "deny", "--all")
    started = time.monotonic()
    process = world.start("-r", session, "--json", server=server, stdin=subprocess.PIPE)  # silent and open
    line = json.loads(process.stdout.readline())
    assert (line["type"], line["stdin"]["mode"]) == ("init", "none")
    process.stdout.read()
    assert process.wait(20) == 0
    assert time.monotonic() - started < 15
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()
    ran = world.run("-r", session, "--json", server=server, stdin=b"a prompt?").ended("usage", 2)
    assert "waits for nothing" in ran.of("error")[0]["message"]


def test_nobody_writes_into_a_session_that_runs(world: World, served: Any) -> None:
    slow = Turn(text="slow " * 40, delta=5, pause_s=0.1)
    server = served([WANTS, slow])
    first = world.run(*SUSPEND, "--json", server=server).ended("suspended", 6).done
    world.run("approvals", "deny", "--all")
    process = world.start("-r", first["session"], "--json", server=server)
    process.stdout.readline()
    ran = world.run("approvals", "approve", first["approvals"][0]["id"], "--json")
    assert ran.code in (2, 10)
    if ran.code == 10:
        assert str(process.pid) in json.loads(ran.out)["error"]["message"]
    process.communicate(timeout=30)
    assert not (world.cwd / "log").exists()


def test_a_signal_leaves_what_waits_waiting(world: World, served: Any) -> None:
    server = served([Turn(calls=[Call("bash", {"command": "sleep 96.5"}), Call("bash", {"command": COMMAND})])])
    process = world.start(*SUSPEND, "--json", "--allow", "bash:sleep *", server=server)
    while b'"tool-call"' not in (line := process.stdout.readline()) or b"ran" not in line:
        assert line
    os.kill(process.pid, signal.SIGTERM)
    ran = finish(process)
    done = json.loads(ran.out.splitlines()[-1])
    assert (done["ended"], len(done["approvals"])) == ("cancelled", 1)
    assert done["resume"].endswith(" --on-ask suspend --allow 'bash:sleep *'")
    kinds = [json.loads(line)["type"] for line in ran.out.splitlines()]
    assert (kinds.count("tool-suspended"), kinds.count("tool-error")) == (1, 1)
    assert world.run("approvals", "approve", "--all").code == 0


def test_a_question_from_the_command_line(world: World, served: Any) -> None:
    server = served([Turn(calls=[Call("ask", {"question": "Which license?"})]), Turn(when="Answer: MIT", text="ok")])
    ran = world.run("-p", "go", "--on-question", "fail", server=server)
    assert (ran.code, ran.out) == (7, b"")
    assert "nobody answered which-license: Which license?" in ran.err
    session = ran.err.rpartition("agentctl -r ")[2].split()[0]
    assert f"agentctl -r {session} --answer which-license=TEXT" in ran.err
    again = world.run("-r", session, "--answer", "which-license=MIT", server=server)
    assert (again.code, again.out) == (0, b"ok\n")
    assert server.refusals == []
