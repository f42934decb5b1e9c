"""The Responses format of OpenAI and of servers that follow it: Request → body. The answer is read next door.

Stateless: `store` is false, every request carries the whole history inline. Ids of messages and calls are never sent
back; reasoning items keep theirs, because the service refuses encrypted reasoning without it.

The system prompt goes as `instructions`, not as an input message: it stands before the input in the prompt, so its
bytes begin every cached prefix; it needs no choice between the roles `system` and `developer`; and llama.cpp and other
compatible servers make the system message of their template from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from agentctl.core.codec import dumps
from agentctl.core.memo import Growing
from agentctl.core.record import Record
from agentctl.core.text import clean
from agentctl.core.types import (
    Api,
    Image,
    JsonObject,
    Message,
    Part,
    Reasoning,
    Request,
    Text,
    ToolAnswer,
    ToolCall,
    ToolSpec,
)
from agentctl.providers.adapter import Endpoint, Healing
from agentctl.providers.history import LegalHistory, LegalIds, images_behind, without_images
from agentctl.providers.openai_responses_stream import API, ResponsesDecoder, message_item
from agentctl.providers.profiles import Profile
from agentctl.providers.wire_common import (
    arguments_object,
    auth_headers,
    own_data,
    tool_schema,
    wire_name,
    wire_names,
)

_SMALLEST_LIMIT = 16
"""The service refuses a smaller max_output_tokens."""
_NO_OUTPUT = "(no output)"
_EMPTY: tuple[object, ...] = (None, "", [], {})


class OpenAIResponses:
    """One instance serves every endpoint; it remembers the last history, so that a step writes only what is new."""

    api: Api = API
    path = "/responses"

    def __init__(self) -> None:
        self._legal = LegalHistory()
        self._items: Growing[Writing, Message, _Items] = Growing(_Items)

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        return auth_headers(endpoint)

    def to_wire(self, request: Request, endpoint: Endpoint, healing: Healing) -> JsonObject:
        history = self._legal(request.messages)
        if healing.strips_images or request.model.images is False:
            history = without_images(history)
        names, _ = wire_names(request.tools)
        writing = Writing(
            base_url=endpoint.base_url,
            model=request.model.name,
            names=names,
            drops_reasoning=healing.drops_reasoning or healing.strips_item_ids,
            holds_images=API in endpoint.profile.answer_parts,
        )
        reasoning = _reasoning(request, endpoint.profile)
        thinks = reasoning is not None and "reasoning" not in healing.dropped_params
        limit = healing.max_output_tokens or request.options.max_output_tokens
        body: JsonObject = {
            "model": request.model.name,
            "instructions": "\n\n".join(clean(block.text) for block in request.system if block.text.strip()),
            "input": self._items(writing, history).all(request.state),
            "tools": _tools(request.tools, names, endpoint.profile),
            "reasoning": reasoning,
            "include": ["reasoning.encrypted_content"] if thinks or request.model.reasoning else [],
            "max_output_tokens": max(limit, _SMALLEST_LIMIT) if limit else None,
            "prompt_cache_key": request.options.cache_key if endpoint.profile.sends_cache_key else None,
            "store": False,
            "stream": True,
        }
        return {key: value for key, value in body.items() if value not in _EMPTY and key not in healing.dropped_params}

    def from_stream(self, request: Request, endpoint: Endpoint) -> ResponsesDecoder:
        return ResponsesDecoder(
            model=request.model.name,
            base_url=endpoint.base_url,
            tool_names=wire_names(request.tools)[1],
            salt=str(len(request.messages)),
        )


def _reasoning(request: Request, profile: Profile) -> JsonObject | None:
    """The reasoning setting; None leaves the model to its own. Off is said only to models that are known to reason."""
    options, model = request.options, request.model
    if model.reasoning is False or profile.thinking == "none" or (options.think == "off" and not model.reasoning):
        return None
    effort = profile.efforts.get(options.think)
    setting = {"effort": effort} if effort else {}
    if options.show_reasoning and options.think != "off":
        setting["summary"] = "auto"
    return setting or None


def _tools(tools: Iterable[ToolSpec], names: Mapping[str, str], profile: Profile) -> list[JsonObject]:
    """`strict` is said, because its default here is true and would refuse optional parameters."""
    return [
        {
            "type": "function",
            "name": names[tool.name],
            "description": clean(tool.description),
            "parameters": schema,
            "strict": False,
        }
        for tool in tools
        if (schema := tool_schema(tool, profile.schema_rule)) is not None
    ]


class Writing(Record):
    """All that items are written by, besides their content."""

    base_url: str
    model: str
    names: Mapping[str, str]
    """Tool names to names on the wire."""
    drops_reasoning: bool
    holds_images: bool
    """Results of tools may hold images."""


class _Items:
    """The history as input items."""

    def __init__(self, writing: Writing) -> None:
        self._base_url = writing.base_url
        self._model = writing.model
        self._names = writing.names
        self._drops_reasoning = writing.drops_reasoning
        self._holds_images = writing.holds_images
        self._legal_ids = LegalIds("responses")
        self._ids = self._legal_ids.mapped
        self._seen: set[str] = set()
        self._all: list[JsonObject] = []

    def add(self, message: Message) -> None:
        self._legal_ids.add(message)
        for shown in (message,) if self._holds_images else images_behind(message):
            self._add(shown)

    def _add(self, message: Message) -> None:
        if message.role == "assistant":
            self._all.extend(self._assistant(message))
        elif message.role == "tool":
            self._all.extend(self._output(part) for part in message.parts if isinstance(part, ToolAnswer))
        else:
            self._all.append({"type": "message", "role": "user", "content": [*map(_content, message.parts)]})

    def all(self, state: str) -> list[JsonObject]:
        items = list(self._all)
        if state.strip():
            items[-1] = _with_state(items[-1], clean(state))
        return items

    def _assistant(self, message: Message) -> list[JsonObject]:
        phases = iter(self._phases(message))
        items = [item for part in message.parts if (item := self._item(part, phases)) is not None]
        kept: list[JsonObject] = []
        for item in reversed(items):  # a reasoning item is refused without the item that it led to
            if kept or item["type"] != "reasoning":
                kept.append(item)
        return kept[::-1]

    def _phases(self, message: Message) -> list[str | None]:
        texts = sum(isinstance(part, Text) for part in message.parts)
        own = own_data(message.opaque, self._base_url, API, self._model) or {}
        phases = own.get("phases")
        return phases if isinstance(phases, list) and len(phases) == texts else [None] * texts

    def _item(self, part: Part, phases: Iterator[str | None]) -> JsonObject | None:
        """The item of one part. `phases` has one entry for each text of the message."""
        match part:
            case Text():
                return message_item(part.text, next(phases))
            case ToolCall():
                return self._call(part)
            case Reasoning():
                return self._own_item(part)
        return None

    def _call(self, call: ToolCall) -> JsonObject:
        arguments = arguments_object(call)
        is_legal = arguments and "unparsed" not in arguments
        return {
            "type": "function_call",
            "call_id": self._ids[call.id],
            "name": wire_name(call.name, self._names),
            "arguments": call.arguments if is_legal else dumps(arguments).decode(),
        }

    def _own_item(self, part: Reasoning) -> JsonObject | None:
        """The item as it was received, if this model made it: encrypted reasoning, or a message that was commentary."""
        data = own_data(part.opaque, self._base_url, API, self._model) or {}
        if data.get("type") != "reasoning":
            return data if data.get("type") == "message" else None
        item_id = str(data.get("id") or "")
        if self._drops_reasoning or not data.get("encrypted_content") or item_id in self._seen:
            return None
        self._seen.add(item_id)
        return data

    def _output(self, answer: ToolAnswer) -> JsonObject:
        text = answer.content if answer.content.strip() else _NO_OUTPUT
        output = [_content(Text(text=text)), *map(_content, answer.images)] if answer.images else text
        return {"type": "function_call_output", "call_id": self._ids[answer.call_id], "output": output}


def _content(part: Part) -> JsonObject:
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": f"data:{part.media_type};base64,{part.data}", "detail": "auto"}
    return {"type": "input_text", "text": part.text if isinstance(part, (Text, Reasoning)) else ""}


def _with_state(item: JsonObject, state: str) -> JsonObject:
    """The last item with the state behind it. It joins an output instead of following as a message of the user: the
    service forgets reasoning that stands before the latest user message, and a call's reasoning is still needed."""
    field = "output" if item["type"] == "function_call_output" else "content"
    value = item[field]
    longer = f"{value}\n\n{state}" if isinstance(value, str) else [*value, _content(Text(text=state))]
    return {**item, field: longer}
