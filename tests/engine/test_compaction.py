"""A long history in a small window: what still goes on the wire, and that the turn ends because the model chose to."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ContextOverflow, Unavailable
from agentctl.core.events import Compacted
from agentctl.core.ports import Item, Viewed
from agentctl.core.types import Image, Message, Reasoning, Request, RequestOptions, Text, ToolAnswer, ToolCall, Usage
from agentctl.engine.compaction import LADDER, narrower, outcome_list, span_text
from agentctl.engine.context import Context, estimate, message_tokens
from agentctl.engine.loop import run_turn
from agentctl.engine.prompt import Prompt
from agentctl.engine.view import View, apply
from agentctl.providers.adapter import Endpoint, Healing
from agentctl.providers.make import adapter_for
from agentctl.providers.profiles import PROFILES
from tests.engine.test_turn import MODEL, World
from tests.fakes import RecordingTool, call, says
from tests.server.validate_anthropic import check as check_anthropic
from tests.server.validate_chat import check as check_chat
from tests.server.validate_responses import check as check_responses

WINDOW = 8_000


def world(*script: object, steps: int = 40, size: int = 3_000) -> World:
    """A turn of many steps with large results in a window that holds a few of them."""
    numbers = iter(range(1000))

    def next_step(request: Request) -> object:
        if not request.tools:
            return says("SUMMARY of what happened")
        number = next(numbers)
        usage = Usage(input=estimate(request), output=5)
        if number >= steps:
            return says("I chose to end", usage=usage)
        return says(f"step {number}", call("read", n=number), usage=usage)

    made = World(*(script or (next_step,)), tools=[RecordingTool("read", answer=lambda a: f"r{a['n']} " + "x" * size)])  # type: ignore[arg-type]
    specs = [tool.spec for tool in made.tools.values()]
    made.parts = made.parts.replace(
        context=Context(
            model=MODEL.replace(window=WINDOW),
            prompt=Prompt(tools=specs, appendix=""),
            tools=specs,
            options=RequestOptions(),
        ),
        budget=made.budget,
    )
    made.budget.limits = made.budget.limits.replace(max_steps=500, max_tool_calls=500)
    made.history = [Message(role="user", parts=(Text(text="Task KIWI: read everything"),))]
    return made


def test_a_two_hundred_step_turn_ends_because_the_model_chose_to() -> None:
    made = world(steps=200).run()
    assert made.history[-1].text == "I chose to end"
    mains = [request for request in made.provider.requests if request.tools]
    assert len(mains) == 201
    for number, request in enumerate(mains):
        texts = [part.text for message in request.messages for part in message.parts if isinstance(part, Text)]
        assert "Task KIWI: read everything" in texts
        if number:
            assert request.messages[-2].calls, "the recent exchange is carried along"
        assert sum(map(message_tokens, request.messages)) < WINDOW
    assert len([item for item in made.items if isinstance(item, Compacted)]) == 1
    assert any("SUMMARY" in block.text for block in mains[-1].system)
    assert made.history[1].calls, "the history itself keeps everything"


def test_the_prefix_only_changes_at_a_compaction() -> None:
    made = world(steps=30).run()
    mains = [request for request in made.provider.requests if request.tools]
    changes = sum(
        after.messages[: len(before.messages)] != before.messages or after.system != before.system
        for before, after in itertools.pairwise(mains)
    )
    assert changes == sum(isinstance(item, Viewed) for item in made.items)


def test_a_summary_that_fails_is_replaced_by_a_list_of_what_was_done() -> None:
    numbers = iter(range(1000))

    def step(request: Request) -> object:
        if not request.tools:
            return Unavailable("down", usage=Usage(input=3))
        number = next(numbers)
        return says("end") if number >= 20 else says(call("read", path=f"file{number}", n=number))

    made = world(step)
    made.run()
    (event,) = [item for item in made.items if isinstance(item, Compacted)]
    assert "- read file0: ok" in event.summary
    assert made.budget.usage.input >= 3


def test_an_overflow_leads_to_one_compaction_and_one_retry() -> None:
    refused = iter([True, False, False, False])
    numbers = iter(range(1000))

    def step(request: Request) -> object:
        if not request.tools:
            return says("SUMMARY")
        if len(request.messages) > 9 and next(refused):
            return ContextOverflow("too long")
        number = next(numbers)
        return says("end") if number >= 8 else says(call("read", n=number))

    made = world(step, size=10).run()
    assert made.history[-1].text == "end"
    assert len([item for item in made.items if isinstance(item, Viewed)]) == 1


def test_a_context_that_cannot_be_made_to_fit_ends_the_run() -> None:
    made = world(ContextOverflow("too long"))
    with pytest.raises(ContextOverflow):
        made.run()
    assert len(made.provider.requests) <= 3


def test_the_task_stays_whole_and_what_was_attached_to_it_is_cut() -> None:
    history = [
        Message(role="user", parts=(Text(text="FIRST " + "f" * 2000),)),
        Message(role="assistant", parts=(Text(text="ok"),)),
        Message(role="user", parts=(Text(text="TASK " + "t" * 2000), Text(text="DATA " + "d" * 5000))),
        *[Message(role="assistant", parts=(Text(text=f"s{n}"),)) for n in range(3)],
    ]
    first, task, *tail = apply(history, View(start=4, reasons_from=0))
    assert len(first.text) < 600
    assert task.parts[0] == history[2].parts[0]
    assert len(task.text) < 2_700
    assert tail == history[4:]


def test_what_is_left_out_is_listed_with_its_outcome() -> None:
    history = [
        Message(role="assistant", parts=(call("bash", "c1", command="pytest -q"), call("read_file", "c2", path="a"))),
        Message(role="tool", parts=(ToolAnswer(call_id="c1", name="bash", content="exit: 1", is_error=True),)),
        Message(role="tool", parts=(ToolAnswer(call_id="c2", name="read_file", content="1: x"),)),
    ]
    assert outcome_list(history) == "- bash pytest -q: failed, exit: 1\n- read_file a: ok, 1: x"
    assert len(span_text([Message(role="user", parts=(Text(text="y" * 10**6),))])) < 2_100


# --- any cut of any history is a legal request ----------------------------------------------------------------------

TEXTS = st.text("abc \n", max_size=12)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """User turns and steps; some calls unanswered, some answers without a call."""
    messages: list[Message] = []
    number = 0
    for _ in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["user", "say", "call", "orphan"]))
        if kind == "user":
            parts = (
                Text(text=draw(TEXTS)),
                *((Image(media_type="image/png", data="aGk="),) if draw(st.booleans()) else ()),
            )
            messages.append(Message(role="user", parts=parts))
        elif kind == "say":
            messages.append(Message(role="assistant", parts=(Reasoning(text="r"), Text(text=draw(TEXTS)))))
        elif kind == "call":
            calls = [ToolCall(id=f"c{number + n}", name="read", arguments="{}") for n in range(draw(st.integers(1, 3)))]
            number += len(calls)
            messages.append(Message(role="assistant", parts=(Text(text=draw(TEXTS)), *calls)))
            for one in calls:
                if draw(st.booleans()):
                    answer = ToolAnswer(call_id=one.id, name="read", content=draw(TEXTS))
                    messages.append(Message(role="tool", parts=(answer,)))
        else:
            messages.append(Message(role="tool", parts=(ToolAnswer(call_id="lost", name="read", content="x"),)))
    return messages


CHECKS = (
    ("openai-chat", "openai", check_chat),
    ("openai-responses", "openai", check_responses),
    ("anthropic-messages", "anthropic", check_anthropic),
)


@settings(max_examples=120, deadline=None)
@given(histories(), st.integers(0, 12), st.integers(0, 12))
def test_any_cut_of_any_history_is_a_legal_request(history: list[Message], start: int, reasons_from: int) -> None:
    view = View(start=min(start, len(history)), reasons_from=reasons_from, summary="S")
    context = Context(
        model=MODEL, prompt=Prompt(tools=[], appendix=""), tools=[RecordingTool("read").spec], options=RequestOptions()
    )
    context.view = view
    for api, profile, check in CHECKS:
        request = context.request(history)
        model = request.model.replace(api=api, name="claude-test" if profile == "anthropic" else "gpt-5")
        endpoint = Endpoint(vendor=profile, api=api, base_url=MODEL.base_url, key="sk-test", profile=PROFILES[profile])  # type: ignore[arg-type]
        adapter = adapter_for(api)  # type: ignore[arg-type]
        body = loads(dumps(adapter.to_wire(request.replace(model=model), endpoint, Healing())))
        check(body, adapter.headers(endpoint))


@given(histories(), st.sampled_from(LADDER))
def test_a_cut_never_separates_an_answer_from_its_call(history: list[Message], size: int) -> None:
    view = narrower(history, lambda tried: len(history) - tried.start <= size)
    if view.start and history[view.start].role == "tool":
        asked = {one.id for message in history[: view.start] for one in message.calls}
        answered = {part.call_id for part in history[view.start].parts if isinstance(part, ToolAnswer)}
        assert not asked & answered


def test_items_of_a_view_are_for_the_journal_only() -> None:
    made = world(steps=20)
    seen: list[Item] = []

    async def collect() -> None:
        async for item in run_turn(made.parts, made.history):
            seen.append(item)

    asyncio.run(collect())
    views = [item for item in seen if isinstance(item, Viewed)]
    assert views
    assert made.parts.context.view.start == views[-1].start
