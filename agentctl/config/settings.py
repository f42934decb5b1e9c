"""Options → Settings: every value settled, each with its origin.

Precedence: flags > environment > project `.agentctl/config.toml` > user `config.toml` > the agent > built-in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agentctl.config.agents import AGENTS
from agentctl.config.options import Options, read_value
from agentctl.config.paths import Homes, homes, project_file
from agentctl.config.sources import (
    Given,
    Layer,
    environment_layer,
    project_layer,
    project_refusals,
    user_layer,
    user_refusals,
)
from agentctl.config.store import Store, find_store
from agentctl.config.table import OPTIONS, Option
from agentctl.config.trust import Trust, WorkspaceReader, decide
from agentctl.core.errors import UsageError
from agentctl.core.record import Record
from agentctl.core.text import did_you_mean
from agentctl.core.toolnames import SETS, TOOL_NAMES
from agentctl.core.types import Price, Problem, Think

BUILT_IN = "built-in"

LEFT_OUT_BY_ISOLATED = ("no_skills", "no_memory", "no_mcp", "no_plugins", "no_instructions", "no_subagents")

_PATHS = (
    "policy", "output", "prompt_file", "answers", "record", "replay", "pin_file", "ca_file", "add_dir", "budget_file",
)  # fmt: skip
"""Options whose values are made absolute: from the folder of the file or of the run that gave them."""

_DEFAULTS: Mapping[str, Any] = {
    "stdin": "auto",
    "format": "text",
    "transport": "direct",
    "agent": "default",
    "max_tool_calls": 200,
    "max_denials": 20,
    "timeout": 1800.0,
    "tool_timeout": 120.0,
    "on_busy": "fail",
    "keep_days": 30,
    "keep_sessions": 200,
    "on_ask": "deny",
    "on_question": "assume",
    "replay_tools": "recorded",
    "state_injection": "lean",
    "pin_mode": "text",
    "memory": "on",
    "trust": "workspace",
    "sandbox": "auto",
    "network": "loopback",
}


class Settings(Record):
    """A run as it will be. Durations are seconds, money is USD, sizes are tokens; None is no limit or no choice."""

    prompt: tuple[str, ...]
    prompt_file: str | None
    stdin: str
    file: tuple[str, ...]
    image: tuple[str, ...]
    on_question: str
    answers: str | None
    """Absolute path."""
    answer: tuple[str, ...]
    format: str
    """text, json or jsonl; --json has become jsonl."""
    output: str | None
    quiet: bool
    no_stream: bool
    show_reasoning: bool
    debug: bool
    root: Path
    """The workspace root: absolute, without symlinks, an existing folder."""
    project: str | None
    project_key: str
    store: Store
    homes: Homes
    model: str | None
    api: str | None
    base_url: str | None
    transport: str
    """direct or sdk."""
    header: tuple[str, ...]
    """Each `Name: value`, as written."""
    auth: str | None
    api_version: str | None
    organization: str | None
    proxy: str | None
    ca_file: str | None
    """Absolute path."""
    fallback: tuple[str, ...]
    """Models to go on with, in order, each as vendor/name."""
    price: Price | None
    """Stands for the catalogue's price of the model."""
    agent: str
    think: Think
    max_output_tokens: int | None
    tools: tuple[str, ...]
    """Names of the built-in tools that are offered, in the order of the table."""
    max_steps: int
    max_tool_calls: int
    max_denials: int
    timeout: float
    tool_timeout: float
    max_tokens: int | None
    max_cost: float | None
    budget_file: str | None
    """Absolute path."""
    max_context: int | None
    continue_: bool
    continue_or_new: bool
    resume: str | None
    session_key: str | None
    fork: bool
    on_busy: str
    keep_days: int
    keep_sessions: int
    record: str | None
    replay: str | None
    replay_tools: str
    ephemeral: bool
    state_injection: str
    """full, lean or none."""
    pin: str | None
    pin_file: str | None
    """Absolute path."""
    pin_mode: str
    """text or model."""
    memory: str
    """on, read or off; off also when --no-memory says so."""
    learn: bool
    policy: str | None
    """Absolute path, or builtin:NAME."""
    allow: tuple[Given, ...]
    deny: tuple[Given, ...]
    """Rules of all layers, the highest first, each with where it was written."""
    yolo: bool
    on_ask: str
    fail_on: tuple[str, ...]
    strict: bool
    trust: Trust
    add_dir: tuple[str, ...]
    """Absolute paths."""
    sandbox: str
    """auto, off, required or required:N."""
    network: str
    """off, loopback or on."""
    pass_env: tuple[str, ...]
    secret_env: tuple[str, ...]
    no_skills: bool
    no_memory: bool
    no_mcp: bool
    no_plugins: bool
    no_instructions: bool
    no_subagents: bool
    isolated: bool
    origins: Mapping[str, str]
    """By the name of the option: a flag, a variable, a file, `agent NAME` or `built-in`."""
    problems: tuple[Problem, ...]
    """What was left out while reading config."""


