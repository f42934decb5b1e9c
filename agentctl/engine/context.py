"""The only maker of a Request: stable system prompt, history, tools, and the wire-only state of this step."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from agentctl.core.errors import ContextOverflow
from agentctl.core.events import ContextUse
from agentctl.core.text import estimate_tokens
from agentctl.core.types import (
    Image,
    Message,
    ModelInfo,
    Reasoning,
    Request,
    RequestOptions,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
)
from agentctl.engine.prompt import Prompt

THRESHOLD_TOKENS = 120_000
WINDOW_SHARE = 0.8
IMAGE_TOKENS = 1_500


class Context:
    """Builds requests whose prefix is the same bytes in every step, so that provider caches carry it."""

    def __init__(
        self,
        *,
        model: ModelInfo,
        prompt: Prompt,
        tools: Sequence[ToolSpec],
        options: RequestOptions,
        max_context: int | None = None,
    ) -> None:
        self._model = model
        self._prompt = prompt
        self._tools = tuple(tools)
        self._max_context = max_context
        self._system = prompt.system()
        stable = "\n".join([*(block.text for block in self._system), *(tool.name for tool in tools)])
        self._options = options.replace(cache_key=hashlib.sha256(stable.encode()).hexdigest()[:32])
        share = int((model.window or 0) * WINDOW_SHARE) or THRESHOLD_TOKENS
        self.threshold = min(share, THRESHOLD_TOKENS)

    def request(self, history: Sequence[Message]) -> Request:
        """The next request. Raises ContextOverflow when it cannot fit into --max-context."""
        request = Request(
            system=self._system,
            messages=tuple(history),
            tools=self._tools,
            options=self._options,
            model=self._model,
            state=self._prompt.state(),
        )
        if self._max_context is not None and (tokens := estimate(request)) > self._max_context:
            raise ContextOverflow(
                f"the request has about {tokens:,} tokens, --max-context is {self._max_context:,}",
                hint="Raise --max-context, offer fewer --tools, or give the run less to read.",
            )
        return request

    def use(self, usage: Usage) -> ContextUse:
        """How full the context is after a response with this usage."""
        percent = round(usage.total * 100 / self.threshold)
        level = "red" if percent >= 90 else "amber" if percent * 3 >= 200 else "ok"
        return ContextUse(tokens=usage.total, threshold=self.threshold, percent=percent, level=level)


def estimate(request: Request) -> int:
    """Tokens of a request without a tokenizer; an upper guess within some ten percent for code and prose."""
    texts = [block.text for block in request.system]
    texts += [f"{tool.description}{tool.parameters}" for tool in request.tools]
    images = 0
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text() | Reasoning():
                    texts.append(part.text)
                case ToolCall():
                    texts.append(part.arguments)
                case Image():
                    images += 1
                case _:
                    texts.append(part.content)
                    images += len(part.images)
    return sum(map(estimate_tokens, texts)) + images * IMAGE_TOKENS + estimate_tokens(request.state)
