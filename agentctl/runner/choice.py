"""Which session a run goes on with, and what that says about its agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentctl.config.agents import AGENTS
from agentctl.config.options import Options
from agentctl.config.settings import Settings, resolve
from agentctl.core.ports import Clock
from agentctl.runner.saving import select_session
from agentctl.state.selection import Selected


async def choose_session(
    options: Options, settings: Settings, env: Mapping[str, str], cwd: Path, clock: Clock
) -> tuple[Selected, Settings]:
    """The session with its lease. Its agent counts where nothing else names one."""
    selected = await select_session(settings, env, clock)
    if selected.saved and settings.origins["agent"] == "built-in" and selected.saved.agent in AGENTS:
        settings = resolve(options.replace(agent=selected.saved.agent), env=env, cwd=cwd)
    return selected, settings
