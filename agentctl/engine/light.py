"""One small model call without tools, metered like any other: for summaries and the like."""

from __future__ import annotations

from agentctl.core.errors import ProviderError
from agentctl.core.ports import Answering, Attempt, Completed, Metered, Spent
from agentctl.core.record import Record
from agentctl.core.streams import closing
from agentctl.core.types import Message, ModelInfo, Request, RequestOptions, SystemBlock, Text
from agentctl.engine.parts import Parts

THINKING_TOKENS = 3_000


class Light(Record):
    """The text of a light call, empty when there is none that can be used, and what it cost."""

    text: str
    spent: tuple[Spent, ...]


async def ask_light(parts: Parts, order: str, text: str, *, max_output_tokens: int) -> Light:
    """Without tools and without thinking, as far as the model can do without. Its tokens count against the caps of the
    run; it is no step. Never fails for the service's reasons: then the text is empty. Raises LimitReached.
    """
    parts.budget.check_caps()
    request = Request(
        system=(SystemBlock(name="order", text=order),),
        messages=(Message(role="user", parts=(Text(text=text),)),),
        tools=(),
        options=RequestOptions(max_output_tokens=max_output_tokens + _thinking_room(parts.context.model)),
        model=parts.context.model,
    )
    answer = ""
    spent: list[Spent] = []
    try:
        async with closing(parts.provider.stream(request)) as stream:
            async for item in stream:
                match item:
                    case Metered():
                        parts.budget.metered(item.usage)
                    case Answering():
                        parts.use_model(item.model)
                    case Attempt():
                        spent.append(parts.budget.spend(item.usage))
                    case Completed():
                        spent.append(parts.budget.spend(item.usage))
                        answer = item.message.text if item.stop in ("end", "length") else ""
                    case _:
                        continue
    except ProviderError as error:
        if error.usage is not None:
            spent.append(parts.budget.spend(error.usage))
    finally:
        parts.budget.abandon()
    return Light(text=answer.strip(), spent=tuple(spent))


def _thinking_room(model: ModelInfo) -> int:
    """Some models think whatever they are asked; what they think counts as output."""
    return 0 if model.reasoning is False else THINKING_TOKENS
