"""What somebody asked of a run, each field optional. table.py describes the fields, settings.py settles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentctl.config.table import BY_KEY, BY_NAME, Option
from agentctl.config.values import READERS, Expected
from agentctl.core.errors import UsageError
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean

if TYPE_CHECKING:
    from agentctl.core.types import Price


class Options(Record):
    """One run as asked for. None means: not said here. Durations are seconds, money is USD, sizes are tokens."""

    prompt: tuple[str, ...] | None = None
    """Run in order as turns of one session; `-` is stdin."""
    prompt_file: str | None = None
    stdin: str | None = None
    file: tuple[str, ...] | None = None
    image: tuple[str, ...] | None = None
    on_question: str | None = None
    answers: str | None = None
    answer: tuple[str, ...] | None = None
    format: str | None = None
    json: bool | None = None
    """The same as format="jsonl"."""
    output: str | None = None
    quiet: bool | None = None
    no_stream: bool | None = None
    show_reasoning: bool | None = None
    debug: bool | None = None
    directory: str | None = None
    project: str | None = None
    model: str | None = None
    api: str | None = None
    base_url: str | None = None
    transport: str | None = None
    header: tuple[str, ...] | None = None
    """Each `Name: value`."""
    auth: str | None = None
    api_version: str | None = None
    organization: str | None = None
    proxy: str | None = None
    ca_file: str | None = None
    fallback: tuple[str, ...] | None = None
    price: Price | str | None = None
    agent: str | None = None
    think: str | None = None
    max_output_tokens: int | None = None
    tools: tuple[str, ...] | None = None
    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_denials: int | None = None
    timeout: float | None = None
    tool_timeout: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    budget_file: str | None = None
    max_context: int | None = None
    continue_: bool | None = None
    continue_or_new: bool | None = None
    resume: str | None = None
    session_key: str | None = None
    fork: bool | None = None
    on_busy: str | None = None
    keep_days: int | None = None
    keep_sessions: int | None = None
    record: str | None = None
    replay: str | None = None
    replay_tools: str | None = None
    ephemeral: bool | None = None
    state_injection: str | None = None
    pin: str | None = None
    pin_file: str | None = None
    pin_mode: str | None = None
    memory: str | None = None
    learn: bool | None = None
    policy: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    yolo: bool | None = None
    on_ask: str | None = None
    fail_on: tuple[str, ...] | None = None
    strict: bool | None = None
    trust: str | None = None
    add_dir: tuple[str, ...] | None = None
    sandbox: str | None = None
    network: str | None = None
    pass_env: tuple[str, ...] | None = None
    secret_env: tuple[str, ...] | None = None
    no_skills: bool | None = None
    no_memory: bool | None = None
    no_mcp: bool | None = None
    no_plugins: bool | None = None
    no_instructions: bool | None = None
    no_subagents: bool | None = None
    isolated: bool | None = None


def read_value(option: Option, value: object, where: str, error: type[UsageError] = UsageError) -> Any:
    """A given value in its settled form. `value` is text, or what a TOML file or Python caller gave.

    `where` names the flag, the variable or the file and key. Raises `error` with the value and what is valid.
    """
    reader: Callable[[object, tuple[str, ...], float, float | None], Any] = READERS[option.kind]
    try:
        return reader(value, option.choices, option.minimum, option.maximum)
    except Expected as expected:
        hint = did_you_mean(str(expected.value), option.choices, limit=0) if option.choices else ""
        raise error(f"{where}: {expected.value!r} is not {expected}.", hint=hint) from None


def from_flags(given: Mapping[str, object]) -> Options:
    """Options from the raw words of a command line, by field name. Raises UsageError that names the flag."""
    return Options(
        **{
            name: read_value(BY_NAME[name], value, BY_NAME[name].flag)
            for name, value in given.items()
            if value is not None and value is not False and value != []
        }
    )


def config_schema() -> dict[str, Any]:
    """The JSON Schema of a config file, user's or project's."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agentctl config.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {key: _property(option) for key, option in BY_KEY.items()},
    }


_NUMBERS: dict[str, dict[str, Any]] = {
    "count": {"type": "integer"},
    "size": {"type": ["integer", "string"], "pattern": "^[0-9_]+(\\.[0-9]+)?[kKmM]?$"},
    "duration": {"type": ["number", "string"], "pattern": "^[0-9]+(\\.[0-9]+)?[smh]?$", "exclusiveMinimum": 0},
    "money": {"type": "number", "exclusiveMinimum": 0},
    "price": {"type": ["string", "array"], "items": {"type": "number", "minimum": 0}, "minItems": 2, "maxItems": 4},
}


def _property(option: Option) -> dict[str, Any]:
    said: dict[str, Any] = {"description": option.help}
    one: dict[str, Any] = {"type": "string", **({"enum": list(option.choices)} if option.choices else {})}
    if option.is_switch:
        said["type"] = "boolean"
    elif option.is_repeatable:
        said["anyOf"] = [{"type": "array", "items": one}, one]
    elif option.kind in _NUMBERS:
        said.update(_NUMBERS[option.kind])
        if option.minimum:
            said["minimum"] = option.minimum
        if option.maximum is not None:
            said["maximum"] = option.maximum
    else:
        said.update(one)
    if option.is_never_project:
        said["description"] += " Not in a project's file."
    return said
