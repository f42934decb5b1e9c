"""The sandbox of a run: what was asked for, what this machine proves, and the runner of commands that comes of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.config.settings import BUILT_IN, Settings
from agentctl.core.errors import UsageError
from agentctl.core.events import SandboxUsed
from agentctl.core.record import Record, as_dict
from agentctl.core.types import JsonObject, Problem
from agentctl.sandbox.bubblewrap import find_bwrap
from agentctl.sandbox.environment import child_environment
from agentctl.sandbox.levels import report
from agentctl.sandbox.process import ProcessRunner
from agentctl.sandbox.remembered import Chosen, Remembered, circumstances

if TYPE_CHECKING:
    from agentctl.sandbox.choose import Trial
    from agentctl.sandbox.containment import Places

FLOOR = 2
"""Below this a pipeline is told so, and `required` refuses without a number."""
_OFF = ("0", "false", "no", "off", "")


class Sandbox(Record):
    """What a run needs of it."""

    runner: ProcessRunner
    used: SandboxUsed
    problems: tuple[Problem, ...]


async def make_sandbox(settings: Settings, env: Mapping[str, str], hardening: Sequence[str]) -> Sandbox:
    """Finds the level and makes the runner. Raises UsageError when it is below what was required.

    What was proven before on this machine costs no process; otherwise a command of the real profile tries its walls.
    """
    commands = child_environment(env, settings.pass_env)
    first = report(hardening, wanted=settings.sandbox)
    if settings.sandbox == "off":
        problems = (*_refused(settings, first["level"]), *_unheld(settings, "on"))
        return Sandbox(runner=ProcessRunner(commands), used=SandboxUsed(**first), problems=problems)
    memory = _memory(settings, commands)
    chosen = memory.get()
    missing: tuple[str, ...] = ()
    fix = ""
    if chosen is None:
        chosen, missing, fix = await _try(settings, commands, memory)
    if chosen is None:
        runner = ProcessRunner(commands)
        used = SandboxUsed(**{**first, "missing": (*first["missing"], *missing), "fix": fix})
    else:
        level = chosen.level
        runner = ProcessRunner(
            commands, containment=lambda: _trial(settings, commands).make(level), distrust=memory.forget
        )
        used = SandboxUsed(wanted=settings.sandbox, **as_dict(chosen))
    _check_required(settings.sandbox, used)
    return Sandbox(runner=runner, used=used, problems=(*_below(settings, used, env), *_unheld(settings, used.network)))


async def examine_levels(settings: Settings, env: Mapping[str, str], first: JsonObject) -> JsonObject:
    """`{wanted, level, network, missing[], fix, levels[{level, holds, missing[], fix}]}` for doctor: every level is
    attacked now. `first` is level 1, as levels.report gives it."""
    commands = child_environment(env, settings.pass_env)
    trial = _trial(settings, commands)
    rows = [{"level": 1, "holds": first["level"] >= 1, "missing": list(first["missing"]), "fix": ""}]
    best = None if settings.sandbox == "off" else await trial.best()
    for level in (2, 3):
        gaps = await trial.holds(level)
        holds = gaps is not None
        rows.append(
            {
                "level": level,
                "holds": holds,
                "missing": list(trial.faults.get(level, ()) if gaps is None else gaps),
                "fix": "" if holds else trial.fixes.get(level, ""),
            }
        )
    if best is None:
        used = {**first, "missing": [*first["missing"], *trial.why()], "fix": trial.fix()}
    else:
        used = {"wanted": settings.sandbox, **as_dict(best)}
    return {**used, "missing": list(used["missing"]), "levels": rows}


def _memory(settings: Settings, commands: Mapping[str, str]) -> Remembered:
    bwrap = find_bwrap(commands.get("PATH"), _roots(settings))
    return Remembered(settings.homes.cache, circumstances(settings.root, settings.network, bwrap))


async def _try(
    settings: Settings, commands: Mapping[str, str], memory: Remembered
) -> tuple[Chosen | None, tuple[str, ...], str]:
    """The level that holds, and else why none does and what mends it."""
    trial = _trial(settings, commands)
    chosen = await trial.best()
    if chosen is not None and not trial.has_failed:
        memory.put(chosen)
    return chosen, trial.why(), trial.fix()


def _trial(settings: Settings, commands: Mapping[str, str]) -> Trial:
    from agentctl.sandbox.choose import Trial  # only for the first command, and where nothing is remembered

    return Trial(places(settings), commands, settings.network, settings.pass_env)


def places(settings: Settings) -> Places:
    """Where the commands of this run may write, and what of agentctl they need not see."""
    from agentctl.sandbox.containment import Places

    homes = settings.homes
    package = Path(__file__).resolve().parents[1]
    policy = settings.policy if settings.policy and not settings.policy.startswith("builtin:") else None
    return Places(
        roots=_roots(settings),
        temporary=(Path(os.environ.get("TMPDIR") or "/tmp"), Path("/var/tmp"), homes.cache),
        own_files=(homes.config_file, homes.config / "policy.toml", *((Path(policy).resolve(),) if policy else ())),
        own_folders=(package,),
        hidden=tuple(getattr(homes, name) for name in homes.fields),
    )


def _roots(settings: Settings) -> tuple[Path, ...]:
    return (settings.root, *(Path(folder).resolve() for folder in settings.add_dir))


def _check_required(wanted: str, used: SandboxUsed) -> None:
    mode, _, number = wanted.partition(":")
    least = int(number or FLOOR)
    if mode == "required" and used.level < least:
        raise UsageError(
            f"--sandbox {wanted}: commands would run at level {used.level} of at least {least}: "
            f"{'; '.join(used.missing)}",
            hint=used.fix or f"Level {least} is not possible here; `agentctl doctor` shows what is.",
        )


def _below(settings: Settings, used: SandboxUsed, env: Mapping[str, str]) -> tuple[Problem, ...]:
    """In a pipeline, and under --strict anywhere, a level below 2 is worth a line."""
    if used.level >= FLOOR or not (settings.strict or env.get("CI", "").lower() not in _OFF):
        return ()
    why = f"commands run at level {used.level}, below {FLOOR}: {'; '.join(used.missing)}"
    return (Problem(code="sandbox-level", what="sandbox", why=why, fix=used.fix),)


def _refused(settings: Settings, level: int) -> tuple[Problem, ...]:
    """`off` is asked for, so it is worth no line of its own; --strict refuses whatever is below 2 all the same."""
    if not settings.strict or level >= FLOOR:
        return ()
    origin = settings.origins["sandbox"]
    why = f"{origin} asks for 'off', so commands would run at level {level}, below {FLOOR}"
    return (Problem(code="sandbox-level", what="sandbox", why=why, fix=f"Leave out --strict, or what {origin} says."),)


def _unheld(settings: Settings, network: str) -> tuple[Problem, ...]:
    """A network that was asked for by somebody and is not kept."""
    if settings.network == "on" or network != "on" or settings.origins["network"] == BUILT_IN:
        return ()
    why = f"{settings.origins['network']} asks for {settings.network!r}, and at this level commands reach the network"
    return (Problem(code="network-open", what="network", why=why, fix="Reach level 2 or 3; see `agentctl doctor`."),)
