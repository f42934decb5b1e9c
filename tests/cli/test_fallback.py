"""`--fallback` and `--price`: a run that goes on with another model, what it says and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from agentctl.providers import catalog
from tests.cli.conftest import World
from tests.server import Call, Counts, Fault, Turn

DOWN = Turn(fault=Fault(status=503, body="overloaded", headers={"retry-after-ms": "1"}), repeat=-1)
OTHER = "anthropic/claude-sonnet-5-5"


def test_the_run_goes_on_with_the_next_model(world: World, served: Any) -> None:
    (world.cwd / "a.txt").write_text("inside")
    used = Counts(input=1000, output=100)
    one = served([Turn(text="looking", calls=[Call("read_file", {"path": "a.txt"})], usage=used), DOWN])
    two = served([Turn(text="it says inside", usage=used), Turn(text="twice", usage=used)])
    env = {**world.env, "ANTHROPIC_BASE_URL": two.root_url, "AGENTCTL_API_KEY": "sk-only-for-openai"}
    words = ("-p", "read a.txt", "-p", "again", "--fallback", OTHER, "--price", "2,8", "--json")
    ran = world.run(*words, server=one, env=env).ended("completed", 0)
    notices = [event["text"] for event in ran.of("notice")]
    assert len(notices) == 1
    assert notices[0].startswith("openai/gpt-5 is unavailable: ")
    assert notices[0].endswith(f"Went on with {OTHER}, for the rest of this run.")
    assert [event["model"] for event in ran.of("step")] == ["gpt-5", "claude-sonnet-5-5", "claude-sonnet-5-5"]
    assert (len(one.requests), len(two.requests)) == (5, 2)
    assert two.refusals == []
    assert {request.headers["x-api-key"] for request in two.requests} == {"sk-test-anthropic"}
    price = catalog.look_up("anthropic", "claude-sonnet-5-5").price
    assert price is not None
    expected = (1000 * 2 + 100 * 8 + 2 * (1000 * price.input + 100 * price.output)) / 1_000_000
    assert ran.done["cost_usd"] == pytest.approx(expected)


def test_a_recording_replays_the_change_without_a_key(world: World, served: Any) -> None:
    one, two = served([DOWN]), served([Turn(text="first"), Turn(text="second")])
    env = {**world.env, "ANTHROPIC_BASE_URL": two.root_url}
    words = ("-p", "x", "-p", "y", "--fallback", OTHER, "--json")
    first = world.run(*words, "--record", "tape.jsonl", server=one, env=env).ended("completed", 0)
    bare = {name: value for name, value in world.env.items() if not name.endswith("_KEY")}
    again = world.run(*words, "--transport", "sdk", "--replay", "tape.jsonl", env=bare).ended("completed", 0)
    kept = ("text", "message", "step", "notice", "retry")
    assert [without_run(event) for event in again.of(*kept)] == [without_run(event) for event in first.of(*kept)]
    assert again.done["cost_usd"] == first.done["cost_usd"]


def without_run(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in ("time", "session")}


def test_when_nobody_answers_the_run_is_unavailable(world: World, served: Any) -> None:
    one, two = served([DOWN]), served([DOWN])
    env = {**world.env, "ANTHROPIC_BASE_URL": two.root_url}
    ran = world.run("-p", "x", "--fallback", OTHER, "--json", server=one, env=env).ended("unavailable", 75)
    assert (len(one.requests), len(two.requests), len(ran.of("notice"))) == (4, 4, 1)


def test_a_bad_key_is_no_reason_to_go_on(world: World, served: Any) -> None:
    one, two = served([Turn(fault=Fault(status=401, body="bad key"))]), served([])
    env = {**world.env, "ANTHROPIC_BASE_URL": two.root_url}
    world.run("-p", "x", "--fallback", OTHER, "--json", server=one, env=env).ended("auth", 9)
    assert two.requests == []


REFUSED = [
    (
        ("--fallback", "deepseek/x"),
        "auth",
        9,
        "--fallback deepseek/x: No key for deepseek; looked for DEEPSEEK_API_KEY",
    ),
    (("--fallback", "opnai/x"), "usage", 2, "--fallback opnai/x: Unknown vendor 'opnai'"),
    (
        ("--fallback", "openai/nobody-knows-it", "--max-cost", "1"),
        "usage",
        2,
        "--max-cost 1: the price of openai/nobody-knows-it is not known",
    ),
    (("--price", "cheap"), "usage", 2, "--price: 'cheap' is not a price in USD per million tokens"),
]


@pytest.mark.parametrize(("words", "ending", "code", "message"), REFUSED)
def test_what_cannot_be_done_is_said_before_the_first_request(
    world: World, served: Any, words: tuple[str, ...], ending: str, code: int, message: str
) -> None:
    server = served([])
    ran = world.run("-p", "x", *words, "--json", server=server).ended(ending, code)
    assert message in ran.of("error")[0]["message"]
    assert server.requests == []


def test_a_price_makes_an_unknown_model_countable(world: World, served: Any) -> None:
    server = served([Turn(text="ok", usage=Counts(input=1000, cache_read=2000, output=100))])
    words = ("-p", "x", "--price", "1,2,0.5", "--max-cost", "1", "--json", "--base-url", server.base_url)
    ran = world.run(*words, "--model", "openai/nobody-knows-it").ended("completed", 0)
    assert ran.done["cost_usd"] == pytest.approx((1000 * 1 + 2000 * 0.5 + 100 * 2) / 1_000_000)


def test_both_from_a_config_file(world: World, served: Any) -> None:
    one, two = served([DOWN]), served([Turn(text="ok", usage=Counts(input=10, output=1))])
    (world.cwd / ".agentctl").mkdir()
    (world.cwd / ".agentctl" / "config.toml").write_text(f'fallback = ["{OTHER}"]\nprice = [0, 0]\n')
    env = {**world.env, "ANTHROPIC_BASE_URL": two.root_url}
    ran = world.run("-p", "x", "--max-cost", "1", "--json", server=one, env=env).ended("completed", 0)
    assert len(two.requests) == 1
    assert ran.done["cost_usd"] > 0
