"""`agentctl context`: everything that the first request of a run would hold, with sizes, without a call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentctl.config.options import Options
from agentctl.config.paths import working_folder
from agentctl.config.settings import Settings, resolve
from agentctl.core.codec import dumps
from agentctl.core.errors import AuthError
from agentctl.core.record import as_dict
from agentctl.core.text import estimate_tokens
from agentctl.core.types import Image, JsonObject, Message, Request, Text, ToolAnswer, ToolCall, ToolSpec
from agentctl.runner.app import Assembly, assemble
from agentctl.runner.choice import choose_session
from agentctl.runner.clock import SystemClock
from agentctl.runner.document import show, table, verb
from agentctl.runner.plane import Turn
from agentctl.state.selection import Selected

NO_PROMPT = "PROMPT"
"""Stands for the prompt that the verb was not given."""
NO_KEY = "context"
"""Stands for the key of a run that asks nobody."""


@verb
def context(options: Options) -> int:
    """System prompt by section, tools, messages and state, as the first request of a run would hold them."""
    document = asyncio.run(_document(options, dict(os.environ), working_folder()))
    return show(options, document, _lines(document))


async def _document(options: Options, env: Mapping[str, str], cwd: Path) -> JsonObject:
    has_prompt = bool(options.prompt or options.prompt_file)
    if not has_prompt:
        options = options.replace(prompt=(NO_PROMPT,), stdin=options.stdin or "none")
    asked = resolve(options, env=env, cwd=cwd)
    looking = asked.replace(ephemeral=True)  # no session is held
    selected, settings = await choose_session(options, looking, env, cwd, SystemClock())
    settings = settings.replace(ephemeral=asked.ephemeral)
    assembly = await _assembled(settings, selected, env, cwd)
    try:
        turn = Turn(number=assembly.earlier_turns + 1, prompt=assembly.turns[0])
        assembly.planes.begin(turn)
        context = assembly.parts.context
        context.begin_turn()
        request = context.request([*assembly.history, turn.prompt])
        return _described(assembly, request, has_prompt=has_prompt)
    finally:
        await assembly.close()


async def _assembled(settings: Settings, selected: Selected, env: Mapping[str, str], cwd: Path) -> Assembly:
    """The parts of the run. No key is needed, since nobody is asked."""
    try:
        return await assemble(settings, selected, env=env, cwd=cwd, clock=SystemClock(), is_preview=True)
    except AuthError:
        from agentctl.providers.presets import PRESETS

        if settings.model is None:
            first = next(preset for preset in PRESETS.values() if not preset.is_keyless)
            settings = settings.replace(
                model=f"{first.vendor}/{first.model}", origins={**settings.origins, "model": "preset"}
            )
        env = {**env, "AGENTCTL_API_KEY": NO_KEY}
        return await assemble(settings, selected, env=env, cwd=cwd, clock=SystemClock(), is_preview=True)


def _described(assembly: Assembly, request: Request, *, has_prompt: bool) -> JsonObject:
    planes = {section.name: section.plane for section, _ in assembly.prompt.shown()}
    system = [
        {"name": block.name, "plane": planes.get(block.name), "cached": block.is_stable, **_sized(block.text)}
        for block in request.system
    ]
    tools = [{"name": tool.name, **_size(_schema(tool))} for tool in request.tools]
    messages = [{"role": message.role, **_sized(_text(message))} for message in request.messages]
    state = _sized(request.state)
    everything = [*system, *tools, *messages, state]
    return {
        "model": f"{request.model.vendor}/{request.model.name}",
        "api": request.model.api,
        "prompt_given": has_prompt,
        "system": system,
        "tools": tools,
        "messages": messages,
        "state": state,
        "instructions": as_dict(assembly.planes.instructions.files),
        "injection": assembly.settings.state_injection,
        "injected": as_dict(assembly.prompt.injected),
        "total": {name: sum(int(row[name]) for row in everything) for name in ("chars", "tokens")},
        "bytes": _wire_bytes(request),
        "problems": as_dict(assembly.init.problems or ()),
    }


def _sized(text: str) -> JsonObject:
    return {**_size(text), "text": text}


def _size(text: str) -> JsonObject:
    return {"chars": len(text), "tokens": estimate_tokens(text) if text else 0}


def _schema(tool: ToolSpec) -> str:
    return dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters}).decode()


def _text(message: Message) -> str:
    shown = []
    for part in message.parts:
        match part:
            case ToolCall():
                shown.append(f"[call {part.name} {part.arguments}]")
            case ToolAnswer():
                shown.append(part.content)
            case Image():
                shown.append(f"[image {part.media_type}, {len(part.data):,} characters of base64]")
            case Text():
                shown.append(part.text)
            case _:
                continue
    return "\n\n".join(shown)


def _wire_bytes(request: Request) -> int | None:
    """The size of the body; None for a scripted model, which has none."""
    from agentctl.providers.adapter import Endpoint, Healing
    from agentctl.providers.make import adapter_for
    from agentctl.providers.profiles import PROFILES

    model = request.model
    if model.profile not in PROFILES:
        return None
    profile = PROFILES[model.profile]
    endpoint = Endpoint(vendor=model.vendor, api=model.api, base_url=model.base_url, key=None, profile=profile)
    return len(dumps(adapter_for(model.api).to_wire(request, endpoint, Healing())))


def _lines(document: JsonObject) -> Iterable[str]:
    size = "" if document["bytes"] is None else f", {document['bytes']:,} bytes"
    total = document["total"]
    yield f"{document['model']} over {document['api']}: about {total['tokens']:,} tokens{size}"
    rows = [("system", row["name"], row) for row in document["system"]]
    rows += [("tool", row["name"], row) for row in document["tools"]]
    rows += [("message", row["role"], row) for row in document["messages"]]
    rows += [("state", "each step", document["state"])] if document["state"]["chars"] else []
    yield from table(
        [(kind, name, f"{row['chars']:,} characters, {row['tokens']:,} tokens") for kind, name, row in rows]
    )
    for kind, name, row in rows:
        if row.get("text"):
            yield f"\n--- {kind}: {name}\n{row['text']}"
    for problem in document["problems"]:
        yield f"left out: {problem['what']}: {problem['why']}"
