"""The bash tool over real commands: what the model reads, what streams out while it runs, what is kept."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctl.core.errors import InvalidArguments
from agentctl.core.events import Event, ToolOutput
from agentctl.core.redact import Redactor
from agentctl.core.types import CommandEnd, CommandLine, CommandRun, Subject, ToolResult
from agentctl.sandbox.process import ProcessRunner
from agentctl.state.outputs import KeptOutputs
from agentctl.tools.command_output import LIVE_CHARS, readable
from agentctl.tools.shell import Bash, BashArguments
from tests.processes import alive, nap, wait_until

TOKEN = "ghp_0123456789abcdefAB"
SHELL = ("bash", "--noprofile", "--norc", "-c")


class Shell:
    """The tool with its parts, and everything it sent."""

    def __init__(self, root: Path, *, timeout_s: float = 20.0) -> None:
        self.root = root
        self.events: list[Event] = []
        self.on_event: Callable[[], None] = lambda: None
        self.redactor = Redactor({"GITHUB_TOKEN": TOKEN})
        self.runner = ProcessRunner({"PATH": os.environ["PATH"]})
        self.tool = Bash(
            runner=self.runner,
            outputs=KeptOutputs.for_session(root, "s1", is_ephemeral=False, redactor=self.redactor),
            emit=self.emit,
            redactor=self.redactor,
            root=str(root),
            shell=SHELL,
            default_timeout_s=timeout_s,
        )

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.on_event()

    async def run(self, **args: object) -> ToolResult:
        try:
            return await self.tool.run("c1", BashArguments.parse(args))
        finally:
            await self.runner.close()

    def live(self, stream: str) -> str:
        return "".join(event.chunk for event in self.events if isinstance(event, ToolOutput) and event.stream == stream)


def run(root: Path, command: str, **args: object) -> tuple[ToolResult, Shell]:
    async def main() -> tuple[ToolResult, Shell]:
        shell = Shell(root)
        return await shell.run(command=command, **args), shell

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("command", "content", "exit_code"),
    [
        ("echo hi", "exit: 0\nstdout:\nhi\n", 0),
        ("echo hi; echo no >&2; exit 3", "exit: 3\nstdout:\nhi\nstderr:\nno\n", 3),
        ("echo no >&2", "exit: 0\nstderr:\nno\n", 0),
        ("true", "exit: 0\n(no output)", 0),
        ("kill -SEGV $$", "exit: 139 (killed by SIGSEGV)\n(no output)", 139),
        ("cat; read x; echo $?", "exit: 0\nstdout:\n1\n", 0),
        ("printf 'a\\nb'", "exit: 0\nstdout:\na\nb", 0),
        ("printf 'ä\\377\\000z'", "exit: 0\nstdout:\nä\ufffd\ufffdz", 0),
        ("printf '10%%\\r50%%\\r100%%\\r\\ndone\\r\\n'", "exit: 0\nstdout:\n100%\ndone\n", 0),
        ("printf '\\033[31mred\\033[0m \\033]8;;http://x\\007link\\033]8;;\\007'", "exit: 0\nstdout:\nred link", 0),
        (f"echo {TOKEN[:9]}{TOKEN[9:]}", "exit: 0\nstdout:\n[masked:GITHUB_TOKEN]\n", 0),
    ],
)
def test_what_the_model_reads(tmp_path: Path, command: str, content: str, exit_code: int) -> None:
    result, _ = run(tmp_path, command)
    assert result == ToolResult(
        call_id="c1",
        content=content,
        summary=result.summary,
        exit_code=exit_code,
        command=CommandRun(command=command, exit_code=exit_code),
    )
    assert result.summary.startswith(f"exit: {exit_code}")
    assert not (tmp_path / ".agentctl").exists()


def test_it_runs_in_the_root(tmp_path: Path) -> None:
    assert run(tmp_path, "pwd")[0].content == f"exit: 0\nstdout:\n{tmp_path}\n"


def test_no_start_up_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("echo from BASH_ENV\n")
    assert run(tmp_path, "shopt -q login_shell; echo $?; echo $-")[0].content == "exit: 0\nstdout:\n1\nhBc\n"


def test_the_timeout_is_said_and_the_output_so_far_is_kept(tmp_path: Path) -> None:
    sleep = nap()
    result, _ = run(tmp_path, f"echo begun; {sleep}", timeout=1000)
    assert result.content == "exit: none (timed out after 1000 ms)\nstdout:\nbegun\n"
    assert not result.is_error
    assert not alive(sleep)
    assert (result.exit_code, result.command) == (None, CommandRun(command=f"echo begun; {sleep}", exit_code=None))


@pytest.mark.parametrize("code", [0, 9])
def test_what_a_command_answers_to_its_end_is_no_exit_code(code: int, tmp_path: Path) -> None:
    command = f"trap 'exit {code}' TERM; sleep 50 & wait"
    result, _ = run(tmp_path, command, timeout=1000)
    first = f"exit: none (timed out after 1000 ms; it answered SIGTERM with exit code {code})"
    assert result.content == f"{first}\n(no output)"
    assert (result.exit_code, result.command) == (None, CommandRun(command=command, exit_code=None))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"command": "x", "timeout": 999}, "timeout"),
        ({"command": "x", "timeout": 600_001}, "timeout"),
        ({"command": ""}, "command"),
        ({}, "command"),
        ({"command": "x", "cwd": "/"}, "cwd"),
    ],
)
def test_arguments_that_do_not_fit(args: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArguments, match=message):
        BashArguments.parse(args)


def test_the_command_is_what_the_policy_judges() -> None:
    assert Bash.definition.subjects({"command": "rm -rf x"}) == (Subject(kind="command", value="rm -rf x"),)


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        ("echo begun; ", "(output before it was killed:).\nstdout:\nbegun\n"),
        ("", "(no output before it was killed).\n(no output)"),
    ],
)
def test_interrupted(tmp_path: Path, before: str, shown: str) -> None:
    sleep = nap()

    async def main() -> ToolResult:
        shell = Shell(tmp_path)
        task = asyncio.create_task(shell.run(command=f"{before}{sleep} & {sleep}"))
        while len(alive(sleep)) < 2 or (before and not shell.events):
            await asyncio.sleep(0.01)
        assert shell.runner.interrupt() == 1
        return await task

    result = asyncio.run(main())
    said = "The command was interrupted. It did not finish, so its effects are unknown "
    assert (result.is_error, result.content) == (True, said + shown)
    assert not alive(sleep)


def test_cancelled_leaves_nothing(tmp_path: Path) -> None:
    sleep = nap()

    async def main() -> None:
        shell = Shell(tmp_path)
        task = asyncio.create_task(shell.run(command=f"echo begun; {sleep}"))
        while not shell.events:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert wait_until(lambda: not alive(sleep))


def test_output_is_live_while_the_command_runs(tmp_path: Path) -> None:
    async def main() -> Shell:
        shell = Shell(tmp_path)
        fifo = tmp_path / "go"
        os.mkfifo(fifo)
        task = asyncio.create_task(shell.run(command="echo first; read x < go; echo $x >&2"))
        while not shell.events:
            await asyncio.sleep(0.01)
        assert shell.events == [ToolOutput(id="c1", stream="stdout", chunk="first\n")]
        await asyncio.to_thread(fifo.write_text, "second\n")
        await task
        return shell

    shell = asyncio.run(main())
    assert shell.events[1:] == [ToolOutput(id="c1", stream="stderr", chunk="second\n")]


def test_quick_output_comes_in_few_events_and_in_order(tmp_path: Path) -> None:
    result, shell = run(tmp_path, "for i in $(seq 2000); do echo $i; done")
    assert shell.live("stdout") == "".join(f"{n}\n" for n in range(1, 2001))
    assert len(shell.events) < 50
    assert result.content == "exit: 0\nstdout:\n" + shell.live("stdout")


def test_a_secret_in_two_writes_is_masked_live_and_in_the_result(tmp_path: Path) -> None:
    result, shell = run(tmp_path, f"printf 'a {TOKEN[:7]}'; sleep 0.2; printf '{TOKEN[7:]} b'")
    assert shell.live("stdout") == "a [masked:GITHUB_TOKEN] b"
    assert result.content == "exit: 0\nstdout:\na [masked:GITHUB_TOKEN] b"


def test_long_output_is_cut_and_kept_whole(tmp_path: Path) -> None:
    result, _ = run(tmp_path, f"seq 100000; echo {TOKEN}; echo end; seq 1000 >&2")
    assert result.is_truncated
    assert len(result.content) <= 30_000
    assert result.content.startswith("exit: 0\nstdout:\n1\n2\n3\n")
    assert re.search(r"\n\.\.\. \[\d{3},\d{3} characters left out\] \.\.\.\n", result.content)
    assert "\n[masked:GITHUB_TOKEN]\nend\nstderr:\n1\n2\n" in result.content
    assert result.content.endswith("\n999\n1000\n[The whole output is in .agentctl/state/s1/output/1.txt]")
    kept = (tmp_path / ".agentctl/state/s1/output/1.txt").read_text()
    out = "".join(f"{n}\n" for n in range(1, 100_001)) + "[masked:GITHUB_TOKEN]\nend\n"
    err = "".join(f"{n}\n" for n in range(1, 1001))
    assert sorted(kept.splitlines()) == sorted((out + err).splitlines())


def test_both_streams_have_their_share(tmp_path: Path) -> None:
    result, _ = run(tmp_path, "yes out | head -n 20000; yes err | head -n 20000 >&2")
    out, err = result.content.split("\nstderr:\n")
    assert 18_000 < len(out) < 21_000
    assert 9_000 < len(err) < 11_000
    assert len(result.content) <= 30_000


def test_the_whole_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / ".agentctl").write_text("a file in the way")
    result, _ = run(tmp_path, "seq 100000")
    assert result.content.endswith("[The whole output could not be kept.]")
    assert result.exit_code == 0


def test_a_flood_is_bounded_everywhere(tmp_path: Path) -> None:
    started = time.monotonic()
    result, shell = run(tmp_path, f"yes | head -c 150000000; echo {TOKEN} the end")
    assert time.monotonic() - started < 9
    assert len(result.content) <= 30_000
    assert result.content.endswith(
        "y\n[masked:GITHUB_TOKEN] the end\n[The whole output is in .agentctl/state/s1/output/1.txt]"
    )
    assert re.search(r"\[149,\d{3},\d{3} bytes left out\]", result.content)
    kept = tmp_path / ".agentctl/state/s1/output/1.txt"
    assert kept.stat().st_size <= 64 * 1024 * 1024 + 100
    assert LIVE_CHARS <= len(shell.live("stdout")) < LIVE_CHARS + 100
    assert shell.live("stdout").endswith("\n[no more live output of this command]\n")


def test_a_command_that_cannot_be_started_is_a_failure_that_the_model_reads(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cwd"):
        run(tmp_path / "gone", "true")


def test_an_end_that_nobody_saw_is_an_error(tmp_path: Path) -> None:
    class Lost:
        async def run(self, command: CommandLine, sink: Callable[[str, bytes], None]) -> CommandEnd:
            sink("stdout", b"half")
            return CommandEnd(exit_code=None)

        def interrupt(self) -> int:
            return 0

    redactor = Redactor({})
    outputs = KeptOutputs.for_session(tmp_path, "s", is_ephemeral=False, redactor=redactor)
    tool = Bash(runner=Lost(), outputs=outputs, emit=lambda _: None, redactor=redactor, root=str(tmp_path), shell=SHELL)
    result = asyncio.run(tool.run("c", BashArguments(command="x")))
    assert result.is_error
    assert result.content == (
        "The command ended in a way that could not be seen. It did not finish, so its effects are unknown "
        "(output before it was killed:).\nstdout:\nhalf"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("1%\r2%\r3%", "3%"),
        ("x\ry\n\rz", "y\nz"),
        ("keep\r", "keep"),
        ("\x1b[1;31mA\x1b[K\x1b(B\x1b]0;title\x07B\x1bPq\x1b\\C", "ABC"),
        ("tab\tnew\n", "tab\tnew\n"),
        ("\x00\x08\x7f\x9b", "\ufffd" * 4),
    ],
)
def test_readable(text: str, expected: str) -> None:
    assert readable(text) == expected
