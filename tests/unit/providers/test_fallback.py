"""Another model when one is unavailable: which failures move on, what is said, sent and paid."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentctl.core.errors import (
    AgentctlError,
    AuthError,
    ContextOverflow,
    OutputCapped,
    ProviderError,
    StreamBroken,
    Unavailable,
    UsageError,
)
from agentctl.core.events import Notice, Retry
from agentctl.core.ports import Answering, Attempt, Provider, StreamItem, TextPiece
from agentctl.core.types import Api, Message, ModelInfo, Price, Request, RequestOptions, Usage
from agentctl.providers.fallback import ModelFallback
from agentctl.providers.make import make_provider
from agentctl.providers.resilience import Retrying
from agentctl.providers.select import select_fallback
from tests.fakes import FakeClock, ScriptedProvider, says
from tests.server import Call, Fault, Server, Turn, serve
from tests.unit.providers.provider_requests import answers, ask, endpoint_of, request_of, user


def model(name: str) -> ModelInfo:
    return ModelInfo(
        vendor="fake", name=name, api="openai-chat", base_url="http://127.0.0.1:1/v1", origin="test", profile="openai"
    )


ONE, TWO, THREE = model("one"), model("two"), model("three")
DONE = says("fine")
REQUEST = Request(system=(), messages=(user("hi"),), tools=(), options=RequestOptions(), model=ONE)
CHANGED = "fake/one is unavailable: busy. Went on with fake/two, for the rest of this run."


def run(provider: Provider) -> tuple[list[StreamItem], AgentctlError | None]:
    seen: list[StreamItem] = []

    async def main() -> None:
        async for item in provider.stream(REQUEST):
            seen.append(item)

    try:
        asyncio.run(main())
    except AgentctlError as error:
        return seen, error
    return seen, None


def test_the_next_model_answers_with_the_same_history_and_stays() -> None:
    first, second = ScriptedProvider(Unavailable("busy.")), ScriptedProvider(DONE)
    provider = ModelFallback(first, [(TWO, second), (THREE, ScriptedProvider(DONE))])
    seen, error = run(provider)
    assert error is None
    assert seen[:2] == [Notice(code="model-changed", text=CHANGED), Answering(model=TWO)]
    assert seen[-1] == DONE
    again, _ = run(provider)
    assert again[0] == Answering(model=TWO)
    assert not [item for item in again if isinstance(item, Notice)]
    assert first.requests == [REQUEST]
    assert second.requests == [REQUEST.replace(model=TWO)] * 2


def test_each_change_is_said_and_the_last_failure_stands() -> None:
    down = [ScriptedProvider(Unavailable(f"{name} is down")) for name in ("one", "two", "three")]
    seen, error = run(ModelFallback(down[0], [(TWO, down[1]), (THREE, down[2])]))
    assert [item.text for item in seen if isinstance(item, Notice)] == [
        "fake/one is unavailable: one is down. Went on with fake/two, for the rest of this run.",
        "fake/two is unavailable: two is down. Went on with fake/three, for the rest of this run.",
    ]
    assert isinstance(error, Unavailable)
    assert error.message == "three is down"


@pytest.mark.parametrize(
    "failure",
    [AuthError("no key"), ProviderError("rejected"), ContextOverflow("long"), OutputCapped("long", room=5)],
    ids=lambda failure: type(failure).__name__,
)
def test_every_other_failure_stands(failure: ProviderError) -> None:
    second = ScriptedProvider(DONE)
    assert run(ModelFallback(ScriptedProvider(failure), [(TWO, second)])) == ([], failure)
    assert second.requests == []


def test_text_of_the_first_model_is_void_and_its_tokens_are_paid() -> None:
    broken = StreamBroken("cut", usage=Usage(input=50, output=3))
    seen, error = run(
        ModelFallback(ScriptedProvider([TextPiece(text="half"), broken]), [(TWO, ScriptedProvider([DONE]))])
    )
    assert error is None
    assert seen == [
        TextPiece(text="half"),
        Attempt(usage=Usage(input=50, output=3)),
        Notice(
            code="model-changed",
            text="fake/one is unavailable: cut. Went on with fake/two, for the rest of this run.",
        ),
        Retry(attempt=1, of=1, wait_s=0.0, reason="cut", status=None, discard=True),
        Answering(model=TWO),
        DONE,
    ]


def test_text_that_a_retry_made_void_is_not_made_void_twice() -> None:
    script = [[TextPiece(text="half"), StreamBroken("cut")], Unavailable("busy")]
    first = Retrying(ScriptedProvider(*script), FakeClock(), attempts=2)
    seen, _ = run(ModelFallback(first, [(TWO, ScriptedProvider([DONE]))]))
    assert [item.discard for item in seen if isinstance(item, Retry)] == [True]


def test_the_first_model_is_retried_before() -> None:
    first, clock = ScriptedProvider(Unavailable("busy")), FakeClock()
    _, error = run(ModelFallback(Retrying(first, clock), [(TWO, ScriptedProvider(DONE))]))
    assert (error, len(first.requests), len(clock.slept)) == (None, 4, 3)


# --- over the wire --------------------------------------------------------------------------------------------------

DOWN = Turn(fault=Fault(status=503, body="overloaded", headers={"retry-after-ms": "1"}), repeat=-1)
PAIRS: list[tuple[Api, Api]] = [
    ("anthropic-messages", "openai-responses"),
    ("openai-responses", "anthropic-messages"),
    ("openai-chat", "anthropic-messages"),
    ("anthropic-messages", "openai-chat"),
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_reasoning_and_ids_of_another_service_stay_behind(before: Api, after: Api) -> None:
    """The second step of a turn, after calls with reasoning, is answered by another service."""
    script = [
        Turn(reasoning="secret thought", text="looking", calls=[Call("bash", {"command": "ls"}, id="call_1")]),
        DOWN,
    ]

    async def main(one: Server, two: Server) -> Message:
        ends = [endpoint_of(one, before), endpoint_of(two, after)]
        clock = FakeClock()
        other = request_of(ends[1], name="model-2").model
        provider = ModelFallback(make_provider(ends[0], clock), [(other, make_provider(ends[1], clock))])
        try:
            called = (await ask(provider, request_of(ends[0], think="high", max_output=40_000))).message
            history = (user("hi"), called, answers(called, "a.txt"))
            return (await ask(provider, request_of(ends[0], *history, think="high", max_output=40_000))).message
        finally:
            await provider.close()

    with serve(script) as one, serve([Turn(text="done")]) as two:
        assert asyncio.run(main(one, two)).text == "done"
        assert (one.refusals, two.refusals) == ([], [])
        assert (len(one.requests), len(two.requests)) == (5, 1)
        sent = two.requests[0]
    assert sent.body["model"] == "model-2"
    assert b"secret thought" not in sent.raw
    assert b"looking" in sent.raw
    assert b"a.txt" in sent.raw


# --- which models -----------------------------------------------------------------------------------------------------

KEYS = {"OPENAI_API_KEY": "sk-openai", "GROQ_API_KEY": "sk-groq", "AGENTCTL_API_KEY": "sk-any"}


def fallback(name: str, env: dict[str, str] | None = None, **details: Any) -> Any:
    first = model("one").replace(vendor="openai")
    options = {"api": "openai-responses", "base_url": "http://127.0.0.1:5/v1", "max_context": 9_000, **details}
    return select_fallback(name, first=first, env=KEYS if env is None else env, **options)


def test_a_fallback_of_the_same_vendor_is_asked_at_the_same_place() -> None:
    info, endpoint = fallback("openai/gpt-5")
    assert (info.api, info.base_url, info.origin, info.window) == (
        "openai-responses",
        "http://127.0.0.1:5/v1",
        "--fallback",
        272_000,
    )
    assert endpoint.key == "sk-any"


def test_a_fallback_of_another_vendor_is_asked_at_its_own_with_its_own_key() -> None:
    info, endpoint = fallback("groq/no-such")
    assert (info.api, info.base_url, info.window) == ("openai-chat", "https://api.groq.com/openai/v1", 9_000)
    assert endpoint.key == "sk-groq"


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("deepseek/x", AuthError, "--fallback deepseek/x: No key for deepseek; looked for DEEPSEEK_API_KEY."),
        ("nobody/x", UsageError, "--fallback nobody/x: Unknown vendor 'nobody' in the model 'nobody/x'."),
        ("gpt-5", UsageError, "--fallback gpt-5: The model 'gpt-5' names no vendor."),
    ],
)
def test_a_fallback_that_cannot_be_asked_is_named(name: str, kind: type[AgentctlError], message: str) -> None:
    with pytest.raises(kind) as caught:
        fallback(name)
    assert caught.value.message == message
    assert caught.value.hint


def test_the_price_of_a_fallback_is_its_own() -> None:
    assert fallback("openai/gpt-5")[0].price == Price(input=1.25, output=10, cache_read=0.125)
