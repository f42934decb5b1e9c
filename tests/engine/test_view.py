"""What a view sends of a history: turns and tail, cut texts with the path of the whole, the same objects each time."""

from __future__ import annotations

import pytest

from agentctl.core.types import Image, Message, Reasoning, Text, ToolAnswer
from agentctl.engine.compaction import narrower
from agentctl.engine.context import message_tokens
from agentctl.engine.view import PAST_TURNS, View, apply, cuts, digest_of
from tests.fakes import call


def user(*texts: str) -> Message:
    return Message(role="user", parts=tuple(Text(text=text) for text in texts))


def said(text: str) -> Message:
    return Message(role="assistant", parts=(Reasoning(text="hm"), Text(text=text)))


def step(number: int, content: str = "ok") -> list[Message]:
    asked = call("read", f"c{number}", n=number)
    given = ToolAnswer(call_id=asked.id, name="read", content=content)
    return [Message(role="assistant", parts=(Reasoning(text="hm"), asked)), Message(role="tool", parts=(given,))]


FIRST, PAST, TASK = "FIRST " + "f" * 2_000, "PAST " + "p" * 2_000, "TASK " + "t" * 2_000
DATA = "DATA " + "d" * 5_000
HISTORY = [
    user(FIRST, DATA), *step(1), said("first answer"),
    user(PAST), *step(2), said("second answer " + "s" * 900),
    user(TASK, DATA), *step(3), *step(4),
]  # fmt: skip
LAST = len(HISTORY)


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [part.text for message in messages for part in message.parts if isinstance(part, Text)]


def test_the_turns_stay_with_their_answers_and_what_is_long_in_past_ones_is_cut() -> None:
    view = View(start=LAST - 2, cut_before=8, reasons_from=LAST - 2, wholes=((digest_of(DATA), "output/1.txt"),))
    sent = apply(HISTORY, view)
    assert [message.role for message in sent] == ["user", "assistant"] * 2 + ["user", "assistant", "tool"]
    first, data, answer, past, second, task, attached = texts(sent)
    assert first == FIRST
    assert data == f"{DATA[:300]}\n[4,505 characters left out; the whole is in output/1.txt]\n{DATA[-200:]}"
    assert answer == "first answer"
    assert past == f"{PAST[:300]}\n[1,505 characters left out]\n{PAST[-200:]}"
    assert second.startswith("second answer s")
    assert len(second) < 600
    assert (task, attached) == (TASK, DATA)


def test_exactly_eight_hundred_characters_stay() -> None:
    history = [user("go"), user("x" * 800), user("y" * 801), user("task")]
    assert [len(text) for text in texts(apply(history, View(cut_before=3)))] == [2, 800, 527, 4]


def test_only_the_last_resort_cuts_what_is_attached_to_the_task() -> None:
    assert texts(apply(HISTORY, View(start=LAST - 2, cut_before=8)))[-2:] == [TASK, DATA]
    assert [len(text) for text in texts(apply(HISTORY, View(start=LAST - 2, cuts_task=True)))][-2:] == [2_005, 529]


def test_images_of_past_turns_are_named_and_those_of_the_task_stay() -> None:
    picture = Image(media_type="image/png", data="aGk=")
    history = [Message(role="user", parts=(Text(text=name), picture)) for name in ("one", "two", "task")]
    sent = apply(history, View(cut_before=2))
    assert [sum(isinstance(part, Image) for part in message.parts) for message in sent] == [0, 0, 1]
    assert "image" in texts(sent)[1]


def test_of_very_many_turns_the_first_and_the_latest_stay() -> None:
    history = [message for number in range(100) for message in (user(f"turn {number}"), said(f"answer {number}"))]
    sent = apply(history, View(start=198, cut_before=198))
    assert texts(sent)[0] == "turn 0"
    assert texts(sent)[-2:] == ["turn 99", "answer 99"]
    assert sum(message.role == "user" for message in sent) <= PAST_TURNS + 3


def test_what_a_view_shows_is_the_same_object_at_every_step() -> None:
    view = View(start=LAST - 2, cut_before=8, reasons_from=LAST)
    one, two = apply(HISTORY, view), apply([*HISTORY, *step(5)], view)
    assert all(a is b for a, b in zip(one, two, strict=False))


def test_every_cut_text_is_named_once_with_its_whole() -> None:
    found = cuts(HISTORY, View(start=LAST - 2, cut_before=8, cuts_task=True))
    assert sorted(found.values()) == sorted([DATA, PAST, "second answer " + "s" * 900])
    assert all(digest_of(text) == digest for digest, text in found.items())


def test_a_row_of_an_earlier_version_is_a_view() -> None:
    assert View.from_row({"start": 3, "reasons_from": 4, "summary": "s", "new": 1}) == View(
        start=3, reasons_from=4, summary="s"
    )


LONG = [user("task"), *(message for number in range(60) for message in step(number, "r" * 1_000))]


@pytest.mark.parametrize(
    ("limit", "tail"), [(100_000, len(LONG)), (20_000, 64), (9_000, 32), (4_000, 16), (2_200, 8), (1_300, 4)]
)
def test_the_widest_tail_that_leaves_room_is_taken(limit: int, tail: int) -> None:
    view = narrower(LONG, lambda tried: sum(map(message_tokens, apply(LONG, tried))), limit)
    assert len(LONG) - view.start == tail
    assert view.answers_before == 0


def test_results_are_cut_only_when_the_narrowest_tail_does_not_fit_at_all() -> None:
    history = [user("task"), *step(1, "small"), *step(2, "r" * 40_000)]
    size = lambda tried: sum(map(message_tokens, apply(history, tried)))  # noqa: E731  # said once, used twice
    assert narrower(history, size, 12_000).answers_before == 0
    tight = narrower(history, size, 6_000)
    assert size(tight) < 1_500
    (content,) = [part.content for part in apply(history, tight)[-1].parts if isinstance(part, ToolAnswer)]
    assert content.startswith("rrr")
    assert "37,000 characters left out" in content


def test_a_view_is_never_wider_than_the_one_before() -> None:
    now = View(start=50, reasons_from=60, cut_before=0, summary="s", wholes=(("d", "p"),))
    view = narrower(LONG, lambda tried: 0, 10, now)
    assert (view.start, view.summary, view.wholes) == (50, "s", now.wholes)
