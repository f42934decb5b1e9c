"""What a run says it cost: every response counts by its classes of tokens, also one that failed or was broken off."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.cli.conftest import World, finish
from tests.cli.test_endings import wait_for
from tests.server import Call, Counts, Fault, Turn

PRICE = ["--price", "3,15,0.3,3.75"]
FULL = Counts(input=1000, cache_read=20_000, cache_write=500, output=100)
MESSAGES = "anthropic-messages"


def dollars(*responses: Counts) -> Any:
    """At PRICE."""
    total = sum(
        counts.input * 3 + counts.cache_read * 0.3 + counts.cache_write * 3.75 + counts.output * 15
        for counts in responses
    )
    return pytest.approx(total / 1_000_000)


def test_every_class_of_tokens_has_its_price(world: World, served: Any) -> None:
    server = served([Turn(calls=[Call("read_file", {"path": "a"})], usage=FULL), Turn(text="ok", usage=FULL)])
    ran = world.run("-p", "x", "--json", *PRICE, server=server, api=MESSAGES).ended("completed", 0)
    expected = {"input": 1000, "cache_read": 20_000, "cache_write": 500, "output": 100, "reasoning": 0}
    assert [step["usage"] for step in ran.of("step")] == [expected] * 2
    assert [step["cost_usd"] for step in ran.of("step")] == [dollars(FULL), dollars(FULL, FULL)]
    assert ran.done["usage"] == {name: 2 * count for name, count in expected.items()}
    assert ran.done["cost_usd"] == dollars(FULL, FULL)


def test_a_failed_response_is_paid_for(world: World, served: Any) -> None:
    broken = Turn(text="half an answer", delta=4, usage=FULL, fault=Fault(cut_after=4, cut="fin"))
    server = served([broken, Turn(text="ok", usage=FULL)])
    ran = world.run("-p", "x", "--json", *PRICE, server=server, api=MESSAGES).ended("completed", 0)
    assert (ran.done["retries"], ran.done["text"]) == (1, "ok")
    assert ran.done["usage"]["input"] == 2000
    assert ran.done["cost_usd"] == dollars(FULL, Counts(input=1000, cache_read=20_000, cache_write=500, output=1))


def test_a_response_that_fails_for_good_is_paid_for(world: World, served: Any) -> None:
    event = b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"no"}}\n\n'
    server = served([Turn(text="half", usage=FULL, fault=Fault(insert_after=2, insert=event))])
    ran = world.run("-p", "x", "--json", *PRICE, server=server, api=MESSAGES).ended("provider", 8)
    assert ran.done["usage"]["input"] == 1000
    assert ran.done["cost_usd"] == dollars(Counts(input=1000, cache_read=20_000, cache_write=500, output=1))


def broken_off(world: World, server: Any, *words: str) -> Any:
    """A run that is cancelled in the middle of its first answer."""
    process = world.start("-p", "x", "--json", *words, server=server, api=MESSAGES)
    seen = b""
    while b'"type":"text"' not in seen:
        seen += process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    ran = finish(process)
    ran.out = seen + ran.out
    wait_for(server.requests[-1].client_left.is_set)
    return ran.ended("cancelled", 143)


HALF = Turn(text="half an answer", delta=4, usage=FULL, fault=Fault(cut_after=4, cut="stall"))
PAID = Counts(input=1000, cache_read=20_000, cache_write=500, output=1)
"""What HALF has said of its usage by then."""


def test_a_response_that_is_broken_off_is_paid_for(world: World, served: Any) -> None:
    ran = broken_off(world, served([HALF]), *PRICE)
    assert ran.done["usage"]["input"] == 1000
    assert ran.done["cost_usd"] == dollars(PAID)


def test_the_total_of_a_session_counts_them_too(world: World, served: Any) -> None:
    broken = Turn(text="half", usage=FULL, fault=Fault(cut_after=4, cut="fin"))
    server = served([broken, Turn(text="one", usage=FULL), Turn(text="two", usage=FULL)])
    first = world.run("-p", "x", "--json", server=server, api=MESSAGES).ended("completed", 0)
    second = world.run("-c", "-p", "y", "--json", server=server, api=MESSAGES).ended("completed", 0)
    assert [ran.done["usage"]["input"] for ran in (first, second)] == [2000, 1000]
    assert [ran.done["usage_total"]["input"] for ran in (first, second)] == [2000, 3000]


def test_the_total_of_a_session_counts_what_was_broken_off(world: World, served: Any) -> None:
    """Cancelled twice, then a whole turn: no message of the session tells of the first two responses."""
    server = served([HALF, HALF, Turn(text="one", usage=FULL)])
    first = broken_off(world, server, *PRICE)
    second = broken_off(world, server, *PRICE, "-c")
    third = world.run("-c", "-p", "y", "--json", *PRICE, server=server, api=MESSAGES).ended("completed", 0)
    kinds = ("input", "cache_read", "cache_write", "output")
    for runs, ran in enumerate((first, second, third)):
        expected = [sum(getattr(used, kind) for used in (PAID, PAID, FULL)[: runs + 1]) for kind in kinds]
        assert [ran.done["usage_total"][kind] for kind in kinds] == expected
    (listed,) = json.loads(world.run("sessions", "list", "--json").out)["sessions"]
    assert listed["usage"] == third.done["usage_total"]
    assert listed["cost_usd"] == dollars(PAID, PAID, FULL)


def test_what_has_no_price_costs_null(world: World, served: Any) -> None:
    server = served([Turn(text="ok", usage=FULL)])
    flags = ["--model", "openai/a-model-of-mine", "--base-url", server.base_url]
    ran = world.run("-p", "x", "--json", *flags).ended("completed", 0)
    assert (ran.of("step")[0]["cost_usd"], ran.done["cost_usd"]) == (None, None)
    assert ran.done["usage"]["input"] == 1000 + FULL.cache_write


def test_a_service_that_says_no_usage_is_not_guessed(world: World, served: Any) -> None:
    server = served([Turn(text="ok", usage=None)])
    ran = world.run("-p", "x", "--json", *PRICE, server=server).ended("completed", 0)
    assert sum(ran.done["usage"].values()) == 0
    assert ran.done["cost_usd"] is None
    (notice,) = ran.of("notice")
    assert (notice["code"], "caps" in notice["text"]) == ("usage-unknown", False)


@pytest.mark.parametrize("cap", [("--max-tokens", "12000"), ("--max-cost", "0.03")])
def test_caps_hold_where_a_service_says_no_usage(world: World, served: Any, cap: tuple[str, str]) -> None:
    """By what was sent and received. The cost stays unknown, and that is said once."""
    looks = [Turn(text="x" * 400, calls=[Call("list_dir", {"path": ".", "depth": n})], usage=None) for n in range(1, 9)]
    server = served(looks)
    ran = world.run("-p", "x", "--json", *PRICE, *cap, server=server).ended("limit", 5)
    assert 2 <= len(server.requests) <= 5
    sent = sum(len(request.raw) for request in server.requests)
    assert sent / 5 < 12_000, "not long before"
    assert ran.done["cost_usd"] is None
    assert [event["code"] for event in ran.of("notice")].count("usage-unknown") == 1


def test_caps_count_what_was_sent_for_answers_that_broke_off(world: World, served: Any) -> None:
    broken = Turn(text="half", delta=1, fault=Fault(cut_after=4, cut="fin"), repeat=2)
    server = served([broken, Turn(text="ok")])
    ran = world.run("-p", "x", "--json", "--max-tokens", "5000", server=server).ended("limit", 5)
    assert len(server.requests) == 2
    assert ran.done["usage"]["input"] == 0
