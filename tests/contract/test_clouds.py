"""Azure, Bedrock and Vertex, each through its official client against a local server that asks for what the cloud does.

The server checks keys, tokens and the AWS signature, refuses what belongs into the path, and packs Bedrock's events in
its own frames. What it got and what came back is compared with the direct request: Azure's own, and for the other two
the plain one of Anthropic, of which the clients make theirs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.codec import loads
from agentctl.core.errors import AuthError, ProviderError, StreamBroken, Unavailable, UsageError
from agentctl.core.record import Record
from agentctl.core.types import Api, JsonObject
from agentctl.providers.adapter import Endpoint
from agentctl.providers.clouds import CLOUDS
from agentctl.providers.gateway import Gateway
from agentctl.providers.make import make_transport
from agentctl.providers.presets import PRESETS
from agentctl.providers.select import select_model
from tests.contract.conversations import CONVERSATIONS, failure_of, play, provider_of
from tests.server import Call, Counts, Fault, Received, Server, Turn, serve
from tests.server.clouds import AWS_KEY_ID, AWS_SECRET, AWS_TOKEN, GOOGLE_TOKEN, exception_frame
from tests.unit.providers.provider_requests import ask, endpoint_of, request_of

AZURE = {"AZURE_OPENAI_API_KEY": "an-azure-key", "OPENAI_API_VERSION": "2026-10-01"}
AWS = {"AWS_ACCESS_KEY_ID": AWS_KEY_ID, "AWS_SECRET_ACCESS_KEY": AWS_SECRET, "AWS_REGION": "eu-test-1"}
GOOGLE = {"CLOUD_ML_REGION": "europe-west9", "ANTHROPIC_VERTEX_PROJECT_ID": "a-project"}


class Way(Record):
    """A cloud over one wire format: what its environment says, and the path that its server has to see."""

    cloud: str
    api: Api
    env: Mapping[str, str]
    path: str
    moved: frozenset[str] = frozenset()
    """Fields of the plain body that stand in the path."""


WAYS = {
    "azure chat": Way(
        cloud="azure",
        api="openai-chat",
        env=AZURE,
        path="/openai/deployments/model-1/chat/completions?api-version=2026-10-01",
    ),
    "azure responses": Way(
        cloud="azure", api="openai-responses", env=AZURE, path="/openai/responses?api-version=2026-10-01"
    ),
    "bedrock": Way(
        cloud="bedrock",
        api="anthropic-messages",
        env=AWS,
        path="/model/model-1/invoke-with-response-stream",
        moved=frozenset({"model", "stream"}),
    ),
    "vertex": Way(
        cloud="vertex",
        api="anthropic-messages",
        env=GOOGLE,
        path="/v1/projects/a-project/locations/europe-west9/publishers/anthropic/models/model-1:streamRawPredict",
        moved=frozenset({"model"}),
    ),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.fixture(scope="module")
def service_account(tmp_path_factory: pytest.TempPathFactory) -> JsonObject:
    """A credentials file of Google's form with a key of its own; where its token service is, the test says."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": "another-project",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "ci@a-project.iam.gserviceaccount.com",
        "client_id": "1",
    }


@pytest.fixture
def identity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, service_account: JsonObject
) -> Callable[[Way, Server], dict[str, str]]:
    """Puts into the environment what says who asks. The clients read it from there."""

    def set_up(way: Way, server: Server) -> dict[str, str]:
        env = {**way.env, "AWS_EC2_METADATA_DISABLED": "true"}
        if way.cloud == "vertex":
            file = tmp_path / "google.json"
            file.write_text(json.dumps({**service_account, "token_uri": f"{server.root_url}/token"}))
            env["GOOGLE_APPLICATION_CREDENTIALS"] = str(file)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return env

    return set_up


def token_service(request: Received) -> Fault | None:
    """What Google's answers to a signed assertion."""
    if request.path != "/token":
        return None
    assert b"assertion=ey" in request.raw
    return Fault(body={"access_token": GOOGLE_TOKEN, "expires_in": 3600, "token_type": "Bearer"})


def endpoint_for(way: Way, server: Server, env: Mapping[str, str]) -> Endpoint:
    root = server.root_url + ("/v1" if way.cloud == "vertex" else "")
    named = f"{way.cloud}/model-1"
    return select_model(model=named, model_origin="test", api=way.api, base_url=root, env=env)[1]


def plain_body(way: Way, raw: bytes) -> JsonObject:
    """A body without what a cloud moves or adds."""
    return {key: value for key, value in loads(raw).items() if key not in (*way.moved, "anthropic_version")}


