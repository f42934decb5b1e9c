"""One answer of the model: its stream as events, and what is done when it is cut, refused or empty."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agentctl.core.errors import ProviderError, StreamBroken
from agentctl.core.events import Notice, ReasoningDelta, Retry, Step, TextDelta, ToolStart
from agentctl.core.ports import (
    Answering,
    Attempt,
    CallStarted,
    Completed,
    Item,
    Metered,
    ReasoningPiece,
    StreamItem,
    TextPiece,
)
from agentctl.core.streams import closing
from agentctl.core.types import Message, Request, Usage
from agentctl.engine.admission import admitted
from agentctl.engine.budget import UNKNOWN_MAXIMUM
from agentctl.engine.context import message_tokens
from agentctl.engine.parts import Parts

_GROWTH = 4
"""An answer that was cut by its length is asked for once more with a limit this many times higher."""


class Answer:
    """Asks until there is a usable answer: once more for a cut one, and once more for an empty one."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._completed: Completed | None = None
        self.usage = Usage()

    @property
    def completed(self) -> Completed:
        if self._completed is None:
            raise StreamBroken("the provider ended its stream without an answer")
        return self._completed

    @property
    def message(self) -> Message:
        return self.completed.message

    def step_event(self) -> Step:
        parts = self._parts
        return Step(
            n=parts.budget.steps,
            model=self.completed.model,
            usage=self.usage,
            cost_usd=parts.budget.cost_usd,
            context=parts.context.use(self.usage),
        )

    async def receive(self, request: Request) -> AsyncIterator[Item]:
        """The events of the answer. Raises ProviderError when there is none that can be used."""
        tried: set[str] = set()
        while True:
            async with closing(self._ask(request)) as items:
                async for item in items:
                    yield item
            request = request.replace(model=self._parts.context.model)  # a fallback may have answered
            flaw = self._flaw()
            match flaw:
                case "":
                    return
                case "length" if "length" not in tried and (higher := _higher_limit(request)) is not None:
                    request = _with_limit(request, higher)
                    yield _again(f"the answer was cut by its length; asking again with {higher:,} output tokens")
                case "length":
                    raise _cut(self.completed, request)
                case "empty" if "empty" not in tried:
                    yield _again("the answer had neither text nor calls")
                case "empty":
                    raise ProviderError("the model answered twice with neither text nor calls", kind="empty_answer")
                case _:
                    why = f": {self.completed.detail}" if self.completed.detail else ""
                    raise ProviderError(f"the model refused to answer{why}", kind="refusal")
            tried.add(flaw)

    def _flaw(self) -> str:
        """Why the answer cannot be used: refused, length, empty; nothing when it can."""
        if self.completed.stop in ("refused", "length"):
            return self.completed.stop
        return "" if self.message.calls or self.message.text.strip() else "empty"

    async def _ask(self, request: Request) -> AsyncIterator[Item]:
        budget = self._parts.budget
        self._completed = None
        async with closing(admitted(self._parts, request)) as items:
            async for item in items:
                yield item
        self._parts.context.count_injected()
        try:
            async with closing(self._parts.provider.stream(request)) as stream:
                async for received in stream:
                    event = self._event_of(received)
                    if event is not None:
                        yield event
                    if isinstance(received, Attempt):  # the provider is about to ask again
                        async with closing(admitted(self._parts, request)) as items:
                            async for item in items:
                                yield item
            for notice in budget.unsaid():
                yield notice
        except ProviderError as error:
            if error.usage is not None:
                yield budget.spend(error.usage)
            budget.failed()
            raise
        finally:
            budget.abandon()

    def _event_of(self, item: StreamItem) -> Item | None:
        budget = self._parts.budget
        match item:
            case TextPiece():
                return TextDelta(delta=item.text)
            case ReasoningPiece():
                return ReasoningDelta(delta=item.text)
            case CallStarted():
                return ToolStart(id=item.id, name=item.name)
            case Metered():
                budget.metered(item.usage)
                return None
            case Answering():
                self._parts.use_model(item.model)
                return None
            case Attempt():
                return budget.spend(item.usage)
            case Completed():
                self._completed = item
                self.usage = item.usage
                return budget.spend(item.usage, written=message_tokens(item.message))
            case Retry() | Notice():
                return item


def _again(reason: str) -> Retry:
    return Retry(attempt=2, of=2, wait_s=0.0, reason=reason, status=None, discard=True)


def _higher_limit(request: Request) -> int | None:
    """A limit worth trying, or None when there is no higher one."""
    ceiling = request.model.max_output
    sent = request.options.max_output_tokens
    if sent is None and request.model.api == "anthropic-messages":  # which always has one: the maximum, if it is known
        return UNKNOWN_MAXIMUM * _GROWTH if ceiling is None else None
    if sent is None:
        return ceiling
    higher = sent * _GROWTH if ceiling is None else min(sent * _GROWTH, ceiling)
    return higher if higher > sent else None


def _with_limit(request: Request, limit: int) -> Request:
    return request.replace(options=request.options.replace(max_output_tokens=limit))


def _cut(completed: Completed, request: Request) -> ProviderError:
    limit = request.options.max_output_tokens
    at = f" at {limit:,} output tokens" if limit else ""
    return ProviderError(
        f"the answer was cut by its length{at} ({completed.usage.output:,} were written)",
        kind="truncated",
        hint="Raise --max-output-tokens, lower --think, or ask for a shorter answer.",
    )
