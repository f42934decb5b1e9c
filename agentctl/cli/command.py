"""Makes one typer command out of rows of the option table, and shows its help.

typer is given only the command that is called, so a run never pays for the verbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature
from textwrap import fill
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from agentctl.cli.words import unknown_flag
from agentctl.config.table import GROUPS, Option
from agentctl.core.errors import UsageError
from agentctl.core.record import Record

WIDTH = 80
_ParserFault: type[Exception] = typer.BadParameter.__mro__[1]
"""typer's usage error, whose module differs between releases."""

EXTRA = "extra_words"
_OTHER = "Other"


class Page(Record):
    """What help says around the flags. Sections are (title, rows of word and meaning)."""

    usage: tuple[str, ...]
    about: str
    examples: tuple[str, ...] = ()
    other: tuple[tuple[str, str], ...] = ()
    """Rows beside --help."""
    sections: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()


def make_command(options: Sequence[Option], arguments: Sequence[str] = (), page: Page | None = None) -> TyperCommand:
    """A command that takes these flags and words and gives back what was said, by name."""

    class Command(_Command):
        pass

    Command.page = page or Page(usage=(), about="")
    Command.groups = {option.name: option.group for option in options}

    def collect(**given: Any) -> dict[str, Any]:
        return given

    parameters = [_argument(name) for name in arguments] + [_flag(option) for option in options] + [_extra()]
    collect.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer builds the flags from it
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    settings = {"help_option_names": ["-h", "--help"], "terminal_width": WIDTH, "max_content_width": WIDTH}
    has_help = page is not None  # where none is shown, words.py has found the flag before
    app.command(name="agentctl", cls=Command, context_settings=settings, add_help_option=has_help)(collect)
    command = get_command(app)
    assert isinstance(command, TyperCommand)
    return command


def parse(command: TyperCommand, words: Sequence[str], options: Sequence[Option]) -> dict[str, Any]:
    """What was said, by name. Raises UsageError in our words; `options` are all that the command could have."""
    try:
        said: dict[str, Any] = command.main(list(words), prog_name="agentctl", standalone_mode=False)
    except _ParserFault as fault:
        raise _in_our_words(fault, words, options) from None
    return said


def help_text(command: TyperCommand) -> str:
    """The help as typer shows it."""
    with command.make_context("agentctl", [], resilient_parsing=True) as context:
        return command.get_help(context) + "\n"


def _flag(option: Option) -> Parameter:
    kind: Any = bool if option.is_switch else (list[str] if option.is_repeatable else str)
    metavar = None if option.is_switch else option.metavar or "|".join(option.choices)
    default = typer.Option(
        False if option.is_switch else None, *option.flags, help=option.help, metavar=metavar, show_default=False
    )
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _argument(name: str) -> Parameter:
    default = typer.Argument(None, metavar=name.upper(), hidden=True)  # the usage line shows it
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=str)


def _extra() -> Parameter:
    """Takes the words too many, so that their error can say what was meant."""
    return Parameter(EXTRA, Parameter.KEYWORD_ONLY, default=typer.Argument(None, hidden=True), annotation=list[str])


def _in_our_words(fault: Any, words: Sequence[str], options: Sequence[Option]) -> UsageError:
    flag = getattr(fault, "option_name", None)
    if flag is None:
        return UsageError(fault.format_message())
    flags = {name: option for option in options for name in option.flags}
    option = flags.get(flag)
    if option is None:
        return unknown_flag(flag, words, flags)
    if option.is_switch:
        return UsageError(f"{flag} takes no value.", hint=f"Write {flag} alone.")
    return UsageError(f"{flag} needs a value.", hint=f"{flag} {option.metavar or '|'.join(option.choices)}")


class _Command(TyperCommand):
    page: Page
    groups: dict[str, str]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for place, usage in enumerate(self.page.usage):
            formatter.write(f"{'Usage:' if place == 0 else '      '} {usage}\n")
        formatter.write(f"\n{fill(self.page.about, WIDTH)}\n")
        if self.page.examples:
            formatter.write("\nExamples:\n")
            for example in self.page.examples:
                formatter.write(f"  {example}\n")
        self.format_options(ctx, formatter)
        for title, rows in self.page.sections:
            with formatter.section(title):
                formatter.write_dl(rows, col_max=24)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record:
                records.setdefault(self.groups.get(parameter.name or "", _OTHER), []).append(record)
        records.setdefault(_OTHER, []).extend(self.page.other)
        for group in (*GROUPS, _OTHER):
            if group in records:
                with formatter.section(group):
                    formatter.write_dl(records[group], col_max=24)
