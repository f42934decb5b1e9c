"""Command-line clients of databases: which of their words and of their input make them run programs or write files.

Sources: the manuals of sqlite3 3.40, psql 15 and mysql 8. What a file of statements holds is not looked at, as with
any script file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentctl.policy.code import Code
from agentctl.policy.words import UNKNOWN, Form

_SQLITE_SAFE = frozenset({
    ".bail", ".binary", ".changes", ".databases", ".dbinfo", ".dump", ".echo", ".eqp", ".exit", ".explain",
    ".fullschema", ".header", ".headers", ".help", ".indexes", ".indices", ".limit", ".lint", ".mode", ".nullvalue",
    ".parameter", ".print", ".prompt", ".quit", ".schema", ".separator", ".show", ".stats", ".tables", ".timeout",
    ".timer", ".version", ".width",
})  # fmt: skip
_SQLITE_CODE = re.compile(r"\b(load_extension|edit|writefile|fts3_tokenizer)\s*\(", re.IGNORECASE)
_PSQL_CODE = re.compile(
    r"\\!|\\e[fv]?\b|\\setenv|\\[ow]\s*\||\\gx?\s*\||`|\A(?:(?!\bcopy\b).)*\bcopy\b.*\bprogram\b",
    re.IGNORECASE | re.DOTALL,
)
"""`copy` is looked for from the start alone: from every `copy` to the end would be quadratic."""
_MYSQL_CODE = re.compile(r"\\[!PeT]|(^|;)[^\S\n]*(system|pager|edit|tee)\b", re.IGNORECASE | re.MULTILINE)
_SQLITE_VALUES = frozenset({
    "-cmd", "-separator", "-newline", "-nullvalue", "-init", "-heap", "-lookaside", "-mmap", "-pagecache", "-vfs",
    "-maxsize", "-escape",
})  # fmt: skip


def sqlite_code(args: Sequence[Form], stdin: str) -> Code | None:
    texts, operands, at = [stdin], 0, 0
    while at < len(args):
        text = args[at].text
        option = f"-{text.lstrip('-')}"
        at += 1
        if not text.startswith("-"):
            operands += 1
            texts += [text] if operands > 1 else []
        elif option == "-init" or option == "-A" or option.startswith("-A"):
            return _code("sqlite3", text)
        elif option in _SQLITE_VALUES and at < len(args):
            texts += [args[at].text] if option == "-cmd" else []
            at += 1
    if operands > 1:
        texts = texts[1:]  # with a statement among its words it reads no input
    return next((_code("sqlite3", line) for text in texts for line in text.split("\n") if _is_sqlite_code(line)), None)


def _is_sqlite_code(line: str) -> bool:
    words = line.split()
    if _SQLITE_CODE.search(line) or (words and words[0].startswith(UNKNOWN)):
        return True
    if not words or not words[0].startswith("."):
        return False
    return words[0] not in _SQLITE_SAFE and not (words[0] == ".import" and "|" not in line and UNKNOWN not in line)


def psql_code(args: Sequence[Form], stdin: str) -> Code | None:
    return _searched("psql", _PSQL_CODE, args, stdin)


def mysql_code(args: Sequence[Form], stdin: str) -> Code | None:
    if any(word.text.startswith("--pager") for word in args):
        return _code("mysql", "--pager")
    return _searched("mysql", _MYSQL_CODE, args, stdin)


def _searched(name: str, pattern: re.Pattern[str], args: Sequence[Form], stdin: str) -> Code | None:
    if any(pattern.search(word.text) for word in args):
        return _code(name, "with this statement")
    if UNKNOWN in stdin:
        return _code(name, "with input that is not known before it runs")
    return _code(name, "with this input") if pattern.search(stdin) else None


def _code(name: str, what: str) -> Code:
    return Code(what=f"{name} {what.replace(UNKNOWN, '…').strip()[:40]} can run programs or write files")
