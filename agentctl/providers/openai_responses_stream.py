"""The answer of the Responses format: typed events around output items, merged into one message.

Which text is the answer: the messages of phase `final_answer`, else the last message of any phase. Messages before it
(commentary) stream as text, because they are progress worth seeing, and are kept as Reasoning parts whose opaque data
is the message item: they go back to the service in their place and never become part of `Message.text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from agentctl.core.ports import CallStarted, Completed, ReasoningPiece, StreamItem, TextPiece
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

API: Api = "openai-responses"
FINAL = "final_answer"
_BREAK = "\n\n"
"""Between messages of one response, and between the parts of a reasoning summary."""


class ResponsesDecoder:
    """One response being read. `salt` keeps the ids of calls that come without one apart between the steps of a run."""

    def __init__(self, *, model: str, base_url: str, tool_names: Mapping[str, str], salt: str) -> None:
        self.usage = Usage()
        self.is_done = False
        self._model = model
        self._answered_by = ""
        self._base_url = base_url
        self._tool_names = tool_names
        self._salt = salt
        self._call_ids: set[str] = set()
        self._items: list[_Item] = []
        self._by_index: dict[int, _Item] = {}
        self._by_id: dict[str, _Item] = {}
        self._cut_reason: str | None = None
        self._has_text = False
        self._handlers: dict[str, Callable[[JsonObject], list[StreamItem]]] = {
            "response.output_text.delta": self._on_text,
            "response.refusal.delta": self._on_refusal,
            "response.reasoning_summary_text.delta": self._on_reasoning,
            "response.reasoning_text.delta": self._on_reasoning,
            "response.reasoning_summary_part.added": self._on_summary_part,
            "response.function_call_arguments.delta": self._on_arguments,
            "response.output_item.added": self._on_item,
            "response.output_item.done": self._on_item_done,
            "response.created": self._on_progress,
            "response.in_progress": self._on_progress,
            "response.completed": partial(self._on_end, "completed"),
            "response.incomplete": partial(self._on_end, "incomplete"),
            "response.failed": partial(self._on_end, "failed"),
            "error": self._on_error,
        }

    # --- the two ways in ------------------------------------------------------------------------------------------

    def feed(self, frame: Frame) -> list[StreamItem]:
        return handle(frame, self._handlers, self.usage)

    def feed_whole(self, body: JsonObject) -> list[StreamItem]:
        if not isinstance(body.get("output"), list):
            if body.get("error"):
                raise failure(error_in(body), self.usage)
            raise broken("The body is neither a response nor an error", self.usage)
        return self._end(body, str(body.get("status") or "completed"))

    @property
    def is_whole(self) -> bool:
        return self.is_done

    def finish(self) -> Completed:
        if not self.is_done:
            raise broken("The stream ended before response.completed", self.usage)
        calls = [item for item in self._items if item.kind == "function_call"]
        if self._cut_reason is None and not all(call.is_closed for call in calls):
            raise broken("The response ended with an unfinished call", self.usage)
        stop, detail = self._stop(any(call.is_closed for call in calls))
        message = self._message()
        return Completed(
            message=message, usage=self.usage, stop=stop, model=self._answered_by or self._model, detail=detail
        )

    # --- events ---------------------------------------------------------------------------------------------------

    def _on_text(self, event: JsonObject) -> list[StreamItem]:
        return self._text(self._item(event, "message"), event.get("delta"))

    def _text(self, item: _Item, delta: Any) -> list[StreamItem]:
        if not isinstance(delta, str) or not delta:
            return []
        shown = _BREAK + delta if self._has_text and not item.pieces else delta
        self._has_text = True
        item.pieces.append(delta)
        return [TextPiece(text=shown)]

    def _on_refusal(self, event: JsonObject) -> list[StreamItem]:
        self._item(event, "message").refusals.append(text_of(event.get("delta")))
        return []

    def _on_reasoning(self, event: JsonObject) -> list[StreamItem]:
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return []
        self._item(event, "reasoning").pieces.append(delta)
        return [ReasoningPiece(text=delta)]

    def _on_summary_part(self, event: JsonObject) -> list[StreamItem]:
        item = self._item(event, "reasoning")
        if not item.pieces:
            return []
        item.pieces.append(_BREAK)
        return [ReasoningPiece(text=_BREAK)]

    def _on_arguments(self, event: JsonObject) -> list[StreamItem]:
        self._item(event, "function_call").pieces.append(text_of(event.get("delta")))
        return []

    def _on_item(self, event: JsonObject) -> list[StreamItem]:
        raw = event.get("item")
        if not isinstance(raw, dict):
            return []
        item = self._added(raw, index_of(event, "output_index"))
        item.learn(raw)
        return self._started(item)

    def _on_item_done(self, event: JsonObject) -> list[StreamItem]:
        raw = event.get("item")
        if not isinstance(raw, dict):
            return []
        item = self._item({**event, "item_id": raw.get("id")}, text_of(raw.get("type")))
        return self._closed(item, raw)

    def _on_progress(self, event: JsonObject) -> list[StreamItem]:
        response = event.get("response")
        if isinstance(response, dict):
            self._read_head(response)
        return []

    def _on_end(self, status: str, event: JsonObject) -> list[StreamItem]:
        response = event.get("response")
        response = response if isinstance(response, dict) else {}
        given = response.get("status")
        return self._end(response, given if given in ("failed", "incomplete") else status)

    def _on_error(self, event: JsonObject) -> list[StreamItem]:
        raise failure(error_in(event), self.usage)

    # --- items ----------------------------------------------------------------------------------------------------

    def _item(self, event: JsonObject, kind: str) -> _Item:
        """The item that an event is about: by its index, its id, else the latest of its kind; made when there is none.

        The index counts first: some gateways give one item a new id in every event.
        """
        index, item_id = index_of(event, "output_index"), text_of(event.get("item_id"))
        item = self._by_index.get(index) if index is not None else None
        if item is None or item.kind != kind:
            item = self._by_id.get(item_id) if item_id else None
        if item is None and index is None and not item_id:
            item = next((known for known in reversed(self._items) if known.kind == kind), None)
        return item if item is not None and item.kind == kind else self._new(kind, index, item_id)

    def _added(self, raw: JsonObject, index: int | None) -> _Item:
        """A new item, or one that a delta has made before its announcement came."""
        kind, item_id = text_of(raw.get("type")), text_of(raw.get("id"))
        for known in (self._by_id.get(item_id), self._by_index.get(index) if index is not None else None):
            if known is not None and known.kind == kind and not known.raw:
                return known
        return self._new(kind, index, item_id)

    def _new(self, kind: str, index: int | None, item_id: str) -> _Item:
        item = _Item(kind)
        self._items.append(item)
        if index is not None:
            self._by_index[index] = item
        if item_id:
            self._by_id[item_id] = item
        return item

    def _started(self, item: _Item) -> list[StreamItem]:
        """Announces a call once, as soon as its name is known."""
        if item.kind != "function_call" or item.call_id or not item.name:
            return []
        given = text_of(item.raw.get("call_id"))
        if given and given not in self._call_ids:
            item.call_id = given
            self._call_ids.add(given)
        else:
            item.call_id = local_id(self._call_ids, self._salt, item.name, str(len(self._call_ids)))
        return [CallStarted(id=item.call_id, name=self._tool_names.get(item.name, item.name))]

    def _closed(self, item: _Item, raw: JsonObject) -> list[StreamItem]:
        """The whole item has come. What it says counts; text that was not streamed before is sent on."""
        item.learn(raw)
        item.is_closed = raw.get("status") != "incomplete" and (bool(item.name) or item.kind != "function_call")
        if item.kind == "message":
            whole, streamed = _message_text(raw), "".join(item.pieces)
            sent = self._text(item, whole.removeprefix(streamed)) if whole.startswith(streamed) else []
            item.pieces = [whole] if whole else item.pieces
            return sent
        if item.kind == "reasoning":
            item.raw = raw
            whole = _reasoning_text(raw)
            is_new = bool(whole) and not item.pieces
            item.pieces = [whole] if whole else item.pieces
            return [ReasoningPiece(text=whole)] if is_new else []
        if item.kind == "function_call":
            arguments = raw.get("arguments")
            item.pieces = [arguments_text(arguments if arguments else "".join(item.pieces))]
            return self._started(item)
        return []

    # --- the end --------------------------------------------------------------------------------------------------

    def _end(self, response: JsonObject, status: str) -> list[StreamItem]:
        self._read_head(response)
        if status == "failed" or (status != "incomplete" and response.get("error")):
            raise failure(response.get("error") or "the response failed without a reason", self.usage)
        if status not in ("completed", "incomplete"):
            raise broken(f"The response ended with status {status!r}", self.usage)
        sent = self._fill_in(response.get("output"))
        if status == "incomplete":
            details = response.get("incomplete_details")
            self._cut_reason = str((details.get("reason") if isinstance(details, dict) else None) or "incomplete")
        self.is_done = True
        return sent

    def _read_head(self, response: JsonObject) -> None:
        self._answered_by = text_of(response.get("model")) or self._answered_by
        usage = response.get("usage")
        if isinstance(usage, dict):
            self.usage = _usage(usage)

    def _fill_in(self, output: Any) -> list[StreamItem]:
        """Takes from the final list only what did not come as an item of its own: the list may be empty, partial or
        name the same items by other ids."""
        sent: list[StreamItem] = []
        free = list(self._items)
        for raw in output if isinstance(output, list) else ():
            if not isinstance(raw, dict):
                continue
            item = next((known for known in free if known.is_same(raw)), None) or next(
                (known for known in free if known.kind == raw.get("type") and not known.has_other_call(raw)), None
            )
            if item is None:
                item = self._new(text_of(raw.get("type")), None, text_of(raw.get("id")))
            else:
                free.remove(item)
            if not item.is_closed:
                sent += self._closed(item, raw)
        return sent

    def _stop(self, has_calls: bool) -> tuple[str, str]:
        refusal = joined(piece for item in self._items for piece in item.refusals)
        if refusal or self._cut_reason == "content_filter":
            return "refused", refusal or "content_filter"
        if self._cut_reason is not None:
            return "length", self._cut_reason
        return ("calls" if has_calls else "end"), ""

    def _message(self) -> Message:
        parts: list[Part] = []
        phases: list[str | None] = []
        answers = self._answers()
        for item in self._items:
            if item.kind == "message" and item in answers:
                gap = _BREAK if phases else ""
                parts.append(Text(text=gap + joined(item.pieces)))
                phases.append(item.phase)
            else:
                parts.extend(self._other_part(item))
        opaque = self._opaque({"phases": phases}) if any(phases) else None
        return Message(role="assistant", parts=tuple(parts), opaque=opaque)

    def _answers(self) -> list[_Item]:
        texts = [item for item in self._items if item.kind == "message" and "".join(item.pieces).strip()]
        return [item for item in texts if item.phase == FINAL] or texts[-1:]

    def _other_part(self, item: _Item) -> Iterator[Part]:
        text = joined(item.pieces)
        if item.kind == "function_call" and item.is_closed:
            yield ToolCall(id=item.call_id, name=self._tool_names.get(item.name, item.name), arguments=text)
        elif item.kind == "message" and text.strip():
            yield Reasoning(text=text, opaque=self._opaque(message_item(text, item.phase)))
        elif item.kind == "reasoning":
            is_replayable = bool(item.raw.get("encrypted_content") and item.raw.get("id"))
            data = {key: value for key, value in item.raw.items() if key not in ("status", "content")}
            data.setdefault("summary", [])
            if is_replayable or text.strip():
                yield Reasoning(text=text, opaque=self._opaque(data) if is_replayable else None)

    def _opaque(self, data: JsonObject) -> Opaque:
        return Opaque(provider=self._base_url, api=API, model=self._model, data=data)


class _Item:
    """One output item, as far as it has come."""

    __slots__ = ("call_id", "is_closed", "kind", "name", "phase", "pieces", "raw", "refusals")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.raw: JsonObject = {}
        self.pieces: list[str] = []
        self.refusals: list[str] = []
        self.phase: str | None = None
        self.name = ""
        self.call_id = ""
        self.is_closed = False

    def learn(self, raw: JsonObject) -> None:
        self.raw = {**self.raw, **{key: value for key, value in raw.items() if value is not None}}
        self.phase = text_of(raw.get("phase")) or self.phase
        self.name = self.name or text_of(raw.get("name"))
        refusal = _refusal_text(raw)
        if refusal:
            self.refusals = [refusal]

    def is_same(self, raw: JsonObject) -> bool:
        if self.kind != raw.get("type"):
            return False
        return any(self.raw.get(key) and self.raw.get(key) == raw.get(key) for key in ("id", "call_id"))

    def has_other_call(self, raw: JsonObject) -> bool:
        mine, other = self.raw.get("call_id"), raw.get("call_id")
        return bool(mine and other and mine != other)


def message_item(text: str, phase: str | None) -> JsonObject:
    """An assistant message as input: without id, with its phase when it has one."""
    content = [{"type": "output_text", "text": text}]
    item: JsonObject = {"type": "message", "role": "assistant", "content": content}
    return {**item, "phase": phase} if phase else item


def _contents(raw: JsonObject, key: str) -> list[JsonObject]:
    content = raw.get(key)
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _message_text(raw: JsonObject) -> str:
    return joined(text_of(part.get("text")) for part in _contents(raw, "content") if part.get("type") == "output_text")


def _refusal_text(raw: JsonObject) -> str:
    return joined(text_of(part.get("refusal")) for part in _contents(raw, "content") if part.get("type") == "refusal")


def _reasoning_text(raw: JsonObject) -> str:
    summary, content = ([text_of(part.get("text")) for part in _contents(raw, key)] for key in ("summary", "content"))
    return joined((_BREAK.join(summary),)) or joined(content)


def _usage(raw: JsonObject) -> Usage:
    """`input_tokens` includes what was read from and written to the cache."""
    given = raw.get("input_tokens_details"), raw.get("output_tokens_details")
    into, out = (details if isinstance(details, dict) else {} for details in given)
    read, write = count(into.get("cached_tokens")), count(into.get("cache_write_tokens"))
    return Usage(
        input=max(0, count(raw.get("input_tokens")) - read - write),
        cache_read=read,
        cache_write=write,
        output=count(raw.get("output_tokens")),
        reasoning=count(out.get("reasoning_tokens")),
    )
