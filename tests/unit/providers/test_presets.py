"""The table of vendors is complete, and what it points at exists."""

from __future__ import annotations

import pytest

from agentctl.providers import catalog
from agentctl.providers.base_url import is_local, normal_base_url
from agentctl.providers.clouds import CLOUDS
from agentctl.providers.presets import PRESETS, VENDORS, Preset
from agentctl.providers.profiles import PROFILES

ALL = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)


def test_vendors_in_the_order_of_detection() -> None:
    assert VENDORS == (
        "anthropic",
        "openai",
        "openrouter",
        "groq",
        "deepseek",
        "xai",
        "mistral",
        "gemini",
        "azure",
        "bedrock",
        "vertex",
        "ollama",
        "lmstudio",
        "llamacpp",
        "vllm",
        "scripted",
    )


@ALL
def test_has_a_profile(preset: Preset) -> None:
    assert preset.profile in PROFILES
    assert not preset.cloud or preset.cloud in CLOUDS


@ALL
def test_base_url_is_in_the_form_that_adapters_need(preset: Preset) -> None:
    if preset.cloud:
        assert preset.base_url.startswith("https://") or preset.base_url_variable
        return
    assert normal_base_url(preset.base_url, preset.api, preset.vendor) == preset.base_url
    assert is_local(preset.base_url) == preset.is_keyless
    assert preset.base_url.startswith("http://localhost:" if preset.is_keyless else "https://")


@ALL
def test_hosted_vendors_have_a_key_variable_and_a_default_model_that_is_known(preset: Preset) -> None:
    if preset.is_keyless or preset.cloud:
        assert preset.model == ""
        return
    entry = catalog.look_up(preset.vendor, preset.model)
    assert preset.key_variables
    assert entry.price is not None
    assert entry.window is not None
    assert entry.window >= 100_000


def test_no_two_vendors_share_a_variable() -> None:
    variables = [
        name for preset in PRESETS.values() for name in (*preset.key_variables, preset.base_url_variable) if name
    ]
    assert all(set(preset.key_auth) <= set(preset.key_variables) for preset in PRESETS.values())
    assert len(variables) == len(set(variables))
