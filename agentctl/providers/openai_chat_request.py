"""Request → the body of a chat completion. Pure; the same request gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agentctl.core.codec import dumps
from agentctl.core.memo import Growing
from agentctl.core.record import Record
from agentctl.core.text import clean
from agentctl.core.types import (
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
from agentctl.providers.history import LegalHistory, LegalIds, images_behind, joined_roles, with_state, without_images
from agentctl.providers.profiles import Profile
from agentctl.providers.wire_common import arguments_object, own_data, tool_schema, wire_name, wire_names

_BETWEEN = "I have the results."
"""Stands between tool results and a user message where the service wants an assistant there."""
_CACHE_KEY_LIMIT = 64
_EMPTY_CONTENT: Mapping[str, JsonObject] = {"null": {"content": None}, "empty": {"content": ""}, "omit": {}}
_MAX_TOKENS_FIELDS = ("max_tokens", "max_completion_tokens")
_LEVEL_OF_THE_SERVICE = "medium"


def chat_body(request: Request, endpoint: Endpoint, healing: Healing, history: ChatHistory) -> JsonObject:
    """The body, always of a streamed answer. Keys stand in a fixed order; nothing is sent that is not needed."""
    profile = endpoint.profile
    thinking = _thinking(request, profile, healing)
    body: JsonObject = {"model": request.model.name, "stream": True}
    if profile.sends_stream_options and not healing.drops_stream_options:
        body["stream_options"] = {"include_usage": True}
    limit = healing.max_output_tokens or request.options.max_output_tokens
    if limit is not None:
        body[_max_tokens_field(profile, healing)] = limit
    body.update(thinking)
    if profile.sends_cache_key and request.options.cache_key:
        body["prompt_cache_key"] = request.options.cache_key[:_CACHE_KEY_LIMIT]
    to_wire, _ = wire_names(request.tools)
    tools = _tools(request.tools, to_wire, profile)
    if tools:
        body["tools"] = tools
    is_thinking_off = thinking.get("thinking") == {"type": "disabled"}
    writing = Writing(
        endpoint=endpoint,
        model=request.model.name,
        names=to_wire,
        echoes=not healing.drops_reasoning and not is_thinking_off,
        takes_images=request.model.images is not False and not healing.strips_images,
        holds_images="openai-chat" in profile.answer_parts,
    )
    body["messages"] = history.render(request, writing)
    return {key: value for key, value in body.items() if key not in healing.dropped_params}


def _max_tokens_field(profile: Profile, healing: Healing) -> str:
    if not healing.swaps_max_tokens:
        return profile.max_tokens_field
    return next(field for field in _MAX_TOKENS_FIELDS if field != profile.max_tokens_field)


def _tools(tools: Iterable[ToolSpec], to_wire: Mapping[str, str], profile: Profile) -> list[JsonObject]:
    """The functions, without those whose schema the service would refuse: one of them fails the whole request."""
    functions = []
    for tool in tools:
        parameters = tool_schema(tool, profile.schema_rule)
        if parameters is not None:
            function = {
                "name": to_wire[tool.name],
                "description": clean(tool.description),
                "parameters": parameters,
            }
            functions.append({"type": "function", "function": function})
    return functions


# --- thinking -----------------------------------------------------------------------------------------------------


def _thinking(request: Request, profile: Profile, healing: Healing) -> JsonObject:
    """The fields that carry the thinking level; none for models without reasoning.

    For an unknown model nothing is sent at `medium`, which is what services do on their own, nor at `off` where the
    service may not know the field: many refuse it.
    """
    think, reasons = request.options.think, request.model.reasoning
    if profile.thinking == "toggle" and healing.drops_reasoning:
        return {"thinking": {"type": "disabled"}}
    is_needless = think == _LEVEL_OF_THE_SERVICE or (think == "off" and not profile.takes_off)
    if reasons is False or (reasons is None and is_needless):
        return {}
    fields = _THINKING.get(profile.thinking)
    return fields(think, profile.efforts.get(think)) if fields else {}


def _effort(think: str, word: str | None) -> JsonObject:
    return {"reasoning_effort": word} if word else {}


def _reasoning(think: str, word: str | None) -> JsonObject:
    return {"reasoning": {"effort": word}} if word else {}


def _toggle(think: str, word: str | None) -> JsonObject:
    return (
        {"thinking": {"type": "disabled"}}
        if think == "off"
        else {"thinking": {"type": "enabled"}, **_effort(think, word)}
    )


def _think_flag(think: str, word: str | None) -> JsonObject:
    return {"chat_template_kwargs": {"enable_thinking": think != "off", **_effort(think, word)}}


_THINKING: Mapping[str, Callable[[str, str | None], JsonObject]] = {
    "effort": _effort,
    "reasoning": _reasoning,
    "toggle": _toggle,
    "think-flag": _think_flag,
}


# --- messages -----------------------------------------------------------------------------------------------------


class Writing(Record):
    """All that messages are written by, besides their content."""

    endpoint: Endpoint
    model: str
    names: Mapping[str, str]
    """Tool names to names on the wire."""
    echoes: bool
    """Reasoning that this very model made goes back to it."""
    takes_images: bool
    holds_images: bool
    """Results of tools may hold images."""


class ChatHistory:
    """Turns the history of a request into chat messages. Remembers the last one: a step only adds to it."""

    def __init__(self) -> None:
        self._legal = LegalHistory(_is_sayable)
        self._rows: Growing[Writing, Message, _Rows] = Growing(_Rows)

    def render(self, request: Request, writing: Writing) -> list[JsonObject]:
        profile = writing.endpoint.profile
        history = self._legal(request.messages)
        if profile.merges_same_role or profile.assistant_between_tool_and_user:
            history = tuple(shown for message in history for shown in _shown(message, writing))
        if profile.merges_same_role:
            history = joined_roles(history)
        if profile.assistant_between_tool_and_user:
            history = _with_assistant_between(history)
        rows = self._rows(writing, history)
        system = "\n\n".join(clean(block.text) for block in request.system if block.text.strip())
        messages = [{"role": profile.system_role, "content": system}] if system else []
        for row in rows.groups[:-1]:
            messages += row
        return messages + rows.write(history[-1], request.state)


class _Rows:
    """The rows of each message of a history."""

    def __init__(self, writing: Writing) -> None:
        self.groups: list[list[JsonObject]] = []
        self._writing = writing
        self._endpoint = writing.endpoint
        self._profile = writing.endpoint.profile
        self._model = writing.model
        self._to_wire = writing.names
        self._echoes = writing.echoes
        self._legal_ids = LegalIds(self._profile.call_id_rule)
        self._ids = self._legal_ids.mapped

    def add(self, message: Message) -> None:
        self._legal_ids.add(message)
        self.groups.append(self.write(message))

    def write(self, message: Message, state: str = "") -> list[JsonObject]:
        """The rows of an added message, with the state at their end."""
        return [row for shown in with_state(_shown(message, self._writing), state) for row in self._rows(shown)]

    def _rows(self, message: Message) -> list[JsonObject]:
        if message.role == "user":
            return [{"role": "user", "content": _user_content(message.parts)}]
        if message.role == "assistant":
            return [self._assistant(message)]
        return [
            {"role": "tool", "tool_call_id": self._ids[part.call_id], "content": _answer_content(part)}
            for part in message.parts
            if isinstance(part, ToolAnswer)
        ]

    def _assistant(self, message: Message) -> JsonObject:
        text, calls = message.text, message.calls
        content = {"content": text} if text or not calls else _EMPTY_CONTENT[self._profile.call_content]
        row: JsonObject = {"role": "assistant", **content}
        if self._echoes:
            row.update(self._echo(message))
        if calls:
            row["tool_calls"] = [self._call(call) for call in calls]
        return row

    def _echo(self, message: Message) -> JsonObject:
        """The reasoning of this very service and model, where it wants it back.

        The echo field stands in every message, also empty: a service that asks for it refuses a message without.
        """
        fields: JsonObject = {}
        own = [
            (part, data)
            for part in message.parts
            if isinstance(part, Reasoning) and (data := self._own(part)) is not None
        ]
        if self._profile.reasoning_echo:
            fields[self._profile.reasoning_echo] = "".join(part.text for part, _ in own)
        details = [detail for _, data in own for detail in data.get("reasoning_details", ())]
        if details and self._profile.echoes_reasoning_details:
            fields["reasoning_details"] = details
        return fields

    def _call(self, call: ToolCall) -> JsonObject:
        arguments = arguments_object(call)
        text = call.arguments if "unparsed" not in arguments and call.arguments.strip() else dumps(arguments).decode()
        row: JsonObject = {
            "id": self._ids[call.id],
            "type": "function",
            "function": {"name": wire_name(call.name, self._to_wire), "arguments": text},
        }
        data = self._own(call)
        if data and "extra_content" in data and self._profile.echoes_extra_content:
            row["extra_content"] = data["extra_content"]
        return row

    def _own(self, part: Reasoning | ToolCall) -> JsonObject | None:
        return own_data(part.opaque, self._endpoint.base_url, "openai-chat", self._model)


def _is_sayable(message: Message) -> bool:
    """Reasoning alone is no message here: it would have neither content nor calls."""
    return message.role != "assistant" or bool(message.text.strip() or message.calls)


def _user_content(parts: Iterable[Part]) -> str | list[JsonObject]:
    shown = [part for part in parts if isinstance(part, (Text, Image))]
    if all(isinstance(part, Text) for part in shown):
        return "\n\n".join(part.text for part in shown if isinstance(part, Text))
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
        for part in shown
    ]


def _answer_content(answer: ToolAnswer) -> str | list[JsonObject]:
    """Text alone is never sent as parts: many servers refuse that."""
    if not answer.images:
        return answer.content
    content = _user_content((Text(text=answer.content), *answer.images))
    return [part for part in content if not isinstance(part, str) and part.get("text") != ""]


def _shown(message: Message, writing: Writing) -> tuple[Message, ...]:
    if not writing.takes_images:
        return without_images((message,))
    return (message,) if writing.holds_images else images_behind(message)


def _with_assistant_between(history: Iterable[Message]) -> tuple[Message, ...]:
    result: list[Message] = []
    for message in history:
        if message.role == "user" and result and result[-1].role == "tool":
            result.append(Message(role="assistant", parts=(Text(text=_BETWEEN),)))
        result.append(message)
    return tuple(result)
