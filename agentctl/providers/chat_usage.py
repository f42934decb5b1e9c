"""Token counts of chat services → Usage. Vendors differ in names and in what a number includes."""

from __future__ import annotations

from typing import Any

from agentctl.core.types import JsonObject, Usage


def usage_of(chunk: JsonObject) -> JsonObject | None:
    """The usage object of a chunk, wherever the vendor puts it. None means not given yet."""
    usage = chunk.get("usage")
    if not isinstance(usage, dict):
        groq = chunk.get("x_groq")
        usage = groq.get("usage") if isinstance(groq, dict) else None
    return usage if isinstance(usage, dict) else None


def merged(known: JsonObject, usage: JsonObject) -> JsonObject:
    """Field by field; what is absent or null keeps its earlier value."""
    result = dict(known)
    for key, value in usage.items():
        if isinstance(value, dict):
            earlier = result.get(key)
            result[key] = merged(earlier if isinstance(earlier, dict) else {}, value)
        elif value is not None:
            result[key] = value
    return result


def to_usage(raw: JsonObject) -> Usage:
    """`prompt_tokens` includes cached tokens; `completion_tokens` includes reasoning unless the total says no."""
    asked, answered = raw.get("prompt_tokens_details"), raw.get("completion_tokens_details")
    asked = asked if isinstance(asked, dict) else {}
    answered = answered if isinstance(answered, dict) else {}
    prompt = _count(raw.get("prompt_tokens", raw.get("input_tokens")))
    cache_read = min(prompt, _count(asked.get("cached_tokens", raw.get("prompt_cache_hit_tokens"))))
    cache_write = min(prompt - cache_read, _count(asked.get("cache_write_tokens")))
    output = _count(raw.get("completion_tokens", raw.get("output_tokens")))
    reasoning = _count(answered.get("reasoning_tokens"))
    if reasoning and _count(raw.get("total_tokens")) == prompt + output + reasoning:
        output += reasoning
    return Usage(
        input=prompt - cache_read - cache_write,
        cache_read=cache_read,
        cache_write=cache_write,
        output=output,
        reasoning=reasoning,
    )


def _count(value: Any) -> int:
    return max(0, int(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
