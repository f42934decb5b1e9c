"""Every failure that ends a run, as one tree. A leaf names its ending; a message says what happened, a hint what to do.

    AgentctlError                      error
    ├── UsageError                     usage        flags, config, policy, prompt, agent, session
    │   ├── ConfigError                             a config file or variable, with its place
    │   └── PolicyError                             a policy file, with file and line
    ├── LimitReached                   limit        .limit: steps, tool_calls, tokens, cost, loop
    ├── Busy                           busy         another run holds the session
    ├── DeniedTooOften                 denied
    ├── Suspended                      suspended    calls wait for approval
    ├── QuestionOpen                   question     --on-question fail
    ├── Cancelled                      cancelled    .exit_code: 129, 130, 141, 143
    ├── TimedOut                       timeout
    ├── JournalError                   error
    └── ProviderError                  provider     rejected, refused, cut, empty
        ├── ContextOverflow                         the engine may compact once
        ├── OutputCapped                            prompt fits, prompt + max output does not
        ├── AuthError                  auth         key, credit, model
        └── Unavailable                unavailable  retried before it leaves the provider
            └── StreamBroken                        failed or incomplete stream

What the model can mend is never raised across the loop: it comes back as an error *result* (ToolFailure stays inside
dispatch).
"""

from __future__ import annotations

from agentctl.core.endings import ENDINGS
from agentctl.core.types import Usage


class AgentctlError(Exception):
    """Base of the tree. `hint` is one sentence that says what to do; it may be empty."""

    ending = "error"
    kind = "internal"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(AgentctlError):
    ending = "usage"
    kind = "usage"


class ConfigError(UsageError):
    kind = "config"


class PolicyError(UsageError):
    kind = "policy"


class LimitReached(AgentctlError):
    ending = "limit"
    kind = "limit"

    def __init__(self, limit: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.limit = limit


class Busy(AgentctlError):
    ending = "busy"
    kind = "busy"


class DeniedTooOften(AgentctlError):
    ending = "denied"
    kind = "denied"


class Suspended(AgentctlError):
    """Calls wait for a person's word. What the run could do without them is done."""

    ending = "suspended"
    kind = "suspended"


class QuestionOpen(AgentctlError):
    """The model needs an answer that this run does not have."""

    ending = "question"
    kind = "question"


class Cancelled(AgentctlError):
    ending = "cancelled"
    kind = "cancelled"

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class TimedOut(AgentctlError):
    ending = "timeout"
    kind = "timeout"


class JournalError(AgentctlError):
    kind = "journal"


class ProviderError(AgentctlError):
    """The service said no in a way that asking again will not change. `status` is the HTTP status, if any."""

    ending = "provider"
    kind = "provider"
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        kind: str = "",
        param: str = "",
        retry_after_s: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.param = param
        self.retry_after_s = retry_after_s
        self.usage = usage
        """Tokens of the failed response, as far as they are known; they are paid for."""
        if kind:
            self.kind = kind


class ContextOverflow(ProviderError):
    kind = "context_overflow"
    window: int | None = None
    """Tokens that the service takes, when it said so."""


class OutputCapped(ProviderError):
    """The prompt fits the window, but not together with the output that was asked for."""

    kind = "output_limit"

    def __init__(self, message: str, *, room: int | None = None, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.room = room
        """Output tokens that would fit, when the service said so."""


class AuthError(ProviderError):
    ending = "auth"
    kind = "auth"


class Unavailable(ProviderError):
    ending = "unavailable"
    kind = "unavailable"
    retryable = True


class StreamBroken(Unavailable):
    kind = "incomplete_stream"


def exit_code_of(error: AgentctlError) -> int:
    """The exit code of the ending that an error carries."""
    return error.exit_code if isinstance(error, Cancelled) else ENDINGS[error.ending].exit_code


class ToolFailure(Exception):
    """Raised by a tool for what the model can mend. The text becomes an error result; it says what would work."""


class NoAnswerYet(Exception):
    """Raised by a tool whose call only a person can answer: it stays open, and the run ends after its other calls."""

    def __init__(self, error: AgentctlError, *, otherwise: str) -> None:
        """`error` ends the run; `otherwise` is the result where the run goes on all the same."""
        super().__init__(error.message)
        self.error = error
        self.otherwise = otherwise


class InvalidArguments(ToolFailure):
    """The arguments of a call do not fit the tool's schema."""
