"""Running shfmt on a shell line, behind a gate for what parsers and bash read differently.

shfmt is the wheel's binary beside this Python, or one on PATH outside the workspace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agentctl.core.codec import loads
from agentctl.policy.gate import gate
from agentctl.policy.shell_ast import decode, decode_each
from agentctl.policy.syntax import Block, Function, Script, Unreadable


class TooSlow(Unreadable):
    """shfmt did not answer in time."""


MAX_COMMANDS = 200
TIMEOUT_S = 1.8
MAX_JSON = 16 * 1024 * 1024
_CACHED_LINES = 256


class ShellParser(Protocol):
    """A way to read a shell line. Raises Unreadable; bounded to about 2 s."""

    @property
    def problem(self) -> str:
        """Empty, or why this parser refuses more than it should and what to do about it."""
        ...

    def parse(self, line: str) -> Script: ...

    def parse_many(self, lines: list[str]) -> None:
        """Prepares answers for many lines at once, where that is cheaper. Raises nothing."""
        ...


def find_shfmt(root: Path) -> str | None:
    """The shfmt to trust: beside this Python, or on PATH outside the workspace."""
    beside = Path(sys.executable).parent / "shfmt"
    if os.access(beside, os.X_OK):
        return str(beside)
    inside = os.path.realpath(root)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        candidate = os.path.realpath(f"{folder}/shfmt")
        if folder.startswith("/") and not f"{candidate}/".startswith(f"{inside}/") and os.access(candidate, os.X_OK):
            return candidate
    return None


_Read = TypeVar("_Read")


class ShfmtParser:
    """Runs shfmt once per new line; the result is kept, since the loop and `policy explain` ask again."""

    problem = ""

    def __init__(self, shfmt: str) -> None:
        self._argv = (shfmt, "--to-json", "-ln", "bash")
        self._cache: dict[str, Script | Unreadable] = {}

    def parse(self, line: str) -> Script:
        if line not in self._cache:
            if len(self._cache) >= _CACHED_LINES:
                self._cache.pop(next(iter(self._cache)))
            try:
                self._cache[line] = self._read(line)
            except TooSlow:
                raise  # a busy machine, not a property of the line
            except Unreadable as fault:
                self._cache[line] = fault
        found = self._cache[line]
        if isinstance(found, Unreadable):
            raise Unreadable(str(found))
        return found

    def parse_many(self, lines: list[str]) -> None:
        """All lines in one run of shfmt, each as the body of a function; lines that break out are left for `parse`."""
        wanted = [line for line in dict.fromkeys(lines) if line not in self._cache]
        if len(wanted) < 2:
            return
        text = "\n".join(f"{_BATCH_NAME}{at}() {{\n{line}\n}}" for at, line in enumerate(wanted))
        try:
            for line in wanted:
                gate(line)
            found = self._run(text, decode_each)
        except Unreadable:
            return
        bodies = [_batched(script, at) for at, script in enumerate(found)]
        if len(bodies) != len(wanted) or None in bodies:
            return
        for line, body in zip(wanted, bodies, strict=True):
            if body is not None:
                self._cache[line] = body

    def _read(self, line: str) -> Script:
        gate(line)
        return self._run(line, decode, limit=MAX_COMMANDS)

    def _run(self, line: str, read: Callable[[Any], _Read], limit: int | None = None) -> _Read:
        from agentctl.core.spawn import run  # subprocess machinery, needed with the first command only

        try:
            ended = run(self._argv, cwd="/", stdin=line.encode(), timeout_s=TIMEOUT_S, max_output=MAX_JSON)
        except OSError as fault:
            raise Unreadable(f"shfmt did not start ({fault}); install shfmt-py again") from fault
        if ended.is_timed_out:
            raise TooSlow("it takes too long to parse; send it again or in smaller pieces")
        if ended.is_truncated:
            raise Unreadable("its syntax tree is too large; send it in smaller pieces")
        if ended.exit_code != 0:
            why = ended.stderr.decode("utf-8", "replace").strip().splitlines()
            raise Unreadable(f"it is not valid shell ({why[-1] if why else 'shfmt failed'}); check quotes and brackets")
        if limit and ended.stdout.count(b'"CallExpr"') > limit:
            raise Unreadable(f"it holds more than {MAX_COMMANDS} commands; send it in smaller pieces")
        try:
            return read(loads(ended.stdout))
        except RecursionError as fault:
            raise Unreadable("it is nested too deeply; send it in smaller pieces") from fault
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            raise Unreadable("its syntax tree cannot be read; send it in smaller pieces") from fault


_BATCH_NAME = "__agentctl_example_"


def _batched(script: Script, at: int) -> Script | None:
    """The body of the function that a line was put into; None when the line has changed what is around it."""
    statement = script.statements[0]
    function = statement.command
    if not isinstance(function, Function) or function.name != f"{_BATCH_NAME}{at}" or statement.redirects:
        return None
    body = function.body.command
    if not isinstance(body, Block) or body.kind != "Block" or function.body.redirects:
        return None
    return Script(statements=body.bodies[0], is_portable=script.is_portable)
