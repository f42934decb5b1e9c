"""What the three renderings share."""

from __future__ import annotations

import json
from typing import Any

from tests.server.script import Call


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else dumps(dict(call.arguments))


def call_id(call: Call, answer: int, place: int, prefix: str) -> str:
    """The id of a call; a made-up one differs for every answer of a server."""
    return call.id or f"{prefix}{answer:04d}x{place}"
