"""Looks at a command line before typer does: which words are flags, and which flag would swallow another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentctl.config.table import BY_FLAG, Option
from agentctl.core.errors import UsageError
from agentctl.core.text import nearest

FREE = ("--help", "-h", "--version")


def asked_for(words: Sequence[str], flags: Mapping[str, Option] = BY_FLAG) -> str | None:
    """The first of --help, -h and --version that is a flag of its own, not a value.

    Raises UsageError where a flag stands in the place of a value: a forgotten value must not switch off the next flag.
    `--flag=VALUE` takes any value.
    """
    found = None
    place = 0
    while place < len(words) and words[place] != "--":
        word = words[place]
        option = _takes_next(word, flags)
        if option and place + 1 < len(words):
            _check_value(word, words[place + 1], option, flags)
        elif word in FREE or _joins_help(word, flags):
            found = found or (word if word in FREE else "-h")
        place += 2 if option else 1
    return found


def named(words: Sequence[str], options: Sequence[Option]) -> tuple[Option, ...]:
    """The options whose flags stand somewhere in the words: building the others costs more than parsing."""
    seen = {word.partition("=")[0] for word in words if word.startswith("--")}
    seen.update(f"-{letter}" for word in words if word.startswith("-") and word[1:2] != "-" for letter in word[1:])
    return tuple(option for option in options if not seen.isdisjoint(option.flags))


def _takes_next(word: str, flags: Mapping[str, Option]) -> Option | None:
    """The option whose value is the next word, also at the end of joined short flags such as -qp."""
    if word.startswith("--"):
        option = flags.get(word)
        return option if option and not option.is_switch else None
    if not word.startswith("-"):
        return None
    for place, letter in enumerate(word[1:], start=1):
        option = flags.get(f"-{letter}")
        if option is None or not option.is_switch:
            return option if place == len(word) - 1 else None
    return None


def _joins_help(word: str, flags: Mapping[str, Option]) -> bool:
    """Whether joined short flags such as -qh hold -h."""
    if not word.startswith("-") or word.startswith("--"):
        return False
    for letter in word[1:]:
        option = flags.get(f"-{letter}")
        if option is None or not option.is_switch:
            return letter == "h"
    return False


def _check_value(flag: str, value: str, option: Option, flags: Mapping[str, Option]) -> None:
    is_flag = value.partition("=")[0] in flags or value in FREE
    if option.name != "prompt" and value.startswith("--") and value != "--":
        is_flag = True  # only prompts begin with two dashes in earnest
    if is_flag:
        raise UsageError(
            f"{flag} needs a value, and {value!r} is a flag.", hint=f"If it is the value: {option.flag}={value}"
        )


def unknown_flag(flag: str, words: Sequence[str], flags: Mapping[str, Option]) -> UsageError:
    """The error for a flag that there is not, with the nearest that there is."""
    if not flag.startswith("--"):  # typer names one letter of -json
        flag = next((word for word in words if word.startswith(flag)), flag)
    near = nearest(f"--{flag.lstrip('-')}", [name for name in flags if name.startswith("--")])
    if flag in BY_FLAG:
        return UsageError(f"{flag} is no flag of this verb.", hint=f"It has: {', '.join(flags)}.")
    hint = f"Did you mean {near!r}?" if near else "agentctl --help lists all flags."
    return UsageError(f"Unknown flag {flag!r}.", hint=hint)
