"""The list of models as an endpoint gives it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentctl.core.errors import AuthError, ProviderError
from agentctl.core.types import Api
from agentctl.providers.models import list_models
from agentctl.providers.transport import DirectTransport
from tests.server import Fault, Server, serve
from tests.unit.providers.provider_requests import APIS, endpoint_of


def models_of(server: Server, api: Api = "openai-chat") -> list[str]:
    async def main() -> list[str]:
        transport = DirectTransport()
        try:
            return await list_models(endpoint_of(server, api), transport)
        finally:
            await transport.close()

    return asyncio.run(main())


@pytest.mark.parametrize("api", APIS)
def test_ids_are_sorted_and_the_key_is_sent(api: Api) -> None:
    with serve(models=["b", "a"]) as server:
        assert models_of(server, api) == ["a", "b"]
        headers = server.requests[0].headers
    sent = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    assert sent == "key-1"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(status=401, body={"error": "bad key"}), AuthError),
        (Fault(status=404, body="not found"), ProviderError),
        (Fault(body="<html>"), ProviderError),
        (Fault(body={"error": {"message": "no"}}), ProviderError),
        (Fault(body={"data": None}), ProviderError),
    ],
    ids=["key", "nothing there", "no JSON", "error", "no list"],
)
def test_what_is_no_list_is_an_error(fault: Fault, error: type[Exception]) -> None:
    with serve(rules=[lambda request: fault]) as server, pytest.raises(error):
        models_of(server)


@pytest.mark.parametrize("body", [[{"id": "x"}], {"data": [{"id": "x"}, {"id": None}, "y", {}]}], ids=["list", "odd"])
def test_other_forms_of_the_list(body: Any) -> None:
    with serve(rules=[lambda request: Fault(body=body)]) as server:
        assert models_of(server) == ["x"]
