"""The focus stack of a session: what the run is at, one line a frame, the bottom first in `focus.json`.

`focus.log` beside the sessions' folders gets a JSON line for every push and pop, for people to search; it may lose
lines, the stack never does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import ToolFailure
from agentctl.core.files import append_record, open_append
from agentctl.core.text import clean, one_line
from agentctl.state.folder import SessionFolder, made, state_root

FILE = "focus.json"
LOG = "focus.log"
MAX_DEPTH = 16
LINE_CHARS = 200


class Focus:
    """Raises ToolFailure for what the model can mend, OSError for what the disk does."""

    def __init__(self, folder: SessionFolder, now: Callable[[], str]) -> None:
        self.folder = folder
        self._now = now

    @property
    def stack(self) -> list[str]:
        """The frames, the bottom first. Raises ToolFailure when the file holds something else."""
        text = self.folder.read(FILE)
        if text is None:
            return []
        try:
            found = loads(text)
        except ValueError:
            found = None
        if isinstance(found, list) and all(isinstance(frame, str) for frame in found):
            return found
        raise ToolFailure(f"{FILE} of this session is damaged: it is no list of lines. Go on without the stack.")

    def push(self, task: str) -> list[str]:
        """Only under `folder.locked()`. Returns the stack with the new frame on top."""
        stack = self.stack
        frame = one_line(clean(task), LINE_CHARS)
        if not frame:
            raise ToolFailure("The task is empty. Name it in one line.")
        if frame in stack:
            place = "on top of" if frame == stack[-1] else "in"
            raise ToolFailure(
                f"{frame!r} is {place} the stack already. Complete what stands above it, or name a detour."
            )
        if len(stack) >= MAX_DEPTH:
            raise ToolFailure(f"The stack is {MAX_DEPTH} deep, which is the limit. focus_complete what is done first.")
        stack = [*stack, frame]
        self._write(stack, action="push", task=frame)
        return stack

    def pop(self, conclusion: str) -> tuple[str, list[str]]:
        """Only under `folder.locked()`. Returns the completed frame and what is left."""
        stack = self.stack
        said = one_line(clean(conclusion), LINE_CHARS)
        if not stack:
            raise ToolFailure("The stack is empty: there is nothing to complete. focus_task begins a task.")
        if not said:
            raise ToolFailure("The conclusion is empty. Say in one line what came out.")
        *rest, frame = stack
        self._write(rest, action="pop", task=frame, conclusion=said)
        return frame, rest

    def _write(self, stack: list[str], **entry: str) -> None:
        self.folder.write(FILE, dumps(stack).decode() + "\n")
        if not self.folder.is_ephemeral:
            with suppress(OSError):
                self._log({"time": self._now(), "session": self.folder.session, **entry, "depth": len(stack)})

    def _log(self, entry: dict[str, object]) -> None:
        descriptor = open_append(made(state_root(self.folder.root), self.folder.root) / LOG)
        try:
            append_record(descriptor, dumps(entry))
        finally:
            os.close(descriptor)
