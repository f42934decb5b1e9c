"""Doubles at the seams: they are parts like the real ones, only simple and known."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Sequence

from agentctl.core.codec import dumps
from agentctl.core.errors import InvalidArguments
from agentctl.core.ports import Completed, Metered, Standing, StreamItem, TextPiece
from agentctl.core.types import (
    Decision,
    Effect,
    JsonObject,
    Message,
    Part,
    PendingCall,
    Request,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)

_IDS = itertools.count(1)


class FakeClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> str:
        return "2030-01-01T00:00:00.000Z"

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


def call(name: str, call_id: str = "", **args: object) -> ToolCall:
    return ToolCall(id=call_id or f"call_{next(_IDS)}", name=name, arguments=dumps(args).decode())


def says(*parts: str | ToolCall, stop: str = "", usage: Usage | None = None) -> Completed:
    """An answer of the model: texts and calls in order."""
    made: list[Part] = [Text(text=part) if isinstance(part, str) else part for part in parts]
    has_calls = any(isinstance(part, ToolCall) for part in made)
    return Completed(
        message=Message(role="assistant", parts=tuple(made)),
        usage=usage or Usage(input=10, output=5),
        stop=stop or ("calls" if has_calls else "end"),
        model="fake-1",
    )


Script = Completed | Exception | Sequence[StreamItem | Exception]


class ScriptedProvider:
    """Gives its answers in order and keeps the requests it was sent."""

    def __init__(self, *script: Script | Callable[[Request], Script]) -> None:
        self._script = list(script)
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        self.requests.append(request)
        entry = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if callable(entry) and not isinstance(entry, Exception):
            entry = entry(request)
        items = entry if isinstance(entry, Sequence) else _stream_of(entry)
        for item in items:
            if isinstance(item, Exception):
                raise item
            yield item

    async def close(self) -> None:
        return


def _stream_of(entry: Completed | Exception) -> list[StreamItem | Exception]:
    if isinstance(entry, Exception):
        return [entry]
    text = entry.message.text
    return [Metered(usage=entry.usage), *([TextPiece(text=text)] if text else []), entry]


class RecordingTool:
    """A tool that notes how it was called and answers with what it was given."""

    def __init__(
        self,
        name: str,
        effect: Effect = "read",
        answer: Callable[[JsonObject], ToolResult | str] | str = "ok",
        *,
        required: Sequence[str] = (),
    ) -> None:
        self.calls: list[JsonObject] = []
        self._answer = answer
        self._required = required
        self.spec = ToolSpec(
            name=name,
            description=f"The tool {name}.",
            parameters={"type": "object", "properties": {}, "required": list(required), "additionalProperties": False},
            effect=effect,
            set="core",
            subjects=lambda args: (),
        )

    def parse(self, args: JsonObject) -> JsonObject:
        missing = [name for name in self._required if name not in args]
        if missing:
            raise InvalidArguments(f"missing: {', '.join(missing)}")
        return args

    async def run(self, call_id: str, args: JsonObject) -> ToolResult:
        self.calls.append(args)
        answer = self._answer(args) if callable(self._answer) else self._answer
        return answer if isinstance(answer, ToolResult) else ToolResult(call_id=call_id, content=answer)


class FixedPolicy:
    """Allows everything but the tools it was given."""

    def __init__(self, *denied: str) -> None:
        self._denied = denied

    def decide(self, spec: ToolSpec, args: JsonObject) -> Decision:
        if spec.name in self._denied:
            return Decision(
                verdict="deny",
                runs=False,
                rule="no",
                source="test",
                reason=f"{spec.name} is denied here.",
                allow_with=spec.name,
            )
        return Decision(verdict="allow", runs=True, rule="yes", source="test", reason="allowed")

    def may_read(self, path: str) -> bool:
        return True


class NoRedaction:
    def text(self, text: str) -> str:
        return text

    def contains_mask(self, text: str) -> bool:
        return "[masked:" in text


class MemoryOutputs:
    """Kept outputs in a list instead of files."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def open(self) -> MemoryOutput:
        return MemoryOutput(self)


class MemoryOutput:
    def __init__(self, outputs: MemoryOutputs) -> None:
        self._outputs = outputs
        self._data = b""

    def write(self, data: bytes) -> None:
        self._data += data

    def close(self) -> str | None:
        self._outputs.kept.append(self._data)
        return f"output/{len(self._outputs.kept)}.txt"

    def discard(self) -> None:
        self._data = b""


class NoApprovals:
    """Nothing waits: what the policy asks for is denied, and unanswered calls were interrupted."""

    def standing(self, call: ToolCall, args: JsonObject | None = None) -> Standing:
        return Standing(state="unknown")

    def request(self, call: ToolCall, args: JsonObject, decision: Decision) -> PendingCall | str:
        return ""
