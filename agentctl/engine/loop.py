"""The turn: build the request, receive the answer, append it, run its calls, and again until there are none.

Retry, fallback and recording are Providers around a Provider; saving and progress are consumers of the stream; limits
are in budget.py; what the model should see each step is a Section. None of them is an `if` in this file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from agentctl.core.errors import ContextOverflow
from agentctl.core.events import MessageText
from agentctl.core.ports import Appended, Item
from agentctl.core.streams import closing
from agentctl.core.types import Message
from agentctl.engine.compaction import make_room
from agentctl.engine.dispatch import run_calls
from agentctl.engine.parts import Parts
from agentctl.engine.receive import Answer
from agentctl.engine.settle import settle


async def ask(parts: Parts, reply: Answer, history: Sequence[Message]) -> AsyncGenerator[Item, None]:
    """The answer to the history; a service that finds it too long is asked once more with less."""
    try:
        async with closing(reply.receive(parts.context.request(history))) as items:
            async for item in items:
                yield item
        return
    except ContextOverflow as error:
        refused = error
    async with closing(make_room(parts, history, refused=refused)) as items:
        async for item in items:
            yield item
    async with closing(reply.receive(parts.context.request(history))) as items:
        async for item in items:
            yield item


async def run_turn(parts: Parts, history: list[Message]) -> AsyncGenerator[Item, None]:
    """Goes on from `history`, with the user's new message or with what the session waits for, and appends what happens.

    Yields public events, and Appended before anything acts on a message. Ends when the model answers without calls;
    every other end is an exception of core/errors.py. Goes on only when its consumer asks for the next item.
    """
    parts.context.begin_turn()
    parts.repeat.begin_turn()
    async with closing(settle(parts, history)) as items:
        async for item in items:
            yield item
    while True:
        async with closing(make_room(parts, history)) as items:
            async for item in items:
                yield item
        parts.budget.begin_step()
        reply = Answer(parts)
        async with closing(ask(parts, reply, history)) as items:
            async for item in items:
                yield item
        yield _append(history, reply.message)
        if reply.message.text.strip():
            yield MessageText(text=reply.message.text)
        yield reply.step_event()
        if not reply.message.calls:
            return
        async with closing(run_calls(parts, reply.message.calls)) as items:
            async for item in items:
                if isinstance(item, Appended):
                    history.append(item.message)
                yield item


def _append(history: list[Message], message: Message) -> Appended:
    history.append(message)
    return Appended(message=message)
