"""What a checkout can hold against an agent: pipes in place of files, odd names, links, a folder that vanishes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import World
from tests.server import Call, Turn
from tests.unit.policy.shell_oracle import find_bwrap

OUTSIDE = "OUTSIDE-SECRET"


def says(*calls: Call) -> list[Turn]:
    return [Turn(calls=list(calls)), Turn(text="done")]


@pytest.mark.parametrize("place", [".agentctl/policy.toml", ".agentctl/config.toml", "AGENTS.md", "CLAUDE.md", ".git"])
def test_a_pipe_in_place_of_a_file_of_the_project_is_no_wait(world: World, served: Any, place: str) -> None:
    (world.cwd / place).parent.mkdir(exist_ok=True)
    os.mkfifo(world.cwd / place)
    started = time.monotonic()
    ran = world.run("-p", "x", "--json", server=served([Turn(text="ok")]), limit_s=15)
    assert time.monotonic() - started < 10
    assert ran.done["ended"] in ("completed", "usage")
    if place.startswith(".agentctl"):
        assert place.rpartition("/")[2] in json.dumps(ran.events[0]["problems"] or ran.of("error"))


@pytest.mark.parametrize(
    "words",
    [
        ["--policy", "pipe"],
        ["--prompt-file", "pipe"],
        ["--file", "pipe"],
        ["--image", "pipe"],
        ["--replay", "pipe"],
        ["--model", "scripted/pipe"],
        ["-C", "pipe"],
    ],
    ids=lambda words: words[0],
)
def test_a_pipe_given_as_a_file_is_no_wait(world: World, served: Any, words: list[str]) -> None:
    os.mkfifo(world.cwd / "pipe")
    started = time.monotonic()
    world.run("-p", "x", "--json", *words, server=None, limit_s=15).ended("usage", 2)
    assert time.monotonic() - started < 10


def test_a_pipe_in_place_of_the_users_files_is_no_wait(world: World, served: Any) -> None:
    world.env["AGENTCTL_HOME"] = str(world.home)
    for name in ("config.toml", "policy.toml"):
        os.mkfifo(world.home / name)
        ran = world.run("-p", "x", "--json", server=served([Turn(text="ok")]), limit_s=15).ended("usage", 2)
        assert name in ran.err
        (world.home / name).unlink()


def test_a_prompt_may_come_from_another_program(world: World, served: Any) -> None:
    """`--prompt-file <(program)`: a pipe with somebody at its other end."""
    server = served([Turn(text="ok")])
    command = " ".join(world.command("--json", server=server))
    line = f"{command} --prompt-file <(sleep 0.2; echo from a program)"
    done = subprocess.run(["bash", "-c", line], cwd=world.cwd, env=world.env, capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert "from a program" in json.dumps(server.requests[0].body)


def test_no_rule_opens_what_the_kernel_shows_of_processes(world: World, served: Any) -> None:
    """/proc/self/environ and its like, by every tool that takes a path, with rules that allow it and --yolo."""
    world.env["DEPLOY_TOKEN"] = "A-value-of-17"
    paths = ["/proc/self/environ", f"/proc/{os.getpid()}/cmdline", "/proc/self/maps", "/proc/self/fd/0", "/dev/fd/0"]
    paths += ["/proc/self/root/etc/passwd", "/proc/self/cwd/a", "link", "/dev/zero", "/dev/stdin"]
    (world.cwd / "link").symlink_to("/proc/self/environ")
    calls = [Call("read_file", {"path": path}) for path in paths]
    calls += [Call("write_file", {"path": path, "content": "x"}) for path in paths]
    calls += [Call("list_dir", {"path": "/proc/self"}), Call("grep", {"pattern": "A-", "include": "/proc/self/*"})]
    calls += [Call("glob", {"pattern": "/proc/self/*"}), Call("delete_file", {"path": "/proc/self/environ"})]
    calls += [Call("read_many_files", {"files": [{"path": path} for path in paths]})]
    calls += [Call("move_file", {"from": "/proc/self/environ", "to": "x"})]
    rules = ["--yolo", "--allow", "read_file:/proc/**", "--allow", "read_file:**", "--allow", "@write:/proc/**"]
    ran = world.run("-p", "x", "--json", *rules, server=served(says(*calls))).ended("completed", 0)
    assert len(ran.of("tool-call")) == len(calls)
    shown = [event for event in ran.of("tool-result") if "[unreadable: " not in event["output"]]
    assert shown == []
    assert b"masked" not in ran.out
    assert world.run("-p", "x", "--json", "--add-dir", "/proc", server=served([])).done["ended"] == "usage"
    attached = world.run("-p", "see @/proc/self/environ", "--json", "--file", "/proc/self/environ", server=served([]))
    assert attached.done["ended"] == "usage"


def test_odd_names_are_shown_on_one_line_and_the_lines_stay_json(world: World, served: Any) -> None:
    names = [b"new\nline", b"esc\x1b[31m", b"\xff\xfe", b"-rf", b"x" * 255, "ünï".encode(), "\u202ertl".encode()]
    for name in names:
        (Path(os.fsdecode(os.fsencode(world.cwd) + b"/" + name))).write_text("needle\n")
    calls = [
        Call("glob", {"pattern": "*"}),
        Call("grep", {"pattern": "needle"}),
        Call("list_dir", {}),
        Call("read_file", {"path": "-rf"}),
        Call("read_file", {"path": "x" * 255}),
        Call("read_file", {"path": "new\nline"}),
        Call("read_file", {"path": "\\xff\\xfe"}),
        Call("bash", {"command": "ls"}),
    ]
    ran = world.run("-p", "x", "--json", "--yolo", server=served(says(*calls))).ended("completed", 0)
    ran.out.decode("utf-8", "strict")
    listed, found, tree, *read, _ = [
        event.get("output", event.get("error")) for event in ran.of("tool-result", "tool-error")
    ]
    for text in (listed, found, tree):
        assert "new\\nline" in text
        assert "\\xff\\xfe" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert [text.startswith("1: needle") for text in read] == [True, True, True, False]
    assert "can only be reached through bash" in read[3]


def test_a_workspace_that_vanishes_is_said_and_not_made_again(world: World, served: Any) -> None:
    gone = Call("bash", {"command": f"cd / && python3 -c \"import shutil; shutil.rmtree('{world.cwd}')\""})
    calls = [Call("write_file", {"path": "a/b", "content": "x"}), Call("bash", {"command": "pwd"})]
    calls += [Call("read_file", {"path": "a"}), Call("list_dir", {}), Call("glob", {"pattern": "*"})]
    turns = [Turn(calls=[gone]), Turn(calls=calls), Turn(text="gone")]
    flags = ("--yolo", "--sandbox", "off")  # behind walls a command cannot take its own floor away
    ran = world.run("-p", "x", "--json", *flags, server=served(turns)).ended("completed", 0)
    first, *others = ran.of("tool-result", "tool-error")
    assert first["type"] == "tool-result"
    assert [event["type"] for event in others[:3]] == ["tool-error"] * 3
    assert not world.cwd.exists()
    assert "Traceback" not in ran.err


def test_a_linked_folder_of_rules_is_not_believed(world: World, served: Any) -> None:
    """.agentctl as a symlink into a folder that a run may write."""
    (world.cwd / "conf").mkdir()
    (world.cwd / "conf" / "policy.toml").write_text('version = 1\nunmatched = "allow"\n')
    (world.cwd / "conf" / "config.toml").write_text("max_steps = 1\n")
    (world.cwd / ".agentctl").symlink_to("conf")
    calls = [
        Call("bash", {"command": "touch ran"}),
        Call("write_file", {"path": ".agentctl/policy.toml", "content": "x"}),
    ]
    ran = world.run("-p", "x", "--json", "--allow", "@write", server=served(says(*calls))).ended("completed", 0)
    assert not (world.cwd / "ran").exists()
    assert len(ran.of("tool-denied")) == 2
    assert "symbolic link" in json.dumps(ran.events[0]["problems"])


def test_sessions_and_rules_inside_the_workspace_are_never_written(world: World, served: Any) -> None:
    """AGENTCTL_HOME in the workspace: the journal of this run, of another one, the lock; by tools and by commands."""
    world.env["AGENTCTL_HOME"] = str(world.cwd / "own")
    world.run("-p", "x", "--json", server=served([Turn(text="ok")])).ended("completed", 0)
    (journal,) = (world.cwd / "own").rglob("*.jsonl")
    before = journal.read_bytes()
    names = [str(path.relative_to(world.cwd)) for path in (journal, *(world.cwd / "own").rglob("*.lock"))]
    names += ["own/config/policy.toml", "own/config/config.toml"]
    calls = [Call("write_file", {"path": name, "content": "x"}) for name in names]
    calls += [Call("edit_file", {"path": names[0], "oldString": "user", "newString": "x"})]
    calls += [Call("delete_file", {"path": names[0]}), Call("move_file", {"from": names[0], "to": "x"})]
    calls += [Call("bash", {"command": f"echo x >> {name}"}) for name in names]
    calls += [Call("bash", {"command": f"rm {names[0]}"}), Call("bash", {"command": f"truncate -s 0 {names[0]}"})]
    ran = world.run("-p", "x", "--json", "--yolo", "--allow", "@write:own/**", server=served(says(*calls)))
    ran.ended("completed", 0)
    assert len(ran.of("tool-denied")) == len(calls)
    assert journal.read_bytes() == before


def test_a_mount_inside_the_workspace_belongs_to_it(tmp_path: Path) -> None:
    """Documented: what an administrator has mounted below the root is part of it."""
    for name in ("w/mounted", "outside"):
        (tmp_path / name).mkdir(parents=True)
    script = (
        "import sys; from pathlib import Path; from agentctl.config.workspace import Workspace\n"
        "for way in (True, False):\n"
        "    workspace = Workspace(Path(sys.argv[1]), uses_openat2=way)\n"
        "    workspace.write_bytes('mounted/f', b'x')\n"
        "    print(workspace.read_bytes('mounted/f', 9))\n"
    )
    python = os.path.realpath("/proc/self/exe")
    argv = [find_bwrap(), "--bind", "/", "/", "--bind", str(tmp_path / "outside"), str(tmp_path / "w/mounted"), "--"]
    packages = [path for path in sys.path if "site-packages" in path]
    env = {"PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[2]), *packages))}
    done = subprocess.run([*argv, python, "-c", script, str(tmp_path / "w")], capture_output=True, text=True, env=env)
    assert done.stdout == "b'x'\n" * 2, done.stderr
    assert (tmp_path / "outside/f").read_bytes() == b"x"


def test_a_secret_file_is_denied_to_commands_as_well(world: World, served: Any) -> None:
    (world.cwd / ".env").write_text(f"KEY={OUTSIDE}\n")
    lines = ["cat .env", "cat < .env", "head -1 ./.env", "f=.env; cat $f", "grep KEY .env", "cd . && cat .env"]
    calls = [Call("bash", {"command": line}) for line in lines]
    calls += [Call("read_file", {"path": ".env"}), Call("grep", {"pattern": "KEY", "includeIgnored": True})]
    ran = world.run("-p", "x", "--json", "--yolo", server=served(says(*calls))).ended("completed", 0)
    assert len(ran.of("tool-denied")) == len(lines) + 1
    assert OUTSIDE.encode() not in ran.out
