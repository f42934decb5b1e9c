"""The three services of the local server as models and real Providers, for turns that cross a socket."""

from __future__ import annotations

from agentctl.core.ports import Provider
from agentctl.core.types import Api, ModelInfo
from agentctl.providers.adapter import Endpoint
from agentctl.providers.make import make_provider
from agentctl.providers.profiles import PROFILES
from tests.fakes import FakeClock
from tests.server import Server

APIS: tuple[Api, ...] = ("openai-chat", "openai-responses", "anthropic-messages")


def model_of(api: Api, base_url: str = "http://127.0.0.1:1") -> ModelInfo:
    vendor, name = ("anthropic", "claude-test") if api == "anthropic-messages" else ("openai", "gpt-5")
    return ModelInfo(
        vendor=vendor, name=name, api=api, base_url=base_url, origin="test", profile=vendor, max_output=4000
    )


def endpoint_of(model: ModelInfo) -> Endpoint:
    profile = PROFILES[model.profile].replace(endpoint_fallback=())
    return Endpoint(vendor=model.vendor, api=model.api, base_url=model.base_url, key="sk-test", profile=profile)


def served_by(server: Server, api: Api) -> tuple[ModelInfo, Provider]:
    """The model and the Provider that asks it, with retries that wait for nothing."""
    model = model_of(api, server.root_url if api == "anthropic-messages" else server.base_url)
    return model, make_provider(endpoint_of(model), FakeClock())
