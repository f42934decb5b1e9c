"""What every wire format asks of a request, on neutral values: legal ids and names, complete pairs, clean text.

All functions are pure and deterministic, and what they make of a message never depends on the messages after it
(except for answers that come late), so the prefix of a growing history stays the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from agentctl.core.codec import loads
from agentctl.core.memo import ByIdentity
from agentctl.core.text import clean
from agentctl.core.types import (
    Api,
    Image,
    JsonObject,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolAnswer,
    ToolCall,
    ToolSpec,
)
from agentctl.providers.adapter import Endpoint
from agentctl.providers.schema_subset import wire_schema

__all__ = [
    "INTERRUPTED",
    "arguments_object",
    "auth_headers",
    "joined_roles",
    "legal_history",
    "legal_ids",
    "local_id",
    "own_data",
    "paired",
    "tidy",
    "wire_name",
    "wire_names",
    "wire_schema",
    "with_state",
    "without_images",
]

INTERRUPTED = "interrupted, effects unknown"
"""The answer of a call whose result never came."""
GO_ON = "Continue."
"""Stands where a format wants a user message and the history has none."""
IMAGE_NOTE = "[image left out: {media_type}]"

_NAME_LIMIT = 64  # OpenAI chat; Anthropic would take 128
_BAD_NAME_CHARS = re.compile(r"[^a-zA-Z0-9_-]")
_ID_RULES: dict[str, re.Pattern[str]] = {
    "openai": re.compile(r"[A-Za-z0-9_-]{1,40}"),
    "responses": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "anthropic": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "mistral": re.compile(r"[A-Za-z0-9]{9}"),
}


# --- ids ----------------------------------------------------------------------------------------------------------


def legal_ids(messages: Iterable[Message], rule: str) -> dict[str, str]:
    """Every call id of the history mapped to one that the service takes; a legal id is its own.

    `rule` is a Profile.call_id_rule. Two ids never share a target, and an earlier id keeps its target when the
    history grows.
    """
    is_legal = _ID_RULES[rule].fullmatch
    mapped: dict[str, str] = {}
    taken: set[str] = set()
    for call_id in _ids(messages):
        if call_id in mapped:
            continue
        target, salt = call_id, 0
        while target in taken or not is_legal(target):
            target = _hashed_id(call_id, salt, rule)
            salt += 1
        mapped[call_id] = target
        taken.add(target)
    return mapped


def local_id(taken: set[str], *what: str) -> str:
    """An id for a call that came without a usable one, made of what is known about it; added to `taken`."""
    salt = 0
    while True:
        made = "call_" + _digest("\x00".join((*what, str(salt))))[:24]
        if made not in taken:
            taken.add(made)
            return made
        salt += 1


def _ids(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                yield part.id
            elif isinstance(part, ToolAnswer):
                yield part.call_id


def _hashed_id(call_id: str, salt: int, rule: str) -> str:
    digest = _digest(f"{salt}\x00{call_id}")
    return digest[:9] if rule == "mistral" else "call_" + digest[:24]


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- names --------------------------------------------------------------------------------------------------------


def wire_names(tools: Iterable[ToolSpec]) -> tuple[dict[str, str], dict[str, str]]:
    """Tool names to names of [a-zA-Z0-9_-]{1,64}, and back. Legal names stay; the result has no collisions."""
    names = [tool.name for tool in tools]
    legal = {name for name in names if _legal_name(name) == name}
    wanted = [_legal_name(name) for name in names if name not in legal]
    to_wire = {
        name: name
        if name in legal
        else _with_hash(name)
        if _legal_name(name) in legal or wanted.count(_legal_name(name)) > 1
        else _legal_name(name)
        for name in names
    }
    return to_wire, {wire: name for name, wire in to_wire.items()}


def wire_name(name: str, to_wire: Mapping[str, str]) -> str:
    """The name of a call of the history; its tool may not be offered any more, or may never have existed."""
    return to_wire.get(name) or _legal_name(name)


def _legal_name(name: str) -> str:
    return _BAD_NAME_CHARS.sub("_", name)[:_NAME_LIMIT] or "unnamed"


def _with_hash(name: str) -> str:
    return f"{_legal_name(name)[: _NAME_LIMIT - 9]}_{_digest(name)[:8]}"


# --- headers and arguments ----------------------------------------------------------------------------------------


def auth_headers(endpoint: Endpoint) -> dict[str, str]:
    """The headers of the profile, of authentication (none without a key) and of the endpoint itself."""
    headers = dict(endpoint.profile.headers)
    if endpoint.key and endpoint.profile.auth == "bearer":
        headers["authorization"] = f"Bearer {endpoint.key}"
    elif endpoint.key and endpoint.profile.auth == "x-api-key":
        headers["x-api-key"] = endpoint.key
    return {**headers, **endpoint.headers}


def _parse_arguments(call: ToolCall) -> JsonObject:
    try:
        value = loads(clean(call.arguments)) if call.arguments.strip() else {}
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"unparsed": clean(call.arguments)}


_parsed = ByIdentity(_parse_arguments)


def arguments_object(call: ToolCall) -> JsonObject:
    """The arguments as an object, also when the model wrote none: many servers parse those of earlier calls.

    Not to be changed: it is the same object for every request.
    """
    return _parsed(call)


_schemas: ByIdentity[ToolSpec, dict[str, JsonObject | None]] = ByIdentity(lambda _tool: {})


def tool_schema(tool: ToolSpec, rule: str) -> JsonObject | None:
    """The tool's wire_schema, made once for each rule. Not to be changed: it is the same object for every request."""
    made = _schemas(tool)
    if rule not in made:
        made[rule] = wire_schema(tool.parameters, rule)
    return made[rule]


