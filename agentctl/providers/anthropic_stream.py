"""The answer of the Messages format: content blocks that open, grow and close, merged into one message.

A thinking block is kept whole in the opaque data of its Reasoning part and goes back byte for byte; one without a
signature cannot be sent back and has none. The message's own opaque data says how many blocks it had, so that a later
request can tell whether some were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentctl.core.errors import ContextOverflow
from agentctl.core.ports import CallStarted, Completed, Metered, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.types import Api, JsonObject, Message, Opaque, Part, Reasoning, Text, ToolCall, Usage
from agentctl.providers.adapter import Frame
from agentctl.providers.stream_events import (
    arguments_text,
    broken,
    count,
    error_in,
    failure,
    handle,
    index_of,
    joined,
    text_of,
)
from agentctl.providers.wire_common import local_id

API: Api = "anthropic-messages"
_STOPS: Mapping[str, str] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "refusal": "refused",
}
_USAGE_FIELDS: Mapping[str, str] = {
    "input_tokens": "input",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
    "output_tokens": "output",
}


class MessagesDecoder:
    """One response being read. `is_thinking`: the request asked for thinking. `salt` keeps the ids of calls that come
    without one apart between the steps of a run."""

    def __init__(
        self, *, model: str, base_url: str, tool_names: Mapping[str, str], salt: str, is_thinking: bool
    ) -> None:
        self.usage = Usage()
        self.is_done = False
        self._model = model
        self._answered_by = ""
        self._base_url = base_url
        self._tool_names = tool_names
        self._salt = salt
        self._is_thinking = is_thinking
        self._call_ids: set[str] = set()
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._reason = ""
        self._details = ""
        self._handlers: dict[str, Callable[[JsonObject], list[StreamItem]]] = {
            "content_block_delta": self._on_delta,
            "content_block_start": self._on_block,
            "content_block_stop": self._on_block_end,
            "message_start": self._on_start,
            "message_delta": self._on_message_delta,
            "message_stop": self._on_stop,
            "error": self._on_error,
        }

    # --- the two ways in ------------------------------------------------------------------------------------------

    def feed(self, frame: Frame) -> list[StreamItem]:
        return handle(frame, self._handlers, self.usage)

    def feed_whole(self, body: JsonObject) -> list[StreamItem]:
        content = body.get("content")
        if body.get("type") == "error" or body.get("error"):
            raise failure(error_in(body), self.usage)
        if not isinstance(content, list):
            raise broken("The body is neither a message nor an error", self.usage)
        items = self._on_start({"message": body})
        for index, block in enumerate(content):
            items += self._on_block({"index": index, "content_block": block})
            items += self._on_block_end({"index": index})
        items += self._on_message_delta({"delta": body})
        return items + self._on_stop({})

    @property
    def is_whole(self) -> bool:
        return self.is_done

    def finish(self) -> Completed:
        if not self.is_done or not self._reason:
            raise broken(f"The stream ended before {'a stop reason' if self.is_done else 'message_stop'}", self.usage)
        if self._reason == "model_context_window_exceeded":
            # Nothing that is asked for again with the same history could be longer.
            raise ContextOverflow(
                "The answer filled the context window of the model.", usage=self.usage if self.usage.total else None
            )
        if self._reason == "pause_turn":
            raise broken("The service paused the turn for a server tool, but none was offered", self.usage)
        calls = [block for block in self._blocks if block.kind == "tool_use"]
        stop = _STOPS.get(self._reason, "end")
        if stop != "length" and not all(call.is_closed for call in calls):
            raise broken("The message ended with an unfinished call", self.usage)
        if stop in ("end", "calls"):
            stop = "calls" if calls else "end"
        return Completed(
            message=self._message(),
            usage=self.usage,
            stop=stop,
            model=self._answered_by or self._model,
            detail=self._details if stop == "refused" else "" if stop in ("end", "calls") else self._reason,
        )

    # --- events ---------------------------------------------------------------------------------------------------

    def _on_delta(self, event: JsonObject) -> list[StreamItem]:
        delta = event.get("delta")
        if not isinstance(delta, dict):
            return []
        kind = delta.get("type")
        if kind == "text_delta":
            return self._text(event, delta.get("text"))
        if kind == "thinking_delta":
            return self._thinking(event, delta.get("thinking"))
        if kind == "input_json_delta":
            self._block(event, "tool_use").pieces.append(text_of(delta.get("partial_json")))
        elif kind == "signature_delta":
            self._block(event, "thinking").signature += text_of(delta.get("signature"))
        return []

    def _text(self, event: JsonObject, text: Any) -> list[StreamItem]:
        if not isinstance(text, str) or not text:
            return []
        self._block(event, "text").pieces.append(text)
        return [TextPiece(text=text)]

    def _thinking(self, event: JsonObject, text: Any) -> list[StreamItem]:
        if not isinstance(text, str) or not text:
            return []
        self._block(event, "thinking").pieces.append(text)
        return [ReasoningPiece(text=text)]

    def _on_block(self, event: JsonObject) -> list[StreamItem]:
        start = event.get("content_block")
        if not isinstance(start, dict):
            return []
        block = self._new(text_of(start.get("type")), index_of(event, "index"))
        block.start = start
        if block.kind == "text":
            return self._text(event, start.get("text"))
        if block.kind == "thinking":
            block.signature = text_of(start.get("signature"))
            return self._thinking(event, start.get("thinking"))
        return [self._started(block)] if block.kind == "tool_use" else []

    def _started(self, block: _Block) -> CallStarted:
        name, given = text_of(block.start.get("name")), text_of(block.start.get("id"))
        if given and given not in self._call_ids:
            self._call_ids.add(given)
        else:
            given = local_id(self._call_ids, self._salt, name, str(len(self._call_ids)))
        block.call_id, block.name = given, self._tool_names.get(name, name)
        return CallStarted(id=block.call_id, name=block.name)

    def _on_block_end(self, event: JsonObject) -> list[StreamItem]:
        index = index_of(event, "index")
        block = self._by_index.get(index) if index is not None else self._blocks[-1] if self._blocks else None
        if block is not None:
            block.is_closed = True
        return []

    def _on_start(self, event: JsonObject) -> list[StreamItem]:
        message = event.get("message")
        if not isinstance(message, dict):
            return []
        self._answered_by = text_of(message.get("model"))
        return self._meter(message.get("usage"))

    def _on_message_delta(self, event: JsonObject) -> list[StreamItem]:
        delta = event.get("delta")
        if isinstance(delta, dict):
            self._reason = text_of(delta.get("stop_reason")) or self._reason
            self._details = _refusal(delta.get("stop_details")) or self._details
        return self._meter(event.get("usage"))

    def _on_stop(self, _event: JsonObject) -> list[StreamItem]:
        self.is_done = True
        return []

    def _on_error(self, event: JsonObject) -> list[StreamItem]:
        raise failure(error_in(event), self.usage)

    def _meter(self, raw: Any) -> list[StreamItem]:
        """Counts are running totals of the response: a later one replaces an earlier one, unless it says nothing."""
        if not isinstance(raw, dict):
            return []
        changes = {ours: value for theirs, ours in _USAGE_FIELDS.items() if (value := count(raw.get(theirs)))}
        details = raw.get("output_tokens_details")
        if isinstance(details, dict) and (thought := count(details.get("thinking_tokens"))):
            changes["reasoning"] = thought
        if not changes:
            return []
        self.usage = self.usage.replace(**changes)
        return [Metered(usage=self.usage)]

    # --- blocks ---------------------------------------------------------------------------------------------------

    def _block(self, event: JsonObject, kind: str) -> _Block:
        index = index_of(event, "index")
        block = self._by_index.get(index) if index is not None else self._blocks[-1] if self._blocks else None
        return block if block is not None and block.kind == kind else self._new(kind, index)

    def _new(self, kind: str, index: int | None) -> _Block:
        block = _Block(kind)
        self._blocks.append(block)
        if index is not None:
            self._by_index[index] = block
        return block

    def _message(self) -> Message:
        parts = tuple(part for block in self._blocks if (part := self._part(block)) is not None)
        kept = sum(isinstance(part, Reasoning) and part.opaque is not None for part in parts)
        opaque = self._opaque({"thinking": kept}) if kept or self._is_thinking else None
        return Message(role="assistant", parts=parts, opaque=opaque)

    def _part(self, block: _Block) -> Part | None:
        text = joined(block.pieces)
        match block.kind:
            case "text" if text:
                return Text(text=text)
            case "thinking" if block.signature and block.is_closed:
                data = {"type": "thinking", "thinking": text, "signature": block.signature}
                return Reasoning(text=text, opaque=self._opaque(data))
            case "thinking" if text:
                return Reasoning(text=text)
            case "redacted_thinking" if block.start.get("data"):
                data = {"type": "redacted_thinking", "data": block.start["data"]}
                return Reasoning(text="", opaque=self._opaque(data))
            case "tool_use" if block.is_closed:
                return ToolCall(id=block.call_id, name=block.name, arguments=block.arguments(text))
        return None

    def _opaque(self, data: JsonObject) -> Opaque:
        return Opaque(provider=self._base_url, api=API, model=self._model, data=data)


class _Block:
    """One content block, as far as it has come."""

    __slots__ = ("call_id", "is_closed", "kind", "name", "pieces", "signature", "start")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.start: JsonObject = {}
        self.pieces: list[str] = []
        self.signature = ""
        self.call_id = ""
        self.name = ""
        self.is_closed = False

    def arguments(self, streamed: str) -> str:
        """What was streamed; some servers send the whole input with the start of the block instead."""
        return arguments_text(streamed if streamed.strip() else self.start.get("input"))


def _refusal(details: Any) -> str:
    """The category of a refusal and its explanation, as far as the service gives them."""
    if not isinstance(details, dict):
        return ""
    return ": ".join(str(details[key]) for key in ("category", "explanation") if details.get(key))
