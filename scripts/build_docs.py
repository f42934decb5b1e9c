"""Writes the generated tables of README.md and docs/: each stands between `<!-- generated:NAME -->` markers.

`--check` writes nothing and exits with 1 when a table is not what the code says.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from agentctl.cli.verbs import verb_rows
from agentctl.config.agents import AGENTS
from agentctl.config.table import OPTIONS, Option
from agentctl.core.endings import ENDINGS
from agentctl.core.events import EVENTS
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.policy import shipped
from agentctl.policy.guards import COMMAND_GUARDS, LINE_GUARDS
from agentctl.policy.path_guards import PATH_GUARDS, PROTECTED, PathGuard
from agentctl.providers.catalog import about
from agentctl.providers.clouds import CLOUDS
from agentctl.providers.presets import PRESETS
from agentctl.providers.profiles import PROFILES
from agentctl.runner.schema import events_schema
from agentctl.sandbox.environment import PASSED
from agentctl.sandbox.private import CACHES, TEMPORARY

ROOT = Path(__file__).parents[1]
FIELDS = Path(__file__).with_name("event_fields.toml")
MARKED = re.compile(r"(<!-- generated:([a-z-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
NONE = "none"


class OutOfStep(Exception):
    """The code has something that the docs have no word for, or the other way round."""


def documents() -> dict[Path, str]:
    """Every page with a generated table, as it should be. Raises OutOfStep."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {page: MARKED.sub(_filled, text) for page in pages if MARKED.search(text := page.read_text("utf-8"))}


def _filled(found: re.Match[str]) -> str:
    make = TABLES.get(found[2])
    if make is None:
        raise OutOfStep(f"there is no generated table {found[2]!r}; known: {', '.join(TABLES)}")
    return f"{found[1]}\n{make()}\n\n{found[3]}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def code(text: str) -> str:
    return f"`{text}`" if text else NONE


def codes(words: Iterable[str]) -> str:
    return ", ".join(map(code, words)) or NONE


# --- the contract -----------------------------------------------------------------------------------------------------


def endings() -> str:
    rows = ((code(row.name), _exit_codes(row.name, row.exit_code), row.when) for row in ENDINGS.values())
    return table(("`ended`", "exit code", "when"), rows)


def _exit_codes(name: str, exit_code: int) -> str:
    return "129, 130, 143, 141" if name == "cancelled" else str(exit_code)


def events() -> str:
    """One section for each event, with its fields."""
    meanings, schema = _meanings(), events_schema()
    envelope = {name for row in schema["oneOf"] for name in row["properties"]} & set(meanings["envelope"])
    kinds = zip(EVENTS, schema["oneOf"], strict=True)
    sections = [_section(kind.type, row["properties"], kind.fields, meanings) for kind, row in kinds]
    _same(envelope, meanings["envelope"], "envelope")
    return "\n\n".join(sections)


def _section(name: str, properties: Mapping[str, Any], fields: Iterable[str], meanings: Mapping[str, Any]) -> str:
    told = dict(meanings.get(name, {}))
    text = told.pop("about", "")
    if not text:
        raise OutOfStep(f"{FIELDS.name} says nothing about the event {name!r}")
    _same(fields, told, name)
    rows = ((code(field), type_of(properties[field]), told[field]) for field in fields)
    return f"#### `{name}`\n\n{text}\n\n{table(('field', 'type', 'meaning'), rows)}"


def envelope() -> str:
    properties = {**events_schema()["oneOf"][0]["properties"], "type": {"type": "string"}}
    rows = ((code(name), type_of(properties[name]), text) for name, text in _meanings()["envelope"].items())
    return table(("field", "type", "meaning"), rows)


def records() -> str:
    """The objects inside events."""
    meanings, kinds = _meanings(), events_schema()["$defs"]
    sections = []
    for name, kind in kinds.items():
        told = meanings.get(name, {})
        _same(kind["properties"], told, name)
        rows = ((code(field), type_of(row), told[field]) for field, row in kind["properties"].items())
        sections.append(f"**{name}**\n\n{table(('field', 'type', 'meaning'), rows)}")
    known = {"envelope", *kinds, *(kind.type for kind in EVENTS)}
    _same(known, meanings, "the list of events and records")
    return "\n\n".join(sections)


