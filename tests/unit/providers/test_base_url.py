"""Base URLs as people write them."""

from __future__ import annotations

import pytest

from agentctl.core.errors import UsageError
from agentctl.core.types import Api
from agentctl.providers.base_url import is_local, normal_base_url, ollama_base_url


@pytest.mark.parametrize(
    ("value", "api", "expected"),
    [
        ("http://127.0.0.1:8000/v1", "openai-chat", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "openai-chat", "http://127.0.0.1:8000/v1"),
        (" https://host/v1\n", "openai-responses", "https://host/v1"),
        ("https://host", "openai-chat", "https://host"),
        ("https://host/v1/chat/completions", "openai-chat", "https://host/v1"),
        ("https://host/v1/chat/completions/", "openai-responses", "https://host/v1"),
        ("https://host/v1/responses", "openai-responses", "https://host/v1"),
        ("https://host/v1/messages", "anthropic-messages", "https://host"),
        ("https://host/v1", "anthropic-messages", "https://host"),
        ("https://host/v1/", "anthropic-messages", "https://host"),
        ("https://host", "anthropic-messages", "https://host"),
        ("https://host/anthropic", "anthropic-messages", "https://host/anthropic"),
        ("HTTPS://Host:8443/API/v1", "openai-chat", "https://host:8443/API/v1"),
        ("http://[::1]:9/v1", "openai-chat", "http://[::1]:9/v1"),
    ],
)
def test_normal_form(value: str, api: Api, expected: str) -> None:
    assert normal_base_url(value, api, "--base-url") == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("host/v1", "--base-url 'host/v1' is not an http or https URL."),
        ("ftp://host", "--base-url 'ftp://host' is not an http or https URL."),
        ("http://", "--base-url 'http://' names no host and port that can be reached."),
        ("http://host:0", "--base-url 'http://host:0' names no host and port that can be reached."),
        ("http://host:port/v1", "--base-url 'http://host:port/v1' is no URL: its host or port is malformed."),
        ("http://[::1/v1", "--base-url 'http://[::1/v1' is no URL: its host or port is malformed."),
        ("http://a b/v1", "--base-url 'http://a b/v1' contains a space or a control character."),
        ("http://a\nb/v1", "--base-url 'http://a\\nb/v1' contains a space or a control character."),
        ("http://host/v1?key=1", "--base-url 'http://host/v1?key=1' has a query or a fragment."),
        ("http://host/v1#x", "--base-url 'http://host/v1#x' has a query or a fragment."),
    ],
)
def test_refused(value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        normal_base_url(value, "openai-chat", "--base-url")
    assert caught.value.message == message
    assert caught.value.hint.startswith("Write it as https://host/v1")


@pytest.mark.parametrize(
    "value", ["http://me:hunter2@host/v1", "http://hunter2@host", "me:hun/ter2@host", "http://me:hunter2@host:x"]
)
def test_a_password_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        normal_base_url(value, "openai-chat", "OPENAI_BASE_URL")
    assert "hunter2" not in caught.value.message
    assert "ter2" not in caught.value.message


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("box", "http://box:11434/v1"),
        ("box:99", "http://box:99/v1"),
        (":99", "http://127.0.0.1:99/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:99", "http://127.0.0.1:99/v1"),
        ("[::]:99", "http://127.0.0.1:99/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("[::1]:99", "http://[::1]:99/v1"),
        ("http://box:99/", "http://box:99/v1"),
        ("http://box:99/v1", "http://box:99/v1"),
        ("https://box", "https://box/v1"),
        ("https://box/deep/", "https://box/deep/v1"),
    ],
)
def test_ollama_host(host: str, expected: str) -> None:
    assert ollama_base_url(host) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.9", True),
        ("http://[::1]:1", True),
        ("http://ollama:11434/v1", True),
        ("http://192.168.1.7", True),
        ("http://gpu.local", True),
        ("https://ollama.com/v1", False),
        ("http://8.8.8.8", False),
        ("http://127.example.org", False),
    ],
)
def test_is_local(url: str, expected: bool) -> None:
    assert is_local(url) is expected
