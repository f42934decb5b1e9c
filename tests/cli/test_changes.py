"""files_changed: what the tools report, joined with what git sees around commands."""

from __future__ import annotations

from typing import Any

from tests.cli.conftest import World, git
from tests.server import Call, Turn


def repository(world: World) -> None:
    git(world, "init", "-q")
    (world.cwd / "kept").write_text("1")
    (world.cwd / "dirty").write_text("1")
    (world.cwd / "gone").write_text("1")
    git(world, "add", ".")
    git(world, "commit", "-qm", "x")
    (world.cwd / "dirty").write_text("22")


def test_what_a_command_changed_is_seen_and_what_was_dirty_before_is_not(world: World, served: Any) -> None:
    repository(world)
    command = "echo new > made; rm gone; echo x >> kept"
    turns = [Turn(calls=[Call("write_file", {"path": "own", "content": "x"}), Call("bash", {"command": command})])]
    ran = world.run("-p", "go", "--json", "--yolo", server=served([*turns, Turn(text="ok")])).ended("completed", 0)
    assert ran.done["files_changed"] == ["gone", "kept", "made", "own"]
    assert ran.done["files_source"] == "tools+git"


def test_in_a_folder_below_the_root_of_the_repository_paths_are_relative_to_the_folder(
    world: World, served: Any
) -> None:
    repository(world)
    below = world.cwd / "sub"
    below.mkdir()
    server = served([Turn(calls=[Call("bash", {"command": "touch a b"})]), Turn(text="ok")])
    ran = world.run("-p", "go", "-C", "sub", "--json", "--yolo", server=server).ended("completed", 0)
    assert ran.done["files_changed"] == ["a", "b"]
    assert ran.done["resume"] == f"agentctl -r {ran.done['session']} -C {below} -p 'PROMPT'"


def test_without_a_repository_only_tools_report(world: World, served: Any) -> None:
    server = served([Turn(calls=[Call("bash", {"command": "touch a"})]), Turn(text="ok")])
    ran = world.run("-p", "go", "--json", "--yolo", server=server).ended("completed", 0)
    assert (ran.done["files_changed"], ran.done["files_source"]) == ([], "tools")


def test_a_hostile_repository_runs_nothing_of_its_own(world: World, served: Any) -> None:
    repository(world)
    hook = world.cwd / "hook.sh"
    hook.write_text("#!/bin/sh\ntouch HOOK-RAN\n")
    hook.chmod(0o755)
    git(world, "config", "core.fsmonitor", str(hook))
    git(world, "status")
    assert (world.cwd / "HOOK-RAN").exists(), "the positive control: plain git runs it"
    (world.cwd / "HOOK-RAN").unlink()
    server = served([Turn(calls=[Call("bash", {"command": "touch a"})]), Turn(text="ok")])
    ran = world.run("-p", "go", "--json", "--yolo", server=server).ended("completed", 0)
    assert "a" in ran.done["files_changed"]
    assert not (world.cwd / "HOOK-RAN").exists()
