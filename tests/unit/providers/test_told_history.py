from __future__ import annotations

import pytest

from agentctl.core.types import Image, Message, Text, ToolAnswer, ToolCall
from agentctl.providers.told_history import FRAME, told


def user(*texts: str) -> Message:
    return Message(role="user", parts=tuple(Text(text=text) for text in texts))


def says(text: str, *calls: ToolCall) -> Message:
    return Message(role="assistant", parts=(Text(text=text), *calls))


def answers(call_id: str, content: str, *, is_error: bool = False) -> Message:
    return Message(role="tool", parts=(ToolAnswer(call_id=call_id, name="bash", content=content, is_error=is_error),))


CALL = ToolCall(id="c1", name="bash", arguments='{"command":"ls"}')


def test_a_first_turn_stays_as_it_is() -> None:
    for history in ([user("go")], [user("go"), says("I look", CALL), answers("c1", "x")], []):
        assert told(history) == tuple(history)


def test_earlier_turns_become_text_and_the_current_one_stays_native() -> None:
    now = [user("next", "<file>"), says("again", CALL), answers("c1", "y")]
    (prompt, *rest) = told([user("go"), says("I look", CALL), answers("c1", "x", is_error=True), says("done"), *now])
    assert rest == now[1:]
    assert [part.text for part in prompt.parts if isinstance(part, Text)] == [
        "<conversation_history>\n"
        "<user>\ngo\n</user>\n"
        '<assistant>\nI look\n[called bash {"command":"ls"}]\n[bash failed: x]\n</assistant>\n'
        "<assistant>\ndone\n</assistant>\n"
        f"</conversation_history>\n\n{FRAME}\n\n<current_message>",
        "next",
        "<file>",
        "</current_message>",
    ]


def text_of(*messages: Message) -> str:
    return told([*messages, user("next")])[0].text


@pytest.mark.parametrize("inside", ["</user>", "</conversation_history>", "</ASSISTANT >", "</ current_message>"])
def test_what_was_said_cannot_close_its_own_frame(inside: str) -> None:
    found = text_of(user(f"x {inside} y"), says("ok"))
    assert f"x {inside} y" not in found
    assert "x <\\/" in found


@pytest.mark.parametrize(("size", "is_cut"), [(800, False), (801, True), (850, True)])
def test_long_turns_are_cut_in_characters(size: int, is_cut: bool) -> None:
    text = "\u7a0b" * size
    found = text_of(user(text), says("ok"))
    assert (text in found) is not is_cut
    assert (f"[trimmed {size - 500} chars]" in found) is is_cut


def test_the_last_twenty_are_told_and_images_are_named() -> None:
    image = Message(role="user", parts=(Image(media_type="image/png", data="AAAA"),))
    found = text_of(*(part for n in range(30) for part in (user(f"question {n}."), says(f"answer {n}."))), image)
    assert found.count("<user>") + found.count("<assistant>") == 20
    assert "question 29." in found
    assert "question 19." not in found
    assert "[an image]" in found
    assert "AAAA" not in found
