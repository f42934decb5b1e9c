"""Histories as the wire formats want them, and that one which grows is written as one that came whole."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core.codec import dumps
from agentctl.core.types import (
    Image,
    Message,
    ModelInfo,
    Opaque,
    Reasoning,
    Request,
    RequestOptions,
    SystemBlock,
    Text,
    ToolAnswer,
    ToolCall,
)
from agentctl.providers.adapter import Endpoint, Healing
from agentctl.providers.anthropic_messages import AnthropicMessages
from agentctl.providers.history import (
    INTERRUPTED,
    LegalHistory,
    LegalIds,
    Pairs,
    joined_roles,
    tidy,
    with_state,
    without_images,
)
from agentctl.providers.openai_chat import OpenAIChat
from agentctl.providers.openai_responses import OpenAIResponses
from agentctl.providers.profiles import PROFILES


def user(*texts: str) -> Message:
    return Message(role="user", parts=tuple(Text(text=text) for text in texts))


def says(*parts: Any) -> Message:
    return Message(role="assistant", parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def call(call_id: str, name: str = "f", arguments: str = "{}") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def answers(*rows: tuple[str, str]) -> Message:
    return Message(role="tool", parts=tuple(answer(*row) for row in rows))


def answer(call_id: str, content: str, *, is_error: bool = False) -> ToolAnswer:
    return ToolAnswer(call_id=call_id, name="f", content=content, is_error=is_error)


def ids_of(history: list[Message], rule: str) -> dict[str, str]:
    ids = LegalIds(rule)
    for message in history:
        ids.add(message)
    return ids.mapped


def pairs_of(history: list[Message]) -> list[Message]:
    pairs = Pairs()
    for message in history:
        pairs.add(message)
    return pairs.whole()


# --- ids --------------------------------------------------------------------------------------------------------------

RULES = {
    "openai": r"[A-Za-z0-9_-]{1,40}",
    "responses": r"[A-Za-z0-9_-]{1,64}",
    "anthropic": r"[A-Za-z0-9_-]{1,64}",
    "mistral": r"[A-Za-z0-9]{9}",
}


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(st.text(max_size=70) | st.sampled_from(["k1", "abcdefgh1"]), max_size=12),
    rule=st.sampled_from(sorted(RULES)),
)
def test_ids_are_legal_unique_and_settled_by_what_came_before(ids: list[str], rule: str) -> None:
    history = [says(call(call_id)) for call_id in ids]
    mapped = ids_of(history, rule)
    assert mapped.keys() == set(ids)
    assert len(set(mapped.values())) == len(mapped)
    assert all(re.fullmatch(RULES[rule], target) for target in mapped.values())
    begun = ids_of(history[: len(history) // 2], rule)
    assert begun == {call_id: mapped[call_id] for call_id in begun}


def test_a_legal_id_stays_unless_an_earlier_one_took_it() -> None:
    taken = ids_of([says(call("bad id"))], "openai")["bad id"]
    mapped = ids_of([says(call("bad id")), answers(("bad id", "x")), says(call("k1"), call(taken))], "openai")
    assert mapped["k1"] == "k1"
    assert mapped["bad id"] == taken
    assert mapped[taken] not in (taken, "k1")


# --- histories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "legal"),
    [
        pytest.param(
            [user("q"), says(call("1"), call("2")), answers(("1", "a"), ("2", "b"))],
            [user("q"), says(call("1"), call("2")), answers(("1", "a"), ("2", "b"))],
            id="whole",
        ),
        pytest.param(
            [says(call("1"), call("2")), answers(("2", "b")), answers(("1", "a"))],
            [says(call("1"), call("2")), answers(("1", "a"), ("2", "b"))],
            id="order-of-the-calls-in-one-message",
        ),
        pytest.param(
            [says(call("1")), user("stop")],
            [says(call("1")), Message(role="tool", parts=(answer("1", INTERRUPTED, is_error=True),)), user("stop")],
            id="never-answered",
        ),
        pytest.param(
            [says(call("1")), user("wait"), answers(("1", "late"))],
            [says(call("1")), answers(("1", "late")), user("wait")],
            id="late",
        ),
        pytest.param(
            [answers(("9", "lost")), says(call("1")), answers(("1", "a"), ("1", "again"))],
            [
                user("[earlier result of f]\nlost"),
                says(call("1")),
                answers(("1", "a")),
                user("[earlier result of f]\nagain"),
            ],
            id="orphans",
        ),
    ],
)
def test_paired(history: list[Message], legal: list[Message]) -> None:
    assert pairs_of(history) == legal


def test_ids_that_come_again_are_told_apart() -> None:
    history = [says(call("0")), user("stop"), says(call("0"), call("0")), answers(("0", "a"), ("0", "b"))]
    first, lost, _, second, found = pairs_of(history)
    assert first == says(call("0"))
    assert lost == Message(role="tool", parts=(answer("0", INTERRUPTED, is_error=True),))
    ids = [part.id for part in second.calls]
    assert len({"0", *ids}) == 3
    assert found == answers((ids[0], "a"), (ids[1], "b"))


def test_tidy() -> None:
    thought = Reasoning(text="r\ud83d")
    history = [
        user("a", " ", "b\ud83d"),
        user("\n"),
        says(thought, call("1", "f", '"\ud83d"')),
        answers(("1", "\ud83d")),
    ]
    assert list(map(tidy, history)) == [
        user("a", "b�"),
        None,
        says(Reasoning(text="r�"), call("1", "f", '"�"')),
        answers(("1", "�")),
    ]


@pytest.mark.parametrize(
    ("history", "legal"),
    [
        ([], [user("Continue.")]),
        ([says("hi")], [user("Continue."), says("hi"), user("Continue.")]),
        ([user("q")], [user("q")]),
    ],
)
def test_a_history_begins_with_the_user_and_does_not_end_with_the_assistant(
    history: list[Message], legal: list[Message]
) -> None:
    assert LegalHistory()(history) == tuple(legal)


def test_joined_roles() -> None:
    history = [user("a"), user("b"), says("x"), says("y", "z"), says(call("1")), answers(("1", "r")), user("c")]
    assert joined_roles(history) == (
        user("a", "b"),
        says("x", "\n\ny", "z", call("1")),
        answers(("1", "r")),
        user("c"),
    )


def test_state_stands_at_the_very_end() -> None:
    assert with_state([user("a"), user("b")], "s") == (user("a"), user("b", "s"))
    assert with_state([answers(("1", "a"), ("2", "b"))], "s\ud83d") == (answers(("1", "a"), ("2", "b\n\ns�")),)
    assert with_state([answers(("1", ""))], "s") == (answers(("1", "s")),)
    assert with_state([user("a")], " ") == (user("a"),)
    assert with_state([], "s") == ()


def test_without_images() -> None:
    image = Image(media_type="image/png", data="AAAA")
    note = "[image left out: image/png]"
    history = [
        Message(role="user", parts=(image,)),
        Message(role="tool", parts=(answer("1", "x").replace(images=(image,)),)),
    ]
    assert without_images([*history, user("a")]) == (user(note), answers(("1", f"x\n{note}")), user("a"))


# --- histories that grow ----------------------------------------------------------------------------------------------

IDS = st.sampled_from(["", "1", "2", "bad id"])
IMAGE = Image(media_type="image/png", data="AAAA")
THOUGHTS = {
    "openai-chat": {},
    "openai-responses": {"type": "reasoning", "id": "rs_1", "encrypted_content": "e", "summary": []},
    "anthropic-messages": {"type": "thinking", "thinking": "t", "signature": "s"},
}
TEXTS = st.sampled_from(["a", " ", "b\ud83d"]).map(lambda text: Text(text=text))
CALLS = st.builds(call, IDS, st.just("f"), st.sampled_from(["{}", "no json"]))
ANSWERS = st.builds(lambda row, images: answer(row, "r").replace(images=images), IDS, st.sampled_from([(), (IMAGE,)]))


def messages_of(api: str) -> st.SearchStrategy[Message]:
    opaque = Opaque(provider="u", api=api, model="m", data=THOUGHTS[api])
    thoughts = st.just(Reasoning(text="r", opaque=opaque)) | st.just(Reasoning(text="foreign"))
    roles = {
        "user": TEXTS | st.just(IMAGE),
        "assistant": TEXTS | CALLS | thoughts,
        "tool": ANSWERS,
    }
    return st.one_of(
        st.lists(parts, max_size=3).map(lambda found, role=role: Message(role=role, parts=tuple(found)))
        for role, parts in roles.items()
    )


@pytest.mark.parametrize(
    ("adapter", "profile"),
    [
        pytest.param(OpenAIChat, "openai", id="chat"),
        pytest.param(OpenAIChat, "mistral", id="chat-strict-roles"),
        pytest.param(OpenAIResponses, "openai", id="responses"),
        pytest.param(AnthropicMessages, "anthropic", id="messages"),
    ],
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_history_that_grows_is_written_as_one_that_came_whole(adapter: Any, profile: str, data: Any) -> None:
    """Steps add to it, a compaction drops its beginning, and a cure changes how it is written."""
    warm = adapter()
    endpoint = Endpoint(vendor="v", api=adapter.api, base_url="u", key="k", profile=PROFILES[profile])
    model = ModelInfo(
        vendor="v", name="m", api=adapter.api, base_url="u", origin="test", profile=profile, reasoning=True
    )
    history: list[Message] = []
    for _ in range(data.draw(st.integers(1, 5))):
        history = history[data.draw(st.sampled_from([0, 0, 0, 1])) :]
        history += data.draw(st.lists(messages_of(adapter.api), max_size=4))
        healing = Healing(drops_reasoning=data.draw(st.booleans()), strips_images=data.draw(st.booleans()))
        request = Request(
            system=(SystemBlock(name="identity", text="s", is_stable=True),),
            messages=tuple(history),
            tools=(),
            options=RequestOptions(think="high"),
            model=model,
            state=data.draw(st.sampled_from(["", "todo"])),
        )
        found = dumps(warm.to_wire(request, endpoint, healing))
        assert found == dumps(adapter().to_wire(request, endpoint, healing))
