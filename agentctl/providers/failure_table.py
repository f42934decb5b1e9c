"""The classes of failure as one table: the first row that fits wins.

The order matters: money before rate limits (both are 429), throttling before overflow ("too many tokens, please
wait" is no overflow), texts before bare statuses.
"""

from __future__ import annotations

import re

from agentctl.core.errors import AuthError, ContextOverflow, ProviderError, StreamBroken, Unavailable
from agentctl.core.record import Record
from agentctl.providers.failure_facts import Facts


class Row(Record):
    """One class of failure. It fits by status, or, where the status is not in `unless`, by a code or a text."""

    kind: str
    error: type[ProviderError]
    what: str
    hint: str = ""
    statuses: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    """Regular expressions over the lower-case words and codes; compiled when the first failure is there."""
    unless: frozenset[int] = frozenset()
    is_retryable: bool | None = None
    """Where it differs from the error class."""

    def fits(self, status: int | None, facts: Facts) -> bool:
        if status in self.statuses:
            return True
        if status in self.unless:
            return False
        return bool(self.codes & facts.codes) or any(re.search(text, facts.searched) for text in self.texts)


def _codes(names: str) -> frozenset[str]:
    return frozenset(names.split())


_NO_CREDIT = "Add credit or raise the limit in the account of this key, or use another key or provider."
_SERVER = frozenset({500, 502, 503, 504})
_SETTLED_BY_STATUS = frozenset({401, 402, 403, 429, 503, 529})
"""Statuses that say more than a text about lengths."""
_NOT_IMPLEMENTED = frozenset({501, 505})

BILLING = Row(
    kind="billing",
    error=AuthError,
    what="The account has no credit or quota left",
    hint=_NO_CREDIT,
    statuses=frozenset({402}),
    codes=_codes("insufficient_quota billing_error billing_hard_limit_reached insufficient_balance payment_required"),
    texts=(
        r"insufficient (?:account )?(?:balance|credits?|quota|funds)",
        r"credit balance is too low",
        r"(?:\bno|not enough|out of) credits?\b",
        r"requires more credits",
        r"billing hard limit",
        r"payment required",
        r"account .{0,40}(?:suspended|in arrears)",
    ),
)
USED_UP = Row(
    kind="billing",
    error=AuthError,
    what="The plan of this account is used up",
    hint=_NO_CREDIT,
    texts=(
        r"exceeded your current quota",
        r"(?:usage|spend(?:ing)?|plan|credit) limit",
        r"billing cycle",
        r"(?:hourly|daily|weekly|monthly|yearly) (?:usage |spend |token |request )?(?:limit|quota|cap)\b",
    ),
    unless=frozenset({400, 401, 404, 413, 422}),
)
RATE_LIMIT = Row(
    kind="rate_limit",
    error=Unavailable,
    what="The service limits the rate of requests",
    hint="Try again later, or ask for a higher rate limit.",
    statuses=frozenset({429}),
    codes=_codes(
        "rate_limit_error rate_limit_exceeded throttlingexception too_many_requests resource_exhausted"
        " servicequotaexceededexception"
    ),
    texts=(
        r"too many tokens,? please wait",
        r"too many requests",
        r"rate.?limit(?:ed| reached| exceeded| hit)",
        r"\bthrottl(?:ed|ing)\b",
    ),
    unless=frozenset({401, 403}),
)
BAD_REQUEST = Row(
    kind="bad_request",
    error=ProviderError,
    what="The service rejected the request",
    statuses=frozenset(range(400, 500)) | _NOT_IMPLEMENTED,
    codes=_codes(
        "invalid_request_error invalid_argument invalid_value validation_error unsupported_parameter"
        " validationexception"
    ),
)
PROXIED_REJECTION = Row(
    kind="proxied_rejection",
    error=Unavailable,
    what="A proxy reports that the service behind it rejected the request",
)
"""A server error around a rejection. It is worth one more try: the proxy may have another service behind it."""
FAILED_STREAM = Row(
    kind="failed_stream", error=StreamBroken, what="The service reported a failure", hint="Try again later."
)
"""For an error without a status or code that says more."""

