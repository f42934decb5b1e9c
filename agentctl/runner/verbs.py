"""The verbs beside the run: each looks something up and prints one document. `--json` gives JSON, else plain lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agentctl.config.agents import AGENTS
from agentctl.config.options import Options, config_schema
from agentctl.config.settings import Settings
from agentctl.core.codec import dumps
from agentctl.core.errors import UsageError
from agentctl.core.record import as_dict
from agentctl.core.text import did_you_mean
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.runner.document import UNMET, settings_of, show, table, verb
from agentctl.runner.output import print_bytes
from agentctl.sandbox.levels import harden_self


def demo(options: Options) -> int:
    """Plays the shipped script through the real loop, policy and tools on the current folder."""
    from agentctl.runner.headless import run

    return run(options, is_demo=True)


@verb
def tools(options: Options) -> int:
    """Every tool with its set and whether it is offered."""
    offered = settings_of(options).tools
    rows = [
        {"name": tool.name, "set": tool.set, "effect": tool.effect, "offered": tool.name in offered}
        for tool in TOOL_NAMES.values()
    ]
    head = f"{len(offered)} tools offered of {len(TOOL_NAMES)}"
    shown = [(row["name"], row["set"], row["effect"], "offered" if row["offered"] else "-") for row in rows]
    return show(options, {"tools": rows}, [head, *table([tuple(map(str, row)) for row in shown])])


@verb
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
    return show(options, {"agents": rows}, table(shown))


@verb
def models(options: Options) -> int:
    """The models of the chosen vendor: what its service lists, else the catalogue."""
    from agentctl.runner.models import listed_models

    settings = settings_of(options)
    document = listed_models(settings, dict(os.environ))
    rows = [(str(row["name"]), _thousands(row["window"]), _price(row["price"])) for row in document["models"]]
    head = f"{document['vendor']}, from {document['source']}"
    notes = [document["why"]] if document["why"] else []
    return show(options, document, [head, *notes, *table(rows)])


def _thousands(number: int | None) -> str:
    return "window ?" if number is None else f"window {number:,}"


def _price(price: Mapping[str, float] | None) -> str:
    return "price ?" if price is None else f"${price['input']:g} in, ${price['output']:g} out per million tokens"


_ADDRESSES = ("proxy", "base_url")


@verb
def config_show(options: Options) -> int:
    """Every setting with its value and where it came from."""
    from agentctl.runner.secrets import redactor_of, without_password

    settings = settings_of(options)
    shows = {name: without_password(value) for name in _ADDRESSES if (value := getattr(settings, name))}
    mask = redactor_of(settings, os.environ).value
    rows = [
        {"name": name.rstrip("_"), "value": mask(_plain(shows.get(name, getattr(settings, name)))), "origin": origin}
        for name, origin in settings.origins.items()
        if name in Settings.fields
    ]
    shown = [(str(row["name"]), dumps(row["value"]).decode(), str(row["origin"])) for row in rows]
    document = {"settings": rows, "problems": as_dict(settings.problems)}
    return show(options, document, [*table(shown), *(f"{item.what}: {item.why}" for item in settings.problems)])


def _plain(value: object) -> object:
    plain = as_dict(value)
    return str(plain) if isinstance(plain, Path) else plain


@verb
def schema(options: Options, which: str) -> int:
    """A JSON Schema: of the events, of `done`, of a policy file or of a config file."""
    from agentctl.policy.schema import policy_schema
    from agentctl.runner.schema import done_schema, events_schema

    documents = {"events": events_schema, "done": done_schema, "policy": policy_schema, "config": config_schema}
    if which not in documents:
        raise UsageError(f"there is no schema {which!r}", hint=did_you_mean(which, documents))
    print_bytes(dumps(documents[which](), indent=True))
    return 0


@verb
def doctor(options: Options) -> int:
    """What this machine has and enforces. Exit code 3 when something that a run needs is missing."""
    from agentctl.runner.doctor import examine

    report = examine(settings_of(options), dict(os.environ), hardening=harden_self())
    rows = [(check["state"], str(check["name"]), str(check["what"])) for check in report["checks"]]
    fixes = [f"  {check['name']}: {check['fix']}" for check in report["checks"] if check["fix"]]
    show(options, report, [*table(rows), *(["", "To mend:", *fixes] if fixes else [])])
    return 0 if report["ok"] else UNMET
