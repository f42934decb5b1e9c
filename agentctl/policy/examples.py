"""`match` and `not_match`: examples that are run whenever a file is loaded, each against its own rule alone.

An example is a shell line for rules about commands, a path, a URL, or for rules about MCP calls the server and the
arguments: `github {"repo": "acme/site"}`. It is judged as in an empty workspace, so that a file means the same
everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentctl.core.errors import PolicyError
from agentctl.policy.commands import judge_line
from agentctl.policy.findings import Collector, Judgement
from agentctl.policy.invoke import Invoker
from agentctl.policy.matching import (
    args_match,
    call_matches,
    file_matches,
    invocation_matches,
    lifts_code,
    path_fits,
    server_matches,
    url_matches,
)
from agentctl.policy.places import EmptyWorkspace, Places
from agentctl.policy.plain import KEYWORDS, PlainParser
from agentctl.policy.rules import Rule, takes_commands
from agentctl.policy.shell_state import ShellState
from agentctl.policy.syntax import Script, Unreadable
from agentctl.policy.urls import read_url
from agentctl.policy.words import Form

if TYPE_CHECKING:
    from agentctl.policy.shfmt import ShellParser

_WORDS = r"[\w./:@%+,-]+(?: [\w./:@%+,=-]+)*"
PLAIN = re.compile(_WORDS, re.ASCII)
"""One command of plain words, which every shell and every parser reads alike."""
PLAIN_LIST = re.compile(rf"{_WORDS}(?:(?:;| &&| \|\|| \|) {_WORDS})*", re.ASCII)
"""Several of them: the plain reader makes the same of them as shfmt, and needs no process for it."""


def check_examples(rules: Sequence[Rule], shell: ShellParser) -> None:
    """Raises PolicyError for the first wrong example."""
    examples = Examples(shell, EmptyWorkspace())
    examples.prepare(rules)
    for rule in rules:
        for key, texts in (("match", rule.match), ("not_match", rule.not_match)):
            for text in texts:
                if examples.matches(rule, text) is not (key == "match"):
                    word = "does not match" if key == "match" else "matches"
                    raise PolicyError(
                        f"{rule.source}: the example {text!r} in {key} of rule {rule.id!r} {word} it",
                        hint="Mend the rule or the example; examples are run whenever the file is loaded.",
                    )


class Examples:
    """Judges each text once: many rules share their examples."""

    def __init__(self, shell: ShellParser, places: Places) -> None:
        self._shell = shell
        self._plain = PlainParser()
        self._places = places
        self._lines: dict[str, Judgement] = {}

    def prepare(self, rules: Sequence[Rule]) -> None:
        """Judges all shell lines: plain ones at once, the others after one run of the parser for all."""
        texts = dict.fromkeys(text for rule in rules if _takes_lines(rule) for text in (*rule.match, *rule.not_match))
        quick = {text: judge_plain(text, self._places) for text in texts if PLAIN.fullmatch(text)}
        self._lines = {text: judged for text, judged in quick.items() if judged}
        left = [text for text in texts if text not in self._lines]
        hard = [text for text in left if self._read_plainly(text) is None]
        for start in range(0, len(hard), _BATCH):
            batch = hard[start : start + _BATCH]
            self._shell.parse_many(batch)
            self._lines |= {text: judge_line(text, self._parse, self._places) for text in batch}
        self._lines |= {text: judge_line(text, self._parse, self._places) for text in left if text not in self._lines}

    def _parse(self, line: str) -> Script:
        """Shell text inside the line comes here as well."""
        return self._read_plainly(line) or self._shell.parse(line)

    def _read_plainly(self, line: str) -> Script | None:
        """None for what only the real parser reads for certain; keywords are that too."""
        try:
            return self._plain.parse(line) if PLAIN_LIST.fullmatch(line) else None
        except Unreadable:
            return None

    def matches(self, rule: Rule, text: str) -> bool:
        if _takes_lines(rule):
            return _line_matches(rule, self._lines[text])
        if rule.url:
            return url_matches(rule, read_url(text))
        if rule.server or rule.args:
            server, args = _mcp_call(rule, text)
            return server_matches(rule, server) and args_match(rule, args)
        return call_matches(rule) or (bool(rule.path) and path_fits(rule, self._places.find(text)))


_MAX_PLAIN = 1000
"""Characters; longer lines go to the parser, which also counts."""
_BATCH = 100
"""Lines that the parser is given at once; it keeps at least as many answers."""


def judge_plain(line: str, places: Places) -> Judgement | None:
    """What judge_line says of one command of plain words, without parsing it; None when it has to be parsed."""
    words = tuple(Form(text=word) for word in line.split(" "))
    if words[0].text in KEYWORDS or len(line) > _MAX_PLAIN:
        return None
    found = Collector()
    try:
        Invoker(found, ShellState(places, found), _refuse_text).invoke(words)
    except _HoldsText:
        return None
    is_judged_by_itself = any(not item.is_covered for item in found.invocations)
    return found.result() if is_judged_by_itself else None


class _HoldsText(Exception):
    """The command runs shell text, which is parsed and judged as a line of its own."""


def _refuse_text(text: str, *, is_portable_only: bool = False) -> None:
    raise _HoldsText(text, is_portable_only)


def _takes_lines(rule: Rule) -> bool:
    if rule.command:
        return True
    return not (rule.url or rule.server or rule.args) and all(takes_commands(tool) for tool in rule.tools)


def _line_matches(rule: Rule, line: Judgement) -> bool:
    if rule.is_refusal:
        by_file = bool(rule.path) and not rule.command and any(file_matches(rule, item) for item in line.files)
        return by_file or any(invocation_matches(rule, item, line.files) for item in line.invocations)
    if line.faults or not line.invocations:
        return False
    if rule.path and not rule.command:
        return bool(line.files) and all(file_matches(rule, item) for item in line.files)
    return all(item.is_covered or invocation_matches(rule, item, line.files) for item in line.invocations) and all(
        code.is_interpreter and lifts_code(rule, item) for item in line.invocations for code in item.code
    )


def _mcp_call(rule: Rule, text: str) -> tuple[str, dict[str, Any]]:
    """(server, arguments) of an example; either may be missing. Raises PolicyError."""
    from agentctl.core.codec import loads

    start = text.find("{")
    server, said = (text[:start].strip(), text[start:]) if start >= 0 else (text.strip(), "{}")
    try:
        args = loads(said)
    except ValueError as fault:
        raise PolicyError(
            f"{rule.source}: the example {text!r} of rule {rule.id!r} holds no JSON object: {fault}",
            hint='Write the server, the arguments or both: github {"repo": "acme/site"}.',
        ) from fault
    return server, args
