"""URLs and their patterns: `[scheme://]host[:port][/path]`. Matching is linear in text times pattern.

Clients read odd URLs in different ways (user info, backslashes, dots in paths, other spellings of a host). An allow
rule matches only what every client reads alike; a refusal matches when one reading fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentctl.core.record import Record
from agentctl.policy.patterns import BadPattern, glob_match

_PLAIN = r"([a-zA-Z][a-zA-Z0-9+.-]*)://(\[[0-9a-fA-F:.]+\]|[^\s/?#@\\:\[\]%]+)(?::([0-9]{1,5}))?([/?#][^\s\\]*)?"
_SCHEME = r"([a-zA-Z][a-zA-Z0-9+.-]*):(?=[/\\])"
_DEFAULT_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
_MAX_HOST = 1024
"""Characters of a host name; longer ones do not exist and are read by no rule."""


class Url(Record):
    """A URL as the policy reads it. Several hosts or paths are several readings of the same text."""

    scheme: str
    """Lower case; empty when there is none."""
    hosts: tuple[str, ...]
    """Lower case, ASCII, without a final dot."""
    port: str
    """As it is used: the scheme's own when the URL names none; empty when that is not known."""
    paths: tuple[tuple[str, ...], ...]
    """Segments, percent signs decoded, `.` and `..` resolved. Never the query nor the fragment."""
    is_plain: bool
    """Every client reads it alike: no user info, no backslash, no odd character, a host that can exist."""


def read_url(text: str) -> Url:
    """Never raises: what is no URL is a host of its own that only a refusal can match."""
    found = re.fullmatch(_PLAIN, text) if text.isprintable() else None
    if found is None:
        return _read_loosely(text)
    scheme, host, port, tail = found[1].lower(), found[2], found[3] or "", found[4] or ""
    hosts = _hosts(host)
    is_plain = bool(hosts) and int(port or 0) < 65_536
    return Url(
        scheme=scheme,
        hosts=hosts or (host.lower(),),
        port=str(int(port)) if port else _DEFAULT_PORTS.get(scheme, ""),
        paths=_paths(tail),
        is_plain=is_plain,
    )


def _read_loosely(text: str) -> Url:
    """As the most forgiving client would: what stands behind user info, backslashes as slashes, no white space."""
    from urllib.parse import unquote  # for odd URLs only

    rest = "".join(char for char in text if char.isprintable() and char != " ").replace("\\", "/")
    found = re.match(_SCHEME, rest)
    scheme = found[1].lower() if found else ""
    rest = (rest[found.end() :] if found else rest).lstrip("/")
    cut = re.search("[/?#]", rest)
    authority, tail = (rest[: cut.start()], rest[cut.start() :]) if cut else (rest, "")
    host, colon, port = authority.rpartition("@")[2].rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority.rpartition("@")[2], ""
    host = unquote(host)
    number = str(int(port)) if port.isdecimal() and port.isascii() and len(port) < 8 else ""
    return Url(
        scheme=scheme,
        hosts=_hosts(host) or (host.lower(),),
        port=number or _DEFAULT_PORTS.get(scheme, ""),
        paths=_paths(tail),
        is_plain=False,
    )


def _hosts(host: str) -> tuple[str, ...]:
    """The names that clients can make of a host; empty when it is none."""
    bare = host.lower().removesuffix(".")
    if not bare or len(bare) > _MAX_HOST:
        return ()
    if bare.startswith("["):
        return _ipv6(bare)
    names = (bare,) if bare.isascii() else _idna(bare)
    return tuple(dict.fromkeys(item for name in names for item in (name, *_ipv4(name))))


def _idna(host: str) -> tuple[str, ...]:
    """International names, as IDNA 2008 and as IDNA 2003 spell them."""
    import idna  # for names that are not ASCII only

    names = []
    try:
        names.append(idna.encode(host, uts46=True).decode().removesuffix("."))
        names.append(host.encode("idna").decode().lower().removesuffix("."))
    except UnicodeError:  # also the parent of idna.IDNAError
        return tuple(names)
    return tuple(names)


def _ipv4(name: str) -> tuple[str, ...]:
    """`127.0.0.1` for `2130706433`, `0x7f.1` and the like, as inet_aton reads them."""
    parts = name.split(".")
    if len(parts) > 4 or not parts[-1][:1].isdigit():
        return ()
    try:
        *heads, last = map(_number, parts)
    except ValueError:
        return ()
    if any(number > 255 for number in heads) or last >= 256 ** (4 - len(heads)):
        return ()
    value = last + sum(number << (24 - 8 * at) for at, number in enumerate(heads))
    return (".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0)),)


def _number(text: str) -> int:
    """Decimal, octal behind a 0, hexadecimal behind 0x. Raises ValueError."""
    if not text.isalnum() or len(text) > 40:
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)


def _ipv6(text: str) -> tuple[str, ...]:
    import ipaddress

    try:
        address = ipaddress.IPv6Address(text[1:-1])
    except ValueError:
        return ()
    mapped = (str(address.ipv4_mapped),) if address.ipv4_mapped else ()
    return (f"[{address.compressed}]", *mapped)


