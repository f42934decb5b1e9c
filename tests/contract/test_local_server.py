"""The local server against the official clients: what they read from it is what the script says.

So the server's idea of the wire formats is not only our own.
"""

from __future__ import annotations

import json
from typing import Any

from tests.server import Call, Counts, Server, Turn, serve

TURN = Turn(
    reasoning="let me see",
    text="looking at it",
    calls=[Call("bash", {"command": "ls"}, id="call_1")],
    usage=Counts(input=100, cache_read=20, output=7),
    delta=4,
)
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def openai_client(server: Server) -> Any:
    from openai import OpenAI  # half a second, so only where it is used

    return OpenAI(api_key="k", base_url=server.base_url, max_retries=0)


def test_chat() -> None:
    with serve([TURN]) as server, openai_client(server) as client:
        with client.chat.completions.stream(
            model="m",
            messages=[{"role": "user", "content": "q"}],
            tools=[{"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}],
            stream_options={"include_usage": True},
        ) as stream:
            completion = stream.get_final_completion()
        assert server.refusals == []
    choice = completion.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("looking at it", "tool_calls")
    call = choice.message.tool_calls[0]
    assert (call.id, call.function.name, json.loads(call.function.arguments)) == ("call_1", "bash", {"command": "ls"})
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (120, 7)


def test_responses() -> None:
    with serve([TURN]) as server, openai_client(server) as client:
        with client.responses.stream(
            model="m",
            input="q",
            tools=[{"type": "function", "name": "bash", "parameters": PARAMETERS, "strict": False}],
        ) as stream:
            response = stream.get_final_response()
        assert server.refusals == []
    assert response.output_text == "looking at it"
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert (response.output[2].call_id, response.output[2].arguments) == ("call_1", '{"command":"ls"}')
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (120, 20)


def test_messages() -> None:
    from anthropic import Anthropic  # more than a second

    with serve([TURN]) as server, Anthropic(api_key="k", base_url=server.root_url, max_retries=0) as client:
        with client.messages.stream(
            model="m",
            max_tokens=2000,
            thinking={"type": "enabled", "budget_tokens": 1024},
            messages=[{"role": "user", "content": "q"}],
            tools=[{"name": "bash", "input_schema": PARAMETERS}],
        ) as stream:
            message = stream.get_final_message()
        assert server.refusals == []
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert (message.content[1].text, message.content[2].input) == ("looking at it", {"command": "ls"})
    assert (message.stop_reason, message.usage.input_tokens, message.usage.cache_read_input_tokens) == (
        "tool_use",
        100,
        20,
    )
