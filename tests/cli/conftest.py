"""The installed command against the local server: what crosses stdout, stderr, the exit code, the disk, the wire."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.server import Server, Turn, serve

AGENTCTL = str(Path(sys.executable).with_name("agentctl"))
APIS = ("openai-chat", "openai-responses", "anthropic-messages")
OUTCOMES = ("tool-result", "tool-error", "tool-denied", "tool-suspended")


class Ran:
    """What came out of one process."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out
        self.err = err.decode("utf-8", "replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of stdout; every one must be an event."""
        assert self.out.endswith(b"\n"), (self.out[-200:], self.err[-500:])
        return [json.loads(line) for line in self.out.split(b"\n")[:-1]]

    @property
    def done(self) -> dict[str, Any]:
        return self.events[-1]

    def of(self, *types: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] in types]

    def ended(self, name: str, code: int) -> Ran:
        """Asserts the ending and what every JSON run promises. Returns itself."""
        events = self.events
        assert [events[0]["type"], events[-1]["type"]] == ["init", "done"], self.err[-500:]
        assert sum(event["type"] == "done" for event in events) == 1
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert (events[-1]["ended"], events[-1]["exit_code"], self.code) == (name, code, code), self.of("error")
        calls = sorted(event["id"] for event in self.of("tool-call"))
        assert calls == sorted(event["id"] for event in self.of(*OUTCOMES))
        return self


class World:
    """A folder, a home and, when asked for, a server."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "project"
        self.home = root / "home"
        self.cwd.mkdir()
        self.home.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "OPENAI_API_KEY": "sk-test-openai",
            "ANTHROPIC_API_KEY": "sk-test-anthropic",
        }
        self.servers: list[Server] = []

    def command(self, *words: str, server: Server | None = None, api: str = "openai-chat") -> list[str]:
        return [AGENTCTL, *words, *(provider_flags(server, api) if server else [])]

    def start(self, *words: str, server: Server | None = None, api: str = "openai-chat", **kwargs: Any) -> Any:
        """A running process in a session of its own; the caller waits for it."""
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
        env = settings.pop("env", self.env)
        return subprocess.Popen(
            self.command(*words, server=server, api=api), cwd=self.cwd, env=env, start_new_session=True, **settings
        )

    def run(
        self,
        *words: str,
        server: Server | None = None,
        api: str = "openai-chat",
        stdin: bytes | None = None,
        env: dict[str, str] | None = None,
        limit_s: float = 30,
    ) -> Ran:
        """Runs to the end. A run that does not end in time is killed and fails the test."""
        process = self.start(
            *words,
            server=server,
            api=api,
            env=env or self.env,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        )
        return finish(process, stdin, limit_s)


def provider_flags(server: Server, api: str) -> list[str]:
    if api.startswith("anthropic"):
        return ["--model", "anthropic/claude-test", "--api", api, "--base-url", server.root_url]
    return ["--model", "openai/gpt-5", "--api", api, "--base-url", server.base_url]


def finish(process: Any, stdin: bytes | None = None, limit_s: float = 30) -> Ran:
    try:
        out, err = process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"no end after {limit_s} s; stdout {out[-300:]!r}, stderr {err[-500:]!r}") from None
    return Ran(process.returncode, out, err)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A function that starts a server with these turns; all are stopped at the end."""
    running: list[Any] = []

    def start(turns: Sequence[Turn], **options: Any) -> Server:
        context = serve(turns, **options)
        running.append(context)
        return context.__enter__()

    yield start
    for context in running:
        context.__exit__(None, None, None)


def git(world: World, *words: str) -> None:
    """Runs git in the workspace."""
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
    subprocess.run(command, cwd=world.cwd, env=world.env, check=True, capture_output=True)
