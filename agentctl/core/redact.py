"""Secret values out of everything that leaves a run: masked in every form that spellings.py lists.

The order everywhere is redact, then cut, then escape. What a tool had to cut before that is looked at again: the
beginning of a secret in front of a sign of the cut is masked, too. Masking is best effort: a value that a program
transforms in another way is not recognised.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from agentctl.core.spellings import spellings

SHORTEST_CUT = 4
"""So many characters of a secret in front of a cut are masked; fewer tell nothing."""

_CUTS = ("…", "\n... [")
"""How our tools mark that a text was cut."""
_WINDOW = 20
"""The first characters of a form by which it is found; shorter forms are searched for one by one."""
_SAMPLE = 6
"""Every so many characters in a row of a window are known, so one in `_STRIDE` places of a text has to be looked at
to find every form in it, however many there are."""
_STRIDE = _WINDOW - _SAMPLE + 1
_HEAD = 3


class Redactor:
    """Masks secrets, given as name → value. Without secrets every method returns what it got."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        masks: dict[str, str] = {}
        for name, value in secrets.items():
            mask = f"[masked:{name}]"
            for form in spellings(value):
                masks.setdefault(form, mask)
        self._masks = masks
        self._markers = tuple({f"[masked:{name}]" for name in secrets})
        self._short = [form for form in masks if len(form) < _WINDOW]
        windows = {form[:_WINDOW] for form in masks if len(form) >= _WINDOW}
        self._samples = {window[at : at + _SAMPLE] for window in windows for at in range(_STRIDE)}
        self._heads = {form[:size] for form in masks for size in range(1, min(_HEAD, len(form) - 1) + 1)}
        self._sorted = sorted(masks)
        self._shortest = min(map(len, masks), default=0)
        self._longest = max(map(len, masks), default=0)

    def text(self, text: str) -> str:
        """The same text with every known form of every secret replaced by `[masked:NAME]`."""
        if not self._masks:
            return text
        pattern = self._pattern(text)
        if pattern is not None:
            text = pattern.sub(self._mask, text)
        for sign in _CUTS:
            if sign in text:
                text = self._mask_cut(text, sign)
        return text

    def value(self, value: Any) -> Any:
        """The same JSON value with every text in it masked, keys too. Values that hold no secret are not copied."""
        if isinstance(value, str):
            return self.text(value)
        if not self._masks:
            return value
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.value, value))
        return value

    def contains_mask(self, text: str) -> bool:
        """Whether a marker of ours stands in the text; writing it back would destroy the secret it stands for."""
        return "[masked:" in text and any(marker in text for marker in self._markers)

    def stream(self) -> RedactingStream:
        """For text that comes in pieces."""
        return RedactingStream(self)

    def pieces(self) -> RedactingPieces:
        """For pieces that have to stay as they were cut."""
        return RedactingPieces(self)

    def held_back(self, text: str) -> int:
        """How many characters at the end of the text could be the beginning of a secret."""
        size = len(text)
        nearest = size - 2
        if size >= _HEAD and text[-_HEAD:] in self._inner:
            nearest = size - _WINDOW + 1
        if size >= _WINDOW:  # a longer beginning has a whole window in the text
            first = max(0, size - self._longest + 1)
            if not self._samples.isdisjoint([text[at : at + _SAMPLE] for at in range(first, size, _STRIDE)]):
                nearest = first
        for at in range(max(0, nearest), size):
            if text[at : at + _HEAD] in self._heads and (size - at <= _HEAD or self._begins(text[at:])):
                return size - at
        return 0

    @cached_property
    def _inner(self) -> frozenset[str]:
        """What may stand at the end of a beginning that is shorter than a window. Made for the first stream."""
        short = {form[at : at + _HEAD] for form in self._short for at in range(len(form))}
        return frozenset(short.union(*((sample[:_HEAD], sample[_HEAD:]) for sample in self._samples)))

    def _begins(self, text: str) -> bool:
        """Whether it is the beginning of a form, but not all of it."""
        place = bisect_right(self._sorted, text)
        return place < len(self._sorted) and self._sorted[place].startswith(text)

    def split(self, text: str) -> tuple[str, str]:
        """What of the text can be shown, masked, and what has to wait for the text that follows."""
        if not self._masks:
            return text, ""
        end, matches = self._decided(text)
        if not matches:
            return (text, "") if end == len(text) else (text[:end], text[end:])
        shown: list[str] = []
        done = 0
        for match in matches:
            shown += text[done : match.start()], self._mask(match)
            done = match.end()
        return "".join((*shown, text[done:end])), text[end:]

    def apart(self, pieces: Sequence[str]) -> tuple[list[str], list[str]]:
        """The pieces that can be shown, and the last ones, which have to wait for the piece that follows.

        Pieces that hold a secret only together become one. All others stay as they are, but for what is masked.
        """
        end, matches = self._decided("".join(pieces))
        shown: list[str] = []
        group = ""
        place = count = 0
        for number, piece in enumerate(pieces, start=1):
            group, place = group + piece, place + len(piece)
            if place > end:
                break
            if not any(match.start() < place < match.end() for match in matches):
                shown.append(self.text(group))
                group, count = "", number
        return shown, list(pieces[count:])

    def _decided(self, text: str) -> tuple[int, Sequence[re.Match[str]]]:
        """Up to where it is known what is secret, whatever follows, and the secrets until there."""
        held = self.held_back(text)
        end = len(text) - held
        pattern = self._pattern(text)
        if pattern is None:
            return end, ()
        matches: list[re.Match[str]] = []
        for match in pattern.finditer(text):
            if match.start() >= end:  # one secret is the beginning of another
                break
            matches.append(match)
            if match.end() > end:
                end = len(text) - self.held_back(text[match.end() :])
        return end, matches

    def _mask_cut(self, text: str, sign: str) -> str:
        """What stands in front of the sign and could be the beginning of a secret is masked like the whole."""
        *pieces, last = text.split(sign)
        for number, piece in enumerate(pieces):
            held = self.held_back(piece)
            if held >= SHORTEST_CUT:
                start = piece[len(piece) - held :]
                name = next(mask for form, mask in self._masks.items() if form.startswith(start))
                pieces[number] = piece[: len(piece) - held] + name
        return sign.join((*pieces, last))

    def _pattern(self, text: str) -> re.Pattern[str] | None:
        """For the forms that are in the text, the longest first; nearly always None."""
        if len(text) < self._shortest:
            return None
        found = [form for form in self._short if form in text]
        samples = [text[at : at + _SAMPLE] for at in range(0, len(text), _STRIDE)]
        if not self._samples.isdisjoint(samples):
            seen = self._samples.intersection(samples)
            near = (form for form in self._masks if len(form) >= _WINDOW and _holds(form[:_WINDOW], seen))
            found += [form for form in near if form in text]
        if not found:
            return None
        return re.compile("|".join(map(re.escape, sorted(found, key=len, reverse=True))))

    def _mask(self, match: re.Match[str]) -> str:
        return self._masks[match.group()]


