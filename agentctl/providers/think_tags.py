"""Reasoning that a server leaves in the text between <think> tags, taken out while it streams."""

from __future__ import annotations

_OPEN = ("<think>", "<thinking>")
_CLOSE = ("</think>", "</thinking>")


class ThinkTags:
    """Splits text into reasoning and answer. What may be the start of a tag is held back until it is clear."""

    def __init__(self) -> None:
        self.is_inside = False
        self._held = ""
        self._is_after_close = False

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """Pieces as (is reasoning, text)."""
        if not self._held and not self._is_after_close and "<" not in text:
            return [(self.is_inside, text)] if text else []
        rest = self._held + text
        self._held = ""
        pieces: list[tuple[bool, str]] = []
        while rest:
            place, tag = _first(rest, _CLOSE if self.is_inside else _OPEN)
            if not tag:
                clear = len(rest) - _held_length(rest, _CLOSE if self.is_inside else _OPEN)
                self._held = rest[clear:]
                self._put(pieces, rest[:clear])
                break
            self._put(pieces, rest[:place])
            self._is_after_close = self.is_inside
            self.is_inside = not self.is_inside
            rest = rest[place + len(tag) :]
        return pieces

    def flush(self) -> list[tuple[bool, str]]:
        """What was held back and turned out to be text."""
        pieces: list[tuple[bool, str]] = []
        self._put(pieces, self._held)
        self._held = ""
        return pieces

    def _put(self, pieces: list[tuple[bool, str]], text: str) -> None:
        if self._is_after_close and not self.is_inside:  # templates put line breaks between tag and answer
            text = text.lstrip("\n")
        if text:
            self._is_after_close = False
            pieces.append((self.is_inside, text))


def _first(text: str, tags: tuple[str, ...]) -> tuple[int, str]:
    found = [(place, tag) for tag in tags if (place := text.find(tag)) >= 0]
    return min(found, default=(-1, ""))


def _held_length(text: str, tags: tuple[str, ...]) -> int:
    """How much of the end may be the start of a tag."""
    start = text.rfind("<")
    tail = text[start:] if start >= 0 else ""
    return len(tail) if tail and any(tag.startswith(tail) for tag in tags) else 0
