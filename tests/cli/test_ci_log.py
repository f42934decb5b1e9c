"""On GitHub Actions the log is obeyed: what a model or a service says must never be a command there."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cli.conftest import Ran, World, finish
from tests.server import Call, Fault, Turn

KNOWN = {
    "set-env", "add-path", "set-output", "save-state", "add-mask", "error", "warning", "notice", "debug", "group",
    "endgroup", "echo", "stop-commands", "add-matcher", "remove-matcher",
}  # fmt: skip
EVIL = [
    "::set-output name=x::y",
    "  ::Set-Env name=PATH::/evil",
    "\t::add-path::/evil",
    "all is well\r::add-mask::a",
    "text ##[set-env name=PATH]/evil",
    "##[group]x",
    "::stop-commands::0123",
    "::0123::",
    "\u00a0::error::x",
    "\x1b[2K::warning::x",
    "%0A::debug::x",
]


def commands(data: bytes) -> tuple[list[str], bool]:
    """What the runner would do with this stream, and whether it still obeys at the end.

    Lines end at LF and CR. `::name …::` counts behind white space, `##[name …]` anywhere; after `::stop-commands::T`
    only `::T::` is obeyed.
    """
    found: list[str] = []
    stopped = ""
    for line in re.split(r"\r\n|\r|\n", data.decode("utf-8", "replace")):
        text = line.strip()
        if stopped:
            stopped = "" if text.lower() == f"::{stopped.lower()}::" else stopped
            continue
        match = re.match(r"::([\w-]+)( [^:]*)?::(.*)", text) or re.search(r"##\[([\w-]+)( [^\]]*)?\](.*)", text)
        if match and match[1].lower() == "stop-commands":
            stopped = match[3]
        elif match and match[1].lower() in KNOWN:
            found.append(text)
    return found, not stopped


def test_the_reader_of_this_test_obeys() -> None:
    """Otherwise nothing below could fail."""
    for line in EVIL[:6]:
        assert commands(line.encode())[0] == [re.split("\r", line)[-1].strip()]
    assert commands(b"::stop-commands::t\n::error::x\n::t::\n::error::y\n") == (["::error::y"], True)


@pytest.fixture
def actions(world: World) -> World:
    world.env["GITHUB_ACTIONS"] = "true"
    return world


@pytest.mark.parametrize("words", [[], ["--debug"], ["--json"], ["--format", "json"]])
def test_an_answer_and_its_tools_are_no_commands(actions: World, served: Any, words: list[str]) -> None:
    text = "\n".join(EVIL)
    (actions.cwd / "evil.txt").write_text(text)
    calls = [
        Call("bash", {"command": "cat evil.txt; cat evil.txt >&2"}),
        Call("read_file", {"path": text}),
        Call(text, {"path": text}),
        Call("todo_write", {"todos": [{"content": text, "status": "pending"}]}),
    ]
    server = served([Turn(text=text, calls=calls), Turn(text=text)])
    ran = actions.run("-p", "x", "--yolo", *words, server=server)
    assert ran.code == 0
    for stream in (ran.out, ran.err.encode()):
        assert commands(stream) == ([], True)
    if words in ([], ["--debug"]):
        assert ran.err.startswith("::stop-commands::")
        assert b": :set-output name=x: :y" not in ran.out  # only the beginning of a line is touched
        assert b": :set-output name=x::y" in ran.out
    else:
        assert json.loads(ran.out.splitlines()[-1])["text"] == text  # a program reads exactly what was said


def test_a_failure_is_no_command(actions: World, served: Any) -> None:
    body = {"error": {"message": "no\n::add-mask::a\r::error::b", "type": "invalid_request_error"}}
    for words in ([], ["--json"], ["--quiet"]):
        ran = actions.run("-p", "x", *words, server=served([Turn(fault=Fault(status=400, body=body))]))
        assert ran.code == 8
        assert [commands(stream) for stream in (ran.out, ran.err.encode())] == [([], True)] * 2
    ran = actions.run("-p", "x", "\n::error::z")
    assert (ran.code, commands(ran.err.encode())) == (2, ([], True))


def tokens(ran: Ran) -> list[str]:
    return re.findall(r"(?m)^::stop-commands::(.*)$", ran.err)


def test_the_token_is_long_random_and_ends_the_fence(actions: World, served: Any) -> None:
    seen = []
    for _ in range(2):
        ran = actions.run("-p", "x", server=served([Turn(text="ok")]))
        (token,) = tokens(ran)
        assert len(token) >= 32
        assert ran.err.endswith(f"\n::{token}::\n")
        seen.append(token)
    assert seen[0] != seen[1]


def test_nothing_said_nothing_fenced(actions: World, served: Any) -> None:
    assert actions.run("-p", "x", "--quiet", server=served([Turn(text="ok")])).err == ""


def test_a_signal_ends_the_fence_too(actions: World, served: Any) -> None:
    server = served([Turn(calls=[Call("bash", {"command": "echo started; sleep 60"})]), Turn(text="never")])
    process = actions.start("-p", "x", "--yolo", server=server)
    for line in process.stderr:
        if b"bash echo" in line:
            break
    process.terminate()
    ran = finish(process)
    assert ran.code == 143
    assert re.search(r"\n::[0-9a-f]{32,}::\n$", ran.err)


def test_elsewhere_nothing_is_touched(world: World, served: Any) -> None:
    text = "::set-output name=x::y\n##[group]x"
    ran = world.run("-p", "x", server=served([Turn(text=text)]))
    assert ran.out.decode() == text + "\n"
    assert "stop-commands" not in ran.err


def test_an_answer_for_people_controls_no_terminal(world: World, served: Any) -> None:
    """Colours, links, clipboard, title, 8-bit controls: gone in text, exact in JSON."""
    text = "a\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07 \x1b]52;c;YQ==\x07 \x1bP1q\x1b\\ \x9b2J b\tc\nd"
    ran = world.run("-p", "x", server=served([Turn(text=text)]))
    assert ran.out.decode() == "ared link   2J b\tc\nd\n"
    assert "\x1b" not in ran.err
    ran = world.run("-p", "x", "--json", server=served([Turn(text=text)])).ended("completed", 0)
    assert ran.done["text"] == text
    assert b"\x1b" not in ran.out
