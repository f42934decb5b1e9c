"""The notes of a project in a run: what it may do with them, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agentctl.config.remote import remote_of
from agentctl.config.settings import Settings
from agentctl.core.redact import Redactor
from agentctl.runner.clock import SystemClock
from agentctl.sandbox.environment import find_secrets
from agentctl.state.knowledge import Knowledge


def memory_folder(settings: Settings) -> Path:
    return settings.homes.data / "memory"


def remote_for(settings: Settings) -> Callable[[], str]:
    """Where the repository of the run comes from. A name given with --project is the user's word: nothing is asked."""
    return lambda: "" if settings.project else remote_of(settings.root) or ""


def knowledge_of(settings: Settings, env: Mapping[str, str], *, writes: bool) -> Knowledge:
    """The notes of a project for a verb: secrets of the environment are masked in what it records."""
    secrets, _problems = find_secrets(env, settings.secret_env)
    return Knowledge(
        memory_folder(settings),
        settings.project_key,
        now=SystemClock().now,
        redact=Redactor(secrets).text,
        remote=remote_for(settings),
        writes=writes,
    )
