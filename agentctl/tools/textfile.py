"""Text in files: how it was encoded, so that an edit changes nothing else, and how it is shown."""

from __future__ import annotations

import codecs
import re

from agentctl.config.workspace import FileData
from agentctl.core.errors import ToolFailure
from agentctl.core.record import Record

SNIFF_BYTES = 8192
MAX_TEXT_BYTES = 20_000_000
"""Largest file that is edited or decoded as a whole."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class TextFile(Record):
    """Decoded content. Bytes that are not UTF-8 stand in `text` as lone surrogates and come back unchanged."""

    text: str
    """Without the byte order mark, with its own line ends."""
    encoding: str = "utf-8"
    bom: bytes = b""
    is_exact: bool = True
    """False when some bytes are no valid UTF-8."""

    @property
    def newline(self) -> str:
        """The line end that most lines have."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf * 2 > self.text.count("\n") else "\n"

    def encode(self, text: str) -> bytes:
        """New content as the bytes of this file. Raises ToolFailure for text its encoding cannot take."""
        if not self.is_exact and not _keeps_to_ascii(text, self.text):
            raise ToolFailure(
                "The file is not UTF-8 and the new text is not plain ASCII, so its encoding would be mixed. "
                "Use ASCII only, or convert the file with bash (iconv) first."
            )
        return self.bom + text.encode(self.encoding, "strict" if self.is_exact else "surrogateescape")


def _keeps_to_ascii(new: str, old: str) -> bool:
    """Whether every character beyond ASCII is one that the file has already."""
    known = set(_beyond_ascii(old))
    return all(char in known for char in _beyond_ascii(new))


def _beyond_ascii(text: str) -> str:
    return "" if text.isascii() else "".join(char for char in text if char > "\x7f")


def is_binary(head: bytes) -> bool:
    """A NUL in the first bytes, unless a byte order mark says UTF-16."""
    return head[:2] not in _UTF16 and b"\0" in head[:SNIFF_BYTES]


def decode(data: bytes, path: str) -> TextFile:
    """Raises ToolFailure for a binary file."""
    if data.startswith(codecs.BOM_UTF8):
        return _utf8(data[3:], codecs.BOM_UTF8)
    encoding = _UTF16.get(data[:2])
    if encoding:
        try:
            return TextFile(text=data[2:].decode(encoding), encoding=encoding, bom=data[:2])
        except UnicodeDecodeError:
            raise binary(path) from None
    if is_binary(data):
        raise binary(path)
    return _utf8(data, b"")


def _utf8(data: bytes, bom: bytes) -> TextFile:
    try:
        return TextFile(text=data.decode(), bom=bom)
    except UnicodeDecodeError:
        return TextFile(text=data.decode(errors="surrogateescape"), bom=bom, is_exact=False)


def decode_whole(found: FileData, path: str) -> TextFile:
    """The text of a file that was read up to MAX_TEXT_BYTES. Raises ToolFailure when that was not all of it."""
    if not found.is_whole:
        raise ToolFailure(f"{path!r} is larger than {MAX_TEXT_BYTES:,} bytes. Use bash (sed, head, split) on it.")
    return decode(found.data, path)


def binary(path: str) -> ToolFailure:
    return ToolFailure(f"{path!r} is a binary file, not text. Use bash if you need to look into it.")


def check_text(value: str, name: str) -> None:
    """Raises ToolFailure for half characters, which no file can hold."""
    if not value.isascii() and _SURROGATES.search(value):
        raise ToolFailure(f"{name} holds half of a surrogate pair. Send the whole character.")


def with_newlines(text: str, newline: str) -> str:
    """The same lines with these line ends."""
    plain = text.replace("\r\n", "\n")
    return plain if newline == "\n" else plain.replace("\n", newline)


def shown_name(path: str) -> str:
    """A file name on one line: control characters and bytes that are no UTF-8 as backslash escapes."""
    if path.isascii() and path.isprintable():
        return path
    return "".join(_escape(char) for char in path)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode()
