"""Functions of a line that start themselves again beside themselves: the fork bomb in all its spellings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agentctl.core.record import Record
from agentctl.policy.syntax import Block, Function, Pipe, Simple, Statement, Substitution
from agentctl.policy.variables import records
from agentctl.policy.words import plain_text

_RUN_WORDS = frozenset({"eval", "trap", "command", "builtin", "exec", "time", "nohup", "setsid", "xargs"})
_NAME = re.compile(r"[^\s;|&(){}<>'\"$`]+")


def find_bomb(statements: Sequence[Statement]) -> str | None:
    """The name of a function that reaches itself through a pipe, a job in the background or another way that does not
    wait. A function that only waits for itself (`$(f)`, `f`) is no bomb: it ends with its shell."""
    functions = [item for item in records(tuple(statements)) if isinstance(item, Function)]
    if not functions:
        return None
    bodies: dict[str, tuple[Statement, ...]] = {}
    for function in functions:
        bodies[function.name] = (*bodies.get(function.name, ()), function.body)
    calls = {name: _called(several, bodies) for name, several in bodies.items()}
    for name, several in bodies.items():
        for item in records(several):
            if _is_beside(item) and any(name in _reached(called, calls) for called in _called(item, bodies)):
                return name
    return None


def _is_beside(item: Record) -> bool:
    if isinstance(item, Statement):
        return item.is_background
    if isinstance(item, Substitution):
        return item.kind != "$("
    if isinstance(item, Simple):
        texts = [plain_text(word) or "" for word in item.words]
        return texts[:1] in (["eval"], ["trap"]) and any(char in text for text in texts for char in "|&")
    return isinstance(item, Pipe) or (isinstance(item, Block) and item.kind == "CoprocClause")


def _called(item: object, bodies: Mapping[str, object]) -> set[str]:
    """The functions whose names stand where something runs them."""
    return {name for inner in records(item) if isinstance(inner, Simple) for name in _names(inner) if name in bodies}


def _names(command: Simple) -> Iterator[str]:
    texts = [plain_text(word) or "" for word in command.words]
    if texts:
        yield texts[0]
    if texts and texts[0] in _RUN_WORDS:
        for text in texts[1:]:
            yield from _NAME.findall(text)


def _reached(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    found = {name}
    waiting = [name]
    while waiting:
        fresh = calls[waiting.pop()] - found
        found |= fresh
        waiting.extend(fresh)
    return found
