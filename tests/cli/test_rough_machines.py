"""Machines that lack something: a home, room on the disk, descriptors, a locale, a terminal, somebody who reads."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ran, World, finish
from tests.server import Call, Server, Turn
from tests.unit.policy.shell_oracle import find_bwrap

READS = [Turn(calls=[Call("read_file", {"path": "a.txt"})]), Turn(text="read ä€😀")]


@pytest.fixture
def world(world: World) -> World:
    (world.cwd / "a.txt").write_text("hello\n")
    return world


def run_in(world: World, wrapper: list[str], *words: str, server: Server, **kwargs: Any) -> Ran:
    """The command behind another program: bwrap, setpriv, a shell."""
    command = [*wrapper, *world.command(*words, server=server)]
    process = subprocess.Popen(
        command, cwd=world.cwd, env=world.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True, **kwargs,
    )  # fmt: skip
    return finish(process)


# --- no home, no room -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", [None, "/dev/null/home", "/proc", ""], ids=str)
def test_without_a_home(world: World, served: Any, home: str | None) -> None:
    """Where sessions go then stands in tests/cli/test_session_places.py."""
    if home is None:
        del world.env["HOME"]
        world.env["XDG_STATE_HOME"] = world.env["XDG_CACHE_HOME"] = str(world.home)  # not those of who runs the tests
    else:
        world.env["HOME"] = home
    if home == "":
        world.env.update(dict.fromkeys(("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"), "/dev/null/x"))
    ran = world.run("-p", "x", "--json", server=served(READS)).ended("completed", 0)
    assert "Traceback" not in ran.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user that has no name")
def test_a_user_without_a_name(world: World, served: Any) -> None:
    for path in (world.cwd.parent, *world.cwd.parents):
        if path.stat().st_uid == 0 and str(path).startswith("/tmp/pytest"):
            path.chmod(0o755)
    for path in (world.cwd, world.home):
        os.chown(path, 54321, 54321)
    if not all(os.access(part, os.X_OK) and part.stat().st_mode & 1 for part in Path(sys.executable).resolve().parents):
        pytest.skip("this Python lies in a folder that only its owner may enter")
    del world.env["HOME"]
    world.env["AGENTCTL_HOME"] = str(world.home)
    wrapper = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"]
    ran = run_in(world, wrapper, "-p", "x", "--json", server=served(READS)).ended("completed", 0)
    assert ran.events[0]["problems"] == []


def test_on_a_read_only_system_with_a_writable_workspace(world: World, served: Any) -> None:
    calls = [Call("write_file", {"path": "b", "content": "x"}), Call("bash", {"command": "echo y > c; seq 9000"})]
    server = served([Turn(calls=calls), Turn(text="ok")])
    wrapper = [find_bwrap(), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    wrapper += ["--bind", str(world.cwd), str(world.cwd), "--"]
    ran = run_in(world, wrapper, "-p", "x", "--json", "--yolo", server=server).ended("completed", 0)
    assert [event["type"] for event in ran.of("tool-result", "tool-error")] == ["tool-result"] * 2
    assert "session-not-saved" in [problem["code"] for problem in ran.events[0]["problems"]]
    assert sorted(path.name for path in world.cwd.iterdir() if path.name != ".agentctl") == ["a.txt", "b", "c"]


def test_on_a_full_disk_writes_say_so_and_reads_go_on(world: World, served: Any) -> None:
    (world.cwd / "small").mkdir()
    calls = [
        Call("write_file", {"path": "small/big", "content": "x" * 300_000}),
        Call("bash", {"command": "head -c 300000 /dev/zero > small/zeros"}),
        Call("read_file", {"path": "a.txt"}),
        Call("write_file", {"path": "ok", "content": "fits"}),
    ]
    server = served([Turn(calls=calls), Turn(text="ok")])
    wrapper = [find_bwrap(), "--bind", "/", "/", "--dev", "/dev", "--size", "100000", "--tmpfs"]
    wrapper += [str(world.cwd / "small"), "--"]
    ran = run_in(world, wrapper, "-p", "x", "--json", "--yolo", server=server).ended("completed", 0)
    written, command, read, other = ran.of("tool-result", "tool-error")
    assert (written["type"], "No space left on device" in written["error"]) == ("tool-error", True)
    assert "No space left on device" in command["output"]
    assert [read["type"], other["type"]] == ["tool-result"] * 2


def test_a_session_that_a_full_disk_sent_elsewhere_goes_on_there(world: World, served: Any) -> None:
    full = world.home / "full"
    full.mkdir()
    world.env |= {"AGENTCTL_HOME": str(full), "TMPDIR": str(world.home)}
    server = served([Turn(text="one"), Turn(when="MANGO.*one", text="two"), Turn(when="one.*two", text="three")])
    one_page = [find_bwrap(), "--bind", "/", "/", "--dev", "/dev", "--size", "4096", "--tmpfs", str(full), "--"]
    words = ("-p", "MANGO", "--json", "--session-key", "k")
    for text in ("one", "two", "three"):
        ran = run_in(world, one_page, *words, server=server).ended("completed", 0)
        assert ran.done["text"] == text
        assert [event["code"] for event in ran.of("notice")] == ["temporary-store"]


def test_a_limit_on_the_size_of_files_is_an_error_result(world: World, served: Any) -> None:
    calls = [
        Call("write_file", {"path": "big", "content": "x" * 400_000}),
        Call("bash", {"command": "head -c 400000 /dev/zero > zeros"}),
        Call("read_file", {"path": "a.txt"}),
    ]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # noqa: E731  # runs in the child
    server = served([Turn(calls=calls), Turn(text="ok")])
    process = world.start("-p", "x", "--json", "--yolo", "--ephemeral", server=server, preexec_fn=limit)
    written, command, read = finish(process).ended("completed", 0).of("tool-result", "tool-error")
    assert (written["type"], "File too large" in written["error"]) == ("tool-error", True)
    assert command["exit_code"] != 0
    assert read["type"] == "tool-result"
    assert not (world.cwd / "big").exists()


def test_with_few_descriptors_nothing_breaks(world: World, served: Any) -> None:
    for number in range(30):
        (world.cwd / f"{number}.txt").write_text("text\n")
    calls = [Call("read_file", {"path": f"{number}.txt"}) for number in range(30)]
    calls += [Call("bash", {"command": "echo hi"}) for _ in range(3)]
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))  # noqa: E731  # runs in the child
    process = world.start(
        "-p", "x", "--json", "--yolo", server=served([Turn(calls=calls), Turn(text="ok")]), preexec_fn=limit
    )
    ran = finish(process).ended("completed", 0)
    assert "Traceback" not in ran.err
    assert len(ran.of("tool-call")) == len(ran.of("tool-result", "tool-error"))
    for event in ran.of("tool-error"):
        assert "Too many open files" in event["error"]


def test_a_command_gets_no_descriptor_of_ours(world: World, served: Any) -> None:
    command = Call("bash", {"command": "ls /proc/self/fd; readlink /proc/self/fd/0"})
    server = served([Turn(calls=[command]), Turn(text="ok")])
    with (world.cwd / "a.txt").open() as extra:
        high = fcntl.fcntl(extra.fileno(), fcntl.F_DUPFD, 77)
        process = world.start("-p", "x", "--json", "--yolo", server=server, pass_fds=(high,))
    os.close(high)
    (result,) = finish(process).ended("completed", 0).of("tool-result")
    assert result["output"].split("stdout:\n")[1].split() == ["0", "1", "2", "3", "/dev/null"]  # 3 is the listing


def test_a_killed_command_is_said_as_such(world: World, served: Any) -> None:
    """What the kernel does when memory runs out."""
    server = served([Turn(calls=[Call("bash", {"command": "echo before; kill -9 $$"})]), Turn(text="ok")])
    (result,) = world.run("-p", "x", "--json", "--yolo", server=server).ended("completed", 0).of("tool-result")
    assert result["exit_code"] == 137
    assert "killed by SIGKILL" in result["output"]


def test_a_command_without_memory_fails_and_the_session_loads(world: World, served: Any) -> None:
    line = "ulimit -v 200000; python3 -c 'print(len(bytearray(400_000_000)))'"
    server = served([Turn(calls=[Call("bash", {"command": line})]), Turn(text="ok", repeat=-1)])
    (result,) = world.run("-p", "x", "--json", "--yolo", server=server).ended("completed", 0).of("tool-result")
    assert "MemoryError" in result["output"]
    world.run("-c", "-p", "y", "--json", server=server).ended("completed", 0)


# --- broken files of our own ------------------------------------------------------------------------------------------


def test_an_empty_policy_is_refused_and_an_empty_session_is_named(world: World, served: Any) -> None:
    server = served([Turn(text="ok", repeat=-1)])
    (world.cwd / ".agentctl").mkdir()
    policy = world.cwd / ".agentctl" / "policy.toml"
    policy.write_bytes(b"")
    ran = world.run("-p", "x", "--json", server=server).ended("usage", 2)
    assert "policy.toml" in ran.err
    policy.unlink()
    world.run("-p", "x", "--json", server=server).ended("completed", 0)
    (journal,) = world.home.rglob("*.jsonl")
    (lock,) = world.home.rglob("*.lock")
    journal.write_bytes(b"")
    lock.write_bytes(b"")
    listed = world.run("sessions", "list", "--json")
    assert (listed.code, journal.name in listed.out.decode()) == (0, True)
    world.run("--continue-or-new", "-p", "x", "--json", server=server).ended("completed", 0)


def test_a_broken_session_does_not_pile_up_files(world: World, served: Any) -> None:
    server = served([Turn(text="ok", repeat=-1)])
    world.run("-p", "x", "--json", server=server).ended("completed", 0)
    (journal,) = world.home.rglob("*.jsonl")
    journal.write_bytes(b"\0" * 4096)
    before = sorted(path for path in world.home.rglob("*") if path.is_file())
    for _ in range(3):
        assert world.run("-c", "-p", "x", "--json", server=server).done["ended"] == "usage"
    assert sorted(path for path in world.home.rglob("*") if path.is_file()) == before
    assert journal.read_bytes() == b"\0" * 4096


def test_two_records_on_one_line_are_not_dropped_in_silence(world: World, served: Any) -> None:
    server = served([Turn(text="first"), Turn(text="second"), Turn(text="third")])
    world.run("-p", "one", "--json", server=server).ended("completed", 0)
    (journal,) = world.home.rglob("*.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join((lines[0], lines[1].rstrip(b"\n"), *lines[2:])))
    ran = world.run("-c", "-p", "two", "--json", server=server)
    said = json.dumps(ran.events[0]["problems"] or []) + ran.err + json.dumps(server.requests[-1].body)
    assert "first" in said or journal.name in said or "record" in said


def test_a_session_of_a_newer_version_is_named(world: World, served: Any) -> None:
    server = served([Turn(text="ok", repeat=-1)])
    world.run("-p", "x", "--json", server=server).ended("completed", 0)
    (journal,) = world.home.rglob("*.jsonl")
    text = journal.read_text()
    journal.write_text(text.replace('"format":1', '"format":99'))
    assert world.run("-c", "-p", "y", "--json", server=server).done["ended"] == "usage"
    assert journal.stem in world.run("sessions", "list", "--json").out.decode()
    journal.write_text(text.replace('"record":"end"', '"record":"of-the-future"'))
    world.run("-c", "-p", "y", "--json", server=server).ended("completed", 0)


# --- locale, terminal, streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "cp1252"}],
    ids=lambda env: "-".join(env),
)
def test_utf_8_whatever_the_locale_says(world: World, served: Any, env: dict[str, str]) -> None:
    (world.cwd / "ä.txt").write_bytes("grüße 😀\n".encode())
    world.env.update(env)
    calls = [Call("read_file", {"path": "ä.txt"}), Call("bash", {"command": "cat ä.txt; echo ü"})]
    server = served([Turn(calls=calls), Turn(text="fertig 😀")])
    ran = world.run("-p", "lies ä", "--json", "--yolo", server=server).ended("completed", 0)
    assert ran.done["text"] == "fertig 😀"
    assert all("grüße 😀" in event["output"] for event in ran.of("tool-result"))
    assert "lies ä" in json.dumps(server.requests[0].body, ensure_ascii=False)
    text = world.run("-p", "x", server=served([Turn(text="fertig 😀")]))
    assert text.out == "fertig 😀\n".encode()
    assert b"\r" not in text.out


def test_without_a_terminal_nothing_is_coloured_or_asked(world: World, served: Any) -> None:
    world.env.pop("TERM", None)
    ran = world.run("-p", "x", server=served(READS))
    assert (ran.code, "\x1b" in ran.err, "\r" in ran.err, b"\x1b" in ran.out) == (0, False, False, False)


def test_bytes_that_are_no_text_in_an_argument(world: World, served: Any) -> None:
    server = served([Turn(text="ok", repeat=-1)])
    process = subprocess.Popen(
        [*world.command("--json", server=server), "-p", b"odd \xff\xfe bytes"], cwd=world.cwd, env=world.env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    ran = finish(process)
    assert ran.done["ended"] in ("completed", "usage")
    assert "Traceback" not in ran.err
    long = world.run("-p", "word " * 26_000, "--json", server=server).ended("completed", 0)
    assert long.done["steps"] == 1


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_stdout_that_is_closed_from_the_start(world: World, served: Any, closed: str) -> None:
    """No traceback, nothing of ours in a file that happens to get the number 1, and an end."""
    command = " ".join(world.command("-p", "x", "--json", server=served([Turn(text="ok", repeat=-1)])))
    line = f"exec {command} {closed}"
    done = subprocess.run(["bash", "-c", line], cwd=world.cwd, env=world.env, capture_output=True, timeout=20)
    assert done.returncode not in (0, -6, -11)
    assert b"Traceback" not in done.stderr
    for path in (*world.home.rglob("*"), *world.cwd.rglob("*")):
        assert not path.is_file() or b'"type":"init"' not in path.read_bytes()


def test_head_ends_the_run_quietly(world: World, served: Any) -> None:
    server = served([Turn(text="x " * 3000, delta=20, pause_s=0.01)])
    command = " ".join(world.command("-p", "x", "--json", server=server))
    line = f"{command} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=world.cwd, env=world.env, capture_output=True, text=True, timeout=20
    )
    first, code = done.stdout.splitlines()
    assert json.loads(first)["type"] == "init"
    assert code == "141"
    assert "Traceback" not in done.stderr


def test_stdout_stays_json_whatever_python_has_to_say(world: World, served: Any) -> None:
    """Warnings, the development mode and its resource checks speak on stderr."""
    world.env.update({"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "always", "PYTHONASYNCIODEBUG": "1"})
    calls = [Call("bash", {"command": "echo hi"}), Call("read_file", {"path": "a.txt"})]
    ran = world.run("-p", "x", "--json", "--yolo", server=served([Turn(calls=calls), Turn(text="ok")]))
    ran.ended("completed", 0)
    assert re.findall(r"ResourceWarning|never awaited", ran.err) == []


def test_an_emoji_at_every_edge_stays_whole(world: World, served: Any) -> None:
    """Wherever a result is cut, no half character comes out."""
    for name, text in {"line": "😀" * 3000, "wide": "😀" * 40_000, "hits": "x" + "😀" * 400}.items():
        (world.cwd / name).write_text(text + "\n")
    calls = [
        Call("read_file", {"path": "line"}),
        Call("bash", {"command": "cat wide"}),
        Call("grep", {"pattern": "^x"}),
    ]
    server = served([Turn(calls=calls), Turn(text="ok")])
    ran = world.run("-p", "x", "--json", "--yolo", server=server).ended("completed", 0)
    for event in ran.of("tool-result"):
        assert "😀" in event["output"]
        assert "\ufffd" not in event["output"]
        event["output"].encode("utf-8", "strict")