@each_way
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_client_sends_and_hears_what_the_direct_request_does(
    name: str, way: Way, identity: Callable[[Way, Server], dict[str, str]]
) -> None:
    conversation = CONVERSATIONS[name]
    seen = play(conversation, lambda server: endpoint_for(way, server, identity(way, server)), "sdk", (token_service,))
    if CLOUDS[way.cloud].is_direct:
        direct = play(conversation, lambda server: endpoint_for(way, server, identity(way, server)), "direct")
        assert direct.paths == seen.paths
    else:
        direct = play(conversation, lambda server: endpoint_of(server, way.api), "direct")
    assert {*seen.paths} == {way.path}
    assert [plain_body(way, raw) for raw in seen.bodies] == [plain_body(way, raw) for raw in direct.bodies]
    assert seen.answers == direct.answers
    assert len(seen.bodies) == len(seen.answers) == len(conversation.says)


def test_every_cloud_that_is_listed_has_such_a_run() -> None:
    assert {preset.cloud for preset in PRESETS.values() if preset.cloud} == {way.cloud for way in WAYS.values()}
    assert {way.cloud for way in WAYS.values()} == set(CLOUDS)


# --- who asks -------------------------------------------------------------------------------------------------------


def one_request(way: Way, kind: str, identity: Any, **more: str) -> Received:
    with serve([Turn(text="ok")], rules=[token_service]) as server:
        env = {**identity(way.replace(env={**way.env, **more}), server)}
        env = {name: value for name, value in env.items() if value}

        async def main() -> None:
            provider = provider_of(kind, endpoint := endpoint_for(way, server, env))
            assert (await ask(provider, request_of(endpoint))).message.text == "ok"
            await provider.close()

        asyncio.run(main())
        assert server.refusals == []
        return server.requests[-1]


@pytest.mark.parametrize("kind", ["direct", "sdk"])
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {"api-key": "an-azure-key", "authorization": None}),
        ({"AZURE_OPENAI_AD_TOKEN": "an-ad-token"}, {"api-key": None, "authorization": "Bearer an-ad-token"}),
    ],
    ids=["key", "token"],
)
def test_azure_takes_a_key_or_a_token(
    more: dict[str, str], expected: dict[str, str | None], kind: str, identity: Any
) -> None:
    headers = one_request(WAYS["azure chat"], kind, identity, **more).headers
    assert {name: headers.get(name) for name in expected} == expected


