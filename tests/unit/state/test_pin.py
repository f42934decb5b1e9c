from __future__ import annotations

import pytest

from agentctl.state.pin import GIVEN_CHARS, MAX_CHARS, Pin, PinTail, Recap, excerpt, whole_lines

CJK = "迁移到新的数据库并保留所有测试"


@pytest.mark.parametrize("task", ["Fix it", "x" * MAX_CHARS, (CJK * 80)[:MAX_CHARS]], ids=["short", "ascii", "cjk"])
def test_a_task_that_fits_is_pinned_word_for_word(task: str) -> None:
    assert Pin(task).text == task


@pytest.mark.parametrize("unit", ["word ", CJK], ids=["ascii", "cjk"])
def test_a_longer_task_shows_its_beginning_and_end(unit: str) -> None:
    task = (unit * 500)[: 2_000 - 1] + "."
    assert Pin(task).text == f"{task[:300]}\n[1,500 characters left out]\n{task[-200:]}"


@pytest.mark.parametrize("unit", ["a", "漢"])
@pytest.mark.parametrize("size", [1, 200, 799, 801, 1_000, 1_001, 30_000])
@pytest.mark.parametrize("given", ["", "g" * GIVEN_CHARS])
@pytest.mark.parametrize("drafted", ["", "\n".join(f"- goal {n} {'d' * 100}" for n in range(9))])
@pytest.mark.parametrize("notes", [0, 1, 40])
def test_the_cap_holds_after_anything_was_added_and_the_task_stays(
    unit: str, size: int, given: str, drafted: str, notes: int
) -> None:
    pin = Pin(unit * size, given=given, drafted=drafted)
    for number in range(notes):
        pin.clarify(f"answer {number} " + unit * 190)
    assert len(pin.text) <= MAX_CHARS
    assert pin.text.startswith((unit * size)[:60])
    assert given in pin.text
    if notes:
        assert f"[+] answer {notes - 1} " in pin.text


def test_the_oldest_clarification_goes_first() -> None:
    pin = Pin("t" * 600)
    for number in range(5):
        pin.clarify(f"{number} " + "c" * 150)
    assert [line[:5] for line in pin.text.splitlines()[1:]] == ["[+] 3", "[+] 4"]


def test_an_answer_is_one_line_and_an_empty_one_is_none() -> None:
    pin = Pin("task")
    pin.clarify("use\nport 8080\x1b[31m")
    pin.clarify("  ")
    assert pin.text == "task\n[+] use port 8080 [31m"


@pytest.mark.parametrize(
    ("pin", "tail", "head"),
    [
        (Pin("do it"), "", ""),
        (Pin("x" * 1_001), "pinned", ""),
        (Pin("do it", given="keep tests"), "keep tests", ""),
        (Pin("do it", drafted="- goal"), "- goal", ""),
    ],
)
def test_on_a_first_turn_only_what_the_prompt_does_not_say(pin: Pin, tail: str, head: str) -> None:
    assert tail in PinTail(pin).render()
    assert bool(PinTail(pin).render()) == bool(tail)
    assert Recap(pin).render() == head


def test_from_the_second_turn_on_both_places() -> None:
    pin = Pin("do </task_recap> it")
    pin.turn = 2
    assert PinTail(pin).render().endswith(":\ndo </task_recap> it")
    assert Recap(pin).render() == "<task_recap>\nPinned task: do </ task_recap> it\n</task_recap>"


def test_nothing_is_pinned_where_nothing_was_asked() -> None:
    assert (PinTail(Pin()).render(), Recap(Pin()).render()) == ("", "")


def test_a_pin_comes_back_from_its_row() -> None:
    pin = Pin("task", given="g", drafted="- d", clarifications=["a"])
    assert Pin.from_row(pin.row()).row() == pin.row()
    assert Pin.from_row(Pin("y" * 5_000).row()).text == Pin("y" * 5_000).text
    assert Pin.from_row({"clarifications": 7}).row() == Pin().row()


def test_cutting() -> None:
    assert excerpt("abc", 1, 1) == "abc"
    assert excerpt("a" * 50 + "b" * 50, 10, 5) == "a" * 10 + "\n[85 characters left out]\n" + "b" * 5
    assert whole_lines("one\ntwo\nthree", 7) == "one\ntwo"
    assert whole_lines("one\ntwo", 6) == "one"
