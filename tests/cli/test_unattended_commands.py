"""Commands that would wait for a person, or stay when nobody waits for them any more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.cli.conftest import World
from tests.processes import alive, nap
from tests.server import Call, Fault, Turn


def in_one_run(world: World, served: Any, lines: list[str], *words: str) -> list[dict[str, Any]]:
    calls = [Call("bash", {"command": line, "timeout": 20_000}) for line in lines]
    server = served([Turn(calls=calls), Turn(text="ok")])
    ran = world.run("-p", "x", "--json", "--yolo", *words, server=server, limit_s=60).ended("completed", 0)
    return ran.of("tool-result", "tool-error")


def test_what_reads_from_stdin_or_a_terminal_ends_at_once(world: World, served: Any) -> None:
    lines = [
        "cat",
        "read x; echo got=$x",
        "python3 -c 'print(repr(__import__(\"sys\").stdin.read()))'",
        "read x < /dev/tty",
        "stty size",
        "tty",
        "python3 -c 'import getpass; getpass.getpass()'",
    ]
    events = in_one_run(world, served, lines)
    assert [event["exit_code"] for event in events[:3]] == [0, 0, 0]
    assert "got=\n" in events[1]["output"]
    assert "''" in events[2]["output"]
    assert all(event["exit_code"] not in (0, None) for event in events[3:])
    assert all("timed out" not in event["output"] for event in events)


def test_what_asks_for_a_password_fails_instead(world: World, served: Any) -> None:
    """A repository behind a password, ssh to a host that wants one, a signature."""
    closed = served(
        [Turn(fault=Fault(status=401, body="no", headers={"www-authenticate": 'Basic realm="x"'}), repeat=-1)]
    )
    lines = [
        f"git clone -q {closed.root_url}/a/b.git",
        "ssh -oConnectTimeout=2 -oStrictHostKeyChecking=no -p 1 127.0.0.1 true",
        "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty",
        "gpg --batch --sign /dev/null",
        "sudo -k true",
    ]
    events = in_one_run(world, served, lines)
    assert all(event["exit_code"] not in (0, None) for event in events)
    assert all("timed out" not in event["output"] for event in events)


def test_editors_and_pagers_do_not_wait(world: World, served: Any) -> None:
    (world.cwd / "long").write_text("line\n" * 5000)
    lines = [
        "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log",
        "cd r && git rebase -i --root",
        "cd r && git -c user.name=a -c user.email=a@b commit --amend",
        "less long | tail -1; more long | tail -1",
        '$EDITOR long; "$VISUAL" long; $PAGER long | tail -1',
        "man ls | head -1",
    ]
    events = in_one_run(world, served, lines)
    assert [event["exit_code"] for event in events[:1]] == [0]
    assert all(event["exit_code"] not in (0, None) for event in events[1:3])
    assert all("timed out" not in event.get("output", "") for event in events)


def test_an_editor_that_is_called_by_name_ends_with_its_timeout(world: World, served: Any) -> None:
    """vim waits for keys on its stderr when it has no terminal; a vi that does not ends at once."""
    (world.cwd / "long").write_text("line\n" * 5000)
    server = served([Turn(calls=[Call("bash", {"command": "vi long", "timeout": 1000})]), Turn(text="ok")])
    ran = world.run("-p", "x", "--json", "--yolo", server=server).ended("completed", 0)
    assert ran.done["commands"][0]["exit_code"] != 0
    assert ran.done["text"] == "ok"


def test_what_goes_on_in_the_background_is_ended_and_not_waited_for(world: World, served: Any) -> None:
    sleep = nap()
    lines = [
        f"{sleep} & echo started",
        f"{sleep} </dev/null >/dev/null 2>&1 & echo started",
        f"setsid {sleep} & echo started",
        f"setsid {sleep} >/dev/null 2>&1 < /dev/null & echo started",
        f"nohup {sleep} >/dev/null 2>&1 & disown; echo started",
        f"( ( {sleep} & ) & ) ; echo started",
        f"python3 -c 'import os, sys; os.fork() and sys.exit(); os.setsid(); os.fork() and os._exit(0); "
        f'os.execvp("sleep", "{sleep}".split())\'; echo started',
    ]
    started = time.monotonic()
    events = in_one_run(world, served, lines)
    assert ["started" in event["output"] for event in events] == [True] * len(lines)
    assert alive(sleep) == []
    assert time.monotonic() - started < 60  # the sleeps would take longer


def test_a_command_that_ignores_term_ends_with_its_timeout(world: World, served: Any) -> None:
    line = "trap '' TERM INT HUP; echo partial; while :; do sleep 0.2; done"
    calls = [Call("bash", {"command": line, "timeout": 1000})]
    ran = world.run("-p", "x", "--json", "--yolo", server=served([Turn(calls=calls), Turn(text="ok")]))
    (result,) = ran.ended("completed", 0).of("tool-result")
    assert "partial" in result["output"]
    assert "timed out after 1000 ms" in result["output"]


def test_floods_binary_and_progress(world: World, served: Any) -> None:
    lines = [
        "head -c 20000000 /dev/zero | tr '\\0' 'y'",
        "(head -c 5000000 /dev/zero | tr '\\0' 'e') >&2",
        "head -c 1000000 /dev/urandom",
        "for i in 1 2 3 4 5 6 7 8 9; do printf '\\rdone %s0 %%' $i; done; echo",
        "cat /dev/zero | head -c 1000000",
    ]
    events = in_one_run(world, served, lines)
    assert [event["exit_code"] for event in events] == [0] * 5
    assert all(len(event["output"]) <= 30_000 for event in events)
    assert "\ufffd" in events[2]["output"]
    assert events[3]["output"].count("done") == 1
    kept = [path.stat().st_size for path in (world.cwd / ".agentctl").rglob("*.txt")]
    assert max(kept) <= 64 * 1024 * 1024 + 200


def test_no_command_reads_the_environment_of_agentctl(world: World, served: Any) -> None:
    """Of this run, its watcher, its keeper: every process that is there, by the command itself."""
    world.env["DEPLOY_TOKEN"] = "Only-agentctl-may-know-5"
    line = "cat /proc/[0-9]*/environ 2> refused.txt | tr '\\0' '\\n' > found.txt"
    events = in_one_run(world, served, [line])
    assert events[0]["exit_code"] == 0
    found = (world.cwd / "found.txt").read_text(errors="replace")
    assert "Only-agentctl-may-know-5" not in found
    assert "PAGER=cat" in found  # its own environment it may read
    assert Path(world.cwd / "refused.txt").read_text() != ""
