"""Streams in any pieces and cut anywhere, in all three formats: the same message, or no answer and no tool that ran.

The bytes are those that the local server would send; they come from memory, so that every place can be tried.
AGENTCTL_CUTS=all tries every place also where a part of them is enough for every day: over real connections, say.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core.errors import LimitReached, StreamBroken
from agentctl.core.ports import Completed, TextPiece
from agentctl.core.types import Api, JsonObject
from agentctl.engine.budget import Limits
from agentctl.engine.loop import run_turn
from agentctl.providers.adapter import Endpoint
from agentctl.providers.make import adapter_for, make_transport
from agentctl.providers.transport import WireRequest, WireResponse
from agentctl.providers.wire import WireProvider
from tests.engine.test_turn import World
from tests.fakes import RecordingTool
from tests.server import Call, Counts, Fault, Server, Turn, serve
from tests.server.http import _pieces
from tests.server.wire import WIRES
from tests.unit.providers.provider_requests import APIS, ask, collect, endpoint_of, profile_of, request_of

each_api = pytest.mark.parametrize("api", APIS)
CALLS = Turn(
    reasoning="hm",
    text="é😀 look",
    calls=[Call("read", {"path": "a"}, id="call_1"), Call("read", {"path": "ü"}, id="call_2")],
    usage=Counts(input=9, cache_read=3, output=7),
    delta=6,
)
CALL = Turn(text="é", calls=[Call("read", {"path": "ü"}, id="call_1")])
TEXT = Turn(text="grüße \u2028 😀", delta=5)
ENDS: dict[Api, bytes] = {
    "openai-chat": b'"finish_reason":"',
    "openai-responses": b'"type":"response.completed"',
    "anthropic-messages": b'"type":"message_stop"',
}
"""What stands in the event that makes an answer whole."""


class FromMemory:
    """A Transport whose every response is these pieces, and then its end or a break."""

    def __init__(self, pieces: Sequence[bytes], *, breaks: bool = False) -> None:
        self._pieces = pieces
        self._breaks = breaks

    @asynccontextmanager
    async def open(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        yield WireResponse(status=200, headers={}, chunks=self._chunks())

    async def _chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._breaks:
            raise StreamBroken("The connection broke.")

    async def close(self) -> None:
        pass


IS_WHOLE = os.environ.get("AGENTCTL_CUTS") == "all"
TURNS = {"calls": CALLS, "call": CALL, "text": TEXT}


@cache
def stream_of(api: Api, turn: str) -> bytes:
    path = "/v1" + adapter_for(api).path.removeprefix("/v1")
    events = WIRES[path].events(TURNS[turn], {"model": "model-1", "stream_options": {"include_usage": True}}, 1)
    return b"".join(_pieces(events, Fault(), None))


def endpoint(api: Api) -> Endpoint:
    return Endpoint(vendor="test", api=api, base_url="http://127.0.0.1:1/v1", key="k", profile=profile_of(api))


async def hear(api: Api, pieces: Sequence[bytes], *, breaks: bool = False) -> tuple[Completed, str]:
    """The completed message, and the text that was streamed before it. Raises StreamBroken."""
    provider = WireProvider(adapter_for(api), endpoint(api), FromMemory(pieces, breaks=breaks))
    items = await collect(provider.stream(request_of(endpoint(api), think="high", max_output=40_000)))
    assert isinstance(items[-1], Completed)
    return items[-1], "".join(item.text for item in items if isinstance(item, TextPiece))


@each_api
@pytest.mark.parametrize("turn", ["calls", "text"])
def test_every_split_in_two_gives_the_same(turn: str, api: Api) -> None:
    async def main() -> None:
        stream = stream_of(api, turn)
        whole = await hear(api, [stream])
        assert whole[1] == TURNS[turn].whole_text
        for place in range(1, len(stream), 1 if IS_WHOLE or turn == "text" else 7):
            assert await hear(api, [stream[:place], stream[place:]]) == whole

    asyncio.run(main())


@each_api
@settings(max_examples=25, deadline=None)
@given(places=st.sets(st.integers(0, 3000), max_size=40), turn=st.sampled_from(sorted(TURNS)))
def test_any_pieces_give_the_same(api: Api, places: set[int], turn: str) -> None:
    stream = stream_of(api, turn)
    edges = [0, *sorted(place for place in places if 0 < place < len(stream)), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]

    async def main() -> None:
        assert await hear(api, pieces) == await hear(api, [stream])

    asyncio.run(main())


@each_api
def test_single_bytes_give_the_same(api: Api) -> None:
    stream = stream_of(api, "calls")

    async def main() -> None:
        assert await hear(api, [bytes([byte]) for byte in stream]) == await hear(api, [stream])

    asyncio.run(main())


@each_api
@pytest.mark.parametrize("breaks", [False, True], ids=["ends", "breaks"])
@pytest.mark.parametrize("turn", ["call", "text"])
def test_a_stream_that_is_cut_is_never_an_answer(turn: str, breaks: bool, api: Api) -> None:
    stream = stream_of(api, turn)
    last_event = stream.index(ENDS[api])

    async def main() -> list[int]:
        """Where a cut is an answer all the same: behind the last event that matters."""
        message = (await hear(api, [stream]))[0].message
        whole = []
        for place in range(0, len(stream), 7 if breaks and not IS_WHOLE else 1):
            try:
                completed, _ = await hear(api, [stream[:place]], breaks=breaks)
            except StreamBroken:
                continue
            assert completed.message == message
            whole.append(place)
        return whole

    whole = asyncio.run(main())
    assert all(place > last_event for place in whole)
    assert len(whole) < len(stream) - last_event


@each_api
def test_a_stream_that_is_cut_runs_no_tool(api: Api) -> None:
    stream = stream_of(api, "call")

    async def main(places: Iterable[int]) -> list[JsonObject]:
        ran: list[JsonObject] = []
        for place in places:
            tool = RecordingTool("read")
            provider = WireProvider(adapter_for(api), endpoint(api), FromMemory([stream[:place]]))
            world = World(tools=[tool], limits=Limits(max_steps=1, max_tool_calls=9, max_denials=9))
            with suppress(StreamBroken, LimitReached):  # the same calls would come again in a second step
                async for _ in run_turn(world.parts.replace(provider=provider), world.history):
                    pass
            ran += tool.calls
        return ran

    assert asyncio.run(main(range(stream.index(ENDS[api])))) == []
    assert asyncio.run(main([len(stream)])) == [{"path": "ü"}]


@each_api
@pytest.mark.parametrize("kind", ["direct", "sdk"])
def test_a_connection_that_is_cut_is_never_an_answer(kind: str, api: Api) -> None:
    size = len(stream_of(api, "calls"))
    places = range(0, size, 1 if IS_WHOLE else 251)
    script = [replace(CALLS, fault=Fault(cut_bytes=place, cut="fin")) for place in places]

    async def main(server: Server) -> int:
        where = endpoint_of(server, api)
        provider = WireProvider(adapter_for(api), where, make_transport(kind, where))
        broken = 0
        for place in places:
            try:
                completed = await ask(provider, request_of(where, think="high", max_output=40_000))
            except StreamBroken:
                broken += 1
            else:
                assert place > size * 0.8
                assert [call.id for call in completed.message.calls] == ["call_1", "call_2"]
        await provider.close()
        return broken

    with serve(script) as server:
        assert asyncio.run(main(server)) >= len(places) * 0.8
