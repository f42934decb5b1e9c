"""Every way a service says no: what it means, in whose words, and what to do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import OutputCapped, ProviderError
from agentctl.providers.failures import from_error, from_response

ROOT = Path(__file__).parents[2]
CASES = [json.loads(line) for line in (ROOT / "cases" / "wire_errors.jsonl").read_text("utf-8").splitlines()]


def failure_of(case: dict[str, Any]) -> ProviderError:
    if "error" in case:
        return from_error(case["error"])
    body = case["body"]
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return from_response(case["status"], case["headers"], data)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    failure = failure_of(case)
    expect = case["expect"]
    seen = {
        "error": type(failure).__name__,
        "kind": failure.kind,
        "ending": failure.ending,
        "retryable": failure.retryable,
        "status": failure.status,
        "param": failure.param,
        "retry_after_s": failure.retry_after_s,
        "room": failure.room if isinstance(failure, OutputCapped) else None,
        "message": failure.message,
    }
    wanted = {name: value for name, value in expect.items() if name in seen}
    assert {name: seen[name] for name in wanted} == wanted
    assert expect.get("says", "") in failure.message
    assert expect.get("hints", "") in failure.hint
    assert failure.status == expect.get("status", case.get("status"))


def test_messages_are_one_line_of_bounded_length() -> None:
    failure = from_error({"message": "first\r\nsecond\x1b[31m " + "x" * 5000})
    assert failure.message.startswith("The service reported a failure: first second [31m xxx")
    assert len(failure.message) < 600
    assert failure.message.isprintable()


@pytest.mark.parametrize(
    "value", [[], [[]], [None], 7, True, "", "{", '{"a": 1', "[]", {"error": {"error": {}}}, {1: 2}]
)
def test_odd_values_are_failures_all_the_same(value: Any) -> None:
    failure = from_error(value)
    assert failure.retryable
    assert failure.message.startswith("The service reported a failure: ")


def test_endless_nesting_ends() -> None:
    value: Any = "bottom"
    for _ in range(500):
        value = {"error": value}
    assert from_error(value).retryable


def test_a_long_hostile_body_is_judged_quickly() -> None:
    body = b"<html>" + b"<head " * 20_000 + b"exceeds the " * 20_000
    assert from_response(500, {}, body).kind == "unavailable"


@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "a ",
        "'a'",
        "the model's max ",
        "exceeds the ",
        "1 s",
        "max_tokens: 1",
        "input tokens ",
        "image ",
        "a.a.",
        "{",
        "[a-z",
        "1s ",
        "<a",
        "request too large for ",
        "limit 1,1,1",
        "retry in 1 1 1",
        "model ",
        "1,",
        "context length ",
    ],
)
def test_no_text_makes_the_patterns_slow(piece: str) -> None:
    from_error("warm")
    before = time.process_time()
    from_error({"message": piece * (20_000 // len(piece))})
    assert time.process_time() - before < 0.5


def test_json_that_is_no_error_stays_part_of_the_text() -> None:
    assert '{"a": 1}' in from_error('cannot read {"a": 1}').message
