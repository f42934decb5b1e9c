"""The models of a run and the Provider that asks them: --model or what stands for it, --price, --fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.config.settings import BUILT_IN, Settings
from agentctl.core.errors import UsageError
from agentctl.core.ports import Clock, Provider
from agentctl.core.types import ModelInfo
from agentctl.providers.adapter import Endpoint
from agentctl.state.journal import SavedSession

if TYPE_CHECKING:
    from agentctl.providers.gateway import Gateway
    from agentctl.providers.transport import Transport


def run_model(
    settings: Settings, saved: SavedSession | None, env: Mapping[str, str], clock: Clock, cwd: Path, *, is_demo: bool
) -> tuple[ModelInfo, Provider]:
    """The model that is asked first, and the Provider of the run. Opens no connection.

    Raises UsageError and AuthError also for a fallback that could not be asked when its turn comes.
    """
    model, endpoint = _selected(settings, saved, env, is_demo=is_demo)
    if settings.price is not None:
        model = model.replace(price=settings.price)
    fallbacks = [] if is_demo else _fallbacks(settings, model, env)
    _check_prices(settings, [model, *(other for other, _ in fallbacks)])
    first = _provider(model, endpoint, settings, clock, cwd)
    if is_demo:
        model = model.replace(name="demo")
    if not fallbacks:
        return model, first
    from agentctl.providers.fallback import ModelFallback  # most runs name none

    others = [(other, _provider(other, where, settings, clock, cwd)) for other, where in fallbacks]
    return model, ModelFallback(first, others)


def _selected(
    settings: Settings, saved: SavedSession | None, env: Mapping[str, str], *, is_demo: bool
) -> tuple[ModelInfo, Endpoint]:
    from agentctl.providers.scripted import DEMO
    from agentctl.providers.select import select_model

    named, origin = settings.model, settings.origins["model"]
    if is_demo:
        named, origin = f"scripted/{DEMO}", "agentctl demo"
    elif saved is not None and saved.model and named is None:
        named, origin = saved.model, "session"
    if settings.replay is not None:
        from agentctl.providers.clouds import for_nobody

        env = for_nobody(env)
    return select_model(
        model=named,
        model_origin=origin,
        api=settings.api,
        base_url=settings.base_url,
        env=env,
        max_context=settings.max_context,
        gateway=gateway_of(settings),
    )


def _fallbacks(settings: Settings, model: ModelInfo, env: Mapping[str, str]) -> list[tuple[ModelInfo, Endpoint]]:
    if not settings.fallback:
        return []
    from agentctl.providers.select import select_fallback

    return [
        select_fallback(
            name,
            first=model,
            api=settings.api,
            base_url=settings.base_url,
            env=env,
            max_context=settings.max_context,
            gateway=gateway_of(settings),
        )
        for name in settings.fallback
    ]


def _check_prices(settings: Settings, models: Iterable[ModelInfo]) -> None:
    unpriced = next((model for model in models if model.price is None), None)
    if settings.max_cost is not None and unpriced is not None:
        raise UsageError(
            f"--max-cost {settings.max_cost:g}: the price of {unpriced.vendor}/{unpriced.name} is not known",
            hint="Use --max-tokens, say the price of --model with --price IN,OUT, or name a model that "
            "`agentctl models` lists with a price.",
        )


def _provider(model: ModelInfo, endpoint: Endpoint, settings: Settings, clock: Clock, cwd: Path) -> Provider:
    if model.vendor == "scripted":
        from agentctl.providers.scripted import ScriptedModel

        return ScriptedModel.load(cwd / model.name)
    from agentctl.providers.make import make_provider  # a scripted model needs no HTTP

    return make_provider(endpoint, clock, transport_of(settings, endpoint))


def transport_of(settings: Settings, endpoint: Endpoint) -> Transport:
    """What carries the requests to an endpoint: --transport, --proxy, --ca-file."""
    from agentctl.providers.make import make_transport
    from agentctl.providers.network import Network

    if settings.replay is not None:
        return make_transport("direct", endpoint.replace(cloud=""))  # nobody is asked
    network = Network(proxy=settings.proxy, ca_file=settings.ca_file)
    is_chosen = settings.origins["transport"] != BUILT_IN
    return make_transport(settings.transport, endpoint, network=network, is_chosen=is_chosen)


def gateway_of(settings: Settings) -> Gateway:
    """--header, --auth, --api-version, --organization."""
    from agentctl.providers.gateway import Gateway

    if settings.replay is not None:
        return Gateway()  # nobody is asked
    return Gateway(
        headers=settings.header,
        auth=settings.auth,
        api_version=settings.api_version,
        organization=settings.organization,
    )
