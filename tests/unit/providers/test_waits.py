"""Retry-After and its relatives in every form that is in use."""

from __future__ import annotations

import pytest

from agentctl.providers.failures import from_response, retry_after
from agentctl.providers.waits import LONGEST_S, wait_in_text

NOW = 1_771_404_500.0  # 2026-02-18T08:48:20Z

HEADERS: list[tuple[dict[str, str], float | None]] = [
    ({"Retry-After": "20"}, 20.0),
    ({"retry-after": "1.5"}, 1.5),
    ({"retry-after": "0"}, 0.0),
    ({"retry-after": "-5"}, 0.0),
    ({"retry-after": "1771404540"}, 40.0),
    ({"retry-after": "1771404540000"}, 40.0),
    ({"retry-after": "1771404000"}, 0.0),
    ({"retry-after": "Wed, 18 Feb 2026 08:48:50 GMT"}, 30.0),
    ({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, LONGEST_S),
    ({"retry-after": "6m0s"}, 360.0),
    ({"retry-after": "999999"}, LONGEST_S),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "1e400"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": ""}, None),
    ({}, None),
    ({"retry-after-ms": "800", "retry-after": "7"}, 0.8),
    ({"retry-after-ms": "nan", "retry-after": "7"}, 7.0),
    ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
    ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "12ms"}, 0.012),
    (
        {"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "2s", "x-ratelimit-remaining-requests": "0"},
        360.0,
    ),
    ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "40"}, None),
    ({"anthropic-ratelimit-tokens-reset": "2026-02-18T08:48:35Z"}, 15.0),
    ({"anthropic-ratelimit-requests-reset": "2026-02-18T08:00:00Z"}, 0.0),
    ({"retry-after": "3", "x-ratelimit-reset-requests": "6m0s"}, 3.0),
]


@pytest.mark.parametrize(("headers", "wait"), HEADERS, ids=[str(headers) for headers, _ in HEADERS])
def test_headers(headers: dict[str, str], wait: float | None) -> None:
    assert retry_after(headers, now=NOW) == (pytest.approx(wait) if wait is not None else None)


def test_limits_that_are_not_used_up_explain_nothing() -> None:
    headers = {"anthropic-ratelimit-tokens-reset": "2099-01-01T00:00:00Z"}
    assert from_response(500, headers, b"").retry_after_s is None
    assert from_response(500, {**headers, "retry-after": "4"}, b"").retry_after_s == 4.0
    assert from_response(429, headers, b"").retry_after_s == LONGEST_S


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Please try again in 7m12s. Visit the page", 432.0),
        ("Please try again in 20s.", 20.0),
        ("Please retry in 34.07s.", 34.07),
        ("Try again in 650ms", 0.65),
        ("Resets in 6hr 29min.", 23_340.0),
        ("Retry after 2 minutes", 120.0),
        ("please wait before trying again", None),
        ("at 20s per request", None),
    ],
)
def test_texts(text: str, wait: float | None) -> None:
    assert wait_in_text(text) == (pytest.approx(wait) if wait is not None else None)
