"""Real commands: what they are given, how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentctl.core.spawn import ProgramMissing
from agentctl.core.types import CommandEnd, CommandLine
from agentctl.sandbox.process import ProcessRunner
from tests.processes import alive, nap, wait_until

ROOT = Path(__file__).parents[3]
ENV = {"PATH": os.environ["PATH"], "HOME": "/", "LANG": "C.UTF-8"}


class Heard:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.out = b""
        self.err = b""

    def __call__(self, stream: str, chunk: bytes) -> None:
        if stream == "stdout":
            self.out += chunk
        else:
            self.err += chunk


def with_runner(work: Callable[[ProcessRunner], Awaitable[None]], env: dict[str, str] = ENV) -> None:
    async def main() -> None:
        runner = ProcessRunner(env)
        try:
            await work(runner)
        finally:
            await runner.close()

    asyncio.run(main())


def line(script: str, *, timeout_s: float = 20, cwd: str = "/", shell: str = "bash") -> CommandLine:
    return CommandLine(argv=(shell, "-c", script), cwd=cwd, timeout_s=timeout_s)


def run_one(command: CommandLine, env: dict[str, str] = ENV) -> tuple[CommandEnd, Heard, float]:
    """The end of one command, its output, and the seconds it took."""
    heard = Heard()
    ends = []
    started = time.monotonic()

    async def work(runner: ProcessRunner) -> None:
        ends.append(await runner.run(command, heard))

    with_runner(work, env)
    return ends[0], heard, time.monotonic() - started


@pytest.mark.parametrize(
    ("script", "expected", "out", "err"),
    [
        ("echo hi; echo no >&2; exit 3", CommandEnd(exit_code=3), b"hi\n", b"no\n"),
        ("kill -KILL $$", CommandEnd(exit_code=None, signal=9), b"", b""),
        ("cat; read line; echo $?", CommandEnd(exit_code=0), b"1\n", b""),
        ("readlink /proc/self/fd/0", CommandEnd(exit_code=0), b"/dev/null\n", b""),
        ("ls /proc/self/fd | wc -w", CommandEnd(exit_code=0), b"4\n", b""),  # 0, 1, 2 and the listing itself
        ("(exec 3</dev/tty) 2>/dev/null; echo $?", CommandEnd(exit_code=0), b"1\n", b""),
        ("trap '' PIPE; trap", CommandEnd(exit_code=0), b"trap -- '' SIGPIPE\n", b""),
        ("trap", CommandEnd(exit_code=0), b"", b""),  # no signal is ignored
    ],
)
def test_what_a_command_is_given_and_how_it_ends(script: str, expected: CommandEnd, out: bytes, err: bytes) -> None:
    end, heard, _ = run_one(line(script))
    assert (end, heard.out, heard.err) == (expected, out, err)


def test_the_environment_is_exactly_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-live-1234")
    command = CommandLine(argv=("env",), cwd="/", timeout_s=5, env={"HOME": "/x", "EXTRA": "ä"})
    _, heard, _ = run_one(command, {**ENV, "GIVEN": "1"})
    said = dict(row.split("=", 1) for row in heard.out.decode().splitlines())
    assert said == {**ENV, "GIVEN": "1", "HOME": "/x", "EXTRA": "ä"}


def test_it_leads_its_own_session_in_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    _, heard, _ = run_one(line("echo $$; cut -d ' ' -f 5,6 /proc/$$/stat; pwd", cwd=str(tmp_path)))
    pid, ids, folder = heard.out.decode().splitlines()
    assert (ids, folder) == (f"{pid} {pid}", str(tmp_path))


@pytest.mark.parametrize(
    ("script", "seconds"),
    [
        ("{nap} & echo started", 2.0),  # holds the pipes: drained for 2 s
        ("{nap} </dev/null >/dev/null 2>&1 & echo started", 0.0),
        ("nohup {nap} >/dev/null 2>&1 & echo started", 0.0),
        ("setsid {nap} >/dev/null 2>&1 & echo started", 0.0),
        ("(setsid sh -c '{nap} & {nap}; true' >/dev/null 2>&1 &); echo started", 0.0),  # a double fork
    ],
)
def test_the_end_of_the_command_is_the_end_of_its_tree(script: str, seconds: float) -> None:
    sleep = nap()
    end, heard, took = run_one(line(script.replace("{nap}", sleep)))
    assert (end, heard.out) == (CommandEnd(exit_code=0), b"started\n")
    assert seconds <= took < 8
    assert not alive(sleep)


@pytest.mark.parametrize(
    ("script", "signals"),
    [
        ("echo begun; {nap}", {15}),
        ("trap '' TERM; echo begun; {nap}; {nap}", {9}),
        ("trap '' TERM; echo begun; setsid {nap} & {nap} & while :; do {nap}; done", {9}),
        ("echo begun; setsid {nap} & wait", {15}),
    ],
)
def test_the_timeout_ends_the_tree(script: str, signals: set[int]) -> None:
    sleep = nap()
    end, heard, took = run_one(line(script.replace("{nap}", sleep), timeout_s=1.5))
    assert (end.is_timed_out, end.exit_code, end.signal in signals) == (True, None, True)
    assert heard.out == b"begun\n"
    assert took < 6
    assert not alive(sleep)


def test_a_command_may_clean_up_on_term() -> None:
    end, heard, _ = run_one(line("trap 'echo cleaned; exit 7' TERM; sleep 60 & wait", timeout_s=1.5))
    assert (end, heard.out) == (CommandEnd(exit_code=7, is_timed_out=True), b"cleaned\n")


def test_interrupt_stops_every_running_command_and_the_runner_goes_on() -> None:
    sleep = nap()

    async def work(runner: ProcessRunner) -> None:
        heard = Heard()
        tasks = [asyncio.create_task(runner.run(line(f"echo begun; {sleep} & {sleep}"), heard)) for _ in range(2)]
        while heard.out.count(b"begun") < 2:
            await asyncio.sleep(0.01)
        assert (runner.interrupt(), runner.interrupt()) == (2, 0)
        ends = await asyncio.gather(*tasks)
        assert ends == [CommandEnd(exit_code=None, signal=15, is_interrupted=True)] * 2
        assert not alive(sleep)
        assert await runner.run(line("exit 4"), heard) == CommandEnd(exit_code=4)

    with_runner(work)


def test_cancelling_the_task_ends_the_tree() -> None:
    sleep = nap()

    async def work(runner: ProcessRunner) -> None:
        heard = Heard()
        task = asyncio.create_task(
            runner.run(line(f"trap '' TERM; echo begun; setsid {sleep} & {sleep}; {sleep}"), heard)
        )
        while not heard.out:
            await asyncio.sleep(0.01)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - started < 5
        assert not alive(sleep)

    with_runner(work)


def test_closing_the_runner_ends_what_still_runs() -> None:
    sleep = nap()

    async def work(runner: ProcessRunner) -> None:
        heard = Heard()
        task = asyncio.create_task(runner.run(line(f"echo begun; setsid {sleep} & {sleep}"), heard))
        while not heard.out:
            await asyncio.sleep(0.01)
        await runner.close()
        assert not alive(sleep)
        assert (await task).signal == 9

    with_runner(work)


def test_twenty_commands_at_once_keep_apart() -> None:
    async def work(runner: ProcessRunner) -> None:
        heard = [Heard() for _ in range(20)]
        lines = [
            line(f"(setsid sleep 0.3 &) >/dev/null; for i in 1 2 3; do echo {n}; done; exit {n}") for n in range(20)
        ]
        ends = await asyncio.gather(*map(runner.run, lines, heard))
        assert [end.exit_code for end in ends] == list(range(20))
        assert [sink.out for sink in heard] == [f"{n}\n".encode() * 3 for n in range(20)]

    with_runner(work)


def test_a_daemon_of_another_command_lives_on() -> None:
    sleep = nap()

    async def work(runner: ProcessRunner) -> None:
        heard = Heard()
        server = asyncio.create_task(runner.run(line(f"(setsid {sleep} &) >/dev/null; echo up; sleep 60"), heard))
        while not heard.out or not alive(sleep):
            await asyncio.sleep(0.01)
        await runner.run(line("true"), heard)
        assert len(alive(sleep)) == 1
        runner.interrupt()
        await server
        assert not alive(sleep)

    with_runner(work)


def test_both_pipes_are_drained_whatever_comes() -> None:
    end, heard, _ = run_one(
        line("head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero; head -c 100000 /dev/zero >&2")
    )
    assert (end, len(heard.out), len(heard.err)) == (CommandEnd(exit_code=0), 3_000_000, 3_100_000)


def test_a_flood_leaves_the_loop_free_and_the_memory_flat() -> None:
    script = """
