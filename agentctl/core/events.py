"""The public events: what a run says on stdout with `--json`, one line each.

`agentctl schema events` publishes them as a JSON Schema; docs/headless.md explains each. Names and fields are a
promise: a change needs a new SCHEMA_VERSION (tests/golden keeps the schema). Consumers are told that unknown types
and fields may appear.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from agentctl.core.record import Record
from agentctl.core.types import (
    Approval,
    AskedOption,
    AskedQuestion,
    Denial,
    FileChange,
    Injected,
    JsonObject,
    Problem,
    Todo,
    Usage,
)

SCHEMA_VERSION = 1


class Event(Record):
    """A payload. The envelope (seq, time, session, turn, step, subagent) is added where it leaves the run."""

    type: ClassVar[str] = ""


class ModelUsed(Record):
    vendor: str
    name: str
    api: str
    origin: str


class InstructionFile(Record):
    path: str
    sha256: str
    trust: str


class PolicyUsed(Record):
    digest: str
    sources: tuple[str, ...]
    yolo: bool


class SandboxUsed(Record):
    wanted: str
    level: int
    network: str
    missing: tuple[str, ...]
    fix: str


class StdinUsed(Record):
    """What stdin gave: mode none, prompt, appended, kept (whole text in a file) or silent (a pipe without data)."""

    mode: str
    chars: int
    path: str | None = None


class Init(Event):
    """First line of every run. After a start-up failure everything that was not settled yet is null."""

    type: ClassVar[str] = "init"
    schema: int
    version: str
    cwd: str
    model: ModelUsed | None = None
    agent: str | None = None
    think: str | None = None
    tools: tuple[str, ...] | None = None
    instructions: tuple[InstructionFile, ...] | None = None
    skills: tuple[str, ...] | None = None
    mcp: tuple[str, ...] | None = None
    policy: PolicyUsed | None = None
    sandbox: SandboxUsed | None = None
    limits: JsonObject | None = None
    injection: str | None = None
    stdin: StdinUsed | None = None
    problems: tuple[Problem, ...] | None = None


class ContextUse(Record):
    tokens: int
    threshold: int
    percent: int
    level: str
    """ok, amber (from two thirds) or red (from 90 %)."""


class Step(Event):
    """A response was metered. Comes once a step, after its last text."""

    type: ClassVar[str] = "step"
    n: int
    model: str
    usage: Usage
    cost_usd: float | None
    context: ContextUse


class TextDelta(Event):
    type: ClassVar[str] = "text"
    delta: str


class ReasoningDelta(Event):
    type: ClassVar[str] = "reasoning"
    delta: str


class MessageText(Event):
    """The whole text of a step. Text that a retry made void never stands here."""

    type: ClassVar[str] = "message"
    text: str


class ToolStart(Event):
    """A call began to stream in. It may never be followed by its tool-call."""

    type: ClassVar[str] = "tool-start"
    id: str
    name: str


class ToolCalled(Event):
    """A call with its decision. Exactly one of tool-result, tool-error, tool-denied, tool-suspended follows."""

    type: ClassVar[str] = "tool-call"
    id: str
    name: str
    input: Any
    """The arguments; the text as sent when it is not a JSON object."""
    decision: JsonObject | None
    """verdict, rule, source; null when the call names no tool or its arguments do not fit."""
    resumed: bool = False


class ToolOutput(Event):
    type: ClassVar[str] = "tool-output"
    id: str
    stream: str
    chunk: str


class ToolResulted(Event):
    type: ClassVar[str] = "tool-result"
    id: str
    name: str
    output: str
    summary: str
    truncated: bool
    duration_ms: int
    changed: tuple[FileChange, ...]
    exit_code: int | None


class ToolErrored(Event):
    type: ClassVar[str] = "tool-error"
    id: str
    name: str
    error: str


class ToolDenied(Event):
    type: ClassVar[str] = "tool-denied"
    id: str
    name: str
    reason: str
    rule: str
    source: str
    allow_with: str | None


class ToolSuspended(Event):
    """The call waits for a person, and its outcome comes in a later run."""

    type: ClassVar[str] = "tool-suspended"
    id: str
    name: str
    approval: str | None
    """Id of the approval; null for a question, which waits for its answer."""


class Question(Event):
    """The model asked for something that only a person can say."""

    type: ClassVar[str] = "question"
    id: str
    question: str
    options: tuple[AskedOption, ...]
    multiple: bool
    answered: bool
    """Whether this run has the answer."""


class Todos(Event):
    type: ClassVar[str] = "todos"
    items: tuple[Todo, ...]
    done: int
    total: int
    blocked: int


class Compacted(Event):
    """The context became too long; less of the history goes on the wire from here on. At most once a turn."""

    type: ClassVar[str] = "compacted"
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    dropped: int
    """Messages that left the wire; the session keeps them."""
    summary: str


class Retry(Event):
    """A model call is tried again. `discard`: text events of this step so far are void."""

    type: ClassVar[str] = "retry"
    attempt: int
    of: int
    wait_s: float
    reason: str
    status: int | None
    discard: bool


class TurnEnd(Event):
    """One of several prompts was answered; the next one follows."""

    type: ClassVar[str] = "turn-end"
    n: int
    text: str


class Notice(Event):
    type: ClassVar[str] = "notice"
    code: str
    text: str


class ErrorEvent(Event):
    type: ClassVar[str] = "error"
    kind: str
    message: str
    hint: str
    retryable: bool
    status: int | None = None


class CriterionMet(Record):
    text: str
    addressed: str
    """yes, no or unknown."""
    evidence: str


class PinUsed(Record):
    """The pin as it stood at the end. `criteria` only with --pin-mode model."""

    text: str
    mode: str
    criteria: tuple[CriterionMet, ...] = ()


class CommandUsed(Record):
    command: str
    exit_code: int | None


class Done(Event):
    """Last line of every run, exactly once."""

    type: ClassVar[str] = "done"
    ended: str
    exit_code: int
    limit: str | None = None
    text: str = ""
    """The final text of the turn; empty when the turn did not complete."""
    output: Any = None
    unmet: tuple[str, ...] = ()
    steps: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    usage_total: Usage = Usage()
    """Of the session: this run and the ones it continues."""
    cost_usd: float | None = None
    duration_ms: int = 0
    denials: tuple[Denial, ...] = ()
    files_changed: tuple[str, ...] = ()
    files_source: str = "tools"
    """tools: what tools reported; tools+git: joined with the difference of git status."""
    commands: tuple[CommandUsed, ...] = ()
    todos: tuple[Todo, ...] = ()
    pin: PinUsed | None = None
    injected: Mapping[str, Injected] = MappingProxyType({})
    questions: tuple[AskedQuestion, ...] = ()
    """Those that nobody answered in this run."""
    approvals: tuple[Approval, ...] = ()
    """Calls that wait."""
    retries: int = 0
    resume: str | None = None
    """The command line that goes on with this session; null when nothing was saved."""
    problems: tuple[Problem, ...] = ()


class Stamped(Record):
    """An event with its envelope, as it leaves the run."""

    event: Event
    seq: int
    time: str
    session: str | None
    turn: int
    step: int
    subagent: str | None = None


EVENTS: tuple[type[Event], ...] = (
    Init,
    Step,
    TextDelta,
    ReasoningDelta,
    MessageText,
    ToolStart,
    ToolCalled,
    ToolOutput,
    ToolResulted,
    ToolErrored,
    ToolDenied,
    ToolSuspended,
    Todos,
    Question,
    Compacted,
    Retry,
    TurnEnd,
    Notice,
    ErrorEvent,
    Done,
)
"""Every event this version can send, in the order of the docs."""

StreamEvent: TypeAlias = TextDelta | ReasoningDelta
