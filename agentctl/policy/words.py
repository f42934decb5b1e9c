"""From shell words to argv: quote removal, ANSI-C escapes, braces, tildes, and what only running the line tells."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from agentctl.core.record import Record
from agentctl.policy.syntax import Arithmetic, Literal, Part, Substitution, Variable, Word

UNKNOWN = "\0"
"""Stands for any text inside a Form. A line that holds a real NUL never gets this far."""
PIPE_NAME = "/dev/fd/63"
"""What a process substitution becomes: the name of a pipe."""
MAX_WORDS = 64
"""Words that one brace expression may become before it counts as unknown."""

_SIMPLE = {
    "a": 7, "b": 8, "e": 27, "E": 27, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11,
    "\\": 92, "'": 39, '"': 34, "?": 63,
}  # fmt: skip


class Form(Record):
    """One argv word. `UNKNOWN` in the text is what only running the line would tell."""

    text: str
    is_many: bool = False
    """It may become several words or none (an unquoted variable, a file name pattern)."""
    glob: str = ""
    """The file name pattern, when that is all that is unknown about it."""
    choices: tuple[str, ...] = ()
    """All texts it can become, when it only depends on variables that the line itself sets."""
    names: tuple[str, ...] = ()
    """The quoted variables that its unknown pieces are, in order; empty when one is something else."""

    @property
    def is_static(self) -> bool:
        return not self.is_many and UNKNOWN not in self.text

    @property
    def shown(self) -> str:
        """For messages and suggestions."""
        return (self.glob or self.text).replace(UNKNOWN, "…")


def plain_text(word: Word) -> str | None:
    """The text of a word without expansions of any kind, otherwise None."""
    if not word.parts:
        return ""
    forms = expand(word)
    return forms[0].text if len(forms) == 1 and forms[0].is_static else None


def unquote(raw: str, *, specials: str | None = None) -> Iterator[Literal]:
    """Backslashes of unquoted text (`specials` None) or of double quotes and here-documents (what they can escape)."""
    kept: list[str] = []
    at = 0
    while at < len(raw):
        char = raw[at]
        if char != "\\" or at + 1 >= len(raw):
            kept.append(char)
            at += 1
            continue
        following = raw[at + 1]
        at += 2
        if following == "\n":
            continue
        if specials is not None:
            kept.append(following if following in specials else "\\" + following)
            continue
        if kept:
            yield Literal(text="".join(kept), is_quoted=False)
            kept = []
        yield Literal(text=following, is_quoted=True)
    if kept:
        yield Literal(text="".join(kept), is_quoted=specials is not None)


def ansi_c(raw: str) -> str:
    """What `$'raw'` stands for. A NUL ends the text, as in bash."""
    out = bytearray()
    at = 0
    while at < len(raw):
        if raw[at] != "\\" or at + 1 >= len(raw):
            out += raw[at].encode("utf-8", "surrogatepass")
            at += 1
            continue
        code, at = _escape(raw, at + 1)
        if code == b"\0":
            break
        out += code
    return out.decode("utf-8", "surrogateescape")


def _escape(raw: str, at: int) -> tuple[bytes, int]:
    """The bytes of the escape whose letter stands at `at`, and where it ends."""
    char = raw[at]
    if char in _SIMPLE:
        return bytes([_SIMPLE[char]]), at + 1
    if char in "01234567":
        end = _run(raw, at, 3, "01234567")
        return bytes([int(raw[at:end], 8) & 255]), end
    width = {"x": 2, "u": 4, "U": 8}.get(char)
    if width:
        end = _run(raw, at + 1, width, "0123456789abcdefABCDEF")
        if end == at + 1:
            return b"\\" + char.encode(), at + 1
        value = int(raw[at + 1 : end], 16)
        if char == "x":
            return bytes([value & 255]), end
        return (chr(value).encode("utf-8", "surrogatepass") if value < 0x110000 else b"?"), end
    if char == "c" and at + 1 < len(raw):
        return bytes([ord(raw[at + 1]) & 31]), at + 2
    return b"\\" + char.encode("utf-8", "surrogatepass"), at + 1


def _run(raw: str, at: int, width: int, digits: str) -> int:
    end = at
    while end < len(raw) and end < at + width and raw[end] in digits:
        end += 1
    return end


# --- expansion --------------------------------------------------------------------------------------------------

_Element = tuple[str, bool] | Variable | Substitution | Arithmetic
"""A character with whether it is quoted, or an expansion."""


Lookup = Callable[[str], tuple[str, ...] | None]
"""The values a variable can have, None when they are not known."""


def expand(word: Word, lookup: Lookup | None = None) -> tuple[Form, ...]:
    """The argv words this word becomes, as far as that is known before it runs."""
    if len(word.parts) == 1 and isinstance(word.parts[0], Literal) and _is_simple(word.parts[0]):
        return (Form(text=word.parts[0].text),)
    found = _braces(_elements(word.parts), MAX_WORDS)
    if found is None:
        return (Form(text=UNKNOWN, is_many=True),)
    return tuple(_form(item, lookup) for item in found if item)  # what is empty and unquoted is no word


def _is_simple(part: Literal) -> bool:
    return part.is_quoted or not any(char in part.text for char in "*?[{~")


def _elements(parts: Sequence[Part]) -> list[_Element]:
    out: list[_Element] = []
    for part in parts:
        if isinstance(part, Literal):
            if part.text:
                out.extend((char, part.is_quoted) for char in part.text)
            elif part.is_quoted:
                out.append(("", True))
        else:
            out.append(part)
    return out


def _braces(items: list[_Element], room: int) -> list[list[_Element]] | None:
    """All words of a brace expression; None when there are more than `room` or a range is used."""
    found, words = _find_brace(items)
    if found is None:
        return [items]
    start, commas, end = found
    if not commas or words > room:
        return None  # a range such as {1..9}, or too many
    cuts = [start, *commas, end]
    out: list[list[_Element]] = []
    for left, right in pairwise(cuts):
        inner = _braces(items[:start] + items[left + 1 : right] + items[end + 1 :], room - len(out))
        if inner is None or len(out) + len(inner) > room:
            return None
        out.extend(inner)
    return out


_BRACE_MARKS = frozenset((char, False) for char in "{},")


def _find_brace(items: list[_Element]) -> tuple[tuple[int, list[int], int] | None, int]:
    """The first brace expression as its start, its commas and its end; and how many words all of them make at least:
    one, and one for each comma. One pass, since braces that are never closed are as long as the word."""
    found: tuple[int, list[int], int] | None = None
    words = 1
    dots = _double_dots(items)
    opens: list[tuple[int, list[int]]] = []
    for at, item in enumerate(items):
        if not isinstance(item, tuple) or item not in _BRACE_MARKS:
            continue
        if item[0] == "{":
            opens.append((at, []))
        elif item[0] == "," and opens:
            opens[-1][1].append(at)
        elif item[0] == "}" and opens:
            start, commas = opens.pop()
            words += len(commas)
            is_range = bisect_left(dots, start) < bisect_left(dots, at)
            if (commas or is_range) and (found is None or start < found[0]):
                found = start, commas, at
    return found, words


def _double_dots(items: list[_Element]) -> list[int]:
    """Where two dots stand beside each other, expansions between them left out: the place of the second."""
    marks = [(at, item[0]) for at, item in enumerate(items) if isinstance(item, tuple) and item[0]]
    return [at for (_, before), (at, char) in pairwise(marks) if before == char == "."]


def _form(items: list[_Element], lookup: Lookup | None) -> Form:
    text: list[str] = []
    glob: list[str] = []
    is_many = has_glob = is_unknown = False
    has_bracket = ("]", False) in items
    for at, item in enumerate(items):
        if isinstance(item, Substitution) and item.kind != "$(":
            text.append(PIPE_NAME)
            glob.append(PIPE_NAME)
        elif not isinstance(item, tuple):
            is_unknown = True
            is_many = is_many or _splits(item)
            text.append(UNKNOWN)
        elif not item[1] and (item[0] in "*?" or (item[0] == "[" and has_bracket)) and item[0]:
            has_glob = True
            text.append(UNKNOWN)
            glob.append(item[0])
        elif item == ("~", False) and at == 0:
            home = _home(items)
            is_unknown = is_unknown or home is None
            text.append(UNKNOWN if home is None else home)
            glob.append(_escaped(home or ""))
        else:
            text.append(item[0])
            glob.append(_escaped(item[0]) if item[1] else item[0])
    if has_glob:
        return Form(text="".join(text), is_many=True, glob="" if is_unknown else "".join(glob))
    choices = _choices(items, lookup) if is_unknown and lookup else ()
    return Form(text="".join(text), is_many=is_many, choices=choices, names=_names(items) if is_unknown else ())


def _names(items: list[_Element]) -> tuple[str, ...]:
    unknown = [item for item in items if not isinstance(item, tuple)]
    names = [
        item.name
        for item in unknown
        if isinstance(item, Variable) and item.is_quoted and not (item.operator or item.words or item.is_evaluated)
    ]
    return tuple(names) if len(names) == len(unknown) else ()


def _choices(items: list[_Element], lookup: Lookup) -> tuple[str, ...]:
    """Every text of a word made of known characters and variables with known values; empty when that fails."""
    texts = [""]
    for item in items:
        if isinstance(item, tuple):
            values: tuple[str, ...] | None = (item[0],)
        elif isinstance(item, Variable) and not item.operator and not item.words and not item.is_evaluated:
            values = lookup(item.name)
            if values and not item.is_quoted and any(char in value for value in values for char in " \t\n*?["):
                values = None
        else:
            values = None
        if not values or len(texts) * len(values) > MAX_WORDS or items[0] == ("~", False):
            return ()
        texts = [text + value for text in texts for value in values]
    return tuple(texts)


def _splits(part: Part) -> bool:
    if isinstance(part, Arithmetic):
        return False
    if isinstance(part, Variable) and (part.name in ("@", "*") or part.operator in ("[@]", "[*]")):
        return True
    return isinstance(part, (Variable, Substitution)) and not part.is_quoted


def _escaped(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def _home(items: list[_Element]) -> str | None:
    """What a leading tilde becomes; None for `~user`, `~+` and `~-`."""
    following = items[1] if len(items) > 1 else ("/", False)
    return os.path.expanduser("~") if following == ("/", False) else None  # noqa: PTH111  # HOME as it is


def expands_to_statements(word: Word) -> Iterator[Substitution]:
    """Every substitution inside a word, at any depth of expansions."""
    for part in word.parts:
        if isinstance(part, Substitution):
            yield part
        elif isinstance(part, (Variable, Arithmetic)):
            for inner in part.words:
                yield from expands_to_statements(inner)
