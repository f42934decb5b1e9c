"""What a pipe of file names carries into xargs: `find src -name '*.ts' | xargs sed -i …`.

Only producers whose output is certain are read: what they print lies below their start folders as these are now, so
all of that counts, whatever else they test for. For anything else the names stay unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from agentctl.policy.patterns import segment_match
from agentctl.policy.places import matching_files
from agentctl.policy.words import Form

Words = Sequence[Form]
Names = tuple[str, ...]

MAX_NAMES = 1500
"""Names a pipe may carry before they count as unknown."""
_SPLIT_BY_XARGS = re.compile(r"[\s'\"\\]")
_FIND_TESTS = frozenset({"-type", "-mtime", "-mmin", "-size", "-newer", "-maxdepth", "-mindepth", "-path", "-perm"})
_FIND_FLAGS = frozenset({"-print", "-print0", "-xdev", "-depth", "-empty"})
_GREP_LETTERS = frozenset("rlIEFiwPsZv")
_FILTERS: dict[str, str] = {
    "sort": r"-[uzVr]+",
    "uniq": r"-[uz]+",
    "head": r"-(n ?)?\d+|-n|\d+",
    "tail": r"-(n ?)?\d+|-n|\d+",
    "grep": r"-[EFiwPvz]+|[^-].*",
}
"""Programs that pass on some of the lines they read, by the options with which they change none."""


def carried(words: Words, folder: str, before: Names) -> Names:
    """The names that one command writes into a pipe, started in `folder` and fed with the names `before`. Empty when
    they are not known."""
    name = words[0].text if words else ""
    if name in _FILTERS:
        is_filter = all(word.is_static and re.fullmatch(_FILTERS[name], word.text) for word in words[1:])
        if is_filter and (name != "grep" or sum(not word.text.startswith("-") for word in words[1:]) == 1):
            return before
    if name == "find":
        found = _find(words[1:], folder)
    elif name == "ls":
        found = _ls(words[1:], folder)
    elif name in ("grep", "rg"):
        found = _grep(name, words[1:], folder)
    else:
        return ()
    return () if len(found) > MAX_NAMES or any(_SPLIT_BY_XARGS.search(item) for item in found) else tuple(found)


def _find(args: Words, folder: str) -> list[str]:
    """All below the start folders, by the pattern of `-name` when every test is one that all results pass."""
    if not all(word.is_static for word in args):
        return []
    texts = [word.text for word in args]
    starts = []
    while texts and not texts[0].startswith(("-", "(", "!")):
        starts.append(texts.pop(0))
    pattern = "*"
    while texts:
        text = texts.pop(0)
        if text == "-name" and texts:
            pattern = texts.pop(0)
        elif text in ("-not", "!") and len(texts) > 1 and texts[0] in ("-name", "-path", "-type"):
            del texts[:2]
        elif text in _FIND_TESTS and texts:
            texts.pop(0)
        elif text not in _FIND_FLAGS:
            return []
    return [name for start in starts or ["."] for name in _below(start, folder) if _fits(name, pattern)]


def _ls(args: Words, folder: str) -> list[str]:
    """Files named by words or patterns; a folder would be listed without its name."""
    found: list[str] = []
    for word in args:
        if word.text.startswith("-"):
            if not (word.is_static and re.fullmatch(r"-[1AatrSU]+|--", word.text)):
                return []
        elif word.glob:
            found.extend(matching_files(word.glob, folder) or ())
        elif word.is_static:
            found.append(word.text)
        else:
            return []
    return [] if any(os.path.isdir(os.path.join(folder, name)) for name in found) else found  # noqa: PTH112,PTH118  # as text


def _grep(name: str, args: Words, folder: str) -> list[str]:
    """`grep -rl PATTERN START…` and `rg -l PATTERN START…`, the pattern known or not."""
    operands: list[Form] = []
    included, letters = "*", ""
    for word in args:
        text = word.text
        if text.startswith("--include=") and word.is_static:
            included = text.partition("=")[2]
        elif text == "--files-with-matches":
            letters += "l"
        elif text.startswith("-"):
            letters += text[1:]
        else:
            operands.append(word)
    starts = operands[1:] or ([Form(text=".")] if name == "rg" or "r" in letters else [])
    if "l" not in letters or not _GREP_LETTERS.issuperset(letters) or not all(item.is_static for item in starts):
        return []
    found = [item for start in starts for item in _below(start.text, folder) if _fits(item, included)]
    return found if name == "grep" else [item for item in found if "/." not in f"/{item.removeprefix('./')}"]


def _below(start: str, folder: str) -> list[str]:
    """Everything below a folder, symlinks not followed, and the folder; too many names when it is too much."""
    found = [start]
    for path, folders, files in os.walk(os.path.join(folder, start)):  # noqa: PTH118  # names as they are printed
        inner = os.path.relpath(path, os.path.join(folder, start))  # noqa: PTH118  # as above
        at = start.rstrip("/") if inner == "." else f"{start.rstrip('/')}/{inner}"
        found.extend(f"{at}/{name}" for name in (*folders, *files))
        if len(found) > MAX_NAMES:
            break
    return found


def _fits(name: str, pattern: str) -> bool:
    return pattern == "*" or segment_match(pattern, name.rpartition("/")[2])
