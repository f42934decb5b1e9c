"""The seams. The engine and the islands meet here; runner/app.py puts the real parts in, tests put fakes in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Literal, Protocol, TypeAlias

from agentctl.core.events import Event, Notice, Retry
from agentctl.core.record import Record
from agentctl.core.types import (
    Amount,
    CommandEnd,
    CommandLine,
    Decision,
    JsonObject,
    Message,
    ModelInfo,
    PendingCall,
    Problem,
    Request,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)

# --- the model ----------------------------------------------------------------------------------------------------


class TextPiece(Record):
    """Text of the answer as it arrives. Adapters join the pieces of one network read."""

    text: str


class ReasoningPiece(Record):
    text: str


class CallStarted(Record):
    """A call began; its arguments are still coming."""

    id: str
    name: str


class Metered(Record):
    """What is known so far of the usage of the response in flight. A later one replaces it, Completed ends it."""

    usage: Usage


class Answering(Record):
    """Another model than the one of the request answers from here on, for the rest of the run.

    Comes before everything that this model says, in every stream. Usage that follows has its price.
    """

    model: ModelInfo


class Attempt(Record):
    """A response that failed, was cut off or thrown away, and is paid for all the same."""

    usage: Usage


class Completed(Record):
    """The end of a successful stream, exactly once. `stop`: end (an answer), calls, length (cut), refused."""

    message: Message
    usage: Usage
    stop: str
    model: str
    """The model name the service answered with, or the one asked for."""
    detail: str = ""
    """Why it was refused or cut, in the service's words."""


StreamItem: TypeAlias = (
    TextPiece | ReasoningPiece | CallStarted | Metered | Answering | Retry | Notice | Attempt | Completed
)


class Provider(Protocol):
    def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Pieces, Retry, Notice, Answering, Attempt, then exactly one Completed. Failure raises a ProviderError."""
        ...

    async def close(self) -> None: ...


# --- tools --------------------------------------------------------------------------------------------------------


class Tool(Protocol):
    """Never consulted about permission: a denied call does not reach `run`."""

    @property
    def spec(self) -> ToolSpec: ...

    def parse(self, args: JsonObject) -> JsonObject:
        """The arguments as the tool will see them. Raises InvalidArguments, whose text says what would fit."""
        ...

    async def run(self, call_id: str, args: JsonObject) -> ToolResult:
        """Runs a call whose arguments went through `parse`. Raises ToolFailure for what the model can mend.

        When the task is cancelled it stops what it started before it lets the cancellation pass.
        """
        ...


class Policy(Protocol):
    def decide(self, spec: ToolSpec, args: JsonObject) -> Decision:
        """Judges a call with valid arguments. Never raises for a hostile input; bounded to about 2 s."""
        ...

    def may_read(self, path: str) -> bool:
        """Whether a search tool may show what stands in this file (relative to the root)."""
        ...


Emit: TypeAlias = Callable[[Event], None]
"""How a running tool sends a live event; dispatch stamps it and puts it into the stream."""


class CommandRunner(Protocol):
    async def run(self, command: CommandLine, sink: Callable[[str, bytes], None]) -> CommandEnd:
        """Runs one command in its own process group with stdin null and a scrubbed environment.

        `sink(stream, chunk)` gets the output as it comes; stream is stdout or stderr. Returns when the direct child
        has ended (pipes that grandchildren hold open are drained for at most 2 s), when `timeout_s` is over, or when
        `interrupt` was called; then the whole tree is dead. Cancelling the task kills the tree as well.
        """
        ...

    def interrupt(self) -> int:
        """Stops every running command (SIGUSR1); the turn goes on. Returns how many."""
        ...


class OutputFile(Protocol):
    """One whole result, kept while it is produced. Past its cap bytes are counted and dropped."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> str | None:
        """The path to give to the model, relative to the workspace root when it lies inside; None if not kept."""
        ...

    def discard(self) -> None:
        """Forgets the file: the result was short enough to be shown whole."""
        ...


class Outputs(Protocol):
    def open(self) -> OutputFile: ...


# --- people ---------------------------------------------------------------------------------------------------------


class Standing(Record):
    """How an unanswered call of an earlier run stands.

    `unknown`: it was interrupted, nobody knows what it did. `waiting` for a person's word; `granted`, once; `denied`;
    `lapsed`: it waited, and no word can count any more. `open`: it has no effects, so it is simply made again.
    """

    state: Literal["unknown", "waiting", "granted", "denied", "lapsed", "open"]
    pending: PendingCall | None = None
    """What it waited for."""
    reason: str = ""
    """For the model, where the call will not run."""


class Approvals(Protocol):
    def standing(self, call: ToolCall, args: JsonObject | None = None) -> Standing:
        """A call of the history that no answer follows. With its arguments the grant is held against them, too."""
        ...

    def request(self, call: ToolCall, args: JsonObject, decision: Decision) -> PendingCall | str:
        """What a call that the policy asks for waits for; or the reason why it does not wait, and is denied."""
        ...


# --- the run ------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    def now(self) -> str:
        """RFC 3339, UTC, milliseconds."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Ledger(Protocol):
    """Money and tokens that many runs share."""

    max_cost: float | None
    """USD for all runs together. None: no cap."""
    max_tokens: int | None

    def admit(self, least: Amount, most: Amount) -> bool:
        """Reserves `most` for a request that uses at least `least`. False: ask again later, others may give some back.

        Raises LimitReached when what all runs have spent leaves no room for `least`. Never waits for long.
        """
        ...

    def settle(self, most: Amount, spent: Amount) -> None:
        """Gives `most` back and counts what was spent. Never raises; what cannot be settled stays reserved."""
        ...


Where: TypeAlias = Literal["stable", "turn", "tail", "head", "step"]
"""Where a section stands: `stable` in the part of the system prompt that services cache, the same bytes for the whole
run; `turn` behind it; `tail` at its very end, behind the summary of a compaction; `head` before the user's message of
the turn, on the wire only; `step` in the wire-only <state> part. `step` is rendered for each request, `turn`, `tail`
and `head` once a turn."""


class Section(Protocol):
    """Something that a plane puts into the prompt. Counted in done.injected under `plane`."""

    name: str
    plane: str
    where: Where

    def render(self) -> str:
        """The text, within the section's own budget; empty when there is nothing to say."""
        ...


# --- what a turn yields ---------------------------------------------------------------------------------------------


class Appended(Record):
    """A message joined the history. The journal has it on disk before the turn goes on."""

    message: Message


class Spent(Record):
    """Tokens were paid for, whether the response was used or not."""

    usage: Usage
    cost_usd: float | None


class Viewed(Record):
    """From now on less of the history goes on the wire; the journal keeps both."""

    view: JsonObject
    """A view of the engine, as a row."""


class Pending(Record):
    """A call waits for approval. The journal has it on disk before any call of its step runs."""

    call: PendingCall
    is_new: bool
    """False when an earlier run has written it down already."""


class GrantUsed(Record):
    """A granted call is about to run. The journal has it on disk before it does, so it never runs twice."""

    approval: str


class Saved(Record):
    """State that goes into the journal, so that a resumed session has it again."""

    state: JsonObject


class Degraded(Record):
    """A plane could not do its part; the run goes on without. Said in a notice and in done.problems."""

    problem: Problem


Item: TypeAlias = Event | Appended | Spent | Viewed | Pending | GrantUsed | Saved | Degraded
"""What a turn yields: public events, and between them what only the journal and the runner see."""
