"""File name patterns: `*` and `?` inside a name, `**` across folders, `[a-z]`, `{a,b}`. Matching never backtracks far:
a pattern comes from the model and must not be able to make a search last."""

from __future__ import annotations

from collections.abc import Callable

from agentctl.core.errors import ToolFailure

MAX_ALTERNATIVES = 64

Token = str | None | frozenset[str] | tuple[bool, tuple[tuple[str, str], ...]]
"""A literal character, None for `?`, the empty set for `*`, (negated, ranges) for a class."""

_STAR: frozenset[str] = frozenset()


class GlobPattern:
    """`base` is the folder below which every match lies; `matches` takes paths relative to it."""

    def __init__(self, pattern: str) -> None:
        """Raises ToolFailure for an empty pattern or too many alternatives."""
        if not pattern.strip("/"):
            raise ToolFailure(f"{pattern!r} is no file pattern. Example: src/**/*.py")
        options = [_names(option) for option in expand_braces(pattern)]
        shared = _shared_base(options)
        is_absolute = pattern.startswith("/")
        self.base = ("/" if is_absolute else "") + "/".join(_unescape(name) for name in options[0][:shared])
        self._options = [[_compile(name) for name in names[shared:]] for names in options]

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(_match_names(option, names) for option in self._options)


_Name = Callable[[str], bool] | None
"""A test of one name; None for `**`."""


def _names(pattern: str) -> list[str]:
    return [name for name in pattern.split("/") if name not in ("", ".")]


def _shared_base(options: list[list[str]]) -> int:
    """How many leading names are the same plain text in every alternative; the last name is never one of them."""
    count = 0
    for names in zip(*(option[:-1] for option in options), strict=False):
        if len(set(names)) > 1 or _is_wild(names[0]):
            break
        count += 1
    return count


def _is_wild(name: str) -> bool:
    return any(char in "*?[" for char in name)


def _unescape(name: str) -> str:
    return "".join(str(token) for token in _tokens(name))


def expand_braces(pattern: str) -> list[str]:
    """`a.{b,c}` as `a.b` and `a.c`; braces without a comma stay as they are."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        option = waiting.pop()
        found = _first_braces(option)
        if found is None:
            done.append(option)
        else:
            start, end, parts = found
            waiting.extend(option[:start] + part + option[end:] for part in reversed(parts))
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise ToolFailure(f"{pattern[:80]!r} stands for more than {MAX_ALTERNATIVES} patterns. Use fewer braces.")
    return done


def _first_braces(text: str) -> tuple[int, int, list[str]] | None:
    """The first group with a comma: its start, its end, its parts."""
    stack: list[list[int]] = []
    skip = False
    for at, char in enumerate(text):
        if skip or char == "\\":
            skip = not skip
        elif char == "{":
            stack.append([at])
        elif char == "," and stack:
            stack[-1].append(at)
        elif char == "}" and stack:
            marks = stack.pop()
            if len(marks) > 1:
                ends = [*marks[1:], at]
                return marks[0], at + 1, [text[a + 1 : b] for a, b in zip(marks, ends, strict=True)]
    return None


def _compile(name: str) -> _Name:
    if name == "**":
        return None
    tokens = _tokens(name)
    if all(isinstance(token, str) for token in tokens):
        plain = _unescape(name)
        return lambda text: text == plain
    stars = [at for at, token in enumerate(tokens) if token == _STAR]
    if len(stars) == 1 and all(isinstance(token, str) for at, token in enumerate(tokens) if at != stars[0]):
        head = "".join(str(token) for token in tokens[: stars[0]])
        tail = "".join(str(token) for token in tokens[stars[0] + 1 :])
        return lambda text: len(text) >= len(head) + len(tail) and text.startswith(head) and text.endswith(tail)
    return lambda text: _match_tokens(tokens, text)


def _tokens(name: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(name):
        char = name[at]
        at += 1
        if char == "*":
            if not tokens or tokens[-1] != _STAR:
                tokens.append(_STAR)
        elif char == "?":
            tokens.append(None)
        elif char == "\\" and at < len(name):
            tokens.append(name[at])
            at += 1
        elif char == "[" and (end := name.find("]", at + 2 if name[at : at + 1] in ("!", "^") else at + 1)) > 0:
            tokens.append(_char_class(name[at:end]))
            at = end + 1
        else:
            tokens.append(char)
    return tokens


def _char_class(body: str) -> Token:
    is_negated = body[0] in "!^"
    body = body[1:] if is_negated else body
    ranges = []
    at = 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            ranges.append((body[at], body[at + 2]))
            at += 3
        else:
            ranges.append((body[at], body[at]))
            at += 1
    return (is_negated, tuple(ranges))


def _matches_one(token: Token, char: str) -> bool:
    if isinstance(token, str):
        return token == char
    if isinstance(token, tuple):
        return any(low <= char <= high for low, high in token[1]) != token[0]
    return True


def _match_tokens(tokens: list[Token], text: str) -> bool:
    """Greedy with one point to return to: a later star makes earlier ones irrelevant."""
    at = token = 0
    star = back = -1
    while at < len(text):
        if token < len(tokens) and tokens[token] == _STAR:
            star, back = token, at
            token += 1
        elif token < len(tokens) and _matches_one(tokens[token], text[at]):
            at += 1
            token += 1
        elif star >= 0:
            back += 1
            at, token = back, star + 1
        else:
            return False
    return all(rest == _STAR for rest in tokens[token:])


def _match_names(tests: list[_Name], names: list[str]) -> bool:
    """The same idea one level up: `**` stands for any number of folders, and at the end for at least one name."""
    at = test = 0
    star = back = -1
    while at < len(names):
        if test < len(tests) and tests[test] is None:
            star, back = test, at
            test += 1
            if test == len(tests):
                return True
        elif test < len(tests) and _run(tests[test], names[at]):
            at += 1
            test += 1
        elif star >= 0:
            back += 1
            at, test = back, star + 1
        else:
            return False
    return test == len(tests)


def _run(test: _Name, name: str) -> bool:
    return test is not None and test(name)
