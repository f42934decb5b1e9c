"""The Messages format of Anthropic and of servers that follow it: Request → body. The answer is read next door.

Cache marks, where the profile has them: the last stable block of the system prompt (the tools stand before it), the
end of the history, and the end of the history one step ago, where the step before put its mark; so a read finds it
however many blocks have come since. The wire-only state stands behind the last mark and never carries one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
    SystemBlock,
    Text,
    ToolAnswer,
    ToolCall,
    ToolSpec,
)
from agentctl.providers.adapter import Endpoint, Healing
from agentctl.providers.anthropic_stream import API, MessagesDecoder
from agentctl.providers.anthropic_thinking import Mode, plan_thinking, thinking_mode
from agentctl.providers.history import LegalHistory, LegalIds, without_images
from agentctl.providers.profiles import Profile
from agentctl.providers.wire_common import (
    arguments_object,
    auth_headers,
    own_data,
    tool_schema,
    wire_name,
    wire_names,
)

VERSION = "2023-06-01"
"""Sent explicitly: gateways pin it, and the newer version refuses fields that they still send."""
_NO_OUTPUT = "(no output)"
_MOST_IMAGES = 20
"""Beyond this the service takes only small images; older ones become a note, ten at a time, so that the bytes before
them change rarely."""
_IMAGE_STEP = 10
_MARK: JsonObject = {"type": "ephemeral"}
_THOUGHTS = ("thinking", "redacted_thinking")


class AnthropicMessages:
    """One instance serves every endpoint; it remembers the last history, so that a step writes only what is new."""

    api: Api = API
    path = "/v1/messages"

    def __init__(self) -> None:
        self._legal = LegalHistory()
        self._blocks: Growing[Writing, Message, _Blocks] = Growing(_Blocks)

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        version = {} if endpoint.cloud else {"anthropic-version": VERSION}  # a cloud's client says it in the body
        return {**version, **auth_headers(endpoint)}

    def to_wire(self, request: Request, endpoint: Endpoint, healing: Healing) -> JsonObject:
        profile = endpoint.profile
        names, _ = wire_names(request.tools)
        blocks = self._written(request, endpoint, names, healing)
        has_lost = blocks.has_lost_thinking(thinking_mode(request, profile, healing))
        thinking = plan_thinking(request, profile, healing, has_lost_blocks=has_lost)
        body: JsonObject = {
            "model": request.model.name,
            "max_tokens": thinking.max_tokens,
            "system": _system(request.system, is_marked=profile.cache_breakpoints),
            "tools": _tools(request.tools, names, profile),
            "messages": _messages(blocks, request.state, is_marked=profile.cache_breakpoints),
            **thinking.body,
            "stream": True,
        }
        return {key: value for key, value in body.items() if value and key not in healing.dropped_params}

    def from_stream(self, request: Request, endpoint: Endpoint) -> MessagesDecoder:
        names, tool_names = wire_names(request.tools)
        return MessagesDecoder(
            model=request.model.name,
            base_url=endpoint.base_url,
            tool_names=tool_names,
            salt=str(len(request.messages)),
            is_thinking=self._is_asked_to_think(request, endpoint, names),
        )

    def _written(self, request: Request, endpoint: Endpoint, names: Mapping[str, str], healing: Healing) -> _Blocks:
        history = self._legal(request.messages)
        takes_images = not healing.strips_images and request.model.images is not False
        history = _few_images(history) if takes_images else without_images(history)
        writing = Writing(
            base_url=endpoint.base_url,
            model=request.model.name,
            names=names,
            drops_reasoning=healing.drops_reasoning,
        )
        return self._blocks(writing, history)

    def _is_asked_to_think(self, request: Request, endpoint: Endpoint, names: Mapping[str, str]) -> bool:
        """Whether an answer without thinking had the choice: a request whose turn lost its blocks goes without."""
        mode = thinking_mode(request, endpoint.profile, Healing())
        if mode == "budget" and self._written(request, endpoint, names, Healing()).has_lost_thinking(mode):
            return False
        return plan_thinking(request, endpoint.profile, Healing()).mode != "none"


# --- prompt and tools ---------------------------------------------------------------------------------------------


def _system(system: Iterable[SystemBlock], *, is_marked: bool) -> str | list[JsonObject]:
    """One text for servers without cache marks; else the stable part with its mark, then what may change."""
    blocks = [block for block in system if block.text.strip()]
    if not is_marked:
        return _joined(blocks)
    stable = _joined(block for block in blocks if block.is_stable)
    volatile = _joined(block for block in blocks if not block.is_stable)
    marked = [{**_text(stable), "cache_control": _MARK}] if stable else []
    return [*marked, *([_text(volatile)] if volatile else [])]


def _joined(blocks: Iterable[SystemBlock]) -> str:
    return "\n\n".join(clean(block.text) for block in blocks)


def _tools(tools: Iterable[ToolSpec], names: Mapping[str, str], profile: Profile) -> list[JsonObject]:
    return [
        {"name": names[tool.name], "description": clean(tool.description), "input_schema": schema}
        for tool in tools
        if (schema := tool_schema(tool, profile.schema_rule)) is not None
    ]


# --- messages -----------------------------------------------------------------------------------------------------


def _messages(blocks: _Blocks, state: str, *, is_marked: bool) -> list[JsonObject]:
    messages: list[JsonObject] = [{"role": message.role, "content": [*message.content]} for message in blocks.messages]
    if is_marked:
        for marked in messages[-1:-4:-2]:
            marked["content"] = _marked(marked["content"])
    if state.strip():
        messages[-1]["content"] = [*messages[-1]["content"], _text(clean(state))]
    return messages


def _marked(content: Sequence[JsonObject]) -> list[JsonObject]:
    return [*content[:-1], {**content[-1], "cache_control": _MARK}]


class _WireMessage:
    """One message of the wire: neighbours of one role are one."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.sources: list[Message] = []
        self.content: list[JsonObject] = []

    @property
    def has_calls(self) -> bool:
        return any(block["type"] == "tool_use" for block in self.content)

    @property
    def begins(self) -> str:
        """Type of the first block. Results are always first: they directly follow their calls."""
        return str(self.content[0]["type"])


