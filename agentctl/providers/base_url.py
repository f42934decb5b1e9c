"""Base URLs as people write them, brought to the form that an Endpoint holds."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from agentctl.core.errors import UsageError
from agentctl.core.types import Api

_PATHS = ("/chat/completions", "/responses", "/messages")
"""What adapters append; a URL pasted whole is accepted and cut."""
_SHAPE = "Write it as https://host/v1 (OpenAI formats) or https://host (Anthropic), without a user name and a query."
_OLLAMA_PORT = "11434"


def normal_base_url(value: str, api: Api, source: str) -> str:
    """The URL without trailing slash and adapter path; for Anthropic also without `/v1`, for OpenAI formats with the
    path as given.

    `source` begins the message: the flag or the variable that holds the value. Raises UsageError.
    """
    text = value.strip()
    parts = _split(text, source)
    path = parts.path.rstrip("/")
    for ending in _PATHS:
        if path.endswith(ending):
            path = path.removesuffix(ending).rstrip("/")
            break
    if api == "anthropic-messages":
        path = path.removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def plain_base_url(value: str, source: str) -> str:
    """The URL without trailing slash, its path as given. Raises UsageError."""
    parts = _split(value.strip(), source)
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def azure_base_url(url: str) -> str:
    """The address of a resource, with or without what its portal shows behind the host, up to `/openai` or
    `/openai/v1`."""
    for ending in _PATHS:
        url = url.removesuffix(ending)
    url = url.partition("/openai/deployments/")[0]
    return url if url.endswith(("/openai", "/openai/v1")) else f"{url}/openai"


def ollama_base_url(host: str) -> str:
    """OLLAMA_HOST is `host`, `host:port`, `:port` or a URL; the address a server binds to stands for this machine."""
    scheme, has_scheme, rest = host.strip().rpartition("://")
    address, _, path = rest.partition("/")
    name, colon, port = address.rpartition(":")
    if not colon or "]" in port:
        name, port = address, ""
    if name in ("", "0.0.0.0", "[::]"):
        name = "127.0.0.1"
    if not port and not has_scheme:
        port = _OLLAMA_PORT
    path = path.strip("/").removesuffix("v1").strip("/")
    return f"{scheme or 'http'}://{name}{port and f':{port}'}{path and f'/{path}'}/v1"


def is_local(url: str) -> bool:
    """Whether the host is this machine or stands in a private network."""
    host = urlsplit(url).hostname or ""
    if "." not in host and ":" not in host:
        return True
    from ipaddress import ip_address  # only keyless vendors with a key ask

    try:
        return ip_address(host).is_private
    except ValueError:
        return host.endswith((".local", ".internal", ".localhost"))


def _split(text: str, source: str) -> SplitResult:
    shown = text.rpartition("@")[2]  # what stands before an @ may be a password
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # its text may quote a piece of a password
        raise UsageError(f"{source} {shown!r} is no URL: its host or port is malformed.", hint=_SHAPE) from None
    faults = (
        (shown != text, "contains a user name or password"),
        (any(char <= " " or char == "\x7f" for char in text), "contains a space or a control character"),
        (parts.scheme not in ("http", "https"), "is not an http or https URL"),
        (not parts.hostname or port == 0, "names no host and port that can be reached"),
        (bool(parts.query or parts.fragment), "has a query or a fragment"),
    )
    for is_fault, what in faults:
        if is_fault:
            raise UsageError(f"{source} {shown!r} {what}.", hint=_SHAPE)
    return parts
