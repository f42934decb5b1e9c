"""--record and --replay: what they put around the provider and the tools of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.config.settings import Settings
from agentctl.core.errors import UsageError
from agentctl.core.ports import Provider, Tool
from agentctl.core.redact import Redactor
from agentctl.core.types import JsonObject, ModelInfo

if TYPE_CHECKING:
    from agentctl.providers.recorded import Recording

NO_KEY = "replay"
"""Stands for the key of a run that asks nobody."""


class Tape:
    """One of the two. A replay is read at once; a recording is written from the first call on."""

    def __init__(self, settings: Settings, session: str, redactor: Redactor) -> None:
        """Raises UsageError for a recording that cannot be read, and for both flags at once."""
        from agentctl.providers.recorded import Names, Replay  # runs without either flag never make a Tape

        if settings.record and settings.replay:
            raise UsageError("--record and --replay exclude each other", hint="Keep one of them.")
        self._settings = settings
        self._redactor = redactor
        self._names = Names(settings.root, session)
        self._replay = Replay(Path(settings.replay), self._names) if settings.replay else None
        self._recording: Recording | None = None
        self._unwritten: list[tuple[str, JsonObject]] = []

    def model_settings(self, env: Mapping[str, str]) -> tuple[Settings, Mapping[str, str]]:
        """For the choice of the model: a replay needs no key, and without --model it is the recorded one."""
        if self._replay is None:
            return self._settings, env
        settings = self._settings.replace(fallback=(), transport="direct")  # nobody is asked, so nobody can fail
        if settings.model is None:
            origins = {**settings.origins, "model": "recording"}
            settings = settings.replace(model=self._replay.model, api=settings.api or self._replay.api, origins=origins)
        return settings, {**env, "AGENTCTL_API_KEY": env.get("AGENTCTL_API_KEY") or NO_KEY}

    @property
    def is_replay(self) -> bool:
        return self._replay is not None

    def keep(self, name: str, value: JsonObject) -> None:
        """Writes down what else a run took from outside, such as notes. A replay keeps nothing."""
        if self._recording is not None:
            self._recording.keep(name, value)
        elif self._replay is None:
            self._unwritten.append((name, value))

    def kept(self, name: str) -> JsonObject:
        """What the recorded run had kept under this name; empty when it had not."""
        return self._replay.kept(name) if self._replay else {}

    def around(
        self, model: ModelInfo, provider: Provider, tools: Mapping[str, Tool]
    ) -> tuple[Provider, dict[str, Tool]]:
        """The provider and the tools of the run."""
        from agentctl.providers.recorded import RecordedTool, Recorder, Recording, ReplayedTool, Replayer

        if self._replay is not None:
            replay = self._replay
            if self._settings.replay_tools == "live":
                return Replayer(replay), dict(tools)
            return Replayer(replay), {name: ReplayedTool(tool, replay) for name, tool in tools.items()}
        self._recording = recording = Recording(
            Path(str(self._settings.record)), model, self._names, self._redactor.text
        )
        for name, value in self._unwritten:
            recording.keep(name, value)
        return Recorder(provider, recording), {name: RecordedTool(tool, recording) for name, tool in tools.items()}
