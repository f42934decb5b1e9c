"""Patterns of policy rules: words of a command and paths. Every match is linear in text times pattern, never worse.

Small languages, none of them regular expressions, so that a hostile argument cannot make a rule slow: words
(`git commit *`), gitignore paths without `!` (`src/**`); urls.py has the third, URLs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentctl.core.record import Record
from agentctl.policy.words import UNKNOWN, Form


class BadPattern(ValueError):
    """A pattern that cannot mean anything. The text says why."""


def glob_match(pattern: str, text: str) -> bool:
    """Whether the whole text fits: `*` is any run of characters, `?` exactly one, all else itself."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == text
    at = spot = 0
    star = mark = -1
    while at < len(text):
        if spot < len(pattern) and pattern[spot] == "*":
            star, mark = spot, at
            spot += 1
        elif spot < len(pattern) and (pattern[spot] == "?" or pattern[spot] == text[at]):
            spot += 1
            at += 1
        elif star >= 0:
            spot, mark = star + 1, mark + 1
            at = mark
        else:
            return False
    return pattern[spot:].strip("*") == ""


def _word_surely(pattern: str, form: Form) -> bool:
    """Every word that the form can become fits the pattern. An unknown piece is only covered by `*`."""
    if form.is_many:
        return False
    if UNKNOWN not in form.text:
        return glob_match(pattern, form.text)
    return glob_match(pattern.replace("?", "\x01"), form.text)  # `?` is one character, UNKNOWN can be many


def _word_maybe(pattern: str, form: Form) -> bool:
    """Some word that the form can become fits the pattern: both sides may hold wildcards."""
    text = form.text
    if UNKNOWN not in text:
        return glob_match(pattern, text)
    reach = {0}
    for char in text:
        reach = _closure(reach, pattern)
        reach = set(range(min(reach, default=0), len(pattern) + 1)) if char == UNKNOWN else _step(reach, pattern, char)
        if not reach:
            return False
    return len(pattern) in _closure(reach, pattern)


def _closure(reach: set[int], pattern: Sequence[str]) -> set[int]:
    """Where a match can stand without another character: behind each star too. `pattern` is characters or tokens."""
    grown = set(reach)
    for spot in sorted(reach):
        while spot < len(pattern) and pattern[spot] == "*":
            spot += 1
            grown.add(spot)
    return grown


def _step(reach: set[int], pattern: str, char: str) -> set[int]:
    after = set()
    for spot in reach:
        if spot == len(pattern):
            continue
        if pattern[spot] == "*":
            after.add(spot)
        elif pattern[spot] in ("?", char):
            after.add(spot + 1)
    return after


class WordPattern(Record):
    """A command pattern: one part per argv word; a final `*` stands for any number of further words, also none."""

    text: str
    parts: tuple[str, ...]
    is_open: bool

    @property
    def names_program(self) -> bool:
        """Whether the program itself is written out (at least its first letters), not just any program."""
        return bool(self.parts) and not self.parts[0].startswith(("*", "?"))

    def surely(self, words: Sequence[Form]) -> bool:
        """For allow: whatever the unknown words become, the command fits."""
        if words and self.parts and not _word_surely(self.parts[0], words[0]):
            return False
        if len(words) < len(self.parts) or (not self.is_open and len(words) != len(self.parts)):
            return False
        return all(_word_surely(part, word) for part, word in zip(self.parts, words, strict=False))

    def maybe(self, words: Sequence[Form]) -> bool:
        """For deny and ask: the command can turn out to fit."""
        if words and self.parts and not words[0].is_many and not _word_maybe(self.parts[0], words[0]):
            return False
        reach = {0}
        for word in words:
            if word.is_many:
                reach = set(range(min(reach), len(self.parts) + 1))
                continue
            after = {spot + 1 for spot in reach if spot < len(self.parts) and _word_maybe(self.parts[spot], word)}
            if self.is_open and len(self.parts) in reach:
                after.add(len(self.parts))
            if not after:
                return False
            reach = after
        return len(self.parts) in reach


SHELL_SYNTAX = re.compile(r"[;|<>`'\"]|&&|\A&\Z|\$[({A-Za-z_]")
"""What in a word of a pattern was meant for a shell. A pattern is held against words, where no shell syntax is left, so
it would promise what it never does."""


def word_pattern(text: str) -> WordPattern:
    """Raises BadPattern for an empty pattern, for control characters and for shell syntax."""
    parts = tuple(text.split())
    if not parts:
        raise BadPattern("an empty pattern matches nothing")
    if not text.isprintable():
        raise BadPattern("control characters cannot be matched")
    for part in parts:
        found = SHELL_SYNTAX.search(part)
        if found:
            raise BadPattern(
                f"{found.group()} is shell syntax, and a pattern is the words of one command: write one for each"
                " command, without quotes and redirections; put ? for such a character, * for a word with spaces"
            )
    is_open = parts[-1] == "*"
    return WordPattern(text=text, parts=parts[:-1] if is_open else parts, is_open=is_open)


class PathPattern(Record):
    """A gitignore pattern. Matches the path itself or any folder above it, as git does."""

    text: str
    segments: tuple[str, ...]
    is_folder: bool
    """Written with a final slash: only what lies below a folder of that name."""

    def matches(self, path: str) -> bool:
        """`path` is relative to the root, with forward slashes and without `.` and `..`."""
        return self.matches_parts(path.split("/"))

    def matches_parts(self, parts: Sequence[str]) -> bool:
        """`matches` for a path that is split already."""
        first = self.segments[0]
        if first != "**" and not segment_match(first, parts[0]):
            return False
        return _segments(self.segments, parts, self.is_folder)


