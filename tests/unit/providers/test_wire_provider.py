"""The three adapters over real connections: what counts as an answer, and what is a failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest

from agentctl.core.errors import ProviderError, StreamBroken
from agentctl.core.ports import Completed, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.types import Api, Message, Usage
from agentctl.providers.make import adapter_for
from agentctl.providers.transport import DirectTransport, WireRequest, WireResponse
from agentctl.providers.wire import WireProvider
from tests.server import Call, Counts, Fault, Server, Turn, serve
from tests.unit.providers.provider_requests import APIS, answers, ask, collect, endpoint_of, request_of, user

LS = Call("bash", {"command": "ls"}, id="call_ls")
PWD = Call("bash", {"command": "pwd"}, id="call_pwd")
each_api = pytest.mark.parametrize("api", APIS)


def items_of(server: Server, api: Api) -> list[StreamItem]:
    """The items of one request."""

    async def main() -> list[StreamItem]:
        endpoint = endpoint_of(server, api)
        provider = WireProvider(adapter_for(api), endpoint, DirectTransport(idle_s=5))
        try:
            return await collect(provider.stream(request_of(endpoint)))
        finally:
            await provider.close()

    return asyncio.run(main())


def completed(server: Server, api: Api) -> Completed:
    last = items_of(server, api)[-1]
    assert isinstance(last, Completed)
    return last


@each_api
def test_a_conversation_with_calls(api: Api) -> None:
    async def main(server: Server) -> list[Message]:
        endpoint = endpoint_of(server, api)
        provider = WireProvider(adapter_for(api), endpoint, DirectTransport(idle_s=5))
        history = [user("hi")]
        for _ in range(3):
            message = (await ask(provider, request_of(endpoint, *history, think="high"))).message
            history += [message, answers(message) if message.calls else user("go on")]
        await provider.close()
        return history

    script = [Turn(reasoning="hm", text="looking", calls=[LS, PWD], delta=3), Turn(text="done"), Turn(calls=[LS])]
    with serve(script) as server:
        history = asyncio.run(main(server))
        assert server.refusals == []
        assert server.connections == 1
    assert [(message.role, message.text) for message in history] == [
        ("user", "hi"),
        ("assistant", "looking"),
        ("tool", ""),
        ("assistant", "done"),
        ("user", "go on"),
        ("assistant", ""),
        ("tool", ""),
    ]
    assert [(call.id, call.name, call.arguments) for call in history[1].calls] == [
        ("call_ls", "bash", '{"command":"ls"}'),
        ("call_pwd", "bash", '{"command":"pwd"}'),
    ]


@each_api
def test_usage_and_stop(api: Api) -> None:
    turn = Turn(text="half an", stop="length", usage=Counts(input=100, cache_read=2000, output=7))
    with serve([turn]) as server:
        end = completed(server, api)
    assert (end.stop, end.usage) == ("length", Usage(input=100, cache_read=2000, output=7))


@each_api
@pytest.mark.parametrize(
    "fault",
    [
        Fault(whole=True),
        Fault(newline=b"\r\n", comments=True),
        Fault(bom=True, chunk_bytes=1, gzip=True),
        Fault(content_type="text/plain"),
    ],
    ids=["whole", "crlf", "bytewise", "content-type"],
)
def test_the_form_of_the_answer_makes_no_difference(api: Api, fault: Fault) -> None:
    turn = {"text": "grüße 😀", "calls": [LS]}
    with serve([Turn(**turn), Turn(**turn, fault=fault)]) as server:
        assert completed(server, api).message == completed(server, api).message


BROKEN: dict[str, tuple[Fault, str]] = {
    "html": (Fault(body="<html><body>gateway</body></html>", content_type="text/html"), "page of HTML"),
    "empty": (Fault(status=200, body=""), "empty body"),
    "blank": (Fault(status=200, body="\r\n\r\n"), "empty body"),
    "half a JSON": (Fault(body='{"choices":[{"mess'), "JSON that is broken"),
    "text": (Fault(body="try again later"), "without an event: 'try again later'"),
    "odd JSON": (Fault(body=[1, 2]), "reported a failure"),
    "end before the end": (Fault(cut_after=3), ""),
    "end before anything": (Fault(cut_after=0), "empty body"),
    "fin": (Fault(cut_after=3, cut="fin"), "connection broke"),
    "rst": (Fault(cut_after=3, cut="rst"), "connection broke"),
    "half an event": (Fault(cut_bytes=150, cut="end"), ""),
    "garbage": (Fault(insert_after=2, insert=b"data: {oops\n\n"), "oops"),
    "wrong encoding": (Fault(headers={"content-encoding": "gzip"}), "encoding"),
}


@each_api
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_answer_is_a_broken_stream(api: Api, name: str) -> None:
    fault, says = BROKEN[name]
    with serve([Turn(text="a longer answer", delta=4, fault=fault)]) as server, pytest.raises(StreamBroken) as caught:
        items_of(server, api)
    assert caught.value.retryable
    assert says in caught.value.message


@each_api
def test_an_error_with_status_200(api: Api) -> None:
    body = {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "upstream is full"}}}
    turn = Turn(fault=Fault(body=body, headers={"retry-after": "3"}))
    with serve([turn]) as server, pytest.raises(ProviderError, match="upstream is full") as caught:
        items_of(server, api)
    assert (caught.value.kind, caught.value.status, caught.value.retry_after_s) == ("rate_limit", 429, 3.0)


@each_api
def test_a_refusal_in_the_words_of_the_service(api: Api) -> None:
    body = {"error": {"message": "messages.3: unexpected block", "type": "invalid_request_error"}}
    with serve([Turn(fault=Fault(status=400, body=body))]) as server, pytest.raises(ProviderError) as caught:
        items_of(server, api)
    assert caught.value.message == "The service rejected the request (HTTP 400): messages.3: unexpected block"
    assert (caught.value.ending, caught.value.retryable) == ("provider", False)


def test_what_a_broken_response_cost_is_known() -> None:
    turn = Turn(text="a longer answer", delta=4, usage=Counts(input=50), fault=Fault(cut_after=3, cut="rst"))
    with serve([turn]) as server, pytest.raises(StreamBroken) as caught:
        items_of(server, "anthropic-messages")
    assert caught.value.usage == Usage(input=50, output=1)


@each_api
def test_a_consumer_that_leaves_closes_the_connection(api: Api) -> None:
    async def main(server: Server) -> None:
        endpoint = endpoint_of(server, api)
        provider = WireProvider(adapter_for(api), endpoint, DirectTransport())
        async with aclosing(provider.stream(request_of(endpoint))) as items:  # type: ignore[type-var]  # a generator
            async for item in items:
                if isinstance(item, TextPiece):
                    break
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)
        await provider.close()

    with serve([Turn(text="some text", delta=2, fault=Fault(cut_after=6, cut="stall"))]) as server:
        asyncio.run(main(server))


# --- without a network: what one read becomes ----------------------------------------------------------------------


class FakeTransport:
    """Answers with the chunks it was given; a chunk that is an exception is raised."""

    def __init__(self, *chunks: bytes | Exception, status: int = 200) -> None:
        self._chunks = chunks
        self._status = status

    @asynccontextmanager
    async def open(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        yield WireResponse(status=self._status, headers=headers, chunks=self._read())

    async def _read(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def close(self) -> None:
        return


def read_chat(transport: FakeTransport, seen: list[StreamItem]) -> None:
    async def main() -> None:
        with serve() as server:
            endpoint = endpoint_of(server, "openai-chat")
        provider = WireProvider(adapter_for("openai-chat"), endpoint, transport)
        async for item in provider.stream(request_of(endpoint)):
            seen.append(item)

    asyncio.run(main())


def delta(field: str, text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"%s":"%s"}}]}\n\n' % (field.encode(), text.encode())


STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def test_the_pieces_of_one_read_are_joined() -> None:
    seen: list[StreamItem] = []
    first = delta("reasoning_content", "th") + delta("reasoning_content", "ink") + delta("content", "a")
    read_chat(FakeTransport(first + delta("content", "b"), delta("content", "c") + delta("content", "d"), STOP), seen)
    assert seen[:-1] == [ReasoningPiece(text="think"), TextPiece(text="ab"), TextPiece(text="cd")]
    assert isinstance(seen[-1], Completed)


def test_what_came_before_an_error_in_the_same_read_is_given_out() -> None:
    seen: list[StreamItem] = []
    with pytest.raises(ProviderError, match="upstream exploded"):
        read_chat(FakeTransport(delta("content", "half") + b'data: {"error":"upstream exploded"}\n\n'), seen)
    assert seen == [TextPiece(text="half")]


def test_an_answer_is_complete_although_the_connection_breaks_behind_it() -> None:
    seen: list[StreamItem] = []
    read_chat(FakeTransport(delta("content", "all"), STOP, StreamBroken("gone")), seen)
    assert isinstance(seen[-1], Completed)
    assert seen[-1].message.text == "all"


def test_a_refusal_whose_body_breaks_off_keeps_its_status() -> None:
    with pytest.raises(ProviderError, match="half a reas") as caught:
        read_chat(FakeTransport(b"half a reas", StreamBroken("gone"), status=400), [])
    assert caught.value.status == 400


WHOLE: Sequence[tuple[str, Callable[[], bytes]]] = [
    ("leading blank lines", lambda: b"\n\n" + delta("content", "x") + STOP),
    ("byte order mark", lambda: b"\xef\xbb\xbf" + delta("content", "x") + STOP),
    ("no last blank line", lambda: delta("content", "x") + STOP.rstrip()),
]


@pytest.mark.parametrize(("name", "body"), WHOLE, ids=[name for name, _ in WHOLE])
def test_first_and_last_events_are_never_lost(name: str, body: Callable[[], bytes]) -> None:
    seen: list[StreamItem] = []
    read_chat(FakeTransport(*(bytes([byte]) for byte in body())), seen)
    assert [type(item) for item in seen] == [TextPiece, Completed]


class PingingTransport(FakeTransport):
    """Goes on with comments when its chunks are over, as servers do that forget to hang up."""

    async def _read(self) -> AsyncIterator[bytes]:
        async for chunk in super()._read():
            yield chunk
        for _ in range(40):
            await asyncio.sleep(0.5)
            yield b": ping\n\n"


def test_comments_behind_a_whole_answer_do_not_keep_it() -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    seen: list[StreamItem] = []
    started = time.monotonic()
    read_chat(PingingTransport(chunk), seen)
    assert isinstance(seen[-1], Completed)
    assert (seen[-1].message.text, time.monotonic() - started < 9) == ("hi", True)


def test_a_connection_that_breaks_behind_a_whole_answer_is_no_failure() -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    seen: list[StreamItem] = []
    read_chat(FakeTransport(chunk, StreamBroken("reset")), seen)
    assert isinstance(seen[-1], Completed)
