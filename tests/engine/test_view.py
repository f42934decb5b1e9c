"""What a view sends of a history: turns and tail, cut texts with the path of the whole, the same objects each time."""

from __future__ import annotations

import pytest

from agentctl.core.types import Image, Message, Reasoning, Text, ToolAnswer
from agentctl.engine.compaction import narrower
from agentctl.engine.context import message_tokens
from agentctl.engine.view import PAST_TURNS, View, apply, cut_blocks, cuts, digest_of, left_out
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
    cut = View(start=LAST - 2, cut_before=8, block_chars=1_000)
    data = f"{DATA[:600]}\n[4,005 characters left out]\n{DATA[-400:]}"
    assert texts(apply(HISTORY, cut))[-2:] == [TASK, data]
    assert texts(apply(HISTORY, cut.replace(block_chars=5_005)))[-2:] == [TASK, DATA], "exactly so many stay"
    later = apply([*HISTORY, user("NEXT", DATA)], cut)
    assert texts(later)[-4:] == [TASK, data, "NEXT", DATA], "it is the size of one turn"


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


def test_turns_before_an_index_are_left_out_but_for_the_first_and_the_latest() -> None:
    history = [message for number in range(100) for message in (user(f"turn {number}"), said(f"answer {number}"))]
    sent = texts(apply(history, View(start=190, turns_from=184)))
    assert [text for text in sent if text.startswith("turn")] == [f"turn {n}" for n in (0, *range(92, 100))]
    sent = texts(apply(history, View(start=199, turns_from=199)))
    assert sent == ["turn 0", "answer 0", "turn 99", "answer 99"]


def test_what_has_to_be_summed_up_is_what_is_no_longer_sent_and_its_turn() -> None:
    dropped = left_out(HISTORY, View(), View(start=LAST - 2))
    assert dropped == HISTORY[: LAST - 2]
    turns = [message for number in range(30) for message in (user(f"turn {number}"), said(f"answer {number}"))]
    assert left_out(turns, View(), View(start=40)) == [], "they all stand before the tail"
    assert left_out(turns, View(start=40), View(start=40, turns_from=34)) == turns[2:34]
    assert left_out(turns, View(start=40, turns_from=34), View(start=42, turns_from=38)) == [
        *turns[34:38],
        *turns[40:42],
    ]


def test_what_a_view_shows_is_the_same_object_at_every_step() -> None:
    view = View(start=LAST - 2, cut_before=8, reasons_from=LAST)
    one, two = apply(HISTORY, view), apply([*HISTORY, *step(5)], view)
    assert all(a is b for a, b in zip(one, two, strict=False))


def test_every_cut_text_is_named_once_with_its_whole() -> None:
    found = cuts(HISTORY, View(start=LAST - 2, cut_before=8, block_chars=500))
    assert sorted(found.values()) == sorted([DATA, PAST, "second answer " + "s" * 900])
    assert all(digest_of(text) == digest for digest, text in found.items())


def test_a_row_of_an_earlier_version_is_a_view() -> None:
    assert View.from_row({"start": 3, "reasons_from": 4, "summary": "s", "new": 1}) == View(
        start=3, reasons_from=4, summary="s"
    )
    assert View.from_row({"cut_before": 8, "cuts_task": True}) == View(cut_before=8, block_chars=500)
    assert View.from_row({"cut_before": 8, "cuts_task": False}) == View(cut_before=8)


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


TURNS = [message for number in range(40) for message in (user(f"{number} " + "t" * 700), said("a" * 700))] + [
    user("task")
]


@pytest.mark.parametrize(
    ("limit", "turns"), [(30_000, 41), (21_000, 30), (16_000, 24), (8_000, 12), (4_000, 6), (2_000, 4)]
)
def test_past_turns_are_left_out_when_no_tail_leaves_room(limit: int, turns: int) -> None:
    view = narrower(TURNS, lambda tried: sum(map(message_tokens, apply(TURNS, tried))), limit)
    sent = apply(TURNS, view)
    assert sum(message.role == "user" for message in sent) == turns
    assert sum(map(message_tokens, sent)) <= limit * 0.6
    assert (sent[0], sent[-1]) == (TURNS[0], TURNS[-1])


def test_an_answer_longer_than_the_window_does_not_end_the_session() -> None:
    history = [user("one"), said("a" * 30_000), user("two")]
    size = lambda tried: sum(map(message_tokens, apply(history, tried)))  # noqa: E731  # said once, used twice
    assert size(narrower(history, size, 8_000)) < 500


BLOCKS = [user("task", *(letter * 180_000 for letter in "abc"), "small")]


def size_of_blocks(view: View) -> int:
    return sum(map(message_tokens, apply(BLOCKS, view)))


@pytest.mark.parametrize("limit", [120_000, 50_000, 8_000])
def test_attachments_share_the_room_that_there_is(limit: int) -> None:
    view = narrower(BLOCKS, size_of_blocks, limit)
    assert limit * 0.55 < size_of_blocks(view) <= limit * 0.6
    assert (len(cut_blocks(BLOCKS, view)), texts(apply(BLOCKS, view))[::4]) == (3, ["task", "small"])


@pytest.mark.parametrize("limit", [200, 1])
def test_when_nothing_leaves_room_attachments_are_cut_like_those_of_past_turns(limit: int) -> None:
    assert narrower(BLOCKS, size_of_blocks, limit).block_chars == 500


def test_attachments_that_fit_are_not_cut_again() -> None:
    view = narrower(BLOCKS, size_of_blocks, 120_000)
    assert narrower(BLOCKS, size_of_blocks, 80_000, view) == view, "without room to spare, but they fit"
    smaller = narrower(BLOCKS, size_of_blocks, 50_000, view)
    assert 0 < smaller.block_chars < view.block_chars
    assert narrower(BLOCKS, lambda tried: 10**6, 1, smaller).block_chars == 500


def test_images_of_the_present_turn_go_last() -> None:
    picture = Image(media_type="image/png", data="aGk=")
    history = [Message(role="user", parts=(Text(text="task"), Text(text="d" * 2_000), picture))]
    assert picture in apply(history, View(block_chars=1_000))[0].parts
    assert picture not in apply(history, View(block_chars=500))[0].parts


def test_a_view_is_never_wider_than_the_one_before() -> None:
    now = View(start=50, reasons_from=60, cut_before=0, summary="s", wholes=(("d", "p"),))
    view = narrower(LONG, lambda tried: 0, 10, now)
    assert (view.start, view.summary, view.wholes) == (50, "s", now.wholes)
