"""Whole runs in this process: a folder, a home, a clock of its own, and a script in the place of the model."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from agentctl.cli.run import parse_run
from agentctl.config.options import Options
from agentctl.core.codec import encode_event
from agentctl.core.errors import AgentctlError
from agentctl.runner.headless import Run
from agentctl.runner.stop import Stop
from tests.fakes import FakeClock


class DatedClock(FakeClock):
    """Its date is what the test says."""

    def __init__(self, date: str) -> None:
        super().__init__()
        self.date = date

    def now(self) -> str:
        return f"{self.date}T00:00:00.000Z"


class Told:
    """What one run said."""

    def __init__(self, events: list[dict[str, Any]], error: AgentctlError | None) -> None:
        self.events = events
        self.done = events[-1]
        self.error = error

    def of(self, *types: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] in types]

    def outcomes(self) -> list[tuple[str, str]]:
        """Type and tool of each outcome; every call of the run has exactly one."""
        found = self.of("tool-result", "tool-error", "tool-denied", "tool-suspended")
        calls = sorted(event["id"] for event in self.of("tool-call"))
        assert calls == sorted(event["id"] for event in found), (calls, found)
        return [(event["type"], event["name"]) for event in found]


class Place:
    """A workspace in which `log` counts how often the approved commands ran."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.root.mkdir()
        (self.root / "f").write_text("one")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(root), "AGENTCTL_HOME": str(root / "home")}
        self.date = "2030-01-01"
        self.scripts = 0

    def script(self, *turns: dict[str, Any]) -> Path:
        self.scripts += 1
        path = self.root.parent / f"script-{self.scripts}.json"
        path.write_text(json.dumps({"turns": list(turns)}))
        return path

    def run(self, script: Path | None, *words: str, **env: str) -> Told:
        model = ["--model", f"scripted/{script}"] if script else []
        options = parse_run([*words, *model, "--stdin", "none"])
        assert isinstance(options, Options)
        run = Run(options, env={**self.env, **env}, cwd=self.root, clock=DatedClock(self.date), stop=Stop())

        async def collect() -> list[dict[str, Any]]:
            return [json.loads(encode_event(stamped)) async for stamped in run.events()]

        events = asyncio.run(collect())
        assert [events[0]["type"], events[-1]["type"]] == ["init", "done"]
        return Told(events, run.error)

    def journal(self, session: str) -> Path:
        return next(Path(self.env["AGENTCTL_HOME"]).glob(f"state/sessions/*/{session}.jsonl"))

    @property
    def log(self) -> list[str]:
        path = self.root / "log"
        return path.read_text().split() if path.exists() else []


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "args": {"command": command}}


READ = {"name": "read_file", "args": {"path": "f"}}
END = {"text": "finished"}
