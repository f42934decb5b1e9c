"""The scripted provider: its file format, and the answers it plays."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import AgentctlError, ProviderError, StreamBroken, Unavailable, UsageError
from agentctl.core.ports import CallStarted, Completed, ReasoningPiece, StreamItem, TextPiece
from agentctl.core.types import (
    Message,
    ModelInfo,
    Reasoning,
    Request,
    RequestOptions,
    Text,
    ToolAnswer,
    ToolCall,
    Usage,
)
from agentctl.providers.script import ScriptCall, ScriptFailure, ScriptTurn, load_script, parse_script
from agentctl.providers.scripted import DEMO, ScriptedModel

MODEL = ModelInfo(vendor="scripted", name="s.json", api="openai-chat", base_url="", origin="flag", profile="scripted")


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


def answer(content: str, call_id: str = "call_1") -> Message:
    return Message(role="tool", parts=(ToolAnswer(call_id=call_id, name="t", content=content),))


def request(*messages: Message) -> Request:
    return Request(system=(), messages=messages, tools=(), options=RequestOptions(), model=MODEL)


def scripted(*turns: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel(parse_script(json.dumps({"turns": turns}).encode(), "s.json"), "s.json")


def play(model: ScriptedModel, *messages: Message) -> list[StreamItem]:
    async def run() -> list[StreamItem]:
        return [item async for item in model.stream(request(*messages))]

    return asyncio.run(run())


def last(items: list[StreamItem]) -> Completed:
    assert isinstance(items[-1], Completed)
    return items[-1]


def said(model: ScriptedModel, *messages: Message) -> str:
    return last(play(model, *messages)).message.text


# --- what is played -------------------------------------------------------------------------------------------------


def test_a_whole_turn() -> None:
    model = scripted(
        {
            "reasoning": "hm",
            "text": "Reading.",
            "tool_calls": [
                {"name": "read_file", "args": {"path": "a"}},
                {"name": "bash", "raw_args": '{"command": ', "id": "own"},
                {"name": "list_dir"},
            ],
            "usage": {"input": 10, "output": 4, "reasoning": 1, "cache_read": 3, "cache_write": 2},
            "delta": 5,
        }
    )
    message = Message(
        role="assistant",
        parts=(
            Reasoning(text="hm"),
            Text(text="Reading."),
            ToolCall(id="call_1", name="read_file", arguments='{"path":"a"}'),
            ToolCall(id="own", name="bash", arguments='{"command": '),
            ToolCall(id="call_2", name="list_dir", arguments="{}"),
        ),
    )
    assert play(model, user("go")) == [
        ReasoningPiece(text="hm"),
        TextPiece(text="Readi"),
        TextPiece(text="ng."),
        CallStarted(id="call_1", name="read_file"),
        CallStarted(id="own", name="bash"),
        CallStarted(id="call_2", name="list_dir"),
        Completed(
            message=message,
            usage=Usage(input=10, output=4, reasoning=1, cache_read=3, cache_write=2),
            stop="calls",
            model="s.json",
        ),
    ]


def test_an_answer_ends_and_costs_nothing_unless_told() -> None:
    assert play(scripted({"text": "ok"}), user("go")) == [
        TextPiece(text="ok"),
        Completed(
            message=Message(role="assistant", parts=(Text(text="ok"),)), usage=Usage(), stop="end", model="s.json"
        ),
    ]


@pytest.mark.parametrize("stop", ["end", "calls", "length", "refused"])
def test_a_stop_that_is_told(stop: str) -> None:
    assert last(play(scripted({"text": "", "stop": stop}), user("go"))) == Completed(
        message=Message(role="assistant", parts=()), usage=Usage(), stop=stop, model="s.json"
    )


def test_turns_in_order_with_repeats_then_the_end() -> None:
    model = scripted({"text": "a", "repeat": 2}, {"text": "b"})
    assert [said(model, user("go")) for _ in range(3)] == ["a", "a", "b"]
    with pytest.raises(ProviderError) as caught:
        play(model, user("go"))
    assert caught.value.message == "The script 's.json' has no turn for this request: 2 of 2 are used up."
    assert (caught.value.kind, caught.value.ending) == ("script_end", "provider")


def test_repeat_without_end() -> None:
    model = scripted({"text": "a", "repeat": -1}, {"text": "never"})
    assert [said(model, user("go")) for _ in range(20)] == ["a"] * 20


def test_match_sees_what_came_since_the_model_spoke() -> None:
    model = scripted({"match": "old", "text": "wrong"}, {"match": "exit: [1-9]", "text": "failed"}, {"text": "fine"})
    spoken = Message(role="assistant", parts=(Text(text="exit: 1"),))
    assert said(model, user("old"), spoken, answer("exit: 0")) == "fine"
    assert said(model, user("old"), spoken, answer("one"), answer("exit: 2")) == "failed"
    with pytest.raises(ProviderError) as caught:
        play(model, user("x"))
    assert caught.value.message == (
        "The script 's.json' has no turn for this request: 2 of 3 are used up, 1 did not match."
    )


def test_match_sees_both_ends_of_a_long_text() -> None:
    text = "begin" + "x" * 100_000 + "end"
    assert said(scripted({"match": "^begin", "text": "a"}), user(text)) == "a"
    assert said(scripted({"match": "end$", "text": "a"}), user(text)) == "a"


def test_ids_go_on_where_the_history_of_the_session_ends() -> None:
    calls = (ToolCall(id="call_8", name="t", arguments="{}"), ToolCall(id="other_9", name="t", arguments="{}"))
    model = scripted({"tool_calls": [{"name": "t"}, {"name": "t"}]}, {"tool_calls": [{"name": "t"}]})
    history = (user("go"), Message(role="assistant", parts=calls))
    assert [call.id for call in last(play(model, *history)).message.calls] == ["call_9", "call_10"]
    assert [call.id for call in last(play(model, user("go"))).message.calls] == ["call_11"]


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("provider", "provider"),
        ("auth", "auth"),
        ("unavailable", "unavailable"),
        ("incomplete_stream", "unavailable"),
        ("context_overflow", "provider"),
        ("output_limit", "provider"),
    ],
)
def test_a_scripted_failure(kind: str, ending: str) -> None:
    model = scripted({"error": {"kind": kind, "message": "as scripted"}, "usage": {"input": 7}}, {"text": "next"})
    with pytest.raises(ProviderError) as caught:
        play(model, user("go"))
    error = caught.value
    assert (error.kind, error.ending, error.message, error.usage) == (kind, ending, "as scripted", Usage(input=7))
    assert said(model, user("go")) == "next"


def test_a_failure_after_half_an_answer() -> None:
    seen: list[StreamItem] = []

    async def run() -> None:
        async for item in model.stream(request(user("go"))):
            seen.append(item)

    model = scripted({"text": "half", "error": {"kind": "incomplete_stream"}})
    with pytest.raises(StreamBroken, match="scripted failure: incomplete_stream"):
        asyncio.run(run())
    assert seen == [TextPiece(text="half")]


def test_a_delay_comes_before_the_first_piece() -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    turns = (
        ScriptTurn(text="a", delay_s=2.5),
        ScriptTurn(failure=ScriptFailure(kind="unavailable", message="x"), delay_s=1),
    )
    model = ScriptedModel(turns, "s.json", pause)
    assert said(model, user("go")) == "a"
    with pytest.raises(Unavailable):
        play(model, user("go"))
    assert waits == [2.5, 1]


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_file_becomes_turns(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(
        '{"turns": [{"text": "é"}, {"tool_calls": [{"name": "t", "args": {"a": [1, "é"]}}], "repeat": -1}]}'
    )
    assert load_script(path) == (
        ScriptTurn(text="é"),
        ScriptTurn(tool_calls=(ScriptCall(name="t", arguments='{"a":[1,"é"]}'),), repeat=-1),
    )


TURN = "s.json: turns[0]"


@pytest.mark.parametrize(
    ("document", "message", "hint"),
    [
        ([], "s.json is [], not an object.", ""),
        ({}, "s.json: has no turns.", 'Write {"turns": [{"text": "..."}]}.'),
        ({"turns": []}, "s.json: has no turns.", 'Write {"turns": [{"text": "..."}]}.'),
        ({"turn": []}, "s.json: unknown key 'turn'.", "Did you mean 'turns'?"),
        ({"turns": {}}, "s.json: turns is {}, not a list.", ""),
        ({"turns": ["hi"]}, f'{TURN} is "hi", not an object.', ""),
        ({"turns": [{}]}, f"{TURN} says nothing.", "Give it text, reasoning, tool_calls or error."),
        ({"turns": [{"match": "x"}]}, f"{TURN} says nothing.", "Give it text, reasoning, tool_calls or error."),
        ({"turns": [{"txt": "a"}]}, f"{TURN}: unknown key 'txt'.", "Did you mean 'text'?"),
        ({"turns": [{"text": 1}]}, f"{TURN}.text is 1, not text.", ""),
        ({"turns": [{"text": None}]}, f"{TURN}.text is null, not text.", ""),
        ({"turns": [{"text": "a", "stop": "ende"}]}, f"{TURN}.stop is 'ende'.", "Did you mean 'end'?"),
        (
            {"turns": [{"text": "a", "repeat": 0}]},
            f"{TURN}.repeat (or -1 for no end) is 0, not a whole number from 1.",
            "",
        ),
        (
            {"turns": [{"text": "a", "repeat": True}]},
            f"{TURN}.repeat (or -1 for no end) is true, not a whole number from 1.",
            "",
        ),
        ({"turns": [{"text": "a", "delta": 0}]}, f"{TURN}.delta is 0, not a whole number from 1.", ""),
        ({"turns": [{"text": "a", "delay_s": -1}]}, f"{TURN}.delay_s is -1, not a number from 0 to 3600.", ""),
        (
            {"turns": [{"text": "a", "match": "(a"}]},
            f"{TURN}.match is no pattern: '(a': missing ), unterminated subpattern at position 0.",
            "",
        ),
        ({"turns": [{"text": "a", "match": "a" * 1_001}]}, f"{TURN}.match has more than 1,000 characters.", ""),
        (
            {"turns": [{"text": "a", "usage": {"inputs": 1}}]},
            f"{TURN}.usage: unknown key 'inputs'.",
            "Did you mean 'input'?",
        ),
        (
            {"turns": [{"text": "a", "usage": {"input": 1.5}}]},
            f"{TURN}.usage.input is 1.5, not a whole number from 0.",
            "",
        ),
        ({"turns": [{"tool_calls": {}}]}, f"{TURN}.tool_calls is {{}}, not a list.", ""),
        ({"turns": [{"text": "a"}, {"tool_calls": [{}]}]}, "s.json: turns[1].tool_calls[0] has no name.", ""),
        ({"turns": [{"tool_calls": [{"name": ""}]}]}, f'{TURN}.tool_calls[0].name is "", not a name.', ""),
        (
            {"turns": [{"tool_calls": [{"name": "t", "args": "x"}]}]},
            f'{TURN}.tool_calls[0].args is "x", not an object.',
            "raw_args takes broken arguments as text.",
        ),
        (
            {"turns": [{"tool_calls": [{"name": "t", "args": {}, "raw_args": ""}]}]},
            f"{TURN}.tool_calls[0] has both args and raw_args.",
            "",
        ),
        (
            {"turns": [{"tool_calls": [{"nme": "t"}]}]},
            f"{TURN}.tool_calls[0]: unknown key 'nme'.",
            "Did you mean 'name'?",
        ),
        (
            {"turns": [{"error": {}}]},
            f"{TURN}.error has no kind.",
            "Kinds: provider, auth, unavailable, incomplete_stream, context_overflow, output_limit.",
        ),
        (
            {"turns": [{"error": {"kind": "unavailble"}}]},
            f"{TURN}.error.kind is 'unavailble'.",
            "Did you mean 'unavailable'?",
        ),
    ],
)
def test_a_slip_is_named_with_its_place(document: Any, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_script(json.dumps(document).encode(), "s.json")
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff\xfe", b'{"turns": [}', b"\x00", b'{"turns": [{"text": "a\\ud83d"}]}']
)
def test_what_is_not_json(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"^s\.json: not valid JSON: "):
        parse_script(data, "s.json")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, reason in (
        (tmp_path / "missing.json", "cannot be read: No such file or directory."),
        (tmp_path / "nul\0.json", "cannot be read: embedded null byte."),
        (tmp_path, "is not a regular file."),
        (fifo, "is not a regular file."),
        (Path("/dev/zero"), "is not a regular file."),
    ):
        with pytest.raises(UsageError) as caught:
            ScriptedModel.load(path)
        assert caught.value.message == f"The script {str(path)!r} {reason}"


# --- the demonstration ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ("No files matched.", ["todo_write", "list_dir", "glob", "bash", "todo_write"]),
        ("README.md\nREADME.txt", ["todo_write", "list_dir", "glob", "read_file", "bash", "todo_write"]),
        ("docs/README.md", ["todo_write", "list_dir", "glob", "bash", "todo_write"]),
    ],
)
def test_the_demonstration_plays_through(found: str, names: list[str]) -> None:
    model = ScriptedModel.load(DEMO)
    history = [user("demo")]
    called: list[str] = []
    while True:
        done = last(play(model, *history))
        history.append(done.message)
        if done.stop == "end":
            break
        for call in done.message.calls:
            called.append(call.name)
            history.append(answer(found if call.name == "glob" else "denied", call.id))
    assert called == names
    assert "No model was asked" in done.message.text
    assert done.usage == Usage()
    with pytest.raises(AgentctlError):
        play(model, *history)
