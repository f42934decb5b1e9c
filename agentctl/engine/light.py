"""One small model call without tools, metered like any other: for summaries and the like."""

from __future__ import annotations

from agentctl.core.errors import ProviderError
from agentctl.core.ports import Answering, Attempt, Completed, Item, Metered
from agentctl.core.record import Record
from agentctl.core.streams import closing
from agentctl.core.types import Message, ModelInfo, Request, RequestOptions, SystemBlock, Text
from agentctl.engine.admission import admitted
from agentctl.engine.context import message_tokens
from agentctl.engine.parts import Parts

THINKING_TOKENS = 3_000


class Light(Record):
    """The text of a light call, empty when there is none that can be used, and what is to be said of its cost."""

    text: str
    spent: tuple[Item, ...]
    """Spent, and notices about caps: to be passed on."""


async def ask_light(parts: Parts, order: str, text: str, *, max_output_tokens: int) -> Light:
    """Without tools and without thinking, as far as the model can do without. Its tokens count against the caps of the
    run; it is no step. Never fails for the service's reasons: then the text is empty. Raises LimitReached.
    """
    request = Request(
        system=(SystemBlock(name="order", text=order),),
        messages=(Message(role="user", parts=(Text(text=text),)),),
        tools=(),
        options=RequestOptions(max_output_tokens=max_output_tokens + _thinking_room(parts.context.model)),
        model=parts.context.model,
    )
    answer = ""
    items: list[Item] = []
    async with closing(admitted(parts, request)) as said:
        items += [item async for item in said]
    try:
        async with closing(parts.provider.stream(request)) as stream:
            async for item in stream:
                match item:
                    case Metered():
                        parts.budget.metered(item.usage)
                    case Answering():
                        parts.use_model(item.model)
                    case Attempt():
                        items.append(parts.budget.spend(item.usage))
                        async with closing(admitted(parts, request)) as said:
                            items += [other async for other in said]
                    case Completed():
                        items.append(parts.budget.spend(item.usage, written=message_tokens(item.message)))
                        answer = item.message.text if item.stop in ("end", "length") else ""
                    case _:
                        continue
    except ProviderError as error:
        if error.usage is not None:
            items.append(parts.budget.spend(error.usage))
        parts.budget.failed()
    finally:
        parts.budget.abandon()
    return Light(text=answer.strip(), spent=tuple(items))


def _thinking_room(model: ModelInfo) -> int:
    """Some models think whatever they are asked; what they think counts as output."""
    return 0 if model.reasoning is False else THINKING_TOKENS
