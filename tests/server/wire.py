"""The routes: which wire format a request speaks, whether it is valid, how its answers and errors look."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.server import (
    clouds,
    render_anthropic,
    render_chat,
    render_responses,
    validate_anthropic,
    validate_chat,
    validate_responses,
)
from tests.server.script import Received, Refused, Turn

Events = list[tuple[str, str]]
"""Server-sent events: name (empty for none) and data."""


@dataclass(frozen=True)
class Wire:
    check: Callable[[Any, Mapping[str, str]], None]
    """Raises Refused."""
    events: Callable[[Turn, Any, int], Events]
    whole: Callable[[Turn, Any, int], Any]
    error: Callable[[Refused], Any]
    pack: Callable[[str, str], bytes] | None = None
    """An event as bytes, where the stream is not one of server-sent events."""
    content_type: str = ""


def wire_of(request: Received) -> Wire | None:
    """The wire format of a path: a plain one, or a cloud's over one of them."""
    path = request.path.partition("?")[0]
    if path in WIRES:
        return WIRES[path]
    for pattern, plain, kind in clouds.ADDRESSES:
        found = pattern.fullmatch(path)
        if found is not None:
            return _over(WIRES[plain], kind(request, found))
    return None


def _over(wire: Wire, cloud: clouds.Cloud) -> Wire:
    return replace(
        wire,
        check=lambda body, headers: wire.check(cloud.plain_body(body), cloud.plain_headers()),
        events=lambda turn, body, number: wire.events(turn, cloud.plain_body(body), number),
        error=cloud.error if cloud.has_own_errors else wire.error,
        pack=cloud.pack if cloud.content_type else None,
        content_type=cloud.content_type,
    )


def _openai_error(refused: Refused) -> Any:
    kind = {401: "authentication_error", 404: "not_found_error"}.get(refused.status, "invalid_request_error")
    return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": refused.code}}


def _anthropic_error(refused: Refused) -> Any:
    kind = {401: "authentication_error", 404: "not_found_error"}.get(refused.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": refused.message}}


WIRES: dict[str, Wire] = {
    "/v1/chat/completions": Wire(validate_chat.check, render_chat.events, render_chat.whole, _openai_error),
    "/v1/responses": Wire(validate_responses.check, render_responses.events, render_responses.whole, _openai_error),
    "/v1/messages": Wire(validate_anthropic.check, render_anthropic.events, render_anthropic.whole, _anthropic_error),
}


def check(wire: Wire, request: Received) -> None:
    """Raises Refused for what the service would refuse."""
    try:
        request.body = json.loads(request.raw)
        request.raw.decode("utf-8")
    except ValueError:
        raise Refused("We could not parse the JSON body of your request.") from None
    if not isinstance(request.body, dict):
        raise Refused("The body has to be an object.")
    wire.check(request.body, request.headers)