def resolve(options: Options, *, env: Mapping[str, str], cwd: Path) -> Settings:
    """Settles everything that was asked for. Relative paths of flags and variables are meant from `cwd`.

    Raises UsageError for a bad flag and ConfigError for a bad variable or file; both name it and what is valid.
    """
    flags = flag_layer(options)
    variables, problems = environment_layer(env)
    places = homes(env)
    root = _root(flags, cwd)
    layers = [flags, variables]
    isolated = _first(layers, "isolated")
    is_isolated = isolated is not None and isolated.value
    user = user_refusals(places.config_file) if is_isolated else user_layer(places.config_file)
    trusted = _first([*layers, user], "trust")
    trust = decide(trusted.value if trusted else None, env, origin=trusted.origin if trusted else "")
    reader = WorkspaceReader(root, trust)
    if is_isolated:
        project = project_refusals(reader, root)
    else:
        project, left_out = project_layer(reader, root, places.config_file)
        problems = (*problems, *left_out)
    merged = _merge([_one_memory(_one_format(layer)) for layer in (*layers, project, user)])
    values, origins = _settle(merged, trust)
    for name in _PATHS:
        values[name] = _absolute(merged.get(name), values[name], root, places.config_file, cwd)
    can_ask = bool(values["answers"] or values["answer"]) or values["on_question"] == "fail"
    values["tools"], narrowed = _tools(values["tools"], values["agent"], origins["tools"], can_ask=can_ask)
    store = find_store(places, root, values["project"])
    return Settings(
        **{name: value for name, value in values.items() if name in Settings.fields},
        root=root,
        project_key=store.key,
        store=store,
        homes=places,
        origins=MappingProxyType(origins),
        problems=(*problems, *narrowed),
    )


def flag_layer(options: Options) -> Layer:
    """What the caller gave, checked like a flag: a Python caller meets the same errors as a command line."""
    layer: Layer = {}
    for option in OPTIONS:
        value = getattr(options, option.name)
        if value is not None:
            items = (value,) if isinstance(value, str) and option.is_repeatable else value
            layer[option.name] = Given(value=read_value(option, items, option.flag), origin=option.flag)
    return layer


def _root(flags: Layer, cwd: Path) -> Path:
    said = flags.get("directory")
    root = (cwd / (said.value if said else ".")).resolve()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        name = f"-C: {said.value!r}" if said else f"the working folder {str(root)!r}"
        raise UsageError(f"{name} {what}.", hint="Name an existing folder with -C.")
    return root


def _first(layers: Iterable[Layer], name: str) -> Given | None:
    return next((layer[name] for layer in layers if name in layer), None)


def _one_format(layer: Layer) -> Layer:
    """`json` of a layer as its `format`. Raises UsageError when one place says both and they differ."""
    said = layer.get("json")
    if said is None or not said.value:
        return layer
    other = layer.get("format")
    if other is not None and other.value != "jsonl":
        raise UsageError(
            f"{said.origin} asks for jsonl and {other.origin} for {other.value!r}.", hint="Keep one of the two."
        )
    return {**layer, "format": Given(value="jsonl", origin=said.origin)}


def _one_memory(layer: Layer) -> Layer:
    """`no_memory` of a layer as its `memory`. Raises UsageError when one place says both and they differ."""
    said = layer.get("no_memory")
    if said is None or not said.value:
        return layer
    other = layer.get("memory")
    if other is not None and other.value != "off":
        raise UsageError(
            f"{said.origin} and {other.origin} {other.value} contradict each other.", hint="Keep one of the two."
        )
    return {**layer, "memory": Given(value="off", origin=said.origin)}


