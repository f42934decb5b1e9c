"""The scripted provider: `--model scripted/FILE` for testing pipelines and policies, and what `agentctl demo` plays.

No model is asked and no connection is opened; everything behind the provider is real.
"""

from __future__ import annotations

import re
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from agentctl.core.errors import ProviderError
from agentctl.core.ports import CallStarted, Completed, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.text import cut_middle
from agentctl.core.types import Message, Part, Reasoning, Request, Text, ToolAnswer, ToolCall
from agentctl.providers.script import FAILURES, FOREVER, ScriptFailure, ScriptTurn, load_script

DEMO = Path(__file__).with_name("data") / "demo.json"
"""The script of `agentctl demo`; plays through in any folder, an empty one as well."""

_SEARCHED_CHARS = 20_000
_OWN_ID = re.compile(r"call_(\d+)")


class ScriptedModel:
    """A Provider whose answers stand in a script.

    For every request the first turn is taken that is not used up and whose `match`, if it has one, is found in the
    text of the user and the tools since the model last spoke. Ids of calls are call_1, call_2, … through the session.
    """

    def __init__(
        self, turns: Sequence[ScriptTurn], source: str, pause: Callable[[float], Awaitable[None]] = sleep
    ) -> None:
        self._turns = turns
        self._source = source
        self._pause = pause
        self._left = [turn.repeat for turn in turns]
        self._last_id = 0

    @classmethod
    def load(cls, path: Path) -> ScriptedModel:
        """Raises UsageError when the file is not a script."""
        return cls(load_script(path), str(path))

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Raises ProviderError when no turn is left, and what the script says."""
        turn = self._take(request.messages)
        if turn.delay_s:
            await self._pause(turn.delay_s)
        message = Message(role="assistant", parts=tuple(self._parts(turn, request.messages)))
        for item in _pieces(message, turn.delta):
            yield item
        if turn.failure:
            raise _failure(turn.failure, turn)
        stop = turn.stop or ("calls" if message.calls else "end")
        yield Completed(message=message, usage=turn.usage, stop=stop, model=request.model.name)

    async def close(self) -> None:
        """Holds nothing open."""

    def _take(self, messages: Sequence[Message]) -> ScriptTurn:
        heard = cut_middle(_since_last_answer(messages), _SEARCHED_CHARS)
        for number, turn in enumerate(self._turns):
            if not self._left[number] or (turn.match is not None and not re.search(turn.match, heard)):
                continue
            if self._left[number] != FOREVER:
                self._left[number] -= 1
            return turn
        unused = sum(1 for left in self._left if left)
        raise ProviderError(
            f"The script {self._source!r} has no turn for this request: {len(self._turns) - unused} of "
            f"{len(self._turns)} are used up" + (f", {unused} did not match." if unused else "."),
            hint="Add a turn, or let the last one repeat.",
            kind="script_end",
        )

    def _parts(self, turn: ScriptTurn, messages: Sequence[Message]) -> Iterator[Part]:
        if turn.reasoning:
            yield Reasoning(text=turn.reasoning)
        if turn.text:
            yield Text(text=turn.text)
        for call in turn.tool_calls:
            yield ToolCall(id=call.id or self._next_id(messages), name=call.name, arguments=call.arguments)

    def _next_id(self, messages: Sequence[Message]) -> str:
        """Higher than any in the history, which may come from an earlier run of the session."""
        ids = (_OWN_ID.fullmatch(call.id) for message in messages for call in message.calls)
        self._last_id = max([self._last_id, *(int(found[1]) for found in ids if found)]) + 1
        return f"call_{self._last_id}"


def _since_last_answer(messages: Sequence[Message]) -> str:
    start = max((place + 1 for place, message in enumerate(messages) if message.role == "assistant"), default=0)
    parts = (part for message in messages[start:] for part in message.parts)
    return "\n".join(
        part.text if isinstance(part, Text) else part.content for part in parts if isinstance(part, (Text, ToolAnswer))
    )


def _pieces(message: Message, delta: int | None) -> Iterator[StreamItem]:
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield CallStarted(id=part.id, name=part.name)
        elif isinstance(part, Text):
            yield from (TextPiece(text=piece) for piece in _cut(part.text, delta))
        elif isinstance(part, Reasoning):
            yield from (ReasoningPiece(text=piece) for piece in _cut(part.text, delta))


def _cut(text: str, delta: int | None) -> Iterator[str]:
    size = delta or len(text)
    return (text[start : start + size] for start in range(0, len(text), size))


def _failure(failure: ScriptFailure, turn: ScriptTurn) -> ProviderError:
    error = FAILURES[failure.kind](failure.message)
    error.usage = turn.usage
    return error
