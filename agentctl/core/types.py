"""The words of the project as types: what flows between the layers. All frozen.

Sizes are characters unless a name says bytes or tokens; times are seconds; money is USD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from agentctl.core.record import Record

JsonObject: TypeAlias = dict[str, Any]

Api = Literal["openai-chat", "openai-responses", "anthropic-messages"]
Role = Literal["user", "assistant", "tool"]
Effect = Literal["read", "write", "exec", "network", "agent", "state"]
ToolSet = Literal["core", "edit-plus", "git", "net", "session"]
Think = Literal["off", "low", "medium", "high", "max"]
Verdict = Literal["guard", "deny", "opaque", "protect", "ask", "allow", "unmatched"]
Access = Literal["read", "write"]


# --- messages ---------------------------------------------------------------------------------------------------


class Opaque(Record):
    """Provider-bound data (a signature, encrypted reasoning, an item id). An adapter replays only its own."""

    provider: str
    """Base URL of the endpoint that made it."""
    api: str
    model: str
    data: JsonObject


class Text(Record):
    text: str


class Reasoning(Record):
    """Thinking of the model. `text` may be empty when the service only gives an encrypted form."""

    text: str
    opaque: Opaque | None = None


class Image(Record):
    media_type: str
    """image/png, image/jpeg, image/gif or image/webp."""
    data: str
    """Base64."""


class ToolCall(Record):
    """A call the model asks for. `arguments` is the JSON text as sent, valid or not."""

    id: str
    name: str
    arguments: str
    opaque: Opaque | None = None


class ToolAnswer(Record):
    """What the model is told about one call; stands in a message of role `tool`."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


Part: TypeAlias = Text | Reasoning | Image | ToolCall | ToolAnswer


class Message(Record):
    """One entry of a history. `user` holds Text and Image; `assistant` Text, Reasoning, ToolCall; `tool` ToolAnswer."""

    role: Role
    parts: tuple[Part, ...]
    opaque: Opaque | None = None
    """What the whole message needs to be replayed, for example the phase of a Responses message."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


# --- usage, models, requests --------------------------------------------------------------------------------------


class Usage(Record):
    """Tokens of one or many responses. `input` excludes cached tokens; `output` includes reasoning."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
        )

    @property
    def prompt(self) -> int:
        """All tokens that were sent."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.prompt + self.output


class Amount(Record):
    """What requests use of a shared budget."""

    cost_usd: float = 0.0
    tokens: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(cost_usd=self.cost_usd + other.cost_usd, tokens=self.tokens + other.tokens)


class PriceTier(Record):
    """What every token of a response costs whose prompt is longer than `above` tokens."""

    above: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class Price(Record):
    """USD per million tokens. A class of tokens without its own price is None and costs as `input`."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    tiers: tuple[PriceTier, ...] = ()
    """In ascending order."""

    def cost(self, usage: Usage) -> float:
        """Of one response: which tier counts is decided by the length of its prompt."""
        rate: Price | PriceTier = self
        for tier in self.tiers:
            if usage.prompt > tier.above:
                rate = tier
        read = rate.input if rate.cache_read is None else rate.cache_read
        write = rate.input if rate.cache_write is None else rate.cache_write
        return (
            usage.input * rate.input + usage.cache_read * read + usage.cache_write * write + usage.output * rate.output
        ) / 1_000_000


class ModelInfo(Record):
    """A model as this run will use it. Unknown is None, never guessed."""

    vendor: str
    name: str
    api: Api
    base_url: str
    """Ends before /chat/completions, /responses or /v1/messages."""
    origin: str
    """Where the choice came from: flag, environment, config, preset."""
    profile: str
    """The row of providers/profiles.py that holds the quirks of this endpoint family."""
    window: int | None = None
    max_output: int | None = None
    price: Price | None = None
    images: bool | None = None
    reasoning: bool | None = None


class Subject(Record):
    """One thing that a call touches and that the policy judges on its own."""

    kind: Literal["path", "url", "command", "server"]
    value: str
    access: Access = "read"


class ToolSpec(Record):
    """What a tool is: for the wire (name, description, parameters), the policy (effect, subjects) and the sets."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of an object."""
    effect: Effect
    set: ToolSet
    subjects: Callable[[JsonObject], tuple[Subject, ...]]
    """Every path, URL and command of a call with valid arguments. Empty: only rules on the bare tool match."""
    acts_as: Callable[[JsonObject], tuple[str, JsonObject]] | None = None
    """For a wrapper such as mcp_call: the name and the arguments of the call it stands for."""


