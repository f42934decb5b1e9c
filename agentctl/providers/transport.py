"""Opens the byte stream of a response. `Transport` is the seam; `DirectTransport` speaks HTTP itself, over httpx2.

Connection faults leave as errors of our tree: before the response as Unavailable, inside it as StreamBroken. What the
transport over the official clients (sdk_transport.py) does in the same way stands here, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from agentctl.core.errors import AuthError, ProviderError, StreamBroken, Unavailable
from agentctl.core.record import Record
from agentctl.providers.network import DIRECT_NETWORK, Network, make_client, reason_of
from agentctl.version import __version__

if TYPE_CHECKING:
    import httpx2

USER_AGENT = f"agentctl/{__version__}"
CONNECT_S = 10.0
IDLE_S = 120.0
"""Longest time without a byte, before and inside the response. Comments and pings of the service are bytes."""
_AGAIN = "Check the network and the service, then try again."
WRITE_S = 60.0
REFUSAL_LIMIT = 256 * 1024
"""Bytes of the body of a refusal that are read."""
REFUSAL_S = 10.0
"""Time to read the body of a refusal; its status alone says enough."""
_READ_AHEAD = 1000
"""Chunks that are read before the consumer has taken those before them."""


class WireRequest(Record):
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    method: str = "POST"
    idle_s: float | None = None
    """Stands for the transport's own limit of the time without a byte."""
    path: str = ""
    """Of a model call: the path of the wire format, of which a cloud's client makes the cloud's own address."""


Unpack = Callable[[AsyncIterator[bytes]], AsyncGenerator[bytes]]


class WireResponse(Record):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    chunks: AsyncIterator[bytes]
    """The body as it arrives, content encoding removed. Raises StreamBroken when it breaks off."""