import asyncio, resource, sys
from agentctl.core.types import CommandLine
from agentctl.sandbox.process import ProcessRunner

async def main():
    runner, sizes, ticks = ProcessRunner({"PATH": sys.argv[1]}), [0], [0]
    async def tick():
        while True:
            await asyncio.sleep(0.01)
            ticks[0] += 1
    def count(stream, chunk):
        sizes[0] += len(chunk)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ticking = asyncio.create_task(tick())
    await runner.run(CommandLine(argv=("sh", "-c", "yes | head -c 300000000"), cwd="/", timeout_s=60), count)
    ticking.cancel()
    await runner.close()
    print(sizes[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, ticks[0])

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, os.environ["PATH"]], capture_output=True, cwd=ROOT, timeout=60, check=True
    )
    size, grown_kb, ticks = map(int, done.stdout.split())
    assert size == 300_000_000
    assert grown_kb < 10_000
    assert ticks >= 2


@pytest.mark.parametrize("kills", ["the process", "its group"])
@pytest.mark.parametrize(
    "script", ["{nap} & {nap}; true", "(setsid {nap} &) >/dev/null; trap '' TERM HUP; {nap}; true"]
)
def test_kill_9_takes_the_commands_along(kills: str, script: str) -> None:
    sleep = nap()
    code = """
import asyncio, sys
from agentctl.core.types import CommandLine
from agentctl.sandbox.process import ProcessRunner
line = CommandLine(argv=("bash", "-c", sys.argv[2]), cwd="/", timeout_s=60)
asyncio.run(ProcessRunner({"PATH": sys.argv[1]}).run(line, print))
"""
    argv = [sys.executable, "-c", code, os.environ["PATH"], script.replace("{nap}", sleep)]
    with subprocess.Popen(argv, cwd=ROOT, start_new_session=True) as process:
        try:
            assert wait_until(lambda: len(alive(sleep)) == 2 or process.poll() is not None, 10)
            assert process.poll() is None
            watchers = children_of(process.pid)
            assert len(watchers) == 1
        finally:
            if kills == "its group":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        assert wait_until(lambda: not alive(sleep), 5)
        assert wait_until(lambda: not is_running(watchers[0]), 5)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_command_that_kills_its_keeper_gains_nothing() -> None:
    sleep = nap()

    async def work(runner: ProcessRunner) -> None:
        end = await runner.run(line(f"(setsid {sleep} &) >/dev/null; kill -KILL $PPID; {sleep}"), Heard())
        assert end == CommandEnd(exit_code=None)
        assert wait_until(lambda: not alive(sleep))
        assert await runner.run(line("exit 5"), Heard()) == CommandEnd(exit_code=5)

    with_runner(work)


