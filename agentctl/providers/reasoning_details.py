"""The `reasoning_details` lists of a chat stream, joined so that they can go back unchanged."""

from __future__ import annotations

from typing import Any

from agentctl.core.types import JsonObject

_GROWING = ("text", "summary")
"""Fields that come in pieces."""


def merge_details(known: list[JsonObject], details: list[Any]) -> None:
    """Adds the details of one delta: to the entry of the same index, type and id, or as a new one."""
    for detail in details:
        if not isinstance(detail, dict):
            continue
        entry = next((entry for entry in reversed(known) if _is_same(entry, detail)), None)
        if entry is None:
            known.append(dict(detail))
            continue
        for key, value in detail.items():
            if key in _GROWING and isinstance(value, str) and isinstance(entry.get(key), str):
                entry[key] += value
            elif value is not None:
                entry[key] = value


def details_text(details: list[Any]) -> str:
    """The readable part; encrypted entries have none."""
    texts = (detail.get("text") or detail.get("summary") for detail in details if isinstance(detail, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _is_same(entry: JsonObject, detail: JsonObject) -> bool:
    if entry.get("type") != detail.get("type") or entry.get("index") != detail.get("index"):
        return False
    ids = (entry.get("id"), detail.get("id"))
    if None not in ids and ids[0] != ids[1]:
        return False
    # Without an index only growing text goes on; two encrypted entries would be two things.
    return "index" in detail or any(key in detail for key in _GROWING) or entry == detail
