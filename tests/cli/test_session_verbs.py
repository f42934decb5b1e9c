"""The verbs over saved sessions: one JSON document each, and what they leave on disk."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import World
from tests.server import Call, Turn

SECRET = "tok-Zq81hunter22"


def journal_of(world: World, session: str) -> Path:
    return next((world.home / ".local/state/agentctl/sessions").glob(f"*/{session}.jsonl"))


def document(world: World, *words: str, code: int = 0, **options: Any) -> Any:
    ran = world.run("sessions", *words, "--json", **options)
    assert ran.code == code, ran.err
    return json.loads(ran.out)


def run_once(world: World, served: Any, *words: str) -> str:
    """A run with a kept output and a todo list; its session."""
    todos = {"todos": [{"content": "look", "status": "in_progress"}]}
    look = Turn(text="I look", calls=[Call("bash", {"command": "seq 1 20000"}), Call("todo_write", todos)])
    server = served([look, Turn(text="done")])
    ran = world.run("-p", "PINEAPPLE", "--json", "--yolo", *words, server=server).ended("completed", 0)
    return str(ran.done["session"])


def test_show_has_everything_and_lists_agree(world: World, served: Any) -> None:
    session = run_once(world, served)
    shown = document(world, "show", session[:13])
    (listed,) = document(world, "list")["sessions"]
    assert {name: shown[name] for name in listed} == listed
    assert [row["role"] for row in shown["history"]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert (shown["todos"], shown["damage"]) == ([{"content": "look", "status": "in_progress", "note": ""}], [])
    lines = world.run("sessions", "show", session).out.decode()
    assert "user: PINEAPPLE" in lines
    assert "calls bash" in lines


def test_a_fork_goes_on_by_itself(world: World, served: Any) -> None:
    session = run_once(world, served)
    before = journal_of(world, session).read_bytes()
    forked = document(world, "fork", session)
    assert forked["forked_from"] == session
    server = served([Turn(when="PINEAPPLE.*done", text="on")])
    ran = world.run("-r", forked["session"], "-p", "more", "--json", server=server).ended("completed", 0)
    assert ran.done["usage_total"] == ran.done["usage"]
    assert journal_of(world, session).read_bytes() == before


def test_export_and_import_into_another_folder(world: World, served: Any) -> None:
    session = run_once(world, served)
    world.env["DEPLOY_TOKEN"] = SECRET  # became a secret after the run
    made = document(world, "export", session, "out.tar.gz")
    assert (made["file"], made["files"]) == (str(world.cwd / "out.tar.gz"), ["output/1.txt"])
    (world.cwd / "other").mkdir()
    there = ("-C", "other")
    taken = document(world, "import", "out.tar.gz", *there)
    assert (taken["session"], taken["files"]) == (session, ["output/1.txt"])
    kept = Path(".agentctl/state", session, "output/1.txt")
    assert (world.cwd / "other" / kept).read_bytes() == (world.cwd / kept).read_bytes()
    server = served([Turn(when="PINEAPPLE.*done", text="on")])
    ran = world.run("-r", session, "-p", "more", "--json", *there, server=server).ended("completed", 0)
    assert ran.done["usage_total"]["output"] > ran.done["usage"]["output"]
    assert document(world, "show", session, *there)["cwd"] == str(world.cwd / "other")
    assert document(world, "import", "out.tar.gz", *there, code=2)["error"]["kind"] == "usage"
    again = document(world, "import", "out.tar.gz", "--fork", *there)["session"]
    assert again != session
    copy = document(world, "show", again, *there)
    assert (copy["id"], len(copy["history"])) == (again, 5)
    assert f".agentctl/state/{again}/output/1.txt" in json.dumps(copy["history"])
    assert (world.cwd / "other" / ".agentctl/state" / again / "output/1.txt").exists()


def test_an_export_follows_links_and_overwrites_files_alone(world: World, served: Any) -> None:
    session = run_once(world, served)
    os.mkfifo(world.cwd / "fifo")
    for name, to in {"to-file": "out.tar.gz", "to-fifo": "fifo"}.items():
        (world.cwd / name).symlink_to(to)
    document(world, "export", session, "to-file")
    assert (world.cwd / "to-file").is_symlink()
    assert document(world, "import", "out.tar.gz", "--fork")["files"] == ["output/1.txt"]
    for name in ("fifo", "to-fifo"):
        assert "not a regular file" in document(world, "export", session, name, code=1)["error"]["message"]
    assert (world.cwd / "fifo").is_fifo()
    assert (world.cwd / "to-fifo").is_symlink()


def test_an_export_masks_what_became_a_secret(world: World, served: Any) -> None:
    server = served([Turn(text=f"the token is {SECRET}")])
    session = world.run("-p", "x", "--json", server=server).ended("completed", 0).done["session"]
    assert SECRET in journal_of(world, session).read_text()
    world.env["DEPLOY_TOKEN"] = SECRET
    document(world, "export", session, "out.tar.gz")
    document(world, "import", "out.tar.gz", "--fork")
    (newest, _) = document(world, "list")["sessions"]
    assert SECRET not in journal_of(world, newest["id"]).read_text()


def test_an_import_does_not_follow_a_link_out_of_the_workspace(world: World, served: Any) -> None:
    session = run_once(world, served)
    document(world, "export", session, "out.tar.gz")
    outside = world.home / "outside"
    outside.mkdir()
    (world.cwd / "other").mkdir()
    (world.cwd / "other" / ".agentctl").symlink_to(outside)
    document(world, "import", "out.tar.gz", "-C", "other", code=1)
    assert list(outside.rglob("*.txt")) == []
    assert document(world, "list", "-C", "other")["sessions"] == []


def test_a_hostile_archive_is_a_usage_error_and_leaves_nothing(world: World) -> None:
    (world.cwd / "in.tar.gz").write_bytes(b"no archive")
    assert "refused" in document(world, "import", "in.tar.gz", code=2)["error"]["message"]
    assert document(world, "import", "none.tar.gz", code=2)["exit_code"] == 2
    assert not list(world.home.rglob("*.jsonl"))
    assert not (world.cwd / ".agentctl").exists()


def test_verify_names_damage_and_the_run_goes_on_and_says_so(world: World, served: Any) -> None:
    session = run_once(world, served, "--session-key", "k")
    assert document(world, "verify")["ok"]
    journal = journal_of(world, session)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:-1], b"\0" * 30 + b"\n", lines[-1], b'{"record":"mess']))
    (found,) = document(world, "verify", session[:8], code=3)["sessions"]
    assert (found["damage"][0]["line"], found["torn_bytes"]) == (len(lines), 15)
    server = served([Turn(when="PINEAPPLE.*done", text="on")])
    ran = world.run("--session-key", "k", "-p", "more", "--json", server=server).ended("completed", 0)
    assert [event["code"] for event in ran.of("notice")] == ["session-damaged", "session-torn"]
    assert document(world, "verify", session, code=3)["sessions"][0]["torn_bytes"] == 0


def test_prune_by_hand_and_at_the_end_of_a_run(world: World, served: Any) -> None:
    server = served([Turn(text="a", repeat=-1)])
    sessions = [world.run("-p", "x", "--json", server=server).done["session"] for _ in range(3)]
    old = time.time() - 40 * 86_400
    os.utime(journal_of(world, sessions[1]), (old, old))
    newest = world.run("-p", "x", "--json", server=server).ended("completed", 0).done["session"]
    left = [row["id"] for row in document(world, "list")["sessions"]]
    assert left == [newest, sessions[2], sessions[0]]
    pruned = document(world, "prune", "--keep-sessions", "2")
    assert (pruned["removed"], pruned["left"]) == ([sessions[0]], 2)
    (world.home / ".config/agentctl").mkdir(parents=True)
    (world.home / ".config/agentctl/config.toml").write_text("keep_sessions = 1\n")
    last = world.run("-p", "x", "--json", server=server).ended("completed", 0).done["session"]
    assert [row["id"] for row in document(world, "list")["sessions"]] == [last]


@pytest.mark.parametrize("verb", ["show", "fork", "export", "verify"])
def test_a_session_that_there_is_not(world: World, verb: str) -> None:
    assert document(world, verb, "nope", code=2)["error"]["kind"] == "usage"


def long_session(world: World, served: Any) -> str:
    """A session of seven steps."""
    (world.cwd / "f").write_text("one\n")
    steps = [Turn(text=f"step {n}", calls=[Call("bash", {"command": f"echo {n}"})]) for n in range(7)]
    server = served([*steps, Turn(text="done")])
    return str(world.run("-p", "MANGO", "--json", "--yolo", server=server).ended("completed", 0).done["session"])


def test_compact_sums_up_the_past_with_the_model_and_loses_nothing(world: World, served: Any) -> None:
    session = long_session(world, served)
    before = journal_of(world, session).read_bytes()
    server = served([Turn(when="step 2", text="IT LOOKED AROUND"), Turn(when="MANGO.*step 6", text="on")])
    made = document(world, "compact", session, server=server)
    assert (made["is_done"], made["summary"]) == (True, "IT LOOKED AROUND")
    assert made["messages_after"] < made["messages_before"] == 16
    assert "tools" not in server.requests[0].body
    assert journal_of(world, session).read_bytes().startswith(before)
    shown = document(world, "show", session)
    assert (len(shown["history"]), shown["ended"]) == (16, "completed")
    earlier = [json.loads(line) for line in before.splitlines()]
    paid = sum(row["usage"]["output"] for row in earlier if row["record"] == "usage")
    assert shown["usage"]["output"] == paid + made["usage"]["output"]
    ran = world.run("-r", session, "-p", "more", "--json", server=server).ended("completed", 0)
    sent = json.dumps(server.requests[1].body)
    assert ("IT LOOKED AROUND" in sent, "step 2" in sent, "step 6" in sent) == (True, False, True)
    assert server.refusals == []
    again = document(world, "compact", ran.done["session"], server=server, code=0)
    assert again["is_done"] or again["why"]


def test_compact_goes_without_a_model(world: World, served: Any) -> None:
    session = long_session(world, served)
    env = {name: value for name, value in world.env.items() if not name.endswith("_API_KEY")}
    made = document(world, "compact", session, env=env)
    assert (made["by"], "bash echo 2: ok" in made["summary"]) == ("a list of its calls", True)
    assert document(world, "compact", session, env=env)["is_done"] is False
    assert document(world, "compact", session, "--model", "openai/gpt-5", env=env, code=9)["error"]["kind"] == "auth"
    assert document(world, "verify", session)["ok"]


def suspended(world: World, served: Any) -> str:
    server = served([Turn(calls=[Call("bash", {"command": "echo ran >> log"})])])
    ran = world.run("-p", "MANGO", "--on-ask", "suspend", "--json", server=server).ended("suspended", 6)
    return str(ran.done["session"])


def test_a_fork_of_a_session_that_waits_asks_anew(world: World, served: Any) -> None:
    session = suspended(world, served)
    assert world.run("approvals", "approve", "--all").code == 0
    forked = document(world, "fork", session)
    assert forked["resume"] == f"agentctl -r {forked['session']}"
    rows = json.loads(world.run("approvals", "list", "--json").out)["approvals"]
    assert {row["session"]: row["state"] for row in rows} == {session: "granted", forked["session"]: "waiting"}
    assert len({row["id"] for row in rows}) == 2
    server = served([Turn(when="MANGO", text="went on", repeat=2)])
    world.run("-r", forked["session"], "--json", server=server).ended("suspended", 6)
    assert not (world.cwd / "log").exists()
    assert world.run("approvals", "approve", "--all", "-r", forked["session"]).code == 0
    for one in (forked["session"], session):
        world.run("-r", one, "--json", server=server).ended("completed", 0)
    assert (world.cwd / "log").read_text() == "ran\nran\n"


def test_a_fork_with_a_prompt_is_told_that_the_call_never_ran(world: World, served: Any) -> None:
    forked = document(world, "fork", suspended(world, served))
    server = served([Turn(when="nobody approved it.*other", text="understood")])
    ran = world.run("-r", forked["session"], "-p", "something other", "--json", server=server).ended("completed", 0)
    assert ran.done["text"] == "understood"


@pytest.mark.parametrize("way", ["the verb", "the flag"])
def test_a_fork_has_files_of_its_own_and_knows_where(world: World, served: Any, way: str) -> None:
    """The origin goes, and what its copy was shown is still there, under the path that stands in its history."""
    calls = [Call("bash", {"command": "seq 1 20000"}), Call("add_state", {"text": "the port is 4711"})]
    server = served([Turn(calls=calls), Turn(text="done"), Turn(text="forked")])
    session = world.run("-p", "MANGO", "--yolo", "--json", server=server).ended("completed", 0).done["session"]
    if way == "the verb":
        fork = document(world, "fork", session)["session"]
    else:
        fork = world.run("-c", "--fork", "-p", "x", "--json", server=server).ended("completed", 0).done["session"]
        assert session not in server.requests[-1].raw.decode()
    origin = journal_of(world, session)
    os.utime(origin, (1, 1))
    assert world.run("sessions", "prune").code == 0
    assert not origin.exists()
    assert world.run("state", "gc").code == 0
    assert not (world.cwd / ".agentctl/state" / session).exists()
    path = f".agentctl/state/{fork}/output/1.txt"
    reads = [Call("read_file", {"path": path, "offset": 9_999, "limit": 1}), Call("read_state", {})]
    server = served([Turn(when=path.replace(".", r"\."), calls=reads), Turn(when="9999.*4711", text="read")])
    ran = world.run("-r", fork, "-p", "read it", "--json", server=server).ended("completed", 0)
    assert ran.done["text"] == "read"
