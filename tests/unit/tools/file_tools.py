"""What the tests of the file tools share: a workspace in a temporary folder and calls as dispatch makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentctl.config.workspace import Workspace
from agentctl.core.errors import ToolFailure
from agentctl.core.types import FileChange, Subject, ToolResult
from agentctl.tools.sets import load_class

SEARCHING = ("glob", "grep")


class Desk:
    """A folder of files and the tools over it."""

    def __init__(self, root: Path, *, may_read: Callable[[str], bool] = lambda path: True, **options: Any) -> None:
        self.root = root
        self.workspace = Workspace(root)
        self._may_read = may_read
        self._options = options

    def put(self, path: str, data: bytes | str = b"") -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        return target

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes() for path in self.root.rglob("*") if path.is_file()
        }

    def result(self, name: str, **args: Any) -> ToolResult:
        tool: Any = load_class(name)
        parts = (self.workspace, self._may_read) if name in SEARCHING else (self.workspace,)
        made = tool(*parts, **self._options) if name == "grep" else tool(*parts)
        parsed = made.definition.arguments.parse(args)
        result: ToolResult = asyncio.run(made.run("c1", parsed))
        assert result.call_id == "c1"
        return result

    def call(self, name: str, **args: Any) -> str:
        """The text for the model of a call that worked."""
        result = self.result(name, **args)
        assert not result.is_error
        return result.content

    def changes(self, name: str, **args: Any) -> tuple[FileChange, ...]:
        return self.result(name, **args).changed

    def refusal(self, name: str, **args: Any) -> str:
        """The text of a call that failed before it changed anything."""
        before = self.files()
        try:
            result = self.result(name, **args)
        except ToolFailure as failure:
            assert self.files() == before
            return str(failure)
        raise AssertionError(f"{name} did not fail: {result}")


def subjects(name: str, **args: Any) -> list[tuple[str, str]]:
    """What the policy is asked about: value and access."""
    definition = load_class(name).definition
    found: tuple[Subject, ...] = definition.subjects(definition.arguments.parse(args).as_args())
    assert all(subject.kind == "path" for subject in found)
    return [(subject.value, subject.access) for subject in found]