def type_of(schema: Mapping[str, Any]) -> str:
    """A JSON Schema in words."""
    if "anyOf" in schema:
        return " or ".join(type_of(row) for row in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return ", ".join(code(str(value)) for value in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    kind = schema.get("type", "any JSON value")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {type_of(schema['items'])}"
    if kind == "object" and schema.get("additionalProperties", {}):
        return f"object of {type_of(schema['additionalProperties'])}"
    return str(kind)


def _meanings() -> dict[str, dict[str, str]]:
    return tomllib.loads(FIELDS.read_text("utf-8"))


def _same(fields: Iterable[str], told: Iterable[str], what: str) -> None:
    missing, stale = set(fields) - set(told), set(told) - set(fields)
    if missing or stale:
        raise OutOfStep(f"{FIELDS.name}, {what}: missing {sorted(missing)}, unknown {sorted(stale)}")


# --- options ----------------------------------------------------------------------------------------------------------


def settings() -> str:
    """Options that a config file or a variable can hold, too."""
    rows = (
        (code(option.name) if option.key else "-", _flags(option), code(option.variable or ""), *_told(option))
        for option in OPTIONS
        if option.variable
    )
    return table(("key", "flag", "variable", "default", "meaning"), rows)


def once() -> str:
    """Options that make sense for one run only."""
    rows = ((_flags(option), _told(option)[1]) for option in OPTIONS if not option.variable)
    return table(("flag", "meaning"), rows)


def _flags(option: Option) -> str:
    value = "" if option.is_switch else f" {option.metavar or '|'.join(option.choices)}"
    return ", ".join(code(flag + value) for flag in option.flags)


def _told(option: Option) -> tuple[str, str]:
    """The default, which the help puts in brackets at its end, and the rest of the help."""
    found = re.fullmatch(r"(.*?)(?: \[(.*)\])?", option.help)
    assert found is not None
    meaning = found[1] + (" Never in a project's file." if option.is_never_project else "")
    return found[2] or ("off" if option.is_switch else NONE), meaning


def verbs() -> str:
    return table(("verb", "what it shows or does"), ((code(f"agentctl {words}"), help) for words, help in verb_rows()))


# --- agents, tools, vendors, policy -----------------------------------------------------------------------------------


def agents() -> str:
    rows = (
        (
            code(agent.name),
            str(agent.max_steps),
            code(agent.think),
            "reads only" if agent.is_read_only else "all",
            agent.help,
        )
        for agent in AGENTS.values()
    )
    return table(("agent", "steps", "thinking", "tools", "for"), rows)


def tools() -> str:
    rows = ((code(tool.name), code(tool.set), tool.effect) for tool in TOOL_NAMES.values())
    return table(("tool", "set", "effect"), rows)


def vendors() -> str:
    rows = (
        (
            code(preset.vendor),
            codes(preset.key_variables) + (" (not needed)" if preset.is_keyless and preset.key_variables else ""),
            code(preset.model),
            code(preset.api),
            code(preset.base_url),
            code(preset.base_url_variable),
        )
        for preset in PRESETS.values()
    )
    return table(("vendor", "key", "default model", "wire format", "base URL", "its variable"), rows)


def clouds() -> str:
    """What the environment has to say for each cloud, and what carries the requests."""
    rows = []
    for name, cloud in CLOUDS.items():
        preset = PRESETS[name]
        places = (
            f"{place.name.replace('_', ' ')}: {' or '.join(map(code, place.variables))}" for place in cloud.places
        )
        carried = "`direct` or `sdk`" if cloud.is_direct else "its client"
        address = code(preset.base_url or f"${preset.base_url_variable}")
        rows.append((code(name), codes(preset.key_variables), "; ".join(places), address, carried, code(cloud.extra)))
    return table(("vendor", "key or token", "where", "address", "carried by", "extra"), rows)


def _words(name: str) -> str:
    return name.replace("_", " ")


def thinking() -> str:
    """How the thinking levels go on the wire, by vendor."""
    levels = ("off", "low", "medium", "high", "max")
    rows = []
    for preset in PRESETS.values():
        profile = PROFILES[preset.profile]
        if profile.thinking in ("budget", "adaptive"):
            words = ["off or least", "6,400 or `low`", "16,000 or `medium`", "38,400 or `high`", "the most, or `max`"]
        elif profile.thinking == "think-flag":
            words = ["`false`", *["`true`"] * 4]
        else:
            words = [code(profile.efforts.get(level, "")) for level in levels]
        rows.append((code(preset.vendor), _THINKING_FIELDS[profile.thinking], *words))
    return table(("vendor", "field", *levels), rows)


_THINKING_FIELDS = {
    "none": NONE,
    "effort": "`reasoning_effort`",
    "reasoning": "`reasoning.effort`",
    "budget": "`thinking.budget_tokens` or `output_config.effort`",
    "adaptive": "`output_config.effort`",
    "toggle": "`thinking.type` and `reasoning_effort`",
    "think-flag": "`chat_template_kwargs.enable_thinking`",
}


def habits() -> str:
    """What differs between endpoint families, by vendor."""
    rows = []
    for preset in PRESETS.values():
        profile = PROFILES[preset.profile]
        rows.append(
            (
                code(preset.vendor),
                code(profile.max_tokens_field),
                _CALL_IDS[profile.call_id_rule],
                _SCHEMAS[profile.schema_rule],
                code(profile.reasoning_echo),
                "inside" if preset.api in profile.answer_parts else "behind",
                "yes" if profile.parses_think_tags else "no",
                "yes" if profile.recovers_calls else "no",
            )
        )
    titles = ("vendor", "output limit", "ids of calls", "schemas of tools", "reasoning goes back in")
    titles = (*titles, "images of results")
    return table((*titles, "`<think>` is reasoning", "calls are read from text"), rows)


_CALL_IDS = {"openai": "up to 40", "responses": "up to 64", "anthropic": "up to 64", "mistral": "exactly 9"}
_SCHEMAS = {"openai": "flat root", "anthropic": "flat root, plain keys", "gemini": "OpenAPI subset"}


def prices() -> str:
    found = about()
    sources = ", ".join(f"{source.package} {source.version}" for source in found.sources)
    return f"The file holds {found.count:,} models as of {found.date}, made from {sources}."


def profiles() -> str:
    rows = ((code(shipped.PREFIX + name), shipped.about(name)) for name in shipped.PARTS)
    return table(("profile", "what it allows"), rows)


def command_guards() -> str:
    rows = ((code(guard.id), guard.why, codes(guard.trips[:2])) for guard in (*COMMAND_GUARDS, *LINE_GUARDS))
    return table(("guard", "why", "for example"), rows)


def path_guards() -> str:
    return _paths("guard", PATH_GUARDS)


def protected() -> str:
    return _paths("protected", PROTECTED)


def _paths(title: str, guards: Iterable[PathGuard]) -> str:
    rows = ((code(guard.id), guard.why, codes(guard.patterns)) for guard in guards)
    return table((title, "why", "paths"), rows)


def environment() -> str:
    return table(("for", "variables"), ((what, codes(names)) for what, names in PASSED.items()))


def caches() -> str:
    rows = [("TMPDIR", TEMPORARY), ("XDG_RUNTIME_DIR", ("XDG_RUNTIME_DIR",)), ("caches", tuple(CACHES))]
    return table(("what", "variables"), ((what, codes(names)) for what, names in rows))


TABLES: dict[str, Callable[[], str]] = {
    "endings": endings,
    "envelope": envelope,
    "events": events,
    "records": records,
    "settings": settings,
    "once": once,
    "verbs": verbs,
    "agents": agents,
    "tools": tools,
    "vendors": vendors,
    "clouds": clouds,
    "thinking": thinking,
    "habits": habits,
    "prices": prices,
    "profiles": profiles,
    "command-guards": command_guards,
    "path-guards": path_guards,
    "protected": protected,
    "environment": environment,
    "caches": caches,
}


def main(words: list[str]) -> int:
    try:
        pages = documents()
    except OutOfStep as fault:
        print(f"build_docs: {fault}", file=sys.stderr)
        return 1
    stale = [page for page, text in pages.items() if page.read_text("utf-8") != text]
    if words == ["--check"]:
        for page in stale:
            print(f"{page.relative_to(ROOT)}: its tables are not what the code says; run scripts/fix", file=sys.stderr)
        return 1 if stale else 0
    for page in stale:
        page.write_text(pages[page], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
