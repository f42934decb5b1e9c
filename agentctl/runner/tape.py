"""--record and --replay: what they put around the provider, the tools, their events and the changes of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentctl.config.settings import Settings
from agentctl.core.errors import UsageError
from agentctl.core.events import Event, ToolCalled
from agentctl.core.ports import Degraded, Policy, Provider, Saved, Tool
from agentctl.core.record import map_strings
from agentctl.core.redact import Redactor
from agentctl.core.types import Decision, JsonObject, ModelInfo, ToolSpec
from agentctl.engine.parts import LiveEvents, Redaction
from agentctl.providers.recorded import (
    Names,
    RecordedTool,
    Recorder,
    Recording,
    Replay,
    ReplayedTool,
    Replayer,
)
from agentctl.runner.changes import Changes
from agentctl.state.outputs import KeptOutputs

NO_KEY = "replay"
"""Stands for the key of a run that asks nobody."""
_MASK, _WORD = re.compile(r"\[masked:([\w-]+)\]"), re.compile(r"masked-([\w-]+?)-masked")
NOT_KEPT = b"This output was kept by the recorded run; a replay does not have it.\n"


class Tape:
    """One of the two. A replay is read at once; a recording is written from the first call on.

    Runs without either flag never load this module.
    """

    def __init__(self, settings: Settings, session: str, redactor: Redactor) -> None:
        """Raises UsageError for a recording that cannot be read, and for both flags at once."""
        if settings.record and settings.replay:
            raise UsageError("--record and --replay exclude each other", hint="Keep one of them.")
        self._settings = settings
        self._is_live = settings.replay_tools == "live"
        self._redactor = redactor
        self.names = Names(settings.root, session, Path(os.environ.get("TMPDIR") or "/tmp"))
        """What else differs from run to run is added to it."""
        self._recording: Recording | None = None
        self._unwritten: list[tuple[str, JsonObject]] = []
        self._replay = Replay(Path(settings.replay), self.names, redactor.text) if settings.replay else None
        self.live: LiveEvents = TapedEvents(self)

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

    def taken(self, name: str, value: JsonObject) -> JsonObject:
        """What the run takes from outside: `value`, which is written down; in a replay what the recorded run took."""
        self.keep(name, value)
        return self.kept(name) if self._replay else value

    def kept(self, name: str) -> JsonObject:
        """What the recorded run had kept under this name; empty when it had not."""
        return self._replay.kept(name) if self._replay else {}

    def around(
        self, model: ModelInfo, provider: Provider, tools: Mapping[str, Tool], outputs: KeptOutputs
    ) -> tuple[Provider, dict[str, Tool]]:
        """The provider and the tools of the run."""
        self.names.add(outputs.shown_folder, "<outputs>")
        if self._replay is None:
            recording = Recording(Path(str(self._settings.record)), model, self.names, self._redactor)
            self._recording = recording
            for name, value in self._unwritten:
                recording.keep(name, value)
            taped = {name: RecordedTool(tool, recording, lambda: outputs.count) for name, tool in tools.items()}
            return Recorder(provider, recording), dict(taped)
        replayer = Replayer(self._replay)
        if self._is_live:
            return replayer, dict(tools)
        return replayer, {name: self._replayed(tool, self._replay, outputs) for name, tool in tools.items()}

    def redaction(self, redactor: Redactor) -> Redaction:
        """For the loop, which refuses to write masks back. Where tools run again the masks in the file would be."""
        if self._replay is None:
            return RecordedRedaction(redactor, self)
        return redactor if self._is_live else ReplayedRedaction(redactor, self._replay)

    def policy(self, policy: Policy) -> Policy:
        """For the loop. Where tools run again, what is judged is what runs."""
        return policy if self._replay is None or self._is_live else ReplayedPolicy(policy)

    def stored(self, text: str) -> str:
        """What a session may hold of a text: in a replay nothing of arguments in which a secret stood."""
        is_secret = self._replay is not None and self._replay.held_secret(text)
        return "" if is_secret else self._redactor.text(text)

    def _replayed(self, tool: Tool, replay: Replay, outputs: KeptOutputs) -> Tool:
        def keep(count: int) -> None:
            """Takes the numbers that the recorded run took, so that later ones are the same."""
            while outputs.count < count:
                kept = outputs.open()
                kept.write(NOT_KEPT)
                if kept.close() is None:
                    return

        return ReplayedTool(tool, replay, self.live.emit, keep)

    def changes(self, changes: Changes) -> Changes:
        """What the run changed: written down, or as it was written down."""
        if self._replay is None:
            return RecordedChanges(changes, self)
        is_live = self._is_live or self._replay.changes is None
        return changes if is_live else ReplayedChanges(self._replay)

    def note(self, event: Event | Degraded | Saved) -> None:
        if self._recording is not None and isinstance(event, Event):
            self._recording.event(event)

    def note_mask(self, arguments: str, *, is_meant: bool) -> None:
        if self._recording is not None:
            self._recording.mask(arguments, is_meant=is_meant)

    def note_changes(self, files: list[str], source: str) -> None:
        if self._recording is not None:
            self._recording.changes(files, source)

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()


class TapedEvents(LiveEvents):
    """The live events of tools, written down as they come."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def emit(self, event: Event | Degraded | Saved) -> None:
        self._tape.note(event)
        super().emit(event)


