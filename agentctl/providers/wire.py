"""A Provider over a wire format: the adapter makes the body and reads the frames, the transport carries the bytes.

A response counts only when it is one: a refusal, an error in a body of HTTP 200, a page of HTML, an empty body and a
stream without its end are failures. Which of them are tried again is not decided here (resilience.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import groupby

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ProviderError, StreamBroken
from agentctl.core.ports import Metered, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.text import one_line
from agentctl.core.types import JsonObject, Request
from agentctl.providers.adapter import Adapter, Decoder, Endpoint, Frame, Healing
from agentctl.providers.failure_facts import visible_text
from agentctl.providers.failures import from_error, from_response, retry_after, stream_broken
from agentctl.providers.sse import SseDecoder
from agentctl.providers.streams import closing
from agentctl.providers.transport import REFUSAL_LIMIT, REFUSAL_S, Transport, WireRequest, WireResponse

_WHOLE_LIMIT = 32 * 1024 * 1024
"""Bytes of a response that comes in one JSON body."""
_TAIL_S = 5.0
"""How long an answer that is whole waits for its usage and its last event."""
_DRAIN_S = 0.2
"""Time to read to the end of the body after the last event, so that the connection can be used again."""
_BLANK = b"\xef\xbb\xbf \t\r\n"
_ANSWER_KEYS = ("choices", "output", "content")


class WireProvider:
    """Asks one endpoint once per stream. Failures of a stream that had begun carry what is known of its `usage`."""

    def __init__(self, adapter: Adapter, endpoint: Endpoint, transport: Transport) -> None:
        self._adapter = adapter
        self._endpoint = endpoint
        self._transport = transport

    def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        return self.stream_healed(request, Healing())

    def body(self, request: Request, healing: Healing) -> JsonObject:
        """What would be sent."""
        if healing.tells_history:
            from agentctl.providers.told_history import told  # a service that needs it is rare

            request = request.replace(messages=told(request.messages))
        body = self._adapter.to_wire(request, self._endpoint, healing)
        return {**body, **self._endpoint.body} if self._endpoint.body else body

    async def stream_healed(self, request: Request, healing: Healing) -> AsyncIterator[StreamItem]:
        """The same as `stream`, with the request changed as `healing` says."""
        decoder = self._adapter.from_stream(request, self._endpoint)
        has_begun = False
        try:
            async with self._transport.open(self._wire_request(request, healing)) as response:
                if not 200 <= response.status < 300:
                    raise await _refusal(response)
                async with closing(_read(response, decoder)) as items:
                    async for item in items:
                        has_begun = True
                        yield item
            yield decoder.finish()
        except ProviderError as error:
            if error.usage is None and (has_begun or decoder.usage.total):
                error.usage = decoder.usage
            raise

    async def close(self) -> None:
        await self._transport.close()

    def _wire_request(self, request: Request, healing: Healing) -> WireRequest:
        headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        return WireRequest(
            url=address(self._endpoint, self._adapter, request.model.name),
            headers={**headers, **self._adapter.headers(self._endpoint)},
            body=dumps(self.body(request, healing)),
            path=self._adapter.path,
        )


def address(endpoint: Endpoint, adapter: Adapter, model: str) -> str:
    """The URL of a model call."""
    path = adapter.path
    if endpoint.cloud:
        from urllib.parse import quote  # few runs ask a cloud

        from agentctl.providers.clouds import CLOUDS

        path = CLOUDS[endpoint.cloud].paths.get(adapter.api, path).format(model=quote(model, safe=""))
    return with_query(endpoint, endpoint.base_url + path)


def with_query(endpoint: Endpoint, url: str) -> str:
    """The URL with what every request of this endpoint asks for in its query."""
    if not endpoint.query:
        return url
    from urllib.parse import urlencode

    return f"{url}{'&' if '?' in url else '?'}{urlencode(endpoint.query)}"


async def _refusal(response: WireResponse) -> ProviderError:
    body = bytearray()
    try:
        async with asyncio.timeout(REFUSAL_S):
            async for chunk in response.chunks:
                body += chunk
                if len(body) >= REFUSAL_LIMIT:
                    break
    except (StreamBroken, TimeoutError):
        pass  # the status and what came of the body are reported all the same
    return from_response(response.status, response.headers, bytes(body))


async def _read(response: WireResponse, decoder: Decoder) -> AsyncIterator[StreamItem]:
    """The items of a 2xx body. What it is shows its first byte, not the content type: proxies get that wrong."""
    head = b""
    async for chunk in response.chunks:
        head += chunk
        start = head.lstrip(_BLANK)[:1]
        if not start:
            continue
        if start in b"{[":
            for item in _joined(decoder.feed_whole(_answer(await _rest(head, response), response))):
                yield item
        elif start == b"<":
            page = await _rest(head, response, limit=REFUSAL_LIMIT)
            words = visible_text(page.decode("utf-8", "replace"))
            raise stream_broken(f"HTTP {response.status} with a page of HTML and not a model's answer: {words!r}")
        else:
            async with closing(_read_events(head, response, decoder)) as items:
                async for item in items:
                    yield item
        return
    raise stream_broken(f"HTTP {response.status} with an empty body")


async def _read_events(head: bytes, response: WireResponse, decoder: Decoder) -> AsyncIterator[StreamItem]:
    sse = SseDecoder()
    chunk, seen = head, False
    deadline: float | None = None
    while True:
        frames = sse.feed(chunk)
        seen = seen or bool(frames)
        for item in _decoded(frames, decoder):
            yield item
        if decoder.is_done:
            await _drain(response)
            return
        if decoder.is_whole and deadline is None:
            deadline = asyncio.get_running_loop().time() + _TAIL_S
        following = await _following(response, deadline)
        if following is None:
            break
        chunk = following
    frames = sse.end()
    if not seen and not frames:
        raise stream_broken(f"HTTP {response.status} without an event: {one_line(head.decode('utf-8', 'replace'))!r}")
    for item in _decoded(frames, decoder):
        yield item


async def _following(response: WireResponse, deadline: float | None) -> bytes | None:
    """The next bytes; None at the end. With a deadline the answer is whole, and what becomes of the connection does
    not matter: some servers keep it open, some break it."""
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(response.chunks, None)
    except (TimeoutError, StreamBroken):
        if deadline is None:
            raise
        return None


def _decoded(frames: Iterable[Frame], decoder: Decoder) -> Iterator[StreamItem]:
    """The items of the frames of one network read. What came before a failure in it is still given out."""
    items: list[StreamItem] = []
    try:
        for frame in frames:
            items += decoder.feed(frame)
            if decoder.is_done:
                break
    except ProviderError:
        yield from _joined(items)
        raise
    yield from _joined(items)


def _joined(items: Iterable[StreamItem]) -> Iterator[StreamItem]:
    """Neighbouring pieces of text as one piece, of several meter readings the last."""
    for kind, group in groupby(items, key=type):
        if kind is TextPiece:
            yield TextPiece(text="".join(item.text for item in group if isinstance(item, TextPiece)))
        elif kind is ReasoningPiece:
            yield ReasoningPiece(text="".join(item.text for item in group if isinstance(item, ReasoningPiece)))
        elif kind is Metered:
            yield list(group)[-1]
        else:
            yield from group


async def _rest(head: bytes, response: WireResponse, *, limit: int = _WHOLE_LIMIT) -> bytes:
    body = bytearray(head)
    async for chunk in response.chunks:
        body += chunk
        if len(body) > limit:
            raise stream_broken(f"HTTP {response.status} with a body of more than {limit:,} bytes")
    return bytes(body)


def _answer(data: bytes, response: WireResponse) -> JsonObject:
    """The whole answer of a server that does not stream. Raises the failure that the body reports."""
    try:
        body = loads(data.strip(_BLANK))
    except ValueError as error:
        start = one_line(data.decode("utf-8", "replace"))
        raise stream_broken(f"HTTP {response.status} with JSON that is broken: {start!r}") from error
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict) and not body.get("error") and any(key in body for key in _ANSWER_KEYS):
        return body
    failure = from_error(body)
    if failure.retryable and failure.retry_after_s is None:
        failure.retry_after_s = retry_after(response.headers, reads_resets=False)
    raise failure


async def _drain(response: WireResponse) -> None:
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in response.chunks:
                pass
    except (StreamBroken, TimeoutError):
        pass  # the answer is complete; only the connection is lost
