"""What the three services refuse alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tests.server.script import Refused


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def need(
    condition: object, message: str, *, param: str | None = None, status: int = 400, code: str | None = None
) -> None:
    if not condition:
        raise Refused(message, status=status, param=param, code=code)


def known_fields(value: Mapping[str, Any], known: Iterable[str], where: str, message: str) -> None:
    """Refuses the first field that is not known; `message` has a place for its name."""
    extra = sorted(set(value) - set(known))
    need(not extra, message.format(where + extra[0]) if extra else "", param=where + extra[0] if extra else None)


def key_of(headers: Mapping[str, str], *, also_x_api_key: bool = False) -> None:
    """Any key is good that does not start with `bad`."""
    key = headers.get("authorization", "").removeprefix("Bearer ").strip()
    if also_x_api_key:
        key = headers.get("x-api-key", "") or key
    need(key, "You didn't provide an API key.", status=401)
    need(not key.startswith("bad"), "Incorrect API key provided.", status=401, code="invalid_api_key")


def model_of(body: Mapping[str, Any]) -> None:
    model = body.get("model")
    need(isinstance(model, str) and model, "you must provide a model parameter", param="model")
    need(
        not str(model).startswith("no-such"),
        f"The model `{model}` does not exist or you do not have access to it.",
        status=404,
        param="model",
        code="model_not_found",
    )


def schema(value: Any, where: str) -> None:
    need(
        isinstance(value, dict) and value.get("type") == "object",
        f"{where}: schema must have type 'object'",
        param=where,
    )
    need(isinstance(value.get("properties"), dict), f"{where}: object schema missing properties", param=where)
    combined = [word for word in ("anyOf", "oneOf", "allOf") if word in value]
    need(not combined, f"{where}: schema does not support {combined} at the top level", param=where)
    required = value.get("required", [])
    need(set(required) <= set(value["properties"]), f"{where}: 'required' names unknown properties", param=where)


def unique(names: list[str], where: str) -> None:
    need(len(names) == len(set(names)), f"{where}: tool names must be unique", param=where)
    for name in names:
        need(NAME.fullmatch(name or ""), f"{where}: {name!r} does not match '^[a-zA-Z0-9_-]{{1,64}}$'", param=where)
