"""Chat requests: what each service refuses is not in the body, and the same request is the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctl.core.codec import dumps, message_from_dict
from agentctl.core.types import (
    Image,
    Message,
    ModelInfo,
    Reasoning,
    Request,
    RequestOptions,
    SystemBlock,
    Text,
    ToolAnswer,
    ToolCall,
    ToolSpec,
)
from agentctl.providers.adapter import Endpoint, Healing
from agentctl.providers.openai_chat import OpenAIChat
from agentctl.providers.profiles import PROFILES

TESTS = Path(__file__).parents[2]
CASES = [json.loads(line) for line in (TESTS / "cases" / "wire_chat.jsonl").read_text().splitlines()]
BASE_URL = "http://127.0.0.1:9/v1"


def spec(row: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=row["name"],
        description=row.get("description", "d"),
        parameters=row["parameters"],
        effect="read",
        set="core",
        subjects=lambda args: (),
    )


def endpoint(profile: str, **fields: Any) -> Endpoint:
    values = {"vendor": "v", "api": "openai-chat", "base_url": BASE_URL, "key": None, "profile": PROFILES[profile]}
    return Endpoint(**{**values, **fields})


def request(case: dict[str, Any]) -> Request:
    model = {"vendor": "v", "name": "m", "api": "openai-chat", "base_url": BASE_URL, "origin": "flag"}
    return Request(
        system=tuple(SystemBlock(name="x", text=text) for text in case.get("system", ())),
        messages=tuple(message_from_dict(row) for row in case["messages"]),
        tools=tuple(spec(row) for row in case.get("tools", ())),
        options=RequestOptions(**case.get("options", {})),
        model=ModelInfo(**model, profile=case.get("profile", "openai"), **case.get("model", {})),
        state=case.get("state", ""),
    )


def body(case: dict[str, Any]) -> dict[str, Any]:
    healing = dict(case.get("healing", {}))
    if "dropped_params" in healing:
        healing["dropped_params"] = frozenset(healing["dropped_params"])
    return OpenAIChat().to_wire(request(case), endpoint(case.get("profile", "openai")), Healing(**healing))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] == "request"])
def test_body(case: dict[str, Any]) -> None:
    found = body(case)
    expected = case["expected"]
    if not case.get("whole"):
        found = {key: found.get(key) for key in expected}
    assert found == expected


ASK = {"messages": [{"role": "user", "parts": [{"part": "text", "text": "q"}]}]}


@pytest.mark.parametrize(
    ("profile", "think", "reasoning", "fields"),
    [
        ("openai", "off", True, {"reasoning_effort": "none"}),
        ("openai", "low", True, {"reasoning_effort": "low"}),
        ("openai", "medium", True, {"reasoning_effort": "medium"}),
        ("openai", "high", True, {"reasoning_effort": "high"}),
        ("openai", "max", True, {"reasoning_effort": "xhigh"}),
        ("openai", "max", False, {}),
        ("openai", "off", False, {}),
        ("openai", "off", None, {}),
        ("openai", "medium", None, {}),
        ("openai", "high", None, {"reasoning_effort": "high"}),
        ("compatible", "off", True, {}),
        ("compatible", "max", None, {"reasoning_effort": "high"}),
        ("groq", "max", True, {"reasoning_effort": "high"}),
        ("mistral", "low", True, {"reasoning_effort": "high"}),
        ("openrouter", "max", True, {"reasoning": {"effort": "xhigh"}}),
        ("openrouter", "off", True, {"reasoning": {"effort": "none"}}),
        ("openrouter", "off", None, {"reasoning": {"effort": "none"}}),
        ("ollama", "off", None, {"reasoning_effort": "none"}),
        ("ollama", "medium", None, {}),
        ("xai", "off", None, {}),
        ("deepseek", "off", None, {"thinking": {"type": "disabled"}}),
        ("deepseek", "medium", None, {}),
        ("deepseek", "low", True, {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}),
        ("deepseek", "max", True, {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("llamacpp", "off", None, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("vllm", "high", None, {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "high"}}),
        ("vllm", "high", False, {}),
        ("anthropic", "high", True, {}),
    ],
)
def test_thinking_levels(profile: str, think: str, reasoning: bool | None, fields: dict[str, Any]) -> None:
    case = {**ASK, "profile": profile, "options": {"think": think}, "model": {"reasoning": reasoning}}
    found = body(case)
    names = ("reasoning_effort", "reasoning", "thinking", "chat_template_kwargs")
    assert {name: found[name] for name in names if name in found} == fields


@pytest.mark.parametrize(
    ("profile", "options", "healing", "fields"),
    [
        ("openai", {}, {}, {}),
        ("openai", {"max_output_tokens": 9}, {}, {"max_completion_tokens": 9}),
        ("openai", {"max_output_tokens": 9}, {"swaps_max_tokens": True}, {"max_tokens": 9}),
        ("compatible", {"max_output_tokens": 9}, {}, {"max_tokens": 9}),
        ("compatible", {"max_output_tokens": 9}, {"swaps_max_tokens": True}, {"max_completion_tokens": 9}),
        ("compatible", {"max_output_tokens": 9}, {"max_output_tokens": 7}, {"max_tokens": 7}),
        ("openai", {}, {"max_output_tokens": 7}, {"max_completion_tokens": 7}),
    ],
)
def test_token_limits(profile: str, options: Any, healing: Any, fields: dict[str, int]) -> None:
    found = body({**ASK, "profile": profile, "options": options, "healing": healing})
    assert {name: found[name] for name in ("max_tokens", "max_completion_tokens") if name in found} == fields


def test_cache_key_is_sent_where_it_is_known() -> None:
    options = {"cache_key": "k" * 70}
    assert body({**ASK, "options": options})["prompt_cache_key"] == "k" * 64
    assert "prompt_cache_key" not in body({**ASK, "options": options, "profile": "compatible"})


def test_headers() -> None:
    headers = OpenAIChat().headers
    assert headers(endpoint("openai", key="secret", headers={"x-team": "a"})) == {
        "authorization": "Bearer secret",
        "x-team": "a",
    }
    assert headers(endpoint("ollama")) == {}
    assert headers(endpoint("anthropic", key="k")) == {"anthropic-version": "2023-06-01", "x-api-key": "k"}


def test_the_recorded_request_is_what_we_send() -> None:
    recorded = json.loads((TESTS / "golden" / "recordings" / "chat-tool-after.request.json").read_text())["body"]
    function = recorded["tools"][0]["function"]
    case = {
        "profile": "llamacpp",
        "options": {"max_output_tokens": 40, "think": "medium"},
        "tools": [function],
        "messages": [
            {"role": "user", "parts": [{"part": "text", "text": recorded["messages"][0]["content"]}]},
            {
                "role": "assistant",
                "parts": [{"part": "call", "id": "c1", "name": "read_file", "arguments": '{"path":"VERSION"}'}],
            },
            {"role": "tool", "parts": [{"part": "answer", "call_id": "c1", "name": "read_file", "content": "7.4.1"}]},
        ],
    }
    wanted = {key: value for key, value in recorded.items() if key != "temperature"}
    assert body(case) == {**wanted, "model": "m"}


def test_arguments_that_are_no_object_stay_readable_for_servers_that_parse_them() -> None:
    calls = [
        {"part": "call", "id": f"k{place}", "name": "f", "arguments": text}
        for place, text in enumerate(('{"a": 1}', "", '{"a": ', "[1]"))
    ]
    found = body({"messages": [ASK["messages"][0], {"role": "assistant", "parts": calls}]})
    sent = [call["function"]["arguments"] for call in found["messages"][1]["tool_calls"]]
    assert sent == ['{"a": 1}', "{}", '{"unparsed":"{\\"a\\": "}', '{"unparsed":"[1]"}']
    answers = [(row["tool_call_id"], row["content"]) for row in found["messages"][2:]]
    assert answers == [(f"k{place}", "interrupted, effects unknown") for place in range(4)]


# --- any history is a legal request -----------------------------------------------------------------------------------

NAMES = st.sampled_from(["f", "g.x", "h" * 70])
IDS = st.sampled_from(["", "k1", "k2", "k3", "call_0fypS1hVX", "x" * 50])
TEXTS = st.sampled_from(["", "  ", "hello", "\ud83d", "é"])
IMAGES = st.builds(Image, media_type=st.just("image/png"), data=st.just("AAAA"))
CALLS = st.builds(ToolCall, id=IDS, name=NAMES, arguments=st.sampled_from(["{}", "", '{"a":1}', "{bad"]))
ANSWERS = st.builds(ToolAnswer, call_id=IDS, name=NAMES, content=TEXTS, images=st.lists(IMAGES, max_size=1).map(tuple))
TEXT_PARTS = st.builds(Text, text=TEXTS)


def message(role: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    return st.builds(Message, role=st.just(role), parts=st.lists(st.one_of(*parts), max_size=3).map(tuple))


HISTORIES = st.lists(
    st.one_of(
        message("user", TEXT_PARTS, IMAGES),
        message("assistant", TEXT_PARTS, CALLS, st.builds(Reasoning, text=TEXTS)),
        message("tool", ANSWERS),
    ),
    max_size=10,
).map(tuple)


@settings(max_examples=150, deadline=None)
@given(history=HISTORIES, profile=st.sampled_from(sorted(PROFILES)), state=st.sampled_from(["", "<state>s</state>"]))
def test_any_history_is_a_legal_request(history: tuple[Message, ...], profile: str, state: str) -> None:
    case = {"messages": [], "tools": [{"name": "g.x", "parameters": {}}], "profile": profile}
    asked = request(case).replace(messages=history, state=state)
    found = OpenAIChat().to_wire(asked, endpoint(profile), Healing())
    assert dumps(found) == dumps(OpenAIChat().to_wire(asked, endpoint(profile), Healing()))
    json.dumps(found, ensure_ascii=False).encode()
    assert_legal(found["messages"], profile)


def assert_legal(messages: list[dict[str, Any]], profile: str) -> None:
    habits = PROFILES[profile]
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] in ("user", "tool")
    waiting: list[str] = []
    for before, row in zip([{"role": ""}, *messages], messages, strict=False):
        if row["role"] == "tool":
            assert row["tool_call_id"] == waiting.pop(0)
            assert isinstance(row["content"], str)
            continue
        assert not waiting
        assert row["content"] or row.get("tool_calls")
        calls = row.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        assert len(set(waiting)) == len(waiting)
        for call in calls:
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            assert len(call["function"]["name"]) <= 64
            assert len(call["id"]) == 9 if habits.call_id_rule == "mistral" else 1 <= len(call["id"]) <= 64
        if habits.merges_same_role and row["role"] == "user":
            assert before["role"] != "user"
        if habits.assistant_between_tool_and_user and row["role"] == "user":
            assert before["role"] != "tool"
    assert not waiting


@settings(max_examples=50, deadline=None)
@given(asked=st.lists(st.tuples(NAMES, st.integers(min_value=0, max_value=3)), max_size=6), data=st.data())
def test_the_prefix_of_a_growing_history_keeps_its_bytes(asked: list[tuple[str, int]], data: st.DataObject) -> None:
    """Step by step as a turn grows it; every id comes up again and again, as with servers that count from 0."""
    history = [Message(role="user", parts=(Text(text="go"),))]
    ends = [1]
    for name, count in asked:
        calls = tuple(ToolCall(id=f"call {place}", name=name, arguments="{}") for place in range(count))
        answers = tuple(ToolAnswer(call_id=call.id, name=name, content=f"{len(history)} {call.id}") for call in calls)
        if calls:
            history += [Message(role="assistant", parts=calls), Message(role="tool", parts=answers)]
            ends.append(len(history))
    begun = render(history[: data.draw(st.sampled_from(ends))])
    whole = render(history)
    assert whole[: len(begun)] == begun
    ids = [call["id"] for row in whole for call in row.get("tool_calls", [])]
    assert len(set(ids)) == len(ids)
    assert [row["content"] for row in whole if row["role"] == "tool"] == [
        part.content for entry in history for part in entry.parts if isinstance(part, ToolAnswer)
    ]


def render(history: list[Message]) -> list[dict[str, Any]]:
    asked = request({"messages": []}).replace(messages=tuple(history))
    messages: list[dict[str, Any]] = OpenAIChat().to_wire(asked, endpoint("openai"), Healing())["messages"]
    return messages
