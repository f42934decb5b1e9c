"""Where each section stands in a request, how often it is rendered, and what is counted."""

from __future__ import annotations

from agentctl.core.ports import Section, Where
from agentctl.core.text import estimate_tokens
from agentctl.core.types import Injected, Message, RequestOptions, Text, ToolAnswer
from agentctl.engine.context import SUMMARY_HEAD, Context
from agentctl.engine.prompt import Prompt
from agentctl.engine.view import View
from tests.engine.test_turn import MODEL
from tests.fakes import RecordingTool, call


class Numbered:
    """A section that says how often it was rendered."""

    def __init__(self, name: str, where: Where) -> None:
        self.name, self.plane, self.where = name, name, where
        self.times = 0

    def render(self) -> str:
        self.times += 1
        return f"[{self.name} {self.times}]"


def context_of(*sections: Section) -> tuple[Context, Prompt]:
    prompt = Prompt(tools=[], appendix="", sections=sections)
    return Context(model=MODEL, prompt=prompt, tools=[], options=RequestOptions()), prompt


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


ASKED = Message(role="assistant", parts=(call("look", "c1"),))
ANSWERED = Message(role="tool", parts=(ToolAnswer(call_id="c1", name="look", content="seen"),))


def test_places_and_how_often() -> None:
    kinds: tuple[Where, ...] = ("step", "head", "tail", "turn", "stable")
    sections = [Numbered(where, where) for where in kinds]
    context, _ = context_of(*sections)
    context.begin_turn()
    context.view = View(summary="what was before")
    first = context.request([user("go")])
    assert [(block.name, block.is_stable) for block in first.system] == [
        ("identity", True),
        ("stable", True),
        ("turn", False),
        ("summary", False),
        ("tail", False),
    ]
    assert first.state == "<state>\n[step 1]\n</state>"
    assert first.messages == (Message(role="user", parts=(Text(text="[head 2]"), Text(text="go"))),)
    second = context.request([user("go"), ASKED, ANSWERED])
    assert second.system == first.system
    assert second.messages == (*first.messages, ASKED, ANSWERED)
    assert second.state == "<state>\n[step 2]\n</state>"
    context.begin_turn()
    third = context.request([user("go"), ASKED, ANSWERED, user("next")])
    assert third.system[:2] == first.system[:2]
    assert [block.text for block in third.system[2:]] == ["[turn 3]", f"{SUMMARY_HEAD}\nwhat was before", "[tail 3]"]
    assert third.messages[0] == user("go")
    assert third.messages[-1].parts[0] == Text(text="[head 3]")


def test_the_users_message_of_a_turn_is_the_same_object_in_every_step() -> None:
    context, _ = context_of(Numbered("pin", "head"))
    history = [user("go")]
    first = context.request(history).messages[0]
    assert context.request([*history, ASKED, ANSWERED]).messages[0] is first


def test_what_went_out_is_counted_and_nothing_else() -> None:
    context, prompt = context_of(Numbered("rules", "stable"), Numbered("plan", "step"))
    context.begin_turn()
    context.tokens([user("go")])
    assert prompt.injected == {}
    for _ in range(2):
        context.request([user("go")])
        context.count_injected()
    one = estimate_tokens("[plan 1]")
    assert prompt.injected["plan"] == Injected(chars=16, tokens=2 * one)
    assert prompt.injected["rules"].chars == 2 * len("[rules 1]")


def test_one_line_tells_the_planes_apart_by_the_tools_that_are_offered() -> None:
    def identity(*names: str) -> str:
        tools = [RecordingTool(name).spec for name in names]
        return Prompt(tools=tools, appendix="").system()[0].text

    assert "Each fact" not in identity("read_file", "todo_write")
    both = identity("todo_write", "add_state")
    assert "this turn's steps → `todo_write`; findings of this session → `add_state`." in both
    assert "remember" not in both
