"""From --model, --api, --base-url and the environment to a model and its endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from agentctl.core.errors import AgentctlError, AuthError, UsageError
from agentctl.core.types import ModelInfo, Price
from agentctl.providers.adapter import Endpoint
from agentctl.providers.presets import PRESETS
from agentctl.providers.profiles import PROFILES
from agentctl.providers.select import select_model

OPENAI = {"OPENAI_API_KEY": "sk-openai"}
ANTHROPIC = {"ANTHROPIC_API_KEY": "sk-ant"}
FREE = Price(input=0, output=0)
ALL_VENDORS = (
    "Write vendor/model; vendors: anthropic, openai, openrouter, groq, deepseek, xai, mistral, gemini, azure, "
    "bedrock, vertex, ollama, lmstudio, llamacpp, vllm, scripted."
)


def chosen(model: str | None = None, **options: Any) -> tuple[ModelInfo, Endpoint]:
    return select_model(model=model, model_origin="flag", **{"env": {}, **options})


def refusal(model: str | None = None, **options: Any) -> AgentctlError:
    with pytest.raises(AgentctlError) as caught:
        chosen(model, **options)
    return caught.value


def test_openai_at_home_falls_back_to_responses() -> None:
    info, endpoint = chosen("openai/gpt-5", env=OPENAI)
    assert info == ModelInfo(
        vendor="openai",
        name="gpt-5",
        api="openai-chat",
        base_url="https://api.openai.com/v1",
        origin="flag",
        profile="openai",
        window=272_000,
        max_output=128_000,
        price=Price(input=1.25, output=10, cache_read=0.125),
        images=True,
        reasoning=True,
    )
    assert endpoint == Endpoint(
        vendor="openai",
        api="openai-chat",
        base_url="https://api.openai.com/v1",
        key="sk-openai",
        profile=PROFILES["openai"],
    )
    assert endpoint.profile.endpoint_fallback == ("openai-responses",)


@pytest.mark.parametrize(
    "options", [{"base_url": "http://127.0.0.1:9/v1"}, {"api": "openai-chat"}, {"api": "openai-responses"}]
)
def test_elsewhere_and_on_request_openai_has_no_fallback(options: dict[str, str]) -> None:
    info, endpoint = chosen("openai/gpt-5", env=OPENAI, **options)
    assert endpoint.profile == PROFILES["openai"].replace(endpoint_fallback=())
    assert info.api == endpoint.api == options.get("api", "openai-chat")
    assert info.base_url == endpoint.base_url == options.get("base_url", "https://api.openai.com/v1")
    assert info.price is not None


def test_anthropic_speaks_messages_and_takes_a_trailing_v1() -> None:
    info, endpoint = chosen("anthropic/claude-sim", env=ANTHROPIC, base_url="http://127.0.0.1:9/v1")
    assert (info.api, info.base_url, info.profile) == ("anthropic-messages", "http://127.0.0.1:9", "anthropic")
    assert (info.window, info.price, info.images) == (None, None, None)
    assert endpoint.profile == PROFILES["anthropic"]


@pytest.mark.parametrize(
    ("model", "api", "base_url", "profile"),
    [
        ("anthropic/x", "openai-chat", "https://api.anthropic.com/v1", "compatible"),
        ("deepseek/x", "anthropic-messages", "https://api.deepseek.com", "anthropic"),
        ("groq/x", "openai-responses", "https://api.groq.com/openai/v1", "groq"),
    ],
)
def test_another_format_than_the_vendors_own(model: str, api: str, base_url: str, profile: str) -> None:
    info, _ = chosen(model, api=api, env={"AGENTCTL_API_KEY": "k"})
    assert (info.api, info.base_url, info.profile) == (api, base_url, profile)


def test_a_name_keeps_its_slashes() -> None:
    info, _ = chosen("openrouter/anthropic/claude-sonnet-4.5", env={"OPENROUTER_API_KEY": "k"})
    assert (info.vendor, info.name, info.window) == ("openrouter", "anthropic/claude-sonnet-4.5", 1_000_000)


def test_space_around_a_model_does_not_matter() -> None:
    assert chosen(" openai/gpt-5\n", env=OPENAI) == chosen("openai/gpt-5", env=OPENAI)
    assert chosen(" scripted/a.json") == chosen("scripted/a.json")


def test_max_context_stands_for_the_window() -> None:
    assert chosen("openai/gpt-5", env=OPENAI, max_context=9_000)[0].window == 9_000


# --- detection ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "preset", [preset for preset in PRESETS.values() if preset.is_detected], ids=lambda preset: preset.vendor
)
def test_a_key_in_the_environment_chooses_its_vendor(preset: Any) -> None:
    for variable in preset.key_variables:
        info, endpoint = chosen(None, env={variable: "k", "PATH": "/bin"})
        assert (info.vendor, info.name, info.origin) == (preset.vendor, preset.model, f"environment: {variable}")
        assert (endpoint.key, endpoint.base_url) == ("k", preset.base_url)


def test_the_first_vendor_in_order_is_taken() -> None:
    env = {"GROQ_API_KEY": "g", **OPENAI, "ANTHROPIC_API_KEY": " "}
    assert chosen(None, env=env)[0].vendor == "openai"


def test_a_detected_vendor_keeps_its_own_key() -> None:
    _, endpoint = chosen(None, env={**OPENAI, "AGENTCTL_API_KEY": "any"})
    assert endpoint.key == "sk-openai"


def test_a_key_for_any_vendor_does_not_choose_one() -> None:
    error = refusal(None, env={"AGENTCTL_API_KEY": "any"})
    assert isinstance(error, UsageError)
    assert "--model vendor/model" in error.hint


def test_without_any_key_the_variables_are_listed() -> None:
    error = refusal(None, env={"OLLAMA_API_KEY": "k", "OPENAI_API_KEY": ""})
    assert isinstance(error, AuthError)
    assert error.message == (
        "No model is named and no key is in the environment; looked for ANTHROPIC_API_KEY, "
        "ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY, OPENROUTER_API_KEY, GROQ_API_KEY, DEEPSEEK_API_KEY, XAI_API_KEY, "
        "MISTRAL_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY."
    )


# --- keys -----------------------------------------------------------------------------------------------------------


def test_the_key_for_any_vendor_goes_first() -> None:
    assert chosen("openai/x", env={**OPENAI, "AGENTCTL_API_KEY": "any\n"})[1].key == "any"
    assert chosen("gemini/x", env={"GOOGLE_API_KEY": "two"})[1].key == "two"


def test_a_hosted_vendor_needs_a_key_also_on_this_machine() -> None:
    error = refusal("openai/gpt-5", base_url="http://127.0.0.1:9/v1", env={"OPENAI_API_KEY": "  "})
    assert isinstance(error, AuthError)
    assert error.message == (
        "No key for openai; looked for AGENTCTL_API_KEY, OPENAI_API_KEY. Set but empty: OPENAI_API_KEY."
    )
    assert error.hint == "Set OPENAI_API_KEY in the environment of the run; no flag takes a key."


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("sk-se\ncret", "a space or a control character"),
        ("sk se-cret", "a space or a control character"),
        ("sk-\x7fsecret", "a space or a control character"),
        ("sk-sécret", "a character outside ASCII"),
        ("“sk-secret”", "a character outside ASCII"),
    ],
)
def test_a_key_that_no_header_can_carry(key: str, kind: str) -> None:
    for model in ("openai/gpt-5", None):
        error = refusal(model, env={"OPENAI_API_KEY": key})
        assert isinstance(error, AuthError)
        assert error.message == f"The key in OPENAI_API_KEY contains {kind}."
        assert "cret" not in error.hint


def test_no_key_shows_in_a_repr() -> None:
    assert "sk-openai" not in repr(chosen("openai/gpt-5", env=OPENAI))


# --- local servers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", ["ollama", "lmstudio", "llamacpp", "vllm"])
def test_local_servers_need_no_key_and_cost_nothing(vendor: str) -> None:
    info, endpoint = chosen(f"{vendor}/qwen", env=OPENAI)
    assert (info.price, info.window, info.base_url) == (FREE, None, PRESETS[vendor].base_url)
    assert endpoint.key is None


@pytest.mark.parametrize(
    ("base_url", "key", "price"),
    [
        ("http://localhost:9/v1", "k", FREE),
        ("http://gpu-box:9/v1", "k", FREE),
        ("https://gpu.example.org/v1", None, FREE),
        ("https://gpu.example.org/v1", "k", None),
    ],
)
def test_what_a_keyless_vendor_costs_elsewhere(base_url: str, key: str | None, price: Price | None) -> None:
    info, endpoint = chosen("vllm/qwen", base_url=base_url, env={"VLLM_API_KEY": key} if key else {})
    assert (info.price, endpoint.key) == (price, key)


# --- base URLs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "env", "base_url", "expected"),
    [
        ("openai/x", {"OPENAI_BASE_URL": "http://127.0.0.1:7/v1"}, None, "http://127.0.0.1:7/v1"),
        ("openai/x", {"OPENAI_BASE_URL": "http://127.0.0.1:7/v1"}, "http://127.0.0.1:8/v1", "http://127.0.0.1:8/v1"),
        ("openai/x", {"OPENAI_BASE_URL": " "}, None, "https://api.openai.com/v1"),
        ("openai/x", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:7"}, None, "https://api.openai.com/v1"),
        ("anthropic/x", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:7/"}, None, "http://127.0.0.1:7"),
        ("groq/x", {"OPENAI_BASE_URL": "http://127.0.0.1:7/v1"}, None, "https://api.groq.com/openai/v1"),
        ("ollama/x", {"OLLAMA_HOST": "0.0.0.0:7"}, None, "http://127.0.0.1:7/v1"),
    ],
)
def test_where_the_base_url_comes_from(model: str, env: dict[str, str], base_url: str | None, expected: str) -> None:
    info, endpoint = chosen(model, base_url=base_url, env={"AGENTCTL_API_KEY": "k", **env})
    assert (info.base_url, endpoint.base_url) == (expected, expected)


def test_a_bad_base_url_names_its_source() -> None:
    assert "OPENAI_BASE_URL 'nowhere'" in refusal("openai/x", env={**OPENAI, "OPENAI_BASE_URL": "nowhere"}).message
    assert "The base URL 'nowhere'" in refusal("openai/x", env=OPENAI, base_url="nowhere").message


# --- bad models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message", "hint"),
    [
        (" ", "The model ' ' names no vendor.", ALL_VENDORS),
        ("opnai/gpt-5", "Unknown vendor 'opnai' in the model 'opnai/gpt-5'.", "Did you mean 'openai'?"),
        ("OpenAI/gpt-5", "Unknown vendor 'OpenAI' in the model 'OpenAI/gpt-5'.", "Did you mean 'openai'?"),
        ("gpt-5", "The model 'gpt-5' names no vendor.", "Write 'openai/gpt-5' or 'azure/gpt-5'."),
        ("openai", "The model 'openai' names no vendor.", "Write vendor/model, for example 'openai/gpt-6.1-sol'."),
        ("openai/", "The model 'openai/' has no name after the slash.", "For example 'openai/gpt-6.1-sol'."),
        ("vllm/ ", "The model 'vllm/ ' has no name after the slash.", "For example 'vllm/NAME'."),
        ("scripted/", "The model 'scripted/' has no name after the slash.", "For example 'scripted/FILE'."),
        (
            "meta-llama/llama-3.3-70b-instruct",
            "Unknown vendor 'meta-llama' in the model 'meta-llama/llama-3.3-70b-instruct'.",
            "Write 'openrouter/meta-llama/llama-3.3-70b-instruct'.",
        ),
        (
            "zzz/y",
            "Unknown vendor 'zzz' in the model 'zzz/y'.",
            ALL_VENDORS,
        ),
    ],
)
def test_a_model_that_cannot_be(model: str, message: str, hint: str) -> None:
    error = refusal(model, env=OPENAI)
    assert (type(error), error.message, error.hint) == (UsageError, message, hint)


def test_an_unknown_api() -> None:
    error = refusal("openai/gpt-5", api="openai-chats", env=OPENAI)
    assert (type(error), error.message, error.hint) == (
        UsageError,
        "Unknown api 'openai-chats'.",
        "Did you mean 'openai-chat'?",
    )


# --- scripted -------------------------------------------------------------------------------------------------------


def test_a_script_needs_no_key_and_costs_nothing() -> None:
    info, endpoint = chosen("scripted/ci/a script.json", max_context=5_000)
    assert info == ModelInfo(
        vendor="scripted",
        name="ci/a script.json",
        api="openai-chat",
        base_url="",
        origin="flag",
        profile="scripted",
        window=5_000,
        price=FREE,
        images=True,
        reasoning=True,
    )
    assert (endpoint.key, endpoint.profile.name) == (None, "scripted")
