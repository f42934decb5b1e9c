"""What a refused request can be changed into: one row per cause, each tried once for a model call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from agentctl.core.errors import AuthError, ContextOverflow, OutputCapped, ProviderError
from agentctl.core.record import Record
from agentctl.providers.adapter import Healing

_ESSENTIAL = frozenset({"model", "messages", "input", "tools", "stream", "system", "instructions"})
"""Fields without which the request would be another one."""
_MAX_TOKENS = ("max_tokens", "max_completion_tokens")
_BAD_REQUEST = (400, 422)
_NOT_A_CURE = frozenset({"refusal", "unsupported_feature", "tls", "bad_address", "redirect", "not_found"})


class Cure(Record):
    """A changed request. `cause` names what it mends; a second failure of the same cause is final."""

    cause: str
    healing: Healing
    notice: str
    is_remembered: bool = True
    """Whether later requests of the run are changed in the same way."""


def cures_for(error: ProviderError, healing: Healing, *, leaves_endpoint: bool = False) -> Iterator[Cure]:
    """The changes worth trying after this failure, best first; none when asking differently cannot help.

    `leaves_endpoint`: a failure that points to another wire format is left to whoever can change that.
    """
    is_mendable = not error.retryable and not isinstance(error, AuthError) and error.kind not in _NOT_A_CURE
    if not is_mendable or (leaves_endpoint and error.kind == "wrong_endpoint"):
        return
    if isinstance(error, ContextOverflow) and error.kind != "content_too_large":
        return
    for make in _CURES:
        cure = make(error, healing)
        if cure is not None and cure.healing != healing:
            yield cure


def _says(error: ProviderError, *patterns: str) -> bool:
    text = error.message.lower()
    return any(re.search(pattern, text) for pattern in patterns)


def _head(param: str) -> str:
    """The top-level field of a place such as reasoning.summary or include[0]."""
    return re.split(r"[.\[]", param, maxsplit=1)[0]


def _item_ids(error: ProviderError, healing: Healing) -> Cure | None:
    lost = error.kind == "item_not_found"
    if not lost and not _says(error, r"invalid 'input\[\d+\]\.id'", r"expected an id that begins with"):
        return None
    return Cure(
        cause="item-ids",
        healing=healing.replace(strips_item_ids=True),
        notice="The service no longer has a part of this session; the history was sent inline instead."
        if lost
        else "The service rejects the stored item ids; the history was sent without them.",
    )


def _thinking_form(error: ProviderError, healing: Healing) -> Cure | None:
    if not _says(error, r"adaptive", r"thinking\.type\b", r"thinking\.budget_tokens.{0,40}not (?:supported|permitted)"):
        return None
    return Cure(
        cause="thinking-form",
        healing=healing.replace(swaps_thinking=not healing.swaps_thinking),
        notice="The model takes thinking in another form; asked again with that.",
    )


def _reasoning(error: ProviderError, healing: Healing) -> Cure | None:
    signs = (
        r"signature",
        r"expected `?thinking`?",
        r"reasoning_content.{0,60}(?:passed back|must|missing|required)",
        r"of type '?reasoning'? was provided without",
        r"encrypted (?:content|_content).{0,60}(?:verif|decrypt|invalid|pars)",
        r"thinking.{0,30}blocks? .{0,40}(?:cannot be modified|must)",
    )
    if not _says(error, *signs):
        return None
    return Cure(
        cause="reasoning",
        healing=healing.replace(drops_reasoning=True),
        notice="The service does not accept the reasoning of earlier steps; it was left out.",
    )


def _output_room(error: ProviderError, healing: Healing) -> Cure | None:
    if not isinstance(error, OutputCapped) or error.room is None:
        return None
    return Cure(
        cause="output",
        healing=healing.replace(max_output_tokens=error.room),
        notice=f"The service has room for {error.room:,} output tokens; asked for no more than that.",
        is_remembered=error.kind == "output_limit",  # what the prompt leaves is another number in the next step
    )


def _stream_options(error: ProviderError, healing: Healing) -> Cure | None:
    if _head(error.param) != "stream_options" and not _says(error, r"stream_options|include_usage"):
        return None
    return Cure(
        cause="stream-options",
        healing=healing.replace(drops_stream_options=True),
        notice="The service does not know 'stream_options'; asked again without it.",
    )


def _max_tokens_field(error: ProviderError, healing: Healing) -> Cure | None:
    if isinstance(error, OutputCapped) or healing.swaps_max_tokens:
        return None
    if error.param not in _MAX_TOKENS and not _says(error, r"\bmax_completion_tokens\b"):
        return None
    return Cure(
        cause="max-tokens",
        healing=healing.replace(swaps_max_tokens=True),
        notice="The service names its output limit differently; asked again with the other field.",
    )


def _images(error: ProviderError, healing: Healing) -> Cure | None:
    if error.kind not in ("unsupported_image", "content_too_large"):
        return None
    return Cure(
        cause="images",
        healing=healing.replace(strips_images=True),
        notice="The service does not take the images of this session; they were replaced by a note.",
    )


def _parameter(error: ProviderError, healing: Healing) -> Cure | None:
    field = _head(error.param)
    if not field or field in _ESSENTIAL:
        return None
    return Cure(
        cause=f"parameter {field}",
        healing=healing.replace(dropped_params=healing.dropped_params | {field}),
        notice=f"The service rejects the field {field!r}; asked again without it.",
    )


def _history(error: ProviderError, healing: Healing) -> Cure | None:
    if error.status not in _BAD_REQUEST:
        return None
    return Cure(
        cause="history",
        healing=healing.replace(tells_history=True),
        notice="The service refuses the earlier turns of this session as they are; they were sent as text.",
    )


_CURES: tuple[Callable[[ProviderError, Healing], Cure | None], ...] = (
    _item_ids,
    _thinking_form,
    _reasoning,
    _output_room,
    _stream_options,
    _max_tokens_field,
    _images,
    _parameter,
    _history,
)
"""The history as text comes last: it changes a request only where a session goes on."""
