"""The models of a vendor, for `agentctl models`: asked of its service when there is a key, else from the catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agentctl.config.settings import Settings
from agentctl.core.errors import AgentctlError, AuthError
from agentctl.core.record import as_dict
from agentctl.core.types import JsonObject
from agentctl.providers import catalog
from agentctl.providers.presets import PRESETS
from agentctl.providers.select import select_model
from agentctl.runner.provider import gateway_of, transport_of
from agentctl.runner.secrets import redactor_of


def listed_models(settings: Settings, env: Mapping[str, str]) -> JsonObject:
    """`{vendor, source: service|catalogue, why, models[{name, window, max_output, price}]}`."""
    vendor, names, why = _names(settings, env)
    source = "catalogue" if why else "service"
    return {
        "vendor": vendor,
        "source": source,
        "why": why,
        "catalogue": catalog.about(),
        "models": [_row(vendor, name) for name in names],
    }


def _names(settings: Settings, env: Mapping[str, str]) -> tuple[str, list[str], str]:
    """The vendor, its models, and why they are not the service's own list."""
    vendor = (settings.model or "").partition("/")[0]
    try:
        model, endpoint = select_model(
            model=settings.model,
            model_origin=settings.origins["model"],
            api=settings.api,
            base_url=settings.base_url,
            env=env,
            max_context=None,
            gateway=gateway_of(settings),
        )
    except AuthError as error:
        vendor = vendor or next(iter(PRESETS))
        return vendor, sorted(catalog.names(vendor)), error.message
    from agentctl.providers.models import list_models

    async def ask() -> list[str]:
        transport = transport_of(settings, endpoint)
        try:
            return await list_models(endpoint, transport)
        finally:
            await transport.close()

    try:
        return model.vendor, asyncio.run(ask()), ""
    except AgentctlError as error:
        why = redactor_of(settings, env).text(error.message)
        return model.vendor, sorted(catalog.names(model.vendor)), why


def _row(vendor: str, name: str) -> JsonObject:
    entry = catalog.look_up(vendor, name)
    return {
        "name": f"{vendor}/{name}",
        "window": entry.window,
        "max_output": entry.max_output,
        "price": None if entry.price is None else as_dict(entry.price),
    }
