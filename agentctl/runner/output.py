"""The only module that prints. stdout carries the product, stderr what a person reads in a log.

Writes to stdout never block the event loop: a reader that does not read makes the turn wait, and signals and the clock
still hold. A line is always written whole, also when a wait for the reader was interrupted.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

from agentctl.config.paths import working_folder
from agentctl.core.codec import dumps, encode_event
from agentctl.core.errors import AgentctlError, Cancelled, exit_code_of
from agentctl.core.text import clean, one_line
from agentctl.runner.fence import Fence, defused, is_actions

_CHUNK = 4096
"""At most what POSIX lets a pipe take at once when it says it is writable."""
READER_GONE = 141
_FORMATS = ("text", "json", "jsonl")

_fences: list[Fence] = []
"""The one around stderr of this process, made at the first line."""


class Stdout:
    """The standard output of this process, as bytes. Raises Cancelled (141) when the reader is gone."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._pending = bytearray()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        try:
            self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        except OSError:
            self._is_file = True

    async def write(self, data: bytes) -> None:
        """Returns when everything is with the reader. Interrupted, the rest goes out before the next write."""
        self._pending += data
        while self._pending:
            if self._is_ready():
                self._write_some()
            else:
                await self._wait()

    def offer(self, data: bytes) -> None:
        """From a timer: as much as the reader takes at once; the rest goes out before the next write."""
        self._pending += data
        while self._pending and self._is_ready():
            self._write_some()

    def write_now(self, data: bytes, wait_s: float) -> None:
        """Without an event loop. Raises AgentctlError when nobody reads for `wait_s` seconds: the rest is lost."""
        self._pending += data
        while self._pending:
            if not self._is_ready(wait_s):
                raise not_read(wait_s)
            self._write_some()

    def is_reader_gone(self) -> bool:
        """True when the other end of the pipe was closed."""
        if self._is_file:
            return False
        watch = select.poll()
        watch.register(self._descriptor, 0)
        return any(flags & (select.POLLERR | select.POLLNVAL) for _, flags in watch.poll(0))

    def _is_ready(self, wait_s: float = 0.0) -> bool:
        return self._is_file or bool(self._poll.poll(int(wait_s * 1000)))

    def _write_some(self) -> None:
        try:
            count = os.write(self._descriptor, self._pending[: None if self._is_file else _CHUNK])
        except BrokenPipeError as error:
            self._pending.clear()
            raise Cancelled("the reader of stdout is gone", exit_code=READER_GONE) from error
        except OSError as error:
            self._pending.clear()
            raise AgentctlError(f"stdout cannot be written: {error}", hint="Is the disk behind it full?") from error
        del self._pending[:count]

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_writer(self._descriptor, ready.set)
        except (OSError, NotImplementedError):  # a kind of file that the loop cannot watch
            await asyncio.sleep(0.02)
            return
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._descriptor)


def not_read(seconds: float) -> AgentctlError:
    return AgentctlError(
        f"nobody read stdout for {seconds:g} s; the rest of it is lost", hint="Is the program behind the pipe stuck?"
    )


def print_bytes(data: bytes) -> None:
    """A document of a verb on stdout, secrets masked. Raises Cancelled when the reader is gone."""
    text = masked(data.decode("utf-8", "replace"))
    data = (defused(text) if is_actions(os.environ) else text).encode()
    stdout = Stdout()
    stdout.write_now(data if data.endswith(b"\n") else data + b"\n", wait_s=30.0)


def say(line: str) -> None:
    """One line on stderr. Lost when nobody reads: a full pipe must not hold up the run."""
    if not _fences:
        _fences.append(Fence(os.environ))
    _write_stderr(_fences[0].open() + clean(line).encode("utf-8", "replace") + b"\n")


def end_fence() -> None:
    """The last thing on stderr of a process: what comes after it in the log is somebody else's."""
    if _fences:
        _write_stderr(_fences[0].close())


def masked(text: str) -> str:
    """For what is said outside a run: without what the variables of this process say is secret."""
    from agentctl.runner.secrets import startup_redactor  # a run has its own, and never comes here

    return startup_redactor().text(text)


def _write_stderr(data: bytes) -> None:
    try:
        poll = select.poll()
        poll.register(2, select.POLLOUT)
        while data and poll.poll(200):
            data = data[os.write(2, data[:_CHUNK]) :]
    except OSError:
        return


def describe(error: AgentctlError) -> list[str]:
    """A failure as lines for people: what happened, why, what to do."""
    lines = [f"agentctl: {error.message}"]
    cause = error.__cause__
    while cause is not None:
        lines.append(f"cause: {type(cause).__name__}: {cause}")
        cause = cause.__cause__
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return [("  " if number else "") + one_line(line, 1_000) for number, line in enumerate(lines)]


def report_failure(error: AgentctlError, argv: Sequence[str]) -> int:
    """A failure before there was a run or a verb: bad flags. Keeps the promise of --json. Returns the exit code."""
    from agentctl.runner.clock import SystemClock
    from agentctl.runner.failure import run_failure

    form = format_of_words(argv) or format_of_variables(os.environ) or "text"
    if argv and not argv[0].startswith("-") and argv[0] != "demo":
        return report_verb_failure(error, is_json=form != "text")
    events = run_failure(error, cwd=str(working_folder()), now=SystemClock().now())
    lines = list(map(encode_event, events))
    if form != "text":
        _write_last(b"".join(lines if form == "jsonl" else lines[-1:]))
    return explain_failure(error)


def report_verb_failure(error: AgentctlError, *, is_json: bool) -> int:
    """A failure of a verb: one JSON document when JSON was asked for, and the reason on stderr."""
    from agentctl.runner.failure import verb_failure

    if is_json:
        _write_last(dumps(verb_failure(error)) + b"\n")
    return explain_failure(error)


def _write_last(data: bytes) -> None:
    """The document of a failure. Where stdout takes nothing, stderr and the exit code have to do."""
    with suppress(AgentctlError):
        Stdout().write_now(masked(data.decode()).encode(), wait_s=2.0)


def explain_failure(error: AgentctlError, code: int = 0) -> int:
    """The failure on stderr; a reader that left wants to hear nothing. Returns `code`, or that of the failure."""
    own = exit_code_of(error)
    for line in describe(error) if own != READER_GONE else ():
        say(masked(line))
    return code or own


def format_of_variables(env: Mapping[str, str]) -> str | None:
    """The output format that the environment asks for; None when it says nothing that is one."""
    said = env.get("AGENTCTL_FORMAT", "")
    if said in _FORMATS:
        return said
    return "jsonl" if is_on(env.get("AGENTCTL_JSON", "")) else None


def is_on(value: str) -> bool:
    """Whether the value of a variable switches something on."""
    return value.lower() in ("1", "true", "yes", "on")


def format_of_words(argv: Sequence[str]) -> str | None:
    """The output format that a command line asks for, as far as it can be read; None when it says nothing."""
    words = list(argv[: argv.index("--")] if "--" in argv else argv)
    if "--json" in words:
        return "jsonl"
    for place, word in enumerate(words):
        value = word.removeprefix("--format=") if word.startswith("--format=") else None
        if word == "--format" and place + 1 < len(words):
            value = words[place + 1]
        if value in _FORMATS:
            return value
    return None