def _paths(tail: str) -> tuple[tuple[str, ...], ...]:
    path = re.split("[?#]", tail, maxsplit=1)[0] or "/"
    if "%" not in path:
        return (_resolved(path),)
    from urllib.parse import unquote

    first = _resolved(unquote(path))
    second = tuple(unquote("/".join(_resolved(path))).split("/"))
    return tuple(dict.fromkeys((first, second)))


def _resolved(path: str) -> tuple[str, ...]:
    """The segments of a path that begins with a slash, `.` and `..` taken out."""
    parts = path.split("/")[1:]
    out: list[str] = []
    for part in parts:
        if part == "..":
            out = out[:-1]
        elif part != ".":
            out.append(part)
    return tuple(out) if parts[-1] not in (".", "..") else (*out, "")


class UrlPattern(Record):
    """`*` and `?` stand inside a host or a segment of a path, `**` for any number of segments."""

    text: str
    scheme: str
    """Empty when the pattern names none: http and https for allow rules, any for refusals."""
    hosts: tuple[str, ...]
    """The first is the spelling that an allow rule means."""
    port: str
    """Empty when the pattern names none: the scheme's own for allow rules, any for refusals."""
    path: tuple[str, ...]

    def surely(self, url: Url) -> bool:
        """For allow: in every reading of the URL."""
        return (
            url.is_plain
            and (glob_match(self.scheme, url.scheme) if self.scheme else url.scheme in ("http", "https"))
            and (self.port == "*" or url.port == (self.port or _DEFAULT_PORTS.get(url.scheme, "")))
            and all(glob_match(self.hosts[0], host) for host in url.hosts)
            and all(_covers(self.path, path, is_prefix=False) for path in url.paths)
        )

    def maybe(self, url: Url) -> bool:
        """For deny and ask: in one reading of the URL. A path covers all that lies below it."""
        return (
            (not self.scheme or not url.scheme or glob_match(self.scheme, url.scheme))
            and (self.port in ("", "*") or not url.port or self.port == url.port)
            and any(glob_match(pattern, host) for pattern in self.hosts for host in url.hosts)
            and any(_covers(self.path, path, is_prefix=True) for path in url.paths)
        )


def _covers(pattern: Sequence[str], path: Sequence[str], *, is_prefix: bool) -> bool:
    reach = _past_stars({0}, pattern)
    for part in path:
        if is_prefix and len(pattern) in reach:
            return True
        after: set[int] = set()
        for spot in reach:
            if spot < len(pattern) and pattern[spot] == "**":
                after.add(spot)
            elif spot < len(pattern) and glob_match(pattern[spot], part):
                after.add(spot + 1)
        reach = _past_stars(after, pattern)
    return len(pattern) in reach


def _past_stars(reach: set[int], pattern: Sequence[str]) -> set[int]:
    grown = set(reach)
    for spot in reach:
        while spot < len(pattern) and pattern[spot] == "**":
            spot += 1
            grown.add(spot)
    return grown


_PATTERN = r"(?:([a-zA-Z*][a-zA-Z0-9+.*-]*)://)?(\[[0-9a-fA-F:.]+\]|[^/:\[\]]+)(?::([0-9]{1,5}|\*))?(/.*)?"


def url_pattern(text: str) -> UrlPattern:
    """Raises BadPattern for what no URL can match: user info, a fragment, white space, a port that is no number."""
    if "@" in text:
        raise BadPattern("user info never matches; write the host alone")
    if not text.isprintable() or any(char in text for char in " #\\"):
        raise BadPattern("a URL pattern is [scheme://]host[:port][/path] without spaces, '#' and backslashes")
    found = re.fullmatch(_PATTERN, text)
    if not found:
        raise BadPattern("a URL pattern is [scheme://]host[:port][/path], for example https://*.example.org/docs/**")
    scheme, host, port, path = found.groups()
    return UrlPattern(
        text=text,
        scheme=(scheme or "").lower(),
        hosts=_host_patterns(host),
        port=str(int(port)) if port and port != "*" else port or "",
        path=_path_pattern(path),
    )


def _host_patterns(host: str) -> tuple[str, ...]:
    bare = host.lower().removesuffix(".")
    if any(char in bare for char in "*?"):
        if not bare.isascii():
            return tuple(dict.fromkeys(".".join(row) for row in _spellings(bare.split("."))))
        return (bare,)
    hosts = _hosts(host)
    if not hosts:
        raise BadPattern("its host cannot exist")
    return hosts


def _spellings(labels: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Each label for itself, since one with a `*` cannot be converted."""
    if any(not label.isascii() and ("*" in label or "?" in label) for label in labels):
        raise BadPattern("'*' and '?' stand in labels of plain letters; write the label in its xn-- form")
    rows = [(label, label) if label.isascii() else (_idna(label) * 2)[:2] for label in labels]
    if any(not row for row in rows):
        raise BadPattern("its host cannot exist")
    return tuple(zip(*rows, strict=True))


def _path_pattern(path: str | None) -> tuple[str, ...]:
    if path is None:
        return ("**",)
    from urllib.parse import unquote

    segments = tuple(unquote(path[1:]).split("/"))
    if "." in segments or ".." in segments:
        raise BadPattern("the path of a URL pattern is written without '.' and '..'")
    return segments
