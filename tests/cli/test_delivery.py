"""What stdout and -o take, and what the exit code says when they take nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import AGENTCTL, World
from tests.server import Turn

FORMS = (("--json",), ("--format", "json"), ("-q",))
FULL, GONE, CLOSED = "> /dev/full", "| true", ">&-"
BAD_FLAG = ("-p", "x", "--json", "--no-such-flag")


def shell(world: World, words: tuple[str, ...], way: str, **env: str) -> subprocess.CompletedProcess[str]:
    """As in a script; the exit code is that of the command, whatever becomes of its reader."""
    script = f'"$@" {way}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", script, "sh", AGENTCTL, *words],
        cwd=world.cwd, env={**world.env, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@pytest.mark.parametrize(("way", "code"), [(FULL, 1), (GONE, 141), (CLOSED, 141)])
def test_an_answer_that_nobody_gets_is_no_success(
    world: World, served: Any, form: tuple[str, ...], way: str, code: int
) -> None:
    words = (*world.command("-p", "x", *form, server=served([Turn(text="ok " * 40_000)])),)
    ran = shell(world, words[1:], way)
    assert ran.returncode == code, ran.stderr
    assert ("stdout cannot be written" in ran.stderr) == (way == FULL)
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("way", [FULL, GONE, CLOSED])
@pytest.mark.parametrize("words", [BAD_FLAG, ("nosuchverb", "--json"), ("policy", "explain", "--json")], ids=" ".join)
def test_a_failure_that_cannot_be_printed_is_a_failure(world: World, words: tuple[str, ...], way: str) -> None:
    ran = shell(world, words, way)
    assert ran.returncode == 2
    assert ran.stderr.startswith("agentctl: ")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(("way", "code"), [(FULL, 1), (GONE, 141), (CLOSED, 141)])
@pytest.mark.parametrize("verb", [("models",), ("config", "show"), ("schema", "events")], ids=" ".join)
def test_verbs_that_nobody_hears(world: World, verb: tuple[str, ...], way: str, code: int) -> None:
    ran = shell(world, (*verb, "--json"), way)
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_slow_reader_gets_the_last_line(world: World, served: Any) -> None:
    """More than a pipe holds, and nobody reads for longer than a stop would wait."""
    server = served([Turn(text="ok " * 60_000)])
    words = (*world.command("-p", "x", "--no-stream", "--json", server=server)[1:],)
    ran = shell(world, words, "| { sleep 3; tail -n 1; }")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["type"] == "done"


# --- formats --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["text", "json"])
def test_json_beside_another_format_is_said_in_json_lines(world: World, other: str) -> None:
    ran = world.run("-p", "x", "--json", "--format", other).ended("usage", 2)
    assert "--json" in ran.of("error")[0]["message"]


@pytest.mark.parametrize("variable", ["AGENTCTL_JSON=1", "AGENTCTL_FORMAT=jsonl"])
@pytest.mark.parametrize("words", [("--no-such-flag",), ("--agent", "turbo"), ("--max-steps", "x")], ids=" ".join)
def test_variables_ask_for_json_lines_too(world: World, variable: str, words: tuple[str, ...]) -> None:
    name, _, value = variable.partition("=")
    world.run("-p", "x", *words, env={**world.env, name: value}).ended("usage", 2)


def test_flags_go_before_variables(world: World) -> None:
    ran = world.run("-p", "x", "--no-such-flag", "--format", "text", env={**world.env, "AGENTCTL_JSON": "1"})
    assert (ran.code, ran.out) == (2, b"")


# --- the working folder -----------------------------------------------------------------------------------------------


def in_deleted(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    return subprocess.run(
        ["bash", "-c", script, "sh", *words], cwd=world.cwd, env=world.env, capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip


def test_a_working_folder_that_was_deleted_is_named(world: World, served: Any) -> None:
    ran = in_deleted(world, AGENTCTL, "-p", "x", "--json")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["init", "error", "done"]
    assert (ran.returncode, "gone' does not exist" in lines[1]["message"]) == (2, True)
    assert in_deleted(world, AGENTCTL, "doctor").returncode == 2
    elsewhere = world.command("-p", "x", "-C", str(world.cwd), server=served([Turn(text="ok")]))
    assert in_deleted(world, *elsewhere).stdout == "ok\n"


def test_a_relative_home_is_none(world: World, served: Any) -> None:
    """It would be another folder in each step, and it would lie in the workspace."""
    env = {**world.env, "HOME": "here", "XDG_STATE_HOME": str(world.home)}
    world.run("-p", "x", "--json", server=served([Turn(text="ok")]), env=env).ended("completed", 0)
    assert not (world.cwd / "here").exists()


# --- -o ---------------------------------------------------------------------------------------------------------------


def target(world: World, name: str) -> Path:
    """What -o is given; each cannot become a file."""
    made = world.cwd / name
    if name == "fifo":
        os.mkfifo(made)
    elif name == "folder":
        made.mkdir()
    elif name == "link":
        os.mkfifo(world.cwd / "pipe")
        made.symlink_to("pipe")
    return made


@pytest.mark.parametrize("name", ["fifo", "folder", "link", "none/such"])
def test_a_file_that_cannot_be_written_is_refused_before_it_costs_anything(
    world: World, served: Any, name: str
) -> None:
    server = served([Turn(text="ok")])
    ran = world.run("-p", "x", "--json", "-o", str(target(world, name)), server=server).ended("usage", 2)
    assert ran.of("error")[0]["message"].startswith("-o ")
    assert server.requests == []


def test_stdout_is_no_file(world: World, served: Any) -> None:
    ran = world.run("-p", "x", "--json", "-o", "/proc/self/fd/1", server=served([Turn(text="ok")])).ended("usage", 2)
    assert "not a regular file" in ran.of("error")[0]["message"]


def test_what_a_link_names_is_replaced_and_the_link_stays(world: World, served: Any) -> None:
    (world.cwd / "real.txt").write_text("old")
    (world.cwd / "link.txt").symlink_to("real.txt")
    world.run("-p", "x", "--json", "-o", "link.txt", server=served([Turn(text="new")])).ended("completed", 0)
    assert (world.cwd / "link.txt").is_symlink()
    assert (world.cwd / "real.txt").read_text() == "new\n"


def test_an_answer_that_can_no_longer_be_written_stays_in_the_last_line(world: World, served: Any) -> None:
    folder = world.cwd / "out"
    folder.mkdir()
    server = served([Turn(text="the answer", delay_s=1)])
    process = world.start("-p", "x", "--json", "-o", "out/answer.txt", server=server)
    first = process.stdout.readline()
    folder.rmdir()
    out, _ = process.communicate(timeout=20)
    done = json.loads((first + out).splitlines()[-1])
    assert (done["ended"], done["text"], process.returncode) == ("error", "the answer", 1)
