"""Puts a Provider together: an adapter on a transport, and around it what makes it hold.

From the outside in: Retrying (waits and asks again; one budget for all that happens inside a model call), then
EndpointFallback (another wire format of the same service), then for each wire format SelfHealing (a changed request)
around WireProvider. So a request that only needed a change never changes the endpoint, a wrong endpoint is never
waited for, and each wire format learns its own changes.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from agentctl.core.errors import UsageError
from agentctl.core.ports import Clock, Provider
from agentctl.core.types import Api
from agentctl.providers.adapter import Adapter, Endpoint
from agentctl.providers.network import DIRECT_NETWORK, Network
from agentctl.providers.resilience import EndpointFallback, Retrying, SelfHealing
from agentctl.providers.transport import DirectTransport, Transport
from agentctl.providers.wire import WireProvider

if TYPE_CHECKING:
    from collections.abc import Callable

_ADAPTERS: dict[Api, tuple[str, str]] = {
    "openai-chat": ("openai_chat", "OpenAIChat"),
    "openai-responses": ("openai_responses", "OpenAIResponses"),
    "anthropic-messages": ("anthropic_messages", "AnthropicMessages"),
}
"""Module and class. A run needs one of them, so they are imported by name when it is known which."""


def make_provider(endpoint: Endpoint, clock: Clock, transport: Transport | None = None) -> Provider:
    """The Provider of a run. Opens nothing before the first request; closing it closes the transport."""
    carrier = transport or DirectTransport()
    siblings: list[tuple[Api, Callable[[], Provider]]] = [
        (api, partial(_single, _sibling(endpoint, api), carrier)) for api in endpoint.profile.endpoint_fallback
    ]
    first = _single(endpoint, carrier, leaves_endpoint=bool(siblings))
    return Retrying(EndpointFallback(first, siblings) if siblings else first, clock)


def make_transport(
    kind: str, endpoint: Endpoint, *, network: Network = DIRECT_NETWORK, is_chosen: bool = True
) -> Transport:
    """`direct` or `sdk`, as --transport says; where nobody chose, `sdk` for what only an official client reaches.

    Raises UsageError when that client is not installed, or when `direct` was chosen and cannot be.
    """
    if kind == "direct" and _needs_client(endpoint):
        if is_chosen:
            raise UsageError(
                f"--transport direct cannot reach {endpoint.vendor}: only its official client has its identity.",
                hint="Leave --transport out.",
            )
        kind = "sdk"
    if kind == "direct":
        return DirectTransport(network=network)
    from agentctl.providers.sdk_transport import SdkTransport  # only runs that ask for it

    return SdkTransport(endpoint, network=network)


def _needs_client(endpoint: Endpoint) -> bool:
    if not endpoint.cloud:
        return False
    from agentctl.providers.clouds import CLOUDS  # few runs ask a cloud

    return not CLOUDS[endpoint.cloud].is_direct


def adapter_for(api: Api) -> Adapter:
    """The adapter of a wire format."""
    module, name = _ADAPTERS[api]
    adapter: Adapter = getattr(import_module(f"agentctl.providers.{module}"), name)()
    return adapter


def _single(endpoint: Endpoint, transport: Transport, *, leaves_endpoint: bool = False) -> Provider:
    wire = WireProvider(adapter_for(endpoint.api), endpoint, transport)
    return SelfHealing(wire, leaves_endpoint=leaves_endpoint)


def _sibling(endpoint: Endpoint, api: Api) -> Endpoint:
    """The same service over another wire format."""
    return endpoint.replace(api=api, profile=endpoint.profile.replace(endpoint_fallback=()))