ROWS: tuple[Row, ...] = (
    BILLING,
    Row(
        kind="context_overflow",
        error=ContextOverflow,
        what="The request is larger than the rate limit of this account ever lets pass",
        texts=(r"request too large for .*limit [\d,]+, requested [\d,]+",),
    ),
    USED_UP,
    RATE_LIMIT,
    Row(
        kind="overloaded",
        error=Unavailable,
        what="The service is overloaded",
        hint="Try again later.",
        statuses=frozenset({503, 529}),
        codes=_codes(
            "overloaded_error overloaded engine_overloaded engine_overloaded_error server_overloaded"
            " serviceunavailableexception modelnotreadyexception"
        ),
        texts=(r"\b(?:is|are|currently) overloaded\b", r"\bat capacity\b"),
        unless=frozenset({400, 401, 403, 404, 413, 422}),
    ),
    Row(
        kind="tool_use_failed",
        error=ProviderError,
        what="The model wrote a tool call that its own service could not read",
        hint="Try again, or use a model that is better at tool calls.",
        codes=_codes("tool_use_failed"),
        texts=(r"failed to call a function",),
        is_retryable=True,
    ),
    Row(
        kind="context_overflow",
        error=ContextOverflow,
        what="The prompt is larger than the model's context window",
        hint="Use a model with a larger window, or a smaller task.",
        codes=_codes(
            "context_length_exceeded exceed_context_size_error model_context_window_exceeded context_window_exceeded"
        ),
        texts=(
            r"prompt (?:is )?too long",
            r"(?:input|prompt) is too long",
            r"maximum context length (?:is|of) [\d,]+",
            r"exceed(?:s|ed)? (?:the |this model's |its )?(?:model's )?(?:max(?:imum)? )?(?:available )?context",
            r"context (?:length|window|size) (?:was |is )?exceed",
            r"(?:input|prompt|total)[\w ]{0,40} tokens?(?: count)?[^.]{0,60} exceeds? (?:the )?(?:model|max)",
            r"input exceeds the max",
            r"input token count[^.]{0,60} exceeds",
            r"maximum prompt length is",
            r"reduce the length of (?:the |your )?(?:messages|prompt|input)",
            r"too large for model with",
            r"(?:greater|larger|longer) than the (?:model's )?context",
            r"exceeded model token limit",
            r"token limit exceeded",
            r"\btoo many tokens\b",
            r"context (?:the )?overflows?",
            r"prompt token count of [\d,]+ exceeds the limit",
        ),
        unless=_SETTLED_BY_STATUS,
    ),
    Row(
        kind="context_overflow",
        error=ContextOverflow,
        what="The server cut the prompt to its context size and lost the question",
        hint="Raise the context size of the server (num_ctx of Ollama).",
        texts=(r"no user query found in messages",),
    ),
    Row(
        kind="content_too_large",
        error=ContextOverflow,
        what="The request has more bytes than the service takes",
        hint="Send fewer or smaller files and images.",
        statuses=frozenset({413}),
        codes=_codes("request_too_large"),
    ),
    Row(
        kind="refusal",
        error=ProviderError,
        what="The service refused the content of the request",
        hint="Change the prompt, or use another model.",
        codes=_codes("content_policy_violation content_filter moderation_blocked invalid_prompt"),
        texts=(
            r"content management policy",
            r"usage polic(?:y|ies)",
            r"requires moderation",
            r"\bflagged (?:by|as|for|in)\b",
        ),
    ),
    Row(
        kind="unsupported_feature",
        error=ProviderError,
        what="The model, or this route to it, has no tool calls",
        hint="Use a model that supports tools.",
        texts=(
            r"does not support (?:tools?|function)\b(?! choice)",
            r"support tool use",
            r"tool(?:s| use| calling) (?:is|are) not supported",
        ),
        unless=frozenset({401, 403}),
    ),
    Row(
        kind="unsupported_image",
        error=ProviderError,
        what="The service does not take the images of this session",
        hint="Use a model that takes images, or smaller images.",
        texts=(
            r"support image",
            r"\bimages?\b[^.]{0,60}(?:not supported|exceed|too large|invalid)",
            r"(?:does not|doesn't) support (?:images?|vision)",
            r"could not process image",
            r"not a multimodal model",
            r"'image_url'.{0,40}(?:expected|unknown|unsupported)",
        ),
        unless=frozenset({401, 403}) | _SERVER,
    ),
    Row(
        kind="wrong_endpoint",
        error=ProviderError,
        what="The model is not served in this way at this endpoint",
        hint="Choose the wire format that the model needs with --api.",
        texts=(
            r"\bv1/(?:responses|chat/completions|completions|messages)\b",
            r"not a chat model",
            r"\b(?:only|use)\b.{0,30}\bthe responses (?:api|endpoint)\b",
        ),
        unless=frozenset({401, 403}) | _SERVER,
    ),
    Row(
        kind="item_not_found",
        error=ProviderError,
        what="The service no longer has a part of this session",
        texts=(r"item with id '?[\w-]+'? not found",),
    ),
    Row(
        kind="model_not_found",
        error=AuthError,
        what="There is no such model for this key",
        hint="Check the spelling of --model, and that this key may use the model.",
        codes=_codes("model_not_found unknown_model deploymentnotfound model_not_available resourcenotfoundexception"),
        texts=(
            r"\bmodel:? .{0,80}(?:does not exist|not exist|not found|was not found|is not available)",
            r"\bmodel: \S+ .*not_found_error",
            r"no such model",
            r"(?:unknown|invalid) model\b",
            r"not a valid model",
            r"no endpoints found for",
        ),
        unless=frozenset({401, 403}) | _SERVER,
    ),
    Row(
        kind="auth",
        error=AuthError,
        what="The service does not accept the key",
        hint="Check the API key, and that it belongs to this provider and base URL.",
        statuses=frozenset({401, 403}),
        codes=_codes(
            "authentication_error invalid_api_key permission_error permission_denied unauthenticated"
            " accessdeniedexception unrecognizedclientexception expiredtokenexception"
        ),
        texts=(
            r"(?:invalid|incorrect|missing|expired) (?:api|x-api|access)[ -]?key",
            r"api key (?:is )?(?:not valid|not found|invalid|expired)",
            r"no (?:auth|api key|cookie auth) .{0,20}(?:provided|found)",
        ),
        unless=frozenset({429}) | _SERVER,
    ),
    Row(
        kind="bad_request",
        error=ProviderError,
        what="The chat template of the server does not take this history",
        hint="Use another chat template or server for this model.",
        texts=(r"jinja exception", r"roles must alternate", r"unexpected message role"),
    ),
    Row(
        kind="unavailable",
        error=Unavailable,
        what="The service failed",
        hint="Try again later.",
        statuses=frozenset({408, 409, 425}) | (frozenset(range(500, 600)) - _NOT_IMPLEMENTED),
        codes=_codes(
            "server_error api_error internal_error internal_server_error timeout timeout_error upstream_error"
            " network_error insufficient_system_resource service_unavailable unavailable deadline_exceeded"
            " internalserverexception modelstreamerrorexception modeltimeoutexception modelerrorexception"
        ),
        unless=frozenset(range(300, 500)) | _NOT_IMPLEMENTED,
    ),
    Row(
        kind="not_found",
        error=ProviderError,
        what="The service has nothing at this address",
        hint="Check --base-url: it ends before /chat/completions, /responses or /v1/messages.",
        statuses=frozenset({404, 405}),
    ),
    Row(
        kind="redirect",
        error=ProviderError,
        what="The service sends requests to another address",
        hint="Use the new address as --base-url.",
        statuses=frozenset(range(300, 400)),
    ),
    BAD_REQUEST,
)

