"""Waiting and asking again, changed requests, another wire format: what is done, what is said, what is paid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
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
)
from agentctl.core.events import Notice, Retry
from agentctl.core.ports import Attempt, Completed, StreamItem, TextPiece
from agentctl.core.types import Api, JsonObject, Request, Usage
from agentctl.providers.adapter import Healing
from agentctl.providers.make import make_provider
from agentctl.providers.profiles import PROFILES, Profile
from agentctl.providers.resilience import EndpointFallback, Retrying, SelfHealing
from agentctl.providers.transport import DirectTransport
from tests.fakes import FakeClock, ScriptedProvider, says
from tests.server import Call, Counts, Fault, Received, Server, Turn, serve
from tests.unit.providers.provider_requests import APIS, answers, ask, collect, endpoint_of, request_of, user

DONE = says("fine")
each_api = pytest.mark.parametrize("api", APIS)


def any_request() -> Request:
    with serve() as server:
        return request_of(endpoint_of(server, "openai-chat"))


def run(provider: Any, request: Request | None = None) -> tuple[list[StreamItem], AgentctlError | None]:
    """What a provider yields, and the error it ends with."""
    seen: list[StreamItem] = []

    async def main() -> None:
        async for item in provider.stream(request or any_request()):
            seen.append(item)

    try:
        asyncio.run(main())
    except AgentctlError as error:
        return seen, error
    return seen, None


def busy(**details: Any) -> Unavailable:
    return Unavailable("busy", status=429, **details)


# --- retrying -------------------------------------------------------------------------------------------------------


def test_it_waits_and_asks_again() -> None:
    clock = FakeClock()
    seen, error = run(Retrying(ScriptedProvider(busy(retry_after_s=3.0), busy(), DONE), clock))
    assert error is None
    assert [item for item in seen if isinstance(item, Retry)] == [
        Retry(attempt=2, of=4, wait_s=3.0, reason="busy", status=429, discard=False),
        Retry(attempt=3, of=4, wait_s=round(clock.slept[1], 3), reason="busy", status=429, discard=False),
    ]
    assert clock.slept[0] == 3.0
    assert 0 < clock.slept[1] < 5
    assert seen[-1] == DONE


def test_it_gives_up_after_four_attempts() -> None:
    provider, clock = ScriptedProvider(busy()), FakeClock()
    seen, error = run(Retrying(provider, clock))
    assert isinstance(error, Unavailable)
    assert error.message == "busy (asked 4 times)"
    assert (len(provider.requests), len(seen), len(clock.slept)) == (4, 3, 3)


def test_waits_grow() -> None:
    clock = FakeClock()
    run(Retrying(ScriptedProvider(busy()), clock, attempts=6))
    assert clock.slept == sorted(clock.slept)
    assert sum(clock.slept) <= 60


def test_a_wait_that_is_too_long_fails_at_once_and_is_named() -> None:
    provider, clock = ScriptedProvider(busy(retry_after_s=360.0)), FakeClock()
    _, error = run(Retrying(provider, clock))
    assert error is not None
    assert error.message == "busy (the wait until the next attempt is 360 s, 60 s are left)"
    assert (len(provider.requests), clock.slept) == (1, [])


def test_the_waits_of_one_call_have_one_budget() -> None:
    provider, clock = ScriptedProvider(busy(retry_after_s=25.0)), FakeClock()
    _, error = run(Retrying(provider, clock))
    assert error is not None
    assert clock.slept == [25.0, 25.0]
    assert "25 s, 10 s are left" in error.message


@pytest.mark.parametrize(
    "error", [AuthError("no"), ProviderError("no"), ContextOverflow("no"), OutputCapped("no", room=5)], ids=repr
)
def test_what_will_not_pass_is_not_asked_again(error: ProviderError) -> None:
    provider = ScriptedProvider(error)
    seen, raised = run(Retrying(provider, FakeClock()))
    assert (seen, raised, len(provider.requests)) == ([], error, 1)


def test_text_of_a_broken_response_is_void_and_paid() -> None:
    broken = StreamBroken("cut", usage=Usage(input=50, output=3))
    seen, error = run(Retrying(ScriptedProvider([TextPiece(text="half"), broken], DONE), FakeClock()))
    assert error is None
    assert [type(item) for item in seen] == [TextPiece, Attempt, Retry, *[type(item) for item in seen[3:]]]
    assert seen[1] == Attempt(usage=Usage(input=50, output=3))
    assert isinstance(seen[2], Retry)
    assert seen[2].discard
    assert seen[-1] == DONE


def test_a_failure_that_is_raised_carries_its_cost_itself() -> None:
    broken = StreamBroken("cut", usage=Usage(input=50))
    seen, error = run(Retrying(ScriptedProvider(broken), FakeClock(), attempts=2))
    assert [item for item in seen if isinstance(item, Attempt)] == [Attempt(usage=Usage(input=50))]
    assert isinstance(error, StreamBroken)
    assert error.usage == Usage(input=50)


def test_the_same_rejection_behind_a_proxy_twice_is_final() -> None:
    rejected = [Unavailable("bad temperature", status=502, kind="proxied_rejection") for _ in range(2)]
    provider = ScriptedProvider(*rejected, DONE)
    _, error = run(Retrying(provider, FakeClock()))
    assert isinstance(error, ProviderError)
    assert (error.ending, error.retryable, error.message) == ("provider", False, "bad temperature")
    assert len(provider.requests) == 2


def test_a_proxy_may_have_another_service_behind_it() -> None:
    rejected = Unavailable("bad temperature", status=502, kind="proxied_rejection")
    _, error = run(Retrying(ScriptedProvider(rejected, busy(), DONE), FakeClock()))
    assert error is None


# --- self-healing ---------------------------------------------------------------------------------------------------


class FakeEndpoint:
    """A Healable that sends some fields, refuses some states of them, and keeps what was sent."""

    def __init__(self, refuse: Callable[[Healing], ProviderError | None], fields: tuple[str, ...] = ()) -> None:
        self._refuse = refuse
        self._fields = fields
        self.asked: list[Healing] = []

    def body(self, request: Request, healing: Healing) -> JsonObject:
        shown: JsonObject = {name: 1 for name in self._fields if name not in healing.dropped_params}
        return {**shown, "limit": healing.max_output_tokens, "ids": not healing.strips_item_ids}

    async def stream_healed(self, request: Request, healing: Healing) -> AsyncIterator[StreamItem]:
        self.asked.append(healing)
        error = self._refuse(healing)
        if error is not None:
            raise error
        yield DONE

    async def close(self) -> None:
        return


def test_a_field_that_does_not_exist_in_the_body_is_not_dropped() -> None:
    inner = FakeEndpoint(lambda healing: ProviderError("no", status=400, param="verbosity"), ("store",))
    seen, error = run(SelfHealing(inner))
    assert (seen, str(error), len(inner.asked)) == ([], "no", 1)


@pytest.mark.parametrize("param", ["messages", "messages[3].content", "model", "tools[0].parameters", "input"])
def test_what_makes_the_request_is_never_dropped(param: str) -> None:
    inner = FakeEndpoint(lambda healing: ProviderError("no", status=400, param=param), (param.partition("[")[0],))
    assert str(run(SelfHealing(inner))[1]) == "no"
    assert len(inner.asked) == 1


def test_each_cause_is_healed_once() -> None:
    inner = FakeEndpoint(lambda healing: ProviderError("no", status=400, param="store"), ("store",))
    seen, error = run(SelfHealing(inner))
    assert [healing.dropped_params for healing in inner.asked] == [frozenset(), {"store"}]
    assert [type(item) for item in seen] == [Notice]
    assert str(error) == "no"


def test_several_causes_are_healed_one_after_the_other_and_remembered() -> None:
    def refuse(healing: Healing) -> ProviderError | None:
        for name in ("store", "verbosity"):
            if name not in healing.dropped_params:
                return ProviderError("no", status=400, param=name)
        return None

    inner = FakeEndpoint(refuse, ("store", "verbosity"))
    healing = SelfHealing(inner)
    seen, error = run(healing)
    assert error is None
    assert [type(item) for item in seen] == [Notice, Notice, Completed]
    assert run(healing) == ([DONE], None)
    assert len(inner.asked) == 4


def test_room_that_the_prompt_leaves_is_not_remembered() -> None:
    def refuse(healing: Healing) -> ProviderError | None:
        if healing.max_output_tokens == 700:
            return None
        error = OutputCapped("too long", room=700, status=400)
        error.kind = "output_room"
        return error

    inner = FakeEndpoint(refuse)
    healing = SelfHealing(inner)
    assert run(healing)[1] is None
    assert run(healing)[1] is None
    assert [healing.max_output_tokens for healing in inner.asked] == [None, 700, None, 700]


def test_a_wait_after_a_cure_does_not_forget_it() -> None:
    replies = iter([ProviderError("no", status=400, param="store"), busy(), None])
    inner = FakeEndpoint(lambda healing: next(replies), ("store",))
    seen, error = run(Retrying(SelfHealing(inner), FakeClock()))
    assert error is None
    assert [type(item) for item in seen] == [Notice, Retry, Completed]


# --- self-healing over the wire -------------------------------------------------------------------------------------

Refusal = Callable[[Any], tuple[int, str] | None]


def rule_of(refusal: Refusal) -> Callable[[Received], Fault | None]:
    def rule(request: Received) -> Fault | None:
        found = refusal(request.body)
        if found is None:
            return None
        status, message = found
        return Fault(status=status, body={"error": {"message": message, "type": "invalid_request_error"}})

    return rule


def unknown(field: str) -> Refusal:
    return lambda body: (400, f"Unknown parameter: '{field}'.") if field in body else None


def limit_of(body: Any) -> int:
    return int(body.get("max_tokens") or body.get("max_completion_tokens") or body.get("max_output_tokens") or 0)


HEALED: dict[str, tuple[Api, str, Refusal]] = {
    "field named differently": ("openai-chat", "compatible", unknown("max_tokens")),
    "field named in the newer way": ("openai-chat", "openai", unknown("max_completion_tokens")),
    "stream_options": ("openai-chat", "openai", unknown("stream_options")),
    "effort": ("openai-chat", "openai", unknown("reasoning_effort")),
    "include": ("openai-responses", "openai", unknown("include")),
    "output limit": (
        "anthropic-messages",
        "anthropic",
        lambda body: (
            (400, "max_tokens: 3000 > 2500, which is the maximum allowed number of output tokens for m")
            if limit_of(body) > 2500
            else None
        ),
    ),
    "credit": (
        "openai-chat",
        "openai",
        lambda body: (
            (402, "This request requires more credits. You asked for 3000, but can only afford 1200.")
            if limit_of(body) >= 1200
            else None
        ),
    ),
    "room": (
        "openai-chat",
        "openai",
        lambda body: (
            (
                400,
                "This model's maximum context length is 8192 tokens. However, you requested 9192 tokens (6192 in the"
                " messages, 3000 in the completion).",
            )
            if limit_of(body) > 2000
            else None
        ),
    ),
}


@pytest.mark.parametrize("name", HEALED)
def test_a_refused_request_is_changed_once(name: str) -> None:
    api, profile, refusal = HEALED[name]

    async def main(server: Server) -> list[list[StreamItem]]:
        endpoint = endpoint_of(server, api, profile=PROFILES[profile].replace(endpoint_fallback=()))
        provider = make_provider(endpoint, FakeClock())
        request = request_of(endpoint, think="high")
        seen = [await collect(provider.stream(request)) for _ in range(2)]
        await provider.close()
        return seen

    with serve([Turn(text="fine", repeat=-1)], rules=[rule_of(refusal)]) as server:
        first, second = asyncio.run(main(server))
        assert server.refusals == []
        is_remembered = name not in ("room", "credit")
        again = [True] if is_remembered else [False, True]
        assert [request.status == 200 for request in server.requests] == [False, True, *again]
    assert [item.code for item in first if isinstance(item, Notice)] == ["request-changed"]
    assert len([item for item in second if isinstance(item, Notice)]) == (0 if is_remembered else 1)
    assert isinstance(first[-1], Completed)
    assert first[-1].message.text == "fine"


def test_lost_items_are_sent_inline() -> None:
    """The service forgets the reasoning of the first answer: the history goes without ids, and the run goes on."""

    def forgets(body: Any) -> tuple[int, str] | None:
        kinds = [item.get("type") for item in body["input"]]
        return (404, "Item with id 'rs_1' not found.") if "reasoning" in kinds else None

    async def main(server: Server) -> list[StreamItem]:
        endpoint = endpoint_of(server, "openai-responses")
        provider = make_provider(endpoint, FakeClock())
        first = (await ask(provider, request_of(endpoint, think="high"))).message
        seen = await collect(provider.stream(request_of(endpoint, user("hi"), first, answers(first), think="high")))
        await provider.close()
        return seen

    script = [Turn(reasoning="hm", calls=[Call("bash", {"command": "ls"})]), Turn(text="done")]
    with serve(script, rules=[rule_of(forgets)]) as server:
        seen = asyncio.run(main(server))
        assert [request.status for request in server.requests] == [200, 404, 200]
        assert server.refusals == []
    assert seen[0] == Notice(
        code="request-changed",
        text="The service no longer has a part of this session; the history was sent inline instead.",
    )
    assert isinstance(seen[-1], Completed)


def test_reasoning_that_is_not_accepted_is_left_out() -> None:
    def doubts(body: Any) -> tuple[int, str] | None:
        has_thinking = "signature" in str(body["messages"])
        return (400, "messages.1.content.0: Invalid `signature` in `thinking` block") if has_thinking else None

    async def main(server: Server) -> list[StreamItem]:
        endpoint = endpoint_of(server, "anthropic-messages")
        provider = make_provider(endpoint, FakeClock())
        first = (await ask(provider, request_of(endpoint, think="low"))).message
        seen = await collect(provider.stream(request_of(endpoint, user("hi"), first, answers(first), think="low")))
        await provider.close()
        return seen

    script = [Turn(reasoning="hm", calls=[Call("bash", {"command": "ls"})]), Turn(text="done")]
    with serve(script, rules=[rule_of(doubts)]) as server:
        seen = asyncio.run(main(server))
        assert server.refusals == []
    assert [type(item) for item in seen if isinstance(item, (Notice, Completed))] == [Notice, Completed]


# --- another wire format --------------------------------------------------------------------------------------------

BOTH: Profile = PROFILES["openai"].replace(endpoint_fallback=("openai-responses",))


def chat_answers(fault: Fault) -> Callable[[Received], Fault | None]:
    return lambda request: fault if request.path.endswith("/chat/completions") else None


def run_both(server: Server, *, name: str = "model-1", times: int = 1) -> tuple[list[StreamItem], Exception | None]:
    seen: list[StreamItem] = []

    async def main() -> None:
        endpoint = endpoint_of(server, "openai-chat", profile=BOTH)
        provider = make_provider(endpoint, FakeClock())
        try:
            for _ in range(times):
                async for item in provider.stream(request_of(endpoint, name=name)):
                    seen.append(item)
        finally:
            await provider.close()

    try:
        asyncio.run(main())
    except AgentctlError as error:
        return seen, error
    return seen, None


@pytest.mark.parametrize("status", sorted(EndpointFallback.STATUSES))
def test_it_goes_on_over_the_other_format_and_stays_there(status: int) -> None:
    fault = Fault(status=status, body={"error": {"message": "not here"}})
    with serve([Turn(text="fine", repeat=-1)], rules=[chat_answers(fault)]) as server:
        seen, error = run_both(server, times=2)
        assert error is None
        paths = [request.path for request in server.requests]
    assert paths == ["/v1/chat/completions", "/v1/responses", "/v1/responses"]
    notices = [item for item in seen if isinstance(item, Notice)]
    assert [notice.code for notice in notices] == ["endpoint-changed"]
    assert "not here" in notices[0].text


@pytest.mark.parametrize(
    ("fault", "ending", "requests"),
    [
        (Fault(status=401, body={"error": "bad key"}), "auth", 1),
        (Fault(status=402, body={"error": "no credit"}), "auth", 1),
        (Fault(status=429, body={"error": "slow down"}), "unavailable", 4),
        (Fault(status=500, body={"error": "boom"}), "unavailable", 4),
        (Fault(status=400, body={"error": {"code": "context_length_exceeded", "message": "m"}}), "provider", 1),
        (Fault(status=400, body={"error": "API key not valid"}), "auth", 1),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fault) else None,
)
def test_what_is_the_same_on_every_endpoint_stays(fault: Fault, ending: str, requests: int) -> None:
    with serve([Turn(text="fine", repeat=-1)], rules=[chat_answers(fault)]) as server:
        _, error = run_both(server)
        assert {request.path for request in server.requests} == {"/v1/chat/completions"}
        assert len(server.requests) == requests
    assert isinstance(error, ProviderError)
    assert error.ending == ending


def test_a_misspelt_model_ends_as_auth() -> None:
    with serve([Turn(text="fine")]) as server:
        seen, error = run_both(server, name="no-such-model")
        assert [request.status for request in server.requests] == [404, 404]
    assert (seen, type(error)) == ([], AuthError)


def test_a_request_that_is_wrong_on_both_keeps_the_first_reason() -> None:
    rules = [chat_answers(Fault(status=400, body={"error": "first reason"}))]
    rules.append(lambda request: Fault(status=400, body={"error": "second reason"}))
    with serve([Turn(text="fine")], rules=rules) as server:
        seen, error = run_both(server)
    assert seen == []
    assert "first reason" in str(error)


def test_a_field_that_was_healed_keeps_the_format() -> None:
    with serve([Turn(text="fine")], rules=[rule_of(unknown("prompt_cache_key"))]) as server:
        seen, error = run_both(server)
        assert {request.path for request in server.requests} == {"/v1/chat/completions"}
    assert error is None
    assert isinstance(seen[-1], Completed)


def test_a_field_that_only_the_other_format_takes_changes_the_format() -> None:
    message = "Function tools with reasoning_effort are not supported. Please use /v1/responses instead."
    fault = Fault(status=400, body={"error": {"message": message, "param": "reasoning_effort"}})
    with serve([Turn(text="fine")], rules=[chat_answers(fault)]) as server:
        _, error = run_both(server)
        assert [request.path for request in server.requests] == ["/v1/chat/completions", "/v1/responses"]
    assert error is None


def test_an_overflow_of_the_other_format_is_the_one_that_counts() -> None:
    rules = [chat_answers(Fault(status=404, body={"error": "not here"}))]
    rules.append(lambda request: Fault(status=400, body={"error": {"code": "context_length_exceeded", "message": "m"}}))
    with serve(rules=rules) as server:
        assert isinstance(run_both(server)[1], ContextOverflow)


# --- all of it ------------------------------------------------------------------------------------------------------


@each_api
def test_an_aborted_answer_is_not_glued_to_the_next(api: Api) -> None:
    async def main(server: Server) -> list[StreamItem]:
        endpoint = endpoint_of(server, api)
        provider = make_provider(endpoint, FakeClock(), DirectTransport(idle_s=5))
        seen = await collect(provider.stream(request_of(endpoint)))
        await provider.close()
        return seen

    half = Turn(text="half an answer", delta=4, usage=Counts(input=50), fault=Fault(cut_after=5, cut="rst"))
    with serve([half, Turn(fault=Fault(status=529)), Turn(text="whole")]) as server:
        seen = asyncio.run(main(server))
    retries = [item for item in seen if isinstance(item, Retry)]
    assert [(retry.attempt, retry.status, retry.discard) for retry in retries] == [(2, None, True), (3, 529, False)]
    assert isinstance(seen[-1], Completed)
    assert seen[-1].message.text == "whole"
