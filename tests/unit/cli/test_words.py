"""Looking at a command line before it is parsed."""

from __future__ import annotations

import pytest

from agentctl.cli.words import asked_for, named
from agentctl.config.table import OPTIONS
from agentctl.core.errors import UsageError

ASKED = [
    (["-p", "x", "--help"], "--help"),
    (["-p", "x", "-h"], "-h"),
    (["--json", "--version", "--help"], "--version"),
    (["-qh"], "-h"),
    (["-ph"], None),
    (["-Zh"], None),
    (["-p", "--help=me"], None),
    (["--prompt=--help"], None),
    (["-p", "x", "--", "--help"], None),
    (["-qp", "read --help", "--json"], None),
    (["-p", "-1 is a number"], None),
    (["-p", "--quite a dash"], None),
    (["-o", "-"], None),
    ([], None),
]


@pytest.mark.parametrize(("words", "flag"), ASKED)
def test_help_is_asked_for_only_by_a_flag_of_its_own(words: list[str], flag: str | None) -> None:
    assert asked_for(words) == flag


SWALLOWED = [
    (["-p", "--json"], "-p needs a value, and '--json' is a flag.", "--prompt=--json"),
    (["--prompt", "--yolo"], "--prompt needs a value, and '--yolo' is a flag.", "--prompt=--yolo"),
    (["-qp", "--json"], "-qp needs a value, and '--json' is a flag.", "--prompt=--json"),
    (["-p", "--help"], "-p needs a value, and '--help' is a flag.", "--prompt=--help"),
    (["-p", "-q"], "-p needs a value, and '-q' is a flag.", "--prompt=-q"),
    (["-p", "--max-steps=3"], "-p needs a value, and '--max-steps=3' is a flag.", "--prompt=--max-steps=3"),
    (["--allow", "--yol"], "--allow needs a value, and '--yol' is a flag.", "--allow=--yol"),
    (["-o", "--json"], "-o needs a value, and '--json' is a flag.", "--output=--json"),
]


@pytest.mark.parametrize(("words", "message", "way_out"), SWALLOWED)
def test_no_flag_swallows_another(words: list[str], message: str, way_out: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked_for(words)
    assert (caught.value.message, caught.value.hint) == (message, f"If it is the value: {way_out}")


NAMED = [
    (["-p", "x", "--json"], {"prompt", "json"}),
    (["--max-steps=3"], {"max_steps"}),
    (["-qc"], {"quiet", "continue_"}),
    (["-oout.txt"], {"output"}),
    ([], set()),
]


@pytest.mark.parametrize(("words", "names"), NAMED)
def test_only_what_may_be_named_is_built(words: list[str], names: set[str]) -> None:
    assert names <= {option.name for option in named(words, OPTIONS)}
    assert len(named(words, OPTIONS)) <= len(names) + 2
