"""What a run needs and what this machine has, for `agentctl doctor`: each check with its state and what mends it."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentctl.config.settings import Settings
from agentctl.core.openat2 import find_openat2
from agentctl.core.types import JsonObject
from agentctl.policy.shfmt import find_shfmt
from agentctl.providers.presets import ANY_VENDOR_KEY, PRESETS
from agentctl.runner.sandboxing import examine_levels
from agentctl.runner.secrets import run_secrets
from agentctl.sandbox.environment import child_environment
from agentctl.sandbox.levels import probe, report
from agentctl.sandbox.process import ProcessRunner
from agentctl.version import __version__

OK, MISSING, NOTE = "ok", "missing", "note"


def examine(settings: Settings, env: Mapping[str, str], *, hardening: Sequence[str]) -> JsonObject:
    """`{ok, version, python, platform, sandbox, checks[{name, state: ok|missing|note, what, fix}]}`. No network.

    `sandbox` is that of `init` with `levels[{level, holds, missing[], fix}]`. `hardening` is what could not be done to
    protect this process; at every level a real command then tries what the level forbids, whatever is remembered.
    """
    checks = [
        _bash(),
        _shfmt(settings),
        _program("rg", "grep on large trees is faster with ripgrep", "Install ripgrep."),
        _program("git", "files_changed also sees what commands changed", "Install git."),
        _keys(env),
        _home("state", settings.homes.state),
        _jail(),
        *_environment(settings, env),
        *_sudo(),
        _notes(),
    ]
    first = report((*hardening, *asyncio.run(_breaches(env))), wanted=settings.sandbox)
    sandbox = asyncio.run(examine_levels(settings, env, first))
    checks += _levels(sandbox)
    checks += [_check(problem.what, NOTE, problem.why, problem.fix) for problem in settings.problems]
    return {
        "ok": all(check["state"] != MISSING for check in checks),
        "version": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()}",
        "sandbox": sandbox,
        "checks": checks,
    }


async def _breaches(env: Mapping[str, str]) -> list[str]:
    """What a command of a run could do although level 1 says that it cannot."""
    runner = ProcessRunner(child_environment(env))
    try:
        return await probe(runner)
    finally:
        await runner.close()


def _levels(sandbox: JsonObject) -> list[JsonObject]:
    """What a run would get, then one line for each level."""
    level, missing = sandbox["level"], "; ".join(sandbox["missing"])
    what = f"level {level}, network {sandbox['network']}{': ' + missing if missing else ''}"
    checks = [_check("sandbox", NOTE if missing else OK, what, sandbox["fix"])]
    for row in sandbox["levels"]:
        text = "; ".join(row["missing"])
        said = f"holds{'; open: ' + text if text else ''}" if row["holds"] else text
        checks.append(_check(f"level {row['level']}", OK if row["holds"] else NOTE, said, row["fix"]))
    return checks


def _check(name: str, state: str, what: str, fix: str = "") -> JsonObject:
    return {"name": name, "state": state, "what": what, "fix": fix}


def _bash() -> JsonObject:
    found = shutil.which("bash")
    if found:
        return _check("bash", OK, found)
    return _check("bash", NOTE, "not found; commands run in sh", "Install bash.")


def _shfmt(settings: Settings) -> JsonObject:
    found = find_shfmt(settings.root)
    if found:
        return _check("shfmt", OK, str(found))
    why = "not found; only plain commands can be judged, everything else is refused"
    return _check("shfmt", NOTE, why, f"{sys.executable} -m pip install shfmt-py")


def _program(name: str, use: str, fix: str) -> JsonObject:
    found = shutil.which(name)
    return _check(name, OK, found) if found else _check(name, NOTE, f"not found; {use}", fix)


def _keys(env: Mapping[str, str]) -> JsonObject:
    names = [ANY_VENDOR_KEY, *(name for preset in PRESETS.values() for name in preset.key_variables)]
    found = [name for name in names if env.get(name, "").strip()]
    if found:
        return _check("keys", OK, f"set: {', '.join(found)}")
    return _check("keys", NOTE, "no provider key is in the environment", f"Set one of {', '.join(names[1:])}.")


def _jail() -> JsonObject:
    if find_openat2() is not None:
        return _check("jail", OK, "openat2: the kernel itself keeps paths below the workspace")
    return _check("jail", OK, "paths are walked folder by folder; this kernel lacks openat2 or forbids it")


def _environment(settings: Settings, env: Mapping[str, str]) -> list[JsonObject]:
    """Which variables commands get and which values are masked: names only."""
    passed = sorted(set(child_environment(env, settings.pass_env)) & set(env))
    secrets, problems = run_secrets(env, settings)
    masked = ", ".join(sorted(secrets)) or "none"
    return [
        _check("environment", OK, f"commands get {len(passed)} of {len(env)} variables: {', '.join(passed)}"),
        _check("secrets", OK, f"masked everywhere: {masked}"),
        *(_check("secrets", NOTE, f"{problem.what}: {problem.why}", problem.fix) for problem in problems),
    ]


def _sudo() -> list[JsonObject]:
    """Only where it is there and asks for no password: then a command that may run it reads everything."""
    from agentctl.core.spawn import find_program, run

    if find_program("sudo") is None or run(["sudo", "-n", "true"], timeout_s=2.0).exit_code != 0:
        return []
    why = "it asks for no password: a command that may run it reads the memory of agentctl and of every other process"
    return [_check("sudo", NOTE, why, "Take the right away before the run, or run agentctl as a user without it.")]


def _notes() -> JsonObject:
    """Whether searches of notes have their index."""
    from agentctl.state.knowledge_store import sqlite_facts

    version, has_index = sqlite_facts()
    if has_index:
        return _check("notes", OK, f"SQLite {version} with an index of letter triples")
    why = f"SQLite {version} has no FTS5 with trigrams; every note is looked at, with the same results"
    return _check("notes", NOTE, why, "Use a Python with SQLite 3.34 or newer.")


def _home(name: str, folder: Path) -> JsonObject:
    """Whether sessions can be saved; makes nothing."""
    existing = next(item for item in (folder, *folder.parents) if item.exists())
    if os.access(existing, os.W_OK | os.X_OK):
        return _check(f"{name} folder", OK, str(folder))
    return _check(
        f"{name} folder", MISSING, f"{folder} cannot be written", "Set AGENTCTL_HOME to a folder that can be written."
    )
