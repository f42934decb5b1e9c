"""What differs between endpoint families, as data. A vendor's quirk is a field here, never an `if` on a name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agentctl.core.record import Record
from agentctl.core.types import Api


class Profile(Record):
    """The habits of one endpoint family. Defaults are those of the service that defined the wire format."""

    name: str
    auth: str = "bearer"
    """bearer, x-api-key, or none (no header when there is no key)."""
    headers: Mapping[str, str] = MappingProxyType({})
    max_tokens_field: str = "max_completion_tokens"
    sends_stream_options: bool = True
    sends_cache_key: bool = False
    system_role: str = "system"
    thinking: str = "none"
    """How a thinking level goes on the wire: none, effort (chat reasoning_effort), reasoning (Responses), budget or
    adaptive (Anthropic), toggle (thinking.type), think-flag, as the adapters define."""
    reasoning_echo: str = ""
    """Field that must carry the reasoning of earlier assistant messages back; empty: none."""
    call_content: str = "null"
    """`content` of an assistant message that has calls and no text: null, empty or omit."""
    call_id_rule: str = "openai"
    """openai (at most 40 characters of [A-Za-z0-9_-]), anthropic (64), mistral (exactly 9 alphanumerics)."""
    schema_rule: str = "openai"
    """The subset of JSON Schema: openai, anthropic, gemini."""
    merges_same_role: bool = False
    assistant_between_tool_and_user: bool = False
    parses_think_tags: bool = False
    endpoint_fallback: tuple[Api, ...] = ()
    """Wire formats to try in order after 400, 404, 405, 415, 422 or 501 on the first one (S122)."""
    cache_breakpoints: bool = False
