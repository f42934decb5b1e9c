"""The byte stream of a response, opened by the official `openai` and `anthropic` clients.

They authenticate and send; everything else stays ours. Nothing of their parsing is used, because it loses data without
an error (docs/decisions/0008-sdk-transport.md), and they never retry: there is one retry layer. Connections, proxies
and certificates are those of the direct transport. Only `--transport sdk` imports this module, and only the first
request the client: half a second for openai, more than one for anthropic.

For a cloud (clouds.py) the client also makes the address, signs or fetches a token, and unpacks the stream.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import httpx2

from agentctl.core.codec import loads
from agentctl.core.errors import StreamBroken, UsageError
from agentctl.providers.adapter import Endpoint
from agentctl.providers.clouds import CLOUDS, Cloud, identity_failures, no_identity
from agentctl.providers.network import DIRECT_NETWORK, Network, make_client
from agentctl.providers.transport import (
    CONNECT_S,
    IDLE_S,
    REFUSAL_LIMIT,
    REFUSAL_S,
    USER_AGENT,
    WRITE_S,
    ConnectTrace,
    Unpack,
    WireRequest,
    WireResponse,
    opened,
    refuse_bad_headers,
    timed_out,
    unreachable,
)

if TYPE_CHECKING:
    from agentctl.core.types import Api

_CLIENTS: Mapping[Api, tuple[str, str]] = {
    "openai-chat": ("openai", "AsyncOpenAI"),
    "openai-responses": ("openai", "AsyncOpenAI"),
    "anthropic-messages": ("anthropic", "AsyncAnthropic"),
}
"""By wire format: the package and its client."""
_OPTIONS: Mapping[str, Mapping[str, Any]] = {"openai": {}, "anthropic": {"open_telemetry": False}}
_NO_KEY = "none"
"""The clients refuse to be made without a key. It is never sent: each request carries its own headers."""


_OF_THE_CLIENT = frozenset({"authorization", "x-api-key", "api-key"})
"""Headers by which a cloud's client says who asks."""
_AMBIENT_HEADERS: Mapping[str, tuple[str, ...]] = {"openai": ("openai-organization", "openai-project"), "anthropic": ()}
_AMBIENT_VARIABLES: Mapping[str, str] = {"openai": "OPENAI_CUSTOM_HEADERS", "anthropic": "ANTHROPIC_CUSTOM_HEADERS"}
"""What the clients send on their own when it is in the environment. Which of it is for this service is known here
already (gateway.py); the rest would go to whoever speaks the wire format."""


