"""The verbs beside the run: each looks something up and prints one document. `--json` gives JSON, else plain lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentctl.config.agents import AGENTS
from agentctl.config.options import Options, config_schema
from agentctl.config.settings import Settings, resolve
from agentctl.config.trust import WorkspaceReader
from agentctl.core.codec import dumps, loads
from agentctl.core.errors import AgentctlError, UsageError
from agentctl.core.record import as_dict
from agentctl.core.text import did_you_mean
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.core.types import JsonObject
from agentctl.runner.output import print_bytes, report_verb_failure
from agentctl.sandbox.levels import harden_self


def _verb(action: Callable[..., int]) -> Callable[..., int]:
    """Turns a failure into its document, its lines and its exit code."""

    def run(options: Options, **arguments: Any) -> int:
        try:
            return action(options, **arguments)
        except AgentctlError as error:
            return report_verb_failure(error, is_json=_is_json(options))

    return run


def _is_json(options: Options) -> bool:
    return bool(options.json) or options.format in ("json", "jsonl")


def _settings(options: Options) -> Settings:
    return resolve(options, env=dict(os.environ), cwd=Path.cwd())


def _print(options: Options, document: object, lines: Iterable[str]) -> int:
    """The document, or its lines for people."""
    text = dumps(document, indent=True) if _is_json(options) else "\n".join(lines).encode("utf-8", "replace")
    print_bytes(text)
    return 0


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned columns; the last column is not padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)] if rows else []
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]


def demo(options: Options) -> int:
    """Plays the shipped script through the real loop, policy and tools on the current folder."""
    from agentctl.runner.headless import run

    return run(options, is_demo=True)


@_verb
def sessions_list(options: Options) -> int:
    from agentctl.state.sessions import Sessions

    settings = _settings(options)
    found, problems = Sessions(settings.homes.sessions(settings.project_key)).all()
    document = {
        "sessions": [
            {
                "id": saved.id,
                "created": saved.created,
                "updated": saved.updated,
                "cwd": saved.cwd,
                "model": saved.model,
                "agent": saved.agent,
                "title": saved.title,
                "turns": saved.turns,
                "messages": len(saved.history),
                "usage": as_dict(saved.usage),
                "cost_usd": saved.cost_usd,
                "ended": saved.ended,
            }
            for saved in found
        ],
        "problems": as_dict(tuple(problems)),
    }
    rows = [(saved.id, saved.updated, saved.ended or "killed", f"{saved.turns} turns", saved.title) for saved in found]
    lines = table(rows) or [f"No session is saved for {settings.root}."]
    return _print(options, document, [*lines, *(f"{problem.what}: {problem.why}" for problem in problems)])


@_verb
def tools(options: Options) -> int:
    """Every tool with its set and whether it is offered."""
    offered = _settings(options).tools
    rows = [
        {"name": tool.name, "set": tool.set, "effect": tool.effect, "offered": tool.name in offered}
        for tool in TOOL_NAMES.values()
    ]
    head = f"{len(offered)} tools offered of {len(TOOL_NAMES)}"
    shown = [(row["name"], row["set"], row["effect"], "offered" if row["offered"] else "-") for row in rows]
    return _print(options, {"tools": rows}, [head, *table([tuple(map(str, row)) for row in shown])])


@_verb
def agents(options: Options) -> int:
    rows = [
        {
            "name": agent.name,
            "help": agent.help,
            "max_steps": agent.max_steps,
            "think": agent.think,
            "read_only": agent.is_read_only,
        }
        for agent in AGENTS.values()
    ]
    shown = [(agent.name, f"{agent.max_steps} steps", f"think {agent.think}", agent.help) for agent in AGENTS.values()]
    return _print(options, {"agents": rows}, table(shown))


@_verb
def models(options: Options) -> int:
    """The models of the chosen vendor: what its service lists, else the catalogue."""
    from agentctl.runner.models import listed_models

    settings = _settings(options)
    document = listed_models(settings, dict(os.environ))
    rows = [(str(row["name"]), _thousands(row["window"]), _price(row["price"])) for row in document["models"]]
    head = f"{document['vendor']}, from {document['source']}"
    notes = [document["why"]] if document["why"] else []
    return _print(options, document, [head, *notes, *table(rows)])


def _thousands(number: int | None) -> str:
    return "window ?" if number is None else f"window {number:,}"


def _price(price: Mapping[str, float] | None) -> str:
    return "price ?" if price is None else f"${price['input']:g} in, ${price['output']:g} out per million tokens"


@_verb
def config_show(options: Options) -> int:
    """Every setting with its value and where it came from."""
    settings = _settings(options)
    rows = [
        {"name": name.rstrip("_"), "value": _plain(getattr(settings, name)), "origin": origin}
        for name, origin in settings.origins.items()
        if name in Settings.fields
    ]
    shown = [(str(row["name"]), dumps(row["value"]).decode(), str(row["origin"])) for row in rows]
    document = {"settings": rows, "problems": as_dict(settings.problems)}
    return _print(options, document, [*table(shown), *(f"{item.what}: {item.why}" for item in settings.problems)])


def _plain(value: object) -> object:
    plain = as_dict(value)
    return str(plain) if isinstance(plain, Path) else plain


@_verb
def schema(options: Options, which: str) -> int:
    """A JSON Schema: of the events, of `done`, or of a config file."""
    from agentctl.runner.schema import done_schema, events_schema

    documents = {"events": events_schema, "done": done_schema, "config": config_schema}
    if which not in documents:
        raise UsageError(f"there is no schema {which!r}", hint=did_you_mean(which, documents))
    print_bytes(dumps(documents[which](), indent=True))
    return 0


@_verb
def doctor(options: Options) -> int:
    """What this machine has and enforces. Exit code 3 when something that a run needs is missing."""
    from agentctl.runner.doctor import examine

    report = examine(_settings(options), dict(os.environ), hardening=harden_self())
    rows = [(check["state"], str(check["name"]), str(check["what"])) for check in report["checks"]]
    fixes = [f"  {check['name']}: {check['fix']}" for check in report["checks"] if check["fix"]]
    _print(options, report, [*table(rows), *(["", "To mend:", *fixes] if fixes else [])])
    return 0 if report["ok"] else 3


@_verb
def policy_check(options: Options) -> int:
    """Loads every policy source of a run; a wrong one is a usage error with file and line."""
    engine = _policy(options)
    document = {
        "ok": True,
        "digest": engine.digest,
        "sources": list(engine.source_names),
        "problems": as_dict(engine.problems),
    }
    lines = [f"ok: {', '.join(engine.source_names)}", f"digest {engine.digest}"]
    return _print(options, document, [*lines, *(f"{item.what}: {item.why}" for item in engine.problems)])


@_verb
def policy_explain(options: Options, tool: str, input: str | None) -> int:
    """The decision about one call, or, for `-`, about each `{tool, input}` line of stdin."""
    from agentctl.runner.explain import explain_line, read_calls

    settings, engine = _settings(options), _policy(options)
    if tool == "-":
        for name, arguments in read_calls(0):
            print_bytes(dumps(explain_line(settings, engine, name, arguments)))
        return 0
    try:
        arguments = loads(input or "{}")
    except ValueError as error:
        raise UsageError(
            f"the input {input!r} is not JSON: {error}", hint='For example: policy explain bash \'{"command": "ls"}\''
        ) from None
    if not isinstance(arguments, dict):
        raise UsageError(f"the input {input!r} is not a JSON object")
    row = explain_line(settings, engine, tool, arguments)
    return _print(options, row, _explained(row))


def _explained(row: JsonObject) -> list[str]:
    lines = [
        f"{'runs' if row['runs'] else 'does not run'}: {row['verdict']}",
        f"rule {row['rule']} ({row['source']})",
        str(row["reason"]),
    ]
    if row["allow_with"] and not row["runs"]:
        lines.append(f"allow with: --allow {row['allow_with']!r}")
    return lines + [f"lost: {lost['verdict']} {lost['rule']} ({lost['source']})" for lost in row["losing"]]


def _policy(options: Options) -> Any:
    from agentctl.runner.policies import load_run_policy

    settings = _settings(options)
    reader = WorkspaceReader(settings.root, settings.trust)
    return load_run_policy(settings, reader)
