"""What a run says about the sandbox, what it refuses to start with, and what reaches the model."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.cli.conftest import Ran, World, finish
from tests.processes import alive, nap, wait_until
from tests.server import Turn
from tests.unit.policy.shell_oracle import find_bwrap
from tests.unit.sandbox.sandbox_world import path_with_bwrap

if sys.platform != "linux":
    pytest.skip("Landlock, seccomp and namespaces are Linux's", allow_module_level=True)

CONTAINER = Path(__file__).parents[1] / "unit" / "sandbox" / "container.py"
LEVELS = pytest.mark.parametrize("level", [2, 3])


@pytest.fixture
def outside() -> Iterator[Path]:
    """Not below /tmp, where level 3 has a folder of its own."""
    base = Path(__file__).parents[2] / ".pytest_cache"
    base.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=base) as folder:
        yield Path(folder).resolve()


@pytest.fixture
def at(world: World) -> Any:
    """Runs one shell line with the best level up to a number. A system with bubblewrap in /usr/bin has no level 2 of
    its own: there the run stands in a container without user namespaces."""

    def run(level: int, command: str, *words: str, around: Sequence[str] = ()) -> Ran:
        turns = [{"tool_calls": [{"name": "bash", "args": {"command": command}}]}, {"text": "done"}]
        (world.cwd / "script.json").write_text(json.dumps({"turns": turns}))
        return finish(begin(world, level, *words, around=around))

    return run


def begin(world: World, level: int, *words: str, around: Sequence[str] = (), **more: Any) -> Any:
    world.env["PATH"] = path_with_bwrap() if level == 3 else os.environ["PATH"]
    argv = world.command("-p", "go", "--json", "--yolo", "--model", "scripted/script.json", *words)
    if level == 2 and not around and Path("/usr/bin/bwrap").exists():
        around = (sys.executable, str(CONTAINER), "no-namespaces")
    return subprocess.Popen(
        [*around, *argv], cwd=world.cwd, env={**world.env, **more.pop("env", {})}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **more,
    )  # fmt: skip


def sandbox(ran: Ran) -> dict[str, Any]:
    found = ran.events[0]["sandbox"]
    assert isinstance(found, dict)
    return found


def output(ran: Ran) -> str:
    return "".join(str(event.get("output", event.get("error"))) for event in ran.of("tool-result", "tool-error"))


@LEVELS
def test_init_says_what_holds_and_leaves_nothing_behind(level: int, world: World, at: Any) -> None:
    world.env["TMPDIR"] = str(world.home / "tmp")
    (world.home / "tmp").mkdir()
    (world.cwd / "run.sh").write_text('touch "$TMPDIR/x" && echo made in $TMPDIR')
    ran = at(level, "bash run.sh").ended("completed", 0)
    said = sandbox(ran)
    assert (said["wanted"], said["level"], said["network"]) == ("auto", level, {2: "off", 3: "loopback"}[level])
    assert {line.partition(":")[0] for line in said["missing"]} >= ({"chmod", "loopback"} if level == 2 else set())
    assert bool(said["missing"]) == (level == 2)
    assert "made" in output(ran)
    assert list((world.home / "tmp").iterdir()) == []
    assert ran.events[0]["problems"] == []


@LEVELS
def test_what_was_proven_is_not_tried_again(level: int, world: World, at: Any) -> None:
    first = at(level, "true").ended("completed", 0)
    memory = world.home / ".cache" / "agentctl" / "sandbox.json"
    before = memory.stat()
    second = at(level, "true").ended("completed", 0)
    assert sandbox(second) == sandbox(first)
    assert (memory.stat().st_ino, memory.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@LEVELS
def test_a_write_outside_is_refused_and_the_flag_is_named(level: int, at: Any, world: World, outside: Path) -> None:
    """By a script, which no rule can look into."""
    (world.cwd / "run.sh").write_text(f"echo x > {outside}/f\n")
    ran = at(level, "bash run.sh").ended("completed", 0)
    assert not (outside / "f").exists()
    assert "[sandbox] if a write was refused" in output(ran)
    assert "--add-dir DIR" in output(ran)
    ran = at(level, "bash run.sh", "--add-dir", str(outside)).ended("completed", 0)
    assert (outside / "f").read_text() == "x\n"
    assert "[sandbox]" not in output(ran)


@LEVELS
def test_the_network_is_off_until_a_flag_opens_it(level: int, world: World, at: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        script = f"import socket; socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}), 3)"
        (world.cwd / "connect.py").write_text(script)
        ran = at(level, "python3 connect.py").ended("completed", 0)
        with pytest.raises(TimeoutError):
            listener.accept()
        assert "--network on" in output(ran)
        ran = at(level, "python3 connect.py", "--network", "on").ended("completed", 0)
        listener.accept()[0].close()
        assert (sandbox(ran)["network"], "[sandbox]" in output(ran)) == ("on", False)
        ran = at(level, "python3 connect.py", "--network", "off").ended("completed", 0)
        assert sandbox(ran)["network"] == "off"


@LEVELS
def test_a_changed_hook_is_undone_and_said(level: int, world: World, at: Any) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=world.cwd, check=True)
    (world.cwd / "run.sh").write_text("echo evil > .git/hooks/pre-commit\n")
    ran = at(level, "bash run.sh").ended("completed", 0)
    assert not (world.cwd / ".git/hooks/pre-commit").exists()
    expected = "made by the command; it was removed" if level == 2 else "Read-only file system"
    assert expected in output(ran)


def test_required_refuses_before_any_request(world: World, at: Any) -> None:
    around = (sys.executable, str(CONTAINER), "no-landlock,no-namespaces")
    for wanted in ("required", "required:2", "required:3"):
        ran = at(2, "touch ran", "--sandbox", wanted, around=around).ended("usage", 2)
        assert "level 1" in ran.of("error")[0]["message"]
        assert ran.of("error")[0]["hint"]
        assert (ran.done["steps"], (world.cwd / "ran").exists()) == (0, False)
    at(2, "touch ran", "--sandbox", "required:1", around=around).ended("completed", 0)
    assert (world.cwd / "ran").exists()


def test_required_goes_on_where_it_holds(world: World, at: Any) -> None:
    assert sandbox(at(2, "true", "--sandbox", "required").ended("completed", 0))["level"] == 2
    assert sandbox(at(3, "true", "--sandbox", "required:2").ended("completed", 0))["level"] == 3
    around = (sys.executable, str(CONTAINER), "no-namespaces")
    at(3, "true", "--sandbox", "required:3", around=around).ended("usage", 2)


def test_without_landlock_and_namespaces(world: World, at: Any) -> None:
    """Commands run, and init, problems and stderr say how; in CI it is a problem, and --strict refuses."""
    around = (sys.executable, str(CONTAINER), "no-landlock,no-namespaces")
    ran = at(3, "echo hi", around=around).ended("completed", 0)
    said = sandbox(ran)
    assert (said["level"], said["network"], ran.events[0]["problems"]) == (1, "on", [])
    assert {"files", "network"} <= {line.partition(":")[0] for line in said["missing"]}
    assert "Landlock" in said["fix"]
    world.env["CI"] = "true"
    ran = at(3, "echo hi", around=around).ended("completed", 0)
    assert [problem["code"] for problem in ran.events[0]["problems"]] == ["sandbox-level"]
    assert "level 1, below 2" in ran.err
    del world.env["CI"]
    at(3, "echo hi", "--strict", around=around).ended("usage", 2)
    ran = at(3, "echo hi", "--network", "off", around=around).ended("completed", 0)
    assert [problem["code"] for problem in ran.events[0]["problems"]] == ["network-open"]


def test_a_container_that_forbids_namespaces_has_level_2(world: World, at: Any) -> None:
    around = (sys.executable, str(CONTAINER), "no-namespaces")
    said = sandbox(at(3, "true", around=around).ended("completed", 0))
    assert (said["level"], said["network"]) == (2, "off")
    assert any(line.startswith("level 3: sandbox") for line in said["missing"]), said
    assert "user namespaces" in said["fix"]


def test_user_namespaces_used_up(world: World, at: Any) -> None:
    """Nested: the outer bubblewrap forbids any further user namespace, so the inner one fails with ENOSPC."""
    around = (find_bwrap(), "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--")
    said = sandbox(at(3, "true", around=around).ended("completed", 0))
    assert said["level"] == 2
    assert any("bwrap: " in line for line in said["missing"]), said
    assert "user namespaces" in said["fix"]


def test_off_is_level_1_and_yolo_changes_nothing(world: World, at: Any) -> None:
    (world.cwd / "run.sh").write_text(f"echo x > {world.home}/f\n")
    assert sandbox(at(3, "bash run.sh").ended("completed", 0))["level"] == 3  # with --yolo, as all runs here
    assert not (world.home / "f").exists()
    said = sandbox(at(3, "bash run.sh", "--sandbox", "off").ended("completed", 0))
    assert (said["wanted"], said["level"], said["network"]) == ("off", 1, "on")
    assert (world.home / "f").exists()


@pytest.mark.parametrize("origin", ["--sandbox", "AGENTCTL_SANDBOX"])
def test_strict_refuses_off(origin: str, world: World, served: Any) -> None:
    server = served([Turn(text="ok")])
    env = {**world.env, **({} if origin == "--sandbox" else {"AGENTCTL_SANDBOX": "off"})}
    flags = ["--sandbox", "off"] if origin == "--sandbox" else []
    ran = world.run("-p", "x", "--json", "--strict", *flags, server=server, env=env).ended("usage", 2)
    (error,) = ran.of("error")
    assert f"{origin} asks for 'off', so commands would run at level 1, below 2" in error["message"]
    assert (server.requests, error["hint"]) == ([], f"Leave out --strict, or what {origin} says.")
    assert world.run("-p", "x", "--json", *flags, server=server, env=env).ended("completed", 0).done["problems"] == []


def test_a_project_file_sets_neither_sandbox_nor_network(world: World, at: Any) -> None:
    (world.cwd / ".agentctl").mkdir()
    (world.cwd / ".agentctl" / "config.toml").write_text('sandbox = "off"\nnetwork = "on"\n')
    ran = at(3, "true").ended("completed", 0)
    assert (sandbox(ran)["level"], sandbox(ran)["network"]) == (3, "loopback")
    assert [problem["what"].split()[0] for problem in ran.events[0]["problems"]] == ["sandbox", "network"]


def test_a_forged_memory_cannot_open_the_walls(world: World, at: Any) -> None:
    """Whatever is remembered, each command checks its own: here the file claims level 3 where there is none."""
    at(2, "true")
    memory = world.home / ".cache" / "agentctl" / "sandbox.json"
    rows = json.loads(memory.read_text())
    key = next(iter(rows))
    memory.write_text(json.dumps({key: [3, "loopback", [], ""]}))
    ran = at(2, "touch ran")
    assert sandbox(ran)["level"] == 3
    assert "the sandbox could not be put up" in output(ran)
    assert not (world.cwd / "ran").exists()
    assert sandbox(at(2, "touch ran"))["level"] == 2, "what was wrong is not believed a second time"


@LEVELS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_command_outlives_its_run(level: int, number: int, world: World) -> None:
    sleep = nap()
    command = f"trap 'echo cleaned > cleaned; exit 0' TERM; setsid {sleep} & {sleep} & echo started > started; wait"
    turns = [{"tool_calls": [{"name": "bash", "args": {"command": "bash run.sh"}}]}, {"text": "done"}]
    (world.cwd / "run.sh").write_text(command)
    (world.cwd / "script.json").write_text(json.dumps({"turns": turns}))
    process = begin(world, level)
    assert wait_until((world.cwd / "started").exists, 20)
    assert wait_until(lambda: len(alive(sleep)) == 2)
    started = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=10)
    assert wait_until(lambda: not alive(sleep), 5 - (time.monotonic() - started))
    if number == signal.SIGTERM:
        assert process.returncode == 143
        assert (world.cwd / "cleaned").exists(), "the command was not given the time to clean up"


def test_doctor_shows_every_level(world: World) -> None:
    world.env["PATH"] = path_with_bwrap()
    report = json.loads(world.run("doctor", "--json").out)
    levels = report["sandbox"]["levels"]
    assert [(row["level"], row["holds"]) for row in levels] == [(1, True), (2, True), (3, True)]
    assert (report["sandbox"]["level"], report["sandbox"]["missing"]) == (3, [])
    text = world.run("doctor").out.decode()
    assert "level 3" in text


def test_doctor_names_what_is_missing_and_mends_it(world: World) -> None:
    world.env["PATH"] = path_with_bwrap()
    argv = [sys.executable, str(CONTAINER), "no-landlock,no-namespaces", *world.command("doctor", "--json")]
    done = subprocess.run(argv, cwd=world.cwd, env=world.env, capture_output=True, check=False, timeout=60)
    report = json.loads(done.stdout)
    levels = report["sandbox"]["levels"]
    assert [row["holds"] for row in levels] == [True, False, False]
    assert "Landlock" in levels[1]["fix"]
    assert "user namespaces" in levels[2]["fix"]
    assert report["sandbox"]["level"] == 1
