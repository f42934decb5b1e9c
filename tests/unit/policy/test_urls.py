"""URL patterns: an allow rule matches what every client reads alike, a refusal what one of them may read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agentctl.policy.patterns import BadPattern
from agentctl.policy.urls import read_url, url_pattern
from tests.unit.policy.policy_world import World, spec

API = "https://api.example.org/**"
SUB = "*.example.org"
ALLOWED = [
    (API, "https://api.example.org"),
    (API, "https://api.example.org/"),
    (API, "https://api.example.org/v1/users?id=3#top"),
    (API, "HTTPS://API.EXAMPLE.ORG./v1"),
    (API, "https://api.example.org:443/v1"),
    (API, "https://api.example.org:0443/v1"),
    (SUB, "https://a.example.org/x"),
    (SUB, "http://a.b.example.org"),
    ("https://example.org:8443", "https://example.org:8443/x"),
    ("https://example.org:*", "https://example.org:9/x"),
    ("https://example.org/docs/*", "https://example.org/docs/a?b=/c/d"),
    ("https://example.org/docs/**", "https://example.org/docs"),
    ("https://example.org/docs/**", "https://example.org/docs/a/../b"),
    ("https://example.org/a%20b", "https://example.org/a%20b"),
    ("https://example.org/**/x", "https://example.org/a/b/x"),
    ("wss://example.org", "wss://example.org/socket"),
    ("bücher.example", "https://bücher.example/"),
    ("bücher.example", "https://xn--bcher-kva.example/"),
    ("*.bücher.example", "https://a.BÜCHER.example/"),
    ("http://127.0.0.1:8080", "http://127.0.0.1:8080/health"),
    ("http://[::1]", "http://[0:0:0:0:0:0:0:1]/"),
]
NOT_ALLOWED = [
    (API, "http://api.example.org/v1"),
    (API, "https://api.example.org:8443/v1"),
    (API, "https://user@api.example.org/v1"),
    (API, "https://user:pass@api.example.org/"),
    (API, "https://api.example.org@evil.test/"),
    (API, "https://evil.test/api.example.org/"),
    (API, "https://evil.test#api.example.org/"),
    (API, "https://evil.test?.api.example.org/"),
    (API, "https://api.example.org\\@evil.test/"),
    (API, "https://api.example.org.evil.test/"),
    (API, "https://api.example.org../"),
    (API, "https:/api.example.org/"),
    (API, "https:\\\\api.example.org\\v1"),
    (API, "//api.example.org/"),
    (API, "api.example.org/"),
    (API, "https://api.example.org:99999/"),
    (API, "https://api.example.org:/"),
    (API, " https://api.example.org/"),
    (API, "https://api.example.org/\n"),
    (API, "https://api.example.org/a b"),
    (API, "https://api%2eexample.org/"),
    (API, "file:///etc/passwd"),
    (API, "javascript:alert(1)"),
    (API, ""),
    (SUB, "https://example.org/"),
    (SUB, "https://evil-example.org/"),
    (SUB, "https://example.org.evil/"),
    (SUB, "ftp://a.example.org/"),
    (SUB, "https://a.example.org:8443/"),
    ("https://example.org/docs/*", "https://example.org/docs/a/b"),
    ("https://example.org/docs", "https://example.org/docs/a"),
    ("https://example.org/docs/**", "https://example.org/docs/../admin"),
    ("https://example.org/docs/**", "https://example.org/docs/%2e%2e/admin"),
    ("https://example.org/docs/**", "https://example.org/docs/..%2fadmin"),
    ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
    ("faß.example", "https://fass.example/"),
]
DENIED = [
    ("example.org", "https://example.org/x"),
    ("example.org", "ftp://example.org"),
    ("example.org", "https://example.org:8443/"),
    ("example.org", "https://user@example.org/"),
    ("example.org", "https://good.test@example.org/"),
    ("example.org", "https:\\\\example.org\\x"),
    ("example.org", "https:/example.org/x"),
    ("example.org", "//example.org/x"),
    ("example.org", "example.org/x"),
    ("example.org", "https://exam\tple.org/"),
    ("example.org", "https://%65xample.org/"),
    ("example.org", "https://EXAMPLE.org./"),
    ("example.org", "https://example。org/"),
    ("example.org", "https://ｅｘａｍｐｌｅ.org/"),
    ("127.0.0.1", "http://2130706433/"),
    ("127.0.0.1", "http://0x7f.1/"),
    ("127.0.0.1", "http://0177.0.0.1/"),
    ("127.0.0.1", "http://[::ffff:7f00:1]/"),
    ("[::1]", "http://[0::1]:80/"),
    ("https://example.org/admin", "https://example.org/admin/users"),
    ("https://example.org/admin", "https://example.org/x/../admin"),
    ("https://example.org/admin", "https://example.org/%61dmin"),
    ("faß.example", "https://fass.example/"),
    ("faß.example", "https://faß.example/"),
    ("https://example.org:443", "https://example.org/"),
]
NOT_DENIED = [
    ("example.org", "https://a.example.org/"),
    ("example.org", "https://example.org.test/"),
    ("example.org", "https://test/example.org"),
    ("http://example.org", "https://example.org/"),
    ("https://example.org:8443", "https://example.org/"),
    ("https://example.org/admin", "https://example.org/administrator"),
    ("https://example.org/admin", "https://example.org/?admin"),
]


@pytest.mark.parametrize(("pattern", "url"), ALLOWED)
def test_allowed(pattern: str, url: str) -> None:
    assert url_pattern(pattern).surely(read_url(url))
    assert url_pattern(pattern).maybe(read_url(url))


@pytest.mark.parametrize(("pattern", "url"), NOT_ALLOWED)
def test_not_allowed(pattern: str, url: str) -> None:
    assert not url_pattern(pattern).surely(read_url(url))


@pytest.mark.parametrize(("pattern", "url"), DENIED)
def test_denied(pattern: str, url: str) -> None:
    assert url_pattern(pattern).maybe(read_url(url))


@pytest.mark.parametrize(("pattern", "url"), NOT_DENIED)
def test_not_denied(pattern: str, url: str) -> None:
    assert not url_pattern(pattern).maybe(read_url(url))


@pytest.mark.parametrize(
    "pattern",
    [
        "", " ", "https://", "https:///x", "https://u@h/", "h#x", "a b", "h:port", "h:", "a\\b", "https://h/../x",
        "https://h/a/.", "*ü.example", "[::1", "[zz]", "http://[::1]x/", "\x01",
    ],
)  # fmt: skip
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(BadPattern):
        url_pattern(pattern)


def test_the_engine_asks_for_both(tmp_path: Path) -> None:
    text = (
        'version = 1\n[[rule]]\nid = "docs"\ntool = "@network"\nurl = "https://*.example.org/docs/**"\n'
        'decision = "allow"\nmatch = ["https://a.example.org/docs/x"]\nnot_match = ["https://example.org/docs/x"]\n'
        '[[rule]]\nid = "private"\ntool = "@network"\nurl = ["https://*.example.org/docs/private", "10.0.0.1"]\n'
        'decision = "deny"\nmatch = ["https://a.example.org/docs/private/x", "http://167772161/"]\n'
    )
    engine = World(tmp_path, text).engine
    found = {
        url: engine.decide(spec("web_fetch"), {"url": url})
        for url in (
            "https://a.example.org/docs/x",
            "https://a.example.org/docs/private/x",
            "https://u@a.example.org/docs/x",
            "https://b.test/",
        )
    }
    assert [(item.verdict, item.rule, item.runs) for item in found.values()] == [
        ("allow", "docs", True),
        ("deny", "private", False),
        ("unmatched", "unmatched", False),
        ("unmatched", "unmatched", False),
    ]
    reaches = [item.allow_with for item in found.values()]
    assert reaches == [None, None, None, "web_fetch:https://b.test/"]
    assert "no plain URL" in found["https://u@a.example.org/docs/x"].reason


def test_patterns_are_linear() -> None:
    pattern = url_pattern("https://" + "*a" * 40 + "b/" + "**/" * 20 + "x")
    urls = ["https://" + "a." * 500 + "c/", "https://aab/" + "y/" * 5000, "a" * 60_000, "https://[" + ":" * 60_000]
    start = time.process_time()
    for url in urls:
        assert not pattern.surely(read_url(url))
    assert time.process_time() - start < 2
