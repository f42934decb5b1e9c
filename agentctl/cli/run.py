"""`agentctl -p PROMPT …`: the run, which is the command without a verb."""

from __future__ import annotations

from collections.abc import Callable

from agentctl.cli.command import EXTRA, make_command, parse
from agentctl.cli.fast import answer
from agentctl.cli.words import asked_for, named
from agentctl.config.options import Options, from_flags
from agentctl.config.table import OPTIONS
from agentctl.core.errors import UsageError


def prepare_run(words: list[str]) -> Callable[[], int]:
    """The run that the words ask for. Raises UsageError."""
    parsed = parse_run(words)
    if isinstance(parsed, int):
        return lambda: parsed
    from agentctl.runner.headless import run

    return lambda: run(parsed)


def parse_run(words: list[str]) -> Options | int:
    """The options of a run; an exit code when --help or --version was asked for. Raises UsageError."""
    asked = asked_for(words)
    if asked:
        return answer(asked)
    said = parse(make_command(named(words, OPTIONS)), words, OPTIONS)
    extra = said.pop(EXTRA)
    if extra:
        raise _extra_word(extra[0])
    return from_flags(said)


def _extra_word(word: str) -> UsageError:
    from agentctl.cli.verbs import VERBS  # only on the way to an error

    if any(verb.words[0] == word for verb in VERBS):
        return UsageError(f"{word!r} is a verb behind flags.", hint=f"A verb comes first: agentctl {word} …")
    return UsageError(f"{word!r} belongs to no flag.", hint=f"The prompt goes behind -p, in quotes: -p {word!r}")
