"""Which repository a folder is a clone of, from the git files themselves: a run asks at every start.

CI machines reuse one path for many repositories; the state of one must not become that of another.
"""

from __future__ import annotations

from pathlib import Path

from agentctl.config.repository import nearest_repository
from agentctl.core.files import read_limited

MAX_BYTES = 1_000_000


def remote_of(root: Path) -> str | None:
    """`host/path` of the remote `origin`, or of the only one there is; None where git has none.

    Without user, password, scheme and `.git`, so that it holds no token and is the same for ssh and https.
    """
    config = _git_config(root)
    if config is None:
        return None
    urls = _urls(config)
    url = urls.get("origin") or (next(iter(urls.values())) if len(urls) == 1 else None)
    return plain_remote(url) if url else None


def plain_remote(url: str) -> str:
    """The part of a remote's URL that says which repository it is."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator:
        host, colon, path = scheme.partition(":")
        if not colon or "/" in host:  # a path of this machine
            return scheme.rstrip("/").removesuffix(".git")
        rest = f"{host}/{path.lstrip('/')}"
    host, _, path = rest.partition("/")
    return f"{host.rpartition('@')[2].lower()}/{path}".rstrip("/").removesuffix(".git")


def _git_config(root: Path) -> str | None:
    folder = nearest_repository(root)
    if folder is None:
        return None
    marker = folder / ".git"
    return _text(marker / "config") if marker.is_dir() else _linked_config(folder, marker)


def _linked_config(folder: Path, marker: Path) -> str | None:
    """Of a work tree or a submodule, whose `.git` is a file that names the real folder."""
    said = _text(marker) or ""
    if not said.startswith("gitdir:"):
        return None
    place = folder / said.removeprefix("gitdir:").strip()
    shared = _text(place / "commondir")
    return _text((place / shared.strip() if shared else place) / "config")


def _text(path: Path) -> str | None:
    try:
        return read_limited(path, MAX_BYTES).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return None


def _urls(config: str) -> dict[str, str]:
    """The first URL of each remote, by name."""
    urls: dict[str, str] = {}
    remote = ""
    for line in map(str.strip, config.split("\n")):
        if line.startswith("["):
            kind, _, name = line.strip("[]").partition(" ")
            remote = name.strip().strip('"') if kind.lower() == "remote" else ""
        elif remote:
            key, equals, value = line.partition("=")
            if equals and key.strip().lower() == "url":
                urls.setdefault(remote, value.strip().strip('"'))
    return urls
