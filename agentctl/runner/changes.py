"""Which files a run changed: what the tools report, joined with the difference of `git status` around commands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from agentctl.config.repository import Status, difference, nearest_repository, status
from agentctl.core.events import ToolCalled
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.state.folder import STATE


class Changes:
    """Asks git only in runs that start a command: nothing else can change a file without saying so."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before: Status | None = None
        self._after: Status | None = None
        self._is_asked = False

    @property
    def source(self) -> str:
        """`tools+git` when git was asked before the first command and at the end, else `tools`."""
        return "tools" if self._after is None else "tools+git"

    async def before_call(self, event: ToolCalled) -> None:
        """Notes the state of the work tree before the first command of the run."""
        tool = TOOL_NAMES.get(event.name)
        if self._is_asked or tool is None or tool.effect != "exec" or event.decision is None:
            return
        self._is_asked = True
        if nearest_repository(self._root) is not None:
            self._before = await asyncio.to_thread(status, self._root)

    async def finish(self) -> None:
        """At the end of a run that was not stopped from outside: such a run has no time for a large work tree."""
        if self._before is not None:
            self._after = await asyncio.to_thread(status, self._root)

    def paths(self, reported: Iterable[str]) -> list[str]:
        """Every changed path, relative to the root, sorted. Files that no longer exist are named, too."""
        found = set(reported)
        if self._before is not None and self._after is not None:
            found.update(difference(self._before, self._after))
        return sorted(path for path in found if not path.startswith(f"{STATE}/"))
