"""Other ways to read the words of a command, for refusals: what unknown words can turn out to be, options left out."""

from __future__ import annotations

from itertools import product

from agentctl.policy.words import UNKNOWN, Form

Words = tuple[Form, ...]

_MAX_READINGS = 32


def readings_of(words: Words) -> tuple[Words, ...]:
    """The words as they are, then with every value that the line itself gives to its variables, and with nothing."""
    if all(map(_is_settled, words)):  # nearly always
        return (words,)
    known: list[tuple[Form, ...]] = []
    count = 1
    for word in words:
        texts = (word, *(Form(text=text) for text in word.choices))
        is_few = count * len(texts) <= _MAX_READINGS
        count *= len(texts) if is_few else 1
        known.append(texts if is_few else (word,))
    emptied = _emptied(words)
    return (*product(*known), *(() if emptied == words else (emptied,)))


def _is_settled(word: Form) -> bool:
    return word.is_static and not (word.is_many or word.choices or word.glob)


def _emptied(words: Words) -> Words:
    """The words when all that is unknown turns out to be empty: `--for${x}ce`, `git $x push`."""
    return tuple(
        word if word.glob or word.choices or word.is_static else Form(text=word.text.replace(UNKNOWN, ""))
        for word in words
        if word.glob or word.choices or not word.is_many or word.text.strip(UNKNOWN)
    )


def views_of(words: Words) -> tuple[Words, ...]:
    """The same command without the options before its first operands: how refusals see `git -C x push`."""
    found: list[Words] = []
    at = 1
    while at < len(words) and len(found) < 3:
        start = at
        while at < len(words) and words[at].text.startswith("-"):
            at += 1
        if at >= len(words) or (at == start == 1):
            break
        found.append((words[0], *words[at:]))
        at += 1
    return tuple(found)