@pytest.mark.parametrize("kind", ["direct", "sdk"])
@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ("none", {"api-key": None, "authorization": None, "x-api-key": None}),
        ("x-api-key", {"api-key": None, "authorization": None, "x-api-key": "an-azure-key"}),
        ("bearer", {"api-key": None, "authorization": "Bearer an-azure-key", "x-api-key": None}),
    ],
)
def test_a_gateway_to_azure_may_want_the_key_elsewhere(
    auth: str, expected: dict[str, str | None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AZURE.items():
        monkeypatch.setenv(name, value)

    async def main(server: Server) -> None:
        _, endpoint = select_model(
            model="azure/m", model_origin="test", base_url=server.root_url, env=AZURE, gateway=Gateway(auth=auth)
        )
        provider = provider_of(kind, endpoint)
        with pytest.raises(ProviderError, match="seen"):
            await ask(provider, request_of(endpoint))
        await provider.close()

    with serve(rules=[lambda request: Fault(status=400, body="seen")]) as server:
        asyncio.run(main(server))
        headers = server.requests[0].headers
    assert {name: headers.get(name) for name in expected} == expected


@pytest.mark.parametrize("kind", ["direct", "sdk"])
def test_the_newer_address_of_azure_needs_no_version(kind: str) -> None:
    with serve([Turn(text="ok")]) as server:

        async def main() -> None:
            _, endpoint = select_model(
                model="azure/model-1",
                model_origin="test",
                base_url=f"{server.root_url}/openai/v1/",
                env={"AZURE_OPENAI_API_KEY": "an-azure-key"},
            )
            provider = provider_of(kind, endpoint)
            assert (await ask(provider, request_of(endpoint))).message.text == "ok"
            await provider.close()

        asyncio.run(main())
        request = server.requests[0]
    assert (request.path.partition("?")[0], request.body["model"]) == ("/openai/v1/chat/completions", "model-1")
    assert (request.headers["api-key"], request.headers.get("authorization")) == ("an-azure-key", None)


def test_bedrock_signs_with_the_keys_of_the_environment(identity: Any) -> None:
    headers = one_request(WAYS["bedrock"], "sdk", identity).headers
    assert headers["authorization"].startswith(f"AWS4-HMAC-SHA256 Credential={AWS_KEY_ID}/")
    assert "/eu-test-1/bedrock/aws4_request" in headers["authorization"]
    assert AWS_SECRET not in str(headers)


def test_bedrock_takes_a_bearer_token(identity: Any) -> None:
    headers = one_request(WAYS["bedrock"], "sdk", identity, AWS_BEARER_TOKEN_BEDROCK=AWS_TOKEN).headers
    assert headers["authorization"] == f"Bearer {AWS_TOKEN}"


def test_vertex_fetches_a_token_once(identity: Any) -> None:
    with serve([Turn(text="one"), Turn(text="two")], rules=[token_service]) as server:

        async def main() -> None:
            endpoint = endpoint_for(WAYS["vertex"], server, identity(WAYS["vertex"], server))
            provider = provider_of("sdk", endpoint)
            for text in ("one", "two"):
                assert (await ask(provider, request_of(endpoint))).message.text == text
            await provider.close()

        asyncio.run(main())
        assert [request.path == "/token" for request in server.requests] == [True, False, False]


# --- what goes wrong ------------------------------------------------------------------------------------------------


def failed(way: Way, turn: Turn, identity: Any, *, rule: Any = token_service, **more: str) -> ProviderError:
    async def main(server: Server) -> None:
        env = identity(way.replace(env={**way.env, **more}), server)
        endpoint = endpoint_for(way, server, {name: value for name, value in env.items() if value})
        provider = provider_of("sdk", endpoint)
        try:
            await ask(provider, request_of(endpoint))
        finally:
            await provider.close()

    with serve([turn], rules=[rule]) as server, pytest.raises(ProviderError) as caught:
        asyncio.run(main(server))
    return caught.value


@pytest.mark.parametrize(
    ("exception", "error", "kind"),
    [
        ("throttlingException", Unavailable, "rate_limit"),
        ("serviceUnavailableException", Unavailable, "overloaded"),
        ("modelTimeoutException", Unavailable, "unavailable"),
        ("internalServerException", Unavailable, "unavailable"),
        ("modelStreamErrorException", Unavailable, "unavailable"),
        ("validationException", ProviderError, "bad_request"),
    ],
)
def test_an_exception_inside_the_stream_of_bedrock(
    exception: str, error: type[ProviderError], kind: str, identity: Any
) -> None:
    fault = Fault(insert_after=2, insert=exception_frame(exception, "no more of this"))
    raised = failed(WAYS["bedrock"], Turn(text="half", usage=Counts(input=70), fault=fault), identity)
    assert (type(raised), raised.kind) == (error, kind)
    assert "no more of this" in raised.message
    assert raised.usage is not None
    assert raised.usage.input == 70


def test_a_frame_that_is_damaged_is_a_broken_stream(identity: Any) -> None:
    frame = bytearray(exception_frame("throttlingException", "x"))
    frame[-1] ^= 1
    raised = failed(WAYS["bedrock"], Turn(text="x", fault=Fault(insert_after=1, insert=bytes(frame))), identity)
    assert isinstance(raised, StreamBroken)
    assert "cannot be unpacked" in raised.message


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_frame_that_is_cut_is_a_broken_stream(cut: int, identity: Any) -> None:
    turn = Turn(calls=[Call("bash", {"command": "ls"})], fault=Fault(cut_bytes=900 + cut))
    assert isinstance(failed(WAYS["bedrock"], turn, identity), StreamBroken)


@each_way
def test_a_rejection_in_the_words_of_the_cloud(way: Way, identity: Any) -> None:
    def rule(request: Received) -> Fault | None:
        return token_service(request) or Fault(status=403, body={"message": "You may not ask this model."})

    raised = failed(way, Turn(), identity, rule=rule)
    assert (type(raised), raised.status) == (AuthError, 403)
    assert "You may not ask this model." in raised.message


def test_nobody_knows_who_asks_bedrock(identity: Any) -> None:
    raised = failed(
        WAYS["bedrock"],
        Turn(text="x"),
        identity,
        AWS_ACCESS_KEY_ID="",
        AWS_SECRET_ACCESS_KEY="",
        AWS_REGION="eu-test-2",
        AWS_CONFIG_FILE="/nowhere",
        AWS_SHARED_CREDENTIALS_FILE="/nowhere",
    )
    assert (type(raised), raised.kind) == (AuthError, "no_key")
    assert raised.message == "There is no identity for bedrock: Could not resolve AWS credentials from session."
    assert "AWS_BEARER_TOKEN_BEDROCK" in raised.hint


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (400, AuthError, "There is no identity for vertex: invalid_grant: Bad."),
        (503, Unavailable, "The identity for vertex could not be fetched: invalid_grant: Bad."),
    ],
)
def test_nobody_gives_a_token_for_vertex(status: int, error: type[ProviderError], text: str, identity: Any) -> None:
    answer = Fault(status=status, body={"error": "invalid_grant", "error_description": "Bad."})
    raised = failed(WAYS["vertex"], Turn(text="x"), identity, rule=lambda request: answer)
    assert type(raised) is error
    assert raised.message == text


