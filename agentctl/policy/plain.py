"""The reader for machines without shfmt: plain words only, everything else is refused.

It takes words of ordinary characters, '…', "…" without expansions, and `;`, `&&`, `||`, `|` and newlines between
commands. It is stricter than shfmt everywhere and laxer nowhere; a test compares the two.
"""

from __future__ import annotations

import re

from agentctl.policy.gate import gate
from agentctl.policy.syntax import Chain, Command, Literal, Pipe, Script, Simple, Statement, Unreadable, Word

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+)|(?P<op>&&|\|\||[;|\n])|'(?P<single>[^']*)'|"(?P<double>[^"$`\\!]*)\""""
    r"""|(?P<word>[A-Za-z0-9_./:@%+,=-]+)"""
)
KEYWORDS = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "case",
        "esac",
        "for",
        "select",
        "while",
        "until",
        "do",
        "done",
        "in",
        "function",
        "time",
        "coproc",
        "declare",
        "typeset",
        "local",
        "export",
        "readonly",
        "let",
        "eval",
        "trap",
        "source",
        "alias",
        "[[",
        "{",
    ]
)
PROBLEM = "shfmt is missing, so only plain commands can be judged; install it with: pip install shfmt-py"


class PlainParser:
    """Reads lines without any shell syntax beyond quotes and lists."""

    problem = PROBLEM

    def parse(self, line: str) -> Script:
        gate(line)
        return Script(statements=tuple(_statements(_tokens(line))))

    def parse_many(self, lines: list[str]) -> None:
        """Nothing to prepare."""


def _tokens(line: str) -> list[Word | str]:
    """Words, and operators as text."""
    out: list[Word | str] = []
    parts: list[Literal] = []
    at = 0
    while at < len(line):
        found = _TOKEN.match(line, at)
        if not found:
            raise Unreadable(f"without shfmt the character {line[at]!r} cannot be judged; {PROBLEM.partition('; ')[2]}")
        at = found.end()
        kind = found.lastgroup or ""
        if kind in ("space", "op"):
            if parts:
                out.append(Word(parts=tuple(parts)))
                parts = []
            if kind == "op":
                out.append(found.group())
        else:
            parts.append(Literal(text=found.group(kind), is_quoted=kind != "word"))
    if parts:
        out.append(Word(parts=tuple(parts)))
    return out


def _statements(tokens: list[Word | str]) -> list[Statement]:
    out: list[Statement] = []
    links: list[tuple[str, Statement]] = []
    stages: list[Statement] = []
    words: list[Word] = []
    operator = ""
    for token in [*tokens, "end"]:
        if isinstance(token, Word):
            words.append(token)
            continue
        if not words:
            if token in ("\n", "end") and not stages and not operator:
                continue
            if token == "\n":  # a newline after an operator goes on with the list
                continue
            raise Unreadable("a command is missing before or after an operator; check the line")
        stages.append(_simple(words))
        words = []
        if token == "|":
            continue
        links.append((operator, _joined(stages)))
        stages = []
        operator = token if token in ("&&", "||") else ""
        if not operator:
            out.append(_chain(links))
            links = []
    if links or stages:
        raise Unreadable("a command is missing after the last operator; check the line")
    return out


def _simple(words: list[Word]) -> Statement:
    first = words[0].parts[0]
    text = "".join(part.text for part in words[0].parts if isinstance(part, Literal))
    if text in KEYWORDS or (isinstance(first, Literal) and not first.is_quoted and "=" in first.text):
        raise Unreadable(f"without shfmt a command that begins with {text!r} cannot be judged")
    command: Command = Simple(assignments=(), words=tuple(words))
    return Statement(command=command)


def _joined(stages: list[Statement]) -> Statement:
    return stages[0] if len(stages) == 1 else Statement(command=Pipe(stages=tuple(stages)))


def _chain(links: list[tuple[str, Statement]]) -> Statement:
    return links[0][1] if len(links) == 1 else Statement(command=Chain(first=links[0][1], links=tuple(links[1:])))