# --- opaque parts -------------------------------------------------------------------------------------------------


def own_data(opaque: Opaque | None, base_url: str, api: Api, model: str) -> JsonObject | None:
    """The provider-bound data when this very provider, wire format and model made it, else None."""
    if opaque is None or (opaque.provider, opaque.api, opaque.model) != (base_url, api, model):
        return None
    return opaque.data


# --- the history --------------------------------------------------------------------------------------------------


def legal_history(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Clean text, complete pairs, unique call ids; begins with a user message and ends with user or tool."""
    history = list(paired(tidy(messages)))
    if not history or history[0].role != "user":
        history.insert(0, Message(role="user", parts=(Text(text=GO_ON),)))
    if history[-1].role == "assistant":
        history.append(Message(role="user", parts=(Text(text=GO_ON),)))
    return tuple(history)


def tidy(messages: Iterable[Message]) -> tuple[Message, ...]:
    """No lone surrogates, no blank text parts, no messages without parts."""
    return tuple(kept for message in messages if (kept := _tidied(message)) is not None)


def _tidy_one(message: Message) -> Message | None:
    parts = tuple(_clean_part(part) for part in message.parts if not (isinstance(part, Text) and not part.text.strip()))
    if not parts:
        return None
    is_same = all(new is old for new, old in zip(parts, message.parts, strict=False))
    return message if is_same and len(parts) == len(message.parts) else message.replace(parts=parts)


_tidied = ByIdentity(_tidy_one)


def _clean_part(part: Part) -> Part:
    if isinstance(part, (Text, Reasoning)):
        return part if (text := clean(part.text)) == part.text else part.replace(text=text)
    if isinstance(part, ToolCall):
        arguments, call_id = clean(part.arguments), clean(part.id)
        is_clean = arguments == part.arguments and call_id == part.id
        return part if is_clean else part.replace(arguments=arguments, id=call_id)
    if isinstance(part, ToolAnswer):
        content, call_id = clean(part.content), clean(part.call_id)
        is_clean = content == part.content and call_id == part.call_id
        return part if is_clean else part.replace(content=content, call_id=call_id)
    return part


def paired(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Every call has exactly one answer, directly after its message and in the order of the calls.

    A missing answer is made up ("interrupted, effects unknown"), a late one moves to its call, one without a call
    becomes text of the user. A call id that an earlier message has used already is changed, in call and answer.
    """
    result: list[Message] = []
    answers: dict[str, list[_Slot]] = {}
    slots: dict[int, list[_Slot]] = {}
    used: set[str] = set()
    for message in messages:
        if message.role == "tool":
            orphans = [part for part in message.parts if isinstance(part, ToolAnswer) and not _claimed(part, answers)]
            if orphans:
                result.append(Message(role="user", parts=tuple(map(_as_text, orphans))))
            continue
        if message.role == "assistant" and message.calls:
            message, mine = _with_unique_ids(message, used)
            for slot in reversed(mine):  # the latest message that used an id is asked first, its calls in order
                answers.setdefault(slot.asked_id, []).insert(0, slot)
            result.append(message)
            slots[len(result)] = mine
            result.append(message)  # its place is kept for the answers
            continue
        result.append(message)
    for place, mine in slots.items():
        result[place] = Message(role="tool", parts=tuple(slot.answer() for slot in mine))
    return tuple(result)


class _Slot:
    """The place of one answer."""

    def __init__(self, call: ToolCall, asked_id: str) -> None:
        self.call = call
        self.asked_id = asked_id
        self.given: ToolAnswer | None = None

    def answer(self) -> ToolAnswer:
        if self.given is None:
            return ToolAnswer(call_id=self.call.id, name=self.call.name, content=INTERRUPTED, is_error=True)
        return self.given if self.given.call_id == self.call.id else self.given.replace(call_id=self.call.id)


def _claimed(answer: ToolAnswer, answers: Mapping[str, Sequence[_Slot]]) -> bool:
    """Gives the answer to the first open call of its id. False when there is none."""
    for slot in answers.get(answer.call_id, ()):
        if slot.given is None:
            slot.given = answer
            return True
    return False


def _with_unique_ids(message: Message, used: set[str]) -> tuple[Message, list[_Slot]]:
    parts: list[Part] = []
    slots: list[_Slot] = []
    is_changed = False
    for part in message.parts:
        if isinstance(part, ToolCall):
            asked_id = part.id
            if not asked_id or asked_id in used:
                part = part.replace(id=local_id(used, asked_id, part.name, part.arguments))
                is_changed = True
            used.add(part.id)
            slots.append(_Slot(part, asked_id))
        parts.append(part)
    return message.replace(parts=tuple(parts)) if is_changed else message, slots


def _as_text(answer: ToolAnswer) -> Text:
    return Text(text=f"[earlier result of {answer.name or 'a tool'}]\n{answer.content}")


def joined_roles(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Neighbouring messages of one role as one, for services that want the roles to alternate.

    Assistant messages with calls stay alone: their answers must follow directly.
    """
    result: list[Message] = []
    for message in messages:
        last = result[-1] if result else None
        if last and last.role == message.role and not last.calls:
            parts = message.parts if message.role == "user" else _set_off(message.parts)
            result[-1] = last.replace(parts=(*last.parts, *parts))
        else:
            result.append(message)
    return tuple(result)


def _set_off(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Texts of an assistant are pieces of one text, so what joins them from another message begins a paragraph."""
    first = next((place for place, part in enumerate(parts) if isinstance(part, Text)), None)
    return tuple(
        Text(text="\n\n" + part.text) if place == first and isinstance(part, Text) else part
        for place, part in enumerate(parts)
    )


def without_images(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Every image replaced by a note, for models and services that take none."""
    return tuple(
        message.replace(parts=tuple(map(_without_image, message.parts))) if _has_images(message) else message
        for message in messages
    )


def _has_images(message: Message) -> bool:
    return any(isinstance(part, Image) or (isinstance(part, ToolAnswer) and part.images) for part in message.parts)


def _without_image(part: Part) -> Part:
    if isinstance(part, Image):
        return Text(text=IMAGE_NOTE.format(media_type=part.media_type))
    if isinstance(part, ToolAnswer) and part.images:
        notes = [IMAGE_NOTE.format(media_type=image.media_type) for image in part.images]
        return part.replace(content="\n".join((part.content, *notes)).strip(), images=())
    return part


def with_state(messages: Sequence[Message], state: str) -> tuple[Message, ...]:
    """The wire-only state text at the very end of the last message: a Text part of the user, or behind the content
    of the last answer. What stands before it keeps its bytes, so that a prefix cache still matches there."""
    text = clean(state)
    if not text.strip() or not messages:
        return tuple(messages)
    last = messages[-1]
    end = last.parts[-1]
    if isinstance(end, ToolAnswer):
        parts: tuple[Part, ...] = (*last.parts[:-1], end.replace(content=f"{end.content}\n\n{text}".lstrip()))
    else:
        parts = (*last.parts, Text(text=text))
    return (*messages[:-1], last.replace(parts=parts))