class SystemBlock(Record):
    """A piece of the system prompt. The stable ones come first and are the same bytes in every step of a run."""

    name: str
    text: str
    is_stable: bool = True


class RequestOptions(Record):
    think: Think = "off"
    max_output_tokens: int | None = None
    cache_key: str | None = None
    """Hash of the stable prefix; the same for every step."""
    show_reasoning: bool = False


class Request(Record):
    """Everything one model call needs. Nothing in it depends on the clock, the run or absolute paths."""

    system: tuple[SystemBlock, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    options: RequestOptions
    model: ModelInfo
    state: str = ""
    """Wire-only text that adapters put at the very end of the last message, behind every cache breakpoint."""


# --- results, changes, decisions ------------------------------------------------------------------------------------


class FileChange(Record):
    path: str
    """Relative to the workspace root, with forward slashes."""
    kind: Literal["added", "modified", "deleted", "moved"]
    diff: str = ""
    """Unified diff, cut; empty for binary files."""
    moved_to: str | None = None


class CommandRun(Record):
    command: str
    exit_code: int | None


class ToolResult(Record):
    """What a tool gives back. `content` is for the model, `summary` (one line) for people."""

    call_id: str
    content: str
    is_error: bool = False
    summary: str = ""
    changed: tuple[FileChange, ...] = ()
    exit_code: int | None = None
    is_truncated: bool = False
    command: CommandRun | None = None
    """Set by tools that ran a command, for `done.commands`."""
    images: tuple[Image, ...] = ()


class Losing(Record):
    """A rule that matched too but lost; for `policy explain`."""

    verdict: str
    rule: str
    source: str


class Decision(Record):
    """What the policy says about a call. `runs` is what a headless run does with it."""

    verdict: Verdict
    runs: bool
    rule: str
    source: str
    """File and line, a flag, or `built-in`."""
    reason: str
    allow_with: str | None = None
    """The `--allow` value that would let it run; None where nothing lifts the refusal."""
    asks: bool = False
    """It does not run, and nothing stands against it but that a person should look at it first."""
    losing: tuple[Losing, ...] = ()


class PendingCall(Record):
    """A call that waits for a person's word, in this run or a later one."""

    id: str
    """Of the approval."""
    call_id: str
    name: str
    input: JsonObject
    """The arguments as the tool would get them, and as the person is shown them."""
    rule: str
    source: str
    """Where the rule that asks stands: file and line, a flag, or `built-in`."""
    policy: str
    """Digest of the policy that asked."""
    expires: str
    """RFC 3339, UTC. From then on nobody's word counts any more."""


class Grant(Record):
    """A person's yes: to this one call, with these arguments, under these rules, once, until it expires."""

    approval: str
    project: str
    """Key of the project's state."""
    session: str
    call_id: str
    name: str
    arguments: str
    """SHA-256 in hex of the canonical arguments."""
    policy: str
    expires: str
    signature: str = ""
    """HMAC-SHA-256 in hex over all of the above; empty when it was given without a key."""


class Approval(Record):
    """What `done.approvals` says about a call that waits."""

    id: str
    call_id: str
    name: str
    input: JsonObject
    rule: str
    expires: str


class AskedOption(Record):
    label: str
    detail: str = ""


class AskedQuestion(Record):
    """What `done.questions` says about a question that nobody answered."""

    id: str
    question: str
    options: tuple[AskedOption, ...] = ()
    multiple: bool = False


class Denial(Record):
    id: str
    name: str
    reason: str
    rule: str
    source: str
    allow_with: str | None


class Todo(Record):
    content: str
    status: Literal["pending", "in_progress", "done", "blocked"]
    note: str = ""


class Problem(Record):
    """Something that was left out or does not hold, and how to mend it."""

    code: str
    what: str
    why: str
    fix: str = ""


class Injected(Record):
    chars: int
    tokens: int


class CommandLine(Record):
    """A command for the CommandRunner. `argv` is run without a shell; env is added to the scrubbed environment."""

    argv: tuple[str, ...]
    cwd: str
    timeout_s: float
    env: Mapping[str, str] = MappingProxyType({})


class CommandEnd(Record):
    """How a command ended. Exactly one of exit_code and signal is set when the process was reaped."""

    exit_code: int | None
    signal: int | None = None
    is_timed_out: bool = False
    is_interrupted: bool = False
    """SIGUSR1 stopped it; its effects are unknown."""
    notes: tuple[str, ...] = ()
    """What the sandbox has to say about it, a line each: what it undid, and which flag would lift a refusal."""
