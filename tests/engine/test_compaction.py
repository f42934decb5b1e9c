"""A long history in a small window: what still goes on the wire, and that the turn ends because the model chose to."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ContextOverflow, Unavailable
from agentctl.core.events import Compacted
from agentctl.core.ports import Item, Viewed
from agentctl.core.types import Message, Request, RequestOptions, Text, ToolAnswer, Usage
from agentctl.engine.compaction import outcome_list, span_text
from agentctl.engine.context import Context, message_tokens
from agentctl.engine.loop import run_turn
from agentctl.engine.prompt import Prompt
from agentctl.engine.view import View
from tests.engine.test_turn import MODEL, World
from tests.fakes import RecordingTool, call, says

WINDOW = 8_000


def world(*script: object, steps: int = 40, size: int = 3_000) -> World:
    """A turn of many steps with large results in a window that holds a few of them."""
    numbers = iter(range(1000))

    def next_step(request: Request) -> object:
        if not request.tools:
            return says("SUMMARY of what happened")
        number = next(numbers)
        usage = Usage(input=sum(map(message_tokens, request.messages)) + 600, output=5)  # and tools and prompt
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


def test_what_is_left_out_is_listed_with_its_outcome() -> None:
    history = [
        Message(role="assistant", parts=(call("bash", "c1", command="pytest -q"), call("read_file", "c2", path="a"))),
        Message(role="tool", parts=(ToolAnswer(call_id="c1", name="bash", content="exit: 1", is_error=True),)),
        Message(role="tool", parts=(ToolAnswer(call_id="c2", name="read_file", content="1: x"),)),
    ]
    assert outcome_list(history) == "- bash pytest -q: failed, exit: 1\n- read_file a: ok, 1: x"
    assert len(span_text([Message(role="user", parts=(Text(text="y" * 10**6),))])) < 2_100


def test_items_of_a_view_are_for_the_journal_only() -> None:
    made = world(steps=20)
    seen: list[Item] = []

    async def collect() -> None:
        async for item in run_turn(made.parts, made.history):
            seen.append(item)

    asyncio.run(collect())
    views = [item for item in seen if isinstance(item, Viewed)]
    assert views
    assert made.parts.context.view == View.from_row(loads(dumps(views[-1].view)))