class RedactingStream:
    """Masks secrets in a text that comes in pieces. Holds back only what could be the beginning of a secret."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, chunk: str) -> str:
        """What can be shown after this piece."""
        shown, self._held = self._redactor.split(self._held + chunk if self._held else chunk)
        return shown

    def end(self) -> str:
        """The rest; the stream is empty again."""
        rest, self._held = self._held, ""
        return self._redactor.text(rest)


class RedactingPieces:
    """Masks secrets in pieces and leaves the pieces as they were cut. What could be the beginning of a secret waits."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._waiting: list[str] = []

    def feed(self, piece: str) -> list[str]:
        """What can be shown after this piece."""
        shown, self._waiting = self._redactor.apart((*self._waiting, piece))
        return shown

    def end(self) -> list[str]:
        """The rest; there is nothing to wait for any more."""
        rest, self._waiting = self._waiting, []
        joined = "".join(rest)
        masked = self._redactor.text(joined)
        return rest if masked == joined else [masked]


class RedactingDecoder:
    """The same for bytes of a program's output: UTF-8 across pieces, what is not UTF-8 becomes U+FFFD."""

    def __init__(self, redactor: Redactor) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._stream = redactor.stream()

    def feed(self, chunk: bytes) -> str:
        return self._stream.feed(self._decoder.decode(chunk))

    def end(self) -> str:
        return self._stream.feed(self._decoder.decode(b"", True)) + self._stream.end()


def _holds(window: str, samples: Iterable[str]) -> bool:
    return any(sample in window for sample in samples)
