"""The shell. A command that fails is a normal result: the model reads `exit:`."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from pydantic import Field

from agentctl.core.arguments import Arguments
from agentctl.core.errors import ToolFailure
from agentctl.core.events import ToolOutput
from agentctl.core.ports import CommandRunner, Emit, Outputs
from agentctl.core.redact import Redactor
from agentctl.core.text import one_line
from agentctl.core.toolkit import ToolDefinition
from agentctl.core.types import CommandEnd, CommandLine, CommandRun, JsonObject, Subject, ToolResult
from agentctl.tools.command_output import CommandOutput, on_lines

MAX_TIMEOUT_MS = 600_000
MIN_TIMEOUT_MS = 1_000
SHOWN_CHARS = 29_000
"""Of both outputs; with what stands around them a result stays below the 30,000 characters that any may have."""


class BashArguments(Arguments):
    command: str = Field(min_length=1)
    timeout: int | None = Field(default=None, ge=MIN_TIMEOUT_MS, le=MAX_TIMEOUT_MS, description="milliseconds")


def _command_subject(args: JsonObject) -> tuple[Subject, ...]:
    return (Subject(kind="command", value=args["command"]),)


class Bash:
    definition = ToolDefinition(
        name="bash",
        description=(
            "Run a shell command in the workspace root. No terminal, empty stdin; background processes are killed when "
            "it ends. Long output is cut in the middle and kept whole in a file. timeout: default 120000 ms."
        ),
        arguments=BashArguments,
        effect="exec",
        set="core",
        subjects=_command_subject,
    )

    def __init__(
        self,
        *,
        runner: CommandRunner,
        outputs: Outputs,
        emit: Emit,
        redactor: Redactor,
        root: str,
        shell: Sequence[str],
        default_timeout_s: float = 120.0,
    ) -> None:
        """`shell` is what stands before the command line, for example bash --noprofile --norc -c."""
        self._runner = runner
        self._outputs = outputs
        self._emit = emit
        self._redactor = redactor
        self._root = root
        self._shell = tuple(shell)
        self._default_timeout_s = default_timeout_s

    async def run(self, call_id: str, args: BashArguments) -> ToolResult:
        timeout_s = self._default_timeout_s if args.timeout is None else args.timeout / 1000
        line = CommandLine(argv=(*self._shell, args.command), cwd=self._root, timeout_s=timeout_s)
        file = self._outputs.open()
        output = CommandOutput(
            self._redactor,
            file,
            lambda stream, text: self._emit(ToolOutput(id=call_id, stream=stream, chunk=text)),
            SHOWN_CHARS,
        )
        try:
            end = await self._runner.run(line, output.feed)
        except ValueError as error:
            raise ToolFailure(f"The command was not run: {error}.") from error
        finally:
            output.end()
            path = None
            if output.is_cut:
                path = file.close()
            else:
                file.discard()
        return self._result(call_id, args.command, timeout_s, end, output, path)

    def _result(
        self, call_id: str, command: str, timeout_s: float, end: CommandEnd, output: CommandOutput, path: str | None
    ) -> ToolResult:
        is_lost = end.is_interrupted or (end.exit_code is None and end.signal is None)
        exit_code = None if is_lost or end.is_timed_out else end.exit_code if end.signal is None else 128 + end.signal
        first = _lost(end, output) if is_lost else _ended(end, timeout_s)
        texts = [first, output.blocks()]
        if output.is_cut:
            texts.append(f"[The whole output is in {path}]" if path else "[The whole output could not be kept.]")
        texts += end.notes
        return ToolResult(
            call_id=call_id,
            content=on_lines(*texts),
            is_error=is_lost,
            summary=one_line(f"{first}, {output.lines} lines"),
            exit_code=exit_code,
            is_truncated=output.is_cut,
            command=CommandRun(command=command, exit_code=exit_code),
        )


def _ended(end: CommandEnd, timeout_s: float) -> str:
    """A command that was ended has no exit code of its own, whatever it answered to the signal."""
    if end.is_timed_out:
        answer = f"; it answered SIGTERM with exit code {end.exit_code}" if end.signal is None else ""
        return f"exit: none (timed out after {timeout_s * 1000:.0f} ms{answer})"
    if end.signal is None:
        return f"exit: {end.exit_code}"
    return f"exit: {128 + end.signal} (killed by {_signal_name(end.signal)})"


def _lost(end: CommandEnd, output: CommandOutput) -> str:
    what = "was interrupted" if end.is_interrupted else "ended in a way that could not be seen"
    before = "output before it was killed:" if output.has_any else "no output before it was killed"
    return f"The command {what}. It did not finish, so its effects are unknown ({before})."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
