"""Which part of a history goes on the wire. Pure; the history itself is never changed.

Before `start` only the turns stand: the first one, the latest one, and some of those in between with their final
answers. What is long in past turns is cut to its beginning and end, with the path of the whole in between; so is what
is attached to the present turn when there is no other way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from agentctl.core.memo import ByIdentity
from agentctl.core.record import Record, as_dict
from agentctl.core.text import digest_of
from agentctl.core.types import Image, JsonObject, Message, Part, Reasoning, Text, ToolAnswer

LONG_CHARS, HEAD_CHARS, TAIL_CHARS = 800, 300, 200
ANSWER_CHARS, ANSWER_HEAD, ANSWER_TAIL = 3_000, 2_000, 1_000
Wholes: TypeAlias = tuple[tuple[str, str], ...]
"""Digest of a text → path of the file that holds it."""
PAST_TURNS = 20
"""Turns before the tail that stay at most beside the first and the latest one."""
IMAGE_LEFT_OUT = "[an image of an earlier turn is left out]"
IMAGE_TOO_MUCH = "[an image is left out: the context has no room for it]"
BLOCK_CHARS = range(200_000, HEAD_CHARS + TAIL_CHARS - 1, -500)
"""What may stay of each text that is attached to the present turn; at last no more than of those of past ones."""


class View(Record):
    """Which part of a history goes on the wire."""

    start: int = 0
    """Index of the first message of the tail; of what stands before it only turns are sent."""
    reasons_from: int = 0
    """Messages before this index go without their reasoning."""
    summary: str = ""
    cut_before: int = 0
    """Turns before this index are past: what is long in them is cut."""
    answers_before: int = 0
    """Results before this index are cut. Only when the narrowest tail is still too long."""
    turns_from: int = 0
    """Turns before this index are left out, but for the first and the latest one before the tail."""
    block_chars: int = 0
    """Of each text that is attached to the turn at `cut_before` so much stays; 0: all of it. The last resort."""
    wholes: Wholes = ()
    """Of the texts that are cut."""

    @classmethod
    def from_row(cls, row: JsonObject) -> View:
        """As a journal keeps it; what an earlier version did not write has its default."""
        known = {name: value for name, value in row.items() if name in cls.fields}
        if row.get("cuts_task"):  # there was but one size, and the turn at `cut_before` was the latest one
            known["block_chars"] = BLOCK_CHARS[-1]
        return cls(**{**known, "wholes": tuple((digest, path) for digest, path in known.get("wholes", ()))})

    def to_row(self) -> JsonObject:
        row: JsonObject = as_dict(self)
        return row


def apply(history: Sequence[Message], view: View) -> tuple[Message, ...]:
    """The messages of a request: the turns, then the tail."""
    if not (view.start or view.reasons_from or view.cut_before or view.answers_before or view.block_chars):
        return tuple(history)
    turns = turn_places(history)
    shown = (
        _shown(history[place], place < view.reasons_from, _how(place, history[place], turns, view), view.wholes)
        for place in places(history, turns, view)
    )
    return tuple(message for message in shown if message.parts)


def cuts(history: Sequence[Message], view: View) -> dict[str, str]:
    """Every text that the view shows only in part, by its digest."""
    turns = turn_places(history)
    return {
        digest_of(text): text
        for place in places(history, turns, view)
        for text in _long_texts(history[place], _how(place, history[place], turns, view))
    }


def places(history: Sequence[Message], turns: Sequence[int], view: View) -> Iterator[int]:
    """The indexes of the messages that are sent, in order; `turns` are those of `turn_places`."""
    before = [place for place in turns if place < view.start]
    between = [place for place in before[-PAST_TURNS - 1 : -1] if place >= view.turns_from]
    for place in dict.fromkeys((*before[:1], *between, *before[-1:])):
        yield place
        if (final := _final_answer(history, turns, place, view.start)) is not None:
            yield final
    yield from range(view.start, len(history))


def left_out(history: Sequence[Message], before: View, after: View) -> list[Message]:
    """What has to be summed up when one view follows the other: the messages that are no longer sent, and the turns
    that they were in. Empty when all are still sent."""
    turns = turn_places(history)
    shown, stays = list(places(history, turns, before)), set(places(history, turns, after))
    if stays.issuperset(shown):
        return []
    return [history[place] for place in shown if place not in stays or before.start <= place < after.start]


def cut_blocks(history: Sequence[Message], view: View) -> list[str]:
    """The texts attached to the turn at `cut_before` of which only `block_chars` are sent."""
    place = view.cut_before
    if not view.block_chars or place >= len(history) or history[place].role != "user":
        return []
    return list(_long_texts(history[place], _of_block(view.block_chars)))


def turn_places(history: Sequence[Message]) -> list[int]:
    """Where the turns begin: the indexes of the user messages."""
    return [place for place, message in enumerate(history) if message.role == "user"]


# --- what is sent -----------------------------------------------------------------------------------------------------


def _final_answer(history: Sequence[Message], turns: Sequence[int], turn: int, start: int) -> int | None:
    """The answer that ended this turn, if it did end before the tail begins."""
    following = next((place for place in turns if place > turn), None)
    if following is None or following > start or following - 1 == turn:
        return None
    last = history[following - 1]
    return following - 1 if last.role == "assistant" and not last.calls and last.text.strip() else None


class _How(Record):
    """How much of a message is sent. Numbers are characters: what is longer is cut to head and tail."""

    keeps_prompt: bool = False
    """The first text stays whole."""
    image: str = ""
    """Stands for each image of a user message; empty: images stay."""
    longest: int
    head: int
    tail: int


_PAST = _How(longest=LONG_CHARS, head=HEAD_CHARS, tail=TAIL_CHARS, image=IMAGE_LEFT_OUT)
_PROMPT = _PAST.replace(keeps_prompt=True)
_ANSWER = _How(longest=ANSWER_CHARS, head=ANSWER_HEAD, tail=ANSWER_TAIL)


def _how(place: int, message: Message, turns: Sequence[int], view: View) -> _How | None:
    """None: whole."""
    if message.role == "user":
        if place == view.cut_before and view.block_chars:
            return _of_block(view.block_chars)
        return (_PROMPT if place in (turns[0], turns[-1]) else _PAST) if place < view.cut_before else None
    if message.role == "assistant":
        return _PAST if place < view.start else None
    return _ANSWER if place < view.answers_before else None


def _of_block(chars: int) -> _How:
    head = chars * HEAD_CHARS // (HEAD_CHARS + TAIL_CHARS)
    image = IMAGE_TOO_MUCH if chars <= BLOCK_CHARS[-1] else ""
    return _How(keeps_prompt=True, longest=max(chars, LONG_CHARS), head=head, tail=chars - head, image=image)


def _long_texts(message: Message, how: _How | None) -> Iterator[str]:
    if how is None:
        return
    texts = [_text_of(part) for part in message.parts if isinstance(part, (Text, ToolAnswer))]
    yield from (text for text in texts[how.keeps_prompt :] if len(text) > how.longest)


def _text_of(part: Text | ToolAnswer) -> str:
    return part.text if isinstance(part, Text) else part.content


_made: ByIdentity[Message, dict[tuple[bool, _How | None, Wholes], Message]] = ByIdentity(lambda _message: {})
"""What was made of a message: the next step wants the very same object, so that nothing is counted or sent anew."""


def _shown(message: Message, is_past_step: bool, how: _How | None, wholes: Wholes) -> Message:
    if not is_past_step and how is None:
        return message
    made = _made(message)
    key = (is_past_step, how, wholes if how else ())
    if key not in made:
        made[key] = _show(without_reasoning(message) if is_past_step else message, how, dict(key[2]))
    return made[key]


def without_reasoning(message: Message) -> Message:
    if not any(isinstance(part, Reasoning) for part in message.parts):
        return message
    return message.replace(parts=tuple(part for part in message.parts if not isinstance(part, Reasoning)))


def _show(message: Message, how: _How | None, paths: dict[str, str]) -> Message:
    if how is None:
        return message
    parts: list[Part] = []
    spared = how.keeps_prompt
    for part in message.parts:
        if isinstance(part, Image) and message.role == "user" and how.image:
            part = Text(text=how.image)
        elif isinstance(part, Text):
            part = part if spared else Text(text=_cut(part.text, how, paths))
            spared = False
        elif isinstance(part, ToolAnswer):
            part = part.replace(content=_cut(part.content, how, paths))
        parts.append(part)
    return message if tuple(parts) == message.parts else message.replace(parts=tuple(parts))


def _cut(text: str, how: _How, paths: dict[str, str]) -> str:
    if len(text) <= how.longest:
        return text
    path = paths.get(digest_of(text))
    left_out = f"{len(text) - how.head - how.tail:,} characters left out"
    return f"{text[: how.head]}\n[{left_out}{f'; the whole is in {path}' if path else ''}]\n{text[-how.tail :]}"