def path_pattern(text: str) -> PathPattern:
    """Raises BadPattern for what gitignore would skip or what cannot match: `!x`, an empty or a leaving pattern."""
    if not text.strip():
        raise BadPattern("an empty pattern matches nothing")
    if text.startswith("!"):
        raise BadPattern("a pattern cannot take back another one; write a narrower rule")
    if not text.isprintable():
        raise BadPattern("control characters cannot be matched")
    body = text.rstrip("/")
    anchored = "/" in body
    segments = [part for part in body.split("/") if part not in ("", ".")]
    if ".." in segments or not segments:
        raise BadPattern("paths are relative to the workspace root and never leave it")
    for segment in segments:
        if not _closes(segment):
            raise BadPattern("a '[' is never closed")
    if not anchored and segments[0] != "**":
        segments.insert(0, "**")
    return PathPattern(text=text, segments=tuple(segments), is_folder=text.endswith("/"))


class PathSet(Record):
    """Many patterns at once: plain names at any depth are looked up, only the others are tried one by one."""

    texts: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    others: tuple[PathPattern, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.texts)

    @classmethod
    def join(cls, sets: Sequence[PathSet]) -> PathSet:
        """One set that matches what any of them matches."""
        if len(sets) == 1:
            return sets[0]
        return cls(
            texts=tuple(text for item in sets for text in item.texts),
            names=frozenset(name for item in sets for name in item.names),
            folders=frozenset(name for item in sets for name in item.folders),
            others=tuple(pattern for item in sets for pattern in item.others),
        )

    def matches(self, path: str) -> bool:
        """As PathPattern.matches, for any of the patterns."""
        parts = path.split("/")
        if not self.names.isdisjoint(parts) or not self.folders.isdisjoint(parts[:-1]):
            return True
        return any(pattern.matches_parts(parts) for pattern in self.others)


def path_set(texts: Sequence[str]) -> PathSet:
    """Raises BadPattern for the first pattern that path_pattern refuses."""
    plain: dict[bool, set[str]] = {False: set(), True: set()}
    others = []
    for text in texts:
        pattern = path_pattern(text)
        last = pattern.segments[-1]
        if pattern.segments == ("**", last) and last != "**" and not any(char in last for char in "*?[\\"):
            plain[pattern.is_folder].add(last)
        else:
            others.append(pattern)
    return PathSet(
        texts=tuple(texts), names=frozenset(plain[False]), folders=frozenset(plain[True]), others=tuple(others)
    )


def _closes(segment: str) -> bool:
    start = segment.find("[")
    return start < 0 or "\\" in segment or segment.find("]", start + 2) > 0


def _segments(pattern: tuple[str, ...], parts: Sequence[str], is_folder: bool) -> bool:
    """Dynamic programming over segments. A full match of the pattern at a folder covers everything below it."""
    reach = {0}
    for depth, part in enumerate(parts):
        after: set[int] = set()
        for spot in _past_stars(reach, pattern):
            if spot == len(pattern):
                continue
            if pattern[spot] == "**":
                after.add(spot)
                if spot == len(pattern) - 1:
                    return True
            elif segment_match(pattern[spot], part):
                after.add(spot + 1)
        if len(pattern) in after and (not is_folder or depth < len(parts) - 1):
            return True
        reach = after
    return False


def _past_stars(reach: set[int], pattern: tuple[str, ...]) -> set[int]:
    """A `**` in the middle stands for no folder too; at the end it wants at least one."""
    grown = set(reach)
    for spot in sorted(reach):
        while spot < len(pattern) - 1 and pattern[spot] == "**":
            spot += 1
            grown.add(spot)
    return grown


def segment_match(pattern: str, name: str) -> bool:
    """One path segment: `*`, `?`, `[a-z]`, `[!a]` and backslash escapes."""
    if "[" not in pattern and "\\" not in pattern:
        return glob_match(pattern, name) if "*" in pattern or "?" in pattern else pattern == name
    tokens = _tokens(pattern)
    reach = {0}
    for char in name:
        after: set[int] = set()
        for spot in _closure(reach, tokens):
            if spot < len(tokens):
                if tokens[spot] == "*":
                    after.add(spot)
                elif _one(tokens[spot], char):
                    after.add(spot + 1)
        if not after:
            return False
        reach = after
    return len(tokens) in _closure(reach, tokens)


def _tokens(pattern: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        end = pattern.find("]", at + 2) if char == "[" else -1
        if char == "\\" and at + 1 < len(pattern):
            tokens.append("=" + pattern[at + 1])
            at += 2
        elif end > 0:
            tokens.append(pattern[at:end])
            at = end + 1
        else:
            tokens.append(char if char in "*?" else "=" + char)
            at += 1
    return tokens


def _one(token: str, char: str) -> bool:
    if token == "?":
        return True
    if token[0] == "=":
        return token[1] == char
    body = token[1:]
    is_negated = body[0] in "!^"
    body = body[1:] if is_negated else body
    return _in_ranges(body, char) is not is_negated


def _in_ranges(body: str, char: str) -> bool:
    at = 0
    while at < len(body):
        if at + 2 < len(body) and body[at + 1] == "-":
            if body[at] <= char <= body[at + 2]:
                return True
            at += 3
        else:
            if body[at] == char:
                return True
            at += 1
    return False
