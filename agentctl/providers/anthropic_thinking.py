"""How much a Claude model may think and write: the thinking and output fields of a Messages request.

Models up to 4.5 take a budget of tokens, newer ones decide themselves ("adaptive") under an effort; the newest refuse
budgets. From version 5 on thinking is on unless it is turned off, and only a few of these models let it be turned off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from agentctl.core.record import Record
from agentctl.core.text import estimate_tokens
from agentctl.core.types import Image, JsonObject, Reasoning, Request, Text, Think, ToolAnswer, ToolCall
from agentctl.providers.adapter import Healing
from agentctl.providers.profiles import Profile

Mode = Literal["none", "budget", "adaptive"]

UNKNOWN_LIMIT = 32_000
"""max_tokens of a model whose maximum is unknown."""
_SMALLEST_LIMIT = 1_024
_SMALLEST_BUDGET = 1_024
_ANSWER_ROOM = 8_000
"""Output tokens that stay for the answer behind the largest budget, where the limit has room for them."""
_IMAGE_TOKENS = 1_500
_BUDGETS: Mapping[Think, int] = MappingProxyType({"low": 6_400, "medium": 16_000, "high": 38_400, "max": 38_400})
"""`max` is the model's maximum where that is known."""
_EFFORTS: Mapping[Think, str] = MappingProxyType({"low": "low", "medium": "medium", "high": "high", "max": "max"})

_VERSION = re.compile(r"claude-(?:([a-z]+)-)?(\d)(?:[-.](\d{1,2}))?(?!\d)")
_UNNUMBERED = re.compile(r"claude-(mythos|fable)\b")
_FIRST_THINKING = (3, 7)
_FIRST_ADAPTIVE = (4, 6)
_FIRST_ALWAYS_ON = (5, 0)
_CAN_BE_OFF = frozenset({("opus", (5, 0)), ("sonnet", (5, 0))})


class Thinking(Record):
    """The fields of one request, empty where nothing is to be sent, and the limit that stands beside them."""

    mode: Mode = "none"
    """Whether and how the model thinks; `none` also when nothing is said."""
    body: Mapping[str, JsonObject] = MappingProxyType({})
    max_tokens: int = UNKNOWN_LIMIT


def thinking_mode(request: Request, profile: Profile, healing: Healing) -> Mode:
    """How this model is asked to think when it is asked to; by its version where the name has one."""
    if request.model.reasoning is False or profile.thinking not in ("budget", "adaptive"):
        return "none"
    version = _version(request.model.name)
    if version is not None and version[1] < _FIRST_THINKING:
        return "none"
    is_adaptive = profile.thinking == "adaptive" if version is None else version[1] >= _FIRST_ADAPTIVE
    return "adaptive" if is_adaptive != healing.swaps_thinking else "budget"


def plan_thinking(request: Request, profile: Profile, healing: Healing, *, has_lost_blocks: bool = False) -> Thinking:
    """The thinking of a request. `has_lost_blocks`: the calls in flight were made with thinking blocks that cannot be
    sent back, so the service would refuse this request with thinking on."""
    level = request.options.think
    mode = "none" if "thinking" in healing.dropped_params else thinking_mode(request, profile, healing)
    limit, is_fixed = _limit(request, healing)
    if mode == "none" or (mode == "budget" and (level == "off" or has_lost_blocks)):
        return Thinking(max_tokens=limit)
    if level == "off":
        return Thinking(body=_off(request.model.name), max_tokens=limit)
    if mode == "adaptive":
        effort: JsonObject = {"effort": _EFFORTS[level]}
        if has_lost_blocks:
            return Thinking(body={"output_config": effort}, max_tokens=limit)
        display = {"display": "summarized"} if request.options.show_reasoning else {}
        fields = {"thinking": {"type": "adaptive", **display}, "output_config": effort}
        return Thinking(mode=mode, body=fields, max_tokens=limit)
    return _budgeted(request, limit, is_fixed)


def _budgeted(request: Request, limit: int, is_fixed: bool) -> Thinking:
    level = request.options.think
    wanted = _BUDGETS[level]
    if level == "max":
        wanted = max(wanted, request.model.max_output or 0)
    if not is_fixed:
        limit = max(limit, wanted + _ANSWER_ROOM)
    budget = min(wanted, limit - min(_ANSWER_ROOM, limit // 4))
    if budget < _SMALLEST_BUDGET:
        return Thinking(max_tokens=limit)
    fields: JsonObject = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return Thinking(mode="budget", body=fields, max_tokens=limit)


def _off(model: str) -> Mapping[str, JsonObject]:
    """Nothing where thinking is off by itself; where it cannot be turned off, the least of it."""
    version = _version(model)
    if version is None or version[1] < _FIRST_ALWAYS_ON:
        return {}
    return {"thinking": {"type": "disabled"}} if version in _CAN_BE_OFF else {"output_config": {"effort": "low"}}


def _version(model: str) -> tuple[str, tuple[int, int]] | None:
    found = _VERSION.search(model)
    if found:
        return found[1] or "", (int(found[2]), int(found[3] or 0))
    return ("", _FIRST_ALWAYS_ON) if _UNNUMBERED.search(model) else None


def _limit(request: Request, healing: Healing) -> tuple[int, bool]:
    """max_tokens without thinking, and whether it is fixed: asked for, or the most that model or window allow."""
    asked = healing.max_output_tokens or request.options.max_output_tokens
    if asked:
        return asked, True
    model = request.model
    limit = model.max_output or UNKNOWN_LIMIT
    if model.window is None:
        return limit, model.max_output is not None
    left = max(_SMALLEST_LIMIT, model.window - _prompt_tokens(request))
    return min(limit, left), model.max_output is not None or left < limit + _BUDGETS["max"]


def _prompt_tokens(request: Request) -> int:
    """About how much of the window the request fills."""
    texts = [request.state, *(block.text for block in request.system)]
    texts += [f"{tool.description}{tool.parameters}" for tool in request.tools]
    images = 0
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, (Text, Reasoning)):
                texts.append(part.text)
            elif isinstance(part, ToolCall):
                texts.append(part.arguments)
            elif isinstance(part, ToolAnswer):
                texts.append(part.content)
                images += len(part.images)
            elif isinstance(part, Image):
                images += 1
    return sum(map(estimate_tokens, texts)) + images * _IMAGE_TOKENS