def test_a_command_that_kills_the_watcher_harms_only_itself() -> None:
    script = "kill -KILL $(cut -d ' ' -f 4 /proc/$PPID/stat); echo still here; exit 6"

    async def work(runner: ProcessRunner) -> None:
        heard = Heard()
        assert await runner.run(line(script), heard) == CommandEnd(exit_code=6)
        assert heard.out == b"still here\n"
        assert await runner.run(line("exit 5"), heard) == CommandEnd(exit_code=5)

    with_runner(work)


@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        (
            CommandLine(argv=("no-such-program",), cwd="/", timeout_s=5),
            ProgramMissing,
            "'no-such-program' was not found",
        ),
        (CommandLine(argv=("true",), cwd="/no/such/folder", timeout_s=5), FileNotFoundError, r"not be started \(cwd\)"),
        (CommandLine(argv=("true", "a\0b"), cwd="/", timeout_s=5), ValueError, "NUL"),
        (CommandLine(argv=("true", "x" * 3_000_000), cwd="/", timeout_s=5), OSError, r"not be started \(program\)"),
    ],
)
def test_what_cannot_be_started_says_why(command: CommandLine, kind: type[Exception], message: str) -> None:
    async def work(runner: ProcessRunner) -> None:
        with pytest.raises(kind, match=message):
            await runner.run(command, Heard())
        assert await runner.run(line("exit 5"), Heard()) == CommandEnd(exit_code=5)

    with_runner(work)


def test_without_descriptors_the_command_is_refused_and_nothing_leaks() -> None:
    code = """
import asyncio, os, resource, sys
from agentctl.core.types import CommandLine
from agentctl.sandbox.process import ProcessRunner

async def main():
    runner = ProcessRunner({"PATH": sys.argv[1]})
    line = CommandLine(argv=("true",), cwd="/", timeout_s=5)
    await runner.run(line, print)
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 1, 1000))
    try:
        await runner.run(line, print)
    except OSError as error:
        print(error.errno)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
    print(len(os.listdir("/proc/self/fd")) - before)
    print((await runner.run(line, print)).exit_code)
    await runner.close()

asyncio.run(main())
"""
    argv = [sys.executable, "-c", code, os.environ["PATH"]]
    done = subprocess.run(argv, capture_output=True, cwd=ROOT, timeout=30, check=True)
    assert done.stdout == b"24\n0\n0\n"  # EMFILE, no descriptor more, and the next command runs
