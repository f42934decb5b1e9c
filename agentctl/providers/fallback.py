"""A Provider around Providers: goes on with another model when the one before it is unavailable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from agentctl.core.errors import Unavailable
from agentctl.core.events import Notice, Retry
from agentctl.core.ports import Answering, Attempt, Provider, StreamItem
from agentctl.core.types import ModelInfo, Request
from agentctl.providers.streams import OUTPUT, closing


class ModelFallback:
    """Asks the first model; after Unavailable the next one with the same history, and stays there for the run.

    Each inner Provider has done its own waiting by then. Every other failure stands: a key, a rejected request or an
    overflow is not mended by another model, and hiding it would spend money on what nobody asked for.
    """

    def __init__(self, first: Provider, others: Sequence[tuple[ModelInfo, Provider]]) -> None:
        self._active = first
        self._model: ModelInfo | None = None
        self._others = list(others)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        while True:
            if self._model is not None:
                request = request.replace(model=self._model)
                yield Answering(model=self._model)
            has_output = False
            try:
                async with closing(self._active.stream(request)) as items:
                    async for item in items:
                        has_output = (has_output or isinstance(item, OUTPUT)) and not _is_void(item)
                        yield item
                return
            except Unavailable as error:
                if not self._others:
                    raise
                failure = error
            if failure.usage is not None:
                yield Attempt(usage=failure.usage)
            await self._active.close()
            self._model, self._active = self._others.pop(0)
            yield Notice(code="model-changed", text=_text(request.model, failure, self._model))
            if has_output:
                yield Retry(attempt=1, of=1, wait_s=0.0, reason=failure.message, status=failure.status, discard=True)

    async def close(self) -> None:
        await self._active.close()
        for _, provider in self._others:
            await provider.close()


def _is_void(item: StreamItem) -> bool:
    """Whether the text so far was taken back."""
    return isinstance(item, Retry) and item.discard


def _text(before: ModelInfo, failure: Unavailable, after: ModelInfo) -> str:
    names = [f"{model.vendor}/{model.name}" for model in (before, after)]
    return (
        f"{names[0]} is unavailable: {failure.message.rstrip('.')}. Went on with {names[1]}, for the rest of this run."
    )
