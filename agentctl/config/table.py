"""The table of options: flags, config keys, variables, help and docs are made of it."""

from __future__ import annotations

from collections.abc import Mapping

from agentctl.config.agents import AGENTS
from agentctl.config.values import Kind
from agentctl.core.record import Record


class Option(Record):
    """One row of the table."""

    name: str
    """The field of Options; also the config key and, in capitals, the variable."""
    flags: tuple[str, ...]
    kind: Kind
    group: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    minimum: float = 0
    maximum: float | None = None
    is_once: bool = False
    """Makes sense for one run only: no config key and no variable."""
    is_flag_or_variable: bool = False
    """No config key, because it says which config is read."""
    is_never_project: bool = False
    """Left out of a project's config file, trusted or not: a checkout must not widen what a run may do."""
    joins_layers: bool = False
    """Values of all layers count together; otherwise the highest layer that says anything wins."""

    @property
    def flag(self) -> str:
        """The flag as messages and origins name it: the long one."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])

    @property
    def key(self) -> str | None:
        return None if self.is_once or self.is_flag_or_variable else self.name

    @property
    def variable(self) -> str | None:
        return None if self.is_once else f"{VARIABLE_PREFIX}{self.name.upper()}"

    @property
    def is_switch(self) -> bool:
        return self.kind == "switch"

    @property
    def is_repeatable(self) -> bool:
        """May stand several times on a command line; in a file it is a list."""
        return self.kind in ("lines", "words")


VARIABLE_PREFIX = "AGENTCTL_"

PROMPT = "Prompt"
OUTPUT = "Output"
PLACE = "Place"
MODEL = "Model"
LIMITS = "Limits"
SESSION = "Session"
STATE = "State"
SAFETY = "Policy and trust"
LEAVE_OUT = "Leave out"

GROUPS: tuple[str, ...] = (PROMPT, OUTPUT, PLACE, MODEL, LIMITS, SESSION, STATE, SAFETY, LEAVE_OUT)
"""The groups of the help, in its order."""

APIS = ("openai-chat", "openai-responses", "anthropic-messages")
THINKING = ("off", "low", "medium", "high", "max")
MAX_TOOL_TIMEOUT_S = 600
SANDBOXES = ("auto", "off", "required", "required:1", "required:2", "required:3")

OPTIONS: tuple[Option, ...] = (
    Option(
        name="prompt",
        flags=("-p", "--prompt"),
        kind="lines",
        group=PROMPT,
        metavar="TEXT",
        is_once=True,
        help="The prompt; - is stdin, @PATH attaches a file. Several run in order as turns of one session.",
    ),
    Option(
        name="prompt_file",
        flags=("--prompt-file",),
        kind="path",
        group=PROMPT,
        metavar="FILE",
        is_once=True,
        help="Read the prompt from a file; - is stdin.",
    ),
    Option(
        name="stdin",
        flags=("--stdin",),
        kind="choice",
        group=PROMPT,
        choices=("auto", "append", "none"),
        help="What piped data beside a prompt does: append waits for it, none ignores it. [auto]",
    ),
    Option(
        name="file",
        flags=("--file",),
        kind="lines",
        group=PROMPT,
        metavar="PATH",
        is_once=True,
        help="Attach a text file. Repeatable.",
    ),
    Option(
        name="image",
        flags=("--image",),
        kind="lines",
        group=PROMPT,
        metavar="PATH",
        is_once=True,
        help="Attach an image. Repeatable.",
    ),
    Option(
        name="on_question",
        flags=("--on-question",),
        kind="choice",
        group=PROMPT,
        choices=("assume", "fail"),
        help="A question that nobody answered: the model decides itself, or the run ends with exit code 7. [assume]",
    ),
    Option(
        name="answers",
        flags=("--answers",),
        kind="path",
        group=PROMPT,
        metavar="FILE",
        help="Answers to questions of the model, by their ids: JSON or TOML.",
    ),
    Option(
        name="answer",
        flags=("--answer",),
        kind="lines",
        group=PROMPT,
        metavar="ID=TEXT",
        is_once=True,
        help="One answer; stands above the file. Repeatable.",
    ),
    Option(
        name="format",
        flags=("--format",),
        kind="choice",
        group=OUTPUT,
        choices=("text", "json", "jsonl"),
        help="text: the final answer; json: the done object alone; jsonl: every event. [text]",
    ),
    Option(
        name="json",
        flags=("--json",),
        kind="switch",
        group=OUTPUT,
        help="The same as --format jsonl; with a verb, one JSON document.",
    ),
    Option(
        name="output",
        flags=("-o", "--output"),
        kind="path",
        group=OUTPUT,
        metavar="FILE",
        is_once=True,
        help="Write the final answer to a file, whole or not at all.",
    ),
    Option(
        name="quiet",
        flags=("-q", "--quiet"),
        kind="switch",
        group=OUTPUT,
        help="Nothing on stderr unless the run fails.",
    ),
    Option(
        name="no_stream",
        flags=("--no-stream",),
        kind="switch",
        group=OUTPUT,
        help="Leave out text and reasoning events.",
    ),
    Option(
        name="show_reasoning",
        flags=("--show-reasoning",),
        kind="switch",
        group=OUTPUT,
        help="Send reasoning events.",
    ),
    Option(
        name="debug",
        flags=("--debug",),
        kind="switch",
        group=OUTPUT,
        help="More on stderr, for bug reports.",
    ),
    Option(
        name="directory",
        flags=("-C", "--directory"),
        kind="path",
        group=PLACE,
        metavar="DIR",
        is_once=True,
        help="The workspace root, instead of the current folder.",
    ),
    Option(
        name="project",
        flags=("--project",),
        kind="text",
        group=PLACE,
        metavar="NAME",
        help="Keep state under this name instead of the folder's path.",
    ),
    Option(
        name="add_dir",
        flags=("--add-dir",),
        kind="lines",
        group=PLACE,
        metavar="DIR",
        is_never_project=True,
        help="One more folder that may be read and written. Repeatable.",
    ),
    Option(
        name="model",
        flags=("--model",),
        kind="text",
        group=MODEL,
        metavar="VENDOR/MODEL",
        help="The model. [of the first vendor whose key is in the environment]",
    ),
    Option(
        name="api",
        flags=("--api",),
        kind="choice",
        group=MODEL,
        metavar="FORMAT",
        choices=APIS,
        help="The wire format: openai-chat, openai-responses or anthropic-messages. [the vendor's]",
    ),
    Option(
        name="base_url",
        flags=("--base-url",),
        kind="url",
        group=MODEL,
        metavar="URL",
        is_never_project=True,
        help="Where the service is, up to /chat/completions, /responses or /v1/messages. [the vendor's]",
    ),
    Option(
        name="transport",
        flags=("--transport",),
        kind="choice",
        group=MODEL,
        choices=("direct", "sdk"),
        help="What sends the requests: agentctl itself, or the official client libraries. [direct]",
    ),
    Option(
        name="header",
        flags=("--header",),
        kind="lines",
        group=MODEL,
        metavar="NAME: VALUE",
        is_never_project=True,
        help="A header of every request; ${VARIABLE} is read from the environment. Repeatable.",
    ),
    Option(
        name="auth",
        flags=("--auth",),
        kind="choice",
        group=MODEL,
        choices=("bearer", "x-api-key", "api-key", "none"),
        is_never_project=True,
        help="How the key is sent. [the vendor's]",
    ),
    Option(
        name="api_version",
        flags=("--api-version",),
        kind="text",
        group=MODEL,
        metavar="VERSION",
        is_never_project=True,
        help="The API version: Anthropic's header, the query elsewhere. [the vendor's]",
    ),
    Option(
        name="organization",
        flags=("--organization",),
        kind="text",
        group=MODEL,
        metavar="ID",
        is_never_project=True,
        help="The organization that pays, for OpenAI and gateways like it.",
    ),
    Option(
        name="proxy",
        flags=("--proxy",),
        kind="url",
        group=MODEL,
        metavar="URL",
        is_never_project=True,
        help="The proxy to the model's service. [HTTPS_PROXY, HTTP_PROXY]",
    ),
    Option(
        name="ca_file",
        flags=("--ca-file",),
        kind="path",
        group=MODEL,
        metavar="FILE",
        is_never_project=True,
        help="PEM file of the certificate authorities to trust. [SSL_CERT_FILE, the system's]",
    ),
    Option(
        name="fallback",
        flags=("--fallback",),
        kind="words",
        group=MODEL,
        metavar="VENDOR/MODEL",
        help="A model to go on with when the one before it is unavailable. Repeatable.",
    ),
    Option(
        name="price",
        flags=("--price",),
        kind="price",
        group=MODEL,
        metavar="IN,OUT",
        help="USD per million tokens; also IN,OUT,CACHE_READ,CACHE_WRITE. [the catalogue's]",
    ),
    Option(
        name="agent",
        flags=("--agent",),
        kind="choice",
        group=MODEL,
        metavar="NAME",
        choices=tuple(AGENTS),
        help=f"{', '.join(AGENTS)}. [default]",
    ),
    Option(
        name="think",
        flags=("--think",),
        kind="choice",
        group=MODEL,
        metavar="LEVEL",
        choices=THINKING,
        help="off, low, medium, high or max. [the agent's]",
    ),
    Option(
        name="max_output_tokens",
        flags=("--max-output-tokens",),
        kind="size",
        group=MODEL,
        metavar="N",
        minimum=1,
        help="Limit of one response. [the service's]",
    ),
    Option(
        name="tools",
        flags=("--tools",),
        kind="words",
        group=MODEL,
        metavar="SET|NAME,...",
        help="Offer exactly these tools or sets; +SET adds to the default. [all]",
    ),
    Option(
        name="max_steps",
        flags=("--max-steps",),
        kind="count",
        group=LIMITS,
        metavar="N",
        minimum=1,
        help="Model responses. [50; quick 12, deep 80]",
    ),
    Option(
        name="max_tool_calls",
        flags=("--max-tool-calls",),
        kind="count",
        group=LIMITS,
        metavar="N",
        minimum=1,
        help="Tool calls. [200]",
    ),
    Option(
        name="max_denials",
        flags=("--max-denials",),
        kind="count",
        group=LIMITS,
        metavar="N",
        minimum=1,
        help="Denied calls before the run ends. [20]",
    ),
    Option(
        name="timeout",
        flags=("--timeout",),
        kind="duration",
        group=LIMITS,
        metavar="TIME",
        help="Wall clock of the run: seconds, 90s, 15m or 2h. [30m]",
    ),
    Option(
        name="tool_timeout",
        flags=("--tool-timeout",),
        kind="duration",
        group=LIMITS,
        metavar="TIME",
        maximum=MAX_TOOL_TIMEOUT_S,
        help="One command, at most 10m. [120s]",
    ),
    Option(
        name="max_tokens",
        flags=("--max-tokens",),
        kind="size",
        group=LIMITS,
        metavar="N",
        minimum=1,
        help="All input and output of the run: 200000, 200k or 2m. [none]",
    ),
    Option(
        name="max_cost",
        flags=("--max-cost",),
        kind="money",
        group=LIMITS,
        metavar="USD",
        help="Cost of the run. [none]",
    ),
    Option(
        name="budget_file",
        flags=("--budget-file",),
        kind="path",
        group=LIMITS,
        metavar="FILE",
        is_never_project=True,
        help="A budget that several runs share; the file holds its caps and what is spent.",
    ),
    Option(
        name="max_context",
        flags=("--max-context",),
        kind="size",
        group=LIMITS,
        metavar="N",
        minimum=1,
        help="Stands for the model's context window. [the model's]",
    ),
    Option(
        name="continue_",
        flags=("-c", "--continue"),
        kind="switch",
        group=SESSION,
        is_once=True,
        help="Go on with the newest session of this folder.",
    ),
    Option(
        name="continue_or_new",
        flags=("--continue-or-new",),
        kind="switch",
        group=SESSION,
        help="The same, or a new session when there is none.",
    ),
    Option(
        name="resume",
        flags=("-r", "--resume"),
        kind="text",
        group=SESSION,
        metavar="ID",
        is_once=True,
        help="Go on with this session; the beginning of its id is enough.",
    ),
    Option(
        name="session_key",
        flags=("--session-key",),
        kind="text",
        group=SESSION,
        metavar="KEY",
        help="The same key in the same folder is the same session, made when it is missing: repo/branch/job.",
    ),
    Option(
        name="fork",
        flags=("--fork",),
        kind="switch",
        group=SESSION,
        is_once=True,
        help="Go on with a copy and leave the session as it is.",
    ),
    Option(
        name="on_busy",
        flags=("--on-busy",),
        kind="choice",
        group=SESSION,
        choices=("fail", "wait", "fork"),
        help="When another run holds the session: fail, wait for it, or fork. [fail]",
    ),
    Option(
        name="keep_days",
        flags=("--keep-days",),
        kind="count",
        group=SESSION,
        metavar="N",
        minimum=1,
        help="Sessions untouched for longer are removed at the end of a run. [30]",
    ),
    Option(
        name="keep_sessions",
        flags=("--keep-sessions",),
        kind="count",
        group=SESSION,
        metavar="N",
        minimum=1,
        help="Of the others, the newest that stay. [200]",
    ),
    Option(
        name="record",
        flags=("--record",),
        kind="path",
        group=SESSION,
        metavar="FILE",
        is_once=True,
        help="Write every model exchange and tool result to a file, secrets masked.",
    ),
    Option(
        name="replay",
        flags=("--replay",),
        kind="path",
        group=SESSION,
        metavar="FILE",
        is_once=True,
        help="Answer from such a file: no network, no key. A request that is not in it ends the run.",
    ),
    Option(
        name="replay_tools",
        flags=("--replay-tools",),
        kind="choice",
        group=SESSION,
        choices=("recorded", "live"),
        is_once=True,
        help="In a replay, take the recorded results of tools or run them. [recorded]",
    ),
    Option(
        name="ephemeral",
        flags=("--ephemeral",),
        kind="switch",
        group=SESSION,
        help="Save nothing: no session, no state in the workspace.",
    ),
    Option(
        name="state_injection",
        flags=("--state-injection",),
        kind="choice",
        group=STATE,
        choices=("full", "lean", "none"),
        help="How much saved state goes into requests; none: only what tools return. [lean]",
    ),
    Option(
        name="pin",
        flags=("--pin",),
        kind="text",
        group=STATE,
        metavar="TEXT",
        is_once=True,
        help="Constraints that stay in sight beside the task, at most 600 characters.",
    ),
    Option(
        name="pin_file",
        flags=("--pin-file",),
        kind="path",
        group=STATE,
        metavar="FILE",
        is_once=True,
        help="The same from a file.",
    ),
    Option(
        name="pin_mode",
        flags=("--pin-mode",),
        kind="choice",
        group=STATE,
        choices=("text", "model"),
        help="What is pinned of a prompt: its text, or goals and criteria that a model call makes of it. [text]",
    ),
    Option(
        name="memory",
        flags=("--memory",),
        kind="choice",
        group=STATE,
        choices=("on", "read", "off"),
        help="Notes of earlier runs on this project: use and record, only use, or neither. [on]",
    ),
    Option(
        name="learn",
        flags=("--learn",),
        kind="switch",
        group=STATE,
        help="After the answer, have the model note what later runs should know; unconfirmed until confirmed.",
    ),
    Option(
        name="policy",
        flags=("--policy",),
        kind="path",
        group=SAFETY,
        metavar="FILE|builtin:NAME",
        help="Rules for tool calls, commands and paths.",
    ),
    Option(
        name="allow",
        flags=("--allow",),
        kind="lines",
        group=SAFETY,
        metavar="RULE",
        joins_layers=True,
        help="Allow TOOL or TOOL:PATTERN, such as 'bash:git add *'. Repeatable.",
    ),
    Option(
        name="deny",
        flags=("--deny",),
        kind="lines",
        group=SAFETY,
        metavar="RULE",
        joins_layers=True,
        help="Deny TOOL or TOOL:PATTERN. Repeatable.",
    ),
    Option(
        name="yolo",
        flags=("--yolo",),
        kind="switch",
        group=SAFETY,
        is_never_project=True,
        help="Allow what no rule forbids. Lifts no guard.",
    ),
    Option(
        name="on_ask",
        flags=("--on-ask",),
        kind="choice",
        group=SAFETY,
        choices=("deny", "suspend"),
        help="Calls that the policy asks for: denied, or left for `agentctl approvals` and a later run. [deny]",
    ),
    Option(
        name="fail_on",
        flags=("--fail-on",),
        kind="words",
        group=SAFETY,
        metavar="WHAT",
        choices=("denied",),
        help="denied: end with exit code 4 when a call was denied.",
    ),
    Option(
        name="strict",
        flags=("--strict",),
        kind="switch",
        group=SAFETY,
        help="End at once when something had to be left out.",
    ),
    Option(
        name="trust",
        flags=("--trust",),
        kind="choice",
        group=SAFETY,
        metavar="LEVEL",
        choices=("workspace", "base", "none"),
        is_never_project=True,
        help="What the checkout may say: workspace, base (as of the base commit) or none. [base on pull requests]",
    ),
    Option(
        name="sandbox",
        flags=("--sandbox",),
        kind="choice",
        group=SAFETY,
        metavar="auto|off|required[:N]",
        choices=SANDBOXES,
        is_never_project=True,
        help="How commands are contained: the best level this machine proves, level 1, or at least level N or none. "
        "[auto]",
    ),
    Option(
        name="network",
        flags=("--network",),
        kind="choice",
        group=SAFETY,
        choices=("off", "loopback", "on"),
        is_never_project=True,
        help="What commands reach: nothing, a loopback of their own, or the network. [loopback]",
    ),
    Option(
        name="pass_env",
        flags=("--pass-env",),
        kind="words",
        group=SAFETY,
        metavar="NAME,...",
        is_never_project=True,
        help="Variables that commands may see too.",
    ),
    Option(
        name="secret_env",
        flags=("--secret-env",),
        kind="words",
        group=SAFETY,
        metavar="NAME,...",
        is_never_project=True,
        joins_layers=True,
        help="Variables whose values are masked everywhere.",
    ),
    Option(name="no_skills", flags=("--no-skills",), kind="switch", group=LEAVE_OUT, help="No skills."),
    Option(name="no_memory", flags=("--no-memory",), kind="switch", group=LEAVE_OUT, help="No memory."),
    Option(name="no_mcp", flags=("--no-mcp",), kind="switch", group=LEAVE_OUT, help="No MCP servers."),
    Option(
        name="no_plugins",
        flags=("--no-plugins",),
        kind="switch",
        group=LEAVE_OUT,
        help="No plugins; what they refuse stays refused.",
    ),
    Option(
        name="no_instructions",
        flags=("--no-instructions",),
        kind="switch",
        group=LEAVE_OUT,
        help="No AGENTS.md and the like.",
    ),
    Option(name="no_subagents", flags=("--no-subagents",), kind="switch", group=LEAVE_OUT, help="No subagents."),
    Option(
        name="isolated",
        flags=("--isolated",),
        kind="switch",
        group=LEAVE_OUT,
        is_flag_or_variable=True,
        help="All of these, and no config of the user or the project.",
    ),
)

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}
BY_FLAG: Mapping[str, Option] = {flag: option for option in OPTIONS for flag in option.flags}
BY_KEY: Mapping[str, Option] = {option.key: option for option in OPTIONS if option.key}
BY_VARIABLE: Mapping[str, Option] = {option.variable: option for option in OPTIONS if option.variable}
