"""What of a run goes where: JSON lines or the answer to stdout, progress and failures to stderr."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping

from agentctl.config.options import Options
from agentctl.config.settings import Settings
from agentctl.core.codec import encode_event
from agentctl.core.errors import AgentctlError
from agentctl.core.events import Done, ReasoningDelta, Stamped, TextDelta
from agentctl.core.text import cut_end
from agentctl.runner.fence import plain_answer
from agentctl.runner.output import Stdout, end_fence, explain_failure, format_of_variables, is_on, not_read, say
from agentctl.runner.progress import closing_lines, failure_lines, problem_lines, progress_lines
from agentctl.runner.stamp import COALESCE_S, Stamper

LAST_LINE_S = 2.0
"""How long the last line waits for a reader that does not read."""


class Show:
    """The one consumer that prints. Knows the format before the settings do, so that failures keep the promise."""

    def __init__(
        self, options: Options, env: Mapping[str, str], stamper: Stamper, fail: Callable[[AgentctlError], None]
    ) -> None:
        """`fail` ends the run when a line that a timer writes cannot be written."""
        self._env = env
        self.format = wanted_format(options, env)
        self._is_quiet = bool(options.quiet) or _is_on(env, "AGENTCTL_QUIET")
        self._is_debug = bool(options.debug) or _is_on(env, "AGENTCTL_DEBUG")
        self.stamper = stamper
        self._fail = fail
        self._stdout = Stdout()
        self._timer: asyncio.TimerHandle | None = None
        self._is_done_shown = threading.Event()

    def adopt(self, settings: Settings) -> None:
        """The settings are known: a config file may have had a say."""
        self.format, self._is_quiet, self._is_debug = settings.format, settings.quiet, settings.debug

    async def show(self, stamped: Stamped, last_line_s: float = LAST_LINE_S) -> None:
        """Raises Cancelled when the reader of stdout is gone. The last line waits `last_line_s` for it."""
        event = stamped.event
        if not isinstance(event, (TextDelta, ReasoningDelta)):
            self._say(stamped)
        if isinstance(event, Done):
            try:
                async with asyncio.timeout(last_line_s):
                    await self._show_done(event, stamped)
            except TimeoutError:
                raise not_read(last_line_s) from None
            self._is_done_shown.set()
        elif self.format == "jsonl":
            await self._stdout.write(encode_event(stamped))
            self._flush_later()

    def is_reader_gone(self) -> bool:
        return self._stdout.is_reader_gone()

    def give_up(self, lines: list[bytes], done: Done | None) -> None:
        """From the watchdog thread or a second Ctrl-C: the last line now, then the process ends, whatever hangs.

        Without lines the run has come to its end by itself; what is still on its way is written.
        """
        if not lines and threading.current_thread() is not threading.main_thread():
            self._is_done_shown.wait(LAST_LINE_S / 4)
        try:
            if self.format == "jsonl":
                self._stdout.write_now(b"".join(lines), LAST_LINE_S / 4)
            elif self.format == "json":
                self._stdout.write_now(b"".join(lines[-1:]), LAST_LINE_S / 4)
        except AgentctlError as error:  # the exit code is that of the run, whoever hears of it
            explain_failure(error)
        end_fence()
        os._exit(done.exit_code if done else 1)

    async def _show_done(self, done: Done, stamped: Stamped) -> None:
        if self.format in ("jsonl", "json"):
            await self._stdout.write(encode_event(stamped))
        elif done.ended == "completed":
            await self._stdout.write(plain_answer(done.text, self._env).encode("utf-8", "replace") + b"\n")

    def explain(self, error: BaseException | None) -> None:
        """With --debug: where a failure came from."""
        if self._is_debug and error is not None:
            from traceback import format_exception  # only for bug reports

            for line in "".join(format_exception(error)).splitlines():
                say(f"debug: {self.stamper.mask(line)}")

    def _say(self, stamped: Stamped) -> None:
        event = stamped.event
        if self._is_debug:
            say(f"debug: {stamped.seq} {cut_end(encode_event(stamped).decode().rstrip(), 400)}")
        if not self._is_quiet:
            for line in problem_lines(event):
                say(line)
            if self.format == "text":
                for line in progress_lines(stamped):
                    say(line)
        for line in failure_lines(event):
            say(line)
        if isinstance(event, Done) and self.format == "text" and not self._is_quiet:
            for line in closing_lines(event):
                say(line)

    def _flush_later(self) -> None:
        """Joined text must not wait for the next event when the model makes a pause."""
        if self.stamper.is_joining and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COALESCE_S, self._flush)

    def _flush(self) -> None:
        self._timer = None
        try:
            for stamped in self.stamper.due():
                self._stdout.offer(encode_event(stamped))
        except AgentctlError as error:
            self._fail(error)
            return
        self._flush_later()


def wanted_format(options: Options, env: Mapping[str, str]) -> str:
    """The output format from flags and variables alone; a config file that cannot be read must not change it."""
    if options.json:
        return "jsonl"
    return options.format or format_of_variables(env) or "text"


def _is_on(env: Mapping[str, str], name: str) -> bool:
    return is_on(env.get(name, ""))
