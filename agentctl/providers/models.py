"""Which models an endpoint offers, asked of the endpoint itself."""

from __future__ import annotations

import asyncio

from agentctl.core.codec import loads
from agentctl.core.errors import ProviderError, Unavailable
from agentctl.providers.adapter import Endpoint
from agentctl.providers.failures import from_error, from_response
from agentctl.providers.make import adapter_for
from agentctl.providers.transport import Transport, WireRequest
from agentctl.providers.wire import with_query

LIST_S = 15.0
_BODY_LIMIT = 16 * 1024 * 1024


async def list_models(endpoint: Endpoint, transport: Transport) -> list[str]:
    """The ids of the models, sorted. Raises ProviderError, also after 15 s without the whole list, and for a cloud:
    what an account may ask there is no list of models."""
    if endpoint.cloud:
        raise ProviderError(f"{endpoint.vendor} lists no models at this address.", kind="not_found")
    path = "/v1/models?limit=1000" if endpoint.api == "anthropic-messages" else "/models"
    headers = {"accept": "application/json", **adapter_for(endpoint.api).headers(endpoint)}
    try:
        async with asyncio.timeout(LIST_S):
            url = with_query(endpoint, endpoint.base_url + path)
            return await _ask(WireRequest(method="GET", url=url, headers=headers), transport)
    except TimeoutError:
        raise Unavailable(
            f"{endpoint.base_url} did not list its models within {LIST_S:g} s.", hint="Try again later.", kind="timeout"
        ) from None


async def _ask(request: WireRequest, transport: Transport) -> list[str]:
    body = bytearray()
    async with transport.open(request) as response:
        async for chunk in response.chunks:
            body += chunk
            if len(body) > _BODY_LIMIT:
                raise ProviderError(f"The list of models is longer than {_BODY_LIMIT:,} bytes.", kind="protocol")
        if not 200 <= response.status < 300:
            raise from_response(response.status, response.headers, bytes(body))
    return _ids(bytes(body))


def _ids(body: bytes) -> list[str]:
    try:
        value = loads(body)
    except ValueError as error:
        raise ProviderError(
            "The list of models is not JSON.", hint="Check that the base URL points to a model API.", kind="protocol"
        ) from error
    rows = value.get("data") if isinstance(value, dict) else value
    if not isinstance(rows, list):
        raise from_error(value)
    return sorted({row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)})