class SdkTransport:
    """One client for one endpoint and its wire formats; made with the first request."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connect_s: float = CONNECT_S,
        idle_s: float = IDLE_S,
        network: Network = DIRECT_NETWORK,
    ) -> None:
        """Raises UsageError when the client's package is not installed."""
        self._package, self._class = _CLIENTS[endpoint.api]
        self._cloud = CLOUDS.get(endpoint.cloud)
        if self._cloud is not None:
            self._class = self._cloud.client
        _check_installed(self._package, self._cloud)
        self._endpoint = endpoint
        self._connect_s = connect_s
        self._idle_s = idle_s
        self._network = network
        self._client: Any = None

    @asynccontextmanager
    async def open(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        response, unpacked = await self._send(request)
        async with opened(response, request.idle_s or self._idle_s, unpacked) as answer:
            yield answer

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def _send(self, request: WireRequest) -> tuple[httpx2.Response, Unpack | None]:
        """The response head. A kept-alive connection that turns out to be closed is replaced by a new one, once."""
        refuse_bad_headers(request.headers)
        sdk = import_module(self._package)
        for is_last in (False, True):
            try:
                stream = await self._ask(sdk, request)
            except sdk.APIStatusError as error:
                return error.response, None  # with what came of its body, see _Refusal
            except sdk.APIConnectionError as error:
                cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
                if isinstance(cause, httpx2.TimeoutException):
                    raise timed_out(request, cause, self._connect_s, request.idle_s or self._idle_s) from error
                if is_last or not _was_kept_alive(error.request, cause):
                    raise unreachable(request, cause) from error
                await self.close()
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise unreachable(request, error) from error
            except identity_failures(self._cloud) as error:
                raise no_identity(self._cloud, error) from error
            else:
                return stream.response, self._unpack(stream)
        raise AssertionError("unreachable: the second attempt returns or raises")

    async def _ask(self, sdk: Any, request: WireRequest) -> Any:
        """The client's stream of the response; only its `response` is used."""
        if self._client is None:
            self._client = self._make(sdk)
        options: dict[str, Any] = {"headers": self._headers(sdk, request)}
        if request.idle_s is not None:
            options["timeout"] = self._timeout(request.idle_s)
        path = request.path if self._cloud else request.url.removeprefix(self._endpoint.base_url)
        asks = {"options": options, "cast_to": object, "stream": True, "stream_cls": sdk.AsyncStream[object]}
        if request.method == "GET":
            return await self._client.get(path, **asks)
        return await self._client.post(path, body=loads(request.body) if request.body else None, **asks)

    def _headers(self, sdk: Any, request: WireRequest) -> dict[str, Any]:
        """Ours as they are; what the client would add by itself stays out, but for a cloud its identity."""
        ours = {name.lower(): value for name, value in request.headers.items()}
        added = {*_AMBIENT_HEADERS[self._package], *_names_in(os.environ.get(_AMBIENT_VARIABLES[self._package], ""))}
        if not self._is_asked_by_client():
            added.update(("authorization", "api-key") if self._cloud is not None else ("authorization",))
        else:
            ours = {
                name: value
                for name, value in ours.items()
                if name not in _OF_THE_CLIENT or name in self._endpoint.headers
            }
        return {**ours, **{name: sdk.omit for name in added if name not in ours}}

    def _make(self, sdk: Any) -> Any:
        http = make_client(not self._endpoint.base_url.startswith("http://"), self._network)
        http.event_hooks = {"request": [_trace], "response": [_bound_refusal]}
        try:
            return getattr(sdk, self._class)(
                base_url=self._endpoint.base_url,
                max_retries=0,
                timeout=self._timeout(self._idle_s),
                default_headers={"user-agent": USER_AGENT},
                http_client=http,
                **self._identity(),
                **_OPTIONS[self._package],
            )
        except httpx2.InvalidURL as error:
            raise unreachable(WireRequest(url=self._endpoint.base_url, headers={}), error) from error

    def _is_asked_by_client(self) -> bool:
        """Whether the client says who asks: for a cloud, unless --auth wants another header than it knows."""
        cloud = self._cloud
        return cloud is not None and (not cloud.is_direct or self._endpoint.profile.auth in cloud.key_arguments)

    def _identity(self) -> dict[str, str]:
        """The arguments of the client that say who asks and where."""
        endpoint, cloud = self._endpoint, self._cloud
        where = {argument: endpoint.place[name] for argument, name in cloud.arguments.items()} if cloud else {}
        if cloud is None or not self._is_asked_by_client():
            return {**where, "api_key": endpoint.key or _NO_KEY}
        argument = cloud.key_arguments.get(endpoint.profile.auth)
        return {**where, argument: endpoint.key} if argument and endpoint.key else where

    def _unpack(self, stream: Any) -> Unpack | None:
        """The client's own decoder, where the cloud packs its events in frames of its own."""
        kind = stream.response.headers.get("content-type", "").partition(";")[0].strip()
        if self._cloud is None or not self._cloud.unpacks or kind != self._cloud.unpacks:
            return None
        decoder = self._client._make_sse_decoder()  # the client has no public name for it

        async def unpack(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
            events = decoder.aiter_bytes(chunks)
            try:
                async for event in events:
                    lines = "".join(f"data: {line}\n" for line in event.data.split("\n"))
                    yield f"event: {event.event}\n{lines}\n".encode()
            except _bad_frames() as error:
                raise StreamBroken(
                    f"The service's stream cannot be unpacked: {error}.", hint="Try again later."
                ) from error
            finally:
                await events.aclose()

        return unpack

    def _timeout(self, idle_s: float) -> httpx2.Timeout:
        return httpx2.Timeout(connect=self._connect_s, read=idle_s, write=WRITE_S, pool=None)


def _check_installed(package: str, cloud: Cloud | None) -> None:
    modules = cloud.modules if cloud is not None else (package,)
    missing = next((name for name in modules if not _is_installed(name)), None)
    if missing is None:
        return
    extra, who = (cloud.extra, cloud.name) if cloud is not None else ("sdk", "--transport sdk")
    way_out = "" if cloud is not None and not cloud.is_direct else ", or leave --transport out"
    raise UsageError(
        f"{who} needs the package {missing.partition('.')[0]!r}, which is not installed.",
        hint=f"Install the extra `{extra}`, in a checkout with `pip install '.[{extra}]'`{way_out}.",
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a parent that is not there; one that is None
        return False


def _names_in(lines: str) -> set[str]:
    """Names of headers, one a line."""
    return {line.partition(":")[0].strip().lower() for line in lines.splitlines() if ":" in line}


def _bad_frames() -> tuple[type[Exception], ...]:
    frames = import_module("botocore.eventstream")  # imported by the decoder; it has no types
    return frames.ParserError, ValueError, KeyError


async def _trace(request: httpx2.Request) -> None:
    request.extensions["trace"] = ConnectTrace()


def _was_kept_alive(request: httpx2.Request, cause: Exception) -> bool:
    """Whether a request failed on a connection that an earlier one had opened."""
    trace = request.extensions.get("trace")
    is_broken = isinstance(cause, (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError))
    return is_broken and isinstance(trace, ConnectTrace) and not trace.has_connected


async def _bound_refusal(response: httpx2.Response) -> None:
    """The clients read the body of a refusal to its end before they report it."""
    if not response.is_success and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Refusal(response.stream)


class _Refusal(httpx2.AsyncByteStream):
    """As much of a body as comes before it breaks off, falls silent or gets too long; the status says enough."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._inner)
        end = asyncio.get_running_loop().time() + REFUSAL_S
        left = REFUSAL_LIMIT
        while left > 0:
            try:
                async with asyncio.timeout_at(end):
                    piece = await anext(pieces, None)
            except (httpx2.HTTPError, TimeoutError):
                return
            if piece is None:
                return
            yield piece
            left -= len(piece)

    async def aclose(self) -> None:
        await self._inner.aclose()
