"""Any cut of any history is a legal request: judged by the strict local server, in each of its three formats."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctl.core.codec import dumps, loads
from agentctl.core.ports import Completed
from agentctl.core.types import Api, Message, ModelInfo, Request, RequestOptions
from agentctl.engine.compaction import LADDER, narrower
from agentctl.engine.context import Context, message_tokens
from agentctl.engine.prompt import Prompt
from agentctl.engine.repair import answer, open_calls
from agentctl.engine.view import View, apply, left_out, places, turn_places
from agentctl.providers.adapter import Healing
from agentctl.providers.make import adapter_for
from tests.engine.histories import histories
from tests.engine.services import APIS, endpoint_of, model_of, served_by
from tests.fakes import RecordingTool
from tests.server import Received, Server, Turn, serve
from tests.server.wire import WIRES, check

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Other work on the machine makes any example slow."""
PLACES = st.integers(0, 30)


@st.composite
def views(draw: st.DrawFn) -> View:
    return View(
        start=draw(PLACES),
        reasons_from=draw(PLACES),
        summary=draw(st.sampled_from(["", "what was done"])),
        cut_before=draw(PLACES),
        answers_before=draw(PLACES),
        turns_from=draw(PLACES),
        block_chars=draw(st.sampled_from([0, 500, 1_000, 200_000])),
    )


def request_of(model: ModelInfo, history: list[Message], view: View, state: str = "") -> Request:
    context = Context(
        model=model, prompt=Prompt(tools=[], appendix=""), tools=[RecordingTool("read").spec], options=RequestOptions()
    )
    context.view = view.replace(start=min(view.start, len(history)))
    return context.request(history).replace(state=state)


@settings(PATIENT, max_examples=80)
@given(histories(), PLACES, PLACES, views(), st.sampled_from(["", "<state>\nplan\n</state>"]))
def test_any_cut_of_any_history_is_a_legal_request(
    history: list[Message], begin: int, end: int, view: View, state: str
) -> None:
    cut = history[min(begin, len(history) - 1) :][: end + 1]
    for api in APIS:
        endpoint = endpoint_of(model_of(api))
        adapter = adapter_for(api)
        body = dumps(adapter.to_wire(request_of(model_of(api), cut, view, state), endpoint, Healing()))
        path = f"/v1{adapter.path}".replace("/v1/v1", "/v1")
        received = Received(method="POST", path=path, headers=dict(adapter.headers(endpoint)), raw=body, connection=1)
        check(WIRES[path], received)
        assert loads(body) == received.body


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve([Turn(text="ok", repeat=-1)]) as running:
        yield running


@pytest.mark.parametrize("api", APIS)
def test_a_service_takes_what_is_left_of_a_history(server: Server, api: Api) -> None:
    model, provider = served_by(server, api)

    async def ask(history: list[Message], view: View) -> None:
        items = [item async for item in provider.stream(request_of(model, history, view))]
        assert isinstance(items[-1], Completed)

    with asyncio.Runner() as runner:

        @settings(PATIENT, max_examples=25)
        @given(histories(), views())
        def property_over_the_socket(history: list[Message], view: View) -> None:
            runner.run(ask(history, view))

        property_over_the_socket()
        runner.run(provider.close())
    assert server.refusals == []


@PATIENT
@given(histories(), st.sampled_from(LADDER))
def test_a_cut_never_separates_an_answer_from_its_call(history: list[Message], size: int) -> None:
    view = narrower(history, lambda tried: len(history) - tried.start, size)
    assert not view.start or history[view.start].role != "tool"


def size_of(history: list[Message], view: View) -> int:
    return sum(map(message_tokens, apply(history, view)))


@PATIENT
@given(histories(), histories(), st.integers(1, 3_000), st.integers(1, 3_000))
def test_a_view_that_follows_another_sends_no_more_and_all_that_it_drops_is_summed_up(
    history: list[Message], more: list[Message], first: int, second: int
) -> None:
    before = narrower(history, partial(size_of, history), first)
    grown = [*history, *more]
    after = narrower(grown, partial(size_of, grown), second, before)
    assert size_of(grown, after) <= size_of(grown, before)
    turns = turn_places(grown)
    shown, stays = set(places(grown, turns, before)), set(places(grown, turns, after))
    assert stays <= shown
    dropped = {id(message) for message in left_out(grown, before, after)}
    assert {id(grown[place]) for place in shown - stays} <= dropped
    assert not after.start or grown[after.start].role != "tool"
    assert {*turns[:1], *turns[-1:]} <= stays
    assert View.from_row(loads(dumps(after.to_row()))) == after


@PATIENT
@given(histories())
def test_open_calls_are_those_that_no_answer_follows(history: list[Message]) -> None:
    mended = [*history, *(answer(call, "interrupted", is_error=True) for call in open_calls(history))]
    assert open_calls(mended) == []
    asked = [call for message in history for call in message.calls]
    assert all(call in asked for call in open_calls(history))