class RecordedRedaction:
    """Writes down of which arguments the file will hold a mask, and whether the run found one there."""

    def __init__(self, inner: Redactor, tape: Tape) -> None:
        self._inner = inner
        self._tape = tape

    def text(self, text: str) -> str:
        return self._inner.text(text)

    def contains_mask(self, text: str) -> bool:
        is_found = self._inner.contains_mask(text)
        if self._inner.contains_mask(self._inner.text(text)):
            self._tape.note_mask(text, is_meant=is_found)
        return is_found


class ReplayedRedaction:
    """The arguments of a recorded call come masked; where a secret stood then, there is no mask to refuse."""

    def __init__(self, inner: Redactor, replay: Replay) -> None:
        self._inner = inner
        self._replay = replay

    def text(self, text: str) -> str:
        return self._inner.text(text)

    def contains_mask(self, text: str) -> bool:
        is_meant = self._replay.is_meant(text) if "[masked:" in text else False
        return self._inner.contains_mask(text) if is_meant is None else is_meant


class ReplayedPolicy:
    """The rules of this run, to which a mask in a recorded call is a plain word, as the secret was: the brackets of a
    mask would be a pattern in a command or a path."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner

    def decide(self, spec: ToolSpec, args: JsonObject) -> Decision:
        plain = map_strings(args, lambda text: _MASK.sub(r"masked-\1-masked", text))
        decision: Decision = map_strings(self._inner.decide(spec, plain), lambda text: _WORD.sub(r"[masked:\1]", text))
        return decision

    def may_read(self, path: str) -> bool:
        return self._inner.may_read(path)


class RecordedChanges(Changes):
    """Those of the run itself; what they came to is written down at its end."""

    def __init__(self, inner: Changes, tape: Tape) -> None:
        self._inner = inner
        self._tape = tape
        self._is_noted = False

    @property
    def source(self) -> str:
        return self._inner.source

    async def before_call(self, event: ToolCalled) -> None:
        await self._inner.before_call(event)

    async def finish(self) -> None:
        await self._inner.finish()

    def paths(self, reported: Iterable[str]) -> list[str]:
        found = self._inner.paths(reported)
        if not self._is_noted:
            self._is_noted = True
            self._tape.note_changes(found, self.source)
        return found


class ReplayedChanges(Changes):
    """Those of the recorded run. Where no command runs, git has nothing to say."""

    def __init__(self, replay: Replay) -> None:
        self._row = replay.changes or {}

    @property
    def source(self) -> str:
        return str(self._row.get("source", "tools"))

    async def before_call(self, event: ToolCalled) -> None:
        return

    async def finish(self) -> None:
        return

    def paths(self, reported: Iterable[str]) -> list[str]:
        return sorted({*reported, *self._row.get("files", ())})