@pytest.mark.parametrize(
    ("cloud", "env", "message"),
    [
        ("azure", {"OPENAI_API_VERSION": "1"}, "No key for azure; looked for AGENTCTL_API_KEY, AZURE_OPENAI_AD_TOKEN"),
        ("azure", AZURE, "azure has no address of its own; looked for AZURE_OPENAI_ENDPOINT."),
        (
            "azure",
            {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com"},
            "azure needs an API version; looked for OPENAI_API_VERSION.",
        ),
        ("bedrock", {}, "bedrock needs a region; looked for AWS_REGION, AWS_DEFAULT_REGION."),
        ("vertex", {"CLOUD_ML_REGION": "global"}, "vertex needs a project; looked for ANTHROPIC_VERTEX_PROJECT_ID"),
    ],
)
def test_what_the_environment_does_not_say(cloud: str, env: dict[str, str], message: str) -> None:
    with pytest.raises((UsageError, AuthError)) as caught:
        select_model(model=f"{cloud}/m", model_origin="test", env=env)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("cloud", "env", "base_url"),
    [
        (
            "azure",
            {**AZURE, "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"},
            "https://r.openai.azure.com/openai",
        ),
        ("bedrock", {"AWS_DEFAULT_REGION": "us-east-1"}, "https://bedrock-runtime.us-east-1.amazonaws.com"),
        ("vertex", GOOGLE, "https://europe-west9-aiplatform.googleapis.com/v1"),
        ("vertex", {**GOOGLE, "CLOUD_ML_REGION": "global"}, "https://aiplatform.googleapis.com/v1"),
        ("vertex", {**GOOGLE, "CLOUD_ML_REGION": "eu"}, "https://aiplatform.eu.rep.googleapis.com/v1"),
        ("vertex", {**GOOGLE, "ANTHROPIC_VERTEX_BASE_URL": "https://gw/v/v1/"}, "https://gw/v/v1"),
    ],
)
def test_the_addresses_are_those_of_the_clients(
    cloud: str, env: dict[str, str], base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by the client itself from the same environment, they are the same."""
    _, endpoint = select_model(model=f"{cloud}/m", model_origin="test", env=env)
    assert endpoint.base_url == base_url
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    import anthropic
    import openai

    makers: dict[str, Callable[[], Any]] = {
        "azure": openai.AzureOpenAI,
        "bedrock": anthropic.AnthropicBedrock,
        "vertex": anthropic.AnthropicVertex,
    }
    with makers[cloud]() as client:
        assert str(client.base_url).rstrip("/") == base_url


def test_direct_cannot_reach_what_only_a_client_does() -> None:
    _, endpoint = select_model(model="bedrock/m", model_origin="test", env=AWS)
    with pytest.raises(UsageError, match="--transport direct cannot reach bedrock"):
        make_transport("direct", endpoint)
    assert type(make_transport("direct", endpoint, is_chosen=False)).__name__ == "SdkTransport"


@pytest.mark.parametrize(
    ("cloud", "env", "module", "extra"),
    [("bedrock", AWS, "boto3", "bedrock"), ("vertex", GOOGLE, "google.auth", "vertex")],
)
def test_a_client_that_is_not_installed(
    cloud: str, env: dict[str, str], module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, endpoint = select_model(model=f"{cloud}/m", model_origin="test", env=env)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not there
    with pytest.raises(UsageError) as caught:
        make_transport("direct", endpoint, is_chosen=False)
    assert caught.value.message == f"{cloud} needs the package {module.partition('.')[0]!r}, which is not installed."
    assert f"pip install '.[{extra}]'" in caught.value.hint


def test_failures_leave_no_secret_behind(identity: Any) -> None:
    raised = failed(WAYS["bedrock"], Turn(fault=Fault(status=500, body="x")), identity)
    assert AWS_SECRET not in failure_of(raised)
