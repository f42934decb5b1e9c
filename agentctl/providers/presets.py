"""The vendors: where each listens, which variables hold its key, which model a run takes when none is named.

The order is the order of detection. Keyless vendors run on the own machine or network and are never detected: nothing
in the environment says that one is running. Clouds are never detected either: their variables are set for other
purposes as well, and none of them has a model that every account may ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agentctl.core.record import Record
from agentctl.core.types import Api


class Preset(Record):
    """One vendor. `model` is the default for a detected vendor; empty where a run must name one."""

    vendor: str
    base_url: str
    """Of a cloud a pattern with the names of its places; empty where a variable has to say it."""
    profile: str
    """Row of profiles.py for the vendor's own wire format."""
    key_variables: tuple[str, ...]
    """Looked at in this order, after AGENTCTL_API_KEY."""
    model: str = ""
    api: Api = "openai-chat"
    is_keyless: bool = False
    """Runs without a key and is never detected."""
    base_url_variable: str = ""
    """A variable of the vendor's own tools that holds a base URL, or for Ollama a host."""
    key_auth: Mapping[str, str] = MappingProxyType({})
    """How a key of this variable is sent, where that is not what the profile says."""
    header_variables: Mapping[str, str] = MappingProxyType({})
    """Variables of the vendor's own tools whose value is sent in a header."""
    headers_variable: str = ""
    """A variable of the vendor's own tools that holds headers, one `Name: value` a line."""
    cloud: str = ""
    """Row of clouds.py, for what is asked under a cloud's own identity and addresses."""

    @property
    def is_detected(self) -> bool:
        """Whether its key in the environment is enough to choose it."""
        return bool(self.model)


ANY_VENDOR_KEY = "AGENTCTL_API_KEY"
SCRIPTED = "scripted"
"""Not a vendor: `scripted/FILE` plays answers from a file."""

PRESETS: dict[str, Preset] = {
    row.vendor: row
    for row in (
        Preset(
            vendor="anthropic",
            base_url="https://api.anthropic.com",
            profile="anthropic",
            key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
            key_auth=MappingProxyType({"ANTHROPIC_AUTH_TOKEN": "bearer"}),
            headers_variable="ANTHROPIC_CUSTOM_HEADERS",
            model="claude-sonnet-5-5",
            api="anthropic-messages",
            base_url_variable="ANTHROPIC_BASE_URL",
        ),
        Preset(
            vendor="openai",
            base_url="https://api.openai.com/v1",
            profile="openai",
            key_variables=("OPENAI_API_KEY",),
            model="gpt-6.1-sol",
            base_url_variable="OPENAI_BASE_URL",
            header_variables=MappingProxyType(
                {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}
            ),
            headers_variable="OPENAI_CUSTOM_HEADERS",
        ),
        Preset(
            vendor="openrouter",
            base_url="https://openrouter.ai/api/v1",
            profile="openrouter",
            key_variables=("OPENROUTER_API_KEY",),
            model="anthropic/claude-sonnet-5.5",
        ),
        Preset(
            vendor="groq",
            base_url="https://api.groq.com/openai/v1",
            profile="groq",
            key_variables=("GROQ_API_KEY",),
            model="openai/gpt-oss-120b",
        ),
        Preset(
            vendor="deepseek",
            base_url="https://api.deepseek.com/v1",
            profile="deepseek",
            key_variables=("DEEPSEEK_API_KEY",),
            model="deepseek-v4-pro",
        ),
        Preset(
            vendor="xai",
            base_url="https://api.x.ai/v1",
            profile="xai",
            key_variables=("XAI_API_KEY",),
            model="grok-4.7",
        ),
        Preset(
            vendor="mistral",
            base_url="https://api.mistral.ai/v1",
            profile="mistral",
            key_variables=("MISTRAL_API_KEY",),
            model="mistral-large-4",
        ),
        Preset(
            vendor="gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            profile="gemini",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            model="gemini-3.8-flash",
        ),
        Preset(
            vendor="azure",
            base_url="",
            profile="azure",
            key_variables=("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY"),
            key_auth=MappingProxyType({"AZURE_OPENAI_AD_TOKEN": "bearer"}),
            base_url_variable="AZURE_OPENAI_ENDPOINT",
            cloud="azure",
        ),
        Preset(
            vendor="bedrock",
            base_url="https://bedrock-runtime.{region}.amazonaws.com",
            profile="bedrock",
            key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
            api="anthropic-messages",
            base_url_variable="ANTHROPIC_BEDROCK_BASE_URL",
            cloud="bedrock",
        ),
        Preset(
            vendor="vertex",
            base_url="https://{region}-aiplatform.googleapis.com/v1",
            profile="vertex",
            key_variables=(),
            api="anthropic-messages",
            base_url_variable="ANTHROPIC_VERTEX_BASE_URL",
            cloud="vertex",
        ),
        Preset(
            vendor="ollama",
            base_url="http://localhost:11434/v1",
            profile="ollama",
            key_variables=("OLLAMA_API_KEY",),
            is_keyless=True,
            base_url_variable="OLLAMA_HOST",
        ),
        Preset(
            vendor="lmstudio",
            base_url="http://localhost:1234/v1",
            profile="lmstudio",
            key_variables=(),
            is_keyless=True,
        ),
        Preset(
            vendor="llamacpp",
            base_url="http://localhost:8080/v1",
            profile="llamacpp",
            key_variables=("LLAMA_API_KEY",),
            is_keyless=True,
        ),
        Preset(
            vendor="vllm",
            base_url="http://localhost:8000/v1",
            profile="vllm",
            key_variables=("VLLM_API_KEY",),
            is_keyless=True,
        ),
    )
}

VENDORS: tuple[str, ...] = (*PRESETS, SCRIPTED)
