"""Where sessions are kept: homes that are missing, read-only or somebody else's; paths that change their owner."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import World, finish, git
from tests.server import Call, Turn


def broken(world: World, kind: str) -> dict[str, str]:
    """The environment with a home that cannot be written, also not by root."""
    env = {**world.env, "TMPDIR": str(world.home / "tmp")}
    (world.home / "tmp").mkdir(exist_ok=True)
    file = world.home / "file"
    file.write_text("")
    env["HOME"] = {"a file": str(file), "not there": "/proc/self/nowhere", "a device": "/dev/null"}[kind]
    return env


@pytest.mark.parametrize("kind", ["a file", "not there", "a device"])
def test_without_a_home_the_session_is_kept_elsewhere_and_goes_on(world: World, served: Any, kind: str) -> None:
    env = broken(world, kind)
    server = served([Turn(text="one"), Turn(when="PINEAPPLE.*one", text="two"), Turn(when="one.*two", text="three")])
    one = world.run("-p", "PINEAPPLE", "--json", server=server, env=env).ended("completed", 0)
    assert [event["code"] for event in one.of("notice")] == ["temporary-store"]
    assert "session-not-saved" not in [problem["code"] for problem in one.done["problems"]]
    (journal,) = (world.home / "tmp").rglob("*.jsonl")
    assert stat.S_IMODE(journal.parents[2].stat().st_mode) == 0o700
    assert journal.parents[2] == world.home / "tmp" / f"agentctl-{os.getuid()}"
    two = world.run("-c", "-p", "x", "--json", server=server, env=env).ended("completed", 0)
    three = world.run("-r", one.done["session"][:13], "-p", "x", "--json", server=server, env=env)
    assert three.ended("completed", 0).done["session"] == two.done["session"] == one.done["session"]
    quiet = world.run("-p", "x", "--json", "--ephemeral", server=served([Turn(text="a")]), env=env)
    assert "temporary-store" not in [event["code"] for event in quiet.ended("completed", 0).of("notice")]


def test_a_session_of_a_home_that_became_read_only_goes_on_in_a_copy(world: World, served: Any) -> None:
    server = served([Turn(text="one"), Turn(when="PINEAPPLE.*one", text="two"), Turn(when="one.*two", text="three")])
    key = ("--session-key", "k", "--json")
    one = world.run("-p", "PINEAPPLE", *key, server=server).ended("completed", 0)
    (journal,) = world.home.rglob("*.jsonl")
    before = journal.read_bytes()
    env = {**world.env, "TMPDIR": str(world.home / "tmp")}
    (world.home / "tmp").mkdir()
    folder = journal.parent
    command = ["unshare", "-m", "sh", "-c", f'mount --bind -o ro {folder} {folder} && exec "$@"', "sh"]
    probe = subprocess.run([*command, "true"], capture_output=True, check=False)
    if probe.returncode != 0:  # no mount namespace for us here: a read-only folder does it for anyone but root
        assert os.getuid() != 0, probe.stderr
        folder.chmod(0o500)
        command = []
    for prompt, text in (("x", "two"), ("y", "three")):
        words = [*command, *world.command("-p", prompt, *key, server=server)]
        process = subprocess.Popen(
            words, cwd=world.cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        ran = finish(process).ended("completed", 0)
        assert (ran.done["text"], ran.done["session"]) == (text, one.done["session"])
        assert [event["code"] for event in ran.of("notice")] == ["temporary-store"]
    assert ran.done["usage_total"]["output"] > one.done["usage"]["output"]
    assert journal.read_bytes() == before


def test_a_temporary_folder_of_somebody_else_is_not_used(world: World, served: Any) -> None:
    env = broken(world, "a file")
    elsewhere = world.home / "elsewhere"
    elsewhere.mkdir()
    (world.home / "tmp" / f"agentctl-{os.getuid()}").symlink_to(elsewhere)
    ran = world.run("-p", "x", "--json", server=served([Turn(text="a")]), env=env).ended("completed", 0)
    assert "session-not-saved" in [problem["code"] for problem in ran.done["problems"]]
    assert (list(elsewhere.iterdir()), ran.done["resume"]) == ([], None)


def test_the_agent_cannot_write_to_the_temporary_store(world: World, served: Any) -> None:
    env = broken(world, "a file")
    target = f"{world.home}/tmp/agentctl-{os.getuid()}/sessions/x.jsonl"
    calls = [Call("bash", {"command": f"echo x >> {target}"}), Call("write_file", {"path": target, "content": "x"})]
    server = served([Turn(text="I try", calls=calls), Turn(text="done")])
    ran = world.run("-p", "x", "--json", "--yolo", server=server, env=env).ended("completed", 0)
    assert not Path(target).exists()
    assert len(ran.of("tool-denied", "tool-error")) == 2


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_everything_of_a_session_is_private_whatever_the_umask(world: World, served: Any, umask: int) -> None:
    server = served([Turn(text="a", repeat=2)])
    process = world.start("-p", "x", "--json", server=server, preexec_fn=lambda: os.umask(umask) and None)
    finish(process).ended("completed", 0)
    state = world.home / ".local/state/agentctl"
    world.run("sessions", "list", "--json")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (state, *state.rglob("*"))}
    assert {name: mode & 0o077 for name, mode in modes.items() if mode & 0o077} == {}
    world.run("-c", "-p", "x", "--json", server=server).ended("completed", 0)


@pytest.mark.parametrize("content", [b"", b'{"record":"header","ti', b"\0" * 4096])
def test_what_a_run_killed_at_its_first_write_left_is_begun_anew(world: World, served: Any, content: bytes) -> None:
    server = served([Turn(text="a"), Turn(text="b"), Turn(when="SECOND", text="c")])
    key = ("--session-key", "k", "--json")
    session = world.run("-p", "FIRST", *key, server=server).ended("completed", 0).done["session"]
    (journal,) = world.home.rglob("*.jsonl")
    journal.write_bytes(content)
    ran = world.run("-p", "SECOND", *key, server=server).ended("completed", 0)
    assert ran.done["session"] == session
    assert [event["code"] for event in ran.of("notice")] == (["session-torn"] if content else [])
    again = world.run("-p", "z", *key, server=server).ended("completed", 0)
    assert (again.done["text"], again.of("notice")) == ("c", [])


def test_a_session_that_cannot_be_read_is_refused_the_same_way_every_time(world: World, served: Any) -> None:
    server = served([Turn(text="a", repeat=-1)])
    key = ("--session-key", "k", "--json")
    world.run("-p", "x", *key, server=server).ended("completed", 0)
    (journal,) = world.home.rglob("*.jsonl")
    journal.write_bytes(b"broken\n")
    for _ in range(3):
        ran = world.run("-p", "x", *key, server=server).ended("usage", 2)
        assert str(journal) in ran.of("error")[0]["message"]
    assert sorted(path.suffix for path in journal.parent.iterdir()) == [".jsonl", ".lock"]
    assert journal.read_bytes() == b"broken\n"


def test_continue_passes_over_a_broken_session_and_names_it(world: World, served: Any) -> None:
    server = served([Turn(text="a"), Turn(when="FIRST", text="b")])
    one = world.run("-p", "FIRST", "--json", server=server).ended("completed", 0)
    (journal,) = world.home.rglob("*.jsonl")
    broken = journal.with_name("01ffffff-0000-7000-8000-000000000000.jsonl")
    broken.write_text("broken\n")
    ran = world.run("-c", "-p", "x", "--json", server=server).ended("completed", 0)
    assert ran.done["session"] == one.done["session"]
    (notice,) = ran.of("notice")
    assert notice["code"] == "session-unreadable"
    assert str(broken) in notice["text"]
    listed = json.loads(world.run("sessions", "list", "--json").out)
    assert [row["id"] for row in listed["sessions"]] == [one.done["session"]]
    assert [problem["what"] for problem in listed["problems"]] == [str(broken)]


def test_another_git_remote_starts_a_new_store_and_says_so_once(world: World, served: Any) -> None:
    server = served([Turn(text="a", repeat=-1)])

    git(world, "init", "-q")
    git(world, "remote", "add", "origin", "https://user:s3cret-t0ken@example.com/o/one.git")
    one = world.run("-p", "x", "--json", server=server).ended("completed", 0)
    git(world, "remote", "set-url", "origin", "git@example.com:o/two.git")
    refused = world.run("-c", "-p", "x", "--json", server=server).ended("usage", 2)
    assert "example.com/o/one" in refused.of("error")[0]["hint"]
    two = world.run("-p", "x", "--json", server=server).ended("completed", 0)
    (notice,) = two.of("notice")
    assert (notice["code"], "example.com/o/one" in notice["text"]) == ("new-store", True)
    three = world.run("-c", "-p", "x", "--json", server=server).ended("completed", 0)
    assert (three.done["session"], three.of("notice")) == (two.done["session"], [])
    git(world, "remote", "set-url", "origin", "https://other:t0ken@example.com/o/one")
    four = world.run("-c", "-p", "x", "--json", server=server).ended("completed", 0)
    assert (four.done["session"], four.of("notice")) == (one.done["session"], [])
    assert "t0ken" not in "".join(path.read_text() for path in world.home.rglob("project.json"))


@pytest.mark.parametrize(
    "command", [("-p", "x", "-r"), ("sessions", "show"), ("approvals", "list", "-r")], ids=" ".join
)
def test_a_session_of_another_store_of_this_folder_is_not_called_elsewhere(
    world: World, served: Any, command: tuple[str, ...]
) -> None:
    server = served([Turn(text="a", repeat=-1)])
    named = world.run("-p", "x", "--json", "--project", "name", server=server).ended("completed", 0).done["session"]
    git(world, "init", "-q")
    git(world, "remote", "add", "origin", "https://user:s3cret-t0ken@example.com/o/one.git")
    one = world.run("-p", "x", "--json", server=server).ended("completed", 0).done["session"]
    git(world, "remote", "set-url", "origin", "https://example.com/o/two")
    world.run("-p", "x", "--json", server=server).ended("completed", 0)
    for session, why, fix in (
        (one, "from when its git remote was example.com/o/one", "--project NAME keeps one store"),
        (named, "kept for another project", "Give the --project NAME"),
    ):
        ran = world.run(*command, session)
        assert ran.code == 2
        assert f"{session!r} is a session of this folder" in ran.err
        assert (why in ran.err, fix in ran.err) == (True, True), ran.err
    (world.cwd / "elsewhere").mkdir()
    ran = world.run(*command, one, "-C", "elsewhere")
    assert f"{one!r} is a session of another folder: {world.cwd}" in ran.err


def test_nothing_is_left_of_a_run_that_never_began(world: World) -> None:
    world.run("-p", "x", "--json", "--model", "nobody/x").ended("usage", 2)
    assert [path for path in world.home.rglob("*") if path.is_file()] == []


def test_going_on_twice_after_a_kill_keeps_the_order_of_the_history(world: World, served: Any) -> None:
    import signal

    server = served(
        [
            Turn(text="I look", calls=[Call("bash", {"command": "sleep 60"})]),
            Turn(when="unknown", text="two"),
            Turn(when="unknown.*two", text="three"),
        ]
    )
    key = ("--session-key", "k", "--json", "--yolo")
    process = world.start("-p", "MANGO", *key, server=server)
    while b'"tool-call"' not in process.stdout.readline():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    world.run("-p", "on", *key, server=server).ended("completed", 0)
    world.run("-p", "and on", *key, server=server).ended("completed", 0)
    session = json.loads(world.run("sessions", "list", "--json").out)["sessions"][0]["id"]
    shown = json.loads(world.run("sessions", "show", session, "--json").out)
    roles = [row["role"] for row in shown["history"]]
    assert roles == ["user", "assistant", "tool", "user", "assistant", "user", "assistant"]
    assert server.refusals == []


def test_the_session_of_a_demo_leaves_the_choice_of_the_model_to_the_next_run(world: World, served: Any) -> None:
    world.run("demo", "--json").ended("completed", 0)
    server = served([Turn(text="a")])
    env = {"OPENAI_BASE_URL": server.base_url, **{k: v for k, v in world.env.items() if k != "ANTHROPIC_API_KEY"}}
    ran = world.run("-c", "-p", "x", "--json", env=env).ended("completed", 0)
    assert ran.events[0]["model"]["vendor"] == "openai"


@pytest.mark.parametrize("flags", [(), ("--session-key", "k"), ("-c", "--fork")], ids=" ".join)
def test_a_run_that_ends_before_its_first_turn_leaves_no_session(
    world: World, served: Any, flags: tuple[str, ...]
) -> None:
    server = served([Turn(text="a"), Turn(when="MANGO.*a", text="b")])
    one = world.run("-p", "MANGO", "--json", server=server).ended("completed", 0)
    left_out = ("--strict", "--trust", "none", "--memory", "on")
    refused = world.run("-p", "x", "--json", *flags, *left_out, server=server).ended("usage", 2)
    assert refused.done["resume"] is None
    assert [path.stem for path in world.home.rglob("*.jsonl")] == [one.done["session"]]
    assert [path.stem for path in world.home.rglob("sessions/*/*.lock")] == [one.done["session"]]
    again = world.run("-c", "-p", "x", "--json", server=server).ended("completed", 0)
    assert (again.done["text"], again.done["session"]) == ("b", one.done["session"])


def test_going_on_with_a_session_that_a_strict_run_refused_keeps_it(world: World, served: Any) -> None:
    server = served([Turn(text="a"), Turn(when="MANGO.*a", text="b")])
    one = world.run("-p", "MANGO", "--json", server=server).ended("completed", 0)
    left_out = ("--strict", "--trust", "none", "--memory", "on")
    world.run("-c", "-p", "x", "--json", *left_out, server=server).ended("usage", 2)
    again = world.run("-r", one.done["session"], "-p", "x", "--json", server=server).ended("completed", 0)
    assert again.done["text"] == "b"


def test_continue_passes_over_a_session_that_was_killed_before_its_first_turn(world: World, served: Any) -> None:
    server = served([Turn(text="a"), Turn(when="MANGO.*a", text="b")])
    one = world.run("-p", "MANGO", "--json", server=server).ended("completed", 0)
    (journal,) = world.home.rglob("*.jsonl")
    header = journal.read_bytes().splitlines(keepends=True)[0]
    unbegun = "01ffffff-0000-7000-8000-000000000000"
    journal.with_name(f"{unbegun}.jsonl").write_bytes(header.replace(one.done["session"].encode(), unbegun.encode()))
    again = world.run("-c", "-p", "x", "--json", server=server).ended("completed", 0)
    assert (again.done["text"], again.done["session"]) == ("b", one.done["session"])
    assert again.of("notice") == []


def test_a_session_whose_first_prompt_is_long_is_one_to_go_on_with(world: World, served: Any) -> None:
    (world.cwd / "long.txt").write_text("word " * 40_000)
    server = served([Turn(text="a"), Turn(text="b")])
    one = world.run("--prompt-file", "long.txt", "--json", server=server).ended("completed", 0)
    again = world.run("-c", "-p", "x", "--json", server=server).ended("completed", 0)
    assert again.done["session"] == one.done["session"]