def _merge(layers: list[Layer]) -> dict[str, Given]:
    """The highest layer that says anything; where layers join, all items with the origin of each."""
    merged: dict[str, Given] = {}
    for option in OPTIONS:
        said = [layer[option.name] for layer in layers if option.name in layer]
        if not said:
            continue
        if option.joins_layers:
            items = tuple(Given(value=item, origin=given.origin) for given in said for item in given.value)
            merged[option.name] = Given(value=items, origin=", ".join(dict.fromkeys(given.origin for given in said)))
        else:
            merged[option.name] = said[0]
    return merged


def _settle(merged: Mapping[str, Given], trust: Trust) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for option in OPTIONS:
        given = merged.get(option.name)
        values[option.name] = given.value if given else _default(option)
        origins[option.name] = given.origin if given else BUILT_IN
    agent = AGENTS[values["agent"]]
    for name in ("max_steps", "think"):
        if name not in merged:
            values[name] = getattr(agent, name)
            origins[name] = f"agent {agent.name}"
    if values["isolated"]:
        for name in LEFT_OUT_BY_ISOLATED:
            values[name], origins[name] = True, origins["isolated"]
        if "memory" not in merged:  # a single thing can be added back
            values["memory"], origins["memory"] = "off", origins["isolated"]
    values["no_memory"] = values["memory"] == "off"
    values["trust"], origins["trust"] = trust, trust.why
    values["secret_env"] = tuple(dict.fromkeys(given.value for given in values["secret_env"]))
    return values, origins


def _default(option: Option) -> Any:
    if option.is_switch:
        return False
    return () if option.is_repeatable else _DEFAULTS.get(option.name)


def _absolute(given: Given | None, value: Any, root: Path, user_file: Path, cwd: Path) -> Any:
    """Paths of a config file are meant from where the file belongs, others from the caller's folder."""
    if given is None:
        return value
    if given.origin == str(user_file):
        base = user_file.parent
    elif given.origin == str(project_file(root)):
        base = root
    else:
        base = cwd
    if isinstance(value, tuple):
        return tuple(str(base / item) for item in value)
    return value if value == "-" or value.startswith("builtin:") else str(base / value)


def _tools(
    words: tuple[str, ...], agent: str, where: str, *, can_ask: bool
) -> tuple[tuple[str, ...], tuple[Problem, ...]]:
    """The tools that are offered: what was asked for, without what the agent may not have and what nobody answers."""
    wanted = _wanted(words, where)
    unheard = "ask" in words and not can_ask
    wanted -= set() if can_ask else {"ask"}
    offered = tuple(name for name in TOOL_NAMES if name in wanted and AGENTS[agent].offers(name))
    named = [word for word in words if word in TOOL_NAMES and word not in offered]
    if wanted and not offered:
        raise UsageError(
            f"{where}: the agent {agent!r} only reads and may have none of {', '.join(words)}.",
            hint="Use another --agent or other --tools.",
        )
    why = f"the agent {agent!r} only reads"
    left_out = [
        Problem(code="left-out", what=f"{where} {name}", why=why, fix="Use another --agent.")
        for name in named
        if name != "ask"
    ]
    if unheard:
        fix = "Add --answers, --answer or --on-question fail."
        left_out.append(Problem(code="left-out", what=f"{where} ask", why="nobody answers in this run", fix=fix))
    return offered, tuple(left_out)


def _wanted(words: tuple[str, ...], where: str) -> set[str]:
    if not words:
        return set(TOOL_NAMES)
    added = [word for word in words if word.startswith("+")]
    if added and len(added) != len(words):
        raise UsageError(
            f"{where}: {','.join(words)!r} mixes names with +names.",
            hint="Names alone offer exactly those; +names alone add to the default.",
        )
    wanted = set(TOOL_NAMES) if added else set()
    for word in words:
        wanted.update(_members(word.removeprefix("+"), where))
    return wanted


def _members(word: str, where: str) -> set[str]:
    if word in SETS:
        return {name for name, tool in TOOL_NAMES.items() if tool.set == word}
    if word in TOOL_NAMES:
        return {word}
    valid = (*SETS, *TOOL_NAMES)
    raise UsageError(
        f"{where}: {word!r} is neither a set ({', '.join(SETS)}) nor a tool.", hint=did_you_mean(word, valid, limit=20)
    )
