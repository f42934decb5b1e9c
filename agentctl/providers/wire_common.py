"""What every wire format asks of a request, on neutral values: legal names, headers, arguments, schemas. All pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

from agentctl.core.codec import loads
from agentctl.core.memo import ByIdentity
from agentctl.core.text import clean
from agentctl.core.types import (
    Api,
    JsonObject,
    Opaque,
    ToolCall,
    ToolSpec,
)
from agentctl.providers.adapter import Endpoint
from agentctl.providers.schema_subset import wire_schema

__all__ = [
    "arguments_object",
    "auth_headers",
    "digest",
    "local_id",
    "own_data",
    "wire_name",
    "wire_names",
    "wire_schema",
]

AUTH_HEADERS = {"bearer": ("authorization", "Bearer "), "x-api-key": ("x-api-key", ""), "api-key": ("api-key", "")}
"""By Profile.auth: the header and what stands before the key."""
_NAME_LIMIT = 64  # OpenAI chat; Anthropic would take 128
_BAD_NAME_CHARS = re.compile(r"[^a-zA-Z0-9_-]")


# --- ids ----------------------------------------------------------------------------------------------------------


def local_id(taken: set[str], *what: str) -> str:
    """An id for a call that came without a usable one, made of what is known about it; added to `taken`."""
    salt = 0
    while True:
        made = "call_" + digest("\x00".join((*what, str(salt))))[:24]
        if made not in taken:
            taken.add(made)
            return made
        salt += 1


def digest(text: str) -> str:
    """SHA-256 in hex, of any text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- names --------------------------------------------------------------------------------------------------------


def wire_names(tools: Iterable[ToolSpec]) -> tuple[dict[str, str], dict[str, str]]:
    """Tool names to names of [a-zA-Z0-9_-]{1,64}, and back. Legal names stay; the result has no collisions."""
    names = [tool.name for tool in tools]
    legal = {name for name in names if _legal_name(name) == name}
    wanted = [_legal_name(name) for name in names if name not in legal]
    to_wire = {
        name: name
        if name in legal
        else _with_hash(name)
        if _legal_name(name) in legal or wanted.count(_legal_name(name)) > 1
        else _legal_name(name)
        for name in names
    }
    return to_wire, {wire: name for name, wire in to_wire.items()}


def wire_name(name: str, to_wire: Mapping[str, str]) -> str:
    """The name of a call of the history; its tool may not be offered any more, or may never have existed."""
    return to_wire.get(name) or _legal_name(name)


def _legal_name(name: str) -> str:
    return _BAD_NAME_CHARS.sub("_", name)[:_NAME_LIMIT] or "unnamed"


def _with_hash(name: str) -> str:
    return f"{_legal_name(name)[: _NAME_LIMIT - 9]}_{digest(name)[:8]}"


# --- headers and arguments ----------------------------------------------------------------------------------------


def auth_headers(endpoint: Endpoint) -> dict[str, str]:
    """The headers of the profile, of authentication (none without a key) and of the endpoint itself."""
    headers = dict(endpoint.profile.headers)
    if endpoint.key and endpoint.profile.auth in AUTH_HEADERS:
        name, scheme = AUTH_HEADERS[endpoint.profile.auth]
        headers[name] = scheme + endpoint.key
    return {**headers, **endpoint.headers}


def _parse_arguments(call: ToolCall) -> JsonObject:
    try:
        value = loads(clean(call.arguments)) if call.arguments.strip() else {}
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"unparsed": clean(call.arguments)}


_parsed = ByIdentity(_parse_arguments)


def arguments_object(call: ToolCall) -> JsonObject:
    """The arguments as an object, also when the model wrote none: many servers parse those of earlier calls.

    Not to be changed: it is the same object for every request.
    """
    return _parsed(call)


_schemas: ByIdentity[ToolSpec, dict[str, JsonObject | None]] = ByIdentity(lambda _tool: {})


def tool_schema(tool: ToolSpec, rule: str) -> JsonObject | None:
    """The tool's wire_schema, made once for each rule. Not to be changed: it is the same object for every request."""
    made = _schemas(tool)
    if rule not in made:
        made[rule] = wire_schema(tool.parameters, rule)
    return made[rule]


# --- opaque parts -------------------------------------------------------------------------------------------------


def own_data(opaque: Opaque | None, base_url: str, api: Api, model: str) -> JsonObject | None:
    """The provider-bound data when this very provider, wire format and model made it, else None."""
    if opaque is None or (opaque.provider, opaque.api, opaque.model) != (base_url, api, model):
        return None
    return opaque.data
