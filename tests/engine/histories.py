"""Histories as no run should leave them behind: calls without answers, answers without calls, odd ids and texts."""

from __future__ import annotations

from hypothesis import strategies as st

from agentctl.core.types import Api, Image, Message, Opaque, Part, Reasoning, Text, ToolAnswer, ToolCall
from tests.engine.services import APIS, model_of
from tests.server.validate_anthropic import SIGNATURE

TEXTS = st.one_of(st.text("abc \n", max_size=12), st.just("x" * 900), st.just("lone \ud83d surrogate"))
IDS = st.one_of(st.integers(0, 6).map("c{}".format), st.sampled_from(["", "id with spaces", "k1" * 30]))
ARGUMENTS = st.sampled_from(["{}", '{"path": "a"}', "", "[1]", '{"path": ', '{"path": "\ud83d"}'])
PICTURE = Image(media_type="image/png", data="aGk=")


@st.composite
def reasonings(draw: st.DrawFn) -> Reasoning:
    """As one of the services gave it, or one that is bound to none."""
    api: Api = draw(st.sampled_from(APIS))
    data = {
        "openai-chat": {},
        "openai-responses": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        "anthropic-messages": {"type": "thinking", "thinking": "hm", "signature": f"{SIGNATURE}1"},
    }[api]
    model = model_of(api)
    opaque = Opaque(provider=model.base_url, api=api, model=model.name, data=data)
    return Reasoning(text="hm", opaque=draw(st.sampled_from([opaque, None])))


@st.composite
def user_messages(draw: st.DrawFn) -> Message:
    texts: list[Part] = [Text(text=text) for text in draw(st.lists(TEXTS, min_size=1, max_size=3))]
    return Message(role="user", parts=(*texts, *draw(st.sampled_from([(), (PICTURE,)]))))


@st.composite
def steps(draw: st.DrawFn) -> list[Message]:
    """One answer of the model and what came back: all of it, some of it, or too much."""
    calls = [
        ToolCall(id=draw(IDS), name=draw(st.sampled_from(["read", "gone tool"])), arguments=draw(ARGUMENTS))
        for _ in range(draw(st.integers(0, 3)))
    ]
    thoughts = draw(st.lists(reasonings(), max_size=1))
    asked = Message(role="assistant", parts=(*thoughts, Text(text=draw(TEXTS)), *calls))
    answered = [call.id for call in calls if draw(st.integers(0, 3))]
    strays = draw(st.lists(IDS, max_size=1))
    return [asked, *(_answer(draw, call_id) for call_id in draw(st.permutations([*answered, *strays])))]


def _answer(draw: st.DrawFn, call_id: str) -> Message:
    content = draw(st.one_of(TEXTS, st.just("y" * 4_000)))
    images = draw(st.sampled_from([(), (PICTURE,)]))
    is_error = draw(st.booleans())
    part = ToolAnswer(call_id=call_id, name="read", content=content, is_error=is_error, images=images)
    return Message(role="tool", parts=(part,))


def histories() -> st.SearchStrategy[list[Message]]:
    pieces = st.one_of(user_messages().map(lambda message: [message]), steps())
    return st.lists(pieces, min_size=1, max_size=8).map(lambda found: [message for piece in found for message in piece])
