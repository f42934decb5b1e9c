"""Which words of a command are files, and what happens to them. A program that is not known here is not judged by its
paths: rules name it, and the sandbox holds it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from agentctl.policy.archives import tar_files
from agentctl.policy.carriers import base_name
from agentctl.policy.git_files import git_files
from agentctl.policy.operand_reader import HERE, FileWord, Options, every_reading, row_files
from agentctl.policy.operands import PROGRAMS
from agentctl.policy.words import Form


@cache
def _variants(name: str) -> tuple[Options, ...]:
    return every_reading(PROGRAMS[name])


def file_words(words: Sequence[Form]) -> Iterator[FileWord]:
    """The files of a command, some more than once; `words` begin with the program name."""
    name = words[0].text
    short = name if name in PROGRAMS or name in _SPECIAL else base_name(name)
    if short in _SPECIAL:
        yield from _SPECIAL[short](words[1:])
    elif short in PROGRAMS:
        for options in _variants(short):
            yield from row_files(PROGRAMS[short], options, words[1:])


def _dd(args: Sequence[Form]) -> Iterator[FileWord]:
    for word in args:
        key, _, value = word.text.partition("=")
        if key in ("of", "if"):
            yield FileWord(word=Form(text=value), access="write" if key == "of" else "read")


_FIND_WRITES = ("-fprint", "-fprint0", "-fls", "-fprintf")
_FIND_READS = ("-newer", "-anewer", "-cnewer", "-samefile", "-files0-from")
"""Beginnings: `-newermt` has a date, which is no file that a rule knows."""
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_FIND_OPTION = re.compile(r"-[EHLPXdsx]+|-O\d*|--")
_FIND_NAMES = ("-name", "-iname", "-path", "-wholename", "-ipath")


def _find(args: Sequence[Form]) -> Iterator[FileWord]:
    """What it deletes, hands to programs or only lists lies below its start folders."""
    texts = [word.text for word in args]
    runs = any(text in _FIND_RUNS for text in texts)
    starts = _starts(args)
    for word in starts or [HERE]:
        is_known = word.is_static or word.glob or word.choices
        access = "write" if "-delete" in texts else "read" if runs and is_known else "list"
        yield FileWord(word=word, access=access, is_folder=word is HERE)
    for text, value in zip(texts, args[1:], strict=False):
        if text in _FIND_WRITES:
            yield FileWord(word=value, access="write")
        elif text.startswith(_FIND_READS) or (runs and text in _FIND_NAMES and _is_literal(value)):
            yield FileWord(word=value, access="read")


def _is_literal(word: Form) -> bool:
    return word.is_static and not set("*?[") & set(word.text)


def _starts(args: Sequence[Form]) -> list[Form]:
    """The start folders: behind the options, before the first test."""
    rest = list(reversed(args))
    starts = []
    while rest and not rest[-1].text.startswith(("(", "!")):
        word = rest.pop()
        if word.text == "-D":
            del rest[-1:]
        elif word.text == "-f" and rest:  # BSD
            starts.append(rest.pop())
        elif _FIND_OPTION.fullmatch(word.text):
            continue
        elif word.text.startswith("-"):
            break
        else:
            starts.append(word)
    return starts


_SPECIAL: dict[str, Callable[[Sequence[Form]], Iterator[FileWord]]] = {
    "dd": _dd,
    "find": _find,
    "git": git_files,
    "tar": tar_files,
}
