"""One suite for both transports: the same conversations give the same requests, messages and failures.

What is compared is what crossed the boundaries: the bytes of each request body on the wire, the items of each answer,
the class, kind, status and text of each failure. The official clients' own types vouch for the requests as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ProviderError
from agentctl.core.types import Api
from agentctl.providers.adapter import Endpoint, Healing
from agentctl.providers.make import adapter_for, make_transport
from agentctl.providers.models import list_models
from agentctl.providers.profiles import PROFILES
from agentctl.providers.sdk_transport import SdkTransport
from agentctl.providers.transport import DirectTransport, WireRequest
from agentctl.providers.wire import WireProvider
from agentctl.version import __version__
from tests.contract.conversations import CONVERSATIONS, ENDS, failure_of, play, provider_of
from tests.contract.sdk_types import as_sdk_wants, read_by_sdk
from tests.server import Fault, Received, Server, Turn, serve
from tests.unit.providers.provider_requests import APIS, ask, endpoint_of, request_of

KINDS = ("direct", "sdk")
each_api = pytest.mark.parametrize("api", APIS)
each_kind = pytest.mark.parametrize("kind", KINDS)


def plainly(api: Api) -> Callable[[Server], Endpoint]:
    return lambda server: endpoint_of(server, api)


@each_api
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_both_transports_send_and_hear_the_same(name: str, api: Api) -> None:
    conversation = CONVERSATIONS[name]
    direct, sdk = (play(conversation, plainly(api), kind) for kind in KINDS)
    assert sdk.bodies == direct.bodies
    assert sdk.answers == direct.answers
    assert all(path.endswith(adapter_for(api).path) for path in (*direct.paths, *sdk.paths))
    assert len(direct.bodies) == len(direct.answers) == len(conversation.says)


@each_api
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_how_each_conversation_ends(name: str, api: Api) -> None:
    seen = play(CONVERSATIONS[name], plainly(api), "direct")
    ends = (end.partition(" ")[0] if isinstance(end, str) else end.stop for end in seen.answers)
    assert tuple(ends) == ENDS[name]


@each_api
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_types_of_the_clients_vouch_for_every_request(name: str, api: Api) -> None:
    for raw in play(CONVERSATIONS[name], plainly(api), "direct").bodies:
        body = as_sdk_wants(api, loads(raw))
        assert read_by_sdk(api, body) == body


# --- faults ---------------------------------------------------------------------------------------------------------

FAULTS: dict[str, Turn] = {
    "a refusal": Turn(fault=Fault(status=401, body={"error": {"message": "bad key"}})),
    "a refusal to wait for": Turn(fault=Fault(status=429, body="slow down", headers={"retry-after": "7"})),
    "a refusal in pieces": Turn(fault=Fault(status=500, body="x" * 300_000)),
    "a refusal that breaks off": Turn(
        fault=Fault(raw=b"HTTP/1.1 503 X\r\ncontent-type: text/plain\r\ncontent-length: 90\r\n\r\noverloaded, try")
    ),
    "a redirect": Turn(fault=Fault(status=307, headers={"location": "http://127.0.0.1:1/"})),
    "html": Turn(fault=Fault(body="<html><body>gateway</body></html>", content_type="text/html")),
    "an error in HTTP 200": Turn(fault=Fault(body={"error": {"message": "lost upstream", "code": 502}})),
    "nothing": Turn(fault=Fault(status=200, body="")),
    "a reset": Turn(fault=Fault(reset_before=True)),
    "silence before": Turn(delay_s=30),
    "silence inside": Turn(text="x", fault=Fault(cut_after=1, cut="stall")),
    "a broken connection": Turn(text="x", fault=Fault(cut_after=1, cut="rst")),
    "another encoding": Turn(text="x", fault=Fault(headers={"content-encoding": "gzip"})),
    "no HTTP": Turn(fault=Fault(raw=b"SSH-2.0-OpenSSH_9.6\r\n\r\n")),
}


def fails(turn: Turn, api: Api, kind: str) -> str:
    """What one request to a server like this says."""

    async def main(endpoint: Endpoint) -> None:
        transport = DirectTransport(idle_s=0.5) if kind == "direct" else SdkTransport(endpoint, idle_s=0.5)
        provider = WireProvider(adapter_for(api), endpoint, transport)
        try:
            async for _ in provider.stream(request_of(endpoint)):
                pass
        finally:
            await provider.close()

    with serve([turn]) as server:
        with pytest.raises(ProviderError) as caught:
            asyncio.run(main(endpoint_of(server, api)))
        assert len(server.requests) == 1
    return f"{failure_of(caught.value)} after {caught.value.retry_after_s}"


@each_api
@pytest.mark.parametrize("name", FAULTS)
def test_both_transports_fail_in_the_same_way(name: str, api: Api) -> None:
    assert fails(FAULTS[name], api, "sdk") == fails(FAULTS[name], api, "direct")


@pytest.mark.parametrize(("api", "kind"), [(api, "direct") for api in APIS] + [("openai-chat", "sdk")])
def test_a_long_prefill_with_keepalives_is_no_stall(api: Api, kind: str) -> None:
    """No event for longer than the limit, but a sign of life now and then: what a local server sends while it reads a
    long prompt. The same silence without them is a stall (`silence before`, above)."""

    async def main(endpoint: Endpoint) -> str:
        transport = DirectTransport(idle_s=1.0) if kind == "direct" else SdkTransport(endpoint, idle_s=1.0)
        provider = WireProvider(adapter_for(api), endpoint, transport)
        try:
            return (await ask(provider, request_of(endpoint))).message.text
        finally:
            await provider.close()

    with serve([Turn(text="ok", keepalives=7, pause_s=0.2)]) as server:
        started = time.monotonic()
        assert asyncio.run(main(endpoint_of(server, api))) == "ok"
        assert time.monotonic() - started > 1.2


def spoken(server: Server, api: Api, kind: str, *, times: int = 1, **details: Any) -> list[Received]:
    async def main() -> None:
        endpoint = endpoint_of(server, api, **details)
        provider = provider_of(kind, endpoint)
        try:
            for _ in range(times):
                async for _ in provider.stream(request_of(endpoint)):
                    pass
        finally:
            await provider.close()

    asyncio.run(main())
    return server.requests


@each_api
@each_kind
def test_a_kept_connection_that_was_closed_is_replaced_at_once(kind: str, api: Api) -> None:
    with serve([Turn(text="x", fault=Fault(hangs_up=True)), Turn(text="y")]) as server:
        assert [request.connection for request in spoken(server, api, kind, times=2)] == [1, 2]


@each_api
@each_kind
def test_the_connection_is_used_again(kind: str, api: Api) -> None:
    with serve([Turn(text="x"), Turn(text="y")]) as server:
        assert [request.connection for request in spoken(server, api, kind, times=2)] == [1, 1]


AUTH: list[tuple[Api, str, str | None, dict[str, str | None]]] = [
    ("openai-chat", "bearer", "k", {"authorization": "Bearer k", "x-api-key": None}),
    ("openai-responses", "x-api-key", "k", {"authorization": None, "x-api-key": "k"}),
    ("openai-chat", "none", None, {"authorization": None, "x-api-key": None}),
    ("anthropic-messages", "x-api-key", "k", {"authorization": None, "x-api-key": "k"}),
    ("anthropic-messages", "bearer", "k", {"authorization": "Bearer k", "x-api-key": None}),
    ("anthropic-messages", "none", None, {"authorization": None, "x-api-key": None}),
]


@each_kind
@pytest.mark.parametrize(("api", "auth", "key", "expected"), AUTH)
def test_only_the_headers_of_the_profile_authenticate(
    api: Api, auth: str, key: str | None, expected: dict[str, str | None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "of-the-environment")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    profile = PROFILES["anthropic" if api == "anthropic-messages" else "compatible"].replace(auth=auth)
    unchecked = Fault(status=400, body="seen")
    with serve(rules=[lambda request: unchecked]) as server:
        with pytest.raises(ProviderError, match="seen"):
            spoken(server, api, kind, profile=profile, key=key)
        headers = server.requests[0].headers
    wanted = {**expected, "anthropic-version": profile.headers.get("anthropic-version")}
    assert {name: headers.get(name) for name in wanted} == wanted
    assert headers["user-agent"] == f"agentctl/{__version__}"
    assert headers["content-type"] == "application/json"


@each_kind
def test_the_list_of_models(kind: str) -> None:
    async def main(server: Server) -> list[str]:
        endpoint = endpoint_of(server, "openai-chat")
        transport = make_transport(kind, endpoint)
        try:
            return await list_models(endpoint, transport)
        finally:
            await transport.close()

    with serve(models=["b", "a"]) as server:
        assert asyncio.run(main(server)) == ["a", "b"]


@each_kind
def test_leaving_the_response_closes_the_connection(kind: str) -> None:
    async def main(server: Server) -> None:
        endpoint = endpoint_of(server, "openai-chat")
        transport = make_transport(kind, endpoint)
        body = WireProvider(adapter_for(endpoint.api), endpoint, transport).body(request_of(endpoint), Healing())
        asked = WireRequest(
            url=f"{endpoint.base_url}/chat/completions", headers={"authorization": "Bearer k"}, body=dumps(body)
        )
        async with transport.open(asked) as response:
            await anext(response.chunks)
        assert await asyncio.to_thread(server.requests[0].client_left.wait, 5)
        await transport.close()

    with serve([Turn(text="x", fault=Fault(cut_after=1, cut="stall"))]) as server:
        asyncio.run(main(server))
