"""Secret values out of everything that leaves a run: masked as they are, base64, URL- and JSON-encoded, hex, reversed.

The order everywhere is redact, then cut, then escape. What a tool had to cut before that is looked at again: the
beginning of a secret in front of a sign of the cut is masked, too. Masking is best effort: a value that a program
transforms in another way is not recognised.
"""

from __future__ import annotations

import binascii
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from agentctl.core.text import clean

SHORTEST = 4
"""Forms and lines of a secret that are shorter are not looked for; they would blank out ordinary text. The value
itself always is."""
SHORTEST_LINE = 8
"""A line of a secret of many lines is masked by itself from this length on."""

SHORTEST_CUT = 4
"""So many characters of a secret in front of a cut are masked; fewer tell nothing."""

_CUTS = ("…", "\n... [")
"""How our tools mark that a text was cut."""
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_LONG = 2000
"""From this many characters on one search per form is faster than one regular expression over all."""


class Redactor:
    """Masks secrets, given as name → value. Without secrets every method returns what it got."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        masks: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value):
                masks.setdefault(form, f"[masked:{name}]")
        self._masks = masks
        self._markers = tuple({f"[masked:{name}]" for name in secrets})
        ordered = sorted(masks, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._starts: dict[str, list[str]] = {}
        for form in ordered:
            for size in range(1, len(form)):
                self._starts.setdefault(form[max(0, size - 3) : size], []).append(form[:size])

    def text(self, text: str) -> str:
        """The same text with every known form of every secret replaced by `[masked:NAME]`."""
        if self._pattern is None:
            return text
        if self._is_hit(text):
            text = self._pattern.sub(self._mask, text)
        for sign in _CUTS:
            if sign in text:
                text = self._mask_cut(text, sign)
        return text

    def value(self, value: Any) -> Any:
        """The same JSON value with every text in it masked, keys too. Values that hold no secret are not copied."""
        if isinstance(value, str):
            return self.text(value)
        if self._pattern is None:
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
        get = self._starts.get
        three, two, one = get(text[-3:]), get(text[-2:]), get(text[-1:])
        if three is two is one is None:  # nearly always
            return 0
        found = (*(three or ()), *(two or ()), *(one or ()))
        return max((len(start) for start in found if text.endswith(start)), default=0)

    def split(self, text: str) -> tuple[str, str]:
        """What of the text can be shown, masked, and what has to wait for the text that follows."""
        if self._pattern is None:
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
        if self._pattern is None or not self._is_hit(text):
            return end, ()
        matches: list[re.Match[str]] = []
        for match in self._pattern.finditer(text):
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

    def _is_hit(self, text: str) -> bool:
        if len(text) < _LONG:
            return self._pattern is not None and self._pattern.search(text) is not None
        return any(form in text for form in self._masks)

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


def _forms(value: str) -> Iterator[str]:
    """Every form of a secret that is looked for: the value first."""
    if not value:
        return
    yield value
    parts = [line.strip() for line in value.splitlines()]
    for part in {value, value.strip(), *(line for line in parts if len(line) >= SHORTEST_LINE)}:
        for form in (part, *_encodings(part)):
            if len(form) >= SHORTEST:
                yield form


def _encodings(text: str) -> Iterator[str]:
    data = text.encode("utf-8", "surrogateescape")
    for offset in range(3):
        inner = _base64_inside(data, offset)
        yield inner
        yield inner.replace("+", "-").replace("/", "_")
    escaped = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in data)
    yield escaped
    yield escaped.replace("%20", "+")
    yield re.sub("%..", lambda match: match.group().lower(), escaped)
    yield orjson.dumps(clean(text)).decode()[1:-1]
    if not text.isascii():
        from json import dumps  # only such a secret needs its second spelling

        yield dumps(text)[1:-1]
    yield data.hex()
    yield data.hex().upper()
    yield text[::-1]


def _base64_inside(data: bytes, offset: int) -> str:
    """The characters that the data gives when `offset` other bytes stand before it: the same in every such text."""
    encoded = binascii.b2a_base64(bytes(offset) + data, newline=False).decode()
    return encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
