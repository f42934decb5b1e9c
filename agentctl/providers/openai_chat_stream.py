"""Frames of a streamed chat completion → StreamItems, for the many servers that speak the format in their own way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentctl.core.codec import loads
from agentctl.core.errors import ProviderError, StreamBroken, Unavailable
from agentctl.core.events import Notice
from agentctl.core.ports import Completed, Metered, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.text import clean, cut_end
from agentctl.core.types import (
    JsonObject,
    Message,
    Opaque,
    Part,
    Reasoning,
    Request,
    Text,
    ToolCall,
    Usage,
)
from agentctl.providers.adapter import Endpoint, Frame
from agentctl.providers.call_as_text import call_as_text
from agentctl.providers.calls import CallAccumulator, CallSlot, final_arguments
from agentctl.providers.chat_usage import merged, to_usage, usage_of
from agentctl.providers.failures import from_error
from agentctl.providers.reasoning_details import details_text, merge_details
from agentctl.providers.text_calls import TextCalls, recovered
from agentctl.providers.think_tags import ThinkTags
from agentctl.providers.wire_common import wire_names

_CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})
_REFUSED = frozenset({"content_filter", "refusal", "safety", "sensitive", "recitation", "prohibited_content"})
_FAILED = frozenset({"error", "network_error", "insufficient_system_resource", "malformed_function_call", "abort"})
_REASONING_FIELDS = ("reasoning_content", "reasoning")
"""In order of precedence, before the text of reasoning_details. The first that gives text counts for the response."""
_DETAILS = "reasoning_details"
_JUNK_LIMIT = 100
"""Frames that are neither JSON nor a comment; more of them are a broken server."""


class ChatDecoder:
    """Reads one response; see adapter.Decoder."""

    def __init__(self, request: Request, endpoint: Endpoint, used_ids: Iterable[str]) -> None:
        """`used_ids`: of the calls in the history."""
        self.usage = Usage()
        self.is_done = False
        _, names = wire_names(request.tools)
        self._request = request
        self._endpoint = endpoint
        self._tool_names = names.keys()
        self._text_calls = TextCalls(names.keys()) if endpoint.profile.recovers_calls and names else None
        self._tags = ThinkTags() if endpoint.profile.parses_think_tags else None
        self._calls = CallAccumulator(
            taken_ids=used_ids,
            names=names,
            salt=str(len(request.messages)),
        )
        self._raw_usage: JsonObject = {}
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field = ""
        self._details: list[JsonObject] = []
        self._finish_reason = ""
        self._model = ""
        self._response_id = ""
        self._junk = 0
        self._noted: set[str] = set()
        self._is_closed = False

    # --- in --------------------------------------------------------------------------------------------------------

    def feed(self, frame: Frame) -> list[StreamItem]:
        data = frame.data
        if frame.event == "error":
            raise self._failure(_value(data))
        if data.startswith("["):
            if data.strip() == "[DONE]":
                self.is_done = True
                return self._close()
        elif data.startswith(":"):
            return self._skip(data)
        try:
            chunk = _parsed(data)
        except ValueError:
            raise self._broken(f"The service sent a frame that is not JSON: {cut_end(data, 80)!r}.") from None
        if not isinstance(chunk, dict):
            if chunk is None:
                return []
            raise self._failure(chunk)
        return self._chunk(chunk)

    def feed_whole(self, body: JsonObject) -> list[StreamItem]:
        items = self._chunk(body)
        if not body.get("choices"):
            raise self._broken(f"The service answered with JSON that is no completion (keys: {', '.join(body)[:80]}).")
        self.is_done = True
        return [*items, *self._close()]

    @property
    def is_whole(self) -> bool:
        return self.is_done or bool(self._finish_reason)

    def finish(self) -> Completed:
        if not self.is_whole:
            raise self._broken("The stream ended before the answer was complete.")
        self._release([])
        refusal = _whole(self._refusal)
        stop = self._stop(refusal)
        return Completed(
            message=Message(role="assistant", parts=self._parts(stop)),
            usage=self.usage,
            stop=stop,
            model=self._model or self._request.model.name,
            detail=refusal or (self._finish_reason if stop in ("refused", "length") else ""),
        )

    # --- chunks ----------------------------------------------------------------------------------------------------

    def _chunk(self, chunk: JsonObject) -> list[StreamItem]:
        items: list[StreamItem] = []
        if chunk.get("usage") is not None or "x_groq" in chunk:  # first: what fails below is paid for all the same
            self._meter(chunk, items)
        if chunk.get("error"):
            raise self._failure(chunk["error"])
        if chunk.get("type") == "error":
            raise self._failure(chunk)
        if not self._response_id:
            self._identify(chunk)
        choices = chunk.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and not choice.get("index"):  # one answer was asked for
                    self._choice(choice, items)
        return items

    def _identify(self, chunk: JsonObject) -> None:
        response_id, model = chunk.get("id"), chunk.get("model")
        if isinstance(response_id, str) and response_id:
            self._response_id = self._calls.salt = response_id
        if isinstance(model, str) and model:
            self._model = model

    def _meter(self, chunk: JsonObject, items: list[StreamItem]) -> None:
        raw = usage_of(chunk)
        if raw is None:
            return
        self._raw_usage = merged(self._raw_usage, raw)
        usage = to_usage(self._raw_usage)
        if usage != self.usage:
            self.usage = usage
            items.append(Metered(usage=usage))

    def _choice(self, choice: JsonObject, items: list[StreamItem]) -> None:
        if choice.get("error"):
            raise self._failure(choice["error"])
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta, items)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason.lower() in _FAILED:
                raise self._unavailable(f"The service gave up in the middle of the answer (finish_reason {reason!r}).")
            self._finish_reason = reason.lower()
            items.extend(self._close())

    def _delta(self, delta: JsonObject, items: list[StreamItem]) -> None:
        content = delta.get("content")
        if len(delta) > 1 or content is None:  # nearly every delta is text alone
            self._extras(delta, items)
        if isinstance(content, str):
            if content:
                self._say(content, items)
        elif isinstance(content, list):
            for part in content:
                self._content_part(part, items)

    def _extras(self, delta: JsonObject, items: list[StreamItem]) -> None:
        self._think(delta, items)
        refusal = delta.get("refusal")
        if isinstance(refusal, str):
            self._refusal.append(refusal)
        calls = delta.get("tool_calls")
        if isinstance(calls, dict):
            calls = [calls]
        function_call = delta.get("function_call")
        if not calls and isinstance(function_call, dict):  # the form before tool_calls
            calls = [{"index": 0, "function": function_call}]
        if isinstance(calls, list):
            items.extend(self._calls.feed(calls))

    def _think(self, delta: JsonObject, items: list[StreamItem]) -> None:
        texts = {field: text for field in _REASONING_FIELDS if isinstance(text := delta.get(field), str) and text}
        details = delta.get(_DETAILS)
        if isinstance(details, list):
            merge_details(self._details, details)
            if text := details_text(details):
                texts[_DETAILS] = text
        if not texts:
            return
        if not self._reasoning_field:
            self._reasoning_field = next(iter(texts))
            self._release(items)
        if self._reasoning_field in texts:
            self._reason(texts[self._reasoning_field], items)

    def _say(self, content: str, items: list[StreamItem]) -> None:
        if self._tags is None or self._reasoning_field:
            self._speak(content, items)
            return
        self._put(self._tags.feed(content), items)

    def _release(self, items: list[StreamItem]) -> None:
        """Text that might have become a tag and did not."""
        if self._tags is not None:
            self._put(self._tags.flush(), items)

    def _put(self, pieces: list[tuple[bool, str]], items: list[StreamItem]) -> None:
        for is_reasoning, text in pieces:
            if is_reasoning:
                self._reason(text, items)
            else:
                self._speak(text, items)

    def _speak(self, text: str, items: list[StreamItem]) -> None:
        if self._text_calls is not None:
            text = self._text_calls.feed(text)
        if text:
            self._text.append(text)
            items.append(TextPiece(text=text))

    def _reason(self, text: str, items: list[StreamItem]) -> None:
        self._reasoning.append(text)
        items.append(ReasoningPiece(text=text))

    def _content_part(self, part: Any, items: list[StreamItem]) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("text", "output_text") and isinstance(part.get("text"), str):
            if part["text"]:
                self._say(part["text"], items)
        elif kind in ("thinking", "reasoning"):
            self._reason_part(part.get("thinking") or part.get("text"), items)
        elif kind == "refusal":
            self._refusal.append(str(part.get("refusal") or ""))
        elif "part" not in self._noted:
            self._noted.add("part")
            items.append(Notice(code="content-part", text=f"The answer holds a part of an unknown type: {kind!r}."))

    def _reason_part(self, thinking: Any, items: list[StreamItem]) -> None:
        """A thinking part holds a text or a list of text parts."""
        pieces = thinking if isinstance(thinking, list) else [thinking]
        for piece in pieces:
            text = piece.get("text") if isinstance(piece, dict) else piece
            if isinstance(text, str) and text:
                self._reasoning_field = self._reasoning_field or "content"
                self._reason(text, items)

    def _skip(self, data: str) -> list[StreamItem]:
        """A comment that a proxy passed on as data."""
        self._junk += 1
        if self._junk > _JUNK_LIMIT:
            raise self._broken(f"The service sent more than {_JUNK_LIMIT} frames like {cut_end(data, 80)!r}.")
        if "junk" in self._noted:
            return []
        self._noted.add("junk")
        return [Notice(code="stream-junk", text=f"Skipped a frame that is no answer: {cut_end(data, 80)!r}.")]

    # --- the end ---------------------------------------------------------------------------------------------------

    def _close(self) -> list[StreamItem]:
        """Once, when the answer is known to be over: text that was held back, calls not announced yet, notices."""
        if self._is_closed:
            return []
        self._is_closed = True
        items: list[StreamItem] = []
        self._release(items)
        self._recover(items)
        items.extend(self._calls.started(is_over=True))
        if not self._calls:
            notice = call_as_text("".join(self._text), self._tool_names)
            if notice:
                items.append(notice)
        return items

    def _recover(self, items: list[StreamItem]) -> None:
        """Calls that stand in the text, where the server sent none and the answer was not cut."""
        if self._text_calls is None:
            return
        is_whole = not self._calls and self._finish_reason not in _CUT | _REFUSED
        deltas, text = self._text_calls.finish(is_whole=is_whole)
        self._text_calls = None
        if text:
            self._speak(text, items)
        if deltas:
            items.append(recovered(len(deltas)))
            items.extend(self._calls.feed(deltas))

    def _stop(self, refusal: str) -> str:
        if refusal or self._finish_reason in _REFUSED:
            return "refused"
        if self._finish_reason in _CUT:
            return "length"
        return "calls" if self._calls else "end"

    def _parts(self, stop: str) -> tuple[Part, ...]:
        parts: list[Part] = []
        reasoning, text = _whole(self._reasoning), _whole(self._text)
        if reasoning or self._details:
            parts.append(
                Reasoning(text=reasoning, opaque=self._own({_DETAILS: list(self._details)} if self._details else {}))
            )
        if text:
            parts.append(Text(text=text))
        for slot in self._calls.slots():
            if slot.name:
                parts.append(self._call(slot))
            elif stop != "length":
                raise self._broken("The service sent a tool call without a name.")
        return tuple(parts)

    def _call(self, slot: CallSlot) -> ToolCall:
        return ToolCall(
            id=slot.id,
            name=self._calls.name_of(slot),
            arguments=final_arguments(_whole([slot.arguments])),
            opaque=self._own({"extra_content": slot.extra}) if slot.extra else None,
        )

    def _own(self, data: JsonObject) -> Opaque:
        return Opaque(provider=self._endpoint.base_url, api="openai-chat", model=self._request.model.name, data=data)

    # --- failures --------------------------------------------------------------------------------------------------

    def _failure(self, error: Any) -> ProviderError:
        return self._metered(from_error(error))

    def _broken(self, message: str) -> ProviderError:
        return self._metered(StreamBroken(message))

    def _unavailable(self, message: str) -> ProviderError:
        return self._metered(Unavailable(message))

    def _metered(self, error: ProviderError) -> ProviderError:
        if error.usage is None and self.usage != Usage():
            error.usage = self.usage
        return error


def _parsed(data: str) -> Any:
    """Takes what strict JSON does not have: NaN, and half of a character that was cut into two deltas."""
    try:
        return loads(data)
    except ValueError:
        from json import loads as lenient  # 5 ms, and hardly ever needed

        return lenient(data)


def _whole(pieces: list[str]) -> str:
    """The pieces joined, with the halves of cut characters put together."""
    text = "".join(pieces)
    if text == clean(text):
        return text
    return clean(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def _value(data: str) -> Any:
    try:
        return loads(data)
    except ValueError:
        return data
