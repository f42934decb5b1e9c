"""The caches of the services carry the prefix: measured over twenty steps, todo updates among them."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from tests.cli.conftest import APIS, World
from tests.server import Caches, Call, Turn
from tests.server.cache import tokens_of

STEPS = 20
SHARE = 0.98
STATE = re.compile(rb'(?:\{"role":"user","type":"text","text":"|(?:\\n){2})<state>.*?</state>(?:"\})?')
"""The plan behind the last message is sent once and made anew for each step; nothing of it can be read again."""


def script(world: World) -> list[Turn]:
    turns = []
    for number in range(STEPS):
        (world.cwd / f"f{number}").write_text(f"line of file {number}\n" * 120)
        todos = [{"content": f"item {n}", "status": "done" if n < number else "pending"} for n in range(number + 1)]
        call = Call("todo_write", {"todos": todos}) if number % 4 == 1 else Call("read_file", {"path": f"f{number}"})
        turns.append(Turn(reasoning="hm", calls=[call]))
    return [*turns, Turn(text="ok")]


@pytest.mark.parametrize("api", APIS)
def test_twenty_steps_read_what_was_sent_before_from_the_cache(world: World, served: Any, api: str) -> None:
    caches = Caches()
    server = served(script(world), caches=caches)
    ran = world.run("-p", "read them all", "--json", "--think", "low", server=server, api=api).ended("completed", 0)
    assert server.refusals == []
    assert ran.done["injected"]["plan"]["chars"] > 0, "the plan stood in the requests"
    assert len(caches.requests) == STEPS + 1
    read = sum(request.read for request in caches.requests)
    sent_before = sum(tokens_of(STATE.sub(b"", request.prompt)) for request in caches.requests[:-1])
    assert read / sent_before >= SHARE
    assert ran.done["usage"]["cache_read"] == read, "and the run says so"


@pytest.mark.parametrize("api", APIS)
def test_every_request_begins_with_the_one_before_it(world: World, served: Any, api: str) -> None:
    server = served(script(world))
    world.run("-p", "read them all", "--json", "--think", "low", server=server, api=api).ended("completed", 0)
    prompts = [_without_marks(request.body) for request in server.requests]
    for earlier, later in itertools.pairwise(prompts):
        assert earlier[0] == later[0], "model, options, tools and system prompt are the same bytes"
        assert later[1][: len(earlier[1]) - 1] == earlier[1][:-1], (
            "and all messages but the last, which holds the state"
        )
        assert _without_state(earlier[1][-1]) == _without_state(later[1][len(earlier[1]) - 1])


def _without_marks(body: dict[str, Any]) -> tuple[str, list[str]]:
    plain = json.loads(json.dumps(body).replace(', "cache_control": {"type": "ephemeral"}', ""))
    items = plain.pop("messages", None) or plain.pop("input")
    return json.dumps(plain), [json.dumps(item) for item in items]


def _without_state(item: str) -> str:
    """The plan stands behind the content, as a part of its own or behind an empty line."""
    cut, _, _ = item.partition("<state>")
    return cut.removesuffix('{"type": "text", "text": "').removesuffix("\\n\\n").rstrip(', "}]')
