"""A long history in a small window: what still goes on the wire, and that the turn ends because the model chose to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ContextOverflow, Unavailable
from agentctl.core.events import Compacted, Notice
from agentctl.core.ports import Item, Viewed
from agentctl.core.text import estimate_tokens
from agentctl.core.types import Message, Request, RequestOptions, Text, ToolAnswer, Usage
from agentctl.engine.compaction import ROOM, outcome_list, span_text
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


def test_every_message_that_is_summed_up_has_a_place_in_what_is_asked() -> None:
    turns = [Message(role="user", parts=(Text(text=f"turn {n}; " + "字" * 1_500),)) for n in range(40)]
    text = span_text(turns)
    assert all(f"turn {n};" in text for n in range(40))
    assert estimate_tokens(text) <= 7_000
    assert estimate_tokens(span_text(turns, 500)) <= 500
    assert f"- asked: turn 39; {'字' * 80}" in outcome_list(turns)


def turns_in(window: int, answer: Callable[[Request], object], count: int) -> tuple[World, list[Message]]:
    """A session of that many turns without calls, each going on from what the journal kept of the one before."""
    made = world(answer)
    made.budget.limits = made.budget.limits.replace(max_steps=10 * count)
    made.history = []
    for number in range(count):
        context = Context(
            model=MODEL.replace(window=window),
            prompt=Prompt(tools=[], appendix=""),
            tools=[tool.spec for tool in made.tools.values()],
            options=RequestOptions(),
            max_context=window,
        )
        kept = [item.view for item in made.items if isinstance(item, Viewed)]
        context.view = View.from_row(loads(dumps(kept[-1]))) if kept else View()
        made.parts = made.parts.replace(context=context)
        made.history.append(Message(role="user", parts=(Text(text=f"turn {number}; " + "p" * 740),)))
        made.run()
    return made, made.history


@pytest.mark.parametrize("does_fail", [False, True])
@pytest.mark.parametrize(("window", "summaries"), [(3_000, 40), (6_000, 10), (10_000, 5)])
def test_a_session_of_short_turns_goes_on_in_a_small_window(window: int, summaries: int, does_fail: bool) -> None:
    def answer(request: Request) -> object:
        if request.tools:
            return says("answer " * 107)
        return Unavailable("down") if does_fail else says("SUMMARY " * 500)

    made, history = turns_in(window, answer, 40)
    assert len(history) == 80
    mains = [request for request in made.provider.requests if request.tools]
    told = [text_of(request) for request in made.provider.requests if not request.tools]
    for number, request in enumerate(mains):
        assert ("turn 0; " in text_of(request), f"turn {number}; " in text_of(request)) == (True, True)
    last = text_of(mains[-1])
    assert all(f"turn {n}; " in last or any(f"turn {n}; " in text for text in told) for n in range(40))
    (summary,) = [block.text for block in mains[-1].system if block.name == "summary"]
    assert ("- asked: turn" if does_fail else "SUMMARY") in summary
    assert 0 < len(told) <= summaries


def text_of(request: Request) -> str:
    return "\n".join(part.text for message in request.messages for part in message.parts if isinstance(part, Text))


def attached(*blocks: str) -> Message:
    return Message(role="user", parts=(Text(text="Compare"), *(Text(text=block) for block in blocks)))


def wide_world(*script: object) -> World:
    """A turn with three attachments of 180,000 characters, which is more than the threshold allows."""
    made = World(*script, tools=[RecordingTool("read", answer=lambda a: f"r{a['n']} " + "x" * 30_000)])  # type: ignore[arg-type]
    made.history = [attached(*(letter * 180_000 for letter in "abc"))]
    made.budget.limits = made.budget.limits.replace(max_steps=500, max_tool_calls=500)
    return made


def test_attachments_that_do_not_fit_share_the_room_and_it_is_said_once() -> None:
    numbers = iter(range(1000))

    def step(request: Request) -> object:
        if not request.tools:
            return says("SUMMARY")
        number = next(numbers)
        usage = Usage(input=sum(map(message_tokens, request.messages)) + 500)
        return says("end", usage=usage) if number >= 20 else says(call("read", n=number), usage=usage)

    made = wide_world(step).run()
    mains = [request for request in made.provider.requests if request.tools]
    threshold = made.parts.context.threshold
    sent = sum(map(message_tokens, mains[0].messages))
    assert threshold * ROOM * 0.95 < sent <= threshold * ROOM
    assert len({request.messages[0] for request in mains}) == 1, "later steps do not cut them again"
    assert len([item for item in made.items if isinstance(item, Viewed)]) > 1, "though there were more compactions"
    (said,) = [item for item in made.items if isinstance(item, Notice)]
    chars = made.parts.context.view.block_chars
    assert said.code == "attachments-cut"
    assert f"{chars:,} characters of each" in said.text
    assert "180,000, 180,000, 180,000; the whole is in files" in said.text
    assert [kept[:1] * 180_000 for kept in made.outputs.kept[:3]] == made.outputs.kept[:3]
    shown = [part.text for part in mains[0].messages[0].parts if isinstance(part, Text)]
    assert shown[0] == "Compare"
    assert all(f"the whole is in output/{n}.txt]" in shown[n] for n in (1, 2, 3))
    head, _, tail = shown[1].partition("\n[")
    assert (len(head), len(tail.partition("]\n")[2])) == (chars * 3 // 5, chars - chars * 3 // 5)


def test_what_the_next_turn_attaches_is_whole_again() -> None:
    made = wide_world(says("one"), says("two"), says("SUMMARY")).run()
    made.history.append(attached("d" * 100_000))
    made.run()
    (first, second) = made.provider.requests
    assert second.messages[0] == first.messages[0], "the same bytes, so that caches carry them"
    assert second.messages[-1] == made.history[2]


def test_attachments_that_a_service_refuses_are_cut_for_the_second_request() -> None:
    made = World(ContextOverflow("too long"), says("fine"), tools=[])
    made.history = [attached("a" * 100_000)]
    made.run()
    sizes = [sum(map(message_tokens, request.messages)) for request in made.provider.requests]
    assert sizes[0] * 0.4 < sizes[1] < sizes[0] * 0.6


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
