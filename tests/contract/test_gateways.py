"""The way to a service: headers, authentication, version, organization, proxies and certificates, on both transports.

What counts is what the server and the proxy saw.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import AuthError, ProviderError, UsageError
from agentctl.core.types import Api
from agentctl.providers.gateway import Gateway
from agentctl.providers.make import adapter_for, make_transport
from agentctl.providers.network import DIRECT_NETWORK, Network
from agentctl.providers.select import select_fallback, select_model
from agentctl.providers.wire import WireProvider
from tests.server import Received, Server, Turn, serve
from tests.server.proxy import proxy
from tests.unit.providers.provider_requests import APIS, ask, request_of

each_api = pytest.mark.parametrize("api", APIS)
each_kind = pytest.mark.parametrize("kind", ["direct", "sdk"])
TLS_FILE = Path(__file__).parents[1] / "unit" / "providers" / "tls_loopback.pem"
VENDORS: Mapping[Api, str] = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic-messages": "anthropic",
}
KEYS = {"OPENAI_API_KEY": "a-key", "ANTHROPIC_API_KEY": "a-key"}


def asked(
    server: Server,
    api: Api,
    kind: str,
    *,
    gateway: Gateway | None = None,
    network: Network = DIRECT_NETWORK,
    env: Mapping[str, str] | None = None,
    vendor: str = "",
) -> Received:
    """The request that arrives when a model is asked once."""
    _, endpoint = select_model(
        model=f"{vendor or VENDORS[api]}/model-1",
        model_origin="test",
        api=api,
        base_url=server.base_url,
        env={**KEYS, **(env or {})},
        gateway=gateway or Gateway(),
    )

    async def main() -> None:
        provider = WireProvider(adapter_for(api), endpoint, make_transport(kind, endpoint, network=network))
        try:
            assert (await ask(provider, request_of(endpoint))).message.text == "ok"
        finally:
            await provider.close()

    asyncio.run(main())
    assert server.refusals == []
    return server.requests[-1]


@each_api
@each_kind
def test_headers_of_options(kind: str, api: Api) -> None:
    gateway = Gateway(headers=("X-Team: ci builds", "x-gateway-key:${GATEWAY_KEY}", "User-Agent: mine"))
    with serve([Turn(text="ok")]) as server:
        headers = asked(server, api, kind, gateway=gateway, env={"GATEWAY_KEY": "s3cret"}).headers
    found = {name: headers[name] for name in ("x-team", "x-gateway-key", "user-agent")}
    assert found == {"x-team": "ci builds", "x-gateway-key": "s3cret", "user-agent": "mine"}


AUTH: dict[str, dict[str, str | None]] = {
    "bearer": {"authorization": "Bearer a-key", "x-api-key": None, "api-key": None},
    "x-api-key": {"authorization": None, "x-api-key": "a-key", "api-key": None},
    "api-key": {"authorization": None, "x-api-key": None, "api-key": "a-key"},
    "none": {"authorization": None, "x-api-key": None, "api-key": None},
}


@each_api
@each_kind
@pytest.mark.parametrize("auth", AUTH)
def test_how_the_key_is_sent(auth: str, kind: str, api: Api) -> None:
    def answer(request: Received) -> None:
        """Any way to say who asks is good for this gateway."""
        seen.append(dict(request.headers))
        request.headers.setdefault("authorization", "Bearer anybody")

    seen: list[dict[str, str]] = []
    with serve([Turn(text="ok")], rules=[answer]) as server:
        asked(server, api, kind, gateway=Gateway(auth=auth))
    assert {name: seen[0].get(name) for name in AUTH[auth]} == AUTH[auth]


@each_api
@each_kind
def test_a_header_of_ours_stands_for_the_key(kind: str, api: Api) -> None:
    gateway = Gateway(headers=("Authorization: Bearer of-the-gateway",), auth="none")
    with serve([Turn(text="ok")]) as server:
        headers = asked(server, api, kind, gateway=gateway).headers
    assert headers["authorization"] == "Bearer of-the-gateway"
    assert "x-api-key" not in headers


@each_api
@each_kind
def test_the_version_is_a_header_or_a_query(kind: str, api: Api) -> None:
    with serve([Turn(text="ok")]) as server:
        request = asked(server, api, kind, gateway=Gateway(api_version="2030-01-02"))
    version = request.headers.get("anthropic-version")
    if api == "anthropic-messages":
        assert (version, request.path) == ("2030-01-02", "/v1/messages")
    else:
        assert (version, request.path) == (None, f"/v1{adapter_for(api).path}?api-version=2030-01-02")


@each_kind
def test_the_organization_and_the_variables_of_the_vendor(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"OPENAI_ORG_ID": "org-env", "OPENAI_PROJECT_ID": "proj-env", "OPENAI_CUSTOM_HEADERS": "X-One: 1\nX-Two: 2"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    names = ("openai-organization", "openai-project", "x-one", "x-two")
    with serve([Turn(text="ok", repeat=3)]) as server:
        plain = asked(server, "openai-chat", kind, env=env).headers
        chosen = asked(server, "openai-chat", kind, env=env, gateway=Gateway(organization="org-flag")).headers
        other = asked(server, "openai-chat", kind, env={**env, "GROQ_API_KEY": "k"}, vendor="groq").headers
    assert [plain.get(name) for name in names] == ["org-env", "proj-env", "1", "2"]
    assert [chosen.get(name) for name in names] == ["org-flag", "proj-env", "1", "2"]
    assert [other.get(name) for name in names] == [None] * 4  # another service learns nothing of it


@each_kind
def test_the_headers_and_the_token_of_anthropics_variables(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"ANTHROPIC_CUSTOM_HEADERS": "X-One: 1", "ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "a-token"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with serve([Turn(text="ok")]) as server:
        headers = asked(server, "anthropic-messages", kind, env=env).headers
    assert (headers["x-one"], headers["authorization"]) == ("1", "Bearer a-token")
    assert "x-api-key" not in headers


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("X-Team",), "--header: 'a line without a colon' is no name of a header."),
        (("X Team: v3ry-s3cret",), "--header: 'X Team' is no name of a header."),
        ((": v3ry-s3cret",), "--header: '' is no name of a header."),
        (("Content-Length: 3",), "--header: 'Content-Length' is set by agentctl itself."),
        (("X-Key: ${NOT_THERE}",), "--header X-Key: the variable 'NOT_THERE' is not set."),
    ],
)
def test_a_header_that_is_none(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        select_model(model="openai/m", model_origin="test", env=KEYS, gateway=Gateway(headers=lines))
    assert caught.value.message == message


@each_kind
def test_a_value_that_no_header_can_carry_is_not_shown(kind: str) -> None:
    with serve() as server, pytest.raises(AuthError) as caught:
        asked(server, "openai-chat", kind, gateway=Gateway(headers=("X-Key: s3crét",)))
    assert "s3cr" not in caught.value.message + caught.value.hint


def test_a_fallback_of_another_vendor_goes_its_own_way() -> None:
    gateway = Gateway(headers=("X-Key: of-openai",), auth="x-api-key")
    env = {**KEYS, "GROQ_API_KEY": "k"}
    first, _ = select_model(model="openai/m", model_origin="test", env=env, gateway=gateway)
    common: dict[str, Any] = {"first": first, "api": None, "base_url": None, "env": env, "gateway": gateway}
    assert dict(select_fallback("openai/n", **common)[1].headers) == {"x-key": "of-openai"}
    other = select_fallback("groq/n", **common)[1]
    assert (dict(other.headers), other.profile.auth) == ({}, "bearer")


# --- proxies --------------------------------------------------------------------------------------------------------


@each_api
@each_kind
@pytest.mark.parametrize("source", ["environment", "option"])
def test_a_proxy_forwards(source: str, kind: str, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve([Turn(text="ok")]) as server, proxy() as between:
        if source == "environment":
            monkeypatch.setenv("HTTP_PROXY", between.url)
        network = Network(proxy=between.url) if source == "option" else DIRECT_NETWORK
        asked(server, api, kind, network=network)
        assert between.targets == [f"POST {server.base_url}{adapter_for(api).path.removeprefix('/v1')}"]


@each_kind
@pytest.mark.parametrize("source", ["environment", "option"])
def test_a_proxy_tunnels_tls(source: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS_FILE))
    with serve([Turn(text="ok")], tls=TLS_FILE) as server, proxy() as between:
        if source == "environment":
            monkeypatch.setenv("HTTPS_PROXY", between.url)
        network = Network(proxy=between.url) if source == "option" else DIRECT_NETWORK
        asked(server, "openai-chat", kind, network=network)
        assert between.targets == [f"CONNECT {server.root_url.removeprefix('https://')}"]


@each_kind
@pytest.mark.parametrize("source", ["environment", "option"])
@pytest.mark.parametrize(
    ("no_proxy", "is_used"),
    [("127.0.0.1", False), ("*", False), ("localhost, 127.0.0.0/8", False), ("10.0.0.0/8,.example.com", True)],
)
def test_no_proxy_is_obeyed(
    no_proxy: str, is_used: bool, source: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", no_proxy)
    with serve([Turn(text="ok")]) as server, proxy() as between:
        if source == "environment":
            monkeypatch.setenv("HTTP_PROXY", between.url)
        network = Network(proxy=between.url) if source == "option" else DIRECT_NETWORK
        asked(server, "openai-chat", kind, network=network)
        assert bool(between.targets) is is_used


@each_kind
def test_a_proxy_that_asks_for_a_password(kind: str) -> None:
    said = "Basic " + base64.b64encode(b"ci:pa55").decode()
    with serve([Turn(text="ok")]) as server, proxy(credentials=said) as between:
        asked(server, "openai-chat", kind, network=Network(proxy=f"http://ci:pa55@{between.address}"))
        with pytest.raises(ProviderError, match="407"):
            asked(server, "openai-chat", kind, network=Network(proxy=between.url))
        assert len(server.requests) == 1


@each_kind
def test_a_proxy_that_is_none(kind: str) -> None:
    with serve() as server, pytest.raises(UsageError, match="The proxy cannot be used"):
        asked(server, "openai-chat", kind, network=Network(proxy="gopher://127.0.0.1"))


# --- certificates ---------------------------------------------------------------------------------------------------


@each_api
@each_kind
@pytest.mark.parametrize("source", ["environment", "option"])
def test_a_ca_file_vouches(source: str, kind: str, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    if source == "environment":
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS_FILE))
    network = Network(ca_file=str(TLS_FILE)) if source == "option" else DIRECT_NETWORK
    with serve([Turn(text="ok")], tls=TLS_FILE) as server:
        asked(server, api, kind, network=network)


@each_kind
def test_the_option_counts_before_the_environment(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "not-there.pem"))
    with serve([Turn(text="ok")], tls=TLS_FILE) as server:
        asked(server, "openai-chat", kind, network=Network(ca_file=str(TLS_FILE)))


@each_kind
def test_without_it_the_certificate_is_refused(kind: str) -> None:
    with serve([Turn(text="ok")], tls=TLS_FILE) as server:
        with pytest.raises(ProviderError, match="is not trusted") as caught:
            asked(server, "openai-chat", kind)
        assert server.requests == []
    assert "--ca-file" in caught.value.hint


@each_kind
def test_a_ca_file_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    for file in (tmp_path / "none.pem", tmp_path):
        named = re.escape(f"The CA file {str(file)!r} cannot be read: ")
        with serve([Turn(text="ok")], tls=TLS_FILE) as server, pytest.raises(UsageError, match=named):
            asked(server, "openai-chat", kind, network=Network(ca_file=str(file)))


@each_kind
def test_certificates_of_the_environment_that_cannot_be_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    named = re.escape("The certificates of SSL_CERT_FILE='/nowhere.pem' cannot be read: No such file or directory.")
    with serve([Turn(text="ok")], tls=TLS_FILE) as server, pytest.raises(UsageError, match=named):
        asked(server, "openai-chat", kind)