ROOM_TEXTS: tuple[str, ...] = (
    r"requested (?:about )?(?P<total>[\d,]+) tokens \((?P<prompt>[\d,]+) in the messages[^)]*\)",
    r"requested (?:about )?(?P<total>[\d,]+) tokens \([^)]*?(?P<output>[\d,]+) (?:in|of) the (?:output|completion)\)",
    r"requested (?P<output>[\d,]+) output tokens and your prompt contains (?:at least )?(?P<prompt>[\d,]+)",
    r"context length is (?P<window>[\d,]+) tokens and your request has (?P<prompt>[\d,]+) input tokens",
    r"exceed context limit: (?P<prompt>[\d,]+) \+ (?P<output>[\d,]+) > (?P<window>[\d,]+)",
    r"max_tokens: [\d,]+ > (?P<cap>[\d,]+)",
    r"supports at most (?P<cap>[\d,]+) (?:completion|output) tokens",
    r"requested exceeds the model limit of (?P<cap>[\d,]+)",
    r"max(?:_completion|_output)?_tokens\W{0,3} must be (?:less than or equal to|at most|<=) \W?(?P<cap>[\d,]+)",
    r"valid range of max_tokens is \[\d+, (?P<cap>[\d,]+)\]",
    r"supported range is from \d+ \(inclusive\) to (?P<below>[\d,]+) \(exclusive\)",
    r"can only afford (?P<below>[\d,]+)",
)
"""How services say that the output asked for is too long. Groups: cap or below (a limit of the output), or window,
prompt, total and output, from which the room follows. `window` may stand elsewhere in the text."""
WINDOW_TEXT = r"maximum context length (?:is|of) (?P<window>[\d,]+)"
WINDOW_TEXTS: tuple[str, ...] = (
    WINDOW_TEXT,
    r"available context size \((?P<window>[\d,]+) tokens",
    r"tokens? > (?P<window>[\d,]+) maximum",
    r"exceeds the model's max of (?P<window>[\d,]+)",
    r"maximum prompt length is (?P<window>[\d,]+)",
    r"maximum number of tokens allowed \((?P<window>[\d,]+)\)",
    r"\blimit:? (?P<window>[\d,]+), requested",
)
"""How services name the tokens that they take when a prompt has more."""
