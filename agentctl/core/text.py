"""Small, total functions on text: cleaning, cutting, counting, suggesting."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def clean(text: str) -> str:
    """Lone surrogates become U+FFFD; providers and JSON writers refuse them."""
    return text if text.isascii() else _SURROGATES.sub("�", text)


def cut_middle(text: str, limit: int, note: str = "") -> str:
    """At most about `limit` characters: head and tail with a line between that says how much is missing.

    `note` is added to that line, for example the path of the whole. Text that fits is returned as it is.
    """
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    dropped = len(text) - head - tail
    middle = f"\n... [{dropped:,} characters left out{'; ' + note if note else ''}] ...\n"
    return text[:head] + middle + text[len(text) - tail :]


def cut_end(text: str, limit: int) -> str:
    """The first `limit` characters, with an ellipsis when something is missing."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def one_line(text: str, limit: int = 120) -> str:
    """Whitespace folded, control characters gone, cut: for log lines and summaries."""
    head = text[: 8 * limit]  # the rest of a long text would be cut anyway
    folded = "".join(char if char.isprintable() else " " for char in head)
    line = " ".join(folded.split())
    return cut_end(line if len(head) == len(text) else f"{line} …", limit)


def estimate_tokens(text: str) -> int:
    """A rough count without a tokenizer: 1 token per 3.6 ASCII characters, 1.3 per other character."""
    if text.isascii():
        return int(len(text) / 3.6) + 1
    other = len(_NOT_ASCII.findall(text))
    return int((len(text) - other) / 3.6 + other * 1.306) + 1


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that was probably meant, or None."""
    from difflib import get_close_matches  # 8 ms, and only ever needed on the way to an error

    found = get_close_matches(word.lower(), {item.lower(): item for item in valid}, n=1, cutoff=0.5)
    return next((item for item in valid if found and item.lower() == found[0]), None)


def did_you_mean(word: str, valid: Iterable[str], *, limit: int = 12) -> str:
    """A hint for a word that is not in `valid`: the nearest one, or the list when it is short."""
    words = list(valid)
    near = nearest(word, words)
    if near:
        return f"Did you mean {near!r}?"
    return f"Valid: {', '.join(words)}." if len(words) <= limit else ""


def digest_of(text: str) -> str:
    """By which a view knows a text that it shows only in part: 16 hexadecimal digits."""
    from hashlib import sha256  # only long sessions cut texts

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