class Writing(Record):
    """All that blocks are written by, besides their content."""

    base_url: str
    model: str
    names: Mapping[str, str]
    """Tool names to names on the wire."""
    drops_reasoning: bool


class _Blocks:
    """The history as messages of content blocks: roles alternate, the user is first and last."""

    def __init__(self, writing: Writing) -> None:
        self._base_url = writing.base_url
        self._model = writing.model
        self._names = writing.names
        self._drops_reasoning = writing.drops_reasoning
        self._legal_ids = LegalIds("anthropic")
        self._ids = self._legal_ids.mapped
        self.messages: list[_WireMessage] = []

    def add(self, message: Message) -> None:
        self._legal_ids.add(message)
        content = self._content(message)
        role = "assistant" if message.role == "assistant" else "user"
        if not content:
            return
        if not self.messages or self.messages[-1].role != role:
            self.messages.append(_WireMessage(role))
        self.messages[-1].sources.append(message)
        self.messages[-1].content += content

    def _content(self, message: Message) -> list[JsonObject]:
        content = [block for part in message.parts if (block := self._block(part)) is not None]
        while message.role == "assistant" and content and content[-1]["type"] in _THOUGHTS:
            content.pop()  # refused at the end of a message
        return content

    def _block(self, part: Part) -> JsonObject | None:
        match part:
            case Text():
                return _text(part.text)
            case Image():
                return _image(part)
            case Reasoning():
                return None if self._drops_reasoning else self._own(part)
            case ToolCall():
                return {
                    "type": "tool_use",
                    "id": self._ids[part.id],
                    "name": wire_name(part.name, self._names),
                    "input": arguments_object(part),
                }
            case ToolAnswer():
                return self._result(part)

    def _own(self, part: Reasoning) -> JsonObject | None:
        """The block as received; None when another model or service made it: signatures are bound to both."""
        data = own_data(part.opaque, self._base_url, API, self._model) or {}
        return data if data.get("type") in _THOUGHTS else None

    def _result(self, answer: ToolAnswer) -> JsonObject:
        text = answer.content if answer.content.strip() else _NO_OUTPUT
        content = [_text(text), *map(_image, answer.images)] if answer.images else text
        block: JsonObject = {"type": "tool_result", "tool_use_id": self._ids[answer.call_id], "content": content}
        return {**block, "is_error": True} if answer.is_error else block

    def has_lost_thinking(self, mode: Mode) -> bool:
        """Whether calls of the turn in flight were made with thinking that cannot be sent back.

        The service then refuses thinking: with a budget the first message with calls must begin with its block, and
        in any mode the blocks of a message are all there or none.
        """
        turn = [message for message in self._turn() if message.has_calls]
        if mode == "none" or not turn:
            return False
        came_without = not self._drops_reasoning and all(self._count(source) == 0 for source in turn[0].sources)
        if mode == "budget" and not came_without and turn[0].begins not in _THOUGHTS:
            return True
        sources = [source for message in turn for source in message.sources]
        return any((self._count(source) or 0) > self._replayable(source) for source in sources)

    def _turn(self) -> list[_WireMessage]:
        """What follows the latest message of the user; one that begins with results is no new turn."""
        places = [
            place
            for place, message in enumerate(self.messages)
            if message.role == "user" and message.begins != "tool_result"
        ]
        return [message for message in self.messages[places[-1] :] if message.role == "assistant"]

    def _count(self, message: Message) -> int | None:
        """Thinking blocks that the message had when it came; None when this model did not make it while thinking."""
        own = own_data(message.opaque, self._base_url, API, self._model) or {}
        number = own.get("thinking")
        return number if isinstance(number, int) else None

    def _replayable(self, message: Message) -> int:
        if self._drops_reasoning:
            return 0
        return sum(isinstance(part, Reasoning) and self._own(part) is not None for part in message.parts)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _image(image: Image) -> JsonObject:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _few_images(history: Sequence[Message]) -> tuple[Message, ...]:
    """The history with its oldest images as notes when there are more than the service takes."""
    total = sum(map(_images, history))
    if total <= _MOST_IMAGES:
        return tuple(history)
    surplus = -(-(total - _MOST_IMAGES) // _IMAGE_STEP) * _IMAGE_STEP
    kept: list[Message] = []
    for message in history:
        number = _images(message)
        kept.extend(without_images((message,)) if number and surplus > 0 else (message,))
        surplus -= number
    return tuple(kept)


def _images(message: Message) -> int:
    return sum(
        isinstance(part, Image) + (len(part.images) if isinstance(part, ToolAnswer) else 0) for part in message.parts
    )
