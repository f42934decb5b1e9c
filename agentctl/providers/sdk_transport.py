"""The byte stream of a response, opened by the official `openai` and `anthropic` clients.

They authenticate and send; everything else stays ours. Nothing of their parsing is used, because it loses data without
an error (docs/decisions/0008-sdk-transport.md), and they never retry: there is one retry layer. Connections, proxies
and certificates are those of the direct transport. Only `--transport sdk` imports this module, and only the first
request the client: half a second for openai, more than one for anthropic.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import httpx2

from agentctl.core.codec import loads
from agentctl.core.errors import UsageError
from agentctl.providers.adapter import Endpoint
from agentctl.providers.transport import (
    CONNECT_S,
    IDLE_S,
    REFUSAL_LIMIT,
    REFUSAL_S,
    USER_AGENT,
    WRITE_S,
    ConnectTrace,
    WireRequest,
    WireResponse,
    make_client,
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


class SdkTransport:
    """One client for one endpoint and its wire formats; made with the first request."""

    def __init__(self, endpoint: Endpoint, *, connect_s: float = CONNECT_S, idle_s: float = IDLE_S) -> None:
        """Raises UsageError when the client's package is not installed."""
        self._package, self._class = _CLIENTS[endpoint.api]
        if find_spec(self._package) is None:
            raise UsageError(
                f"--transport sdk needs the package {self._package!r}, which is not installed.",
                hint="Install the extra `sdk`, in a checkout with `pip install '.[sdk]'`, or leave --transport out.",
            )
        self._endpoint = endpoint
        self._connect_s = connect_s
        self._idle_s = idle_s
        self._client: Any = None

    @asynccontextmanager
    async def open(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        response = await self._send(request)
        async with opened(response, request.idle_s or self._idle_s) as answer:
            yield answer

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def _send(self, request: WireRequest) -> httpx2.Response:
        """The response head. A kept-alive connection that turns out to be closed is replaced by a new one, once."""
        refuse_bad_headers(request.headers)
        sdk = import_module(self._package)
        for is_last in (False, True):
            try:
                stream = await self._ask(sdk, request)
            except sdk.APIStatusError as error:
                refusal: httpx2.Response = error.response  # with what came of its body, see _Refusal
                return refusal
            except sdk.APIConnectionError as error:
                cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
                if isinstance(cause, httpx2.TimeoutException):
                    raise timed_out(request, cause, self._connect_s, request.idle_s or self._idle_s) from error
                if is_last or not _was_kept_alive(error.request, cause):
                    raise unreachable(request, cause) from error
                await self.close()
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise unreachable(request, error) from error
            else:
                response: httpx2.Response = stream.response
                return response
        raise AssertionError("unreachable: the second attempt returns or raises")

    async def _ask(self, sdk: Any, request: WireRequest) -> Any:
        """The client's stream of the response; only its `response` is used."""
        if self._client is None:
            self._client = self._make(sdk)
        options: dict[str, Any] = {"headers": self._headers(sdk, request)}
        if request.idle_s is not None:
            options["timeout"] = self._timeout(request.idle_s)
        path = request.url.removeprefix(self._endpoint.base_url)
        asks = {"options": options, "cast_to": object, "stream": True, "stream_cls": sdk.AsyncStream[object]}
        if request.method == "GET":
            return await self._client.get(path, **asks)
        return await self._client.post(path, body=loads(request.body) if request.body else None, **asks)

    def _headers(self, sdk: Any, request: WireRequest) -> dict[str, Any]:
        """Ours as they are; the client's own key stays out where the endpoint takes another header or none."""
        sent = {name.lower() for name in request.headers}
        left_out = {} if "authorization" in sent else {"authorization": sdk.omit}
        return {**request.headers, **left_out}

    def _make(self, sdk: Any) -> Any:
        http = make_client(is_tls=not self._endpoint.base_url.startswith("http://"))
        http.event_hooks = {"request": [_trace], "response": [_bound_refusal]}
        try:
            return getattr(sdk, self._class)(
                api_key=self._endpoint.key or _NO_KEY,
                base_url=self._endpoint.base_url,
                max_retries=0,
                timeout=self._timeout(self._idle_s),
                default_headers={"user-agent": USER_AGENT},
                http_client=http,
                **_OPTIONS[self._package],
            )
        except httpx2.InvalidURL as error:
            raise unreachable(WireRequest(url=self._endpoint.base_url, headers={}), error) from error

    def _timeout(self, idle_s: float) -> httpx2.Timeout:
        return httpx2.Timeout(connect=self._connect_s, read=idle_s, write=WRITE_S, pool=None)


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
