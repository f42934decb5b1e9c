"""What differs between endpoint families, as data. A vendor's quirk is a field here, never an `if` on a name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agentctl.core.record import Record
from agentctl.core.types import Api

EFFORTS: Mapping[str, str] = MappingProxyType(
    {"off": "none", "low": "low", "medium": "medium", "high": "high", "max": "xhigh"}
)
_UP_TO_HIGH: Mapping[str, str] = MappingProxyType({"low": "low", "medium": "medium", "high": "high", "max": "high"})
_NONE_TO_HIGH: Mapping[str, str] = MappingProxyType({"off": "none", **_UP_TO_HIGH})


class Profile(Record):
    """The habits of one endpoint family. Defaults are those of the service that defined the wire format."""

    name: str
    auth: str = "bearer"
    """bearer, x-api-key, api-key, or none (no header when there is no key)."""
    headers: Mapping[str, str] = MappingProxyType({})
    max_tokens_field: str = "max_completion_tokens"
    sends_stream_options: bool = True
    sends_cache_key: bool = False
    system_role: str = "system"
    thinking: str = "none"
    """How a thinking level goes on the wire: none, effort (chat reasoning_effort), reasoning (reasoning.effort, also
    Responses), budget or adaptive (Anthropic), toggle (chat thinking.type with reasoning_effort), think-flag (chat
    chat_template_kwargs.enable_thinking)."""
    takes_off: bool = False
    """`off` is said to every model: the service takes it for those that do not reason, too."""
    efforts: Mapping[str, str] = EFFORTS
    """Thinking level to the service's word for it; a level without a word sends no effort."""
    reasoning_echo: str = ""
    """Field that must carry the reasoning of earlier assistant messages back; empty: none."""
    echoes_reasoning_details: bool = False
    """Chat: the list `reasoning_details` goes back unchanged."""
    echoes_extra_content: bool = False
    """Chat: `extra_content` of a call goes back unchanged."""
    call_content: str = "null"
    """`content` of an assistant message that has calls and no text: null, empty or omit."""
    call_id_rule: str = "openai"
    """openai (at most 40 characters of [A-Za-z0-9_-]), responses, anthropic (64), mistral (exactly 9 alphanumerics)."""
    schema_rule: str = "openai"
    """The subset of JSON Schema: openai, anthropic, gemini."""
    answer_parts: tuple[Api, ...] = ("openai-responses", "anthropic-messages")
    """Wire formats in which the result of a tool may be parts, so that its images stand inside it. In the others it is
    text, and images follow in a message of the user."""
    merges_same_role: bool = False
    assistant_between_tool_and_user: bool = False
    parses_think_tags: bool = False
    recovers_calls: bool = False
    """Calls that the model wrote as text are read: for servers that do not understand the template of every model."""
    endpoint_fallback: tuple[Api, ...] = ()
    """Wire formats to try in order after 400, 404, 405, 415, 422 or 501 on the first one."""
    cache_breakpoints: bool = False


def _compatible(name: str, **differences: Any) -> Profile:
    """A service that speaks the chat format as most do; only what it does differently is named."""
    habits: dict[str, Any] = {
        "max_tokens_field": "max_tokens",
        "thinking": "effort",
        "merges_same_role": True,
        "echoes_reasoning_details": True,
        "echoes_extra_content": True,
        "answer_parts": (),
    }
    return Profile(name=name, **{**habits, **differences})


def _claude(name: str, **differences: Any) -> Profile:
    """A service that speaks the Messages format of Anthropic."""
    habits: dict[str, Any] = {
        "max_tokens_field": "max_tokens",
        "thinking": "budget",
        "call_id_rule": "anthropic",
        "schema_rule": "anthropic",
        "merges_same_role": True,
        "cache_breakpoints": True,
    }
    return Profile(name=name, **{**habits, **differences})


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile(name="openai", thinking="effort", sends_cache_key=True, endpoint_fallback=("openai-responses",)),
            _claude(
                "anthropic",
                auth="x-api-key",
                # The version that gateways know too; the SDK's newer one refuses what they send.
                headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
            ),
            Profile(name="azure", auth="api-key", thinking="effort", sends_cache_key=True),
            _claude("bedrock"),
            _claude("vertex"),
            _compatible("compatible", efforts=_UP_TO_HIGH),
            _compatible("openrouter", thinking="reasoning", takes_off=True, answer_parts=("openai-responses",)),
            _compatible("groq", max_tokens_field="max_completion_tokens", efforts=_UP_TO_HIGH),
            _compatible(
                "deepseek",
                thinking="toggle",
                takes_off=True,
                efforts=MappingProxyType({"low": "low", "medium": "high", "high": "high", "max": "max"}),
                reasoning_echo="reasoning_content",
            ),
            _compatible(
                "xai",
                max_tokens_field="max_completion_tokens",
                efforts=_NONE_TO_HIGH,
                answer_parts=("openai-responses",),
            ),
            _compatible(
                "mistral",
                # Unknown fields are a 422 here, and usage comes without being asked for.
                sends_stream_options=False,
                # The models with adjustable reasoning know two words.
                efforts=MappingProxyType(
                    {"off": "none", "low": "high", "medium": "high", "high": "high", "max": "high"}
                ),
                call_content="empty",
                call_id_rule="mistral",
                assistant_between_tool_and_user=True,
            ),
            _compatible("gemini", efforts=_NONE_TO_HIGH, schema_rule="gemini"),
            _compatible("ollama", efforts=_NONE_TO_HIGH, takes_off=True, call_content="empty", recovers_calls=True),
            _compatible("lmstudio", efforts=_UP_TO_HIGH, parses_think_tags=True, recovers_calls=True),
            _compatible("llamacpp", thinking="think-flag", takes_off=True, efforts=_UP_TO_HIGH, recovers_calls=True),
            _compatible(
                "vllm",
                thinking="think-flag",
                takes_off=True,
                efforts=_UP_TO_HIGH,
                parses_think_tags=True,
                recovers_calls=True,
            ),
        )
    }
)
"""Every endpoint family by name. `compatible` serves any chat endpoint that has no row of its own."""
