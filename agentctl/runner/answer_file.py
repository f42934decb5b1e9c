"""-o FILE: where the answer of a completed turn goes beside stdout."""

from __future__ import annotations

import os

from agentctl.core.errors import AgentctlError, UsageError
from agentctl.core.files import named_target, replace_file


class NotDelivered(AgentctlError):
    """The turn completed, and its answer could not be written to the file."""


class AnswerFile:
    """Looked at before the run costs anything, written when it is over: whole or not at all."""

    def __init__(self, path: str) -> None:
        """Raises UsageError where no file can be written. What a link names now is what is replaced in the end."""
        self._shown = path
        try:
            self._path = named_target(path)
        except OSError as error:
            hint = "Name a file. Without -o the answer of --format text goes to stdout."
            raise self._refusal(error.strerror or str(error), hint) from None
        folder = self._path.parent
        if not folder.is_dir():
            raise self._refusal(f"there is no folder {str(folder)!r}", "Make the folder first.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise self._refusal(f"no file can be made in {str(folder)!r}", "Name a folder that this run can write to.")

    def _refusal(self, why: str, hint: str) -> UsageError:
        return UsageError(f"-o {self._shown!r} cannot be written: {why}", hint=hint)

    def write(self, text: str) -> None:
        """Raises NotDelivered."""
        try:
            replace_file(self._path, (text + "\n").encode("utf-8", "replace"))
        except OSError as error:
            raise NotDelivered(f"-o {self._shown!r} cannot be written: {error.strerror or error}") from error
