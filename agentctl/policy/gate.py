"""What is refused before any parser sees a line: characters that parsers and bash read differently, and size."""

from __future__ import annotations

import re

from agentctl.policy.syntax import Unreadable

MAX_BYTES = 65_536
MAX_SEPARATORS = 600
MAX_WORDS = 8_000
_QUOTING = re.compile(r"['\"\\#]|<<")
_SEPARATOR = re.compile(r"[;&|\n]+")
_OPERATOR = re.compile(r"[-+*/%<>&|^,?:]")

_REFUSED = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def _is_plain(line: str) -> bool:
    """Printable ASCII, tabs and newlines: nearly every line, and quicker than the expression above."""
    return line.isascii() and line.replace("\n", "").replace("\t", "").isprintable()


def gate(line: str) -> None:
    """Refuses what parsers and bash read differently, before any parser sees it. Raises Unreadable."""
    found = None if _is_plain(line) else re.search(_REFUSED, line)
    if found:
        raise Unreadable(f"it holds the character U+{ord(found.group()):04X} at {found.start()}; send it without")
    if not line.strip():
        raise Unreadable("it is empty; send a command")
    if len(line.encode()) > MAX_BYTES:
        raise Unreadable(f"it is longer than {MAX_BYTES:,} bytes; put the text into a file and run that")
    if len(line) > MAX_SEPARATORS and not _QUOTING.search(line):
        _plain_size(line)


def _plain_size(line: str) -> None:
    """A quick end for lines whose syntax tree would be huge. Without quotes, comments and documents, all that looks
    like a separator, a word or an operator is one."""
    if len(_SEPARATOR.findall(line)) > MAX_SEPARATORS:
        raise Unreadable("it holds too many commands; send it in smaller pieces")
    if len(line.split()) > MAX_WORDS:
        raise Unreadable(f"it holds more than {MAX_WORDS:,} words; send it in smaller pieces")
    if "((" in line and len(_OPERATOR.findall(line)) > MAX_SEPARATORS:
        raise Unreadable("its sum is too long; compute it in smaller pieces")
