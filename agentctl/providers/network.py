"""The way out of the machine: proxies, certificates and connections, as options and the environment say."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from agentctl.core.errors import UsageError
from agentctl.core.record import Record

if TYPE_CHECKING:
    import ssl

    import httpx2

_KEEPALIVE_IDLE_S = 60
_KEEPALIVE_EVERY_S = 15
_KEEPALIVE_PROBES = 5
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


class Network(Record):
    """The way out, where options say it; else the environment does."""

    proxy: str | None = None
    """URL of an HTTP(S) proxy for every host that NO_PROXY does not name."""
    ca_file: str | None = None
    """PEM file of the authorities that vouch for servers, instead of the system's."""


DIRECT_NETWORK = Network()


def make_client(is_tls: bool, network: Network = DIRECT_NETWORK) -> httpx2.AsyncClient:
    """A client for https:// addresses, or one for http:// addresses alone.

    The latter has no use for certificates, so it does not load the CA store (20 ms). It never sees an https://
    address: redirects are not followed, and a TLS proxy has a verifying context of its own. With proxies in the
    environment httpx2 makes the connections itself, without our socket options.
    """
    import httpx2

    try:
        verify = _authorities(network.ca_file) if is_tls and network.ca_file else is_tls
        if network.proxy:
            return httpx2.AsyncClient(mounts=_mounts(network.proxy, verify), verify=verify, trust_env=False)
        if any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXY_VARIABLES):
            return httpx2.AsyncClient(verify=verify, trust_env=True)
        transport = httpx2.AsyncHTTPTransport(verify=verify, socket_options=_keepalive_options())
        return httpx2.AsyncClient(transport=transport, trust_env=False)
    except OSError as error:  # ssl.SSLError is one
        named = f"CA file {network.ca_file!r}" if network.ca_file else f"certificates of {_of_environment()}"
        raise UsageError(
            f"The {named} cannot be read: {error.strerror or reason_of(error)}.",
            hint="Check --ca-file." if network.ca_file else "Check SSL_CERT_FILE and SSL_CERT_DIR.",
        ) from error
    except (ImportError, ValueError, httpx2.InvalidURL) as error:  # SOCKS without its package, a bad proxy URL
        raise UsageError(
            f"The proxy {'' if network.proxy else 'of the environment '}cannot be used: {reason_of(error)}.",
            hint="Check --proxy." if network.proxy else "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY.",
        ) from error


def _of_environment() -> str:
    found = [f"{name}={os.environ[name]!r}" for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
    return " and ".join(found) or "the system"


def _authorities(ca_file: str) -> ssl.SSLContext:
    import ssl  # httpx2 has imported it

    return ssl.create_default_context(cafile=ca_file)


def _mounts(proxy: str, verify: ssl.SSLContext | bool) -> dict[str, httpx2.AsyncBaseTransport | None]:
    """The proxy for everything but the hosts of NO_PROXY, which go out directly."""
    import httpx2

    listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip().lower() for name in listed.split(",") if name.strip()]
    if "*" in names:
        return {}
    through: dict[str, httpx2.AsyncBaseTransport | None] = {f"all://{_host_pattern(name)}": None for name in names}
    return {"all://": httpx2.AsyncHTTPTransport(proxy=httpx2.Proxy(proxy), verify=verify), **through}


def _host_pattern(name: str) -> str:
    """An entry of NO_PROXY as httpx2 writes it: a name counts for itself and the hosts below it, one with a leading
    dot or `*.` for those alone; addresses and networks as they are."""
    if name.count(":") > 1 and not name.startswith("["):
        return f"[{name}]"
    is_exact = name == "localhost" or (not name.strip("0123456789./:[]abcdef") and name[:1] in "0123456789[")
    return name if is_exact or name.startswith("*") else f"*{name}"


def _keepalive_options() -> list[tuple[int, int, int]]:
    """TCP keepalive, so that a connection that a NAT forgot while the model thinks is noticed."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))  # the latter on macOS
    named = (
        (idle, _KEEPALIVE_IDLE_S),
        (getattr(socket, "TCP_KEEPINTVL", None), _KEEPALIVE_EVERY_S),
        (getattr(socket, "TCP_KEEPCNT", None), _KEEPALIVE_PROBES),
    )
    return options + [(socket.IPPROTO_TCP, name, value) for name, value in named if name is not None]


def reason_of(error: Exception) -> str:
    """What an exception of the HTTP library says, without a stop at its end."""
    return (str(error) or type(error).__name__).rstrip(".")
