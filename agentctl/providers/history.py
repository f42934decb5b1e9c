"""A history as every wire format wants it: clean text, complete pairs, legal ids.

All of it is deterministic, and what is made of a message never depends on the messages after it (except for answers
that come late), so the prefix of a growing history stays the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from agentctl.core.memo import ByIdentity, Growing
from agentctl.core.text import clean
from agentctl.core.types import Image, Message, Part, Reasoning, Text, ToolAnswer, ToolCall
from agentctl.providers.wire_common import digest, local_id

INTERRUPTED = "interrupted, effects unknown"
"""The answer of a call whose result never came."""
GO_ON = "Continue."
"""Stands where a format wants a user message and the history has none."""
IMAGE_NOTE = "[image left out: {media_type}]"
_IMAGE_BELOW = "[{count} image(s), shown in the next message]"
_IMAGE_OF = "Image from {name}:"

_ID_RULES: dict[str, re.Pattern[str]] = {
    "openai": re.compile(r"[A-Za-z0-9_-]{1,40}"),
    "responses": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "anthropic": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "mistral": re.compile(r"[A-Za-z0-9]{9}"),
}
_GO_ON = Message(role="user", parts=(Text(text=GO_ON),))


# --- ids ----------------------------------------------------------------------------------------------------------


class LegalIds:
    """Every call id of the added messages mapped to one that the service takes; a legal id is its own.

    `rule` is a Profile.call_id_rule. Two ids never share a target, and an earlier id keeps its target when the
    history grows.
    """

    def __init__(self, rule: str) -> None:
        self.mapped: dict[str, str] = {}
        self._rule = rule
        self._is_legal = _ID_RULES[rule].fullmatch
        self._taken: set[str] = set()

    def add(self, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolCall):
                self._map(part.id)
            elif isinstance(part, ToolAnswer):
                self._map(part.call_id)

    def _map(self, call_id: str) -> None:
        if call_id in self.mapped:
            return
        target, salt = call_id, 0
        while target in self._taken or not self._is_legal(target):
            target = _hashed_id(call_id, salt, self._rule)
            salt += 1
        self.mapped[call_id] = target
        self._taken.add(target)


def _hashed_id(call_id: str, salt: int, rule: str) -> str:
    made = digest(f"{salt}\x00{call_id}")
    return made[:9] if rule == "mistral" else "call_" + made[:24]


# --- the history --------------------------------------------------------------------------------------------------


class LegalHistory:
    """Clean text, complete pairs, unique call ids; begins with a user message and ends with user or tool.

    Remembers the last history: a step adds a few messages to it, and only these are looked at.
    """

    def __init__(self, is_sayable: Callable[[Message], bool] = lambda _: True) -> None:
        """`is_sayable`: whether the format has a form for a message at all; the others are left out."""
        self._pairs: Growing[None, Message, Pairs] = Growing(lambda _: Pairs(is_sayable))

    def __call__(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        history = self._pairs(None, messages).whole()
        if not history or history[0].role != "user":
            history.insert(0, _GO_ON)
        if history[-1].role == "assistant":
            history.append(_GO_ON)
        return tuple(history)


def tidy(message: Message) -> Message | None:
    """Without lone surrogates and blank text parts; None when nothing is left."""
    parts = tuple(_clean_part(part) for part in message.parts if not (isinstance(part, Text) and not part.text.strip()))
    if not parts:
        return None
    is_same = all(new is old for new, old in zip(parts, message.parts, strict=False))
    return message if is_same and len(parts) == len(message.parts) else message.replace(parts=parts)


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


class Pairs:
    """Every call has exactly one answer, directly after its message and in the order of the calls.

    A missing answer is made up ("interrupted, effects unknown"), a late one moves to its call, one without a call
    becomes text of the user. A call id that an earlier message has used already is changed, in call and answer.
    """

    def __init__(self, is_sayable: Callable[[Message], bool] = lambda _: True) -> None:
        self._is_sayable = is_sayable
        self._messages: list[Message] = []
        self._answers: dict[str, list[_Slot]] = {}
        self._waiting: dict[int, list[_Slot]] = {}
        """By the place that is kept for the answers. A place whose answers are all there is settled."""
        self._used: set[str] = set()

    def add(self, message: Message) -> None:
        tidied = tidy(message) if self._is_sayable(message) else None
        if tidied is None:
            return
        if tidied.role == "tool":
            answers = [part for part in tidied.parts if isinstance(part, ToolAnswer)]
            orphans = [answer for answer in answers if not self._claims(answer)]
            if orphans:
                self._messages.append(Message(role="user", parts=tuple(map(_as_text, orphans))))
        elif tidied.role == "assistant" and tidied.calls:
            self._add_calls(tidied)
        else:
            self._messages.append(tidied)

    def whole(self) -> list[Message]:
        """The history so far; what still waits for an answer has the made-up one."""
        settled = [place for place, slots in self._waiting.items() if all(slot.given for slot in slots)]
        for place in settled:
            self._messages[place] = _answers_of(self._waiting.pop(place))
        whole = list(self._messages)
        for place, slots in self._waiting.items():
            whole[place] = _answers_of(slots)
        return whole

    def _add_calls(self, message: Message) -> None:
        message, mine = _with_unique_ids(message, self._used)
        for slot in reversed(mine):  # the latest message that used an id is asked first, its calls in order
            self._answers.setdefault(slot.asked_id, []).insert(0, slot)
        self._messages.append(message)
        self._waiting[len(self._messages)] = mine
        self._messages.append(message)  # its place is kept for the answers

    def _claims(self, answer: ToolAnswer) -> bool:
        """Gives the answer to the first open call of its id. False when there is none."""
        for slot in self._answers.get(answer.call_id, ()):
            if slot.given is None:
                slot.given = answer
                return True
        return False


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


def _answers_of(slots: Iterable[_Slot]) -> Message:
    return Message(role="tool", parts=tuple(slot.answer() for slot in slots))


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
    return tuple(map(_imageless, messages))


def _without_images(message: Message) -> Message:
    return message.replace(parts=tuple(map(_without_image, message.parts))) if _has_images(message) else message


_imageless = ByIdentity(_without_images)


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


def images_behind(message: Message) -> tuple[Message, ...]:
    """Results that may only be text: images of a step's results follow in one message of the user."""
    images: list[Part] = []
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolAnswer) and part.images:
            note = _IMAGE_BELOW.format(count=len(part.images))
            images.extend((Text(text=_IMAGE_OF.format(name=part.name)), *part.images))
            part = part.replace(content=f"{part.content}\n{note}".lstrip(), images=())
        parts.append(part)
    if not images:
        return (message,)
    return (message.replace(parts=tuple(parts)), Message(role="user", parts=tuple(images)))