class Transport(Protocol):
    def open(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        """Sends the request; leaving the context closes the response. Raises Unavailable when there is none."""
        ...

    async def close(self) -> None: ...


class DirectTransport:
    """HTTP/1.1 with kept-alive connections; proxies and CA files as the environment says. One per run."""

    def __init__(
        self, *, connect_s: float = CONNECT_S, idle_s: float = IDLE_S, network: Network = DIRECT_NETWORK
    ) -> None:
        self._connect_s = connect_s
        self._idle_s = idle_s
        self._network = network
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._retired: list[httpx2.AsyncClient] = []
        self._url: tuple[str, httpx2.URL] | None = None

    @asynccontextmanager
    async def open(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        response = await self._send(request)
        async with opened(response, request.idle_s or self._idle_s) as answer:
            yield answer

    async def close(self) -> None:
        clients = [*self._clients.values(), *self._retired]
        self._clients.clear()
        self._retired.clear()
        for client in clients:
            await client.aclose()

    async def _send(self, request: WireRequest) -> httpx2.Response:
        """The response head. A kept-alive connection that turns out to be closed is replaced by a new one, once."""
        import httpx2  # 90 ms, and only runs that ask a model need it

        refuse_bad_headers(request.headers)
        is_tls = not request.url.startswith("http://")
        for is_last in (False, True):
            client = self._client(is_tls)
            trace = ConnectTrace()
            try:
                return await client.send(self._build(client, request, trace), stream=True)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as error:
                if is_last or trace.has_connected:
                    raise unreachable(request, error) from error
                self._retired.append(self._clients.pop(is_tls))
            except httpx2.TimeoutException as error:
                raise timed_out(request, error, self._connect_s, request.idle_s or self._idle_s) from error
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise unreachable(request, error) from error
        raise AssertionError("unreachable: the second attempt returns or raises")

    def _build(self, client: httpx2.AsyncClient, request: WireRequest, trace: ConnectTrace) -> httpx2.Request:
        """As client.build_request would, without parsing the same URL for every step of a run (0.3 ms)."""
        import httpx2

        timeout = {"connect": self._connect_s, "read": request.idle_s or self._idle_s, "write": WRITE_S, "pool": None}
        if self._url is None or self._url[0] != request.url:
            self._url = (request.url, httpx2.URL(request.url))
        return httpx2.Request(
            request.method,
            self._url[1],
            headers={**client.headers, "user-agent": USER_AGENT, **request.headers},
            content=request.body or None,
            extensions={"timeout": timeout, "trace": trace},
        )

    def _client(self, is_tls: bool) -> httpx2.AsyncClient:
        if is_tls not in self._clients:
            self._clients[is_tls] = make_client(is_tls, self._network)
        return self._clients[is_tls]


@asynccontextmanager
async def opened(response: httpx2.Response, idle_s: float, unpack: Unpack | None = None) -> AsyncIterator[WireResponse]:
    """A response whose head is there, as it leaves a transport; closed on every way out. `unpack` makes server-sent
    events of a body in other frames."""
    received = _batches(_chunks(response, idle_s))
    chunks = unpack(received) if unpack is not None else received
    try:
        yield WireResponse(
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            chunks=chunks,
        )
    finally:
        await chunks.aclose()
        await received.aclose()
        await response.aclose()


class ConnectTrace:
    """Sees whether a request opened a connection of its own or took a kept-alive one."""

    def __init__(self) -> None:
        self.has_connected = False

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.has_connected = True


async def _batches(source: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same bytes in fewer pieces: what one network read brought is one piece, however the server chunked it.

    A task of its own reads on until it has to wait for the network; only then does the consumer get its turn.
    """
    waiting: list[bytes] = []
    has_news, has_room = asyncio.Event(), asyncio.Event()

    async def pump() -> None:
        try:
            async for chunk in source:
                waiting.append(chunk)
                has_news.set()
                if len(waiting) >= _READ_AHEAD:
                    has_room.clear()
                    await has_room.wait()
        finally:
            has_news.set()

    reader = asyncio.create_task(pump())
    try:
        while not reader.done():
            await has_news.wait()
            has_news.clear()
            has_room.set()
            if waiting:
                data = b"".join(waiting)
                waiting.clear()
                yield data
        if waiting:
            yield b"".join(waiting)
        await reader
    finally:
        if reader.cancel():
            await asyncio.wait((reader,))
        if not reader.cancelled():
            reader.exception()  # raised above, or of no interest to a consumer that left
        await source.aclose()


async def _chunks(response: httpx2.Response, idle_s: float) -> AsyncGenerator[bytes]:
    import httpx2

    try:
        async for chunk in response.aiter_bytes():
            yield chunk
    except httpx2.TimeoutException as error:
        what = f"The service sent no byte for {idle_s:g} s inside its answer."
        raise StreamBroken(what, hint=_AGAIN, kind="timeout") from error
    except httpx2.DecodingError as error:
        raise StreamBroken(f"The answer is not in the encoding it claims: {error}.", hint=_AGAIN) from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise StreamBroken(f"The connection broke inside the answer: {reason_of(error)}.", hint=_AGAIN) from error


def refuse_bad_headers(headers: Mapping[str, str]) -> None:
    """A key with a line break or a letter outside ASCII in it cannot be sent. The message does not show the value."""
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise AuthError(
                f"The value for the header {name!r} holds characters that a header cannot carry.",
                hint="Check the API key for line breaks, quotes and spaces from copying.",
            )


def timed_out(request: WireRequest, error: Exception, connect_s: float, idle_s: float) -> Unavailable:
    """What a timeout of httpx2 before the response means."""
    import httpx2

    if isinstance(error, httpx2.ConnectTimeout):
        what = f"No connection to {_host(request)} within {connect_s:g} s"
    else:
        what = f"{_host(request)} sent no byte for {idle_s:g} s"
    return Unavailable(f"{what}.", hint=_AGAIN, kind="timeout")


def unreachable(request: WireRequest, error: Exception) -> ProviderError:
    """What a fault of the connection or the address before the response means."""
    import httpx2

    host = _host(request)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return ProviderError(
            f"The certificate of {host} is not trusted: {reason_of(error)}.",
            hint="Name the CA file of your network with --ca-file or SSL_CERT_FILE if a proxy inspects TLS.",
            kind="tls",
        )
    if isinstance(error, (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)):
        return ProviderError(
            f"{request.url!r} cannot be asked: {reason_of(error)}.", hint="Check --base-url.", kind="bad_address"
        )
    return Unavailable(
        f"No answer from {host}: {reason_of(error)}.",
        hint="Check the network, the base URL and that the service is up.",
        kind="network",
    )


def _host(request: WireRequest) -> str:
    return request.url.partition("://")[2].partition("/")[0].rpartition("@")[2] or request.url
