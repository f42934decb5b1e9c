"""How programs write a secret: the forms in which it is looked for. Tables first.

Encodings that change a character at a time (URLs, JSON, HTML, the shell) are spelt for the characters that the secret
has, so most secrets have few forms. Encodings of bytes (base64, base32, base85) depend on what stands before: they are
spelt as the characters that are the same in every text that holds the secret at that offset.
"""

from __future__ import annotations

import binascii
import re
import string
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, product

import orjson

from agentctl.core.text import clean

SHORTEST = 4
"""Forms and lines of a secret that are shorter are not looked for; they would blank out ordinary text. The value
itself always is."""
SHORTEST_LINE = 8
"""A line of a secret of many lines is masked by itself from this length on, and a part of its base32 and base85."""

_SAFE = ("", "/", "*", "+", ":/", "@:", "/:?=&", "!'()*", ";,/?:@&=+$#", "!'()*;,/?:@&=+$#")
"""What encoders of URLs leave alone beside letters, digits, `-._` and sometimes `~`: the defaults of Python and of
browsers, and what callers often ask for."""
_FREE_CHOICES = 4
"""Up to so many different characters every choice of those that are left alone is spelt."""
_QUOTES = {'"': ('"', "&quot;", "&#34;", "&#x22;"), "'": ("'", "&#x27;", "&#39;", "&apos;")}
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_TAGS = {60: "\\u003c", 62: "\\u003e", 38: "\\u0026"}
_HEX_TAGS = {60: "\\u003C", 62: "\\u003E", 38: "\\u0026", 39: "\\u0027"}
_JSON_OF_OTHERS: tuple[dict[int, str], ...] = (
    {},
    {47: "\\/"},
    _TAGS,
    {**_TAGS, 39: "\\u0027"},
    {**_TAGS, 43: "\\u002B", 39: "\\u0027"},
    _HEX_TAGS,
    {**_HEX_TAGS, 47: "\\/"},
)
"""What PHP, Go, Rails and .NET escape in JSON beyond what they must."""
_JSON_DEPTH = 3
_BASE32 = {f"{at:05b}": char for at, char in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")}
_GIT85 = (
    (string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~").encode().ljust(256)
)
_ASCII85 = bytes(range(33, 33 + 85)).ljust(256)
_SHELL = (
    (re.compile(r"(['])"), "'\"'\"'"),
    (re.compile(r"(['])"), "'\\''"),
    (re.compile(r'([$`"\\])'), r"\\\1"),
    (re.compile(r"""([ \t'"|&;()<>!{}*\[?\]^$`\\,])"""), r"\\\1"),
)
"""How shells quote: in single quotes, as `declare -p` and as `printf %q` do."""


def spellings(value: str) -> Iterator[str]:
    """Every form of a secret that is looked for: the value first, some more than once."""
    if not value:
        return
    yield value
    parts = [line.strip() for line in value.splitlines()]
    for part in dict.fromkeys((value, value.strip(), *(line for line in parts if len(line) >= SHORTEST_LINE))):
        for form in _forms(part):
            if len(form) >= SHORTEST:
                yield form


def _forms(text: str) -> Iterator[str]:
    data = text.encode("utf-8", "surrogateescape")
    yield text
    yield text[::-1]
    yield from _of_bytes(data)
    yield from _every_character(text, data)
    for characters, written in _WRITERS:
        if characters.search(text):
            yield from written(text)


def _of_bytes(data: bytes) -> Iterator[str]:
    for offset in range(3):
        encoded = binascii.b2a_base64(bytes(offset) + data, newline=False).decode()
        inner = encoded[-(-offset * 4 // 3) : (offset + len(data)) * 4 // 3]  # no character with bits of neighbours
        yield inner
        if "+" in inner or "/" in inner:
            yield inner.replace("+", "-").replace("/", "_")
            yield inner.replace("+", "%2B")
            yield inner.replace("+", "%2B").replace("/", "%2F")
    bits = f"{int.from_bytes(data, 'big'):0{len(data) * 8}b}"
    yield _base32(bits + "0" * (-len(bits) % 5))
    yield from (form for first in range(5) if len(form := _base32(bits[first:])) >= SHORTEST_LINE)
    last = -len(data) % 4
    digits = _base85(data + bytes(last))
    yield from _alphabets(digits[: len(digits) - last])
    yield from (form for first in range(4) for form in _alphabets(_base85(data[first:])) if len(form) >= SHORTEST_LINE)
    for mark in ("", ":", " "):
        hexadecimal = data.hex(mark) if mark else data.hex()
        yield hexadecimal
        yield hexadecimal.upper()


def _base32(bits: str) -> str:
    """Of whole groups. Our own, because that of the standard library takes ten times as long."""
    return "".join([_BASE32[bits[at : at + 5]] for at in range(0, len(bits) - 4, 5)])


def _base85(data: bytes) -> bytes:
    """The digits of whole groups."""
    found = bytearray()
    for at in range(0, len(data) - 3, 4):
        number = int.from_bytes(data[at : at + 4], "big")
        found += bytes((number // 85**4, number // 85**3 % 85, number // 7225 % 85, number // 85 % 85, number % 85))
    return bytes(found)


def _alphabets(digits: bytes) -> tuple[str, str]:
    return digits.translate(_GIT85).decode(), digits.translate(_ASCII85).decode()


def _every_character(text: str, data: bytes) -> Iterator[str]:
    """Escapes for bytes, then those for characters."""
    lower = _digits(data, 2)
    upper = _digits(data, 2, is_upper=True)
    yield from (before + before.join(digits) for before in ("%", "\\x", "=") for digits in (lower, upper))
    is_ascii = len(data) == len(text)
    for is_upper in (False, True):
        units = [f"00{pair}" for pair in (upper if is_upper else lower)] if is_ascii else _units(text, is_upper)
        yield "\\u" + "\\u".join(units)
        yield "&#x" + ";&#x".join(units) + ";"
        yield "&#x" + ";&#x".join(unit.lstrip("0") for unit in units) + ";"
    yield "&#" + ";&#".join(map(str, data if is_ascii else map(ord, text))) + ";"


def _digits(data: bytes, size: int, *, is_upper: bool = False) -> list[str]:
    digits = data.hex().upper() if is_upper else data.hex()
    return [digits[at : at + size] for at in range(0, len(digits), size)]


def _units(text: str, is_upper: bool) -> list[str]:
    return _digits(text.encode("utf-16-be", "surrogatepass"), 4, is_upper=is_upper)


def _of_urls(text: str) -> Iterator[str]:
    special = sorted({char for char in text if not (char.isascii() and char.isalnum())})
    open_ones = [char for char in special if char.isascii() and char not in "-._"]
    if len(open_ones) <= _FREE_CHOICES:
        chosen = product((False, True), repeat=len(open_ones))
        safe_sets: Iterable[str] = ("".join(compress(open_ones, kept)) for kept in chosen)
    else:
        safe_sets = (safe + tilde for safe in _SAFE for tilde in ("~", ""))
    for safe in safe_sets:
        for is_upper in (True, False):
            escaped = {ord(char): _percent(char, is_upper=is_upper) for char in special if char not in f"-._{safe}"}
            yield text.translate(escaped)
            if " " in special:
                yield text.translate(escaped | {32: "+"})


def _percent(char: str, *, is_upper: bool, sign: str = "%") -> str:
    digits = char.encode("utf-8", "surrogateescape").hex(sign)
    return sign + (digits.upper() if is_upper else digits)


def _of_mail(text: str) -> Iterator[str]:
    """Quoted-printable: of bodies, with and without blanks, and of headers."""
    table = {
        ord(char): _percent(char, is_upper=True, sign="=") for char in set(text) if char == "=" or not char.isascii()
    }
    yield text.translate(table)
    yield text.translate(table | {9: "=09", 32: "=20"})
    yield text.translate(table | {9: "=09", 32: "_", 95: "=5F"})


def _of_json(text: str) -> Iterator[str]:
    plain = orjson.dumps(clean(text)).decode()[1:-1]
    wide = {char: "\\u" + "\\u".join(_units(char, False)) for char in plain if not " " <= char <= "~"}
    used = [others for others in _JSON_OF_OTHERS if not others or any(chr(code) in plain for code in others)]
    for others in used:
        for table in (others, others | {ord(char): escape for char, escape in wide.items()}) if wide else (others,):
            spelt = plain.translate(table)
            for _ in range(_JSON_DEPTH):
                yield spelt
                spelt = spelt.replace("\\", "\\\\").replace('"', '\\"')


def _of_html(text: str) -> Iterator[str]:
    escaped = re.sub("[&<>]", lambda found: _HTML[found[0]], text)
    for double, single in product(*_QUOTES.values()):
        yield escaped.replace("'", single).replace('"', double)
    yield escaped.replace("'", "&#39;").replace('"', "&#34;").replace("+", "&#43;")


def _of_python(text: str) -> Iterator[str]:
    for written in (repr(text)[1:-1], ascii(text)[1:-1], repr(text.encode("utf-8", "surrogateescape"))[2:-1]):
        yield written
        yield written.replace("\\", "\\\\")
        yield written.replace("\\'", "'").replace("'", "\\'")
        yield written.replace('"', '\\"')
    yield from (again(written(text))[2:-2] for written, again in product((repr, ascii), repeat=2))


def _of_rows(text: str) -> Iterator[str]:
    """Cells of CSV and TSV, and the text as a regular expression."""
    yield text.replace('"', '""')
    yield text.replace("\\", "\\\\").replace("\t", "\\t")
    yield re.escape(text)


def _of_shells(text: str) -> Iterator[str]:
    return (pattern.sub(to, text) for pattern, to in _SHELL)


_WRITERS: tuple[tuple[re.Pattern[str], Callable[[str], Iterator[str]]], ...] = (
    (re.compile(r"[^A-Za-z0-9._-]"), _of_urls),
    (re.compile(r"[=_\s]|[^ -~]"), _of_mail),
    (re.compile(r"[\"\\/<>&'+]|[^ -~]"), _of_json),
    (re.compile(r"[&<>\"']"), _of_html),
    (re.compile(r"[\"\\']|[^ -~]"), _of_python),
    (re.compile(r"[^A-Za-z0-9._/:=+@%-]"), _of_shells),
    (re.compile(r"[^A-Za-z0-9_/:=@%]"), _of_rows),
)
"""Which characters an encoding changes."""
